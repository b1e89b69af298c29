"""Approximations: normal laws of unconstrained parameters, by Laplace's method and by variational inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.scan import scan
from afx.control.solving import flatten_to_vector, run_or_compile
from afx.core import Array, ArrayLike, Shown
from afx.errors import ArgumentError
from afx.ops import arange, diagonal, exp, expand_dims, eye, log, matmul, mean, sum as sum_, tril
from afx.ops.creation.creation import asarray, zeros, zeros_like
from afx.ops.linalg.factorizations import cholesky
from afx.optim.rules.adam import AdamState, adam
from afx.optim.solvers.minimize import minimize
from afx.random.keys import fold_in, key as key_of, normal, randint
from afx.sample.bijectors import Constraints, check_dependence, constrain, constraints_of, position_of_start, start_of
from afx.sample.hamiltonian import LogDensity, Sampler, push
from afx.transforms._arguments import check_callable, describe, whole_number
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


def approximation_of(start: object) -> Approximation[Any] | None:
    """Return an approximation as what it is, None of anything else."""
    return start if isinstance(start, Approximation) else None  # pyright: ignore[reportUnknownVariableType]  # of any tree


def laplace(log_density: LogDensity[T], start: T | None = None, constraints: Constraints = None) -> Approximation[T]:
    """Return Laplace's approximation: the normal law of the density's mode and of the curvature there.

    Mode and curvature are those of the unconstrained parameters, with the determinants of the constraints.

    Args:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        start: parameters within the constraints, from which the mode is looked for; a `Model` has one.
        constraints: a tree of bijectors over the parameters, None where there are none; a `Model` brings its own.

    Raises:
        ArgumentError: no mode was found, or the density is not curved in every direction there.

    >>> import afx
    >>> found = laplace(lambda x: -0.5 * afx.sum((x / 2) ** 2), np.ones(2))
    >>> found.scale.round(4)
    Array([[2., 0.],
           [0., 2.]], dtype=float64)
    """
    constraints = constraints_of(log_density) if constraints is None else constraints
    vector, unravel = _begin(log_density, start, constraints, "laplace")
    density = Sampler(log_density, constraints).value(unravel)

    def loss(x: Array) -> Array:
        return -density(x)

    top = _climb(loss, vector, "laplace")
    curvature = np.asarray(hessian(loss)(top))
    if not np.linalg.eigvalsh(curvature)[0] > 0:
        raise ArgumentError("laplace: no normal law at the mode: got a singular curvature; give priors, or use nuts")
    scale = asarray(np.linalg.cholesky(np.linalg.inv(curvature)))
    half = sum_(log(diagonal(scale))) + 0.5 * vector.shape[0] * math.log(2 * math.pi)
    return Approximation(unravel(top), scale, density(top) + half, constraints)


def find_mode(log_density: LogDensity[T], start: T | None = None, constraints: Constraints = None) -> T:
    """Return the parameters of the highest density, known as MAP: of the parameters as they are, not of unconstrained ones.

    Args:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        start: parameters within the constraints, from which the mode is looked for; a `Model` has one.
        constraints: a tree of bijectors over the parameters, None where there are none; a `Model` brings its own.

    Raises:
        ArgumentError: no mode was found: the density may be highest where a constraint ends.

    >>> from afx import sample, stats
    >>> model = sample.Model({"rate": stats.gamma(3.0, scale=0.5)}, lambda p: stats.poisson(p["rate"]).observe([2, 4]))
    >>> find_mode(model)["rate"].round(4)
    Array(2., dtype=float64)
    """
    constraints = constraints_of(log_density) if constraints is None else constraints
    check_callable(log_density, "find_mode")
    vector, unravel = _begin(log_density, start, constraints, "find_mode")
    top = _climb(lambda x: -log_density(constrain(constraints, unravel(x))), vector, "find_mode")
    return constrain(constraints, unravel(top))


def _begin(
    log_density: LogDensity[T], start: T | None, constraints: Constraints, who: str
) -> tuple[Array, Callable[[Array], T]]:
    """Return unconstrained parameters to begin at as a vector, and the function back."""
    return flatten_to_vector(position_of_start(constraints, start_of(log_density, start, who), who), who)


def _climb(loss: Callable[[Array], Array], vector: Array, who: str) -> Array:
    """Return where a loss is least."""
    with np.errstate(all="ignore"):  # on the way to an end that has no mode
        optimum = minimize(loss, vector, method="bfgs")
        if optimum.converged and optimum.iterations == 0:  # a start without slope may be the lowest place of all
            aside = minimize(loss, vector + 1e-3 * normal(key_of(0), vector.shape, dtype=vector.dtype), method="bfgs")
            optimum = aside if float(aside.value) < float(optimum.value) - 1e-9 else optimum
    if not optimum.converged:
        raise ArgumentError(f"{who}: no mode near the start: {optimum.reason}; begin elsewhere, or look at the density")
    return optimum.x


@attrs.frozen
class AdviState(Shown, Generic[T]):
    """The state of a variational fit.

    Attributes:
        position: the means of the unconstrained parameters.
        log_scale: the logarithms of their standard deviations, or of the diagonal of the factor, a tree as the position.
        factor: float[n, rank], what makes them depend on each other; of full rank what stands below the diagonal.
        optimizer: the state of Adam.
    """

    position: T
    log_scale: T
    factor: Array
    optimizer: AdamState[tuple[T, T, Array]]


def _check_samples(value: Any) -> int:
    return whole_number("samples", value, "advi")


def _check_batch(value: Any) -> int | None:
    return None if value is None else whole_number("batch", value, "advi")


def _check_rank(value: Any) -> int | None:
    return None if value is None else whole_number("rank", value, "advi", 0)


@attrs.frozen
class advi(Generic[T]):  # named as what it reads as
    """A fit of a normal law of the unconstrained parameters (Kucukelbir et al. 2017), by Adam.

    Of independent ones, ``rank=0``, it is fast and too narrow where parameters depend on each other: standard deviations
    are those with all others known. With a rank the covariance is a diagonal and a product of so many columns (Ong, Nott &
    Smith 2018); None is any covariance, by its Cholesky factor.

    Attributes:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        constraints: a tree of bijectors over the parameters, None where there are none; a `Model` brings its own.
        samples: with which each step estimates the bound and its gradient, by the reparametrization of draws.
        learning_rate: of Adam.
        rank: of the covariance beside its diagonal, None for all of it.
        batch: how many rows of a `Model`'s data each step takes, which stand for all; None for all.

    >>> import afx
    >>> fit = advi(lambda x: -0.5 * afx.sum((x - 3) ** 2)).fit(afx.random.key(0), np.zeros(1), steps=400)
    >>> bool(abs(fit.params[0] - 3) < 0.1)
    True
    """

    log_density: LogDensity[T]
    constraints: Constraints = attrs.field(
        default=attrs.Factory(lambda self: constraints_of(self.log_density), takes_self=True)
    )
    samples: int = attrs.field(default=8, converter=_check_samples)
    learning_rate: float = 0.05
    rank: int | None = attrs.field(default=0, converter=_check_rank)
    batch: int | None = attrs.field(default=None, converter=_check_batch)

    def init(self, params: T) -> AdviState[T]:
        """Return the state that begins at parameters within the constraints, with a tenth as standard deviations."""
        vector, unravel = flatten_to_vector(position_of_start(self.constraints, params, "advi"), "advi")
        position, log_scale = unravel(vector), unravel(zeros_like(vector) + math.log(0.1))
        n = vector.shape[0]
        rank = n if self.rank is None else self.rank
        factor = zeros((n, rank), vector.dtype)
        if self.rank:  # at nothing the columns would have no slope
            factor = 0.01 * normal(key_of(0), (n, rank), dtype=vector.dtype)
        laws = (position, log_scale, factor)
        return AdviState(*laws, adam(self.learning_rate).init(laws))

    def step(self, state: AdviState[T], key: ArrayLike) -> tuple[AdviState[T], Array]:
        """Return the next state, and the estimate of the evidence's lower bound."""
        unravel = flatten_to_vector(state.position, "advi")[1]
        density = Sampler(self._density(key), self.constraints).value(unravel)

        def loss(laws: tuple[T, T, Array]) -> Array:
            (center, _), (log_scale, _) = (flatten_to_vector(tree, "advi") for tree in laws[:2])
            n, factor = center.shape[0], laws[2]
            z = normal(key, (self.samples, n), dtype=center.dtype)
            entropy = sum_(log_scale) + 0.5 * n * (1 + math.log(2 * math.pi))
            moves = exp(log_scale) * z
            if self.rank is None:
                moves = moves + matmul(z, tril(factor, -1).T)
            elif self.rank:
                moves = moves + matmul(normal(fold_in(key, 1), (self.samples, self.rank), dtype=z.dtype), factor.T)
                columns = factor / expand_dims(exp(log_scale), -1)
                inner = matmul(columns.T, columns) + eye(self.rank, dtype=z.dtype)
                entropy = entropy + sum_(log(diagonal(cholesky(inner))))
            return -mean(vmap(density)(center + moves)) - entropy

        laws = (state.position, state.log_scale, state.factor)
        value, slopes = value_and_grad(loss)(laws)
        laws, optimizer = adam(self.learning_rate).step(laws, slopes, state.optimizer)
        return AdviState(*laws, optimizer), -value

    def _density(self, key: ArrayLike) -> LogDensity[T]:
        """Return the density, or that of some rows of the data, which stand for all."""
        if self.batch is None:
            return self.log_density
        model: Any = self.log_density
        data = getattr(model, "data", None)
        if not data:
            raise ArgumentError(
                f"advi: batch= takes rows of a Model's data: got {describe(model)}; give Model(…, data)"
            )
        count = asarray(pytree.leaves(data)[0]).shape[0]
        rows = randint(fold_in(key, 2), 0, count, (self.batch,))
        batched: LogDensity[T] = model.take(rows, model.weight * (count / self.batch))
        return batched

    def fit(self, key: ArrayLike, params: T | None = None, steps: int = 2000) -> Approximation[T]:
        """Return the approximation after some steps; its means and scales are those of the last quarter's mean.

        Args:
            key: a random key.
            params: where to begin; a `Model` has a place of its own.
            steps: of Adam.
        """

        def advance(state: AdviState[T], k: Array) -> tuple[AdviState[T], tuple[T, T, Array, Array]]:
            new, bound = self.step(state, fold_in(key, k))
            return new, (new.position, new.log_scale, new.factor, bound)

        def run(state: AdviState[T], numbers: Array) -> tuple[T, T, Array, Array]:
            return scan(advance, state, numbers)[1]

        steps = whole_number("steps", steps, "advi")
        begun = self.init(start_of(self.log_density, params, "advi"))
        check_dependence(self.log_density, self.constraints, begun.position, "advi")
        fitted = run_or_compile(run, begun, arange(steps), name="advi")

        position, log_scale, factor, bound = pytree.map(lambda x: mean(x[-max(steps // 4, 1) :], axis=0), fitted)
        scale = exp(flatten_to_vector(log_scale, "advi")[0])
        if self.rank is None:
            scale = tril(factor, -1) + eye(scale.shape[0], dtype=scale.dtype) * scale
        elif self.rank:
            scale = cholesky(matmul(factor, factor.T) + eye(scale.shape[0], dtype=scale.dtype) * scale**2)
        return Approximation(position, scale, bound, self.constraints)
