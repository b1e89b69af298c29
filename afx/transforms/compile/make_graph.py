"""Graph making: `trace` and `eval_shape`, and a log of traces that warns where static values call for new ones."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from afx import pytree
from afx.core import Array, ArrayLike, Aval, DTypeLike, aval_of, refuse_out
from afx.core.graph import Graph
from afx.core.tracing.tape import OPEN_BLOCKS, debugging
from afx.core.tracing.tracer import caller
from afx.core.tracing.traces import GraphTrace
from afx.errors import RetraceWarning, TracerError
from afx.ops import matrix_trace
from afx.ops.creation.creation import Nested, asarray
from afx.pytree import Tree
from afx.pytree.treedef import static_values
from afx.runtime.thread_pool import undisturbed
from afx.transforms._arguments import check_callable, name_of, transformed

# --- Graph making: `trace` turns a function into a `Graph`, `eval_shape` returns its outputs' avals

P = ParamSpec("P")
R = TypeVar("R")


class Traced:
    """A function's graph, the structure of its result, and the outer tracers it closed over."""

    __slots__ = ("graph", "lifted", "out_tree")

    def __init__(self, graph: Graph, out_tree: Any, lifted: list[Any]) -> None:
        self.graph: Graph = graph
        self.out_tree: Any = out_tree
        self.lifted: list[Any] = lifted


def to_graph(fn: Callable[..., Any], treedef: Any, avals: list[Aval], name: str) -> Traced:
    """Trace ``fn(*args, **kwargs)``, where the tree of ``(args, kwargs)`` has leaves of these Avals."""
    with GraphTrace(name) as trace_, undisturbed:
        args, kwargs = pytree.unflatten(treedef, [trace_.input(a) for a in avals])
        leaves, out_tree = pytree.flatten(fn(*args, **kwargs))
        graph = trace_.finish(leaves)
    return Traced(graph, out_tree, trace_.lifted)


@overload
def trace(fn: Callable[P, Any]) -> Callable[P, Graph]: ...
@overload
def trace(
    fn: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None
) -> Array: ...
def trace(fn: Any, *args: Any, **options: Any) -> Any:
    """Return a function that gives the `Graph` of ``fn`` for arguments of these shapes and dtypes.

    The arguments' numbers are not used: a Python branch on a traced value raises.

    Of an array it is NumPy's function of this name, the sum along a diagonal of its first two axes; see
    `afx.linalg.trace`, which takes the last two, as the array API has it.

    Args:
        fn: a function; or an array of two axes or more.
        *args: of an array: ``offset``, ``axis1``, ``axis2``, ``dtype`` and ``out`` (None), NumPy's.
        **options: of an array: the same by name.

    Raises:
        ConcreteValueError: the function asks for the value of an argument.
        TracerError: the function closes over traced arrays of a transformation that is under way.

    >>> import afx
    >>> print(trace(lambda x: x + 1.0)(afx.ones(2)))
    graph(a:float32[2]) {
      b:float32[2] = add(a, 1.0)
      return b
    }
    """
    if not callable(fn) and (fn.__class__ in (list, tuple) or getattr(fn, "ndim", 0) >= 2):
        return trace_matrix(fn, *args, **options)
    check_callable(fn, "trace")
    return trace_function(fn, *args, **options)


def trace_function(fn: Callable[P, Any]) -> Callable[P, Graph]:
    """Return a function that gives the `Graph` of ``fn``."""

    def run(*args: P.args, **kwargs: P.kwargs) -> Graph:
        leaves, treedef = pytree.flatten((args, kwargs))
        traced = to_graph(fn, treedef, [aval_of(x, "trace") for x in leaves], f"trace of {name_of(fn)}")
        if traced.lifted:
            raise TracerError(
                f"trace: {name_of(fn)} closes over a traced array: got {traced.lifted[0]!r}; "
                "pass it as an argument, or trace the whole function"
            )
        return traced.graph

    tracing: Callable[P, Graph] = transformed(run, "trace", fn, functools.partial(trace_function, fn))
    return tracing


def trace_matrix(
    x: Nested, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the sums of a diagonal of two axes, the first two as NumPy has it."""
    refuse_out(out, "trace")
    return matrix_trace(asarray(x), offset, axis1, axis2, dtype)


@overload
def eval_shape(fn: Callable[..., Array], *args: Tree, **kwargs: Tree) -> Aval: ...
@overload
def eval_shape(fn: Callable[..., R], *args: Tree, **kwargs: Tree) -> R: ...
def eval_shape(fn: Callable[..., Any], *args: Tree, **kwargs: Tree) -> Any:
    """Return what ``fn`` would return with `Aval`s in place of arrays, without computing anything.

    Arguments may be arrays or Avals. To type checkers the result is of the function's own type, or an Aval.

    >>> import afx
    >>> eval_shape(lambda x: afx.sum(x, axis=0), Aval((8, 3), afx.float32))
    float32[3]
    """
    check_callable(fn, "eval_shape")
    leaves, treedef = pytree.flatten((args, kwargs))
    avals = [x if isinstance(x, Aval) else aval_of(x, "eval_shape") for x in leaves]
    traced = to_graph(fn, treedef, avals, f"eval_shape of {name_of(fn)}")
    return pytree.unflatten(traced.out_tree, [Aval(a.aval.shape, a.aval.dtype) for a in traced.graph.outputs])


# --- Retracing: a log of a jitted function's traces, and a warning where static values alone call for new ones

WARN_AFTER_TRACES = 10  # of arguments that differ in static values alone
SHAPES_MAX = 64  # of which traces are counted

_disabled: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_disable_jit", default=False)


@contextlib.contextmanager
def disable_jit() -> Generator[None]:
    """Run jitted functions as plain Python inside of the ``with`` block: prints, debuggers and branches work there.

    >>> import afx
    >>> with disable_jit():
    ...     afx.jit(lambda x: x if x > 0 else -x)(-2.0)
    2.0
    """
    token = _disabled.set(True)
    OPEN_BLOCKS.append(True)
    try:
        yield
    finally:
        OPEN_BLOCKS.pop()
        _disabled.reset(token)


def is_disabled() -> bool:
    """Tell whether jitted functions run as plain Python here."""
    return _disabled.get() or debugging()


class Retracing:
    """What is known of the traces of one function."""

    __slots__ = ("_first", "_last", "_seen", "_warned", "count")

    def __init__(self) -> None:
        self.count: int = 0
        self._first: tuple[Any, ...] | None = None  # the first trace, until there is another one to compare it with
        self._seen: dict[Any, int] = {}  # traces by all that is no static value, of the latest shapes
        self._last: tuple[Any, Any, Any] | None = None
        self._warned = False

    def note(self, name: str, fixed: Sequence[Any], treedef: Any, kinds: Sequence[Any], seconds: float) -> None:
        """Take down a trace: log it, and warn where static values alone have called for many."""
        self.count += 1
        if self.count == 1:
            self._first = fixed, treedef, kinds
            self._log(name, None, seconds)
            return
        first, self._first = self._first, None
        if first is not None:
            self._take_down(*first)
        before, values, seen = self._take_down(fixed, treedef, kinds)
        self._log(name, before, seconds)
        difference = None if before is None or seen < WARN_AFTER_TRACES else _differing(before[0], values)
        if difference is not None and not self._warned:  # none where each call closes over another traced value
            self._warned = True
            _warn(name, seen, difference)

    def _take_down(self, fixed: Sequence[Any], treedef: Any, kinds: Sequence[Any]) -> tuple[Any, Any, int]:
        """Note a trace; return the one before, its own static values, and how many differ from it in these alone."""
        values = _static_values(fixed, treedef)
        shape = (tuple([path for path, _ in values]), tuple(pytree.paths(treedef)), tuple(kinds))
        before, self._last = self._last, (values, shape[1], tuple(kinds))
        seen = self._seen.pop(shape, 0) + 1
        self._seen[shape] = seen  # behind all others: the first one is the oldest
        for old in list(self._seen)[:-SHAPES_MAX]:  # no lock: single calls of a dict are whole
            self._seen.pop(old, None)
        return before, values, seen

    def _log(self, name: str, before: Any, seconds: float) -> None:
        """Write to the logger ``afx.jit``, if the user has loaded Python's logging."""
        logging = sys.modules.get("logging")
        if logging is not None:
            logger = logging.getLogger("afx.jit")
            if logger.isEnabledFor(logging.INFO):
                logger.info("%s: traced in %.1f ms: %s", name, 1e3 * seconds, _reason(before, self._last))


def _static_values(fixed: Sequence[Any], treedef: Any) -> list[tuple[str, Any]]:
    """Return paths and tokens of all static values: static arguments, then those in trees."""
    named = [(f"static argument {key!r}" if isinstance(key, str) else f"static argument {key}", v) for key, v in fixed]
    return [*named, *[(_argument(path), token) for path, token in static_values(treedef)]]


def _argument(path: str) -> str:
    """Return the name of what stands at this path of the tree of ``(args, kwargs)``."""
    if path.startswith("[0]["):
        number, _, rest = path[4:].partition("]")
        return f"argument {number}{rest}"
    return f"argument {path[4:-1]}" if path.startswith("[1][") and path.count("[") == 2 else f"arguments{path}"


def _differing(old: Sequence[tuple[str, Any]], new: Sequence[tuple[str, Any]]) -> tuple[str, Any, Any] | None:
    """Return the first static value that differs: its path, what it was and what it is; None where none does."""
    for (path, was), (_, now) in zip(old, new, strict=False):
        if was != now:
            return path, was[1], now[1]
    return None


def _reason(before: Any, now: Any) -> str:
    """Say why a function was traced."""
    if before is None:
        return "first call"
    if before[2] != now[2]:
        olds, news = ", ".join(map(str, before[2])), ", ".join(map(str, now[2]))
        return f"shapes and dtypes ({news}) after ({olds})"
    if before[1] != now[1]:
        return "another structure of arguments"
    difference = _differing(before[0], now[0])
    if difference is None:
        return "options in force differ, or it closes over another traced value"
    path, was, value = difference
    return f"{path} is {value!r}, was {was!r}"


def _warn(name: str, count: int, difference: tuple[str, Any, Any]) -> None:
    path, was, now = difference
    advice = "make the function once, outside of the loop" if callable(now) else "let it be an array (afx.asarray)"
    if isinstance(now, float) and math.isnan(now):
        advice = "nan differs from itself: let it be an array, or None"
    message = (
        f"{name}: traced {count} times for static values alone: {path} is {now!r}, was {was!r}; {advice}, "
        "so that one trace serves all its values"
    )
    source = caller()
    if source is None:
        warnings.warn(message, RetraceWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, RetraceWarning, source.place.file, source.place.line)
