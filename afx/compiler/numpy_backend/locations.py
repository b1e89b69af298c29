"""Locations: generated code takes the file and the lines of the user's code that it computes.

NumPy warns at the line of Python that calls it, in the module of its globals. So the calls of a plan carry the user's
lines, and nothing has to be done when a call does not warn: filters, ``-W error`` and tracebacks see the user's code.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

from afx.compiler.operands import Sources
from afx.compiler.schedule import Call, Fused, Instruction
from afx.core.tracing.source_info import SourceLocation, module_names

__all__ = ["file_of", "module_globals", "relocate"]

NO_COLUMNS = 13  # the code of an entry that holds a line alone (Objects/locations.md of CPython)
MAX_UNITS = 8  # instructions of two bytes that an entry stands for


def file_of(instruction: Instruction, sources: Sources) -> str:
    """Return the user's file that warnings of an instruction point to, an empty text where it gives none."""
    first: Any = instruction
    if isinstance(instruction, Fused):
        first = instruction.body[0] if instruction.body else None
    if not isinstance(first, Call) or first.error_state is None or first.equation < 0 or not sources:
        return ""
    source = sources[first.equation]
    code = getattr(source, "code", None)
    return "" if source is None else str(source.file if code is None else code.co_filename)


def relocate(code: CodeType, locations: Sequence[SourceLocation | None]) -> CodeType:
    """Return code whose lines are those of a user's file.

    A function has one file: where locations lie in several, it is that of most of them. Lines of no location in it take the
    location before.

    Args:
        code: of a text, with the functions inside of it.
        locations: of each line of the text.
    """
    constants = tuple([relocate(c, locations) if isinstance(c, CodeType) else c for c in code.co_consts])
    code = code.replace(co_consts=constants)
    rows = [(end - start, None if line is None else locations[line - 1]) for start, end, line in code.co_lines()]
    known = [(location.file, location.line) for _, location in rows if location is not None]
    if not known:
        return code
    file, first = known[0]
    if any([f != file for f, _ in known]):  # noqa: C419  # a list is quicker
        file = Counter([f for f, _ in known]).most_common(1)[0][0]
        first = next(line for f, line in known if f == file)
    return code.replace(co_filename=file, co_firstlineno=first, co_linetable=_table(rows, file, first))


def _table(rows: Sequence[tuple[int, SourceLocation | None]], file: str, first: int) -> bytes:
    """Return the table of lines of code whose ranges of bytes have these locations, in CPython's format.

    Steps from line to line are signed numbers in pieces of six bits, the lowest first. All of it stands in one function, as
    every first call waits for it.
    """
    table, last = bytearray(), first
    for size, location in rows:
        line = location.line if location is not None and location.file == file else last
        units, step, last = size // 2, line - last, line
        while units > 0:
            count = min(units, MAX_UNITS)
            table.append(0x80 | NO_COLUMNS << 3 | count - 1)
            rest = -step << 1 | 1 if step < 0 else step << 1
            while rest >= 64:
                table.append(0x40 | rest & 63)
                rest >>= 6
            table.append(rest)
            units, step = units - count, 0
    return bytes(table)


def module_globals(file: str) -> dict[str, Any]:
    """Return globals whose warnings count as those of the module of a file, which are shown once a line."""
    name = module_names.get(file)
    if name is None:  # of a graph from another process
        modules: dict[str, Any] = dict(sys.modules)  # some programs put other objects there
        files = {n: vars(m).get("__file__") for n, m in modules.items() if isinstance(m, ModuleType)}
        name = module_names[file] = next((n for n, f in files.items() if f == file), "__main__")
    module = sys.modules.get(name)
    space: dict[str, Any] = vars(module) if isinstance(module, ModuleType) else {}
    return {"__name__": name, "__warningregistry__": space.setdefault("__warningregistry__", {})}
