"""Graph run: the programs of a split graph, each slot's on its rank, with receives posted first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, Aval, wrap
from afx.core.graph import Graph, Literal, Var
from afx.distributed.graph.split import GraphSplit, Receive, Run, Send
from afx.distributed.link import Link, Message
from afx.distributed.sums.buffers import Ndarray
from afx.errors import ArgumentError
from afx.transforms.compile.compiled_call import CompiledGraph

Values: TypeAlias = dict[int, Any]  # of the variables that this rank has
Step: TypeAlias = Callable[[Values], bool]  # tells whether it is done; one that is not is tried again
Reads: TypeAlias = Sequence[int]  # the variables that a step reads


class GraphRunner:
    """Runs the programs of this rank's slots for one input after the other."""

    def __init__(self, split: GraphSplit, link: Link) -> None:
        self.split = split
        self.ranks: int = link.ranks
        self.link = link
        self.own_slots: list[int] = [slot for slot in range(split.slots) if link.owner(slot) == link.rank]
        self.plans: dict[int, CompiledGraph] = {
            id(run): CompiledGraph(run.graph) for slot in self.own_slots for run in _runs(split, slot)
        }
        self._constants = {var.index: constant.value for var, constant in split.graph.constants}
        self._lanes: list[_Lane] = []

    def run(self, batches: Iterable[Sequence[Any]]) -> list[list[Array]]:
        """Return the outputs for each input, on every rank.

        A slot that is done with one input goes on to the next at once: slots in a chain make a pipeline.
        """
        given = [_check_inputs(inputs, self.split.graph) for inputs in batches]
        self._lanes += [_Lane(self) for _ in given[len(self._lanes) :]]
        lanes = self._lanes[: len(given)]
        positions = dict.fromkeys(self.own_slots, 0)  # the input that each slot works on
        indices = [var.index for var in self.split.graph.inputs]
        for lane, inputs in zip(lanes, given, strict=True):  # a rank that computes nothing waits for others' outputs
            lane.start(self._constants | dict(zip(indices, inputs, strict=True)))

        def advance() -> bool:
            """Go as far as messages allow; tell whether anything was done, or nothing is left to do."""
            has_moved = False
            for slot in self.own_slots:
                while positions[slot] < len(lanes):
                    lane = lanes[positions[slot]]
                    has_moved |= lane.advance(slot) != 0
                    if not lane.is_at_end(slot):
                        break
                    positions[slot] += 1
            return has_moved or is_done()

        def is_done() -> bool:
            return {*positions.values()} <= {len(lanes)} and all([lane.is_exchanged() for lane in lanes])

        while not is_done():
            self.link.wait_for(advance)
        return [lane.outputs() for lane in lanes]


def _runs(split: GraphSplit, slot: int) -> list[Run]:
    return [i for i in split.programs[slot].instructions if isinstance(i, Run)]


def _check_inputs(inputs: Sequence[Any], graph: Graph) -> list[Any]:
    if len(inputs) != len(graph.inputs):
        raise ArgumentError(
            f"run_graph: another number of inputs: got {len(inputs)} for {len(graph.inputs)}; give each"
        )
    arrays = [np.asarray(x) for x in inputs]
    for array, var in zip(arrays, graph.inputs, strict=True):
        if (array.shape, array.dtype) != (var.aval.shape, var.aval.dtype):
            raise ArgumentError(
                f"run_graph: an input of another kind: got {array.dtype}{list(array.shape)} for {var}; trace the graph anew"
            )
    return arrays


class _Lane:
    """One input on its way through the slots of this rank; its messages keep their memory from run to run."""

    def __init__(self, runner: GraphRunner) -> None:
        self._runner = runner
        self._values: Values = {}
        self._receives: list[Message] = []
        self._exchanged: list[Message] = []  # whose end nobody else waits for
        self._steps = {slot: self._prepare(slot) for slot in runner.own_slots}
        self._next = dict.fromkeys(runner.own_slots, 0)
        self._arriving = self._prepare_outputs()
        self._reads = self._count_reads()
        self._left: dict[int, int] = {}

    # -- preparation --
    def _prepare(self, slot: int) -> list[tuple[Step, Reads]]:
        """Return what a slot does, as calls, and what each of them reads."""
        runner, link = self._runner, self._runner.link
        steps: list[tuple[Step, Reads]] = []
        for instruction in runner.split.programs[slot].instructions:
            match instruction:
                case Run() as run:
                    steps.append((_run_step(run, runner.plans[id(run)]), run.inputs))
                case Send(variable, other, message):
                    if link.owner(other) != link.rank:
                        aval = runner.split.aval_of(variable)
                        steps.append((self._send_step(variable, aval, link.owner(other), message), (variable,)))
                case Receive(variable, other, message, aval):
                    if link.owner(other) == link.rank:  # from a slot of this rank: there once it is computed
                        steps.append((_own_step(variable), (variable,)))
                    else:
                        steps.append((self._receive_step(variable, aval, link.owner(other), message), ()))
        return steps

    def _count_reads(self) -> dict[int, int]:
        """Return how many steps of this rank read each variable; outputs are read at the end once more."""
        read = [variable for steps in self._steps.values() for _, reads in steps for variable in reads]
        outputs = [atom.index for atom in self._runner.split.graph.outputs if isinstance(atom, Var)]
        return dict(Counter([*read, *outputs]))

    def _send_step(self, variable: int, aval: Aval, rank: int, message: int) -> Step:
        memory = np.empty(aval.shape, aval.dtype)
        sending = self._runner.link.make_message(memory, rank, message, is_sent=True)
        self._exchanged.append(sending)

        def send(values: Values) -> bool:
            memory[...] = values[variable]
            sending.start()
            return True

        return send

    def _receive_step(self, variable: int, aval: Aval, rank: int, message: int) -> Step:
        memory = np.empty(aval.shape, aval.dtype)
        arriving = self._runner.link.make_message(memory, rank, message, is_sent=False)
        self._receives.append(arriving)

        def receive(values: Values) -> bool:
            if not arriving.is_done():
                return False
            values[variable] = memory
            return True

        return receive

    def _prepare_outputs(self) -> dict[int, Ndarray]:
        """Add messages by which every rank gets the outputs of the others; return where they arrive, by variable."""
        runner, link = self._runner, self._runner.link
        first = sum(len(program.receives) for program in runner.split.programs)
        arriving: dict[int, Ndarray] = {}
        for number, (variable, slot) in enumerate(runner.split.output_slots.items()):
            aval, owner = runner.split.aval_of(variable), link.owner(slot)
            if owner == link.rank:
                receivers = [rank for rank in range(link.ranks) if rank != owner]
                sends = [self._send_step(variable, aval, rank, first + number) for rank in receivers]
                self._steps[slot] += [(send, (variable,)) for send in sends]
            else:
                arriving[variable] = np.empty(aval.shape, aval.dtype)
                message = link.make_message(arriving[variable], owner, first + number, is_sent=False)
                self._receives.append(message)
                self._exchanged.append(message)
        return arriving

    # -- one run --
    def start(self, values: Values) -> None:
        """Begin with inputs and constants: post all receives."""
        self._values = values
        self._left = dict(self._reads)
        self._next = dict.fromkeys(self._next, 0)
        for message in self._receives:
            message.start()

    def advance(self, slot: int) -> int:
        """Follow a slot's program as far as it goes, without values that nobody reads again; return how many steps that were."""
        steps, values, left, begin = self._steps[slot], self._values, self._left, self._next[slot]
        position = begin
        while position < len(steps):
            step, reads = steps[position]
            if not step(values):
                break
            for variable in reads:
                left[variable] -= 1
                if not left[variable]:
                    del values[variable]
            position += 1
        self._next[slot] = position
        return position - begin

    def is_at_end(self, slot: int) -> bool:
        """Tell whether a slot has done all of its program."""
        return self._next[slot] == len(self._steps[slot])

    def is_exchanged(self) -> bool:
        """Tell whether all messages have left and all outputs have come."""
        return all(message.is_done() for message in self._exchanged)

    def outputs(self) -> list[Array]:
        """Return the outputs, and hold nothing more."""
        results = [self._output(atom) for atom in self._runner.split.graph.outputs]
        self._values = {}
        return results

    def _output(self, atom: Var | Literal) -> Array:
        if isinstance(atom, Literal):
            return wrap(np.asarray(atom.value, atom.aval.dtype))
        value = self._arriving.get(atom.index)
        return wrap(np.array(self._values[atom.index] if value is None else value))


def _own_step(variable: int) -> Step:
    return lambda values: variable in values


def _run_step(run: Run, compiled: CompiledGraph) -> Step:
    plan, inputs, outputs = compiled.plan, run.inputs, run.outputs

    def step(values: Values) -> bool:
        results = plan(*[values[index] for index in inputs])
        for index, x in zip(outputs, results, strict=True):
            values[index] = x
        return True

    return step
