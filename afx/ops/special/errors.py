"""Error functions and entropies: erf and its kin, log-odds, divergences, and products with a logarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Primitive, bind_single, default_dtype, register_function
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import TINY, binary, unary
from afx.ops._kinds.special import (
    alone_in_float64,
    bind_special,
    ignore_fp_errors,
    in_doubles,
    parametric,
    polynomial,
    scipy,
)
from afx.ops.creation.creation import SEQUENCES, asarray
from afx.ops.elementwise.comparison import clip, minimum, where
from afx.ops.elementwise.exponentials import exp, log, log1p, log_sigmoid, sigmoid
from afx.ops.reductions.cumulative import logsumexp as log_sum_of_exponentials
from afx.ops.reductions.sums import Axis
from afx.ops.special._quadrature import (
    CENTRAL_DOUBLE,
    CENTRE,
    FAR,
    FAR_DOUBLE,
    NEAR,
    NEAR_DOUBLE,
    OFFSET,
    Pair,
    double,
    integral,
)

# --- Error functions: erf, its complement and inverse, and the normal distribution's statistical names

ROOT2 = math.sqrt(2)
ROOTPI = math.sqrt(math.pi)
LOG2, LOG2PI = math.log(2.0), math.log(2 * math.pi)
BOUND = 40.0  # exp(-40²) is 0 in every dtype; beyond it x² could overflow


def _gauss(x: Array) -> Array:
    """Return ``exp(-x²)``."""
    if x.dtype.kind == "c":
        return exp(-(x * x))
    u = clip(x, -BOUND, BOUND)
    return exp(-u * u)


@register_function
def erf(x: ArrayLike) -> Array:
    """Return the error function ``2/√π ∫₀ˣ exp(-t²) dt``, of complex numbers too; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erf(0.5)
    Array(0.52049988, dtype=float64)
    """
    return bind_special(erf_p, x)


# (1 + 2 x) exp(x²) erfc(x) of x >= 0 in t = (x - 2) / (x + 2), by interpolation at Chebyshev's points
# (the form of Shepherd & Laframboise 1981); relative error 4e-15
ERFC = (
    1.276978381552528, -0.09276382658574282, -0.16603039761511157, 0.16405128003299507, -0.0542200010015152,
    -0.00803401506894144, 0.008722654073227731, 0.0012713387838584073, -0.001456816036292486, -0.00045433942632052863,
    0.00020637996274817962, 0.00015103222023724484, -1.5579421730892988e-06, -3.639980086397072e-05,
    -1.3377034483279394e-05, 3.654444559603514e-06, 5.04508915742431e-06, 1.6001422991224405e-06,
    -5.2439202652125e-07, -9.516236273721383e-07, -3.542860066329134e-07, 2.357169363422332e-07,
    1.810316692312155e-07, -2.5287633322309966e-08, -2.985396711717024e-08,
)  # fmt: skip


# erf(x) / x in x² up to 1/2, by Taylor's series
ERF = tuple([2 / ROOTPI * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)])


def _bell(x: Any, share: float = 1.0) -> Any:
    """Return ``exp(-share x²)``: x in a part whose square is exact, and the rest."""
    size = xp.minimum(xp.abs(x), 60.0)
    head = xp.floor(size * 16.0) / 16.0
    return xp.exp(-(head * head) * share) * xp.exp((head - size) * (head + size) * share)


def _scaled_tail(x: Any) -> Any:
    """Return ``exp(x²) erfc(x)`` of a number that is not negative."""
    size = xp.where(x < 1e150, x, 1e150)  # beyond, the polynomial has its last value, and 1/x is left
    far = xp.where(x < 1e150, 1.0, x)
    near = polynomial((size - 2.0) / (size + 2.0), ERFC) / (2.0 * size + 1.0)
    return xp.where(x < 1e150, near, 1.0 / ROOTPI / far)


def _far_erfc(x: Any) -> Any:
    size = xp.where(xp.isnan(x), 0.0, x)
    tail = xp.where(xp.isnan(x), x, _bell(size) * _scaled_tail(xp.abs(size)))
    return xp.where(x < 0.0, 2.0 - tail, tail)


def _erf(x: Any) -> Any:
    near = x * polynomial(xp.where(xp.abs(x) < 0.5, x * x, 0.0), ERF)
    return xp.where(xp.abs(x) < 0.5, near, xp.sign(x) * (1.0 - _far_erfc(xp.abs(x))))


erf_p: Primitive = unary(
    "erf",
    scipy("erf"),
    lambda _z, x: _gauss(x) * (2 / ROOTPI),
    kinds="fc",
    finite_partials=True,
    formula=in_doubles(_erf),
)


@register_function
def erfc(x: ArrayLike) -> Array:
    """Return ``1 - erf(x)``, accurate where it is small, of complex numbers too; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfc(0.5)
    Array(0.47950012, dtype=float64)
    """
    return bind_special(erfc_p, x)


def _erfc(x: Any) -> Any:
    return xp.where(xp.abs(x) < 0.5, 1.0 - _erf(x), _far_erfc(x))


erfc_p: Primitive = unary(
    "erfc",
    scipy("erfc"),
    lambda _z, x: _gauss(x) * (-2 / ROOTPI),
    kinds="fc",
    finite_partials=True,
    formula=in_doubles(_erfc),
)


@register_function
def erfcx(x: ArrayLike) -> Array:
    """Return ``exp(x²) erfc(x)``, which does not vanish far out; needs the extra ``scipy``.

    Its derivatives of every order are accurate there too.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfcx(1e6)
    Array(5.64189584e-07, dtype=float64)
    """
    return bind_special(erfcx_p, x)


def _erfcx(x: Any) -> Any:
    size = xp.where(xp.isnan(x), 0.0, xp.abs(x))
    tail = _scaled_tail(size)
    return xp.where(xp.isnan(x), x, xp.where(x < 0.0, 2.0 / _bell(size) - tail, tail))


erfcx_p: Primitive = unary(
    "erfcx", scipy("erfcx"), lambda _z, x: bind_single(erfcx_slope_p, x, order=1), kinds="f", formula=in_doubles(_erfcx)
)


def _erfcx_tail(x: Any, order: int) -> Any:
    """Return the derivative of `erfcx` at 0 or more: ``2/√π ∫ (-2t)ⁿ exp(-t² - 2xt) dt``, no difference of large numbers."""
    depth = 40.0 + 8 * order
    end = depth / (x + np.hypot(x, math.sqrt(depth)))

    def integrand(u: Any, x: Any, end: Any) -> Any:
        t = u * end
        return np.exp(-t * (t + 2 * x)) * (-2 * u) ** order

    return integral(integrand, x, end) * end ** (order + 1) * (2 / ROOTPI)


def _erfcx_slope(x: Any, *, order: int) -> Any:
    """Return the derivative of `erfcx`: below 0 from the two before it, as ``f' = 2 x f - 2/√π``."""
    low = np.minimum(x, 0.0)
    before, slope = np.zeros_like(x), scipy("erfcx")(low)
    for n in range(order):  # below 0 all terms have one sign
        before, slope = slope, 2 * (low * slope - 1 / ROOTPI if n == 0 else low * slope + n * before)
    where_: Any = np.where
    return where_(x < 0, slope, _erfcx_tail(np.clip(x, 0.0, 1e300), order))


def _erfcx_next(_z: Array, x: Array, *, order: int) -> Array:
    return bind_single(erfcx_slope_p, x, order=order + 1)


erfcx_slope_p: Primitive = parametric("erfcx_slope", double(_erfcx_slope), (_erfcx_next,), {"order": 1})


@register_function
def erfinv(x: ArrayLike) -> Array:
    """Return the number whose error function is x; its derivative at -1 and 1 is inf; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfinv(0.5).round(4)
    Array(0.4769, dtype=float64)
    """
    return bind_special(erfinv_p, x)


def _ratio(x: Any, pair: Pair) -> Any:
    return polynomial(x, pair[0][::-1]) / polynomial(x, pair[1][::-1])


def _quantile(q: Any, log_tail: Any) -> Any:
    """Return the quantile at ``q + 1/2``, whose smaller tail's logarithm is given."""
    root = xp.sqrt(-xp.where(log_tail < 0.0, log_tail, -1.0))
    tail = xp.where(
        root < FAR,
        _ratio(xp.minimum(root, FAR) - NEAR, NEAR_DOUBLE),
        _ratio(xp.minimum(xp.maximum(root, FAR), 30.0) - FAR, FAR_DOUBLE),
    )
    is_near = xp.abs(q) < CENTRE
    near = xp.where(is_near, q, 0.0)
    z = xp.where(is_near, near * _ratio(OFFSET - near * near, CENTRAL_DOUBLE), xp.sign(q) * tail)
    return xp.where(log_tail == -math.inf, xp.sign(q) * math.inf, z)


def _erfinv(x: Any) -> Any:
    rest = 1.0 - xp.abs(x)
    z = _quantile(x * 0.5, xp.log(xp.maximum(rest * 0.5, 0.0))) / ROOT2
    z = xp.where(xp.abs(x) < TINY, x * (ROOTPI / 2), z)
    return xp.where(x == 0.0, 0.0, xp.where(rest < 0.0, math.nan, z))  # SciPy's zero has no sign


erfinv_p: Primitive = unary(
    "erfinv", scipy("erfinv"), lambda z, _x: exp(z * z) * (ROOTPI / 2), kinds="f", formula=in_doubles(_erfinv)
)


@register_function
def erfcinv(x: ArrayLike) -> Array:
    """Return the number whose `erfc` is x; its derivative at 0 and 2 is -inf; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfcinv(0.5)
    Array(0.47693628, dtype=float64)
    """
    return bind_special(erfcinv_p, x)


def _erfcinv(y: Any) -> Any:
    half = y * 0.5
    z = _quantile(0.5 - half, xp.log(xp.maximum(xp.minimum(half, 1.0 - half), 0.0))) / ROOT2
    return xp.where((y < 0.0) | (y > 2.0), math.nan, xp.where(y == 1.0, -0.0, z))


erfcinv_p: Primitive = unary(
    "erfcinv", scipy("erfcinv"), lambda z, _x: exp(z * z) * (-ROOTPI / 2), kinds="f", formula=in_doubles(_erfcinv)
)


@register_function
def dawsn(x: ArrayLike) -> Array:
    """Return Dawson's integral, ``exp(-x²) ∫₀ˣ exp(t²) dt``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> dawsn(0.5).round(4)
    Array(0.4244, dtype=float64)
    """
    return bind_special(dawsn_p, x)


FAR_DAWSON = 10.0  # from where on the derivative's expansion has all digits


def _dawsn_slope(z: Array, x: Array) -> Array:
    """Return ``1 - 2 x z``, of which far out ``-Σ (2k - 1)!! / (2x²)^k`` is left."""
    is_far = abs(x) > FAR_DAWSON
    far = where(is_far, x, FAR_DAWSON)
    share = 0.5 / far / far
    total = 0.0 * share
    for k in range(15, 0, -1):
        total = share * (2 * k - 1) * (1 + total)
    return where(is_far, -total, 1 - 2 * where(is_far, 0, x) * z)


dawsn_p: Primitive = unary("dawsn", scipy("dawsn"), _dawsn_slope, kinds="f")


# -- the normal distribution --
@register_function
def ndtr(x: ArrayLike) -> Array:
    """Return the normal distribution function, ``½ erfc(-x/√2)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtr(0.0)
    Array(0.5, dtype=float64)
    """
    return bind_special(ndtr_p, x)


def density(x: Array) -> Array:
    """Return the normal density."""
    u = clip(x, -BOUND, BOUND)
    return exp(-0.5 * u * u) * (1 / (ROOT2 * ROOTPI))


def _ndtr(x: Any) -> Any:
    # of x itself: its quotient by √2 is rounded, and its square 10³ times that
    size = xp.where(xp.isnan(x), 0.0, xp.abs(x))
    tail = xp.where(xp.isnan(x), x, _bell(size, 0.5) * _scaled_tail(size / ROOT2) * 0.5)
    return xp.where(x > 0.0, 1.0 - tail, tail)


ndtr_p: Primitive = unary(
    "ndtr", scipy("ndtr"), lambda _z, x: density(x), kinds="f", finite_partials=True, formula=in_doubles(_ndtr)
)


@register_function
def ndtri(p: ArrayLike) -> Array:
    """Return the number whose normal distribution function is p; its derivative at 0 and 1 is inf.

    Needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtri(0.5)
    Array(0., dtype=float64)
    """
    return bind_special(ndtri_p, p)


def _ndtri(p: Any) -> Any:
    z = _quantile(p - 0.5, xp.log(xp.maximum(xp.minimum(p, 1.0 - p), 0.0)))
    return xp.where((p < 0.0) | (p > 1.0), math.nan, z)


ndtri_p: Primitive = unary(
    "ndtri", scipy("ndtri"), lambda z, _x: exp(0.5 * z * z) * (ROOT2 * ROOTPI), kinds="f", formula=in_doubles(_ndtri)
)


@register_function
def log_ndtr(x: ArrayLike) -> Array:
    """Return ``log(ndtr(x))``, accurate in both tails, and so is its derivative; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> log_ndtr(-30.0)
    Array(-454.32124396, dtype=float64)
    """
    return bind_special(log_ndtr_p, x)


def _log_ndtr_slope(_z: Array, x: Array) -> Array:
    left = where(x < 0, x, 0)
    right = where(x < 0, 0, x)
    return where(x < 0, ROOT2 / ROOTPI / erfcx(left * (-1 / ROOT2)), density(right) / ndtr(right))


def _log_ndtr(x: Any) -> Any:
    low = xp.where(x < -1.0, x, -1.0)
    below = xp.log(_scaled_tail(low / -ROOT2)) - LOG2 - low * low * 0.5
    return xp.where(x < -1.0, below, xp.log1p(_far_erfc(x / ROOT2) * -0.5))


log_ndtr_p: Primitive = unary("log_ndtr", scipy("log_ndtr"), _log_ndtr_slope, kinds="f", formula=in_doubles(_log_ndtr))


@register_function
def ndtri_exp(y: ArrayLike) -> Array:
    """Return the number whose `log_ndtr` is y, accurate where y is far below 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtri_exp(-500.0)
    Array(-31.48429978, dtype=float64)
    """
    return bind_special(ndtri_exp_p, y)


def _ndtri_exp(y: Any) -> Any:
    """Return the quantile at exp(y): far out by ``x² = -2y - log(2π) - 2 log x + 2 log(1 - 1/x² + 3/x⁴ - …)``."""
    is_far, is_huge = y < -600.0, y < -1e100
    near = xp.where(is_far, -1.0, y)
    z = _quantile(xp.exp(near) - 0.5, xp.where(near < -LOG2, near, xp.log(-xp.expm1(xp.minimum(near, 0.0)))))
    twice = xp.where(is_far & ~is_huge, y, -600.0) * -2.0
    x = xp.sqrt(twice)
    for _ in range(5):
        inverse = 1.0 / (x * x)
        rest = xp.log1p(-inverse * polynomial(inverse, (1.0, -3.0, 15.0, -105.0, 945.0)))
        x = xp.sqrt(twice - LOG2PI - 2.0 * xp.log(x) + 2.0 * rest)
    x = xp.where(is_huge, xp.sqrt(xp.maximum(-y, 0.0)) * ROOT2, x)
    return xp.where(is_far, -x, xp.where(y > 0.0, math.nan, z))


ndtri_exp_p: Primitive = unary(
    "ndtri_exp", scipy("ndtri_exp"), lambda z, _y: 1 / _log_ndtr_slope(z, z), kinds="f", formula=in_doubles(_ndtri_exp)
)


# --- Entropies: log-odds, divergences, and products with a logarithm that are 0 where their factor is

_where: Any = np.where  # its result type is not known to checkers


@register_function
def expit(x: ArrayLike) -> Array:
    """Return the logistic function ``1 / (1 + exp(-x))``: `afx.nn.sigmoid`, of numbers alone in float64.

    >>> expit(-200)
    Array(1.38389653e-87, dtype=float64)
    """
    return sigmoid(*alone_in_float64("expit", x))


@register_function
def log_expit(x: ArrayLike) -> Array:
    """Return ``log(expit(x))`` without overflow.

    >>> log_expit(-1000.0)
    Array(-1000., dtype=float64)
    """
    return log_sigmoid(*alone_in_float64("log_expit", x))


def logsumexp(x: ArrayLike, axis: Axis = None, *, b: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Return `afx.logsumexp`, of integers and Python's numbers alone in float64.

    Args:
        x: real numbers.
        axis: one axis, several, or all.
        b: factors that broadcast with x.
        keepdims: keeps the axes, with length 1.

    >>> logsumexp([1000, 1000]).round(4)
    Array(1000.6931, dtype=float64)
    """
    if x.__class__ in SEQUENCES:
        with default_dtype(np.float64):
            x = asarray(x)
    y, *factors = alone_in_float64("logsumexp", x, *([] if b is None else [b]))
    return log_sum_of_exponentials(y, axis, b=factors[0] if factors else None, keepdims=keepdims)


@register_function
def logit(p: ArrayLike) -> Array:
    """Return ``log(p / (1 - p))``, accurate at 0, ½ and 1; its derivative at 0 and 1 is inf.

    >>> logit(0.5)
    Array(0., dtype=float64)
    """
    return bind_special(logit_p, p)


def _logit(p: Any) -> Any:
    s = np.clip(2 * p - 1.0, -0.5, 0.5)  # in the middle, exact where the logarithm is small
    outside = np.abs(p - 0.5) > 0.25
    return _where(outside, np.log(p) - np.log1p(-1.0 * p), np.log1p(s) - np.log1p(-s))


logit_p: Primitive = unary(
    "logit", ignore_fp_errors(_logit), lambda _z, p: 1 / (p * (1 - p)), kinds="f", traceable=True
)


@register_function
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(y)``, 0 where x is 0, even if y is; there both its derivatives are 0 unless y is positive.

    >>> xlogy(2.0, 3.0).round(4)
    Array(2.1972, dtype=float64)
    """
    return bind_special(xlogy_p, x, y)


def _xlogy_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, log(where(nothing, 1, y)))


def _xlogy_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, x / where(nothing, 1, y))


xlogy_p: Primitive = binary(
    "xlogy",
    ignore_fp_errors(lambda x, y: _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log(y))),
    (_xlogy_by_x, _xlogy_by_y),
    kinds="f",
    traceable=True,
)


@register_function
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(1 + y)``, 0 where x is 0, even if y is -1; both derivatives are 0 there, unless y is above -1.

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float64)
    """
    return bind_special(xlog1py_p, x, y)


def _xlog1py_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, log1p(where(nothing, 0, y)))


def _xlog1py_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, x / (1 + where(nothing, 0, y)))


xlog1py_p: Primitive = binary(
    "xlog1py",
    ignore_fp_errors(lambda x, y: _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log1p(y))),
    (_xlog1py_by_x, _xlog1py_by_y),
    kinds="f",
    traceable=True,
)


# -- entropies --
@register_function
def entr(x: ArrayLike) -> Array:
    """Return ``-x log(x)``, 0 at 0, where its derivative is inf, and -inf below.

    >>> entr(0.0)
    Array(0., dtype=float64)
    """
    return bind_special(entr_p, x)


def _entr(x: Any) -> Any:
    z = _where(x > 0, x * -np.log(x), 0.0 * x)
    return _where(x < 0, -math.inf, z)


entr_p: Primitive = unary(
    "entr",
    ignore_fp_errors(_entr),
    lambda _z, x: where(x < 0, 0, -log(where(x < 0, 1, x)) - 1),
    kinds="f",
    traceable=True,
)


@register_function
def rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y)``, 0 where x is 0 and y is not negative, and inf where either is negative or y alone is 0.

    Both its derivatives at (0, 0) are 0, and so they are where its value is inf.

    >>> rel_entr(0.5, 0.25).round(4)
    Array(0.3466, dtype=float64)
    """
    return bind_special(rel_entr_p, x, y)


def _gap(x: Any, y: Any) -> tuple[Any, Any]:
    """Return ``y / x - 1`` of numbers of which one is at most twice the other, 0 of others, and where they are such."""
    close = np.abs(y - x) <= np.minimum(x, y)
    return _where(close, y - x, 0.0 * x) / _where(close & (x > 0), x, 1.0), close & (x > 0)


def _log_ratio(x: Any, y: Any) -> Any:
    ratio = np.divide(x, y)
    lost = (ratio < np.finfo(ratio.dtype).tiny) | (ratio == math.inf)
    gap, close = _gap(x, y)
    return _where(close, -np.log1p(gap), _where(lost, np.log(x) - np.log(y), np.log(ratio)))


def _rel_entr(x: Any, y: Any) -> Any:
    z = _where((x > 0) & (y > 0), x * _log_ratio(x, y), 0.0 * (x + np.minimum(y, 1.0)))
    return _where((x < 0) | (y < 0) | ((x > 0) & (y == 0)), math.inf, z)


def _ordinary(x: Array, y: Array) -> Array:
    """Tell where a divergence is finite and has derivatives."""
    return (x >= 0) & (y > 0)


def _log_quotient(x: Array, y: Array, ordinary: Array) -> Array:
    """Return ``log(x / y)`` where that is asked for: by the difference where they are close."""
    close = (abs(y - x) <= minimum(x, y)) & (x > 0)
    gap = where(close, y - x, 0) / where(close, x, 1)
    return where(close, -log1p(gap), log(where(ordinary, x, 1)) - log(where(ordinary, y, 1)))


def _rel_entr_by_x(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, _log_quotient(x, y, ordinary) + 1, 0)


def _rel_entr_by_y(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, -where(ordinary, x, 0) / where(ordinary, y, 1), 0)


rel_entr_p: Primitive = binary(
    "rel_entr", ignore_fp_errors(_rel_entr), (_rel_entr_by_x, _rel_entr_by_y), kinds="f", traceable=True
)


@register_function
def kl_div(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y) - x + y``, y where x is 0 and y is not negative, and inf where `rel_entr` is.

    Its derivatives at (0, 0) are 0 by x and 1 by y; where its value is inf, both are 0.

    >>> kl_div(0.5, 0.25).round(4)
    Array(0.0966, dtype=float64)
    """
    return bind_special(kl_div_p, x, y)


# u - log(1 + u) is r (u - 2 r² (1/3 + r²/5 + r⁴/7 + …)) of r = u / (2 + u)
ODD_RECIPROCALS = tuple([1 / (2 * k + 3) for k in range(17)])


def _beyond_logarithm(u: Any) -> Any:
    """Return ``u - log(1 + u)`` of a number from -1/2 to 1, to all its digits."""
    r = u / (2.0 + u)
    square = r * r
    total = 0.0 * u
    for c in reversed(ODD_RECIPROCALS):
        total = total * square + c
    return r * (u - 2.0 * square * total)


def _kl_div(x: Any, y: Any) -> Any:
    gap, close = _gap(x, y)
    z = _where(close, x * _beyond_logarithm(gap), _where(x == 0, y, x * _log_ratio(x, y) - x + y))
    return _where((x < 0) | (y < 0) | ((x > 0) & (y == 0)), math.inf, z)


def _kl_div_by_x(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, _log_quotient(x, y, ordinary), 0)


def _kl_div_by_y(_z: Array, x: Array, y: Array) -> Array:
    ordinary, origin = _ordinary(x, y), (x == 0) & (y == 0)
    close = ordinary & (abs(y - x) <= minimum(x, y))
    share = where(close, (y - x) / where(close, y, 1), 1 - where(ordinary, x, 0) / where(ordinary, y, 1))
    return where(ordinary | origin, share, 0)


kl_div_p: Primitive = binary(
    "kl_div", ignore_fp_errors(_kl_div), (_kl_div_by_x, _kl_div_by_y), kinds="f", traceable=True
)
