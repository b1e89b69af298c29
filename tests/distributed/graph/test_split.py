"""`afx.distributed.split_graph`: programs of slots that compute what the graph computes, wherever each equation goes."""

import functools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed
from afx.distributed.graph.split import Receive, Run, Send
from afx.errors import ArgumentError
from tests.distributed.programs import SLOTS, random_graph


@pytest.mark.parametrize("seed", range(12))
def test_a_split_graph_computes_the_graph(seed: int) -> None:
    """Forward and gradient graphs, each equation on a random slot: the outputs are those of the whole graph."""
    graph, places, inputs = random_graph(seed)
    found = distributed.local(SLOTS).run_graph(distributed.split_graph(graph, places, slots=SLOTS), *inputs)
    for part, whole in zip(found, afx.evaluate(graph, *inputs), strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_programs_are_consistent(seed: int) -> None:
    """Each equation runs once, each message has one sender and one receiver, and each part is a graph that checks."""
    graph, places, _ = random_graph(seed)
    split = distributed.split_graph(graph, places)
    runs = [i for program in split.programs for i in program.instructions if isinstance(i, Run)]
    for run in runs:
        afx.check(run.graph)
    assert sum(len(run.graph) for run in runs) == len(graph)
    sends = {
        (i.message, i.variable, slot, i.slot)
        for slot, p in enumerate(split.programs)
        for i in p.instructions
        if isinstance(i, Send)
    }
    receives = {(i.message, i.variable, i.slot, slot) for slot, p in enumerate(split.programs) for i in p.receives}
    assert sends == receives
    assert len({message for message, *_ in sends}) == len(sends)
    assert split.bytes_sent == sum(
        i.aval.nbytes for p in split.programs for i in p.instructions if isinstance(i, Receive)
    )
    assert distributed.split_graph(graph, places) == split


def test_values_are_freed_when_nobody_reads_them_again() -> None:
    """A chain over two slots holds few of its values at a time, and none of them after the run but the outputs."""
    graph = afx.trace(lambda x: functools.reduce(lambda y, _: afx.sin(y), range(60), x))(np.ones(5000))
    split = distributed.split_graph(graph, [k % 2 for k in range(len(graph))])
    machines, x = distributed.local(2), np.ones(5000)
    expected = machines.run_graph(split, x)[0]
    tracemalloc.start()
    found = machines.run_graph(split, x)[0]
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bool(afx.all(found == expected))
    assert peak < 8 * x.nbytes  # of 60
    assert held < 3 * x.nbytes


def wide(x: Any) -> Any:
    """Two dear branches that do not depend on each other."""
    left, right = x, x + 1.0
    for _ in range(4):
        left, right = afx.tanh(left @ left), afx.tanh(right @ right)
    return afx.sum(left) + afx.sum(right)


def test_placement_spreads_branches_and_keeps_chains() -> None:
    """Branches go to different slots where messages are cheap beside them; a chain stays where it is."""
    graph = afx.trace(wide)(np.ones((400, 400)))
    places = distributed.place(graph, 2)
    assert set(places) == {0, 1}
    estimate = distributed.estimate(distributed.split_graph(graph, places))
    assert estimate.pays
    assert 1.5 < estimate.whole_seconds / estimate.seconds <= 2.0
    chain = afx.trace(lambda x: afx.sin(afx.cos(afx.tanh(x))))(np.ones(1000))
    assert set(distributed.place(chain, 4)) == {0}
    slow = distributed.Machine(latency_seconds=1.0)
    assert set(distributed.place(graph, 2, slow)) == {0}


def test_pipelines_pay_by_their_number_of_inputs() -> None:
    """A chain in two stretches does not pay for one input, and pays for many."""

    def chain(x: Any) -> Any:
        for _ in range(8):
            x = afx.tanh(x @ x)
        return x

    graph = afx.trace(chain)(np.ones((300, 300)))
    split = distributed.split_graph(graph, distributed.place(graph, 2, goal="throughput"))
    assert not distributed.estimate(split).pays
    many = distributed.estimate(split, micro_batches=32)
    assert many.whole_seconds / many.seconds > 1.7
    batches = [[np.full((300, 300), 0.001 * k)] for k in range(4)]
    found = distributed.local(2).run_pipeline(split, batches)
    for (part,), (x,) in zip(found, batches, strict=True):
        np.testing.assert_allclose(part, afx.evaluate(graph, x)[0], rtol=1e-12)


def test_inputs_constants_and_numbers_can_be_outputs() -> None:
    """What no equation computes is returned as well."""
    graph = afx.trace(lambda x: (x, 2.0, afx.asarray(np.arange(3.0)), x + 1))(np.float64(1.5))
    found = distributed.local(3).run_graph(distributed.split_graph(graph, lambda eq: 2), 1.5)
    assert [np.asarray(x).tolist() for x in found] == [np.asarray(x).tolist() for x in afx.evaluate(graph, 1.5)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: distributed.split_graph(g, [0]), "one slot below 1 for each of 3 equations: got"),
        (lambda g: distributed.split_graph(g, [0, 1, 2], slots=2), "one slot below 2"),
        (lambda g: distributed.place(g, 0), "at least one slot"),
        (lambda _: distributed.place(afx.sin, 2), "place: takes a graph: got"),  # a mistake
        (lambda _: distributed.split_graph(None, [0]), "split_graph: takes a graph: got NoneType"),  # a mistake
        (lambda g: distributed.estimate(g), "estimate: takes a split graph: got"),
        (lambda _: distributed.Machine(flops_per_second=-1), "Machine: flops_per_second is a number, above 0: got -1"),
        (
            lambda _: distributed.Machine(latency_seconds=float("nan")),
            "latency_seconds is a number, 0 or more: got nan",
        ),
        (
            lambda _: distributed.shard_optimizer(distributed.local(2), None),
            "shard_optimizer: needs an optimizer: got None",
        ),  # a mistake
        (lambda g: distributed.local(1).run_graph(distributed.split_graph(g, [0, 1, 0]), np.ones(2)), "got 2 for 1"),
        (lambda g: distributed.local(2).run_graph(distributed.split_graph(g, [0, 1, 0])), "got 0 for 1"),
        (
            lambda g: distributed.local(2).run_graph(distributed.split_graph(g, [0, 1, 0]), np.ones(3)),
            r"got float64\[3\] for",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    """Assignments and inputs that do not fit say what they got."""
    with pytest.raises(ArgumentError, match=message):
        call(afx.trace(lambda x: afx.sin(x) + afx.cos(x))(np.ones(2)))


def test_slots_may_be_numbers_of_numpy() -> None:
    """An array of slots assigns as a list does."""
    graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(np.ones(2))
    assert distributed.split_graph(graph, np.array([0, 1, 0])).assignment == (0, 1, 0)  # of integers
