"""Poisson and binomial samplers: inversion where few counts are likely, rejection elsewhere (Hörmann 1993)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import int64
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.random.bits import Stream, batch_draw, check_key, check_real, draw_each
from afx.ops.random.uniform_family import drawn
from afx.ops.special._gamma import log_factorial

__all__: list[str] = []

FEW = 10.0  # means below it are drawn by adding up probabilities
MOST = 2.0**53  # counts from here on are no whole float64 numbers
STEPS = 120  # of adding up: beyond, nothing is left of the probability at a mean below `FEW`


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
    if not np.all((mean >= 0) & (mean < MOST)):
        raise ArgumentError("poisson: rates lie from 0 to 2**53: got others; change them")
    return draw_each(key, shape, (mean,), _poisson).astype(int64)


def _poisson(stream: Stream, rate: Any) -> Any:
    return _split(stream, rate < FEW, _invert_poisson, _propose_poisson, rate)


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
    for step in range(1, STEPS):
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


def _poisson_abstract(key: Aval, rate: Aval, *, shape: Shape) -> Aval:
    check_key(key, "poisson")
    check_real("poisson", rate)
    return Aval(key.shape[:-1] + shape, int64)


random_poisson_p: Primitive = nondifferentiable(
    "random_poisson", _poisson_run, _poisson_abstract, batch=batch_draw("random_poisson")
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
    if not np.all((tries >= 0) & (tries < MOST) & (tries == np.floor(tries))):
        raise ArgumentError("binomial: numbers of tries are whole, from 0 to 2**53: got others; round them")
    if not np.all((chance >= 0) & (chance <= 1)):
        raise ArgumentError("binomial: a probability lies from 0 to 1: got others; change them")
    return draw_each(key, shape, (tries, chance), _binomial).astype(int64)


def _binomial(stream: Stream, n: Any, p: Any) -> Any:
    less: Any = np.minimum(p, 1 - p)
    k: Any = _split(stream, n * less < FEW, _invert_binomial, _propose_binomial, n, less)
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


def _binomial_abstract(key: Aval, n: Aval, p: Aval, *, shape: Shape) -> Aval:
    check_key(key, "binomial")
    check_real("binomial", n, p)
    return Aval(key.shape[:-1] + shape, int64)


random_binomial_p: Primitive = nondifferentiable(
    "random_binomial", _binomial_run, _binomial_abstract, batch=batch_draw("random_binomial")
)
