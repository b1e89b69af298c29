"""Errors of portable functions in units in the last place, beside mpmath.

``python -m tests.portable.errors [count]`` prints the guide's table, of at least so many arguments a function (10,000).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import afx

RNG = np.random.default_rng(5)
TURNS = np.pi / 2 * np.arange(1, 65)


class Function(NamedTuple):
    """A function by afx and by mpmath, and what draws so many of its arguments, one array for each."""

    fn: Callable[..., Any]
    exact: Callable[..., Any]
    draw: Callable[[int], tuple[Any, ...]]


def even(low: float, high: float) -> Callable[[int], Any]:
    """Return what draws evenly."""
    return lambda n: RNG.uniform(low, high, n)


def sizes(low: float, high: float) -> Callable[[int], Any]:
    """Return what draws positive numbers of all sizes."""
    return lambda n: np.exp(RNG.uniform(np.log(low), np.log(high), n))


def signed(low: float, high: float) -> Callable[[int], Any]:
    """Return what draws numbers of all sizes and both signs."""
    return lambda n: sizes(low, high)(n) * RNG.choice([-1.0, 1.0], n)


def of(*parts: Callable[[int], Any], more: Any = ()) -> Callable[[int], tuple[Any, ...]]:
    """Return what draws one argument, by all of these in turn, with some more."""
    return lambda n: (np.r_[*[part(-(-n // len(parts))) for part in parts], more],)


def pairs(*parts: tuple[Callable[[int], Any], Callable[[int], Any]]) -> Callable[[int], tuple[Any, ...]]:
    """Return what draws two arguments."""

    def draw(n: int) -> tuple[Any, ...]:
        drawn = [(first(-(-n // len(parts))), second(-(-n // len(parts)))) for first, second in parts]
        return np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn])

    return draw


def near_one(least: float, most: float) -> Callable[[int], Any]:
    """Return what draws numbers near 1."""
    return lambda n: 1 + signed(least, most)(n)


ANGLES = of(even(-10, 10), signed(1e-10, 1e6), signed(1e6, 1e300), more=[*TURNS, 2.0**20, 1.7e308])
LOGARITHMS = of(sizes(1e-308, 1e308), even(0.5, 2), near_one(1e-15, 1e-2), more=[5e-324, 1e-310, 1.7e308])
FUNCTIONS: dict[str, Function] = {
    "exp": Function(afx.exp, mp.exp, of(even(-745, 709.7), even(-1, 1), signed(1e-20, 1))),
    "exp2": Function(afx.exp2, lambda x: mp.mpf(2) ** x, of(even(-1074, 1023.9), even(-1, 1))),
    "expm1": Function(afx.expm1, mp.expm1, of(even(-40, 709), signed(1e-20, 1), even(-1, 1))),
    "log": Function(afx.log, mp.log, LOGARITHMS),
    "log1p": Function(afx.log1p, mp.log1p, of(signed(1e-20, 0.99), even(0, 1e5), even(-0.9, 3), sizes(1, 1e308))),
    "log2": Function(afx.log2, lambda x: mp.log(x) / mp.log(2), LOGARITHMS),
    "log10": Function(afx.log10, lambda x: mp.log(x) / mp.log(10), LOGARITHMS),
    "sin": Function(afx.sin, mp.sin, ANGLES),
    "cos": Function(afx.cos, mp.cos, ANGLES),
    "tan": Function(afx.tan, mp.tan, ANGLES),
    "asin": Function(afx.asin, mp.asin, of(even(-1, 1), signed(1e-20, 1))),
    "acos": Function(afx.acos, mp.acos, of(even(-1, 1), lambda n: 1 - sizes(1e-15, 1e-2)(n))),
    "atan": Function(afx.atan, mp.atan, of(even(-5, 5), signed(1e-20, 1e20))),
    "atan2": Function(
        afx.atan2, mp.atan2, pairs((even(-1, 1), even(-1, 1)), (signed(1e-90, 1e90), signed(1e-90, 1e90)))
    ),
    "sinh": Function(afx.sinh, mp.sinh, of(even(-709, 709), signed(1e-20, 10))),
    "cosh": Function(afx.cosh, mp.cosh, of(even(-709, 709), even(-3, 3))),
    "tanh": Function(afx.tanh, mp.tanh, of(even(-20, 20), even(-1, 1), signed(1e-20, 1))),
    "asinh": Function(afx.asinh, mp.asinh, of(even(-5, 5), signed(1e-20, 1e300))),
    "acosh": Function(afx.acosh, mp.acosh, of(even(1, 5), lambda n: 1 + sizes(1e-14, 1e300)(n))),
    "atanh": Function(afx.atanh, mp.atanh, of(even(-1, 1), signed(1e-20, 0.99))),
    "cbrt": Function(afx.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), of(signed(1e-300, 1e300), even(-9, 9))),
    "hypot": Function(
        afx.hypot, mp.hypot, pairs((even(-9, 9), even(-9, 9)), (signed(1e-200, 1e200), signed(1e-200, 1e200)))
    ),
    "power": Function(
        afx.power,
        lambda x, y: x**y,
        pairs(
            (sizes(1e-3, 1e3), even(-50, 50)),
            (sizes(1e-300, 1e300), even(-1, 1)),
            (near_one(1e-12, 1e-3), sizes(1, 1e3)),
        ),
    ),
    "sigmoid": Function(
        afx.nn.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), of(even(-40, 40), even(-700, 1), signed(1e-9, 1))
    ),
    "softplus": Function(afx.nn.softplus, lambda x: mp.log1p(mp.exp(x)), of(even(-40, 40), even(-2, 2))),
    "erf": Function(afx.special.erf, mp.erf, of(even(-6, 6), signed(1e-20, 1))),
    "erfc": Function(afx.special.erfc, mp.erfc, of(even(-6, 26), even(-1, 1))),
    "erfinv": Function(afx.special.erfinv, mp.erfinv, of(even(-0.999, 0.999), signed(1e-20, 1))),
    "gammaln": Function(afx.special.gammaln, mp.loggamma, of(even(0.01, 30), sizes(1e-10, 1e10), even(0.5, 2.5))),
    "digamma": Function(afx.special.digamma, mp.digamma, of(even(1, 30), sizes(1e-5, 1), sizes(2, 1e10))),
    "gamma": Function(afx.special.gamma, mp.gamma, of(even(0.01, 171), sizes(1e-10, 1))),
    "ndtr": Function(afx.special.ndtr, mp.ncdf, of(even(-37, 8), even(-1, 1))),
    "ndtri": Function(afx.special.ndtri, lambda p: -mp.sqrt(2) * mp.erfinv(1 - 2 * p), of(even(0.001, 0.999))),
    "i0e": Function(afx.special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), of(even(-60, 60))),
    "i1e": Function(afx.special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), of(even(-60, 60))),
}
ELEMENTARY = tuple(FUNCTIONS)[: tuple(FUNCTIONS).index("softplus")]
SLOW = frozenset(
    {"erfinv", "gammaln", "digamma", "gamma", "ndtri", "i0e", "i1e"}
)  # of mpmath: a tenth of the arguments


def worst(name: str, dtype: Any, count: int) -> float:
    """Return the largest error of normal results, of arguments that the dtype holds."""
    function = FUNCTIONS[name]
    limit = np.finfo(dtype).max
    drawn = function.draw(count // 10 if name in SLOW else count)
    inside = np.logical_and.reduce(
        [(np.abs(x) < limit) & (np.abs(x) >= np.finfo(dtype).smallest_subnormal) for x in drawn]
    )
    with np.errstate(all="ignore"):
        xs = [x[inside].astype(dtype) for x in drawn]
    results = np.asarray(afx.jit(function.fn, backend="portable")(*xs))
    normal = np.isfinite(results) & (np.abs(results) >= np.finfo(dtype).tiny) & (np.abs(results) < limit / 2)
    units = np.spacing(np.abs(results))
    error = 0.0
    with mp.workprec(1250 if name in ("sin", "cos", "tan") else 160):
        for k in np.flatnonzero(normal).tolist():
            wanted = function.exact(*[mp.mpf(float(x[k])) for x in xs])
            error = max(error, float(abs(mp.mpf(float(results[k])) - wanted) / float(units[k])))
    return error


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sys.stdout.write("| function | float32 | float64 |\n|---|--:|--:|\n")
    for name in FUNCTIONS:
        single, double = [worst(name, dtype, count) for dtype in (np.float32, np.float64)]
        sys.stdout.write(f"| `{name}` | {single:.2f} | {double:.2f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
