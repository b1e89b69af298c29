"""Names: what the values of a graph are called in another language, after the user's own variables."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterable, Sequence

from afx.core.graph import Equation
from afx.core.tracing.source_info import SourceLocation, places_of

__all__ = ["Names", "assigned_names", "source_text", "wish_names"]


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
        stem = re.sub(r"\W+", "_", wish, flags=re.ASCII).strip("_") or "t"
        stem = f"x{stem}" if stem[0].isdigit() else stem
        name, k = stem, self._next.get(stem, 1)
        while name in self.used:
            k += 1
            name = f"{stem}_{k}"
        self._next[stem] = k
        self.used.add(name)
        return name


def wish_names(equations: Sequence[Equation]) -> list[str]:
    """Return a wish for the first output of each equation: the variable that its line assigns, where it is the last of it.

    What comes before on the line is a part of that variable; what no line assigns is ``t``.
    """
    places = places_of([eq.source for eq in equations])
    wishes, done = list[str](), set[tuple[str, int]]()
    for k, place in enumerate(places):
        following = places[k + 1] if k + 1 < len(places) else None
        stem = "" if place is None else assigned_names(place.file).get(place.line, "")
        if not stem or place is None:
            wishes.append("t")
        elif following is not None and (following.file, following.line) == (place.file, place.line):
            wishes.append(f"{stem}_part")
        else:
            wishes.append(stem if (place.file, place.line) not in done else f"{stem}_again")
            done.add((place.file, place.line))
    return wishes


@functools.lru_cache(maxsize=64)
def assigned_names(file: str) -> dict[int, str]:
    """Return the variable that each line of a file assigns, where it is one; empty where the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            target = node.target
        if isinstance(target, ast.Name) and isinstance(node, ast.stmt):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), target.id)
    return found


def source_text(place: SourceLocation | None) -> str:
    """Return the user's line without its indentation, an empty text where it cannot be read."""
    return "" if place is None else linecache.getline(place.file, place.line).strip()
