"""Parts: what each slot sees of a batch, an argument or a state."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import attrs
import numpy as np

from afx.core import Array, Function, wrap
from afx.core.cached import Cached
from afx.data.batching import divide_proportionally
from afx.distributed.messages import refuse_traced
from afx.errors import ArgumentError, ShapeError
from afx.io.checkpoints import Shards
from afx.pytree import flatten, flatten_with_path, unflatten

# --- Split: how many examples of a batch each slot gets, as pure data


def _check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    lengths = tuple(sizes)
    if not lengths or any(type(size) is not int or size < 0 for size in lengths) or sum(lengths) == 0:
        raise ArgumentError(
            f"Split: sizes are whole numbers from 0 on, not all 0: got {lengths}; such as Split((128, 128))"
        )
    return lengths


@attrs.frozen(slots=False)
class Split:
    """The sizes of the parts of a batch, one a slot.

    A slot is a logical machine. Results depend on program and Split alone, not on how many processes share the slots.
    A slot of size 0 takes no part.

    Attributes:
        sizes: the number of examples of each slot.

    Raises:
        ArgumentError: no size, a negative one, or none above 0.

    >>> Split((3, 1)).bounds
    ((0, 3), (3, 4))
    """

    sizes: tuple[int, ...] = attrs.field(converter=_check_sizes)

    @classmethod
    def proportional(cls, examples: int, speeds: Sequence[float]) -> Split:
        """Return the split of a batch in proportion to the speeds of machines, rounded by largest remainder.

        Args:
            examples: of the whole batch.
            speeds: one a slot, in any unit; 0 leaves a slot out.

        Raises:
            ArgumentError: negative or infinite speeds, or none above 0.

        >>> Split.proportional(10, [1.0, 1.0, 2.0]).sizes
        (3, 2, 5)
        """
        weights = [float(speed) for speed in speeds]
        if not weights or not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise ArgumentError(
                f"Split: speeds are finite, at least 0 and not all 0: got {list(speeds)}; measure them again"
            )
        return cls(divide_proportionally(examples, weights))

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self.sizes)

    @property
    def total(self) -> int:
        """The number of examples of the whole batch."""
        return sum(self.sizes)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Where each slot's examples begin and end in the whole batch."""
        return tuple(itertools.pairwise((0, *itertools.accumulate(self.sizes))))

    @Cached
    def weights(self) -> dict[int, float]:
        """The share of each slot that takes part in the whole batch, in their order."""
        return {slot: size / self.total for slot, size in enumerate(self.sizes) if size}


# --- Parts: what each slot sees of an argument: its rows of a whole array, or what a function of the slot reads

T = TypeVar("T")


class Parts(Generic[T]):
    """An argument that differs from slot to slot; each part is made when its slot computes, on its rank alone.

    Attributes:
        dtypes: those of the whole arrays that are cut, where there are such: every rank has the same.
    """

    __slots__ = ("_read", "dtypes")
    __afx_remedy__ = (
        "values of slots are for functions of Machines: write machines.spmd(afx.jit(fn)) instead of afx.jit(machines.spmd(fn)), "
        "likewise afx.grad and vmap, and take .first or .gather() of what it returns"
    )

    def __init__(self, read: Callable[[int], T], dtypes: str = "") -> None:
        self._read = read
        self.dtypes: str = dtypes

    def part(self, slot: int) -> T:
        """Return the part of a slot."""
        return self._read(slot)


def by_slot(read: Callable[[int], T]) -> T:
    """Return an argument that each slot makes for itself: a file of its own, a key of its own.

    To the type checker it is what the function returns; it may only be passed to functions of `Machines`.

    Args:
        read: the slot's number to its part; called on the rank that computes the slot, and again if that rank is lost.

    >>> from afx import distributed
    >>> machines = distributed.local(2)
    >>> key = afx.random.key(0)
    >>> value_and_grad = machines.value_and_grad(
    ...     lambda w, key: w * afx.random.uniform(key), split=distributed.Split((1, 1))
    ... )
    >>> value, grad = value_and_grad(1.0, distributed.by_slot(lambda slot: afx.random.fold_in(key, slot)))
    >>> bool(value == grad)
    True
    """
    return cast("T", Parts(read))


def part_of(value: Any, slot: int) -> Any:
    """Return what a slot sees of an argument: its part, or the whole of what all slots share."""
    if not isinstance(value, Parts):
        return value
    parts: Parts[Any] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    return parts.part(slot)


def cut(tree: Any, split: Split, who: str) -> Parts[Any]:
    """Return the rows of each slot of the whole arrays of a tree.

    Raises:
        ShapeError: an array whose first axis is not as long as the batch.
    """
    leaves, treedef = flatten_with_path(tree)
    for path, leaf in leaves:
        shape = np.shape(leaf)
        if not shape or shape[0] != split.total:
            raise ShapeError(
                f"{who}: an array that the Split cannot cut, at {path or 'the top'}: got {list(shape)} for "
                f"{split.total} examples; pass an argument that all slots share by shared=..."
            )
    with refuse_traced(who, [tree]):
        arrays = [(np.asarray(leaf), isinstance(leaf, Array)) for _, leaf in leaves]

    def read(slot: int) -> Any:
        start, stop = split.bounds[slot]
        rows = [(array[start:stop], is_array) for array, is_array in arrays]
        return unflatten(treedef, [wrap(part) if is_array else part for part, is_array in rows])

    return Parts(read, ", ".join([f"{path} {x.dtype}" for (path, _), (x, _) in zip(leaves, arrays, strict=True)]))


def whole_places(
    loss: Function,
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str],
    shared: Sequence[int | str],
    who: str,
) -> set[int | str]:
    """Return the arguments that every slot sees whole, as positions and names, each under both where it has both.

    Raises:
        ArgumentError: ``shared`` names none of the loss's.
    """
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    nums = [0] if argnums is None and not names else [argnums] if isinstance(argnums, int) else list(argnums or ())
    places = {*nums, *names, *shared}
    try:
        signature = inspect.signature(loss).parameters
    except (TypeError, ValueError):  # a builtin
        return places
    known, kinds = list(signature), {parameter.kind for parameter in signature.values()}
    for place in shared:
        is_named = place in known or inspect.Parameter.VAR_KEYWORD in kinds
        is_placed = isinstance(place, int) and (0 <= place < len(known) or inspect.Parameter.VAR_POSITIONAL in kinds)
        if not (is_placed if isinstance(place, int) else is_named):
            raise ArgumentError(
                f"{who}: shared names no argument of the loss: got {place!r} for {known}; name one of them"
            )
    places.update([known.index(place) for place in list(places) if isinstance(place, str) and place in known])
    places.update([known[place] for place in list(places) if isinstance(place, int) and place < len(known)])
    return places


# --- Sharded state: an optimizer's states by slot, of which each rank has its own


@attrs.frozen
class ShardedState(Shards):
    """The optimizer's states by slot: those of this rank's slots, or of all after `ShardedOptimizer.gather`.

    `afx.io.Checkpoints` lets each rank write its own slots, and read those that it needs, on any number of ranks; a state of
    all slots can be saved by `afx.io.save`. `SlotValues` are saved as ``ShardedState(values.by_slot)``, and used again
    by ``by_slot(state.by_slot.__getitem__)``.

    Attributes:
        by_slot: the states.
    """


# --- Probe: a loss that is a sum over its examples, where a mean is needed, is found by its values on two halves

MOST_ROWS: Final = 8
TOLERANCE: Final = 1e-4  # float32 sums of few examples are as far apart


def adds_up(
    loss: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    places: Collection[int | str],
    rows: int,
    *,
    has_aux: bool,
) -> bool:
    """Tell whether a loss of some examples is the sum of its values on two parts of them, and no mean.

    Args:
        loss: the program; run as it stands, on few examples.
        args: of a slot.
        kwargs: likewise.
        places: positions and names of arguments whose rows are examples.
        rows: how many examples the slot has.
        has_aux: whether the loss returns a pair.
    """
    count = min(rows, MOST_ROWS) // 2 * 2
    if count < 2 or not any(_has_rows(args[k] if isinstance(k, int) else kwargs[k], rows) for k in places):
        return False

    def value(start: int, stop: int) -> complex:
        part_args = [_cut(arg, rows, start, stop) if k in places else arg for k, arg in enumerate(args)]
        named = {name: _cut(arg, rows, start, stop) if name in places else arg for name, arg in kwargs.items()}
        result = loss(*part_args, **named)
        return complex(np.asarray(result[0] if has_aux else result))

    try:
        whole = value(0, count)
        return all(_is_sum(whole, value(0, cut), value(cut, count), cut / count) for cut in {count // 2, 1})
    except Exception:  # a loss that takes no fewer examples says so itself where it is right to
        return False


def _is_sum(whole: complex, first: complex, second: complex, share: float) -> bool:
    size = abs(first) + abs(second)
    if not math.isfinite(size) or not math.isfinite(abs(whole)) or abs(whole) <= TOLERANCE * size:
        return False
    mean = share * first + (1 - share) * second
    return abs(whole - first - second) <= TOLERANCE * size and abs(whole - mean) > 0.1 * abs(whole)


def _has_rows(tree: Any, rows: int) -> bool:
    return any(np.shape(leaf)[:1] == (rows,) for leaf in flatten(tree)[0])


def _cut(tree: Any, rows: int, start: int, stop: int) -> Any:
    leaves, treedef = flatten(tree)
    cut_leaves: list[Any] = []
    for leaf in leaves:
        if np.shape(leaf)[:1] == (rows,):
            part = np.asarray(leaf)[start:stop]
            cut_leaves.append(wrap(part) if isinstance(leaf, Array) else part)
        else:
            cut_leaves.append(leaf)
    return unflatten(treedef, cut_leaves)
