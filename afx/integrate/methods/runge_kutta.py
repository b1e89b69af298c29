"""Explicit Runge-Kutta methods: Dormand and Prince's pair of orders 5 and 4, and two without an error estimate.

Sources: Dormand & Prince 1980, "A family of embedded Runge-Kutta formulae"; the dense output of order 4 is that of
Hairer, Nørsett & Wanner 1993, "Solving Ordinary Differential Equations I", section II.6. Methods without an error
estimate, Euler's and Kutta's of 1901, have cubic interpolants.
"""

from __future__ import annotations

import attrs

from afx.core.array.array import Array
from afx.integrate.step import Field, Method, Past, Step, System, hermite

__all__ = ["DOPRI5", "EULER", "RK4", "Tableau", "combine", "stages_of"]


@attrs.frozen
class Tableau:
    """The coefficients of a method whose last stage is the end of the step.

    Attributes:
        nodes: when each stage after the first is, as a fraction of the step.
        stages: how each is made of the slopes before.
    """

    nodes: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]


DOPRI5_TABLEAU = Tableau(
    (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    (
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
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


def combine(weights: tuple[float, ...], slopes: list[Array]) -> Array:
    """Return the weighted sum of the first slopes."""
    first, *rest = [w * k for w, k in zip(weights, slopes, strict=False) if w]
    total = first
    for term in rest:
        total = total + term
    return total


def stages_of(tableau: Tableau, field: Field, past: Past, h: Array) -> tuple[Array, list[Array]]:
    """Return the end of a step, and the slopes of its stages, that at the end included."""
    slopes, end = [past.slope], past.y
    for node, weights in zip(tableau.nodes, tableau.stages, strict=True):
        end = past.y + h * combine(weights, slopes)
        slopes.append(field(past.t + node * h, end))
    return end, slopes


def _dopri5(system: System, past: Past, h: Array) -> Step:
    end, slopes = stages_of(DOPRI5_TABLEAU, system.field, past, h)
    dense = (*hermite(past.y, past.slope, end, slopes[-1], h), h * combine(DENSE, slopes))
    return Step(end, (h * combine(ERROR, slopes),), slopes[-1], dense, 6)


def _make_fixed_method(tableau: Tableau, order: int) -> Method:
    """Return the method of a tableau that has no error estimate."""

    def step(system: System, past: Past, h: Array) -> Step:
        end, slopes = stages_of(tableau, system.field, past, h)
        dense = hermite(past.y, past.slope, end, slopes[-1], h)
        return Step(end, (), slopes[-1], dense, len(tableau.nodes))

    return Method(step, order, adaptive=False)


DOPRI5 = Method(_dopri5, order=5, damping=0.04, kept=4, coefficients=4)
EULER = _make_fixed_method(Tableau((1.0,), ((1.0,),)), 1)
RK4 = _make_fixed_method(
    Tableau((0.5, 0.5, 1.0, 1.0), ((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6))), 4
)
