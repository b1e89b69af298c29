"""The programs of gradbench's evals, each with what it reads of an input and what it answers.

The formulas are those of gradbench's descriptions: ADBench (Srajer, Kukelova & Fitzgibbon 2018) for ba, gmm, ht and lstm, cmpad
(Bell) for det, llsq and ode, and Siskind & Pearlmutter 2008 for particle and saddle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from tests.benchmarks.gradbench.kit import Kit

__all__ = ["BOTH", "EVALS", "Eval"]

Functions = dict[str, Callable[..., Any]]
BOTH, ALONE = ("afx", "jax"), ("afx",)


def _as_lists(result: Any) -> Any:
    return np.asarray(result).tolist()


@attrs.frozen
class Eval:
    """A module of gradbench.

    Attributes:
        functions: the functions of the module by name, in a library and with what is fixed; they take arrays.
        read: the arrays of an input, and what is fixed.
        names: of the functions.
        answer: what is answered for a result, of the function's name and the input.
        libraries: in which it runs: jax has no derivative in reverse of a loop that a condition ends.
        has_long_loops: whether one call is a loop of many thousand steps.
    """

    functions: Callable[..., Functions]
    read: Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    names: tuple[str, ...]
    answer: Callable[[str, Any, dict[str, Any]], Any] = lambda _name, result, _given: _as_lists(result)
    libraries: tuple[str, ...] = BOTH
    has_long_loops: bool = False


# --- Small ones: squares, sums of exponentials, polynomials, minors, a differential equation


def hello(k: Kit) -> Functions:
    """Return a square and its derivative."""
    return {"square": lambda x: x * x, "double": k.grad(lambda x: x * x)}


def lse(k: Kit) -> Functions:
    """Return the logarithm of a sum of exponentials, which are scaled by the largest."""

    def primal(x: Any) -> Any:
        top = k.np.max(x)
        return k.np.log(k.np.sum(k.np.exp(x - top))) + top

    return {"primal": primal, "gradient": k.grad(primal)}


def llsq(k: Kit, n: int) -> Functions:
    """Return half the squares of what is left of signs by a polynomial at n places from -1 to 1."""
    places = -1 + np.arange(n) * 2 / (n - 1)

    def primal(x: Any) -> Any:
        powers = k.np.asarray(places[:, None] ** np.arange(x.shape[0]))
        return k.np.sum((np.sign(places) - powers @ x) ** 2) / 2

    return {"primal": primal, "gradient": k.grad(primal)}


def det(k: Kit, n: int) -> Functions:
    """Return the determinant by minors: of each row's elements, times the minor of the rows below and the columns left."""
    columns = [np.arange(n)]  # of the element that each choice of columns in the rows above, and its place, stand for
    for row in range(1, n):
        shape = columns[-1].shape
        left = np.broadcast_to(np.arange(n), (*shape, n))
        chosen = np.zeros((*shape, n), bool)
        for above, table in enumerate(columns):
            np.put_along_axis(
                chosen, np.broadcast_to(table.reshape(*table.shape, *[1] * (row - above)), (*shape, 1)), True, -1
            )
        columns.append(left[~chosen].reshape(*shape, n - row))

    def primal(a: Any) -> Any:
        rows = a.reshape(n, n)
        minors = rows[n - 1][columns[n - 1]][..., 0]
        for row in range(n - 2, -1, -1):
            minors = k.np.sum(rows[row][columns[row]] * minors * (-1.0) ** np.arange(n - row), axis=-1)
        return minors

    return {"primal": primal, "gradient": k.grad(primal)}


def ode(k: Kit, steps: int) -> Functions:
    """Return the solution at 2 of y' = x times y of the index before, by Runge and Kutta's method."""
    h = 2.0 / steps

    def primal(x: Any) -> Any:
        def field(y: Any) -> Any:
            return x * k.np.concatenate([k.np.ones(1), y[:-1]])

        def step(y: Any, _: Any) -> Any:
            k1 = field(y)
            k2 = field(y + h * k1 / 2)
            k3 = field(y + h * k2 / 2)
            k4 = field(y + h * k3)
            return y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6, None

        return k.scan(step, k.np.zeros_like(x), None, length=steps)[0]

    return {"primal": primal, "gradient": k.grad(lambda x: primal(x)[-1])}


# --- Statistics: mixtures of Gaussians, clusters


def gmm(k: Kit, m: int, gamma: float) -> Functions:
    """Return the logarithm of the posterior of a mixture: weights, means, and factors of the precisions under Wishart's law."""
    xp = k.np

    def objective(alpha: Any, mu: Any, q: Any, low: Any, x: Any) -> Any:
        (n, d), parts = x.shape, alpha.shape[0]
        columns, rows = np.triu_indices(d, 1)  # column by column
        scales, sums = xp.exp(q), xp.sum(q, axis=1)
        factors = xp.zeros((parts, d, d)).at[:, rows, columns].set(low)
        apart = x[:, None, :] - mu
        distances = scales * apart + xp.einsum("kij,nkj->nki", factors, apart)
        inner = alpha + sums - 0.5 * xp.sum(distances**2, axis=2)
        likelihood = xp.sum(k.logsumexp(inner, axis=1)) - n * k.logsumexp(alpha) - n * d * 0.5 * math.log(2 * math.pi)
        freedom = d + m + 1
        squares = xp.sum(scales**2) + xp.sum(low**2)
        norm = freedom * d * math.log(gamma / math.sqrt(2)) - k.multigammaln(0.5 * freedom, d)
        return likelihood - 0.5 * gamma**2 * squares + m * xp.sum(sums) + parts * norm

    return {"objective": objective, "jacobian": k.grad(objective, argnums=(0, 1, 2, 3))}


def _read_gmm(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arrays = [np.asarray(given[name]) for name in ("alpha", "mu", "q", "l", "x")]
    return tuple(arrays), {"m": given["m"], "gamma": given["gamma"]}


def _answer_gmm(name: str, result: Any, _given: dict[str, Any]) -> Any:
    if name == "objective":
        return float(result)
    return dict(zip(("alpha", "mu", "q", "l"), map(_as_lists, result), strict=True))


def kmeans(k: Kit) -> Functions:
    """Return the squared distances of points to their nearest centroids, and Newton's direction by a diagonal."""
    xp = k.np

    def cost(points: Any, centroids: Any) -> Any:
        squares = xp.sum(points**2, axis=1) + xp.sum(centroids**2, axis=1)[:, None]
        return xp.sum(xp.min(squares - 2 * centroids @ points.T, axis=0))

    def direction(points: Any, centroids: Any) -> Any:
        slopes = k.grad(lambda c: cost(points, c))
        first, second = k.jvp(slopes, (centroids,), (xp.ones_like(centroids),))
        return first / second

    return {"cost": cost, "dir": direction}


# --- Geometry: bundle adjustment, a hand


def ba(k: Kit) -> Functions:
    """Return the errors of observations of points by cameras, and the dense blocks of their Jacobian."""
    xp = k.np

    def project(camera: Any, point: Any) -> Any:
        rotation, center, focal, origin, radial = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:]
        angle = xp.sqrt(xp.sum(rotation**2))
        axis, x = rotation / angle, point - center
        seen = x * xp.cos(angle) + xp.cross(axis, x) * xp.sin(angle) + axis * xp.sum(axis * x) * (1 - xp.cos(angle))
        flat = seen[:2] / seen[2]
        r = xp.sum(flat**2)
        return flat * (1 + radial[0] * r + radial[1] * r * r) * focal + origin

    def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        return weight * (project(camera, point) - feature)

    def gathered(fn: Any, cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        seen = np.arange(weights.shape[0])
        return k.vmap(fn)(cameras[seen % cameras.shape[0]], points[seen % points.shape[0]], weights, features)

    def objective(cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        return gathered(error, cameras, points, weights, features).reshape(-1), 1 - weights**2

    def jacobian(cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        blocks = gathered(k.jacrev(error, argnums=(0, 1, 2)), cameras, points, weights, features)
        of_weights = k.vmap(k.grad(lambda w: 1 - w**2))(weights)
        return xp.concatenate([blocks[0], blocks[1], blocks[2][..., None]], axis=2), of_weights

    return {"objective": objective, "jacobian": jacobian}


def _read_ba(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    n, m, p = given["n"], given["m"], given["p"]
    tiles = (
        np.tile(given["cam"], (n, 1)),
        np.tile(given["x"], (m, 1)),
        np.full(p, given["w"]),
        np.tile(given["feat"], (p, 1)),
    )
    return tiles, {}


def _answer_ba(name: str, result: Any, given: dict[str, Any]) -> Any:
    """Return the beginning and the end of the rows, columns and values of the sparse Jacobian."""
    first, of_weights = map(np.asarray, result)
    n, m, p = given["n"], given["m"], given["p"]
    if name == "objective":
        errors = {"elements": first[:2].tolist(), "repeated": p}
        return {"reproj_error": errors, "w_err": {"element": float(of_weights[0]), "repeated": p}}
    rows = np.concatenate([np.arange(2 * p) * 15, 30 * p + np.arange(p + 1)])
    seen = np.arange(p)
    columns = np.concatenate(
        [
            11 * (seen % n)[:, None] + np.arange(11),
            11 * n + 3 * (seen % m)[:, None] + np.arange(3),
            11 * n + 3 * m + seen[:, None],
        ],
        axis=1,
    )
    every = np.concatenate([np.repeat(columns, 2, axis=0).ravel(), 11 * n + 3 * m + seen])
    values = np.concatenate([first.ravel(), of_weights])
    return {
        "rows": [*rows[:30].tolist(), int(rows[-1])],
        "cols": [*every[:30].tolist(), int(every[-1])],
        "vals": [*values[:30].tolist(), float(values[-1])],
    }


def ht(k: Kit, parents: tuple[int, ...], is_complicated: bool) -> Functions:
    """Return how far the points of a hand lie from those that its bones' angles put there, and the Jacobian's columns."""
    xp, bones = k.np, len(parents)

    def turns(angles: Any) -> Any:
        """Return rotations of angles about x, then y, then z; their columns are those of x, z and y."""
        (cx, cz, cy), (sx, sz, sy) = (tuple(f(angles)[:, j] for j in range(3)) for f in (xp.cos, xp.sin))
        rows = [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx],
            [-sy, cy * sx, cy * cx],
        ]
        return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)

    def rotate(axis: Any) -> Any:
        """Return the rotation about an axis by its length (Rodrigues)."""
        n = xp.sqrt(xp.sum(axis**2))
        x, y, z = (axis / n)[0], (axis / n)[1], (axis / n)[2]
        zero = 0 * x
        cross = xp.stack([xp.stack([zero, -z, y]), xp.stack([z, zero, -x]), xp.stack([-y, x, zero])])
        unit = xp.stack([x, y, z])
        return np.eye(3) * xp.cos(n) + cross * xp.sin(n) + (1 - xp.cos(n)) * unit[:, None] * unit

    def vertices(theta: Any, relatives: Any, inverses: Any, positions: Any, weights: Any) -> Any:
        places = [(3 * f + j + f + 1, 6 + 4 * f + (j + 1 if j else 0)) for f in range(5) for j in range(3)]
        angles = xp.zeros((bones, 3))
        rows = np.array([row for row, _ in places]) + 1
        angles = angles.at[rows, 0].set(theta[np.array([column for _, column in places])])
        angles = angles.at[rows[::3], 1].set(theta[7::4])
        moves = xp.zeros((bones, 4, 4)).at[:, 3, 3].set(1.0).at[:, :3, :3].set(turns(angles))
        posed, absolute = relatives @ moves, list[Any]()
        for bone, parent in enumerate(parents):
            absolute.append(posed[bone] if parent == -1 else absolute[parent] @ posed[bone])
        transforms = xp.stack(absolute) @ inverses
        moved = xp.einsum("bij,vj,vb->vi", transforms[:, :3], positions, weights)
        return moved @ rotate(theta[:3]).T + theta[3:6]

    def simple(theta: Any, *data: Any) -> Any:
        *model, points, near = data
        return points - vertices(theta, *model)[near]

    def complicated(theta: Any, us: Any, *data: Any) -> Any:
        *model, points, corners = data
        at = vertices(theta, *model)
        u, v = us[:, :1], us[:, 1:]
        return points - (u * at[corners[:, 0]] + v * at[corners[:, 1]] + (1 - u - v) * at[corners[:, 2]])

    def jacobian(theta: Any, *data: Any) -> Any:
        if not is_complicated:
            return k.jacfwd(lambda t: simple(t, *data).reshape(-1))(theta)
        us, *rest = data
        by_theta = k.jacfwd(lambda t: complicated(t, us, *rest).reshape(-1))(theta)
        each = [
            k.jvp(lambda u: complicated(theta, u, *rest), (us,), (xp.zeros_like(us) + np.eye(2)[j],))[1] for j in (0, 1)
        ]
        return xp.concatenate([xp.stack([e.reshape(-1) for e in each], axis=1), by_theta], axis=1)

    def objective(*operands: Any) -> Any:
        return (complicated if is_complicated else simple)(*operands).reshape(-1)

    return {"objective": objective, "jacobian": jacobian}


def _read_ht(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    data, us = given["data"], np.asarray(given["us"], np.float64)
    model, near = data["model"], np.asarray(data["correspondences"])
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    arrays = [np.asarray(model[name], np.float64) for name in names]
    points, is_complicated = np.asarray(data["points"], np.float64), us.size > 0
    operands = [us] if is_complicated else []
    operands += [*arrays, points, np.asarray(model["triangles"])[near] if is_complicated else near]
    fixed = {"parents": tuple(int(p) for p in model["parents"]), "is_complicated": is_complicated}
    return (np.asarray(given["theta"], np.float64), *operands), fixed


# --- Loops: a recurrent network, descents within descents


def lstm(k: Kit) -> Functions:
    """Return the loss of a network of gates without products of matrices, which guesses each character by those before."""
    xp = k.np

    def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
        width, layers = sequence.shape[1], main.shape[0] // 2

        def step(state: Any, x: Any) -> Any:
            rows, value = list[Any](), x * extra[0]
            for layer in range(layers):
                weight, bias, hidden, cell = (
                    main[2 * layer],
                    main[2 * layer + 1],
                    state[2 * layer],
                    state[2 * layer + 1],
                )
                gates = xp.concatenate([value, hidden, value, hidden]) * weight + bias
                forget, into, out = [1 / (1 + xp.exp(-gates[j * width : (j + 1) * width])) for j in range(3)]
                cell = cell * forget + into * xp.tanh(gates[3 * width :])
                value = out * xp.tanh(cell)
                rows += [value, cell]
            guess = value * extra[1] + extra[2]
            return xp.stack(rows), guess - xp.log(xp.sum(xp.exp(guess)) + 2)

        _, guesses = k.scan(step, state, sequence[:-1])
        return -xp.sum(sequence[1:] * guesses) / (sequence[1:].shape[0] * width)

    def jacobian(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
        slopes = k.grad(objective, argnums=(0, 1))(main, extra, state, sequence)
        return xp.concatenate([s.reshape(-1) for s in slopes])

    return {"objective": objective, "jacobian": jacobian}


def _read_lstm(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(
        np.asarray(given[name], np.float64) for name in ("main_params", "extra_params", "state", "sequence")
    ), {}


MODES = ("rr", "ff", "fr", "rf")  # of the outer and of the inner derivative


def particle(k: Kit) -> Functions:
    """Return where a charge must stand that another one, which flies past it, hits the origin: descents on Euler's steps."""
    xp, dt = k.np, 0.1

    def miss(mode: str, w: Any) -> Any:
        """Return how far from the origin, squared, the particle crosses the axis."""

        def potential(x: Any) -> Any:
            charges = (xp.stack([xp.asarray(10.0), 10 - w[0]]), np.array([10.0, 0.0]))
            return sum(1 / xp.sqrt(xp.sum((x - c) ** 2)) for c in charges)

        force = k.slopes(mode, potential)

        def step(state: Any) -> Any:
            x, v = state
            return x + dt * v, v - dt * force(x)

        start = (xp.asarray([0.0, 8.0]), xp.asarray([0.75, 0.0]))
        x, v = k.while_loop(lambda s: s[0][1] + dt * s[1][1] >= 0, step, start)
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    def solve(modes: str) -> Callable[[Any], Any]:
        return lambda w: k.descend(modes[0], lambda w: miss(modes[1], w), w)[0]

    return {modes: solve(modes) for modes in MODES}


def saddle(k: Kit) -> Functions:
    """Return the point where the largest of x² - y² over y is smallest over x, by a descent within a descent, and that y."""
    xp = k.np

    def height(x: Any, y: Any) -> Any:
        return xp.sum(x**2) - xp.sum(y**2)

    def solve(modes: str) -> Callable[[Any], Any]:
        def best(x: Any, start: Any) -> Any:
            return k.descend(modes[1], lambda y: -height(x, y), start)

        def run(start: Any) -> Any:
            x = k.descend(modes[0], lambda x: height(x, best(x, start)), start)
            return xp.concatenate([x, best(x, start)])

        return run

    return {modes: solve(modes) for modes in MODES}


def _of(*names: str, **fixed: str) -> Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return what reads arrays of floats, and fixed values by the names of the functions' options."""

    def read(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arrays = tuple(np.asarray(given[name], np.float64) for name in names)
        return arrays, {option: given[name] for option, name in fixed.items()}

    return read


def _read_number(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (np.asarray(given, np.float64),), {}


def _read_particle(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (np.asarray([given["w"]], np.float64),), {}


PRIMAL = ("primal", "gradient")
OBJECTIVE = ("objective", "jacobian")
EVALS: dict[str, Eval] = {
    "hello": Eval(hello, _read_number, ("square", "double")),
    "ba": Eval(ba, _read_ba, OBJECTIVE, _answer_ba),
    "det": Eval(det, _of("A", n="ell"), PRIMAL),
    "gmm": Eval(gmm, _read_gmm, OBJECTIVE, _answer_gmm),
    "ht": Eval(ht, _read_ht, OBJECTIVE),
    "kmeans": Eval(kmeans, _of("points", "centroids"), ("cost", "dir")),
    "llsq": Eval(llsq, _of("x", n="n"), PRIMAL),
    "lse": Eval(lse, _of("x"), PRIMAL),
    "lstm": Eval(lstm, _read_lstm, OBJECTIVE),
    "ode": Eval(ode, _of("x", steps="s"), PRIMAL),
    "particle": Eval(particle, _read_particle, MODES, libraries=ALONE, has_long_loops=True),
    "saddle": Eval(saddle, _of("start"), MODES, libraries=ALONE, has_long_loops=True),
}
