"""Plan: the messages of a sum over slots as pure data, seen from one rank.

Three schemes, which add the same nodes of the same tree and so give the same bits:

- *flood*, for small buffers on few ranks: each rank sends its nodes to all others, and adds them up itself;
- *direct*, on few ranks: each rank gets its chunk of all nodes, adds it up, and sends the sum to all others;
- *halving*, on many ranks: neighbours in the tree exchange halves, then quarters …, and the sums come back the same way
  (recursive halving and doubling: Thakur, Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521). Ranks of one node are
  neighbours, so that the large messages stay there. Small buffers travel whole (recursive doubling).
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from afx.distributed.sums.tree import Node, Tree, nodes_of_level, tree_over

__all__ = ["DIRECT_MOST_RANKS", "Exchange", "Round", "Span", "Transfer", "plan_gather", "plan_sum"]

Span: TypeAlias = tuple[int, int, int]  # first and last numerator, denominator: a part of each buffer
WHOLE: Final[Span] = (0, 1, 1)
DIRECT_MOST_RANKS: Final = 8  # each rank's messages grow with the ranks: 14 on 8, where halving needs 6 in a row


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
        total: the node that is added up from what there is then; None for none.
        spans: the parts of it.
    """

    sends: tuple[Transfer, ...] = ()
    receives: tuple[Transfer, ...] = ()
    total: Node | None = None
    spans: tuple[Span, ...] = ()


@attrs.frozen(eq=False)
class Exchange:
    """The messages of one sum.

    Attributes:
        tree: of the slots that take part.
        own: the nodes that this rank adds up by itself.
        tops: nodes above which it adds nothing by itself.
        rounds: one after the other.
        streams: whether each piece of a round's total may go on at once, in the next round.
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


@functools.lru_cache(maxsize=512)
def plan_sum(
    owners: tuple[int, ...],
    present: tuple[int, ...],
    rank: int,
    *,
    by_slot: bool = False,
    is_small: bool = False,
    hosts: int = 1,
) -> Exchange:
    """Return the messages of a sum.

    Args:
        owners: the rank of each slot; neighbouring slots have neighbouring ranks.
        present: the slots that take part.
        rank: this one.
        by_slot: whether the sum of each slot's part of the buffers stays with that slot's rank alone; else every rank
            that has slots which take part gets all of it.
        is_small: whether the number of messages counts rather than their bytes.
        hosts: on how many machines the ranks are.
    """
    tree = tree_over(len(owners), present)
    ranks = len(set(owners))
    is_many = ranks > DIRECT_MOST_RANKS or (hosts > 1 and ranks > 2 and ranks & (ranks - 1) == 0)
    if is_many and len(present) == len(owners):
        return _halve(owners, tree, rank, by_slot, is_small and not by_slot)
    workers = tuple(dict.fromkeys(owners[slot] for slot in present))
    nodes = {worker: tree.cover(*ends) for worker, ends in _places(owners, present).items()}
    own = tuple(nodes.get(rank, ()))
    if not by_slot and (len(workers) == 1 or rank not in workers):
        return Exchange(tree, own, (), ())
    if is_small and not by_slot:
        return _flood(tree, nodes, rank)
    parts = _parts(owners, workers, by_slot)
    return _direct(tree, nodes, parts, rank, is_shared=not by_slot)


def _places(owners: Sequence[int], present: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return by rank where its slots begin and end among those that take part."""
    found: dict[int, tuple[int, int]] = {}
    for place, slot in enumerate(present):
        start, _ = found.get(owners[slot], (place, place))
        found[owners[slot]] = (start, place + 1)
    return found


def _parts(owners: Sequence[int], workers: Sequence[int], by_slot: bool) -> dict[int, tuple[Span, ...]]:
    """Return the part of the buffers that each rank adds up."""
    if by_slot:
        return {rank: slot_span(owners, rank) for rank in dict.fromkeys(owners)}
    return {worker: ((place, place + 1, len(workers)),) for place, worker in enumerate(workers)}


def _flood(tree: Tree, nodes: dict[int, list[Node]], rank: int) -> Exchange:
    others = [other for other in nodes if other != rank]
    sends = [Transfer(other, node, (WHOLE,)) for other in others for node in nodes[rank]]
    receives = [Transfer(other, node, (WHOLE,)) for other in others for node in nodes[other]]
    rounds = (Round(tuple(sends), tuple(receives), tree.root, (WHOLE,)),)
    return Exchange(tree, tuple(nodes[rank]), (), rounds, is_flood=True)


def _direct(
    tree: Tree, nodes: dict[int, list[Node]], parts: dict[int, tuple[Span, ...]], rank: int, *, is_shared: bool
) -> Exchange:
    own, mine = nodes.get(rank, []), parts.get(rank, ())
    others = [other for other in parts if other != rank]
    sends = tuple([Transfer(other, node, parts[other]) for other in others for node in own])
    receives = tuple([Transfer(other, node, mine) for other in nodes if other != rank for node in nodes[other]])
    rounds = [Round(sends, receives if mine else (), tree.root, mine)]
    if is_shared:
        rounds.append(_share(tree.root, parts, rank))
    return Exchange(tree, tuple(own), (), tuple(rounds), streams=is_shared)


def _share(node: Node, parts: dict[int, tuple[Span, ...]], rank: int) -> Round:
    """Return the round in which all ranks give their parts of a sum to all others."""
    others = [other for other in parts if other != rank]
    return Round(
        tuple([Transfer(other, node, parts[rank]) for other in others]),
        tuple([Transfer(other, node, parts[other]) for other in others]),
    )


def plan_gather(owners: tuple[int, ...], rank: int) -> Round:
    """Return the round in which every rank gives the parts of its slots to all others."""
    parts = {other: slot_span(owners, other) for other in dict.fromkeys(owners)}
    return _share((0, len(owners)), parts, rank)


# --- halving


@attrs.frozen(eq=False)
class _Keeping:
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
def _keep(owners: tuple[int, ...]) -> _Keeping:
    """Return the nodes of the level that has as many as there are ranks, or fewer, and the rank of each."""
    slots, level = len(owners), len(set(owners)).bit_length() - 1
    tree, tops = tree_over(slots, tuple(range(slots))), nodes_of_level(slots, level)
    nodes = {rank: tree.cover(*ends, tops) for rank, ends in _places(owners, range(slots)).items()}
    return _Keeping(level, tops, _choose_keepers(owners, tops), nodes)


def _halve(owners: tuple[int, ...], tree: Tree, rank: int, by_slot: bool, is_small: bool) -> Exchange:
    """Return the rounds of halving and doubling over the nodes of one level, each of which one rank looks after."""
    slots, keeping = len(owners), _keep(owners)
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
    starts = [top[0] for top in tops]

    def keeper(node: Node) -> int:
        return keepers[bisect.bisect_right(starts, node[0]) - 1]

    moves = [(other, node, keeper(node)) for other, own in nodes.items() for node in own if keeper(node) != other]
    sends = [Transfer(k, node, (WHOLE,)) for other, node, k in moves if other == rank]
    receives = [Transfer(other, node, (WHOLE,)) for other, node, k in moves if k == rank]
    total = tops[keepers.index(rank)] if rank in keepers else None
    return (
        [Round(tuple(sends), tuple(receives), total, (WHOLE,) if total else ())] if sends or receives or total else []
    )


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
            parent,
            (WHOLE,),
        )
        return there, Round()
    mask = (2 << step) - 1
    mine = _join(parts[k] for k in range(len(parts)) if k & mask == place & mask)
    theirs = _join(parts[k] for k in range(len(parts)) if k & mask == other & mask)
    root = (0, tops[-1][1])
    there = Round((Transfer(keepers[other], first, theirs),), (Transfer(keepers[other], second, mine),), parent, mine)
    return there, Round((Transfer(keepers[other], root, mine),), (Transfer(keepers[other], root, theirs),))


def _group(tops: Sequence[Node], place: int, step: int) -> Node:
    """Return the node that a keeper has added up before a step."""
    start = place >> step << step
    return (tops[start][0], tops[start + (1 << step) - 1][1])


def _join(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return parts in their order, neighbours as one."""
    found: list[Span] = []
    for start, stop, whole in sorted(spans):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop, whole)
        else:
            found.append((start, stop, whole))
    return tuple(found)


def _deliver(root: Node, keepers: Sequence[int], owners: Sequence[int], rank: int) -> list[Round]:
    """Return the round in which ranks that look after no node get the sum."""
    rest = [other for other in dict.fromkeys(owners) if other not in keepers]
    sources = dict(zip(rest, keepers, strict=False))
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
