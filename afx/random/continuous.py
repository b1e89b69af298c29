"""Continuous distributions: standard draws, scaled and shifted, and the gamma family, differentiable in every parameter."""

from __future__ import annotations

from typing import Any

from afx.core import Array, ArrayLike, DTypeLike, aval_of, checked_shape
from afx.errors import ShapeError
from afx.ops import clip, exp, full, log, sigmoid, sqrt, where
from afx.ops.nn.activations import softmax
from afx.ops.random.rejection import random_gamma, random_wald
from afx.ops.random.uniform_family import random_between, random_draw
from afx.random.keys import (
    ShapeLike,
    is_number,
    loc_scale_sample,
    normal,
    require_order,
    require_positive,
    require_scale,
    resolve_arguments,
    split,
)

__all__ = [
    "beta",
    "cauchy",
    "chisquare",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "generalized_normal",
    "gumbel",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "pareto",
    "rayleigh",
    "t",
    "triangular",
    "truncated_normal",
    "wald",
    "weibull",
    "weibull_min",
]


# --- Location-scale distributions: standard draws, scaled and shifted, differentiable in every parameter


def exponential(
    key: ArrayLike, shape: ShapeLike = None, scale: ArrayLike = 1.0, *, dtype: DTypeLike | None = None
) -> Array:
    """Return exponential numbers of mean ``scale``: of density ``exp(-x / scale) / scale`` for x > 0.

    Args:
        key: uint32[2].
        shape: of the result; that of the parameters without one.
        scale: the means, 0 or more.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: a scale is negative.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> exponential(afx.random.key(0), 3).shape
    (3,)
    """
    return loc_scale_sample("exponential", "exponential", key, shape, 0.0, scale, dtype)


def laplace(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return Laplace numbers: of density ``exp(-|x - loc| / scale) / (2 scale)``. Arguments are those of `normal`.

    >>> laplace(afx.random.key(0), 3).shape
    (3,)
    """
    return loc_scale_sample("laplace", "laplace", key, shape, loc, scale, dtype)


def logistic(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return logistic numbers: with the distribution function ``sigmoid((x - loc) / scale)``.

    Arguments are those of `normal`.

    >>> logistic(afx.random.key(0), 3).shape
    (3,)
    """
    return loc_scale_sample("logistic", "logistic", key, shape, loc, scale, dtype)


def cauchy(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return Cauchy numbers of median ``loc`` and half-width ``scale``; they have no mean.

    Arguments are those of `normal`.

    >>> cauchy(afx.random.key(0), 3).shape
    (3,)
    """
    return loc_scale_sample("cauchy", "cauchy", key, shape, loc, scale, dtype)


def gumbel(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return Gumbel numbers: with the distribution function ``exp(-exp(-(x - loc) / scale))``.

    Arguments are those of `normal`.

    >>> gumbel(afx.random.key(0), 3).shape
    (3,)
    """
    lengths, target, (centre, width) = resolve_arguments("gumbel", key, shape, dtype, loc, scale)
    require_scale("gumbel", width)
    z = -log(random_draw(key, "exponential", lengths, target))
    if not is_number(width, 1):
        z = z * width
    return z if is_number(centre, 0) else z + centre


def lognormal(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return numbers whose logarithm is normal, of mean ``loc`` and standard deviation ``scale``.

    Arguments are those of `normal`.

    >>> lognormal(afx.random.key(0), 3).shape
    (3,)
    """
    return exp(normal(key, shape, loc, scale, dtype=dtype))


def rayleigh(
    key: ArrayLike, shape: ShapeLike = None, scale: ArrayLike = 1.0, *, dtype: DTypeLike | None = None
) -> Array:
    """Return Rayleigh numbers: the length of a vector of two normal numbers of standard deviation ``scale``.

    Arguments are those of `exponential`.

    >>> rayleigh(afx.random.key(0), 3).shape
    (3,)
    """
    lengths, target, (width,) = resolve_arguments("rayleigh", key, shape, dtype, scale)
    require_scale("rayleigh", width)
    z = sqrt(2 * random_draw(key, "exponential", lengths, target))
    return z if is_number(width, 1) else z * width


def weibull(
    key: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = None,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return Weibull numbers: with the distribution function ``1 - exp(-(x / scale) ** concentration)``.

    Args:
        key: uint32[2].
        concentration: the exponents, above 0.
        shape: of the result; that of the parameters without one.
        scale: 0 or more.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: a concentration is 0 or less, or a scale is negative.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> weibull(afx.random.key(0), 1.5, 3).shape
    (3,)
    """
    lengths, target, (power, width) = resolve_arguments("weibull", key, shape, dtype, concentration, scale)
    require_positive("weibull", "a concentration", power)
    require_scale("weibull", width)
    z: Array = random_draw(key, "exponential", lengths, target) ** (1 / power)
    return z if is_number(width, 1) else z * width


weibull_min = weibull


def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike = None,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return numbers from ``left`` to ``right`` whose density rises evenly up to ``mode``, and falls evenly behind it.

    They are quantiles, differentiable in all three.

    Args:
        key: uint32[2].
        left: the lower bounds.
        mode: where the density is highest.
        right: the upper bounds, above the lower ones.
        shape: of the result; that of the parameters without one.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: the three are not in order.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> triangular(afx.random.key(0), 0.0, 1.0, 3.0, 4).shape
    (4,)
    """
    lengths, target, (low, top, high) = resolve_arguments("triangular", key, shape, dtype, left, mode, right)
    require_order("triangular", low, top)
    require_order("triangular", top, high)
    u = random_draw(key, "open", lengths, target)
    rises = u * (high - low) < top - low
    rise = low + sqrt(where(rises, u, 0.5) * (high - low) * (top - low))
    fall = high - sqrt(where(rises, 0.5, 1 - u) * (high - low) * (high - top))
    return where(rises, rise, fall)


def pareto(
    key: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = None,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return Pareto numbers, from ``scale`` upwards: with the distribution function ``1 - (scale / x) ** concentration``.

    NumPy's draws begin at 0 instead: they are these less 1. Arguments are those of `weibull`.

    >>> pareto(afx.random.key(0), 3.0, 3).shape
    (3,)
    """
    lengths, target, (power, width) = resolve_arguments("pareto", key, shape, dtype, concentration, scale)
    require_positive("pareto", "a concentration", power)
    require_scale("pareto", width)
    z = exp(random_draw(key, "exponential", lengths, target) / power)
    return z if is_number(width, 1) else z * width


def truncated_normal(
    key: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return normal numbers from ``low`` to ``high``; differentiable in the bounds, the mean and the scale.

    They are quantiles, so that bounds far out in a tail are no harder than others.

    Args:
        key: uint32[2].
        low: the lower bounds of what is drawn, -inf for none.
        high: the upper bounds, inf for none.
        shape: of the result; that of the parameters without one.
        loc: the mean of the normal distribution that is truncated.
        scale: its standard deviation, above 0.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: a scale is 0 or less, or a lower bound lies above the upper one.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> x = truncated_normal(afx.random.key(0), -1.0, 2.0, 100)
    >>> bool(afx.min(x) >= -1 and afx.max(x) <= 2)
    True
    """
    lengths, target, (a, b, centre, width) = resolve_arguments(
        "truncated_normal", key, shape, dtype, low, high, loc, scale
    )
    require_positive("truncated_normal", "a scale", width)
    require_order("truncated_normal", a, b)
    z = random_between(key, (a - centre) / width, (b - centre) / width, lengths, target)
    if is_number(centre, 0) and is_number(width, 1):
        return z
    return clip(centre + width * z, a, b)  # rounding may step over a bound


# --- Gamma family: draws differentiable in every parameter, by their quantiles
#
# A draw's derivative by a shape is that of its quantile (Figurnov, Mohamed & Mnih 2018). So the mean of derivatives
# over draws is the derivative of the expectation.


def gamma(
    key: ArrayLike, a: ArrayLike, shape: ShapeLike = None, scale: ArrayLike = 1.0, *, dtype: DTypeLike | None = None
) -> Array:
    """Return gamma numbers of shape parameter a: of density ``x ** (a - 1) * exp(-x / scale)``, normalised.

    By rejection (Marsaglia & Tsang 2000); each element has random words of its own, so that none depends on others.

    Args:
        key: uint32[2].
        a: shape parameters, above 0. Draws for small ones underflow to 0: see `loggamma`.
        shape: of the result; that of the parameters without one.
        scale: 0 or more.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: a shape parameter is 0 or less, or a scale is negative.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> gamma(afx.random.key(0), 2.0, 3).shape
    (3,)
    """
    lengths, target, (power, width) = resolve_arguments("gamma", key, shape, dtype, a, scale)
    require_positive("gamma", "a shape parameter", power)
    require_scale("gamma", width)
    z = random_gamma(key, power, lengths, target)
    return z if is_number(width, 1) else z * width


def loggamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return logarithms of gamma numbers of shape parameter a and scale 1: finite for small ones, too.

    Arguments are those of `gamma`.

    >>> bool(afx.all(afx.isfinite(loggamma(afx.random.key(0), 1e-6, 3))))
    True
    """
    lengths, target, (power,) = resolve_arguments("loggamma", key, shape, dtype, a)
    require_positive("loggamma", "a shape parameter", power)
    return random_gamma(key, power, lengths, target, logarithm=True)


def maxwell(
    key: ArrayLike, shape: ShapeLike = None, scale: ArrayLike = 1.0, *, dtype: DTypeLike | None = None
) -> Array:
    """Return Maxwell numbers: the length of a vector of three normal numbers of standard deviation ``scale``.

    Arguments are those of `exponential`.

    >>> maxwell(afx.random.key(0), 3).shape
    (3,)
    """
    lengths, target, (width,) = resolve_arguments("maxwell", key, shape, dtype, scale)
    require_scale("maxwell", width)
    z = sqrt(2 * random_gamma(key, full(lengths, 1.5, target), lengths, target))
    return z if is_number(width, 1) else z * width


def generalized_normal(
    key: ArrayLike, p: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None
) -> Array:
    """Return numbers of density ``exp(-|x| ** p)``, normalised, for p above 0; differentiable in p.

    Arguments are those of `gamma`.

    >>> generalized_normal(afx.random.key(0), 3.0, 2).shape
    (2,)
    """
    lengths, target, (power,) = resolve_arguments("generalized_normal", key, shape, dtype, p)
    require_positive("generalized_normal", "a power", power)
    first, second = split(key)
    size = exp(random_gamma(first, 1 / power, lengths, target, logarithm=True) / power)
    return where(random_draw(second, "uniform", lengths, target) < 0.5, -size, size)


def wald(key: ArrayLike, mean: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return Wald's (inverse Gaussian) numbers of a mean, of scale 1; derivatives by the mean need the extra ``scipy``.

    Drawn as by Michael, Schucany and Haas (1976), and differentiated by the distribution function, in every order.
    Arguments are those of `gamma`.

    >>> wald(afx.random.key(0), 3.0, 2).shape
    (2,)
    """
    lengths, target, (m,) = resolve_arguments("wald", key, shape, dtype, mean)
    require_positive("wald", "a mean", m)
    return random_wald(key, m, lengths, target)


def chisquare(key: ArrayLike, df: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return chi-squared numbers of ``df`` degrees of freedom, above 0. Arguments are those of `gamma`.

    >>> chisquare(afx.random.key(0), 3, 2).shape
    (2,)
    """
    lengths, target, (freedom,) = resolve_arguments("chisquare", key, shape, dtype, df)
    require_positive("chisquare", "a number of degrees of freedom", freedom)
    return 2 * random_gamma(key, freedom / 2, lengths, target)


def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return numbers of Student's distribution: ``df`` degrees of freedom above 0, shifted by ``loc``, scaled by ``scale``.

    Arguments are those of `gamma`.

    >>> t(afx.random.key(0), 5.0, 3).shape
    (3,)
    """
    lengths, target, (freedom, centre, width) = resolve_arguments("t", key, shape, dtype, df, loc, scale)
    require_positive("t", "a number of degrees of freedom", freedom)
    require_scale("t", width)
    first, second = split(key)
    half = freedom / 2
    # in logarithms: for few degrees of freedom the gamma number underflows
    root = exp((log(half) - random_gamma(second, half, lengths, target, logarithm=True)) / 2)
    z: Array = random_draw(first, "normal", lengths, target) * root * width + centre
    return z


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None
) -> Array:
    """Return numbers of the F distribution: the ratio of two chi-squared numbers, each over its degrees of freedom, above 0.

    Arguments are those of `gamma`.

    >>> f(afx.random.key(0), 5.0, 7.0, 3).shape
    (3,)
    """
    lengths, target, (above, below) = resolve_arguments("f", key, shape, dtype, dfnum, dfden)
    require_positive("f", "a number of degrees of freedom", above)
    require_positive("f", "a number of degrees of freedom", below)
    return exp(_log_ratio(key, above / 2, below / 2, lengths, target) + log(below) - log(above))


def _log_ratio(key: ArrayLike, a: Any, b: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the logarithm of the ratio of two gamma numbers."""
    first, second = split(key)
    return random_gamma(first, a, shape, dtype, logarithm=True) - random_gamma(second, b, shape, dtype, logarithm=True)


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None
) -> Array:
    """Return beta numbers: of density ``x ** (a - 1) * (1 - x) ** (b - 1)``, normalised, between 0 and 1.

    They are the share of one gamma number in the sum of two. Arguments are those of `gamma`.

    >>> beta(afx.random.key(0), 2.0, 3.0, 4).shape
    (4,)
    """
    lengths, target, (first, second) = resolve_arguments("beta", key, shape, dtype, a, b)
    require_positive("beta", "a shape parameter", first)
    require_positive("beta", "a shape parameter", second)
    return sigmoid(_log_ratio(key, first, second, lengths, target))


def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return vectors of shares that add up to 1, of density ``Π xᵢ ** (αᵢ - 1)``, normalised.

    Args:
        key: uint32[2].
        alpha: float[..., k], above 0.
        shape: of what is drawn, not counting the axis of shares; that of ``alpha`` without it where none is given.
        dtype: that of ``alpha``, or the default dtype.

    Raises:
        ArgumentError: an alpha is 0 or less.
        ShapeError: alpha is no vector, or does not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> dirichlet(afx.random.key(0), np.ones(3), 5).shape
    (5, 3)
    """
    aval = aval_of(alpha, "dirichlet")
    if not aval.ndim:
        raise ShapeError(f"dirichlet: one alpha for each share: got {aval}; give a vector")
    full = None if shape is None else (*checked_shape(shape, "dirichlet"), aval.shape[-1])
    lengths, target, (powers,) = resolve_arguments("dirichlet", key, full, dtype, alpha)
    require_positive("dirichlet", "an alpha", powers)
    return softmax(random_gamma(key, powers, lengths, target, logarithm=True), -1)
