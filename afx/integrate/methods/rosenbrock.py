"""Rodas: a stiffly accurate Rosenbrock method of order 4 with an error estimate of order 3 and dense output.

Each step solves six linear systems with the same matrix and no nonlinear one, which suits small and medium stiff systems.
Source: Hairer & Wanner 1996, "Solving Ordinary Differential Equations II", section VI.4 (RODAS).
"""

from __future__ import annotations

from afx.core.array.array import Array
from afx.integrate.step import Method, Past, Step, System
from afx.ops.creation.creation import ones_like
from afx.ops.creation.matrices import eye
from afx.ops.linalg.solve import solve_or_nan
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.derivatives.jvp import jvp

__all__ = ["RODAS"]

GAMMA = 0.25
NODES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
TIME_WEIGHTS = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)  # of df/dt
STAGES = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
)
COUPLINGS = (
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
DENSE = (
    (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662),
    (-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872),
)


def _add(start: Array, weights: tuple[float, ...], vectors: list[Array], scale: Array | float = 1.0) -> Array:
    """Return a vector plus a weighted sum."""
    for w, v in zip(weights, vectors, strict=False):
        start = start + (w * scale) * v
    return start


def _step(system: System, past: Past, h: Array) -> Step:
    field, t, y = system.field, past.t, past.y

    def of_time(s: Array) -> Array:
        return field(s, y)

    jacobian = jacfwd(field, 1)(t, y)
    drift = jvp(of_time, (t,), (ones_like(t),))[1]
    mass = eye(y.shape[0], dtype=y.dtype) if system.mass is None else system.mass
    matrix = mass / (h * GAMMA) - jacobian
    stages: list[Array] = []
    end = y
    for k, node in enumerate(NODES):
        end = _add(y, STAGES[k], stages) if k < len(STAGES) else end + stages[-1]
        force = (past.slope if k == 0 else field(t + node * h, end)) + (h * TIME_WEIGHTS[k]) * drift
        coupled = COUPLINGS[k - 1] if k else ()
        right = force if not coupled else force + system.weigh(_add(0 * y, coupled, stages, 1 / h))
        stages.append(solve_or_nan(matrix, right))
    end = end + stages[-1]
    dense = (end - y, *[_add(0 * y, weights, stages) for weights in DENSE])
    return Step(end, (stages[-1],), field(t + h, end), dense, 6)


RODAS = Method(_step, order=4, implicit=True)
