"""The record of a workload."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tests.benchmarks.libraries import LIBRARIES, Job

__all__ = ["Workload"]


@attrs.frozen
class Workload:
    """One line of the table.

    Attributes:
        name: what the table calls it.
        make: makes the work of one library, on the same numbers for each.
        libraries: who can do it.
        tolerance: how far results may lie apart, as a fraction of the largest number of an array.
    """

    name: str
    make: Callable[[str], Job]
    libraries: tuple[str, ...] = LIBRARIES
    tolerance: float = 1e-4
