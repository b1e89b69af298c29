"""Portable functions of doubles: sums of two parts, in operations of IEEE 754 that each are rounded by themselves.

Nothing is fused, and no order depends on a processor, so that results have the same bits everywhere. A value between steps is a
`Pair`, the unevaluated sum of two doubles (Dekker 1971; Knuth's TwoSum), and is rounded once at the end. Floats are computed as
doubles and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from afx.compiler.native_backend.functions import elementary
from afx.compiler.native_backend.functions.elementary import (
    EXP,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    MAGIC,
    MAGIC_BITS,
    SIZE,
    clamp,
    keep_nan,
    power_of_two,
    scale,
    split_exponent,
)
from afx.compiler.native_backend.functions.far_turns import shifted_right, turn_far
from afx.compiler.native_backend.functions.lanes import Lanes, bits_of
from afx.compiler.native_backend.functions.pairs import Pair, add, multiply, pair, plain, quick, select
from afx.core.scalar_ops import scalar_op

# log 2, 1 / log 2, 1 / log 10 and log10 2: 26, 32, 32 and 40 bits, and the rests
SHORT_LN2 = (0.6931471675634384, 1.2996506893889889e-08)
SHORT_INVERSE_LN2 = (1.4426950407214463, 1.6751713164886512e-10)
SHORT_INVERSE_LN10 = (0.4342944818781689, 2.5082946711645275e-11)
SHORT_LG2 = (0.30102999566361177, 3.694239077158931e-13)
SHORT_MAGIC: Final = 1.5 * 2.0**25  # what is added to it has 27 bits behind the point
LN2, THIRD = (0.6931471805599453, 2.3190468138462996e-17), 1 / 3
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
HALF_PI, PI = (1.5707963267948966, 6.123233995736766e-17), (3.141592653589793, 1.2246467991473532e-16)
# π/2 in parts of 33 bits, whose products with 20 bits are exact, and the rest
HALF_PI_PARTS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
# (log((1 + s)/(1 - s)) - 2·s - 2/3·s³) / s⁵ in s² up to 0.02945: 2^-64, by Chebyshev interpolation
LOG_TAIL = (
    0.4, 0.28571428571428564, 0.22222222222228444, 0.18181818179652515, 0.1538461576181261, 0.13333296483973292,
    0.11766815303406082, 0.10456278375778207, 0.10762867423643212,
)  # fmt: skip
# (atan t - t) / t³ in t² up to 0.192: 2^-65, likewise
ATAN_TAIL = (
    -0.3333333333333333, 0.19999999999999998, -0.14285714285713813, 0.11111111111047837, -0.0909090908647885,
    0.07692307506036392, -0.06666661577060291, 0.05882258155109606, -0.05261920465468238, 0.04750423246482641,
    -0.04271993023689977, 0.0364725484203825, -0.025758787585599813, 0.010625679340939873,
)  # fmt: skip
# (asin x - x) / x³ in x² up to 1/4: 2^-58, likewise
ASIN_TAIL = (
    0.16666666666666666, 0.07500000000000119, 0.04464285714254847, 0.030381944475855856, 0.022372157427705222,
    0.017352816997695017, 0.013963771548009896, 0.011566564202171593, 0.009620961262630293, 0.009324648476317875,
    0.0030251140174674947, 0.01960393110799315, -0.019313465666024366, 0.02965806130390572,
)  # fmt: skip
# from where a point is near c, and atan c in two parts
ATAN_NEAR = (
    (0.4375, 0.5, (0.4636476090008061, 2.2698777452961687e-17)),
    (0.6875, 1.0, (0.7853981633974483, 3.061616997868383e-17)),
)
HALF_TURN = (3.1415926534682512, 1.2154201013012384e-10)  # π in its first 33 bits, and the rest


# --- Exponentials


def _grow(r: Pair) -> Pair:
    """Return ``exp(r) - 1`` of r of a size up to 0.35: ``r + r²/2 + r³·tail``."""
    square = r.times(r)
    tail = square.high * r.high * plain(r.high, EXP[1:])
    return r.plus(square.scaled(0.5).plus(pair(tail, tail)))


def _reduce(x: Pair) -> tuple[Lanes, Pair]:
    """Return k and ``r = x - k·log 2``."""
    shifted = x.high * LOG2E + MAGIC
    k = shifted - MAGIC
    rest = add(x.high - k * LN2_HIGH, x.low - k * LN2_LOW)
    return shifted.bits() - MAGIC_BITS, rest


def _exp_of(x: Pair) -> Lanes:
    """Return ``exp(x)`` for x from -746 to 711."""
    k, r = _reduce(x)
    return scale(_grow(r).plus(pair(r.high, r.high.constant(1.0))).rounded(), k)


def _expm1_of(x: Lanes) -> Pair:
    """Return ``exp(x) - 1`` for x from -40 to 700."""
    return quick(*elementary.expm1_of_double(x))


def _far_exp(x: Lanes, down: int = 0) -> Lanes:
    """Return ``exp(x) / 2^down`` for x from -746 to 712."""
    k, high, low = _split_near(x)
    return scale(elementary.exp_near_one(high, low), k - down)


def exp(x: Lanes) -> Lanes:
    """Return ``exp(x)``: of ``r = high + low`` the sum ``r²·tail + low + high + 1``, whose last rounding alone is large."""
    return keep_nan(x, _far_exp(clamp(x, -746.0, 711.0)))


def exp_of_normal(x: Lanes) -> Lanes:
    """Return the same where the result is a normal number, which needs no second step of scaling."""
    k, high, low = _split_near(elementary.exp_is_hard(x).choose(x.constant(0.0), x))
    return elementary.exp_near_one(high, low) * power_of_two(k)


def _split_near(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return k, ``x - k·(42 bits of log 2)``, which is exact, and the rest of that."""
    shifted = x * LOG2E + MAGIC
    k = shifted - MAGIC
    return shifted.bits() - MAGIC_BITS, x - k * LN2_HIGH, k * -LN2_LOW


def exp2(x: Lanes) -> Lanes:
    """Return ``2^x``: of a rest of 27 bits, whose product with 26 bits of log 2 is exact, and what is left."""
    return keep_nan(x, scale(*_exp2_parts(clamp(x, -1080.0, 1030.0))))


def near_exp2(x: Lanes) -> Lanes:
    """Return the same where the result is a normal number."""
    z, k = _exp2_parts(x)
    return z * power_of_two(k)


def _exp2_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``2^(x - k)`` and k."""
    shifted = x + MAGIC
    r = x - (shifted - MAGIC)
    short = (r + SHORT_MAGIC) - SHORT_MAGIC
    rest = (r - short) * LN2[0] + short * SHORT_LN2[1]
    return elementary.exp_near_one(short * SHORT_LN2[0], rest), shifted.bits() - MAGIC_BITS


def expm1(x: Lanes) -> Lanes:
    """Return ``exp(x) - 1``."""
    far = _far_exp(clamp(x, -1.0, 711.0))
    return keep_nan(x, x.compare("ogt", 700.0).choose(far, near_expm1(x)))


def near_expm1(x: Lanes) -> Lanes:
    """Return ``exp(x) - 1`` of numbers up to 700."""
    z = _expm1_of(clamp(x, -40.0, 700.0)).rounded().copysign(x)
    return _is_tiny(x).choose(x, z)


def _is_tiny(x: Lanes) -> Lanes:
    """Tell where x² is no part of ``x + x²``."""
    return (x.bits() & SIZE["double"]).compare("ult", bits_of("double", 2.0**-54))


def _absolute(x: Lanes) -> Lanes:
    return (x.bits() & SIZE["double"]).as_float()


def sinh(x: Lanes) -> Lanes:
    """Return ``sinh(x)``."""
    size = _absolute(x)
    far = _far_exp(clamp(size, -1.0, 712.0), 1).copysign(x)
    return keep_nan(x, size.compare("ogt", 40.0).choose(far, near_sinh(x)))


def near_sinh(x: Lanes) -> Lanes:
    """Return ``sinh(x)`` of sizes up to 40: of ``e = exp(|x|) - 1`` half of ``e + e/(e + 1)``."""
    e = _expm1_of(clamp(_absolute(x), -1.0, 40.0))
    z = e.plus(e.over(e.plus(pair(x, x.constant(1.0))))).scaled(0.5).rounded()
    return _is_tiny(x).choose(x, z.copysign(x))


def cosh(x: Lanes) -> Lanes:
    """Return ``cosh(x)``."""
    size = _absolute(x)
    far = _far_exp(clamp(size, -1.0, 712.0), 1)
    return keep_nan(x, size.compare("ogt", 40.0).choose(far, near_cosh(x)))


def near_cosh(x: Lanes) -> Lanes:
    """Return ``cosh(x)`` of sizes up to 40."""
    one = pair(x, x.constant(1.0))
    e = _expm1_of(clamp(_absolute(x), -1.0, 40.0)).plus(one)
    return e.plus(one.over(e)).scaled(0.5).rounded()


def is_beyond(bound: float, x: Lanes) -> Lanes:
    """Tell where a size is above a bound, or x is nan: above 40 ``exp(-|x|)`` is no part of hyperbolic functions."""
    return (x.bits() & SIZE["double"]).compare("ugt", bits_of("double", bound))


def tanh(x: Lanes) -> Lanes:
    """Return ``tanh(x)``: of ``e = exp(2|x|) - 1`` the quotient ``e/(e + 2)``."""
    size = clamp(_absolute(x), -1.0, 20.0)
    e = _expm1_of(size + size)
    z = e.over(e.plus(pair(x, x.constant(2.0)))).rounded().copysign(x)
    return keep_nan(x, _is_tiny(x).choose(x, z))


def logistic(x: Lanes) -> Lanes:
    """Return ``1 / (1 + exp(-x))``, by ``exp(-|x|)``."""
    size = clamp(-_absolute(x), -746.0, 1.0)
    return keep_nan(x, x.compare("olt", -700.0).choose(_far_exp(size), near_logistic(x)))


def near_logistic(x: Lanes) -> Lanes:
    """Return the same of numbers from -700 on."""
    k, *parts = elementary.exp_of_double(clamp(-_absolute(x), -700.0, 1.0))
    one, near, two = pair(x, x.constant(1.0)), quick(*parts), power_of_two(k)
    positive = x.bits().compare("sge", 0)
    # scaled behind the quotient, of which no product is denormal
    return select(positive, one, near).over(near.scaled(two).plus(one)).rounded() * positive.choose(
        two.constant(1.0), two
    )


# --- Logarithms


def _log_of(x: Lanes, is_small: Lanes | None = None) -> Pair:
    """Return ``log(x)`` of positive normal x: ``2·s + 2/3·s³ + s⁵·tail``, with ``s = f/(2 + f)``.

    Where it is small, if that is asked, x is 2^54 times what is asked for.
    """
    k, m = split_exponent(x)
    exponent = (k if is_small is None else is_small.choose(k - 54, k)).to_float()
    f = m - 1.0  # exactly
    s = pair(x, f).over(add(f, f.constant(2.0)))
    square = s.times(s)
    cube = s.times(square)
    tail = cube.high * square.high * plain(square.high, LOG_TAIL)
    series = s.scaled(2.0).plus(cube.times(pair(x, TWO_THIRDS)).plus(pair(x, tail)))
    return add(exponent * LN2_HIGH, exponent * LN2_LOW).plus(series)


def _lift(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return x, 2^54 times as large where it is denormal, whether it is, and whether x is above 0 and finite."""
    is_small = x.compare("olt", 2.0**-1022)
    up = is_small.choose(x * 2.0**54, x)
    return up, is_small, up.compare("ogt", 0.0) & up.compare("olt", math.inf)


def log(x: Lanes) -> Lanes:
    """Return ``log(x)`` in the form of fdlibm (Sun Microsystems 1993)."""
    return _of_any(_natural, x)


def _of_any(logarithm: Callable[[Lanes, Lanes], Lanes], x: Lanes) -> Lanes:
    """Return a logarithm by exponents k, and ``m - 1``, of any x: denormal numbers are lifted."""
    up, is_small, is_normal = _lift(x)
    k, m = split_exponent(is_normal.choose(up, 1.0))
    z = logarithm(is_small.choose(k - 54, k).to_float(), m - 1.0)
    limit = x.compare("oeq", 0.0).choose(x.constant(-math.inf), x.compare("oeq", math.inf).choose(x, math.nan))
    return is_normal.choose(z, limit)


def _of_normal(logarithm: Callable[[Lanes, Lanes], Lanes], x: Lanes) -> Lanes:
    """Return the same of positive normal x."""
    k, m = split_exponent(x)
    return logarithm(k.to_float(), m - 1.0)


def _natural(k: Lanes, f: Lanes) -> Lanes:
    return elementary.log_near_one(k, f, f.constant(0.0))


def _log_in(inverse: tuple[float, float], two: tuple[float, float], k: Lanes, f: Lanes) -> Lanes:
    """Return a logarithm in another base, of log 2 in it and of the inverse of its own, whose first parts are short."""
    half, series = elementary.log_terms(f)
    high = ((f - half).bits() & -(1 << 32)).as_float()
    low = ((f - high) - half) + series
    total = add(k * two[0], high * inverse[0])
    return total.high + (total.low + (k * two[1] + ((low + high) * inverse[1] + low * inverse[0])))


_binary = partial(_log_in, SHORT_INVERSE_LN2, (1.0, 0.0))
_decimal = partial(_log_in, SHORT_INVERSE_LN10, SHORT_LG2)


def log2(x: Lanes) -> Lanes:
    """Return ``log2(x)``."""
    return _of_any(_binary, x)


def log10(x: Lanes) -> Lanes:
    """Return ``log10(x)``."""
    return _of_any(_decimal, x)


def _log1p_of(x: Pair) -> Lanes:
    """Return ``log(1 + x)`` of finite x above -1."""
    total = add(x.high, x.high.constant(1.0))
    low = total.low if x.high.w.is_single else total.low + x.low
    k, m = split_exponent(total.high)
    down = ((k.constant(1024) - k) << 52).as_float() * 0.5
    f = add(m - 1.0, low * down)
    return elementary.log_near_one(k.to_float(), f.high, f.low)


def log1p(x: Lanes) -> Lanes:
    """Return ``log(1 + x)``."""
    is_inside = x.compare("ogt", -1.0) & x.compare("olt", math.inf)
    near = is_inside.choose(x, 0.0)
    limit = x.compare("oeq", -1.0).choose(x.constant(-math.inf), x.compare("oeq", math.inf).choose(x, math.nan))
    return is_inside.choose(elementary.log1p(near), limit)


def _log_of_twice(x: Lanes) -> Lanes:
    """Return ``log(2·x)`` of positive normal x."""
    k, m = split_exponent(x)
    f = m - 1.0
    return elementary.log_near_one((k + 1).to_float(), f, f.constant(0.0))


def asinh(x: Lanes) -> Lanes:
    """Return ``asinh(x)``."""
    size = _absolute(x)
    is_far = size.compare("oge", 2.0**28) & size.compare("olt", math.inf)
    z = is_far.choose(_log_of_twice(is_far.choose(size, 1.0)).copysign(x), near_asinh(x))
    return (size.compare("oge", math.inf) | x.compare("uno", x)).choose(x, z)


def near_asinh(x: Lanes) -> Lanes:
    """Return ``asinh(x)`` of sizes below 2^28: the logarithm of ``1 + a + a²/(1 + √(1 + a²))`` for ``a = |x|``."""
    size = _absolute(x)
    near = size.compare("olt", 2.0**28).choose(size, 1.0)
    one, square = pair(x, x.constant(1.0)), multiply(near, near)
    inner = pair(x, near).plus(square.over(one.plus(one.plus(square).root())))
    return _is_tiny(x).choose(x, _log1p_of(inner).copysign(x))


def asinh_is_hard(x: Lanes) -> Lanes:
    """Tell where the size is 2^28 or more, or x is nan."""
    return (x.bits() & SIZE["double"]).compare("uge", bits_of("double", 2.0**28))


def acosh(x: Lanes) -> Lanes:
    """Return ``acosh(x)``."""
    is_far = x.compare("oge", 2.0**28) & x.compare("olt", math.inf)
    z = acosh_is_hard(x).choose(x.compare("oeq", math.inf).choose(x, math.nan), near_acosh(x))
    return is_far.choose(_log_of_twice(is_far.choose(x, 1.0)), z)


def near_acosh(x: Lanes) -> Lanes:
    """Return ``acosh(x)`` from 1 to 2^28: the logarithm of ``1 + t + √(2t + t²)`` for ``t = x - 1``."""
    t = add(acosh_is_hard(x).choose(x.constant(1.0), x), x.constant(-1.0))
    return _log1p_of(t.plus(t.scaled(2.0).plus(t.times(t)).root()))


def acosh_is_hard(x: Lanes) -> Lanes:
    """Tell where x is not from 1 on and below 2^28."""
    first, last = [bits_of("double", v) for v in (1.0, 2.0**28)]
    return (x.bits() - first).compare("uge", last - first)


def atanh(x: Lanes) -> Lanes:
    """Return ``atanh(x)``: half the logarithm of ``1 + 2a/(1 - a)`` for ``a = |x|``."""
    size = _absolute(x)
    is_inside = size.compare("olt", 1.0)
    a = is_inside.choose(size, 0.5)
    z = _log1p_of(pair(x, a + a).over(add(x.constant(1.0), -a))) * 0.5
    limit = size.compare("oeq", 1.0).choose(x.constant(math.inf), math.nan)
    return _is_tiny(x).choose(x, is_inside.choose(z, limit).copysign(x))


# --- Powers, roots and lengths


def power(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** y``, its limits as in C (IEEE 754-2019, 9.2.1)."""
    size = _absolute(x)
    up, is_small, is_normal = _lift(size)
    logarithm = _log_of(is_normal.choose(up, 1.0), is_small)
    rate = y.compare("uno", y).choose(y.constant(0.0), clamp(y, -1e22, 1e22))
    wanted = logarithm.times(pair(y, rate))
    bounded = clamp(wanted.high, -746.0, 711.0)
    is_bounded = bounded.compare("oeq", wanted.high)
    z = _exp_of(Pair(bounded, is_bounded.choose(wanted.low, 0.0)))
    # of 0 and infinity
    grows = y.compare("ogt", 0.0) ^ up.compare("oeq", 0.0)
    z = is_normal.choose(z, grows.choose(x.constant(math.inf), 0.0))
    y_size = _absolute(y)
    is_whole, is_odd = _parity(y_size)
    is_negative = x.bits().compare("slt", 0)
    signed = (is_negative & is_odd).choose(-z, z)
    is_wrong = is_negative & x.compare("olt", 0.0) & size.compare("olt", math.inf) & (is_whole ^ is_whole.constant(1))
    z = is_wrong.choose(x.constant(math.nan), signed)
    z = (x.compare("uno", y)).choose(x.constant(math.nan), z)
    is_one = size.compare("oeq", 1.0) & y_size.compare("oeq", math.inf)
    return (x.compare("oeq", 1.0) | y.compare("oeq", 0.0) | is_one).choose(x.constant(1.0), z)


def near_power(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** y`` of positive normal x where the result is a normal number."""
    k, r = _reduce(_exponent(x, y))
    return _grow(r).plus(pair(r.high, r.high.constant(1.0))).rounded() * power_of_two(k)


def _exponent(x: Lanes, y: Lanes) -> Pair:
    return _log_of(x).times(pair(y, y))


def power_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where x is not positive, normal and finite, or the result is of extreme size, or nan."""
    far = (_exponent(x, y).high.bits() & SIZE["double"]).compare("ugt", bits_of("double", 700.0))
    return elementary.log_is_hard(x) | far


def _parity(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return where numbers from 0 on are whole, and where they are odd, by their last bits where those count halves or ones."""
    bits, half = x.bits(), clamp(x, -1.0, 2.0**51) * 0.5
    has_halves, has_ones = x.compare("oge", 2.0**51), x.compare("oge", 2.0**52)
    low, ones = (bits & 1).compare("ne", 0), (bits & 2).compare("ne", 0)
    is_whole = has_halves.choose(has_ones | (low ^ low.constant(1)), _rint(x).compare("oeq", x))
    is_odd = has_halves.choose(has_ones.choose(low & x.compare("olt", 2.0**53), ones), _rint(half).compare("une", half))
    return is_whole, is_whole & is_odd


def _rint(x: Lanes) -> Lanes:
    """Return the nearest integer of what is below 2^51."""
    return (x + MAGIC) - MAGIC


def cbrt(x: Lanes) -> Lanes:
    """Return the cube root."""
    up, is_small, is_normal = _lift(_absolute(x))
    z = near_cbrt(is_normal.choose(up, 1.0))
    z = is_small.choose(z * 2.0**-18, z)  # the root of the lift by 2^54
    return is_normal.choose(z.copysign(x), x)


def near_cbrt(x: Lanes) -> Lanes:
    """Return that of a normal number: of 26 bits by a logarithm, and one step of Halley's method, whose square is exact."""
    size = _absolute(x)
    k, m = split_exponent(size)
    f = m - 1.0
    half, series = elementary.log_terms(f)
    root = elementary.exp2_single(((f - (half - series)) * LOG2E + k.to_float()) * THIRD)
    root = (root.bits() + (1 << 26) & -(1 << 27)).as_float()
    quotient = size / (root * root)
    return (root + root * ((quotient - root) / (root + root + quotient))).copysign(x)


def _is_abnormal(x: Lanes) -> Lanes:
    """Tell where x is 0, denormal, infinite or nan."""
    return elementary.log_is_hard(_absolute(x))


def _center(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return the power of two that takes a size to where squares are numbers, and the one that takes it back."""
    is_huge, is_slight = x.compare("ogt", 2.0**500), x.compare("olt", 2.0**-400)
    up, down = x.constant(2.0**600), x.constant(2.0**-600)
    return is_huge.choose(down, is_slight.choose(up, 1.0)), is_huge.choose(up, is_slight.choose(down, 1.0))


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """Return ``√(x² + y²)``, of operands that are scaled by the exponent of the larger one."""
    a, b = _absolute(x), _absolute(y)
    is_less = a.compare("olt", b)
    large, small = is_less.choose(b, a), is_less.choose(a, b)
    factor, back = _center(large)
    large, small = large * factor, small * factor
    is_apart = small.compare("olt", large * 2.0**-60)
    small = is_apart.choose(x.constant(0.0), small)
    is_finite = large.compare("olt", math.inf)
    large = is_finite.choose(large, 1.0)
    z = multiply(large, large).plus(multiply(small, small)).root().rounded() * back
    is_infinite = a.compare("oeq", math.inf) | b.compare("oeq", math.inf)
    return is_infinite.choose(x.constant(math.inf), x.compare("uno", y).choose(x.constant(math.nan), z))


# --- Trigonometry


def is_far(x: Lanes) -> Lanes:
    """Tell where the number of quarter turns has more than 20 bits, or there is none."""
    return is_beyond(2.0**20, x)


def _turn(x: Lanes) -> tuple[Lanes, Pair]:
    """Return the quarter turns, and the rest of them, of numbers up to 2^20."""
    shifted = x * elementary.TWO_OVER_PI + MAGIC
    k = shifted - MAGIC
    first, second, third, last = HALF_PI_PARTS
    rest = add(x - k * first, -(k * second))
    rest = rest.plus(add(-(k * third), -(k * last)))
    return shifted.bits(), rest


def _turned(x: Lanes) -> tuple[Lanes, Pair]:
    """Return the quarter turns and the rest of any finite number."""
    finite = (x.bits() & SIZE["double"]).compare("ult", bits_of("double", math.inf)).choose(x, 0.0)
    far = is_far(finite)
    k, r = _turn(far.choose(x.constant(0.0), finite))
    w, near = x.w, (k, *r)
    places = [w.local(v.type, 64) for v in near]
    for v, place in zip(near, places, strict=True):
        w.line(f"store {v.type} {v.name}, ptr {place}")

    def turn() -> None:
        k_far, r_far = turn_far(far.choose(finite, 2.0**20), HALF_PI)
        for v, new, place in zip(near, (k_far, *r_far), places, strict=True):
            w.line(f"store {v.type} {far.choose(new, v).name}, ptr {place}")

    w.when(w.any(far.name), turn)
    k, high, low = [Lanes(w, v.kind, w.let(f"load {v.type}, ptr {p}")) for v, p in zip(near, places, strict=True)]
    return k, Pair(high, low)


def _waves(r: Pair) -> tuple[Pair, Pair]:
    """Return sine and cosine of r of a size up to π/4, in the forms of fdlibm (Sun Microsystems 1993)."""
    z = r.high * r.high
    half = z * 0.5
    sine = quick(r.high, r.high * z * plain(z, elementary.SIN) + (r.low - half * r.low))
    square = multiply(r.high, r.high)
    whole = quick(half.constant(1.0), -(square.high * 0.5))
    tail = z * z * plain(z, elementary.COS) - r.high * r.low
    return sine, quick(whole.high, whole.low + (tail - square.low * 0.5))


def _wave(x: Lanes, turn: int) -> Lanes:
    bits, r = _turned(x)
    sine, cosine = _waves(r)
    k = bits + turn
    z = (k & 1).compare("ne", 0).choose(cosine.rounded(), sine.rounded())
    z = (z.bits() ^ ((k & 2) << 62)).as_float()
    return (x - x).compare("oeq", 0.0).choose(z, math.nan)


def _near_wave(x: Lanes, turn: int) -> Lanes:
    """Return sine or cosine of numbers up to 2^20 that are no near multiples of a quarter turn: π/2 in three parts."""
    near = is_far(x).choose(x.constant(0.0), x)
    shifted = near * elementary.TWO_OVER_PI + MAGIC
    r, low = _rest_of_turn(near, shifted - MAGIC)
    return elementary.quarter_wave(shifted.bits() + turn, r, low)


def _rest_of_turn(x: Lanes, k: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``x - k·π/2`` in two parts, by products that are exact but for the last one (Cody & Waite 1980)."""
    first, second, third, _ = HALF_PI_PARTS
    high, part = x - k * first, k * second
    rest = high - part
    part = k * third - ((high - rest) - part)
    r = rest - part
    return r, (rest - r) - part


def near_sin(x: Lanes) -> Lanes:
    """Return ``sin(x)`` where it is not hard; zeros keep their sign."""
    return x.compare("oeq", 0.0).choose(x, _near_wave(x, 0))


def near_cos(x: Lanes) -> Lanes:
    """Return ``cos(x)`` where it is not hard."""
    return _near_wave(x, 1)


def _single_wave(x: Lanes, turn: float) -> Lanes:
    """Return the sine of floats up to 2^20, a half turn times ``turn`` further: ``x = (k - turn)·π + r``."""
    near = single_is_hard(x).choose(x.constant(0.0), x).widen()
    shifted = (near * elementary.ONE_OVER_PI + turn) + MAGIC
    k = (shifted - MAGIC) - turn
    r = (near - k * HALF_TURN[0]) - k * HALF_TURN[1]
    return elementary.half_wave(r, shifted).narrow("float")


def single_is_hard(x: Lanes) -> Lanes:
    """Tell where a float is so large that it is computed by more digits of π."""
    return is_far(x.widen())


def single_sin(x: Lanes) -> Lanes:
    """Return ``sin(x)`` of floats where it is not hard; zeros keep their sign."""
    return x.compare("oeq", 0.0).choose(x, _single_wave(x, 0.0))


def single_cos(x: Lanes) -> Lanes:
    """Return ``cos(x)`` of floats where it is not hard."""
    return _single_wave(x, 0.5)


def wave_is_hard(x: Lanes) -> Lanes:
    """Tell where x is large, or so near a multiple of a quarter turn that more than three parts of π/2 count."""
    far = is_far(x)
    near = far.choose(x.constant(0.0), x)
    r, _ = _rest_of_turn(near, (near * elementary.TWO_OVER_PI + MAGIC) - MAGIC)
    is_close = (r.bits() & SIZE["double"]).compare("ult", elementary.TINY_BITS)
    return far | is_close & _absolute(x).compare("ogt", 1.0)


def sin(x: Lanes) -> Lanes:
    """Return ``sin(x)``; zeros keep their sign."""
    return x.compare("oeq", 0.0).choose(x, _wave(x, 0))


def cos(x: Lanes) -> Lanes:
    """Return ``cos(x)``."""
    return _wave(x, 1)


def tan(x: Lanes) -> Lanes:
    """Return ``tan(x)``."""
    return _tangent(x, *_turned(x))


def near_tan(x: Lanes) -> Lanes:
    """Return ``tan(x)`` of numbers up to 2^20."""
    return _tangent(x, *_turn(is_far(x).choose(x.constant(0.0), x)))


def _tangent(x: Lanes, bits: Lanes, r: Pair) -> Lanes:
    """Return the tangent of quarter turns and a rest; zeros keep their sign."""
    sine, cosine = _waves(r)
    is_odd = (bits & 1).compare("ne", 0)
    z = select(is_odd, -cosine, sine).over(select(is_odd, sine, cosine)).rounded()
    z = (x - x).compare("oeq", 0.0).choose(z, math.nan)
    return x.compare("oeq", 0.0).choose(x, z)


def _angle(y: Lanes, x: Lanes) -> Pair:
    """Return the angle of a point with coordinates from 0 on, not both of them 0: of c and ``(y - c·x) / (x + c·y)``."""
    is_steep = y.compare("ogt", x)
    short, long = is_steep.choose(x, y), is_steep.choose(y, x)
    c, base = y.constant(0.0), pair(y, (0.0, 0.0))
    for start, center, value in ATAN_NEAR:
        is_near = short.compare("oge", long * start)
        c, base = is_near.choose(y.constant(center), c), select(is_near, pair(y, value), base)
    is_tiny = short.compare("olt", 2.0**-900)  # the quotient is taken of a larger one, whose products are not denormal
    t = add(is_tiny.choose(short * 2.0**200, short), -(long * c)).over(add(long, short * c))
    t = Pair(is_tiny.choose(t.high * 2.0**-200, t.high), is_tiny.choose(t.low.constant(0.0), t.low))
    z = t.high * t.high
    total = add(base.high, t.high)
    angle = quick(total.high, total.low + (base.low + (t.low + t.high * z * plain(z, ATAN_TAIL))))
    return select(is_steep, pair(y, HALF_PI).plus(-angle), angle)


def atan(x: Lanes) -> Lanes:
    """Return ``atan(x)``."""
    size = clamp(_absolute(x), -1.0, 1e300)
    z = _angle(size, x.constant(1.0)).rounded().copysign(x)
    return keep_nan(x, _is_tiny(x).choose(x, z))


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """Return the angle of a point, its limits as in C."""
    a, b = _absolute(y), _absolute(x)
    is_less = a.compare("olt", b)
    large = is_less.choose(b, a)
    both = a.compare("oeq", math.inf) & b.compare("oeq", math.inf)
    factor, _ = _center(large)
    is_infinite = large.compare("oeq", math.inf)
    axis = a.compare("oeq", math.inf).choose(x.constant(1.0), 0.0)  # beside an infinity what is finite is nothing
    high = is_infinite.choose(axis, clamp(a * factor, -1.0, 1e300))
    wide = is_infinite.choose(both.choose(x.constant(1.0), x.constant(1.0) - axis), clamp(b * factor, -1.0, 1e300))
    wide = large.compare("oeq", 0.0).choose(x.constant(1.0), wide)
    angle = _angle(high, wide)
    angle = select(x.bits().compare("slt", 0), pair(x, PI).plus(-angle), angle)
    return x.compare("uno", y).choose(x.constant(math.nan), angle.rounded().copysign(y))


def _arc(x: Lanes) -> tuple[Lanes, Lanes, Pair]:
    """Tell where a size is up to 1, and above 1/2, and return its arc sine, there half the arc sine's distance from π/2."""
    size = _absolute(x)
    is_inside = size.compare("ole", 1.0)
    size = is_inside.choose(size, 0.25)
    is_large = size.compare("ogt", 0.5)
    half = (size.constant(1.0) - size) * 0.5
    root = pair(half, half).root()  # asin(x) = π/2 - 2·asin(√((1 - x)/2))
    z = is_large.choose(half, size * size)
    sine = select(is_large, root, pair(size, size))
    tail = sine.high * z * plain(z, ASIN_TAIL)
    return is_inside, is_large, quick(sine.high, sine.low + tail)


def asin(x: Lanes) -> Lanes:
    """Return ``asin(x)``."""
    inside, is_large, arc = _arc(x)
    far = pair(x, HALF_PI).plus(-arc.scaled(2.0)).rounded()
    z = is_large.choose(far, arc.rounded()).copysign(x)
    return _is_tiny(x).choose(x, inside.choose(z, math.nan))


def acos(x: Lanes) -> Lanes:
    """Return ``acos(x)``."""
    inside, is_large, arc = _arc(x)
    is_below = x.bits().compare("slt", 0)
    signed = select(is_below, -arc, arc)
    near = pair(x, HALF_PI).plus(-signed)
    far = select(is_below, pair(x, PI), pair(x, (0.0, 0.0))).plus(signed.scaled(2.0))
    return inside.choose(is_large.choose(far.rounded(), near.rounded()), math.nan)


# --- Half precision, whose bits are, shifted, those of a double that is 2^1008 times smaller

HALF_SHIFT, HALF_SCALE, HALF_INFINITY = 42, 2.0**1008, 0x7C00


def from_half(bits: Lanes) -> Lanes:
    """Return the double of a half's bits."""
    wide = bits.extended()
    size = wide & 0x7FFF
    number = (size << HALF_SHIFT).as_float() * HALF_SCALE
    limit = size.compare("ugt", HALF_INFINITY).choose(number.constant(math.nan), math.inf)
    return size.compare("ult", HALF_INFINITY).choose(number, limit).copysign((wide << 48).as_float())


def to_half(x: Lanes) -> Lanes:
    """Return the bits of the nearest half: ``1.5·2^(exponent + 42)``, added and subtracted, leaves 11 bits."""
    size = _absolute(x)
    is_large = size.compare("oge", 65520.0)
    size = is_large.choose(size.constant(1.0), size)
    exponent = size.compare("olt", 2.0**-14).choose(size.constant(2.0**-14), size).bits() & (0x7FF << 52)
    magic = (exponent + (42 << 52) | (1 << 51)).as_float()
    bits = shifted_right((((size + magic) - magic) * (1 / HALF_SCALE)).bits(), exponent.constant(HALF_SHIFT))
    bits = is_large.choose(bits.constant(HALF_INFINITY), x.compare("uno", 0.0).choose(bits.constant(0x7E00), bits))
    return (bits | (shifted_right(x.bits(), bits.constant(48)) & 0x8000)).truncated("i16")


# --- Table: by libm's names

Function: TypeAlias = Callable[..., Lanes]

FUNCTIONS: Final[dict[str, Function]] = {
    scalar_op(power.__name__).libm: power,
    **{function.__name__: function for function in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, exp, exp2, expm1, hypot, log, log10, log1p, log2, sin,
        sinh, tan, tanh,
    )},
}  # fmt: skip

# functions to those that compute most numbers faster, and where these do not
NEAR: Final[dict[Function, tuple[Function, Function]]] = {
    acosh: (near_acosh, acosh_is_hard),
    asinh: (near_asinh, asinh_is_hard),
    cos: (near_cos, wave_is_hard),
    cbrt: (near_cbrt, _is_abnormal),
    cosh: (near_cosh, partial(is_beyond, 40.0)),
    exp2: (near_exp2, partial(is_beyond, 1022.0)),
    expm1: (near_expm1, partial(is_beyond, 700.0)),
    log: (partial(_of_normal, _natural), elementary.log_is_hard),
    log10: (partial(_of_normal, _decimal), elementary.log_is_hard),
    log1p: (elementary.log1p, elementary.log1p_is_hard),
    log2: (partial(_of_normal, _binary), elementary.log_is_hard),
    power: (near_power, power_is_hard),
    sin: (near_sin, wave_is_hard),
    sinh: (near_sinh, partial(is_beyond, 40.0)),
    tan: (near_tan, is_far),
}


def find_form(name: str) -> tuple[Function, Function | None, None]:
    """Return a function under libm's name as vectors compute it, and where one number after the other is computed."""
    function = FUNCTIONS[name]
    near, is_hard = NEAR.get(function, (function, None))
    return near, is_hard, None


def compute(name: str, xs: Sequence[Lanes]) -> Lanes | None:
    """Return a function of floats or doubles under libm's name, None where it has no portable form."""
    function = FUNCTIONS.get(name)
    if function is None:
        return None
    z = function(*[x.widen() for x in xs])
    return z if xs[0].kind == "double" else z.rounded()
