"""Bijectors: smooth ways from unconstrained numbers to constrained parameters, with their log-determinants.

Simplexes and Cholesky factors are as in Stan's reference manual, chapter "Constraint transforms".
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.core.tracing.tracer import is_traced
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import ones_like, zeros, zeros_like
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp, log, log_sigmoid, logaddexp, sigmoid
from afx.ops.elementwise.trigonometry import arctanh, tanh
from afx.ops.linalg.products import vecdot
from afx.ops.manipulation.join import concat
from afx.ops.reductions.cumulative import cumsum
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum as sum_

__all__ = [
    "Bijector",
    "CholeskyCorrelation",
    "Interval",
    "Lower",
    "Ordered",
    "Positive",
    "Simplex",
    "UnitVector",
    "Upper",
]


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


@attrs.frozen
class Lower(Bijector):
    """Numbers above a bound, or above one each: ``bound + exp(x)``."""

    bound: Any = 0.0

    def forward(self, x: Array) -> Array:
        """Return the numbers above the bound."""
        found: Array = exp(x) + self.bound
        return found

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
class Upper(Bijector):
    """Numbers below a bound, or below one each: ``bound - exp(x)``."""

    bound: Any = 0.0

    def forward(self, x: Array) -> Array:
        """Return the numbers below the bound."""
        found: Array = self.bound - exp(x)
        return found

    def inverse(self, y: Array) -> Array:
        """Return the logarithm of the distance."""
        return log(self.bound - y)

    def log_det(self, x: Array) -> Array:
        """Return the sum of x."""
        return sum_(x)


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
        found: Array = sigmoid(x) * (self.high - self.low) + self.low
        return found

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
        ahead = concat([zeros_like(x[..., :1]), left], axis=-1)
        return exp(concat([log_sigmoid(z), zeros_like(x[..., :1])], axis=-1) + ahead)

    def inverse(self, y: Array) -> Array:
        """Return the logits of the breaks."""
        left = cumsum(y[..., :0:-1], axis=-1)[..., ::-1]
        z = log(y[..., :-1]) - log(left)
        found: Array = z + _even_odds(z)
        return found

    def log_det(self, x: Array) -> Array:
        """Return the sum of the logarithms of the slopes of breaks."""
        z = x - _even_odds(x)
        stays = log_sigmoid(-z)
        left = cumsum(stays, axis=-1) - stays
        return sum_(log_sigmoid(z) + stays + left)


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
class CholeskyCorrelation(Bijector):
    """Lower Cholesky factors [k, k] of correlation matrices, from k (k - 1) / 2 numbers on the last axis.

    The determinant is that of the elements below the diagonal: a density of the matrix itself adds the logarithm of that
    of its factor, as Stan's ``lkj_corr_cholesky`` does.
    """

    def forward(self, x: Array) -> Array:
        """Return the factors."""
        k, rows, columns = _triangle(x.shape[-1])
        lengths, _ = self._lengths(x)
        below = zeros((*x.shape[:-1], k, k), x.dtype).at[..., rows, columns].set(tanh(x))
        every = np.arange(k)
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

    def _lengths(self, x: Array) -> tuple[Array, Array]:
        """Return the logarithms of what is left of each row's length before each column, and of 1 - tanh(x)²."""
        k, rows, columns = _triangle(x.shape[-1])
        slopes = 2 * (math.log(2) - logaddexp(x, -x))
        table = zeros((*x.shape[:-1], k, k), x.dtype).at[..., rows, columns].set(slopes)
        return 0.5 * (cumsum(table, axis=-1) - table), slopes


def _triangle(count: int) -> tuple[int, Any, Any]:
    """Return the size of a matrix with so many elements below its diagonal, and where these are, row by row."""
    k = math.isqrt(2 * count) + 1
    if k * (k - 1) // 2 != count:
        raise ShapeError(
            f"CholeskyCorrelation: a factor [k, k] has k (k - 1) / 2 free numbers: got {count}; take 1, 3, 6, 10 …"
        )
    return (k, *np.tril_indices(k, -1))


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
