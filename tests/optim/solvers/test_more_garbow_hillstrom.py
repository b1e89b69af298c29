"""The test problems of Moré, Garbow & Hillstrom 1981 ("Testing unconstrained optimization software") end at their minima.

Problems, starts and sums of squares are those of the paper, in its order; where it names several minima each counts.
"""

from typing import Any

import numpy as np
import pytest

import afx
from afx import optim


def st(*values: Any) -> Any:
    """Return values as a vector."""
    return afx.stack(list(values))


PROBLEMS: dict[str, tuple[Any, Any, Any]] = {}
PROBLEMS["rosenbrock"] = (lambda x: st(10 * (x[1] - x[0] ** 2), 1 - x[0]), [-1.2, 1], 0)
PROBLEMS["freudenstein_roth"] = (
    lambda x: st(-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]),
    [0.5, -2],
    (0, 48.98425),
)
PROBLEMS["powell_badly"] = (lambda x: st(1e4 * x[0] * x[1] - 1, afx.exp(-x[0]) + afx.exp(-x[1]) - 1.0001), [0, 1], 0)
PROBLEMS["brown_badly"] = (lambda x: st(x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2), [1, 1], 0)
yb = np.array([1.5, 2.25, 2.625])
PROBLEMS["beale"] = (lambda x: yb - x[0] * (1 - x[1] ** np.arange(1.0, 4.0)), [1, 1], 0)
i10 = np.arange(1.0, 11)
PROBLEMS["jennrich"] = (lambda x: 2 + 2 * i10 - (afx.exp(i10 * x[0]) + afx.exp(i10 * x[1])), [0.3, 0.4], 124.362)
PROBLEMS["helical"] = (
    lambda x: st(
        10 * (x[2] - 10 * (afx.arctan2(x[1], x[0]) / (2 * np.pi))), 10 * (afx.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]
    ),
    [-1, 0, 0],
    0,
)
ba = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])
u = np.arange(1.0, 16)
v = 16 - u
w = np.minimum(u, v)
PROBLEMS["bard"] = (lambda x: ba - (x[0] + u / (v * x[1] + w * x[2])), [1, 1, 1], (8.21487e-3, 17.4286))
yg = np.array(
    [
        0.0009,
        0.0044,
        0.0175,
        0.0540,
        0.1295,
        0.2420,
        0.3521,
        0.3989,
        0.3521,
        0.2420,
        0.1295,
        0.0540,
        0.0175,
        0.0044,
        0.0009,
    ]
)
tg = (8 - np.arange(1.0, 16)) / 2
PROBLEMS["gaussian"] = (lambda x: x[0] * afx.exp(-x[1] * (tg - x[2]) ** 2 / 2) - yg, [0.4, 1, 0], 1.12793e-8)
ym = np.array([34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872.0])
tm = 45 + 5 * np.arange(1.0, 17)
PROBLEMS["meyer"] = (lambda x: x[0] * afx.exp(x[1] / (tm + x[2])) - ym, [0.02, 4000, 250], 87.9458)
tb = 0.1 * i10
PROBLEMS["box3"] = (
    lambda x: afx.exp(-tb * x[0]) - afx.exp(-tb * x[1]) - x[2] * (afx.exp(-tb) - np.exp(-10 * tb)),
    [0, 10, 20],
    0,
)
PROBLEMS["powell_singular"] = (
    lambda x: st(x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2),
    [3, -1, 0, 1],
    0,
)
PROBLEMS["wood"] = (
    lambda x: st(
        10 * (x[1] - x[0] ** 2),
        1 - x[0],
        90**0.5 * (x[3] - x[2] ** 2),
        1 - x[2],
        10**0.5 * (x[1] + x[3] - 2),
        10**-0.5 * (x[1] - x[3]),
    ),
    [-3, -1, -3, -1],
    (0, 7.8769659),
)
yk = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
uk = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
PROBLEMS["kowalik"] = (
    lambda x: yk - x[0] * (uk**2 + uk * x[1]) / (uk**2 + uk * x[2] + x[3]),
    [0.25, 0.39, 0.415, 0.39],
    (3.07505e-4, 1.02734e-3),
)
td = np.arange(1.0, 21) / 5
PROBLEMS["brown_dennis"] = (
    lambda x: (x[0] + td * x[1] - np.exp(td)) ** 2 + (x[2] + x[3] * np.sin(td) - np.cos(td)) ** 2,
    [25, 5, -5, -1],
    85822.2,
)
yo = np.array(
    [
        0.844,
        0.908,
        0.932,
        0.936,
        0.925,
        0.908,
        0.881,
        0.850,
        0.818,
        0.784,
        0.751,
        0.718,
        0.685,
        0.658,
        0.628,
        0.603,
        0.580,
        0.558,
        0.538,
        0.522,
        0.506,
        0.490,
        0.478,
        0.467,
        0.457,
        0.448,
        0.438,
        0.431,
        0.424,
        0.420,
        0.414,
        0.411,
        0.406,
    ]
)
to = 10 * np.arange(0.0, 33)
PROBLEMS["osborne1"] = (
    lambda x: yo - (x[0] + x[1] * afx.exp(-to * x[3]) + x[2] * afx.exp(-to * x[4])),
    [0.5, 1.5, -1, 0.01, 0.02],
    5.46489e-5,
)
t6 = 0.1 * np.arange(1.0, 14)
y6 = np.exp(-t6) - 5 * np.exp(-10 * t6) + 3 * np.exp(-4 * t6)
PROBLEMS["biggs6"] = (
    lambda x: x[2] * afx.exp(-t6 * x[0]) - x[3] * afx.exp(-t6 * x[1]) + x[5] * afx.exp(-t6 * x[4]) - y6,
    [1, 2, 1, 1, 1, 1],
    (0, 5.65565e-3, 0.30636677),
)
y2 = np.array(
    [
        1.366,
        1.191,
        1.112,
        1.013,
        0.991,
        0.885,
        0.831,
        0.847,
        0.786,
        0.725,
        0.746,
        0.679,
        0.608,
        0.655,
        0.616,
        0.606,
        0.602,
        0.626,
        0.651,
        0.724,
        0.649,
        0.649,
        0.694,
        0.644,
        0.624,
        0.661,
        0.612,
        0.558,
        0.533,
        0.495,
        0.500,
        0.423,
        0.395,
        0.375,
        0.372,
        0.391,
        0.396,
        0.405,
        0.428,
        0.429,
        0.523,
        0.562,
        0.607,
        0.653,
        0.672,
        0.708,
        0.633,
        0.668,
        0.645,
        0.632,
        0.591,
        0.559,
        0.597,
        0.625,
        0.739,
        0.710,
        0.729,
        0.720,
        0.636,
        0.581,
        0.428,
        0.292,
        0.162,
        0.098,
        0.054,
    ]
)
t2 = np.arange(0.0, 65) / 10
PROBLEMS["osborne2"] = (
    lambda x: (
        y2
        - (
            x[0] * afx.exp(-t2 * x[4])
            + x[1] * afx.exp(-((t2 - x[8]) ** 2) * x[5])
            + x[2] * afx.exp(-((t2 - x[9]) ** 2) * x[6])
            + x[3] * afx.exp(-((t2 - x[10]) ** 2) * x[7])
        )
    ),
    [1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5],
    4.01377e-2,
)


def watson(n: int) -> Any:
    """Return the residuals of Watson's problem of n unknowns."""
    t = np.arange(1.0, 30) / 29
    A = np.stack([j * t ** (j - 1) if j else 0 * t for j in range(n)], 1)
    B = np.stack([t**j for j in range(n)], 1)
    return lambda x: afx.concat([A @ x - (B @ x) ** 2 - 1, x[:1], (x[1:2] - x[0] ** 2 - 1)])


PROBLEMS["watson6"] = (watson(6), [0] * 6, 2.28767e-3)
PROBLEMS["watson9"] = (watson(9), [0] * 9, 1.39976e-6)
PROBLEMS["watson12"] = (watson(12), [0] * 12, 4.72238e-10)
n = 10


def trig(x: Any) -> Any:
    """Return the residuals of the trigonometric problem."""
    c = afx.cos(x)
    return n - afx.sum(c) + np.arange(1.0, n + 1) * (1 - c) - afx.sin(x)


PROBLEMS["trig"] = (trig, [1 / n] * n, (0, 2.79506e-5))
PROBLEMS["brown_almost"] = (
    lambda x: afx.concat([x[:-1] + afx.sum(x) - (n + 1), (afx.prod(x) - 1)[None]]),
    [0.5] * n,
    (0, 1),
)
hh = 1 / (n + 1)
tt = hh * np.arange(1.0, n + 1)
PROBLEMS["bvp"] = (
    lambda x: (
        2 * x - afx.concat([np.zeros(1), x[:-1]]) - afx.concat([x[1:], np.zeros(1)]) + hh**2 * (x + tt + 1) ** 3 / 2
    ),
    list(tt * (tt - 1)),
    0,
)
PROBLEMS["integral"] = (
    lambda x: (
        x
        + hh
        * (
            (1 - tt) * afx.cumulative_sum(tt * (x + tt + 1) ** 3)
            + tt * (afx.sum((1 - tt) * (x + tt + 1) ** 3) - afx.cumulative_sum((1 - tt) * (x + tt + 1) ** 3))
        )
        / 2
    ),
    list(tt * (tt - 1)),
    0,
)
PROBLEMS["tridiag"] = (
    lambda x: (3 - 2 * x) * x - afx.concat([np.zeros(1), x[:-1]]) - 2 * afx.concat([x[1:], np.zeros(1)]) + 1,
    [-1] * n,
    0,
)


def cheb(m: int) -> Any:
    """Return m residuals of Chebyshev's quadrature."""

    def f(x: Any) -> Any:
        y = 2 * x - 1
        a, b = 0 * y + 1, y
        out = []
        for i in range(1, m + 1):
            out.append(afx.mean(b) - (0.0 if i % 2 else -1 / (i * i - 1.0)))
            a, b = b, 2 * y * b - a
        return afx.stack(out)

    return f


PROBLEMS["cheb8"] = (cheb(8), list(np.arange(1.0, 9) / 9), 3.51687e-3)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # first steps of some overflow
def test_least_squares_of_more_garbow_and_hillstrom(name: str) -> None:
    """Every problem ends at a minimum of the paper from its start, and says that it has converged."""
    residuals, start, minima = PROBLEMS[name]
    result = optim.least_squares(residuals, np.asarray(start, float), max_iterations=1000)
    squares = 2 * float(result.cost)
    assert result.converged
    assert any(abs(squares - least) <= 1e-4 * max(least, 1e-8) for least in np.atleast_1d(minima))
