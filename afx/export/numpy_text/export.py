"""Export to NumPy: a function of trees as one file of Python that needs NumPy alone."""

from __future__ import annotations

import builtins
import keyword
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from afx.compiler.schedule.schedule import ScanSpec
from afx.core.graph import Graph, Literal
from afx.core.tracing.tracer import caller, places_of
from afx.errors import ExportError
from afx.export.numpy_text.carry import STAND_IN_NAMES
from afx.export.numpy_text.table import NUMPY
from afx.export.numpy_text.writer import Module, NumpyWriter, dtype_text
from afx.export.templates import Names, Walk, name_function
from afx.export.traced import Slot, Traceable, argument_names, escape_line, trace_program
from afx.pytree import TreeDef
from afx.pytree.nodes import LEAF, DictNode, Node, RecordNode

# --- Trees as plain Python: how a leaf of an argument is read, and how a result is put together


def leaf_texts(treedef: TreeDef[Any], roots: Sequence[str]) -> list[str]:
    """Return how each leaf of a tuple of arguments is read; classes are dicts of their fields.

    >>> from afx import pytree
    >>> leaf_texts(pytree.structure(({"w": [1.0, 2.0]}, 3.0)), ["params", "x"])
    ["params['w'][0]", "params['w'][1]", 'x']
    """
    texts: list[str] = []
    waiting = [iter(roots)]  # the texts of the children that are still to come, of each node that is open
    tokens = iter(treedef.tokens)
    next(tokens)
    if len(treedef.tokens) == 1:
        return list(roots)
    for token in tokens:
        while (text := next(waiting[-1], None)) is None:
            waiting.pop()
        if token is LEAF:
            texts.append(text)
        elif isinstance(token, Node):
            children = [f"{text}{step}" for step in _steps(token)]
            if token.is_flat:
                texts += children
            else:
                waiting.append(iter(children))
    return texts


def _steps(node: Node) -> Iterator[str]:
    if isinstance(node, DictNode):
        yield from (f"[{_key_text(key)}]" for key in node.keys)
    elif not isinstance(node, RecordNode):
        yield from node.steps()
    elif issubclass(node.kind, tuple):
        yield from (f"[{k}]" for k in range(node.arity))
    else:
        yield from (f"[{name!r}]" for name in node.names)


def tree_text(treedef: TreeDef[Any], leaves: Sequence[str]) -> str:
    """Return the expression of a tree of these leaves; classes are dicts of their fields.

    >>> from afx import pytree
    >>> tree_text(pytree.structure({"b": 1.0, "a": (2.0, None)}), ["x", "y"])
    "{'a': (x, None), 'b': y}"
    """
    rest, built = list(leaves), list[str]()
    for token in reversed(treedef.tokens):
        if token is LEAF:
            built.append(rest.pop())
        elif isinstance(token, tuple):
            built.append(_key_text(token[1]) if isinstance(token[1], (int, str)) else "None")
        elif isinstance(token, Node):
            if token.is_flat:
                children = [rest.pop() for _ in range(token.arity)][::-1]
            else:
                children = built[: -token.arity - 1 : -1]
                del built[-token.arity :]
            built.append(_show(token, children))
    return built[0]


def _show(node: Node, children: Sequence[str]) -> str:
    if isinstance(node, DictNode):
        return (
            f"{{{', '.join([f'{_key_text(key)}: {child}' for key, child in zip(node.keys, children, strict=True)])}}}"
        )
    if not isinstance(node, RecordNode):
        return node.show(children)
    if issubclass(node.kind, tuple):
        return f"({', '.join(children)}{',' * (len(children) == 1)})"
    return f"{{{', '.join([f'{name!r}: {child}' for name, child in zip(node.names, children, strict=True)])}}}"


def _key_text(key: object) -> str:
    """Return the literal that equals a key, members of enumerations as what they are made of.

    Raises:
        ExportError: there is none.
    """
    if key is None or isinstance(key, bool):
        return repr(key)
    if isinstance(key, str):
        return str.__repr__(key)
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, bytes):
        return bytes.__repr__(key)
    if isinstance(key, float) and math.isfinite(key):
        return float.__repr__(key)
    if key.__class__ is tuple:
        items: Any = key
        return f"({', '.join(map(_key_text, items))}{',' * (len(items) == 1)})"
    raise ExportError(f"to_numpy: a key that has no form as text: got {key!r}; use texts and numbers")


# --- Export to NumPy

TAKEN = frozenset(
    {*keyword.kwlist, *dir(builtins), *sys.stdlib_module_names, "np", "scipy", "take", "unpack", *STAND_IN_NAMES}
)
TAKE = '''
def take(x, dtype, shape, name):
    """Return an argument as an array of its dtype and shape."""
    x = np.asarray(x)
    if x.shape != shape or not np.can_cast(x.dtype, dtype, "same_kind"):
        raise ValueError(f"{name}: got {x.dtype}{list(x.shape)}; it takes {np.dtype(dtype)}{list(shape)}")
    return x.astype(dtype, copy=False)
'''


def to_numpy(fn: Callable[..., Any], /, *args: Any, name: str | None = None) -> str:
    """Return a function as the text of one file of Python, which needs NumPy alone: afx need not be installed.

    The text reads as a person writes NumPy: names are those of your arguments and variables, your lines stand above what became
    of them, loops are Python's. It gives the bits of the same function without ``jit``, denormal numbers too. Tuples, lists
    and dicts of arguments and results stay what they are; an attrs class is a dict of its fields (``attrs.asdict``). What the
    function closes over is in the file. Where a function of SciPy's is needed, the first lines say so.

    What NumPy has no function for (`softmax`, a convolution, random bits) comes with the source of afx's own, under the
    Apache License 2.0.

    Args:
        fn: a function of arrays, such as ``afx.value_and_grad(loss)``; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count.
        name: of the function in the file; by default its own.

    Raises:
        ExportError: an operation has no form in NumPy; the message names it and your line.

    >>> import afx
    >>> from afx import export
    >>> def bell(x):
    ...     return afx.exp(-(x**2) / 2.0)
    >>> print(export.to_numpy(bell, afx.zeros(3)).partition("def bell")[2])
    (x):
        x = take(x, np.float32, (3,), "x")
        return np.exp(np.square(x) * -0.5)
    <BLANKLINE>
    """
    program = trace_program(fn, args, "to_numpy", name)
    names = Names(TAKEN)
    title = names.make(name_function(program.name))
    walk, module = Walk(NUMPY, names, f"to_numpy: {program.name}"), Module(names)
    walk.check(program.graph)
    writer = NumpyWriter(walk, module, places_of([caller()])[0])
    roots = [names.make(root) for root in argument_names(fn, len(args))]
    read = leaf_texts(program.in_tree, roots)
    operands = _name_leaves(program, read, roots, names)
    results = walk.write(writer, program.graph, operands)
    shared = _find_shared(program.graph)
    results = [f"np.array({text})" if alias else text for text, alias in zip(results, shared, strict=True)]
    writer.end(f"return {tree_text(program.out_tree, results)}")
    body = [
        *[
            f"    {target} = take({text}, {dtype_text(slot.dtype)}, {slot.shape}, {_quote(slot.path)})"
            for target, text, slot in zip(operands, read, program.inputs, strict=True)
        ],
        *writer.lines(),
    ]
    return "\n".join([*_head(program, title, module), f"def {title}({', '.join(roots)}):", *body, ""])


def _name_leaves(program: Traceable, read: Sequence[str], roots: Sequence[str], names: Names) -> list[str]:
    """Return a name for each leaf, which is read so: the argument's own where that is one array."""
    return [text if text in roots else names.make(slot.path) for text, slot in zip(read, program.inputs, strict=True)]


def _quote(text: str) -> str:
    """Return the literal of a text."""
    plain = text.isprintable() and not set(text) & {'"', "\\"}
    return f'"{text}"' if plain else repr(text)


def _describe(slot: Slot) -> str:
    """Return a line of a docstring."""
    return escape_line(str(slot)).replace("\\", r"\\").replace('"', r"\"")


def _find_shared(graph: Graph) -> list[bool]:
    """Return which results may be the memory of an argument, or of a constant: views, and what loops carry."""
    made = {var.index: eq.primitive.lowering for eq in graph.equations for var in eq.outputs}
    loops = [
        (eq, eq.primitive.lowering.control(eq.keywords)) for eq in graph.equations if eq.primitive.lowering.control
    ]
    rows = {var.index for eq, spec in loops if isinstance(spec, ScanSpec) for var in eq.outputs[spec.carry :]}
    return [
        not isinstance(a, Literal)
        and a.index not in rows
        and (a.index not in made or made[a.index].may_alias or made[a.index].control is not None)
        for a in graph.outputs
    ]


def _head(program: Traceable, title: str, module: Module) -> list[str]:
    needs = sorted({"NumPy", *["SciPy" for line in module.imports if "scipy" in line]})
    says = f"{title}: written by afx.export.to_numpy; needs {' and '.join(needs)} alone."
    lines = [f"    {_describe(slot)}" for slot in program.inputs]
    results = [f"    {_describe(slot)}" for slot in program.outputs]
    imports = sorted(
        {"import numpy as np", *module.imports}, key=lambda line: ("numpy" in line or "scipy" in line, line)
    )
    parts = [part for text in (*module.parts, TAKE.strip()) for part in (text, "", "")]
    return [f'"""{says}', "", "Arguments:", *lines, "Results:", *results, '"""', "", *imports, "", "", *parts]
