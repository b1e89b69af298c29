"""Command: ``python -m afx.export module:function float64[3]`` compiles a function from a shell."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core import Aval
from afx.errors import AfxError, ArgumentError
from afx.export.compiled import compile
from afx.export.exported import MACHINES
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["main"]

FORMS = ("object", "shared", "static", "wasm")
SHAPE = re.compile(r"(\w+)(?:\[([\d,\s]*)\])?")


def main(argv: Sequence[str] | None = None) -> int:
    """Compile what the command line names and write it into a folder; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m afx.export", description="Compile a function to C's calling convention."
    )
    parser.add_argument("function", help="module:name of a function of arrays")
    parser.add_argument("arguments", nargs="*", help="dtype and shape of each, such as float64[8,3] or float64")
    parser.add_argument("--grad", action="store_true", help="export the value and the gradient by the first argument")
    parser.add_argument("--target", default="host", help=f"{', '.join(MACHINES)}, or an LLVM triple")
    parser.add_argument("--form", choices=FORMS, default="object")
    parser.add_argument("--name", help="of the function in C")
    parser.add_argument("--output", default=".", help="folder; the present one by default")
    given = parser.parse_args(argv)
    try:
        fn = _find(given.function)
        name = given.name or fn.__name__
        avals = [read_aval(text) for text in given.arguments]
        exported = compile(
            value_and_grad(fn) if given.grad else fn, *avals, target=given.target, name=name, form=given.form
        )
        for path in exported.save(given.output, given.form):
            sys.stdout.write(f"{path}  {path.stat().st_size} bytes\n")
    except (AfxError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def read_aval(text: str) -> Aval:
    """Return the shape and dtype of a text.

    Raises:
        ArgumentError: it is no such text.

    >>> print(read_aval("float64[8,3]"), read_aval("int32"))
    float64[8,3] int32[]
    """
    match = SHAPE.fullmatch(text.strip())
    try:
        assert match is not None
        lengths = tuple([int(n) for n in (match[2] or "").split(",") if n.strip()])
        return Aval(lengths, np.dtype(match[1]))
    except (AssertionError, TypeError, ValueError):
        raise ArgumentError(f"export: no dtype and shape: got {text!r}; write them as float64[8,3]") from None


def _find(text: str) -> Any:
    module, _, name = text.partition(":")
    if not module or not name:
        raise ArgumentError(f"export: no function: got {text!r}; write module:function")
    sys.path.insert(0, "")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ArgumentError(f"export: {module} has no function {name}: got {function!r}; name one that it defines")
    return function


if __name__ == "__main__":
    raise SystemExit(main())
