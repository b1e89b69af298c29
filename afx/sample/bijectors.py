"""Bijectors: from real numbers to constrained parameters, trees of them, and checks of what a sampler is given."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, Tracer, aval_of, is_traced
from afx.core.graph import indices_of
from afx.errors import ArgumentError, DtypeError, OperandError, ShapeError
from afx.ops import arctanh, concat, cumsum, diagonal, matmul, sqrt, sum as sum_, tanh, vecdot, vector_norm
from afx.ops.creation.creation import asarray, ones_like, zeros, zeros_like
from afx.ops.elementwise.exponentials import exp, log, log_sigmoid, logaddexp, sigmoid
from afx.ops.linalg.factorizations import cholesky
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import trace

# --- Bijectors: smooth ways from unconstrained numbers to constrained parameters, with their log-determinants
#
# Simplexes and Cholesky factors are as in Stan's reference manual, chapter "Constraint transforms".


@attrs.frozen
class Bijector:
    """A way from unconstrained numbers to a parameter: subclass it, as a frozen attrs class, for one of your own."""

    def forward(self, x: Array) -> Array:
        """Return the parameter of unconstrained numbers."""
        raise NotImplementedError  # each constraint has its own

    def inverse(self, y: Array) -> Array:
        """Return the unconstrained numbers of a parameter."""
        raise NotImplementedError  # each constraint has its own

    def log_det(self, x: Array) -> Array:
        """Return the logarithm of the absolute determinant of `forward`'s Jacobian, summed over all axes."""
        raise NotImplementedError  # each constraint has its own

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the unconstrained numbers of a parameter of a shape."""
        return shape


@attrs.frozen
class Lower(Bijector):
    """Numbers above a bound, or above one each: ``bound + exp(x)``."""

    bound: Any = 0.0

    def forward(self, x: Array) -> Array:
        """Return the numbers above the bound."""
        y: Array = exp(x) + self.bound
        return y

    def inverse(self, y: Array) -> Array:
        """Return the logarithm of the distance."""
        return log(y - self.bound)

    def log_det(self, x: Array) -> Array:
        """Return the sum of x."""
        return sum_(x)


@attrs.frozen
class Positive(Lower):
    """Positive numbers: ``exp(x)``.

    >>> import afx
    >>> Positive().forward(afx.zeros(2))
    Array([1., 1.], dtype=float32)
    """


@attrs.frozen
class Upper(Lower):
    """Numbers below a bound, or below one each: ``bound - exp(x)``."""

    def forward(self, x: Array) -> Array:
        """Return the numbers below the bound."""
        y: Array = self.bound - exp(x)
        return y

    def inverse(self, y: Array) -> Array:
        """Return the logarithm of the distance."""
        return log(self.bound - y)


@attrs.frozen
class Interval(Bijector):
    """Numbers between two bounds, or between two each: ``low + (high - low) sigmoid(x)``.

    Raises:
        ArgumentError: a lower bound is not below its upper one.

    >>> import afx
    >>> Interval(-1.0, 1.0).forward(afx.zeros(2))
    Array([0., 0.], dtype=float32)
    """

    low: Any = 0.0
    high: Any = 1.0

    def __attrs_post_init__(self) -> None:
        if is_traced(self.low) or is_traced(self.high):
            return
        with contextlib.suppress(TypeError, ValueError):  # no numbers, or of other shapes
            if np.all(np.asarray(self.low) < np.asarray(self.high)):
                return
        raise ArgumentError(
            f"Interval: the lower bound lies below the upper one: got {self.low} and {self.high}; exchange or part them"
        )

    def forward(self, x: Array) -> Array:
        """Return the numbers between the bounds."""
        y: Array = sigmoid(x) * (self.high - self.low) + self.low
        return y

    def inverse(self, y: Array) -> Array:
        """Return the logits of the place between the bounds."""
        return log((y - self.low) / (self.high - y))

    def log_det(self, x: Array) -> Array:
        """Return the sum of the logarithms of the slopes."""
        widths = log(ones_like(x) * (self.high - self.low))
        return sum_(widths + log_sigmoid(x) + log_sigmoid(-x))


@attrs.frozen
class Simplex(Bijector):
    """Positive shares with the sum 1 along the last axis, by breaking a stick: one element more than x has.

    >>> import afx
    >>> Simplex().forward(afx.zeros(3)).round(4)
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    def forward(self, x: Array) -> Array:
        """Return the shares."""
        z: Array = x - _even_odds(x)
        left = cumsum(log_sigmoid(-z), axis=-1)  # the logarithm of what is left of the stick behind each break
        log_rest = concat([zeros_like(x[..., :1]), left], axis=-1)
        return exp(concat([log_sigmoid(z), zeros_like(x[..., :1])], axis=-1) + log_rest)

    def inverse(self, y: Array) -> Array:
        """Return the logits of the breaks."""
        left = cumsum(y[..., :0:-1], axis=-1)[..., ::-1]
        z = log(y[..., :-1]) - log(left)
        logits: Array = z + _even_odds(z)
        return logits

    def log_det(self, x: Array) -> Array:
        """Return the sum of the logarithms of the slopes of breaks."""
        z = x - _even_odds(x)
        stays = log_sigmoid(-z)
        left = cumsum(stays, axis=-1) - stays
        return sum_(log_sigmoid(z) + stays + left)

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the unconstrained numbers: one fewer."""
        return (*shape[:-1], shape[-1] - 1)


def _even_odds(x: Array) -> Any:
    """Return the shifts with which 0 is the even simplex."""
    return np.log(np.arange(x.shape[-1], 0, -1)).astype(x.dtype)


@attrs.frozen
class Ordered(Bijector):
    """Ascending numbers along the last axis."""

    def forward(self, x: Array) -> Array:
        """Return the running sums of the first number and of positive steps."""
        return cumsum(concat([x[..., :1], exp(x[..., 1:])], axis=-1), axis=-1)

    def inverse(self, y: Array) -> Array:
        """Return the first number and the logarithms of the steps."""
        return concat([y[..., :1], log(y[..., 1:] - y[..., :-1])], axis=-1)

    def log_det(self, x: Array) -> Array:
        """Return the sum of all but the first."""
        return sum_(x[..., 1:])


@attrs.frozen
class PositiveOrdered(Lower):
    """Ascending numbers above a bound along the last axis.

    >>> import afx
    >>> PositiveOrdered().forward(afx.zeros(3))
    Array([1., 2., 3.], dtype=float32)
    """

    def forward(self, x: Array) -> Array:
        """Return the bound and the running sums of positive steps."""
        y: Array = cumsum(exp(x), axis=-1) + self.bound
        return y

    def inverse(self, y: Array) -> Array:
        """Return the logarithms of the steps."""
        return log(concat([y[..., :1] - self.bound, y[..., 1:] - y[..., :-1]], axis=-1))


@attrs.frozen
class CholeskyCorrelation(Bijector):
    """Lower Cholesky factors [k, k] of correlation matrices, from k (k - 1) / 2 numbers on the last axis.

    The determinant is that of the elements below the diagonal: a density of the matrix itself adds the logarithm of that
    of its factor, as Stan's ``lkj_corr_cholesky`` does.
    """

    def forward(self, x: Array) -> Array:
        """Return the factors."""
        lengths, _ = self._lengths(x)
        below = _below(tanh(x))
        every = np.arange(below.shape[-1])
        return below.at[..., every, every].set(1.0) * exp(lengths)

    def inverse(self, y: Array) -> Array:
        """Return the numbers, row by row."""
        k = y.shape[-1]
        _, rows, columns = _triangle(k * (k - 1) // 2)
        left = cumsum((y * y)[..., ::-1], axis=-1)[..., ::-1]  # of a row's length, from each column on
        return arctanh(y[..., rows, columns] / sqrt(left[..., rows, columns]))

    def log_det(self, x: Array) -> Array:
        """Return the logarithm of the determinant by the elements below the diagonal."""
        _, rows, columns = _triangle(x.shape[-1])
        lengths, slopes = self._lengths(x)
        return sum_(slopes) + sum_(lengths[..., rows, columns])

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the unconstrained numbers: k (k - 1) / 2."""
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)

    def _lengths(self, x: Array) -> tuple[Array, Array]:
        """Return the logarithms of what is left of each row's length before each column, and of 1 - tanh(x)²."""
        slopes = 2 * (math.log(2) - logaddexp(x, -x))
        table = _below(slopes)
        return 0.5 * (cumsum(table, axis=-1) - table), slopes


def _below(x: Array) -> Array:
    """Return square matrices with these elements below the diagonal, row by row, and zeros elsewhere."""
    k, rows, columns = _triangle(x.shape[-1])
    return zeros((*x.shape[:-1], k, k), x.dtype).at[..., rows, columns].set(x)


def _triangle(count: int) -> tuple[int, Any, Any]:
    """Return the size of a matrix with so many elements below its diagonal, and where these are, row by row."""
    k = math.isqrt(2 * count) + 1
    if k * (k - 1) // 2 != count:
        raise ShapeError(
            f"CholeskyCorrelation: a factor [k, k] has k (k - 1) / 2 free numbers: got {count}; take 1, 3, 6, 10 …"
        )
    return (k, *np.tril_indices(k, -1))


@attrs.frozen
class Factored(Bijector):
    """What matrices by their Cholesky factors share, before the class of the factors."""

    def forward(self, x: Array) -> Array:
        """Return the matrices."""
        factor = super().forward(x)
        return matmul(factor, factor.mT)

    def inverse(self, y: Array) -> Array:
        """Return the numbers of the factors."""
        return super().inverse(cholesky(y))


@attrs.frozen
class Correlation(Factored, CholeskyCorrelation):
    """Correlation matrices [k, k], by their Cholesky factors; the determinant is that of the elements below the diagonal.

    >>> import afx
    >>> Correlation().forward(afx.zeros(1))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    def log_det(self, x: Array) -> Array:
        """Return the logarithm of the determinant by the elements below the diagonal."""
        sides = log(diagonal(CholeskyCorrelation.forward(self, x)))  # each is the slope of the elements below it
        return super().log_det(x) + sum_(sides * np.arange(sides.shape[-1] - 1, -1, -1).astype(x.dtype))


@attrs.frozen
class CholeskyCovariance(Bijector):
    """Lower Cholesky factors [k, k] of covariance matrices: k logarithms of the diagonal, and the elements below it.

    >>> import afx
    >>> CholeskyCovariance().forward(afx.zeros(3))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    def forward(self, x: Array) -> Array:
        """Return the factors."""
        k = self._size(x.shape[-1])
        every = np.arange(k)
        return _below(x[..., k:]).at[..., every, every].set(exp(x[..., :k]))

    def inverse(self, y: Array) -> Array:
        """Return the logarithms of the diagonal, and the elements below it, row by row."""
        rows, columns = np.tril_indices(y.shape[-1], -1)
        return concat([log(diagonal(y)), y[..., rows, columns]], axis=-1)

    def log_det(self, x: Array) -> Array:
        """Return the sum of the logarithms of the diagonal."""
        return sum_(x[..., : self._size(x.shape[-1])])

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the unconstrained numbers: k (k + 1) / 2."""
        return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)

    def _size(self, count: int) -> int:
        """Return the size of the matrix with so many elements on and below its diagonal."""
        k = (math.isqrt(8 * count + 1) - 1) // 2
        if k * (k + 1) // 2 != count:
            raise ShapeError(
                f"{type(self).__name__}: a matrix [k, k] has k (k + 1) / 2 free numbers: got {count}; take 1, 3, 6, 10 …"
            )
        return k


@attrs.frozen
class Covariance(Factored, CholeskyCovariance):
    """Covariance matrices [k, k], by their Cholesky factors; the determinant is that of the lower triangle."""

    def log_det(self, x: Array) -> Array:
        """Return the logarithm of the determinant by the lower triangle."""
        k = self._size(x.shape[-1])
        sides = x[..., :k]
        return sum_(sides * np.arange(k + 1, 1, -1).astype(x.dtype) + math.log(2))


@attrs.frozen
class UnitVector(Bijector):
    """Vectors of length 1 along the last axis; as Stan's no bijection, but uniform on the sphere."""

    def forward(self, x: Array) -> Array:
        """Return the direction."""
        return x / vector_norm(x, axis=-1, keepdims=True)

    def inverse(self, y: Array) -> Array:
        """Return the vector itself."""
        return y

    def log_det(self, x: Array) -> Array:
        """Return the logarithm of the density with which lengths are drawn: that of standard normal numbers."""
        return -0.5 * sum_(vecdot(x, x))


# --- Constraints: trees of bijectors over the parameters of a model

T = TypeVar("T")

Constraints: TypeAlias = Any
"""A bijector, None, or a tree of them in the structure of the parameters; one stands for all leaves below it."""


@attrs.frozen
class Joint:
    """Constraints of a whole tree, each of which may depend on other parameters; `Model` has such ones."""

    def forward(self, position: Any) -> Any:
        """Return the parameters of an unconstrained position."""
        raise NotImplementedError  # each has its own

    def inverse(self, params: Any) -> Any:
        """Return the unconstrained position of parameters."""
        raise NotImplementedError  # each has its own

    def log_det(self, position: Any) -> Array:
        """Return the logarithm of the determinant of `forward`."""
        raise NotImplementedError  # each has its own


def constrain(constraints: Constraints, position: T) -> T:
    """Return the parameters of an unconstrained position.

    Args:
        constraints: bijectors, or None where a parameter has no constraint, in the structure of the parameters from the
            top; a dict may leave out what has none.
        position: a tree of unconstrained arrays.

    Raises:
        TreeError: the constraints have another structure.

    >>> from afx import sample
    >>> constrain({"scale": sample.Positive()}, {"mean": np.zeros(1), "scale": np.zeros(1)})
    {'mean': Array([0.], dtype=float64), 'scale': Array([1.], dtype=float64)}
    """
    if isinstance(constraints, Joint):
        params: T = constraints.forward(position)
        return params
    return _apply(constraints, position, lambda bijector, x: bijector.forward(x))


def unconstrain(constraints: Constraints, params: T) -> T:
    """Return the unconstrained position of parameters, which keep the constraints.

    >>> from afx import sample
    >>> unconstrain(sample.Interval(0.0, 2.0), np.ones(1))
    Array([0.], dtype=float64)
    """
    if isinstance(constraints, Joint):
        position: T = constraints.inverse(params)
        return position
    return _apply(constraints, params, lambda bijector, y: bijector.inverse(y))


def log_det(constraints: Constraints, position: Any) -> Array:
    """Return the logarithm of the determinant of `constrain`, by which a density of parameters becomes one of positions.

    >>> from afx import sample
    >>> log_det(sample.Positive(), np.array([1.0, 2.0]))
    Array(3., dtype=float64)
    """
    if isinstance(constraints, Joint):
        return constraints.log_det(position)
    total = asarray(0.0)
    for bijector, x in zip(bijectors_of(constraints, position), pytree.leaves(position), strict=True):
        if bijector is not None:
            total = bijector.log_det(asarray(x)) + total
    return total


def _apply(constraints: Constraints, tree: T, fn: Callable[[Any, Array], Array]) -> T:
    """Return a tree with a function of each bijector and its leaf applied."""
    leaves, treedef = pytree.flatten(tree)
    pairs = zip(bijectors_of(constraints, tree), leaves, strict=True)
    return pytree.unflatten(treedef, [asarray(x) if b is None else fn(b, asarray(x)) for b, x in pairs])


def bijectors_of(constraints: Constraints, tree: Any) -> list[Bijector | Joint | None]:
    """Return the bijector of each leaf of a tree; constraints of the whole tree are those of each."""
    if isinstance(constraints, Joint):
        return [constraints] * len(pytree.leaves(tree))
    if type(constraints) is type(tree) is dict:
        constraints = {**dict.fromkeys(tree), **constraints}
    return pytree.broadcast_prefix(
        constraints, tree, is_leaf=lambda x: x is None or isinstance(x, Bijector), who="constraints"
    )


def constraints_of(log_density: object) -> Constraints:
    """Return the constraints that a density brings along, as a `Model` does, or None."""
    return getattr(log_density, "constraints", None)


def start_of(log_density: object, start: T | None, who: str) -> T:
    """Return a start, or where a model without one begins."""
    if start is not None:
        return start
    initial: Any = getattr(log_density, "initial", None)
    if initial is None:
        raise ArgumentError(f"{who}: a density that is a plain function has no start of its own: got none; give start")
    found: T = initial()
    return found


# --- Checks of what a sampler is given: the density's result, its parameters, and where it starts

SLACK = 1e-3  # of the largest element: shares that add up to 0.999 are meant to add up to 1


def checked_density(value: Any) -> Array:
    """Return what a log density gave, if it is one real number."""
    if value is None or isinstance(value, tuple | list | dict | str):
        raise OperandError(f"sample: a log density is one real number: got {type(value).__name__}; return it alone")  # pyright: ignore[reportUnknownArgumentType]  # a user's value
    aval = aval_of(value, "sample: the log density")
    if aval.shape:
        raise ShapeError(f"sample: a log density is one number: got {aval}; sum those of the observations")
    if aval.dtype.kind == "c":
        raise DtypeError(f"sample: a log density is a real number: got {aval}; take the real part")
    return asarray(value)


def check_dependence(log_density: Callable[[T], Any], constraints: Constraints, position: T, who: str) -> None:
    """Raise where a density does not read a parameter, which then has no law: it could be anywhere.

    Args:
        log_density: of the constrained parameters.
        constraints: of the parameters; one that has bounds gives a law by itself.
        position: the unconstrained parameters.
        who: for messages.
    """
    check_callable(log_density, who)

    def density(position: T) -> Array:
        return checked_density(log_density(constrain(constraints, position))) + log_det(constraints, position)

    graph = trace(density)(position)
    read = indices_of(graph.outputs)
    for eq in reversed(graph.equations):
        if any(var.index in read for var in eq.outputs):
            read |= indices_of(eq.inputs)
    for path, var in zip(pytree.paths(pytree.structure(position)), graph.inputs, strict=True):
        if var.index not in read and var.aval.size:
            raise ArgumentError(
                f"{who}: the log density does not depend on a parameter: got {var.aval} at {path or 'the start'}; "
                "give it a prior, or leave it out"
            )


def position_of_start(constraints: Constraints, start: T, who: str) -> T:
    """Return the unconstrained position of a start that keeps its constraints."""
    with np.errstate(all="ignore"):
        position = unconstrain(constraints, start)
        again = constrain(constraints, position)
    leaves = zip(*map(pytree.leaves, (start, again)), strict=True)
    pairs = zip(pytree.paths(pytree.structure(start)), bijectors_of(constraints, start), leaves, strict=True)
    for path, bijector, (x, y) in pairs:
        if bijector is not None and not isinstance(y, Tracer) and not _is_near(np.asarray(x), np.asarray(y)):
            raise ArgumentError(
                f"{who}: a start lies within its constraints: got {np.asarray(x).tolist()} at {path or 'the start'} "
                f"for {bijector!r}; begin within it"
            )
    return position


def _is_near(x: Any, y: Any) -> bool:
    return x.shape == y.shape and (not x.size or bool(np.allclose(x, y, rtol=0.0, atol=SLACK * np.abs(x).max())))
