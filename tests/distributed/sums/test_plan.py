"""`afx.distributed.sums`: the tree that fixes the bits, and plans of messages that add the same nodes on any number of ranks."""

import queue
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from afx.distributed.graph.placement import Machine
from afx.distributed.mpi.exchange import Traffic
from afx.distributed.sums import packets
from afx.distributed.sums.buffers import Memory, Packing, Partial, flatten_tree, tree_over
from afx.distributed.sums.packets import exchange_seconds
from afx.distributed.sums.plan import Exchange, MachineNodes, find_nodes, plan_gather, plan_sum, slot_span

SECONDS = 60.0


class Post:
    """Messages among threads that stand for ranks: in the order in which each sender sent them."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[int, int, int], queue.Queue[Any]] = {}
        self.bytes: dict[int, int] = defaultdict(int)

    def box(self, source: int, target: int, tag: int) -> "queue.Queue[Any]":
        """Return the messages from one rank to another."""
        return self._boxes.setdefault((source, target, tag), queue.Queue())


class Port:
    """One rank's end of a post; a receive takes place when it is waited for, in the order of the receives."""

    def __init__(self, post: Post, rank: int) -> None:
        self.memory = Memory()
        self._post, self._rank = post, rank
        self._open: list[tuple[Any, Any]] = []

    def send_piece(self, piece: Any, rank: int, tag: int) -> Any:
        """Send a copy at once."""
        self._post.box(self._rank, rank, tag).put(piece.copy())
        self._post.bytes[self._rank] += piece.nbytes
        return None

    def receive_piece(self, piece: Any, rank: int, tag: int) -> Any:
        """Note where a message goes."""
        request = (self._post.box(rank, self._rank, tag), piece)
        self._open.append(request)
        return request

    def wait(self, requests: Sequence[Any]) -> None:
        """Take what has been noted from the same senders, up to these requests."""
        for wanted in [request for request in requests if request is not None]:
            while any(request is wanted for request in self._open):
                box, piece = self._open.pop(next(k for k, (box, _) in enumerate(self._open) if box is wanted[0]))
                data = box.get(timeout=SECONDS)
                assert data.nbytes == piece.nbytes
                piece.reshape(-1).view(np.uint8)[:] = data.reshape(-1).view(np.uint8)


def deal(slots: int, ranks: int) -> tuple[int, ...]:
    """Return the rank of each slot."""
    return tuple(slot * ranks // slots for slot in range(slots))


def trees_of(slots: int) -> list[Any]:
    """Return the tree of each slot: two dtypes, some leaves, an integer."""
    generator = np.random.default_rng(slots)
    return [
        {"w": generator.normal(size=37) * 10.0**k, "b": np.float32(generator.normal(size=3)), "n": np.int64(5)}
        for k in range(slots)
    ]


def run_all(
    slots: int,
    present: tuple[int, ...],
    ranks: int,
    *,
    by_slot: bool = False,
    is_small: bool = False,
    hosts: tuple[int, ...] = (),
) -> tuple[list[list[Any]], Packing, Post]:
    """Return the buffers with which each rank ends."""
    owners, trees, post = deal(slots, ranks), trees_of(slots), Post()
    weights = {slot: (slot + 1.0) / 7 for slot in present}
    layout, _ = flatten_tree(trees[0])
    found: list[Any] = [None] * ranks

    def work(rank: int) -> None:
        plan: Exchange = plan_sum(owners, present, rank, by_slot=by_slot, is_small=is_small, hosts=hosts)
        partial = Partial(plan.tree, weights, Memory(), plan.tops)
        for slot in present:
            if owners[slot] == rank:
                partial.add(slot, *flatten_tree(trees[slot]))
        if partial.sums or by_slot:
            found[rank] = Traffic(Port(post, rank), layout, plan, partial.sums, 1).run()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return found, layout, post


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 6, 8, 12, 16, 24])
def test_every_number_of_ranks_gives_the_same_bits(slots: int) -> None:
    """By every scheme, all parts of the sum are those of one rank, bit for bit."""
    everyone = tuple(range(slots))
    ((expected,), layout, _) = run_all(slots, everyone, 1)
    for ranks in range(2, slots + 1):
        for settings in ({}, {"by_slot": True}, {"is_small": True}, {"hosts": (ranks // 2, ranks - ranks // 2)}):
            compare(slots, ranks, settings, expected, layout)


def compare(slots: int, ranks: int, settings: dict[str, Any], expected: list[Any], layout: Packing) -> None:
    """Compare the parts of the sum that each rank gets with those of one process."""
    found, _, _ = run_all(slots, tuple(range(slots)), ranks, **settings)
    for rank, buffers in enumerate(found):
        parts = slot_span(deal(slots, ranks), rank) if settings.get("by_slot") else ((0, 1, 1),)
        for packet in packets.cut_packets(layout, parts, 1 << 22):
            for kind, part, _ in packet.parts:
                assert buffers[kind][part].tobytes() == expected[kind][part].tobytes(), (ranks, settings, rank)


def shapes(ranks: int) -> list[tuple[int, ...]]:
    """Return all ways in which ranks can be dealt to machines."""
    if ranks == 0:
        return [()]
    return [(first, *rest) for first in range(1, ranks + 1) for rest in shapes(ranks - first)]


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 9, 12])
def test_every_shape_of_machines_gives_the_same_bits(
    ranks: int, is_forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks that share machines, equally or not, sum there first; also where that spares nothing and is forced here."""
    if is_forced:
        monkeypatch.setattr(MachineNodes, "saves", lambda self, others: self.are_shared)
        monkeypatch.setattr(sys.modules[__name__], "plan_sum", plan_sum.__wrapped__)
    chosen = (
        shapes(ranks) if ranks < 5 else np.random.default_rng(ranks).permutation(np.array(shapes(ranks), object))[:8]
    )
    for slots in (ranks, 2 * ranks + 1):
        ((expected,), layout, _) = run_all(slots, tuple(range(slots)), 1)
        for hosts in map(tuple, chosen):
            for more in ({}, {"by_slot": True}, {"is_small": True}):
                compare(slots, ranks, {"hosts": hosts, **more}, expected, layout)


def test_two_levels_send_each_node_of_a_machine_once() -> None:
    """Between machines go as many bytes as if each were one rank, where its slots are one node; else as without."""
    owners = deal(6, 6)
    plan = plan_sum(owners, tuple(range(6)), 0, hosts=(3, 3))
    away = [t for round_ in plan.rounds for t in round_.sends if t.rank >= 3]
    assert [(t.node, len(t.spans)) for t in away] == [((0, 3), 1), ((0, 6), 1)]
    alone = plan_sum(owners, tuple(range(6)), 0)
    assert plan_sum(owners, tuple(range(6)), 0, hosts=(1,) * 6).rounds == alone.rounds
    covers = find_nodes(deal(12, 12), (4, 4, 4)).covers
    assert [len(cover) for cover in covers] == [2, 3, 2]
    assert len(plan_gather(owners, 0, (3, 3))) == 2
    assert len(plan_gather(owners, 0)) == 1


GAINS = {(3,) * 2: 2.2, (6,) * 2: 1.1, (6,) * 4: 1.1, (12,) * 4: 1.1, (12,) * 8: 1.1, (5, 3): 1.1, (4,) * 3: 1.1}


@pytest.mark.parametrize("hosts", GAINS)
def test_simulated_machines_gain_by_two_levels(hosts: tuple[int, ...]) -> None:
    """On 6, 12, 24, 48 and 96 ranks buffers take less time than where nobody knows who shares a machine."""
    network, ranks = Machine(network_bytes_per_second=1.25e9, latency_seconds=5e-5), sum(hosts)
    for nbytes, gain in ((10**8, GAINS[hosts]), (1000, 0.9)):
        alone = exchange_seconds(nbytes, ranks, network, hosts=hosts, algorithm="one level")
        assert gain * exchange_seconds(nbytes, ranks, network, hosts=hosts) <= alone


@pytest.mark.parametrize("present", [(0, 1, 2, 5, 11), (3,), (4, 10), (0, 11)])
def test_slots_without_examples_take_no_part(present: tuple[int, ...]) -> None:
    """Ranks that have none of the others send nothing, and the rest gives the bits of one process."""
    ((expected,), _, _) = run_all(12, present, 1)
    for ranks in (2, 3, 5, 9, 12):
        found, _, _ = run_all(12, present, ranks)
        workers = {deal(12, ranks)[slot] for slot in present}
        for rank, buffers in enumerate(found):
            assert (buffers is not None) == (rank in workers)
            if buffers is not None:
                assert [b.tobytes() for b in buffers] == [b.tobytes() for b in expected]


def test_small_pieces_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that are cut into many messages are added piece by piece."""
    monkeypatch.setattr(packets, "JOIN_BYTES", 0)
    monkeypatch.setattr(packets, "PIECE_BYTES", 24)
    packets.cut_packets.cache_clear()
    ((expected,), _, _) = run_all(12, tuple(range(12)), 1)
    for ranks in (2, 3, 8, 9, 12):
        found, _, _ = run_all(12, tuple(range(12)), ranks)
        for buffers in found:
            assert [b.tobytes() for b in buffers] == [b.tobytes() for b in expected]
    packets.cut_packets.cache_clear()


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_a_rank_sends_what_allreduce_does_whatever_the_slots(ranks: int) -> None:
    """Twice the buffer but for one rank's share: a rank's slots are added before anything is sent."""
    for slots in (ranks, 4 * ranks):
        (_, layout, post) = run_all(slots, tuple(range(slots)), ranks)
        most = max(post.bytes.values())
        assert most <= 2 * layout.nbytes * (ranks - 1) / ranks + 64 * ranks  # messages end at whole elements


def test_halves_of_the_tree_are_those_of_the_ranks() -> None:
    """A block of slots is one node where the ranks are a power of two, and at most two a level else."""
    for slots in range(1, 70):
        tree = tree_over(slots, tuple(range(slots)))
        for ranks in range(1, slots + 1):
            owners = deal(slots, ranks)
            for rank in range(ranks):
                nodes = tree.cover(owners.index(rank), slots - owners[::-1].index(rank))
                assert [k for node in nodes for k in range(*node)] == [k for k, o in enumerate(owners) if o == rank]
                assert len(nodes) <= (1 if ranks & (ranks - 1) == 0 else 2 * slots.bit_length())


def test_rounding_grows_with_the_levels_alone() -> None:
    """A sum of 1024 float32 slots is nearer to the exact one than that from left to right."""
    numbers = np.random.default_rng(0).random(1024).astype(np.float32)
    tree = tree_over(1024, tuple(range(1024)))
    partial = Partial(tree, dict.fromkeys(range(1024), 1.0), Memory())
    for slot, x in enumerate(numbers):
        partial.add(slot, *flatten_tree(x))
    exact = float(numbers.astype(np.float64).sum())
    in_order = np.float32(0)
    for x in numbers:
        in_order += x
    assert abs(partial.sums[tree.root][0][0] - exact) < abs(in_order - exact)


@pytest.mark.parametrize("ranks", [16, 64])
def test_simulated_sums_take_as_long_as_allreduce(ranks: int) -> None:
    """The program's messages, timed, are those of halving and doubling, and few where a ring has many."""
    for nbytes in (10**6, 10**8):
        ours = exchange_seconds(nbytes, ranks)
        assert ours <= 1.05 * exchange_seconds(nbytes, ranks, algorithm="allreduce")
        assert ours <= exchange_seconds(nbytes, ranks, algorithm="ring")
    assert exchange_seconds(1000, ranks) < exchange_seconds(1000, ranks, algorithm="allreduce")
