"""`least_squares`: a tree of arrays for which a vector of residuals is smallest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.solving.functions import flatten_to_vector, parametrize, stopped
from afx.control.solving.report import Status, choose_status
from afx.control.solving.vectors import as_vector, iterate, norm_of
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, where
from afx.ops.linalg.products import vecdot
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.moments import vector_norm
from afx.optim.solvers.descend import Box, attach_minimum, box_of, free_unknowns
from afx.optim.solvers.gauss_newton_steps import DAMPED, GAUSS_NEWTON, WITHIN, Iterate, Rule, squared_columns, transpose
from afx.optim.solvers.line_search import choose
from afx.optim.solvers.results import LeastSquaresResult
from afx.optim.solvers.robust import Loss, robust_residuals
from afx.transforms.derivatives.grad import grad
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.derivatives.vjp import vjp
from afx.transforms.sparse.sparse_derivatives import sparse_jacobian
from afx.transforms.sparse.sparse_matrix import SparseMatrix

__all__ = ["LeastSquaresMethod", "least_squares"]

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
        init: the start, a tree of arrays; leaves that are not trained stay as they are.
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
    start, unravel = flatten_to_vector(init, "least_squares")
    start = stopped([start])[0]
    box = box_of(bounds, start, "least_squares")
    inside = None if box is None else box.stopped()
    start = start if inside is None else inside.project(start)
    problem = parametrize(fn, [unravel], [start.aval], args, "least_squares")

    def residuals(x: Array, *params: Any) -> Array:
        return as_vector(problem.fn(x, *params), x.dtype, "least_squares")

    def weighted(x: Array, *params: Any) -> Array:
        return robust_residuals(residuals(x, *params), loss, loss_scale)

    def cost(x: Array, *params: Any) -> Array:
        r = weighted(x, *params)
        return 0.5 * vecdot(r, r)

    held = stopped(problem.params)

    def plain(x: Array) -> Array:
        return weighted(x, *held)

    limit = float(np.finfo(start.dtype).eps ** 0.75 if tolerance is None else tolerance)
    search = _search_of(plain, method, sparse, inside, limit)
    end = iterate(_first(search, start), functools.partial(_advance, search), max_iterations)
    x = attach_minimum(grad(cost), end.x, problem.params, box, end.status)
    found, gradient = end.residuals, end.gradient
    if x is not end.x:  # so that they have derivatives too
        found, pull = vjp(lambda v: weighted(v, *problem.params), x)
        (gradient,) = pull(found)
    work, total = (end.iterations, end.evaluations, end.status), 0.5 * vecdot(found, found)
    own = found if loss == "linear" else residuals(x, *problem.params)
    return LeastSquaresResult(*work, unravel(x), total, own, unravel(gradient))


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
    rule, eps = search.rule, float(np.finfo(s.x.dtype).eps)
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
    here = x, r, matrix, gradient, maximum(s.scale, squared_columns(matrix))
    kept = choose(good, here, (s.x, s.residuals, s.jacobian, s.gradient, s.scale))
    return Iterate(*kept, damping, growth, s.iterations + 1, s.evaluations + 1, status)


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
