"""The text of a plan for its readers: what is made once, then what each call runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from afx.compiler.numpy_backend.emit import Program

__all__ = ["listing"]


def listing(program: Program) -> str:
    """Return a plan as readable Python."""
    constants = [f"# {program.name(v)}: a constant, {v.aval}" for v, _ in program.places.graph.constants]
    body = "\n    ".join([*program.lines, f"return [{', '.join(program.result)}]"])
    head = [*constants, *_numbers(program), *_memory(program)]
    head += ["", *program.functions] if program.functions else []
    return "\n".join([*head, "", f"def run({', '.join(program.inputs)}):", f"    {body}", ""])


def _numbers(program: Program) -> Iterator[str]:
    for name, value in program.shared.items():
        if name.startswith(("n_", "ones_")):
            yield f"{name} = {_number(name, value)}"


def _number(name: str, value: Any) -> str:
    if type(value) is not np.ndarray:
        return repr(value)
    array: Any = value
    if name.startswith("ones_"):
        return f"np.ones({array.shape}, '{array.dtype}')"
    if array.ndim:
        return f"np.full({array.shape}, {array.flat[0]}, '{array.dtype}')"
    return f"np.array({array}, '{array.dtype}')"


def _memory(program: Program) -> Iterator[str]:
    if program.buffers:
        yield f"arena = np.empty({program.places.arena.size}, np.uint8)"
    for name, offset, aval in program.buffers:
        yield f"{name} = np.ndarray({aval.shape}, '{aval.dtype}', arena, {offset})"
    for name, source, eq in program.views:
        yield f"{name} = {program.applied(eq, [source])}"
    for name, eq in program.prepared:
        avals = [*[f"'{a.aval}'" for a in eq.inputs], *[f"{k}={v!r}" for k, v in eq.params]]
        yield f"{name} = {eq.primitive.name}.make_kernel({', '.join(avals)})"
    for name, slots, length in program.scratch:
        arrays = ", ".join([f"np.empty({(length, *tail)}, '{dtype}')" for dtype, tail in slots])
        yield f"{name} = [({arrays}{',' if slots else ''}) for _ in range(threads)]"
