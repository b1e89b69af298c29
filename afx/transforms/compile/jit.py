"""Compilation: `jit` traces a function once per kind of arguments and then runs its plan; each step can be had."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from operator import is_
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

import attrs
import numpy as np

from afx import pytree
from afx.compiler.executable import Plan
from afx.compiler.report import PlanStatus, Report, make_report
from afx.compiler.schedule.buffers import BufferAssignment
from afx.compiler.schedule.cost import bytes_moved, flops
from afx.compiler.schedule.fusion import Groups
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import current
from afx.core import Tracer, aval_of, get_default_dtype
from afx.core.array.array import DONATED, Array, ArrayLike, wrap
from afx.core.graph import Graph
from afx.core.html import LONGEST_GRAPH, escape, fold, function_html, graph_html, rows
from afx.core.primitive import Printable, WeakArray, argument_of
from afx.core.tracing.tape import OPEN_BLOCKS
from afx.core.tracing.traces import GraphTracer
from afx.errors import ArgumentError, TreeError
from afx.pytree.nodes import static_token
from afx.pytree.treedef import orders
from afx.runtime.buffer_cache import without_debugger_refs
from afx.transforms._arguments import UNKNOWN, name_of, own_name
from afx.transforms.compile.compiled_call import (
    Denormals,
    JitBackend,
    call,
    check_backend,
    check_denormals,
    foresee_code,
    memoize,
    with_backend,
)
from afx.transforms.compile.compiled_vjp import CompiledVjp
from afx.transforms.compile.make_graph import Retracing, is_disabled, to_graph
from afx.transforms.compile.quick_call import NO_NAMES, CacheEntry, CacheInfo, cache_info, forget_unused
from afx.transforms.derivatives.nan_check import check_inside

# --- Positions: the parameters of a function that options of `afx.jit` name

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_positions(numbers: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Return an option of `afx.jit` that is one position or several as a tuple."""
    if isinstance(numbers, tuple) and not numbers:
        return ()
    positions: tuple[Any, ...] = tuple(numbers) if isinstance(numbers, (Sequence, AbstractSet)) else (numbers,)
    if not all(isinstance(n, int) for n in positions):
        raise ArgumentError(f"jit: {name} are positions: got {numbers!r}; give integers, or use static_argnames=")
    return positions


def _parameters(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function, None of one that does not tell them, as some in C."""
    try:
        return inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return None


def check_positions(fn: Callable[..., Any], **positions: tuple[int, ...]) -> None:
    """Refuse positions behind the last parameter, as far as a function's signature is known."""
    parameters = _parameters(fn)
    if parameters is None:
        return
    kinds = [p.kind for p in parameters.values()]
    count = sum([k in POSITIONAL for k in kinds])
    for name, numbers in positions.items():
        beyond = [n for n in numbers if not -count <= n < count]
        if beyond and inspect.Parameter.VAR_POSITIONAL not in kinds:
            raise ArgumentError(
                f"jit: {name} has a position that {name_of(fn)} does not take: got {beyond[0]} for {count} positional "
                "parameters; count from 0"
            )


def static_options(
    fn: Callable[..., Any], nums: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of static arguments, each parameter by both where it can be passed either way.

    Positions from the end count the function's own parameters, or where it takes any number the arguments of a call.

    Raises:
        ArgumentError: a name that is not among the parameters.
    """
    parameters = _parameters(fn)
    if parameters is None:
        return nums, names
    kinds = [p.kind for p in parameters.values()]
    missing = [n for n in names if n not in parameters]
    if missing and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ArgumentError(f"jit: static_argnames={missing[0]!r} is not an argument of {name_of(fn)}; check its name")
    places = [n for n, p in parameters.items() if p.kind in POSITIONAL]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        nums = tuple([n % len(places) for n in nums])
    also = [places[n] for n in nums if 0 <= n < len(places) and parameters[places[n]].kind is POSITIONAL[1]]
    return (*nums, *[places.index(n) for n in names if n in places]), (*names, *also)


def leaves_of(args: tuple[Any, ...], given: tuple[int, ...]) -> list[int]:
    """Return which leaves of all arguments those of these positions hold."""
    if not given:
        return []
    ends = [0]
    for x in args:
        ends.append(ends[-1] + len(pytree.leaves(x)))
    return [k for n in given for k in range(ends[n], ends[n + 1])]


# --- Lowered: each step of compiling a jitted function for given arguments


@attrs.frozen(eq=False, repr=False)
class Lowered:
    """Each step of the compiler for some arguments; all of them print.

    Attributes:
        graph: the simplified graph.
        plan: how it runs: ``plan.source``, ``plan.memory``, ``plan.scratch``.

    >>> import afx
    >>> lowered = afx.jit(lambda x: afx.sin(x) * 2.0).lower(afx.ones(3))
    >>> print(lowered.schedule)
    schedule(a:float32[3]#0) {  # 64 bytes of arena
      b:float32[3]@0 = sin(a)
      c:float32[3] := multiply(b, 2.0)
      return c
    }
    """

    graph: Graph
    plan: Plan

    @property
    def groups(self) -> Groups:
        """The equations that run together, block by block."""
        return self.plan.groups

    @property
    def buffers(self) -> BufferAssignment:
        """The memory of each value."""
        return self.plan.buffers

    @property
    def schedule(self) -> Schedule:
        """The instructions in the order in which they run; loops and branches hold schedules of their own."""
        return self.plan.schedule

    @property
    def flops(self) -> int:
        """The arithmetic operations of one call."""
        return flops(self.graph)

    @property
    def bytes_moved(self) -> int:
        """The bytes that the equations read and write, were nothing kept in a cache."""
        return bytes_moved(self.graph)

    @property
    def report(self) -> Report:
        """Operations, bytes and arithmetic intensity of each equation, and the memory that is alive there, as a table.

        >>> import afx
        >>> report = afx.jit(lambda x: x @ x).lower(afx.ones((64, 64))).report
        >>> report.rows[0].name, report.rows[0].flops, report.rows[0].nbytes, report.peak_bytes
        ('matmul', 524288, 49152, 32768)
        """
        return make_report(self.groups, self.buffers)

    @property
    def status(self) -> PlanStatus:
        """Who answers the next call, NumPy or machine code, since when, after how many refusals, and why.

        >>> import afx
        >>> afx.jit(lambda x: x, backend="numpy").lower(afx.ones(3)).status.backend
        'numpy'
        """
        return self.plan.status

    @property
    def native(self) -> tuple[tuple[str, str], ...]:
        """Each instruction of the plan, and why it has no native form: an empty text where it has one.

        What refuses the plan as a whole stands in a last pair, beside its results.
        """
        return self.plan.why_not_native

    def __repr__(self) -> str:
        """Return one line; ``graph``, ``schedule``, ``report`` and ``plan.source`` print the steps."""
        return f"<lowered: {self}>"

    def _repr_html_(self) -> str:
        texts = {"schedule": str(self.schedule), "plan.source": self.plan.source}
        parts = [fold(name, f"<pre>{escape(text[:LONGEST_GRAPH])}</pre>") for name, text in texts.items()]
        return fold(f"lowered · {self}", rows([graph_html(self.graph), *parts]), opened=True)

    def __str__(self) -> str:
        return (
            f"{len(self.graph)} equations, {self.flops} flops, {self.bytes_moved} bytes moved, "
            f"{self.plan.memory} bytes of buffers, {self.plan.scratch} of scratch a thread"
        )


# --- Compilation

_NumPy: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | np.generic | bool | int | float | complex"
_Batch: TypeAlias = "tuple[_NumPy, *tuple[ArrayLike, ...]] | Mapping[str, _NumPy]"

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


@attrs.frozen(eq=False, repr=False)
class Options(Printable):
    """Static arguments, donated arguments, the back end of a jitted function, and what it does with denormals."""

    static_nums: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()
    donated: tuple[int, ...] = ()
    backend: JitBackend | None = None
    denormals: Denormals | None = None


SHOWN_TRACES = 8  # in a notebook, the latest


class JitFunction(Generic[P, R]):
    """A jitted function; call it as the function itself."""

    def __init__(self, fn: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._name = f"jit of {name_of(fn)}"
        self._entries: dict[Any, CacheEntry] = {}
        self._last: CacheEntry | None = None  # whose kind of arguments has Python of its own
        self._last_vjp: tuple[CacheEntry, CompiledVjp] | None = None
        self._derived: dict[Any, JitFunction[..., Any]] = {}  # its transformations
        self._retracing = Retracing()
        self._static_nums = options.static_nums
        self._static_names = options.static_names
        self._donate = options.donated
        self._backend: JitBackend | None = options.backend
        self._denormals: Denormals | None = options.denormals
        self._plain = not (options.static_nums or options.static_names or options.donated)

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    # what is accepted in an Array's place: in one of the first five positions, as many as the function has; mypy does not
    # count them, and takes any tree beside it
    @overload
    def __call__(self: JitFunction[Concatenate[A, Q], R], a: _NumPy, /, *args: Q.args, **kwargs: Q.kwargs) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, Q], R], a: _NumPy, b: B | _NumPy, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, Q], R], a: A, b: _NumPy | _Batch, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, C, Q], R],
        a: _NumPy,
        b: B | _NumPy,
        c: C | _NumPy,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, C, Q], R],
        a: A,
        b: B | _NumPy,
        c: _NumPy,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, C, Q], R],
        a: A,
        b: _NumPy,
        c: C | _NumPy,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, C, D, Q], R],
        a: A | _NumPy,
        b: B | _NumPy,
        c: C | _NumPy,
        d: D | _NumPy,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R: ...
    @overload
    def __call__(
        self: JitFunction[Concatenate[A, B, C, D, E, Q], R],
        a: A | _NumPy,
        b: B | _NumPy,
        c: C | _NumPy,
        d: D | _NumPy,
        e: E | _NumPy,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R: ...
    @overload  # by name, of which nothing can be said
    def __call__(self: JitFunction[Concatenate[A, Q], R], a: _NumPy, /, **kwargs: ArrayLike) -> R: ...
    @overload
    def __call__(self: JitFunction[Concatenate[A, B, Q], R], a: A, b: _NumPy, /, **kwargs: ArrayLike) -> R: ...
    @overload
    def __call__(self: JitFunction[Concatenate[A, B, C, Q], R], a: A, b: B, c: _NumPy, /, **kwargs: ArrayLike) -> R: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]  # mypy takes x for an argument by name
        """Run the function, tracing it first for arguments of a new kind."""
        if OPEN_BLOCKS and is_disabled():
            return check_inside(self._name, self._fn, args, kwargs)
        last = self._last
        if last is not None and not kwargs:
            matched = None if last.match is None else last.match(args)
            plan = last.program.made_plan
            if matched is not None and plan is not None:
                if last.donated:
                    _donate(*matched, last.donated)
                return last.results(plan(*matched[1]))
        if self._plain and not kwargs:  # of Arrays alone: their key needs no flattening
            kinds: list[Any] = [get_default_dtype(), current.key]
            values: list[Any] = []
            arrays = args
            for x in arrays:
                if x.__class__ is not Array:
                    if x.__class__ is GraphTracer:  # at once, so that many may be nested
                        return self._fn(*args, **kwargs)
                    break
                value = x._value
                values.append(value)
                kinds += (value.shape, value.dtype)
            else:
                entry = self._entries.get(tuple(kinds))
                if entry is not None:
                    self._last = entry if entry.notes_match(args, values) else None
                    return entry.results(entry.program.plan(*values))
        return self._run(args, kwargs)

    def run_known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result for arguments of the kind of the last ones, ``UNKNOWN`` for others."""
        last = self._last
        if last is None or kwargs or last.match is None:
            return UNKNOWN
        matched, plan = last.match(args), last.program.made_plan
        return UNKNOWN if matched is None or plan is None else last.results(plan(*matched[1]))

    def run_vjp(self, primals: tuple[Any, ...], *, has_aux: bool) -> Any:
        """Return what `afx.vjp` does for arguments of the kind of the last ones, ``UNKNOWN`` for others."""
        last = self._last_vjp
        if last is not None and last[1].has_aux is has_aux:
            match = last[0].match
            matched = None if match is None else match(primals)
            if matched is not None:
                return last[1].run(last[0], *matched)
        return UNKNOWN

    def start_vjp(
        self, primals: tuple[Any, ...], leaves: list[Any], treedef: Any, moving: list[bool] | None, *, has_aux: bool
    ) -> Any:
        """Return what `run_vjp` does, for arguments of any kind of which ``moving`` leaves have derivatives, None for all.

        ``UNKNOWN`` where some are no plain arrays, the graph does not depend on them alone, or the result is no pair of
        one with ``has_aux``: derivatives are another way then.
        """
        if self.has_static or any(x.__class__ not in (Array, np.ndarray) for x in leaves):
            return UNKNOWN
        kinds: list[Any] = [get_default_dtype(), current.key]
        for x in leaves:
            kinds += (x.shape, x.dtype)
        tree = pytree.structure((primals, NO_NAMES))
        if not (self._plain and len(leaves) == len(primals) and all(map(is_, leaves, primals))):
            kinds += (tree, orders(tree), (), ())
        key = tuple(kinds)
        entry = self._entries.get(key) or self._trace(self._fn, key, (), leaves, tree, primals, ())
        if entry.lifted or (has_aux and not entry.is_pair):
            return UNKNOWN
        known = entry.vjps.get(has_aux)
        if known is None:
            known = entry.vjps[has_aux] = CompiledVjp(entry, treedef, moving, has_aux=has_aux)
        values = [argument_of(x, self._name) for x in leaves]
        self._last_vjp = (entry, known) if entry.notes_match(primals, values) else None
        return known.run(entry, leaves, values)

    @property
    def has_static(self) -> bool:
        """Whether arguments are static."""
        return bool(self._static_nums or self._static_names)

    def derive(self, key: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> JitFunction[..., Any]:
        """Return a transformation of the function, compiled as a whole, which takes the memory of no argument.

        Args:
            key: of the transformation, under which it is kept as long as this function is.
            make: from a jitted function to its transformation.
        """
        known = self._derived.get(key)
        if known is not None:
            return known
        options = Options(self._static_nums, self._static_names, (), self._backend, self._denormals)
        inner = memoize(self._derived, "inner", lambda: _Inner(self._fn, options))  # knows nothing of this function
        return memoize(self._derived, key, lambda: JitFunction(make(inner), options))

    def _given(self, count: int) -> tuple[int, ...]:
        """Return the positions of the donated arguments, not counting the static ones."""
        still = {n % count for n in self._static_nums if -count <= n < count} if self._donate else ()
        return tuple([n - sum([s < n for s in still]) for n in self._donate if n < count and n not in still])

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method: Any = self
        return self if instance is None else functools.partial(method, instance)

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def _repr_html_(self) -> str:
        graphs = [entry.program.graph for entry in self._entries.copy().values()]
        return function_html(self._name, self._fn, [graph_html(graph) for graph in graphs[-SHOWN_TRACES:]])

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Return the name, as for functions, or where another function has that name what makes it anew."""
        options = Options(self._static_nums, self._static_names, self._donate, self._backend, self._denormals)
        return own_name(self, self._fn) or (JitFunction, (self._fn, options))

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Return the graph and the plan for these arguments, without running them."""
        fn, static_values, rest, named = self._split(args, kwargs)
        leaves, treedef = pytree.flatten((rest, named))
        given = self._given(len(args))
        key = (get_default_dtype(), current.key, *[kind for x in leaves for kind in _kind(x)])
        if not (self._plain and not named and len(leaves) == len(rest) and all(map(is_, leaves, rest))):
            key += (treedef, orders(treedef), static_values, given)
        entry = self._entries.get(key) or self._trace(fn, key, static_values, leaves, treedef, rest, given)
        return Lowered(entry.program.plan.graph, entry.program.plan)

    def clear_cache(self) -> None:
        """Forget every trace; the next call traces again."""
        self._entries.clear()
        self._derived.clear()
        self._last = self._last_vjp = None
        self._retracing = Retracing()

    def cache_info(self) -> CacheInfo:
        """Return how often the function was traced, and what its cache holds.

        >>> import afx
        >>> double = jit(lambda x: x * 2)
        >>> double(afx.ones(2)), double(afx.ones(3)), double(afx.ones(2))
        (Array([2., 2.], dtype=float32), Array([2., 2., 2.], dtype=float32), Array([2., 2.], dtype=float32))
        >>> double.cache_info()
        CacheInfo(traces=2, entries=2, max_entries=256, plan_bytes=6000, idle_bytes=0, native_entries=0)
        """
        forget_unused(self._entries)
        return cache_info(self._retracing.count, self._entries.copy().values())

    # -- calls --
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run on arguments of any kind: on traced ones as part of an abstract trace, and as one op of any other."""
        fn: Callable[..., Any] = self._fn
        static_values = ()
        given = self._given(len(args)) if self._donate else ()
        if not self._plain:
            fn, static_values, args, kwargs = self._split(args, kwargs)
        leaves, treedef = pytree.flatten((args, kwargs))
        kinds: list[Any] = [get_default_dtype(), current.key]
        values: list[Any] = []
        is_op = False
        for x in leaves:
            if x.__class__ is Array:
                value = x._value
                values.append(value)
                kinds += (value.shape, value.dtype)
            elif isinstance(x, GraphTracer):
                return fn(*args, **kwargs)
            else:
                is_op = is_op or isinstance(x, Tracer)
                values.append(x if is_op else argument_of(x, self._name))
                kinds += _kind(x)
        given = () if is_op else given
        if not (self._plain and not kwargs and len(leaves) == len(args) and all(map(is_, leaves, args))):
            kinds += (treedef, orders(treedef), static_values, given)
        key = tuple(kinds)
        entry = self._entries.get(key) or self._trace(fn, key, static_values, leaves, treedef, args, given)
        if is_op or entry.lifted:
            return pytree.unflatten(entry.out_tree, list(call(entry.program, *leaves, *entry.lifted)))
        if not (kwargs or static_values or self.has_static):
            self._last = entry if entry.notes_match(args, values) else None
        if entry.donated:
            value = None  # one reference less to the last of them
            _donate(leaves, values, entry.donated)
        return entry.results(entry.program.plan(*values))

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]]:
        """Return the function of the dynamic arguments, the key of the static ones, and the dynamic ones."""
        if not self.has_static:
            return self._fn, (), args, kwargs
        nums = {n % len(args) if -len(args) <= n < len(args) else n for n in self._static_nums}
        still = {n: a for n, a in enumerate(args) if n in nums}
        named_still = {k: v for k, v in kwargs.items() if k in self._static_names}
        try:
            static_values = tuple([(k, static_token(v)) for k, v in (*still.items(), *sorted(named_still.items()))])
        except TypeError as error:
            raise TreeError(
                f"{self._name}: a static argument is not hashable ({error}): got {still or named_still}; "
                "pass a tuple or another frozen value"
            ) from error

        def fn(*rest: Any, **named: Any) -> Any:
            values = iter(rest)
            full = [still[n] if n in still else next(values) for n in range(len(args))]
            return self._fn(*full, **named, **named_still)  # pyright: ignore[reportCallIssue]  # arguments split at run time

        rest = tuple([a for n, a in enumerate(args) if n not in nums])
        return fn, static_values, rest, {k: v for k, v in kwargs.items() if k not in self._static_names}

    def _trace(
        self,
        fn: Callable[..., Any],
        key: tuple[Any, ...],
        static_values: Any,
        leaves: Sequence[Any],
        treedef: Any,
        args: tuple[Any, ...],
        given: tuple[int, ...],
    ) -> CacheEntry:
        """Return the entry that runs arguments of a new kind, and keep it, where it depends on these alone."""
        avals = [aval_of(x, self._name) for x in leaves]
        target = with_backend(current.target, self._backend, self._denormals)
        foresee_code(target.backend)
        start = time.perf_counter()
        entry = CacheEntry(to_graph(fn, treedef, avals, self._name), leaves_of(args, given), target)
        self._retracing.note(self._name, static_values, treedef, avals, time.perf_counter() - start)
        if not entry.lifted:
            forget_unused(self._entries, 1)
            self._entries[key] = entry
        return entry


class _Inner(JitFunction[P, R]):
    """A jitted function that others hold, whose transformations are not compiled by themselves."""

    derive: Any = None


def _kind(x: Any) -> tuple[Any, ...]:
    """Return the part of the cache key that a leaf is: shape and dtype, or the type of a Python number."""
    dtype = getattr(x, "dtype", None)
    weak = ("weak",) if x.__class__ is WeakArray else ()
    return (x.__class__,) if dtype is None else (x.shape, dtype, *weak)


def _references() -> int:
    """Return what `sys.getrefcount` returns below for memory that only an Array and a list hold."""
    values = [np.empty(1)]
    leaves = [wrap(v) for v in values]
    for k in range(len(leaves)):
        value = values[k]
        return sys.getrefcount(value)
    raise AssertionError


OURS = without_debugger_refs(_references)


def _donate(leaves: Sequence[Any], values: list[Any], given: Sequence[int]) -> None:
    """Take the memory out of Arrays; what others still see, or never was an Array's, is protected from writing."""
    alone = list[Any]()
    for k in given:
        value = values[k]
        owns_memory = leaves[k].__class__ is Array and value.__class__ is np.ndarray and value.flags.owndata
        if owns_memory and sys.getrefcount(value) == OURS:
            alone.append(value)
        elif value.__class__ is np.ndarray:
            values[k] = value.view()
            values[k].flags.writeable = False
    for k in given:
        if leaves[k].__class__ is Array:
            leaves[k]._value = DONATED
    for value in alone:
        if not value.flags.writeable:  # asking is quicker
            value.flags.writeable = True


@overload
def jit(
    fn: Callable[P, R],
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    backend: JitBackend | None = None,
    denormals: Denormals | None = None,
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    backend: JitBackend | None = None,
    denormals: Denormals | None = None,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    backend: JitBackend | None = None,
    denormals: Denormals | None = None,
) -> JitFunction[..., Any] | Callable[[Callable[..., Any]], JitFunction[..., Any]]:
    """Return a function that traces ``fn`` once per kind of arguments and then runs its plan.

    The kind is the structure of the arguments, the shapes and dtypes of their leaves, and the values of static ones.
    The function runs as Python only while it is traced, with values unknown: it must be pure, and a Python branch on
    a traced value raises and names the line.

    Args:
        fn: a pure function of pytrees of arrays and numbers that returns such a pytree.
        static_argnums: positions of arguments whose value, which must hash, is part of the kind.
        static_argnames: names of such keyword arguments.
        donate_argnums: positions of donated arguments: results may be written into the memory of their
            Arrays, which cannot be used afterwards and say so. A training step that gives away parameters and state
            needs half the memory. Memory that is also seen elsewhere, by ``np.asarray`` or another Array, and arrays of
            NumPy stay as they are; so does everything where some argument is traced by another transformation. Machine
            code that has overwritten an argument tells of floating-point errors at the line of the call.
        backend: who runs it: ``"auto"``, ``"numpy"`` or ``"native"``, as `afx.set_backend` says; None for what that
            has set. The first two give the same bits; ``"native"`` has its own, the same from the first call on;
            ``"portable"``: machine code whose bits depend on the function and its arguments alone, on every processor.
        denormals: ``"flush"``: numbers between 0 and the smallest normal one are zeros while it computes, whatever the
            dtype; ``"keep"``: they are not; None: as `afx.set_denormals` says, by default the first where it computes in
            float32 or complex64, and else the second.

    Raises:
        ConcreteValueError: the function asks for the value of a traced array.
        TreeError: a static argument does not hash.
        ArgumentError: a position or name that the function's parameters do not have, no position at all, no back end,
            or a word for denormals that is none.
        MissingExtraError: the back end ``"native"`` without llvmlite.

    >>> import afx
    >>> double = jit(lambda x: x * 2)
    >>> double(afx.ones(2))
    Array([2., 2.], dtype=float32)
    """
    nums = as_positions(static_argnums, "static_argnums")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    given = as_positions(donate_argnums, "donate_argnums")
    if any(n < 0 for n in given) or set(given) & set(nums):
        raise ArgumentError(
            f"jit: donate_argnums are positions from 0 on of arguments that are not static: got {donate_argnums} "
            f"beside static_argnums={static_argnums}; count from the front"
        )

    check_denormals("jit", denormals)
    if backend is not None:
        check_backend("jit", backend)
        if backend == "portable" and denormals == "flush":
            raise ArgumentError('jit: portable bits keep denormals: got denormals="flush"; leave it out')
        foresee_code(backend)

    def decorate(f: Callable[..., Any]) -> JitFunction[..., Any]:
        if not (nums or names or given):  # nothing that the signature need be read for
            return JitFunction(f, Options(backend=backend, denormals=denormals))
        check_positions(f, static_argnums=nums, donate_argnums=given)
        return JitFunction(f, Options(*static_options(f, nums, names), given, backend, denormals))

    if fn is None:
        return decorate
    if not callable(fn):
        raise ArgumentError(f"jit: needs a function: got {fn!r}; write jit(fn) or @jit(static_argnums=…)")
    return decorate(fn)
