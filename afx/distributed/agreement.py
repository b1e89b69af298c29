"""Agreement: ranks compare what they run before they compute, so that differing scripts end with an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.compiler.target import current
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import get_default_dtype
from afx.distributed.digest import describe_graph, describe_program, shape_text
from afx.distributed.graph_split import GraphSplit
from afx.distributed.link import Link
from afx.distributed.messages import decode_tree, encode_tree
from afx.distributed.split import Split
from afx.errors import AfxError, ArgumentError
from afx.pytree import flatten
from afx.transforms.make_graph import to_graph

__all__ = ["Agreement"]


class Agreement:
    """What the ranks of a link have found to be the same."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._known: dict[Any, object] = {}  # with the objects whose identities the keys hold

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

    def check_graph(self, split: GraphSplit) -> None:
        """Compare a graph with its assignment among the ranks, once."""
        if self._link.ranks > 1 and id(split) not in self._known:
            self.check_same(f"{describe_graph(split.graph)} {split.assignment}", "graph and assignment")
            self._known[id(split)] = split

    def check_step(
        self,
        loss: Callable[..., Any],
        gradient: Callable[..., Any],
        split: Split,
        shared: Any,
        example: Callable[[], tuple[list[Any], dict[str, Any]] | None],
    ) -> None:
        """Compare program, Split, settings and traced graph of a step among the ranks, once for each combination.

        Args:
            loss: the program.
            gradient: what is traced.
            split: the sizes.
            shared: arguments that are whole on every rank.
            example: the arguments of a slot of this rank, if it has one with examples.
        """
        if self._link.ranks == 1:
            return
        leaves, treedef = flatten(shared)
        key = (id(loss), split, treedef, *map(aval_of, leaves), get_default_dtype(), current.key)
        if key in self._known:
            return
        settings = f"{split} {get_default_dtype()} {current.key} {np.__version__} {shape_text(shared)}"
        self.check_same(f"{describe_program(loss)} {settings}", "program, Split and settings")
        self.check_same(self._describe_trace(gradient, split, example()), "traced graph")
        self._known[key] = loss

    def _describe_trace(
        self, gradient: Callable[..., Any], split: Split, example: tuple[list[Any], dict[str, Any]] | None
    ) -> str | None:
        """Return the graph for the shapes of the first slot that has examples; None where there is nothing to trace."""
        root = self._link.owner(next(slot for slot, size in enumerate(split.sizes) if size))
        args, kwargs = ([], {}) if example is None else example
        leaves, treedef = flatten((tuple(args), kwargs))
        mine = [aval_of(leaf) for leaf in leaves]
        own = encode_tree([[list(aval.shape), aval.dtype.str, aval.weak] for aval in mine])
        told = decode_tree(self._link.broadcast(own if self._link.rank == root else None, root))
        avals = [Aval(tuple(map(int, shape)), np.dtype(dtype), bool(weak)) for shape, dtype, weak in told]
        if example is None or len(avals) != len(leaves):
            return None
        try:
            return describe_graph(to_graph(gradient, treedef, avals, "value_and_grad").graph)
        except AfxError:  # a program that asks for values cannot be traced; its code has been compared
            return None
