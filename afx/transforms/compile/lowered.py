"""Lowered: each step of compiling a jitted function for given arguments."""

from __future__ import annotations

import attrs

from afx.compiler.buffers import BufferAssignment
from afx.compiler.cost import bytes_moved, flops
from afx.compiler.executable import Plan
from afx.compiler.fusion import Groups
from afx.compiler.report import Report, make_report
from afx.compiler.schedule import Schedule
from afx.compiler.status import PlanStatus
from afx.core.graph import Graph

__all__ = ["Lowered", "PlanStatus"]


@attrs.frozen(eq=False, repr=False)
class Lowered:
    """Each step of the compiler for some arguments; all of them print.

    Attributes:
        graph: the simplified graph.
        plan: how it runs: ``plan.source``, ``plan.memory``, ``plan.scratch``.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x) * 2.0).lower(afx.ones(3))
    >>> print(lowered.schedule)
    schedule(a:float32[3]#0) {  # 64 bytes of arena
      b:float32[3]@0 = sin(a)
      c:float32[3] := multiply(b, 2.0)
      return c
    }
    """

    graph: Graph
    plan: Plan

    @property
    def groups(self) -> Groups:
        """The equations that run together, block by block."""
        return self.plan.groups

    @property
    def buffers(self) -> BufferAssignment:
        """The memory of each value."""
        return self.plan.buffers

    @property
    def schedule(self) -> Schedule:
        """The instructions in the order in which they run; loops and branches hold schedules of their own."""
        return self.plan.schedule

    @property
    def flops(self) -> int:
        """The arithmetic operations of one call."""
        return flops(self.graph)

    @property
    def bytes_moved(self) -> int:
        """The bytes that the equations read and write, were nothing kept in a cache."""
        return bytes_moved(self.graph)

    @property
    def report(self) -> Report:
        """Operations, bytes and arithmetic intensity of each equation, and the memory that is alive there, as a table.

        >>> import afx
        >>> report = afx.jit(lambda x: x @ x).lower(afx.ones((64, 64))).report
        >>> report.rows[0].name, report.rows[0].flops, report.rows[0].nbytes, report.peak_bytes
        ('matmul', 524288, 49152, 32768)
        """
        return make_report(self.groups, self.buffers)

    @property
    def status(self) -> PlanStatus:
        """Who answers the next call, NumPy or machine code, since when, after how many refusals, and why.

        >>> import afx
        >>> afx.jit(lambda x: x, backend="numpy").lower(afx.ones(3)).status.backend
        'numpy'
        """
        return self.plan.status

    @property
    def native(self) -> tuple[tuple[str, str], ...]:
        """Each instruction of the plan, and why it has no native form: an empty text where it has one.

        What refuses the plan as a whole stands in a last pair, beside its results.
        """
        return self.plan.why_not_native

    def __repr__(self) -> str:
        """Return one line; ``graph``, ``schedule``, ``report`` and ``plan.source`` print the steps."""
        return f"<lowered: {self}>"

    def __str__(self) -> str:
        return (
            f"{len(self.graph)} equations, {self.flops} flops, {self.bytes_moved} bytes moved, "
            f"{self.plan.memory} bytes of buffers, {self.plan.scratch} of scratch a thread"
        )
