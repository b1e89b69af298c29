"""Reports: what each equation of a plan computes and moves, the memory it takes, and who answers its calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import attrs

from afx.compiler.schedule.buffers import BufferAssignment
from afx.compiler.schedule.cost import equation_costs
from afx.compiler.schedule.fusion import Groups
from afx.core import places_of
from afx.core.primitive import Printable

# --- Status of a plan: who answers its calls, NumPy or machine code, since when, and why


@attrs.frozen
class PlanStatus:
    """Who answers the next call of a plan.

    Attributes:
        backend: ``"numpy"``, or ``"native"`` or ``"portable"`` for machine code.
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

    backend: Literal["numpy", "native", "portable"]
    reason: str = ""
    since: float | None = None
    refusals: int = 0
    denormals: str = "kept"


# --- Reports: what each equation of a plan computes and moves, and the memory that is alive while it runs


@attrs.frozen(eq=False, repr=False)
class ReportRow(Printable):
    """One equation of a plan; a loop or a branch counts all that it holds.

    Attributes:
        number: its number in the graph.
        name: the operation.
        result: shapes and dtypes of what it gives, as ``float32[3]``.
        place: the user's line, as ``file.py:12``; empty where there is none.
        flops: arithmetic operations.
        nbytes: bytes that it reads and writes, were nothing kept in a cache.
        live_bytes: bytes of the values that are needed while it runs, arguments and results among them; what is computed
            in place counts once.
    """

    number: int
    name: str
    result: str
    place: str
    flops: int
    nbytes: int
    live_bytes: int

    @property
    def intensity(self) -> float:
        """Arithmetic operations for each byte; nan where nothing is moved."""
        return self.flops / self.nbytes if self.nbytes else float("nan")


@attrs.frozen(eq=False, repr=False)
class Report(Printable):
    """A table of equations in the order in which they run; it prints.

    Attributes:
        rows: one for each equation.

    >>> import afx
    >>> report = afx.jit(lambda x: afx.sin(x @ x).sum()).lower(afx.ones((64, 64))).report
    >>> [(row.name, row.flops, row.nbytes) for row in report.rows]
    [('matmul', 524288, 49152), ('sin', 4096, 32768), ('sum', 4096, 16388)]
    >>> report.peak_bytes
    32768
    """

    rows: tuple[ReportRow, ...]

    @property
    def peak_bytes(self) -> int:
        """Bytes that are needed at the widest point."""
        return max([row.live_bytes for row in self.rows], default=0)

    def __str__(self) -> str:
        """Return the table: a bar shows how much of the widest point's memory is alive."""
        peak = max(self.peak_bytes, 1)
        rows = [
            (
                str(row.number),
                row.name,
                row.result,
                short_place(row.place),
                f"{row.flops:,}",
                f"{row.nbytes:,}",
                f"{row.intensity:.2g}" if row.nbytes else "-",
                f"{row.live_bytes:,}",
                "#" * round(10 * row.live_bytes / peak),
            )
            for row in self.rows
        ]
        head = ("", "equation", "result", "line", "flops", "bytes", "flops/byte", "alive", "")
        return table(head, rows, right={0, 4, 5, 6, 7})


def make_report(groups: Groups, buffers: BufferAssignment) -> Report:
    """Return the report of a grouped graph whose memory is assigned."""
    rows = list[ReportRow]()
    order = [
        (k, number, eq)
        for k, group in enumerate(groups)
        for number, eq in zip(group.numbers, group.equations, strict=True)
    ]
    places = places_of([eq.source for _, _, eq in order])
    for (k, number, eq), place in zip(order, places, strict=True):
        costs = list(equation_costs(eq))
        live = {_owner(i.root, buffers): i.nbytes for i in buffers.intervals if i.start <= k <= i.end}
        result = ", ".join([str(v.aval) for v in eq.outputs])
        work, moved = sum([c.flops for c in costs]), sum([c.nbytes for c in costs])
        rows.append(
            ReportRow(
                number, eq.primitive.name, result, "" if place is None else str(place), work, moved, sum(live.values())
            )
        )
    return Report(tuple(rows))


def _owner(root: int, buffers: BufferAssignment) -> int:
    """Return the variable in whose memory another one lies, after all that took it over."""
    while (other := buffers.donated_to.get(root)) is not None:
        root = other
    return root


def short_place(place: str) -> str:
    """Return a line's file without its folders.

    >>> short_place("folder/model.py:12")
    'model.py:12'
    """
    return place.replace("\\", "/").rpartition("/")[2]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> str:
    """Return rows as text in columns; those of numbers are set to the right.

    >>> print(table(("line", "ms"), [("a.py:1", "0.5"), ("a.py:12", "10.0")], {1}))
    line       ms
    a.py:1    0.5
    a.py:12  10.0
    """
    widths = [max([len(row[k]) for row in (head, *rows)]) for k in range(len(head))]
    cells = [
        [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (head, *rows)
    ]
    return "\n".join(["  ".join(row).rstrip() for row in cells])
