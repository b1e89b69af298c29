"""Compiled runs: what solvers compute from plain values runs as it does under `jit`, without being asked for.

Plans are kept by their graphs: a function that is written anew for each call, as closures are, has the plan, and with it
the machine code, of the one before. One that holds large constants is kept where it is met again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from afx import pytree
from afx.compiler.target import current
from afx.core.array.array import wrap
from afx.core.aval import aval_of
from afx.core.dtypes import get_default_dtype
from afx.core.graph import Graph, walk
from afx.core.tracing.source_info import places_of
from afx.core.tracing.tracer import Tracer
from afx.core.weakness import argument_of
from afx.errors import AfxError, TracerError
from afx.pytree.treedef import orders
from afx.transforms.compile.backend import foresee_code
from afx.transforms.compile.compiled_call import CompiledGraph
from afx.transforms.compile.make_graph import to_graph
from afx.transforms.compile.retracing import is_disabled

__all__ = ["are_plain", "compile_for", "compile_run", "run_compiled", "run_or_compile"]

T = TypeVar("T")

PROGRAMS_MAX: Final = 64
KEPT_BYTES_MAX: Final = 1 << 20  # of the constants of a program that is kept from its first call on
COMPARED_BYTES_MAX: Final = 1 << 26  # of those of one that is kept at all: comparing more costs what planning does

# the last used behind; no lock, which a signal's handler or a forked process would wait for: single calls of a dict are
# whole, and what another thread has taken out meanwhile is made again
_programs: dict[Hashable, CompiledGraph] = {}
_owned: dict[int, tuple[Callable[[], object], dict[Hashable, Callable[..., Any]]]] = {}  # by the objects' addresses
_met: dict[Hashable, bool] = {}  # programs with large constants, which are kept where they are met again


def are_plain(*trees: Any) -> bool:
    """Tell whether values are known and watched by no transformation, where functions are compiled at all."""
    return not is_disabled() and not any(isinstance(leaf, Tracer) for leaf in pytree.leaves(trees))


def run_compiled(fn: Callable[..., T], *trees: Any, name: str) -> T:
    """Return ``fn(*trees)`` of plain values, by a plan.

    Raises:
        AfxError: the function asks for values, as it may outside of transformations, or closes over traced ones.
    """
    return compile_run(fn, *trees, name=name)(*trees)


def compile_run(fn: Callable[..., T], *trees: Any, name: str) -> Callable[..., T]:
    """Return a function, traced once, of plain values of the same structure, shapes and dtypes as these.

    Raises:
        AfxError: as `run_compiled`.
    """
    foresee_code(current.target.backend)
    given: tuple[tuple[Any, ...], dict[str, Any]] = (trees, {})
    leaves, treedef = pytree.flatten(given)
    traced = to_graph(fn, treedef, [aval_of(x, name) for x in leaves], name)
    if traced.lifted:
        raise TracerError(f"{name}: the function closes over a traced array; run it in Python")
    program = _program(CompiledGraph(traced.graph))

    def run(*trees: Any) -> T:
        outs = program.plan(*[argument_of(x, name) for x in pytree.leaves(trees)])
        found: T = pytree.unflatten(traced.out_tree, [wrap(v) for v in outs])
        return found

    return run


def compile_for(owner: object, fn: Callable[..., T], *trees: Any, name: str) -> Callable[..., T]:
    """Return what `compile_run` does, kept for as long as an object lives that determines what the function computes.

    As of a function under `jit`, what it closes over is read once.

    Raises:
        AfxError: as `run_compiled`.
    """
    leaves, treedef = pytree.flatten(trees)
    key = (get_default_dtype(), current.key, name, treedef, orders(treedef), *[aval_of(x, name) for x in leaves])
    place = id(owner)
    known = _owned.get(place)
    if known is None or known[0]() is not owner:
        known = _owned[place] = weakref.ref(owner, lambda _: _owned.pop(place, None)), {}
    run = known[1].get(key)
    if run is None:
        run = known[1][key] = compile_run(fn, *trees, name=name)
    return run


def run_or_compile(fn: Callable[..., T], *trees: Any, name: str) -> T:
    """Return ``fn(*trees)``: by a plan where values are plain and the function can be traced, in Python otherwise."""
    if are_plain(*trees):
        try:
            return run_compiled(fn, *trees, name=name)
        except AfxError:
            pass  # Python's run says what is wrong, if anything is
    return fn(*trees)


def _program(new: CompiledGraph) -> CompiledGraph:
    """Return the program of a graph that was met before, else this one."""
    graphs = list(walk(new.graph))
    held = [c for graph in graphs for _, c in graph.constants]
    total = sum([c.value.nbytes for c in held])
    _drop_forgotten()
    if total > COMPARED_BYTES_MAX:
        return new
    key = (current.key, tuple(map(hash, held)), _lines(graphs))
    if total > KEPT_BYTES_MAX and key not in _met:
        _met[key] = True
        _drop_first(_met)
        return new
    found = _programs.pop((*key, new), new)
    _programs[*key, new] = found
    _drop_first(_programs)
    return found


def _drop_first(known: dict[Hashable, Any]) -> None:
    for old in list(known)[:-PROGRAMS_MAX]:
        known.pop(old, None)


def _drop_forgotten() -> None:
    """Let go of programs whose plans have been forgotten."""
    for key, program in list(_programs.items()):
        if program.is_forgotten:
            _programs.pop(key, None)


def _lines(graphs: Sequence[Graph]) -> Hashable:
    """Return what equal graphs may differ in: their lines and silenced warnings.

    Lines, as the offsets of instructions change when Python specializes them.
    """
    equations = [eq for graph in graphs for eq in graph]
    return tuple(places_of([eq.source for eq in equations])), tuple([eq.ignored_fp_errors for eq in equations])
