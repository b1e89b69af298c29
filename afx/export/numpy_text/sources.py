"""Sources of functions: their syntax trees, which names they read from outside, and how these are renamed."""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from afx.export.templates.table import NoTemplateError

__all__ = ["Source", "read_source"]

Definition = ast.FunctionDef | ast.ClassDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@functools.lru_cache(maxsize=64)
def _definitions_in(file: str) -> dict[str, list[Definition]]:
    """Return the definitions of a file by their names."""
    found: dict[str, list[Definition]] = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            found.setdefault("<lambda>" if isinstance(node, ast.Lambda) else node.name, []).append(node)
    return found


@attrs.frozen
class Source:
    """A definition without types and decorators.

    Attributes:
        text: of the definition.
        name: under which it is defined in it.
        reads: the names that it reads and does not bind.
    """

    text: str
    name: str
    reads: tuple[str, ...]

    def rename(self, name: str, texts: Mapping[str, str]) -> str:
        """Return the text under another name, with texts in place of the outer names."""
        changed = {read: text for read, text in texts.items() if read != text}
        if not changed and name == self.name:
            return self.text
        tree = ast.parse(self.text)
        definition: Any = tree.body[0]
        definition.name = name
        return ast.unparse(ast.fix_missing_locations(_Resolver(changed).visit(definition)))


@functools.lru_cache(maxsize=2048)
def read_source(value: types.CodeType | type) -> Source:
    """Return the definition of a class, or of what code was compiled from, in its file.

    Raises:
        NoTemplateError: its source is not there.
    """
    if isinstance(value, type):
        name = value.__name__
        found = _definitions_in(sys.modules[value.__module__].__file__ or "").get(name, [])
    else:
        name = "f" if value.co_name == "<lambda>" else value.co_name
        found = list(_definitions(value))
    if len(found) != 1:
        raise NoTemplateError(f"the source of {value.__qualname__ if isinstance(value, type) else name} cannot be read")
    resolver = _Resolver({})
    node = resolver.strip(copy.deepcopy(found[0]), name)
    return Source(ast.unparse(ast.fix_missing_locations(node)), name, tuple(sorted(resolver.read)))


def _definitions(code: types.CodeType) -> Iterator[Definition]:
    """Yield the definitions that code was compiled from; a lambda's by the place of its result."""
    places = set(code.co_positions())
    for node in _definitions_in(code.co_filename).get(code.co_name, []):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
                yield node
        elif code.co_firstlineno == min([node.lineno, *[d.lineno for d in node.decorator_list]]):
            yield node


class _Resolver(ast.NodeTransformer):
    """A walk that knows which names are bound where it stands."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.read: set[str] = set()
        self._bound: list[set[str]] = []

    def strip(self, node: Definition, name: str) -> ast.AST:
        """Return the definition, under another name."""
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.Return(node.body)]
            node = ast.FunctionDef(name=name, args=node.args, body=body, decorator_list=[], returns=None)
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []  # they have made what is looked at
        node.name = name
        return self.visit(node)  # type: ignore[no-any-return]  # ast leaves it open

    # -- scopes --
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave types out; arguments and what is assigned is bound."""
        node.returns = None
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self._defaults(node.args)
        self._inside({*_arguments(node.args), *_list_bindings(node.body)}, lambda: self._statements(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep fields, of any type."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.bases = [self.visit(b) for b in node.bases]
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                item.annotation = ast.Name("object", ast.Load())
                item.value = item.value and self.visit(item.value)
            elif isinstance(item, ast.FunctionDef):
                self.visit(item)
        node.body = [item for item in node.body if not _is_text(item)]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Bind the arguments."""
        self._defaults(node.args)
        self._inside(_arguments(node.args), lambda: setattr(node, "body", self.visit(node.body)))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Bind what a comprehension walks along."""
        if not isinstance(node, COMPREHENSIONS):
            return super().generic_visit(node)
        names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        visit = super().generic_visit
        self._inside(names, lambda: visit(node))
        return node

    def _inside(self, names: Iterable[str], visit: Callable[[], object]) -> None:
        self._bound.append(set(names))
        visit()
        self._bound.pop()

    def _statements(self, node: ast.FunctionDef) -> None:
        rest = [item for item in node.body if not _is_text(item)]
        node.body = [new for item in rest if (new := self.visit(item)) is not None] or [ast.Pass()]

    def _defaults(self, arguments: ast.arguments) -> None:
        for argument in [*_parameters(arguments), arguments.vararg, arguments.kwarg]:
            if argument is not None:
                argument.annotation = None
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and self.visit(d) for d in arguments.kw_defaults]

    # -- expressions --
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Leave the type out."""
        if node.value is None:
            return None
        return ast.Assign([self.visit(node.target)], self.visit(node.value), lineno=node.lineno)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave out what is said to type checkers alone: ``cast`` and the elements of an empty list."""
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and len(node.args) == 2:
            return self.visit(node.args[1])  # type: ignore[no-any-return]  # ast leaves it open
        made = node.func.value if isinstance(node.func, ast.Subscript) else None
        if isinstance(made, ast.Name) and made.id in {"list", "dict", "set", "tuple"}:
            node.func = made
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace an outer name."""
        if any(node.id in names for names in self._bound):
            return node
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)
        text = self.texts.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body


def _is_text(item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _arguments(arguments: ast.arguments) -> set[str]:
    found = [*_parameters(arguments), arguments.vararg, arguments.kwarg]
    return {a.arg for a in found if a is not None}


def _list_bindings(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, but for those within functions of their own."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from [alias.asname or alias.name for alias in node.names]
        waiting += ast.iter_child_nodes(node)
