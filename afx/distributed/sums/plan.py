"""Plan: the messages of a sum over slots as pure data, seen from one rank."""

from __future__ import annotations

import bisect
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from afx.distributed.sums.buffers import Node, Tree, nodes_of_level, tree_over

# --- Rounds: the messages of a sum as pure data, seen from one rank

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
    own_slots = [slot for slot, owner in enumerate(owners) if owner == rank]
    return ((own_slots[0], own_slots[-1] + 1, len(owners)),) if own_slots else ()


def find_places(owners: Sequence[int], present: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return by rank where its slots begin and end among those that take part."""
    spans: dict[int, tuple[int, int]] = {}
    for place, slot in enumerate(present):
        start, _ = spans.get(owners[slot], (place, place))
        spans[owners[slot]] = (start, place + 1)
    return spans


def share(node: Node, parts: dict[int, tuple[Span, ...]], rank: int) -> Round:
    """Return the round in which all ranks give their parts of a sum to all others."""
    peers = [other for other in parts if other != rank]
    return Round(
        tuple([Transfer(other, node, parts[rank]) for other in peers]),
        tuple([Transfer(other, node, parts[other]) for other in peers]),
    )


def join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return parts in their order, neighbours as one."""
    joined: list[Span] = []
    for start, stop, whole in sorted(spans):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop, whole)
        else:
            joined.append((start, stop, whole))
    return tuple(joined)


# --- Halving: sums on many ranks, whose neighbours in the tree exchange halves, then quarters, and so on


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
        exchange, back_again = _step(tops, keepers, parts, place, step, is_small)
        rounds.append(exchange)
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
    keepers: list[int | None] = []
    for node in tops:
        own = next((rank for rank in owners[node[0] : node[1]] if rank in free), None)
        keepers.append(own)
        if own is not None:
            del free[own]
    rest = iter(list(free))
    return [next(rest) if rank is None else rank for rank in keepers]


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
        exchange = Round(
            (Transfer(keepers[other], first, (WHOLE,)),),
            (Transfer(keepers[other], second, (WHOLE,)),),
            (parent,),
            (WHOLE,),
        )
        return exchange, Round()
    mask = (2 << step) - 1
    own_spans = join_spans(parts[k] for k in range(len(parts)) if k & mask == place & mask)
    other_spans = join_spans(parts[k] for k in range(len(parts)) if k & mask == other & mask)
    root = (0, tops[-1][1])
    exchange = Round(
        (Transfer(keepers[other], first, other_spans),),
        (Transfer(keepers[other], second, own_spans),),
        (parent,),
        own_spans,
    )
    return exchange, Round((Transfer(keepers[other], root, own_spans),), (Transfer(keepers[other], root, other_spans),))


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


# --- Two levels: ranks of one machine sum first, and for each part of the buffers one of them speaks for the machine
#
# A machine has neighbouring ranks, hence neighbouring slots, which are few whole nodes of the tree: a single one
# where machines of equal size are a power of two, whatever the number of ranks on each. Those nodes alone travel,
# each part of them once.

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
        peers, members = self.members[self.host[rank]], self.members[host]
        return members[self.position[rank] * len(members) // len(peers)]

    def partners(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks of other machines about whose parts a rank speaks, and those that speak about its own."""
        own_host, ranks = self.host[rank], range(len(self.host))
        away = [other for other in ranks if self.host[other] != own_host and self.speaker(own_host, other) == rank]
        return away, [self.speaker(host, rank) for host in range(len(self.members)) if host != own_host]

    def spans(self, ranks: Sequence[int], parts: Mapping[int, tuple[Span, ...]]) -> dict[int, tuple[Span, ...]]:
        """Return the parts about which each of these ranks speaks, its own included."""
        return {rank: join_spans(s for one in (rank, *self.partners(rank)[0]) for s in parts[one]) for rank in ranks}

    @property
    def are_shared(self) -> bool:
        """Whether there are several machines, not too many, and not one a rank."""
        return 1 < len(self.members) <= MOST_HOSTS and len(self.members) < len(self.host)

    def saves(self, direct: float) -> bool:
        """Tell whether two levels spare messages between machines, or, between as many, those within them.

        Args:
            direct: the bytes over the busiest line without two levels, of a buffer of one byte.
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
        return there + back < direct or (there + back == direct and not is_power)


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
    own_host, own, root = machines.host[rank], machines.nodes[rank], tree.root
    mates = [mate for mate in machines.members[own_host] if mate != rank]
    spans = machines.spans(machines.members[own_host], parts)
    away, speakers = machines.partners(rank)
    cover = machines.covers[own_host]
    there = (
        Round(
            tuple([Transfer(mate, node, spans[mate]) for mate in mates for node in own]),
            tuple([Transfer(mate, node, spans[rank]) for mate in mates for node in machines.nodes[mate]]),
            tuple(cover),
            spans[rank],
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
    own_host, own, root = machines.host[rank], machines.nodes[rank], tree.root
    first, *mates = machines.members[own_host]
    if rank != first:
        there = Round(tuple([Transfer(first, node, (WHOLE,)) for node in own]))
        return Exchange(tree, tuple(own), (), (there, Round((), (Transfer(first, root, (WHOLE,)),))))
    leaders = [members[0] for members in machines.members if members[0] != rank]
    cover = machines.covers[own_host]
    collect = [Transfer(mate, node, (WHOLE,)) for mate in mates for node in machines.nodes[mate]]
    sends = [Transfer(other, node, (WHOLE,)) for other in leaders for node in cover]
    receives = [Transfer(other, node, (WHOLE,)) for other in leaders for node in machines.covers[machines.host[other]]]
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
    """Return them for `afx.distributed.sums.plan`."""
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


# --- Plan
#
# Four schemes, which add the same nodes of the same tree and so give the same bits:
#
# - *flood*, for small buffers on few ranks: each rank sends its nodes to all others, and adds them up itself;
# - *direct*, on few ranks: each rank gets its chunk of all nodes, adds it up, and sends the sum to all others;
# - *halving*, on many ranks: neighbours in the tree exchange halves, then quarters …, and the sums come back the same way
#   (recursive halving and doubling: Thakur, Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521). Ranks of one node are
#   neighbours, so that the large messages stay there. Small buffers travel whole (recursive doubling).
# - *two levels*, on several machines: ranks of a machine sum first, and send on the few nodes of which their slots consist.

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
        exchange = _plan_levels(owners, tree, rank, by_slot, is_small and not by_slot, hosts)
        if exchange is not None:
            return exchange
    workers = tuple(dict.fromkeys(owners[slot] for slot in present))
    nodes = {worker: tree.cover(*ends) for worker, ends in find_places(owners, present).items()}
    own = tuple(nodes.get(rank, ()))
    if not by_slot and (len(workers) == 1 or rank not in workers):
        return Exchange(tree, own, (), ())
    if is_small and not by_slot:
        return _flood(tree, nodes, rank)
    return _direct(tree, nodes, _parts(owners, workers, by_slot), rank, is_shared=not by_slot)


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
    peers = [other for other in nodes if other != rank]
    sends = [Transfer(other, node, (WHOLE,)) for other in peers for node in nodes[rank]]
    receives = [Transfer(other, node, (WHOLE,)) for other in peers for node in nodes[other]]
    rounds = (Round(tuple(sends), tuple(receives), (tree.root,), (WHOLE,)),)
    return Exchange(tree, tuple(nodes[rank]), (), rounds, is_flood=True)


def _direct(
    tree: Tree, nodes: dict[int, list[Node]], parts: dict[int, tuple[Span, ...]], rank: int, *, is_shared: bool
) -> Exchange:
    own, own_spans = nodes.get(rank, []), parts.get(rank, ())
    peers = [other for other in parts if other != rank]
    sends = tuple([Transfer(other, node, parts[other]) for other in peers for node in own])
    receives = tuple([Transfer(other, node, own_spans) for other in nodes if other != rank for node in nodes[other]])
    rounds = [Round(sends, receives if own_spans else (), (tree.root,), own_spans)]
    if is_shared:
        rounds.append(share(tree.root, parts, rank))
    return Exchange(tree, tuple(own), (), tuple(rounds), streams=is_shared)


@functools.lru_cache(maxsize=64)
def plan_gather(owners: tuple[int, ...], rank: int, hosts: tuple[int, ...] = ()) -> tuple[Round, ...]:
    """Return the rounds in which every rank gives the parts of its slots to all others, each part once to a machine."""
    parts, node = {other: slot_span(owners, other) for other in dict.fromkeys(owners)}, (0, len(owners))
    machines = find_nodes(owners, hosts) if len(hosts) > 1 else None
    return plan_back(machines, parts, node, rank) if machines and machines.are_shared else (share(node, parts, rank),)
