"""Listing: a plan's Python as text that runs where it is pasted, or says at its top what is left out of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from afx.compiler.numpy_backend.names import Names
from afx.core.aval import Aval, aval_of
from afx.core.primitive import lookup

__all__ = ["aval_text", "head", "shared_lines", "value_text"]

SHOWN = 16  # elements of a captured array that is written down
LEFT_OUT = re.compile(r"^\s*(\w+) = \.\.\.", re.MULTILINE)
MODULE = re.compile(r"(?<![\w.'])(?:afx|math)(?:\.[a-z_]\w*)+")


def head(lines: Iterable[str]) -> Iterator[str]:
    """Yield what stands above a listing: what it lacks, and how to get a file that runs; then its imports."""
    text = "\n".join(lines)
    missing = LEFT_OUT.findall(text)
    if missing:
        yield f"# A listing, without {', '.join(missing)}: afx.export.to_numpy(fn, *args) writes a file that runs."
    yield "import numpy as np"
    modules = {_module_of(path) for path in MODULE.findall(text)}
    yield from [f"import {module}" for module in sorted(modules)]
    yield ""


def _module_of(path: str) -> str:
    while path not in sys.modules:
        path = path.rpartition(".")[0]
    return path


def shared_lines(names: Names) -> Iterator[str]:
    """Yield the lines that make what all sets of buffers share."""
    for name, value in names.shared.items():
        yield f"{name} = {names.shown.get(name) or _shared_text(name, value)}"


def _shared_text(name: str, value: Any) -> str:
    """Return the expression of a function of afx, or of a captured array."""
    if value.__class__ is np.ndarray:
        return _array_text(value) if value.size <= SHOWN else f"...  # a captured array, {aval_of(value)}"
    return _rule_text(re.sub(r"_\d*$", "", name), value) or value_text(value)


def _array_text(value: Any) -> str:
    text = re.sub(r"\b(inf|nan)\b", r"np.\1", repr(value.tolist()))
    return f"np.array({text}, '{value.dtype}'){'' if value.size else f'.reshape({value.shape})'}"


def _rule_text(op: str, value: Any) -> str:
    """Return how an op's record names an implementation; an empty text where it is none of it."""
    try:
        p = lookup(op)
    except KeyError:
        return ""
    places = {"impl": p.impl, "lowering.impl_into": p.lowering.impl_into}
    return next((f"afx.core.primitive.lookup({op!r}).{path}" for path, rule in places.items() if rule is value), "")


def value_text(value: Any) -> str:
    """Return the expression of a parameter or a function; ``...`` where there is none.

    >>> value_text((np.dtype("float32"), 2)), value_text(float), value_text(object())
    ("(np.dtype('float32'), 2)", 'float', '...  # object')
    """
    kind: Any = value.__class__
    if kind is tuple:
        return f"({', '.join(map(value_text, value))}{',' * (len(value) == 1)})"
    if issubclass(kind, np.dtype):
        return f"np.dtype('{value}')"
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "<")
    if "<" in name or not isinstance(module, str) or not hasattr(sys.modules.get(module), name):
        return f"...  # {kind.__name__}"
    return name if module == "builtins" else f"{module}.{name}"


def aval_text(aval: Aval) -> str:
    """Return the expression of an Aval."""
    return f"afx.core.aval.Aval({aval.shape}, np.dtype('{aval.dtype}'))"
