"""Which memory each value of a graph takes: a place in the arena, fresh memory, or a view of another value's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from afx.core.dtypes import DType
from afx.core.graph import Equation, Graph, Var
from afx.core.primitive import Primitive
from afx.runtime.arena import Arena

__all__ = ["Places"]

INPUT, CONSTANT, BUFFER, FRESH, VIEW = "input", "constant", "buffer", "fresh", "view"


class Places:
    """The place of every variable.

    Attributes:
        kind: of each variable: ``input``, ``constant``, ``buffer`` (in the arena), ``fresh`` (memory of its own, made
            in the run), or ``view`` (of its root).
        root: the variable whose memory a view shares; of all others, themselves.
        template: an array of the strides that a value in the arena will have.
        offset: of each buffer in the arena.
        dying: fresh values after whose last use the name can go, by equation.
        arena: its size.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kind: dict[int, str] = {}
        self.root: dict[int, int] = {}
        self.template: dict[int, Any] = {}
        self.offset: dict[int, int] = {}
        self.dying: dict[int, list[int]] = {}
        self.arena = Arena()
        for var in graph.inputs:
            self._own(var, INPUT, None)
        for var, constant in graph.constants:
            self._own(var, CONSTANT, constant.value)
        for eq in graph.equations:
            self._place(eq)
        self._release()

    def _own(self, var: Var, kind: str, template: Any) -> None:
        self.kind[var.index] = kind
        self.root[var.index] = var.index
        self.template[var.index] = template

    def _place(self, eq: Equation) -> None:
        p = eq.primitive
        if p.view and not p.multiple and isinstance(eq.inputs[0], Var):
            out, source = eq.outputs[0], eq.inputs[0].index
            template = self.template[source]
            made = None if template is None else p.run(template, **eq.keywords)
            if made is None or (made.base is not None and np.may_share_memory(made, template)):
                self.kind[out.index] = VIEW
                self.root[out.index] = self.root[source]
                self.template[out.index] = made
                return
        writes = writes_into(eq)
        for var in eq.outputs:
            template = np.empty(var.aval.shape, var.aval.dtype) if writes else None
            self._own(var, BUFFER if writes else FRESH, template)

    def covers(self, atom: Var) -> bool:
        """Tell whether a value is all of its root's memory, each element once."""
        own, root = self.template[atom.index], self.root[atom.index]
        return (
            own is not None
            and own.nbytes == self.template[root].nbytes
            and (0 not in own.strides or root == atom.index)
        )

    def whole(self, atom: Var) -> bool:
        """Tell whether a value is all of its root's memory in row-major order."""
        return self.covers(atom) and self.template[atom.index].flags.c_contiguous

    def _release(self) -> None:
        """Let the graph's results have memory of their own, and give the others offsets by their lifetimes."""
        for atom in self.graph.outputs:
            if isinstance(atom, Var) and self.covers(atom) and self.kind[self.root[atom.index]] == BUFFER:
                self.kind[self.root[atom.index]] = FRESH
        last: dict[int, int] = {}
        for k, eq in enumerate(self.graph.equations):
            for atom in eq.inputs:
                if isinstance(atom, Var):
                    last[self.root[atom.index]] = k
        for atom in self.graph.outputs:
            if isinstance(atom, Var):
                last[self.root[atom.index]] = len(self.graph.equations)
        for k, eq in enumerate(self.graph.equations):
            self._settle(k, eq, last)

    def _settle(self, k: int, eq: Equation, last: dict[int, int]) -> None:
        ending = {self.root[a.index] for a in eq.inputs if isinstance(a, Var)}
        ending = {r for r in ending if last[r] == k}
        reused = -1
        for var in eq.outputs:
            if self.kind[var.index] == BUFFER:
                reused = self._in_place(eq, var, ending)
                if reused >= 0:
                    self.offset[var.index] = self.offset[reused]
                else:
                    self.offset[var.index] = self.arena.take(var.aval.nbytes)
        for r in ending:
            if self.kind[r] == BUFFER and r != reused:
                self.arena.give(self.offset[r], self.template[r].nbytes)
            elif self.kind[r] == FRESH:
                self.dying.setdefault(k, []).append(r)
        for var in eq.outputs:
            if var.index not in last and self.kind[var.index] == BUFFER:
                self.arena.give(self.offset[var.index], var.aval.nbytes)

    def _in_place(self, eq: Equation, out: Var, ending: set[int]) -> int:
        """Return the buffer of an operand that ends here and that the op may overwrite, or -1."""
        if not eq.primitive.elementwise or not by_ufunc(eq):
            return -1
        for atom in eq.inputs:
            if isinstance(atom, Var) and self.root[atom.index] in ending:
                root = self.root[atom.index]
                fits = self.template[root] is not None and self.template[root].nbytes == out.aval.nbytes
                if self.kind[root] == BUFFER and fits and self.whole(atom) and atom.aval.shape == out.aval.shape:
                    return root
        return -1


def writes_into(eq: Equation) -> bool:
    """Tell whether an equation can compute into memory it is given."""
    p = eq.primitive
    if p.multiple or p.kind == "custom":
        return False
    return p.out is not None or by_ufunc(eq) or by_reduction(eq)


def by_ufunc(eq: Equation) -> bool:
    """Tell whether a ufunc computes an equation's dtype from its operands' dtypes."""
    ufunc = eq.primitive.ufunc
    if ufunc is None or eq.params:
        return False
    return natural(ufunc, tuple([a.aval.dtype for a in eq.inputs])) == eq.outputs[0].aval.dtype


def by_reduction(eq: Equation) -> bool:
    """Tell whether a ufunc's ``reduce`` computes an equation, in its operand's dtype."""
    p: Primitive = eq.primitive
    return p.reduces is not None and eq.inputs[0].aval.dtype == eq.outputs[0].aval.dtype


@lru_cache(maxsize=4096)
def natural(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> DType | None:
    """Return the dtype in which NumPy gives the result of a ufunc for operands of these dtypes."""
    if ufunc.signature is None and (ufunc.nin != len(dtypes) or ufunc.nout != 1):
        return None
    try:
        found: DType = ufunc.resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        return None
    return found
