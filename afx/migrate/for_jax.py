"""Calls of JAX: functions with its arguments, for programs that `python -m afx.migrate jax` rewrote.

Programs written for afx call what is behind them: ``optimizer.step``, `afx.random`, `afx.pytree`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import operator
from collections.abc import Callable, Generator, Sequence
from typing import Any

import attrs
import numpy as np

from afx import debug, linalg, ndimage, nn, pytree, random, testing
from afx.control import scan as scans, while_loop as loops
from afx.core import Array, Aval, Bools, Params, Primitive, Tracer, Values, bind, register
from afx.core.dtypes import default_dtype, get_default_dtype, narrow_default, set_default_dtype, set_narrow_default
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, ones_like, stop_gradient, zeros
from afx.ops.creation.matrices import tril, triu
from afx.ops.elementwise import arithmetic
from afx.ops.elementwise.comparison import clip as limit, isnan, maximum, minimum, where, where as choose
from afx.ops.elementwise.complex import conj, real
from afx.ops.indexing import getitem, scatter
from afx.ops.indexing.select import unravel_index
from afx.ops.linalg.factorizations import giving_nan
from afx.ops.manipulation import edit
from afx.ops.manipulation.join import atleast_1d, concat, moveaxis, stack
from afx.ops.manipulation.pad import pad
from afx.ops.manipulation.shape import broadcast_to, expand_dims
from afx.ops.numerics import histograms, polynomials
from afx.ops.reductions.cumulative import cumsum, logsumexp as log_sum
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sets import isin
from afx.ops.sorting.sort import argsort, searchsorted as search_sorted, sort
from afx.pytree import nodes
from afx.runtime.control_register import run_as_caller
from afx.transforms import checkpoint as memory
from afx.transforms.derivatives.grad import vjp
from afx.transforms.derivatives.jvp import jvp

__all__ = ["ShapeDtypeStruct", "bound", "by_name", "config", "draw", "named", "same"]


def by_name(text: str) -> dict[str, str]:
    r"""Return what stands behind the colon of a line, which a margin continues, by each name before it.

    Where that ends in a star, the first name is the home of the others, which, or what is behind their =, replace the star.

    >>> by_name("a b: one\n  and two\nc d e=g: f.*")
    {'a': 'one and two', 'b': 'one and two', 'c.d': 'f.d', 'c.e': 'f.g'}
    """
    found = dict[str, str]()
    for names, _, rest in [line.partition(": ") for line in text.replace("\n  ", " ").split("\n")]:
        home, *others = names.split()
        if rest.endswith("*"):
            pairs = [word.partition("=") for word in others]
            found |= {f"{home}.{name}": rest[:-1] + (own or name) for name, _, own in pairs}
        else:
            found |= dict.fromkeys([home, *others], rest)
    return found


# draws, by JAX's arguments behind the key in their order: afx's name of one behind =
_DRAWS: str = """bernoulli: p shape
beta: a b shape dtype
binomial multinomial: n p shape dtype
categorical: logits axis shape
cauchy exponential gumbel laplace logistic maxwell normal rademacher: shape dtype
chisquare t: df shape dtype
choice: a=x shape replace p axis
ball: d=n p shape dtype
bits: shape dtype
dirichlet: alpha shape dtype
f: dfnum dfden shape dtype
gamma loggamma: a shape dtype
generalized_normal geometric: p shape dtype
orthogonal: n shape dtype
lognormal: sigma=scale shape dtype
multivariate_normal: mean cov shape dtype
pareto: b=concentration shape dtype
permutation: x axis
poisson: lam=rate shape dtype
randint: shape minval=low maxval=high dtype
rayleigh: scale shape dtype
triangular: left mode right shape dtype
truncated_normal: lower=low upper=high shape dtype
uniform: shape dtype minval=low maxval=high
wald: mean shape dtype
weibull_min: scale concentration shape dtype"""
DRAWS: dict[str, str] = by_name(_DRAWS)
_LOOPS: str = """fori_loop: lower upper body_fun=body_fn init_val=init
scan: f=fn init xs length reverse
while_loop: cond_fun=cond_fn body_fun=body_fn init_val=init"""
LOOPS: dict[str, str] = by_name(_LOOPS)
DTYPES: str = "bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
PASSED_BY: tuple[str, ...] = ("mode", "method", "out_sharding", "unroll")  # how JAX computes them


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function of `jax.random` or `jax.lax` with JAX's arguments."""
    if name in DTYPES.split():
        return functools.partial(asarray, dtype=np.dtype(name))
    families: dict[Any, Any] = {draw: DRAWS, _loop: LOOPS, _of_sets: ("intersect1d", "setdiff1d", "setxor1d")}
    families[_count_in] = ("histogram2d", "histogramdd")
    fn = segment if name.startswith("segment_") else next((f for f, names in families.items() if name in names), None)
    if fn is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return bound(fn, name)


def bound(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of this name, which is told it first."""
    made = functools.partial(fn, name)
    made.__dict__["__name__"] = name
    return made


# --- Arguments of JAX: in its order, by its names, with its defaults


def named(who: str, names: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by afx's names, those that JAX passes in this order or by its own names.

    Raises:
        ArgumentError: others.
    """
    pairs = [word.partition("=") for word in names.split()]
    words = [word for word, _, _ in pairs]
    given = {**dict(zip(words, args, strict=False)), **kwargs}
    if len(args) > len(words) or not {*given} <= {*words, *PASSED_BY}:
        raise ArgumentError(
            f"{who}: takes {', '.join(words)}: got {len(args)} values and {sorted(kwargs)}; write afx's call"
        )
    return {own or word: given[word] for word, _, own in pairs if word in given}


def draw(name: str, key: Any, *args: Any, **kwargs: Any) -> Array:
    """Return draws by JAX's arguments; the numbers of a key are afx's."""
    given = named(name, DRAWS[name], args, kwargs)
    if name == "bernoulli":
        given.setdefault("p", 0.5)
    fn: Callable[..., Array] = getattr(random, name)
    whole = {"rademacher": np.int64, "binomial": get_default_dtype(), "multinomial": get_default_dtype()}
    dtype = given.pop("dtype", whole.get(name))
    if dtype is None or "dtype" in inspect.signature(fn).parameters:  # with all its digits
        return fn(key, **given, **({} if dtype is None else {"dtype": dtype}))
    return fn(key, **given).astype(dtype)


def _loop(name: str, *args: Any, **kwargs: Any) -> Any:
    """Run a loop of afx's by the arguments of JAX's."""
    run: Any = {"fori_loop": loops.fori_loop, "scan": scans.scan, "while_loop": loops.while_loop}[name]
    given = named(name, LOOPS[name], args, kwargs)
    if any(is_short(x) for x in pytree.leaves(given.get("init"))):  # JAX's integers have 32 bits all
        word = "fn" if name == "scan" else "body_fn"
        given[word] = _keep_short(given[word], given["init"], name == "scan")
    return run(**given)


def is_short(x: Any) -> bool:
    """Tell whether a number or an array is of integers below 64 bits."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind in "iu" and dtype.itemsize < 8


def _keep_short(fn: Any, init: Any, in_pair: bool) -> Any:
    """Return a step after which such integers have the dtype that they had before."""

    def keep(old: Any, new: Any) -> Any:
        return (
            asarray(new).astype(old.dtype) if is_short(old) and getattr(new, "dtype", old.dtype).kind in "iu" else new
        )

    def step(*args: Any) -> Any:
        z = fn(*args)
        carry = pytree.map(keep, init, z[0] if in_pair else z)
        return (carry, z[1]) if in_pair else carry

    return step


class config:  # jax.config
    """Settings: ``jax_enable_x64`` is the dtype of Python's numbers, False of NumPy's data too; all others are JAX's own."""

    @staticmethod
    def update(name: str, value: Any) -> None:
        """Set one."""
        if name == "jax_enable_x64":
            set_default_dtype(np.float64 if value else np.float32)
            set_narrow_default(np.float32)
            nodes.sort_dicts(True)


@contextlib.contextmanager
def enable_x64(new_val: bool = True) -> Generator[None]:
    """Set the dtype of Python's numbers, and of NumPy's data, in a block."""
    is_set = bool(narrow_default)
    try:
        with default_dtype(np.float64 if new_val else np.float32):
            if is_set:
                set_narrow_default(np.float32)
            yield
    finally:
        if is_set:
            set_narrow_default(np.float32)


def device_put(x: Any, *_: Any, **__: Any) -> Any:
    """Return a tree of Arrays; there is one device."""
    return pytree.map(asarray, x)


class at:  # x.at
    """Places of an array, ``at(x)[index]``: updates that JAX's modes lead where an index lies outside.

    >>> at(afx.arange(3))[np.array([1, 7])].get(mode="fill", fill_value=-1)
    Array([ 1, -1], dtype=int64)
    """

    def __init__(self, x: Any, index: Any = ()) -> None:
        self._x: Any = x if isinstance(x, (dict, list, tuple)) else asarray(x)
        is_tuple: bool = isinstance(index, tuple)
        self._index: tuple[Any, ...] = index if is_tuple else (index,)

    def __getitem__(self, index: Any) -> Any:
        return at(self._x, index)

    def __getattr__(self, name: str) -> Callable[..., Array]:
        return functools.partial(self._update, {"mul": "multiply", "div": "divide"}.get(name, name))

    def get(self, *, mode: Any = None, fill_value: Any = None, **_: Any) -> Any:
        """Return elements, for places outside the nearest one or a number: nan, or the least integer."""
        if not isinstance(self._x, Array):  # of a container
            index: Any = self._index
            return self._x[index if len(index) > 1 else index[0]]
        if mode is None:  # gradients leave out what arrays of places read outside, as JAX's do
            near = self.get(mode="clip")
            if near.dtype.kind != "f" or not any(np.ndim(e) for e in self._index if hasattr(e, "ndim")):
                return near
            found = self.get(mode="fill", fill_value=0)
            return found + stop_gradient(near - found)
        widths, index = self._within(mode)
        return pad(self._x, widths, constant_values=_fill_of(self._x.dtype, fill_value))[index]

    def _update(self, name: str, *args: Any, mode: Any = "drop", **_: Any) -> Array:
        """Return the array with places changed; those outside are left out, or the nearest ones."""
        widths, index = self._within(mode)
        x = pad(self._x, widths)
        times = zeros(x.shape, x.dtype if name == "power" else int).at[index].add(1)  # that a place is named
        if name == "power":
            z: Array = x ** (args[0] ** times)
        elif name == "apply":
            most = times.max(initial=0)
            z = loops.fori_loop(0, most, lambda n, z: self._apply(z, index, times > n, *args), x)
        else:
            z = getattr(x.at[index], name)(*args)
        return z[tuple(map(slice, self._x.shape))]

    @staticmethod
    def _apply(x: Array, index: Any, goes_on: Array, fn: Callable[[Array], Array]) -> Array:
        z: Array = x.at[index].apply(lambda v: where(goes_on[index], fn(v), v))
        return z

    def _within(self, mode: Any) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
        """Return widths of a margin, and indices: those outside lie in it, or are the nearest."""
        widths, index, margin = list[tuple[int, int]](), list[Any](), int(mode in ("drop", "fill"))
        entries: list[Any] = [e if e is None or e is ... or isinstance(e, slice) else asarray(e) for e in self._index]
        counts = [
            e.ndim if isinstance(e, Array) and e.dtype == bool else e is not None and e is not ... for e in entries
        ]
        for entry, count in zip(entries, counts, strict=True):
            if isinstance(entry, Array) and entry.dtype != bool:
                size = self._x.shape[len(widths)]
                k = where(entry < 0, entry + size, entry)
                entry = where((k < 0) | (k >= size), size, k) if margin else limit(k, 0, size - 1)
                widths.append((0, margin))
            else:
                widths += [(0, 0)] * (self._x.ndim - sum(counts) if entry is ... else count)
            index.append(entry)
        return widths + [(0, 0)] * (self._x.ndim - len(widths)), tuple(index)


def _fill_of(dtype: Any, given: Any = None) -> Any:
    """Return what JAX has for elements outside, unless a number is given."""
    if given is not None or dtype.kind not in "iub":
        return np.nan if given is None else given
    return True if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: Any = None, **kwargs: Any) -> Array:
    """Return elements of an axis, nan or the least integer for those outside, unless a mode is given."""
    del out
    x, at_ = (asarray(a).reshape(-1), 0) if axis is None else (asarray(a), axis)
    return _read(lambda k: getitem.take(x, k, axis=at_), x, indices, at_, (mode, kwargs.get("fill_value")), None)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None) -> Array:
    """Return elements by places along an axis, likewise.

    >>> take_along_axis(afx.ones((1, 2)), np.array([[0, 5]]), 1)
    Array([[ 1., nan]], dtype=float32)
    """
    x, at_ = (asarray(arr).reshape(-1), 0) if axis is None else (asarray(arr), axis)
    return _read(lambda k: getitem.take_along_axis(x, k, at_), x, indices, at_, (mode, fill_value), 0)


def _read(
    read: Callable[[Array], Array], x: Array, indices: Any, axis: int, given: tuple[Any, Any], rest: int | None
) -> Array:
    """Return what is read at the nearest places, and a number for those outside: the rest of x has so many axes behind."""
    mode, fill_value = given
    size, places = x.shape[axis], asarray(indices)
    if mode == "wrap":
        return read(places % size)
    k = where(places < 0, places + size, places)
    z: Array = read(limit(k, 0, size - 1))
    if mode == "clip" or (not isinstance(k, Tracer) and not ((k < 0) | (k >= size)).any()):
        return read(limit(places, 0, size - 1)) if mode == "clip" else z
    behind = x.ndim - 1 - axis % x.ndim if rest is None else rest
    inside = ((k >= 0) & (k < size)).reshape(k.shape + (1,) * behind)
    return where(inside, z, _fill_of(z.dtype, fill_value))


def segment(name: str, data: Any, segment_ids: Any, num_segments: int | None = None, **_: Any) -> Array:
    """Return sums, or another reduction, of segments; what belongs to none of so many is left out."""
    ids: Any = asarray(segment_ids)
    reduce: Callable[..., Array] = getattr(scatter, name)
    if num_segments is None:
        return reduce(data, ids, None)
    return reduce(data, where((ids < 0) | (ids >= num_segments), num_segments, ids), num_segments + 1)[:num_segments]


def checkpoint(fun: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """Return a function whose values are computed again for derivatives; which ones are kept is afx's own choice."""
    return memory.checkpoint(fun)


class _Policies:
    """What is kept of a function for its derivatives is afx's own choice, whatever is said."""

    def __getattr__(self, name: str) -> Any:
        return same


def check_grads(f: Any, args: Any, order: int, modes: Sequence[Any] = ("fwd", "rev"), *_: Any, **__: Any) -> None:
    """Compare derivatives with differences, to afx's tolerances."""
    testing.check_grads(f, args, order, modes)


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """Return the transpose of a linear function."""
    return vjp(fun, *primals)[1]


def jet(fun: Callable[..., Any], primals: Any, series: Any) -> tuple[Any, list[Any]]:
    """Return a function's value and its derivatives along curves, whose derivatives at 0 are the series.

    >>> jet(lambda x: x**3, (2.0,), ((1.0, 0.0),))
    (Array(8., dtype=float32), [Array(12., dtype=float32), Array(12., dtype=float32)])
    """

    def at_time(t: Any) -> Any:
        powers = [t ** (n + 1) / math.factorial(n + 1) for n in range(len(series[0]))]
        return fun(
            *[x + builtins.sum(map(operator.mul, terms, powers)) for x, terms in zip(primals, series, strict=True)]
        )

    found = [at_time]
    for _ in series[0]:
        found.append(functools.partial(_rate, found[-1]))
    value, *rates = [fn(asarray(0.0)) for fn in found]
    return value, rates


def _rate(fn: Any, t: Any) -> Any:
    return jvp(fn, (t,), (ones_like(t),))[1]


def device_get(x: Any) -> Any:
    """Return a tree of ndarrays."""
    return pytree.map(np.asarray, x)


def ShapeDtypeStruct(shape: Sequence[int], dtype: Any, **_: Any) -> Aval:  # JAX's
    """Return a shape and a dtype."""
    return Aval(tuple(shape), np.dtype(dtype))


def same(x: Any = None, *_: Any, **__: Any) -> Any:
    """Return x: keys are their data, and names and policies change no number."""
    return x


checkpoint_policies: _Policies = _Policies()


# --- Jitted functions, lowered and compiled, and functions that Python computes


@attrs.frozen(eq=False)
class Stage:
    """A jitted function for the kinds of some arguments: lowered, or compiled and called without the static ones."""

    fn: Any
    lowered: Any
    places: dict[int, Any]
    names: dict[str, Any]

    def compile(self, **_: Any) -> Stage:
        """Return the same."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for n, x in sorted(self.places.items()):
            given.insert(n, x)
        return self.fn(*given, **kwargs, **self.names)

    def as_text(self, **_: Any) -> str:
        """Return afx's program."""
        return str(self.lowered.schedule)

    def cost_analysis(self) -> dict[str, float]:
        """Return numbers of operations and of bytes, as afx counts them."""
        return {"flops": float(self.lowered.flops), "bytes accessed": float(self.lowered.bytes_moved)}


def lower(fn: Any, *args: Any, **kwargs: Any) -> Stage:
    """Return a jitted function for the kinds of these arguments.

    >>> lower(afx.jit(lambda x, n: x * n, static_argnums=1), 3.0, 2).compile()(4.0)
    Array(8., dtype=float32)
    """
    places = {n % len(args): args[n] for n in fn._static_nums if -len(args) <= n < len(args)}
    names = {name: kwargs[name] for name in fn._static_names if name in kwargs}
    return Stage(fn, fn.lower(*args, **kwargs), places, names)


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a function with values, which afx does in the order of the lines."""
    del ordered
    debug.callback(callback, *args, **kwargs)


def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a function of ndarrays gives, of these shapes and dtypes, under `jit` too: batches one by one.

    >>> afx.jit(lambda x: pure_callback(np.sort, x, x))(np.array([2.0, 1.0]))
    Array([1., 2.], dtype=float64)
    """
    given = {k: v for k, v in kwargs.items() if k not in ("sharding", "vmap_method", "vectorized")}
    (leaves, inputs), (specs, outputs) = pytree.flatten((args, given)), pytree.flatten(result_shape_dtypes)
    avals = tuple([Aval(tuple(z.shape), np.dtype(z.dtype)) for z in specs])

    def run(*xs: Any) -> list[Any]:
        places, names = pytree.unflatten(inputs, list(map(np.array, xs)))
        found = pytree.leaves(run_as_caller(callback, *places, **names))
        return [np.array(z, a.dtype).reshape(a.shape) for z, a in zip(found, avals, strict=True)]

    return pytree.unflatten(outputs, list(bind(_host(), *map(asarray, leaves), run=run, avals=avals)))


def _run_on_host(*xs: Any, run: Any, avals: Any) -> tuple[Any, ...]:
    del avals
    return tuple(run(*xs))


def _host_avals(*_: Aval, run: Any, avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    del run
    return avals


def _batch_on_host(size: int, xs: Values, batched: Bools, params: Params) -> Any:
    def run(*values: Any) -> list[Any]:
        rows = [params["run"](*[x[k] if b else x for x, b in zip(values, batched, strict=True)]) for k in range(size)]
        return list(map(np.stack, zip(*rows, strict=True)))

    return bind(_host(), *xs, run=run, avals=tuple([Aval((size, *a.shape), a.dtype) for a in params["avals"]]))


@functools.cache
def _host() -> Primitive:
    """Return the operation, which is registered where a program has it."""
    rules = _run_on_host, _host_avals
    return register(Primitive("pure_callback", "custom", *rules, batch=_batch_on_host, multiple_results=True))


# --- Functions of as many results as are asked for


def flatnonzero(a: Any, *, size: int, fill_value: Any = None) -> Array:
    """Return the first places that are not 0, and a number for those that are missing."""
    flat = asarray(a).reshape(-1) != 0
    places = argsort(~flat)[:size]
    places = concat([places, np.zeros(size - len(places), np.int64)]) if len(places) < size else places
    return where(np.arange(size) < sum_(flat), places, 0 if fill_value is None else fill_value)


def nonzero(a: Any, *, size: int, fill_value: Any = None) -> tuple[Array, ...]:
    """Return these places by axes.

    >>> nonzero(np.array([0, 3, 2]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int64),)
    """
    x = asarray(a)
    valid = flatnonzero(x, size=size, fill_value=-1) >= 0
    places = unravel_index(flatnonzero(x, size=size), x.shape)
    fills: Any = fill_value if np.ndim(fill_value) else (fill_value,) * x.ndim
    return tuple([where(valid, k, 0 if f is None else f) for k, f in zip(places, fills, strict=True)])


def argwhere(a: Any, *, size: int, fill_value: Any = None) -> Array:
    """Return these places as rows."""
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=-1)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    size: int,
    fill_value: Any = None,
) -> Any:
    """Return the first different elements in order, and for missing ones a number, the least where none is given."""
    flat = asarray(ar).reshape(-1)
    order = argsort(flat)
    s = flat[order]
    is_new = _is_new(s)
    places = flatnonzero(is_new, size=size)
    group = cumsum(is_new.astype(int)) - 1
    first = _missing(s, is_new, places, s[0] if fill_value is None else fill_value)
    inverse = zeros(flat.shape, int).at[order].set(group).reshape(np.shape(ar))
    counts = (group == np.arange(size)[:, None]).sum(-1)
    parts = ((True, first), (return_index, order[places]), (return_inverse, inverse), (return_counts, counts))
    found = tuple([z for is_asked, z in parts if is_asked])
    return found if len(found) > 1 else first


def _is_new(s: Array) -> Array:
    return concat([np.ones(1, np.bool_), s[1:] != s[:-1]])


def _missing(x: Array, keep: Any, places: Array, fill: Any) -> Array:
    """Return elements at places, and a number for those behind what is kept."""
    return where(np.arange(len(places)) < sum_(keep), x[places], fill)


def _of_sets(name: str, ar1: Any, ar2: Any, *, size: int, fill_value: Any = None, **_: Any) -> Array:
    """Return the first elements of a set of two, and a number for missing ones."""
    a, b = [asarray(x).reshape(-1) for x in (ar1, ar2)]
    s = sort(concat([a, b]))
    first, second = isin(s, a), isin(s, b)
    keep = _is_new(s) & {"intersect1d": first & second, "setdiff1d": first & ~second, "setxor1d": first ^ second}[name]
    places = flatnonzero(keep, size=size)
    least = 0 if name == "setdiff1d" else s[places[0]]
    return _missing(s, keep, places, least if fill_value is None else fill_value)


def union1d(ar1: Any, ar2: Any, *, size: int, fill_value: Any = None) -> Any:
    """Return the first elements of both sets."""
    return unique(concat([asarray(ar1).reshape(-1), asarray(ar2).reshape(-1)]), size=size, fill_value=fill_value)


def extract(condition: Any, arr: Any, *, size: int, fill_value: Any = 0) -> Array:
    """Return the first elements where a condition holds."""
    keep = asarray(condition).reshape(-1) != 0
    return _missing(asarray(arr).reshape(-1), keep, flatnonzero(keep, size=size), fill_value)


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int) -> Array:
    """Return counts of so many numbers, without larger ones; those below 0 count as 0."""
    del minlength
    return histograms.bincount(asarray(x).clip(0, length), weights, length=length + 1)[:length]


def repeat(a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int) -> Array:
    """Return elements several times: so many in all, of which the last one fills the rest."""
    x = asarray(a).reshape(-1) if axis is None else asarray(a)
    k = axis or 0
    ends = cumsum(broadcast_to(asarray(repeats), (x.shape[k],)))
    places = search_sorted(ends, np.arange(total_repeat_length), "right").clip(0, x.shape[k] - 1)
    return getitem.take(x, places, axis=k)


# --- Functions that have JAX's derivatives at kinks


def absolute(x: Any) -> Array:
    """Return absolute values, whose derivative at 0 is 1."""
    z = asarray(x)
    return where(z < 0, -z, z + 0.0) if z.dtype.kind == "f" else arithmetic.abs(z)


def abs(x: Any) -> Any:
    """Return this of an Array, and Python's of others."""
    return absolute(x) if isinstance(x, Array) else builtins.abs(x)


def clip(arr: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Array:
    """Return numbers between bounds; on one, both have half of the derivative."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    z: Array = asarray(arr)
    if z.dtype.kind != "f":
        return limit(z, low, high)
    z = z if low is None else maximum(z, low)
    return z if high is None else minimum(z, high)


def fmax(x1: Any, x2: Any) -> Array:
    """Return the larger number; of equal ones the second has the derivative."""
    x, y = asarray(x1), asarray(x2)
    return where((x > y) | isnan(y), x, y)


def fmin(x1: Any, x2: Any) -> Array:
    """Return the smaller number, likewise."""
    return -fmax(-asarray(x1), -asarray(x2))


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Array:
    """Return x, or a share of it below 0; the derivative at 0 is 1."""
    z = asarray(x)
    return where(z >= 0, z, negative_slope * z)


def hard_sigmoid(x: Any) -> Array:
    """Return lines from 0 to 1, with half of their slope at both ends."""
    return nn.relu6(asarray(x) + 3.0) / 6.0


def hard_silu(x: Any) -> Array:
    """Return x times these."""
    return asarray(x) * hard_sigmoid(x)


def sparse_sigmoid(x: Any) -> Array:
    """Return a line from 0 at -1 to 1 at 1."""
    return 0.5 * clip(asarray(x) + 1.0, 0.0, 2.0)


# --- Functions that JAX and SciPy have with other defaults


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, *, where: Any) -> Array:
    """Return this of the elements that are chosen."""
    return log_sum(a, axis, b=choose(where, 1.0 if b is None else b, 0.0), keepdims=keepdims)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of the first two axes, as NumPy's.

    >>> diagonal(afx.ones((2, 3, 4))).shape
    (4, 2)
    """
    return edit.diagonal(a, offset, axis1, axis2)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Return the array with the elements of its diagonal replaced, as often as it is long.

    Raises:
        ArgumentError: in place, or from the first row again, which JAX has not either.
    """
    if inplace or wrap:
        raise ArgumentError("fill_diagonal: got inplace or wrap=True; write fill_diagonal(a, val, inplace=False)")
    x = asarray(a)
    n = min(x.shape)
    return x.at[(np.arange(n),) * x.ndim].set(edit.resize(val, n))


def factor(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return NumPy's factor of Cholesky, of the symmetric part; nan of what is not positive definite.

    >>> factor(np.array([[1.0, 2.0], [2.0, 1.0]]))
    Array([[nan,  0.],
           [nan, nan]], dtype=float64)
    """
    x = asarray(a)
    with giving_nan():
        z = linalg.cholesky((x + conj(x.mT)) / 2 if symmetrize_input else x, upper=upper)
    return triu(z) if upper else tril(z)


def cholesky(a: Any, lower: bool = False, **_: Any) -> Array:
    """Return SciPy's, which is upper: of the upper triangle, unless lower; likewise."""
    with giving_nan():
        z = tril(linalg.cholesky(a if lower else asarray(a).mT))
    return z if lower else z.mT


def cho_factor(a: Any, lower: bool = False, **_: Any) -> Any:
    """Return one and whether it is lower, likewise."""
    return cholesky(a, lower), lower


def qr(a: Any, *, mode: str = "full", pivoting: bool = False, **_: Any) -> tuple[Array, ...]:
    """Return SciPy's factors, which are square unless ``mode="economic"``; of mode "r" one alone, in a tuple."""
    if pivoting:
        raise ArgumentError("qr: columns are not exchanged: got pivoting=True; call scipy.linalg.qr on data")
    if mode == "r":
        return (linalg.qr(a, mode="complete")[1],)
    return linalg.qr(a, mode="complete") if mode == "full" else linalg.qr(a)


def eigh(a: Any, b: None = None, lower: bool = True, eigvals_only: bool = False, **_: Any) -> Any:
    """Return eigenvalues, and eigenvectors, of the symmetric part."""
    del lower
    if b is not None:
        raise ArgumentError("eigh: of one matrix, as JAX's: got b; multiply by the inverse of its Cholesky factor")
    return linalg.eigvalsh(a) if eigvals_only else linalg.eigh(a)


def solve(a: Any, b: Any, lower: bool = False, *_: Any, **__: Any) -> Array:
    """Return the solution of a linear system; what is said of the matrix, or saved by it, changes no number."""
    del lower
    return linalg.solve(a, b)


def lstsq(a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False) -> Any:
    """Return solutions, residuals, rank and singular values; residuals as JAX has them unless NumPy's are asked for."""
    x, residuals, rank, values = linalg.lstsq(a, b, rcond)
    if not numpy_resid:
        rest = asarray(b) - asarray(a) @ x
        residuals = atleast_1d(sum_(real(rest * conj(rest)), axis=0))
    return x, residuals, rank, values


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Return quotient and rest of polynomials; the rest has as many coefficients as u, unless they are trimmed."""
    quotient, rest = polynomials.polydiv(u, v)
    gap = len(u) - len(rest)
    return quotient, rest if trim_leading_zeros or gap <= 0 else concat([zeros(gap, rest.dtype), rest])


def histogram(*args: Any, **kwargs: Any) -> tuple[Array, Array]:
    """Return counts, which are floats as JAX's, and edges."""
    counts, edges = histograms.histogram(*args, **kwargs)
    return counts.astype(get_default_dtype()), edges


def _count_in(name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return counts of boxes, which are integers as JAX's unless they are weighted, and edges."""
    counts, *edges = getattr(histograms, name)(*args, **kwargs)
    is_whole = kwargs.get("weights") is None and not kwargs.get("density")
    return (counts.astype(int) if is_whole else counts, *edges)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Return rows of 0 and a 1, along an axis."""
    rows = expand_dims(asarray(x), -1) == np.arange(num_classes)
    return moveaxis(rows.astype(get_default_dtype() if dtype is None else dtype), -1, axis)


def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None, *, method: str = "") -> Array:
    """Return places of int32, as JAX has them."""
    del method
    return search_sorted(a, v, side, sorter).astype(np.int32)


def map_coordinates(input: Any, coordinates: Any, order: int, mode: Any = "constant", cval: Any = 0.0) -> Array:
    """Return values between points of a grid, beyond whose edges JAX's modes are SciPy's of a grid.

    >>> map_coordinates(np.array([0.0, 1.0]), [np.array([1.5, 2.0])], 1, "wrap")
    Array([0.5, 0. ], dtype=float64)
    """
    own: Any = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
    return ndimage.map_coordinates(input, coordinates, order=order, mode=own, cval=cval)


class _Grid:
    """A grid by slices, as `numpy.mgrid` and `ogrid` give it, of known numbers."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __getitem__(self, key: Any) -> Any:
        return pytree.map(asarray, self._grid[key])


mgrid: _Grid = _Grid(np.mgrid)
ogrid: _Grid = _Grid(np.ogrid)
