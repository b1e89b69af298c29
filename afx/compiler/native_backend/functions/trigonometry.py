"""Trigonometry: sine and cosine up to 2^20, or 2^40 for floats; NumPy's loop takes larger arguments.

Of doubles ``x = k·π/2 + r`` with π/2 in three parts, whose products with k are subtracted by fused operations (Cody &
Waite 1980; Brisebarre et al. 2005), and sine and cosine of r by minimax polynomials in the form of fdlibm; of floats,
computed as doubles, ``x = k·π + r`` and the sine alone.
"""

from __future__ import annotations

from afx.compiler.native_backend.functions.exponential import MAGIC, SIZE
from afx.compiler.native_backend.functions.lanes import Lanes

__all__ = ["cos", "is_far", "sin"]

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
ONE_OVER_PI, PI = 0.3183098861837907, (3.141592653589793, 1.2246467991473532e-16)
FAR_BITS = {"double": 0x4130000000000000, "float": 0x53800000}  # 2^20, 2^40
ONE_BITS = 0x3FF0000000000000
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
    k = bits + turn
    z = r * r
    half = z * 0.5
    sine = r + (r * z).fma(z.polynomial(SIN), low.fma(-half, low))
    whole = half.constant(1.0) - half
    cosine = whole + (z * z).fma(z.polynomial(COS), (-r).fma(low, (half.constant(1.0) - whole) - half))
    found = (k & 1).compare("ne", 0).choose(cosine, sine)
    return (found.bits() ^ ((k & 2) << 62)).as_float()


def _halves(x: Lanes, turn: float) -> Lanes:
    """Return the sine of a float, a half turn times ``turn`` further, as a double: ``x = (k - turn)·π + r``."""
    shifted = x.fma(ONE_OVER_PI, MAGIC) if turn == 0.0 else x.fma(ONE_OVER_PI, turn) + MAGIC
    k = shifted - MAGIC
    if turn:
        k = k - turn
    r = k.fma(-PI[1], k.fma(-PI[0], x))
    z = r * r
    sine = (r * z).fma(z.polynomial(SIN_HALF), r)
    return (sine.bits() ^ (shifted.bits() << 63)).as_float()


def sin(x: Lanes) -> Lanes:
    """Return ``sin(x)``; zeros keep their sign."""
    near = take_near(x)
    z = _halves(near.widen(), 0.0).narrow("float") if x.kind == "float" else _quarters(near, 0)
    return x.compare("oeq", 0.0).choose(x, z)


def cos(x: Lanes) -> Lanes:
    """Return ``cos(x)``."""
    near = take_near(x)
    return _halves(near.widen(), 0.5).narrow("float") if x.kind == "float" else _quarters(near, 1)
