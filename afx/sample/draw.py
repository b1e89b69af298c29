"""Draws: `draw` and `extend`, whole runs of several chains from their start through the warm-up."""

from __future__ import annotations

import contextlib
import functools
import importlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, Generic, Literal, TypeVar, cast

import attrs
import numpy as np

from afx import pytree
from afx.control.cond import cond
from afx.control.solving import are_plain, compile_for, flatten_to_vector
from afx.control.while_loop import while_loop
from afx.core import Array, ArrayLike, Shown
from afx.errors import ArgumentError, MissingExtraError
from afx.ops import any as any_, asarray, exp, eye, isfinite, log, maximum, outer, sqrt, where, zeros, zeros_like
from afx.ops.linalg.factorizations import cholesky
from afx.ops.random.bits import check_key
from afx.optim.solvers.descend import choose
from afx.random.keys import fold_in, normal, split, uniform
from afx.sample.approximations import Approximation, approximation_of
from afx.sample.bijectors import check_dependence, position_of_start, start_of
from afx.sample.hamiltonian import Info, Sampler, State, find_step_size, push
from afx.transforms._arguments import describe, whole_number
from afx.transforms.vmap import vmap

# --- Adaptation: step sizes by dual averaging, and scales from the draws of windows that grow, as in Stan
#
# Sources: Hoffman & Gelman 2014, section 3.2; Stan reference manual, chapter "MCMC sampling", "Automatic parameter
# tuning".

T = TypeVar("T")

FIRST, WINDOW, LAST = 75, 25, 50  # the lengths of Stan's phases, of 1,000 steps
SHRINKAGE: Final = 0.05  # gamma, t0 and kappa of Hoffman & Gelman
OFFSET: Final = 10
DECAY: Final = 0.75
WINDOWS_MAX: Final = 32


@attrs.frozen
class Schedule:
    """When a warm-up learns what.

    Attributes:
        warmup: its number of steps.
        slow: the first step whose draw is learned from, and the one behind the last.
        closes: int[32], the steps before which the scale is set from the draws since then, -1 behind the last.
    """

    warmup: Array
    slow: Array
    closes: Array


@attrs.frozen
class Adaptation(Shown):
    """What a chain has learned.

    Attributes:
        log_step: the logarithm of the step size.
        log_step_mean: that of the step size to keep.
        error: the mean of how much acceptance falls short of its target.
        center: the logarithm of the step size that dual averaging shrinks to.
        steps: learned from since the scale was set.
        draws: learned from since then.
        mean: float[n], of these.
        spread: float[n] or float[n, n], the sum of their squared deviations, or of products of these.
    """

    log_step: Array
    log_step_mean: Array
    error: Array
    center: Array
    steps: Array
    draws: Array
    mean: Array
    spread: Array


def schedule_windows(warmup: int) -> Schedule:
    """Return Stan's schedule: 75 steps, windows of 25, 50, 100 … draws, and 50 steps; in proportion if it is short."""
    first, last, width = FIRST, LAST, WINDOW
    if warmup < first + width + last:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
        width = warmup - first - last
    closes = list[int]()
    end = first
    while warmup >= 20 and width and end + width <= warmup - last:
        # a window that would leave too little for the next one takes it too
        end = warmup - last if end + 3 * width > warmup - last else end + width
        closes.append(end)
        width *= 2
    slow = (first, closes[-1]) if closes else (0, 0)
    return Schedule(asarray(warmup), asarray(slow), asarray([*closes, *[-1] * (WINDOWS_MAX - len(closes))]))


def begin(position: Array, step_size: Array, is_dense: bool) -> Adaptation:
    """Return what is known before the first step."""
    n, dtype = position.shape[0], position.dtype
    return _know_only(step_size, zeros(n, dtype), zeros((n, n) if is_dense else n, dtype))


def restart(a: Adaptation, step_size: Array) -> Adaptation:
    """Return an adaptation that has learned nothing but a step size to begin with."""
    return _know_only(step_size, zeros_like(a.mean), zeros_like(a.spread))


def _know_only(step_size: Array, mean: Array, spread: Array) -> Adaptation:
    log_step, none = log(step_size), zeros_like(step_size)
    return Adaptation(log_step, log_step, none, log(10 * step_size), steps=none, draws=none, mean=mean, spread=spread)


def learn_step(a: Adaptation, acceptance: Array, target: Any) -> Adaptation:
    """Return the adaptation after a step was accepted with a probability: one step of dual averaging."""
    t = a.steps + 1
    weight = 1 / (t + OFFSET)
    error = (1 - weight) * a.error + weight * (target - acceptance)
    log_step = a.center - sqrt(t) / SHRINKAGE * error
    share = exp(-DECAY * log(t))
    mean = share * log_step + (1 - share) * a.log_step_mean
    return attrs.evolve(a, log_step=log_step, log_step_mean=mean, error=error, steps=t)


def learn_draw(a: Adaptation, x: Array) -> Adaptation:
    """Return the adaptation after one more draw (Welford 1962)."""
    count = a.draws + 1
    change = x - a.mean
    mean = a.mean + change / count
    rest = x - mean
    product = change * rest if a.spread.ndim == 1 else outer(change, rest)
    return attrs.evolve(a, draws=count, mean=mean, spread=a.spread + product)


def scale_of(a: Adaptation, old: Array) -> Array:
    """Return the scale that draws have taught: the estimate shrunk to 0.001 as in Stan; the old one of less than two."""
    count = a.draws
    spread = a.spread / maximum(count - 1, 1)
    unit = 1.0 if a.spread.ndim == 1 else eye(a.mean.shape[0], dtype=a.mean.dtype)
    shrunk = (count * spread + 5e-3 * unit) / (count + 5)
    return where(count > 1, sqrt(shrunk) if a.spread.ndim == 1 else cholesky(shrunk), old)


# --- Chains: several of them that step together, and what they learn in their warm-up

BLOCK: Final = 100  # steps at most in one call of the compiled program
ATTEMPTS: Final = 20
FIRST_STEP: Final = 1.0


@attrs.frozen
class Chains(Shown, Generic[T]):
    """Chains on their way: a tree, from which they go on with the same bits.

    Attributes:
        state: of each chain, with an axis in front.
        adaptation: what each has learned.
        keys: uint32[chains, 2], of each.
        count: how many steps each has made, those of the warm-up included.
        schedule: of the warm-up.
        target: the acceptance that step sizes are adapted to.
    """

    state: State[T]
    adaptation: Adaptation
    keys: Array
    count: Array
    schedule: Schedule
    target: Array


@attrs.frozen
class Row(Generic[T]):
    """What one step of all chains gives.

    Attributes:
        position: the unconstrained draws.
        log_density: of these.
        info: of the step.
    """

    position: T
    log_density: Array
    info: Info


def begin_chains(
    sampler: Sampler[T],
    key: Array,
    start: T | Approximation[T],
    chains: int,
    spread: float,
    warmup: int,
    is_dense: bool,
    target: float,
) -> Chains[T]:
    """Return chains that begin near a start, each at its own place.

    Raises:
        ArgumentError: the density is not finite at the start itself.
    """
    law = approximation_of(start)
    position: T = position_of_start(sampler.constraints, cast("T", start), "draw") if law is None else law.position
    center, unravel = flatten_to_vector(position, "draw")
    check_dependence(sampler.log_density, sampler.constraints, unravel(center), "draw")

    def move(seed: Array) -> Array:
        if law is None:
            return uniform(seed, center.shape, -spread, spread, dtype=center.dtype)
        return push(law.scale, normal(seed, center.shape, dtype=center.dtype))

    places, states = _find_starts(sampler, center, unravel, [move(k) for k in split(fold_in(key, 1), chains)])
    state: State[T] = pytree.map(lambda *xs: asarray(np.stack(xs)), *states)
    if is_dense:
        state = attrs.evolve(state, scale=asarray(np.tile(np.eye(center.size, dtype=center.dtype), (chains, 1, 1))))
    learned = vmap(functools.partial(begin, is_dense=is_dense))(places, state.step_size)
    aim = asarray(target, center.dtype)
    return Chains(state, learned, split(key, chains), asarray(0), schedule_windows(warmup), aim)


def _find_starts(
    sampler: Sampler[T], center: Array, unravel: Callable[[Array], T], moves: Sequence[Array]
) -> tuple[Array, list[State[T]]]:
    """Return vectors and states that are moved from the center as far as the density is finite."""
    for share in (*[0.5**attempt for attempt in range(ATTEMPTS)], 0.0):
        places = [center + share * move for move in moves]
        states = [sampler.begin(unravel(x), step_size=FIRST_STEP) for x in places]
        if all(isfinite(x).all() for s in states for x in [s.log_density, *pytree.leaves(s.gradient)]):
            return asarray(np.stack(places)), states
    raise ArgumentError(
        f"draw: the log density, or its gradient, is not finite at the start: got {center.aval}; "
        "begin where it is, and give constraints to what has bounds"
    )


def advance_block(sampler: Sampler[T], chains: Chains[T], steps: Array) -> tuple[Chains[T], Row[T]]:
    """Return the chains after some steps, at most ``BLOCK``, and what each gave, in the first rows of a block."""
    shapes = Row(chains.state.position, chains.state.log_density, _no_info(chains))
    block = pytree.map(lambda x: zeros((BLOCK, *x.shape), x.dtype), shapes)

    def advance(carry: tuple[Array, Chains[T], Row[T]]) -> tuple[Array, Chains[T], Row[T]]:
        k, now, rows = carry
        new, row = _step(sampler, now)
        return k + 1, new, pytree.map(lambda xs, x: xs.at[k].set(x), rows, row)

    with np.errstate(all="ignore"):  # trajectories may leave the support: warnings would make machine code run again
        _, chains, block = while_loop(lambda carry: carry[0] < steps, advance, (asarray(0), chains, block))
    return chains, block


def _no_info(chains: Chains[Any]) -> Info:
    count, value = chains.keys.shape[0], chains.state.log_density
    whole, places = zeros(count, int), chains.adaptation.mean
    return Info(value, value, whole, whole, zeros(count, bool), places)


def _step(sampler: Sampler[T], chains: Chains[T]) -> tuple[Chains[T], Row[T]]:
    """Return the chains after one step of each."""
    plan, count = chains.schedule, chains.count

    def renew(key: Array) -> Array:
        return split(fold_in(key, count))

    def move(state: State[T], learned: Adaptation, keys: Array) -> tuple[State[T], Adaptation, Info]:
        state, info = sampler.step(state, keys[0])
        return (*_learn(chains, state, learned, info), info)

    keys = vmap(renew)(chains.keys)
    retunes = any_(plan.closes == count) | ((count == 0) & (plan.warmup > 0))
    state, learned = cond(
        retunes,
        vmap(lambda state, learned, keys: _retune(sampler, state, learned, keys[1])),
        lambda state, learned, _: (state, learned),
        chains.state,
        chains.adaptation,
        keys,
    )
    state, learned, info = vmap(move)(state, learned, keys)
    row = Row(state.position, state.log_density, info)
    return attrs.evolve(chains, state=state, adaptation=learned, count=count + 1), row


def _retune(sampler: Sampler[T], state: State[T], learned: Adaptation, key: Array) -> tuple[State[T], Adaptation]:
    """Return a chain with the scale that it has learned, and a step size to begin with there."""
    state = attrs.evolve(state, scale=scale_of(learned, state.scale))
    state = attrs.evolve(state, step_size=find_step_size(sampler, state, key))
    return state, restart(learned, state.step_size)


def _learn(chains: Chains[Any], state: State[T], learned: Adaptation, info: Info) -> tuple[State[T], Adaptation]:
    """Return a chain that has learned from its step, where it still does."""
    plan, count = chains.schedule, chains.count
    learning = count < plan.warmup
    stepped = choose(learning, learn_step(learned, info.acceptance, chains.target), learned)
    is_slow = (count >= plan.slow[0]) & (count < plan.slow[1])
    seen = choose(is_slow, learn_draw(stepped, flatten_to_vector(state.position, "draw")[0]), stepped)
    wanted = exp(where(count == plan.warmup - 1, seen.log_step_mean, seen.log_step))
    return attrs.evolve(state, step_size=where(learning, wanted, state.step_size)), seen


# --- `draw` and `extend`: whole runs of several chains, from their start through the warm-up to their draws

PER_DRAW: Final = ("params", "log_density", "energy", "acceptance", "leaps", "depth", "diverged")
SETTLING_CALLS: Final = 24  # of one step each: machine code is made and compared with NumPy's calls meanwhile
SECONDS: Final = 0.1  # a block may take


@attrs.frozen
class Draws(Shown, Generic[T]):
    """Draws of several chains, a tree: `afx.io` saves it, and `extend` goes on from it.

    Attributes:
        params: the constrained parameters, leaves [chains, draws, ...].
        log_density: float[chains, draws], of the unconstrained ones.
        energy: float[chains, draws], of the points drawn with their momenta.
        acceptance: float[chains, draws], the mean probability with which points of a trajectory would be accepted.
        leaps: int[chains, draws], how many gradients each draw took.
        depth: int[chains, draws], how often its trajectory was doubled.
        diverged: bool[chains, draws], whether the error of the energy exceeded 1000.
        divergences: int[count, 2], draw and chain of each of these, in the order of time.
        places: the parameters where each of these trajectories broke off, leaves [count, ...].
        chains: where they are now.
    """

    params: T
    log_density: Array
    energy: Array
    acceptance: Array
    leaps: Array
    depth: Array
    diverged: Array
    divergences: Array
    places: T
    chains: Chains[T]


def draw(
    sampler: Sampler[T],
    key: ArrayLike,
    start: T | Approximation[T] | None = None,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    target: float = 0.8,
    mass: Literal["diagonal", "dense"] = "diagonal",
    spread: float = 1.0,
    show_progress: bool = False,
) -> Draws[T]:
    """Return draws of several chains, after a warm-up that tunes step sizes and mass matrices as Stan does.

    The chains step together as one program, compiled once for each sampler: what its density closes over is read once, as
    under `jit`. The same key gives the same bits, by NumPy and by machine code.

    Args:
        sampler: from `nuts` or `hmc`.
        key: uint32[2].
        start: parameters within the constraints, a tree of floating arrays; their dtype is that of the chains. That of a
            `Model` is its `Model.initial`. Of an approximation, as `pathfinder`'s, each chain begins at a draw.
        draws: of each chain, behind the warm-up.
        warmup: steps that are not kept.
        chains: how many.
        target: the mean acceptance of steps that the warm-up aims at; nearer to 1 where there are divergences.
        mass: ``diagonal`` estimates variances, ``dense`` the whole covariance.
        spread: how far from the start a chain may begin, in each unconstrained parameter.
        show_progress: whether a bar shows the steps (extra ``progress``).

    Raises:
        ArgumentError: a number below its least, or a start without numbers or where the density is not finite.

    >>> import afx
    >>> from afx import sample
    >>> normal = sample.nuts(lambda x: -0.5 * afx.sum(x**2))
    >>> sample.draw(normal, afx.random.key(0), np.zeros(2), draws=5, warmup=5).params.shape
    (4, 5, 2)
    """
    draws, warmup = whole_number("draws", draws, "draw", 0), whole_number("warmup", warmup, "draw", 0)
    chains = whole_number("chains", chains, "draw")
    check_key(key, "draw")
    if mass not in ("diagonal", "dense"):
        raise ArgumentError(f"draw: no such mass matrix: got {mass!r}; use 'diagonal' or 'dense'")
    if not 0 < target < 1:
        raise ArgumentError(f"draw: target is a probability: got {target}; give one between 0 and 1")
    begin_at: Any = start_of(sampler.log_density, start, "draw")
    if approximation_of(begin_at) is None and not any(asarray(x).size for x in pytree.leaves(begin_at)):
        raise ArgumentError(f"draw: there is no parameter: got start={begin_at!r}; give a tree of floating arrays")
    begun = begin_chains(sampler, asarray(key), begin_at, chains, spread, warmup, mass == "dense", target)
    return _run(sampler, begun, warmup, draws, show_progress)


def check_draws(draws: object, who: str) -> None:
    """Raise where what should be draws is something else, such as their parameters alone."""
    if not isinstance(draws, Draws):
        raise ArgumentError(f"{who}: takes what draw returns: got {describe(draws)}; pass the whole of it")


def extend(sampler: Sampler[T], draws: Draws[T], count: int, *, show_progress: bool = False) -> Draws[T]:
    """Return draws with more behind them: the same bits as if all had been drawn at once.

    Args:
        sampler: the one that they were drawn with.
        draws: from `draw`, or `afx.io.load`.
        count: of further draws of each chain.
        show_progress: whether a bar shows the steps (extra ``progress``).

    >>> import afx
    >>> from afx import sample
    >>> normal = sample.nuts(lambda x: -0.5 * afx.sum(x**2))
    >>> first = sample.draw(normal, afx.random.key(0), np.zeros(2), draws=2, warmup=5, chains=1)
    >>> whole = sample.draw(normal, afx.random.key(0), np.zeros(2), draws=4, warmup=5, chains=1)
    >>> afx.pytree.equal(sample.extend(normal, first, 2), whole)
    True
    """
    check_draws(draws, "extend")
    count = whole_number("count", count, "extend", 0)
    more = _run(sampler, draws.chains, 0, count, show_progress)
    shift = np.array([draws.log_density.shape[1], 0])

    def join(old: Any, new: Any, axis: int = 1) -> Any:
        return pytree.map(lambda x, y: asarray(np.concatenate([x, y], axis=axis)), old, new)

    return attrs.evolve(
        more,
        **{name: join(getattr(draws, name), getattr(more, name)) for name in PER_DRAW},
        divergences=join(draws.divergences, more.divergences + shift, 0),
        places=join(draws.places, more.places, 0),
    )


def _run(sampler: Sampler[T], chains: Chains[T], skipped: int, count: int, show_progress: bool) -> Draws[T]:
    """Return the draws behind some that are skipped."""
    rows = list[Any]()
    done = 0
    with _show(skipped + count, show_progress) as update:
        for last, block, size in _blocks(sampler, chains, skipped + count):
            chains, first = last, max(skipped - done, 0)
            rows.append(pytree.map(lambda x, s=size, b=first: np.asarray(x)[b:s], block))
            done += size
            update(size)
    return _gather(sampler, chains, pytree.map(lambda *xs: np.concatenate(xs), *rows))


def _blocks(sampler: Sampler[T], chains: Chains[T], total: int) -> Iterator[tuple[Chains[T], Row[T], int]]:
    """Yield the chains after each block of steps, what these gave, and how many they were."""

    def advance(chains: Chains[T], steps: Array) -> tuple[Chains[T], Row[T]]:
        return advance_block(sampler, chains, steps)

    run = compile_for(sampler, advance, chains, asarray(0), name="draw") if are_plain(chains) else advance
    done = calls = 0
    size = 1
    while not calls or done < total:
        began = time.perf_counter()
        steps = min(size, total - done)
        chains, row = run(chains, asarray(steps))
        yield chains, row, steps
        done, calls = done + steps, calls + 1
        if calls >= SETTLING_CALLS and time.perf_counter() - began < SECONDS / 2:
            size = min(2 * size, BLOCK)


@contextlib.contextmanager
def _show(total: int, show_progress: bool) -> Generator[Callable[[int], Any]]:
    """Give the function that counts steps, on a bar if there is to be one."""
    if not show_progress:
        yield int
        return
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise MissingExtraError('draw: a bar needs tqdm: got none; pip install "afx[progress]"') from error
    with tqdm(total=total, desc="draw") as bar:
        yield bar.update


def _gather(sampler: Sampler[T], chains: Chains[T], rows: Row[T]) -> Draws[T]:
    """Return rows of steps as draws of chains."""
    info = rows.info
    unravel = flatten_to_vector(pytree.map(lambda x: x[0], chains.state.position), "draw")[1]
    broken = np.argwhere(info.diverged)

    def constrain(x: Array) -> T:
        return sampler.params(unravel(x))

    shape = np.shape(rows.log_density)

    with np.errstate(all="ignore"):
        params = vmap(sampler.params)(
            pytree.map(lambda x: np.reshape(x, (shape[0] * shape[1], *np.shape(x)[2:])), rows.position)
        )
        places = vmap(constrain)(asarray(np.asarray(info.last)[tuple(broken.T)]))
    by_chain = pytree.map(lambda x: asarray(np.swapaxes(np.reshape(x, (*shape, *np.shape(x)[1:])), 0, 1)), params)
    per_draw = {name: asarray(np.swapaxes(getattr(info, name), 0, 1)) for name in PER_DRAW[2:]}
    values = asarray(np.swapaxes(rows.log_density, 0, 1))
    return Draws(by_chain, values, **per_draw, divergences=asarray(broken), places=places, chains=chains)
