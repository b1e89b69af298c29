"""Sharding: an optimizer whose state is divided among slots, each of which updates its chunk of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, Literal, TypeVar, overload

import numpy as np

from afx import pytree
from afx.core import Array, Function, aval_of, wrap
from afx.distributed.machines import Machines, local
from afx.distributed.messages import decode_tree, describe_program, encode_tree, refuse_traced, stable_repr
from afx.distributed.parts import ShardedState, Split
from afx.distributed.ranks import SlotCalls
from afx.distributed.spmd import run_slots
from afx.distributed.sums.buffers import Memory, Ndarray, Packing, flatten_tree
from afx.errors import ArgumentError, PeerLost
from afx.ops import asarray
from afx.ops.collectives import all_gather
from afx.optim import Optimizer
from afx.optim.step import sharded_by
from afx.optim.transforms import check_optimizer
from afx.pytree.trees import check_matching, check_structure
from afx.transforms.compile.jit import jit

# --- Flat: the trained leaves of a tree as one vector a dtype, of which each slot has a chunk


class Flat:
    """The trained leaves of a tree as one flat vector a dtype, of which each slot has a chunk."""

    def __init__(self, tree: Any, slots: int, like: Flat | None = None) -> None:
        self._slots = slots
        self._tree_leaves, self._treedef = pytree.flatten(tree)
        self._trained: list[bool] = _find_trained(self._tree_leaves, self._treedef) if like is None else like._trained
        moving = [_own(x) for x, is_trained in zip(self._tree_leaves, self._trained, strict=True) if is_trained]
        self.layout: Packing
        self.leaves: list[Ndarray]
        self.layout, self.leaves = flatten_tree(moving)

    def like(self, tree: Any) -> Flat:
        """Return another tree of this structure, such as the gradient."""
        return Flat(tree, self._slots, self)

    def check_like(self, grads: Any) -> None:
        """Refuse a gradient whose chunks are not those of these parameters.

        Raises:
            TreeError: another structure.
            ShapeError: other shapes.
        """
        advice = "pass what a gradient with respect to these parameters gives"
        leaves, treedef = pytree.flatten(grads)
        check_structure(treedef, self._treedef, "ShardedOptimizer", "grads", advice)
        wanted = [aval_of(leaf) for leaf in self._tree_leaves]
        check_matching([aval_of(x) for x in leaves], wanted, treedef, "ShardedOptimizer", "grads", advice, dtypes="any")

    def chunk(self, slot: int) -> list[Ndarray]:
        """Return the part of each vector that a slot updates."""
        return self.layout.cut(self.leaves, [self._span(size, slot) for size in self.layout.lengths])

    def part(self, slot: int, chunk: Sequence[Ndarray]) -> Any:
        """Return the tree with a slot's part of each trained leaf, flat and perhaps empty, in place of it.

        Args:
            slot: whose part.
            chunk: its part of each vector.
        """
        parts: list[Any] = []
        for kind, at in self.layout.places():
            span = self._span(self.layout.lengths[kind], slot)
            start, stop = max(at.start, span.start), min(at.stop, span.stop)
            parts.append(wrap(chunk[kind][start - span.start : max(start, stop) - span.start]))
        return self._tree_of(parts)

    def chunk_of(self, part: Any) -> tuple[Array, ...]:
        """Return the flat vectors of which a slot's parts of leaves consist."""
        leaves = [x for x, is_trained in zip(pytree.leaves(part), self._trained, strict=True) if is_trained]
        vectors: list[list[Ndarray]] = [[] for _ in self.layout.dtypes]
        for leaf, (kind, _) in zip(leaves, self.layout.places(), strict=True):
            vectors[kind].append(np.asarray(leaf))
        return tuple([wrap(np.concatenate(parts)) for parts in vectors])

    def cut(self, buffers: Sequence[Ndarray], slot: int, first: int = 0) -> list[Ndarray]:
        """Return a slot's part of buffers, which begin with that of another slot."""
        parts: list[Ndarray] = []
        for buffer, size in zip(buffers, self.layout.lengths, strict=True):
            start, span = self._span(size, first).start, self._span(size, slot)
            part = slice(span.start - start, span.stop - start)
            parts.append(buffer if part == slice(0, buffer.size) else buffer[part])
        return parts

    def write(self, buffers: Sequence[Ndarray], slot: int, chunk: Sequence[Array]) -> None:
        """Copy a slot's numbers to their part of each buffer."""
        for into, part in zip(self.cut(buffers, slot), chunk, strict=True):
            np.copyto(into, np.asarray(part), casting="same_kind")

    def _span(self, size: int, slot: int) -> slice:
        return slice(size * slot // self._slots, size * (slot + 1) // self._slots)

    def replace(self, buffers: Sequence[Ndarray]) -> Any:
        """Return the tree with the vectors' numbers in place of its own."""
        return self._tree_of(self.layout.unpack(buffers))

    def _tree_of(self, moved: Iterable[Any]) -> Any:
        """Return the tree with other values of the leaves that are trained."""
        values, leaves = iter(moved), zip(self._tree_leaves, self._trained, strict=True)
        return pytree.unflatten(self._treedef, [next(values) if is_trained else leaf for leaf, is_trained in leaves])


def _own(leaf: Any) -> Any:
    """Return a leaf whose memory nobody changes: states may keep parts of it."""
    return asarray(leaf) if isinstance(leaf, np.ndarray) else leaf  # pyright: ignore[reportUnknownArgumentType]  # of any dtype


def _find_trained(leaves: Sequence[Any], treedef: Any) -> list[bool]:
    """Return which leaves an optimizer moves."""
    marked = pytree.marked_leaves(treedef) or [False] * len(leaves)
    return [aval_of(leaf).dtype.kind in "fc" and not mark for leaf, mark in zip(leaves, marked, strict=True)]


# --- Sharding

T = TypeVar("T")
A = TypeVar("A")

# Gradients that a clip of any usual size cuts, and ones that none does.
PROBE_SCALES: Final = (1e6, 1e-6)
PROBE_LENGTH: Final = 130  # of a matrix: Adafactor treats axes from 128 on in another way


class ShardedOptimizer(Generic[T]):
    """An optimizer over flat chunks of the parameters; made by `shard_optimizer`."""

    def __init__(self, machines: Machines, optimizer: Optimizer[Any]) -> None:
        self._machines = machines
        self._optimizer: Any = optimizer
        self._is_elementwise: bool = _is_elementwise(optimizer)
        self._update: Any = jit(optimizer.step, donate_argnums=1)  # a chunk of the gradient is this object's own
        self._updates: dict[int, Any] = {}  # by slot, whose parts of leaves have sizes of their own

    def init(self, params: T) -> ShardedState:
        """Return the states of this rank's slots."""
        flat = Flat(params, self._machines.slots)
        states = {slot: self._optimizer.init(self._part(flat, slot)) for slot in self._machines.held_slots}
        return ShardedState(states)

    def _part(self, flat: Flat, slot: int) -> Any:
        """Return what a slot updates: a chunk of flat vectors, or, where norms of leaves count, its part of each leaf."""
        chunk = flat.chunk(slot)
        return tuple(map(wrap, chunk)) if self._is_elementwise else flat.part(slot, chunk)

    def step(self, params: T, grads: T, state: ShardedState, *, value: Any = None) -> tuple[T, ShardedState]:
        """Return new parameters, the same on every rank, and the states of this rank's slots.

        Raises:
            ArgumentError: a state without one of this rank's slots: gather it before the number of ranks changes.
        """
        name, agreement = "step of a sharded optimizer", self._machines.agreement
        with refuse_traced(name, (params, grads, state)):
            flat = Flat(params, self._machines.slots)
            flat.check_like(grads)
            slopes = flat.like(grads)

            def attempt() -> tuple[T, ShardedState]:
                agreement.check_often(("step", id(self)), self, [("params", params), ("grads", grads)], name)
                return self._move(flat, lambda slot: self._part(slopes, slot), self._own_states(state), value)

            return self._machines.repeat_until_committed(name, attempt)

    @overload
    def value_and_step(
        self,
        loss: Callable[..., Array],
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: Literal[False] = False,
    ) -> Callable[..., tuple[Array, T, ShardedState]]: ...
    @overload
    def value_and_step(
        self,
        loss: Callable[..., tuple[Array, A]],
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: Literal[True],
    ) -> Callable[..., tuple[tuple[Array, A], T, ShardedState]]: ...
    def value_and_step(
        self, loss: Callable[..., Any], *, split: Split, shared: Sequence[int | str] = (), has_aux: bool = False
    ) -> Callable[..., Any]:
        """Return a training step that gives each slot its chunk of the gradient alone, and all slots the new parameters.

        The same bits as `Machines.value_and_grad` followed by `step`, with two thirds of its messages and without the
        whole gradient on any rank (ZeRO, stage 2: Rajbhandari et al., 2020, doi:10.1109/SC41405.2020.00024).

        Args:
            loss: as for `Machines.value_and_grad`; its first argument are the parameters.
            split: how many examples each slot gets.
            shared: positions and names of other arguments that all slots see whole.
            has_aux: whether the loss returns ``(scalar, aux)``.

        Returns:
            A function ``(params, state, *args, **kwargs)``, with the loss's other arguments, that returns ``(value,
            params, state)`` or ``((value, aux), params, state)``.

        Raises:
            ArgumentError: a Split of another number of slots, or a state without one of this rank's slots.
            ShapeError: an array that the Split cannot cut.

        >>> import afx
        >>> from afx import distributed, optim
        >>> machines = distributed.local(2)
        >>> optimizer = distributed.shard_optimizer(machines, optim.sgd(0.1))
        >>> step = optimizer.value_and_step(lambda w, x: afx.mean((w - x) ** 2), split=distributed.Split((1, 1)))
        >>> w = afx.asarray(1.0)
        >>> value, w, state = step(w, optimizer.init(w), afx.asarray([0.0, 0.0]))
        >>> float(value), round(float(w), 6)
        (1.0, 0.8)
        """
        machines = self._machines
        machines.check_split(split, "value_and_step")
        calls: SlotCalls[Any] = SlotCalls(
            "value_and_step", loss, split, shared=shared, is_compiled=True, options={"has_aux": has_aux}
        )

        def run(params: T, state: ShardedState, *args: Any, **kwargs: Any) -> tuple[Any, T, ShardedState]:
            with refuse_traced("value_and_step", (params, state, *args, *kwargs.values())):
                flat = Flat(params, machines.slots)
                call = calls.bind(lambda: machines.own_slots, (params, *args), kwargs)

                def attempt() -> tuple[Any, T, ShardedState]:
                    states = self._own_states(state)
                    number = machines.agreement.check_step(call.program)
                    value, slopes = self._reduce(flat, call.compute, split, number)
                    loss_value = value[0] if has_aux else value
                    return (value, *self._move(flat, slopes, states, loss_value))

                return machines.repeat_until_committed(calls.name, attempt)

        return run

    def _reduce(
        self, flat: Flat, compute: Callable[[int], Any], split: Split, number: int
    ) -> tuple[Any, Callable[[int], Any]]:
        """Return the mean value, and this rank's chunks of the mean gradient."""
        machines, weights = self._machines, split.weights
        reduction = machines.link.scattered_reduction(weights, flat.layout, number)
        values: dict[int, Any] = {}
        for slot in machines.own_slots:
            if slot in weights:
                values[slot], grads = compute(slot)
                reduction.add(slot, flat.layout, flat.like(grads).leaves)
                del grads  # before what others send takes memory
        sums, own = reduction.finish(), machines.own_slots
        chunks = {slot: self._own_chunk(flat, flat.cut(sums, slot, own[0]), slot) for slot in own}
        del reduction, sums
        return machines.average_once(values.__getitem__, split, number), chunks.pop

    def _own_chunk(self, flat: Flat, chunk: Sequence[Ndarray], slot: int) -> Any:
        """Return a slot's part of the sums, as memory that can be given away."""
        if self._is_elementwise:
            return tuple([wrap(part if part.flags.owndata else part.copy()) for part in chunk])
        return flat.part(slot, chunk)

    def _move(
        self, flat: Flat, slopes: Callable[[int], Any], states: dict[int, Any], value: Any
    ) -> tuple[T, ShardedState]:
        """Update the chunks of this rank's slots, and exchange them."""
        link, own = self._machines.link, self._machines.own_slots
        by_slot: dict[int, Any] = {}

        def update(slot: int, buffers: Sequence[Ndarray]) -> Any:
            if not self._is_elementwise and slot not in self._updates:
                self._updates[slot] = jit(_step_in_shards(self._optimizer))
            step = self._updates.get(slot, self._update)
            part, now = step(self._part(flat, slot), slopes(slot), states[slot], value=value)
            flat.write(buffers, slot, part if self._is_elementwise else flat.chunk_of(part))
            return now

        def write(buffers: list[Ndarray]) -> None:
            if self._is_elementwise:
                by_slot.update({slot: update(slot, buffers) for slot in own})
            else:  # slots exchange norms
                by_slot.update(run_slots(link, self._machines.slots, own, lambda slot: update(slot, buffers)))

        buffers = link.gather_parts(flat.layout, write)
        if link.shrinks and link.ranks > 1:  # each state lives on two ranks
            by_slot |= decode_tree(link.pass_on(encode_tree(by_slot)))
        return flat.replace(buffers), ShardedState(by_slot)

    def _own_states(self, state: ShardedState) -> dict[int, Any]:
        """Return the states of this rank's slots; those of a rank that was lost come from its neighbour.

        Raises:
            ArgumentError: a state without them.
            PeerLost: a slot whose state went with two neighbours.
        """
        machines, link = self._machines, self._machines.link
        machines.agreement.check_once(id(self), self, lambda: self._describe(state), "optimizer")
        missing = [slot for slot in machines.own_slots if slot not in state.by_slot]
        if missing and not link.losses:
            raise ArgumentError(
                f"ShardedOptimizer: a state without slots of this rank: got {sorted(state.by_slot)}, missing {missing}; "
                "save what gather(state) returns"
            )
        if not link.losses or not any(link.gather(b"missing" if missing else b"")):
            return state.by_slot
        states: dict[int, Any] = {}
        for data in link.gather(encode_tree(state.by_slot)):
            states |= decode_tree(data)
        if lost := [slot for slot in range(machines.slots) if slot not in states]:
            raise PeerLost(
                f"ShardedOptimizer: states that were on two ranks, both of which are lost: got none of slots {lost}; "
                "restart from the last checkpoint"
            )
        return states

    def _describe(self, state: ShardedState) -> str:
        """Return the optimizer's settings, with the numbers that its states hold."""
        first = state.by_slot[min(state.by_slot)] if state.by_slot else None
        numbers = [float(np.real(np.asarray(leaf))) for leaf in pytree.leaves(first) if np.ndim(leaf) == 0]
        return f"{describe_program(self._optimizer)} {stable_repr(self._optimizer)} {numbers}"

    def check(self) -> None:
        """Compare steps in two parts with whole ones, where the optimizer looks at more than one element.

        Raises:
            ArgumentError: they differ by more than rounding.
        """
        if self._is_elementwise:
            return
        whole, optimizer = _probe(), ShardedOptimizer[Any](local(2), self._optimizer)
        for scale in PROBE_SCALES:
            expected = _two_steps(self._optimizer.step, self._optimizer.init(whole), whole, scale)
            stepped = _two_steps(optimizer.step, optimizer.init(whole), whole, scale)
            if not all(np.allclose(stepped[name], expected[name], rtol=1e-9, atol=1e-12) for name in whole):
                raise ArgumentError(
                    f"shard_optimizer: an optimizer that looks at more than elements and norms: got "
                    f"{type(self._optimizer).__name__}; shard one such as optim.adam or optim.lamb"
                )

    def gather(self, state: ShardedState, *, root: int | None = None) -> ShardedState:
        """Return the states of all slots: what `afx.io.save` can hold (`afx.io.Checkpoints` lets each rank save its own).

        Args:
            state: what `step` returned.
            root: the rank that gets them, which spares the memory of the others; they get their own back. None for all.

        Raises:
            ArgumentError: the root is no rank.
        """
        machines = self._machines
        if root is not None:
            machines.check_root(root, "gather")

        return machines.repeat_until_committed(
            "gather", lambda: ShardedState(machines.gather_once(self._own_states(state), root=root))
        )


def shard_optimizer(machines: Machines, optimizer: Optimizer[Any]) -> ShardedOptimizer[Any]:
    """Return the optimizer with its state divided among slots: each rank keeps and updates its share alone.

    The parameters are seen as flat vectors, of which each slot updates a chunk. The optimizer treats each element by
    itself, as `afx.optim.sgd`, `adam` and their like do, or by norms of arrays and of the tree (`clip_by_global_norm`,
    `clip_by_norm`, `lamb`, `lars`), of which slots exchange one scalar each; others (`muon`, `adafactor`) are refused after
    a trial on a few numbers.

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
    check_optimizer(optimizer, "shard_optimizer")
    sharded: ShardedOptimizer[Any] = ShardedOptimizer(machines, optimizer)
    sharded.check()
    return sharded


def _probe() -> dict[str, Any]:
    return {
        "a": wrap(np.linspace(-1.0, 2.0, PROBE_LENGTH**2).reshape(PROBE_LENGTH, -1)),
        "b": wrap(np.array([0.5, -3.0])),
    }


def _is_elementwise(optimizer: Any) -> bool:
    """Compare steps on a matrix and a vector with steps on chunks of their elements."""
    whole = _probe()
    flat = Flat(whole, 2)
    for scale in PROBE_SCALES:
        stepped = _two_steps(optimizer.step, optimizer.init(whole), whole, scale)
        buffers = flat.layout.empty(Memory())
        for slot in range(2):
            chunk = tuple(map(wrap, flat.chunk(slot)))
            flat.write(buffers, slot, _two_steps(optimizer.step, optimizer.init(chunk), chunk, scale))
        expected = flat.replace(buffers)
        if not all(np.array_equal(np.asarray(stepped[name]), np.asarray(expected[name])) for name in whole):
            return False
    return True


def _step_in_shards(optimizer: Any) -> Function:
    """Return an optimizer's step on parts of arrays, whose norms slots exchange."""

    def step(params: Any, grads: Any, state: Any, *, value: Any = None) -> Any:
        with sharded_by(all_gather):
            return optimizer.step(params, grads, state, value=value)

    return step


def _two_steps(step: Function, state: Any, params: Any, scale: float) -> Any:

    for _ in range(2):
        params, state = step(
            params, pytree.map(lambda x: wrap(scale * (np.asarray(x) + 0.25)), params), state, value=1.0
        )
    return params
