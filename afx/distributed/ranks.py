"""Ranks: the processes that share slots, what they agree on and exchange, and a function called for each slot."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

import attrs
import numpy as np

from afx import pytree
from afx.compiler.target import current
from afx.core import Aval, Function, aval_of, get_default_dtype
from afx.distributed.graph.split import GraphSplit
from afx.distributed.link import CallFailedError, Link, RankLostError, error_of_rank
from afx.distributed.messages import (
    decode_tree,
    describe_graph,
    describe_program,
    describe_values,
    encode_tree,
    shape_text,
    stable_repr,
)
from afx.distributed.parts import Parts, ShardedState, Split, adds_up, cut, whole_places
from afx.errors import AfxError, ArgumentError, PeerLost
from afx.pytree import flatten
from afx.runtime import job
from afx.runtime.blas import blas
from afx.transforms.compile.jit import jit
from afx.transforms.compile.make_graph import to_graph
from afx.transforms.derivatives.grad import value_and_grad

# --- Agreement: ranks compare what they run before they compute, so that differing scripts end with an error

COMPARED_CALLS: Final = 64  # between two looks at the values that all ranks should have


@attrs.frozen(eq=False)
class ComparedProgram:
    """What the ranks compare of one function of `Machines`.

    Attributes:
        name: for messages.
        loss: the program.
        gradient: what is traced.
        options: how the gradient was made.
        split: the sizes.
        whole: arguments that are whole on every rank, with their names.
        data: the dtypes of the arrays that are cut.
        example: the arguments of a slot of this rank, if it has one with examples.
        is_sum: whether the loss turns out to be no mean.
    """

    name: str
    loss: Function
    gradient: Function
    options: str
    split: Split
    whole: Sequence[tuple[str, Any]]
    data: str
    example: Callable[[], tuple[list[Any], dict[str, Any]] | None]
    is_sum: Callable[[], bool]


@attrs.define
class _Entry:
    """A program that the ranks have compared.

    Attributes:
        number: the same on every rank.
        owner: what keeps the identities in its key alive.
        calls: how many have been made.
    """

    number: int
    owner: object
    calls: int = 0


class Agreement:
    """What the ranks of a link have found to be the same."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._known: dict[Any, _Entry] = {}
        self._pending: list[Callable[[], None]] = []  # what holds once all ranks have finished the call

    def keep(self) -> None:
        """Note what was compared in a call that all ranks have finished."""
        for note in self._pending:
            note()
        self._pending.clear()

    def drop(self) -> None:
        """Forget what was compared in a call that is made again."""
        self._pending.clear()

    def check_same(self, description: str | None, what: str) -> None:
        """Compare a text among the ranks; those that give None take no part.

        Raises:
            ArgumentError: the ranks hold different ones; all of them raise.
        """
        digest = None if description is None else hashlib.sha256(description.encode()).hexdigest()
        digests: list[str | None] = [decode_tree(data) for data in self._link.gather(encode_tree(digest))]
        if len(set(digests) - {None}) > 1:
            shown = [None if text is None else text[:8] for text in digests]
            raise ArgumentError(
                f"distributed: the ranks do not run the same {what}: got digests {shown} by rank; "
                "start all ranks with the same script, arguments, settings and versions"
            )

    def check_once(self, key: object, owner: object, describe: Callable[[], str], what: str) -> None:
        """Compare a text among the ranks, once for each key."""
        if self._link.ranks > 1 and key not in self._known:
            self.check_same(describe(), what)
            self._pending.append(lambda: self._add(key, owner))

    def check_graph(self, split: GraphSplit, inputs: Sequence[Any]) -> None:
        """Compare a graph with its assignment among the ranks, once, and its inputs as `check_often` does."""
        self.check_once(
            id(split), split, lambda: f"{describe_graph(split.graph)} {split.assignment}", "graph and assignment"
        )
        self.check_often(("inputs", id(split)), split, [("inputs", inputs)], "run_graph")

    def check_often(self, key: object, owner: object, whole: Sequence[tuple[str, Any]], who: str) -> None:
        """Compare the values of arguments among the ranks at the first two calls of a key, and at every 64th."""
        self._look(key, self._known.get(key) or _Entry(len(self._known), owner), whole, who)

    def _look(self, key: object, entry: _Entry, whole: Sequence[tuple[str, Any]], who: str) -> None:
        if self._link.ranks > 1:
            if entry.calls < 2 or entry.calls % COMPARED_CALLS == 0:
                self.check_values(whole, who)
            self._pending.append(lambda: self._count(key, entry))

    def check_values(self, whole: Sequence[tuple[str, Any]], who: str) -> None:
        """Compare the values of arguments among the ranks.

        Raises:
            ArgumentError: a leaf that differs, which is named; all ranks raise.
        """
        own_table = describe_values(whole)
        digest = hashlib.sha256(repr(own_table).encode()).hexdigest()
        digests = [data.decode() for data in self._link.gather(digest.encode())]
        if len(set(digests)) == 1:
            return
        tables: list[list[list[str]]] = [decode_tree(data) for data in self._link.gather(encode_tree(own_table))]
        for rank, table in enumerate(tables):
            for (path, first), (_, other) in zip(tables[0], table, strict=False):
                if first != other:
                    raise ArgumentError(
                        f"{who}: ranks hold other values of what all of them share: got another {path} on rank {rank} than "
                        "on rank 0; start from the same keys and settings (learning rates, too), or from "
                        "machines.broadcast(model if machines.rank == 0 else None)"
                    )
        raise ArgumentError(f"{who}: ranks hold trees of other sizes: got {[len(table) for table in tables]} leaves")

    def check_step(self, program: ComparedProgram) -> int:
        """Compare program, Split, settings and traced graph of a step among the ranks, once for each combination.

        Values that are whole on every rank are compared at the first two calls, and at every 64th.

        Returns:
            The number of the program, by which its messages are told apart.

        Raises:
            ArgumentError: the ranks differ, or the loss is a sum over its examples.
        """
        self._link.detail_call(program.data)
        key = self._key(program)
        entry = self._known.get(key)
        if entry is None:
            self._compare(program)
            entry = _Entry(len(self._known), program.loss)
        self._look(key, entry, program.whole, program.name)
        return entry.number

    def _key(self, program: ComparedProgram) -> Any:
        leaves, treedef = flatten([value for _, value in program.whole])
        avals = tuple(map(aval_of, leaves))
        settings = (program.options, program.split, program.data, get_default_dtype(), current.key)
        return (id(program.loss), treedef, avals, *settings)

    def _add(self, key: object, owner: object) -> None:
        self._known.setdefault(key, _Entry(len(self._known), owner))

    def _count(self, key: object, entry: _Entry) -> None:
        self._known.setdefault(key, entry).calls += 1

    def _compare(self, program: ComparedProgram) -> None:
        if self._link.ranks > 1:
            shapes = shape_text([value for _, value in program.whole])
            settings = f"{program.split} {get_default_dtype()} {current.key} {np.__version__} {shapes}"
            self.check_same(
                f"{describe_program(program.loss)} {program.options} {settings}", "program, Split and settings"
            )
            self.check_same(self._describe_data(program), "structure and dtypes of the data")
            self.check_same(self._describe_trace(program), "traced graph")
        verdicts = self._link.gather(b"sum" if program.is_sum() else b"")
        if any(verdicts):
            raise ArgumentError(
                f"{program.name}: a loss that is a sum over its examples: got the sum of its values on two parts of them; "
                "return a mean (afx.mean): slots are weighted by their share of the batch"
            )

    def _describe_data(self, program: ComparedProgram) -> str | None:
        """Return structure and dtypes of the arguments of this rank's first slot; other dtypes give other bits."""
        example = program.example()
        if example is None:
            return None
        leaves, treedef = flatten(example)
        return f"{stable_repr(treedef)} {[(aval.dtype.str, aval.weak) for aval in map(aval_of, leaves)]}"

    def _describe_trace(self, program: ComparedProgram) -> str | None:
        """Return the graph for the shapes of the first slot that has examples; None where there is nothing to trace."""
        example = program.example()
        root = self._link.owner(next(slot for slot, size in enumerate(program.split.sizes) if size))
        args, kwargs = ([], {}) if example is None else example
        leaves, treedef = flatten((tuple(args), kwargs))
        own_avals = [aval_of(leaf) for leaf in leaves]
        own = encode_tree([[list(aval.shape), aval.dtype.str, aval.weak] for aval in own_avals])
        descriptions = decode_tree(self._link.broadcast(own if self._link.rank == root else None, root))
        avals = [Aval(tuple(map(int, shape)), np.dtype(dtype), bool(weak)) for shape, dtype, weak in descriptions]
        if example is None or len(avals) != len(leaves):
            return None
        try:
            return describe_graph(to_graph(program.gradient, treedef, avals, "value_and_grad").graph)
        except AfxError:  # a program that asks for values cannot be traced; its code has been compared
            return None


# --- Ranks: the processes that share slots, and what they exchange beside sums

T = TypeVar("T")
R = TypeVar("R")


class Ranks:
    """Processes that share slots.

    Attributes:
        slots: the number of slots.
        link: the connection among the ranks, for functions of `afx.distributed`.
        agreement: what the ranks have compared, likewise.
        is_closed: whether the connection has ended.
    """

    def __init__(self, link: Link, slots: int) -> None:
        self.link: Link = link
        self.slots = slots
        self.agreement: Agreement = Agreement(link)
        self.is_closed: bool = False

    @property
    def rank(self) -> int:
        """The number of this process, from 0; rank 0 prints and saves."""
        return self.link.rank

    @property
    def ranks(self) -> int:
        """The number of processes that are alive."""
        return self.link.ranks

    @property
    def own_slots(self) -> tuple[int, ...]:
        """The slots that this process computes."""
        return tuple(slot for slot in range(self.slots) if self.link.owner(slot) == self.rank)

    @property
    def held_slots(self) -> tuple[int, ...]:
        """The slots whose states this process keeps: its own, and the neighbour's where the job goes on without lost ranks."""
        owners = {self.rank, (self.rank - 1) % self.ranks} if self.link.shrinks else {self.rank}
        return tuple(slot for slot in range(self.slots) if self.link.owner(slot) in owners)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Tell the other ranks that this one takes part in nothing more, and end the connection."""
        if not self.is_closed:
            self.is_closed = True
            job.end(self)
            self.link.close()

    def repeat_until_committed(self, name: str, attempt: Callable[[], R], *, ends_together: bool = False) -> R:
        """Return the result of an attempt that all ranks finished; without those that are lost it is made again.

        An error on one rank is one on all that still wait for it.

        Args:
            name: of the call, which ranks that wait compare.
            attempt: what is tried.
            ends_together: whether ranks may be done while others fail: they wait until all are.

        Raises:
            Exception: the attempt failed on another rank, with an error of that class (ArgumentError, where only that rank
                knows the class); the next call finds all ranks in step.
            PeerLost: a rank that fails, or was lost, ends the connection.
        """
        self.link.begin_call(name)
        while True:
            try:
                result = self._settle(name, attempt, ends_together)
            except RankLostError:
                self.agreement.drop()
                self.link.commit(False)
                continue
            try:
                if self.link.commit(True):
                    self.agreement.keep()
                    return result
            except Exception:
                self.agreement.drop()
                raise
            self.agreement.drop()

    def _settle(self, name: str, attempt: Callable[[], R], ends_together: bool) -> R:
        """Return the result of an attempt; where it fails, meet the other ranks at the end of the call."""
        results: list[R] = []
        failure = None
        try:
            results.append(attempt())
        except (PeerLost, RankLostError):
            raise
        except Exception as error:
            failure = error
        if failure is None and not ends_together:
            return results[0]
        try:
            errors = self.link.settle(failure)
        except PeerLost as lost:
            raise lost from failure
        if failure is None and not errors:
            return results[0]
        self.agreement.drop()
        if failure is None or (errors and isinstance(failure, CallFailedError)):
            raise error_of_rank(name, errors[0]) from None
        raise failure

    def gather_by_slot(self, trees: Mapping[int, T]) -> dict[int, T]:
        """Return the trees of all slots, of which each rank gives those of its own, on every rank."""
        return self.repeat_until_committed("gather", lambda: self.gather_once(trees))

    def gather_once(self, trees: Mapping[int, T], *, root: int | None = None) -> dict[int, T]:
        """Return the trees of all slots, on every rank or on one alone, within an attempt of `repeat_until_committed`."""
        own_trees = {slot: tree for slot, tree in trees.items() if self.link.owner(slot) == self.rank}
        missing = [slot for slot in self.own_slots if slot not in own_trees]
        if missing:
            raise PeerLost(
                f"gather: slots of a rank that was lost: got no tree of {missing}; restart from the last checkpoint"
            )
        if self.ranks == 1:
            return own_trees
        if root is None:
            parts = [decode_tree(data) for data in self.link.gather(encode_tree(own_trees))]
        else:
            data = encode_tree(own_trees)
            sent = [self.link.send(data if rank == self.rank else None, rank, root) for rank in range(self.ranks)]
            parts = [own_trees] if self.rank != root else [decode_tree(x) for x in sent if x is not None]
        return {int(slot): tree for part in parts for slot, tree in part.items()}

    def outline(self, tree: T) -> T:
        """Return a tree with one slot's state in place of each sharded one: what is the same on any number of ranks."""

        def first(leaf: Any) -> Any:
            return next(iter(leaf.by_slot.values()), None) if isinstance(leaf, ShardedState) else leaf

        return pytree.map(first, tree, is_leaf=lambda part: isinstance(part, ShardedState))

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, within an attempt of `repeat_until_committed`."""
        return [data.decode() for data in self.link.gather(text.encode())]

    def broadcast(self, tree: T | None, *, root: int = 0) -> T:
        """Return the tree that one rank has, on every rank; the others pass None.

        Raises:
            ArgumentError: the root passes None, or is no rank.
        """
        self.check_root(root, "broadcast")
        data = encode_tree(tree) if self.rank == root and tree is not None else None
        has_data, losses = self.rank == root, self.link.losses
        result: T = decode_tree(
            self.repeat_until_committed(
                f"broadcast of rank {root}", lambda: self.link.broadcast(data, self._root(root, has_data, losses))
            )
        )
        return result

    def check_root(self, root: int, who: str) -> None:
        """Refuse what is no rank.

        Raises:
            ArgumentError: it is none of those that are alive.
        """
        if not 0 <= root < self.ranks:
            raise ArgumentError(f"{who}: no such rank: got root={root} of {self.ranks}; ranks count from 0")

    def _root(self, root: int, is_root: bool, losses: int) -> int:
        """Return the rank that has the data now, where ranks were lost since a call began."""
        if self.link.losses == losses:
            return root
        marks = self.link.gather(b"root" if is_root else b"")
        if not any(marks):
            raise PeerLost(
                "distributed: the rank that has the data was lost: got it nowhere; restart from a checkpoint"
            )
        return next(rank for rank, data in enumerate(marks) if data)

    def decide(self, verdict: bool) -> bool:
        """Return rank 0's verdict, on every rank: when to stop goes by one clock."""
        data = b"yes" if verdict else b"no"
        return self.repeat_until_committed("decide", lambda: self.link.broadcast(data, 0)) == b"yes"

    def share(self, value: float | None) -> float | None:
        """Return rank 0's number, on every rank."""
        text = repr(None if value is None else float(value))
        data = self.repeat_until_committed("share", lambda: self.link.broadcast(text.encode(), 0)).decode()
        return None if data == "None" else float(data)

    def scatter(self, tree: T | None, split: Split, *, root: int = 0) -> T:
        """Return an argument of which each rank holds the rows of its slots, sent once by the rank that has it whole.

        To the type checker it is the whole tree; it may only be passed to functions of `Machines`.

        Args:
            tree: the whole arrays on the root; None on the others.
            split: how many rows each slot gets.
            root: the rank that has them.

        Raises:
            ArgumentError: the root passes None, or is no rank.
            ShapeError: an array that the Split cannot cut.
        """
        self.check_split(split, "scatter")
        self.check_root(root, "scatter")
        parts = None if tree is None or self.rank != root else cut(tree, split, "scatter")
        has_data, losses = self.rank == root, self.link.losses

        def attempt() -> dict[int, Any]:
            source, received_parts = self._root(root, has_data, losses), dict[int, Any]()
            for slot in range(self.slots):
                data = encode_tree(parts.part(slot)) if parts is not None else None
                if (received := self.link.send(data, source, self.link.owner(slot))) is not None:
                    received_parts[slot] = decode_tree(received)
            return received_parts

        own_parts = self.repeat_until_committed(f"scatter of rank {root} by {split.sizes}", attempt)

        def read(slot: int) -> Any:
            if slot not in own_parts:
                raise PeerLost(
                    f"scatter: the rows of slot {slot} went to a rank that was lost: got none here; scatter again, or "
                    "pass whole arrays or by_slot(...), which survive a loss"
                )
            return own_parts[slot]

        return cast("T", Parts(read))

    def check_same(self, description: str, what: str) -> None:
        """Compare a text among the ranks.

        Raises:
            ArgumentError: the ranks hold different ones; all of them raise.
        """
        self.repeat_until_committed("check_same", lambda: self.agreement.check_same(description, what))

    def check_split(self, split: Split, who: str) -> None:
        """Refuse a Split of other slots than these.

        Raises:
            ArgumentError: it has more or fewer.
        """
        if len(split.sizes) != self.slots:
            raise ArgumentError(
                f"{who}: a Split of other slots: got {split.slots} for {self.slots}; give a size a slot"
            )

    def measure_speeds(self, work: Callable[[], object], *, repeat: int = 5) -> list[float]:
        """Return how fast each slot does a piece of work, in pieces a second, the same list on every rank.

        For `Split.proportional`. Print the Split and save it with the results: it is part of what decides their bits.

        Args:
            work: a function without arguments, such as one gradient step.
            repeat: how often; the median counts.

        Raises:
            ArgumentError: no repetition.
        """
        if repeat < 1:
            raise ArgumentError(f"measure_speeds: at least one repetition: got {repeat}")
        times: list[float] = []
        for _ in range(repeat):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        own_speed = 1.0 / (float(np.median(times)) * max(len(self.own_slots), 1))
        gathered = self.repeat_until_committed("measure_speeds", lambda: self.link.gather(encode_tree(own_speed)))
        speeds = [float(decode_tree(data)) for data in gathered]
        return [speeds[self.link.owner(slot)] for slot in range(self.slots)]


# --- Slot calls: a function of whole arguments, called for each slot with the slot's part of them

A = TypeVar("A")


@attrs.frozen(eq=False)
class BoundCall(Generic[A]):
    """One call, ready for its slots.

    Attributes:
        compute: the slot's number to value and gradient of its part.
        program: what the ranks compare before.
    """

    compute: Callable[[int], A]
    program: ComparedProgram


class SlotCalls(Generic[A]):
    """The gradient of a loss for the parts of a Split.

    Args:
        who: the caller, for messages.
        loss: the program.
        split: the sizes.
        argnums: the arguments to differentiate, as for `afx.value_and_grad`.
        argnames: keyword arguments to differentiate.
        shared: positions and names of other arguments that all slots see whole.
        is_compiled: whether each slot's part runs under `afx.jit`.
        options: of `afx.value_and_grad`.
    """

    def __init__(
        self,
        who: str,
        loss: Function,
        split: Split,
        argnums: int | Sequence[int] | None = None,
        argnames: str | Sequence[str] = (),
        *,
        shared: Sequence[int | str],
        is_compiled: bool,
        options: Mapping[str, bool],
    ) -> None:
        differentiate: Any = value_and_grad  # whose overloads have each flag apart
        self._plain: Any = differentiate(loss, argnums, argnames, **options)
        self._part_fn: Any = jit(self._plain) if is_compiled else self._plain
        self._places = whole_places(loss, argnums, argnames, shared, who)
        self._who = who
        self._has_aux = options.get("has_aux", False)
        self._options = repr((argnums, argnames, list(shared), is_compiled, sorted(options.items())))
        self._loss = loss
        self._split = split
        self.name: str = f"{who} of {getattr(loss, '__qualname__', type(loss).__qualname__)}"

    def bind(
        self, own_slots: Callable[[], Sequence[int]], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> BoundCall[A]:
        """Return the function from a slot to value and gradient of its part.

        Raises:
            ShapeError: an array that the Split cannot cut.
        """
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        parts: dict[int | str, Parts[Any]] = {
            place: value if isinstance(value, Parts) else cut(value, self._split, self._who)
            for place, value in given
            if place not in self._places
        }
        read: dict[int, tuple[list[Any], dict[str, Any]]] = {}  # before the first step, for comparing programs

        def arguments(slot: int) -> tuple[list[Any], dict[str, Any]]:
            part_args = [parts[k].part(slot) if k in parts else arg for k, arg in enumerate(args)]
            return part_args, {name: parts[name].part(slot) if name in parts else arg for name, arg in kwargs.items()}

        def first_slot() -> int | None:
            return next((slot for slot in own_slots() if self._split.sizes[slot]), None)

        def example() -> tuple[list[Any], dict[str, Any]] | None:
            slot = first_slot()
            if slot is not None and slot not in read:
                read[slot] = arguments(slot)
            return None if slot is None else read[slot]

        def is_sum() -> bool:
            arguments, slot = example(), first_slot()
            if arguments is None or slot is None or len(self._split.weights) == 1:
                return False
            rows = self._split.sizes[slot]
            return adds_up(self._loss, *arguments, parts.keys(), rows, has_aux=self._has_aux)

        def compute(slot: int) -> A:
            part_args, named = read.pop(slot) if slot in read else arguments(slot)
            with blas:
                result: A = self._part_fn(*part_args, **named)
            return result

        whole = [(f"argument {place}", value) for place, value in given if place not in parts]
        data = "; ".join([f"data {place}{part.dtypes}" for place, part in parts.items()])
        program = ComparedProgram(
            self.name, self._loss, self._plain, self._options, self._split, whole, data, example, is_sum
        )
        return BoundCall(compute, program)
