"""Two levels: ranks of one machine sum first, and for each part of the buffers one of them speaks for the machine.

A machine has neighbouring ranks, hence neighbouring slots, which are few whole nodes of the tree: a single one where
machines of equal size are a power of two, whatever the number of ranks on each. Those nodes alone travel, each part of them once.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from afx.distributed.sums.halving import keep_nodes, list_collected, list_delivered
from afx.distributed.sums.rounds import (
    WHOLE,
    Exchange,
    Round,
    Span,
    Transfer,
    find_places,
    join_spans,
    share,
    slot_span,
)
from afx.distributed.sums.tree import Node, Tree, tree_over

__all__ = [
    "MachineNodes",
    "direct_traffic",
    "find_nodes",
    "halving_traffic",
    "plan_back",
    "plan_small_levels",
    "plan_two_levels",
]

MOST_HOSTS: Final = 16  # each of which a rank sends to and receives from, in both directions


@attrs.frozen(eq=False)
class MachineNodes:
    """Machines, and the nodes of which the slots of each consist.

    Attributes:
        members: the ranks of each machine.
        host: the machine of each rank.
        position: of each rank among those of its machine.
        nodes: by rank, what it adds up by itself.
        covers: by machine, what its ranks add up together.
    """

    members: tuple[tuple[int, ...], ...]
    host: tuple[int, ...]
    position: tuple[int, ...]
    nodes: dict[int, list[Node]]
    covers: tuple[list[Node], ...]

    def speaker(self, host: int, rank: int) -> int:
        """Return who of a machine speaks for it about the part of a rank: the rank itself on its own."""
        theirs, ours = self.members[self.host[rank]], self.members[host]
        return ours[self.position[rank] * len(ours) // len(theirs)]

    def partners(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks of other machines about whose parts a rank speaks, and those that speak about its own."""
        here, others = self.host[rank], range(len(self.host))
        away = [other for other in others if self.host[other] != here and self.speaker(here, other) == rank]
        return away, [self.speaker(host, rank) for host in range(len(self.members)) if host != here]

    def spans(self, ranks: Sequence[int], parts: Mapping[int, tuple[Span, ...]]) -> dict[int, tuple[Span, ...]]:
        """Return the parts about which each of these ranks speaks, its own included."""
        return {rank: join_spans(s for one in (rank, *self.partners(rank)[0]) for s in parts[one]) for rank in ranks}

    @property
    def are_shared(self) -> bool:
        """Whether there are several machines, not too many, and not one a rank."""
        return 1 < len(self.members) <= MOST_HOSTS and len(self.members) < len(self.host)

    def saves(self, others: float) -> bool:
        """Tell whether two levels spare messages between machines, or, between as many, those within them.

        Args:
            others: the bytes over the busiest line without two levels, of a buffer of one byte.
        """
        hosts, ranks = len(self.members), len(self.host)
        if not self.are_shared:
            return False
        counts, sizes = [len(cover) for cover in self.covers], [len(ranks) for ranks in self.members]
        there = back = 0.0
        for count, size in zip(counts, sizes, strict=True):
            there = max(there, count * (ranks - size) / ranks, (sum(counts) - count) * size / ranks)
            back = max(back, size * (hosts - 1) / ranks, (ranks - size) / ranks)
        is_power = ranks & (ranks - 1) == 0  # then halving adds no rank that has to wait for all of a sum
        return there + back < others or (there + back == others and not is_power)


@functools.lru_cache(maxsize=8)
def find_nodes(owners: tuple[int, ...], hosts: tuple[int, ...]) -> MachineNodes:
    """Return the machines of so many ranks each, in the order of the ranks; all slots take part."""
    tree, ends = tree_over(len(owners), tuple(range(len(owners)))), find_places(owners, range(len(owners)))
    starts = [sum(hosts[:k]) for k in range(len(hosts))]
    members = tuple([tuple(range(start, start + size)) for start, size in zip(starts, hosts, strict=True)])
    return MachineNodes(
        members,
        tuple([k for k, size in enumerate(hosts) for _ in range(size)]),
        tuple([k for size in hosts for k in range(size)]),
        {rank: tree.cover(*places) for rank, places in ends.items()},
        tuple([tree.cover(ends[ranks[0]][0], ends[ranks[-1]][1]) for ranks in members]),
    )


def plan_two_levels(
    owners: tuple[int, ...], tree: Tree, machines: MachineNodes, rank: int, *, by_slot: bool
) -> Exchange:
    """Return the rounds of large buffers: within machines, between them, and back.

    Each rank ends with a part of the sum; of each other machine one rank speaks about that part.
    """
    parts = _choose_parts(owners, machines, by_slot)
    here, own, root = machines.host[rank], machines.nodes[rank], tree.root
    mates = [mate for mate in machines.members[here] if mate != rank]
    mine = machines.spans(machines.members[here], parts)
    away, speakers = machines.partners(rank)
    cover = machines.covers[here]
    there = (
        Round(
            tuple([Transfer(mate, node, mine[mate]) for mate in mates for node in own]),
            tuple([Transfer(mate, node, mine[rank]) for mate in mates for node in machines.nodes[mate]]),
            tuple(cover),
            mine[rank],
        ),
        Round(
            tuple([Transfer(other, node, parts[other]) for other in away for node in cover]),
            tuple([Transfer(k, node, parts[rank]) for k in speakers for node in machines.covers[machines.host[k]]]),
            (root,),
            parts[rank],
        ),
    )
    back = () if by_slot else plan_back(machines, parts, root, rank)
    return Exchange(tree, tuple(own), (), (*there, *back))


def plan_back(
    machines: MachineNodes, parts: Mapping[int, tuple[Span, ...]], node: Node, rank: int
) -> tuple[Round, ...]:
    """Return the rounds in which all ranks get the parts of a node that each of them has: between machines, then within."""
    away, speakers = machines.partners(rank)
    between = Round(
        tuple([Transfer(k, node, parts[rank]) for k in speakers]),
        tuple([Transfer(other, node, parts[other]) for other in away]),
    )
    return between, share(node, machines.spans(machines.members[machines.host[rank]], parts), rank)


def _choose_parts(owners: Sequence[int], machines: MachineNodes, by_slot: bool) -> dict[int, tuple[Span, ...]]:
    """Return the part with which each rank ends: of its slots, or such that a speaker's parts are neighbours."""
    ranks = range(len(machines.host))
    if by_slot:
        return {rank: slot_span(owners, rank) for rank in ranks}

    def place(rank: int) -> tuple[float, int]:
        return machines.position[rank] / len(machines.members[machines.host[rank]]), rank

    return {rank: ((k, k + 1, len(ranks)),) for k, rank in enumerate(sorted(ranks, key=place))}


def plan_small_levels(tree: Tree, machines: MachineNodes, rank: int) -> Exchange:
    """Return the rounds of small buffers: to the first rank of each machine, among these, and back."""
    here, own, root = machines.host[rank], machines.nodes[rank], tree.root
    first, *mates = machines.members[here]
    if rank != first:
        there = Round(tuple([Transfer(first, node, (WHOLE,)) for node in own]))
        return Exchange(tree, tuple(own), (), (there, Round((), (Transfer(first, root, (WHOLE,)),))))
    others = [members[0] for members in machines.members if members[0] != rank]
    cover = machines.covers[here]
    collect = [Transfer(mate, node, (WHOLE,)) for mate in mates for node in machines.nodes[mate]]
    sends = [Transfer(other, node, (WHOLE,)) for other in others for node in cover]
    receives = [Transfer(other, node, (WHOLE,)) for other in others for node in machines.covers[machines.host[other]]]
    rounds = (
        Round((), tuple(collect), tuple(cover), (WHOLE,)),
        Round(tuple(sends), tuple(receives), (root,), (WHOLE,)),
        Round(tuple([Transfer(mate, root, (WHOLE,)) for mate in mates])),
    )
    return Exchange(tree, tuple(own), (), rounds)


# --- without two levels: bytes over the busiest machine's line, for a buffer of one byte


def direct_traffic(machines: MachineNodes) -> float:
    """Return them where each rank gets its part of all nodes, and sends the sum to all others."""
    ranks, total = len(machines.host), sum(map(len, machines.nodes.values()))
    there = back = 0.0
    for members in machines.members:
        size, count = len(members), sum(len(machines.nodes[rank]) for rank in members)
        there = max(there, count * (ranks - size) / ranks, (total - count) * size / ranks)
        back = max(back, size * (ranks - size) / ranks)
    return there + back


def halving_traffic(owners: tuple[int, ...], machines: MachineNodes) -> float:
    """Return them for `afx.distributed.sums.halving`."""
    keeping, host = keep_nodes(owners), machines.host
    keepers, nodes = keeping.keepers, keeping.nodes
    first = _busiest((host[a], host[b], 1.0) for a, _, b in list_collected(keeping.tops, keepers, nodes))
    steps = [
        _busiest((host[rank], host[keepers[k ^ (1 << step)]], 0.5 ** (step + 1)) for k, rank in enumerate(keepers))
        for step in range(keeping.level)
    ]
    last = _busiest((host[keeper], host[rank], 1.0) for rank, keeper in list_delivered(keepers, owners).items())
    return first + 2 * sum(steps) + last


def _busiest(moves: Iterable[tuple[int, int, float]]) -> float:
    """Return the most bytes that leave or reach a machine, of messages from one to another."""
    lines: defaultdict[tuple[int, str], float] = defaultdict(float)
    for source, target, size in moves:
        if source != target:
            lines[source, "out"] += size
            lines[target, "in"] += size
    return max(lines.values(), default=0.0)
