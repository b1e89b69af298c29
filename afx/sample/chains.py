"""Chains: several of them that step together, and what they learn in their warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.cond import cond
from afx.control.solving.functions import flatten_to_vector
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.where import where
from afx.ops.reductions.boolean import any as any_
from afx.random.basic import uniform
from afx.random.keys import fold_in, split
from afx.sample.adaptation import (
    Adaptation,
    Schedule,
    begin,
    learn_draw,
    learn_step,
    restart,
    scale_of,
    schedule_windows,
)
from afx.sample.checks import check_dependence, position_of_start
from afx.sample.hamiltonian import Info, Sampler, State, choose, find_step_size
from afx.transforms.vmap import vmap

__all__ = ["BLOCK", "Chains", "Row", "advance_block", "begin_chains"]

T = TypeVar("T")

BLOCK: Final = 100  # steps at most in one call of the compiled program
ATTEMPTS: Final = 20
FIRST_STEP: Final = 1.0


@attrs.frozen
class Chains(Generic[T]):
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
    sampler: Sampler[T], key: Array, start: T, chains: int, spread: float, warmup: int, is_dense: bool, target: float
) -> Chains[T]:
    """Return chains that begin near a start, each at its own place.

    Raises:
        ArgumentError: the density is not finite at the start itself.
    """
    position = position_of_start(sampler.constraints, start, "draw")
    center, unravel = flatten_to_vector(position, "draw")
    check_dependence(sampler.log_density, sampler.constraints, unravel(center), "draw")
    seeds = split(fold_in(key, 1), chains)
    moves = [uniform(k, center.shape, -spread, spread, dtype=center.dtype) for k in seeds]
    places, states = _find_starts(sampler, center, unravel, moves)
    state: State[T] = pytree.map(lambda *xs: asarray(np.stack(xs)), *states)
    if is_dense:
        n = center.shape[0]
        state = attrs.evolve(state, scale=asarray(np.broadcast_to(np.eye(n, dtype=center.dtype), (chains, n, n))))

    def learn_nothing(x: Array, step: Array) -> Adaptation:
        return begin(x, step, is_dense)

    learned = vmap(learn_nothing)(places, state.step_size)
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

    def going(carry: tuple[Array, Chains[T], Row[T]]) -> Array:
        return carry[0] < steps

    def advance(carry: tuple[Array, Chains[T], Row[T]]) -> tuple[Array, Chains[T], Row[T]]:
        k, now, rows = carry
        new, row = _step(sampler, now)
        return k + 1, new, pytree.map(lambda xs, x: xs.at[k].set(x), rows, row)

    with np.errstate(all="ignore"):  # trajectories may leave the support: warnings would make machine code run again
        _, chains, block = while_loop(going, advance, (asarray(0), chains, block))
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

    def retune(state: State[T], learned: Adaptation, keys: Array) -> tuple[State[T], Adaptation]:
        return _retune(sampler, state, learned, keys[1])

    def move(state: State[T], learned: Adaptation, keys: Array) -> tuple[State[T], Adaptation, Info]:
        state, info = sampler.step(state, keys[0])
        return (*_learn(chains, state, learned, info), info)

    def keep(state: State[T], learned: Adaptation, _: Array) -> tuple[State[T], Adaptation]:
        return state, learned

    keys = vmap(renew)(chains.keys)
    retunes = any_(plan.closes == count) | ((count == 0) & (plan.warmup > 0))
    state, learned = cond(retunes, vmap(retune), keep, chains.state, chains.adaptation, keys)
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
