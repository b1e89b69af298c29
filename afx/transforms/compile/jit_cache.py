"""Jit cache: compiled traces of a function by the kinds of its arguments, and what they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from afx import pytree
from afx.compiler.target import Target
from afx.core.array.array import wrap
from afx.runtime.buffer_cache import tick
from afx.transforms.compile.compiled_call import CompiledGraph
from afx.transforms.compile.make_graph import Traced
from afx.transforms.compile.quick_call import MAX_TOKENS, Match, make_builder, make_match

__all__ = ["CACHE_SIZE", "CacheEntry", "CacheInfo", "cache_info", "forget_unused"]

CACHE_SIZE = 256
QUICK_CALLS = 20  # of one kind, before the Python for it is written, in about half a millisecond
NO_NAMES: dict[str, Any] = {}
LEAF = pytree.structure(0.0)


@attrs.frozen
class CacheInfo:
    """The cache of a jitted function.

    Attributes:
        traces: how often the function was traced since it was made, or since `clear_cache`.
        entries: the kinds of arguments whose traces are kept.
        max_entries: the most that are kept.
        plan_bytes: about what their plans and machine code take.
        idle_bytes: of the buffers that these keep between calls; see `afx.set_cache_limit`, for both.
        native_entries: how many of them machine code answers; ``fn.lower(*args).status`` says more.
    """

    traces: int
    entries: int
    max_entries: int
    plan_bytes: int
    idle_bytes: int
    native_entries: int


class CacheEntry:
    """A compiled trace of the function for one kind of arguments."""

    __slots__ = ("_calls", "_made", "build", "donated", "lifted", "match", "out_tree", "program", "single")

    def __init__(self, traced: Traced, donated: Sequence[int], target: Target) -> None:
        self.program: CompiledGraph = CompiledGraph(traced.graph, () if traced.lifted else donated, target)
        self.out_tree: Any = traced.out_tree
        self.lifted: list[Any] = traced.lifted
        self.donated: Sequence[int] = donated
        self.single: bool = traced.out_tree == LEAF
        self.match: Match | None = None
        self.build: Callable[[list[Any]], Any] | None = None
        self._calls = 0
        self._made = tick()

    def results(self, outs: list[Any]) -> Any:
        """Return the outputs of the plan as the function's result."""
        if self.single:
            return wrap(outs[0])
        if self.build is not None:
            return self.build(outs)
        return pytree.unflatten(self.out_tree, [wrap(v) for v in outs])

    def notes_match(self, args: tuple[Any, ...], values: Sequence[Any]) -> bool:
        """Count a call, and after some write the Python that takes such arguments apart; tell whether there is any."""
        self._calls += 1
        if self._calls == QUICK_CALLS:
            leaves, treedef = pytree.flatten((args, NO_NAMES))
            self.match = make_match(treedef, leaves, values)
            if self.match is not None and len(self.out_tree.tokens) <= MAX_TOKENS:
                self.build = make_builder(self.out_tree)
        return self.match is not None

    @property
    def used(self) -> float:
        """When it was last seen to run: a larger number is later; what has been forgotten was used before all others."""
        plan = self.program.made_plan
        return -math.inf if self.program.is_forgotten else self._made if plan is None else plan.idle.used


def cache_info(traces: int, entries: Collection[CacheEntry]) -> CacheInfo:
    """Return what is kept."""
    plans = [plan for entry in entries if (plan := entry.program.made_plan) is not None]
    fixed, idle = sum([plan.idle.fixed_bytes for plan in plans]), sum([plan.idle_bytes for plan in plans])
    native = sum([plan.status.backend == "native" for plan in plans])
    return CacheInfo(traces, len(entries), CACHE_SIZE, fixed, idle, native)


def forget_unused(entries: dict[Any, CacheEntry], more: int = 0) -> bool:
    """Remove traces whose plans are forgotten, and those that were not used for longest where there are too many.

    Return whether there were any.
    """
    held = list(entries.copy().items())  # other threads add and remove; a copy is made at once
    gone = [key for key, entry in held if entry.program.is_forgotten]
    left = [(entry.used, k) for k, (_, entry) in enumerate(held) if not entry.program.is_forgotten]
    count = len(left) + more - CACHE_SIZE
    if count > 0:
        gone += [held[k][0] for _, k in sorted(left)[:count]]
    for key in gone:
        entries.pop(key, None)
    return bool(gone)
