"""Hypergeometric functions and their kin: power transforms, dilogarithm, Faddeeva's and Owen's functions, harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, Function, Primitive, bind2, bind_single, float64, register_function
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.special import alone_in_float64, bind_special, check_order, parametric, scipy
from afx.ops.creation.creation import as_array, asarray, zeros_like
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.complex import imag, real
from afx.ops.elementwise.exponentials import exp, log, log1p
from afx.ops.elementwise.floating_point import floor
from afx.ops.elementwise.trigonometry import cos, sin
from afx.ops.manipulation.join import stack
from afx.ops.special._orders import of_each
from afx.ops.special._quadrature import double, integral
from afx.ops.special.bessel import jv
from afx.ops.special.errors import ROOT2, ROOTPI, erf
from afx.ops.special.gamma import digamma, digamma_gap, gamma, gammaln, rgamma_slope

# --- Ratios that are 1 at 0: expm1(t) / t and log1p(t) / t, and their derivatives of any order, exact near 0
#
# exprel(t) is the integral of exp(u t) over u from 0 to 1, and log1p(t) / t that of 1 / (1 + u t). Derivatives are integrals
# as well, by Gauss's rule where t is small; elsewhere t f⁽ⁿ⁾(t) + n f⁽ⁿ⁻¹⁾(t) is the n-th derivative of t f(t).

SMALL_EXPONENT, SMALL_LOGARITHM = 16.0, 0.5  # up to which Gauss's rule has all digits
LARGE_EXPONENT = 700.0  # beyond it exp(t) may be no float64

_where: Any = np.where  # its result type is not known to checkers


def _exprel(t: Any, *, order: int) -> Any:
    whole = _where(t == 0, 1.0, np.expm1(t) / _where(t == 0, 1.0, t))
    for n in range(1, order + 1):
        whole = (np.exp(t) - n * whole) / _where(t == 0, 1.0, t)
    # where it is itself smaller than exp(t), which overflows: half of the exponent at a time
    large = t > LARGE_EXPONENT
    half, divisor = np.exp(_where(large, 0.5 * t, 0.0)), _where(large, t, 1.0)
    scaled = half / divisor
    for n in range(1, order + 1):
        scaled = (half - n * scaled) / divisor
    whole = _where(large, _where(t == np.inf, t, scaled * half), _where(t == -np.inf, 0.0, whole))
    if not order:
        return whole
    small = np.abs(t) <= SMALL_EXPONENT

    def integrand(u: Any, t: Any) -> Any:
        return u**order * np.exp(u * t)

    return _where(small, integral(integrand, _where(small, t, 0.0)), whole)


def _log1prel(t: Any, *, order: int) -> Any:
    whole = _where(t == 0, 1.0, np.log1p(t) / _where(t == 0, 1.0, t))
    whole = _where(t == np.inf, 0.0, whole)
    for n in range(1, order + 1):
        outer = (-1) ** (n - 1) * math.factorial(n - 1) / (1 + t) ** n
        whole = (outer - n * whole) / _where(t == 0, 1.0, t)
    if not order:
        return whole
    small = np.abs(t) <= SMALL_LOGARITHM
    sign = (-1) ** order * math.factorial(order)

    def integrand(u: Any, t: Any) -> Any:
        return sign * u**order / (1 + u * t) ** (order + 1)

    return _where(small, integral(integrand, _where(small, t, 0.0)), whole)


def _exprel_of_order(t: Array, order: int) -> Array:
    return bind_single(exprel_p, t, order=order)


def _log1prel_of_order(t: Array, order: int) -> Array:
    return bind_single(log1prel_p, t, order=order)


def _next_exprel(_z: Array, t: Array, *, order: int) -> Array:
    return _exprel_of_order(t, order + 1)


def _next_log1prel(_z: Array, t: Array, *, order: int) -> Array:
    return _log1prel_of_order(t, order + 1)


exprel_p: Primitive = parametric("exprel", double(_exprel), (_next_exprel,), {"order": 0})
log1prel_p: Primitive = parametric("log1prel", double(_log1prel), (_next_log1prel,), {"order": 0})


@register_function
def exprel(x: ArrayLike) -> Array:
    """Return ``(exp(x) - 1) / x``, 1 at 0; its derivatives of every order are right at 0 and near it.

    >>> exprel(0.0)
    Array(1., dtype=float64)
    """
    return bind_special(exprel_p, x, order=0)


# -- Box and Cox's power transforms --
@register_function
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return Box and Cox's transform, ``(x**lmbda - 1) / lmbda``, which is ``log(x)`` where lmbda is 0.

    >>> boxcox(4.0, np.array([0.0, 0.5, 1.0]))
    Array([1.38629436, 2.        , 3.        ], dtype=float64)
    """
    return bind_special(boxcox_p, x, lmbda)


@register_function
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return `boxcox` of ``1 + x``, accurate where x is small.

    >>> boxcox1p(1e-10, 0.5)
    Array(1.e-10, dtype=float64)
    """
    return bind_special(boxcox1p_p, x, lmbda)


@register_function
def inv_boxcox(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return the number whose `boxcox` is y: ``(lmbda y + 1) ** (1 / lmbda)``, or ``exp(y)`` where lmbda is 0.

    >>> inv_boxcox(2.0, 0.5)
    Array(4., dtype=float64)
    """
    return bind_special(inv_boxcox_p, y, lmbda)


@register_function
def inv_boxcox1p(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return the number whose `boxcox1p` is y: `inv_boxcox` less 1, accurate where y is small.

    >>> inv_boxcox1p(1e-10, 0.5)
    Array(1.e-10, dtype=float64)
    """
    return bind_special(inv_boxcox1p_p, y, lmbda)


FAR = -40.0  # below, exp(t) is nothing beside 1


def _transform(logarithm: Any, power: Any) -> Any:
    """Return ``(exp(power * logarithm) - 1) / power``."""
    t = logarithm * power
    return _where((power == 0) | (t == 0), logarithm, np.expm1(t) / _where(power == 0, 1.0, power))


def _by_power(logarithm: Array, power: Array) -> Array:
    """Return the derivative of a transform by its power, also where the logarithm is -inf."""
    t = logarithm * power
    far = t < FAR
    near = where(far, 0, logarithm)
    return where(far, 1 / where(far, power, 1) ** 2, near * near * _exprel_of_order(near * power, 1))


def _untransform(y: Any, power: Any) -> Any:
    """Return the logarithm whose transform is y, also where their product with the power overflows."""
    t = _where(power == 0, 0.0, y * power)
    far = t == np.inf
    divisor = _where(far, power, 1.0)
    return _where(far, (np.log(np.abs(y)) + np.log(np.abs(divisor))) / divisor, y * _log1prel(t, order=0))


def _undo_by_power(number: Array, y: Array, power: Array) -> Array:
    t = where(number == 0, 0, y * power)  # the end of the range, where the logarithm's slope is infinite
    far = abs_(t) > 1  # where the square of y may be too large
    near, size, divisor = where(far, 0, y), where(far, t, 1), where(far, power, 1)
    return number * where(
        far, (y / (1 + size) - log1p(size) / divisor) / divisor, near * near * _log1prel_of_order(where(far, 0, t), 1)
    )


boxcox_p: Primitive = binary(
    "boxcox",
    double(lambda x, power: _transform(np.log(x), power)),
    (lambda _z, x, power: x ** (power - 1), lambda _z, x, power: _by_power(log(x), power)),
    kinds="f",
)
boxcox1p_p: Primitive = binary(
    "boxcox1p",
    double(lambda x, power: _transform(np.log1p(x), power)),
    (lambda _z, x, power: (1 + x) ** (power - 1), lambda _z, x, power: _by_power(log1p(x), power)),
    kinds="f",
)
inv_boxcox_p: Primitive = binary(
    "inv_boxcox",
    double(lambda y, power: np.exp(_untransform(y, power))),
    (lambda z, _y, power: z ** (1 - power), _undo_by_power),
    kinds="f",
)
inv_boxcox1p_p: Primitive = binary(
    "inv_boxcox1p",
    double(lambda y, power: np.expm1(_untransform(y, power))),
    (lambda z, _y, power: (1 + z) ** (1 - power), lambda z, y, power: _undo_by_power(1 + z, y, power)),
    kinds="f",
)


# -- the dilogarithm --
@register_function
def spence(x: ArrayLike) -> Array:
    """Return Spence's function, ``∫ log(t) / (1 - t) dt`` from 1 to x: the dilogarithm of ``1 - x``; needs the extra ``scipy``.

    It is nan below 0; its derivatives are right at 1 and near it.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> spence(0.0)
    Array(1.64493407, dtype=float64)
    """
    return bind_special(spence_p, x)


def _spence_slope(_z: Array, x: Array) -> Array:
    near = x > 0.5  # from there on x - 1 is exact
    return where(
        near, -_log1prel_of_order(where(near, x - 1, 0), 0), log(where(near, 0.5, x)) / (1 - where(near, 0.5, x))
    )


spence_p: Primitive = unary("spence", scipy("spence"), _spence_slope, kinds="f")


# --- Functions of the normal distribution's kin


@register_function
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Return Owen's function, ``1/(2π) ∫ exp(-½h²(1 + t²)) / (1 + t²) dt`` from 0 to a; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> owens_t(1.0, 1.0).round(5)
    Array(0.06674, dtype=float64)
    """
    return bind_special(owens_t_p, h, a)


owens_t_p: Primitive = binary(
    "owens_t",
    scipy("owens_t"),
    (
        lambda _z, h, a: exp(-0.5 * h * h) * erf(a * h / ROOT2) * (-0.5 / (ROOT2 * ROOTPI)),
        lambda _z, h, a: exp(-0.5 * (h * h + (h * a) ** 2)) / (1 + a * a) * (0.5 / math.pi),
    ),
    kinds="f",
)


@register_function
def wofz(x: ArrayLike) -> Array:
    """Return Faddeeva's function, ``exp(-x²) erfc(-ix)``, of complex numbers; needs the extra ``scipy``.

    Its real part over a line of the complex plane is Voigt's profile.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> wofz(1j).round(4)
    Array(0.4276+0.j, dtype=complex128)
    """
    z = as_array(alone_in_float64("wofz", x)[0])
    parts = (real(z), imag(z)) if z.dtype.kind == "c" else (z, zeros_like(z))
    return bind2(faddeeva_real_p, *parts) + bind2(faddeeva_imag_p, *parts) * 1j


def _faddeeva(part: str) -> Function:
    def compute(x: Any, y: Any) -> Any:
        return getattr(scipy("wofz")(x + 1j * y), part)

    return double(compute)


def _real_slope(x: Array, y: Array) -> Array:
    """Return the real part of the derivative, ``-2zw + 2i/√π``."""
    return -2 * (x * bind2(faddeeva_real_p, x, y) - y * bind2(faddeeva_imag_p, x, y))


def _imag_slope(x: Array, y: Array) -> Array:
    return 2 / ROOTPI - 2 * (x * bind2(faddeeva_imag_p, x, y) + y * bind2(faddeeva_real_p, x, y))


faddeeva_real_p: Primitive = binary(
    "faddeeva_real",
    _faddeeva("real"),
    (lambda _z, x, y: _real_slope(x, y), lambda _z, x, y: -_imag_slope(x, y)),
    kinds="f",
)
faddeeva_imag_p: Primitive = binary(
    "faddeeva_imag",
    _faddeeva("imag"),
    (lambda _z, x, y: _imag_slope(x, y), lambda _z, x, y: _real_slope(x, y)),
    kinds="f",
)


# --- Gamma's kin: rising factorials, binomial coefficients, Bernoulli's numbers


@register_function
def loggamma(x: ArrayLike) -> Array:
    """Return the logarithm of the gamma function of real numbers, nan below 0; needs the extra ``scipy``.

    `gammaln` is the logarithm of its absolute value, below 0 too.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> loggamma(np.array([4.0, -0.5])).round(4)
    Array([1.7918,    nan], dtype=float64)
    """
    y = gammaln(x)
    return where(as_array(x) < 0, math.nan, y)


@register_function
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Return Pochhammer's symbol, the rising factorial ``gamma(z + m) / gamma(z)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> poch(2.0, 3.0)
    Array(24., dtype=float64)
    """
    return bind_special(poch_p, z, m)


def _is_pole(z: Array) -> Array:
    """Tell where the gamma function has poles."""
    return (z <= 0) & (z == floor(z))


def _poch_by_z(y: Array, z: Array, m: Array) -> Array:
    """Return the slope, at poles of ``gamma(z)`` by that of its reciprocal, and by reflection where both are poles."""
    pole = _is_pole(z)
    both = pole & _is_pole(z + m)
    alone = (pole | (y == 0)) & ~both
    at = where(alone, z, 0)
    beside, step = where(both, 1 - z, where(alone, 1, z)), where(both, -m, m)
    return where(alone, gamma(where(alone, at + m, 1)) * rgamma_slope(0 * at, at), y * digamma_gap(beside, step))


def _poch_by_m(y: Array, z: Array, m: Array) -> Array:
    pole = _is_pole(z + m)
    return where(pole, math.inf, where(y == 0, 0, y * digamma(where(pole | (y == 0), 1, z + m))))


poch_p: Primitive = binary("poch", scipy("poch"), (_poch_by_z, _poch_by_m), kinds="f")


def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Array:
    """Return in how many ways k of N things are chosen, 0 where there are no such ways; needs the extra ``scipy``.

    It is differentiable between integers: the gamma function stands for factorials.

    Args:
        N: any shape.
        k: any shape.
        exact: not offered; `math.comb` counts without end.
        repetition: whether a thing can be chosen more than once.

    Raises:
        ArgumentError: an exact number is asked for.
        MissingExtraError: SciPy is not installed.

    >>> comb(10.0, np.array([3.0, 11.0]))
    Array([120.,   0.], dtype=float64)
    """
    if exact:
        raise ArgumentError("comb: numbers of a floating dtype: got exact=True; call math.comb(N, k)")
    n, m = alone_in_float64("comb", N, k)
    return bind2(comb_p, as_array(n) + m - 1 if repetition else n, m)


comb_p: Primitive = binary(
    "comb",
    double(lambda n, k: _where((n < 0) | (k < 0) | (k > n), 0.0, scipy("binom")(n, k)) + 0.0 * n * k),
    (
        lambda z, n, k: where(z == 0, 0, z * digamma_gap(where(z == 0, 1, n - k + 1), where(z == 0, 1, k))),
        lambda z, n, k: where(z == 0, 0, -z * digamma_gap(where(z == 0, 1, n - k + 1), where(z == 0, 1, 2 * k - n))),
    ),
    kinds="f",
)


def bernoulli(n: int, *, dtype: DTypeLike | None = None) -> Array:
    """Return Bernoulli's numbers B₀ to Bₙ, of which B₁ is -1/2; needs the extra ``scipy``.

    Args:
        n: the last one's order, 0 or more.
        dtype: a floating one, float64 where absent.

    Raises:
        ArgumentError: n is no integer of 0 or more.
        MissingExtraError: SciPy is not installed.

    >>> bernoulli(4, dtype=np.float64).round(4)
    Array([ 1.    , -0.5   ,  0.1667,  0.    , -0.0333], dtype=float64)
    """
    numbers = scipy("bernoulli")(max(check_order(n, "bernoulli"), 2))[: n + 1]
    return asarray(numbers, dtype or float64)


# --- Hypergeometric functions and harmonics of static parameters


LARGEST_PARAMETER = 1e6  # beyond it SciPy's series may go on for ever


def _number(value: Any, who: str, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{who}: {name} is a number that is known: got {value}; pass a Python number, or an array from outside"
        ) from error
    if not abs(number) <= LARGEST_PARAMETER:
        raise ArgumentError(
            f"{who}: {name} is at most {LARGEST_PARAMETER:.0e} in size: got {number}; give a smaller one"
        )
    return number


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return Kummer's hypergeometric function ``₁F₁(a; b; x)``, differentiable by x; needs the extra ``scipy``.

    Args:
        a: a number that is known, at most a million in size, or an array of such numbers that broadcasts with x.
        b: likewise.
        x: any shape.

    Raises:
        ArgumentError: a or b is not such a number.
        MissingExtraError: SciPy is not installed.

    >>> hyp1f1(1.0, 2.0, 1.0).round(4)
    Array(1.7183, dtype=float64)
    """
    return of_each("hyp1f1", _kummer, (a, b), x)


def _kummer(a: Any, b: Any, x: ArrayLike) -> Array:
    return bind_special(hyp1f1_p, x, a=_number(a, "hyp1f1", "a"), b=_number(b, "hyp1f1", "b"))


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan


LARGEST_KUMMER = 1e9  # beyond it the function is infinite, of which SciPy's does not tell


def _hyp1f1(x: Any, *, a: float, b: float) -> Any:
    is_polynomial = a <= 0 and a.is_integer()
    return scipy("hyp1f1")(a, b, np.minimum(x, 1e300 if is_polynomial else LARGEST_KUMMER))


def _hyp1f1_slope(_z: Array, x: Array, *, a: float, b: float) -> Array:
    return _ratio(a, b) * bind_single(hyp1f1_p, x, a=a + 1, b=b + 1)


hyp1f1_p: Primitive = parametric("hyp1f1", double(_hyp1f1), (_hyp1f1_slope,), {"a": 0.5, "b": 1.5})


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Return Gauss's hypergeometric function ``₂F₁(a, b; c; x)``, differentiable by x; needs the extra ``scipy``.

    Args:
        a: a number that is known, at most a million in size, or an array of such numbers that broadcasts with x.
        b: likewise.
        c: likewise.
        x: any shape, at most 1.

    Raises:
        ArgumentError: a, b or c is not such a number.
        MissingExtraError: SciPy is not installed.

    >>> hyp2f1(1.0, 1.0, 2.0, 0.5).round(4)
    Array(1.3863, dtype=float64)
    """
    return of_each("hyp2f1", _gauss, (a, b, c), x)


def _gauss(a: Any, b: Any, c: Any, x: ArrayLike) -> Array:
    parameters = {name: _number(v, "hyp2f1", name) for name, v in (("a", a), ("b", b), ("c", c))}
    return bind_special(hyp2f1_p, x, **parameters)


def _hyp2f1(x: Any, *, a: float, b: float, c: float) -> Any:
    return scipy("hyp2f1")(a, b, c, x)


def _hyp2f1_slope(_z: Array, x: Array, *, a: float, b: float, c: float) -> Array:
    return _ratio(a * b, c) * bind_single(hyp2f1_p, x, a=a + 1, b=b + 1, c=c + 1)


hyp2f1_p: Primitive = parametric("hyp2f1", double(_hyp2f1), (_hyp2f1_slope,), {"a": 0.5, "b": 1.0, "c": 1.5})


def sph_harm_y(n: int, m: int, theta: ArrayLike, phi: ArrayLike) -> Array:
    """Return the spherical harmonic of degree n and order m, with the phase of Condon and Shortley; needs the extra ``scipy``.

    Args:
        n: the degree, a Python int of 0 or more.
        m: the order, a Python int from -n to n.
        theta: polar angles, from 0 to π.
        phi: azimuths.

    Returns:
        Complex numbers of the shape to which the angles broadcast.

    Raises:
        ArgumentError: n or m is no such integer.
        MissingExtraError: SciPy is not installed.

    >>> sph_harm_y(1, 1, 1.0, 0.5).round(4)
    Array(-0.2551-0.1394j, dtype=complex128)
    """
    n, m = check_order(n, "sph_harm_y"), check_order(m, "sph_harm_y", -check_order(n, "sph_harm_y"))
    if m > n:
        raise ArgumentError(f"sph_harm_y: the order is at most the degree: got n={n}, m={m}; give -n <= m <= n")
    polar, azimuth = alone_in_float64("sph_harm_y", theta, phi)
    height = bind_single(harmonic_p, polar, n=n, m=m)
    angle = as_array(azimuth) * float(m)
    return height * cos(angle) + height * sin(angle) * 1j


def _harmonic(theta: Any, *, n: int, m: int) -> Any:
    try:
        return scipy("sph_harm_y")(n, m, theta, 0.0).real
    except AttributeError:  # SciPy before 1.15
        return scipy("sph_harm")(m, n, 0.0, theta).real


def _harmonic_slope(_z: Array, theta: Array, *, n: int, m: int) -> Array:
    """Return half the difference of both neighbours of order: no division by the sine."""
    above = bind_single(harmonic_p, theta, n=n, m=m + 1) * math.sqrt((n - m) * (n + m + 1)) if m < n else 0 * theta
    below = bind_single(harmonic_p, theta, n=n, m=m - 1) * math.sqrt((n + m) * (n - m + 1)) if m > -n else 0 * theta
    return (above - below) * where(sin(theta) < 0, -0.5, 0.5)  # beyond the poles SciPy's meridians turn back


harmonic_p: Primitive = parametric("harmonic", double(_harmonic), (_harmonic_slope,), {"n": 2, "m": 1})


def bessel_jn(z: ArrayLike, *, v: int) -> Array:
    """Return the Bessel functions of the first kind of the orders 0 to v, along a new first axis; needs the extra ``scipy``.

    Args:
        z: any shape.
        v: the last order, 0 or more.

    Raises:
        ArgumentError: v is no integer of 0 or more.
        MissingExtraError: SciPy is not installed.

    >>> bessel_jn(1.0, v=2).round(4)
    Array([0.7652, 0.4401, 0.1149], dtype=float64)
    """
    return stack([jv(k, z) for k in range(check_order(v, "bessel_jn") + 1)])
