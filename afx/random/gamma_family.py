"""Gamma family: draws differentiable in every parameter, by their quantiles.

A draw's derivative by a shape is that of its quantile (Figurnov, Mohamed & Mnih 2018). So the mean of derivatives over
draws is the derivative of the expectation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, checked_shape
from afx.errors import ShapeError
from afx.ops.elementwise.exponential import exp, log, sigmoid
from afx.ops.nn.softmax import softmax
from afx.ops.random.gamma import random_gamma
from afx.ops.random.uniform_family import random_draw
from afx.random._arguments import ShapeLike, require_positive, require_scale, resolve_arguments
from afx.random.basic import is_number
from afx.random.keys import split

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "loggamma", "t"]


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
    lengths, found, (power, width) = resolve_arguments("gamma", key, shape, dtype, a, scale)
    require_positive("gamma", "a shape parameter", power)
    require_scale("gamma", width)
    z = random_gamma(key, power, lengths, found)
    return z if is_number(width, 1) else z * width


def loggamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return logarithms of gamma numbers of shape parameter a and scale 1: finite for small ones, too.

    Arguments are those of `gamma`.

    >>> bool(afx.all(afx.isfinite(loggamma(afx.random.key(0), 1e-6, 3))))
    True
    """
    lengths, found, (power,) = resolve_arguments("loggamma", key, shape, dtype, a)
    require_positive("loggamma", "a shape parameter", power)
    return random_gamma(key, power, lengths, found, logarithm=True)


def chisquare(key: ArrayLike, df: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return chi-squared numbers of ``df`` degrees of freedom, above 0. Arguments are those of `gamma`.

    >>> chisquare(afx.random.key(0), 3, 2).shape
    (2,)
    """
    lengths, found, (freedom,) = resolve_arguments("chisquare", key, shape, dtype, df)
    require_positive("chisquare", "a number of degrees of freedom", freedom)
    return 2 * random_gamma(key, freedom / 2, lengths, found)


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
    lengths, found, (freedom, centre, width) = resolve_arguments("t", key, shape, dtype, df, loc, scale)
    require_positive("t", "a number of degrees of freedom", freedom)
    require_scale("t", width)
    first, second = split(key)
    half = freedom / 2
    # in logarithms: for few degrees of freedom the gamma number underflows
    root: Array = exp((log(half) - random_gamma(second, half, lengths, found, logarithm=True)) / 2)
    z: Array = random_draw(first, "normal", lengths, found) * root * width + centre
    return z


def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike = None,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return numbers of the F distribution: the ratio of two chi-squared numbers, each over its degrees of freedom, above 0.

    Arguments are those of `gamma`.

    >>> f(afx.random.key(0), 5.0, 7.0, 3).shape
    (3,)
    """
    lengths, found, (above, below) = resolve_arguments("f", key, shape, dtype, dfnum, dfden)
    require_positive("f", "a number of degrees of freedom", above)
    require_positive("f", "a number of degrees of freedom", below)
    return exp(_log_ratio(key, above / 2, below / 2, lengths, found) + log(below) - log(above))


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
    lengths, found, (first, second) = resolve_arguments("beta", key, shape, dtype, a, b)
    require_positive("beta", "a shape parameter", first)
    require_positive("beta", "a shape parameter", second)
    return sigmoid(_log_ratio(key, first, second, lengths, found))


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
    lengths, found, (powers,) = resolve_arguments("dirichlet", key, full, dtype, alpha)
    require_positive("dirichlet", "an alpha", powers)
    return softmax(random_gamma(key, powers, lengths, found, logarithm=True), -1)
