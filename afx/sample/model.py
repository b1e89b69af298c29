"""Models: laws of parameters and of data in one tree, from which densities, starts, draws and predictions follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Shown, float64
from afx.errors import ArgumentError, ShapeError
from afx.ops import abs as abs_, asarray, broadcast_to, isfinite, sum as sum_, where, zeros
from afx.ops.linalg.factorizations import giving_nan
from afx.pytree.static import fields_of
from afx.pytree.treedef import flatten_until
from afx.random.keys import fold_in, split
from afx.sample.bijectors import (
    Bijector,
    CholeskyCorrelation,
    Correlation,
    Covariance,
    Interval,
    Joint,
    Lower,
    Ordered,
    PositiveOrdered,
    Simplex,
    Upper,
)
from afx.stats.law import Law, Observed
from afx.transforms._arguments import describe
from afx.transforms.vmap import vmap

T = TypeVar("T")

FARTHEST = 20.0  # of a free number at the start: what lies beyond its exponential is no place to begin

Prior: TypeAlias = Law | Callable[[Any], Law]
"""A law, or a function of the parameters that it depends on to one."""


def laws(kind: Callable[..., T], **fields: Any) -> T:
    """Return a tree of a frozen class whose fields are laws, which type checkers take for one of arrays.

    Args:
        kind: a frozen attrs class.
        **fields: a law, a function of parameters to one, or a tree of these, for each of its fields.

    Raises:
        TypeError: the fields are not those of the class.
    """
    cls: Any = kind
    names = [str(field.name) for field in fields_of(cls)]
    if set(names) != set(fields):
        raise TypeError(f"laws: the fields of {kind} are {names}: got {[*fields]}; give a law for each")
    tree: T = object.__new__(cls)
    for name in names:
        object.__setattr__(tree, name, fields[name])
    return tree


@attrs.frozen(eq=False, init=False)
class Model(Shown, Generic[T]):
    """A model: laws of its parameters, and what data say of them.

    Called with parameters it gives the logarithm of their density, and it brings constraints and a start: `nuts`, `hmc`,
    `laplace`, `advi` and `pathfinder` take it as it is.

    Attributes:
        priors: a tree of laws, as `stats.norm(0.0, 5.0)`; a function of parameters to a law where that depends on
            others. Each law brings its constraint.
        log_likelihood: a function of the parameters, and of the data behind them, to ``law.observe(data)``, or to
            logarithms of densities, one for each observation; a dict of these where there are several outcomes.
        data: further arguments of ``log_likelihood``; minibatches take rows of each.
        weight: of the likelihood: how many times the data are counted.

    >>> import afx
    >>> from afx import sample, stats
    >>> heights = np.array([1.68, 1.75, 1.81, 1.66, 1.72])
    >>> priors = {"mean": stats.norm(1.7, 0.5), "sd": stats.halfnorm(0.0, 0.5)}
    >>> model = sample.Model(priors, lambda p: stats.norm(p["mean"], p["sd"]).observe(heights))
    >>> draws = sample.draw(sample.nuts(model), afx.random.key(0), draws=20, warmup=20)
    >>> draws.params["sd"].shape
    (4, 20)
    """

    priors: Any
    log_likelihood: Callable[..., Any]
    data: tuple[Any, ...]
    weight: Any

    @overload
    def __init__(
        self: Model[dict[str, Array]],
        priors: Mapping[str, Prior],
        log_likelihood: Callable[..., Any],
        data: tuple[Any, ...] = (),
        weight: Any = 1.0,
    ) -> None: ...
    @overload
    def __init__(
        self, priors: T, log_likelihood: Callable[..., Any], data: tuple[Any, ...] = (), weight: Any = 1.0
    ) -> None: ...
    def __init__(
        self, priors: Any, log_likelihood: Callable[..., Any], data: tuple[Any, ...] = (), weight: Any = 1.0
    ) -> None:
        for path, leaf in zip(*_named(priors), strict=True):
            if not _is_prior(leaf):
                raise ArgumentError(
                    f"Model: priors are laws, such as stats.norm(0.0, 1.0), or functions to one: got {leaf!r} at "
                    f"{path or 'the top'}; write a law"
                )
        object.__setattr__(self, "priors", priors)
        object.__setattr__(self, "log_likelihood", log_likelihood)
        object.__setattr__(self, "data", _arguments_of(data))
        object.__setattr__(self, "weight", weight)

    def __call__(self, params: T) -> Array:
        """Return the logarithm of the density of parameters: of their laws and of the data."""
        data: Array = self.weight * sum(map(sum_, self.pointwise(params).values()), asarray(0.0))
        return self.log_prior(params) + data

    @property
    def constraints(self) -> Joint:
        """The constraints that the laws bring."""
        return PriorConstraints(self.priors)

    def log_prior(self, params: T) -> Array:
        """Return the logarithm of the density of the parameters by their laws alone."""
        leaves, total = pytree.leaves(params), [asarray(0.0)]

        def read(k: int, law: Law) -> Array:
            total.append(sum_(law.log_probability(leaves[k])))
            return asarray(leaves[k])

        visit(self.priors, read)
        return sum(total[1:], total[0])

    def outcomes(self, params: T, data: tuple[Any, ...] | None = None) -> dict[str, Any]:
        """Return what the likelihood gives, by name; a single outcome has the name ``y``."""
        found = self.log_likelihood(params, *(self.data if data is None else _arguments_of(data)))
        return dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else {"y": found}

    def pointwise(self, params: T) -> dict[str, Array]:
        """Return the logarithm of the density of each observation, by the names of outcomes."""
        return {name: _score(name, x) for name, x in self.outcomes(params).items()}

    def initial(self) -> T:
        """Return parameters to begin with: medians of laws, float64; where these are none, what free zeros give."""
        start: T = visit(self.priors, lambda _, law: _center(law.astype(float64)))
        return start

    def draw_prior(self, key: ArrayLike, count: int) -> T:
        """Return independent draws of the parameters by their laws, leaves float64[count, ...].

        >>> import afx
        >>> from afx import sample, stats
        >>> model = sample.Model({"x": stats.norm(0.0, 1.0)}, lambda p: 0.0)
        >>> model.draw_prior(afx.random.key(0), 3)["x"].shape
        (3,)
        """

        def one(key: Array) -> T:
            drawn: T = visit(self.priors, lambda k, law: law.astype(float64).rvs(fold_in(key, k)))
            return drawn

        return vmap(one)(split(key, count))

    def take(self, rows: ArrayLike, weight: Any = 1.0) -> Model[T]:
        """Return the model of some rows of its data, which count as often as a weight says.

        Raises:
            ArgumentError: the model was given no data of its own.
        """
        if not self.data:
            raise ArgumentError("Model.take: rows are those of data=: got none; give the data to the model")
        data: Any = pytree.map(lambda x: asarray(x)[rows], self.data)
        taken: Any = Model(self.priors, self.log_likelihood, data, weight)
        found: Model[T] = taken
        return found


def _arguments_of(data: Any) -> tuple[Any, ...]:
    if not isinstance(data, tuple | list):
        raise ArgumentError(f"Model: data are a tuple, of one argument each: got {describe(data)}; write (data,)")
    return tuple(data)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # a user's value


def _score(name: str, outcome: Any) -> Array:
    if not isinstance(outcome, Observed):
        return asarray(outcome)
    if outcome.data is None:
        raise ArgumentError(f"Model: {name} has no data: got observe(None), which is to be predicted; give data")
    with giving_nan():
        scores = outcome.law.log_probability(outcome.data)
    shape, rank = asarray(outcome.data).shape, len(outcome.law.event)
    if scores.shape not in (outcome.law.batch, shape[: len(shape) - rank]):
        raise ShapeError(
            f"Model: each observation is one of {name}'s law: got data {shape} for a law of {outcome.law.shape}, which "
            f"are {scores.shape} together; reshape one"
        )
    return scores


# --- Laws that depend on other parameters: each is asked for when what it reads is known


class _LaterError(Exception):
    """A parameter was read that is not known yet."""


@attrs.frozen
class _Slot:
    """The place of a parameter in a tree."""

    index: int


class _Known:
    """A tree of which some parameters are known."""

    def __init__(self, node: Any, known: dict[int, Array]) -> None:
        self._node, self._known = node, known

    def __getitem__(self, name: Any) -> Any:
        return give(self._node[name], self._known)

    def __getattr__(self, name: str) -> Any:
        return give(getattr(self._node, name), self._known)


def give(node: Any, known: dict[int, Array]) -> Any:
    """Return a part of a tree whose parameters are known, or one that gives those that are."""
    slots, treedef = flatten_until(node, lambda x: isinstance(x, _Slot))
    indices = [slot.index for slot in slots if isinstance(slot, _Slot)]
    if known.keys() >= set(indices):
        return pytree.unflatten(treedef, [known[k] for k in indices])
    if isinstance(node, _Slot):
        raise _LaterError
    return _Known(node, known)


def visit(priors: Any, fn: Callable[[int, Law], Array]) -> Any:
    """Return the tree of what a function gives for each law, which is a parameter that further laws may read.

    Raises:
        ArgumentError: laws depend on each other in a circle, or a function gives no law.
    """
    leaves, treedef = flatten_until(priors, _is_prior)
    slots = pytree.unflatten(treedef, [_Slot(k) for k in range(len(leaves))])
    known = dict[int, Array]()
    while len(known) < len(leaves):
        waiting = [k for k in range(len(leaves)) if k not in known]
        for k in waiting:
            try:
                law = leaves[k] if isinstance(leaves[k], Law) else leaves[k](give(slots, known))
            except _LaterError:
                continue
            if not isinstance(law, Law):
                raise ArgumentError(f"Model: a prior gives a law: got {type(law).__name__}; return stats.norm(…) or so")
            known[k] = fn(k, law)
        if known.keys().isdisjoint(waiting):
            paths = [pytree.paths(treedef)[k] for k in waiting]
            raise ArgumentError(f"Model: laws depend on each other in a circle: got {', '.join(paths)}; turn one round")
    return pytree.unflatten(treedef, [known[k] for k in range(len(leaves))])


def _is_prior(x: object) -> bool:
    return isinstance(x, Law) or (callable(x) and not isinstance(x, type))


def _named(priors: Any) -> tuple[tuple[str, ...], list[Any]]:
    leaves, treedef = flatten_until(priors, _is_prior)
    return tuple(pytree.paths(treedef)), leaves


# --- Constraints of laws


def bijector_of(law: Law) -> Bijector | None:
    """Return the constraint that a law brings.

    Raises:
        ArgumentError: it is a law of whole numbers, or some of its bounds are infinite.
    """
    support = law.support()
    low, high = support.low, support.high
    if support.kind == "whole":
        raise ArgumentError(f"Model: parameters are real numbers: got {law!r}; sum over its values in the likelihood")
    if support.kind == "ordered":
        if high is not None:
            raise ArgumentError(f"Model: ordered numbers have no upper bound: got {law!r}; order unbounded ones")
        return Ordered() if low is None else PositiveOrdered(low)
    if support.kind != "real":
        return KINDS[support.kind]()
    if low is None:
        return None if high is None else Upper(high)
    return Lower(low) if high is None else Interval(low, high)


KINDS: dict[str, type[Bijector]] = {
    "simplex": Simplex,
    "correlation_factor": CholeskyCorrelation,
    "correlation": Correlation,
    "covariance": Covariance,
}


@attrs.frozen(eq=False)
class PriorConstraints(Joint):
    """The constraints that laws bring.

    Attributes:
        priors: the tree of laws.
    """

    priors: Any

    def forward(self, position: Any) -> Any:
        """Return the parameters of an unconstrained position."""
        leaves = [asarray(x) for x in pytree.leaves(position)]

        def move(k: int, law: Law) -> Array:
            bijector = bijector_of(law.astype(leaves[k].dtype))
            return leaves[k] if bijector is None else bijector.forward(leaves[k])

        return visit(self.priors, move)

    def inverse(self, params: Any) -> Any:
        """Return the unconstrained position of parameters."""
        leaves, treedef = pytree.flatten(params)
        places: list[Any] = list(leaves)

        def move(k: int, law: Law) -> Array:
            y = asarray(leaves[k])
            bijector = bijector_of(law.astype(y.dtype))
            places[k] = y if bijector is None else bijector.inverse(y)
            return y

        visit(self.priors, move)
        return pytree.unflatten(treedef, places)

    def log_det(self, position: Any) -> Array:
        """Return the logarithm of the determinant."""
        leaves, total = [asarray(x) for x in pytree.leaves(position)], [asarray(0.0)]

        def move(k: int, law: Law) -> Array:
            bijector = bijector_of(law.astype(leaves[k].dtype))
            if bijector is None:
                return leaves[k]
            total.append(bijector.log_det(leaves[k]))
            return bijector.forward(leaves[k])

        visit(self.priors, move)
        return sum(total[1:], total[0])


def _center(law: Law) -> Array:
    """Return where a parameter begins."""
    bijector, middle = bijector_of(law), law.middle()
    if bijector is None:
        x = zeros(law.shape, float64)
        return x if middle is None else broadcast_to(where(isfinite(middle), middle, 0.0), law.shape)
    free = zeros(bijector.free_shape(law.shape), float64)
    if middle is not None:
        with np.errstate(all="ignore"):
            x = bijector.inverse(broadcast_to(middle, law.shape))
        free = where(isfinite(x) & (abs_(x) < FARTHEST), x, 0.0)
    return bijector.forward(free)
