"""Elementary functions: exponentials, logarithms, powers, sine and cosine as polynomials on vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afx.compiler.native_backend.functions.lanes import Lanes, bits_of
from afx.core.scalar_ops import FLOOR, TRUNC

# --- Exponentials: exp, expm1, tanh, the logistic function, and the error function of floats
#
# ``x = k·log 2 + r`` with ``|r| <= log(2)/2`` in two parts (Cody & Waite 1980); ``exp(r)`` by a minimax polynomial
# (Remez' exchange); ``2^k`` from its bits. What has a term beside the rounded one is kept as an unevaluated sum
# (Dekker 1971).

LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471805598903, 5.497923018708371e-14  # 42 bits, and the rest
MAGIC = 6755399441055744.0  # 1.5 · 2^52: what is added to it is rounded to an integer, in its last bits
MAGIC_BITS = 0x4338000000000000
SIZE = {"double": (1 << 63) - 1, "float": (1 << 31) - 1}  # the bits but the sign
INFINITY = {"double": 0x7FF0000000000000, "float": 0x7F800000}
ONE_BITS = 0x3FF0000000000000
ONE = {"double": ONE_BITS, "float": 0x3F800000}
DIGITS = {"double": 52, "float": 23}  # of a significand, behind the first one

# (exp(r) - 1 - r) / r², relative error 2^-64
EXP = (
    0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316739, 0.0013888888888858775, 0.00019841269897059847,
    2.4801587373182023e-05, 2.755723423580939e-06, 2.7557233781931256e-07, 2.5112240207825394e-08, 2.0926825203572245e-09,
)  # fmt: skip
# (2^t - 1) / t for |t| <= 1/2
EXP2M1_SINGLE = (
    0.6931471805568766, 0.24022650696489228, 0.05550410906009179, 0.009618128942490657, 0.0013333478809258784,
    0.000154036296103723, 1.530361173053636e-05, 1.3215475325780428e-06,
)  # fmt: skip
# 2^t for |t| <= 1/2, 2^-35
EXP2_SINGLE = (
    0.9999999999616647, 0.6931471807284757, 0.24022651198241338, 0.05550410353409295, 0.009618027244179005,
    0.001333392255953763, 0.0001546929404047707, 1.5201929291663773e-05,
)  # fmt: skip
EXP_END = 87.0  # the exponential of a larger float may overflow
ERF_END = 3.9300000667572021  # a float, from which on the error function is 1
# erf(x) / x in x², relative error 2^-32 up to the end
ERF_SINGLE = (
    1.1283791668836587, -0.3761263800425219, 0.11283785157616537, -0.0268659795031817, 0.005223676188793932,
    -0.0008545383343756146, 0.00012035964999173888, -1.4834916872628895e-05, 1.6147611354680388e-06,
    -1.5536418180151626e-07, 1.310741506797525e-08, -9.537811926108638e-10, 5.848186325024316e-11,
    -2.9354634137408295e-12, 1.1643837150178435e-13, -3.4860802814264585e-15, 7.36271816554185e-17,
    -9.737334043010334e-19, 6.0469587367927585e-21,
)  # fmt: skip


def clamp(x: Lanes, low: float, high: float) -> Lanes:
    """Return x between a negative and a positive bound; nan becomes one of them. No floats are compared: that raises flags."""
    x = x.bits().compare("sgt", bits_of(x.kind, high)).choose(x.constant(high), x)
    return x.bits().compare("ugt", bits_of(x.kind, low)).choose(x.constant(low), x)


def smaller(x: Lanes, most: float) -> Lanes:
    """Return ``|x|``, or a bound where that is less; also for nan."""
    size = x.bits() & SIZE[x.kind]
    return size.compare("ult", bits_of(x.kind, most)).choose(size.as_float(), most)


def keep_nan(x: Lanes, z: Lanes) -> Lanes:
    """Return z, nan where x is."""
    return x.compare("uno", x).choose(x, z)


def power_of_two(k: Lanes) -> Lanes:
    """Return 2^k for integers k of a normal double."""
    return ((k << 52) + ONE_BITS).as_float()


def raised(x: Lanes, shifted: Lanes) -> Lanes:
    """Return ``x · 2^k`` of normal doubles, by the bits of ``k + MAGIC``."""
    return (x.bits() + (shifted.bits() << 52)).as_float()


def split(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return ``k + MAGIC``, and r in two parts."""
    shifted = x.fma(LOG2E, MAGIC)
    k = shifted - MAGIC
    return shifted, k.fma(-LN2_HIGH, x), k * -LN2_LOW


def exp_near_one(high: Lanes, low: Lanes) -> Lanes:
    """Return ``exp(r)``."""
    r = high + low
    square = r * r
    return square.fma(r.polynomial(EXP, square), low) + high + 1.0


def exp_of_double(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return k and ``exp(r)`` in two parts, so that ``exp(x)`` is ``2^k · (high + low)``."""
    shifted, high, low = split(x)
    r = high + low
    rest = (high - r) + low
    one = r.constant(1.0)
    first = one + r
    second = (one - first) + r
    return shifted.bits() - MAGIC_BITS, first, (r * r).fma(r.polynomial(EXP), second + rest)


def scale(x: Lanes, k: Lanes) -> Lanes:
    """Return ``x · 2^k`` where the result may be denormal or overflow: in two steps, of which the second one rounds."""
    half = k >> 1
    return (x * power_of_two(half)).times(power_of_two(k - half))


def is_above(x: Lanes, bound: float) -> Lanes:
    """Tell where x is above a positive bound, or nan."""
    bits = x.bits()
    return bits.compare("sgt", bits_of(x.kind, bound)) | bits.compare("ugt", bits_of(x.kind, -math.inf))


def exp_is_hard(x: Lanes) -> Lanes:
    """Tell where the result may overflow; of doubles also where it may be denormal or 0."""
    if x.kind == "float":
        return is_above(x, EXP_END)
    return (x.bits() & SIZE[x.kind]).compare("ugt", bits_of(x.kind, 708.0))


def exp(x: Lanes) -> Lanes:
    """Return ``exp(x)`` where that is no overflow; of doubles where it is a normal number."""
    if x.kind == "float":  # tails of distributions and of softmax: a double holds them all
        return _exp_single(clamp(x, -150.0, EXP_END).widen()).narrow("float")
    shifted, high, low = split(exp_is_hard(x).choose(x.constant(0.0), x))  # infinite ones would raise flags
    return raised(exp_near_one(high, low), shifted)


def exp_of_all(x: Lanes) -> Lanes:
    """Return ``exp(x)`` of any x, with the same bits."""
    limit = (x.bits().compare("sgt", 0) | x.compare("uno", x)).choose(x, 0.0)  # of infinities and nan
    finite = (x.bits() & SIZE[x.kind]).compare("ult", INFINITY[x.kind])
    x = finite.choose(x, 0.0)
    if x.kind == "float":
        z = _exp_single(clamp(x, -150.0, 150.0).widen()).rounded()
    else:
        shifted, high, low = split(clamp(x, -746.0, 710.0))
        z = scale(exp_near_one(high, low), shifted.bits() - MAGIC_BITS)
    return finite.choose(z, limit)


def _exp_single(x: Lanes) -> Lanes:
    """Return ``exp(x)`` of doubles, good for a float."""
    shifted = x.fma(LOG2E, MAGIC)
    return raised(x.fma(LOG2E, -(shifted - MAGIC)).polynomial(EXP2_SINGLE), shifted)


def exp2_single(x: Lanes) -> Lanes:
    """Return ``2^x`` of doubles, good for a float."""
    shifted = x + MAGIC
    return raised((x - (shifted - MAGIC)).polynomial(EXP2_SINGLE), shifted)


def expm1_of_double(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``exp(x) - 1`` in two parts, for x that neither overflow nor are far below 0.

    They sum up to ``(2^k - 1) + 2^k (r + r² / 2 + r³ p(r))``, of ``x = k ln 2 + r``.
    """
    shifted, high, low = split(x)
    r = high + low
    rest = (high - r) + low
    two = power_of_two(shifted.bits())
    whole, part = two - 1.0, two * r
    first = whole + part
    second = (whole - first) + part + ((two - whole) - 1.0)  # what first and whole have rounded off
    square = r * r
    square_rest = r.fma(r, -square)
    small = (r * square).fma(r.polynomial(EXP[1:], square), square_rest.fma(0.5, rest))
    return first, two.fma(small, (two * 0.5).fma(square, second))


def _expm1_single(x: Lanes, factor: float = 1.0) -> Lanes:
    """Return ``exp(factor · x) - 1`` of doubles, good for a float."""
    rate = factor * LOG2E
    shifted = x.fma(rate, MAGIC)
    r = x.fma(rate, -(shifted - MAGIC))
    two = power_of_two(shifted.bits())
    return (two * r).fma(r.polynomial(EXP2M1_SINGLE), two - 1.0)


def expm1_is_hard(x: Lanes) -> Lanes:
    """Tell where x is near overflow, or nan."""
    return is_above(x, 704.0 if x.kind == "double" else 88.0)


def expm1(x: Lanes) -> Lanes:
    """Return ``exp(x) - 1`` of numbers that are not large: far below 0 that is -1."""
    if x.kind == "float":
        return _expm1_single(clamp(x, -88.0, 88.0).widen()).narrow("float").copysign(x)
    high, low = expm1_of_double(clamp(x, -40.0, 704.0))
    return (high + low).copysign(x)


def expm1_of_all(x: Lanes) -> Lanes | None:
    """Return ``exp(x) - 1`` of large floats, where 1 changes nothing; of doubles NumPy's loop does."""
    return None if x.kind == "double" else exp_of_all(x)


def tanh(x: Lanes) -> Lanes:
    """Return ``tanh(x)``: ``expm1(2|x|) / (expm1(2|x|) + 2)``."""
    if x.kind == "float":
        e = _expm1_single(smaller(x, 10.0).widen(), 2.0)
        z = (e / (e + 2.0)).narrow("float")
    else:
        size = smaller(x, 20.0)
        high, low = expm1_of_double(size + size)
        whole = high + low
        below = (high - whole) + low
        z = divide(whole, below, *_plus(whole, below, 2.0))
    return keep_nan(x, z.copysign(x))


def _plus(high: Lanes, low: Lanes, number: float) -> tuple[Lanes, Lanes]:
    """Return a sum in two parts, of a number and one of any size (Knuth's TwoSum)."""
    total = high + number
    there = total - high
    return total, (high - (total - there)) + (there.constant(number) - there) + low


def divide(x: Lanes, x_low: Lanes, y: Lanes, y_low: Lanes) -> Lanes:
    """Return a quotient of sums of two parts, rounded nearly once."""
    inverse = y.constant(1.0) / y
    z = x * inverse
    rest = (-z).fma(y, x) + (-z).fma(y_low, x_low)
    return rest.fma(inverse, z)


def logistic(x: Lanes) -> Lanes:
    """Return ``1 / (1 + exp(-x))``, by ``exp(-|x|)``, which is accurate in both tails."""
    size = -smaller(x, 746.0 if x.kind == "double" else 150.0)
    positive = x.bits().compare("sge", 0)
    if x.kind == "float":
        e = _exp_single(size.widen())
        z = (positive.choose(e.constant(1.0), e) / (e + 1.0)).narrow("float")
        return keep_nan(x, z)
    k, high, low = exp_of_double(size)  # exp(-|x|) is (high + low) 2ᵏ; where k is far below 0, 1 more is 1
    whole = high + low
    below = (high - whole) + low
    near = k.compare("sgt", -60)
    two = power_of_two(near.choose(k, -60.0))
    e, e_low = whole * two, below * two
    top, top_low = positive.choose(e.constant(1.0), e), positive.choose(e.constant(0.0), e_low)
    z = divide(top, top_low, *_plus(e, e_low, 1.0))
    return keep_nan(x, near.choose(z, positive.choose(e.constant(1.0), scale(whole, k))))


def erf(x: Lanes) -> Lanes:
    """Return ``erf(x)`` of floats: an odd polynomial in doubles."""
    wide = clamp(x, -ERF_END, ERF_END).widen()
    return keep_nan(x, (wide * (wide * wide).polynomial(ERF_SINGLE)).narrow("float"))


# --- Logarithms: log and log1p
#
# ``x = 2^k·m`` with m in [√½, √2), ``f = m - 1``, ``s = f/(2 + f)``: ``log m = f - (f²/2 - s·(f²/2 + s²·R(s²)))``, as
# in fdlibm (Sun Microsystems 1993), R by a minimax polynomial.

ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
# the least one that is taken: denormal floats are no such doubles
NORMAL_BITS = {"double": 0x0010000000000000, "float": 1}

# relative errors 2^-58, 2^-37
LOG = (
    0.6666666666666734, 0.3999999999941399, 0.28571428742558774, 0.22222198554023376, 0.18183565400002522,
    0.1531402118160146, 0.1479626167433497,
)  # fmt: skip
LOG_SINGLE = (0.6666666564469484, 0.40000335378792423, 0.2853729566651613, 0.23582413049336012)


def split_exponent(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return k, as an integer, and m."""
    shifted = x.bits() - ROOT_HALF_BITS
    k = shifted >> 52
    return k, (x.bits() - (k << 52)).as_float()


def log_is_hard(x: Lanes) -> Lanes:
    """Tell where x is 0 or negative, nan, infinite, or denormal."""
    least = NORMAL_BITS[x.kind]
    return (x.bits() - least).compare("uge", INFINITY[x.kind] - least)


def log(x: Lanes) -> Lanes:
    """Return ``log(x)`` of positive normal numbers."""
    k, m = split_exponent(x.widen())
    f = m - 1.0
    return log_near_one(k.to_float(), f, f.constant(0.0), x.kind == "float").narrow(x.kind)


def log1p_is_hard(x: Lanes) -> Lanes:
    """Tell where x is -1 or below, nan or infinite."""
    bits = x.bits()
    size = bits << 1
    below = bits.compare("slt", 0) & size.compare("uge", bits_of(x.kind, 1.0) << 1)
    return below | size.compare("uge", INFINITY[x.kind] << 1)


def log1p(x: Lanes) -> Lanes:
    """Return ``log(1 + x)`` of finite x above -1."""
    is_finite = (x.bits() & SIZE[x.kind]).compare("ult", INFINITY[x.kind])
    wide = is_finite.choose(x, 0.0).widen()  # differences of infinities raise flags
    total = wide + 1.0
    rest = wide - (total - 1.0)
    k, m = split_exponent(total)
    down = ((k.constant(1024) - k) << 52).as_float()  # 2^(1-k), 0 for the largest numbers, of which k is 1024
    f, low = m - 1.0, rest * down * 0.5
    near = f + low
    left = near.constant(0.0) if x.kind == "float" else (f - near) + low
    return log_near_one(k.to_float(), near, left, x.kind == "float").copysign(wide).narrow(x.kind)


def _log_terms(f: Lanes, coefficients: Sequence[float]) -> tuple[Lanes, Lanes, Lanes]:
    s = f / (f + 2.0)
    z = s * s
    return s, f * f * 0.5, z * z.polynomial(coefficients)


def log_terms(f: Lanes) -> tuple[Lanes, Lanes]:
    """Return h and t, of which ``f - (h - t)`` is ``log(1 + f)``."""
    s, half, series = _log_terms(f, LOG)
    return half, s * (half + series)


def log_near_one(k: Lanes, f: Lanes, low: Lanes, is_single: bool = False) -> Lanes:
    """Return ``k·log 2 + log(1 + f + low)``."""
    s, half, series = _log_terms(f, LOG_SINGLE if is_single else LOG)
    return k.fma(LN2_HIGH, f - (half - s.fma(half + series, k.fma(LN2_LOW, low))))


# --- Powers and lengths: pow of floats as ``2^(y·log2 x)`` by doubles, that of half numbers and hypot by square roots

END = {"double": 1000, "float": 120}  # binary digits of a moderate size, up and down together
FAR = 126.0  # beyond, the result may be denormal or overflow


def _exponent(x: Lanes, y: Lanes) -> Lanes:
    """Return ``y · log2(x)`` of positive floats x, as a double; of infinite y 0, which raises no flag."""
    y = _is_large(y).choose(y.constant(0.0), y)
    k, m = split_exponent(x.widen())
    f = m - 1.0
    half, series = log_terms(f)
    log = f - (half - series)
    return y.widen() * log.fma(LOG2E, k.to_float())


def power_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where x is no positive finite number, y is not finite, or the result is of extreme size."""
    far = (_exponent(x, y).bits() << 1).compare("uge", bits_of("double", FAR) << 1)
    return log_is_hard(x) | _is_large(y) | far


def power(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** y`` of floats."""
    return exp2_single(clamp(_exponent(x, y), -FAR, FAR)).narrow("float")


def root_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where x is no positive number of moderate size, whose powers by half numbers neither over- nor underflow."""
    end = (END[x.kind] << DIGITS[x.kind]) // 2
    return (x.bits() - (ONE[x.kind] - end)).compare("ugt", 2 * end)


def _moderate(x: Lanes) -> Lanes:
    return root_is_hard(x, x).choose(x.constant(1.0), x)


def root(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** 0.5``, which is the square root, as in NumPy's powers of arrays by a number."""
    return x.sqrt()


def _root_and_rest(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return a moderate number, its square root, and half of what the root's square leaves of it."""
    x = _moderate(x)
    s = x.sqrt()
    return x, s, (-s).fused(s, x) * 0.5


def inverse_root(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** -0.5``: what the quotient and the root round away is added again."""
    _, s, rest = _root_and_rest(x)
    z = s.constant(1.0) / s
    return z.fused((-s).fused(z, 1.0) - rest * z * z, z)


def root_of_cube(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** 1.5``."""
    x, s, rest = _root_and_rest(x)
    z = x * s
    return z + rest.fused(s, x.fused(s, -z))


def inverse_root_of_cube(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** -1.5``."""
    x, s, rest = _root_and_rest(x)
    cube = x * s
    z = s.constant(1.0) / cube
    return z.fused((-cube).fused(z, 1.0) - z * rest.fused(s, x.fused(s, -cube)), z)


def hypot_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where an operand is infinite or nan; of doubles where the longer one is so, or its square of extreme size."""
    if x.kind == "float":
        return _is_large(x) | _is_large(y)
    size = _larger(x, y)
    return (size - bits_of(x.kind, 2.0**-400)).compare("ugt", (900 << 52) - 1) & size.compare("ne", 0)


def _is_large(x: Lanes) -> Lanes:
    """Tell where a float is infinite or nan."""
    return (x.bits() << 1).compare("uge", INFINITY["float"] << 1)


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """Return ``sqrt(x² + y²)``; of doubles without what does not count beside the longer one, whose square may underflow."""
    if x.kind == "float":
        a, b = x.widen(), y.widen()
        return (a * a + b * b).sqrt().rounded()
    hard = hypot_is_hard(x, y)
    long = _larger(x, y)
    short = (x.bits() ^ y.bits()) & SIZE[x.kind] ^ long
    short = (long - short).compare("ugt", 60 << 52).choose(short.constant(0), short)
    a, b = [hard.choose(size.constant(0), size).as_float() for size in (long, short)]
    return a.fused(a, b * b).sqrt()


def _larger(x: Lanes, y: Lanes) -> Lanes:
    """Return the bits of ``|x|`` or ``|y|``, whichever is larger; of nan they are the largest."""
    a, b = x.bits() & SIZE[x.kind], y.bits() & SIZE[y.kind]
    return a.compare("ugt", b).choose(a, b)


# --- Remainders: exact, as C's fmod, where the quotient has fewer bits than a number; NumPy's loop takes others
#
# The quotient, rounded and cut, is the whole one or one more: its product is subtracted by a fused operation, which is
# exact, and the divisor added again where that was too much. What follows is NumPy's, operation by operation.


def remainder_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where the quotient has many bits or underflows, and where an operand is not finite, or the divisor denormal or 0."""
    digits = DIGITS[x.kind]
    a, b = x.bits() & SIZE[x.kind], y.bits() & SIZE[x.kind]
    far = (a - b).compare("sgt", (digits - 1) << digits)
    tiny = (b - a).compare("sgt", ONE[x.kind] - (digits << digits)) & a.compare("ne", 0)
    odd = a.compare("uge", INFINITY[x.kind]) | b.compare("uge", INFINITY[x.kind]) | b.compare("ult", 1 << digits)
    return far | tiny | odd


def _divide(x: Lanes, y: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Return operands, 0 and 1 in place of hard ones, the size of C's remainder, and where NumPy's has another sign than that."""
    hard = remainder_is_hard(x, y)
    x, y = hard.choose(x.constant(0.0), x), hard.choose(y.constant(1.0), y)
    a, b = x.unary("fabs"), y.unary("fabs")
    rest = (a / b).unary(TRUNC).fused(-b, a)
    rest = rest.bits().compare("slt", 0).choose(rest + b, rest)
    return x, y, rest, rest.bits().compare("ne", 0) & (x.bits() ^ y.bits()).compare("slt", 0)


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """Return what is left of x after whole multiples of y, with the sign of x."""
    x, _, rest, _ = _divide(x, y)
    return rest.copysign(x)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """Return what is left of x after whole multiples of y, with the sign of y."""
    x, y, rest, turns = _divide(x, y)
    return turns.choose(rest.copysign(x) + y, rest.copysign(y))


def floor_divide(x: Lanes, y: Lanes) -> Lanes:
    """Return the whole multiple of y below x, as a number of times; zeros have the sign of the quotient."""
    x, y, rest, turns = _divide(x, y)
    times = (x - rest.copysign(x)) / y
    times = turns.choose(times - 1.0, times)
    whole = times.unary(FLOOR)
    whole = (times - whole).bits().compare("sgt", bits_of(x.kind, 0.5)).choose(whole + 1.0, whole)
    none = (times.bits() & SIZE[x.kind]).compare("eq", 0)
    return none.choose(((x.bits() ^ y.bits()) & ~SIZE[x.kind]).as_float(), whole)


# --- Trigonometry: sine and cosine up to 2^20, or 2^40 for floats; NumPy's loop takes larger arguments
#
# Of doubles ``x = k·π/2 + r`` with π/2 in three parts, whose products with k are subtracted by fused operations (Cody
# & Waite 1980; Brisebarre et al. 2005), and sine and cosine of r by minimax polynomials in the form of fdlibm; of
# floats, computed as doubles, ``x = k·π + r`` and the sine alone.

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
ONE_OVER_PI, PI = 0.3183098861837907, (3.141592653589793, 1.2246467991473532e-16)
FAR_BITS = {"double": 0x4130000000000000, "float": 0x53800000}  # 2^20, 2^40
TINY_BITS = 0x3E10000000000000  # 2^-30

# (sin r - r) / r³ and (cos r - 1 + r²/2) / r⁴ in r²: relative errors 2^-58, 2^-64
SIN = (
    -0.16666666666666632, 0.008333333333322413, -0.00019841269829807802, 2.7557313691891292e-06, -2.505075810880838e-08,
    1.5896795190537075e-10,
)  # fmt: skip
COS = (
    0.0416666666666666, -0.0013888888888874125, 2.4801587289482272e-05, -2.755731435235087e-07, 2.0875723274654536e-09,
    -1.1359647827745044e-11,
)  # fmt: skip
SIN_HALF = (  # for |r| up to π/2: 2^-35
    -0.16666666625737112, 0.008333331090554646, -0.00019840865775156184, 2.752525603843111e-06, -2.3886592320879096e-08,
)  # fmt: skip


def is_far(x: Lanes) -> Lanes:
    """Tell where x is large, infinite, nan, or so near a multiple of π/2 that the third part counts."""
    mask = SIZE[x.kind]
    size = x.bits() & mask
    far = size.compare("ugt", FAR_BITS[x.kind])
    if x.kind == "float":
        return far
    _, r, _ = reduce(take_near(x))
    near = (r.bits() & mask).compare("ult", TINY_BITS)
    return far | near.choose(size.compare("ugt", ONE_BITS), near)


def take_near(x: Lanes) -> Lanes:
    """Return x, 0 in place of far numbers, whose polynomials would raise flags."""
    return (x.bits() & SIZE[x.kind]).compare("ule", FAR_BITS[x.kind]).choose(x, 0.0)


def reduce(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return the bits of k, and r in two parts."""
    shifted = x.fma(TWO_OVER_PI, MAGIC)
    k = shifted - MAGIC
    first, second, third = HALF_PI
    high = k.fma(-first, x)
    r = k.fma(-second, high)
    return shifted.bits(), r, k.fma(-third, k.fma(-second, high - r))


def _quarters(x: Lanes, turn: int) -> Lanes:
    """Return the sine of a double, a number of quarter turns further."""
    bits, r, low = reduce(x)
    return quarter_wave(bits + turn, r, low)


def quarter_wave(k: Lanes, r: Lanes, low: Lanes) -> Lanes:
    """Return the sine of k quarter turns and a rest in two parts."""
    z = r * r
    half = z * 0.5
    sine = r + (r * z).fma(z.polynomial(SIN), low.fma(-half, low))
    whole = half.constant(1.0) - half
    cosine = whole + (z * z).fma(z.polynomial(COS), (-r).fma(low, (half.constant(1.0) - whole) - half))
    turned = (k & 1).compare("ne", 0).choose(cosine, sine)
    return (turned.bits() ^ ((k & 2) << 62)).as_float()


def _halves(x: Lanes, turn: float) -> Lanes:
    """Return the sine of a float, a half turn times ``turn`` further, as a double: ``x = (k - turn)·π + r``."""
    shifted = x.fma(ONE_OVER_PI, MAGIC) if turn == 0.0 else x.fma(ONE_OVER_PI, turn) + MAGIC
    k = shifted - MAGIC
    if turn:
        k = k - turn
    return half_wave(k.fma(-PI[1], k.fma(-PI[0], x)), shifted)


def half_wave(r: Lanes, shifted: Lanes) -> Lanes:
    """Return the sine of a rest of half turns, whose number is odd where that has the last bit."""
    z = r * r
    return ((r * z).fma(z.polynomial(SIN_HALF), r).bits() ^ (shifted.bits() << 63)).as_float()


def sin(x: Lanes) -> Lanes:
    """Return ``sin(x)``; zeros keep their sign."""
    near = take_near(x)
    z = _halves(near.widen(), 0.0).narrow("float") if x.kind == "float" else _quarters(near, 0)
    return x.compare("oeq", 0.0).choose(x, z)


def cos(x: Lanes) -> Lanes:
    """Return ``cos(x)``."""
    near = take_near(x)
    return _halves(near.widen(), 0.5).narrow("float") if x.kind == "float" else _quarters(near, 1)
