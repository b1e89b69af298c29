"""Rewriting: a program's imports and names of another library, replaced in its text by afx's, and what is left named."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import attrs

__all__ = ["Edit", "Library", "Migration", "Remark", "chain_of", "end_of", "rewrite"]


class Edit(NamedTuple):
    """A stretch of text, from one (line, column in bytes) to another, and what takes its place."""

    start: tuple[int, int]
    stop: tuple[int, int]
    text: str


class Remark(NamedTuple):
    """What is left to do in a line."""

    line: int
    name: str
    advice: str


@attrs.frozen
class Library:
    """What is known of a library whose programs are rewritten.

    Attributes:
        roots: its packages.
        guide: the guide that compares it with afx.
        modules: modules by the module that has their names, under the same names.
        renamed: names by the name that stands for them.
        advice: names that have another form, or modules of such names, by what to write.
        setting: the line by which a program that runs by itself has its dtypes, but where it sets them itself.
        sets: what such a program says, in small letters.
        notes: names that are rewritten and yet differ, by what to look at.
    """

    roots: Collection[str]
    guide: str
    modules: Mapping[str, str]
    renamed: Mapping[str, str]
    advice: Mapping[str, str]
    setting: str = ""
    sets: str = ""
    notes: Mapping[str, str] = {}

    def owns(self, dotted: str) -> bool:
        """Tell whether a dotted name is one of the library."""
        return dotted.partition(".")[0] in self.roots

    def stands_in(self, root: str) -> bool:
        """Tell whether one module of the tool has all names of a package, under its name."""
        return self.modules.get(root, "").startswith("afx.migrate.")

    def resolve(self, dotted: str) -> str | None:
        """Return the name that stands for a dotted name, or None where it has another form."""
        if dotted in self.renamed:
            return self.renamed[dotted]
        if dotted in self.modules:
            return self.modules[dotted]
        home, _, name = dotted.rpartition(".")
        if not home or dotted in self.advice:
            return None
        if home in self.modules:
            target = f"{self.modules[home]}.{name}"
            return target if find(target) else None
        if home in self.advice:
            return None
        parent = self.resolve(home) if home not in self.roots else None
        if not parent or (find(parent) and inspect.ismodule(_look_up(parent)) and not find(f"{parent}.{name}")):
            return None
        return f"{parent}.{name}"  # an attribute of a value

    def advice_on(self, dotted: str) -> str:
        """Return what to write instead of a name that has another form."""
        parts = dotted.split(".")
        prefixes = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        advice = next((self.advice[p] for p in prefixes if p in self.advice), None)
        home, _, name = dotted.rpartition(".")
        if advice is None and home in self.modules:
            try:
                _look_up(f"{self.modules[home]}.{name}")
            except AttributeError as error:
                return str(error)
        return f"write {advice}" if advice else f"afx has nothing of this name; see examples/guides/{self.guide}"


def find(target: str) -> bool:
    """Tell whether a dotted name is there: a module of NumPy's or afx's, or a name in one.

    >>> find("afx.numpy.linalg.norm"), find("afx.nowhere")
    (True, False)
    """
    try:
        _look_up(target)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def _look_up(target: str) -> Any:
    """Return the object of a dotted name, importing the modules on the way.

    Raises:
        AttributeError: there is none.
    """
    root, *names = target.split(".")
    value: Any = importlib.import_module(root)
    path = root
    for name in names:
        path = f"{path}.{name}"
        try:
            value = getattr(value, name)
        except AttributeError:
            if not hasattr(value, "__path__"):
                raise
            try:
                value = importlib.import_module(path)
            except ModuleNotFoundError:
                pass
            else:
                continue
            raise
    return value


def arguments_of(target: str) -> tuple[list[str] | None, float]:
    """Return the names of a function's arguments, None where it takes any or tells none, and how many it takes by place."""
    try:
        given = inspect.signature(_look_up(target)).parameters.values()
    except (AttributeError, ImportError, TypeError, ValueError):
        return None, math.inf
    kinds = [p.kind for p in given]
    most = (
        math.inf
        if inspect.Parameter.VAR_POSITIONAL in kinds
        else sum(k <= p.POSITIONAL_OR_KEYWORD for k, p in zip(kinds, given, strict=True))
    )
    return None if inspect.Parameter.VAR_KEYWORD in kinds else [p.name for p in given], most


class Migration(ast.NodeVisitor):
    """What is to be changed in one file, and what is left."""

    def __init__(self, source: str, library: Library) -> None:
        self.library: Library = library
        self.lines: list[bytes] = source.encode().splitlines(keepends=True)
        self.edits: list[Edit] = []
        self.remarks: list[Remark] = []
        self.bound: dict[str, str] = {}  # names of the file that stand for names of the library
        self.imported: set[str] = set()  # packages that the rewritten imports bind by their own names
        self.named: bool = False  # whether a line says to import afx
        self.needed: set[str] = set()  # and those that rewritten names ask for
        self.around: list[ast.stmt] = []  # the statements that are looked at
        self.used: set[str] = set()  # names that are read

    def visit_Import(self, node: ast.Import) -> None:
        """Rewrite ``import autograd.numpy as np``."""
        if not any(self.library.owns(a.name) for a in node.names):
            return
        lines: list[ast.stmt] = []
        for alias in node.names:
            lines += self._import(node.lineno, alias) if self.library.owns(alias.name) else [ast.Import([alias])]
        self._replace(node, lines)

    def _import(self, line: int, alias: ast.alias) -> list[ast.stmt]:
        """Return what stands for the import of a module of the library."""
        root = alias.name.split(".")[0]
        if alias.asname is None and self.library.stands_in(root):
            alias = ast.alias(root, root)
        self.bound[alias.asname or root] = alias.name if alias.asname else root
        target = self.library.resolve(alias.name)
        if target is None or (alias.asname is None and target not in self.library.modules.values()):
            if not alias.asname or alias.name in self.library.advice or self._has_names(alias.name):
                self.imported.add("afx")
                return [_importing("afx", None)]
            self.remarks.append(Remark(line, alias.name, self.library.advice_on(alias.name)))
            self.bound.pop(alias.asname, None)  # all of it stays
            return [ast.Import([alias])] if alias.asname in self.used else []
        if alias.asname is None or alias.asname == target:
            self.imported |= {target.split(".")[0], target}
        return [_importing(target, alias.asname, target in self.library.modules.values())]

    def _has_names(self, module: str) -> bool:
        """Tell whether names of a module are known, one by one."""
        return any(name.startswith(f"{module}.") for name in (*self.library.renamed, *self.library.modules))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Rewrite ``from autograd import grad``."""
        module = str(node.module)
        if node.level or not self.library.owns(module):
            return
        lines: list[ast.stmt] = []
        homes: dict[str, list[ast.alias]] = {}
        for alias in node.names:
            lines += self._import_name(node.lineno, module, alias, homes)
        lines += [ast.ImportFrom(home, names, 0) for home, names in homes.items()]
        self._replace(node, lines)

    def _import_name(
        self, line: int, module: str, alias: ast.alias, homes: dict[str, list[ast.alias]]
    ) -> list[ast.stmt]:
        """Return statements for a name imported from a module, or add it to the imports from its home."""
        dotted, own = f"{module}.{alias.name}", alias.asname or alias.name
        home = self.library.resolve(module)
        target = (f"{home}.*" if home else None) if alias.name == "*" else self.library.resolve(dotted)
        if target is None and self._has_names(dotted):
            self.bound[own] = dotted
            self.needed.add("afx")
            return []
        if target is None:
            self.remarks.append(Remark(line, dotted, self.library.advice_on(dotted)))
            if own in {*self.used, "*"}:
                homes.setdefault(module, []).append(alias)
            return []
        self.bound[own] = dotted
        self._note(line, dotted, dotted)
        home, _, name = target.rpartition(".")
        if not home:
            return [_importing(target, own)]
        if name != "*" and find(home) and not inspect.ismodule(_look_up(home)):  # a name of an object, such as a law's
            return [
                ast.Import([ast.alias(home.rpartition(".")[0])]),
                *ast.parse(f"{alias.asname or name} = {target}").body,
            ]
        shown = alias.asname or (None if name == alias.name else alias.name)
        homes.setdefault(home, []).append(ast.alias(name, shown))
        return []

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Rewrite ``autograd.jacobian``, and look up what is asked of NumPy's namespace."""
        chain = chain_of(node)
        if chain is None or chain[0] not in self.bound:
            self.generic_visit(node)
            return
        root, *rest = chain
        home = self.bound[root]
        dotted = ".".join([home, *rest])
        target = self.library.resolve(dotted)
        old = self.library.resolve(home)
        if target is None:
            self.remarks.append(Remark(node.lineno, ".".join(chain), self.library.advice_on(dotted)))
            if old is None or (root == home and not self.library.stands_in(home)):  # the import binds another name
                self._keep(f"import {home}" + (f" as {root}" if root != home else ""))
            return
        self._note(node.lineno, ".".join(chain), dotted)
        own = home not in self.library.roots or root != home or self.library.stands_in(home)
        stays = own and old is not None and target.startswith(f"{old}.")
        stays = stays and (old != "afx" or not target.startswith("afx.migrate."))
        text = root + target[len(old or "") :] if stays else target
        if text == target:
            self.needed.add(_home_of(target))
        if text != ".".join(chain):
            self.put(node, text)

    def visit_Name(self, node: ast.Name) -> None:
        """Keep the import of a module that is passed on, as in ``dir(jax)``."""
        if self.bound.get(node.id) == node.id in self.library.roots and not self.library.stands_in(node.id):
            self.remarks.append(
                Remark(node.lineno, node.id, f"{node.id} itself is passed on: name what is meant of it")
            )
            self._keep(f"import {node.id}")

    def _keep(self, text: str) -> None:
        """Import what a name that is left needs in its own line, which goes when that is edited."""
        node = self.around[-1]
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert, ast.Raise)):
            place, text = (node.lineno, node.col_offset), f"{text}; "
        else:
            place, text = (_first_line(self.around[0]), 0), f"{text}\n"
        self.edits.append(Edit(place, place, text))

    def put(self, node: ast.expr, text: str) -> None:
        """Write a text where a node stands."""
        self.edits.append(Edit((node.lineno, node.col_offset), end_of(node), text))

    def _note(self, line: int, name: str, dotted: str) -> None:
        """Remark on a name that is rewritten and differs."""
        if dotted in self.library.notes:
            self.remarks.append(Remark(line, name, self.library.notes[dotted]))

    def visit_Call(self, node: ast.Call) -> None:
        """Rewrite calls of what is no function: none."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Rewrite classes that are made otherwise: none."""

    def _replace(self, node: ast.stmt, lines: list[ast.stmt]) -> None:
        before = self.lines[node.lineno - 1][: node.col_offset]
        between = "; " if before.strip() else f"\n{before.decode()}"
        texts = list(dict.fromkeys(map(ast.unparse, lines)))
        text = between.join(texts) or "import afx"
        stop = end_of(node)
        if text == "import afx" and self.named and not before and not self.lines[stop[0] - 1][stop[1] :].strip():
            text, stop = "", (stop[0] + 1, 0)  # once is enough
            self.lines += [b""] * (stop[0] - len(self.lines))
        if text == "import afx" and not before:
            self.named = True
        self.imported |= {"afx"} if "import afx" in (*texts, text) else set()
        self.edits.append(Edit((node.lineno, node.col_offset), stop, text))

    def begin(self, tree: ast.Module) -> None:
        """Import what rewritten names need behind the first imports, and set the dtypes of a program that runs by itself."""
        setting, sets = self.library.setting, self.library.sets.encode()
        runs = any(map(_runs, tree.body)) and sets not in b"".join(self.lines).lower()
        wanted = (self.needed | {_home_of(setting)} if runs else self.needed) - self.imported
        first = [node for n, node in enumerate(tree.body) if not (n == 0 and _is_text(node))]
        count = next(
            (n for n, node in enumerate(first) if not isinstance(node, (ast.Import, ast.ImportFrom))), len(first)
        )
        if not self.edits or not first or not (runs or wanted):
            return
        line = (first[count - 1].end_lineno or 0) + 1 if count else _first_line(first[0])
        imports = [f"import {name}" for name in sorted(wanted)]
        text = "".join([f"{line}\n" for line in imports]) + (f"\n{setting}\n" if runs else "")
        self.lines += [b""] * (line - len(self.lines))
        self.edits.append(Edit((line, 0), (line, 0), text))


def _importing(target: str, name: str | None, is_module: bool = True) -> ast.stmt:
    home, _, last = target.rpartition(".")
    if name and home and not is_module:
        return ast.ImportFrom(home, [ast.alias(last, name)], 0)
    return ast.Import([ast.alias(target, None if name == target else name)])


def _first_line(node: ast.AST) -> int:
    """Return the first line of a statement, or of its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([n.lineno for n in (node, *decorators) if isinstance(n, (ast.stmt, ast.expr))])


def _home_of(target: str) -> str:
    """Return what is imported for a dotted name of afx's."""
    return ".".join(target.split(".")[: 3 if target.startswith("afx.migrate.") else 1])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _runs(node: ast.stmt) -> bool:
    """Tell whether a statement of a file does something by itself."""
    return isinstance(node, (ast.Expr, ast.For, ast.While, ast.With, ast.If)) and not _is_text(node)


def end_of(node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
    """Return where a node ends in the text."""
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def chain_of(node: ast.expr) -> list[str] | None:
    """Return the names of ``a.b.c``, or None where the first is no name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def rewrite(source: str, library: Library, kind: type[Migration] = Migration) -> tuple[str, list[Remark]]:
    """Return a program with the names of a library rewritten, and remarks on what is left.

    Raises:
        SyntaxError: it is no Python.
    """
    migration = kind(source, library)
    tree = ast.parse(source)
    statements = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    migration.used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for statement in statements:  # before the names that they bind are looked at
        migration.visit(statement)
    for node in tree.body:
        _visit_rest(migration, node)
    migration.begin(tree)
    lines = migration.lines
    for edit in sorted(set(migration.edits), key=_place_of, reverse=True):
        (first, left), (last, right) = edit.start, edit.stop
        joined = lines[first - 1][:left] + edit.text.encode() + lines[last - 1][right:]
        lines[first - 1 : last] = [joined]
    return b"".join(lines).decode(), sorted(set(migration.remarks))


def _place_of(edit: Edit) -> tuple[tuple[int, int], tuple[int, int], bool, str]:
    """Return the order of edits: of two that put text in one place, imports come first in the text."""
    return edit.start, edit.stop, not edit.text.startswith("import "), edit.text


def _visit_rest(migration: Migration, node: ast.AST) -> None:
    """Visit everything but imports, which were visited."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return
    is_statement = isinstance(node, ast.stmt)
    if isinstance(node, ast.stmt):
        migration.around.append(node)
    if isinstance(node, ast.ClassDef):
        migration.visit_ClassDef(node)
    if isinstance(node, ast.Call):
        migration.visit_Call(node)
    if isinstance(node, ast.Name):
        migration.visit_Name(node)
    if isinstance(node, ast.Attribute):
        migration.visit_Attribute(node)
        if chain_of(node) is not None:
            return
    for child in ast.iter_child_nodes(node):
        _visit_rest(migration, child)
    if is_statement:
        migration.around.pop()
