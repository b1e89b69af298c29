"""Refusals: a kernel that leaves call after call to NumPy's plan is given up, and the logger ``afx.jit`` hears of it."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from afx.compiler.target import Target

__all__ = ["Refusals", "count_refusal", "log"]

GIVEN_UP = (
    "machine code left {} calls in a row to NumPy's plan: their floating-point errors, indices or arguments were NumPy's to "
    "judge"
)

Kernel = Callable[[Sequence[Any], Any], "list[Any] | None"]


class Code(Protocol):
    """Machine code of one plan."""

    is_awaited: bool
    run: Any
    target: Target

    def give_up(self, reason: str) -> None:
        """Run NumPy's plan from now on."""
        ...


class Refusals:
    """Runs a kernel that has refused its last calls, and counts them; one that takes a call runs by itself again.

    Attributes:
        count: calls in a row that it has refused.
    """

    def __init__(self, code: Code, run: Kernel) -> None:
        self._code = weakref.ref(code)
        self._run = run
        self.count: int = 0

    def __call__(self, values: Sequence[Any], plan: Any) -> list[Any] | None:
        """Run the kernel."""
        found = self._run(values, plan)
        code = self._code()
        if found is not None and code is not None and code.run is self:
            code.run = self._run
        return found


def count_refusal(code: Code) -> None:
    """Count a call that a kernel has refused; one too many in a row ends it."""
    if not isinstance(code.run, Refusals):
        code.run = Refusals(code, code.run)
    code.run.count += 1
    if code.run.count >= code.target.native.refused_max_calls:
        reason = GIVEN_UP.format(code.run.count)
        code.give_up(reason)
        log(f"{reason}; it runs NumPy's plan from now on", is_asked=code.is_awaited)


def log(message: str, *, is_asked: bool) -> None:
    """Write to the logger ``afx.jit``: a warning where machine code was asked for, else an info, if logging is loaded."""
    logging: Any = importlib.import_module("logging") if is_asked else sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("afx.jit").log(logging.WARNING if is_asked else logging.INFO, "%s", message)
