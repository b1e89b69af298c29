"""The page of derivatives: each operation's rules as they stand in the code, for whoever checks the mathematics."""

from __future__ import annotations

import ast
import functools
import html
import inspect
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from afx.core.primitive import Primitive, primitives

__all__ = ["derivative_page", "rules_of"]

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Derivatives</title><style>
body { font: 15px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }
pre { margin: 0.2em 0; font-size: 13px; } td { vertical-align: top; padding: 0.2em 1em 0.2em 0; border-top: 1px solid #ccc; }
</style></head><body><h1>Derivatives</h1>
<p>z is the result, x and y are operands, ct is the cotangent of the result. A partial is what the cotangent is multiplied
with, a number where it is always that; a transpose maps the cotangent; all other rules stand as they are written.
Functions are afx's own.</p>"""


def rules_of(primitive: Primitive) -> list[str]:
    """Return the source of an operation's derivative, rule by rule, as it stands beside it; none where it has none.

    >>> from afx.core.primitive import lookup
    >>> rules_of(lookup("sin")), rules_of(lookup("multiply")), rules_of(lookup("floor"))
    (['lambda _z, x: cos(x)'], ['lambda _z, _x, y: y', 'lambda _z, x, _y: x'], [])
    """
    rules = primitive.derivative
    roots = [*(rules.vjps or ()), rules.vjp_all, rules.concrete_vjp, rules.through]
    if not any(roots):
        return []
    written = [rule for root in filter(None, [*roots, rules.jvp]) for rule in _written(root, set())]
    for rule in written:  # which grows: a rule stands with the private functions of its file that it calls
        if isinstance(rule, FunctionType):
            called = [rule.__globals__.get(name) for name in rule.__code__.co_names if name.startswith("_")]
            own = [f for f in called if isinstance(f, FunctionType) and f.__module__ == rule.__module__]
            written += [f for f in own if f not in written]
    return list(dict.fromkeys(_source(rule) if isinstance(rule, FunctionType) else str(rule) for rule in written))


def _written(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the rules that a file of operations wrote, and that a kind has made others of: functions and signs."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        yield from _written(value.func, seen)
    elif value.__class__ in {tuple, list}:
        for item in value:
            yield from _written(item, seen)
    elif isinstance(value, FunctionType):
        if "_kinds" not in value.__code__.co_filename:
            yield value
            return
        held = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        for name, cell in held.items():
            if name == "sign":
                yield cell.cell_contents
            elif name.startswith(("partial", "transpose", "pull", "read", "rule", "vjp", "solve", "own")):
                yield from _written(cell.cell_contents, seen)


@functools.cache
def _nodes(file: str) -> dict[tuple[int, int], str]:
    """Return the text of each function of a file by the place of the first expression or statement in it."""
    text = "".join(linecache.getlines(file))
    found = dict[tuple[int, int], str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            found[node.body.lineno, node.body.col_offset] = ast.unparse(node)
        elif isinstance(node, ast.FunctionDef):
            found[node.lineno, -1] = ast.get_source_segment(text, node) or ""
    return found


def _source(function: Callable[..., Any]) -> str:
    code: CodeType = inspect.unwrap(function).__code__
    nodes = _nodes(code.co_filename)
    if code.co_name != "<lambda>":
        return nodes.get((code.co_firstlineno, -1), code.co_name)
    places = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    return next((nodes[place] for place in sorted(places) if place in nodes), "lambda")


def _home(primitive: Primitive) -> str:
    """Return the file that an operation's first rule stands in, from elementwise functions to loops."""
    rules = filter(
        None, [*(primitive.derivative.vjps or ()), primitive.derivative.vjp_all, primitive.derivative.concrete_vjp]
    )
    written = [r for rule in rules for r in _written(rule, set()) if isinstance(r, FunctionType)]
    path = inspect.unwrap(written[0]).__code__.co_filename if written else "afx/by signs alone"
    return path[path.rindex("afx/") :]


def _place(home: str) -> tuple[bool, bool, str]:
    return not home.startswith("afx/ops/"), not home.startswith("afx/ops/elementwise/"), home


def derivative_page() -> str:
    """Return the page: operations by the files that they stand in, elementwise ones first, loops and transformations last."""
    rows = dict[str, list[str]]()
    without = list[str]()
    for p in primitives():
        rules = "".join(f"<pre>{html.escape(rule)}</pre>" for rule in rules_of(p))
        if rules:
            row = f'<tr id="{p.name}"><td><b>{p.name}</b></td><td>{p.kind}</td><td>{rules}</td></tr>'
            rows.setdefault(_home(p), []).append(row)
        else:
            without.append(f'<code id="{p.name}">{p.name}</code>')
    homes = sorted(rows, key=_place)
    contents = [f'<li><a href="#{html.escape(home)}">{html.escape(home)}</a></li>' for home in homes]
    lines = [HEAD, "<ul>", *contents, "</ul>"]
    for home in homes:
        lines += [f'<h2 id="{html.escape(home)}">{html.escape(home)}</h2><table>', *rows[home], "</table>"]
    return "\n".join([*lines, "<h2>Without a derivative</h2><p>", *without, "</p></body></html>\n"])
