"""Error functions and entropies: erf and its kin, log-odds, divergences, and products with a logarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2, bind_single
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.special import ignore_fp_errors, parametric, scipy
from afx.ops.elementwise.arithmetic import exp, log, log1p
from afx.ops.elementwise.comparison import clip, minimum, where
from afx.ops.special._quadrature import double, integral

# --- Error functions: erf, its complement and inverse, and the normal distribution's statistical names

ROOT2 = math.sqrt(2)
ROOTPI = math.sqrt(math.pi)
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
    Array(0.5204999, dtype=float32)
    """
    return bind1(erf_p, x)


erf_p: Primitive = unary(
    "erf",
    scipy("erf"),
    lambda _z, x: _gauss(x) * (2 / ROOTPI),
    kinds="fc",
    promotes_to_float=True,
    finite_partials=True,
)


@register_function
def erfc(x: ArrayLike) -> Array:
    """Return ``1 - erf(x)``, accurate where it is small, of complex numbers too; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfc(0.5)
    Array(0.47950011, dtype=float32)
    """
    return bind1(erfc_p, x)


erfc_p: Primitive = unary(
    "erfc",
    scipy("erfc"),
    lambda _z, x: _gauss(x) * (-2 / ROOTPI),
    kinds="fc",
    promotes_to_float=True,
    finite_partials=True,
)


@register_function
def erfcx(x: ArrayLike) -> Array:
    """Return ``exp(x²) erfc(x)``, which does not vanish far out; needs the extra ``scipy``.

    Its derivatives of every order are accurate there too.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfcx(1e6)
    Array(5.641896e-07, dtype=float32)
    """
    return bind1(erfcx_p, x)


erfcx_p: Primitive = unary(
    "erfcx", scipy("erfcx"), lambda _z, x: bind_single(erfcx_slope_p, x, order=1), kinds="f", promotes_to_float=True
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
    low = np.minimum(x, 0.0)
    before, slope = np.zeros_like(x), scipy("erfcx")(low)
    for n in range(order):  # below 0 all terms have one sign
        before, slope = slope, 2 * (low * slope - 1 / ROOTPI if n == 0 else low * slope + n * before)
    where_: Any = np.where
    return where_(x < 0, slope, _erfcx_tail(np.clip(x, 0.0, 1e300), order))


def _erfcx_next(_z: Array, x: Array, *, order: int) -> Array:
    return bind_single(erfcx_slope_p, x, order=order + 1)


erfcx_slope_p: Primitive = parametric(
    "erfcx_slope",
    double(_erfcx_slope),
    (_erfcx_next,),
    {"order": 1},
)


@register_function
def erfinv(x: ArrayLike) -> Array:
    """Return the number whose error function is x; its derivative at -1 and 1 is inf; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfinv(0.5).round(4)
    Array(0.4769, dtype=float32)
    """
    return bind1(erfinv_p, x)


erfinv_p: Primitive = unary(
    "erfinv",
    scipy("erfinv"),
    lambda z, _x: exp(z * z) * (ROOTPI / 2),
    kinds="f",
    promotes_to_float=True,
    domain=(-0.9, 0.9),
)


@register_function
def erfcinv(x: ArrayLike) -> Array:
    """Return the number whose `erfc` is x; its derivative at 0 and 2 is -inf; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> erfcinv(0.5)
    Array(0.47693628, dtype=float32)
    """
    return bind1(erfcinv_p, x)


erfcinv_p: Primitive = unary(
    "erfcinv",
    scipy("erfcinv"),
    lambda z, _x: exp(z * z) * (-ROOTPI / 2),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 1.9),
)


@register_function
def dawsn(x: ArrayLike) -> Array:
    """Return Dawson's integral, ``exp(-x²) ∫₀ˣ exp(t²) dt``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> dawsn(0.5).round(4)
    Array(0.4244, dtype=float32)
    """
    return bind1(dawsn_p, x)


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


dawsn_p: Primitive = unary("dawsn", scipy("dawsn"), _dawsn_slope, kinds="f", promotes_to_float=True)


# -- the normal distribution --
@register_function
def ndtr(x: ArrayLike) -> Array:
    """Return the normal distribution function, ``½ erfc(-x/√2)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return bind1(ndtr_p, x)


def density(x: Array) -> Array:
    """Return the normal density."""
    u = clip(x, -BOUND, BOUND)
    return exp(-0.5 * u * u) * (1 / (ROOT2 * ROOTPI))


ndtr_p: Primitive = unary(
    "ndtr", scipy("ndtr"), lambda _z, x: density(x), kinds="f", promotes_to_float=True, finite_partials=True
)


@register_function
def ndtri(p: ArrayLike) -> Array:
    """Return the number whose normal distribution function is p; its derivative at 0 and 1 is inf.

    Needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtri(0.5)
    Array(0., dtype=float32)
    """
    return bind1(ndtri_p, p)


ndtri_p: Primitive = unary(
    "ndtri",
    scipy("ndtri"),
    lambda z, _x: exp(0.5 * z * z) * (ROOT2 * ROOTPI),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 0.9),
)


@register_function
def log_ndtr(x: ArrayLike) -> Array:
    """Return ``log(ndtr(x))``, accurate in both tails, and so is its derivative; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> log_ndtr(-30.0)
    Array(-454.32126, dtype=float32)
    """
    return bind1(log_ndtr_p, x)


def _log_ndtr_slope(_z: Array, x: Array) -> Array:
    left = where(x < 0, x, 0)
    right = where(x < 0, 0, x)
    return where(x < 0, ROOT2 / ROOTPI / erfcx(left * (-1 / ROOT2)), density(right) / ndtr(right))


log_ndtr_p: Primitive = unary("log_ndtr", scipy("log_ndtr"), _log_ndtr_slope, kinds="f", promotes_to_float=True)


@register_function
def ndtri_exp(y: ArrayLike) -> Array:
    """Return the number whose `log_ndtr` is y, accurate where y is far below 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> ndtri_exp(-500.0)
    Array(-31.4843, dtype=float32)
    """
    return bind1(ndtri_exp_p, y)


ndtri_exp_p: Primitive = unary(
    "ndtri_exp",
    scipy("ndtri_exp"),
    lambda z, _y: 1 / _log_ndtr_slope(z, z),
    kinds="f",
    promotes_to_float=True,
    domain=(-4.0, -0.2),
)


# --- Entropies: log-odds, divergences, and products with a logarithm that are 0 where their factor is

_where: Any = np.where  # its result type is not known to checkers


@register_function
def logit(p: ArrayLike) -> Array:
    """Return ``log(p / (1 - p))``, accurate at 0, ½ and 1; its derivative at 0 and 1 is inf.

    >>> logit(0.5)
    Array(0., dtype=float32)
    """
    return bind1(logit_p, p)


def _logit(p: Any) -> Any:
    s = np.clip(2 * p - 1.0, -0.5, 0.5)  # in the middle, exact where the logarithm is small
    outside = np.abs(p - 0.5) > 0.25
    return _where(outside, np.log(p) - np.log1p(-1.0 * p), np.log1p(s) - np.log1p(-s))


logit_p: Primitive = unary(
    "logit",
    ignore_fp_errors(_logit),
    lambda _z, p: 1 / (p * (1 - p)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 0.9),
    traceable=True,
)


@register_function
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(y)``, 0 where x is 0, even if y is; there both its derivatives are 0 unless y is positive.

    >>> xlogy(2.0, 3.0).round(4)
    Array(2.1972, dtype=float32)
    """
    return bind2(xlogy_p, x, y)


def _xlogy(x: Any, y: Any) -> Any:
    return _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log(y))


def _xlogy_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, log(where(nothing, 1, y)))


def _xlogy_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, x / where(nothing, 1, y))


xlogy_p: Primitive = binary(
    "xlogy",
    ignore_fp_errors(_xlogy),
    (_xlogy_by_x, _xlogy_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
    traceable=True,
)


@register_function
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(1 + y)``, 0 where x is 0, even if y is -1; both derivatives are 0 there, unless y is above -1.

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float32)
    """
    return bind2(xlog1py_p, x, y)


def _xlog1py(x: Any, y: Any) -> Any:
    return _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log1p(y))


def _xlog1py_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, log1p(where(nothing, 0, y)))


def _xlog1py_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, x / (1 + where(nothing, 0, y)))


xlog1py_p: Primitive = binary(
    "xlog1py",
    ignore_fp_errors(_xlog1py),
    (_xlog1py_by_x, _xlog1py_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(-0.5, 4.0),
    traceable=True,
)


# -- entropies --
@register_function
def entr(x: ArrayLike) -> Array:
    """Return ``-x log(x)``, 0 at 0, where its derivative is inf, and -inf below.

    >>> entr(0.0)
    Array(0., dtype=float32)
    """
    return bind1(entr_p, x)


def _entr(x: Any) -> Any:
    z = _where(x > 0, x * -np.log(x), 0.0 * x)
    return _where(x < 0, -math.inf, z)


def _entr_slope(_z: Array, x: Array) -> Array:
    return where(x < 0, 0, -log(where(x < 0, 1, x)) - 1)


entr_p: Primitive = unary(
    "entr",
    ignore_fp_errors(_entr),
    _entr_slope,
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
    traceable=True,
)


@register_function
def rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y)``, 0 where x is 0 and y is not negative, and inf where either is negative or y alone is 0.

    Both its derivatives at (0, 0) are 0, and so they are where its value is inf.

    >>> rel_entr(0.5, 0.25).round(4)
    Array(0.3466, dtype=float32)
    """
    return bind2(rel_entr_p, x, y)


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
    "rel_entr",
    ignore_fp_errors(_rel_entr),
    (_rel_entr_by_x, _rel_entr_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
    traceable=True,
)


@register_function
def kl_div(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y) - x + y``, y where x is 0 and y is not negative, and inf where `rel_entr` is.

    Its derivatives at (0, 0) are 0 by x and 1 by y; where its value is inf, both are 0.

    >>> kl_div(0.5, 0.25).round(4)
    Array(0.0966, dtype=float32)
    """
    return bind2(kl_div_p, x, y)


# u - log(1 + u) is r (u - 2 r² (1/3 + r²/5 + r⁴/7 + …)) of r = u / (2 + u)
ODD_RECIPROCALS = tuple([1 / (2 * k + 3) for k in range(17)])


def _beyond_logarithm(u: Any) -> Any:
    """Return ``u - log(1 + u)`` of a number from -1/2 to 1, to all its digits."""
    r = u / (2.0 + u)
    square = r * r
    total: Any = 0.0 * u
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
    "kl_div",
    ignore_fp_errors(_kl_div),
    (_kl_div_by_x, _kl_div_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
    traceable=True,
)
