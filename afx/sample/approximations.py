"""Approximations: normal laws of unconstrained parameters, by Laplace's method and by variational inference."""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.scan import scan
from afx.control.solving import flatten_to_vector, run_or_compile
from afx.core.array.array import Array, ArrayLike
from afx.core.html import Shown
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.creation.ranges import arange
from afx.ops.elementwise.exponentials import exp, log
from afx.ops.manipulation.edit import diagonal
from afx.ops.reductions.sums import mean
from afx.ops.reductions.sums import sum as sum_
from afx.optim.rules.adam import AdamState, adam
from afx.optim.solvers.minimize import minimize
from afx.random.keys import fold_in, normal
from afx.sample.bijectors import Constraints, check_dependence, constrain, position_of_start
from afx.sample.hamiltonian import LogDensity, Sampler, push
from afx.transforms._arguments import whole_number
from afx.transforms.derivatives.grad import value_and_grad
from afx.transforms.derivatives.jacobian import hessian
from afx.transforms.vmap import vmap

T = TypeVar("T")


@attrs.frozen
class Approximation(Shown, Generic[T]):
    """A normal law of unconstrained parameters.

    Attributes:
        position: its mean, a tree of unconstrained parameters.
        scale: float[n], standard deviations, or float[n, n], a Cholesky factor of the covariance.
        log_evidence: an estimate of the logarithm of the integral of the density, or a lower bound of it.
        constraints: of the parameters.
    """

    position: T
    scale: Array
    log_evidence: Array
    constraints: Constraints = None

    @property
    def params(self) -> T:
        """The constrained parameters of the mean."""
        return constrain(self.constraints, self.position)

    def draw(self, key: ArrayLike, count: int) -> T:
        """Return independent draws of the constrained parameters, leaves [count, ...]."""
        center, unravel = flatten_to_vector(self.position, "Approximation.draw")

        def move(z: Array) -> T:
            return constrain(self.constraints, unravel(center + push(self.scale, z)))

        return vmap(move)(normal(key, (count, center.shape[0]), dtype=center.dtype))


def laplace(log_density: LogDensity[T], start: T, constraints: Constraints = None) -> Approximation[T]:
    """Return Laplace's approximation: the normal law of the density's mode and of the curvature there.

    Mode and curvature are those of the unconstrained parameters, with the determinants of the constraints.

    Args:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        start: parameters within the constraints, from which the mode is looked for.
        constraints: a tree of bijectors over the parameters, None where there are none.

    Raises:
        ArgumentError: no mode was found, or the density is not curved in every direction there.

    >>> import afx
    >>> found = laplace(lambda x: -0.5 * afx.sum((x / 2) ** 2), np.ones(2))
    >>> found.scale.round(4)
    Array([[2., 0.],
           [0., 2.]], dtype=float64)
    """
    vector, unravel = flatten_to_vector(position_of_start(constraints, start, "laplace"), "laplace")
    density = Sampler(log_density, constraints).value(unravel)

    def loss(x: Array) -> Array:
        return -density(x)

    optimum = minimize(loss, vector, method="bfgs")
    if not optimum.converged:
        raise ArgumentError(
            f"laplace: no mode near the start: {optimum.reason}; begin elsewhere, or look at the density"
        )
    curvature = np.asarray(hessian(loss)(optimum.x))
    if not np.linalg.eigvalsh(curvature)[0] > 0:
        raise ArgumentError("laplace: no normal law at the mode: got a singular curvature; give priors, or use nuts")
    scale = asarray(np.linalg.cholesky(np.linalg.inv(curvature)))
    half = sum_(log(diagonal(scale))) + 0.5 * vector.shape[0] * math.log(2 * math.pi)
    return Approximation(unravel(optimum.x), scale, density(optimum.x) + half, constraints)


@attrs.frozen
class AdviState(Shown, Generic[T]):
    """The state of a variational fit.

    Attributes:
        position: the means of the unconstrained parameters.
        log_scale: the logarithms of their standard deviations, a tree as the position.
        optimizer: the state of Adam.
    """

    position: T
    log_scale: T
    optimizer: AdamState[tuple[T, T]]


def _check_samples(value: Any) -> int:
    return whole_number("samples", value, "advi")


@attrs.frozen
class advi(Generic[T]):  # named as what it reads as
    """A fit of independent normal laws of the unconstrained parameters (Kucukelbir et al. 2017), by Adam.

    It is fast and too narrow where parameters depend on each other: standard deviations are those with all others known.

    Attributes:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        constraints: a tree of bijectors over the parameters, None where there are none.
        samples: with which each step estimates the bound and its gradient, by the reparametrization of draws.
        learning_rate: of Adam.

    >>> import afx
    >>> fit = advi(lambda x: -0.5 * afx.sum((x - 3) ** 2)).fit(afx.random.key(0), np.zeros(1), steps=400)
    >>> bool(abs(fit.params[0] - 3) < 0.1)
    True
    """

    log_density: LogDensity[T]
    constraints: Constraints = None
    samples: int = attrs.field(default=8, converter=_check_samples)
    learning_rate: float = 0.05

    def init(self, params: T) -> AdviState[T]:
        """Return the state that begins at parameters within the constraints, with a tenth as standard deviations."""
        vector, unravel = flatten_to_vector(position_of_start(self.constraints, params, "advi"), "advi")
        position, log_scale = unravel(vector), unravel(zeros_like(vector) + math.log(0.1))
        return AdviState(position, log_scale, adam(self.learning_rate).init((position, log_scale)))

    def step(self, state: AdviState[T], key: ArrayLike) -> tuple[AdviState[T], Array]:
        """Return the next state, and the estimate of the evidence's lower bound."""
        unravel = flatten_to_vector(state.position, "advi")[1]
        density = Sampler(self.log_density, self.constraints).value(unravel)

        def loss(laws: tuple[T, T]) -> Array:
            (center, _), (log_scale, _) = (flatten_to_vector(tree, "advi") for tree in laws)
            z = normal(key, (self.samples, center.shape[0]), dtype=center.dtype)
            entropy = sum_(log_scale) + 0.5 * center.shape[0] * (1 + math.log(2 * math.pi))
            return -mean(vmap(density)(center + exp(log_scale) * z)) - entropy

        laws = (state.position, state.log_scale)
        value, slopes = value_and_grad(loss)(laws)
        (position, log_scale), optimizer = adam(self.learning_rate).step(laws, slopes, state.optimizer)
        return AdviState(position, log_scale, optimizer), -value

    def fit(self, key: ArrayLike, params: T, steps: int = 2000) -> Approximation[T]:
        """Return the approximation after some steps; its means and scales are those of the last quarter's mean."""

        def advance(state: AdviState[T], k: Array) -> tuple[AdviState[T], tuple[T, T, Array]]:
            new, bound = self.step(state, fold_in(key, k))
            return new, (new.position, new.log_scale, bound)

        def run(state: AdviState[T], numbers: Array) -> tuple[T, T, Array]:
            return scan(advance, state, numbers)[1]

        steps = whole_number("steps", steps, "advi")
        begun = self.init(params)
        check_dependence(self.log_density, self.constraints, begun.position, "advi")
        fitted = run_or_compile(run, begun, arange(steps), name="advi")

        def settle(x: Array) -> Array:
            return mean(x[-max(steps // 4, 1) :], axis=0)

        position, log_scale, bound = pytree.map(settle, fitted)
        return Approximation(position, exp(flatten_to_vector(log_scale, "advi")[0]), bound, self.constraints)
