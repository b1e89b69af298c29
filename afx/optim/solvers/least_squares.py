"""Least squares: trees of arrays for which residuals are smallest, robust losses, and `curve_fit`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.solving import (
    Status,
    as_vector,
    begin_at,
    choose_status,
    flatten_to_vector,
    iterate,
    norm_of,
    parametrize,
    solve,
    stopped,
)
from afx.control.while_loop import fori_loop
from afx.core import Array, ArrayLike, epsilon
from afx.errors import ArgumentError, ShapeError
from afx.ops import abs as abs_, arctan, asarray, concat, diagonal, eye, full, log1p, sqrt, stack, vecdot, vector_norm
from afx.ops.elementwise.comparison import clip, isfinite, maximum, minimum, where
from afx.ops.linalg.factorizations import qr
from afx.ops.linalg.norms import lstsq
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.linalg.spectra import svd
from afx.ops.reductions.sums import all as all_, max as max_, min as min_, sum as sum_
from afx.optim.solvers.descend import Box, attach_minimum, box_of, choose, free_unknowns, project, truncated_cg
from afx.optim.solvers.root import CurveFitResult, LeastSquaresResult
from afx.transforms._arguments import check_callable
from afx.transforms.derivatives.grad import grad, vjp
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.sparse.sparse_derivatives import sparse_jacobian
from afx.transforms.sparse.sparse_matrix import SparseMatrix
from afx.transforms.vmap import vmap

__all__ = ["curve_fit", "least_squares"]

# --- Robust losses: residuals whose squares add up to less than squares, so that outliers count for less
#
# Source: Triggs, McLauchlan, Hartley & Fitzgibbon 2000, section 3; the losses and their scale are SciPy's.

Loss = Literal["linear", "huber", "soft_l1", "cauchy", "arctan"]

SMALL = 1e-8  # below, a share is its series up to rounding


def _huber(z: Array) -> Array:
    far = where(z > 1, z, 1.0)
    return where(z > 1, (2 * sqrt(far) - 1) / far, 1.0)


def _over(fn: Callable[[Array], Array], slope: float, z: Array) -> Array:
    """Return ``fn(z) / z``, near 0 the beginning of its series."""
    far = where(z > SMALL, z, 1.0)
    return where(z > SMALL, fn(far) / far, 1 + slope * z)


# the loss of a squared residual, over that
SHARES: dict[str, Callable[[Array], Array]] = {
    "huber": _huber,
    "soft_l1": lambda z: 2 / (sqrt(1 + z) + 1),
    "cauchy": lambda z: _over(log1p, -0.5, z),
    "arctan": lambda z: _over(arctan, 0.0, z),
}


def robust_residuals(residuals: Array, loss: Loss, scale: float) -> Array:
    """Return residuals whose squares are the losses of the given ones.

    Args:
        residuals: float[residuals].
        loss: its name.
        scale: the size from which on a residual counts for less.
    """
    if loss == "linear":
        return residuals
    if loss not in SHARES:
        names = ", ".join(map(repr, SHARES))
        raise ArgumentError(f"least_squares: no such loss: got {loss!r}; use 'linear', {names}")
    if not scale > 0:
        raise ArgumentError(
            f"least_squares: the scale of the loss is above 0: got {scale}; give a usual residual's size"
        )
    small = residuals / scale
    return residuals * sqrt(SHARES[loss](small * small))


# --- Radius step: the minimizer of a linear least squares model inside a ball, in units of the unknowns' scales
#
# Sources: Moré 1978, "The Levenberg-Marquardt algorithm: implementation and theory"; the Newton iteration for the
# damping is that of section 5, with singular values in place of factorizations, as in SciPy.

ITERATIONS = 10  # of the damping, which is as near then as it needs to be
SLACK = 1.1  # how far beyond the radius a step may end


def scaled_length(step: Array, scale: Array) -> Array:
    """Return the length of a step in units of the squared scales' roots."""
    return vector_norm(step * sqrt(scale))


def radius_step(jacobian: Array, residuals: Array, scale: Array, radius: Array) -> Array:
    """Return the step p for which ``|residuals + jacobian p|`` is least where ``|sqrt(scale) p|`` is up to the radius.

    Args:
        jacobian: float[residuals, unknowns].
        residuals: float[residuals].
        scale: float[unknowns], squared, above 0.
        radius: float.
    """
    units = sqrt(scale)
    q, triangle = qr(jacobian)
    usable = all_(isfinite(triangle))  # what is not finite has no singular values
    u, s, v = svd(where(usable, triangle / units, 0.0), full_matrices=False)
    eps = epsilon(s.dtype)
    is_significant = s > eps * jacobian.shape[1] * s[0]
    right = where(is_significant, s * (u.T @ (q.T @ residuals)), 0.0)
    squares = where(is_significant, s * s, 1.0)
    return -(v.T @ (right / (squares + _damping_of_radius(right, squares, radius)))) / units


def _damping_of_radius(right: Array, squares: Array, radius: Array) -> Array:
    """Return what is added to squared singular values so that the step ends on the ball, or 0 where it ends inside."""

    def length_at(damping: Array) -> tuple[Array, Array]:
        parts = right / (squares + damping)
        length = vector_norm(parts)
        slope = sum_(parts * parts / (squares + damping)) / where(length > 0, length, 1.0)
        return length, slope

    full, steep = length_at(0.0 * radius)
    upper = vector_norm(right) / radius
    lower = maximum(full - radius, 0.0) / where(steep > 0, steep, 1.0)

    def improve(_: Array, damping: Array) -> Array:
        length, slope = length_at(damping)
        change = (length - radius) / where(slope > 0, slope, 1.0) * (length / radius)
        return clip(damping + change, lower, upper)

    damping = fori_loop(0, ITERATIONS, improve, maximum(0.001 * upper, sqrt(lower * upper)))
    return where(full <= SLACK * radius, 0.0, damping)


# --- Gauss-Newton steps: how `least_squares` finds a step, and how it changes the damping after it
#
# Sources: Moré 1978; Madsen, Nielsen & Tingleff 2004, "Methods for non-linear least squares problems", section 3.2.

FIRST_DAMPING = 1e-3  # in units of the largest squared column


@attrs.frozen
class Iterate:
    """The state of a method.

    Attributes:
        x: the point.
        residuals: there.
        jacobian: there, dense or sparse.
        gradient: of the cost.
        scale: the largest squared length that each column had (Moré 1978): the units of the unknowns.
        damping: the radius in these units; with a sparse Jacobian what is added to the squared columns, also in them; of
            ``gauss_newton`` the fraction of a step.
        growth: the factor of the damping after the next rejection.
        iterations: trials so far.
        evaluations: of the residuals so far.
        status: a `Status`.
    """

    x: Array
    residuals: Array
    jacobian: Array | SparseMatrix
    gradient: Array
    scale: Array
    damping: Array
    growth: Array
    iterations: Array
    evaluations: Array
    status: Array


def transpose(matrix: Array | SparseMatrix) -> Array | SparseMatrix:
    """Return the transpose of a dense or a sparse matrix."""
    if isinstance(matrix, SparseMatrix):
        rows, columns = matrix.shape
        return SparseMatrix(matrix.values, matrix.indices[:, ::-1], (columns, rows))
    return matrix.T


def squared_columns(matrix: Array | SparseMatrix) -> Array:
    """Return the squared lengths of the columns."""
    if isinstance(matrix, SparseMatrix):
        flipped = transpose(matrix)
        assert isinstance(flipped, SparseMatrix)
        return SparseMatrix(flipped.values**2, flipped.indices, flipped.shape) @ _ones(matrix)
    return sum_(matrix * matrix, axis=0)


def _ones(matrix: SparseMatrix) -> Array:
    return asarray(np.ones(matrix.shape[0]), matrix.values.dtype)


def _damping(s: Iterate, _: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next damping, and its growth after a rejection, by Nielsen's rule."""
    shrink = maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
    return where(good, s.damping * shrink, s.damping * s.growth), where(good, 2.0, 2 * s.growth)


def _fraction(s: Iterate, _: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next fraction of a step."""
    return where(good, 1.0, 0.5 * s.damping), s.growth


def _radius(s: Iterate, step: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next radius, as in SciPy."""
    length = scaled_length(step, s.scale)
    shrinks, grows = ~good | ~(gain > 0.25), (gain > 0.75) & (length > 0.95 * s.damping)
    return where(shrinks, 0.25 * minimum(length, s.damping), where(grows, 2 * s.damping, s.damping)), s.growth


def _least_norm_step(s: Iterate) -> Array:
    """Return the step of least norm that solves the linear model, or the part of it that is tried."""
    assert not isinstance(s.jacobian, SparseMatrix)
    return s.damping * -lstsq(s.jacobian, s.residuals).x


def _weights(s: Iterate) -> Array:
    """Return the squared scales of the unknowns, above 0."""
    squares = s.scale
    floor = epsilon(squares.dtype) * max_(squares, initial=0.0) + float(np.finfo(squares.dtype).tiny)
    return maximum(squares, floor)


def _step_within(s: Iterate) -> Array:
    """Return the minimizer of the linear model within the radius."""
    assert not isinstance(s.jacobian, SparseMatrix)
    return radius_step(s.jacobian, s.residuals, _weights(s), s.damping)


def _damped_step(s: Iterate) -> Array:
    """Return the minimizer of the damped linear model, in which each unknown counts in units of its scale."""
    assert isinstance(s.jacobian, SparseMatrix)
    matrix, flipped, weights = s.jacobian, transpose(s.jacobian), s.damping * _weights(s)
    if find_spec("scipy"):
        return _solve_augmented(matrix, weights, s.residuals)

    return truncated_cg(lambda v: flipped @ (matrix @ v) + weights * v, s.gradient, 1e-8 * vector_norm(s.gradient))[0]


def _solve_augmented(matrix: SparseMatrix, weights: Array, residuals: Array) -> Array:
    """Return the same step by a sparse factorization of residuals and unknowns together, which squares no column."""
    m, n = matrix.shape
    rows, columns = matrix.indices[:, 0], matrix.indices[:, 1] + m
    ones, first, last = _ones(matrix), np.arange(m), np.arange(m, m + n)
    values = concat([ones, matrix.values, matrix.values, -weights])
    indices = stack([concat([first, rows, columns, last]), concat([first, columns, rows, last])], axis=1)
    return SparseMatrix(values, indices, (m + n, m + n)).solve(concat([-residuals, 0 * weights]))[m:]


def _first_radius(start: Array, scale: Array) -> Array:
    length = scaled_length(start, scale)
    return where((length > 0) & isfinite(length), length, 1.0)


@attrs.frozen(eq=False)
class Rule:
    """How steps are found.

    Attributes:
        find: a state to a step.
        adapt: (state, step, whether it is good, the ratio of actual to expected decrease) to the next damping and growth.
        first: (start, scale) to the first damping.
    """

    find: Callable[[Iterate], Array]
    adapt: Callable[[Iterate, Array, Array, Array], tuple[Array, Array]]
    first: Callable[[Array, Array], Array]


GAUSS_NEWTON = Rule(_least_norm_step, _fraction, lambda start, _: asarray(1.0, start.dtype))
DAMPED = Rule(_damped_step, _damping, lambda start, _: asarray(FIRST_DAMPING, start.dtype))
WITHIN = Rule(_step_within, _radius, _first_radius)


# --- `least_squares`: a tree of arrays for which a vector of residuals is smallest

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LeastSquaresMethod = Literal["levenberg_marquardt", "gauss_newton"]

LEAST_GAIN = 1e-4  # the least ratio of actual to expected decrease
FEW = 4  # ulps, below which a step is rounding


def least_squares(
    fn: Callable[[T, *Ts], Any],
    init: T,
    *args: *Ts,
    method: LeastSquaresMethod = "levenberg_marquardt",
    bounds: tuple[Any, Any] | None = None,
    sparse: bool = False,
    loss: Loss = "linear",
    loss_scale: float = 1.0,
    tolerance: float | None = None,
    max_iterations: int = 2000,
) -> LeastSquaresResult[T]:
    """Return a local minimum of half the sum of squares of ``fn(x, *args)`` near a start.

    The minimum is differentiable by ``args``, and by traced arrays that ``fn`` closes over, as that of `minimize` is:
    with the full Hessian, residuals that stay large included. Works under `jit` and `vmap`.

    =======================  ======================================================================================
    ``levenberg_marquardt``  the best steps inside a ball, in units of the unknowns' scales (Moré 1978); with ``sparse``
                             damped steps, with Nielsen's rule for the damping (Madsen, Nielsen & Tingleff 2004)
    ``gauss_newton``         steps of least norm, halved until the cost falls; for small residuals
    =======================  ======================================================================================

    Args:
        fn: a function of a tree and ``args`` that returns residuals, any tree.
        init: the start, a tree of arrays; leaves that are not trained stay.
        *args: what else ``fn`` takes, any trees.
        method: how steps are found.
        bounds: ``(lower, upper)``, each None, a number, or a tree of the structure of ``init``: unknowns that the cost
            pushes against a bound stay there, steps of the others end at theirs (Kanzow, Yamashita & Fukushima 2004; the
            active set is Bertsekas's of 1982). The start is moved inside.
        sparse: takes the Jacobian by `sparse_jacobian`, and solves for the steps by SciPy's SuperLU, or by conjugate
            gradients where SciPy is not installed; for ``levenberg_marquardt``.
        loss: how much a residual counts: ``linear`` by its square; ``huber``, ``soft_l1``, ``cauchy`` and ``arctan`` let
            outliers count for less, as in SciPy, each as the square of a smaller residual.
        loss_scale: the size from which on a residual is an outlier.
        tolerance: of the cosine between the residuals and each column of the Jacobian; without it the precision to the
            power 3/4, 1.8e-12 in float64 and 6.4e-6 in float32. A step as small as the rounding of x counts as
            convergence too.
        max_iterations: the limit of trials.

    Raises:
        ArgumentError: no such method; bounds that leave nothing between them.

    >>> import afx
    >>> times, counts = np.arange(4.0), 3 * np.exp(-0.5 * np.arange(4.0))
    >>> model = lambda p, t: p["size"] * afx.exp(-p["rate"] * t)
    >>> result = least_squares(lambda p: model(p, times) - counts, {"size": np.float64(1), "rate": np.float64(1)})
    >>> result.x
    {'size': Array(3., dtype=float64), 'rate': Array(0.5, dtype=float64)}
    """
    start, unravel = begin_at(init, "least_squares")
    box = box_of(bounds, start, "least_squares")
    fixed_box = None if box is None else box.stopped()
    start = project(start, fixed_box)
    problem = parametrize(fn, [unravel], [start.aval], args, "least_squares", keeps_constants=sparse)

    def residuals(x: Array, *params: Any) -> Array:
        return as_vector(problem.fn(x, *params), x.dtype, "least_squares")

    def weighted(x: Array, *params: Any) -> Array:
        return robust_residuals(residuals(x, *params), loss, loss_scale)

    stopped_params = stopped(problem.params)
    small = float(np.finfo(start.dtype).eps ** 0.75 if tolerance is None else tolerance)

    def run(x: Array, params: Sequence[Any], box: Box | None, limit: int) -> Iterate:
        search = _search_of(lambda v: weighted(v, *params), method, sparse, box, small)
        return iterate(_first(search, x), functools.partial(_advance, search), limit)

    options = method, sparse, loss, loss_scale, small
    given = start, stopped_params, fixed_box
    end = solve(run, *given, of=[problem], options=options, limit=max_iterations, name="least_squares")
    x = attach_minimum(grad(_cost_of(weighted)), end.x, problem.params, box, end.status)
    residual, gradient = end.residuals, end.gradient
    if x is not end.x:  # so that they have derivatives too
        residual, pull = vjp(lambda v: weighted(v, *problem.params), x)
        (gradient,) = pull(residual)
    work, total = (end.iterations, end.evaluations, end.status), 0.5 * vecdot(residual, residual)
    own = residual if loss == "linear" else residuals(x, *problem.params)
    return LeastSquaresResult(*work, unravel(x), total, own, unravel(gradient))


def _cost_of(residuals: Callable[..., Array]) -> Callable[..., Array]:
    """Return half the sum of squares of residuals."""

    def cost(x: Array, *params: Any) -> Array:
        r = residuals(x, *params)
        return 0.5 * vecdot(r, r)

    return cost


@attrs.frozen
class Search:
    """Residuals and their Jacobian as functions of the point, how steps are found, bounds, and the cosine to be reached."""

    residuals: Callable[[Array], Array]
    jacobian: Callable[[Array], Any]
    rule: Rule
    box: Box | None
    tolerance: float


def _search_of(
    residuals: Callable[[Array], Array], method: str, sparse: bool, box: Box | None, tolerance: float
) -> Search:
    if method not in ("levenberg_marquardt", "gauss_newton"):
        raise ArgumentError(
            f"least_squares: no such method: got {method!r}; use 'levenberg_marquardt' or 'gauss_newton'"
        )
    if sparse and method == "gauss_newton":
        raise ArgumentError("least_squares: sparse Jacobians: got method='gauss_newton'; use 'levenberg_marquardt'")
    rule = GAUSS_NEWTON if method == "gauss_newton" else DAMPED if sparse else WITHIN
    return Search(residuals, sparse_jacobian(residuals) if sparse else jacfwd(residuals), rule, box, tolerance)


def _first(search: Search, x: Array) -> Iterate:
    """Return the state at the start."""
    r, matrix = search.residuals(x), search.jacobian(x)
    gradient, scale = transpose(matrix) @ r, squared_columns(matrix)
    status = _status_at(search, x, r, gradient, matrix)
    fixed = search.rule.first(x, scale), asarray(2.0, x.dtype), asarray(0), asarray(1), status
    return Iterate(x, r, matrix, gradient, scale, *fixed)


def _advance(search: Search, s: Iterate) -> Iterate:
    """Return the state after a trial, which stays where the cost does not fall."""
    rule, eps = search.rule, epsilon(s.x.dtype)
    x = s.x + rule.find(s) if search.box is None else _bounded_step(s, rule.find, search.box)
    step = x - s.x
    r = search.residuals(x)
    # of the linear model: cost before minus cost after
    moved = s.jacobian @ step
    expected = -vecdot(s.gradient, step) - 0.5 * vecdot(moved, moved)
    gain = 0.5 * vecdot(s.residuals - r, s.residuals + r) / where(expected > 0, expected, 1.0)
    matrix = search.jacobian(x)
    gradient = transpose(matrix) @ r
    # where the cost changes by rounding alone, the gradient tells whether a step is one forward
    rounding = abs(expected) <= 100 * eps * vecdot(s.residuals, s.residuals)
    flatter = vector_norm(_slope(x, gradient, search.box)) < vector_norm(_slope(s.x, s.gradient, search.box))
    good = (expected > 0) & where(rounding, flatter, gain > LEAST_GAIN)
    ended = choose_status(all_(isfinite(r)) & isfinite(expected), Status.CONVERGED, Status.STALLED)
    status = where(good, _status_at(search, x, r, gradient, matrix), int(Status.RUNNING))
    stops = (norm_of(step) <= FEW * eps * norm_of(s.x)) | (rounding & ~flatter)
    status = where((status == int(Status.RUNNING)) & stops, ended, status)
    damping, growth = rule.adapt(s, step, good, gain)
    proposed = x, r, matrix, gradient, maximum(s.scale, squared_columns(matrix))
    chosen = choose(good, proposed, (s.x, s.residuals, s.jacobian, s.gradient, s.scale))
    return Iterate(*chosen, damping, growth, s.iterations + 1, s.evaluations + 1, status)


def _status_at(search: Search, x: Array, r: Array, gradient: Array, matrix: Array | SparseMatrix) -> Array:
    """Return whether residuals are at right angles to the columns of the Jacobian that can move."""
    bound = search.tolerance * sqrt(squared_columns(matrix)) * vector_norm(r)
    small = all_(abs(_slope(x, gradient, search.box)) <= bound)
    finite = all_(isfinite(r)) & all_(isfinite(gradient))
    return where(finite, choose_status(small, Status.CONVERGED, Status.RUNNING), int(Status.NONFINITE))


def _slope(x: Array, gradient: Array, box: Box | None) -> Array:
    """Return the gradient by the unknowns that can move: 0 for those that it pushes against the bound at which they are."""
    if box is None:
        return gradient
    return where(((x <= box.lower) & (gradient > 0)) | ((x >= box.upper) & (gradient < 0)), 0.0, gradient)


def _bounded_step(s: Iterate, find: Callable[[Iterate], Array], box: Box) -> Array:
    """Return the next point inside of the bounds: a step of the free unknowns, and the others' way to their bound."""
    free = free_unknowns(s.x, s.gradient, box)
    matrix, moving = s.jacobian, free.astype(s.x.dtype)
    if isinstance(matrix, SparseMatrix):
        masked: Array | SparseMatrix = SparseMatrix(
            matrix.values * moving[matrix.indices[:, 1]], matrix.indices, matrix.shape
        )
    else:
        masked = matrix * moving
    step = find(attrs.evolve(s, jacobian=masked, gradient=s.gradient * moving))
    return box.project(where(free, s.x + step, where(s.gradient > 0, box.lower, box.upper)))


# --- `curve_fit`: the parameters of a model that fit measurements, and how well they are known

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
    check_callable(fn, "curve_fit")

    def residuals(p: T, of_x: X, measured: Array, spread: ArrayLike) -> Array:
        model = asarray(fn(p, of_x))
        if model.shape != measured.shape:
            raise ShapeError(
                f"curve_fit: the model has the shape of y: got {model.aval} for {measured.aval}; reshape one"
            )
        residual = (model - measured) / spread
        if residual.shape != measured.shape:
            raise ShapeError(
                f"curve_fit: sigma is one standard deviation, or one of each measurement: got {residual.aval} of "
                f"{measured.aval}; reshape it, or take the root of a covariance's diagonal"
            )
        return residual

    args = (x, asarray(y), 1.0 if sigma is None else sigma)
    options: Any = {"bounds": bounds, "loss": loss, "loss_scale": loss_scale, "tolerance": tolerance}
    result = least_squares(residuals, init, *args, method=method, max_iterations=max_iterations, **options)
    vector, unravel = flatten_to_vector(result.x, "curve_fit")

    def at(v: Array) -> Array:
        return as_vector(residuals(unravel(v), *args), v.dtype, "curve_fit")

    covariance = _covariance(jacfwd(at)(vector), None if absolute_sigma else 2 * result.cost)
    errors = unravel(sqrt(diagonal(covariance)))
    work = result.iterations, result.evaluations, result.status
    return CurveFitResult(*work, result.x, result.cost, result.residuals, result.gradient, covariance, errors)


def _covariance(jacobian: Array, squares: Array | None) -> Array:
    """Return the inverse of ``Jᵀ J``, infinite where columns depend on each other, or residuals are too few.

    Args:
        jacobian: of the residuals.
        squares: the sum of the residuals' squares, which tells their scale; None where that is known.
    """
    m, n = jacobian.shape
    if m < n + (squares is not None):
        return full((n, n), np.inf, jacobian.dtype)
    scale = 1.0 if squares is None else squares / max(m - n, 1)
    triangle = qr(jacobian)[1]

    def column(unit: Array) -> Array:
        return solve_or_nan(triangle, unit)

    rows = vmap(column)(eye(n, dtype=triangle.dtype))  # the transposed inverse
    pivots = abs_(diagonal(triangle))
    lost = ~(min_(pivots) > n * epsilon(triangle.dtype) * max_(pivots))
    return where(lost, np.inf, rows.T @ rows * scale)
