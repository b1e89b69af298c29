"""Problems of constrained minima, with the published starts and values.

Source: Hock & Schittkowski 1981, "Test Examples for Nonlinear Programming Codes", by their numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

import afx

Of = Callable[[Any, Any], Any]  # (namespace of NumPy's functions, x) to numbers


def _none(_xp: Any, _x: Any) -> Sequence[Any]:
    return []


@attrs.frozen
class Constrained:
    """A problem: the function, what is 0, what is not negative, bounds, the start and the least value."""

    value: Of
    start: Sequence[float]
    least: float
    equal: Callable[[Any, Any], Sequence[Any]] = _none
    above: Callable[[Any, Any], Sequence[Any]] = _none
    lower: Sequence[float] | None = None
    upper: Sequence[float] | None = None

    def bounds(self) -> tuple[Any, Any]:
        """Return the bounds, infinite where there are none."""
        n = len(self.start)
        lower, upper = self.lower or [-np.inf] * n, self.upper or [np.inf] * n
        return np.array(lower, float), np.array(upper, float)


def condition(kind: str, of: Callable[[Any, Any], Sequence[Any]]) -> dict[str, Any]:
    """Return a condition as SciPy takes it, with its derivative."""
    slope = afx.jit(afx.jacfwd(lambda x: afx.stack([*of(afx, x)])))
    return {"type": kind, "fun": lambda x: np.array(of(np, x)), "jac": lambda x: np.asarray(slope(x))}


PROBLEMS: dict[int, Constrained] = {
    6: Constrained(lambda xp, x: (1 - x[0]) ** 2, [-1.2, 1], 0.0, lambda xp, x: [10 * (x[1] - x[0] ** 2)]),
    7: Constrained(
        lambda xp, x: xp.log(1 + x[0] ** 2) - x[1],
        [2, 2],
        -(3**0.5),
        lambda xp, x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4],
    ),
    10: Constrained(
        lambda xp, x: x[0] - x[1],
        [-10, 10],
        -1.0,
        above=lambda xp, x: [-3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1],
    ),
    11: Constrained(
        lambda xp, x: (x[0] - 5) ** 2 + x[1] ** 2 - 25, [4.9, 0.1], -8.498464223, above=lambda xp, x: [x[1] - x[0] ** 2]
    ),
    12: Constrained(
        lambda xp, x: 0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1],
        [0, 0],
        -30.0,
        above=lambda xp, x: [25 - 4 * x[0] ** 2 - x[1] ** 2],
    ),
    14: Constrained(
        lambda xp, x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        [2, 2],
        9 - 2.875 * 7**0.5,
        lambda xp, x: [x[0] - 2 * x[1] + 1],
        lambda xp, x: [1 - 0.25 * x[0] ** 2 - x[1] ** 2],
    ),
    21: Constrained(
        lambda xp, x: 0.01 * x[0] ** 2 + x[1] ** 2 - 100,
        [-1, -1],
        -99.96,
        above=lambda xp, x: [10 * x[0] - x[1] - 10],
        lower=[2, -50],
        upper=[50, 50],
    ),
    22: Constrained(
        lambda xp, x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        [2, 2],
        1.0,
        above=lambda xp, x: [2 - x[0] - x[1], x[1] - x[0] ** 2],
    ),
    26: Constrained(
        lambda xp, x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        [-2.6, 2, 2],
        0.0,
        lambda xp, x: [(1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3],
    ),
    27: Constrained(
        lambda xp, x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2,
        [2, 2, 2],
        0.04,
        lambda xp, x: [x[0] + x[2] ** 2 + 1],
    ),
    28: Constrained(
        lambda xp, x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2,
        [-4, 1, 1],
        0.0,
        lambda xp, x: [x[0] + 2 * x[1] + 3 * x[2] - 1],
    ),
    29: Constrained(
        lambda xp, x: -x[0] * x[1] * x[2],
        [1, 1, 1],
        -16 * 2**0.5,
        above=lambda xp, x: [48 - x[0] ** 2 - 2 * x[1] ** 2 - 4 * x[2] ** 2],
    ),
    31: Constrained(
        lambda xp, x: 9 * x[0] ** 2 + x[1] ** 2 + 9 * x[2] ** 2,
        [1, 1, 1],
        6.0,
        above=lambda xp, x: [x[0] * x[1] - 1],
        lower=[-10, 1, -10],
        upper=[10, 10, 1],
    ),
    34: Constrained(
        lambda xp, x: -x[0],
        [0, 1.05, 2.9],
        -np.log(np.log(10)),
        above=lambda xp, x: [x[1] - xp.exp(x[0]), x[2] - xp.exp(x[1])],
        lower=[0, 0, 0],
        upper=[100, 100, 10],
    ),
    35: Constrained(
        lambda xp, x: (
            9
            - 8 * x[0]
            - 6 * x[1]
            - 4 * x[2]
            + 2 * x[0] ** 2
            + 2 * x[1] ** 2
            + x[2] ** 2
            + 2 * x[0] * x[1]
            + 2 * x[0] * x[2]
        ),
        [0.5, 0.5, 0.5],
        1 / 9,
        above=lambda xp, x: [3 - x[0] - x[1] - 2 * x[2]],
        lower=[0, 0, 0],
    ),
    39: Constrained(
        lambda xp, x: -x[0],
        [2, 2, 2, 2],
        -1.0,
        lambda xp, x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2],
    ),
    40: Constrained(
        lambda xp, x: -x[0] * x[1] * x[2] * x[3],
        [0.8, 0.8, 0.8, 0.8],
        -0.25,
        lambda xp, x: [x[0] ** 3 + x[1] ** 2 - 1, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
    ),
    42: Constrained(
        lambda xp, x: (x[0] - 1) ** 2 + (x[1] - 2) ** 2 + (x[2] - 3) ** 2 + (x[3] - 4) ** 2,
        [1, 1, 1, 1],
        28 - 10 * 2**0.5,
        lambda xp, x: [x[0] - 2, x[2] ** 2 + x[3] ** 2 - 2],
    ),
    43: Constrained(
        lambda xp, x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
        [0, 0, 0, 0],
        -44.0,
        above=lambda xp, x: [
            8 - x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - x[3] ** 2 - x[0] + x[1] - x[2] + x[3],
            10 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - 2 * x[3] ** 2 + x[0] + x[3],
            5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3],
        ],
    ),
    46: Constrained(
        lambda xp, x: (x[0] - x[1]) ** 2 + (x[2] - 1) ** 2 + (x[3] - 1) ** 4 + (x[4] - 1) ** 6,
        [0.5 * 2**0.5, 1.75, 0.5, 2, 2],
        0.0,
        lambda xp, x: [x[0] ** 2 * x[3] + xp.sin(x[3] - x[4]) - 1, x[1] + x[2] ** 4 * x[3] ** 2 - 2],
    ),
    48: Constrained(
        lambda xp, x: (x[0] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
        [3, 5, -3, 2, -2],
        0.0,
        lambda xp, x: [x[0] + x[1] + x[2] + x[3] + x[4] - 5, x[2] - 2 * (x[3] + x[4]) + 3],
    ),
    60: Constrained(
        lambda xp, x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        [2, 2, 2],
        0.03256820025,
        lambda xp, x: [x[0] * (1 + x[1] ** 2) + x[2] ** 4 - 4 - 3 * 2**0.5],
        lower=[-10, -10, -10],
        upper=[10, 10, 10],
    ),
    65: Constrained(
        lambda xp, x: (x[0] - x[1]) ** 2 + (x[0] + x[1] - 10) ** 2 / 9 + (x[2] - 5) ** 2,
        [-5, 5, 0],
        0.9535288567,
        above=lambda xp, x: [48 - x[0] ** 2 - x[1] ** 2 - x[2] ** 2],
        lower=[-4.5, -4.5, -5],
        upper=[4.5, 4.5, 5],
    ),
    71: Constrained(
        lambda xp, x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        [1, 5, 5, 1],
        17.0140173,
        lambda xp, x: [x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 - 40],
        lambda xp, x: [x[0] * x[1] * x[2] * x[3] - 25],
        [1, 1, 1, 1],
        [5, 5, 5, 5],
    ),
    76: Constrained(
        lambda xp, x: (
            x[0] ** 2
            + 0.5 * x[1] ** 2
            + x[2] ** 2
            + 0.5 * x[3] ** 2
            - x[0] * x[2]
            + x[2] * x[3]
            - x[0]
            - 3 * x[1]
            + x[2]
            - x[3]
        ),
        [0.5, 0.5, 0.5, 0.5],
        -4.681818181,
        above=lambda xp, x: [
            5 - x[0] - 2 * x[1] - x[2] - x[3],
            4 - 3 * x[0] - x[1] - 2 * x[2] + x[3],
            x[1] + 4 * x[2] - 1.5,
        ],
        lower=[0, 0, 0, 0],
    ),
    77: Constrained(
        lambda xp, x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[2] - 1) ** 2 + (x[3] - 1) ** 4 + (x[4] - 1) ** 6,
        [2, 2, 2, 2, 2],
        0.24150513,
        lambda xp, x: [
            x[0] ** 2 * x[3] + xp.sin(x[3] - x[4]) - 2 * 2**0.5,
            x[1] + x[2] ** 4 * x[3] ** 2 - 8 - 2**0.5,
        ],
    ),
    78: Constrained(
        lambda xp, x: x[0] * x[1] * x[2] * x[3] * x[4],
        [-2, 1.5, 2, -1, -1],
        -2.91970041,
        lambda xp, x: [
            x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 + x[4] ** 2 - 10,
            x[1] * x[2] - 5 * x[3] * x[4],
            x[0] ** 3 + x[1] ** 3 + 1,
        ],
    ),
    100: Constrained(
        lambda xp, x: (
            (x[0] - 10) ** 2
            + 5 * (x[1] - 12) ** 2
            + x[2] ** 4
            + 3 * (x[3] - 11) ** 2
            + 10 * x[4] ** 6
            + 7 * x[5] ** 2
            + x[6] ** 4
            - 4 * x[5] * x[6]
            - 10 * x[5]
            - 8 * x[6]
        ),
        [1, 2, 0, 4, 0, 1, 1],
        680.6300573,
        above=lambda xp, x: [
            127 - 2 * x[0] ** 2 - 3 * x[1] ** 4 - x[2] - 4 * x[3] ** 2 - 5 * x[4],
            282 - 7 * x[0] - 3 * x[1] - 10 * x[2] ** 2 - x[3] + x[4],
            196 - 23 * x[0] - x[1] ** 2 - 6 * x[5] ** 2 + 8 * x[6],
            -4 * x[0] ** 2 - x[1] ** 2 + 3 * x[0] * x[1] - 2 * x[2] ** 2 - 5 * x[5] + 11 * x[6],
        ],
    ),
}
