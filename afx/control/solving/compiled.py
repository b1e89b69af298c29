"""Compiled runs: what solvers compute from plain values runs as it does under `jit`, without being asked for.

Plans are kept by their graphs: a function that is written anew for each call, as closures are, has the plan, and with it
the machine code, of the one before.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from afx import pytree
from afx.compiler.target import current
from afx.core.array.array import to_numpy_value, wrap
from afx.core.aval import aval_of
from afx.core.tracing.tracer import Tracer
from afx.errors import AfxError, TracerError
from afx.runtime.backend import foresee_code
from afx.transforms.compiled_call import CompiledGraph
from afx.transforms.make_graph import to_graph
from afx.transforms.retracing import is_disabled

__all__ = ["are_plain", "run_compiled", "run_or_compile"]

T = TypeVar("T")

PROGRAMS_MAX: Final = 64

_programs: OrderedDict[tuple[str, CompiledGraph], CompiledGraph] = OrderedDict()  # the last used behind
_lock = threading.Lock()


def are_plain(*trees: Any) -> bool:
    """Tell whether values are known and watched by no transformation, where functions are compiled at all."""
    return not is_disabled() and not any(isinstance(leaf, Tracer) for leaf in pytree.leaves(trees))


def run_compiled(fn: Callable[..., T], *trees: Any, name: str) -> T:
    """Return ``fn(*trees)`` of plain values, by a plan.

    Raises:
        AfxError: the function asks for values, as it may outside of transformations, or closes over traced ones.
    """
    foresee_code(current.target.backend)
    given: tuple[tuple[Any, ...], dict[str, Any]] = (trees, {})
    leaves, treedef = pytree.flatten(given)
    traced = to_graph(fn, treedef, [aval_of(x, name) for x in leaves], name)
    if traced.lifted:
        raise TracerError(f"{name}: the function closes over a traced array; run it in Python")
    outs = _program(CompiledGraph(traced.graph)).plan(*[to_numpy_value(x, name) for x in leaves])
    found: T = pytree.unflatten(traced.out_tree, [wrap(v) for v in outs])
    return found


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
    key = (current.key, new)
    with _lock:
        found = _programs.setdefault(key, new)
        _programs.move_to_end(key)
        while len(_programs) > PROGRAMS_MAX:
            _programs.popitem(last=False)
    return found
