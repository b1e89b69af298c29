"""Compiled runs: what solvers compute from plain values runs as it does under `jit`, without being asked for.

Plans are kept by their graphs: a function that is written anew for each call, as closures are, has the plan, and with it
the machine code, of the one before, unless its constants are large.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from afx import pytree
from afx.compiler.target import current
from afx.core.array.array import wrap
from afx.core.aval import aval_of
from afx.core.graph import Graph, walk
from afx.core.tracing.tracer import Tracer
from afx.core.weakness import argument_of
from afx.errors import AfxError, TracerError
from afx.runtime.backend import foresee_code
from afx.transforms.compiled_call import CompiledGraph
from afx.transforms.make_graph import to_graph
from afx.transforms.retracing import is_disabled

__all__ = ["are_plain", "compile_run", "run_compiled", "run_or_compile"]

T = TypeVar("T")

PROGRAMS_MAX: Final = 64
CONSTANT_BYTES_MAX: Final = 1 << 20  # of the constants of a program that is kept

# the last used behind; no lock, which a signal's handler or a forked process would wait for: single calls of a dict are
# whole, and what another thread has taken out meanwhile is made again
_programs: dict[Hashable, CompiledGraph] = {}


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
    if sum([c.value.nbytes for graph in graphs for _, c in graph.constants]) > CONSTANT_BYTES_MAX:
        return new
    _drop_forgotten()
    key = (current.key, _marks(graphs), new)
    found = _programs.pop(key, new)
    _programs[key] = found
    for old in list(_programs)[:-PROGRAMS_MAX]:
        _programs.pop(old, None)
    return found


def _drop_forgotten() -> None:
    """Let go of programs whose plans have been forgotten."""
    for key, program in list(_programs.items()):
        if program.is_forgotten:
            _programs.pop(key, None)


def _marks(graphs: Sequence[Graph]) -> Hashable:
    """Return what equal graphs may differ in, their lines and silenced warnings, and the hashes of their constants.

    The hashes keep graphs that differ in constants alone from being compared with one another.
    """
    lines = [(eq.source and eq.source.file, eq.source, eq.ignored_fp_errors) for graph in graphs for eq in graph]
    return tuple([hash(c) for graph in graphs for _, c in graph.constants]), tuple(lines)
