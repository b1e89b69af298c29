"""Sharding: an optimizer whose state is divided among slots, each of which updates its chunk of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, wrap
from afx.distributed.buffers import Ndarray
from afx.distributed.machines import Machines
from afx.errors import ArgumentError
from afx.optim import Optimizer

__all__ = ["ShardedOptimizer", "ShardedState", "shard_optimizer"]

T = TypeVar("T")

# Gradients that a clip of any usual size cuts, and ones that none does.
PROBE_SCALES: Final = (1e6, 1e-6)
PROBE_LENGTH: Final = 130  # of a matrix: Adafactor treats axes from 128 on in another way


@attrs.frozen
class ShardedState:
    """The optimizer's states by slot: those of this rank's slots, or of all after `ShardedOptimizer.gather`.

    A state of all slots can be saved by `afx.io.save` and used on any number of ranks.
    """

    by_slot: dict[int, Any]


class ShardedOptimizer(Generic[T]):
    """An optimizer over flat chunks of the parameters; made by `shard_optimizer`."""

    def __init__(self, machines: Machines, optimizer: Optimizer[Any]) -> None:
        self._machines = machines
        self._optimizer: Any = optimizer

    def init(self, params: T) -> ShardedState:
        """Return the states of this rank's slots."""
        flat = _Flat(params, self._machines.slots)
        return ShardedState({slot: self._optimizer.init(flat.chunk(slot)) for slot in self._machines.own_slots})

    def step(self, params: T, grads: T, state: ShardedState, *, value: Any = None) -> tuple[T, ShardedState]:
        """Return new parameters, the same on every rank, and the states of this rank's slots.

        Raises:
            ArgumentError: a state without one of this rank's slots: gather it before the number of ranks changes.
        """
        machines = self._machines
        flat, slopes = _Flat(params, machines.slots), _Flat(grads, machines.slots, like=params)
        missing = [slot for slot in machines.own_slots if slot not in state.by_slot]
        if missing:
            raise ArgumentError(
                f"ShardedOptimizer: a state without slots of this rank: got {sorted(state.by_slot)}, missing {missing}; "
                "save what gather(state) returns"
            )
        moved: dict[int, Any] = {}
        states: dict[int, Any] = {}
        for slot in machines.own_slots:
            chunk, states[slot] = self._optimizer.step(
                flat.chunk(slot), slopes.chunk(slot), state.by_slot[slot], value=value
            )
            moved[slot] = chunk
        new: T = flat.replace(machines.gather_by_slot(moved))
        return new, ShardedState(states)

    def gather(self, state: ShardedState) -> ShardedState:
        """Return the states of all slots, on every rank: what a checkpoint holds."""
        return ShardedState(self._machines.gather_by_slot(state.by_slot))


def shard_optimizer(machines: Machines, optimizer: Optimizer[Any]) -> ShardedOptimizer[Any]:
    """Return the optimizer with its state divided among slots: each rank keeps and updates its share alone.

    The parameters are seen as flat vectors, of which each slot updates a chunk. So the optimizer must treat each
    element by itself, as `afx.optim.sgd`, `adam` and their like do; those that look at a whole array or tree (global
    norms, `lamb`, `muon`, `adafactor`) are refused after a trial on a few numbers.

    Args:
        machines: the slots.
        optimizer: of `afx.optim`.

    Raises:
        ArgumentError: an optimizer that does not treat elements by themselves.

    >>> import afx
    >>> from afx import distributed, optim
    >>> optimizer = distributed.shard_optimizer(distributed.local(2), optim.adam(0.1))
    >>> w = {"w": afx.ones(3)}
    >>> w, state = optimizer.step(w, {"w": afx.ones(3)}, optimizer.init(w))
    >>> w["w"]
    Array([0.9, 0.9, 0.9], dtype=float32)
    """
    _check_elementwise(optimizer)
    return ShardedOptimizer(machines, optimizer)


class _Flat:
    """The trained leaves of a tree as one flat vector a dtype."""

    def __init__(self, tree: Any, slots: int, like: Any = None) -> None:
        self._slots = slots
        self._leaves, self._treedef = pytree.flatten(tree)
        reference = self._leaves if like is None else pytree.leaves(like)
        marked = pytree.marked_leaves(self._treedef) or [False] * len(self._leaves)
        self._trained = [
            np.asarray(leaf).dtype.kind in "fc" and not mark for leaf, mark in zip(reference, marked, strict=True)
        ]
        kinds: dict[np.dtype[Any], list[Ndarray]] = {}
        for leaf in self._moving():
            kinds.setdefault(leaf.dtype, []).append(leaf.reshape(-1))
        self._vectors = {dtype: np.concatenate(parts) for dtype, parts in kinds.items()}

    def _moving(self) -> list[Ndarray]:
        return [np.asarray(x) for x, is_trained in zip(self._leaves, self._trained, strict=True) if is_trained]

    def chunk(self, slot: int) -> tuple[Array, ...]:
        """Return the part of each vector that a slot updates."""
        return tuple([wrap(vector[self._span(vector.size, slot)].copy()) for vector in self._vectors.values()])

    def _span(self, size: int, slot: int) -> slice:
        return slice(size * slot // self._slots, size * (slot + 1) // self._slots)

    def replace(self, chunks: dict[int, Sequence[Array]]) -> Any:
        """Return the tree with the vectors that the chunks of all slots make."""
        vectors = {
            dtype: np.concatenate([np.asarray(chunks[slot][k]) for slot in range(self._slots)])
            for k, dtype in enumerate(self._vectors)
        }
        starts = dict.fromkeys(vectors, 0)
        leaves: list[Any] = []
        for leaf, is_trained in zip(self._leaves, self._trained, strict=True):
            if not is_trained:
                leaves.append(leaf)
                continue
            old = np.asarray(leaf)
            start = starts[old.dtype]
            starts[old.dtype] += old.size
            leaves.append(wrap(vectors[old.dtype][start : start + old.size].reshape(old.shape).copy()))
        return pytree.unflatten(self._treedef, leaves)


def _check_elementwise(optimizer: Any) -> None:
    """Compare steps on a matrix and a vector with steps on chunks of their elements."""
    whole = {
        "a": wrap(np.linspace(-1.0, 2.0, PROBE_LENGTH**2).reshape(PROBE_LENGTH, -1)),
        "b": wrap(np.array([0.5, -3.0])),
    }
    flat = _Flat(whole, 2)
    for scale in PROBE_SCALES:
        found = _two_steps(optimizer, whole, scale)
        expected = flat.replace({slot: _two_steps(optimizer, flat.chunk(slot), scale) for slot in range(2)})
        if not all(np.array_equal(np.asarray(found[name]), np.asarray(expected[name])) for name in whole):
            raise ArgumentError(
                f"shard_optimizer: an optimizer that looks at more than one element: got {type(optimizer).__name__}; "
                "shard one such as optim.adam, or clip the gradients before its step"
            )


def _two_steps(optimizer: Any, params: Any, scale: float) -> Any:
    def slope(x: Any) -> Any:
        return wrap(scale * (np.asarray(x) + 0.25))

    state = optimizer.init(params)
    for _ in range(2):
        params, state = optimizer.step(params, pytree.map(slope, params), state, value=1.0)
    return params
