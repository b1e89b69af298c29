"""Results of solvers: a solution, beside the report of the work it took."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.control.solving.report import Report
from afx.core.array.array import Array

__all__ = [
    "ConstrainedResult",
    "CurveFitResult",
    "FixedPointResult",
    "LeastSquaresResult",
    "MinimizeResult",
    "RootResult",
]

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
class ConstrainedResult(MinimizeResult[T]):
    """What `minimize` found under equalities and inequalities; ``iterations`` counts minimizations and Newton's steps.

    Attributes:
        equality_multipliers: float[equalities], by how much the minimum rises with what an equality is set to.
        inequality_multipliers: float[inequalities], the same of inequalities; 0 where one is no limit.
        equalities: float[equalities], their values at the point.
        inequalities: float[inequalities], their values at the point.
    """

    equality_multipliers: Array
    inequality_multipliers: Array
    equalities: Array
    inequalities: Array


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
class CurveFitResult(LeastSquaresResult[T]):
    """What `curve_fit` found.

    Attributes:
        covariance: float[n, n], of the parameters as one vector; infinite where measurements do not determine them.
        errors: the standard deviation of each parameter, a tree as x.
    """

    covariance: Array
    errors: T


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
