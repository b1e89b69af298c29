"""Status of a plan: who answers its calls, NumPy or machine code, since when, and why."""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = ["PlanStatus"]


@attrs.frozen
class PlanStatus:
    """Who answers the next call of a plan.

    Attributes:
        backend: ``"numpy"``, or ``"native"`` for machine code.
        reason: why it is NumPy; empty where it is machine code that stays.
        since: the time, as `time.time` gives it, from which on that has been so; None from the first call on.
        refusals: how many calls machine code has left to NumPy's plan: those of arguments that it does not take, and those
            with floating-point errors of which NumPy's plan warns at the user's line.
        denormals: ``"flushed"``, or ``"kept"`` with what there is to say of it: that operands were denormal, at one of the
            calls that were looked at (on x86-64), or that nothing is known of the system's control register.

    >>> import afx
    >>> afx.jit(lambda x: x * 2, backend="numpy").lower(afx.ones(2)).status
    PlanStatus(backend='numpy', reason='the back end "numpy" was asked for', since=None, refusals=0, denormals='kept')
    """

    backend: Literal["numpy", "native"]
    reason: str = ""
    since: float | None = None
    refusals: int = 0
    denormals: str = "kept"
