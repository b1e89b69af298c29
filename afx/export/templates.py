"""Templates: a traced graph as a text, or a file, of another language, by one table of templates a language."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np

from afx.compiler.graph.legalize import legalize, space_of
from afx.compiler.schedule.schedule import BranchSpec, ControlSpec, graphs_of
from afx.compiler.target import Target
from afx.core import SourceLocation, places_of
from afx.core.graph import Atom, Equation, Graph, Literal
from afx.core.primitive import Primitive, primitives
from afx.errors import ExportError
from afx.export.traced import escape_line, prepare

# --- Names: what the values of a graph are called in another language, after the user's own variables


class Names:
    """Names in use, of which there are no two alike.

    >>> names = Names(["in"])
    >>> names.make("params.w[0]"), names.make("params.w[0]"), names.make("in")
    ('params_w_0', 'params_w_0_2', 'in_2')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.used: set[str] = set(taken)
        self._next: dict[str, int] = {}

    def make(self, wish: str) -> str:
        """Return an identifier of ASCII letters, digits and _ that is like the wish, and not in use."""
        stem = re.sub(r"\W+", "_", wish, flags=re.ASCII).rstrip("_") or "t"
        stem = stem.lstrip("_") if not wish.startswith("_") else stem
        stem = f"x{stem}" if stem[0].isdigit() else stem
        name, k = stem, self._next.get(stem, 1)
        while name in self.used:
            k += 1
            name = f"{stem}_{k}"
        self._next[stem] = k
        self.used.add(name)
        return name


def wish_names(equations: Sequence[Equation]) -> list[list[str]]:
    """Return a wish for each output of each equation: the variables that its line assigns, where it is the last of it.

    What comes before on the line is a part of that variable; what no line assigns is ``t``.
    """
    places = places_of([eq.source for eq in equations])
    wishes, done = list[list[str]](), set[tuple[str, int]]()
    for k, (eq, place) in enumerate(zip(equations, places, strict=True)):
        count = len(eq.outputs)
        following = places[k + 1] if k + 1 < len(places) else None
        stems = () if place is None else assigned_names(place.file).get(place.line, ())
        if place is None or len(stems) != count:
            wishes.append(["t"] * count)
        elif following is not None and (following.file, following.line) == (place.file, place.line):
            wishes.append([f"{stem}_part" for stem in stems])
        else:
            again = "_again" if (place.file, place.line) in done else ""
            wishes.append([f"{stem}{again}" for stem in stems])
            done.add((place.file, place.line))
    return wishes


@functools.lru_cache(maxsize=64)
def assigned_names(file: str) -> dict[int, tuple[str, ...]]:
    """Return the variables that each line of a file assigns; empty where the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    by_line: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple([part.id for part in parts if isinstance(part, ast.Name)])
        if len(names) == len(parts):
            by_line |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), names)
    return by_line


def source_text(place: SourceLocation | None) -> str:
    """Return the user's line without its indentation, an empty text where it cannot be read."""
    return "" if place is None else escape_line(linecache.getline(place.file, place.line).strip())


def name_function(name: str) -> str:
    """Return the last part of a function's name, ``function`` where that is no name.

    >>> name_function("fit.<locals>.loss"), name_function("fit.<locals>.<lambda>")
    ('loss', 'function')
    """
    last = name.rpartition(".")[2]
    return last if last.isidentifier() and last.isascii() else "function"


# --- Tables of templates: how one language writes each primitive
#
# A template writes one equation: ``template(writer, equation, operands, results)``, where operands and results are
# texts (names, or what the writer made of a literal). Rules are entered by name; what follows from a primitive's
# record (its ufunc, its reduction) is made by *fillers*, functions of a primitive, that are asked where there is no
# rule.

W = TypeVar("W")
Texts: TypeAlias = list[str]  # of operands, or of results
Template: TypeAlias = Callable[[W, Equation, Texts, Texts], None]
Filler: TypeAlias = Callable[[Primitive], "Template[W] | None"]


class NoTemplateError(Exception):
    """Raised by a template for parameters or dtypes that its language lacks; the text says what, without the line."""


class Table(Generic[W]):
    """The templates of a language.

    Attributes:
        language: its name, for messages.
        rules: templates by the primitive's name.
        takes: of elementwise operations whose template is of some dtypes alone, the letters of these.
        has_formulas: whether formulas stand for elementwise operations that it lacks.
    """

    def __init__(self, language: str, *fillers: Filler[W], has_formulas: bool = False) -> None:
        self.language = language
        self.rules: dict[str, Template[W]] = {}
        self.takes: dict[str, str] = {}
        self.has_formulas = has_formulas
        self._fillers = fillers

    def rule(self, *names: str) -> Callable[[Template[W]], Template[W]]:
        """Enter a template for primitives of these names."""

        def enter(template: Template[W]) -> Template[W]:
            self.rules |= dict.fromkeys(names, template)
            return template

        return enter

    def find(self, primitive: Primitive) -> Template[W] | None:
        """Return the template of a primitive: a rule, or what a filler makes; None where there is none."""
        rule = self.rules.get(primitive.name)
        if rule is not None:
            return rule
        made = (filler(primitive) for filler in self._fillers)
        rule = next((template for template in made if template is not None), None)
        if rule is not None:
            self.rules[primitive.name] = rule
        return rule

    def has(self, eq: Equation) -> bool:
        """Tell whether there is a template of an equation's primitive and dtype."""
        p = eq.primitive
        letters = self.takes.get(p.name)
        return self.find(p) is not None and (letters is None or space_of(eq).char in letters)

    def supported(self) -> list[str]:
        """Return the names of all primitives that have a template or, where they are elementwise, a formula, sorted."""

        def is_written(p: Primitive) -> bool:
            has_formula = self.has_formulas and p.is_elementwise and (p.opaque or p.lowering.formula is not None)
            return has_formula or self.find(p) is not None

        return [p.name for p in primitives() if is_written(p)]


# --- Walks: a graph's equations in order, each written by its template; graphs within graphs by the templates of
# their loops


class TextWriter(Protocol):
    """What a walk writes to."""

    def begin(self, eq: Equation) -> None:
        """Is told each equation before its template writes it."""

    def literal(self, literal: Literal) -> str:
        """Return the text of a number."""
        ...

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Enter a captured array; return its text."""
        ...


WriterT = TypeVar("WriterT", bound=TextWriter)


class Walk(Generic[WriterT]):
    """One export: its table, its names, and the graphs that were prepared for it.

    Attributes:
        table: the templates.
        names: those in use, over all graphs.
        where: how messages begin, as ``to_numpy: loss``.
        target: what graphs are simplified for; None for the current one.
    """

    def __init__(self, table: Table[WriterT], names: Names, where: str, target: Target | None = None) -> None:
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
        return legalize(graph, self.table.has, self.target) if self.table.has_formulas else graph

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
            if not self.table.has(eq):
                of_dtype = f" of {space_of(eq)}" if self.table.find(eq.primitive) is not None else ""
                self._refuse(eq, f"{eq.primitive.name}{of_dtype}")

    def _refuse(self, eq: Equation, reason: str) -> NoReturn:
        at = f" at {eq.source}" if eq.source is not None else ""
        raise ExportError(
            f"{self.where}: an operation has no form in {self.table.language}: got {reason}{at}; "
            "compute it before, or with other functions"
        )

    # -- writing --
    def write(self, writer: WriterT, graph: Graph, operands: Sequence[str]) -> list[str]:
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
