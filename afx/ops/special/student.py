"""Student's t distribution: log density, distribution function and quantiles, differentiable by both arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind2, bind_single
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.special import scipy
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sign, sqrt
from afx.ops.elementwise.exponential import exp, log, log1p
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.special.fisher import fisher_slope
from afx.ops.special.gamma import betaln, digamma_gap
from afx.ops.special.incomplete_beta import betainc_slope_p

__all__ = ["log_density", "log_square_plus_one", "stdtr", "stdtrit"]

MANY = 30.0  # degrees of freedom, from which on the terms of the derivative by them cancel
FAR = -46.0  # logarithm of a share 1e-20, beside which one rounds to one


def log_square_plus_one(u: Array) -> Array:
    """Return ``log(1 + u²)``, without overflow."""
    far = abs_(u) > 1
    large = where(far, u, 1)
    return where(far, 2 * log(abs_(large)) + log1p((1 / large) ** 2), log1p(where(far, 0, u) ** 2))


def log_density(df: Array, t: Array) -> Array:
    """Return the logarithm of the density, the normal one for an infinite number of degrees of freedom."""
    n = minimum(df, float(np.finfo(df.dtype).max))
    return -0.5 * log(n) - betaln(n / 2, 0.5) - (n + 1) / 2 * log_square_plus_one(t / sqrt(n))


def _density(df: Array, t: Array) -> Array:
    return exp(log_density(df, t))


@register_function
def stdtr(df: ArrayLike, t: ArrayLike) -> Array:
    """Return Student's t distribution function; needs the extra ``scipy``.

    Args:
        df: degrees of freedom, positive, any shape.
        t: a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> stdtr(3.0, 0.0)
    Array(0.5, dtype=float32)
    """
    return bind2(stdtr_p, df, t)


def _by_df(_z: Array, df: Array, t: Array) -> Array:
    n = minimum(df, float(np.finfo(df.dtype).max))
    few, u = n < MANY, t / sqrt(n)
    a, inner = where(few, n, MANY) / 2, few & (abs_(u) < 1)
    share = exp(-log_square_plus_one(where(inner, 1, u)))  # n / (n + t²)
    rest = u * u / (1 + u * u)  # of which 1 is the whole
    far = bind_single(betainc_slope_p, a, 0.5, where(few & ~inner, share, 0.5), m=1, n=0)
    far = where(inner, -bind_single(betainc_slope_p, 0.5, a, where(inner, rest, 0.5), m=0, n=1), far)
    near = -sign(t) * far / 4 - _density(n, t) * t / (2 * n)
    least = abs_(t) < float(np.finfo(t.dtype).eps) ** 0.5  # where the density is that of 0, and a square may vanish
    half = maximum(a, 4 * float(np.finfo(t.dtype).tiny))
    near = where(least, _density(n, t) * t * (digamma_gap(half, 0.5) - 0.5 / half) / 2, near)
    square = minimum(t * t, float(np.finfo(t.dtype).max))
    return where(few, near, sign(t) * fisher_slope(0.5, where(few, MANY, n) / 2, where(few, 1, square), 0, 1) / 4)


stdtr_p: Primitive = binary(
    "stdtr",
    scipy("stdtr"),
    (_by_df, lambda _z, df, t: _density(df, t)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 3.0),
)


@register_function
def stdtrit(df: ArrayLike, p: ArrayLike) -> Array:
    """Return the t at which ``stdtr(df, t)`` is p, the quantile of Student's t distribution; needs the extra ``scipy``.

    Args:
        df: degrees of freedom, positive, any shape.
        p: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> stdtrit(3.0, 0.5)
    Array(0., dtype=float32)
    """
    return bind2(stdtrit_p, df, p)


def _quantile_by_df(z: Array, df: Array, _p: Array) -> Array:
    """Return ``-(∂F/∂df) / f``; in tails, where f may underflow, that of ``F = share**a / (2 a B(a, 1/2))``, a = df / 2."""
    log_share = -log_square_plus_one(z / sqrt(df))
    tail = log_share < FAR
    near = where(tail, 0, z)
    n, far = where(tail, df, 1), where(tail, log_share, FAR)
    in_tail = where(tail, z, 0) * ((far + 1 + digamma_gap(n / 2, 0.5)) / 2 - 1 / n) / n
    return where(tail, in_tail, -_by_df(z, df, near) / _density(df, near))


_FAR = 2e8  # times the root of df: beyond, SciPy's quantiles lose digits, stop, or are infinite
_of_tail, _log_beta = scipy("stdtrit"), scipy("betaln")


def _stdtrit_run(df: Any, p: Any) -> Any:
    """Return SciPy's quantiles, and far out those of the tail, ``F = share**a / (2 a B(a, 1/2))`` with a = df / 2."""
    t = _of_tail(df, p)
    with np.errstate(invalid="ignore"):
        lost = ~(np.abs(np.asarray(t, np.float64)) < _FAR * np.sqrt(df)) & (p > 0) & (p < 1) & np.isfinite(df)
    if not np.any(lost):
        return t
    n, q = [np.asarray(np.broadcast_to(x, np.shape(t))[lost], np.float64) for x in (df, p)]
    with np.errstate(over="ignore", invalid="ignore"):
        log_share = (np.log(n * np.minimum(q, 1 - q)) + _log_beta(n / 2, 0.5)) * 2 / n
        far = np.copysign(np.exp((np.log(n) - log_share) / 2), q - 0.5)
        z = np.array(t)
        z[lost] = np.where(log_share < -37, far, z[lost])  # beside which one rounds to one
    return z


stdtrit_p: Primitive = binary(
    "stdtrit",
    _stdtrit_run,
    (_quantile_by_df, lambda z, df, _p: exp(-log_density(df, z))),
    kinds="f",
    promotes_to_float=True,
    domain=(0.55, 0.9),
)
