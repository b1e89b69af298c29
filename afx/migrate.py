"""Migration: ``python -m afx.migrate autograd PATH`` rewrites the imports of programs, and names what is left to do.

Files are read as Python and only the imports, and names such as ``autograd.jacobian``, are replaced; the rest of the text
stays as it is. What has another form in afx is printed with its line and what to write.
"""

from __future__ import annotations

import argparse
import ast
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import afx.numpy as namespace

__all__ = ["Edit", "Remark", "main", "migrate_source"]

# Modules of autograd whose names afx has under the same names.
MODULES = {
    "autograd": "afx",
    "autograd.numpy": "afx.numpy",
    "autograd.numpy.fft": "afx.numpy.fft",
    "autograd.numpy.linalg": "afx.numpy.linalg",
    "autograd.numpy.random": "afx.numpy.random",
    "autograd.scipy.linalg": "afx.linalg",
    "autograd.scipy.special": "afx.special",
    "autograd.scipy.stats": "afx.stats",
}
SAME = frozenset({"checkpoint", "elementwise_grad", "grad", "hessian", "numpy", "value_and_grad"})  # of autograd itself
RENAMED = {
    "autograd.builtins.dict": "builtins.dict",
    "autograd.builtins.isinstance": "builtins.isinstance",
    "autograd.builtins.list": "builtins.list",
    "autograd.builtins.tuple": "builtins.tuple",
    "autograd.jacobian": "afx.jacrev",
    "autograd.misc.flatten": "afx.pytree.ravel",
    "autograd.misc.flatten.flatten": "afx.pytree.ravel",
    "autograd.numpy.random": "afx.numpy.random",
    "autograd.scipy.signal.convolve": "afx.convolve",
    "autograd.scipy.special.logsumexp": "afx.logsumexp",
}
# What has another form: what to write.
ADVICE = {
    "autograd.core": "afx.is_traced(x) tells traced arrays, afx.stop_gradient(x) gives their values",
    "autograd.deriv": "afx.jvp(fn, (x,), (1.0,))[1]",
    "autograd.extend": "afx.custom_vjp(fn, forward, backward), or an op: examples/guides/extending.md",
    "autograd.grad_and_aux": "afx.grad(fn, has_aux=True)",
    "autograd.grad_named": "afx.grad(fn, argnames=name)",
    "autograd.hessian_tensor_product": "afx.hvp(fn, (x,), (v,))",
    "autograd.hessian_vector_product": "afx.hvp(fn, (x,), (v,))",
    "autograd.holomorphic_grad": "afx.grad(fn, holomorphic=True)",
    "autograd.make_ggnvp": "afx.jvp and afx.vjp, one after the other",
    "autograd.make_hvp": "lambda v: afx.hvp(fn, (x,), (v,))",
    "autograd.make_jvp": "afx.jvp(fn, primals, tangents), which returns value and tangent",
    "autograd.make_vjp": "afx.vjp(fn, *primals), which returns value and pullback",
    "autograd.misc.fixed_points": "afx.optim.fixed_point(fn, start)",
    "autograd.misc.optimizers": "afx.optim.adam(step).step(params, grads, state), or afx.optim.minimize(fn, start)",
    "autograd.multigrad_dict": "afx.grad(fn, argnames=names)",
    "autograd.scipy.integrate": "afx.integrate.odeint(fn, y0, t), whose fn is called as fn(y, t) with keyword arguments behind",
    "autograd.test_util": "afx.testing.check_grads(fn, args)",
    "autograd.tracer": "afx.stop_gradient(x) instead of getval(x)",
    "autograd.vector_jacobian_product": "afx.vjp(fn, x)[1](v)",
}


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


def resolve(dotted: str) -> str | None:
    """Return the name in afx of a dotted name of autograd, or None where it has another form.

    >>> resolve("autograd.numpy.linalg.norm"), resolve("autograd.jacobian"), resolve("autograd.extend.primitive")
    ('afx.numpy.linalg.norm', 'afx.jacrev', None)
    """
    if dotted in RENAMED:
        return RENAMED[dotted]
    if dotted in MODULES:
        return MODULES[dotted]
    home, _, name = dotted.rpartition(".")
    if home == "autograd" and name not in SAME:
        return None
    if home in MODULES:
        return f"{MODULES[home]}.{name}"
    parent = resolve(home) if home.startswith("autograd.") and home not in ADVICE else None  # an attribute of a value
    return f"{parent}.{name}" if parent and home not in ("autograd.scipy", "autograd.misc") else None


def advice_on(dotted: str) -> str:
    """Return what to write instead of a name that has another form."""
    parts = dotted.split(".")
    prefixes = [".".join(parts[:n]) for n in range(len(parts), 1, -1)]
    advice = next((ADVICE[p] for p in prefixes if p in ADVICE), None)
    return f"write {advice}" if advice else "afx has nothing of this name; see examples/guides/from_autograd.md"


class Migration(ast.NodeVisitor):
    """What is to be changed in one file, and what is left."""

    def __init__(self, source: str) -> None:
        self.lines: list[bytes] = source.encode().splitlines(keepends=True)
        self.edits: list[Edit] = []
        self.remarks: list[Remark] = []
        self.bound: dict[str, str] = {}  # names of the file that stand for modules of autograd

    def visit_Import(self, node: ast.Import) -> None:
        """Rewrite ``import autograd.numpy as np``."""
        if not any(a.name.split(".")[0] == "autograd" for a in node.names):
            return
        lines: list[ast.stmt] = []
        for alias in node.names:
            target = resolve(alias.name) if alias.name.split(".")[0] == "autograd" else alias.name
            if target is None:
                self.remarks.append(Remark(node.lineno, alias.name, advice_on(alias.name)))
            if target is None or target == alias.name:
                lines.append(ast.Import([alias]))
                continue
            self.bound[alias.asname or "autograd"] = alias.name if alias.asname else "autograd"
            home, _, name = target.rpartition(".")
            is_value = bool(alias.asname) and target not in MODULES.values()
            new = ast.ImportFrom(home, [ast.alias(name, alias.asname)], 0)
            lines.append(new if is_value else ast.Import([ast.alias(target, alias.asname)]))
        self._replace(node, lines)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Rewrite ``from autograd import grad``."""
        if node.level or (node.module or "").split(".")[0] != "autograd":
            return
        homes: dict[str, list[ast.alias]] = {}
        for alias in node.names:
            dotted = f"{node.module}.{alias.name}"
            target = (
                f"{resolve(str(node.module))}.*" if alias.name == "*" and resolve(str(node.module)) else resolve(dotted)
            )
            if target is None:
                self.remarks.append(Remark(node.lineno, dotted, advice_on(dotted)))
                homes.setdefault(str(node.module), []).append(alias)
                continue
            home, _, name = target.rpartition(".")
            self.bound[alias.asname or alias.name] = dotted
            shown = alias.asname or (None if name == alias.name else alias.name)
            homes.setdefault(home, []).append(ast.alias(name, shown))
        self._replace(node, [ast.ImportFrom(home, names, 0) for home, names in homes.items()])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Rewrite ``autograd.jacobian``, and look up what is asked of NumPy's namespace."""
        chain = _chain(node)
        if chain is None or chain[0] not in self.bound:
            self.generic_visit(node)
            return
        root, *rest = chain
        dotted = ".".join([self.bound[root], *rest])
        target = resolve(dotted)
        if target is None:
            self.remarks.append(Remark(node.lineno, ".".join(chain), advice_on(dotted)))
            return
        self._look_up(node, chain, target)
        old = resolve(self.bound[root])
        kept = old is not None and root != "autograd" and target.startswith(f"{old}.")
        text = root + target[len(old or "") :] if kept else target
        if text != ".".join(chain):
            self.edits.append(Edit((node.lineno, node.col_offset), _end(node), text))

    def _look_up(self, node: ast.Attribute, chain: list[str], target: str) -> None:
        """Remark on a name that `afx.numpy` does not have."""
        path = target.split(".")
        value: Any = namespace
        if path[:2] != ["afx", "numpy"]:
            return
        try:
            for name in path[2:]:
                value = getattr(value, name)
        except AttributeError as error:
            self.remarks.append(Remark(node.lineno, ".".join(chain), str(error)))

    def _replace(self, node: ast.stmt, lines: list[ast.stmt]) -> None:
        before = self.lines[node.lineno - 1][: node.col_offset]
        between = "; " if before.strip() else f"\n{before.decode()}"
        text = between.join([ast.unparse(line) for line in lines])
        self.edits.append(Edit((node.lineno, node.col_offset), _end(node), text))


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _chain(node: ast.expr) -> list[str] | None:
    """Return the names of ``a.b.c``, or None where the first is no name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def migrate_source(source: str) -> tuple[str, list[Remark]]:
    """Return a program with its imports rewritten, and remarks on what is left.

    Raises:
        SyntaxError: it is no Python.

    >>> print(migrate_source("from autograd import grad, jacobian")[0])
    from afx import grad, jacrev as jacobian
    """
    migration = Migration(source)
    tree = ast.parse(source)
    statements = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    for statement in statements:  # before the names that they bind are looked at
        migration.visit(statement)
    for node in tree.body:
        _visit_rest(migration, node)
    lines = migration.lines
    for edit in sorted(migration.edits, reverse=True):
        (first, left), (last, right) = edit.start, edit.stop
        joined = lines[first - 1][:left] + edit.text.encode() + lines[last - 1][right:]
        lines[first - 1 : last] = [joined]
    return b"".join(lines).decode(), sorted(set(migration.remarks))


def _visit_rest(migration: Migration, node: ast.AST) -> None:
    """Visit everything but imports, which were visited."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.Attribute):
        migration.visit_Attribute(node)
        if _chain(node) is not None:
            return
    for child in ast.iter_child_nodes(node):
        _visit_rest(migration, child)


def files_below(path: Path) -> Iterator[Path]:
    """Yield a Python file itself, or those below a folder."""
    yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def main(arguments: list[str] | None = None) -> int:
    """Rewrite files, print what was changed and what is left, and return 1 where something is left."""
    parser = argparse.ArgumentParser(
        prog="python -m afx.migrate", description="rewrite the imports of programs for afx"
    )
    parser.add_argument("library", choices=["autograd"], help="the library that the programs use")
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders")
    parser.add_argument("--diff", action="store_true", help="print what would change, and write nothing")
    chosen = parser.parse_args(arguments)
    left = 0
    for path in [file for given in chosen.paths for file in files_below(given)]:
        left += _migrate_file(path, chosen.diff)
    print("numbers given to afx.grad by themselves are float32: begin with afx.set_default_dtype(afx.float64)")
    return 1 if left else 0


def _migrate_file(path: Path, only_show: bool) -> int:
    """Rewrite one file, and return how much is left."""
    source = path.read_bytes().decode("utf-8")
    try:
        migrated, remarks = migrate_source(source)
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: not read as Python: {error.msg}")
        return 1
    if only_show:
        old, new = (text.splitlines(keepends=True) for text in (source, migrated))
        print("".join(difflib.unified_diff(old, new, str(path), str(path))), end="")
    elif migrated != source:
        path.write_bytes(migrated.encode())
        print(f"{path}: imports are rewritten")
    for remark in remarks:
        print(f"{path}:{remark.line}: {remark.name}: {remark.advice}")
    return len(remarks)


if __name__ == "__main__":
    raise SystemExit(main())
