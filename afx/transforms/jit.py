"""`jit`: a function traced once per kind of arguments, then run as a plan."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

import attrs

from afx import pytree
from afx.core.abstract import AbstractTracer
from afx.core.array import Array, bare, wrap
from afx.core.aval import aval_of
from afx.core.dtypes import get_default_dtype
from afx.core.graph import Graph
from afx.core.tracer import Tracer
from afx.errors import ArgumentError, TreeError
from afx.runtime.cost import bytes_moved, flops
from afx.runtime.plan import Plan
from afx.transforms.call import Compiled, call
from afx.transforms.leaves import name_of
from afx.transforms.trace import Traced, to_graph

__all__ = ["JitFunction", "Lowered", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

CACHE_SIZE = 256


@attrs.frozen(eq=False)
class Lowered:
    """What `jit` built for some arguments.

    Attributes:
        graph: the simplified graph.
        plan: how it runs: ``plan.source``, ``plan.memory``.
    """

    graph: Graph
    plan: Plan

    @property
    def flops(self) -> int:
        """The arithmetic operations of one call."""
        return flops(self.graph)

    @property
    def bytes_moved(self) -> int:
        """The bytes that the equations read and write, were nothing kept in a cache."""
        return bytes_moved(self.graph)

    def __str__(self) -> str:
        return (
            f"{len(self.graph)} equations, {self.flops} flops, {self.bytes_moved} bytes moved, "
            f"{self.plan.memory} bytes of buffers"
        )


class _Entry:
    """A compiled trace of the function for one kind of arguments."""

    __slots__ = ("lifted", "out_tree", "program")

    def __init__(self, traced: Traced) -> None:
        self.program = Compiled(traced.graph)
        self.out_tree = traced.out_tree
        self.lifted = traced.lifted


class JitFunction(Generic[P, R]):
    """A jitted function; call it as the function itself."""

    def __init__(self, fn: Callable[P, R], static_argnums: tuple[int, ...], static_argnames: tuple[str, ...]) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._name = f"jit of {name_of(fn)}"
        self._cache: OrderedDict[Any, _Entry] = OrderedDict()
        self._static_nums = static_argnums
        self._static_names = static_argnames

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, tracing it first for arguments of a new kind."""
        if self._static_nums or self._static_names:
            fn, fixed, rest, named = self._split(args, kwargs)
            result: R = self._run(fn, fixed, rest, named)
        else:
            result = self._run(self._fn, (), args, kwargs)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method: Any = self
        return self if instance is None else functools.partial(method, instance)

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __reduce__(self) -> str:
        return self._fn.__qualname__  # by name, as functions are; traces stay behind

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Return the graph and the plan for these arguments, without running them."""
        fn, fixed, rest, named = self._split(args, kwargs)
        leaves, treedef = pytree.flatten((rest, named))
        entry = self._entry(fn, self._key(fixed, leaves, treedef), leaves, treedef)
        return Lowered(entry.program.plan.graph, entry.program.plan)

    def clear_cache(self) -> None:
        """Forget every trace; the next call traces again."""
        self._cache.clear()

    # -- calls --------------------------------------------------------------------------------------------------------
    def _run(self, fn: Callable[..., Any], fixed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        values: list[Any] = []
        kinds: list[Any] = [treedef, fixed, get_default_dtype()]
        for x in leaves:
            if x.__class__ is Array:
                value = x._value
                values.append(value)
                kinds += (value.shape, value.dtype)
            elif isinstance(x, Tracer):
                return self._traced(fn, fixed, args, kwargs)
            else:
                values.append(bare(x, self._name))  # a Python number keeps all its digits
                kinds += _kind(x)
        key = tuple(kinds)
        entry = self._cache.get(key) or self._entry(fn, key, leaves, treedef)
        if entry.lifted:
            return pytree.unflatten(entry.out_tree, list(call(entry.program, *leaves, *entry.lifted)))
        outs = entry.program.plan(*values)
        return pytree.unflatten(entry.out_tree, [wrap(v) for v in outs])

    def _traced(self, fn: Callable[..., Any], fixed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run on traced arrays: as part of an abstract trace, as one op of any other."""
        leaves, treedef = pytree.flatten((args, kwargs))
        if any(isinstance(x, AbstractTracer) for x in leaves):
            return fn(*args, **kwargs)
        entry = self._entry(fn, self._key(fixed, leaves, treedef), leaves, treedef)
        return pytree.unflatten(entry.out_tree, list(call(entry.program, *leaves, *entry.lifted)))

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]]:
        """Return the function of the dynamic arguments, the key of the static ones, and the dynamic ones."""
        if not (self._static_nums or self._static_names):
            return self._fn, (), args, kwargs
        nums = {n % len(args) if -len(args) <= n < len(args) else n for n in self._static_nums}
        still = {n: a for n, a in enumerate(args) if n in nums}
        named_still = {k: v for k, v in kwargs.items() if k in self._static_names}
        fixed = (tuple(still.items()), tuple(sorted(named_still.items())))
        try:
            hash(fixed)
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
        return fn, fixed, rest, {k: v for k, v in kwargs.items() if k not in self._static_names}

    def _key(self, fixed: Any, leaves: Sequence[Any], treedef: Any) -> tuple[Any, ...]:
        kinds: list[Any] = [treedef, fixed, get_default_dtype()]
        for x in leaves:
            kinds += _kind(x)
        return tuple(kinds)

    def _entry(self, fn: Callable[..., Any], key: tuple[Any, ...], leaves: Sequence[Any], treedef: Any) -> _Entry:
        entry = self._cache.get(key)
        if entry is None:
            entry = _Entry(to_graph(fn, treedef, [aval_of(x, self._name) for x in leaves], self._name))
            if not entry.lifted:
                while len(self._cache) >= CACHE_SIZE:
                    self._cache.popitem(last=False)
                self._cache[key] = entry
        return entry


def _kind(x: Any) -> tuple[Any, ...]:
    """Return the part of the cache key that a leaf is: shape and dtype, or the type of a Python number."""
    dtype = getattr(x, "dtype", None)
    return (x.__class__,) if dtype is None else (x.shape, dtype)


@overload
def jit(fn: Callable[P, R], /) -> JitFunction[P, R]: ...
@overload
def jit(
    *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
@overload
def jit(
    fn: Callable[P, R], /, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> JitFunction[P, R]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> JitFunction[..., Any] | Callable[[Callable[..., Any]], JitFunction[..., Any]]:
    """Return a function that traces ``fn`` once per kind of arguments and then runs its plan.

    The kind is the structure of the arguments, the shapes and dtypes of their leaves, and the values of static ones.
    The function runs as Python only while it is traced, with values unknown: it must be pure, and a Python branch on
    a traced value raises and names the line.

    Args:
        fn: a pure function of pytrees of arrays and numbers that returns such a pytree.
        static_argnums: positions of arguments whose value, which must hash, is part of the kind.
        static_argnames: names of such keyword arguments.

    Raises:
        ConcreteValueError: the function asks for the value of a traced array.
        TreeError: a static argument does not hash.

    >>> import afx
    >>> double = jit(lambda x: x * 2)
    >>> double(afx.ones(2))
    Array([2., 2.], dtype=float32)
    """
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if fn is None:

        def decorate(f: Callable[..., Any]) -> JitFunction[..., Any]:
            return JitFunction(f, (*nums, *_positions(f, names)), names)

        return decorate
    if not callable(fn):
        raise ArgumentError(f"jit: needs a function: got {fn!r}; write jit(fn) or @jit(static_argnums=…)")
    return JitFunction(fn, (*nums, *_positions(fn, names)), names)


def _positions(fn: Callable[..., Any], names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions at which arguments of these names can also be passed."""
    if not names:
        return ()
    parameters = list(inspect.signature(fn).parameters)
    missing = [n for n in names if n not in parameters]
    if missing:
        raise ArgumentError(f"jit: static_argnames={missing[0]!r} is not an argument of {name_of(fn)}; check its name")
    return tuple([parameters.index(n) for n in names])
