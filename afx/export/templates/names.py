"""Names: what the values of a graph are called in another language, after the user's own variables."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterable, Sequence

from afx.core.graph import Equation
from afx.core.tracing.source_info import SourceLocation, places_of
from afx.export.slots import escape_line

__all__ = ["Names", "assigned_names", "name_function", "source_text", "wish_names"]


class Names:
    """Names in use, of which there are no two alike.

    >>> names = Names(["in"])
    >>> names.make("params.w[0]"), names.make("params.w[0]"), names.make("in")
    ('params_w_0', 'params_w_0_2', 'in_2')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.used: set[str] = set(taken)
        self._next: dict[str, int] = {}

    def make(self, wish: str) -> str:
        """Return an identifier of ASCII letters, digits and _ that is like the wish, and not in use."""
        stem = re.sub(r"\W+", "_", wish, flags=re.ASCII).rstrip("_") or "t"
        stem = stem.lstrip("_") if not wish.startswith("_") else stem
        stem = f"x{stem}" if stem[0].isdigit() else stem
        name, k = stem, self._next.get(stem, 1)
        while name in self.used:
            k += 1
            name = f"{stem}_{k}"
        self._next[stem] = k
        self.used.add(name)
        return name


def wish_names(equations: Sequence[Equation]) -> list[list[str]]:
    """Return a wish for each output of each equation: the variables that its line assigns, where it is the last of it.

    What comes before on the line is a part of that variable; what no line assigns is ``t``.
    """
    places = places_of([eq.source for eq in equations])
    wishes, done = list[list[str]](), set[tuple[str, int]]()
    for k, (eq, place) in enumerate(zip(equations, places, strict=True)):
        count = len(eq.outputs)
        following = places[k + 1] if k + 1 < len(places) else None
        stems = () if place is None else assigned_names(place.file).get(place.line, ())
        if place is None or len(stems) != count:
            wishes.append(["t"] * count)
        elif following is not None and (following.file, following.line) == (place.file, place.line):
            wishes.append([f"{stem}_part" for stem in stems])
        else:
            again = "_again" if (place.file, place.line) in done else ""
            wishes.append([f"{stem}{again}" for stem in stems])
            done.add((place.file, place.line))
    return wishes


@functools.lru_cache(maxsize=64)
def assigned_names(file: str) -> dict[int, tuple[str, ...]]:
    """Return the variables that each line of a file assigns; empty where the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple([part.id for part in parts if isinstance(part, ast.Name)])
        if len(names) == len(parts):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), names)
    return found


def source_text(place: SourceLocation | None) -> str:
    """Return the user's line without its indentation, an empty text where it cannot be read."""
    return "" if place is None else escape_line(linecache.getline(place.file, place.line).strip())


def name_function(name: str) -> str:
    """Return the last part of a function's name, ``function`` where that is no name.

    >>> name_function("fit.<locals>.loss"), name_function("fit.<locals>.<lambda>")
    ('loss', 'function')
    """
    last = name.rpartition(".")[2]
    return last if last.isidentifier() and last.isascii() else "function"
