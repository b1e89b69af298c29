"""Portable machine code: a plan as one function without NumPy, whose bits depend on its graph and arguments alone.

It is compiled when the first call asks for it, and answers every call: neither NumPy's plan nor a library computes results.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from afx.compiler.native_backend.llvm.writer import FACTORIZATION, INDEX
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.run.job import CodeJob, NumpyPlan
from afx.compiler.native_backend.service.code_cache import get_code, put_code
from afx.compiler.native_backend.service.helper import code_folder
from afx.compiler.native_backend.standalone.emit import (
    ALIGNMENT,
    compile_module,
    emit_function,
    explain_fault,
    explain_refusal,
    load_function,
)
from afx.core.graph import Graph
from afx.errors import ArgumentError, IndexRangeError
from afx.runtime.buffer_cache import to_dense

NAME = "portable"


class Portable:
    """The state of a plan that portable code answers, compiled by its first call."""

    reason = ""

    def __init__(self, job: CodeJob, graph: Graph) -> None:
        self._job = job
        self._graph = graph
        self._lock = threading.Lock()
        self._call: Callable[..., int] | None = None
        self._inputs = [v.aval.dtype for v in graph.inputs]
        self._outputs = [(x.aval.shape, x.aval.dtype) for x in graph.outputs]
        self._work_bytes = 0

    def run(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Return the results of a call.

        Raises:
            ArgumentError: an operation has no portable form; the message names it and the user's line.
            IndexRangeError: an index, or a float that becomes an integer, is out of its range.
            numpy.linalg.LinAlgError: a matrix without the factorization that is asked for.
        """
        call = self._call or self.compile()
        arrays = to_dense(tuple([np.asarray(x, dtype) for x, dtype in zip(values, self._inputs, strict=True)]))
        outs = [np.empty(shape, dtype) for shape, dtype in self._outputs]
        work = np.empty(self._work_bytes + ALIGNMENT, np.uint8) if self._work_bytes else None
        start = -(-work.ctypes.data // ALIGNMENT) * ALIGNMENT if work is not None else None
        faults = call(*[x.ctypes.data for x in (*arrays, *outs)], start)
        if faults & FACTORIZATION:
            raise np.linalg.LinAlgError(
                "jit: a matrix has no such factorization: it is singular, or not positive definite"
            )
        if faults & INDEX:
            raise IndexRangeError(
                "jit: an index is out of range, a float (nan, say) does not fit its integer type, or an integer's power is "
                f"negative{explain_fault(self._graph)}; clip or replace such numbers"
            )
        return [x if x.ndim else x[()] for x in outs]

    def compile(self) -> Callable[..., int]:
        """Compile and link it, unless another thread does, and return what calls it."""
        with self._lock:
            function: Any = self._call
            if function is None:
                text, self._work_bytes = self._emit()
                _, addresses = loaded = load_function(_code_of(text), [NAME])
                kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (len(self._inputs) + len(self._outputs) + 1))
                function = kind(addresses[NAME])
                function.loaded = loaded  # the code lives as long as what calls it
                self._call = function
            call: Callable[..., int] = function
            return call

    def text(self) -> str:
        """Return its LLVM IR, before LLVM optimizes it."""
        return self._emit()[0]

    def renew(self) -> None:
        """Take a new lock in a forked process."""
        self._lock = threading.Lock()

    def _emit(self) -> tuple[str, int]:
        """Return the module of the plan, and how many bytes of memory it works in."""
        try:
            with np.errstate(all="ignore"):
                program, constants = lower_schedule(self._job.schedule, self._job.target, threads=False)
            text = emit_function(program, constants, NAME, portable_from=len(self._inputs))
            return text, program.block.arena
        except UnsupportedError as error:
            self._refuse(str(error))

    def _refuse(self, reason: str) -> NoReturn:
        reason, where = explain_refusal(reason, self._job.schedule, self._graph, self._job.target)
        raise ArgumentError(
            f"jit: an operation has no portable form: got {reason}{where}; compute it outside of the function, or with "
            'backend="native", whose bits are those of this kind of processor'
        ) from None


def _code_of(text: str) -> bytes:
    """Return the object code of a module, which is kept for later processes."""
    folder = code_folder()
    code = get_code(text, "", folder)
    if code is None:
        code = compile_module(text, "", "", "", True)
        put_code(text, "", folder, code)
    return code
