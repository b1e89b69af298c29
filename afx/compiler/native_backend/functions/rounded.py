"""Rounded functions: floats that SciPy computes as doubles and rounds, by doubles that are nearly always rounded alike.

Where one lies so near the middle of two floats that an error of 2^-38 may decide, SciPy's own loop does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from afx.compiler.native_backend.functions import elementary
from afx.compiler.native_backend.functions.elementary import SIZE, split_exponent
from afx.compiler.native_backend.functions.lanes import Lanes, bits_of

Function = Callable[[Lanes], Lanes]
NEAR = 1 << 16  # the middle of two floats, in units of the last place of a double
LOST = 1 << 29  # the units of a double that a float rounds off
LAST = 2.0**126  # no larger result is taken

# erf(x) / x in 2 (x / 3.93)² - 1, by interpolation at Chebyshev's points: relative error 2^-39.6
ERF = (
    0.3598202113957124, -0.17966029695029137, 0.13378065483526758, -0.10900093692690534, 0.09058222452500253,
    -0.07412033381541124, 0.05841450508957733, -0.04372953598439686, 0.03084911051794272, -0.02042762741856884,
    0.012679706816437996, -0.007384126298455355, 0.004045508091180329, -0.0020811173549767138, 0.0009978551118745946,
    -0.00045981120848334703, 0.00021512571656922188, -8.73892981080649e-05, 2.3031634148903616e-05, -9.2973931793394e-06,
    8.109443333808256e-06, -2.6512691200796238e-06,
)  # fmt: skip
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
SLOPES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # of its terms, with the other sign


def erf(x: Lanes) -> Lanes:
    """Return ``erf(x)`` of floats, as doubles."""
    wide = elementary.clamp(x, -elementary.ERF_END, elementary.ERF_END).widen()
    place = (wide * wide).fma(2 / 3.93**2, -1.0)
    return elementary.keep_nan(x.widen(), wide * place.polynomial(ERF))


class _Shifted:
    """Positive floats as doubles, of which those below 8 are shifted by 8: ``Γ(x + 8)`` is ``Γ(x)`` times a product."""

    def __init__(self, x: Lanes) -> None:
        least, end = (bits_of("float", bound) for bound in (2.0**-100, LAST))
        self.is_usual = (x.bits() - least).compare("ult", end - least)
        self.x = self.is_usual.choose(x.widen(), 3.0)
        self.is_low = self.x.compare("olt", 8.0)
        self.y = self.is_low.choose(self.x + 8.0, self.x)
        self.part = self.is_low.choose(self.x, 1.0)
        q = self.part.fma(self.part, self.part * 7.0)
        self.factors = [q, q + 6.0, q + 10.0, q + 12.0]  # x (x + 7), (x + 1) (x + 6) and so on
        self.products = [self.factors[0] * self.factors[1], self.factors[2] * self.factors[3]]
        self.inverse = self.y.constant(1.0) / self.y

    def of_usual(self, z: Lanes) -> Lanes:
        """Return results, of other numbers one that is too large."""
        return self.is_usual.choose(z, LAST * 2)


def gammaln(x: Lanes) -> Lanes:
    """Return ``log(Γ(x))`` of positive floats as doubles, by Stirling's series."""
    s = _Shifted(x)
    series = s.inverse * (s.inverse * s.inverse).polynomial(STIRLING) + math.log(2 * math.pi) / 2
    product = s.is_low.choose(s.products[0] * s.products[1], 1.0)
    z = (s.y - 0.5).fma(_log(s.y) - 1.0, series - 0.5) - _log(product)
    is_zero = s.x.compare("oeq", 1.0) | s.x.compare("oeq", 2.0)
    return s.of_usual(is_zero.choose(z.constant(0.0), z))


def digamma(x: Lanes) -> Lanes:
    """Return the derivative of that."""
    s = _Shifted(x)
    square = s.inverse * s.inverse
    (a, b, c, d), (first, second) = s.factors, s.products
    slope = (s.part * 2.0 + 7.0) * ((a + b) * second + (c + d) * first) / (first * second)
    z = _log(s.y) - s.inverse.fma(0.5, square * square.polynomial(SLOPES)) - s.is_low.choose(slope, 0.0)
    return s.of_usual(z)


def _log(x: Lanes) -> Lanes:
    k, m = split_exponent(x)
    return elementary.log_near_one(k.to_float(), m - 1.0, m.constant(0.0))


class Rounded(NamedTuple):
    """A function as doubles, and the least result that has few errors."""

    function: Function
    least: float

    def compute(self, x: Lanes) -> Lanes:
        """Return the function of floats; what is hard may be anything."""
        z = self.function(x)
        return self.is_hard(x).choose(z.constant(0.0), z).narrow("float")

    def is_hard(self, x: Lanes) -> Lanes:
        """Tell where results are not sure: near the middle of two floats, small but no 0, large, or nan."""
        bits = self.function(x).bits()
        size, middle = bits & SIZE["double"], LOST // 2
        least, most = (bits_of("double", bound) for bound in (self.least, LAST))
        is_near = ((bits + (NEAR - middle)) & (LOST - 1)).compare("ult", 2 * NEAR)
        return is_near | ((size - least).compare("ugt", most - least) & size.compare("ne", 0))


ROUNDED: dict[str, Rounded] = {
    f.__name__: Rounded(f, least) for f, least in ((erf, 2.0**-125), (gammaln, 2.0**-6), (digamma, 2.0**-6))
}
