"""Dormand-Prince pair: an explicit Runge-Kutta method of order 5 with an error estimate of order 4 and dense output.

Sources: Dormand & Prince 1980, "A family of embedded Runge-Kutta formulae"; the dense output of order 4 is that of
Hairer, Nørsett & Wanner 1993, "Solving Ordinary Differential Equations I", section II.6.
"""

from __future__ import annotations

from afx.core.array.array import Array
from afx.integrate.step import Field, Method, Step

__all__ = ["DOPRI5"]

NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
DENSE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)


def _combine(weights: tuple[float, ...], slopes: list[Array]) -> Array:
    """Return the weighted sum of slopes."""
    first, *rest = [w * k for w, k in zip(weights, slopes, strict=True) if w]
    total = first
    for term in rest:
        total = total + term
    return total


def _step(field: Field, t: Array, y: Array, slope: Array, h: Array) -> Step:
    slopes = [slope]
    end = y
    for node, weights in zip(NODES, STAGES, strict=True):
        end = y + h * _combine(weights, slopes)
        slopes.append(field(t + node * h, end))
    rise = end - y
    bend = h * slope - rise
    dense = (rise, bend, rise - h * slopes[-1] - bend, h * _combine(DENSE, slopes))
    return Step(end, h * _combine(ERROR, slopes), slopes[-1], dense)


DOPRI5 = Method(_step, order=5, evaluations=6, damping=0.04)
