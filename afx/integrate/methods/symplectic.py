"""Symplectic methods for separable systems: leapfrog, of order 2, and Yoshida's composition of it, of order 4.

The state is a pair of positions and momenta (or velocities) of one form; the positions' slope depends on the momenta
alone, and the momenta's on the positions alone. Energies then stay near their first values for very long times.
Source: Yoshida 1990, "Construction of higher order symplectic integrators"; Hairer, Lubich & Wanner 2006, section I.1.
"""

from __future__ import annotations

from afx.core.array.array import Array
from afx.integrate.step import Method, Past, Step, System, hermite
from afx.ops.manipulation.join import concat

__all__ = ["LEAPFROG", "YOSHIDA4"]

OUTER = 1 / (2 - 2 ** (1 / 3))


def _composition(parts: tuple[float, ...], order: int) -> Method:
    """Return leapfrog steps over fractions of a step, one after the other."""

    def step(system: System, past: Past, h: Array) -> Step:
        n = past.y.shape[0] // 2
        t, q, p, force = past.t, past.y[:n], past.y[n:], past.slope[n:]
        for part in parts:
            part_h = part * h
            p = p + 0.5 * part_h * force
            q = q + part_h * system.field(t + 0.5 * part_h, concat([q, p]))[:n]
            t = t + part_h
            force = system.field(t, concat([q, p]))[n:]
            p = p + 0.5 * part_h * force
        end = concat([q, p])
        slope = system.field(past.t + h, end)
        return Step(end, (), slope, hermite(past.y, past.slope, end, slope, h), 2 * len(parts) + 1)

    return Method(step, order, adaptive=False, halved=True)


LEAPFROG = _composition((1.0,), 2)
YOSHIDA4 = _composition((OUTER, 1 - 2 * OUTER, OUTER), 4)
