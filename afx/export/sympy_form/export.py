"""Export to SymPy: a function, or its derivative, as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx import pytree
from afx.errors import ExportError
from afx.export.slots import Slot
from afx.export.sympy_form.table import SYMPY, Expressions, load_sympy
from afx.export.templates.names import Names
from afx.export.templates.walk import Walk
from afx.export.traced import trace_program

__all__ = ["to_sympy"]

ELEMENTS = 64  # of an argument: more of them are no expression that a person reads


def to_sympy(fn: Callable[..., Any], /, *args: Any, simplify: bool = True) -> Any:
    """Return a function, or its derivative, as expressions of SymPy: a notebook shows them as formulas.

    A number becomes a symbol of its argument's name; an array becomes one symbol an element. So ``sympy.latex``,
    ``sympy.diff``, ``sympy.series`` and others take what afx computes. Numbers are fractions where they are exactly that.

    Args:
        fn: a function of numbers and small arrays, such as ``afx.grad(bell)``; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count.
        simplify: whether ``sympy.simplify`` shortens each expression.

    Returns:
        The result's tree: an expression for each number, ``sympy.Array`` for each array.

    Raises:
        ExportError: an operation has no form in SymPy, or an argument has more than 64 elements.
        MissingExtraError: SymPy is not installed.

    >>> import afx, numpy as np
    >>> from afx import export
    >>> def bell(x, width):
    ...     return afx.exp(-((x / width) ** 2) / 2)
    >>> export.to_sympy(afx.grad(bell), np.float64(0.0), np.float64(1.0))
    -x*exp(-x**2/(2*width**2))/width**2
    """
    sympy, names = load_sympy(), Names()
    program = trace_program(fn, args, "to_sympy")
    where = f"to_sympy: {program.name}"
    walk = Walk(SYMPY, names, where)
    walk.check(program.graph)
    writer = Expressions(names.make)
    operands = [names.make(slot.path) for slot in program.inputs]
    for name, slot in zip(operands, program.inputs, strict=True):
        writer.values[name] = _symbols(sympy, name, slot, where)
    shorten = sympy.simplify if simplify else _keep
    found = [_result(sympy, writer.values[name], shorten) for name in walk.write(writer, program.graph, operands)]
    return pytree.unflatten(program.out_tree, found)


def _keep(expression: Any) -> Any:
    return expression


def _symbols(sympy: Any, name: str, slot: Slot, where: str) -> Any:
    if slot.size > ELEMENTS:
        raise ExportError(f"{where}: {slot.path} has too many elements to be read: got {slot}; pass at most {ELEMENTS}")
    kinds: dict[str, dict[str, bool]] = {"f": {"real": True}, "i": {"integer": True}, "u": {"integer": True}}
    if slot.dtype.kind == "b":
        raise ExportError(f"{where}: {slot.path} is a condition, no number: got {slot}; close over it")
    found = np.empty(slot.shape, object)
    for place in np.ndindex(slot.shape):
        label = "_".join([name, *map(str, place)])
        found[place] = sympy.Symbol(label, **kinds.get(slot.dtype.kind, {}))
    return found


def _result(sympy: Any, value: Any, shorten: Callable[[Any], Any]) -> Any:
    if not value.ndim:
        return shorten(value[()])
    return sympy.Array([shorten(x) for x in value.flat], value.shape)
