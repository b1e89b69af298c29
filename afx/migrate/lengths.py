"""Lengths: literal indices past the end of arrays whose shapes stand in the same file, where JAX reads the last element."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

__all__ = ["WORDS", "past_the_end"]

Shape = tuple[int | None, ...]
Scope = Mapping[str, Any]  # what names are: shapes, integers, or None
OF_SHAPES = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "normal": 1, "uniform": 1}  # by where the shape stands
LIKE = {"abs", "asarray", "array", "cos", "exp", "full_like", "log", "ones_like", "sin", "sqrt", "tanh", "zeros_like"}
COMPUTED = re.compile(
    r"(?!.*(clip|minimum|mod|remainder|%|int\()).*(searchsorted\(|digitize\(|astype\([\w.]*int)", re.DOTALL
)
SUM = re.compile(r"[\w ,+()-]+$")
WORDS = re.compile(r"\b[^\W\d]\w*\b(?! *[<=>&|])")  # but of comparisons
INTEGERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
}


def past_the_end(tree: ast.Module, name_of: Callable[[ast.expr], str]) -> Iterator[ast.Subscript]:
    """Yield what is read or updated at a known place outside of an array of known shape, or where numbers of floats lead.

    Args:
        tree: a program.
        name_of: what returns the dotted name of a function in its library.
    """
    yield from _in_scope(tree, {}, name_of)
    yield from _at_computed(tree)


def _at_computed(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Yield reads and updates at places that are rounded or searched, in place or by a name, and not held within bounds."""
    nodes = list(ast.walk(tree))
    pairs = [(ast.unparse(n.targets[0]), ast.unparse(n.value)) for n in nodes if isinstance(n, ast.Assign)]
    names = set[str]()
    for _ in range(3):  # and neighbors of these
        found = [
            to for to, text in pairs if COMPUTED.match(text) or (SUM.match(text) and names & {*WORDS.findall(text)})
        ]
        names |= {*WORDS.findall(" ".join(found))}
    for n in nodes:
        if (
            isinstance(n, ast.Subscript)
            and isinstance(n.ctx, ast.Load)
            and isinstance(n.value, (ast.Name, ast.Attribute))
        ):
            text = ast.unparse(n.slice)
            if COMPUTED.match(text) or names & {*WORDS.findall(text)}:
                yield n


def _in_scope(node: ast.AST, outer: Scope, name_of: Callable[[ast.expr], str]) -> Iterator[ast.Subscript]:
    """Yield those of a module or a function, whose names are those around it and its own."""
    inner: list[ast.AST] = []
    own: list[ast.AST] = []
    stack = list(ast.iter_child_nodes(node))
    while stack:
        child = stack.pop(0)
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        (inner if is_function else own).append(child)
        stack[:0] = [] if is_function else list(ast.iter_child_nodes(child))
    scope: dict[str, Any] = dict(outer)
    bound = [child for child in own if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
    scope |= dict.fromkeys([child.id for child in bound] + [child.arg for child in own if isinstance(child, ast.arg)])
    given: dict[str, list[Any]] = {}
    for child in own:
        if isinstance(child, ast.Assign) and len(child.targets) == 1 and isinstance(child.targets[0], ast.Name):
            name = child.targets[0].id
            given.setdefault(name, []).append(value := _value_of(child.value, scope, name_of))
            scope[name] = value
    for name, values in given.items():  # one and the same wherever the name is assigned
        count = sum(child.id == name for child in bound)
        scope[name] = values[0] if len(values) == count and all(v == values[0] for v in values) else None
    for child in own:
        if isinstance(child, ast.Subscript) and _is_outside(child, scope, name_of):
            yield child
    for child in inner:
        yield from _in_scope(child, scope, name_of)


def _is_outside(node: ast.Subscript, scope: Scope, name_of: Callable[[ast.expr], str]) -> bool:
    """Tell whether an element is named that an array of known shape has not."""
    array = node.value.value if isinstance(node.value, ast.Attribute) and node.value.attr == "at" else node.value
    known: Any = scope.get(array.id) if isinstance(array, ast.Name) else None
    if not isinstance(known, tuple) or not isinstance(node.ctx, ast.Load):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part, length in zip(parts, cast("Shape", known), strict=False):
        if isinstance(part, ast.Slice):
            continue
        place = _value_of(part, scope, name_of)
        if not isinstance(place, int):
            return False  # None, an ellipsis, arrays: axes are not counted on
        if length is not None and not -length <= place < length:
            return True
    return False


def _value_of(node: ast.expr, scope: Scope, name_of: Callable[[ast.expr], str]) -> Any:
    """Return an expression's integer or an array's shape, or None where neither is known."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return scope.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value_of(operand, scope, name_of)
            return -value if isinstance(value, int) else value
        case ast.BinOp(left=left, op=op, right=right):
            sides = [_value_of(side, scope, name_of) for side in (left, right)]
            if all(isinstance(side, int) for side in sides):
                return INTEGERS[type(op)](*sides) if type(op) in INTEGERS else None
            is_number = [isinstance(side, ast.Constant) for side in (left, right)]
            return sides[0] if sides[0] == sides[1] or is_number[1] else sides[1] if is_number[0] else None
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(value=array, attr="at")))):
            return _value_of(array, scope, name_of)  # an update
        case ast.Call(func=func, args=args, keywords=keywords):
            home, _, name = name_of(func).rpartition(".")
            words = {k.arg: k.value for k in keywords if k.arg}
            values = [_value_of(x, scope, name_of) for x in args]
            return _shape_of(name, args, values, words, scope, name_of) if home in ("jax.numpy", "jax.random") else None
        case _:
            return None


def _shape_of(
    name: str, args: list[ast.expr], values: list[Any], words: dict[str, ast.expr], scope: Scope, name_of: Any
) -> Shape | None:
    """Return the shape of what a function of JAX makes."""
    place = OF_SHAPES.get(name)
    if place is not None:
        shape = args[place] if len(args) > place else words.get("shape")
        parts = shape.elts if isinstance(shape, ast.Tuple) else [shape] if shape is not None else []
        return tuple([_integer(_value_of(part, scope, name_of)) for part in parts])
    if name == "linspace":
        count = args[2] if len(args) > 2 else words.get("num", ast.Constant(50))
        return (_integer(_value_of(count, scope, name_of)),)
    if name == "eye" and len(args) == 1:
        return _integer(values[0]), _integer(values[0])
    if name == "arange" and args and all(isinstance(value, int) for value in values):
        start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
        return (max(math.ceil((stop - start) / step), 0),) if step else None
    if name in ("array", "asarray") and args and isinstance(args[0], (ast.List, ast.Tuple)):
        return _shape_of_list(args[0])
    return cast("Shape", values[0]) if name in LIKE and values and isinstance(values[0], tuple) else None


def _shape_of_list(node: ast.List | ast.Tuple) -> Shape:
    """Return the shape of an array of what a list holds: its length, and those of lists in it where they are known."""
    if any(isinstance(part, ast.Starred) for part in node.elts):
        return (None,)
    rows = [_shape_of_list(part) for part in node.elts if isinstance(part, (ast.List, ast.Tuple))]
    return len(node.elts), *(rows[0] if rows and all(row == rows[0] for row in rows) else ())


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None
