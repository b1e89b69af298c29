"""Graph run: the programs of a split graph, each slot's on its rank, with receives posted first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core.array.array import Array, wrap
from afx.core.graph import Graph, Literal, Var
from afx.distributed.graph_split import GraphSplit, Receive, Run, Send
from afx.distributed.link import Link
from afx.errors import ArgumentError
from afx.transforms.compiled_call import CompiledGraph

__all__ = ["GraphRunner"]

Post: TypeAlias = Callable[[], bool]


class GraphRunner:
    """Runs the programs of this rank's slots for one input after the other."""

    def __init__(self, split: GraphSplit, link: Link) -> None:
        self.split = split
        self.ranks: int = link.ranks
        self._split = split
        self._link = link
        self._mine = [slot for slot in range(split.slots) if link.owner(slot) == link.rank]
        self._plans = {id(run): CompiledGraph(run.graph) for slot in self._mine for run in _runs(split, slot)}
        self._outputs = [_output_slot(split, atom) for atom in split.graph.outputs]

    def run(self, batches: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """Return the outputs that this rank computes for each input; None where another rank does.

        A slot that is done with one input goes on to the next at once: slots in a chain make a pipeline.
        """
        sent: list[Post] = []
        flights = [_Flight(self, _checked(inputs, self._split.graph), sent) for inputs in batches]
        positions = dict.fromkeys(self._mine, 0)  # the input that each slot works on
        for flight in flights:
            flight.post_receives()

        def advance() -> bool:
            for slot in self._mine:
                while positions[slot] < len(flights) and flights[positions[slot]].advance(slot):
                    positions[slot] += 1
            sent[:] = [is_sent for is_sent in sent if not is_sent()]
            return all(position == len(flights) for position in positions.values()) and not sent

        self._link.wait_for(advance, "run_graph")
        return [flight.outputs(self._outputs) for flight in flights]

    def output_owners(self) -> list[int]:
        """Return the rank that computes each output."""
        return [self._link.owner(slot) for slot in self._outputs]


def _runs(split: GraphSplit, slot: int) -> list[Run]:
    return [i for i in split.programs[slot].instructions if isinstance(i, Run)]


def _output_slot(split: GraphSplit, atom: Var | Literal) -> int:
    """Return the slot that computes an output; slot 0 for inputs, constants and numbers."""
    for eq, slot in zip(split.graph, split.assignment, strict=True):
        if isinstance(atom, Var) and any(var.index == atom.index for var in eq.outputs):
            return slot
    return 0


def _checked(inputs: Sequence[Any], graph: Graph) -> list[Any]:
    if len(inputs) != len(graph.inputs):
        raise ArgumentError(
            f"run_graph: another number of inputs: got {len(inputs)} for {len(graph.inputs)}; give each"
        )
    found = [np.asarray(x) for x in inputs]
    for array, var in zip(found, graph.inputs, strict=True):
        if (array.shape, array.dtype) != (var.aval.shape, var.aval.dtype):
            raise ArgumentError(
                f"run_graph: an input of another kind: got {array.dtype}{list(array.shape)} for {var}; trace the graph anew"
            )
    return found


class _Flight:
    """One input on its way through the slots of this rank."""

    def __init__(self, runner: GraphRunner, inputs: Sequence[Any], sent: list[Post]) -> None:
        self._runner = runner
        self._sent = sent
        graph = runner._split.graph
        whole = {var.index: x for var, x in zip(graph.inputs, inputs, strict=True)}
        whole |= {var.index: constant.value for var, constant in graph.constants}
        self._values: dict[int, dict[int, Any]] = {slot: dict(whole) for slot in runner._mine}
        self._next = dict.fromkeys(runner._mine, 0)
        self._arrivals: dict[int, tuple[Any, Post]] = {}
        self._local: dict[int, Any] = {}  # messages between slots of this rank

    def post_receives(self) -> None:
        """Begin to receive all that comes from other ranks."""
        link = self._runner._link
        for slot in self._runner._mine:
            for receive in self._runner._split.programs[slot].receives:
                if link.owner(receive.slot) != link.rank:
                    array = np.empty(receive.aval.shape, receive.aval.dtype)
                    self._arrivals[receive.message] = (
                        array,
                        link.post_receive(array, link.owner(receive.slot), receive.message),
                    )

    def advance(self, slot: int) -> bool:
        """Follow a slot's program as far as it goes; tell whether it is at its end."""
        instructions = self._runner._split.programs[slot].instructions
        values = self._values[slot]
        while self._next[slot] < len(instructions):
            match instructions[self._next[slot]]:
                case Run() as run:
                    self._compute(run, values)
                case Send(variable, other, message):
                    self._send(values[variable], other, message)
                case Receive(variable, _, message) if self._has_arrived(message):
                    values[variable] = self._take(message)
                case _:
                    return False
            self._next[slot] += 1
        return True

    def _compute(self, run: Run, values: dict[int, Any]) -> None:
        plan = self._runner._plans[id(run)].plan
        found = plan(*[values[index] for index in run.inputs])
        for index, x in zip(run.outputs, found, strict=True):
            values[index] = np.asarray(x)

    def _send(self, value: Any, slot: int, message: int) -> None:
        link = self._runner._link
        if link.owner(slot) == link.rank:
            self._local[message] = value
        else:
            self._sent.append(link.post_send(np.ascontiguousarray(value), link.owner(slot), message))

    def _has_arrived(self, message: int) -> bool:
        if message in self._arrivals:
            return self._arrivals[message][1]()
        return message in self._local

    def _take(self, message: int) -> Any:
        return self._arrivals[message][0] if message in self._arrivals else self._local[message]

    def outputs(self, slots: Sequence[int]) -> list[Any]:
        """Return the outputs that slots of this rank computed."""
        return [
            self._output(atom, slot) if slot in self._values else None
            for atom, slot in zip(self._runner._split.graph.outputs, slots, strict=True)
        ]

    def _output(self, atom: Var | Literal, slot: int) -> Array:
        value = self._values[slot][atom.index] if isinstance(atom, Var) else np.asarray(atom.value, atom.aval.dtype)
        return wrap(np.array(value))
