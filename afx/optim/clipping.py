"""Clipping: gradients, updates and parameters kept within limits, and gradients that are more than slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, Shown, aval_of, complex128, float64
from afx.errors import DtypeError, ShapeError
from afx.ops import arange, asarray, cumsum, sort, stack, stop_gradient, vector_norm, zeros
from afx.ops.elementwise.arithmetic import abs as abs_, abs as absolute, sign
from afx.ops.elementwise.comparison import clip, isfinite, maximum, where
from afx.ops.reductions.sums import all as all_, max as largest, mean, sum as sum_
from afx.optim import hyperparameters
from afx.optim.hyperparameters import check_numbers, count_zero, positive
from afx.optim.step import (
    Optimizer,
    apply_rule,
    are_sharded,
    as_real,
    check_kind,
    check_params,
    is_trained,
    largest_of_shards,
    map_trained,
    norm_of_shards,
    trained_leaves,
)
from afx.optim.transforms import ScheduleState, Stateless, StatelessRescaling, check_optimizer
from afx.pytree import Tree, TreeDef
from afx.pytree.trees import check_matching, check_structure
from afx.random import fold_in, normal
from afx.transforms.derivatives.grad import value_and_grad
from afx.transforms.vmap import vmap

__all__ = [
    "Projected",
    "adaptive_clip",
    "add_noise",
    "centralize",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "private_grad",
    "project_box",
    "project_l1_ball",
    "project_l2_ball",
    "project_nonnegative",
    "project_simplex",
    "projected",
    "sharpness_aware",
]

# --- Clipping: gradients, or updates behind an optimizer, are kept below a limit

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
    fits = norm <= limit / size
    factor = limit / where(norm == 0, 1.0, norm)

    return map_trained(lambda x: where(fits, x, x / as_real(size, x) * as_real(factor, x)), tree)


@attrs.frozen
class ClipByGlobalNorm(StatelessRescaling):
    """The rule that scales gradients down where their `global_norm` is above ``limit``.

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

    who: ClassVar[str] = "clip_by_global_norm"
    limit: float = attrs.field(validator=hyperparameters.check_positive)

    def _change(self, grads: T, params: T) -> T:
        return _scale_to_norm(grads, self.limit)


@attrs.frozen
class ClipByNorm(StatelessRescaling):
    """The rule that scales each array of the gradients down where its own norm is above ``limit``.

    Args:
        limit: the largest norm, above 0.

    Raises:
        ArgumentError: the limit is not above 0.

    >>> import afx
    >>> rule = clip_by_norm(1.0)
    >>> rule.update((afx.asarray([3.0, 4.0]), afx.asarray([0.5])), rule.init(None), (afx.zeros(2), afx.zeros(1)), None)[0]
    (Array([0.6, 0.8], dtype=float32), Array([0.5], dtype=float32))
    """

    who: ClassVar[str] = "clip_by_norm"
    limit: float = attrs.field(validator=hyperparameters.check_positive)

    def _change(self, grads: T, params: T) -> T:
        return map_trained(lambda g: _scale_to_norm(g, self.limit), grads)


@attrs.frozen
class ClipByBlockRms(StatelessRescaling):
    """The rule that scales each array of the updates down where its root mean square is above ``limit``.

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

    who: ClassVar[str] = "clip_by_block_rms"
    limit: float = attrs.field(validator=hyperparameters.check_positive)

    def _change(self, grads: T, params: T) -> T:
        return map_trained(lambda g: _scale_to_norm(g, as_real(self.limit, g) * g.size**0.5), grads)


@attrs.frozen
class ClipByValue(StatelessRescaling):
    """The rule that limits each element of the gradients to the interval from ``-limit`` to ``limit``.

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

    who: ClassVar[str] = "clip_by_value"
    limit: float = attrs.field(validator=hyperparameters.check_positive)

    def _change(self, grads: T, params: T) -> T:
        return map_trained(self._clip, grads)

    def _clip(self, g: Array) -> Array:
        if g.dtype.kind == "c":
            raise DtypeError(f"clip_by_value: complex numbers have no order: got {g.aval}; use clip_by_global_norm")
        return clip(g, -as_real(self.limit, g), as_real(self.limit, g))


def _unit_norm(x: Array) -> Array:
    """Return the norm of what leads to each output: all of a vector, the columns of a matrix, the filters of a kernel."""
    axes = tuple(range(x.ndim - 1)) if x.ndim > 3 else (0,)
    vector = sum(n > 1 for n in x.shape) <= 1
    return vector_norm(x, axis=None if vector else axes, keepdims=True)


@attrs.frozen
class AdaptiveClip(StatelessRescaling):
    """The rule that keeps each unit's gradient below ``clipping`` times the norm of the unit's parameters.

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

    who: ClassVar[str] = "adaptive_clip"
    clipping: float = attrs.field(validator=hyperparameters.check_positive)
    eps: float = attrs.field(default=1e-3, kw_only=True, validator=hyperparameters.check_positive)

    def _change(self, grads: T, params: T) -> T:
        return map_trained(self._clip, grads, params)

    def _clip(self, g: Array, p: Array) -> Array:
        norm, limit = _unit_norm(g), as_real(self.clipping, p) * maximum(_unit_norm(p), as_real(self.eps, p))
        return where(norm < limit, g, g / maximum(norm, 1e-6) * limit)


# --- Gradients that are more than slopes: with noise, centred, at the worst point nearby, and of clipped examples

P = ParamSpec("P")


def _add_noise(tree: T, key: Array, size: float | Array) -> T:
    """Return a tree with normal numbers of a standard deviation added, from a key for each leaf."""
    leaves, treedef = pytree.flatten(tree)

    def noisy(k: int, g: Array) -> Array:
        if not is_trained(g):
            return g
        width = as_real(size, g)
        own = fold_in(key, k)
        if g.dtype.kind != "c":
            return g + normal(own, g.shape, dtype=g.dtype) * width
        real, imaginary = (normal(fold_in(own, j), g.shape, dtype=g.real.dtype) for j in range(2))
        return g + (real + 1j * imaginary) * width

    return pytree.unflatten(treedef, [noisy(k, g) for k, g in enumerate(leaves)])


@attrs.frozen
class AddNoise(Shown):
    """The rule that adds normal numbers of variance ``variance / (1 + t)^decay`` to gradients.

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

    who: ClassVar[str] = "add_noise"
    key: Array
    variance: float = hyperparameters.nonnegative_field(0.01)
    decay: float = attrs.field(default=0.55, kw_only=True, validator=hyperparameters.check_not_negative)

    def init(self, params: object) -> ScheduleState:
        """Return the state before the first step."""
        return ScheduleState(count_zero(), count_zero() + self.variance**0.5)

    def update(
        self, grads: T, state: ScheduleState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleState]:
        """Return noisy gradients, and the next state."""
        check_kind(state, ScheduleState, "add_noise")
        size = (self.variance / (1 + state.count) ** self.decay) ** 0.5
        noisy = _add_noise(grads, fold_in(self.key, state.count.astype(int)), size)
        return noisy, ScheduleState(state.count + 1, size)


@attrs.frozen
class Centralize(Stateless):
    """The rule that takes from the gradient of each output's weights their mean; vectors stay.

    Outputs are the last axis, as in afx's layers. Source: Yong et al. 2020, equation 1.

    >>> import afx
    >>> rule = centralize()
    >>> rule.update(afx.asarray([[1.0, 5.0], [3.0, 5.0]]), rule.init(None), None, None)[0]
    Array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)
    """

    def _change(self, grads: T, params: T) -> T:
        def centred(g: Array) -> Array:
            return g - mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True) if g.ndim > 1 and g.size else g

        return map_trained(centred, grads)


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
        average = pytree.map(lambda g: mean(g, axis=0) if is_trained(g) else g[0], grads)
        return mean(values), _add_noise(average, key, noise * limit / values.shape[0])

    return value_and_private_grad


def _zero_unless_finite(grads: T) -> T:
    """Return gradients, zeros for all of them where one holds inf or nan."""
    known = [all_(isfinite(g)) for g in pytree.leaves(grads) if is_trained(g)]
    if not known:
        return grads
    finite = all_(stack(known))
    return map_trained(lambda g: where(finite, g, 0), grads)


# --- Projections: steps that end in a set of allowed parameters

S = TypeVar("S")


@attrs.frozen
class Projected(Shown, Generic[S]):
    """An optimizer whose steps end in a set; made by `projected`."""

    inner: Optimizer[S]
    projection: Callable[[Any], Any]

    def init(self, params: Any) -> S:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return updates that lead to the projection of where the inner ones lead."""
        updates, after = self.inner.descend(grads, state, params, value)
        target: T = self.projection(map_trained(lambda p, u: p + u, params, updates))
        return map_trained(lambda t, p: t - p, target, params), after

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters, which are exactly a projection, and state."""
        moved, after = apply_rule(self.inner.descend, params, grads, state, value)
        target: T = self.projection(moved)
        before, treedef = pytree.flatten(moved)
        flat_target = pytree.flatten(target)
        _check_projection((before, treedef), flat_target)
        trained = trained_leaves(before, treedef)
        projected_leaves = [y if t else x for x, y, t in zip(before, flat_target[0], trained, strict=True)]
        return pytree.unflatten(treedef, projected_leaves), after


def _check_projection(before: tuple[list[Any], TreeDef[Any]], after: tuple[list[Any], TreeDef[Any]]) -> None:
    """Raise where a projection changes the structure, a shape or a dtype."""
    what = "the projection of params"
    check_structure(after[1], before[1], "projected", what, "keep it")
    avals, wanted = [aval_of(x, "projected") for x in after[0]], [aval_of(x) for x in before[0]]
    check_matching(avals, wanted, before[1], "projected", what, "keep it")


def projected(optimizer: Optimizer[S], projection: Callable[[T], T]) -> Projected[S]:
    """Return an optimizer that projects the parameters after each step, onto a set of allowed ones.

    Args:
        optimizer: what takes the step.
        projection: a function of the parameters that returns allowed ones, of the same structure, shapes and dtypes.

    Raises:
        TreeError, ShapeError, DtypeError: the projection returns something else (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = projected(optim.sgd(1.0), lambda p: afx.maximum(p, 0.0))
    >>> optimizer.step(afx.zeros(2), afx.asarray([1.0, -1.0]), optimizer.init(afx.zeros(2)))[0]
    Array([0., 1.], dtype=float32)
    """
    check_optimizer(optimizer, "projected")
    return Projected(optimizer, projection)


# -- sets -------------------------------------------------------------------------------------------------------------
def project_box(params: T, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> T:
    """Return the nearest parameters between two bounds, numbers or arrays that broadcast.

    >>> import afx
    >>> project_box(afx.asarray([-1.0, 0.5, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return map_trained(lambda p: clip(p, low, high), params)


def project_nonnegative(params: T) -> T:
    """Return the nearest parameters of 0 or more.

    >>> import afx
    >>> project_nonnegative(afx.asarray([-1.0, 0.5]))
    Array([0. , 0.5], dtype=float32)
    """
    return map_trained(lambda p: maximum(p, 0.0), params)


def project_simplex(params: T, total: ArrayLike = 1.0) -> T:
    """Return the nearest parameters of 0 or more that sum to a total, all leaves together.

    Source: Held, Wolfe & Crowder 1974; Duchi et al. 2008, Figure 1.

    Raises:
        ArgumentError: the total is below 0.
        ShapeError: there are no parameters.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_simplex(afx.asarray([1.0, 0.5, -1.0]))
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """
    positive("total", total, "project_simplex", zero=True)
    vector, unravel = _vector(params, "project_simplex")
    if not vector.size:
        raise ShapeError(f"project_simplex: numbers sum to a total: got {vector.aval}; give one parameter or more")
    return unravel(_nearest_of_total(vector, total))


def project_l1_ball(params: T, radius: ArrayLike = 1.0) -> T:
    """Return the nearest parameters whose absolute values sum to a radius at most, all leaves together.

    Source: Duchi et al. 2008, section 4.

    Raises:
        ArgumentError: the radius is below 0.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_l1_ball(afx.asarray([1.0, -0.5, 0.0]))
    Array([ 0.75, -0.25,  0.  ], dtype=float32)
    """
    positive("radius", radius, "project_l1_ball", zero=True)
    vector, unravel = _vector(params, "project_l1_ball")
    if not vector.size:
        return params
    size = abs_(vector)
    shrunk = sign(vector) * _nearest_of_total(size, radius)
    return unravel(where(sum_(size) <= radius, vector, shrunk))


def project_l2_ball(params: T, radius: ArrayLike = 1.0) -> T:
    """Return the nearest parameters whose norm is a radius at most, all leaves together.

    Raises:
        ArgumentError: the radius is below 0.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_l2_ball(afx.asarray([3.0, 4.0]))
    Array([0.6, 0.8], dtype=float32)
    """
    positive("radius", radius, "project_l2_ball", zero=True)
    vector, unravel = _vector(params, "project_l2_ball")
    size = vector_norm(vector)
    outside = size > radius
    return unravel(where(outside, vector * (radius / where(outside, size, 1.0)), vector))


def _vector(params: T, who: str) -> tuple[Array, pytree.Unravel[T]]:
    """Return the trained leaves as one real vector, and the function back."""
    leaves, treedef = pytree.flatten(params)
    check_params(leaves, treedef, who)
    vector, unravel = pytree.ravel(params)
    if vector.dtype.kind == "c":
        raise DtypeError(f"{who}: needs real parameters: got {vector.aval}; keep their parts apart")
    return vector, unravel


def _nearest_of_total(vector: Array, total: ArrayLike) -> Array:
    """Return the nearest numbers of 0 or more that sum to a total.

    All are taken as distances from the largest, which change nothing but keep the total's digits beside large numbers.
    """
    shifted = vector - stop_gradient(largest(vector))
    falling = -sort(-shifted)
    excess = cumsum(falling) - total
    place = arange(1, vector.shape[0] + 1, dtype=vector.dtype)
    count = sum_((falling * place > excess).astype(int))
    threshold = excess[maximum(count - 1, 0)] / maximum(count, 1).astype(vector.dtype)
    return maximum(shifted - threshold, 0.0)


# --- Names of functions, which users write, for the classes

clip_by_global_norm = ClipByGlobalNorm
clip_by_norm = ClipByNorm
clip_by_block_rms = ClipByBlockRms
clip_by_value = ClipByValue
adaptive_clip = AdaptiveClip
add_noise = AddNoise
centralize = Centralize

# names in files of earlier versions
_ClipByGlobalNorm = ClipByGlobalNorm
_ClipByNorm = ClipByNorm
_ClipByBlockRms = ClipByBlockRms
_ClipByValue = ClipByValue
_AdaptiveClip = AdaptiveClip
_AddNoise = AddNoise
_Centralize = Centralize
