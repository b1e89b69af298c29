"""Instruction times: a plan's schedule run by NumPy with a clock between its instructions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from afx.compiler.numpy_backend.exec import NumpyBackend
from afx.compiler.schedule import Fused, Instruction, Schedule
from afx.compiler.target import Target
from afx.runtime.control_register import met_denormals

__all__ = ["equations_of", "find_denormals", "time_instructions"]


class _Clock:
    """Seconds between the moments at which it is called, by the numbers that it is called with."""

    def __init__(self, count: int) -> None:
        self.seconds: npt.NDArray[np.float64] = np.zeros(count)
        self._last = 0.0

    def start(self) -> None:
        """Begin a run."""
        self.seconds[:] = 0
        self._last = time.perf_counter()

    def __call__(self, number: int) -> None:
        """Note that an instruction has ended."""
        now = time.perf_counter()
        self.seconds[number] += now - self._last
        self._last = time.perf_counter()


def time_instructions(
    schedule: Schedule, target: Target, inputs: Sequence[Any], seconds: float
) -> npt.NDArray[np.float64]:
    """Return the seconds of each instruction: medians over as many runs as fit into a time, three at least.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x @ x)).lower(afx.ones((3, 3)))
    >>> time_instructions(lowered.schedule, Target(), [np.ones((3, 3), np.float32)], 0.0).shape
    (2,)
    """
    clock = _Clock(len(schedule.instructions))
    run = NumpyBackend.compile(schedule, target, clock=clock).bind()
    run(*inputs)  # memory is touched for the first time, and kernels are made
    found, end = list[Any](), time.perf_counter() + seconds
    while len(found) < 3 or time.perf_counter() < end:
        clock.start()
        run(*inputs)
        found.append(clock.seconds.copy())
    medians: npt.NDArray[np.float64] = np.median(found, axis=0)
    return medians


def find_denormals(schedule: Schedule, target: Target, inputs: Sequence[Any]) -> set[int]:
    """Return the numbers of the instructions that meet denormal operands, as far as the processor tells.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x @ x) * 0.5).lower(afx.ones((3, 3)))
    >>> find_denormals(lowered.schedule, Target(), [np.ones((3, 3), np.float32)])
    set()
    """
    found = set[int]()

    def look(number: int) -> None:
        if met_denormals(forgetting=True):
            found.add(number)

    run = NumpyBackend.compile(schedule, target, clock=look).bind()
    met_denormals(forgetting=True)
    run(*inputs)
    return found


def equations_of(instruction: Instruction) -> list[int]:
    """Return the numbers of the graph's equations that an instruction computes."""
    if isinstance(instruction, Fused):
        return [number for one in instruction.body for number in equations_of(one)]
    number: int = getattr(instruction, "equation", -1)
    return [number] if number >= 0 else []
