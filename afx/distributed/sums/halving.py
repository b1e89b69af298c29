"""Halving: sums on many ranks, whose neighbours in the tree exchange halves, then quarters, and so on."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence

import attrs

from afx.distributed.sums.rounds import WHOLE, Exchange, Round, Span, Transfer, find_places, join_spans, slot_span
from afx.distributed.sums.tree import Node, Tree, nodes_of_level, tree_over

__all__ = ["Keeping", "keep_nodes", "list_collected", "list_delivered", "plan_halving"]


@attrs.frozen(eq=False)
class Keeping:
    """Which rank looks after which node of a level; the same seen from every rank.

    Attributes:
        level: of the nodes.
        tops: the nodes.
        keepers: their ranks.
        nodes: what each rank adds up by itself.
    """

    level: int
    tops: Sequence[Node]
    keepers: list[int]
    nodes: dict[int, list[Node]]


@functools.lru_cache(maxsize=8)
def keep_nodes(owners: tuple[int, ...]) -> Keeping:
    """Return the nodes of the level that has as many as there are ranks, or fewer, and the rank of each."""
    slots, level = len(owners), len(set(owners)).bit_length() - 1
    tree, tops = tree_over(slots, tuple(range(slots))), nodes_of_level(slots, level)
    nodes = {rank: tree.cover(*ends, tops) for rank, ends in find_places(owners, range(slots)).items()}
    return Keeping(level, tops, _choose_keepers(owners, tops), nodes)


def plan_halving(owners: tuple[int, ...], tree: Tree, rank: int, by_slot: bool, is_small: bool) -> Exchange:
    """Return the rounds of halving and doubling over the nodes of one level, each of which one rank looks after."""
    slots, keeping = len(owners), keep_nodes(owners)
    level, tops, keepers, nodes = keeping.level, keeping.tops, keeping.keepers, keeping.nodes
    rounds = _collect(tops, keepers, nodes, rank)
    place = keepers.index(rank) if rank in keepers else None
    parts = _keeper_parts(tops, slots, level, by_slot)
    back: list[Round] = []
    for step in range(level if place is not None else 0):
        assert place is not None
        there, back_again = _step(tops, keepers, parts, place, step, is_small)
        rounds.append(there)
        back.insert(0, back_again)
    if by_slot:
        rounds += _deliver_parts(owners, tree.root, keepers, parts, rank)
    else:
        rounds += back if not is_small else []
        rounds += _deliver(tree.root, keepers, owners, rank)
    return Exchange(tree, tuple(nodes[rank]), tuple(tops), tuple(rounds))


def _choose_keepers(owners: Sequence[int], tops: Sequence[Node]) -> list[int]:
    """Return a rank for each node, one of those that compute it where there is one left."""
    free = dict.fromkeys(owners)
    found: list[int | None] = []
    for node in tops:
        own = next((rank for rank in owners[node[0] : node[1]] if rank in free), None)
        found.append(own)
        if own is not None:
            del free[own]
    rest = iter(list(free))
    return [next(rest) if rank is None else rank for rank in found]


def _collect(tops: Sequence[Node], keepers: Sequence[int], nodes: dict[int, list[Node]], rank: int) -> list[Round]:
    """Return the round in which each keeper gets what others have of its node; none where nobody has anything."""
    moves = list_collected(tops, keepers, nodes)
    sends = [Transfer(k, node, (WHOLE,)) for other, node, k in moves if other == rank]
    receives = [Transfer(other, node, (WHOLE,)) for other, node, k in moves if k == rank]
    totals = (tops[keepers.index(rank)],) if rank in keepers else ()
    spans = (WHOLE,) if totals else ()
    return [Round(tuple(sends), tuple(receives), totals, spans)] if sends or receives or totals else []


def list_collected(
    tops: Sequence[Node], keepers: Sequence[int], nodes: dict[int, list[Node]]
) -> list[tuple[int, Node, int]]:
    """Return what goes to keepers at first: from which rank, which node, to which rank."""
    starts = [top[0] for top in tops]

    def keeper(node: Node) -> int:
        return keepers[bisect.bisect_right(starts, node[0]) - 1]

    return [(other, node, keeper(node)) for other, own in nodes.items() for node in own if keeper(node) != other]


def _keeper_parts(tops: Sequence[Node], slots: int, level: int, by_slot: bool) -> list[Span]:
    """Return the part that each keeper ends with: of its slots, or one that is a half of a half … of neighbours."""
    if by_slot:
        return [(start, stop, slots) for start, stop in tops]
    count = 2**level
    return [(k, k + 1, count) for k in (int(f"{place:0{level}b}"[::-1], 2) for place in range(count))]


def _step(
    tops: Sequence[Node], keepers: Sequence[int], parts: Sequence[Span], place: int, step: int, is_small: bool
) -> tuple[Round, Round]:
    """Return the exchange with the neighbour at a distance, and the one in which the sums come back."""
    other = place ^ (1 << step)
    first, second = _group(tops, place, step), _group(tops, other, step)
    parent = (min(first[0], second[0]), max(first[1], second[1]))
    if is_small:
        there = Round(
            (Transfer(keepers[other], first, (WHOLE,)),),
            (Transfer(keepers[other], second, (WHOLE,)),),
            (parent,),
            (WHOLE,),
        )
        return there, Round()
    mask = (2 << step) - 1
    mine = join_spans(parts[k] for k in range(len(parts)) if k & mask == place & mask)
    theirs = join_spans(parts[k] for k in range(len(parts)) if k & mask == other & mask)
    root = (0, tops[-1][1])
    there = Round(
        (Transfer(keepers[other], first, theirs),), (Transfer(keepers[other], second, mine),), (parent,), mine
    )
    return there, Round((Transfer(keepers[other], root, mine),), (Transfer(keepers[other], root, theirs),))


def _group(tops: Sequence[Node], place: int, step: int) -> Node:
    """Return the node that a keeper has added up before a step."""
    start = place >> step << step
    return (tops[start][0], tops[start + (1 << step) - 1][1])


def list_delivered(keepers: Sequence[int], owners: Sequence[int]) -> dict[int, int]:
    """Return the ranks that look after no node, and from whom each gets the sum."""
    rest = [other for other in dict.fromkeys(owners) if other not in keepers]
    return dict(zip(rest, keepers, strict=False))


def _deliver(root: Node, keepers: Sequence[int], owners: Sequence[int], rank: int) -> list[Round]:
    """Return the round in which ranks that look after no node get the sum."""
    sources = list_delivered(keepers, owners)
    sends = tuple([Transfer(other, root, (WHOLE,)) for other, keeper in sources.items() if keeper == rank])
    receives = (Transfer(sources[rank], root, (WHOLE,)),) if rank in sources else ()
    return [Round(sends, receives)] if sends or receives else []


def _deliver_parts(
    owners: Sequence[int], root: Node, keepers: Sequence[int], parts: Sequence[Span], rank: int
) -> list[Round]:
    """Return the round in which every rank gets the part of its own slots."""
    whole = len(owners)
    moves: list[tuple[int, int, Span]] = []
    for other in dict.fromkeys(owners):
        ((start, stop, _),) = slot_span(owners, other)
        for keeper, (first, last, _) in zip(keepers, parts, strict=True):
            part = (max(first, start), min(last, stop), whole)
            if keeper != other and part[0] < part[1]:
                moves.append((keeper, other, part))
    sends = tuple([Transfer(other, root, (part,)) for keeper, other, part in moves if keeper == rank])
    receives = tuple([Transfer(keeper, root, (part,)) for keeper, other, part in moves if other == rank])
    return [Round(sends, receives)] if sends or receives else []
