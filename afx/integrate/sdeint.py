"""`sdeint`: paths of stochastic differential equations at requested times, along Brownian motion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.scan import scan
from afx.control.solving import as_vector, flatten_to_vector, run_or_compile
from afx.core import Array, ArrayLike, Shown
from afx.errors import ArgumentError, ShapeError
from afx.integrate.step import requested_times
from afx.ops import arange, concat, cumsum, eye, matmul, reshape, sqrt, stack, sum as sum_, where
from afx.ops.creation.creation import asarray, stop_gradient, zeros
from afx.random.keys import fold_in, normal
from afx.transforms._arguments import check_callable, whole_number
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.vmap import vmap

__all__ = ["SdeResult", "sdeint"]

# --- Brownian motion: its changes over equal steps, as a function of a key
#
# Steps are halved level by level: the halves of a step are drawn given the whole (its change, and the area below it),
# so that twice as many steps follow the same motion. Source: Lévy 1948; with areas Foster, Lyons & Oberhauser 2020,
# "An optimal polynomial approximation of Brownian motion", whose H is the area over the length less half of the
# change.


@attrs.frozen
class Increment:
    """What Brownian motion does over each step.

    Attributes:
        change: float[steps, noises], by how much it changes.
        mean: float[steps, noises], the mean over the step of its change since the beginning.
    """

    change: Array
    mean: Array


def increments(key: Any, h: Array, steps: int, noises: int) -> Increment:
    """Return the increments over steps of length h.

    Args:
        key: of the motion.
        h: the length.
        steps: how many; those of an odd number times a power of two are halves of those of half the number.
        noises: how many motions there are.
    """
    levels = (steps & -steps).bit_length() - 1
    whole = steps >> levels
    length = h * 2**levels
    w, lag = sqrt(length) * _draw(key, 0, whole, noises, h), sqrt(length / 12) * _draw(key, 1, whole, noises, h)
    for level in range(levels):
        length = 0.5 * length
        n = w.shape[0]
        gap = 3 * lag + sqrt(0.5 * length) * _draw(key, 2 * level + 2, n, noises, h)
        lean = sqrt(length / 6) * _draw(key, 2 * level + 3, n, noises, h)
        both = 2 * lag - 0.5 * gap
        w = _interleave(0.5 * (w + gap), 0.5 * (w - gap))
        lag = _interleave(0.5 * (both + lean), 0.5 * (both - lean))
    return Increment(w, 0.5 * w + lag)


def _draw(key: Any, number: int, n: int, noises: int, like: Array) -> Array:
    return normal(fold_in(key, number), (n, noises), dtype=np.dtype(like.dtype))


def _interleave(left: Array, right: Array) -> Array:
    """Return the halves of steps in order of time."""
    n, noises = left.shape
    return reshape(stack([left, right], axis=1), (2 * n, noises))


# --- `sdeint`
#
# Sources: Maruyama 1955; Milstein 1974; Rümelin 1982; Rößler 2010, "Runge-Kutta methods for the strong approximation
# of solutions of stochastic differential equations", whose SRA1 and SRI W1 have strong order 1.5.

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SdeMethod = Literal["euler_maruyama", "milstein", "sra1", "sriw1", "heun"]
SdeForm = Literal["ito", "stratonovich"]
Weights = tuple[float, ...]


@attrs.frozen
class SdeResult(Shown, Generic[T]):
    """What `sdeint` found.

    Attributes:
        ts: float[times], the requested times.
        ys: the states there, a tree as the first state with the times as first axis.
        path: float[times, noises], the Brownian motion that drove it, 0 at the first time.
    """

    ts: Array
    ys: T
    path: Array


@attrs.frozen
class Tableau:
    """The coefficients of a stochastic Runge-Kutta method, in Rößler's names; rows end with their last number but 0.

    Attributes:
        drift_nodes: c0, when the drift's stages are.
        noise_nodes: c1, when those of the diffusion are.
        drift: A0 and A1, of drifts in both kinds of stages.
        noise: B0 and B1, of diffusions in them.
        alpha: of drifts in the step.
        beta: of diffusions in the step, with the four integrals of the noise.
        correction: whether Milstein's term, with the derivative of the diffusion, is added.
    """

    drift_nodes: Weights
    noise_nodes: Weights
    drift: tuple[tuple[Weights, ...], tuple[Weights, ...]]
    noise: tuple[tuple[Weights, ...], tuple[Weights, ...]]
    alpha: Weights
    beta: tuple[Weights, Weights, Weights, Weights]
    correction: bool = False


ONE = ((),)
EULER = Tableau((0.0,), (0.0,), (ONE, ONE), (ONE, ONE), (1.0,), ((1.0,), (), (), ()))
TABLEAUS = {
    "euler_maruyama": EULER,
    "milstein": attrs.evolve(EULER, correction=True),
    "sra1": Tableau(
        (0.0, 3 / 4),
        (1.0, 0.0),
        (((), (3 / 4,)), ((), ())),
        (((), (3 / 2,)), ((), ())),
        (1 / 3, 2 / 3),
        ((1.0,), (), (-1.0, 1.0), ()),
    ),
    "sriw1": Tableau(
        (0.0, 3 / 4, 0.0, 0.0),
        (0.0, 1 / 4, 1.0, 1 / 4),
        (((), (3 / 4,), (), ()), ((), (1 / 4,), (1.0,), (0.0, 0.0, 1 / 4))),
        (((), (3 / 2,), (), ()), ((), (1 / 2,), (-1.0,), (-5.0, 3.0, 1 / 2))),
        (1 / 3, 2 / 3),
        ((-1.0, 4 / 3, 2 / 3), (-1.0, 4 / 3, -1 / 3), (2.0, -4 / 3, -2 / 3), (-2.0, 5 / 3, -2 / 3, 1.0)),
    ),
}


def sdeint(
    drift: Callable[[Array, T, *Ts], T],
    diffusion: Callable[[Array, T, *Ts], Any],
    init: T,
    ts: ArrayLike,
    *args: *Ts,
    key: ArrayLike,
    substeps: int,
    method: SdeMethod = "euler_maruyama",
    noise: Literal["diagonal", "general"] = "diagonal",
    form: SdeForm = "ito",
) -> SdeResult[T]:
    """Return a path of ``dy = drift(t, y, *args) dt + diffusion(t, y, *args) dW`` from ``init`` at ``ts[0]``.

    The equation is Itô's, or Stratonovich's with ``form="stratonovich"``; every method solves both, by a drift that differs
    by half of the diffusion's derivative along itself.

    The path is a function of the key: twice as many substeps follow the same Brownian motion more closely. It is
    differentiable by ``init``, ``args``, ``ts`` and traced arrays that the functions close over, in both modes, and works
    under `jit` and `vmap` (over keys: many paths). A long run is compiled, as in `odeint`.

    ==================  =====  ===================================================================================
    ``euler_maruyama``  0.5    any noise, and order 1 where the diffusion does not depend on the state
    ``milstein``        1.0    diagonal noise; takes the derivative of the diffusion
    ``sra1``            1.5    additive noise: the diffusion does not depend on the state (Rößler)
    ``sriw1``           1.5    diagonal noise (Rößler)
    ``heun``            1.0    diagonal noise, 0.5 general; Stratonovich's form needs no derivative (Rümelin 1982)
    ==================  =====  ===================================================================================

    Args:
        drift: (t, y, *args) to a tree as y is.
        diffusion: (t, y, *args) to a tree as y is: each element has its own noise, and its diffusion depends on no other
            element of y; for general noise to float[elements of y, noises].
        init: the first state, a tree of real arrays.
        ts: float[times], ascending; the first is where the state is ``init``.
        *args: what else both functions take, any trees.
        key: of the Brownian motion, from `afx.random.key`.
        substeps: how many steps lead from each time to the next.
        method: how a step is made; the table has its strong order.
        noise: ``diagonal``, or ``general`` for noises that several elements share (``euler_maruyama``, ``sra1`` and
            ``heun``).
        form: whose integral ``dW`` means, ``ito`` or ``stratonovich``.

    Raises:
        ArgumentError: no such method, noise or form; a method for other noise; substeps below 1 or not whole; times that
            turn back.
        ShapeError: a function returns another shape.

    >>> import afx
    >>> walk = sdeint(lambda t, y: 0 * y, lambda t, y: 1 + 0 * y, np.zeros(2), [0.0, 1.0], key=afx.random.key(0), substeps=4)
    >>> bool(afx.allclose(walk.ys, walk.path))
    True
    """
    fns: list[Any] = [drift, diffusion]
    for fn in fns:
        check_callable(fn, "sdeint")
    _check_method(method, noise, form)
    substeps = whole_number("substeps", substeps, "sdeint")
    y, unravel = flatten_to_vector(init, "sdeint")
    times = requested_times(ts, y, "sdeint", backwards=False)

    def run(y: Array, times: Array, key: Array, args: Any) -> tuple[Array, Array]:
        def drift_of(t: Array, v: Array) -> Array:
            return _check_derivative(as_vector(fns[0](t, unravel(v), *args), v.dtype, "sdeint: drift"), v)

        def diffusion_of(t: Array, v: Array) -> Array:
            diffusion = fns[1](t, unravel(v), *args)
            if noise == "general":
                return _check_derivative(_matrix_of(diffusion, v), v)
            return _check_derivative(as_vector(diffusion, v.dtype, "sdeint: diffusion"), v)

        methods_own = "stratonovich" if method == "heun" else "ito"
        moved: Field = drift_of
        if form != methods_own:  # the same process, by another drift
            moved = _correct(drift_of, diffusion_of, 0.5 if methods_own == "ito" else -0.5)
        step = _heun if method == "heun" else functools.partial(_step, TABLEAUS[method])
        return _walk(functools.partial(step, moved, diffusion_of), diffusion_of, y, times, key, substeps)

    states, path = run_or_compile(run, y, times, asarray(key), args, name="sdeint")
    return SdeResult(times, vmap(unravel)(states), path)


def _check_method(method: str, noise: str, form: str) -> None:
    methods = [*TABLEAUS, "heun"]
    if method not in methods:
        raise ArgumentError(f"sdeint: no such method: got {method!r}; use {', '.join(map(repr, methods))}")
    if noise not in ("diagonal", "general"):
        raise ArgumentError(f"sdeint: no such noise: got {noise!r}; use 'diagonal' or 'general'")
    if form not in ("ito", "stratonovich"):
        raise ArgumentError(f"sdeint: no such form: got {form!r}; use 'ito' or 'stratonovich'")
    if noise == "general" and method not in ("euler_maruyama", "sra1", "heun"):
        raise ArgumentError(
            f"sdeint: {method!r} is for diagonal noise: got 'general'; use 'euler_maruyama', 'sra1' or 'heun'"
        )


def _matrix_of(value: Any, y: Array) -> Array:
    """Return a diffusion of general noise, if it is a matrix."""
    matrix = asarray(value)
    if matrix.ndim != 2:
        raise ShapeError(
            f"sdeint: the diffusion of general noise is float[elements of y, noises]: got {matrix.aval} for {y.aval}; "
            "return a matrix, or use noise='diagonal'"
        )
    return matrix.astype(y.dtype)


def _check_derivative(slope: Array, y: Array) -> Array:
    """Return what a function found, if it fits the state."""
    if slope.shape[:1] != y.shape:
        raise ShapeError(f"sdeint: drift and diffusion have as many elements as y: got {slope.aval} for {y.aval}")
    return slope


Field = Callable[[Array, Array], Array]


def _correct(drift: Field, diffusion: Field, factor: float) -> Field:
    """Return the drift with so much of each noise's derivative along itself: from one form to the other."""

    def corrected(t: Array, y: Array) -> Array:
        spread = diffusion(t, y)
        if spread.ndim == 1:  # each element has its own noise, and no other's diffusion depends on it

            def at(v: Array) -> Array:
                return diffusion(t, v)

            return drift(t, y) + factor * jvp(at, (y,), (spread,))[1]

        def along(column: Array) -> Array:
            def one(v: Array) -> Array:
                return matmul(diffusion(t, v), column)

            return jvp(one, (y,), (matmul(spread, column),))[1]

        return drift(t, y) + factor * sum_(vmap(along)(eye(spread.shape[1], dtype=y.dtype)), axis=0)

    return corrected


def _walk(
    step: Callable[[Array, Array, Array, Increment], Array],
    diffusion: Field,
    y: Array,
    times: Array,
    key: Array,
    substeps: int,
) -> tuple[Array, Array]:
    """Return the states at the times, and the Brownian motion there."""
    noises = diffusion(times[0], stop_gradient(y)).shape[-1]

    def interval(y: Array, x: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        begin, end, number = x
        h = (end - begin) / substeps
        steps = increments(fold_in(key, number), h, substeps, noises)

        def advance(y: Array, x: tuple[Array, Increment]) -> tuple[Array, None]:
            k, increment = x
            return step(begin + k * h, y, h, increment), None

        y, _ = scan(advance, y, (arange(substeps), steps))
        return y, (y, sum_(steps.change, axis=0))

    _, (states, changes) = scan(interval, y, (times[:-1], times[1:], arange(times.shape[0] - 1)))
    return concat([y[None], states]), concat([zeros((1, noises), y.dtype), cumsum(changes, axis=0)])


def _heun(drift: Field, diffusion: Field, t: Array, y: Array, h: Array, noise: Increment) -> Array:
    """Return the state after a step by the mean of both ends, in Stratonovich's form."""
    w = noise.change
    drifts, spreads = [drift(t, y)], [diffusion(t, y)]
    guess = _add(_add(y, (1.0,), drifts, h), (1.0,), spreads, w)
    drifts.append(drift(t + h, guess))
    spreads.append(diffusion(t + h, guess))
    return _add(_add(y, (0.5, 0.5), drifts, h), (0.5, 0.5), spreads, w)


def _step(tab: Tableau, drift: Field, diffusion: Field, t: Array, y: Array, h: Array, noise: Increment) -> Array:
    """Return the state after a step of a stochastic Runge-Kutta method."""
    w, whole = noise.change, where(h > 0, h, 1.0)
    size = sqrt(whole)
    integrals = (w, (w * w - h) / (2 * size), noise.mean, (w * w * w - 3 * h * w) / (6 * whole))
    drifts: list[Array] = []
    spreads: list[Array] = []
    stages = zip(tab.drift_nodes, tab.noise_nodes, *tab.drift, *tab.noise, strict=True)
    for k, (c0, c1, a0, a1, b0, b1) in enumerate(stages):
        at = _add(_add(y, a0, drifts, h), b0, spreads, integrals[2])
        noisy = _add(_add(y, a1, drifts, h), b1, spreads, size)
        used = k < max(map(len, (tab.alpha, *tab.drift[0], *tab.drift[1])))
        drifts.append(drift(t + c0 * h, at) if used else y)
        spreads.append(diffusion(t + c1 * h, noisy))
    z = _add(y, tab.alpha, drifts, h)
    for weights, integral in zip(tab.beta, integrals, strict=True):
        z = _add(z, weights, spreads, integral)
    if not tab.correction:
        return z

    def spread(v: Array) -> Array:
        return diffusion(t, v)

    slope = jvp(spread, (y,), (spreads[0],))[1]
    return z + slope * integrals[1] * size


def _add(start: Array, weights: Weights, vectors: list[Array], factor: Array) -> Array:
    """Return a state plus a weighted sum, each vector times a number or a matrix times noises."""
    for weight, v in zip(weights, vectors, strict=False):
        if weight:
            start = start + weight * (v * factor if v.ndim == 1 else matmul(v, factor))
    return start
