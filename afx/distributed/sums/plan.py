"""Plan: the messages of a sum over slots, seen from one rank.

Four schemes, which add the same nodes of the same tree and so give the same bits:

- *flood*, for small buffers on few ranks: each rank sends its nodes to all others, and adds them up itself;
- *direct*, on few ranks: each rank gets its chunk of all nodes, adds it up, and sends the sum to all others;
- *halving*, on many ranks: neighbours in the tree exchange halves, then quarters …, and the sums come back the same way
  (recursive halving and doubling: Thakur, Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521). Ranks of one node are
  neighbours, so that the large messages stay there. Small buffers travel whole (recursive doubling).
- *two levels*, on several machines: ranks of a machine sum first, and send on the few nodes of which their slots consist.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from afx.distributed.sums.halving import plan_halving
from afx.distributed.sums.rounds import WHOLE, Exchange, Round, Span, Transfer, find_places, share, slot_span
from afx.distributed.sums.tree import Node, Tree, tree_over
from afx.distributed.sums.two_levels import (
    direct_traffic,
    find_nodes,
    halving_traffic,
    plan_back,
    plan_small_levels,
    plan_two_levels,
)

__all__ = ["DIRECT_MOST_RANKS", "plan_gather", "plan_sum"]

DIRECT_MOST_RANKS: Final = 8  # each rank's messages grow with the ranks: 14 on 8, where halving needs 6 in a row


@functools.lru_cache(maxsize=512)
def plan_sum(
    owners: tuple[int, ...],
    present: tuple[int, ...],
    rank: int,
    *,
    by_slot: bool = False,
    is_small: bool = False,
    hosts: tuple[int, ...] = (),
) -> Exchange:
    """Return the messages of a sum.

    Two levels are taken where they spare bytes between machines, and, where ranks are no power of two, within them. The
    tree is that of the slots: a machine whose slots are no node of it sends several nodes, whose sums with those of other
    machines come first. That is never so where machines of equal size are a power of two; of three machines each sends
    two to four nodes, and the other schemes may send less. They also stay where some slots take no part, on more than 16
    machines, and where each rank has a machine of its own.

    Args:
        owners: the rank of each slot; neighbouring slots have neighbouring ranks.
        present: the slots that take part.
        rank: this one.
        by_slot: whether the sum of each slot's part of the buffers stays with that slot's rank alone; else every rank
            that has slots which take part gets all of it.
        is_small: whether the number of messages counts rather than their bytes.
        hosts: how many ranks each machine has, in their order; empty for a single one.
    """
    tree = tree_over(len(owners), present)
    if len(present) == len(owners):
        found = _plan_levels(owners, tree, rank, by_slot, is_small and not by_slot, hosts)
        if found is not None:
            return found
    workers = tuple(dict.fromkeys(owners[slot] for slot in present))
    nodes = {worker: tree.cover(*ends) for worker, ends in find_places(owners, present).items()}
    own = tuple(nodes.get(rank, ()))
    if not by_slot and (len(workers) == 1 or rank not in workers):
        return Exchange(tree, own, (), ())
    if is_small and not by_slot:
        return _flood(tree, nodes, rank)
    parts = _parts(owners, workers, by_slot)
    return _direct(tree, nodes, parts, rank, is_shared=not by_slot)


def _plan_levels(
    owners: tuple[int, ...], tree: Tree, rank: int, by_slot: bool, is_small: bool, hosts: tuple[int, ...]
) -> Exchange | None:
    """Return the messages of many ranks, or of several machines; None where each rank sends to all others."""
    ranks = len(set(owners))
    is_few = ranks <= DIRECT_MOST_RANKS
    halves = not is_few or (len(hosts) > 1 and ranks > 2 and ranks & (ranks - 1) == 0)
    machines = find_nodes(owners, hosts) if len(hosts) > 1 else None
    if machines and machines.saves(halving_traffic(owners, machines) if halves else direct_traffic(machines)):
        if not is_small:
            return plan_two_levels(owners, tree, machines, rank, by_slot=by_slot)
        return None if is_few else plan_small_levels(tree, machines, rank)
    return plan_halving(owners, tree, rank, by_slot, is_small) if halves else None


def _parts(owners: Sequence[int], workers: Sequence[int], by_slot: bool) -> dict[int, tuple[Span, ...]]:
    """Return the part of the buffers that each rank adds up."""
    if by_slot:
        return {rank: slot_span(owners, rank) for rank in dict.fromkeys(owners)}
    return {worker: ((place, place + 1, len(workers)),) for place, worker in enumerate(workers)}


def _flood(tree: Tree, nodes: dict[int, list[Node]], rank: int) -> Exchange:
    others = [other for other in nodes if other != rank]
    sends = [Transfer(other, node, (WHOLE,)) for other in others for node in nodes[rank]]
    receives = [Transfer(other, node, (WHOLE,)) for other in others for node in nodes[other]]
    rounds = (Round(tuple(sends), tuple(receives), (tree.root,), (WHOLE,)),)
    return Exchange(tree, tuple(nodes[rank]), (), rounds, is_flood=True)


def _direct(
    tree: Tree, nodes: dict[int, list[Node]], parts: dict[int, tuple[Span, ...]], rank: int, *, is_shared: bool
) -> Exchange:
    own, mine = nodes.get(rank, []), parts.get(rank, ())
    others = [other for other in parts if other != rank]
    sends = tuple([Transfer(other, node, parts[other]) for other in others for node in own])
    receives = tuple([Transfer(other, node, mine) for other in nodes if other != rank for node in nodes[other]])
    rounds = [Round(sends, receives if mine else (), (tree.root,), mine)]
    if is_shared:
        rounds.append(share(tree.root, parts, rank))
    return Exchange(tree, tuple(own), (), tuple(rounds), streams=is_shared)


@functools.lru_cache(maxsize=64)
def plan_gather(owners: tuple[int, ...], rank: int, hosts: tuple[int, ...] = ()) -> tuple[Round, ...]:
    """Return the rounds in which every rank gives the parts of its slots to all others, each part once to a machine."""
    parts, node = {other: slot_span(owners, other) for other in dict.fromkeys(owners)}, (0, len(owners))
    machines = find_nodes(owners, hosts) if len(hosts) > 1 else None
    return plan_back(machines, parts, node, rank) if machines and machines.are_shared else (share(node, parts, rank),)
