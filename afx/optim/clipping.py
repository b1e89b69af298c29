"""Clipping: gradients, or updates behind an optimizer, are kept below a limit."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array
from afx.core.dtypes import complex128, float64
from afx.errors import DtypeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.arithmetic import abs as absolute
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.manipulation.join import stack
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import max as largest
from afx.optim import checks
from afx.optim.leaves import as_real, is_trained, map_trained
from afx.optim.protocols import EmptyState, Rescaling
from afx.optim.shards import are_sharded, largest_of_shards, norm_of_shards
from afx.optim.transforms import StatelessRescaling
from afx.pytree import Tree

__all__ = [
    "adaptive_clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
]

T = TypeVar("T")


def global_norm(tree: Tree) -> Array:
    """Return Euclid's norm of all elements of a tree together, as a float64 scalar; its derivative at 0 is 0.

    Squares neither overflow nor vanish. Optax's function of this name sums squares as they are.

    >>> import afx
    >>> global_norm((afx.asarray([3.0]), afx.asarray(4.0)))
    Array(5., dtype=float64)
    """
    norms = [vector_norm(_double(asarray(x))) for x in pytree.leaves(tree)]
    return vector_norm(stack(norms)) if norms else zeros((), float64)


def _double(x: Array) -> Array:
    return x.astype(complex128 if x.dtype.kind == "c" else float64)


def _scale_to_norm(tree: T, limit: float | Array) -> T:
    """Return a tree scaled down to a norm; its largest element goes out first, so that nothing leaves the range."""
    leaves = [asarray(x) for x in pytree.leaves(tree) if is_trained(x) and (x.size or are_sharded())]
    if not leaves:
        return tree
    sizes = [largest(absolute(x)) if x.size else vector_norm(x) for x in leaves]
    size = largest_of_shards(largest(stack([x.astype(float64) for x in sizes])))
    size = where(size == 0, 1.0, size)
    norm = norm_of_shards(global_norm([_double(x) / size for x in leaves]))
    inside = norm <= limit / size
    factor = limit / where(norm == 0, 1.0, norm)

    def limited(x: Array) -> Array:
        return where(inside, x, x / as_real(size, x) * as_real(factor, x))

    return map_trained(limited, tree)


@attrs.frozen
class _ClipByGlobalNorm(StatelessRescaling):
    who: ClassVar[str] = "clip_by_global_norm"
    limit: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        return _scale_to_norm(grads, self.limit)


def clip_by_global_norm(limit: float) -> Rescaling[EmptyState]:
    """Return the rule that scales gradients down where their `global_norm` is above ``limit``.

    The step then keeps its direction. Gradients of any finite size are clipped to the limit, where squares of 1e200
    would give 0. A norm that is not finite leads to nan in the parameters: it is not hidden.

    Source: Pascanu et al. 2013, Algorithm 1. torch adds 1e-6 to the norm.

    Args:
        limit: the largest norm, above 0.

    Raises:
        ArgumentError: the limit is not above 0.

    >>> import afx
    >>> rule = clip_by_global_norm(1.0)
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.zeros(2), None)[0]
    Array([0.6, 0.8], dtype=float32)
    """
    return _ClipByGlobalNorm(limit)


@attrs.frozen
class _ClipByNorm(StatelessRescaling):
    who: ClassVar[str] = "clip_by_norm"
    limit: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        return map_trained(lambda g: _scale_to_norm(g, self.limit), grads)


def clip_by_norm(limit: float) -> Rescaling[EmptyState]:
    """Return the rule that scales each array of the gradients down where its own norm is above ``limit``.

    Args:
        limit: the largest norm, above 0.

    Raises:
        ArgumentError: the limit is not above 0.

    >>> import afx
    >>> rule = clip_by_norm(1.0)
    >>> rule.update((afx.asarray([3.0, 4.0]), afx.asarray([0.5])), rule.init(None), (afx.zeros(2), afx.zeros(1)), None)[0]
    (Array([0.6, 0.8], dtype=float32), Array([0.5], dtype=float32))
    """
    return _ClipByNorm(limit)


@attrs.frozen
class _ClipByBlockRms(StatelessRescaling):
    who: ClassVar[str] = "clip_by_block_rms"
    limit: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        return map_trained(lambda g: _scale_to_norm(g, as_real(self.limit, g) * g.size**0.5), grads)


def clip_by_block_rms(limit: float) -> Rescaling[EmptyState]:
    """Return the rule that scales each array of the updates down where its root mean square is above ``limit``.

    Source: Shazeer & Stern 2018, section 6, for Adafactor.

    Args:
        limit: the largest root mean square, above 0.

    Raises:
        ArgumentError: the limit is not above 0.

    >>> import afx
    >>> rule = clip_by_block_rms(1.0)
    >>> rule.update(afx.asarray([3.0, 3.0]), rule.init(None), afx.zeros(2), None)[0]
    Array([1., 1.], dtype=float32)
    """
    return _ClipByBlockRms(limit)


@attrs.frozen
class _ClipByValue(StatelessRescaling):
    who: ClassVar[str] = "clip_by_value"
    limit: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        return map_trained(self._clip, grads)

    def _clip(self, g: Array) -> Array:
        if g.dtype.kind == "c":
            raise DtypeError(f"clip_by_value: complex numbers have no order: got {g.aval}; use clip_by_global_norm")
        return clip(g, -as_real(self.limit, g), as_real(self.limit, g))


def clip_by_value(limit: float) -> Rescaling[EmptyState]:
    """Return the rule that limits each element of the gradients to the interval from ``-limit`` to ``limit``.

    Args:
        limit: the largest absolute value, above 0.

    Raises:
        ArgumentError: the limit is not above 0.
        DtypeError: a gradient is complex (at the step).

    >>> import afx
    >>> rule = clip_by_value(1.0)
    >>> rule.update(afx.asarray([3.0, -0.5]), rule.init(None), afx.zeros(2), None)[0]
    Array([ 1. , -0.5], dtype=float32)
    """
    return _ClipByValue(limit)


def _unit_norm(x: Array) -> Array:
    """Return the norm of what leads to each output: all of a vector, the columns of a matrix, the filters of a kernel."""
    axes = tuple(range(x.ndim - 1)) if x.ndim > 3 else (0,)
    vector = sum(n > 1 for n in x.shape) <= 1
    return vector_norm(x, axis=None if vector else axes, keepdims=True)


@attrs.frozen
class _AdaptiveClip(StatelessRescaling):
    who: ClassVar[str] = "adaptive_clip"
    clipping: float = attrs.field(validator=checks.positive)
    eps: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        return map_trained(self._clip, grads, params)

    def _clip(self, g: Array, p: Array) -> Array:
        norm, limit = _unit_norm(g), as_real(self.clipping, p) * maximum(_unit_norm(p), as_real(self.eps, p))
        return where(norm < limit, g, g / maximum(norm, 1e-6) * limit)


def adaptive_clip(clipping: float, *, eps: float = 1e-3) -> Rescaling[EmptyState]:
    """Return the rule that keeps each unit's gradient below ``clipping`` times the norm of the unit's parameters.

    A unit is a whole vector, a column of a matrix (in stacks too, along axis 0), or the kernel of one output channel.
    The channel axis is the last.

    Source: Brock et al. 2021, section 4.1, as in Optax.

    Args:
        clipping: the largest ratio of the two norms, above 0.
        eps: the least norm of parameters that counts, so that those at 0 can move.

    Raises:
        ArgumentError: an argument is not above 0.

    >>> import afx
    >>> rule = adaptive_clip(0.1)
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.asarray([0.0, 1.0]), None)[0].round(3)
    Array([0.06, 0.08], dtype=float32)
    """
    return _AdaptiveClip(clipping, eps)
