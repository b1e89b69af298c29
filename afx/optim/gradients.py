"""Gradients that are more than slopes: with noise, centred, at the worst point nearby, and of clipped examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.errors import ShapeError
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import stack
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.sums import mean
from afx.optim import checks
from afx.optim.clipping import clip_by_global_norm, global_norm
from afx.optim.hyperparameters import check_numbers, count_zero, positive
from afx.optim.leaves import as_real, is_trained, map_trained
from afx.optim.protocols import EmptyState, Transformation
from afx.optim.step import check_kind
from afx.optim.transforms import ScheduleState, Stateless
from afx.random import fold_in, normal
from afx.transforms.derivatives.grad import value_and_grad
from afx.transforms.vmap import vmap

__all__ = ["add_noise", "centralize", "private_grad", "sharpness_aware"]

P = ParamSpec("P")
T = TypeVar("T")


def _add_noise(tree: T, key: Array, size: float | Array) -> T:
    """Return a tree with normal numbers of a standard deviation added, from a key for each leaf."""
    leaves, treedef = pytree.flatten(tree)

    def noisy(k: int, g: Array) -> Array:
        if not is_trained(g):
            return g
        width = as_real(size, g)
        own: Array = fold_in(key, k)
        if g.dtype.kind != "c":
            return g + normal(own, g.shape, dtype=g.dtype) * width
        real, imaginary = (normal(fold_in(own, j), g.shape, dtype=g.real.dtype) for j in range(2))
        return g + (real + 1j * imaginary) * width

    return pytree.unflatten(treedef, [noisy(k, g) for k, g in enumerate(leaves)])


@attrs.frozen
class _AddNoise:
    who: ClassVar[str] = "add_noise"
    key: Array
    variance: float = attrs.field(validator=checks.not_negative)
    decay: float = attrs.field(validator=checks.not_negative)

    def init(self, params: object) -> ScheduleState:
        return ScheduleState(count_zero(), count_zero() + self.variance**0.5)

    def update(
        self, grads: T, state: ScheduleState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleState]:
        check_kind(state, ScheduleState, "add_noise")
        size = (self.variance / (1 + state.count) ** self.decay) ** 0.5
        noisy = _add_noise(grads, fold_in(self.key, state.count.astype(int)), size)
        return noisy, ScheduleState(state.count + 1, size)


def add_noise(key: Array, variance: float = 0.01, *, decay: float = 0.55) -> Transformation[ScheduleState]:
    """Return the rule that adds normal numbers of variance ``variance / (1 + t)^decay`` to gradients.

    Source: Neelakantan et al. 2015, equation 1.

    Args:
        key: a random key; step t draws from it folded with t.
        variance: that of the first step, 0 or more.
        decay: the exponent by which it falls, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = add_noise(afx.random.key(0), 1e-6)
    >>> rule.update(afx.ones(2), rule.init(afx.ones(2)), afx.ones(2), None)[0].round(1)
    Array([1., 1.], dtype=float32)
    """
    return _AddNoise(key, variance, decay)


@attrs.frozen
class _Centralize(Stateless):
    def change(self, grads: T, params: T) -> T:
        def centred(g: Array) -> Array:
            return g - mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True) if g.ndim > 1 and g.size else g

        return map_trained(centred, grads)


def centralize() -> Transformation[EmptyState]:
    """Return the rule that takes from the gradient of each output's weights their mean; vectors stay.

    Outputs are the last axis, as in afx's layers. Source: Yong et al. 2020, equation 1.

    >>> import afx
    >>> rule = centralize()
    >>> rule.update(afx.asarray([[1.0, 5.0], [3.0, 5.0]]), rule.init(None), None, None)[0]
    Array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)
    """
    return _Centralize()


def sharpness_aware(
    fn: Callable[Concatenate[T, P], Array], radius: float = 0.05
) -> Callable[Concatenate[T, P], tuple[Array, T]]:
    """Return what `afx.value_and_grad` does, with the gradient at the worst point within a radius (SAM).

    That point is one step of length ``radius`` uphill; the value is that at the parameters. It takes two gradients.

    Source: Foret et al. 2021, Algorithm 1. As a function of a loss it goes with every optimizer and needs no second state.

    Args:
        fn: a loss of the parameters, and whatever else.
        radius: the length of the step, above 0.

    Raises:
        ArgumentError: the radius is not above 0.

    >>> import afx
    >>> sharpness_aware(lambda x: afx.sum(x**2), 0.5)(afx.asarray([3.0, 4.0]))
    (Array(25., dtype=float32), Array([6.6, 8.8], dtype=float32))
    """
    positive("radius", radius, "sharpness_aware")
    slope = value_and_grad(fn)

    def value_and_worst_grad(params: T, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Array, T]:
        value, grads = slope(params, *args, **kwargs)
        size = global_norm(grads)
        share = where(size > 0, radius / where(size > 0, size, 1.0), 0.0)

        def moved(p: Array, g: Array) -> Array:
            return p + as_real(share, g) * (g.conj() if g.dtype.kind == "c" else g)

        return value, slope(map_trained(moved, params, grads), *args, **kwargs)[1]

    return value_and_worst_grad


def private_grad(
    fn: Callable[[T, Any], Array], limit: float = 1.0, *, noise: float = 0.0
) -> Callable[[T, Any, Array], tuple[Array, T]]:
    """Return a function ``(params, batch, key) -> (mean loss, gradient)`` whose gradient no single example can sway.

    The gradient of each example is clipped to a norm, all are averaged, and normal numbers of standard deviation
    ``noise · limit / examples`` are added: differentially private descent (Abadi et al. 2016, Algorithm 1). The privacy
    that it gives, by noise, batch size and number of steps, is for an accountant to tell. An example whose gradient
    holds inf or nan counts as 0 in the average; the mean loss shows it.

    Args:
        fn: the loss of parameters and one example.
        limit: the norm of an example's gradient, over all parameters, above 0.
        noise: the noise multiplier, 0 or more; 0 clips alone.

    Raises:
        ArgumentError: an argument out of its range.
        ShapeError: the batch holds no example (at the call).

    >>> import afx
    >>> slope = private_grad(lambda w, x: afx.sum(w * x), 1.0)
    >>> slope(afx.ones(2), afx.asarray([[3.0, 4.0], [0.0, 0.5]]), afx.random.key(0))[1]
    Array([0.3 , 0.65], dtype=float32)
    """
    positive("limit", limit, "private_grad")
    positive("noise", noise, "private_grad", zero=True)
    check_numbers("private_grad", limit=limit, noise=noise)
    clip, slope = clip_by_global_norm(limit), value_and_grad(fn)

    def clipped(params: T, example: Any) -> tuple[Array, T]:
        value, grads = slope(params, example)
        return value, clip.update(_zero_unless_finite(grads), clip.init(params), params, None)[0]

    def value_and_private_grad(params: T, batch: Any, key: Array) -> tuple[Array, T]:
        values, grads = vmap(clipped, in_axes=(None, 0))(params, batch)
        if not values.shape[0]:
            raise ShapeError(f"private_grad: averages over examples: got losses {values.aval}; give one or more")
        average: T = pytree.map(lambda g: mean(g, axis=0) if is_trained(g) else g[0], grads)
        return mean(values), _add_noise(average, key, noise * limit / values.shape[0])

    return value_and_private_grad


def _zero_unless_finite(grads: T) -> T:
    """Return gradients, zeros for all of them where one holds inf or nan."""
    known = [all_(isfinite(g)) for g in pytree.leaves(grads) if is_trained(g)]
    if not known:
        return grads
    finite = all_(stack(known))
    return map_trained(lambda g: where(finite, g, 0), grads)
