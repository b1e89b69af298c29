"""Cost: operations and bytes of a graph, and times of a schedule's instructions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afx.compiler.numpy_backend.exec import NumpyBackend
from afx.compiler.schedule.schedule import Instruction, ScanSpec, Schedule, graphs_of
from afx.compiler.target import Target
from afx.core.graph import Equation, Graph, Var
from afx.core.scalar_ops import scalar_op
from afx.runtime.control_register import met_denormals

# --- Cost: floating-point operations of a graph, and bytes that go through memory

FUNCTION_WEIGHT = 10.0  # of an element of a function such as exp, beside that of a sum: measured, roughly
PRODUCT_WEIGHT = 1 / 16  # of an operation of a matrix product, which runs on whole registers
EQUATION_WEIGHT = 5.0  # of each run of an equation


class EquationCost(NamedTuple):
    """What an equation does in one call of its graph.

    Attributes:
        equation: one that holds no graph.
        times: how often it runs, where that is known.
        flops: its arithmetic operations, over all steps of the loops around it whose number is known.
        nbytes: bytes that it reads and writes, likewise.
    """

    equation: Equation
    times: int
    flops: int
    nbytes: int

    @property
    def weight(self) -> float:
        """About how long it takes beside others; an addition of one element, or 8 bytes that are moved, count 1."""
        return self.flops * _flop_weight(self.equation) + self.nbytes / 8 + self.times * EQUATION_WEIGHT


def _flop_weight(eq: Equation) -> float:
    ufunc = eq.primitive.lowering.ufunc
    if eq.primitive.lowering.flops is not None or (ufunc is not None and ufunc.signature is not None):
        return PRODUCT_WEIGHT
    is_function = ufunc is not None and ufunc.nin == 1 and not scalar_op(ufunc.__name__).dtypes
    return FUNCTION_WEIGHT if is_function else 1.0


def flops(graph: Graph) -> int:
    """Return the arithmetic operations of a graph: one for each element made or summed, two a term of a product.

    Loops count once for each step, where that number is known; of branches the dearest one counts.

    >>> import afx
    >>> flops(afx.trace(lambda x: x @ x)(afx.ones((8, 8))))
    1024
    """
    return sum(map(_operations, graph.equations))


def _operations(eq: Equation) -> int:
    p = eq.primitive
    if p.lowering.flops is not None:
        return p.lowering.flops([a.aval for a in (*eq.inputs, *eq.outputs)], eq.keywords)
    made = sum([v.aval.size for v in eq.outputs])
    if p.lowering.ufunc is not None and p.lowering.ufunc.signature is not None:  # a product of matrices
        return 2 * made * eq.inputs[0].aval.shape[-1]
    if p.is_elementwise:
        return made
    return eq.inputs[0].aval.size if p.lowering.reduce_ufunc is not None else 0


def bytes_moved(graph: Graph) -> int:
    """Return the bytes that the equations of a graph read and write, were nothing kept in a cache.

    >>> import afx
    >>> bytes_moved(afx.trace(afx.sin)(afx.ones(8)))
    64
    """
    return sum(map(_bytes, graph.equations))


def _bytes(eq: Equation) -> int:
    if eq.primitive.lowering.may_alias:
        return 0
    return sum([a.aval.nbytes for a in (*eq.inputs, *eq.outputs) if isinstance(a, Var)])


def equation_costs(eq: Equation, times: int = 1) -> Iterator[EquationCost]:
    """Yield what an equation does, or, where it holds graphs, each equation of these; all branches are counted.

    >>> import afx
    >>> loop = afx.trace(lambda x: afx.fori_loop(0, 9, lambda k, c: c * x, x))(2.0).equations[-1]
    >>> {(cost.equation.primitive.name, cost.flops) for cost in equation_costs(loop)} >= {("multiply", 9)}
    True
    """
    rule = eq.primitive.lowering.control
    if rule is None:
        yield EquationCost(eq, times, times * _operations(eq), times * _bytes(eq))
        return
    spec = rule(eq.keywords)
    steps = times * spec.length if isinstance(spec, ScanSpec) else times
    for one in [eq for graph in graphs_of(spec) for eq in graph.equations]:
        yield from equation_costs(one, steps)


# --- Instruction times: a plan's schedule run by NumPy with a clock between its instructions


class _Clock:
    """Seconds between the moments at which it is called, by the numbers that it is called with."""

    def __init__(self, count: int) -> None:
        self.seconds: npt.NDArray[np.float64] = np.zeros(count)
        self._last = 0.0

    def start(self) -> None:
        """Begin a run."""
        self.seconds[:] = 0
        self._last = time.perf_counter()

    def __call__(self, number: int) -> None:
        """Note that an instruction has ended."""
        now = time.perf_counter()
        self.seconds[number] += now - self._last
        self._last = time.perf_counter()


def time_instructions(
    schedule: Schedule, target: Target, inputs: Sequence[Any], seconds: float
) -> npt.NDArray[np.float64]:
    """Return the seconds of each instruction: medians over as many runs as fit into a time, three at least.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x @ x)).lower(afx.ones((3, 3)))
    >>> time_instructions(lowered.schedule, Target(), [np.ones((3, 3), np.float32)], 0.0).shape
    (2,)
    """
    clock = _Clock(len(schedule.instructions))
    run = NumpyBackend.compile(schedule, target, clock=clock).bind()
    run(*inputs)  # memory is touched for the first time, and kernels are made
    times, end = list[Any](), time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        clock.start()
        run(*inputs)
        times.append(clock.seconds.copy())
    medians: npt.NDArray[np.float64] = np.median(times, axis=0)
    return medians


def find_denormals(schedule: Schedule, target: Target, inputs: Sequence[Any]) -> set[int]:
    """Return the numbers of the instructions that meet denormal operands, as far as the processor tells.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x @ x) * 0.5).lower(afx.ones((3, 3)))
    >>> find_denormals(lowered.schedule, Target(), [np.ones((3, 3), np.float32)])
    set()
    """
    numbers = set[int]()

    def look(number: int) -> None:
        if met_denormals(forgetting=True):
            numbers.add(number)

    run = NumpyBackend.compile(schedule, target, clock=look).bind()
    met_denormals(forgetting=True)
    run(*inputs)
    return numbers


def equations_of(instruction: Instruction) -> list[int]:
    """Return the numbers of the graph's equations that an instruction computes."""
    if instruction.parts:
        return [number for one in instruction.parts for number in equations_of(one)]
    number: int = getattr(instruction, "equation", -1)
    return [number] if number >= 0 else []
