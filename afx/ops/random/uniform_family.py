"""Inverse-CDF samplers: one random word an element, the same wherever they are drawn; orthogonal matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from afx.compiler.schedule.arrays import FAR_BELOW, TAIL_TERMS
from afx.core import Array, ArrayLike, Aval, Shape, aval_of, bind_single, to_lower_level
from afx.core.dtypes import DType, float32, float64, uint32, uint64
from afx.core.primitive import Derivative, Lowering, Params, Primitive, Tangents, Value, Values, register
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.elementwise.comparison import isinf, where
from afx.ops.elementwise.exponentials import exp
from afx.ops.manipulation.shape import astype
from afx.ops.random import traced_draws
from afx.ops.random.bits import batch_draw, check_key, check_real, draw_aval, generate, record_draw
from afx.ops.special._quadrature import (
    CENTRE,
    central,
    central_of_each,
    quantile,
    quantile_of_any_tail,
    quantile_of_tail,
)

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Distributions: inverse-CDF samplers, one random word an element, the same wherever they are drawn
#
# A word is read as a signed integer k of w bits. Uniform numbers take its upper bits, 24 for float32 and 53 for
# float64. The other distributions are quantiles at ``(k + ½) / 2ʷ + ½``: exact in both tails, since a tail's
# probability p is made of the integer and not of a difference of floats.

FRACTIONS = {"e": 11, "f": 24, "d": 53}  # bits of a fraction

Sampler: TypeAlias = Callable[[Any, Any], None]


def drawn(distribution: str, words: Any) -> Any:
    """Return draws in float64, one for each of a vector of uint64 words, which are overwritten."""
    out = np.empty(words.shape)
    SAMPLERS[distribution](words, out)
    return out


def random_draw(key: ArrayLike, distribution: str, shape: Shape, dtype: DType) -> Array:
    """Return independent draws from a standard distribution: float[*keys, *shape] for a key uint32[*keys, 2].

    Args:
        key: the key.
        distribution: ``uniform``, ``normal``, ``exponential``, ``logistic``, ``laplace``, ``cauchy``, or ``open``, which is
            uniform but never 0.
        shape: the shape drawn from each key.
        dtype: of the result; float16 is rounded from float32.
    """
    return bind_single(random_draw_p, key, distribution=distribution, shape=shape, dtype=dtype)


def _draw_run(key: Any, *, distribution: str, shape: Shape, dtype: DType) -> Any:
    check_key(key, distribution)
    if dtype.itemsize < 4 and distribution != "uniform":
        drawn = _draw_run(key, distribution=distribution, shape=shape, dtype=float32)
        return drawn.astype(dtype)
    return generate(key, shape, dtype, uint64 if dtype == float64 else uint32, SAMPLERS[distribution])


def _draw_abstract(key: Aval, *, distribution: str, shape: Shape, dtype: DType) -> Aval:
    check_key(key, distribution)
    return Aval(key.shape[:-1] + shape, dtype)


def _draw_native(xp: Recorder, out: Any, key: Any, *, distribution: str, shape: Shape, dtype: DType) -> None:
    xp.check_floats(out)
    record_draw(RECORDED.get(distribution), uint64 if dtype == float64 else uint32)(xp, out, key)


random_draw_p: Primitive = nondifferentiable(
    "random_draw", _draw_run, _draw_abstract, batch=batch_draw("random_draw"), native=_draw_native
)


def _uniform(words: Any, out: Any) -> None:
    _upper(words, out, FRACTIONS[out.dtype.char])


def _upper(words: Any, out: Any, bits: int) -> None:
    """Write the upper bits of words as fractions; words are overwritten."""
    word = words.dtype.itemsize * 8
    np.right_shift(words, words.dtype.type(word - bits), out=words)
    np.copyto(out, words.view(f"<i{words.dtype.itemsize}"), casting="unsafe")  # small enough to be signed: faster
    np.multiply(out, out.dtype.type(2.0**-bits), out=out)


def _open(words: Any, out: Any) -> None:
    bits = FRACTIONS[out.dtype.char] - 1
    _upper(words, out, bits)
    np.add(out, out.dtype.type(2.0 ** (-bits - 1)), out=out)


def signed(words: Any) -> Any:
    """Return words as signed integers k."""
    return words.view(f"<i{words.dtype.itemsize}")


def tail(k: Any, dtype: DType) -> Any:
    """Return the probability p, at most ½, of the tail in which each word k lies: below 0 for negative k."""
    bits = k.dtype.itemsize * 8
    t = np.right_shift(k, k.dtype.type(bits - 1))
    np.invert(t, out=t)
    np.bitwise_xor(t, k, out=t)
    np.bitwise_and(t, k.dtype.type(2 ** (bits - 1) - 1), out=t)
    p = t.astype(dtype)
    p += dtype.type(0.5)
    p *= dtype.type(2.0**-bits)
    return p


def _center(k: Any, dtype: DType) -> Any:
    """Return ``(k + ½) / 2ʷ``."""
    q = k.astype(dtype)
    q += dtype.type(0.5)
    q *= dtype.type(2.0 ** (-8 * k.dtype.itemsize))
    return q


def _normal(words: Any, out: Any) -> None:
    k, z = signed(words).reshape(-1), out.reshape(-1)
    for start in range(0, len(k), PIECE):
        _normal_piece(k[start : start + PIECE], z[start : start + PIECE])


PIECE = 32768  # elements whose intermediate values stay in the cache


def _normal_piece(k: Any, out: Any) -> None:
    q = _center(k, out.dtype)
    central(q, out)
    far = (np.abs(q) > CENTRE).nonzero()[0]
    if not far.size:
        return
    chosen = k[far]
    z = quantile_of_tail(tail(chosen, out.dtype))
    out[far] = np.negative(z, out=z, where=chosen < 0)


def _normal_everywhere(words: Any, out: Any) -> None:
    """Write what `_normal` does without a choice of elements: all approximations of each."""
    k = signed(words)
    q = _center(k, out.dtype)
    outer = quantile_of_any_tail(tail(k, out.dtype))
    beyond = cast(Any, np.where(k < 0, -outer, outer))
    np.copyto(out, cast(Any, np.where(np.abs(q) > CENTRE, beyond, central_of_each(q))))


def _exponential(words: Any, out: Any) -> None:
    k = signed(words)
    p = tail(k, out.dtype)
    np.log(p, out=out)
    np.copyto(out, np.log1p(np.negative(p, out=p), out=p), where=k < 0)
    np.negative(out, out=out)


def _halves(k: Any, dtype: DType) -> tuple[Any, Any]:
    """Return the tail's probability p and ``½ - p``, each with all its digits."""
    q = _center(k, dtype)
    return tail(k, dtype), np.abs(q, out=q)


def _logistic(words: Any, out: Any) -> None:
    k = signed(words)
    p, rest = _halves(k, out.dtype)
    np.divide(np.add(rest, rest, out=rest), p, out=p)
    np.log1p(p, out=out)
    np.negative(out, out=out, where=k < 0)


def _laplace(words: Any, out: Any) -> None:
    k = signed(words)
    p, rest = _halves(k, out.dtype)
    near = rest < p
    np.log(np.add(p, p, out=p), out=out)
    np.copyto(out, np.log1p(np.multiply(rest, -2, out=rest), out=p), where=near)
    np.negative(out, out=out, where=k >= 0)


def _cauchy(words: Any, out: Any) -> None:
    k = signed(words)
    p, rest = _halves(k, out.dtype)
    far = p < rest
    np.minimum(p, rest, out=p)
    np.tan(np.multiply(p, out.dtype.type(np.pi), out=p), out=out)
    np.copyto(out, np.divide(out.dtype.type(1), out, out=p), where=far)
    np.negative(out, out=out, where=k < 0)


SAMPLERS: dict[str, Sampler] = {
    "cauchy": _cauchy,
    "exponential": _exponential,
    "laplace": _laplace,
    "logistic": _logistic,
    "normal": _normal,
    "open": _open,
    "uniform": _uniform,
}
RECORDED: dict[str, Sampler] = {  # of machine code: those without a choice of elements
    "cauchy": _cauchy,
    "exponential": _exponential,
    "laplace": _laplace,
    "logistic": _logistic,
    "normal": _normal_everywhere,
    "open": _open,
    "uniform": _uniform,
}


# --- Truncated normal sampler: inverse CDF between bounds

WHO = "truncated_normal"
ENDLESS = 1e150  # stands for infinity in derivatives: its square is finite


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
    low = _cdf(first)
    with np.errstate(divide="ignore", invalid="ignore"):  # where probabilities underflow
        z = quantile(low + u * (_cdf(last) - low))
    far = last < FAR_BELOW
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
    for k in range(TAIL_TERMS, 0, -1):
        y = x + k / y
    return -np.log(y)


def _slope(k: int, z: Value, xs: Values, params: Params) -> Value:
    """Return dz by a bound: its share of the probability at z, times its density over that of z."""
    u = random_draw(xs[0], "open", params["shape"], float64)
    bound, wide = astype(xs[k], float64), astype(z, float64)
    bound = where(isinf(bound), ENDLESS, bound)
    share = 1 - u if k == 1 else u
    relative = exp(wide * wide / 2 - bound * bound / 2)
    return astype(share * relative, aval_of(z).dtype)


def _between_pull(k: int) -> Any:
    def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        return to_lower_level(ct * to_lower_level(_slope(k, z, xs, params)))

    return pull


def _between_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    terms = [
        to_lower_level(t * to_lower_level(_slope(k, z, xs, params))) for k, t in enumerate(ts) if k and t is not None
    ]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


random_between_p: Primitive = register(
    Primitive(
        name="random_between",
        kind="custom",
        impl=_between_run,
        abstract_eval=draw_aval(WHO),
        batch=batch_draw("random_between"),
        derivative=Derivative(
            vjps=(_between_pull(0), _between_pull(1), _between_pull(2)),
            reads=(0, 1 | 2 | 4, 1 | 2 | 8),
            jvp=_between_push,
        ),
        lowering=Lowering(formula=traced_draws.draw_between),
    )
)


# --- Orthogonal matrices: drawn from the Haar measure


def random_orthogonal(key: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Return orthogonal matrices: float[*keys, *shape], the last two lengths equal (Mezzadri 2007)."""
    return bind_single(random_orthogonal_p, key, shape=shape, dtype=dtype)


def _orthogonal_run(key: Any, *, shape: Shape, dtype: DType) -> Any:
    check_key(key, "orthogonal")
    q, r = np.linalg.qr(generate(key, shape, float64, uint64, SAMPLERS["normal"]))
    # where R has a positive diagonal the factors are unique, and Q is even
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return (q * signs[..., None, :]).astype(dtype)


random_orthogonal_p: Primitive = nondifferentiable(
    "random_orthogonal",
    _orthogonal_run,
    draw_aval("orthogonal"),
    batch=batch_draw("random_orthogonal"),
    calls_lapack=True,
)
