"""Directions of descent: BFGS, limited-memory BFGS and truncated Newton, each with the memory it learns from.

Sources: Nocedal & Wright 2006, algorithms 6.1, 7.4 and 7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.linalg.products import outer, vecdot
from afx.ops.manipulation.join import concat
from afx.ops.reductions.moments import vector_norm
from afx.optim.solvers.truncated_cg import truncated_cg

__all__ = ["Bfgs", "Direction", "Lbfgs", "NewtonCg"]

M = TypeVar("M")

HessianProduct = Callable[[Array, Array], Array]  # (point, vector) to the Hessian's product with the vector


class Direction(Protocol[M]):
    """A way to find directions of descent: pure functions of a memory, a pytree."""

    def init(self, x: Array) -> M:
        """Return the memory before the first step."""
        ...

    def propose(self, memory: M, x: Array, gradient: Array, free: Array) -> tuple[Array, Array]:
        """Return a direction, and how many evaluations it took; where not ``free`` it is 0."""
        ...

    def learn(self, memory: M, step: Array, change: Array) -> M:
        """Return the memory after a step, in which the gradient changed."""
        ...


def _has_curvature(step: Array, change: Array) -> Array:
    """Tell whether the curvature along a step is positive beyond rounding, so that it keeps the matrix definite."""
    return vecdot(step, change) > float(np.finfo(step.dtype).eps) * vector_norm(step) * vector_norm(change)


def first_step(gradient: Array) -> Array:
    """Return the length of the first step of steepest descent, for which nothing is known: at most 1."""
    return minimum(1.0, 1 / maximum(vector_norm(gradient), np.finfo(gradient.dtype).smallest_normal))


@attrs.frozen
class Pairs:
    """Steps and changes of the gradient, the newest first; empty ones are zeros."""

    steps: Array
    changes: Array
    weights: Array


@attrs.frozen
class Lbfgs:
    """Limited-memory BFGS: the last pairs of steps and changes of the gradient (Liu & Nocedal 1989)."""

    memory: int

    def init(self, x: Array) -> Pairs:
        """Return a memory without pairs."""
        shape = (self.memory, x.shape[0])
        return Pairs(zeros(shape, x.dtype), zeros(shape, x.dtype), zeros(self.memory, x.dtype))

    def propose(self, memory: Pairs, x: Array, gradient: Array, free: Array) -> tuple[Array, Array]:
        """Return the two-loop recursion's direction."""
        del x
        q = where(free, gradient, 0.0)
        alphas: list[Array] = []
        for i in range(self.memory):
            alphas.append(memory.weights[i] * vecdot(memory.steps[i], q))
            q = q - alphas[i] * memory.changes[i]
        curved = vecdot(memory.changes[0], memory.changes[0])
        known = (memory.weights[0] > 0) & (curved > 0)
        scale = where(known, 1 / where(known, memory.weights[0] * curved, 1.0), first_step(gradient))
        r = scale * q
        for i in reversed(range(self.memory)):
            r = r + memory.steps[i] * (alphas[i] - memory.weights[i] * vecdot(memory.changes[i], r))
        return where(free, -r, 0.0), asarray(0)

    def learn(self, memory: Pairs, step: Array, change: Array) -> Pairs:
        """Return the memory with a pair in front, where it has positive curvature."""
        keep = _has_curvature(step, change)
        weight = 1 / where(keep, vecdot(step, change), 1.0)

        def push(old: Array, new: Array) -> Array:
            return where(keep, concat([new[None], old[:-1]]), old)

        return Pairs(push(memory.steps, step), push(memory.changes, change), push(memory.weights, weight))


@attrs.frozen
class InverseHessian:
    """An estimate of the inverse Hessian, and whether it has learned anything yet."""

    matrix: Array
    learned: Array


@attrs.frozen
class Bfgs:
    """BFGS: a dense estimate of the inverse Hessian."""

    def init(self, x: Array) -> InverseHessian:
        """Return the unit matrix."""
        return InverseHessian(eye(x.shape[0], dtype=x.dtype), asarray(False))

    def propose(self, memory: InverseHessian, x: Array, gradient: Array, free: Array) -> tuple[Array, Array]:
        """Return minus the estimate times the gradient."""
        del x
        scale = where(memory.learned, 1.0, first_step(gradient))
        return where(free, -scale * (memory.matrix @ where(free, gradient, 0.0)), 0.0), asarray(0)

    def learn(self, memory: InverseHessian, step: Array, change: Array) -> InverseHessian:
        """Return the updated estimate; before its first update it takes the size of the curvature."""
        keep = _has_curvature(step, change)
        curve = where(keep, vecdot(step, change), 1.0)
        length = vecdot(change, change)
        size = where(memory.learned | ~keep, 1.0, curve / where(keep, length, 1.0))
        h = size * memory.matrix
        hy = h @ change
        cross = outer(hy, step)
        new = h + (1 + vecdot(change, hy) / curve) * outer(step, step) / curve - (cross + cross.T) / curve
        return InverseHessian(where(keep, new, memory.matrix), memory.learned | keep)


@attrs.frozen(eq=False)
class NewtonCg:
    """Truncated Newton: conjugate gradients on the Hessian, ended at negative curvature or a relative tolerance."""

    product: HessianProduct

    def init(self, x: Array) -> tuple[Any, ...]:
        """Return no memory."""
        return ()

    def propose(self, memory: tuple[Any, ...], x: Array, gradient: Array, free: Array) -> tuple[Array, Array]:
        """Return the direction and the number of products with the Hessian."""
        g = where(free, gradient, 0.0)
        size = vector_norm(g)
        step, count = truncated_cg(
            lambda v: where(free, self.product(x, where(free, v, 0.0)), 0.0), g, minimum(0.5, sqrt(size)) * size
        )
        return step, count

    def learn(self, memory: tuple[Any, ...], step: Array, change: Array) -> tuple[Any, ...]:
        """Return no memory."""
        return ()
