"""Exponentials: exp, expm1, tanh, the logistic function, and the error function of floats.

``x = k·log 2 + r`` with ``|r| <= log(2)/2`` in two parts (Cody & Waite 1980); ``exp(r)`` by a minimax polynomial (Remez'
exchange); ``2^k`` from its bits. What has a term beside the rounded one is kept as an unevaluated sum (Dekker 1971).
"""

from __future__ import annotations

from afx.compiler.native_backend.functions.lanes import Lanes, bits_of

__all__ = [
    "INFINITY", "SIZE", "clamp", "erf", "exp", "exp2_single", "exp_is_hard", "exp_of_all", "expm1", "expm1_is_hard",
    "expm1_of_all", "keep_nan", "logistic", "tanh",
]  # fmt: skip

LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471805598903, 5.497923018708371e-14  # 42 bits, and the rest
MAGIC = 6755399441055744.0  # 1.5 · 2^52: what is added to it is rounded to an integer, in its last bits
MAGIC_BITS = 0x4338000000000000
SIZE = {"double": (1 << 63) - 1, "float": (1 << 31) - 1}  # the bits but the sign
INFINITY = {"double": 0x7FF0000000000000, "float": 0x7F800000}
ONE_BITS = 0x3FF0000000000000

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


def exp_is_hard(x: Lanes) -> Lanes:
    """Tell where the result may be no normal number."""
    size = x.bits() & SIZE[x.kind]
    return size.compare("ugt", bits_of(x.kind, 708.0 if x.kind == "double" else 87.0))


def exp(x: Lanes) -> Lanes:
    """Return ``exp(x)`` where that is a normal number."""
    x = exp_is_hard(x).choose(x.constant(0.0), x)  # infinite ones would raise flags
    if x.kind == "float":
        return _exp_single(x.widen()).narrow("float")
    shifted, high, low = split(x)
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


def _expm1_of_double(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``exp(x) - 1`` in two parts, for x that neither overflow nor are far below 0."""
    shifted, high, low = split(x)
    r = high + low
    rest = (high - r) + low
    two = power_of_two(shifted.bits())
    whole, part = two - 1.0, two * r
    first = whole + part
    second = (whole - first) + part + ((two - whole) - 1.0)
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
    """Tell where x is near overflow, or far below 0, or nan."""
    return (x.bits() & SIZE[x.kind]).compare("ugt", bits_of(x.kind, 704.0 if x.kind == "double" else 88.0))


def expm1(x: Lanes) -> Lanes:
    """Return ``exp(x) - 1`` of numbers of moderate size."""
    if x.kind == "float":
        return _expm1_single(clamp(x, -88.0, 88.0).widen()).narrow("float").copysign(x)
    high, low = _expm1_of_double(clamp(x, -40.0, 704.0))
    return (high + low).copysign(x)


def expm1_of_all(x: Lanes) -> Lanes | None:
    """Return ``exp(x) - 1`` of floats beyond: there 1 changes nothing, or all; of doubles NumPy's loop does."""
    if x.kind == "double":
        return None
    return (x.bits().compare("slt", 0) & x.compare("ord", x)).choose(x.constant(-1.0), exp_of_all(x))


def tanh(x: Lanes) -> Lanes:
    """Return ``tanh(x)``: ``expm1(2|x|) / (expm1(2|x|) + 2)``."""
    if x.kind == "float":
        e = _expm1_single(smaller(x, 10.0).widen(), 2.0)
        z = (e / (e + 2.0)).narrow("float")
    else:
        size = smaller(x, 20.0)
        high, low = _expm1_of_double(size + size)
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
    k, high, low = exp_of_double(size)
    whole = high + low
    below = (high - whole) + low
    near = k.compare("sgt", -60)
    two = power_of_two(near.choose(k, -60.0))
    e, e_low = whole * two, below * two
    top, top_low = positive.choose(e.constant(1.0), e), positive.choose(e.constant(0.0), e_low)
    z = divide(top, top_low, *_plus(e, e_low, 1.0))
    far = positive.choose(e.constant(1.0), scale(whole, k))
    return keep_nan(x, near.choose(z, far))


def erf(x: Lanes) -> Lanes:
    """Return ``erf(x)`` of floats: an odd polynomial in doubles."""
    wide = clamp(x, -ERF_END, ERF_END).widen()
    return keep_nan(x, (wide * (wide * wide).polynomial(ERF_SINGLE)).narrow("float"))
