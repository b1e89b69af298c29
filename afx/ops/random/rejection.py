"""Rejection samplers: gamma (Marsaglia & Tsang 2000), Wald, Poisson and binomial (Hörmann 1993)."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from afx.compiler.schedule.arrays import ADDED_BELOW, ADDED_TERMS, COUNTS_END
from afx.core import Array, ArrayLike, DType, Shape, bind_single, int64, to_lower_level
from afx.core.primitive import Derivative, Lowering, Params, Primitive, Value, Values, register
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.special import parametric
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.exponentials import exp, log
from afx.ops.random import traced_draws
from afx.ops.random.bits import BOOST, Stream, batch_draw, check_key, check_real, draw_aval, draw_each
from afx.ops.random.uniform_family import drawn
from afx.ops.special import _quadrature
from afx.ops.special._quadrature import double, log_factorial
from afx.ops.special.errors import erfcx

# --- Gamma sampler: rejection (Marsaglia & Tsang 2000), with derivatives of quantiles by the shape


def random_gamma(key: ArrayLike, a: ArrayLike, shape: Shape, dtype: DType, logarithm: bool = False) -> Array:
    """Return gamma numbers of shape a and scale 1, or their logarithms: float[*keys, *shape].

    The derivative by a is that of the quantile at the same probability (Figurnov, Mohamed & Mnih 2018): an expectation
    over draws has the mean of these derivatives as its own.

    Raises:
        ArgumentError: a shape is 0 or less.
    """
    return bind_single(random_gamma_p, key, a, shape=shape, dtype=dtype, logarithm=logarithm)


def _gamma_run(key: Any, a: Any, *, shape: Shape, dtype: DType, logarithm: bool) -> Any:
    check_key(key, "gamma")
    check_real("gamma", a)
    if not np.all(np.asarray(a) > 0) or not np.all(np.isfinite(a)):
        raise ArgumentError(f"gamma: shapes are finite and above 0: got {np.min(a)} as the least; change it")
    z = draw_each(key, shape, (a,), _log_gamma if logarithm else _gamma_number)
    return z.astype(dtype)


def _log_gamma(stream: Stream, a: Any) -> Any:
    d, v = _cube(stream, a)
    return np.log(d) + 3 * np.log(v) - _boost(stream, a)


def _gamma_number(stream: Stream, a: Any) -> Any:
    d, v = _cube(stream, a)
    return d * v**3 * np.exp(-_boost(stream, a))


def _cube(stream: Stream, a: Any) -> tuple[Any, Any]:
    """Return d and v such that ``d v³`` is a gamma number of shape a, or a + 1 where a is below 1."""
    d = cast(Any, np.where(a < 1, a + 1, a)) - 1 / 3
    return d, stream.until(_propose, d)


def _propose(first: Any, second: Any, d: Any) -> tuple[Any, Any]:
    x = drawn("normal", first)
    v = 1 + x / (3 * np.sqrt(d))
    cube = np.maximum(v, 1e-100) ** 3
    return v, (v > 0) & (-drawn("exponential", second) < x * x / 2 + d * (1 - cube + np.log(cube)))


def _boost(stream: Stream, a: Any) -> Any:
    """Return ``-log(U) / a`` for shapes below 1: a gamma number of shape a + 1 times ``U ** (1 / a)`` has shape a."""
    out = np.zeros_like(a)
    small = np.flatnonzero(a < 1)
    out[small] = drawn("exponential", stream.pairs(small, 0, BOOST)[0]) / a[small]
    return out


def _slope(z: Value, a: Value, logarithm: bool) -> Value:
    if logarithm:
        return to_lower_level(gamma_flow(a, z))
    some = z > 0  # a number that underflows stays where it is
    return to_lower_level(z * gamma_flow(a, where(some, log(where(some, z, 1.0)), 0.0)))


def _gamma_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    return to_lower_level(ct * _slope(z, xs[1], params["logarithm"]))


random_gamma_p: Primitive = register(
    Primitive(
        name="random_gamma",
        kind="custom",
        impl=_gamma_run,
        abstract_eval=draw_aval("gamma"),
        batch=batch_draw("random_gamma"),
        derivative=Derivative(
            vjps=(_gamma_pull, _gamma_pull),
            reads=(0, 1 | 4),
            jvp=lambda ts, z, xs, params: to_lower_level(ts[1] * _slope(z, xs[1], params["logarithm"])),
        ),
        lowering=Lowering(formula=traced_draws.draw_gamma),
    )
)


def gamma_flow(a: ArrayLike, y: ArrayLike, order: int = 0) -> Array:
    """Return how the logarithm y of a gamma number of shape a moves with a at a fixed probability.

    Args:
        a: shapes.
        y: logarithms.
        order: how many more derivatives by a are taken of that, where y stays.
    """
    return bind_single(gamma_flow_p, a, y, order=order)


def _vectors(fn: Any) -> Any:
    """Return a function of an order and two flat vectors as one of arrays."""

    def compute(a: Any, y: Any, *, order: int) -> Any:
        return fn(order, a.reshape(-1), y.reshape(-1)).reshape(a.shape)

    return double(compute)


def _by_shape(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return gamma_flow(a, y, order + 1)


def _by_logarithm(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return bind_single(gamma_flow_by_logarithm_p, a, y, order=order)


gamma_flow_p: Primitive = parametric("gamma_flow", _vectors(_quadrature.flow), (_by_shape, _by_logarithm), {"order": 0})


def _then_by_logarithm(z: Array, a: Array, y: Array, *, order: int) -> Array:
    x = exp(y)
    slope = x * gamma_flow(a, y, order) - (a - x) * z
    return slope - order * bind_single(gamma_flow_by_logarithm_p, a, y, order=order - 1) if order else slope - 1


def _then_by_shape(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return bind_single(gamma_flow_by_logarithm_p, a, y, order=order + 1)


gamma_flow_by_logarithm_p: Primitive = parametric(
    "gamma_flow_by_logarithm",
    _vectors(_quadrature.flow_by_logarithm),
    (_then_by_shape, _then_by_logarithm),
    {"order": 0},
)


# --- Wald's sampler: one root of two, and derivatives by the distribution function


def random_wald(key: ArrayLike, mean: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Return Wald's numbers of a mean and of scale 1 (Michael, Schucany & Haas 1976): float[*keys, *shape].

    The derivative by the mean is that of the quantile at the same probability.

    Raises:
        ArgumentError: a mean is 0 or less.
    """
    return bind_single(random_wald_p, key, mean, shape=shape, dtype=dtype)


def _wald_run(key: Any, mean: Any, *, shape: Shape, dtype: DType) -> Any:
    check_key(key, "wald")
    check_real("wald", mean)
    if not np.all(np.asarray(mean) > 0) or not np.all(np.isfinite(mean)):
        raise ArgumentError(f"wald: means are finite and above 0: got {np.min(mean)} as the least; change it")
    return draw_each(key, shape, (mean,), _wald_number).astype(dtype)


def _wald_number(stream: Stream, mean: Any) -> Any:
    first, second = stream.pairs(np.arange(len(mean)), 0)
    w = mean * drawn("normal", first) ** 2
    ratio = 1 / (1 + (w + np.sqrt(w) * np.sqrt(w + 4)) / 2)  # the smaller root of two whose product is 1
    is_smaller = drawn("open", second) * (1 + ratio) <= 1
    return mean * cast(Any, np.where(is_smaller, ratio, 1 / ratio))


def _wald_slope(z: Value, mean: Value) -> Value:
    edge = (z / mean + 1) / sqrt(2 * z)
    return to_lower_level(math.sqrt(2 * math.pi) * z**1.5 / mean**2 * erfcx(edge))


def _wald_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    return to_lower_level(ct * _wald_slope(z, xs[1]))


random_wald_p: Primitive = register(
    Primitive(
        name="random_wald",
        kind="custom",
        impl=_wald_run,
        abstract_eval=draw_aval("wald"),
        batch=batch_draw("random_wald"),
        derivative=Derivative(
            vjps=(_wald_pull, _wald_pull),
            reads=(0, 1 | 4),
            jvp=lambda ts, z, xs, params: to_lower_level(ts[1] * _wald_slope(z, xs[1])),
        ),
        lowering=Lowering(formula=traced_draws.draw_wald),
    )
)


# --- Poisson and binomial samplers: inversion where few counts are likely, rejection elsewhere (Hörmann 1993)


def random_poisson(key: ArrayLike, rate: ArrayLike, shape: Shape) -> Array:
    """Return Poisson numbers: int64[*keys, *shape].

    Raises:
        ArgumentError: a rate is negative, or 2⁵³ and more.
    """
    return bind_single(random_poisson_p, key, rate, shape=shape)


def _poisson_run(key: Any, rate: Any, *, shape: Shape) -> Any:
    check_key(key, "poisson")
    check_real("poisson", rate)
    mean = np.asarray(rate, np.float64)
    if not np.all((mean >= 0) & (mean < COUNTS_END)):
        raise ArgumentError("poisson: rates lie from 0 to 2**53: got others; change them")
    return draw_each(key, shape, (mean,), _poisson).astype(int64)


def _poisson(stream: Stream, rate: Any) -> Any:
    return _split(stream, rate < ADDED_BELOW, _invert_poisson, _propose_poisson, rate)


def _invert_poisson(u: Any, rate: Any) -> Any:
    def following(k: int, p: Any) -> Any:
        return p * rate / k

    return _invert_by_adding(u, np.exp(-rate), following)


def _split(stream: Stream, few: Any, added: Any, propose: Any, *params: Any) -> Any:
    """Return counts, by one uniform number where few are likely, by rejection elsewhere."""
    out = np.empty(len(few))
    for chosen, is_few in ((np.flatnonzero(few), True), (np.flatnonzero(~few), False)):
        own = [x[chosen] for x in params]
        if is_few:
            out[chosen] = added(drawn("open", stream.pairs(chosen, 0)[0]), *own)
        else:
            out[chosen] = stream.at(chosen).until(propose, *own)
    return out


def _invert_by_adding(u: Any, p: Any, following: Any) -> Any:
    """Return the least k at which the probabilities up to k reach u; ``following(k, p)`` is that of k from that of k - 1."""
    k = np.zeros_like(u)
    left = u - p
    for step in range(1, ADDED_TERMS):
        if not np.any(left > 0):
            break
        k += left > 0
        p = following(step, p)
        left = left - p
    return k


def _propose_poisson(first: Any, second: Any, rate: Any) -> tuple[Any, Any]:
    """Propose by transformed rejection with squeeze (Hörmann 1993, algorithm PTRS)."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    u, v = drawn("open", first) - 0.5, drawn("open", second)
    near = 0.5 - np.abs(u)
    k = np.floor((2 * a / near + b) * u + rate + 0.43)
    sure = (near >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    bound = np.maximum(k, 0) * np.log(rate) - rate - log_factorial(np.maximum(k, 0))
    fits = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (near * near) + b)) <= bound
    return k, (k >= 0) & (sure | (fits & ~((near < 0.013) & (v > near))))


random_poisson_p: Primitive = nondifferentiable(
    "random_poisson",
    _poisson_run,
    draw_aval("poisson"),
    batch=batch_draw("random_poisson"),
    formula=traced_draws.draw_poisson,
)


def random_binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape) -> Array:
    """Return binomial numbers: int64[*keys, *shape]; n are whole floats.

    Raises:
        ArgumentError: n is no whole number from 0 to 2⁵³, or a probability does not lie from 0 to 1.
    """
    return bind_single(random_binomial_p, key, n, p, shape=shape)


def _binomial_run(key: Any, n: Any, p: Any, *, shape: Shape) -> Any:
    check_key(key, "binomial")
    check_real("binomial", n, p)
    tries, chance = np.asarray(n, np.float64), np.asarray(p, np.float64)
    if not np.all((tries >= 0) & (tries < COUNTS_END) & (tries == np.floor(tries))):
        raise ArgumentError("binomial: numbers of tries are whole, from 0 to 2**53: got others; round them")
    if not np.all((chance >= 0) & (chance <= 1)):
        raise ArgumentError("binomial: a probability lies from 0 to 1: got others; change them")
    return draw_each(key, shape, (tries, chance), _binomial).astype(int64)


def _binomial(stream: Stream, n: Any, p: Any) -> Any:
    less = np.minimum(p, 1 - p)
    k = _split(stream, n * less < ADDED_BELOW, _invert_binomial, _propose_binomial, n, less)
    return cast(Any, np.where(p <= 0.5, k, n - k))


def _invert_binomial(u: Any, n: Any, p: Any) -> Any:
    odds = p / (1 - p)

    def following(k: int, q: Any) -> Any:
        return q * np.maximum(n - k + 1, 0) / k * odds

    return _invert_by_adding(u, np.exp(n * np.log1p(-p)), following)


def _propose_binomial(first: Any, second: Any, n: Any, p: Any) -> tuple[Any, Any]:
    """Propose by transformed rejection with squeeze (Hörmann 1993, algorithm BTRS)."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u, v = drawn("open", first) - 0.5, drawn("open", second)
    near = 0.5 - np.abs(u)
    k = np.floor((2 * a / near + b) * u + n * p + 0.5)
    sure = (near >= 0.07) & (v <= 0.92 - 4.2 / b)
    inside = (k >= 0) & (k <= n)
    j, m = np.clip(k, 0, n), np.floor((n + 1) * p)
    bound = log_factorial(m) + log_factorial(n - m) - log_factorial(j) - log_factorial(n - j)
    bound += (j - m) * (np.log(p) - np.log1p(-p))
    fits = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (near * near) + b)) <= bound
    return k, inside & (sure | fits)


random_binomial_p: Primitive = nondifferentiable(
    "random_binomial",
    _binomial_run,
    draw_aval("binomial"),
    batch=batch_draw("random_binomial"),
    formula=traced_draws.draw_binomial,
)
