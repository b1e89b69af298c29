"""Transformations: scaling, weight decay and averaging of gradients, chained with a learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NoReturn, TypeVar, cast, overload

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, Shown, Tracer
from afx.errors import ArgumentError, TreeError
from afx.ops import maximum, vector_norm, where
from afx.optim import hyperparameters
from afx.optim.hyperparameters import (
    LearningRate,
    Schedule,
    check_numbers,
    count_zero,
    first_rate,
    is_nonzero,
    next_rate,
    rate_at,
)
from afx.optim.step import (
    EmptyState,
    Mask,
    Optimizer,
    Rescaling,
    Steps,
    Transformation,
    as_real,
    average,
    check_kind,
    check_params,
    is_trained,
    map_trained,
    mask_leaves,
    norm_of_shards,
    times,
    zeros_of,
)

__all__ = [
    "Chain",
    "Descent",
    "DescentState",
    "EmaState",
    "ScheduleState",
    "TransformationChain",
    "add_decayed_weights",
    "chain",
    "ema",
    "scale",
    "scale_by_param_block_rms",
    "scale_by_schedule",
    "scale_by_trust_ratio",
]

# --- Chains: transformations, one optimizer, then rescalings of its updates

T = TypeVar("T")
S = TypeVar("S")
S1 = TypeVar("S1")
S2 = TypeVar("S2")
S3 = TypeVar("S3")
S4 = TypeVar("S4")
S5 = TypeVar("S5")


@attrs.frozen
class Chain(Steps[S]):
    """An optimizer between transformations; made by `chain`. ``S`` is the tuple of the states of all links."""

    links: tuple[Transformation[Any] | Optimizer[Any], ...]

    def init(self, params: Any) -> S:
        """Return the state of each link."""
        return cast(S, tuple([link.init(params) for link in self.links]))

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state of each link."""
        return _through(self.links, grads, state, params, value)


@attrs.frozen
class TransformationChain(Shown, Generic[S]):
    """Transformations in turn; made by `chain`. ``S`` is the tuple of their states."""

    links: tuple[Transformation[Any], ...]

    def init(self, params: Any) -> S:
        """Return the state of each link."""
        return cast(S, tuple([link.init(params) for link in self.links]))

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return the changed gradients, and the next state of each link."""
        return _through(self.links, grads, state, params, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name == "step":
                raise AttributeError(
                    f"chain: there is no step, for no link is an optimizer: got {_names(self.links)}; end it with "
                    "scale_by_learning_rate(learning_rate), or with an optimizer such as sgd"
                )
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _through(links: tuple[Any, ...], grads: T, state: Any, params: T, value: ArrayLike | None) -> tuple[T, Any]:
    """Pass gradients through all links."""
    after: list[Any] = []
    for link, old in zip(links, _states(state, len(links)), strict=True):
        turn = link.descend if is_optimizer(link) else link.update
        grads, new = turn(grads, old, params, value)
        after.append(new)
    return grads, tuple(after)


def _states(state: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(state, tuple) or len(state) != count:  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        got = f"{len(state)}" if isinstance(state, tuple) else type(state).__name__  # pyright: ignore[reportUnknownArgumentType]  # as above
        raise TreeError(f"chain: {count} links have a tuple of as many states: got {got}; call init(params)")
    return state  # pyright: ignore[reportUnknownVariableType]  # as above


# --- the kinds


def is_optimizer(x: Any) -> bool:
    """Tell whether something makes steps."""
    return not isinstance(x, type) and hasattr(x, "descend")


def _is_transformation(x: Any) -> bool:
    return not isinstance(x, type) and hasattr(x, "update") and hasattr(x, "init") and not is_optimizer(x)


def _name_of_link(x: Any) -> str:
    return str(getattr(x, "__name__", type(x).__name__)).strip("_")


def _names(links: tuple[Any, ...]) -> str:
    return ", ".join([_name_of_link(link) for link in links])


def check_optimizer(x: object, who: str) -> None:
    """Raise where what should be an optimizer is something else."""
    if is_optimizer(x):
        return
    if _is_transformation(x):
        raise ArgumentError(
            f"{who}: needs an optimizer: got the transformation {_name_of_link(x)}, which makes no steps; write "
            "chain(it, scale_by_learning_rate(learning_rate))"
        )
    raise ArgumentError(f"{who}: needs an optimizer: got {_name_of_link(x)}; call it if it makes one")


def check_transformation(x: object, who: str, way: str) -> None:
    """Raise where what should be a transformation is something else."""
    if is_optimizer(x):
        raise ArgumentError(f"{who}: takes a transformation: got the optimizer {_name_of_link(x)}; {way}")
    if not _is_transformation(x):
        raise ArgumentError(f"{who}: takes a transformation: got {_name_of_link(x)}; call it if it makes one")


@overload
def chain(first: Optimizer[S1], /) -> Chain[tuple[S1]]: ...
@overload
def chain(first: Transformation[S1], second: Optimizer[S2], /) -> Chain[tuple[S1, S2]]: ...
@overload
def chain(
    first: Transformation[S1], second: Transformation[S2], third: Optimizer[S3], /
) -> Chain[tuple[S1, S2, S3]]: ...
@overload
def chain(
    first: Transformation[S1], second: Transformation[S2], third: Transformation[S3], fourth: Optimizer[S4], /
) -> Chain[tuple[S1, S2, S3, S4]]: ...
@overload
def chain(
    first: Transformation[S1],
    second: Transformation[S2],
    third: Transformation[S3],
    fourth: Transformation[S4],
    fifth: Optimizer[S5],
    /,
) -> Chain[tuple[S1, S2, S3, S4, S5]]: ...
@overload
def chain(first: Optimizer[S1], second: Rescaling[S2], /) -> Chain[tuple[S1, S2]]: ...
@overload
def chain(first: Transformation[S1], second: Optimizer[S2], third: Rescaling[S3], /) -> Chain[tuple[S1, S2, S3]]: ...
@overload
def chain(
    first: Transformation[S1], second: Transformation[S2], third: Optimizer[S3], fourth: Rescaling[S4], /
) -> Chain[tuple[S1, S2, S3, S4]]: ...
@overload
def chain(
    first: Transformation[S1],
    second: Transformation[S2],
    third: Transformation[S3],
    fourth: Optimizer[S4],
    fifth: Rescaling[S5],
    /,
) -> Chain[tuple[S1, S2, S3, S4, S5]]: ...
@overload
def chain(first: Optimizer[S1], second: Rescaling[S2], third: Rescaling[S3], /) -> Chain[tuple[S1, S2, S3]]: ...
@overload
def chain(
    first: Transformation[S1], second: Optimizer[S2], third: Rescaling[S3], fourth: Rescaling[S4], /
) -> Chain[tuple[S1, S2, S3, S4]]: ...
@overload
def chain(
    first: Transformation[S1],
    second: Transformation[S2],
    third: Optimizer[S3],
    fourth: Rescaling[S4],
    fifth: Rescaling[S5],
    /,
) -> Chain[tuple[S1, S2, S3, S4, S5]]: ...
@overload
def chain(first: Transformation[S1], /) -> TransformationChain[tuple[S1]]: ...
@overload
def chain(first: Transformation[S1], second: Transformation[S2], /) -> TransformationChain[tuple[S1, S2]]: ...
@overload
def chain(
    first: Transformation[S1], second: Transformation[S2], third: Transformation[S3], /
) -> TransformationChain[tuple[S1, S2, S3]]: ...
@overload
def chain(
    first: Transformation[S1], second: Transformation[S2], third: Transformation[S3], fourth: Transformation[S4], /
) -> TransformationChain[tuple[S1, S2, S3, S4]]: ...
@overload
def chain(
    first: Transformation[Any],
    second: Transformation[Any],
    third: Transformation[Any],
    fourth: Transformation[Any],
    fifth: Transformation[Any],
    /,
    *rest: Transformation[Any] | Optimizer[Any],
) -> Chain[tuple[Any, ...]]: ...
def chain(*links: Transformation[Any] | Optimizer[Any]) -> Chain[Any] | TransformationChain[Any]:
    """Return the optimizer that passes gradients through transformations, then an optimizer.

    Transformations in front of the optimizer change gradients. Behind it may stand only those that rescale its updates:
    `scale`, `scale_by_schedule`, `scale_by_trust_ratio`, `reduce_on_plateau` and clips. A chain without an optimizer is a
    transformation, to stand in other chains. The state is the tuple of the links' states.

    Raises:
        ArgumentError: no parts, or a part of another kind; two optimizers, of which the second would go uphill;
            a transformation behind the optimizer that would do so.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = chain(optim.clip_by_global_norm(1.0), optim.sgd(1.0))
    >>> params, state = optimizer.step(afx.zeros(2), afx.asarray([3.0, 4.0]), optimizer.init(afx.zeros(2)))
    >>> params
    Array([-0.6, -0.8], dtype=float32)
    """
    if not links:
        raise ArgumentError("chain: there is nothing to chain: got no links; name one optimizer at least")
    for link in links:
        if not (is_optimizer(link) or _is_transformation(link)):
            raise ArgumentError(
                f"chain: a link is a transformation or an optimizer: got {_name_of_link(link)}; call it if it makes one"
            )
    places = [k for k, link in enumerate(links) if is_optimizer(link)]
    if not places:
        return TransformationChain(cast("tuple[Transformation[Any], ...]", links))
    if len(places) > 1:
        raise ArgumentError(
            f"chain: two optimizers would go uphill together: got {_names(links)}; keep one, or write the transformation "
            "(scale_by_adam for adam, trace for momentum) in place of the other"
        )
    for link in links[places[0] + 1 :]:
        if getattr(link, "rescales", False) is not True:
            raise ArgumentError(
                f"chain: behind an optimizer stand only transformations that rescale: got {_name_of_link(link)} behind "
                f"{_name_of_link(links[places[0]])}; put it in front, and scale_by_learning_rate(learning_rate) last"
            )
    return Chain(links)


# --- Transformations


class Stateless(Shown):
    """The base of transformations without state, which say only how gradients change."""

    __slots__ = ()

    def init(self, params: object) -> EmptyState:
        """Return the state, which holds nothing."""
        return EmptyState()

    def update(self, grads: T, state: EmptyState, params: T, value: ArrayLike | None = None, /) -> tuple[T, EmptyState]:
        """Return the changed gradients."""
        check_kind(state, EmptyState, type(self).__name__.strip("_"))
        return self._change(grads, params), state

    def _change(self, grads: T, params: T) -> T:
        """Return the changed gradients."""
        raise NotImplementedError  # each transformation has its own


class StatelessRescaling(Stateless):
    """The base of stateless transformations that only change sizes."""

    __slots__ = ()
    rescales: ClassVar[Literal[True]] = True


# --- scaling


@attrs.frozen
class Scale(StatelessRescaling):
    """The rule that multiplies gradients (or, behind an optimizer, updates) by a number, 0 or more.

    Raises:
        ArgumentError: the factor is below 0: `scale_by_learning_rate` goes downhill.

    >>> import afx
    >>> scale(2.0).update(afx.ones(1), scale(2.0).init(None), afx.zeros(1), None)[0]
    Array([2.], dtype=float32)
    """

    factor: float

    def __attrs_post_init__(self) -> None:
        _check_factor(self.factor, "scale")

    def _change(self, grads: T, params: T) -> T:
        return times(grads, self.factor)


def _check_factor(factor: float | Array, who: str) -> None:
    check_numbers(who, factor=factor)
    if not isinstance(factor, Tracer) and not float(factor) >= 0:
        raise ArgumentError(
            f"{who}: the factor is 0 or more: got {factor}; to go downhill write scale_by_learning_rate({abs(float(factor))})"
        )


@attrs.frozen
class ScheduleState(Shown):
    """The state of `scale_by_schedule`.

    Attributes:
        count: the number of steps taken.
        factor: that of the last step (of the first one, before it).
    """

    count: Array
    factor: Array


@attrs.frozen
class ScaleBySchedule(Shown):
    """The rule that multiplies by a function of the number of steps taken, 0 or more.

    Raises:
        ArgumentError: the first factor is below 0 (in ``init``).

    >>> import afx
    >>> rule = scale_by_schedule(lambda count: 0.5)
    >>> rule.update(afx.ones(1), rule.init(None), afx.zeros(1), None)[0]
    Array([0.5], dtype=float32)
    """

    schedule: Schedule
    rescales: ClassVar[Literal[True]] = True

    def init(self, params: object) -> ScheduleState:
        """Return the state before the first step."""
        factor = rate_at(self.schedule, count_zero())
        _check_factor(factor, "scale_by_schedule")
        return ScheduleState(count_zero(), factor)

    def update(
        self, grads: T, state: ScheduleState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleState]:
        """Return the gradients times the factor of this step, and the next state."""
        check_kind(state, ScheduleState, "scale_by_schedule")
        factor = rate_at(self.schedule, state.count)
        return times(grads, factor), ScheduleState(state.count + 1, factor)


@attrs.frozen
class ScaleByTrustRatio(StatelessRescaling):
    """The rule that gives each array of the updates ``coefficient`` times the norm of its parameters.

    Where either norm is 0 the update stays as it is. Source: You et al. 2017 (LARS) and 2020 (LAMB).

    Args:
        coefficient: the ratio of the two norms, above 0.
        eps: added to the norm of the update, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = scale_by_trust_ratio()
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.asarray([0.0, 1.0]), None)[0]
    Array([0.6, 0.8], dtype=float32)
    """

    who: ClassVar[str] = "scale_by_trust_ratio"
    coefficient: float = hyperparameters.positive_field(1.0)
    eps: float = attrs.field(default=0.0, kw_only=True, validator=hyperparameters.check_not_negative)

    def _change(self, grads: T, params: T) -> T:
        def scaled(u: Array, p: Array) -> Array:
            weight, size = norm_of_shards(vector_norm(p)), norm_of_shards(vector_norm(u))
            unknown = (weight == 0) | (size == 0)
            ratio = as_real(self.coefficient, u) * weight / where(unknown, 1.0, size + as_real(self.eps, u))
            return where(unknown, 1.0, ratio) * u

        return map_trained(scaled, grads, params)


@attrs.frozen
class ScaleByParamBlockRms(StatelessRescaling):
    """The rule that multiplies each array of the updates by the root mean square of its parameters.

    Source: Shazeer & Stern 2018, section 8, for Adafactor.

    Args:
        least: the least root mean square that counts, above 0.

    Raises:
        ArgumentError: ``least`` is not above 0.

    >>> import afx
    >>> rule = scale_by_param_block_rms()
    >>> rule.update(afx.ones(2), rule.init(None), afx.asarray([2.0, 2.0]), None)[0]
    Array([2., 2.], dtype=float32)
    """

    who: ClassVar[str] = "scale_by_param_block_rms"
    least: float = hyperparameters.positive_field(1e-3)

    def _change(self, grads: T, params: T) -> T:
        def scaled(u: Array, p: Array) -> Array:
            return u * maximum(vector_norm(p) / max(p.size, 1) ** 0.5, as_real(self.least, p))

        return map_trained(scaled, grads, params)


# --- decay


def decay_weights(updates: T, params: T, strength: float | Array, mask: Mask) -> T:
    """Return updates with ``strength · parameter`` added where the mask is true."""
    if not is_nonzero(strength):
        return updates
    chosen = mask_leaves(mask, params, "weight decay")
    leaves, treedef = pytree.flatten(updates)
    pairs = zip(leaves, pytree.leaves(params), chosen, strict=True)
    return pytree.unflatten(treedef, [_decay(u, p, strength, m) for u, p, m in pairs])


def _decay(update: Array, param: Array, strength: float | Array, mask: bool | Array) -> Array:
    if mask is False or not (is_trained(update) and is_trained(param)):
        return update
    decayed = update + as_real(strength, param) * param
    return decayed if mask is True else where(mask, decayed, update)


@attrs.frozen
class AddDecayedWeights(Stateless):
    """The rule that adds ``strength · parameter`` to each gradient, the derivative of an L2 penalty.

    In front of `scale_by_adam` the penalty is scaled as the gradient is; between it and `scale_by_learning_rate` it is
    decoupled, as in `adamw`.

    Args:
        strength: 0 or more; the penalty is ``strength / 2 · Σ parameter²``.
        mask: what decays: a prefix tree of the parameters of bools or boolean arrays, or a function
            ``(path, leaf) -> bool``.

    Raises:
        ArgumentError: the strength is below 0.

    >>> import afx
    >>> rule = add_decayed_weights(0.5, mask={"w": True, "b": False})
    >>> params = {"w": afx.ones(1), "b": afx.ones(1)}
    >>> rule.update({"w": afx.zeros(1), "b": afx.zeros(1)}, rule.init(params), params, None)[0]
    {'w': Array([0.5], dtype=float32), 'b': Array([0.], dtype=float32)}
    """

    who: ClassVar[str] = "add_decayed_weights"
    strength: float = attrs.field(validator=hyperparameters.check_not_negative)
    mask: Mask = attrs.field(default=True, kw_only=True)

    def _change(self, grads: T, params: T) -> T:
        return decay_weights(grads, params, self.strength, self.mask)


# --- averaging


@attrs.frozen
class EmaState(Shown, Generic[T]):
    """The state of `ema`.

    Attributes:
        count: the number of steps taken.
        average: the moving average, from 0.
    """

    count: Array
    average: T


@attrs.frozen
class Ema(Shown):
    """The transformation to the moving average m = decay·m + (1 - decay)·g of the gradients.

    Args:
        decay: how much of m is kept, from 0 up to 1.
        debias: corrects the average for its start at 0: m / (1 - decayᵗ).

    Raises:
        ArgumentError: the decay is outside [0, 1).

    >>> import afx
    >>> rule = ema(0.9)
    >>> rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """

    decay: float = attrs.field(validator=hyperparameters.check_fraction)
    debias: bool = attrs.field(default=True, kw_only=True)

    def init(self, params: T) -> EmaState[T]:
        """Return the state before the first step."""
        return EmaState(count_zero(), zeros_of(params, "ema"))

    def update(
        self, grads: T, state: EmaState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, EmaState[T]]:
        """Return the average, and the next state."""
        check_kind(state, EmaState, "ema")
        count, mean = state.count + 1, average(state.average, grads, self.decay)
        return times(mean, 1 / (1 - self.decay**count)) if self.debias else mean, EmaState(count, mean)


# --- Descent: a transformation, a decoupled weight decay and a learning rate together, as most optimizers are made


@attrs.frozen
class DescentState(Shown, Generic[S]):
    """The state of an optimizer made of a transformation.

    Attributes:
        count: the number of steps taken.
        rule: the state of the transformation.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    rule: S
    learning_rate: Array


@attrs.frozen
class Descent(Steps[DescentState[S]], Generic[S]):
    """Steps of ``-learning_rate · (what a transformation gives + weight_decay · parameter)``.

    Attributes:
        rule: the transformation.
        learning_rate: a number, a scalar array, or a schedule.
        weight_decay: the strength of the decay, 0 or more.
        mask: what decays.
        who: the function that made it, for messages.
    """

    rule: Transformation[S]
    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    weight_decay: float = hyperparameters.nonnegative_field(0.0)
    mask: Mask = True
    who: str = attrs.field(default="descent", repr=False)

    def init(self, params: Any) -> DescentState[S]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), _name_of_rule(self.rule))
        return DescentState(count_zero(), self.rule.init(params), first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: DescentState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, DescentState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, DescentState, _name_of_rule(self.rule))
        rate = next_rate(self.learning_rate, state)
        direction, rule = self.rule.update(grads, state.rule, params, value)
        direction = decay_weights(direction, params, self.weight_decay, self.mask)
        return times(direction, -rate), DescentState(state.count + 1, rule, rate)


def _name_of_rule(rule: object) -> str:
    return type(rule).__name__.strip("_")


def descent(
    rule: Transformation[S], learning_rate: LearningRate, who: str, weight_decay: float = 0.0, mask: Mask = True
) -> Descent[S]:
    """Return the optimizer of a transformation, its arguments checked."""
    return Descent(rule, learning_rate, weight_decay, mask, who)


# --- Names of functions, which users write, for the classes

scale = Scale
scale_by_schedule = ScaleBySchedule
scale_by_trust_ratio = ScaleByTrustRatio
scale_by_param_block_rms = ScaleByParamBlockRms
add_decayed_weights = AddDecayedWeights
ema = Ema

# names in files of earlier versions
_Scale = Scale
_ScaleBySchedule = ScaleBySchedule
_ScaleByTrustRatio = ScaleByTrustRatio
_ScaleByParamBlockRms = ScaleByParamBlockRms
_AddDecayedWeights = AddDecayedWeights
