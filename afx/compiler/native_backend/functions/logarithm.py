"""Logarithms: log and log1p.

``x = 2^k·m`` with m in [√½, √2), ``f = m - 1``, ``s = f/(2 + f)``: ``log m = f - (f²/2 - s·(f²/2 + s²·R(s²)))``, as in
fdlibm (Sun Microsystems 1993), R by a minimax polynomial.
"""

from __future__ import annotations

from afx.compiler.native_backend.functions.exponential import INFINITY, LN2_HIGH, LN2_LOW, SIZE
from afx.compiler.native_backend.functions.lanes import Lanes, bits_of

__all__ = ["log", "log1p", "log1p_is_hard", "log_is_hard"]

ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
NORMAL_BITS = {
    "double": 0x0010000000000000,
    "float": 1,
}  # the least one that is taken: denormal floats are no such doubles

# relative errors 2^-58, 2^-37
LOG = (
    0.6666666666666734, 0.3999999999941399, 0.28571428742558774, 0.22222198554023376, 0.18183565400002522,
    0.1531402118160146, 0.1479626167433497,
)  # fmt: skip
LOG_SINGLE = (0.6666666564469484, 0.40000335378792423, 0.2853729566651613, 0.23582413049336012)


def split(x: Lanes) -> tuple[Lanes, Lanes]:
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
    k, m = split(x.widen())
    f = m - 1.0
    return _log(x, k.to_float(), f, f.constant(0.0)).narrow(x.kind)


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
    k, m = split(total)
    down = ((k.constant(1024) - k) << 52).as_float()  # 2^(1-k), 0 for the largest numbers, of which k is 1024
    f, low = m - 1.0, rest * down * 0.5
    near = f + low
    left = near.constant(0.0) if x.kind == "float" else (f - near) + low
    return _log(x, k.to_float(), near, left).copysign(wide).narrow(x.kind)


def _log(x: Lanes, k: Lanes, f: Lanes, low: Lanes) -> Lanes:
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    series = z * z.polynomial(LOG if x.kind == "double" else LOG_SINGLE)
    inner = s.fma(half + series, k.fma(LN2_LOW, low))
    return k.fma(LN2_HIGH, f - (half - inner))
