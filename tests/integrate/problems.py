"""Test sets for solvers of differential equations, with reference solutions at their ends.

Sources: Hairer & Wanner 1996, section IV.10, and Mazzia & Magherini's "Test Set for Initial Value Problem Solvers" (HIRES,
OREGO, ROBER, VDPOL); Hairer, Nørsett & Wanner 1993, section II.0 (Arenstorf's orbit, whose end is its start) and II.10
(Pleiades; its end is that of SciPy's DOP853 at 1e-13).
"""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen
class Problem:
    """An initial value problem.

    Attributes:
        field: (namespace of NumPy's functions, t, y) to dy/dt.
        start: the first state.
        end: the last time.
        want: the state then.
        floor: the absolute tolerance in units of the relative one.
        stiff: whether it is.
    """

    field: Callable[[Any, Any, Any], Any]
    start: np.ndarray[Any, Any]
    end: float
    want: np.ndarray[Any, Any]
    floor: float
    stiff: bool

    def error(self, y: Any) -> float:
        """Return the root mean square error of an end, in units of a relative tolerance of 1."""
        return float(np.sqrt(np.mean(((np.asarray(y) - self.want) / (np.abs(self.want) + self.floor)) ** 2)))


def _hires(xp: Any, _: Any, y: Any) -> Any:
    fast = 280 * y[5] * y[7]
    last = fast - 1.81 * y[6]
    return xp.stack(
        [
            -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
            1.71 * y[0] - 8.75 * y[1],
            -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
            8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
            -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
            -fast + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
            last,
            -last,
        ]
    )


def _robertson(xp: Any, _: Any, y: Any) -> Any:
    slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
    return xp.stack([middle - slow, slow - middle - fast, fast])


def _orego(xp: Any, _: Any, y: Any) -> Any:
    return xp.stack(
        [
            77.27 * (y[1] + y[0] * (1 - 8.375e-6 * y[0] - y[1])),
            (y[2] - (1 + y[0]) * y[1]) / 77.27,
            0.161 * (y[0] - y[2]),
        ]
    )


def _van_der_pol(xp: Any, _: Any, y: Any) -> Any:
    return xp.stack([y[1], 1000 * (1 - y[0] * y[0]) * y[1] - y[0]])


MASSES, EYE = np.arange(1.0, 8.0), np.eye(7)


def _pleiades(xp: Any, _: Any, z: Any) -> Any:
    x, y = z[:7], z[7:14]
    dx, dy = x - x[:, None], y - y[:, None]
    square = dx * dx + dy * dy + EYE
    pull = MASSES / (square * xp.sqrt(square))
    return xp.concatenate([z[14:], (pull * dx).sum(1), (pull * dy).sum(1)])


MOON = 0.012277471


def _arenstorf(xp: Any, _: Any, y: Any) -> Any:
    here, there = y[0] + MOON, y[0] - (1 - MOON)
    d1, d2 = (here * here + y[1] * y[1]) ** 1.5, (there * there + y[1] * y[1]) ** 1.5
    return xp.stack(
        [
            y[2],
            y[3],
            y[0] + 2 * y[3] - (1 - MOON) * here / d1 - MOON * there / d2,
            y[1] - 2 * y[2] - (1 - MOON) * y[1] / d1 - MOON * y[1] / d2,
        ]
    )


HIRES = [
    7.371312573325668e-4,
    1.442485726316185e-4,
    5.888729740967575e-5,
    1.175651343283149e-3,
    2.386356198831331e-3,
    6.238968252742796e-3,
    2.849998395185769e-3,
    2.850001604814231e-3,
]
STARS = [3.0, 3, -1, -3, 2, -2, 2, 3, -3, 2, 0, 0, -4, 4, 0, 0, 0, 0, 0, 1.75, -1.5, 0, 0, 0, -1.25, 1, 0, 0]
ORBIT = np.array([0.994, 0.0, 0.0, -2.00158510637908252240537862224])
PLEIADES = np.array(
    [
        [
            0.370613914393,
            3.237284092057,
            -3.222559032419,
            0.6597091455779,
            0.3425581707156,
            1.562172101401,
            -0.7003092922209,
        ],
        [
            -3.943437585519,
            -3.271380973972,
            5.225081843455,
            -2.590612434978,
            1.198213693393,
            -0.2429682344936,
            1.091449240429,
        ],
        [
            3.417003806306,
            1.354584501626,
            -2.590065597811,
            2.025053734716,
            -1.155815100162,
            -0.807298817022,
            0.5952396354216,
        ],
        [
            -3.741244961238,
            0.3773459685752,
            0.9386858869538,
            0.3667922227205,
            -0.3474046353802,
            2.344915448181,
            -1.947020434263,
        ],
    ]
).ravel()
PROBLEMS = {
    "hires": Problem(_hires, np.array([1.0, 0, 0, 0, 0, 0, 0, 0.0057]), 321.8122, np.array(HIRES), 1e-4, True),
    "robertson": Problem(
        _robertson,
        np.array([1.0, 0, 0]),
        1e11,
        np.array([2.083340149701255e-8, 8.333360770334713e-14, 0.9999999791665050]),
        1e-13,
        True,
    ),
    "orego": Problem(
        _orego,
        np.array([1.0, 2, 3]),
        360.0,
        np.array([1.000814870318523, 1228.178521549917, 132.0554942846706]),
        1e-2,
        True,
    ),
    "van der pol": Problem(
        _van_der_pol, np.array([2.0, 0]), 2000.0, np.array([1.706167732170469, -8.92809701024797e-4]), 1e-3, True
    ),
    "pleiades": Problem(_pleiades, np.array(STARS), 3.0, PLEIADES, 1.0, False),
    "arenstorf": Problem(_arenstorf, ORBIT, 17.0652165601579625588917206249, ORBIT, 1.0, False),
}
