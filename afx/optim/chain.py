"""Chains: transformations, one optimizer, then rescalings of its updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast, overload

import attrs

from afx.core.array.array import ArrayLike
from afx.errors import ArgumentError, TreeError
from afx.optim.protocols import Optimizer, Rescaling, Transformation
from afx.optim.step import Steps

__all__ = ["Chain", "TransformationChain", "chain", "check_optimizer", "check_transformation"]

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
class TransformationChain(Generic[S]):
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


def _name(x: Any) -> str:
    return str(getattr(x, "__name__", type(x).__name__)).strip("_")


def _names(links: tuple[Any, ...]) -> str:
    return ", ".join([_name(link) for link in links])


def check_optimizer(x: object, who: str) -> None:
    """Raise where what should be an optimizer is something else."""
    if is_optimizer(x):
        return
    if _is_transformation(x):
        raise ArgumentError(
            f"{who}: needs an optimizer: got the transformation {_name(x)}, which makes no steps; write "
            "chain(it, scale_by_learning_rate(learning_rate))"
        )
    raise ArgumentError(f"{who}: needs an optimizer: got {_name(x)}; call it if it makes one")


def check_transformation(x: object, who: str, way: str) -> None:
    """Raise where what should be a transformation is something else."""
    if is_optimizer(x):
        raise ArgumentError(f"{who}: takes a transformation: got the optimizer {_name(x)}; {way}")
    if not _is_transformation(x):
        raise ArgumentError(f"{who}: takes a transformation: got {_name(x)}; call it if it makes one")


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
                f"chain: a link is a transformation or an optimizer: got {_name(link)}; call it if it makes one"
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
                f"chain: behind an optimizer stand only transformations that rescale: got {_name(link)} behind "
                f"{_name(links[places[0]])}; put it in front, and scale_by_learning_rate(learning_rate) last"
            )
    return Chain(links)
