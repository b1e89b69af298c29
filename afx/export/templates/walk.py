"""Walks: a graph's equations in order, each written by its template; graphs within graphs by the templates of their loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from afx.compiler.control_flow import BranchSpec, ControlSpec, graphs_of
from afx.compiler.target import Target
from afx.core.graph import Atom, Equation, Graph, Literal
from afx.errors import ExportError
from afx.export.templates.formulas import expand
from afx.export.templates.names import Names, wish_names
from afx.export.templates.table import NoTemplateError, Table
from afx.export.traced import prepare

__all__ = ["Walk", "Writer"]


class Writer(Protocol):
    """What a walk writes to."""

    def begin(self, eq: Equation) -> None:
        """Is told each equation before its template writes it."""

    def literal(self, literal: Literal) -> str:
        """Return the text of a number."""
        ...

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Enter a captured array; return its text."""
        ...


W = TypeVar("W", bound=Writer)


class Walk(Generic[W]):
    """One export: its table, its names, and the graphs that were prepared for it.

    Attributes:
        table: the templates.
        names: those in use, over all graphs.
        where: how messages begin, as ``to_numpy: loss``.
        target: what graphs are simplified for; None for the current one.
    """

    def __init__(self, table: Table[W], names: Names, where: str, target: Target | None = None) -> None:
        self.table = table
        self.names = names
        self.where = where
        self.target = target
        self._prepared: dict[int, tuple[Graph, Graph]] = {}  # by identity; the key's graph is kept, or ids would recur

    # -- graphs that equations hold --
    def control(self, eq: Equation) -> ControlSpec | None:
        """Return what a loop or a branch holds, its graphs prepared; None of other equations."""
        rule = eq.primitive.lowering.control
        if rule is None:
            return None
        spec = rule(eq.keywords)
        fields: dict[str, Any] = {
            name: self._prepare(value) for name, value in spec._asdict().items() if isinstance(value, Graph)
        }
        if isinstance(spec, BranchSpec):
            fields = {"bodies": tuple(map(self._prepare, spec.bodies))}
        return spec._replace(**fields)  # type: ignore[no-any-return]  # of a union of named tuples

    def _prepare(self, graph: Graph) -> Graph:
        if id(graph) not in self._prepared:
            self._prepared[id(graph)] = (graph, self.expand(prepare(graph, self.target)))
        return self._prepared[id(graph)][1]

    def expand(self, graph: Graph) -> Graph:
        """Return a graph in which formulas stand for what the language lacks."""
        return expand(graph, self.table.lacks, self.target) if self.table.has_formulas else graph

    def equations(self, graph: Graph) -> Iterator[Equation]:
        """Yield the equations of a graph and of those that it holds."""
        for eq in graph.equations:
            yield eq
            spec = self.control(eq)
            for inner in [] if spec is None else graphs_of(spec):
                yield from self.equations(inner)

    def check(self, graph: Graph) -> None:
        """Verify that there is a template for each equation.

        Raises:
            ExportError: for the first that has none, at the user's line.
        """
        for eq in self.equations(graph):
            if self.table.find(eq.primitive) is None:
                self._refuse(eq, eq.primitive.name)

    def _refuse(self, eq: Equation, reason: str) -> NoReturn:
        at = f" at {eq.source}" if eq.source is not None else ""
        raise ExportError(
            f"{self.where}: an operation has no form in {self.table.language}: got {reason}{at}; "
            "compute it before, or with other functions"
        )

    # -- writing --
    def write(self, writer: W, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write the equations of a prepared graph, whose inputs have these texts; return the texts of its outputs.

        Raises:
            ExportError: a template refuses an equation, or there is none.
        """
        known = {var.index: text for var, text in zip(graph.inputs, operands, strict=True)}
        for var, constant in graph.constants:
            known[var.index] = writer.constant(self.names.make("captured"), constant.value)

        def read(atom: Atom) -> str:
            return writer.literal(atom) if isinstance(atom, Literal) else known[atom.index]

        for eq, wishes in zip(graph.equations, wish_names(graph.equations), strict=True):
            results = list(map(self.names.make, wishes))
            known |= {var.index: text for var, text in zip(eq.outputs, results, strict=True)}
            template = self.table.find(eq.primitive)
            if template is None:
                self._refuse(eq, eq.primitive.name)
            writer.begin(eq)
            try:
                template(writer, eq, list(map(read, eq.inputs)), results)
            except NoTemplateError as error:
                self._refuse(eq, f"{eq.primitive.name} ({error})")
        return list(map(read, graph.outputs))
