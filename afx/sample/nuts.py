"""NUTS: Hamiltonian trajectories that double until they turn back, one point drawn from each.

The tree is built leaf by leaf in one loop: points at which subtrees begin wait in a stack of one row a level, so that the
loop compiles and batches (Phan, Pradhan & Jankowiak 2019, appendix A). Points are drawn by their weights (Betancourt 2017,
appendix A.3), and a trajectory also ends where two neighbouring subtrees turn back across their border, as in Stan.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import attrs
import numpy as np

from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, zeros, zeros_like
from afx.ops.elementwise.exponential import exp, log, logaddexp
from afx.ops.elementwise.where import minimum, where
from afx.ops.reductions.boolean import any as any_
from afx.ops.reductions.sums import sum as sum_
from afx.random.basic import uniform
from afx.random.keys import fold_in, split
from afx.sample.hamiltonian import (
    MAX_ENERGY_ERROR,
    Info,
    Point,
    Sampler,
    State,
    Target,
    choose,
    energy,
    leap,
)
from afx.transforms._arguments import whole_number

__all__ = ["nuts"]

T = TypeVar("T")

LEVELS_MAX: Final = 24
LAST_BITS: Final = 2 ** np.arange(LEVELS_MAX) - 1


def _check_depth(value: Any) -> int:
    depth = whole_number("max_depth", value, "nuts")
    if depth > LEVELS_MAX:
        raise ArgumentError(f"nuts: max_depth is at most {LEVELS_MAX}: got {depth}; choose a smaller one")
    return depth


@attrs.frozen
class Stack:
    """What is remembered of the last leaf at which a subtree of 2^level leaves began, float[n, levels] each.

    Levels are the last axis, so that sums over the parameters run over all levels side by side.

    Attributes:
        first: the momentum of the leaf.
        before: the momentum of the leaf before it.
        total: the sum of momenta up to the leaf, itself included.
    """

    first: Array
    before: Array
    total: Array


@attrs.frozen
class Tree:
    """A trajectory that grows.

    Attributes:
        now: the leaf made last.
        left: the end in the past.
        right: the end in the future.
        drawn: the point drawn from finished subtrees, and its energy.
        weight: the logarithm of their summed weights.
        total: the sum of their momenta.
        fresh: the point drawn from the subtree that grows, and its energy.
        fresh_weight: the logarithm of its weights.
        fresh_total: the sum of its momenta.
        opening: the momentum of its first leaf.
        stack: of its own subtrees.
        forward: whether it grows into the future.
        leaf: how many leaves it has.
        depth: how often the trajectory was doubled.
        leaps: of the whole trajectory.
        acceptance: the sum of probabilities of acceptance.
        turned: whether the trajectory turns back.
        diverged: whether the energy's error is too large.
    """

    now: Point
    left: Point
    right: Point
    drawn: tuple[Point, Array]
    weight: Array
    total: Array
    fresh: tuple[Point, Array]
    fresh_weight: Array
    fresh_total: Array
    opening: Array
    stack: Stack
    forward: Array
    leaf: Array
    depth: Array
    leaps: Array
    acceptance: Array
    turned: Array
    diverged: Array


@attrs.frozen
class nuts(Sampler[T]):  # named as what it reads as
    """The no-U-turn sampler of a density (Hoffman & Gelman 2014; Betancourt 2017), the choice for most models.

    Attributes:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        constraints: a tree of bijectors over the parameters, None where there are none.
        max_depth: a trajectory has at most 2 to this power leaps.

    >>> import afx
    >>> sampler = nuts(lambda x: -0.5 * afx.sum(x**2))
    >>> state, info = sampler.step(sampler.init(np.zeros(2)), afx.random.key(0))
    >>> int(info.leaps)
    3
    """

    max_depth: int = attrs.field(default=10, converter=_check_depth)

    def step(self, state: State[T], key: Array) -> tuple[State[T], Info]:
        """Return the next state of a chain, and what is known of the step."""
        with np.errstate(all="ignore"):
            first, second = split(key)
            target, unravel, point = self.start(state, first)
            tree = _grow(target, state, point, second, self.max_depth)
        drawn, found = tree.drawn
        new = State(unravel(drawn.position), drawn.log_density, unravel(drawn.gradient), state.step_size, state.scale)
        mean = tree.acceptance / tree.leaps.astype(tree.acceptance.dtype)
        return new, Info(found, mean, tree.leaps, tree.depth, tree.diverged, tree.now.position)


def _grow(target: Target, state: State[T], point: Point, key: Array, max_depth: int) -> Tree:
    """Return the whole trajectory through a point."""
    start = energy(point)
    levels = max_depth

    def going(tree: Tree) -> Array:
        return ~tree.turned & ~tree.diverged & (tree.depth < max_depth)

    def advance(tree: Tree) -> Tree:
        luck = uniform(fold_in(key, tree.leaps), (3,), dtype=point.position.dtype)
        return _close(_add_leaf(target, state, start, tree, luck[0], levels), luck[1], luck[2] < 0.5)

    return while_loop(going, advance, _plant(point, start, key, levels))


def _plant(point: Point, start: Array, key: Array, levels: int) -> Tree:
    """Return the trajectory of one point."""
    p = point.momentum
    nought = zeros_like(start)
    rows = zeros((p.shape[0], levels), p.dtype)
    forward = uniform(fold_in(key, -1), dtype=p.dtype) < 0.5
    return Tree(
        now=point,
        left=point,
        right=point,
        drawn=(point, start),
        weight=nought,
        total=p,
        fresh=(point, start),
        fresh_weight=nought - np.inf,
        fresh_total=zeros_like(p),
        opening=p,
        stack=Stack(rows, rows, rows),
        forward=forward,
        leaf=asarray(0),
        depth=asarray(0),
        leaps=asarray(0),
        acceptance=nought,
        turned=asarray(False),
        diverged=asarray(False),
    )


def _add_leaf(target: Target, state: State[T], start: Array, tree: Tree, luck: Array, levels: int) -> Tree:
    """Return the trajectory with one more leaf in the subtree that grows."""
    before = tree.now.momentum
    now = leap(target, state.scale, tree.now, where(tree.forward, state.step_size, -state.step_size))
    found = energy(now)
    gain = start - found
    weight = logaddexp(tree.fresh_weight, gain)
    is_first = tree.leaf == 0
    taken = is_first | (log(luck) < gain - weight)
    total = tree.fresh_total + now.momentum
    begins, ends = ((tree.leaf + k) & LAST_BITS[:levels] == 0 for k in (0, 1))
    stack = _remember(tree.stack, begins, now.momentum, before, total)
    turned = any_(ends[1:] & _turns_inside(stack, now.momentum, total))
    return attrs.evolve(
        tree,
        now=now,
        fresh=choose(taken, (now, found), tree.fresh),
        fresh_weight=weight,
        fresh_total=total,
        opening=where(is_first, now.momentum, tree.opening),
        stack=stack,
        leaf=tree.leaf + 1,
        leaps=tree.leaps + 1,
        acceptance=tree.acceptance + minimum(1.0, exp(gain)),
        turned=turned,
        diverged=~(gain > -MAX_ENERGY_ERROR),
    )


def _turns(total: Array, begin: Array, end: Array) -> Array:
    """Tell whether a trajectory with this sum of momenta turns back at one of its ends."""
    return (sum_(total * begin, axis=0) <= 0) | (sum_(total * end, axis=0) <= 0)


def _turns_across(totals: tuple[Array, Array], outer: tuple[Array, Array], inner: tuple[Array, Array]) -> Array:
    """Tell whether two neighbouring subtrees turn back, as a whole or across their border.

    Args:
        totals: their sums of momenta.
        outer: the momenta at their far ends.
        inner: the momenta at their common border.
    """
    (a, b), (first, last), (border, beyond) = totals, outer, inner
    return _turns(a + b, first, last) | _turns(a + beyond, first, beyond) | _turns(b + border, border, last)


def _remember(stack: Stack, begins: Array, first: Array, before: Array, total: Array) -> Stack:
    """Return the stack with a leaf in the columns of the levels where subtrees begin with it."""
    return Stack(
        where(begins, first[:, None], stack.first),
        where(begins, before[:, None], stack.before),
        where(begins, total[:, None], stack.total),
    )


def _turns_inside(stack: Stack, last: Array, total: Array) -> Array:
    """Tell of the subtree of each level above the first whether it turns back when it ends with this leaf."""
    seen = stack.total - stack.first  # before the subtree of each level
    left, right = seen[:, :-1] - seen[:, 1:], total[:, None] - seen[:, :-1]  # a column before stands the second half
    return _turns_across(
        (left, right), (stack.first[:, 1:], last[:, None]), (stack.before[:, :-1], stack.first[:, :-1])
    )


def _close(tree: Tree, luck: Array, forward: Array) -> Tree:
    """Return the trajectory with the subtree joined to it, where that is complete and may be."""
    closed = tree.leaf == (asarray(1) << tree.depth)
    joined = closed & ~tree.turned & ~tree.diverged
    taken = joined & (log(luck) < tree.fresh_weight - tree.weight)
    inner = where(tree.forward, tree.right.momentum, tree.left.momentum)
    outer = where(tree.forward, tree.left.momentum, tree.right.momentum)
    turned = _turns_across((tree.total, tree.fresh_total), (outer, tree.now.momentum), (inner, tree.opening))
    left = choose(joined & ~tree.forward, tree.now, tree.left)
    right = choose(joined & tree.forward, tree.now, tree.right)
    forward = where(joined, forward, tree.forward)
    turned = tree.turned | (joined & turned)
    going = joined & ~turned
    return attrs.evolve(
        tree,
        now=choose(going, choose(forward, right, left), tree.now),
        left=left,
        right=right,
        drawn=choose(taken, tree.fresh, tree.drawn),
        weight=where(joined, logaddexp(tree.weight, tree.fresh_weight), tree.weight),
        total=where(joined, tree.total + tree.fresh_total, tree.total),
        fresh_weight=where(joined, -np.inf, tree.fresh_weight),
        fresh_total=where(joined, 0.0, tree.fresh_total),
        forward=forward,
        leaf=where(joined, 0, tree.leaf),
        depth=tree.depth + joined,
        turned=turned,
    )
