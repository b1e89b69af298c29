"""Methods: steps of ordinary differential equations, explicit, implicit and symplectic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs
import numpy as np

from afx.control.cond import cond
from afx.control.solving import attach_implicit_derivative, parametrize
from afx.control.while_loop import while_loop
from afx.core import Array, Aval, Tracer, epsilon
from afx.integrate.step import SAFETY, Field, Method, Past, Step, System, hermite, interpolate
from afx.ops import abs as abs_, all as all_, concat, eye, isfinite, matmul, mean, reshape, sqrt, stack, where
from afx.ops.creation.creation import asarray, ones_like, stop_gradient, zeros, zeros_like
from afx.ops.linalg.solve import solve_or_nan
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.derivatives.jvp import jvp

# --- Explicit Runge-Kutta methods: pairs of orders 5 and 4, and others without an error estimate
#
# Sources: Dormand & Prince 1980, "A family of embedded Runge-Kutta formulae", with the dense output of order 4 of
# Hairer, Nørsett & Wanner 1993, "Solving Ordinary Differential Equations I", section II.6; Tsitouras 2011, "Runge-Kutta
# pairs of order 5(4) satisfying only the first column simplifying assumption", with its own. Methods without an error
# estimate, Euler's and Kutta's of 1901, have cubic interpolants.


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
DOPRI5_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
DOPRI5_DENSE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
TSIT5_TABLEAU = Tableau(
    (0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    (
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    ),
)
TSIT5_ERROR = (0.0017800110522257772, 0.0008164344596567463, -0.007880878010261994, 0.144711007173263, -0.5823571654525552,
    0.45808210592918686, -1 / 66)  # fmt: skip
TSIT5_DENSE = (
    -1.0530884977290216,
    0.1017,
    2.490627285651253,
    -16.548102889244905,
    47.37952196281928,
    -34.870657861496610,
    2.5,
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


def _make_pair(tableau: Tableau, error: tuple[float, ...], quartic: tuple[float, ...]) -> Method:
    """Return the method of a pair of orders 5 and 4, whose interpolant has a term of order 4 more than a cubic."""

    def step(system: System, past: Past, h: Array) -> Step:
        end, slopes = stages_of(tableau, system.field, past, h)
        dense = (*hermite(past.y, past.slope, end, slopes[-1], h), h * combine(quartic, slopes))
        return Step(end, (h * combine(error, slopes),), slopes[-1], dense, 6)

    return Method(step, order=5, damping=0.04, vectors=4, coefficients=4)


def _make_fixed_method(tableau: Tableau, order: int) -> Method:
    """Return the method of a tableau that has no error estimate."""

    def step(system: System, past: Past, h: Array) -> Step:
        end, slopes = stages_of(tableau, system.field, past, h)
        dense = hermite(past.y, past.slope, end, slopes[-1], h)
        return Step(end, (), slopes[-1], dense, len(tableau.nodes))

    return Method(step, order, adaptive=False)


DOPRI5 = _make_pair(DOPRI5_TABLEAU, DOPRI5_ERROR, DOPRI5_DENSE)
TSIT5 = _make_pair(TSIT5_TABLEAU, TSIT5_ERROR, TSIT5_DENSE)
# nodes and weights of methods of fixed steps, in the order of their convergence
_FIXED: dict[str, tuple[int, tuple[float, ...], tuple[tuple[float, ...], ...]]] = {
    "euler": (1, (1.0,), ((1.0,),)),
    "heun": (2, (1.0, 1.0), ((1.0,), (0.5, 0.5))),
    "midpoint": (2, (0.5, 1.0), ((0.5,), (0.0, 1.0))),
    "ralston": (2, (2 / 3, 1.0), ((2 / 3,), (0.25, 0.75))),
    "bosh3": (3, (0.5, 0.75, 1.0), ((0.5,), (0.0, 0.75), (2 / 9, 1 / 3, 4 / 9))),
    "rk4": (4, (0.5, 0.5, 1.0, 1.0), ((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6))),
}
FIXED: dict[str, Method] = {
    name: _make_fixed_method(Tableau(nodes, weights), order) for name, (order, nodes, weights) in _FIXED.items()
}


# --- Dormand-Prince method: an explicit one of order 8, with error estimates of orders 5 and 3, and dense output of
# order 7
#
# Source: Hairer, Nørsett & Wanner 1993, "Solving Ordinary Differential Equations I", sections II.5, II.6 and II.10
# (DOP853). The dense output takes three more evaluations, made where a state between steps is asked for.

# fmt: off
DOP853_NODES = (0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 0.3333333333333333, 0.25,
    0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0)
DOP853_STAGES = (
    (0.05260015195876773,),
    (0.0197250569845379, 0.0591751709536137),
    (0.02958758547680685, 0.0, 0.08876275643042054),
    (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
    (0.037037037037037035, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
    (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
    (0.03709200011850479, 0.0, 0.0, 0.17038392571223998, 0.10726203044637328, -0.015319437748624402,
     0.008273789163814023),
    (0.6241109587160757, 0.0, 0.0, -3.3608926294469414, -0.868219346841726, 27.59209969944671, 20.154067550477894,
     -43.48988418106996),
    (0.47766253643826434, 0.0, 0.0, -2.4881146199716677, -0.590290826836843, 21.230051448181193, 15.279233632882423,
     -33.28821096898486, -0.020331201708508627),
    (-0.9371424300859873, 0.0, 0.0, 5.186372428844064, 1.0914373489967295, -8.149787010746927, -18.52006565999696,
     22.739487099350505, 2.4936055526796523, -3.0467644718982196),
    (2.273310147516538, 0.0, 0.0, -10.53449546673725, -2.0008720582248625, -17.9589318631188, 27.94888452941996,
     -2.8589982771350235, -8.87285693353063, 12.360567175794303, 0.6433927460157636),
    (0.054293734116568765, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003, -5.801203960010585,
     0.3111643669578199, -0.1521609496625161, 0.20136540080403034, 0.04471061572777259),
)
DOP853_ERROR = (0.01312004499419488, 0.0, 0.0, 0.0, 0.0, -1.2251564463762044, -0.4957589496572502, 1.6643771824549864,
    -0.35032884874997366, 0.3341791187130175, 0.08192320648511571, -0.022355307863886294)
ROUGH_ERROR = (-0.18980075407240762, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003, -5.801203960010585,
    -0.4226823213237919, -0.1521609496625161, 0.20136540080403034, 0.02265179219836082)
MORE_NODES = (0.1, 0.2, 0.7777777777777778)
MORE_STAGES = (
    (0.056167502283047954, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25350021021662483, -0.2462390374708025, -0.12419142326381637,
     0.15329179827876568, 0.00820105229563469, 0.007567897660545699, -0.008298),
    (0.03183464816350214, 0.0, 0.0, 0.0, 0.0, 0.028300909672366776, 0.053541988307438566, -0.05492374857139099, 0.0,
     0.0, -0.00010834732869724932, 0.0003825710908356584, -0.00034046500868740456, 0.1413124436746325),
    (-0.42889630158379194, 0.0, 0.0, 0.0, 0.0, -4.697621415361164, 7.683421196062599, 4.06898981839711,
     0.3567271874552811, 0.0, 0.0, 0.0, -0.0013990241651590145, 2.9475147891527724, -9.15095847217987),
)
DOP853_DENSE = (
    (-8.428938276109013, 0.0, 0.0, 0.0, 0.0, 0.5667149535193777, -3.0689499459498917, 2.38466765651207,
     2.117034582445028, -0.871391583777973, 2.2404374302607883, 0.6315787787694688, -0.08899033645133331,
     18.148505520854727, -9.194632392478356, -4.436036387594894),
    (10.427508642579134, 0.0, 0.0, 0.0, 0.0, 242.28349177525817, 165.20045171727028, -374.5467547226902,
     -22.113666853125306, 7.733432668472264, -30.674084731089398, -9.332130526430229, 15.697238121770845,
     -31.139403219565178, -9.35292435884448, 35.81684148639408),
    (19.985053242002433, 0.0, 0.0, 0.0, 0.0, -387.0373087493518, -189.17813819516758, 527.8081592054236,
     -11.57390253995963, 6.8812326946963, -1.0006050966910838, 0.7777137798053443, -2.778205752353508,
     -60.19669523126412, 84.32040550667716, 11.99229113618279),
    (-25.69393346270375, 0.0, 0.0, 0.0, 0.0, -154.18974869023643, -231.5293791760455, 357.6391179106141,
     93.40532418362432, -37.45832313645163, 104.0996495089623, 29.8402934266605, -43.53345659001114,
     96.32455395918828, -39.17726167561544, -149.72683625798564),
)
# fmt: on

TABLEAU = Tableau(DOP853_NODES, DOP853_STAGES)


def _step_dop853(system: System, past: Past, h: Array) -> Step:
    end, slopes = stages_of(TABLEAU, system.field, past, h)
    errors = (h * combine(DOP853_ERROR, slopes), h * combine(ROUGH_ERROR, slopes))
    return Step(end, errors, slopes[-1], tuple(slopes), 12)


def _finish(system: System, past: Past) -> tuple[Array, ...]:
    """Return the interpolant of the last step from its slopes."""
    slopes = list(past.dense)
    first, last = slopes[0], slopes[12]
    h = where(past.accepted > 0, past.length, 0.0)
    for node, weights in zip(MORE_NODES, MORE_STAGES, strict=True):
        slopes.append(system.field(past.begin + node * h, past.start + h * combine(weights, slopes)))
    return (*hermite(past.start, first, past.y, last, h), *[h * combine(weights, slopes) for weights in DOP853_DENSE])


DOP853 = Method(_step_dop853, order=8, vectors=13, coefficients=7, finish=_finish)


# --- Rodas: a stiffly accurate Rosenbrock method of order 4 with an error estimate of order 3 and dense output
#
# Each step solves six linear systems with the same matrix and no nonlinear one, which suits small and medium stiff
# systems. Source: Hairer & Wanner 1996, "Solving Ordinary Differential Equations II", section VI.4 (RODAS).

GAMMA = 0.25
RODAS_NODES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
TIME_WEIGHTS = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)  # of df/dt
RODAS_STAGES = (  # of each stage, the weights of those before; the last two add the stage before to its state
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
)
COUPLINGS = (  # of each stage but the first, over h
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
RODAS_DENSE = (
    (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662),
    (-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872),
)


def _add(start: Array, weights: tuple[float, ...], vectors: list[Array], scale: Array | float = 1.0) -> Array:
    """Return a vector plus a weighted sum."""
    for w, v in zip(weights, vectors, strict=False):
        start = start + (w * scale) * v
    return start


def _step_rodas(system: System, past: Past, h: Array) -> Step:
    """Take a step of Rodas: linear systems with one matrix, in place of nonlinear ones."""
    field, t, y = system.field, past.t, past.y

    def of_time(s: Array) -> Array:
        return field(s, y)

    jacobian = jacfwd(field, 1)(t, y)
    drift = jvp(of_time, (t,), (ones_like(t),))[1]
    mass = eye(y.shape[0], dtype=y.dtype) if system.mass is None else system.mass
    matrix = mass / (h * GAMMA) - jacobian
    stages: list[Array] = []
    end = y
    for k, node in enumerate(RODAS_NODES):
        end = _add(y, RODAS_STAGES[k], stages) if k < len(RODAS_STAGES) else end + stages[-1]
        force = (past.slope if k == 0 else field(t + node * h, end)) + (h * TIME_WEIGHTS[k]) * drift
        right = force + system.weigh(_add(0 * y, COUPLINGS[k - 1], stages, 1 / h)) if k else force
        stages.append(solve_or_nan(matrix, right))
    error = stages[-1]  # what the last stage adds
    end = end + error
    dense = (end - y, *[_add(0 * y, weights, stages) for weights in RODAS_DENSE])
    return Step(end, (error,), slope=field(t + h, end), dense=dense, evaluations=6)


RODAS = Method(_step_rodas, order=4, implicit=True)


# --- Radau IIA: the implicit Runge-Kutta method of order 5 with three stages, an error estimate of order 3 and dense
# output
#
# Its collocation equations are solved by simplified Newton steps, in coordinates in which they are one real system of
# n equations and one of 2 n. Source: Hairer & Wanner 1996, "Solving Ordinary Differential Equations II", section IV.8
# (RADAU5), whose numbers these are; the test of convergence is as in SciPy. Derivatives of a step are those of the
# equations (implicit function theorem), not of the iterations.

ROOT = 6**0.5
RADAU_NODES = ((4 - ROOT) / 10, (4 + ROOT) / 10, 1.0)
WEIGHTS = np.array(
    [
        [(88 - 7 * ROOT) / 360, (296 - 169 * ROOT) / 1800, (-2 + 3 * ROOT) / 225],
        [(296 + 169 * ROOT) / 1800, (88 + 7 * ROOT) / 360, (-2 - 3 * ROOT) / 225],
        [(16 - ROOT) / 36, (16 + ROOT) / 36, 1 / 9],
    ]
)
INVERSE = np.linalg.inv(WEIGHTS)
RADAU_ERROR = ((-13 - 7 * ROOT) / 3, (-13 + 7 * ROOT) / 3, -1 / 3)
REAL = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)  # the inverse has this eigenvalue and a complex pair
PAIR = (3 + 0.5 * (3 ** (1 / 3) - 3 ** (2 / 3)), -0.5 * (3 ** (5 / 6) + 3 ** (7 / 6)))
FROM = np.array(
    [
        [0.09443876248897524, -0.14125529502095421, 0.03002919410514742],
        [0.25021312296633332, 0.20412935229379994, -0.38294211275726192],
        [1.0, 1.0, 0.0],
    ]
)
TO = np.array(
    [
        [4.17871859155190428, 0.32768282076106237, 0.52337644549944951],
        [-4.17871859155190428, -0.32768282076106237, 0.47662355450055044],
        [0.50287263494578682, -2.57192694985560522, 0.59603920482822492],
    ]
)
NEWTON_STEPS: Final = 6
FAST, SLOW_RATE = 2, 1e-3  # a Jacobian is kept up to so many Newton steps, or so fast a convergence (Hairer & Wanner)


@attrs.frozen
class Newton:
    """The state of the iteration: the stages in its coordinates, the size of the last step and its ratio to the one before."""

    w: Array
    size: Array
    rate: Array
    converged: Array
    failed: Array
    count: Array


@attrs.frozen
class Factors:
    """What steps have in common as long as the iteration converges fast.

    Attributes:
        jacobian: float[n, n], of the right side, of this step or of one before.
        inverses: of the matrices of the iteration.
        h: the step size that they are of.
        is_new: whether the Jacobian is that of the beginning of this step.
        is_slow: whether the iteration converged so slowly that the next step takes a new one.
    """

    jacobian: Array
    inverses: tuple[Array, ...]
    h: Array
    is_new: Array
    is_slow: Array


@attrs.frozen
class Attempt:
    """The state of attempts to solve the equations of a step, the second one with a new Jacobian; with the work so far."""

    factors: Factors
    newton: Newton
    needs_jacobian: Array
    goes_on: Array
    evaluations: Array


def no_factors(y: Array, *sizes: int) -> Factors:
    """Return factors that no step has, with inverses of so many times n rows."""
    n, no = y.shape[0], asarray(False)
    inverses = tuple([zeros((k * n, k * n), y.dtype) for k in sizes])
    return Factors(zeros((n, n), y.dtype), inverses, zeros((), y.dtype), no, asarray(True))


def _step_radau(system: System, past: Past, h: Array) -> Step:
    """Take a step of Radau IIA of order 5: Newton's method without derivatives, which are attached to its solution."""
    t, y = past.t, past.y
    now, state, start = stop_gradient(t), stop_gradient(y), stop_gradient(past.start)
    scale = stop_gradient(system.atol + system.rtol * abs_(y))
    places = [(now + c * h - stop_gradient(past.begin)) / past.length for c in RADAU_NODES]
    dense = tuple(map(stop_gradient, past.dense))
    guess = stack([where(past.accepted > 0, interpolate(start, dense, s) - state, 0.0) for s in places])

    def slopes(z: Array, t: Array, y: Array) -> Array:
        return stack([system.field(t + c * h, y + z[k]) for k, c in enumerate(RADAU_NODES)])

    def solve(inverses: tuple[Array, ...]) -> Newton:
        return _solve(lambda z: stop_gradient(slopes(z, now, state)), system, inverses, guess, h, scale)

    def residual(v: Array, t: Array, y: Array) -> Array:
        stages = reshape(v, guess.shape)
        weighed = stages if system.mass is None else matmul(stages, system.mass.T)
        return reshape(h * slopes(stages, t, y) - matmul(_as(INVERSE, v), weighed), (-1,))

    invert = functools.partial(_inverse_systems, system, h)
    done = attempt(system, past.memory, past.retried, (now, state, h), invert, solve, 3)
    end, factors = done.newton, done.factors
    z = reshape(attach_to_equations(residual, reshape(matmul(_as(FROM, y), end.w), (-1,)), t, y), guess.shape)
    finish = y + z[2]
    slope = system.field(t + h, finish)
    error = matmul(factors.inverses[0], past.slope + system.weigh(matmul(_as(np.array(RADAU_ERROR), y), z) / h))
    error = where(end.converged, error, np.nan)
    safety = (SAFETY * (2 * NEWTON_STEPS + 1) / (2 * NEWTON_STEPS + end.count)).astype(y.dtype)
    return Step(finish, (error,), slope, _dense_of(z), done.evaluations + 1, factors, safety, ~factors.is_slow)


def _as(numbers: np.ndarray[Any, Any], like: Array) -> Array:
    return asarray(numbers, like.dtype)


def attempt(
    system: System,
    before: Factors,
    retried: Array,
    at: tuple[Array, Array, Array],
    invert: Callable[[Array], tuple[Array, ...]],
    solve: Callable[[tuple[Array, ...]], Newton],
    stages: int,
) -> Attempt:
    """Return the last attempt: with the Jacobian at hand, and where that does not converge with that of the step itself.

    Args:
        system: what is integrated.
        before: what the trial before has left.
        retried: whether that began where this one does.
        at: time and state that a Jacobian is taken at, and the step size.
        invert: a Jacobian to the inverses of the matrices.
        solve: the inverses to the last state of the Newton iteration.
        stages: how many slopes an iteration takes.
    """
    t, y, h = at

    def advance(s: Attempt) -> Attempt:
        f, is_needed = s.factors, s.needs_jacobian
        jacobian = cond(is_needed, lambda _: stop_gradient(jacfwd(system.field, 1)(t, y)), lambda j: j, f.jacobian)
        inverses = cond(is_needed | (f.h != h), lambda j, _: invert(j), lambda _, known: known, jacobian, f.inverses)
        newton = solve(inverses)
        is_new = f.is_new | is_needed
        is_slow = (newton.count > FAST) & (newton.rate > SLOW_RATE)
        again = ~newton.converged & ~is_new
        work = s.evaluations + stages * newton.count + where(is_needed, y.size, 0)
        return Attempt(Factors(jacobian, inverses, h, is_new, is_slow), newton, again, again, work)

    needs = ~retried & before.is_slow
    begin = attrs.evolve(before, is_new=retried & before.is_new)
    no = asarray(False)
    empty = Newton(zeros((stages, y.size), y.dtype), zeros_like(h), zeros_like(h), no, no, asarray(0))
    return while_loop(lambda s: s.goes_on, advance, Attempt(begin, empty, needs, asarray(True), asarray(0)))


def _inverse_systems(system: System, h: Array, jacobian: Array) -> tuple[Array, ...]:
    """Return the inverses of the matrices of the real system and of the pair."""
    n = jacobian.shape[0]
    mass = eye(n, dtype=jacobian.dtype) if system.mass is None else stop_gradient(system.mass)
    real = mass * (REAL / h) - jacobian
    diagonal, across = mass * (PAIR[0] / h) - jacobian, mass * (PAIR[1] / h)
    pair = concat([concat([diagonal, -across], axis=1), concat([across, diagonal], axis=1)])
    return solve_or_nan(real, eye(n, dtype=real.dtype)), solve_or_nan(pair, eye(2 * n, dtype=real.dtype))


def _solve(
    slopes: Callable[[Array], Array], system: System, inverses: tuple[Array, ...], guess: Array, h: Array, scale: Array
) -> Newton:
    """Return the last state of the simplified Newton iteration of the collocation equations, in coordinates w.

    There the three stages fall apart into one real system, and a pair that stands for a complex one.
    """
    n = guess.shape[1]
    back, forth = _as(FROM, guess), _as(TO, guess)
    eigen = _as(np.array([[REAL, 0, 0], [0, PAIR[0], -PAIR[1]], [0, PAIR[1], PAIR[0]]]), guess)

    def weigh(w: Array) -> Array:
        return w if system.mass is None else matmul(w, stop_gradient(system.mass).T)

    def correct(w: Array) -> Array:
        residual = matmul(forth, slopes(matmul(back, w))) - weigh(matmul(eigen, w)) / h
        first = matmul(inverses[0], residual[0])
        pair = matmul(inverses[1], concat([residual[1], residual[2]]))
        return stack([first, pair[:n], pair[n:]])

    return converge(correct, matmul(forth, guess), system.rtol, scale, NEWTON_STEPS)


def converge(correct: Callable[[Array], Array], begin: Array, rtol: float, scale: Array, most: int) -> Newton:
    """Return the last state of a simplified Newton iteration, which ends where little is left, or too much for its rate.

    Args:
        correct: the unknowns to what is added to them.
        begin: the first ones.
        rtol: of a step's error.
        scale: what a correction is measured by.
        most: how many corrections there are at most.
    """
    eps = epsilon(begin.dtype)
    tolerance = max(10 * eps / rtol, min(0.03, rtol**0.5)) if rtol else 10 * eps

    def advance(s: Newton) -> Newton:
        change = correct(s.w)
        scaled = stop_gradient(change / scale)  # sizes that steer have no derivatives, which sqrt has not at 0
        size = sqrt(mean(scaled * scaled)) if change.size else asarray(0.0, change.dtype)
        known = s.count > 0
        rate = where(known, size / where(s.size > 0, s.size, 1.0), 0.0)
        left = rate / where(rate < 1, 1 - rate, 1.0) * size
        hopeless = rate ** (most - 1 - s.count) / where(rate < 1, 1 - rate, 1.0) * size > tolerance
        failed = ~isfinite(size) | (known & ((rate >= 1) | hopeless))
        converged = ~failed & ((size == 0) | (known & (left < tolerance)))
        return Newton(where(failed, s.w, s.w + change), size, rate, converged, failed, s.count + 1)

    no, zero = asarray(False), zeros((), begin.dtype)
    return while_loop(
        lambda s: ~(s.converged | s.failed) & (s.count < most), advance, Newton(begin, zero, zero, no, no, asarray(0))
    )


def attach_to_equations(residual: Callable[..., Array], root: Array, *params: Array) -> Array:
    """Return a root of ``residual(root, *params)`` as a differentiable function of what the equations depend on."""
    if not isinstance(residual(root, *params), Tracer):
        return root
    problem = parametrize(residual, [lambda v: v], [Aval(root.shape, root.dtype)], params, "odeint")
    return attach_implicit_derivative(problem.fn, stop_gradient(root), problem.params, all_(isfinite(root)))


def _dense_of(z: Array) -> tuple[Array, ...]:
    """Return the collocation polynomial as an interpolant."""
    near, far = [(z[k] / RADAU_NODES[k] - z[2]) / (1 - RADAU_NODES[k]) for k in (0, 1)]
    bend = (far - near) / (RADAU_NODES[1] - RADAU_NODES[0])
    return z[2], near - RADAU_NODES[0] * bend, bend


RADAU = Method(_step_radau, order=4, implicit=True, memory=lambda _, y: no_factors(y, 1, 2), foresees=True, failed=0.5)


# --- Symplectic methods for separable systems: leapfrog, of order 2, and Yoshida's composition of it, of order 4
#
# The state is a pair of positions and momenta (or velocities) of one form; the positions' slope depends on the
# momenta alone, and the momenta's on the positions alone. Energies then stay near their first values for very long
# times. Source: Yoshida 1990, "Construction of higher order symplectic integrators"; Hairer, Lubich & Wanner 2006,
# section I.1.

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
