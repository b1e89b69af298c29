"""Which memory each value of a graph takes: a place in the arena, fresh memory, or a view of another value's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from afx.compiler.arena import Arena
from afx.compiler.fusion import Node, nodes_of
from afx.compiler.lowering import by_ufunc, writes_into
from afx.core.graph import Graph, Var

__all__ = ["Places"]

INPUT, CONSTANT, BUFFER, FRESH, VIEW = "input", "constant", "buffer", "fresh", "view"


class Places:
    """The place of every variable.

    Attributes:
        graph: the graph.
        nodes: its equations, those that run in blocks together.
        donated: the arguments that are given away.
        kind: of each variable: ``input``, ``constant``, ``buffer`` (in the arena), ``fresh`` (memory of its own, made
            in the run), or ``view`` (of its root).
        root: the variable whose memory a view shares; of all others, themselves.
        template: while places are found, an array of the strides that a value in the arena will have.
        offset: of each buffer in the arena.
        dying: fresh values after whose last use the name can go, by equation.
        taken: of results that are written into the memory of an argument, that argument.
        arena: the block in which buffers lie.
    """

    def __init__(self, graph: Graph, donated: Collection[int] = ()) -> None:
        self.graph = graph
        self.donated = {graph.inputs[k].index for k in donated}
        self.taken: dict[int, int] = {}
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
        self.nodes = nodes_of(graph)
        for node in self.nodes:
            self._place(node)
        self._release()
        self.template.clear()  # they hold address space, if no memory

    def _own(self, var: Var, kind: str, template: Any) -> None:
        self.kind[var.index] = kind
        self.root[var.index] = var.index
        self.template[var.index] = template

    def _place(self, node: Node) -> None:
        if node.key is not None:
            for var in node.outputs:
                self._own(var, BUFFER, np.empty(var.aval.shape, var.aval.dtype))
            return
        eq = node.equations[0]
        p = eq.primitive
        if p.lowering.may_alias and not p.multiple_results and isinstance(eq.inputs[0], Var):
            out, source = eq.outputs[0], eq.inputs[0].index
            template = self.template[source]
            made = None if template is None else p.impl(template, **eq.keywords)
            if made is None or made is template or _is_view(made, template):
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
        for k, node in enumerate(self.nodes):
            for var in node.inputs:
                last[self.root[var.index]] = k
        for atom in self.graph.outputs:
            if isinstance(atom, Var):
                last[self.root[atom.index]] = len(self.nodes)
        for k, node in enumerate(self.nodes):
            self._settle(k, node, last)

    def _settle(self, k: int, node: Node, last: dict[int, int]) -> None:
        ending = {self.root[v.index] for v in node.inputs}
        ending = {r for r in ending if last[r] == k}
        reused: set[int] = set()
        for var in node.outputs:
            if self.kind[var.index] == BUFFER:
                root = self._in_place(node, var, ending - reused - self.donated)
                if root >= 0:
                    self.offset[var.index] = self.offset[root]
                    reused.add(root)
                else:
                    self.offset[var.index] = self.arena.take(var.aval.nbytes)
            elif self.donated and self.kind[var.index] == FRESH and self.template[var.index] is not None:
                root = self._in_place(node, var, ending & self.donated - reused)
                if root >= 0:
                    self.taken[var.index] = root
                    reused.add(root)
        for r in ending - reused:
            if self.kind[r] == BUFFER:
                self.arena.give(self.offset[r], self.template[r].nbytes)
            elif self.kind[r] == FRESH:
                self.dying.setdefault(k, []).append(r)
        for var in node.outputs:
            if var.index not in last and self.kind[var.index] == BUFFER:
                self.arena.give(self.offset[var.index], var.aval.nbytes)

    def _in_place(self, node: Node, out: Var, ending: set[int]) -> int:
        """Return the buffer of an operand that ends here and that the op may overwrite, or -1.

        A single number never is: NumPy takes four times as long where operand and result are one (2.0 to 2.5).
        """
        if out.aval.size == 1:
            return -1
        if node.key is not None:
            return self._in_place_of_region(node, out, ending)
        eq = node.equations[0]
        if (
            eq.primitive.lowering.updates_first_operand
            and isinstance(eq.inputs[0], Var)
            and eq.inputs[0] not in eq.inputs[1:]
        ):
            atoms: Sequence[Var] = [eq.inputs[0]]
        elif eq.primitive.is_elementwise and by_ufunc(eq):
            atoms = node.inputs
        else:
            return -1
        for atom in atoms:
            if self.root[atom.index] in ending and self._fits(atom, out):
                return self.root[atom.index]
        return -1

    def _fits(self, operand: Var, out: Var) -> bool:
        """Tell whether an operand is a whole buffer that the output could take."""
        root = self.root[operand.index]
        if root in self.donated:
            return operand.index == root and operand.aval == out.aval
        return (
            self.kind[root] == BUFFER
            and self.whole(operand)
            and operand.aval.nbytes == out.aval.nbytes
            and operand.aval.shape == out.aval.shape
        )

    def _in_place_of_region(self, node: Node, out: Var, ending: set[int]) -> int:
        """Return such a buffer that the region reads for the last time before, or as, it writes the output."""
        at = node.first_write(out)
        rest = node.equations[at + 1 :] if by_ufunc(node.equations[at]) else node.equations[at:]
        views = [eq for eq in node.equations if eq.primitive.lowering.may_alias]
        later = {a.index for eq in (*rest, *views) for a in eq.inputs if isinstance(a, Var)}
        later |= {v.index for v in node.whole}
        roots = [self.root[v.index] for v in node.inputs]
        for var in node.inputs:
            root = self.root[var.index]
            if root in ending and roots.count(root) == 1 and var.index not in later and self._fits(var, out):
                return root
        return -1


def _is_view(x: Any, of: Any) -> bool:
    """Tell whether an array looks into the memory of another one; without elements, whether it looks into any."""
    return x.base is not None and (not x.size or np.may_share_memory(x, of))
