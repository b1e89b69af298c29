"""Hamiltonian dynamics: leapfrog steps, trajectories of given length, and those that double until they turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import numpy as np

from afx.control.solving import flatten_to_vector
from afx.control.while_loop import fori_loop, while_loop
from afx.core import Array, Shown
from afx.errors import ArgumentError, ShapeError
from afx.ops import exp, isnan, log, logaddexp, minimum, stack, sum as sum_, vecdot, where
from afx.ops.creation.creation import asarray, ones, stop_gradient, zeros, zeros_like
from afx.ops.linalg.factorizations import giving_nan
from afx.optim.solvers.descend import choose
from afx.random.keys import fold_in, normal, split, uniform
from afx.sample.bijectors import Constraints, checked_density, constrain, constraints_of, log_det, position_of_start
from afx.transforms._arguments import check_callable, whole_number
from afx.transforms.derivatives.grad import value_and_grad

# --- Hamiltonian dynamics: states of a chain, points of phase space and the leapfrog step, in standardized units
#
# A sampler works on one vector x with ``position = scale x``, where the scale estimates standard deviations or a
# Cholesky factor of the covariance; the mass matrix is then the identity (Neal 2011, section 4.1).

T = TypeVar("T")

LogDensity: TypeAlias = Callable[[T], Array]
Target: TypeAlias = Callable[[Array], tuple[Array, Array]]

MAX_ENERGY_ERROR = 1000.0  # as in Stan: beyond, a trajectory has left the level set for good
MAX_DOUBLINGS = 50


@attrs.frozen
class State(Shown, Generic[T]):
    """The state of one chain.

    Attributes:
        position: the unconstrained parameters.
        log_density: there, with the determinants of the constraints.
        gradient: of it, a tree as the position.
        step_size: of the leapfrog method, in standardized units.
        scale: float[n], standard deviations, or float[n, n], a Cholesky factor of the covariance.
    """

    position: T
    log_density: Array
    gradient: T
    step_size: Array
    scale: Array


@attrs.frozen
class Info(Shown):
    """What is known of one step of a chain.

    Attributes:
        energy: of the point drawn, with its momentum.
        acceptance: the mean probability with which points of the trajectory would be accepted.
        leaps: how many gradients were evaluated.
        depth: how often the trajectory was doubled; 0 for a sampler without trees.
        diverged: whether the error of the energy exceeded 1000.
        last: float[n], where the trajectory ended: the place of a divergence.
    """

    energy: Array
    acceptance: Array
    leaps: Array
    depth: Array
    diverged: Array
    last: Array


@attrs.frozen
class Point:
    """A point of phase space: position and gradient in their own units, the momentum in standardized ones."""

    position: Array
    momentum: Array
    gradient: Array
    log_density: Array


def pull(scale: Array, v: Array) -> Array:
    """Return a gradient in standardized units."""
    return scale * v if scale.ndim == 1 else v @ scale


def push(scale: Array, v: Array) -> Array:
    """Return a velocity in the units of the position."""
    return scale * v if scale.ndim == 1 else scale @ v


def leap(target: Target, scale: Array, point: Point, step: Array) -> Point:
    """Return the point after one leapfrog step, backwards in time where the step is negative."""
    p = point.momentum + 0.5 * step * pull(scale, point.gradient)
    x = point.position + step * push(scale, p)
    value, gradient = target(x)
    return Point(x, p + 0.5 * step * pull(scale, gradient), gradient, value)


def energy(point: Point) -> Array:
    """Return the energy of a point, infinite where its density is not known."""
    total = 0.5 * vecdot(point.momentum, point.momentum) - point.log_density
    return where(isnan(total), np.inf, total)


@attrs.frozen
class Sampler(Generic[T]):
    """A sampler of a density: pure functions of a state, a pytree, and a key.

    Attributes:
        log_density: the logarithm of the density of the constrained parameters, but for a constant.
        constraints: a tree of bijectors over the parameters, or None; a `Model` brings its own.
    """

    log_density: LogDensity[T]
    constraints: Constraints = attrs.field(
        default=attrs.Factory(lambda self: constraints_of(self.log_density), takes_self=True)
    )

    def init(self, params: T, *, step_size: float = 1.0, scale: Any = None) -> State[T]:
        """Return the state of a chain that begins at parameters within the constraints.

        Args:
            params: a tree of floating arrays.
            step_size: of the leapfrog method, in units of the scale.
            scale: float[n], standard deviations in the order of ``pytree.ravel``, or float[n, n], a Cholesky factor
                of the covariance; ones without it.
        """
        return self.begin(position_of_start(self.constraints, params, "sample"), step_size=step_size, scale=scale)

    def begin(self, position: T, *, step_size: Any = 1.0, scale: Any = None) -> State[T]:
        """Return the state of a chain that begins at unconstrained parameters."""
        vector, unravel = flatten_to_vector(position, "sample")
        value, gradient = self.target(unravel)(vector)
        widths = ones(vector.shape, vector.dtype) if scale is None else asarray(scale, vector.dtype)
        if widths.shape not in (vector.shape, vector.shape * 2):
            raise ShapeError(
                f"sample: a scale is a vector or a matrix of {vector.shape[0]} parameters: got {widths.aval}; fit it"
            )
        return State(unravel(vector), value, unravel(gradient), asarray(step_size, vector.dtype), widths)

    def step(self, state: State[T], key: Array) -> tuple[State[T], Info]:
        """Return the next state of a chain, and what is known of the step."""
        raise NotImplementedError  # each sampler has its own

    def params(self, position: T) -> T:
        """Return the constrained parameters of an unconstrained position."""
        return constrain(self.constraints, position)

    def value(self, unravel: Callable[[Array], T]) -> Callable[[Array], Array]:
        """Return the log density of the unconstrained parameters as a function of one vector."""
        check_callable(self.log_density, "sample")

        def value(x: Array) -> Array:
            position = unravel(x)
            with giving_nan():
                density = checked_density(self.log_density(constrain(self.constraints, position)))
            return (density + log_det(self.constraints, position)).astype(x.dtype)

        return value

    def target(self, unravel: Callable[[Array], T]) -> Target:
        """Return the log density and its gradient as functions of one vector of unconstrained parameters."""
        both = value_and_grad(self.value(unravel))

        def quiet(x: Array) -> tuple[Array, Array]:
            with np.errstate(all="ignore"):  # a trajectory may leave the support: that is a divergence
                return both(stop_gradient(x))

        return quiet

    def start(self, state: State[T], key: Array) -> tuple[Target, Callable[[Array], T], Point]:
        """Return the density of a vector, the way back from vectors, and the point with a momentum drawn anew."""
        x, unravel = flatten_to_vector(state.position, "sample")
        gradient, _ = flatten_to_vector(state.gradient, "sample")
        momentum = normal(key, x.shape, dtype=x.dtype)
        return self.target(unravel), unravel, Point(x, momentum, gradient, state.log_density)


def find_step_size(sampler: Sampler[T], state: State[T], key: Array) -> Array:
    """Return a step size at which one leap is accepted with a probability of about 0.8.

    It doubles or halves until that is crossed (Hoffman & Gelman 2014, algorithm 4, with Stan's threshold).
    """
    target, _, point = sampler.start(state, key)
    before = energy(point)

    def is_good(step: Array) -> Array:
        return before - energy(leap(target, state.scale, point, step)) > math.log(0.8)

    def going(carry: tuple[Array, Array, Array, Array]) -> Array:
        _, _, crossed, count = carry
        return ~crossed & (count < MAX_DOUBLINGS)

    def advance(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        step, growing, _, count = carry
        good = is_good(step)
        growing = where(count == 0, good, growing)
        crossed = good != growing
        return where(crossed, step, where(growing, 2 * step, 0.5 * step)), growing, crossed, count + 1

    init = (state.step_size, asarray(False), asarray(False), asarray(0))
    step, growing, _, _ = while_loop(going, advance, init)
    return where(growing, 0.5 * step, step)


# --- HMC: Hamiltonian trajectories of a given number of leaps, whose end is taken or left


def _check_jitter(value: Any) -> float:
    if not 0 <= value < 1:
        raise ArgumentError(f"hmc: jitter is a share from 0 on and below 1: got {value!r}; the default is 0.2")
    return float(value)


def _check_leaps(value: Any) -> int:
    return whole_number("leaps", value, "hmc")


@attrs.frozen
class hmc(Sampler[T]):  # named as what it reads as
    """The Hamiltonian Monte Carlo sampler of a density (Neal 2011), with trajectories of a given length.

    Attributes:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        constraints: a tree of bijectors over the parameters, None where there are none.
        leaps: of each trajectory.
        jitter: each step size is uniform within this share of the chain's, below 1, so that no trajectory comes back to
            its start.

    >>> import afx
    >>> sampler = hmc(lambda x: -0.5 * afx.sum(x**2), leaps=5)
    >>> state, info = sampler.step(sampler.init(np.zeros(2), step_size=0.3), afx.random.key(0))
    >>> bool(info.acceptance > 0.9)
    True
    """

    leaps: int = attrs.field(default=20, converter=_check_leaps)
    jitter: float = attrs.field(default=0.2, converter=_check_jitter)

    def step(self, state: State[T], key: Array) -> tuple[State[T], Info]:
        """Return the next state of a chain, and what is known of the step."""
        first, second = split(key)
        luck = uniform(second, (2,), dtype=state.log_density.dtype)
        with np.errstate(all="ignore"):
            target, unravel, point = self.start(state, first)
            size = state.step_size * (1 + self.jitter * (2 * luck[0] - 1))
            before = energy(point)

            end = fori_loop(0, self.leaps, lambda _, now: leap(target, state.scale, now, size), point)
            gain = before - energy(end)
            drawn = choose(log(luck[1]) < gain, end, point)
        new = State(unravel(drawn.position), drawn.log_density, unravel(drawn.gradient), state.step_size, state.scale)
        depth = zeros_like(gain, dtype=int)
        diverged = ~(gain > -MAX_ENERGY_ERROR)
        energy_after = where(log(luck[1]) < gain, before - gain, before)
        return new, Info(
            energy_after, minimum(1.0, exp(gain)), depth + asarray(self.leaps), depth, diverged, end.position
        )


# --- NUTS: Hamiltonian trajectories that double until they turn back, one point drawn from each
#
# The tree is built leaf by leaf in one loop: points at which subtrees begin wait in a stack, leaf k in the row of as many
# as k has binary digits 1, so that the loop compiles and batches (Phan, Pradhan & Jankowiak 2019, appendix A). Points are
# drawn by their weights (Betancourt 2017, appendix A.3), and a trajectory also ends where two neighbouring subtrees turn
# back across their border, as in Stan.

LEVELS_MAX: Final = 24
BITS: Final = 2 ** np.arange(LEVELS_MAX)


def _check_depth(value: Any) -> int:
    depth = whole_number("max_depth", value, "nuts")
    if depth > LEVELS_MAX:
        raise ArgumentError(f"nuts: max_depth is at most {LEVELS_MAX}: got {depth}; choose a smaller one")
    return depth


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
        stack: float[levels, 3, n], of its leaves at which subtrees begin that have not ended: the momentum of each, of the
            leaf before it, and the sum of momenta up to it, itself included. Each leaf writes one row.
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
    stack: Array
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
        drawn, energy_after = tree.drawn
        new = State(unravel(drawn.position), drawn.log_density, unravel(drawn.gradient), state.step_size, state.scale)
        mean = tree.acceptance / tree.leaps.astype(tree.acceptance.dtype)
        return new, Info(energy_after, mean, tree.leaps, tree.depth, tree.diverged, tree.now.position)


def _grow(target: Target, state: State[T], point: Point, key: Array, max_depth: int) -> Tree:
    """Return the whole trajectory through a point."""
    start = energy(point)
    levels = max_depth

    def advance(tree: Tree) -> Tree:
        luck = uniform(fold_in(key, tree.leaps), (3,), dtype=point.position.dtype)
        return _close(_add_leaf(target, state, start, tree, luck[0], levels), luck[1], luck[2] < 0.5)

    return while_loop(
        lambda tree: ~tree.turned & ~tree.diverged & (tree.depth < max_depth),
        advance,
        _plant(point, start, key, levels),
    )


def _plant(point: Point, start: Array, key: Array, levels: int) -> Tree:
    """Return the trajectory of one point."""
    p = point.momentum
    nought = zeros_like(start)
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
        stack=zeros((levels, 3, p.shape[0]), p.dtype),
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
    now = leap(target, state.scale, tree.now, where(tree.forward, state.step_size, -state.step_size))
    energy_now = energy(now)
    gain = start - energy_now
    weight = logaddexp(tree.fresh_weight, gain)
    is_first = tree.leaf == 0
    is_taken = is_first | (log(luck) < gain - weight)
    total = tree.fresh_total + now.momentum
    row = _count_bits(tree.leaf, levels)
    ended = _count_bits(tree.leaf & ~(tree.leaf + 1), levels)  # subtrees, of 2, 4, 8 leaves
    leaf = stack([now.momentum, tree.now.momentum, total])
    return attrs.evolve(
        tree,
        now=now,
        fresh=choose(is_taken, (now, energy_now), tree.fresh),
        fresh_weight=weight,
        fresh_total=total,
        opening=where(is_first, now.momentum, tree.opening),
        stack=tree.stack.at[row].set(leaf),
        leaf=tree.leaf + 1,
        leaps=tree.leaps + 1,
        acceptance=tree.acceptance + minimum(1.0, exp(gain)),
        turned=_turns_inside(tree.stack, leaf, row, ended),
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


def _count_bits(x: Array, levels: int) -> Array:
    """Return how many binary digits of a whole number are 1."""
    return sum_(x & BITS[:levels] != 0)


def _turns_inside(rows: Array, leaf: Array, row: Array, ended: Array) -> Array:
    """Tell whether one of the subtrees that end with a leaf, which is not in the stack yet, turns back."""

    def going(carry: tuple[Array, Array]) -> Array:
        level, turned = carry
        return ~turned & (level < ended)

    def advance(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        level, _ = carry
        inner = where(level == 0, leaf, rows[row - level])  # where the second half begins
        first, border, beyond = rows[row - level - 1], inner[1], inner[0]
        until = inner[2] - beyond  # before the second half
        halves = until - (first[2] - first[0]), leaf[2] - until
        return level + 1, _turns_across(halves, (first[0], leaf[0]), (border, beyond))

    return while_loop(going, advance, (asarray(0), asarray(False)))[1]


def _close(tree: Tree, luck: Array, forward: Array) -> Tree:
    """Return the trajectory with the subtree joined to it, where that is complete and may be."""
    is_whole = tree.leaf == (asarray(1) << tree.depth)
    joined = is_whole & ~tree.turned & ~tree.diverged
    inner = where(tree.forward, tree.right.momentum, tree.left.momentum)
    outer = where(tree.forward, tree.left.momentum, tree.right.momentum)
    across = _turns_across((tree.total, tree.fresh_total), (outer, tree.now.momentum), (inner, tree.opening))
    left = choose(joined & ~tree.forward, tree.now, tree.left)
    right = choose(joined & tree.forward, tree.now, tree.right)
    forward = where(joined, forward, tree.forward)
    turned = tree.turned | (joined & across)
    return attrs.evolve(
        tree,
        now=choose(joined & ~turned, choose(forward, right, left), tree.now),
        left=left,
        right=right,
        drawn=choose(joined & (log(luck) < tree.fresh_weight - tree.weight), tree.fresh, tree.drawn),
        weight=where(joined, logaddexp(tree.weight, tree.fresh_weight), tree.weight),
        total=where(joined, tree.total + tree.fresh_total, tree.total),
        fresh_weight=where(joined, -np.inf, tree.fresh_weight),
        fresh_total=where(joined, 0.0, tree.fresh_total),
        forward=forward,
        leaf=where(joined, 0, tree.leaf),
        depth=tree.depth + joined,
        turned=turned,
    )
