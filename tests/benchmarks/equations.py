"""Minima of many unknowns and stiff systems, as the literature has them, for any namespace of NumPy's functions.

Sources: Moré, Garbow & Hillstrom 1981 (Rosenbrock, Powell, Broyden), Lukšan & Vlček 1999 (the chained ones, ENGVAL1,
DIXMAANA), Averick, Carter, Moré & Xue 1992 (minimal surface, solid fuel ignition); Kaps 1981, Prothero & Robinson 1974, Davis
& Skodje 1999, O'Malley's flame (Shampine, Gladwell & Thompson 2003), Hairer & Wanner 1996 (Brusselator), Fisher 1937.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.integrate.problems import Problem

__all__ = ["STIFF", "descents"]

Descent = tuple[Callable[[Any, Any], Any], np.ndarray[Any, Any]]  # (namespace, x) to a value, and the start


def _rosenbrock(xp: Any, x: Any) -> Any:
    a, b = x[::2], x[1::2]
    return xp.sum(100 * (b - a * a) ** 2 + (1 - a) ** 2)


def _chained_rosenbrock(xp: Any, x: Any) -> Any:
    a, b = x[:-1], x[1:]
    return xp.sum(100 * (b - a * a) ** 2 + (1 - a) ** 2)


def _broyden(xp: Any, x: Any) -> Any:
    p = xp.concatenate([xp.zeros(1), x, xp.zeros(1)])
    r = (3 - 2 * x) * x - p[:-2] - 2 * p[2:] + 1
    return xp.sum(r * r)


def _chained_wood(xp: Any, x: Any) -> Any:
    a, b, c, d = x[:-3:2], x[1:-2:2], x[2:-1:2], x[3::2]
    first = 100 * (a * a - b) ** 2 + (a - 1) ** 2 + 90 * (c * c - d) ** 2 + (1 - c) ** 2
    return xp.sum(first + 10 * (b + d - 2) ** 2 + 0.1 * (b - d) ** 2)


def _powell(xp: Any, x: Any) -> Any:
    a, b, c, d = x[::4], x[1::4], x[2::4], x[3::4]
    return xp.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


def _engval(xp: Any, x: Any) -> Any:
    a, b = x[:-1], x[1:]
    return xp.sum((a * a + b * b) ** 2 - 4 * a + 3)


def _cragg_levy(xp: Any, x: Any) -> Any:
    a, b, c, d = x[:-3:2], x[1:-2:2], x[2:-1:2], x[3::2]
    return xp.sum((xp.exp(a) - b) ** 4 + 100 * (b - c) ** 6 + xp.tan(c - d) ** 4 + a**8 + (d - 1) ** 2)


def _dixmaana(xp: Any, x: Any) -> Any:
    m = x.shape[0] // 3
    far = 0.125 * x[:m] * x[2 * m :]
    return 1 + xp.sum(x * x) + xp.sum(0.125 * x[: 2 * m] ** 2 * x[m:] ** 4) + xp.sum(far)


def _minimal_surface(xp: Any, x: Any) -> Any:
    k = round(x.shape[0] ** 0.5)
    edge, zero = xp.asarray(np.sin(np.pi * np.arange(k + 2) / (k + 1)))[None], xp.zeros((k, 1))
    z = xp.concatenate([edge, xp.concatenate([zero, x.reshape((k, k)), zero], axis=1), 0.5 * edge])
    a, b = z[1:, 1:] - z[:-1, :-1], z[1:, :-1] - z[:-1, 1:]
    return xp.sum(xp.sqrt(1 + 0.5 * (k + 1) ** 2 * (a * a + b * b))) / (k + 1) ** 2


def _ignition(xp: Any, x: Any) -> Any:
    k = round(x.shape[0] ** 0.5)
    u, row = x.reshape((k, k)), xp.zeros((1, k))
    dx = xp.concatenate([u, row]) - xp.concatenate([row, u])
    dy = xp.concatenate([u, row.T], axis=1) - xp.concatenate([row.T, u], axis=1)
    return 0.5 * (xp.sum(dx * dx) + xp.sum(dy * dy)) - 5.0 / (k + 1) ** 2 * xp.sum(xp.exp(u))


def descents(n: int) -> dict[str, Descent]:
    """Return ten functions of about n unknowns with their starts."""
    n, k = n // 12 * 12, round(n**0.5)

    def tiled(*values: float) -> np.ndarray[Any, Any]:
        return np.tile(np.array(values), n // len(values))

    return {
        "Rosenbrock": (_rosenbrock, tiled(-1.2, 1.0)),
        "chained Rosenbrock": (_chained_rosenbrock, tiled(-1.2, 1.0)),
        "Broyden tridiagonal": (_broyden, tiled(-1.0)),
        "chained Wood": (_chained_wood, np.concatenate([[-3.0, -1, -3, -1], tiled(-2.0, 0.0)[4:]])),
        "Powell singular": (_powell, tiled(3.0, -1.0, 0.0, 1.0)),
        "ENGVAL1": (_engval, tiled(2.0)),
        "Cragg & Levy": (_cragg_levy, np.concatenate([[1.0], tiled(2.0)[1:]])),
        "DIXMAANA": (_dixmaana, tiled(2.0)),
        "minimal surface": (_minimal_surface, np.zeros(k * k)),
        "solid fuel ignition": (_ignition, np.zeros(k * k)),
    }


CELLS = 20
NODES = np.arange(1, CELLS + 1) / (CELLS + 1)


def _kaps(xp: Any, _: Any, y: Any) -> Any:
    return xp.stack([1000 * y[1] * y[1] - 1002 * y[0], y[0] - y[1] * (1 + y[1])])


def _prothero(xp: Any, t: Any, y: Any) -> Any:
    return -1e4 * (y - xp.cos(t)) - xp.sin(t)


def _flame(_xp: Any, _: Any, y: Any) -> Any:
    return y * y - y * y * y


def _davis(xp: Any, _: Any, y: Any) -> Any:
    return xp.stack([-y[0], -1000 * y[1] + (999 * y[0] + 1000 * y[0] * y[0]) / ((1 + y[0]) * (1 + y[0]))])


def _spread(xp: Any, u: Any, edge: float) -> Any:
    p = xp.concatenate([xp.full((1,), edge), u, xp.full((1,), edge)])
    return (p[:-2] - 2 * u + p[2:]) * (CELLS + 1) ** 2


def _brusselator(xp: Any, _: Any, y: Any) -> Any:
    u, v = y[:CELLS], y[CELLS:]
    react = u * u * v
    return xp.concatenate([1 + react - 4 * u + 0.02 * _spread(xp, u, 1.0), 3 * u - react + 0.02 * _spread(xp, v, 3.0)])


def _fisher(xp: Any, _: Any, u: Any) -> Any:
    return 0.05 * _spread(xp, u, 0.0) + 20 * u * (1 - u)


END = 3 * np.exp(-5.0)
UNKNOWN = np.array([np.nan])  # to be had from a solver at a tight tolerance
STIFF = {
    "Kaps": Problem(_kaps, np.array([1.0, 1.0]), 5.0, np.exp([-10.0, -5.0]), 1e-3, True),
    "Prothero & Robinson": Problem(_prothero, np.array([1.0]), 10.0, np.cos([10.0]), 1.0, True),
    "flame": Problem(_flame, np.array([1e-4]), 2e4, np.array([1.0]), 1e-2, True),
    "Davis & Skodje": Problem(_davis, np.array([3.0, 1.5]), 5.0, np.array([END, END / (1 + END)]), 1e-2, True),
    "Brusselator": Problem(
        _brusselator, np.concatenate([1 + np.sin(2 * np.pi * NODES), np.full(CELLS, 3.0)]), 10.0, UNKNOWN, 1.0, True
    ),
    "Fisher": Problem(_fisher, np.sin(np.pi * NODES) ** 20, 2.0, UNKNOWN, 1.0, True),
}
