"""Agreement: ranks compare what they run before they compute, so that differing scripts end with an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from afx.compiler.target import current
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import get_default_dtype
from afx.distributed.digest import describe_graph, describe_program, describe_values, shape_text
from afx.distributed.graph.split import GraphSplit
from afx.distributed.link import Link
from afx.distributed.messages import decode_tree, encode_tree
from afx.distributed.split import Split
from afx.errors import AfxError, ArgumentError
from afx.pytree import flatten
from afx.transforms.compile.make_graph import to_graph

__all__ = ["Agreement", "Program"]

COMPARED_CALLS: Final = 64  # between two looks at the values that all ranks should have


@attrs.frozen(eq=False)
class Program:
    """What the ranks compare of one function of `Machines`.

    Attributes:
        name: for messages.
        loss: the program.
        gradient: what is traced.
        options: how the gradient was made.
        split: the sizes.
        whole: arguments that are whole on every rank, with their names.
        example: the arguments of a slot of this rank, if it has one with examples.
        is_sum: whether the loss turns out to be no mean.
    """

    name: str
    loss: Callable[..., Any]
    gradient: Callable[..., Any]
    options: str
    split: Split
    whole: Sequence[tuple[str, Any]]
    example: Callable[[], tuple[list[Any], dict[str, Any]] | None]
    is_sum: Callable[[], bool]


@attrs.define
class _Entry:
    """A program that the ranks have compared.

    Attributes:
        number: the same on every rank.
        held: what keeps the identities in its key alive.
        calls: how many have been made.
    """

    number: int
    held: object
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
        found: list[str | None] = [decode_tree(data) for data in self._link.gather(encode_tree(digest))]
        if len(set(found) - {None}) > 1:
            shown = [None if text is None else text[:8] for text in found]
            raise ArgumentError(
                f"distributed: the ranks do not run the same {what}: got digests {shown} by rank; "
                "start all ranks with the same script, arguments, settings and versions"
            )

    def check_once(self, key: object, held: object, describe: Callable[[], str], what: str) -> None:
        """Compare a text among the ranks, once for each key."""
        if self._link.ranks > 1 and key not in self._known:
            self.check_same(describe(), what)
            self._pending.append(lambda: self._add(key, held))

    def check_graph(self, split: GraphSplit, inputs: Sequence[Any]) -> None:
        """Compare a graph with its assignment among the ranks, once, and its inputs as `check_often` does."""
        self.check_once(
            id(split), split, lambda: f"{describe_graph(split.graph)} {split.assignment}", "graph and assignment"
        )
        self.check_often(("inputs", id(split)), split, [("inputs", inputs)], "run_graph")

    def check_often(self, key: object, held: object, whole: Sequence[tuple[str, Any]], who: str) -> None:
        """Compare the values of arguments among the ranks at the first two calls of a key, and at every 64th."""
        self._look(key, self._known.get(key) or _Entry(len(self._known), held), whole, who)

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
        mine = describe_values(whole)
        digest = hashlib.sha256(repr(mine).encode()).hexdigest()
        found = [data.decode() for data in self._link.gather(digest.encode())]
        if len(set(found)) == 1:
            return
        tables: list[list[list[str]]] = [decode_tree(data) for data in self._link.gather(encode_tree(mine))]
        for rank, table in enumerate(tables):
            for (path, first), (_, other) in zip(tables[0], table, strict=False):
                if first != other:
                    raise ArgumentError(
                        f"{who}: ranks hold other values of what all of them share: got another {path} on rank {rank} than "
                        "on rank 0; start from the same keys and settings (learning rates, too), or from "
                        "machines.broadcast(model if machines.rank == 0 else None)"
                    )
        raise ArgumentError(f"{who}: ranks hold trees of other sizes: got {[len(table) for table in tables]} leaves")

    def check_step(self, program: Program) -> int:
        """Compare program, Split, settings and traced graph of a step among the ranks, once for each combination.

        Values that are whole on every rank are compared at the first two calls, and at every 64th.

        Returns:
            The number of the program, by which its messages are told apart.

        Raises:
            ArgumentError: the ranks differ, or the loss is a sum over its examples.
        """
        key = self._key(program)
        entry = self._known.get(key)
        if entry is None:
            self._compare(program)
            entry = _Entry(len(self._known), program.loss)
        self._look(key, entry, program.whole, program.name)
        return entry.number

    def _key(self, program: Program) -> Any:
        leaves, treedef = flatten([value for _, value in program.whole])
        avals = tuple([aval_of(leaf) for leaf in leaves])
        return (id(program.loss), program.options, program.split, treedef, avals, get_default_dtype(), current.key)

    def _add(self, key: object, held: object) -> None:
        self._known.setdefault(key, _Entry(len(self._known), held))

    def _count(self, key: object, entry: _Entry) -> None:
        self._known.setdefault(key, entry).calls += 1

    def _compare(self, program: Program) -> None:
        if self._link.ranks > 1:
            shapes = shape_text([value for _, value in program.whole])
            settings = f"{program.split} {get_default_dtype()} {current.key} {np.__version__} {shapes}"
            self.check_same(
                f"{describe_program(program.loss)} {program.options} {settings}", "program, Split and settings"
            )
            self.check_same(self._describe_trace(program), "traced graph")
        verdicts = self._link.gather(b"sum" if program.is_sum() else b"")
        if any(verdicts):
            raise ArgumentError(
                f"{program.name}: a loss that is a sum over its examples: got the sum of its values on two parts of them; "
                "return a mean (afx.mean): slots are weighted by their share of the batch"
            )

    def _describe_trace(self, program: Program) -> str | None:
        """Return the graph for the shapes of the first slot that has examples; None where there is nothing to trace."""
        example = program.example()
        root = self._link.owner(next(slot for slot, size in enumerate(program.split.sizes) if size))
        args, kwargs = ([], {}) if example is None else example
        leaves, treedef = flatten((tuple(args), kwargs))
        mine = [aval_of(leaf) for leaf in leaves]
        own = encode_tree([[list(aval.shape), aval.dtype.str, aval.weak] for aval in mine])
        told = decode_tree(self._link.broadcast(own if self._link.rank == root else None, root))
        avals = [Aval(tuple(map(int, shape)), np.dtype(dtype), bool(weak)) for shape, dtype, weak in told]
        if example is None or len(avals) != len(leaves):
            return None
        try:
            return describe_graph(to_graph(program.gradient, treedef, avals, "value_and_grad").graph)
        except AfxError:  # a program that asks for values cannot be traced; its code has been compared
            return None
