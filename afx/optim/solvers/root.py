"""`root`: a point where a function of a tree of arrays is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.cond import cond
from afx.control.solving.functions import attach_implicit_derivative, flatten_to_vector, parametrize, stopped
from afx.control.solving.report import Status, choose_status, is_converged
from afx.control.solving.vectors import as_vector, bound_vector, iterate, norm_of
from afx.control.while_loop import while_loop
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sign
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, where
from afx.ops.linalg.products import outer, vecdot
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.shape import broadcast_to
from afx.ops.reductions.boolean import all as all_
from afx.optim.solvers.bracketing import Bracket, narrow
from afx.optim.solvers.results import RootResult
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.sparse.sparse_derivatives import sparse_jacobian
from afx.transforms.sparse.sparse_matrix import SparseMatrix

__all__ = ["RootMethod", "newton", "root", "root_scalar"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RootMethod = Literal["newton", "broyden", "bisection", "chandrupatla"]

DECREASE = 1e-4
HALVINGS = 30
FEW = 4  # ulps, below which a step is rounding


def root(
    fn: Callable[[T, *Ts], Any],
    init: T,
    *args: *Ts,
    method: RootMethod = "newton",
    bracket: tuple[Any, Any] | None = None,
    sparse: bool = False,
    tolerance: float | None = None,
    max_iterations: int = 200,
) -> RootResult[T]:
    """Return a point near a start where ``fn(x, *args)`` is 0.

    The point is differentiable by ``args``, and by traced arrays that ``fn`` closes over, in both modes and every order:
    by the implicit function theorem, not through the iterations. Works under `jit` and `vmap`.

    ================  ======================================================================================
    ``newton``        Newton's method with the exact Jacobian, shortened until the residual falls
    ``broyden``       one Jacobian, then rank-one updates (Broyden 1965, the good formula)
    ``bisection``     for each element by itself, inside of a bracket; finds sign changes in any function
    ``chandrupatla``  the same with interpolation where that is safe: in a fifth of the evaluations
    ================  ======================================================================================

    Args:
        fn: a function of a tree and ``args`` that returns as many numbers as the tree has, in any tree.
        init: the start, a tree of arrays; leaves that are not trained stay as they are. Bisection reads its shapes.
        *args: what else ``fn`` takes, any trees.
        method: how roots are found.
        bracket: ``(lower, upper)``, numbers or trees of the structure of ``init``, where ``fn`` has opposite signs; for
            bisection.
        sparse: takes the Jacobian by `sparse_jacobian`, and solves for steps and derivatives by SciPy's SuperLU; for
            ``newton``.
        tolerance: of the largest absolute value of ``fn``; without it the precision to the power 3/4, 1.8e-12 in
            float64 and 6.4e-6 in float32. A Newton step as small as the rounding of x counts as convergence too.
            Bisection goes on until the bracket is as small as rounding.
        max_iterations: the limit.

    Raises:
        ArgumentError: no such method; bisection without a bracket.
        ShapeError: ``fn`` returns another number of numbers.

    >>> import afx
    >>> result = root(lambda x, a: x * x - a, afx.ones(2), afx.asarray([4.0, 9.0]))
    >>> result.x, bool(result.converged)
    (Array([2., 3.], dtype=float32), True)
    """
    start, unravel = flatten_to_vector(init, "root")
    start = stopped([start])[0]
    problem = parametrize(fn, [unravel], [start.aval], args, "root")

    def residual(x: Array, *params: Any) -> Array:
        r = as_vector(problem.fn(x, *params), x.dtype, "root")
        if r.shape != x.shape:
            raise ShapeError(
                f"root: as many equations as unknowns: got {r.shape[0]} values for {x.shape[0]} unknowns; "
                "use least_squares for another number"
            )
        return r

    held = stopped(problem.params)
    limit = float(np.finfo(start.dtype).eps ** 0.75 if tolerance is None else tolerance)

    def plain(x: Array) -> Array:
        return residual(x, *held)

    end = _find(plain, start, method, bracket, limit, max_iterations, sparse)
    x = attach_implicit_derivative(residual, end.x, problem.params, is_converged(end.status), sparse=sparse)
    found = end.residual if x is end.x else residual(x, *problem.params)
    return RootResult(end.iterations, end.evaluations, end.status, unravel(x), found)


def root_scalar(
    fn: Callable[[Array, *Ts], Any],
    bracket: tuple[ArrayLike, ArrayLike],
    *args: *Ts,
    max_iterations: int = 200,
) -> RootResult[Array]:
    """Return the number between two others, at which ``fn(x, *args)`` has opposite signs, where it is 0.

    The method is Chandrupatla's of 1997, which never leaves the bracket and takes some ten evaluations; arrays of
    brackets are searched together, each element by itself. Derivatives are those of `root`.

    Args:
        fn: a function of a number and ``args`` that returns a number; of arrays it works element by element.
        bracket: both numbers, or arrays of them.
        *args: what else ``fn`` takes, any trees.
        max_iterations: the limit.

    Raises:
        ArgumentError: the bracket is no pair.

    >>> root_scalar(lambda x: x**3 - x - 2, (1.0, np.float64(2.0))).x
    Array(1.52137971, dtype=float64)
    """
    given: Any = bracket
    if not isinstance(given, (tuple, list)) or len(bracket) != 2:
        raise ArgumentError(f"root_scalar: the bracket is two numbers: got {bracket!r}; give (lower, upper)")
    lower, upper = promote_operands(*bracket)
    middle = 0.5 * (stop_gradient(lower) + stop_gradient(upper))
    ends = broadcast_to(lower, middle.shape), broadcast_to(upper, middle.shape)
    return root(fn, middle, *args, method="chandrupatla", bracket=ends, max_iterations=max_iterations)


def _find(
    plain: Callable[[Array], Array],
    start: Array,
    method: str,
    bracket: Any,
    tolerance: float,
    max_iterations: int,
    sparse: bool,
) -> Iterate | Interval | Bracket:
    """Return the last state of a method."""
    if sparse and method != "newton":
        raise ArgumentError(f"root: sparse Jacobians: got method={method!r}; use 'newton'")
    if method in ("bisection", "chandrupatla"):
        if bracket is None:
            raise ArgumentError(f"root: {method} starts from a bracket: got none; give bracket=(lower, upper)")
        lower, upper = [stop_gradient(bound_vector(b, 0.0, start, "root")) for b in bracket]
        return (_bisect if method == "bisection" else narrow)(plain, lower, upper, max_iterations)
    if method in ("newton", "broyden"):
        return _newton(plain, start, tolerance, max_iterations, renew=method == "newton", sparse=sparse)
    raise ArgumentError(f"root: no such method: got {method!r}; use 'newton', 'broyden', 'bisection' or 'chandrupatla'")


@attrs.frozen
class Iterate:
    """The state of Newton's and Broyden's method; ``exact`` tells whether the matrix is the Jacobian at x."""

    x: Array
    residual: Array
    matrix: Array | SparseMatrix
    exact: Array
    iterations: Array
    evaluations: Array
    status: Array


def _status(x: Array, residual: Array, step: Array, tolerance: float) -> Array:
    rounding = FEW * np.finfo(x.dtype).eps * norm_of(x)
    small = (norm_of(residual) <= tolerance) | ((norm_of(step) <= rounding) & (norm_of(step) > 0))
    finite = all_(isfinite(residual)) & all_(isfinite(x))
    return where(finite, choose_status(small, Status.CONVERGED, Status.RUNNING), int(Status.NONFINITE))


def _newton(
    residual: Callable[[Array], Array], start: Array, tolerance: float, limit: int, *, renew: bool, sparse: bool = False
) -> Iterate:
    """Run Newton's method, or Broyden's where the matrix is renewed only when it leads nowhere."""
    jacobian: Callable[[Array], Any] = sparse_jacobian(residual) if sparse else jacfwd(residual)

    def advance(s: Iterate) -> Iterate:
        matrix = s.matrix
        step = -(matrix.solve(s.residual) if isinstance(matrix, SparseMatrix) else solve_or_nan(matrix, s.residual))
        x, found, length, count = _shorten(residual, s.x, s.residual, step)
        lower = length > 0
        taken = x - s.x
        status = where(lower, _status(x, found, step, tolerance), int(Status.RUNNING))
        # the last step of a convergence in rounding lowers nothing
        tiny = s.exact & (norm_of(step) <= FEW * np.finfo(x.dtype).eps * norm_of(s.x))
        ended = choose_status(tiny, Status.CONVERGED, Status.STALLED)
        status = where(~lower & s.exact, ended, status)
        fresh = ~lower | renew

        def keep(_: Array) -> Any:
            if renew or isinstance(matrix, SparseMatrix):
                return matrix
            change, square = found - s.residual - matrix @ taken, vecdot(taken, taken)
            return matrix + outer(change, taken) / where(square > 0, square, 1.0)

        following = cond(fresh & (status == int(Status.RUNNING)), jacobian, keep, x)
        return Iterate(x, found, following, fresh, s.iterations + 1, s.evaluations + count + fresh, status)

    first = residual(start)
    status = _status(start, first, start - start, tolerance)
    begin = Iterate(start, first, jacobian(start), asarray(True), asarray(0), asarray(2), status)
    return iterate(begin, advance, limit)


def newton(residual: Callable[[Array], Array], start: Array, tolerance: float, limit: int) -> Iterate:
    """Return the last state of Newton's method."""
    return _newton(residual, start, tolerance, limit, renew=True)


@attrs.frozen
class Trial:
    """The state of a search for a shorter step: point, residual, length, whether the residual fell, evaluations."""

    x: Array
    residual: Array
    length: Array
    lower: Array
    count: Array


def _shorten(
    residual: Callable[[Array], Array], x: Array, before: Array, step: Array
) -> tuple[Array, Array, Array, Array]:
    """Return point and residual after a step, halved until the residual falls, its length (or 0) and evaluations."""
    square = vecdot(before, before)

    def going(s: Trial) -> Array:
        return ~s.lower & (s.count < HALVINGS)

    def advance(s: Trial) -> Trial:
        length = s.length * where(s.count > 0, asarray(0.5, x.dtype), 1.0)
        there = x + length * step
        found = residual(there)
        lower = vecdot(found, found) <= (1 - DECREASE * length) * square
        return Trial(there, found, length, lower, s.count + 1)

    end = while_loop(going, advance, Trial(x, before, asarray(1.0, x.dtype), asarray(False), asarray(0)))
    return (
        where(end.lower, end.x, x),
        where(end.lower, end.residual, before),
        where(end.lower, end.length, 0.0),
        end.count,
    )


@attrs.frozen
class Interval:
    """The state of bisection: the ends of the bracket, the sign at the lower end, and the middle."""

    lower: Array
    upper: Array
    sign: Array
    x: Array
    residual: Array
    iterations: Array
    evaluations: Array
    status: Array


def _bisect(residual: Callable[[Array], Array], lower: Array, upper: Array, limit: int) -> Interval:
    """Run bisection for each element until the middle is one of the ends."""
    at_lower, at_upper = residual(lower), residual(upper)
    opposite = all_(sign(at_lower) * sign(at_upper) <= 0)

    def status_of(s: Interval) -> Array:
        eps = np.finfo(lower.dtype).eps
        narrow = abs_(s.upper - s.lower) <= FEW * eps * maximum(abs_(s.lower), abs_(s.upper))
        return choose_status(all_(narrow | (s.residual == 0)), Status.CONVERGED, Status.RUNNING)

    def advance(s: Interval) -> Interval:
        middle = s.lower + 0.5 * (s.upper - s.lower)
        found = residual(middle)
        right = sign(found) == s.sign
        hit = found == 0
        new = Interval(
            where(right | hit, middle, s.lower),
            where(right & ~hit, s.upper, middle),
            s.sign,
            middle,
            found,
            s.iterations + 1,
            s.evaluations + 1,
            s.status,
        )
        status = where(all_(isfinite(found)), status_of(new), int(Status.NONFINITE))
        return attrs.evolve(new, status=status)

    # an end that is a root already is the bracket
    upper = where(at_lower == 0, lower, upper)
    lower = where(at_upper == 0, upper, lower)
    status = choose_status(opposite, Status.RUNNING, Status.NO_BRACKET)
    begin = Interval(lower, upper, sign(at_lower), lower, at_lower, asarray(0), asarray(2), status)
    return iterate(begin, advance, limit)
