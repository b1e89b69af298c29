"""`quad`: the integral of a function of one number over a range, on a mesh that is halved."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx import pytree
from afx.control.cond import cond
from afx.control.solving import (
    Parametrized,
    Status,
    as_vector,
    attach_derivative,
    choose_status,
    is_converged,
    iterate,
    norm_of,
    parametrize,
    stopped,
)
from afx.core import Array, ArrayLike, Aval, DType, Tracer, any_traced, aval_of, epsilon, get_default_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.integrate.step import QuadResult
from afx.ops import abs as abs_, arange, argmax, asarray, reshape, stop_gradient, zeros
from afx.ops.elementwise.comparison import isfinite, maximum, minimum, where
from afx.ops.reductions.sums import all as all_, max as max_, min as min_, sum as sum_
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import eval_shape
from afx.transforms.derivatives.jvp import push_through
from afx.transforms.vmap import vmap

__all__ = ["quad"]

# --- Gauss-Kronrod rule: nodes and weights of 10 and 21 points on [0, 1]
#
# Source: QUADPACK's ``qk21`` (Piessens, de Doncker-Kapenga, Überhuber & Kahaner 1983).

_POSITIVE = (
    0.995657163025808080735527280689003,
    0.973906528517171720077964012084452,
    0.930157491355708226001207180059508,
    0.865063366688984510732096688423493,
    0.780817726586416897063717578345042,
    0.679409568299024406234327365114874,
    0.562757134668604683339000099272694,
    0.433395394129247190799265943165784,
    0.294392862701460198131126603103866,
    0.148874338981631210884826001129720,
)
_KRONROD = (
    0.011694638867371874278064396062192,
    0.032558162307964727478818972459390,
    0.054755896574351996031381300244580,
    0.075039674810919952767043140916190,
    0.093125454583697605535065465083366,
    0.109387158802297641899210590325805,
    0.123491976262065851077958109585166,
    0.134709217311473325928054001771707,
    0.142775938577060080797094273138717,
    0.147739104901338491374841515972068,
)
_MIDDLE = 0.149445554002916905664936468389821
_GAUSS = (
    0.066671344308688137593568809893332,
    0.149451349150580593145863396957658,
    0.219086362515982043995534934228163,
    0.269266719309996355091226921569469,
    0.295524224714752870173815619188769,
)
_SPARSE = [w for g in _GAUSS for w in (0.0, g)]

NODES = 0.5 + 0.5 * np.array([*[-x for x in _POSITIVE], 0.0, *_POSITIVE[::-1]])
WEIGHTS = 0.5 * np.array([*_KRONROD, _MIDDLE, *_KRONROD[::-1]])
GAUSS_WEIGHTS = 0.5 * np.array([*_SPARSE, 0.0, *_SPARSE[::-1]])


# --- Extrapolation of slowly converging sequences: limits of sums near an end of a range where a function is singular
#
# Source: Wynn 1956, "On a device for computing the e_m(S_n) transformation", as in QUADPACK's ``qelg`` (Piessens et
# al. 1983). Sums up to ever nearer to x**p log(x)**k fall geometrically, and so does what is left: the algorithm is
# exact of few such terms. Written in afx's own operations, it has derivatives of every order.


def limit_of(sums: Array) -> tuple[Array, Array]:
    """Return the limit of a sequence and an estimate of its error, infinite where terms do not shrink.

    Args:
        sums: float[terms, values], an odd number of terms, 5 or more.
    """
    before, row = 0.0 * sums, sums
    best, error = sums[-1], abs_(sums[-1] - sums[-2])
    last = best
    for column in range(1, sums.shape[0]):
        gaps = row[1:] - row[:-1]
        still = gaps == 0
        following = before[1 : len(row)] + where(still, 0.0, 1 / where(still, 1.0, gaps))
        before, row = row, following
        if column % 2 == 0:
            known = stop_gradient(row)
            near = abs_(known[-1] - stop_gradient(last)) + (abs_(known[-1] - known[-2]) if len(row) > 1 else 0.0)
            last = row[-1]
            better = near < error
            best, error = where(better, row[-1], best), where(better, near, error)
    terms = stop_gradient(abs_(sums[1:] - sums[:-1]))
    shrinks = (terms[-1] < terms[-2]) | (terms[-1] == 0)
    rounding = 10 * epsilon(sums.dtype) * abs_(stop_gradient(best))
    return where(shrinks, best, sums[-1]), where(shrinks, maximum(stop_gradient(error), rounding), np.inf)


# --- Meshes of `quad`: intervals that were halved, and integrals near ends where a function is singular


@attrs.frozen
class Mesh:
    """The intervals so far: [0, 1] in pieces; those that are not used yet are empty.

    Attributes:
        lower: float[intervals].
        upper: float[intervals].
        values: float[intervals, values], the integral over each.
        errors: float[intervals], an estimate of its error.
        iterations: the number of intervals that were halved.
        evaluations: of the integrand.
        status: a `Status`.
    """

    lower: Array
    upper: Array
    values: Array
    errors: Array
    iterations: Array
    evaluations: Array
    status: Array


def _terms(dtype: DType) -> int:
    """Return how many sums are extrapolated, an odd number: what is halved as often at an end may be singular there."""
    return 13 if np.finfo(dtype).nmant > 23 else 7


def settled(lower: Array, upper: Array) -> Array:
    """Tell of each interval whether it stands at an end and is as small as intervals there become.

    Numbers near 1 are less exact than those near 0.
    """
    digits = int(np.finfo(lower.dtype).nmant)
    left, right = digits // 2, max(digits // 2 - 8, _terms(lower.dtype))
    at_left, at_right = (lower == 0) & (upper <= 2.0**-left), (upper == 1) & (lower >= 1 - 2.0**-right)
    return (upper > lower) & (at_left | at_right)


def with_ends(mesh: Mesh, values: Array) -> tuple[Array, Array]:
    """Return the integral and its error, with that near an end by extrapolation where it was halved often."""
    estimate = sum_(values, axis=0), sum_(mesh.errors) + 0.0 * stop_gradient(values[0])
    left = mesh.upper <= 0.5, mesh.lower == 0, mesh.lower, mesh.upper
    right = mesh.lower >= 0.5, mesh.upper == 1, 1 - mesh.upper, 1 - mesh.lower
    for side, at_end, near, far in (left, right):
        used = mesh.upper > mesh.lower
        width = min_(where(used & at_end, far, 1.0))

        def extrapolated(
            z: Array, error: Array, v: Array, s: Array = side & used, n: Array = near, w: Array = width
        ) -> tuple[Array, Array]:
            return _extrapolate_end(z, error, v, mesh.errors, s, n, w)

        deep = width * 2.0 ** (_terms(values.dtype) - 1) <= 0.5
        estimate = cond(deep, extrapolated, lambda z, error, _: (z, error), *estimate, values)
    return estimate


def _extrapolate_end(
    z: Array, error: Array, values: Array, errors: Array, side: Array, near: Array, width: Array
) -> tuple[Array, Array]:
    """Return the integral with its part at one side of the range extrapolated, where that is more exact.

    Args:
        z: the integral so far.
        error: of it.
        values: of the intervals.
        errors: of the intervals.
        side: which intervals are on that side.
        near: how far each is from the end.
        width: of the interval at the end.
    """
    cuts = width * asarray(2.0 ** np.arange(_terms(values.dtype) - 1, -1, -1), values.dtype)
    beyond = side & (near >= cuts[:, None])
    limit, rest = limit_of(sum_(where(beyond[:, :, None], values, 0.0), axis=1))
    known = sum_(where(beyond[-1], 0.0, where(side, errors, 0.0)))
    small = width <= 2.0 ** -(int(np.finfo(values.dtype).nmant) // 2 - 8)
    better = small | (rest < known)
    part = sum_(where(side[:, None], values, 0.0), axis=0)
    return where(better, z - part + limit, z), where(better, error - known + rest, error)


# --- `quad`

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Integrand = Callable[..., Array]  # (position in [0, 1], lower, upper, *params) to the integrand there, a vector


def quad(
    fn: Callable[[Array, *Ts], T],
    lower: ArrayLike,
    upper: ArrayLike,
    *args: *Ts,
    rtol: float | None = None,
    atol: float | None = None,
    max_intervals: int = 100,
    points: Sequence[ArrayLike] = (),
) -> QuadResult[T]:
    """Return the integral of ``fn(x, *args)`` over x from ``lower`` to ``upper``.

    Intervals are halved where the error is largest, by the Gauss-Kronrod rule of 10 and 21 points with the error
    estimate of QUADPACK's ``qag`` (Piessens et al. 1983); infinite ranges are mapped to finite ones as in ``qagi``. Where
    the function is singular at an end, and has an integral, that is extrapolated from sums up to ever nearer to the end
    by Wynn's algorithm, as in ``qags``. The integral is differentiable by its limits, by ``args``, and by traced arrays
    that ``fn`` closes over, in both modes and every order; derivatives of what has not converged are nan. Works under `jit`
    and `vmap`.

    Args:
        fn: a function of one number and ``args`` that returns real numbers, any tree; it is called under `vmap`.
        lower: the lower limit, which may be -inf.
        upper: the upper limit, which may be inf. Traced limits are finite.
        *args: what else ``fn`` takes, any trees.
        rtol: of the error, relative to the largest integral; without it the square root of the precision, 1.5e-8 in
            float64 and 3.5e-4 in float32.
        atol: the error that is allowed in any case; as rtol without it.
        max_intervals: the limit of intervals, between each two points.
        points: between the limits, in any order: where the function is singular, jumps or has a kink.

    Raises:
        ArgumentError: points outside of the range.
        ShapeError: a limit is no scalar.
        DtypeError: a limit or a result is no real number.

    >>> import afx
    >>> quad(lambda x: afx.exp(-x * x), np.float64(-np.inf), np.inf).value ** 2
    Array(3.14159265, dtype=float64)
    """
    check_callable(fn, "quad")
    if max_intervals < 1:
        raise ArgumentError(f"quad: max_intervals is a number of intervals: got {max_intervals}; give 1 or more")
    dtype = _dtype(lower, upper, args)
    shapes = eval_shape(fn, Aval((), dtype), *args)
    problem = parametrize(fn, [lambda x: x], [Aval((), dtype)], args, "quad")
    precise = epsilon(dtype) ** 0.5
    cuts = [_limit(x, dtype) for x in _order_limits(lower, upper, points)]
    tolerance = (precise if rtol is None else rtol, (precise if atol is None else atol) / (len(cuts) - 1))
    parts = [_between(problem, a, b, tolerance, max_intervals) for a, b in itertools.pairwise(cuts)]
    total = functools.reduce(Integral.joined, parts)
    value, error = _restore_tree(total.value, shapes), max_(total.error, initial=0.0)
    return QuadResult(total.iterations, total.evaluations, total.status, value, error)


def _order_limits(lower: ArrayLike, upper: ArrayLike, points: Sequence[ArrayLike]) -> list[ArrayLike]:
    """Return the limits with the points between them; points that are known are sorted, and checked."""
    cuts = [lower, *points, upper]
    if not points or any_traced(cuts):
        return cuts
    known = [float(asarray(x)) for x in cuts]
    between = sorted(known[1:-1], reverse=known[0] > known[-1])
    if not all(min(known[0], known[-1]) < p < max(known[0], known[-1]) for p in between):
        raise ArgumentError(
            f"quad: points lie between the limits: got {between} for {known[0]} to {known[-1]}; leave them out"
        )
    return [lower, *between, upper]


@attrs.frozen
class Integral:
    """An integral between two points, as a vector, with its error and the work it took."""

    value: Array
    error: Array
    iterations: Array
    evaluations: Array
    status: Array

    def joined(self, other: Integral) -> Integral:
        """Return the integral over both ranges; the status is that of the one that did not converge."""
        return Integral(
            self.value + other.value,
            self.error + other.error,
            self.iterations + other.iterations,
            self.evaluations + other.evaluations,
            maximum(self.status, other.status),
        )


def _between(
    problem: Parametrized[Any], lower: Array, upper: Array, tolerance: tuple[float, float], limit: int
) -> Integral:
    """Return the integral between two limits."""
    dtype: DType = lower.dtype
    place, ends = _range(lower, upper)

    def integrand(u: Array, a: Array, b: Array, *params: Any) -> Array:
        terms = [w * as_vector(problem.fn(x, *params), dtype, "quad") for x, w in place(u, a, b)]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    values = [*ends, *problem.params]
    adaptive = Adaptive(_rule_of(integrand, stopped(values), dtype), *tolerance, epsilon(dtype))
    end = iterate(_first_mesh(adaptive, dtype, limit), functools.partial(_halve_worst, adaptive), limit - 1)
    total, error = with_ends(end, end.values)

    small = max_(error, initial=0.0) <= maximum(tolerance[1], tolerance[0] * norm_of(total))
    failed = where(end.status == int(Status.CONVERGED), int(Status.STALLED), end.status)
    finite = end.status != int(Status.NONFINITE)
    status = where(finite & small, int(Status.CONVERGED), failed)

    def slope(_: Array, ps: Sequence[Any], ts: Sequence[Any]) -> Array:
        pushed: Array = push_through(lambda *v: [with_ends(end, _integrals(integrand, end, v))[0]], ps, ts)[1][0]
        return pushed * where(is_converged(status), asarray(1, dtype), np.nan)

    value = attach_derivative("quad", total, values, slope)
    return Integral(value, error, end.iterations, end.evaluations, status)


# -- ranges --
def _dtype(lower: Any, upper: Any, args: Any) -> DType:
    """Return the dtype of the nodes: that of limits and arguments, the default one of Python's numbers."""
    avals = [aval_of(x, "quad") for x in (lower, upper, *pytree.leaves(args))]
    strong = [a.dtype for a in avals if not a.weak and a.dtype.kind == "f"]
    return np.result_type(np.float32, *strong) if strong else np.dtype(get_default_dtype())


def _limit(x: ArrayLike, dtype: DType) -> Array:
    aval = aval_of(x, "quad")
    if aval.shape != ():
        raise ShapeError(f"quad: limits are scalars: got {aval}; use afx.vmap for a batch of ranges")
    if aval.dtype.kind not in "fiu":
        raise DtypeError(f"quad: limits are real numbers: got {aval}; write the path as a function of a real number")
    return asarray(x).astype(dtype)


def _range(
    lower: Array, upper: Array
) -> tuple[Callable[[Array, Array, Array], list[tuple[Array, Array]]], list[Array]]:
    """Return the map of [0, 1] to points and their weights, and finite numbers in place of the limits."""
    low, high = [not isinstance(x, Tracer) and bool(np.isinf(np.asarray(x))) for x in (lower, upper)]
    backward = (low and float(lower) > 0) or (high and float(upper) < 0)
    sign = 0.0 if backward and low and high and float(lower) == float(upper) else -1.0 if backward else 1.0

    def far(u: Array) -> tuple[Array, Array]:
        return (1 - u) / u, sign * (1 / (u * u))

    def above(u: Array, a: Array, _: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(a + x, w)]

    def below(u: Array, _: Array, b: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(b - x, w)]

    def whole(u: Array, *_: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(x, w), (-x, w)]

    nought = zeros((), lower.dtype)
    if low and high:
        return whole, [nought, nought]
    if low:
        return (above, [upper, nought]) if backward else (below, [nought, upper])
    if high:
        return (below, [nought, lower]) if backward else (above, [lower, nought])
    return lambda u, a, b: [(a + (b - a) * u, b - a)], [lower, upper]


# -- intervals --
def _rule_of(
    integrand: Integrand, params: Sequence[Any], dtype: DType
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Return the rule of Gauss and Kronrod: the ends of an interval to the integral and its error."""
    nodes, weights = NODES.astype(dtype), WEIGHTS.astype(dtype)
    difference = (WEIGHTS - GAUSS_WEIGHTS).astype(dtype)
    eps = epsilon(dtype)

    def at(u: Array) -> Array:
        return integrand(u, *params)

    def rule(a: Array, b: Array) -> tuple[Array, Array]:
        """Return the integral and its error as QUADPACK estimates it, from how far values spread."""
        f = vmap(at)(a + (b - a) * nodes)
        value = weights @ f
        size = (b - a) * (weights @ abs_(f))
        spread = (b - a) * (weights @ abs_(f - value))
        error = abs_((b - a) * (difference @ f))
        some = spread > 0
        share = minimum(1.0, (200 * error / where(some, spread, 1.0)) ** 1.5)
        error = where(some & (error > 0), spread * share, error)
        rounding = 50 * eps * size
        error = where(size > float(np.finfo(dtype).tiny) / (50 * eps), maximum(rounding, error), error)
        return (b - a) * value, max_(error, initial=0.0)

    return rule


@attrs.frozen
class Adaptive:
    """The rule on an interval, the tolerances of the integral, and the spacing of its numbers."""

    rule: Callable[[Array, Array], tuple[Array, Array]]
    rtol: float
    atol: float
    eps: float


def _first_mesh(adaptive: Adaptive, dtype: DType, limit: int) -> Mesh:
    """Return the mesh of one interval, with room for others."""
    is_first = arange(limit) == 0
    value, error = adaptive.rule(asarray(0.0, dtype), asarray(1.0, dtype))
    empty = asarray(np.full(limit, 0.5), dtype)
    values, errors = where(is_first[:, None], value, 0.0), where(is_first, error, 0.0)
    lower, upper = where(is_first, 0.0, empty), where(is_first, 1.0, empty)
    status = _status_of(adaptive, lower, upper, values, errors)
    return Mesh(lower, upper, values, errors, asarray(0), asarray(len(NODES)), status)


def _halve_worst(adaptive: Adaptive, m: Mesh) -> Mesh:
    """Return the mesh with its interval of the largest error in halves."""
    index, eps = arange(len(m.lower)), adaptive.eps
    worst = argmax(where(settled(m.lower, m.upper), 0.0, m.errors))
    is_worst, new = index == worst, index == m.iterations + 1
    a, b = m.lower[worst], m.upper[worst]
    middle = 0.5 * (a + b)
    (left, left_error), (right, right_error) = adaptive.rule(a, middle), adaptive.rule(middle, b)
    values = where(is_worst[:, None], left, where(new[:, None], right, m.values))
    errors = where(is_worst, left_error, where(new, right_error, m.errors))
    lower, upper = where(new, middle, m.lower), where(is_worst, middle, where(new, b, m.upper))
    status = _status_of(adaptive, lower, upper, values, errors)
    # halves of an interval this small are the interval
    narrow = (b - a) <= 8 * eps * maximum(abs_(b), float(np.finfo(b.dtype).tiny))
    useless = narrow | (left_error + right_error <= 100 * eps * norm_of(left + right))
    status = where((status == int(Status.RUNNING)) & narrow & useless, int(Status.STALLED), status)
    return Mesh(lower, upper, values, errors, m.iterations + 1, m.evaluations + 2 * len(NODES), status)


def _status_of(adaptive: Adaptive, lower: Array, upper: Array, values: Array, errors: Array) -> Array:
    """Return whether the errors add up to one within the tolerance."""
    ends = settled(lower, upper)
    total = sum_(where(ends[:, None], 0.0, values), axis=0)
    small = sum_(where(ends, 0.0, errors)) <= maximum(adaptive.atol, adaptive.rtol * norm_of(total))
    return where(all_(isfinite(total)), choose_status(small, Status.CONVERGED, Status.RUNNING), int(Status.NONFINITE))


def _integrals(integrand: Integrand, mesh: Mesh, values: Sequence[Any]) -> Array:
    """Return the integrals over the intervals of a mesh as a function of limits and parameters."""
    width = (mesh.upper - mesh.lower)[:, None]
    u = reshape(mesh.lower[:, None] + width * NODES.astype(width.dtype), (-1,))

    def at(v: Array) -> Array:
        return integrand(v, *values)

    values_at = vmap(at)(u)
    parts = reshape(values_at, (width.shape[0], len(NODES), *values_at.shape[1:]))
    return width * sum_(parts * WEIGHTS.astype(width.dtype)[:, None], axis=1)


def _restore_tree(value: Array, shapes: Any) -> Any:
    """Return a vector as the tree that the integrand returns."""
    leaves, tree = pytree.flatten(shapes)
    ends = np.cumsum([a.size for a in leaves]).tolist()
    return pytree.unflatten(tree, [reshape(value[e - a.size : e], a.shape) for a, e in zip(leaves, ends, strict=True)])
