"""`quad`: the integral of a function of one number over a range."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx import pytree
from afx.control.solving.functions import Parametrized, attach_derivative, parametrize, stopped
from afx.control.solving.report import Status, choose_status, is_converged
from afx.control.solving.vectors import as_vector, iterate, norm_of
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import DType, get_default_dtype
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.integrate.kronrod import GAUSS_WEIGHTS, NODES, WEIGHTS
from afx.integrate.mesh import Mesh, settled, with_ends
from afx.integrate.results import QuadResult
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.ranges import arange
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import argmax
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import eval_shape
from afx.transforms.derivatives.flat_functions import push_through
from afx.transforms.vmap import vmap

__all__ = ["quad"]

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
    shapes: Any = eval_shape(fn, Aval((), dtype), *args)
    problem = parametrize(fn, [_same], [Aval((), dtype)], args, "quad")
    precise = float(np.finfo(dtype).eps) ** 0.5
    cuts = [_limit(x, dtype) for x in _order_limits(lower, upper, points)]
    tolerance = (precise if rtol is None else rtol, (precise if atol is None else atol) / (len(cuts) - 1))
    parts = [_between(problem, a, b, tolerance, max_intervals) for a, b in itertools.pairwise(cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = total.joined(part)
    return QuadResult(
        total.iterations,
        total.evaluations,
        total.status,
        _restore_tree(total.value, shapes),
        max_(total.error, initial=0.0),
    )


def _same(x: Array) -> Array:
    return x


def _order_limits(lower: ArrayLike, upper: ArrayLike, points: Sequence[ArrayLike]) -> list[ArrayLike]:
    """Return the limits with the points between them; points that are known are sorted, and checked."""
    cuts = [lower, *points, upper]
    if not points or any(isinstance(x, Tracer) for x in cuts):
        return cuts
    known = [float(asarray(x)) for x in cuts]
    inside = sorted(known[1:-1], reverse=known[0] > known[-1])
    if not all(min(known[0], known[-1]) < p < max(known[0], known[-1]) for p in inside):
        raise ArgumentError(
            f"quad: points lie between the limits: got {inside} for {known[0]} to {known[-1]}; leave them out"
        )
    return [lower, *inside, upper]


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
        terms: list[Array] = [w * as_vector(problem.fn(x, *params), dtype, "quad") for x, w in place(u, a, b)]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    values = [*ends, *problem.params]
    adaptive = Adaptive(_rule_of(integrand, stopped(values), dtype), *tolerance, float(np.finfo(dtype).eps))
    end = iterate(_first_mesh(adaptive, dtype, limit), functools.partial(_halve_worst, adaptive), limit - 1)
    found, error = with_ends(end, end.values)

    small = max_(error, initial=0.0) <= maximum(tolerance[1], tolerance[0] * norm_of(found))
    failed = where(end.status == int(Status.CONVERGED), int(Status.STALLED), end.status)
    finite = end.status != int(Status.NONFINITE)
    status = where(finite & small, int(Status.CONVERGED), failed)

    def slope(_: Array, ps: Sequence[Any], ts: Sequence[Any]) -> Array:
        pushed: Array = push_through(lambda *v: [with_ends(end, _integrals(integrand, end, v))[0]], ps, ts)[1][0]
        return pushed * where(is_converged(status), asarray(1, dtype), np.nan)

    value = attach_derivative("quad", found, values, slope)
    return Integral(value, error, end.iterations, end.evaluations, status)


# -- ranges --
def _dtype(lower: Any, upper: Any, args: Any) -> DType:
    """Return the dtype of the nodes: that of limits and arguments, the default one of Python's numbers."""
    avals = [aval_of(x, "quad") for x in (lower, upper, *pytree.leaves(args))]
    strong = [a.dtype for a in avals if not a.weak and a.dtype.kind == "f"]
    dtype: DType = np.result_type(np.float32, *strong) if strong else np.dtype(get_default_dtype())
    return dtype


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
    sign = -1.0 if backward else 1.0
    if backward and low and high and float(lower) == float(upper):
        sign = 0.0

    def finite(u: Array, a: Array, b: Array) -> list[tuple[Array, Array]]:
        return [(a + (b - a) * u, b - a)]

    def far(u: Array) -> tuple[Array, Array]:
        return (1 - u) / u, 1 / (u * u)

    def above(u: Array, a: Array, _: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(a + x, sign * w)]

    def below(u: Array, _: Array, b: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(b - x, sign * w)]

    def whole(u: Array, *_: Array) -> list[tuple[Array, Array]]:
        x, w = far(u)
        return [(x, sign * w), (-x, sign * w)]

    nought = zeros((), lower.dtype)
    if low and high:
        return whole, [nought, nought]
    if low:
        return (above, [upper, nought]) if backward else (below, [nought, upper])
    if high:
        return (below, [nought, lower]) if backward else (above, [lower, nought])
    return finite, [lower, upper]


# -- intervals --
def _rule_of(integrand: Integrand, held: Sequence[Any], dtype: DType) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Return the rule of Gauss and Kronrod: the ends of an interval to the integral and its error."""
    nodes, weights = NODES.astype(dtype), WEIGHTS.astype(dtype)
    difference = (WEIGHTS - GAUSS_WEIGHTS).astype(dtype)
    eps = float(np.finfo(dtype).eps)

    def at(u: Array) -> Array:
        return integrand(u, *held)

    def rule(a: Array, b: Array) -> tuple[Array, Array]:
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
    here, new = index == worst, index == m.iterations + 1
    a, b = m.lower[worst], m.upper[worst]
    middle = 0.5 * (a + b)
    (left, left_error), (right, right_error) = adaptive.rule(a, middle), adaptive.rule(middle, b)
    values = where(here[:, None], left, where(new[:, None], right, m.values))
    errors = where(here, left_error, where(new, right_error, m.errors))
    lower, upper = where(new, middle, m.lower), where(here, middle, where(new, b, m.upper))
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

    found = vmap(at)(u)
    parts = reshape(found, (width.shape[0], len(NODES), *found.shape[1:]))
    return width * sum_(parts * WEIGHTS.astype(width.dtype)[:, None], axis=1)


def _restore_tree(value: Array, shapes: Any) -> Any:
    """Return a vector as the tree that the integrand returns."""
    leaves, tree = pytree.flatten(shapes)
    ends = np.cumsum([a.size for a in leaves]).tolist()
    return pytree.unflatten(tree, [reshape(value[e - a.size : e], a.shape) for a, e in zip(leaves, ends, strict=True)])
