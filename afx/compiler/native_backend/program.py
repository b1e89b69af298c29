"""Native programs: blocks of steps over pointers, as frozen data that pickles.

A program is made in the process that runs it and printed as LLVM IR in the child process that compiles it. It names the
inner loops of NumPy's ufuncs by symbols; their addresses are filled in when the object code is linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from afx.compiler.native_backend.elements import Fast, Load, Number, Op, Ref, Root, UfuncLoop, Value
from afx.compiler.native_backend.interface import PARTS, Interface, Param
from afx.compiler.native_backend.leaves import Inner, Product, Routine
from afx.compiler.native_backend.loops import Arg, BlockLoop, Body, Choice, Loop
from afx.compiler.native_backend.nests import Nest
from afx.compiler.native_backend.steps import Leaf, Step

__all__ = [
    "PARTS", "Arg", "Block", "BlockLoop", "Body", "Choice", "Fast", "Inner", "Leaf", "Load", "Loop", "Nest",
    "Number", "Op", "Param", "Phase", "Product", "Program", "Ref", "Root", "Routine", "Step", "UfuncLoop", "Value",
]  # fmt: skip


@attrs.frozen
class Block:
    """Straight-line program over its parameters, which overlap nowhere.

    Attributes:
        params: how many there are: inputs, outputs, captured constants.
        roots: its memory.
        steps: what runs, in order.
        arena: bytes of memory for its intermediate values.
        shared: parameters that may be the same memory.
        donated: pairs of a result and an argument that may be the same memory, element for element.
        phases: its steps in groups, where it has steps that threads share.
    """

    params: int
    roots: tuple[Root, ...]
    steps: tuple[Step, ...]
    arena: int
    shared: tuple[int, ...] = ()
    donated: tuple[tuple[int, int], ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether threads share parts of its steps, or of those of the blocks within."""
        return bool(self.phases) or any(block.is_shared for step in self.steps for block in step.blocks())

    def all_steps(self) -> Iterator[Step]:
        """Yield its steps and those of the blocks within."""
        for step in self.steps:
            yield step
            for block in step.blocks():
                yield from block.all_steps()

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return sum([step.nanoseconds for step in self.steps], 0.0)

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """The loops of NumPy that it calls."""
        return (loop for step in self.all_steps() for loop in step.loops)

    @property
    def called_params(self) -> set[int]:
        """The parameters that functions may read, whose bits may depend on strides."""
        return {self.roots[k].param for step in self.steps for k in step.called_roots} - {-1}

    def lines(self, params: Sequence[str], arena: int = 0) -> list[str]:
        """Return its steps as text, with these names of parameters; its arena begins at this offset."""
        names: dict[int, str] = {}
        for k, root in enumerate(self.roots):
            base = params[root.param] if root.param >= 0 else f"m{arena + root.offset}"
            names[k] = base if root.param < 0 or not root.offset else f"{base}_{root.offset}"
        return [line for step in self.steps for line in step.lines(names, arena)] or ["pass"]


@attrs.frozen
class Phase:
    """Neighbouring steps of a block that run together.

    Attributes:
        start: the first one.
        stop: the one behind the last.
        is_shared: whether there are steps among them that are cut; others run with the first part.
    """

    start: int
    stop: int
    is_shared: bool


@attrs.frozen
class Program:
    """What is compiled at once: one function for Python.

    It takes the arrays of ``params``, an arena, and where threads share its parts the memory of their team.

    Attributes:
        block: what it computes.
        params: of the block.
        releases_gil: whether other Python threads run meanwhile.
    """

    block: Block
    params: tuple[Param, ...]
    releases_gil: bool

    @property
    def interface(self) -> Interface:
        """What its calls need to know."""
        block = self.block
        calls_blas = any(step.calls_blas for step in block.all_steps())
        loops = tuple(dict.fromkeys(block.loops))
        called = frozenset(block.called_params)
        return Interface(self.params, block.arena, block.donated, called, loops, calls_blas, block.is_shared)

    def text(self, number: int) -> str:
        """Return its parameters and steps; ``p0, p1 …`` are its arrays, ``m0, m64 …`` memory by its offset.

        A nest is a loop over all its elements: ``i, j …`` count along its axes, and an index counts elements of memory.
        """
        params = [f"p{k}: {p.dtype}[{','.join(map(str, p.shape))}]" for k, p in enumerate(self.params)]
        head = f"def native_{number}({', '.join(params)}):  # pseudo-code of machine code"
        lines = self.block.lines([f"p{k}" for k in range(self.block.params)])
        return "\n".join([head, *["    " + line for line in lines]])
