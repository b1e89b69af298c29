"""Plans: a graph as straight-line NumPy on memory that is used again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeAlias

import attrs
import numpy as np

from afx.compiler.buffers import Places
from afx.compiler.numpy_backend.emit import Program
from afx.compiler.numpy_backend.exec import Bind
from afx.compiler.numpy_backend.listing import listing
from afx.core.graph import Graph
from afx.core.interpreter import evaluate
from afx.core.tracing.tracer import NUMPY_ERRORS
from afx.errors import AfxError, OperandError
from afx.runtime.autotune import Gauge
from afx.runtime.blas import blas, heavy
from afx.runtime.output_pool import Recycler
from afx.runtime.thread_pool import alone, get_threads

__all__ = ["Plan", "make_plan"]

KEPT = 8  # sets of buffers that a plan keeps: more calls than that seldom run at once

Held: TypeAlias = "tuple[AbstractContextManager[None], ...]"  # the threads that are held back while a plan runs


@attrs.frozen(eq=False)
class Plan:
    """A graph made ready to run: ``plan(*values)`` gives the outputs as fresh bare NumPy values.

    Each call checks out a set of buffers and gives it back at its end, so that calls from several threads, and calls
    within calls, do not meet.

    Attributes:
        graph: what it computes.
        memory: bytes of the block in which intermediate values live.
        widest: bytes of the intermediate values that are alive together at the widest point.
    """

    graph: Graph
    memory: int
    widest: int
    _program: Program = attrs.field(repr=False)
    _bind: Bind = attrs.field(repr=False)
    _ways: Sequence[Held] = attrs.field(repr=False)
    _gauge: Gauge | None = attrs.field(repr=False)
    _free: list[Any] = attrs.field(factory=list, repr=False)

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run it on bare values of the graph's input shapes and dtypes."""
        free = self._free
        try:
            run = free.pop()
        except IndexError:
            run = self._bound()
        try:
            gauge = self._gauge
            if gauge is None:
                return _within(self._ways[0], run, inputs)
            way = gauge.choice()
            start = time.perf_counter()
            found = _within(self._ways[way], run, inputs)
            gauge.note(way, time.perf_counter() - start)
            return found
        except NUMPY_ERRORS as error:
            self._explain(inputs, error)
        finally:
            if len(free) < KEPT:
                free.append(run)

    def _explain(self, inputs: Sequence[Any], error: Exception) -> NoReturn:
        """Raise the error of the op that refuses its operands, which a second run finds."""
        if isinstance(error, (AfxError, np.linalg.LinAlgError)):
            raise error
        evaluate(self.graph, *inputs)
        got = ", ".join([str(v.aval) for v in self.graph.inputs])
        raise OperandError(f"jit: NumPy cannot compute it ({error}): got {got}; convert the arguments") from error

    @property
    def scratch(self) -> int:
        """Bytes of the intermediate values of blocks, which stay in the processor's cache: so many for each thread."""
        return sum([n * math.prod(tail) * t.itemsize for _, slots, n in self._program.scratch for t, tail in slots])

    @property
    def source(self) -> str:
        """The plan as readable Python that calls NumPy."""
        return listing(self._program)

    def _bound(self) -> Any:
        """Return the function that runs on buffers of its own."""
        program = self._program
        space = dict(program.shared)
        block = np.empty(self.memory + 64, np.uint8)
        start = -block.ctypes.data % 64
        for name, offset, aval in program.buffers:
            space[name] = np.ndarray(aval.shape, aval.dtype, block, start + offset)  # pyright: ignore[reportUnknownMemberType]  # NumPy's stub
        for name, slots, length in program.scratch:
            space[name] = [tuple([np.empty((length, *tail), t) for t, tail in slots]) for _ in range(get_threads())]
        for name, aval in program.recycled:
            space[name] = Recycler(aval)
        for name, eq in program.prepared:
            assert eq.primitive.lowering.make_kernel is not None
            space[name] = eq.primitive.lowering.make_kernel(*[a.aval for a in eq.inputs], **eq.keywords)
        for name, source, eq in program.views:
            space[name] = eq.primitive.impl(space[source], **eq.keywords)
        return self._bind([space[name] for name in program.names])


def make_plan(graph: Graph, donated: Collection[int] = ()) -> Plan:
    """Return the plan of a graph, which should be simplified before.

    Args:
        graph: what it computes.
        donated: positions of inputs into whose memory it may write results, where that is writeable.

    >>> import afx
    >>> plan = make_plan(afx.trace(lambda x: afx.sin(x) + 1.0)(afx.ones(2)))
    >>> plan(np.zeros(2, np.float32))
    [array([1., 1.], dtype=float32)]
    """
    places = Places(graph, donated)
    program = Program(places)
    ways = _ways(program, any(map(heavy, graph.equations)))
    gauge = Gauge(len(ways)) if len(ways) > 1 else None
    return Plan(graph, places.arena.size, places.arena.widest, program, program.compiled(), ways, gauge)


def _ways(program: Program, products: bool) -> Sequence[Held]:
    """Return how a plan could run: with BLAS's threads, its own, both or none."""
    if program.products:
        return [(blas,)]
    own = program.in_blocks and get_threads() > 1
    if products and blas.choosing():
        return [(), (blas,), (blas, alone), (alone,)] if own else [(), (blas,)]
    return [(), (alone,)] if own else [()]


def _within(held: Held, run: Callable[..., list[Any]], inputs: tuple[Any, ...]) -> list[Any]:
    """Run while these threads are held back."""
    if not held:
        return run(*inputs)
    with held[0]:
        return _within(held[1:], run, inputs)
