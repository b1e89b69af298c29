"""Graph split: one program of run, send and receive for each slot, as pure data.

All slots follow one topological order, that of the graph's equations. A slot sends each value as soon as it is computed,
and waits only in front of an equation that needs a value of another slot. That value stands earlier in the common order:
slots cannot wait in a cycle, and no scheduler is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from afx.core import Aval
from afx.core.cached import Cached
from afx.core.graph import Equation, Graph, Literal, Var, indices_of
from afx.errors import ArgumentError
from afx.transforms._arguments import describe


@attrs.frozen
class Run:
    """A part of the graph that a slot computes at once.

    Attributes:
        graph: the part, whose inputs and outputs are those below, in their order.
        inputs: the numbers of the variables that it reads.
        outputs: the numbers of the variables that are sent, returned or read by a later part.
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@attrs.frozen
class Send:
    """A value on its way to another slot.

    Attributes:
        variable: its number.
        slot: where it goes.
        message: the number of the message, the same at both ends.
    """

    variable: int
    slot: int
    message: int


@attrs.frozen
class Receive:
    """A value that another slot sends.

    Attributes:
        variable: its number.
        slot: where it comes from.
        message: the number of the message, the same at both ends.
        aval: its shape and dtype.
    """

    variable: int
    slot: int
    message: int
    aval: Aval


Instruction: TypeAlias = Run | Send | Receive


@attrs.frozen
class SlotProgram:
    """What one slot does, in order."""

    instructions: tuple[Instruction, ...]

    @property
    def receives(self) -> tuple[Receive, ...]:
        """The values that come from other slots; they are posted before anything runs."""
        return tuple(i for i in self.instructions if isinstance(i, Receive))


@attrs.frozen(slots=False)
class GraphSplit:
    """A graph whose equations are dealt to slots.

    Attributes:
        graph: the whole graph.
        assignment: the slot of each equation.
        programs: one a slot.
    """

    graph: Graph
    assignment: tuple[int, ...]
    programs: tuple[SlotProgram, ...]

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self.programs)

    @Cached
    def output_slots(self) -> dict[int, int]:
        """The slot that computes each output, by the number of its variable; inputs and constants are on every rank."""
        wanted = indices_of(self.graph.outputs)
        return {
            var.index: slot
            for eq, slot in zip(self.graph, self.assignment, strict=True)
            for var in eq.outputs
            if var.index in wanted
        }

    @Cached
    def _avals(self) -> dict[int, Aval]:
        return {var.index: var.aval for eq in self.graph for var in eq.outputs}

    def aval_of(self, variable: int) -> Aval:
        """Return shape and dtype of a variable that an equation computes."""
        return self._avals[variable]

    @property
    def bytes_sent(self) -> int:
        """The bytes that go from slot to slot in one run."""
        return sum(receive.aval.nbytes for program in self.programs for receive in program.receives)

    def __str__(self) -> str:
        lines: list[str] = []
        for slot, program in enumerate(self.programs):
            lines.append(f"slot {slot}:")
            for instruction in program.instructions:
                match instruction:
                    case Run(graph):
                        ops = ", ".join(eq.primitive.name for eq in graph)
                        lines.append(f"  run {len(graph)} equations: {ops}")
                    case Send(variable, other, message):
                        lines.append(f"  send {self._name(variable)} to slot {other} (message {message})")
                    case Receive(variable, other, message, aval):
                        lines.append(f"  receive {self._name(variable)}:{aval} from slot {other} (message {message})")
        return "\n".join(lines)

    def _name(self, variable: int) -> str:
        return Var(variable, Aval((), self.graph.outputs[0].aval.dtype)).name if self.graph.outputs else str(variable)


def check_graph(graph: object, who: str) -> None:
    """Raise where what should be a graph is something else, such as the function itself."""
    if not isinstance(graph, Graph):
        raise ArgumentError(f"{who}: takes a graph: got {describe(graph)}; write afx.trace(fn)(*args)")


def split_graph(
    graph: Graph, assign: Sequence[int] | Callable[[Equation], int], *, slots: int | None = None
) -> GraphSplit:
    """Return the programs of the slots that compute a graph together.

    Args:
        graph: from `afx.trace` (a function, or its gradient).
        assign: the slot of each equation, or a function of the equation; `place` computes one from a cost model.
        slots: how many slots; None for one more than the largest that is named.

    Raises:
        ArgumentError: no slot for an equation, or one that does not exist.

    >>> import afx
    >>> from afx import distributed
    >>> graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(afx.ones(2))
    >>> print(distributed.split_graph(graph, [0, 1, 0]))
    slot 0:
      run 1 equations: sin
      receive c:float32[2] from slot 1 (message 0)
      run 1 equations: add
    slot 1:
      run 1 equations: cos
      send c to slot 0 (message 0)
    """
    check_graph(graph, "split_graph")
    named = [assign(eq) for eq in graph] if callable(assign) else list(assign)
    places = [int(p) if isinstance(p, np.integer) else p for p in named]
    count = max(places, default=0) + 1 if slots is None else slots
    if len(places) != len(graph) or not all(type(p) is int and 0 <= p < count for p in places):
        raise ArgumentError(
            f"split_graph: one slot below {count} for each of {len(graph)} equations: got {places[:20]}; "
            "give a number an equation, in their order"
        )
    return GraphSplit(graph, tuple(places), _Splitter(graph, places, count).split())


def _variables(atoms: Sequence[Var | Literal]) -> list[int]:
    return [atom.index for atom in atoms if isinstance(atom, Var)]


class _Splitter:
    """Walks the equations once and writes the programs of all slots."""

    def __init__(self, graph: Graph, places: Sequence[int], count: int) -> None:
        self._graph = graph
        self._places = places
        self._constants = {var.index: (var, constant) for var, constant in graph.constants}
        self._inputs = {var.index for var in graph.inputs}
        self._home = {var.index: place for eq, place in zip(graph, places, strict=True) for var in eq.outputs}
        self._avals = {var.index: var.aval for eq in graph for var in eq.outputs}
        self._avals |= {var.index: var.aval for var in graph.inputs}
        self._reads = Counter(_variables([*[a for eq in graph for a in eq.inputs], *graph.outputs]))
        self._wanted = self._find_wanted()
        self._instructions: list[list[Instruction]] = [[] for _ in range(count)]
        self._waiting: list[list[Equation]] = [[] for _ in range(count)]  # equations of the part that is being gathered
        self._held: list[set[int]] = [set() for _ in range(count)]  # values of other slots that were received
        self._messages = {key: number for number, key in enumerate(sorted(self._wanted))}

    def _find_wanted(self) -> set[tuple[int, int]]:
        """Return pairs of a variable and a slot, other than its own, that reads it."""
        return {
            (atom.index, place)
            for eq, place in zip(self._graph, self._places, strict=True)
            for atom in eq.inputs
            if isinstance(atom, Var) and self._home.get(atom.index, place) != place
        }

    def split(self) -> tuple[SlotProgram, ...]:
        """Return the programs."""
        for eq, place in zip(self._graph, self._places, strict=True):
            for atom in eq.inputs:
                if (
                    isinstance(atom, Var)
                    and (atom.index, place) in self._wanted
                    and atom.index not in self._held[place]
                ):
                    self._close(place)
                    self._receive(atom, place)
            self._waiting[place].append(eq)
        for place in range(len(self._waiting)):
            self._close(place)
        return tuple(SlotProgram(tuple(instructions)) for instructions in self._instructions)

    def _receive(self, var: Var, place: int) -> None:
        self._held[place].add(var.index)
        message = self._messages[(var.index, place)]
        self._instructions[place].append(Receive(var.index, self._home[var.index], message, var.aval))

    def _close(self, place: int) -> None:
        """End the part that a slot gathers: it runs, and what others wait for is sent."""
        equations, self._waiting[place] = self._waiting[place], []
        if not equations:
            return
        run = self._part(equations)
        self._instructions[place].append(run)
        for variable in run.outputs:
            for other in range(len(self._waiting)):
                if (variable, other) in self._wanted:
                    self._instructions[place].append(Send(variable, other, self._messages[(variable, other)]))

    def _part(self, equations: Sequence[Equation]) -> Run:
        """Return equations as a graph of their own; its outputs are what is read outside of it."""
        reads = _variables([atom for eq in equations for atom in eq.inputs])
        made = [var.index for eq in equations for var in eq.outputs]
        given = {*reads} - {*made}
        inputs, constants = sorted(given - self._constants.keys()), sorted(given & self._constants.keys())
        own_reads = Counter(reads)
        outputs = [index for index in made if self._reads[index] > own_reads[index]]
        numbers = {index: number for number, index in enumerate([*inputs, *constants, *made])}

        def renumber(var: Var) -> Var:
            return Var(numbers[var.index], var.aval)

        def variable(index: int) -> Var:
            return Var(numbers[index], self._avals[index])

        body = [
            attrs.evolve(
                eq,
                inputs=tuple([renumber(atom) if isinstance(atom, Var) else atom for atom in eq.inputs]),
                outputs=tuple(map(renumber, eq.outputs)),
            )
            for eq in equations
        ]
        captured = [(renumber(var), constant) for var, constant in [self._constants[index] for index in constants]]
        graph = Graph(tuple(map(variable, inputs)), tuple(captured), tuple(body), tuple(map(variable, outputs)))
        return Run(graph, tuple(inputs), tuple(outputs))
