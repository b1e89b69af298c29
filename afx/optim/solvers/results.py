"""Results of solvers: a solution, beside the report of the work it took."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.control.solving.report import Report
from afx.core.array.array import Array

__all__ = ["FixedPointResult", "LeastSquaresResult", "MinimizeResult", "RootResult"]

T = TypeVar("T")


@attrs.frozen
class MinimizeResult(Report, Generic[T]):
    """What `minimize` found.

    Attributes:
        x: the point, a tree as the start was.
        value: float, the function there.
        gradient: the gradient there, a tree as x.
    """

    x: T
    value: Array
    gradient: T


@attrs.frozen
class LeastSquaresResult(Report, Generic[T]):
    """What `least_squares` found.

    Attributes:
        x: the point, a tree as the start was.
        cost: float, half the sum of the squared residuals.
        residuals: float[residuals], all residuals as one vector.
        gradient: the gradient of the cost, a tree as x.
    """

    x: T
    cost: Array
    residuals: Array
    gradient: T


@attrs.frozen
class RootResult(Report, Generic[T]):
    """What `root` found.

    Attributes:
        x: the point, a tree as the start was.
        residuals: float[n], the function there as one vector.
    """

    x: T
    residuals: Array


@attrs.frozen
class FixedPointResult(Report, Generic[T]):
    """What `fixed_point` found.

    Attributes:
        x: the point, a tree as the start was.
        residuals: float[n], ``fn(x) - x`` as one vector.
    """

    x: T
    residuals: Array
