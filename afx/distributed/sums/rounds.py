"""Rounds: the messages of a sum as pure data, seen from one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from afx.distributed.sums.tree import Node, Tree

__all__ = ["WHOLE", "Exchange", "Round", "Span", "Transfer", "find_places", "join_spans", "share", "slot_span"]

Span: TypeAlias = tuple[int, int, int]  # first and last numerator, denominator: a part of each buffer
WHOLE: Final[Span] = (0, 1, 1)


@attrs.frozen
class Transfer:
    """Parts of one node's sum that go to or come from another rank.

    Attributes:
        rank: the other one.
        node: of the tree.
        spans: the parts.
    """

    rank: int
    node: Node
    spans: tuple[Span, ...]


@attrs.frozen
class Round:
    """What a rank sends and receives at a time, and then adds.

    Attributes:
        sends: in their order.
        receives: in their order; of the same sender in the order of its sends.
        totals: the nodes that are added up from what there is then, after which there are no others.
        spans: the parts of them.
    """

    sends: tuple[Transfer, ...] = ()
    receives: tuple[Transfer, ...] = ()
    totals: tuple[Node, ...] = ()
    spans: tuple[Span, ...] = ()


@attrs.frozen(eq=False)
class Exchange:
    """The messages of one sum.

    Attributes:
        tree: of the slots that take part.
        own: the nodes that this rank adds up by itself.
        tops: nodes above which it adds nothing by itself.
        rounds: one after the other.
        streams: whether each piece of a round's sum may go on at once, in the next round.
        is_flood: whether each rank gets all nodes in one round.
    """

    tree: Tree
    own: tuple[Node, ...]
    tops: tuple[Node, ...]
    rounds: tuple[Round, ...]
    streams: bool = False
    is_flood: bool = False


def slot_span(owners: Sequence[int], rank: int) -> tuple[Span, ...]:
    """Return the part of the buffers that belongs to a rank's slots, which are neighbours."""
    mine = [slot for slot, owner in enumerate(owners) if owner == rank]
    return ((mine[0], mine[-1] + 1, len(owners)),) if mine else ()


def find_places(owners: Sequence[int], present: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return by rank where its slots begin and end among those that take part."""
    found: dict[int, tuple[int, int]] = {}
    for place, slot in enumerate(present):
        start, _ = found.get(owners[slot], (place, place))
        found[owners[slot]] = (start, place + 1)
    return found


def share(node: Node, parts: dict[int, tuple[Span, ...]], rank: int) -> Round:
    """Return the round in which all ranks give their parts of a sum to all others."""
    others = [other for other in parts if other != rank]
    return Round(
        tuple([Transfer(other, node, parts[rank]) for other in others]),
        tuple([Transfer(other, node, parts[other]) for other in others]),
    )


def join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return parts in their order, neighbours as one."""
    found: list[Span] = []
    for start, stop, whole in sorted(spans):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop, whole)
        else:
            found.append((start, stop, whole))
    return tuple(found)
