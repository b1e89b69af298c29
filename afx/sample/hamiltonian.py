"""Hamiltonian dynamics: states of a chain, points of phase space and the leapfrog step, in standardized units.

A sampler works on one vector x with ``position = scale x``, where the scale estimates standard deviations or a Cholesky
factor of the covariance; the mass matrix is then the identity (Neal 2011, section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.solving.functions import flatten_to_vector
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.errors import ShapeError
from afx.ops.creation.creation import asarray, ones
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.comparison import isnan
from afx.ops.elementwise.where import where
from afx.ops.linalg.cholesky import giving_nan
from afx.ops.linalg.products import vecdot
from afx.random.basic import normal
from afx.sample.checks import checked_density, position_of_start
from afx.sample.constraints import Constraints, constrain, log_det
from afx.transforms._arguments import check_callable
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["Info", "LogDensity", "Point", "Sampler", "State", "choose", "energy", "find_step_size", "leap", "push"]

T = TypeVar("T")
C = TypeVar("C")

LogDensity: TypeAlias = Callable[[T], Array]
Target: TypeAlias = Callable[[Array], tuple[Array, Array]]

MAX_ENERGY_ERROR = 1000.0  # as in Stan: beyond, a trajectory has left the level set for good
MAX_DOUBLINGS = 50


@attrs.frozen
class State(Generic[T]):
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
class Info:
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
    found = 0.5 * vecdot(point.momentum, point.momentum) - point.log_density
    return where(isnan(found), np.inf, found)


def choose(condition: Array, a: C, b: C) -> C:
    """Return one of two trees."""
    return pytree.map(lambda x, y: where(condition, x, y), a, b)


@attrs.frozen
class Sampler(Generic[T]):
    """A sampler of a density: pure functions of a state, a pytree, and a key.

    Attributes:
        log_density: the logarithm of the density of the constrained parameters, but for a constant.
        constraints: a tree of bijectors over the parameters, or None.
    """

    log_density: LogDensity[T]
    constraints: Constraints = None

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
                found = checked_density(self.log_density(constrain(self.constraints, position)))
            return (found + log_det(self.constraints, position)).astype(x.dtype)

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
