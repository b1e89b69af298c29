"""Portable machine code: a plan as one kernel without NumPy, whose bits depend on its graph and arguments alone.

It is compiled when the first call asks for it, and answers every call: neither NumPy's plan nor a library computes results.
Threads share its loops as they do those of other kernels, in parts that follow from shapes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import attrs
import numpy as np

from afx.compiler.native_backend.llvm.writer import FACTORIZATION
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import Lowered, lower_schedule, standalone_target
from afx.compiler.native_backend.run.job import CodeJob, Kernels, NumpyPlan
from afx.compiler.native_backend.run.run import Runner
from afx.compiler.native_backend.service.code_cache import get_code, put_code
from afx.compiler.native_backend.service.helper import UNKNOWN_HERE, code_folder
from afx.compiler.native_backend.service.image import make_image
from afx.compiler.native_backend.service.link import layout, link
from afx.compiler.native_backend.standalone.emit import compile_apart, emit_kernel, explain_fault, explain_refusal
from afx.core.graph import Graph
from afx.errors import ArgumentError, IndexRangeError
from afx.runtime.buffer_cache import to_dense


class Portable:
    """The state of a plan that portable code answers, compiled by its first call.

    Attributes:
        kernels: its code, once that is made.
    """

    reason = ""

    def __init__(self, job: CodeJob, graph: Graph) -> None:
        self.kernels: Kernels | None = None
        self._job = job
        self._graph = graph
        self._lock = threading.Lock()

    def run(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Return the results of a call.

        Raises:
            ArgumentError: an operation has no portable form; the message names it and the user's line.
            IndexRangeError: an index, or a float that becomes an integer, is out of its range.
            numpy.linalg.LinAlgError: a matrix without the factorization that is asked for.
        """
        run = (self.kernels or self.compile()).run
        results = run(values, plan)
        if results is not None:
            return results
        pairs = zip(values, self._graph.inputs, strict=True)  # some are no arrays of their dtypes, or not dense
        return run(to_dense(tuple([np.asarray(x, v.aval.dtype) for x, v in pairs])), plan)

    def compile(self) -> Kernels:
        """Compile and link it, unless another thread does."""
        with self._lock:
            kernels = self.kernels
            if kernels is None:
                (program, constants), text = self._emit()
                face = attrs.evolve(program.interface, loops=(), calls_blas=False)
                (kernel,) = link([face], make_image(_code_of(text), ["kernel_0"]))
                runner = _Runner(self._job.schedule, self._job.target, kernel, constants, self._job.idle)
                runner.graph = self._graph
                self.kernels = kernels = Kernels(runner.bind(), runner.idle, is_whole=True)
            return kernels

    def text(self) -> str:
        """Return its LLVM IR, before LLVM optimizes it."""
        return self._emit()[1]

    def renew(self) -> None:
        """Take a new lock in a forked process."""
        self._lock = threading.Lock()

    def _emit(self) -> tuple[Lowered, str]:
        """Return the program of the plan with the arrays that it captured, and its module."""
        where, first = layout(), len(self._graph.inputs)
        if where is None:
            self._refuse(UNKNOWN_HERE)
        try:
            with np.errstate(all="ignore"):
                lowered = lower_schedule(self._job.schedule, standalone_target(self._job.target))
            return lowered, emit_kernel(lowered[0], range(first, first + len(self._graph.outputs)), where)
        except UnsupportedError as error:
            self._refuse(str(error))

    def _refuse(self, reason: str) -> NoReturn:
        reason, where = explain_refusal(reason, self._job.schedule, self._graph, self._job.target)
        raise ArgumentError(
            f"jit: an operation has no portable form: got {reason}{where}; compute it outside of the function, or with "
            'backend="native", whose bits are those of this kind of processor'
        ) from None


class _Runner(Runner):
    """Calls a kernel that NumPy's plan does not stand in for."""

    graph: Graph

    def _checked(
        self, errors: int, values: Sequence[Any], outs: list[Any], plan: NumpyPlan, is_given: bool
    ) -> list[Any] | None:
        """Raise for faults; return None for arguments that it does not take."""
        faults = -1 - errors
        if faults & FACTORIZATION:
            raise np.linalg.LinAlgError(
                "jit: a matrix has no such factorization: it is singular, or not positive definite"
            )
        if faults:
            raise IndexRangeError(
                "jit: an index is out of range, or an integer's power is negative"
                f"{explain_fault(self.graph)}; clip or replace such numbers"
            )
        return None


def _code_of(text: str) -> bytes:
    """Return the object code of a module, which is kept for later processes."""
    folder = code_folder()
    code = get_code(text, "", folder)
    if code is None:
        code = compile_apart(text, "")
        put_code(text, "", folder, code)
    return code
