"""Reports of solvers: how much work a solution took, and why the solver stopped."""

from __future__ import annotations

import enum

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.where import where

__all__ = ["Report", "Status", "choose_status", "is_converged"]


class Status(enum.IntEnum):
    """Why a solver stopped."""

    RUNNING = 0
    CONVERGED = 1
    ITERATION_LIMIT = 2
    STALLED = 3
    NONFINITE = 4
    NO_BRACKET = 5
    EVENT = 6

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return SENTENCES[self]


SENTENCES = {
    Status.RUNNING: "still running",
    Status.CONVERGED: "the tolerance is met",
    Status.ITERATION_LIMIT: "the limit of iterations was reached",
    Status.STALLED: "no step leads further in this precision",
    Status.NONFINITE: "the function is not finite",
    Status.NO_BRACKET: "the function has the same sign at both ends of the bracket",
    Status.EVENT: "an event ended it",
}


def is_converged(status: Array) -> Array:
    """Tell whether a status is that of a solution, up to an event that ended it."""
    return (status == int(Status.CONVERGED)) | (status == int(Status.EVENT))


def choose_status(test: Array, then: Status, other: Status) -> Array:
    """Return one status or the other, of which one is an array: a choice of two Python numbers has no machine code."""
    return where(test, asarray(int(then)), int(other))


@attrs.frozen
class Report:
    """How a solver ended; under `vmap` each array has the batch axis in front.

    Attributes:
        iterations: int, the number of steps.
        evaluations: int, the number of evaluations of the function, with its derivatives where the method takes them.
        status: int, a `Status`.
    """

    iterations: Array
    evaluations: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Whether the tolerance is met (up to an event, if one ended it)."""
        return is_converged(self.status)

    @property
    def reason(self) -> str:
        """Why the solver stopped, in words; of a batch, how often for which reason.

        Raises:
            ConcreteValueError: inside a compiled function, where it is not known yet.
        """
        found = np.asarray(self.status)
        if found.ndim == 0:
            return Status(int(found)).sentence
        kinds, counts = np.unique(found, return_counts=True)
        return "; ".join(f"{n} of {found.size}: {Status(int(k)).sentence}" for k, n in zip(kinds, counts, strict=True))
