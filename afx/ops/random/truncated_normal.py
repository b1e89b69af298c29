"""Truncated normal sampler: inverse CDF between bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, float64, uint64
from afx.core.primitive import Derivative, Params, Primitive, Value, register
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.errors import ArgumentError
from afx.ops.elementwise.comparison import isinf
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import astype
from afx.ops.random.bits import batch_draw, check_key, check_real, generate
from afx.ops.random.uniform_family import SAMPLERS, random_draw
from afx.ops.special._normal import quantile

__all__: list[str] = []

WHO = "truncated_normal"
FAR = -12.0  # bounds below are treated by ratios of tails: their own probabilities would underflow
ENDLESS = 1e150  # stands for infinity in derivatives: its square is finite
TERMS = 24  # of the continued fraction of a tail beyond `FAR`


def random_between(key: ArrayLike, low: ArrayLike, high: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Return standard normal numbers from low to high: float[*keys, *shape]."""
    return bind_single(random_between_p, key, low, high, shape=shape, dtype=dtype)


def _between_run(key: Any, low: Any, high: Any, *, shape: Shape, dtype: DType) -> Any:
    check_key(key, WHO)
    check_real(WHO, low, high)
    u = generate(key, shape, float64, uint64, SAMPLERS["open"])
    a, b = (np.broadcast_to(np.asarray(x, float64), u.shape).reshape(-1) for x in (low, high))
    if not np.all(a <= b):
        raise ArgumentError(f"{WHO}: low lies below high: got bounds in another order; exchange them")
    flip = a > -b  # most of the interval lies above 0: mirrored, its probabilities are small numbers
    v = u.reshape(-1)
    z = _quantile_between(np.where(flip, -b, a), np.where(flip, -a, b), np.where(flip, 1 - v, v))
    np.negative(z, out=z, where=flip)
    # rounding may step over a bound
    z = np.clip(z.astype(dtype), a.astype(dtype), b.astype(dtype))
    return z.reshape(u.shape)


def _quantile_between(first: Any, last: Any, u: Any) -> Any:
    low: Any = _cdf(first)
    with np.errstate(divide="ignore", invalid="ignore"):  # where probabilities underflow
        z = quantile(low + u * (_cdf(last) - low))
    far = last < FAR
    if far.any():
        z[far] = -_quantile_far(-last[far], -first[far], u[far])
    return z


def _cdf(x: Any) -> Any:
    """Return the normal distribution function, element by element of the bounds, which are few as a rule."""
    few, places = np.unique(x, return_inverse=True)
    values = [0.5 * math.erfc(-v / math.sqrt(2)) for v in few.tolist()]
    return np.asarray(values, float64)[places.reshape(x.shape)]


def _quantile_far(a: Any, b: Any, u: Any) -> Any:
    """Return what a normal number between a and b, both far above 0, exceeds with probability u.

    Newton's method on the logarithm of the tail's probability, relative to that of a.
    """
    end = np.zeros_like(a)
    finite = np.flatnonzero(b < np.inf)
    end[finite] = np.exp(_log_mills(b[finite]) - _log_mills(a[finite]) - _half_squares(b[finite], a[finite]))
    goal = np.log1p((u - 1) * (1 - end))
    x = np.sqrt(a * a - 2 * goal)
    for _ in range(4):
        m = _log_mills(x)
        x += (m - _log_mills(a) - _half_squares(x, a) - goal) * np.exp(m)
    return x


def _half_squares(x: Any, y: Any) -> Any:
    return (x - y) * (x / 2 + y / 2)


def _log_mills(x: Any) -> Any:
    """Return the logarithm of a tail's probability over its density, far out, by a continued fraction."""
    y = x.copy()
    for k in range(TERMS, 0, -1):
        y = x + k / y
    return -np.log(y)


def _between_abstract(key: Aval, low: Aval, high: Aval, *, shape: Shape, dtype: DType) -> Aval:
    check_key(key, WHO)
    check_real(WHO, low, high)
    return Aval(key.shape[:-1] + shape, dtype)


def _slope(k: int, z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    """Return dz by a bound: its share of the probability at z, times its density over that of z."""
    u = random_draw(xs[0], "open", params["shape"], float64)
    bound, wide = astype(xs[k], float64), astype(z, float64)
    bound = where(isinf(bound), ENDLESS, bound)
    share = 1 - u if k == 1 else u
    relative = exp(wide * wide / 2 - bound * bound / 2)
    return astype(share * relative, aval_of(z).dtype)


def _between_pull(k: int) -> Any:
    def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        return to_lower_level(ct * to_lower_level(_slope(k, z, xs, params)))

    return pull


def _between_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    terms = [
        to_lower_level(t * to_lower_level(_slope(k, z, xs, params))) for k, t in enumerate(ts) if k and t is not None
    ]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


random_between_p: Primitive = register(
    Primitive(
        name="random_between",
        kind="custom",
        impl=_between_run,
        abstract_eval=_between_abstract,
        batch=batch_draw("random_between"),
        derivative=Derivative(
            vjps=(_between_pull(0), _between_pull(1), _between_pull(2)),
            reads=(0, 1 | 2 | 4, 1 | 2 | 8),
            jvp=_between_push,
        ),
    )
)
