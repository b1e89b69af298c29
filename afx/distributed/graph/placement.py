"""Placement: which slot computes which equation, from a model of compute speed, bandwidth and latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from afx.compiler.schedule.cost import bytes_moved, flops
from afx.core.graph import Equation, Graph, Var
from afx.distributed.graph.split import GraphSplit, Receive, Run, Send, check_graph
from afx.errors import ArgumentError
from afx.transforms._arguments import describe


@attrs.frozen
class Machine:
    """The speed of one slot and of its connection, for estimates.

    Attributes:
        flops_per_second: arithmetic operations a second, of one processor.
        bytes_per_second: of memory.
        overhead_seconds: of one equation of a plan.
        network_bytes_per_second: between two slots.
        latency_seconds: of one message.

    Raises:
        ArgumentError: a speed is no number above 0, or a time none of 0 or more.
    """

    flops_per_second: float = 2e10  # one core, products of matrices in float64
    bytes_per_second: float = 1e10
    overhead_seconds: float = 5e-7  # one call of NumPy
    network_bytes_per_second: float = 5e9  # two processes of one machine; Ethernet of 10 Gbit/s: 1.2e9
    latency_seconds: float = 2e-5  # with Python's part of a message; between machines about 5e-5

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            least = "above 0" if name.endswith("per_second") else "0 or more"
            if not isinstance(value, int | float) or not (value > 0 or (value == 0 and least == "0 or more")):
                raise ArgumentError(f"Machine: {name} is a number, {least}: got {value!r}; measure it, or leave it out")

    def seconds(self, graph: Graph) -> float:
        """Return how long a graph takes: arithmetic or memory, whichever takes longer, and the calls."""
        work = max(flops(graph) / self.flops_per_second, bytes_moved(graph) / self.bytes_per_second)
        return work + len(graph) * self.overhead_seconds

    def message_seconds(self, nbytes: int) -> float:
        """Return how long a message takes."""
        return self.latency_seconds + nbytes / self.network_bytes_per_second


@attrs.frozen
class Estimate:
    """How long a split graph takes against one slot that computes all of it.

    Attributes:
        seconds: of one run, or of all micro-batches of a pipeline.
        whole_seconds: the same on one slot.
        busy_seconds: of each slot, without waiting.
    """

    seconds: float
    whole_seconds: float
    busy_seconds: tuple[float, ...]

    @property
    def pays(self) -> bool:
        """Whether splitting is faster."""
        return self.seconds < self.whole_seconds


def estimate(split: GraphSplit, machine: Machine | None = None, *, micro_batches: int = 1) -> Estimate:
    """Return how long a split graph takes, by following each slot's program in time.

    Args:
        split: from `split_graph`.
        machine: speeds, the same for all slots.
        micro_batches: how many inputs pass through one after the other; slots that are done with one go on to the next.

    >>> import afx
    >>> from afx import distributed
    >>> graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(afx.ones(2))
    >>> distributed.estimate(distributed.split_graph(graph, [0, 1, 0])).pays
    False
    """
    if not isinstance(split, GraphSplit):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise ArgumentError(f"estimate: takes a split graph: got {describe(split)}; make one by split_graph")
    model = machine or Machine()
    clocks, busy = [0.0] * split.slots, [0.0] * split.slots
    for _ in range(micro_batches):
        arrivals: dict[int, float] = {}
        steps = [iter(program.instructions) for program in split.programs]
        current = [next(it, None) for it in steps]
        while any(instruction is not None for instruction in current):
            for slot, instruction in enumerate(current):
                if isinstance(instruction, Receive) and instruction.message not in arrivals:
                    continue
                if isinstance(instruction, Run):
                    seconds = model.seconds(instruction.graph)
                    clocks[slot] += seconds
                    busy[slot] += seconds
                elif isinstance(instruction, Send):
                    aval = _aval_of(split.graph, instruction.variable)
                    arrivals[instruction.message] = clocks[slot] + model.message_seconds(aval)
                elif isinstance(instruction, Receive):
                    clocks[slot] = max(clocks[slot], arrivals[instruction.message])
                current[slot] = next(steps[slot], None)
    return Estimate(max(clocks), micro_batches * model.seconds(split.graph), tuple(busy))


def _aval_of(graph: Graph, variable: int) -> int:
    """Return the bytes of a variable."""
    return next(var.aval.nbytes for eq in graph for var in eq.outputs if var.index == variable)


def place(
    graph: Graph, slots: int, machine: Machine | None = None, *, goal: Literal["latency", "throughput"] = "latency"
) -> tuple[int, ...]:
    """Return the slot of each equation, by a cost model.

    Args:
        graph: from `afx.trace`.
        slots: how many slots.
        machine: speeds, the same for all slots.
        goal: ``"latency"`` gives each equation to the slot where it ends first, messages included (list scheduling by
            earliest finish time, Topcuoglu et al. 2002): branches that do not depend on each other go to different
            slots, and all stays on one slot where splitting does not pay. ``"throughput"`` cuts the order of the
            equations into stretches of about equal cost, for pipelines of micro-batches.

    Raises:
        ArgumentError: fewer than one slot, or another goal.

    >>> import afx
    >>> from afx import distributed
    >>> graph = afx.trace(lambda x: afx.sum(x @ x) + afx.sum(afx.cos(x) @ x))(afx.ones((500, 500)))
    >>> sorted(set(distributed.place(graph, 2)))
    [0, 1]
    """
    model = machine or Machine()
    check_graph(graph, "place")
    if slots < 1 or goal not in ("latency", "throughput"):
        raise ArgumentError(f'place: at least one slot, for "latency" or "throughput": got {slots}, {goal!r}')
    costs = [model.seconds(Graph((), (), (eq,), ())) for eq in graph]
    return _balance(costs, slots) if goal == "throughput" else _schedule(graph, costs, slots, model)


def _balance(costs: Sequence[float], slots: int) -> tuple[int, ...]:
    """Return contiguous stretches of about equal cost."""
    total, done = sum(costs), 0.0
    slots_of_equations: list[int] = []
    for cost in costs:
        slots_of_equations.append(min(int(slots * (done + cost / 2) / total) if total else 0, slots - 1))
        done += cost
    return tuple(slots_of_equations)


def _schedule(graph: Graph, costs: Sequence[float], slots: int, machine: Machine) -> tuple[int, ...]:
    """Return the slot of earliest finish for each equation, in their order; all on slot 0 where that is no slower."""
    free = [0.0] * slots
    ready: dict[int, tuple[float, int]] = {}  # variable to the time at which it exists, and where
    placed: list[int] = []
    for eq, cost in zip(graph, costs, strict=True):
        ends = [max(free[slot], _arrival(eq, slot, ready, machine)) + cost for slot in range(slots)]
        slot = ends.index(min(ends))
        free[slot] = ends[slot]
        placed.append(slot)
        ready.update({var.index: (ends[slot], slot) for var in eq.outputs})
    return tuple(placed) if max(free) < sum(costs) else (0,) * len(costs)


def _arrival(eq: Equation, slot: int, ready: dict[int, tuple[float, int]], machine: Machine) -> float:
    """Return when a slot has all operands of an equation."""
    times = [0.0]
    for atom in eq.inputs:
        if isinstance(atom, Var) and atom.index in ready:
            time, home = ready[atom.index]
            times.append(time if home == slot else time + machine.message_seconds(atom.aval.nbytes))
    return max(times)
