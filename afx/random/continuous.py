"""Location-scale distributions: standard draws, scaled and shifted, differentiable in every parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import clip
from afx.ops.random.truncated_normal import random_between
from afx.ops.random.uniform_family import random_draw
from afx.random._arguments import ShapeLike, require_order, require_positive, require_scale, resolve_arguments
from afx.random.basic import is_number, loc_scale_sample, normal

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "cauchy",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "pareto",
    "rayleigh",
    "truncated_normal",
    "weibull",
]


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
    lengths, found, (centre, width) = resolve_arguments("gumbel", key, shape, dtype, loc, scale)
    require_scale("gumbel", width)
    z = -log(random_draw(key, "exponential", lengths, found))
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
    lengths, found, (width,) = resolve_arguments("rayleigh", key, shape, dtype, scale)
    require_scale("rayleigh", width)
    z = sqrt(2 * random_draw(key, "exponential", lengths, found))
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
    lengths, found, (power, width) = resolve_arguments("weibull", key, shape, dtype, concentration, scale)
    require_positive("weibull", "a concentration", power)
    require_scale("weibull", width)
    z: Array = random_draw(key, "exponential", lengths, found) ** (1 / power)
    return z if is_number(width, 1) else z * width


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
    lengths, found, (power, width) = resolve_arguments("pareto", key, shape, dtype, concentration, scale)
    require_positive("pareto", "a concentration", power)
    require_scale("pareto", width)
    z = exp(random_draw(key, "exponential", lengths, found) / power)
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
    lengths, found, (a, b, centre, width) = resolve_arguments(
        "truncated_normal", key, shape, dtype, low, high, loc, scale
    )
    require_positive("truncated_normal", "a scale", width)
    require_order("truncated_normal", a, b)
    z = random_between(key, (a - centre) / width, (b - centre) / width, lengths, found)
    if is_number(centre, 0) and is_number(width, 1):
        return z
    return clip(centre + width * z, a, b)  # rounding may step over a bound
