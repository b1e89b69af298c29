"""Plan: a graph compiled to straight-line NumPy on memory that is used again, with or without denormals."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeAlias

import attrs
import numpy as np

from afx.compiler.graph.strengthen import strengthen
from afx.compiler.native_backend.run.swap import NativeCode, explain, native_code, status_without_code
from afx.compiler.numpy_backend.exec import Executable, NumpyBackend, Run, bound_bytes, scratch_bytes
from afx.compiler.report import PlanStatus
from afx.compiler.schedule.buffers import BufferAssignment, assign
from afx.compiler.schedule.fusion import Groups, calls_blas, fuse
from afx.compiler.schedule.lowering import lower
from afx.compiler.schedule.schedule import Call, Fused, ScanSpec, Schedule, graphs_of
from afx.compiler.target import Target, current
from afx.core.cached import Cached
from afx.core.graph import Equation, Graph
from afx.core.tracing.tracer import NUMPY_ERRORS
from afx.core.tracing.traces import evaluate
from afx.errors import AfxError, OperandError
from afx.runtime.blas import blas
from afx.runtime.buffer_cache import DENSE, IdleBuffers, pooled_bytes, to_dense
from afx.runtime.control_register import Watch, can_flush, keeps_underflow, run_flushing
from afx.runtime.thread_pool import Autotuner, get_threads, single_threaded

# --- Denormals: which plans compute without them, by their graph and target alone

MET = 'kept; operands were denormal, which takes many processors a hundred times as long: jit(fn, denormals="flush") or scale'
UNKNOWN = "kept: nothing is known of this system's control register"


def flushes(graph: Graph, target: Target) -> bool:
    """Tell whether a plan takes denormal operands, and gives denormal results, as zeros.

    By default it does where it computes in float32 or complex64: equations, with those of loops' bodies in each step, read
    and make some thousand such elements, and at most a sixteenth as many of float64 and complex128, as optimizers count in.

    >>> import afx
    >>> def halves(x):
    ...     return flushes(afx.trace(lambda x: x * 0.5)(x), Target())
    >>> halves(afx.ones(5000)), halves(afx.ones(5000, dtype=afx.float64)), halves(afx.ones(2))
    (True, False, False)
    """
    narrow, wide = _elements(graph.equations)
    if target.denormals != "auto":
        return target.denormals == "flush" and narrow + wide > 0
    return narrow >= target.flush_min_elements and wide <= target.flush_max_wide_share * narrow


def is_worth_watching(graph: Graph, target: Target) -> bool:
    """Tell whether a plan that keeps denormals computes so much that they might make it slow."""
    return sum(_elements(graph.equations)) >= target.flush_min_elements


def describe(*, flushing: bool, flushed: bool, has_met: bool) -> str:
    """Return what a status says of a plan that should be flushing, is flushed, or has met denormal operands."""
    if flushed:
        return "flushed"
    return UNKNOWN if flushing else MET if has_met else "kept"


def _elements(equations: Iterable[Equation], times: int = 1) -> tuple[int, int]:
    """Return the elements of equations' largest values of float32 or complex64, and of other inexact dtypes, over all steps."""
    totals = [0, 0]
    for eq in equations:
        rule = eq.primitive.lowering.control
        if rule is not None:
            spec = rule(eq.keywords)
            steps = times * spec.length if isinstance(spec, ScanSpec) else times
            for graph in graphs_of(spec):
                inner = _elements(graph.equations, steps)
                totals = [totals[0] + inner[0], totals[1] + inner[1]]
            continue
        largest = [0, 0]
        for atom in (*eq.inputs, *eq.outputs):  # loops: comprehensions are calls for each equation
            aval = atom.aval
            if aval.dtype.kind in "fc":
                is_wide = aval.dtype.char not in "efF"
                largest[is_wide] = max(largest[is_wide], aval.size)
        totals = [totals[0] + times * largest[0], totals[1] + times * largest[1]]
    return totals[0], totals[1]


# --- Plan

INSTRUCTION_BYTES = 3000  # of a graph, its schedule and the Python made of it, by instruction: measured
ThreadPolicy: TypeAlias = "tuple[AbstractContextManager[None], ...]"  # what holds threads back while a plan runs


@attrs.frozen(eq=False, slots=False)
class Plan:
    """A graph made ready to run: ``plan(*values)`` gives the outputs as fresh bare NumPy values.

    Each call checks out a set of buffers and returns it at its end: concurrent and nested calls share none.

    Attributes:
        graph: what it computes.
        target: what it was compiled for.
        donated: positions of inputs whose memory results may take.
        schedule: its instructions.
        idle: the sets of buffers that no call uses.
        flushes: whether it computes without denormal numbers, unless the caller's ``np.errstate`` wants to hear of underflow.
    """

    graph: Graph
    target: Target
    donated: tuple[int, ...]
    schedule: Schedule
    _executable: Executable = attrs.field(repr=False)
    _policies: Sequence[ThreadPolicy] = attrs.field(repr=False)
    _tuner: Autotuner | None = attrs.field(repr=False)
    idle: IdleBuffers = attrs.field(repr=False)
    _native: NativeCode | None = attrs.field(repr=False)
    flushes: bool = False
    _watch: Watch | None = attrs.field(default=None, repr=False)

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run it on bare values of the graph's input shapes and dtypes, on dense copies of those that are not dense."""
        watch = self._watch
        if watch is not None and watch.is_due():
            return watch.run(self, *inputs)
        native = self._native
        if native is not None:
            results = native.state.run(inputs, self)
            if results is not None:
                return results
            dense = to_dense(inputs)
            if dense is not inputs:
                return self(*dense)
            native.note_refusal()
        return self.run_numpy(*inputs)

    @property
    def native(self) -> NativeCode | None:
        """Its machine code, made beside the first calls; None where none is wanted or the extra ``native`` is missing."""
        code = self._native
        if code is not None and code.job.is_awaited:
            code.compile()
        return code

    @property
    def code(self) -> NativeCode:
        """Its machine code, which is asked by calls while there is some, or some to come."""
        assert self._native is not None
        return self._native

    def drop_buffers(self) -> None:
        """Free the buffers of NumPy's calls, as machine code has its own."""
        self.idle.drop()

    def run_numpy(self, *inputs: Any) -> list[Any]:
        """Run it by NumPy's calls alone."""
        idle = self.idle
        for x in inputs:  # as in `to_dense`, without a call
            if x.__class__ is np.ndarray and (x.flags.num & DENSE != DENSE or not x.dtype.isnative):
                inputs = to_dense(inputs)
                break
        try:
            run = idle.recent.pop()
        except IndexError:
            run = idle.take_older() or self._executable.bind()
        try:
            tuner = self._tuner
            if tuner is None:
                return self._in_mode(self._policies[0], run, inputs)
            policy = tuner.pick()
            start = time.perf_counter()
            results = self._in_mode(self._policies[policy], run, inputs)
            tuner.observe(policy, time.perf_counter() - start)
            return results
        except NUMPY_ERRORS as error:
            self._explain(inputs, error)
        finally:
            if len(idle.recent) < idle.max_sets:
                idle.recent.append(run)

    def _in_mode(self, policy: ThreadPolicy, run: Run, inputs: tuple[Any, ...]) -> list[Any]:
        """Run with or without denormals."""
        if self.flushes and not keeps_underflow():
            return run_flushing(_within, policy, run, inputs)
        return _within(policy, run, inputs)

    def _explain(self, inputs: Sequence[Any], error: Exception) -> NoReturn:
        """Raise the error of the op that refuses its operands, which a second run finds."""
        if isinstance(error, (AfxError, np.linalg.LinAlgError)):
            raise error
        evaluate(self.graph, *inputs)
        got = ", ".join([str(v.aval) for v in self.graph.inputs])
        raise OperandError(f"jit: NumPy cannot compute it ({error}): got {got}; convert the arguments") from error

    @property
    def memory(self) -> int:
        """Bytes of the block in which intermediate values live."""
        return self.schedule.arena_bytes

    @property
    def widest(self) -> int:
        """Bytes of the intermediate values that are alive together at the widest point."""
        return self.schedule.widest_bytes

    @property
    def idle_bytes(self) -> int:
        """Bytes of the buffers that it, and its machine code, keep between calls."""
        code = self._native
        return self.idle.nbytes + (0 if code is None else code.idle_bytes)

    @property
    def scratch(self) -> int:
        """Bytes of the intermediate values of blocks, which stay in the processor's cache: so many for each thread."""
        return scratch_bytes(self.schedule)

    @property
    def source(self) -> str:
        """The plan as readable Python that calls NumPy: what it shows is what runs, here and where it is pasted.

        Captured arrays of more than 16 elements are left out, which its first line says; `afx.export.to_numpy` writes them.
        Once machine code runs, its kernels as pseudo-code beside the calls that are left, and why those are NumPy's.
        """
        is_linked = self.native is not None and self.native.is_linked and self.target.backend != "portable"
        return self.native.text("source") if self.native is not None and is_linked else self._executable.source

    @property
    def status(self) -> PlanStatus:
        """Who answers the next call, since when, and why."""
        code = self._native
        status = status_without_code(self.target) if code is None else code.status
        flushing = not self.flushes and flushes(self.graph, self.target)
        has_met = self._watch is not None and self._watch.has_met
        return attrs.evolve(status, denormals=describe(flushing=flushing, flushed=self.flushes, has_met=has_met))

    @property
    def why_not_native(self) -> tuple[tuple[str, str], ...]:
        """Each instruction with the reason why it has no native form, an empty text where it has one."""
        return explain(self.schedule, self.target)

    @property
    def llvm(self) -> str:
        """The optimized LLVM IR of its machine code; empty where it has none."""
        return "" if self.native is None else self.native.text("llvm")

    @property
    def assembly(self) -> str:
        """The assembly of its machine code; empty where it has none."""
        return "" if self.native is None else self.native.text("assembly")

    @Cached
    def groups(self) -> Groups:
        """The equations that run together."""
        return fuse(self.graph, self.target)

    @Cached
    def buffers(self) -> BufferAssignment:
        """The memory of each value."""
        return assign(self.groups, self.donated, self.target.arena_alignment_bytes)


def make_plan(graph: Graph, donated: Collection[int] = (), target: Target | None = None) -> Plan:
    """Return the plan of a graph, which should be simplified before.

    Args:
        graph: what it computes.
        donated: positions of inputs into whose memory it may write results, where that is writeable.
        target: what it is compiled for; None for the target that is set.

    >>> import afx
    >>> plan = make_plan(afx.trace(lambda x: afx.sin(x) + 1.0)(afx.ones(2)))
    >>> plan(np.zeros(2, np.float32))
    [array([1., 1.], dtype=float32)]
    """
    target = current.target if target is None else target
    graph = strengthen(graph)
    groups = fuse(graph, target)
    schedule = lower(groups, assign(groups, donated, target.arena_alignment_bytes), target)
    policies = _thread_policies(schedule, graph, target)
    tuner = Autotuner(len(policies), target) if len(policies) > 1 else None
    executable = NumpyBackend.compile(schedule, target)
    idle = _idle(schedule, graph, target)
    flushing = can_flush() and flushes(graph, target)
    code = native_code(schedule, target, policies[0], idle, graph, flushing)
    watch = None if flushing or not is_worth_watching(graph, target) else Watch()
    return Plan(graph, target, tuple(donated), schedule, executable, policies, tuner, idle, code, flushing, watch)


def _idle(schedule: Schedule, graph: Graph, target: Target) -> IdleBuffers:
    """Return the list of idle buffer sets: each set holds the block, scratch of each thread, and results to be used again."""
    set_bytes = bound_bytes(schedule) + pooled_bytes([a.aval for a in graph.outputs], target)
    fixed_bytes = INSTRUCTION_BYTES * _count(schedule) + count_constants(graph)
    return IdleBuffers(set_bytes, target.bindings_max_sets, fixed_bytes)


def count_constants(graph: Graph, known: Graph | None = None) -> int:
    """Return how many bytes a graph's captured arrays have that another one does not hold too."""
    counted = set[int]() if known is None else {id(constant.value) for _, constant in known.constants}
    arrays = [constant.value for _, constant in graph.constants if id(constant.value) not in counted]
    return sum([x.nbytes if any(x.strides) else x.itemsize for x in arrays])


def _count(schedule: Schedule) -> int:
    """Return how many instructions a schedule has, those of bodies and blocks too."""
    inner = [_count(s) for i in schedule.instructions if i.has_schedules for s in i.schedules]
    return len(schedule) + sum([len(i.parts) for i in schedule.instructions]) + sum(inner)


def _thread_policies(schedule: Schedule, graph: Graph, target: Target) -> Sequence[ThreadPolicy]:
    """Return how a plan could run: BLAS on one thread where it is called, the plan's own threads used or not."""
    policy = (blas,) if target.pins_blas and _pins(schedule, graph, target) else ()
    if get_threads() > 1 and _has_pieces(schedule):
        return [policy, (*policy, single_threaded)]
    return [policy]


def _pins(schedule: Schedule, graph: Graph, target: Target) -> bool:
    """Tell whether BLAS might use several threads for an equation, or for one of a body."""
    for eq in graph.equations:
        p = eq.primitive
        if (p.kind == "bilinear" or p.lowering.calls_lapack) and calls_blas(eq, target):
            return True
    return any([i.has_schedules for i in schedule.instructions])


def _has_pieces(schedule: Schedule) -> bool:
    """Tell whether threads could share out work: blocks of fused loops, or pieces of products."""
    for i in schedule.instructions:
        if (isinstance(i, Fused) and i.space.blocks > 1) or (isinstance(i, Call) and i.method == "pieces"):
            return True
        if i.has_schedules and any(map(_has_pieces, i.schedules)):
            return True
    return False


def _within(policy: ThreadPolicy, run: Run, inputs: tuple[Any, ...]) -> list[Any]:
    """Run with these thread pools limited to one thread."""
    if not policy:
        return run(*inputs)
    with policy[0]:
        return _within(policy[1:], run, inputs)
