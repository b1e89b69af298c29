"""Bessel functions: of real static order, with exponential integrals and Hurwitz's zeta function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Function, Params, Primitive, bind_single, register_function
from afx.errors import ArgumentError
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.special import bind_special, check_order, parametric, polynomial, scipy
from afx.ops.elementwise.arithmetic import sign
from afx.ops.elementwise.exponentials import exp
from afx.ops.elementwise.trigonometry import cos, sin, sinc
from afx.ops.special._incomplete import bell
from afx.ops.special._orders import of_each
from afx.ops.special._quadrature import double, integral

# --- Bessel functions


def _order(v: Any, who: str, even: bool) -> float:
    """Return a static order as a float; ``even`` says that whole orders v and -v are the same."""
    try:
        order = float(v)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{who}: the order is a number that is known: got {v}; pass a Python number, or an array from outside"
        ) from error
    return abs(order) if even and order.is_integer() else order


def _of_order(p: Primitive, v: ArrayLike, x: ArrayLike, *, even: bool, mirrored: bool = False) -> Array:
    """Return the function of an order, or of an array of them; ``mirrored`` says that v and -v are the same."""

    def one(v: Any, x: ArrayLike) -> Array:
        order = _order(v, p.name, even)
        return bind_special(p, x, v=abs(order) if mirrored else order)

    return of_each(p.name, one, (v,), x)


def _bessel(name: str) -> Function:
    """Return SciPy's function of a family by its order, the quicker one of the order 0 or 1 where there is one."""
    quick = {("iv", 0.0): "i0", ("iv", 1.0): "i1", ("ive", 0.0): "i0e", ("ive", 1.0): "i1e"}
    quick |= {("jv", 0.0): "j0", ("jv", 1.0): "j1", ("kv", 0.0): "k0", ("kv", 1.0): "k1"}
    quick |= {("yv", 0.0): "y0", ("yv", 1.0): "y1"}
    quick |= {("kve", 0.0): "k0e", ("kve", 1.0): "k1e"}

    def compute(x: Any, *, v: float) -> Any:
        if (name, v) in quick:
            return scipy(quick[name, v])(x)
        x = np.asarray(x)
        return scipy(name)(x.dtype.type(v) if x.dtype.kind == "f" else v, x)

    return compute


# -- modified, of the first kind --
@register_function
def iv(v: ArrayLike, x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind of order v; needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: any shape; not negative unless v is whole.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> iv(0, 1.0)
    Array(1.26606588, dtype=float64)
    """
    return _of_order(iv_p, v, x, even=True)


def _iv_slope(_z: Array, x: Array, *, v: float) -> Array:
    return iv(1, x) if v == 0 else (iv(v - 1, x) + iv(v + 1, x)) * 0.5


FAR_BESSEL = 25.0  # from where Hankel's expansion has all digits of the first orders
WHOLE_ORDERS = 8  # up to which the formula has all digits


def _scaled_bessel(x: Any, n: int) -> Any:
    """Return ``exp(-x) I(n, x)`` for x from 0 on: by its power series, or Hankel's expansion (DLMF 10.25.2, 10.40.1)."""
    near, far = xp.minimum(x, FAR_BESSEL), xp.maximum(x, FAR_BESSEL)
    square = near * near * 0.25
    series = polynomial(square, [1.0 / (math.factorial(k) * math.factorial(k + n)) for k in range(60)])
    terms, inverse = [1.0], 0.125 / far
    for k in range(1, 30):
        terms.append(terms[-1] * -(4 * n * n - (2 * k - 1) ** 2) / k)
    beyond = polynomial(inverse, terms) / (math.sqrt(2 * math.pi) * xp.sqrt(far))
    return xp.where(x > FAR_BESSEL, beyond, xp.exp(-near) * series * (near * 0.5) ** n)


def _modified(is_scaled: bool) -> Function:
    """Return the function of ``I_v(x)`` of a whole v, times ``exp(-|x|)`` where it is scaled."""

    def formula(x: Any, *, v: float = 0.0) -> Any:
        x, n = x.astype(np.float64), int(v)
        size = xp.abs(x)
        z = _scaled_bessel(size, n)
        z = z if is_scaled else z * xp.exp(size)
        z = xp.where(size == math.inf, 0.0 if is_scaled else math.nan, z)
        return z * xp.where(x < 0.0, -1.0, 1.0) if n % 2 else z

    return formula


def _is_low(_avals: Any, params: Params) -> bool:
    return params.get("v", 0.0) in range(WHOLE_ORDERS + 1)


iv_p: Primitive = parametric(
    "iv", _bessel("iv"), (_iv_slope,), {"v": 0.0}, formula=_modified(is_scaled=False), takes_formula=_is_low
)


@register_function
def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind of order 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> i0(0.5).round(4)
    Array(1.0635, dtype=float64)
    """
    return iv(0, x)


@register_function
def i1(x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind of order 1; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> i1(0.5).round(4)
    Array(0.2579, dtype=float64)
    """
    return iv(1, x)


@register_function
def ive(v: ArrayLike, x: ArrayLike) -> Array:
    """Return ``exp(-|x|) iv(v, x)``, which does not overflow; its derivative at 0 is the mean of those on both sides.

    For v of 0 and 1 the derivatives of every order are accurate far out too. Needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: any shape; not negative unless v is whole.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> ive(2.0, 0.5).round(4)
    Array(0.0194, dtype=float64)
    """
    return _of_order(ive_p, v, x, even=True)


def _ive_slope(z: Array, x: Array, *, v: float) -> Array:
    if v in (0.0, 1.0):
        return bind_single(ive_slope_p, x, v=int(v), order=1)
    return (ive(v - 1, x) + ive(v + 1, x)) * 0.5 - sign(x) * z


ive_p: Primitive = parametric(
    "ive", _bessel("ive"), (_ive_slope,), {"v": 0.0}, formula=_modified(is_scaled=True), takes_formula=_is_low
)


def _ive_slopes(x: Any, *, v: int, order: int) -> Any:
    """Return ``1/π ∫ (cos θ - 1)ⁿ exp(x (cos θ - 1)) cos vθ dθ`` from 0 to π, at -x by symmetry."""
    y = np.minimum(np.abs(x), 1e300)
    depth = 45.0 + 8 * order
    end = 2 * np.arcsin(np.sqrt(np.minimum(depth / (2 * np.maximum(y, 1e-3)), 1.0)))  # beyond it nothing is left

    def integrand(u: Any, y: Any, end: Any) -> Any:
        fall = -2 * np.sin(u * end / 2) ** 2
        return fall**order * np.exp(y * fall) * np.cos(v * (u * end))

    z = integral(integrand, y, end) * end / math.pi
    odd = (v + order) % 2
    return z * np.sign(x) if odd else z


def _ive_next(_z: Array, x: Array, *, v: int, order: int) -> Array:
    return bind_single(ive_slope_p, x, v=v, order=order + 1)


ive_slope_p: Primitive = parametric("ive_slope", double(_ive_slopes), (_ive_next,), {"v": 1, "order": 1})


def i0e_fall(x: Array) -> Array:
    """Return ``i0e(x) - i1e(x)``, with all digits far out."""
    return -bind_single(ive_slope_p, x, v=0, order=1)


@register_function
def i0e(x: ArrayLike) -> Array:
    """Return ``exp(-|x|) i0(x)``, which does not overflow; its derivative at 0 is 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> i0e(0.0)
    Array(1., dtype=float64)
    """
    return ive(0, x)


@register_function
def i1e(x: ArrayLike) -> Array:
    """Return ``exp(-|x|) i1(x)``, which does not overflow; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> i1e(0.0)
    Array(0., dtype=float64)
    """
    return ive(1, x)


# -- of the first kind, and modified of the second --
@register_function
def jv(v: ArrayLike, x: ArrayLike) -> Array:
    """Return the Bessel function of the first kind of order v; needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: any shape; not negative unless v is whole.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> jv(2.0, 0.5).round(4)
    Array(0.0306, dtype=float64)
    """
    return _of_order(jv_p, v, x, even=False)


def _jv_slope(_z: Array, x: Array, *, v: float) -> Array:
    return -jv(1, x) if v == 0 else (jv(v - 1, x) - jv(v + 1, x)) * 0.5


jv_p: Primitive = parametric("jv", _bessel("jv"), (_jv_slope,), {"v": 0.0})


@register_function
def j0(x: ArrayLike) -> Array:
    """Return the Bessel function of the first kind of order 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> j0(0.5).round(4)
    Array(0.9385, dtype=float64)
    """
    return jv(0, x)


@register_function
def j1(x: ArrayLike) -> Array:
    """Return the Bessel function of the first kind of order 1; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> j1(0.5).round(4)
    Array(0.2423, dtype=float64)
    """
    return jv(1, x)


@register_function
def yv(v: ArrayLike, x: ArrayLike) -> Array:
    """Return the Bessel function of the second kind of order v; needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: positive, any shape.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> yv(2.0, 0.5).round(4)
    Array(-5.4414, dtype=float64)
    """
    return _of_order(yv_p, v, x, even=False)


def _yv_slope(_z: Array, x: Array, *, v: float) -> Array:
    return -yv(1, x) if v == 0 else (yv(v - 1, x) - yv(v + 1, x)) * 0.5


yv_p: Primitive = parametric("yv", _bessel("yv"), (_yv_slope,), {"v": 0.0})


@register_function
def y0(x: ArrayLike) -> Array:
    """Return the Bessel function of the second kind of order 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> y0(0.5).round(4)
    Array(-0.4445, dtype=float64)
    """
    return yv(0, x)


@register_function
def y1(x: ArrayLike) -> Array:
    """Return the Bessel function of the second kind of order 1; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> y1(0.5).round(4)
    Array(-1.4715, dtype=float64)
    """
    return yv(1, x)


@register_function
def yn(n: int, x: ArrayLike) -> Array:
    """Return the Bessel function of the second kind of whole order n, a Python int; needs the extra ``scipy``.

    Raises:
        ArgumentError: n is no integer, or less than 0.
        MissingExtraError: SciPy is not installed.

    >>> yn(2, 0.5).round(4)
    Array(-5.4414, dtype=float64)
    """
    return yv(check_order(n, "yn"), x)


@register_function
def kv(v: ArrayLike, x: ArrayLike) -> Array:
    """Return the modified Bessel function of the second kind of order v; needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: positive, any shape.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> kv(0, 1.0)
    Array(0.42102444, dtype=float64)
    """
    return _of_order(kv_p, v, x, even=True, mirrored=True)


def _kv_slope(_z: Array, x: Array, *, v: float) -> Array:
    return (kv(v - 1, x) + kv(v + 1, x)) * -0.5


kv_p: Primitive = parametric("kv", _bessel("kv"), (_kv_slope,), {"v": 0.0})


@register_function
def kve(v: ArrayLike, x: ArrayLike) -> Array:
    """Return ``exp(x) kv(v, x)``, which does not vanish far out; needs the extra ``scipy``.

    Args:
        v: a number that is known, or an array of such numbers that broadcasts with x.
        x: positive, any shape.

    Raises:
        ArgumentError: v is not known, or no number.
        MissingExtraError: SciPy is not installed.

    >>> kve(0, 1.0)
    Array(1.14446308, dtype=float64)
    """
    return _of_order(kve_p, v, x, even=True, mirrored=True)


def _kve_slope(z: Array, x: Array, *, v: float) -> Array:
    return z - (kve(v - 1, x) + kve(v + 1, x)) * 0.5


kve_p: Primitive = parametric("kve", _bessel("kve"), (_kve_slope,), {"v": 0.0})


# --- Exponential integrals: of whole order and of real numbers


@register_function
def expn(n: int, x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(-xt) / tⁿ dt`` from t = 1 to infinity; needs the extra ``scipy``.

    Args:
        n: 0 or more, a Python int.
        x: not negative, any shape.

    Raises:
        ArgumentError: n is no integer, or less than 0.
        MissingExtraError: SciPy is not installed.

    >>> expn(2, 0.0)
    Array(1., dtype=float64)
    """
    return bind_special(expn_p, x, n=check_order(n, "expn"))


def _expn(x: Any, *, n: int) -> Any:
    x = np.asarray(x)
    return scipy("expn")(x.dtype.type(n) if x.dtype.kind == "f" else float(n), x)


def _expn_slope(_z: Array, x: Array, *, n: int) -> Array:
    return -expn(n - 1, x) if n else -exp(-x) / x * (1 + 1 / x)


expn_p: Primitive = parametric("expn", _expn, (_expn_slope,), {"n": 2})


@register_function
def exp1(x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(-t) / t dt`` from x to infinity; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> exp1(1.0).round(4)
    Array(0.2194, dtype=float64)
    """
    return bind_special(exp1_p, x)


exp1_p: Primitive = unary("exp1", scipy("exp1"), lambda _z, x: -exp(-x) / x, kinds="f")


@register_function
def expi(x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(t) / t dt`` from -infinity to x, its principal value.

    Needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> expi(1.0).round(4)
    Array(1.8951, dtype=float64)
    """
    return bind_special(expi_p, x)


expi_p: Primitive = unary("expi", scipy("expi"), lambda _z, x: exp(x) / x, kinds="f")


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Return the sine integral ``∫ sin(t) / t dt`` from 0 to x, and the cosine integral; needs the extra ``scipy``.

    The second is ``γ + log(x) + ∫ (cos(t) - 1) / t dt`` from 0 to x, nan below 0.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> [z.round(4).item() for z in sici(np.float64(1.0))]
    [0.9461, 0.3374]
    """
    return bind_special(sine_integral_p, x), bind_special(cosine_integral_p, x)


def _part(name: str, k: int) -> Function:
    """Return one of the results of SciPy's function of a name."""

    def compute(x: Any) -> Any:
        return scipy(name)(x)[k]

    return double(compute)


sine_integral_p: Primitive = unary("sine_integral", _part("sici", 0), lambda _z, x: sinc(x / math.pi), kinds="f")
cosine_integral_p: Primitive = unary("cosine_integral", _part("sici", 1), lambda _z, x: cos(x) / x, kinds="f")


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Return Fresnel's integrals of ``sin(½πt²)`` and ``cos(½πt²)`` from 0 to x; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> [z.round(4).item() for z in fresnel(np.float64(1.0))]
    [0.4383, 0.7799]
    """
    return bind_special(fresnel_sine_p, x), bind_special(fresnel_cosine_p, x)


fresnel_sine_p: Primitive = unary(
    "fresnel_sine", _part("fresnel", 0), lambda _z, x: sin(x * x * (math.pi / 2)), kinds="f"
)
fresnel_cosine_p: Primitive = unary(
    "fresnel_cosine", _part("fresnel", 1), lambda _z, x: cos(x * x * (math.pi / 2)), kinds="f"
)


# --- Zeta: Hurwitz's zeta function, differentiable by both arguments

TERMS = 12  # summed one by one; the rest is Euler and Maclaurin's formula, at 12 + q exact to the last digit
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


@register_function
def zeta(x: ArrayLike, q: ArrayLike = 1.0) -> Array:
    """Return Hurwitz's zeta function, the sum of ``(k + q)**-x`` over k = 0, 1, 2 …, Riemann's where q is 1.

    It has derivatives of every order by both arguments. Needs the extra ``scipy``.

    Args:
        x: greater than 1, any shape.
        q: positive, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> zeta(2.0)
    Array(1.64493407, dtype=float64)
    """
    return bind_special(zeta_p, x, q)


def _slopes(x: Any, q: Any, *, order: int) -> Any:
    """Return the derivative by x: that of each term, of the integral of the rest, and of its corrections."""
    total = np.zeros_like(x)
    for k in range(TERMS):
        total = total + _term(order, x, q + k, 1.0)
    w = q + TERMS
    logs = {(n, 0): (-1) ** n * math.factorial(n - 1) / (x - 1) ** n for n in range(1, order + 1)}
    total = total + _term(order, x, w, w / (x - 1), logs) + _term(order, x, w, 0.5)
    rising, roots = x, [x]
    for j, bernoulli in enumerate(BERNOULLI, 1):
        logs = {(n, 0): -math.factorial(n - 1) * sum((-root) ** -n for root in roots) for n in range(1, order + 1)}
        total = total + _term(order, x, w, rising * (bernoulli / math.factorial(2 * j)) / w ** (2 * j - 1), logs)
        roots += [x + 2 * j - 1, x + 2 * j]
        rising = rising * roots[-2] * roots[-1]
    where_ = np.where
    return where_((x > 1) & (q > 0), total, math.nan)


def _term(order: int, x: Any, w: Any, factor: Any, logs: dict[tuple[int, int], Any] | None = None) -> Any:
    """Return the derivative of ``factor · w**-x``; ``logs`` are those of the factor's logarithm, none where it is fixed."""
    g = logs or {(n, 0): 0.0 for n in range(1, order + 1)}
    power = w**-x
    g = {**g, (1, 0): g[1, 0] - np.log(w)}
    return np.where(power == 0, 0.0, power * (factor * bell(order, 0, g)))


def _slope(x: Array, q: Array, order: int) -> Array:
    return bind_single(zeta_slope_p, x, q, order=order) if order else zeta(x, q)


def _slope_by_x(_z: Array, x: Array, q: Array, *, order: int) -> Array:
    return _slope(x, q, order + 1)


def _slope_by_q(_z: Array, x: Array, q: Array, *, order: int) -> Array:
    return -(x * _slope(x + 1, q, order) + order * _slope(x + 1, q, order - 1))


zeta_slope_p: Primitive = parametric("zeta_slope", double(_slopes), (_slope_by_x, _slope_by_q), {"order": 1})

zeta_p: Primitive = binary(
    "zeta", scipy("zeta"), (lambda _z, x, q: _slope(x, q, 1), lambda _z, x, q: -x * zeta(x + 1, q)), kinds="f"
)
