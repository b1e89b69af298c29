"""`curve_fit`: the parameters of a model that fit measurements, and how well they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from afx.control.solving.functions import flatten_to_vector
from afx.control.solving.vectors import as_vector
from afx.core.array.array import Array, ArrayLike
from afx.errors import ShapeError
from afx.ops.creation.creation import asarray, full
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import where
from afx.ops.linalg.qr import qr
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.diagonals import diagonal
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import min as min_
from afx.optim.solvers.least_squares import LeastSquaresMethod, least_squares
from afx.optim.solvers.results import CurveFitResult
from afx.optim.solvers.robust import Loss
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.vmap import vmap

__all__ = ["curve_fit"]

T = TypeVar("T")
X = TypeVar("X")


def curve_fit(
    fn: Callable[[T, X], Any],
    init: T,
    x: X,
    y: ArrayLike,
    *,
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,
    method: LeastSquaresMethod = "levenberg_marquardt",
    bounds: tuple[Any, Any] | None = None,
    loss: Loss = "linear",
    loss_scale: float = 1.0,
    tolerance: float | None = None,
    max_iterations: int = 2000,
) -> CurveFitResult[T]:
    """Return parameters p near a start for which ``fn(p, x)`` is nearest to y, with their covariance.

    The fit is `least_squares`', and so are its derivatives by x, y and sigma; parameters come first, where SciPy's
    ``curve_fit`` has them last, and are a tree.

    Args:
        fn: a model of a tree of parameters, and x.
        init: the start, a tree of arrays.
        x: what the model takes beside parameters, any tree.
        y: measurements, of the shape that the model returns.
        sigma: the standard deviation of each measurement, which broadcasts with y; without it all are alike.
        absolute_sigma: whether sigma is known; otherwise its scale is that of the residuals, as in SciPy.
        method: as in `least_squares`.
        bounds: as in `least_squares`.
        loss: as in `least_squares`.
        loss_scale: as in `least_squares`.
        tolerance: as in `least_squares`.
        max_iterations: as in `least_squares`.

    Raises:
        ShapeError: the model returns another shape than y's.

    >>> import afx
    >>> times = np.arange(5.0)
    >>> fit = curve_fit(lambda p, t: p["a"] * t + p["b"], {"a": 0.5, "b": 0.5}, times, 2 * times + np.array([1.0, 0, 1, 2, 1]))
    >>> fit.x["a"].round(2), fit.errors["a"].round(2)
    (Array(2.2, dtype=float32), Array(0.23, dtype=float32))
    """

    def residuals(p: T, of_x: X, measured: Array, spread: ArrayLike) -> Array:
        model = asarray(fn(p, of_x))
        if model.shape != measured.shape:
            raise ShapeError(
                f"curve_fit: the model has the shape of y: got {model.aval} for {measured.aval}; reshape one"
            )
        return (model - measured) / spread

    args = (x, asarray(y), 1.0 if sigma is None else sigma)
    options: Any = {"bounds": bounds, "loss": loss, "loss_scale": loss_scale, "tolerance": tolerance}
    found = least_squares(residuals, init, *args, method=method, max_iterations=max_iterations, **options)
    vector, unravel = flatten_to_vector(found.x, "curve_fit")

    def at(v: Array) -> Array:
        return as_vector(residuals(unravel(v), *args), v.dtype, "curve_fit")

    jacobian = jacfwd(at)(vector)
    m, n = jacobian.shape
    scale: Any = 1.0 if absolute_sigma else 2 * found.cost / max(m - n, 1)
    is_known = m > n or (m == n and absolute_sigma)
    covariance = _covariance(jacobian, scale) if is_known else full((n, n), np.inf, vector.dtype)
    errors = unravel(sqrt(diagonal(covariance)))
    work = found.iterations, found.evaluations, found.status
    return CurveFitResult(*work, found.x, found.cost, found.residuals, found.gradient, covariance, errors)


def _covariance(jacobian: Array, scale: Any) -> Array:
    """Return the inverse of ``Jᵀ J`` times a scale, infinite where columns depend on each other."""
    triangle = qr(jacobian)[1]
    n = triangle.shape[0]

    def column(unit: Array) -> Array:
        return solve_or_nan(triangle, unit)

    rows = vmap(column)(eye(n, dtype=triangle.dtype))  # the transposed inverse
    pivots = abs_(diagonal(triangle))
    lost = ~(min_(pivots) > n * float(np.finfo(triangle.dtype).eps) * max_(pivots))
    return where(lost, np.inf, rows.T @ rows * scale)
