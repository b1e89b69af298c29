"""Names of `jax.lax` with JAX's arguments: convolutions, windows, sorts, implicit roots, named axes, attention, equations.

What has afx's own arguments is renamed by `afx.migrate.jax`; arrays here are NumPy's functions of afx's Arrays.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import string
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx import integrate, nn, pytree
from afx.control import cond as branches
from afx.control.solving import attach_implicit_derivative, flatten_to_vector, parametrize, stopped
from afx.core import Array, Aval, Bools, Derivative, Params, Primitive, Value, Values, bind, shape_of
from afx.core.tracing.traces import Unbatched
from afx.errors import ArgumentError
from afx.migrate.for_trees import tree_map
from afx.ops.creation.creation import asarray, full, stop_gradient
from afx.ops.elementwise.arithmetic import add, multiply, sqrt
from afx.ops.elementwise.comparison import clip, logical_and, logical_or, maximum, minimum, where
from afx.ops.indexing.getitem import take
from afx.ops.indexing.index import is_sequence
from afx.ops.indexing.select import ix_
from afx.ops.manipulation.join import moveaxis, repeat
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import broadcast_to, squeeze
from afx.ops.reductions import cumulative
from afx.ops.sorting.partition import lexsort, top_k as largest
from afx.transforms import custom_derivatives as derivatives, vmap as batching
from afx.transforms.compile.make_graph import trace

__all__ = ["conv_general_dilated", "custom_root", "reduce_window", "sort"]

np_: Any = np  # NumPy's functions, of Arrays
Precision: types.SimpleNamespace = types.SimpleNamespace(
    DEFAULT=None, HIGH=None, HIGHEST=None
)  # all products are exact to the dtype
Short: TypeAlias = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
)
# what a reduction by a function is; functions of other names are applied one after the other
FOLDS: dict[Any, Any] = {add: np.sum, multiply: np.prod, logical_and: np.all, logical_or: np.any}


SHORT: dict[str, Short] = {
    "argmax": lambda operand, axis, index_dtype: np_.argmax(asarray(operand), axis=axis).astype(index_dtype),
    "argmin": lambda operand, axis, index_dtype: np_.argmin(asarray(operand), axis=axis).astype(index_dtype),
    "broadcast": lambda operand, sizes: np_.broadcast_to(asarray(operand), (*sizes, *np.shape(operand))),
    "broadcast_in_dim": lambda operand, shape, broadcast_dimensions: np_.broadcast_to(
        np_.expand_dims(asarray(operand), [k for k in range(len(shape)) if k not in broadcast_dimensions]), shape
    ),
    "broadcasted_iota": lambda dtype, shape, dimension: np_.broadcast_to(
        asarray(np_.arange(shape[dimension]).astype(dtype)).reshape(
            [-1 if k == dimension else 1 for k in range(len(shape))]
        ),
        shape,
    ),
    "collapse": lambda operand, start_dimension, stop_dimension=None: asarray(operand).reshape(
        (*operand.shape[:start_dimension], -1, *(() if stop_dimension is None else operand.shape[stop_dimension:]))
    ),
    "complex": lambda x, y: x + 1j * asarray(y),
    "concatenate": lambda operands, dimension: np_.concatenate(list(map(asarray, operands)), axis=dimension),
    "convert_element_type": lambda operand, new_dtype: asarray(operand).astype(new_dtype),
    "dynamic_index_in_dim": lambda operand, index, axis=0, keepdims=True: (
        dynamic_slice_in_dim(operand, index, 1, axis)
        if keepdims
        else squeeze(dynamic_slice_in_dim(operand, index, 1, axis), axis)
    ),
    "dynamic_update_index_in_dim": lambda operand, update, index, axis: dynamic_update_slice_in_dim(
        operand, update if np.ndim(update) == np.ndim(operand) else np_.expand_dims(asarray(update), axis), index, axis
    ),
    "index_in_dim": lambda operand, index, axis=0, keepdims=True: np_.take(
        asarray(operand), [index] if keepdims else index, axis=axis
    ),
    "index_take": lambda src, idxs, axes: np_.moveaxis(asarray(src), axes, range(len(axes)))[tuple(idxs)],
    "iota": lambda dtype, size: asarray(np_.arange(size).astype(dtype)),
    "population_count": lambda x: np_.bitwise_count(asarray(x).astype(f"u{x.dtype.itemsize}")).astype(x.dtype),
    "rsqrt": lambda x: 1 / sqrt(x),
    "slice_in_dim": lambda operand, start_index, limit_index, stride=1, axis=0: np_.take(
        asarray(operand), np.arange(operand.shape[axis])[start_index:limit_index:stride], axis=axis
    ),
    "sort_key_val": lambda keys, values, dimension=-1: sort((keys, values), dimension),
    "split": lambda operand, sizes, axis=0: np_.split(asarray(operand), np.cumsum(sizes)[:-1], axis),
}


def __getattr__(name: str) -> Any:
    """Return a short function, or cumulative sums and others."""
    if name in SHORT:
        return SHORT[name]
    if name in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"):
        return functools.partial(_cumulative, getattr(cumulative, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _cumulative(fn: Callable[..., Array], x: Any, axis: int = 0, reverse: bool = False) -> Array:
    return flip(fn(flip(x, axis), axis), axis) if reverse else fn(x, axis)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Array]:
    """Return the largest elements, and their places of int32."""
    values, places = largest(asarray(operand), k, axis=axis)
    return [values, places.astype(np.int32)]


def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, **kwargs: Any) -> Any:
    """Return one of two functions' results; ``operand=`` is the one operand, None too."""
    return branches.cond(pred, true_fun, false_fun, *([kwargs["operand"]] if "operand" in kwargs else operands))


def select_n(which: Any, *cases: Any) -> Any:
    """Return each element of the case that a number names."""
    return functools.reduce(lambda z, k: where(asarray(which) == k, cases[k], z), range(1, len(cases)), cases[0])


def div(x: Any, y: Any) -> Any:
    """Return quotients; those of integers without their fractions."""
    n, m = asarray(x), asarray(y)
    if "f" in n.dtype.kind + m.dtype.kind or "c" in n.dtype.kind + m.dtype.kind:
        return n / m
    return (n - np_.fmod(n, m)) // m


def clamp(low: Any, x: Any, high: Any) -> Array:
    """Return numbers between bounds; on these none has a derivative."""
    z = asarray(x)
    inside = where((z > low) & (z < high), z, stop_gradient(z))
    return where(z < low, low, where(z > high, high, inside))


def _starts(x: Array, starts: Any, sizes: Sequence[int]) -> list[Any]:
    """Return where slices begin: within x, as XLA moves them."""
    return [clip(asarray(s), 0, n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)]


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Array:
    """Return a slice of fixed lengths from starts that may be traced.

    >>> dynamic_slice(afx.arange(5), (7,), (2,))
    Array([3, 4], dtype=int64)
    """
    x = asarray(operand)
    for axis, (start, size) in enumerate(zip(_starts(x, start_indices, slice_sizes), slice_sizes, strict=True)):
        x = take(x, start + np_.arange(size), axis=axis)
    return x


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Array:
    """Return x with a slice replaced, from starts that may be traced."""
    x, part = asarray(operand), asarray(update)
    places = [s + np.arange(n) for s, n in zip(_starts(x, start_indices, part.shape), part.shape, strict=True)]
    return x.at[ix_(*places)].set(part) if places else part


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Array:
    """Return a slice of a fixed length along an axis."""
    x = asarray(operand)
    return take(x, clip(asarray(start_index), 0, x.shape[axis] - slice_size) + np.arange(slice_size), axis=axis)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Array:
    """Return x with a slice along an axis replaced."""
    x = asarray(operand)
    return dynamic_update_slice(x, update, [start_index if k == axis % x.ndim else 0 for k in range(x.ndim)])


def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    """Return a part of x."""
    steps = strides or [1] * np.ndim(operand)
    return asarray(operand)[tuple([np.s_[a:b:c] for a, b, c in zip(start_indices, limit_indices, steps, strict=True)])]


# --- Convolutions and windows


class ConvDimensionNumbers(NamedTuple):
    """The axes of batch (or outputs), channels and space, of x, of the kernel and of the result."""

    lhs_spec: Any
    rhs_spec: Any
    out_spec: Any


def conv_dimension_numbers(lhs_shape: Any, _: Any, numbers: Any) -> ConvDimensionNumbers:
    """Return axes as numbers, of letters such as ``("NHWC", "HWIO", "NHWC")``."""
    if isinstance(numbers, ConvDimensionNumbers):
        return numbers
    if numbers is None:
        return ConvDimensionNumbers(*[tuple(range(len(lhs_shape)))] * 3)
    space = [c for c in numbers[1] if c not in "OI"]
    pairs = zip(numbers, ("NC", "OI", "NC"), strict=True)
    return ConvDimensionNumbers(*[tuple([spec.index(c) for c in (*two, *space)]) for spec, two in pairs])


def _padding(padding: Any, sizes: Any, window: Any, steps: Any) -> Any:
    """Return pairs of what is padded, ``"SAME"`` as XLA counts it."""
    if not isinstance(padding, str):
        return padding
    kind = padding.upper()
    if kind not in ("VALID", "SAME", "SAME_LOWER"):
        raise ArgumentError(f"padding: is VALID, SAME, SAME_LOWER or pairs: got {padding!r}; pad x by afx.pad")
    full_ = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(sizes, window, steps, strict=True)]
    return [(0, 0) if kind == "VALID" else (n // 2, n - n // 2)[:: 1 if kind == "SAME" else -1] for n in full_]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
) -> Array:
    """Return a convolution by XLA's arguments: `afx.nn.conv` with axes moved, and zeros put between elements.

    >>> conv_general_dilated(afx.ones((1, 1, 4)), afx.ones((1, 1, 3)), (1,), "SAME")
    Array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    del precision
    if batch_group_count != 1:
        raise ArgumentError(
            f"conv_general_dilated: groups of the batch: got {batch_group_count}; use feature_group_count"
        )
    x, kernel = asarray(lhs), asarray(rhs)
    specs = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    last, space = x.ndim - 1, range(x.ndim - 2)
    ends = (0, last, *range(1, last))
    x, kernel = np_.moveaxis(x, specs[0], ends), np_.moveaxis(kernel, specs[1], (last, last - 1, *space))
    gaps, steps = [list(d or [1 for _ in space]) for d in (lhs_dilation, rhs_dilation)]
    reach = [(n - 1) * d + 1 for n, d in zip(kernel.shape, steps, strict=False)]
    pads = _padding(padding, x.shape[1:-1], reach, window_strides)
    if max(gaps) > 1 or np.min(pads) < 0:
        none = (0, 0, 0)
        x = pad(x, 0, [none, *[(*two, gap - 1) for two, gap in zip(pads, gaps, strict=True)], none])
        pads = [(0, 0) for _ in space]
    z = nn.conv(x, kernel, stride=window_strides, padding=pads, dilation=steps, groups=feature_group_count)
    moved: Array = np_.moveaxis(z, ends, specs[2])
    return moved


def conv_general_dilated_patches(
    lhs: Any, filter_shape: Any, window_strides: Any, padding: Any, lhs_dilation: Any = None, rhs_dilation: Any = None,
    dimension_numbers: Any = None, precision: Any = None,
) -> Array:  # fmt: skip
    """Return what windows hold, as channels: a convolution with each place of the window."""
    size, rank = math.prod(filter_shape), np.ndim(lhs)
    specs = conv_dimension_numbers(np.shape(lhs), None, dimension_numbers)
    count = np.shape(lhs)[specs.lhs_spec[1]]
    kernel = np.tile(np.eye(size).reshape(size, 1, *filter_shape), (count, *[1] * (rank - 1)))
    kernel = np.moveaxis(kernel, range(rank), specs.rhs_spec).astype(lhs.dtype)
    return conv_general_dilated(
        lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, specs, count, precision=precision
    )


conv: Callable[..., Array] = conv_general_dilated
conv_with_general_padding: Callable[..., Array] = conv_general_dilated


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Any,
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
) -> Array:
    """Return a convolution with zeros between the elements of x."""
    del precision
    letters = "HWD"[: len(strides)]
    axes = dimension_numbers or (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    specs = conv_dimension_numbers(lhs.shape, None, axes)
    out, inputs, *space = specs.rhs_spec
    if transpose_kernel:
        rhs = np_.swapaxes(np_.flip(asarray(rhs), space), out, inputs)
    if isinstance(padding, str):
        dilations = rhs_dilation or [1] * len(strides)
        sizes = [(rhs.shape[k] - 1) * d + 1 for k, d in zip(space, dilations, strict=True)]
        padding = [_around(k, s, padding.upper() == "SAME") for k, s in zip(sizes, strides, strict=True)]
    return conv_general_dilated(lhs, rhs, [1] * len(strides), padding, strides, rhs_dilation, specs)


def _around(k: int, s: int, same: bool) -> tuple[int, int]:
    total = k + s - 2 + (0 if same else max(k - s, 0))
    first = k - 1 if s > k - 1 or not same else -(-total // 2)
    return first, total - first


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
) -> Array:
    """Return a reduction of each window; of a largest element the first has the derivative."""
    x = asarray(operand)
    pads = _padding(padding, x.shape, window_dimensions, window_strides)
    gaps = base_dilation or [1] * x.ndim
    x = pad(x, init_value, [(*two, gap - 1) for two, gap in zip(pads, gaps, strict=True)])
    cells = np_.lib.stride_tricks.sliding_window_view(x, tuple(window_dimensions))
    cells = cells[tuple([np.s_[::s] for s in window_strides])]
    return _fold(cells.reshape((*cells.shape[: x.ndim], -1)), init_value, computation)


def _fold(cells: Any, init: Any, fn: Any) -> Array:
    """Return the last axis put together by a function, from a first value."""
    if fn in (maximum, minimum):
        places = np_.argmax(cells if fn is maximum else -cells, axis=-1, keepdims=True)
        cells = np_.take_along_axis(cells, places, -1)
    elif fn in FOLDS:
        cells = FOLDS[fn](cells, axis=-1, keepdims=True)
    return functools.reduce(fn, [cells[..., k] for k in range(cells.shape[-1])], asarray(init))


def reduce(operands: Any, init_values: Any, computation: Any, dimensions: Any) -> Array:
    """Return axes put together by a function, from a first value."""
    rest = operands.ndim - len(dimensions)
    cells = np_.moveaxis(asarray(operands), tuple(dimensions), tuple(range(rest, operands.ndim)))
    return _fold(cells.reshape((*cells.shape[:rest], -1)), init_values, computation)


WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "cubic": lambda x: np.where(
        x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((2.5 - 0.5 * x) * x - 4) * x + 2, 0)
    ),
    "linear": lambda x: np.maximum(1 - x, 0),
}


ResizeMethod: types.SimpleNamespace = types.SimpleNamespace(
    CUBIC="cubic", LANCZOS3="lanczos3", LANCZOS5="lanczos5", LINEAR="linear", NEAREST="nearest"
)


def resize(image: Any, shape: Any, method: str, antialias: bool = True, precision: Any = None) -> Any:
    """Return an array of another shape: the nearest elements, or averages (of cubic ones, Keys 1981).

    Raises:
        ArgumentError: Lanczos' method.
    """
    del precision
    x, kind = asarray(image), method.lower().removeprefix("bi").removeprefix("tri").replace("angle", "linear")
    if kind not in ("nearest", *WEIGHTS):
        raise ArgumentError(f"resize: nearest, linear or cubic: got {method!r}; average by a matrix of weights")
    for axis, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        places: Any = (np_.arange(m) + 0.5) * (n / m)
        if n != m and kind == "nearest":
            x = np_.take(x, np.floor(places).astype(int), axis)
        elif n != m:
            far = np.abs(places - 0.5 - np.arange(n)[:, None]) / (max(n / m, 1.0) if antialias else 1.0)
            near = WEIGHTS[kind](far)
            x = np_.moveaxis(np_.tensordot(x, near / near.sum(0), (axis, 0)), -1, axis)
    return x


# --- Orders and shapes


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Return an array in order, or several, by the first ones of them."""
    del is_stable
    if not is_sequence(operand):
        return np_.sort(asarray(operand), axis=dimension)
    arrays = [asarray(x) for x in operand]
    order = lexsort(arrays[:num_keys][::-1], axis=dimension)
    return type(operand)([np_.take_along_axis(x, order, dimension) for x in arrays])


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None) -> Array:
    """Return products summed over pairs of axes, batches and free axes in XLA's order."""
    del precision
    (left, right), (left_batch, right_batch) = dimension_numbers
    a, b = list(string.ascii_letters[: lhs.ndim]), list(string.ascii_letters[lhs.ndim :][: rhs.ndim])
    for i, k in zip((*left, *left_batch), (*right, *right_batch), strict=True):
        b[k] = a[i]
    shared: list[str] = [a[k] for k in left_batch]
    summed: list[str] = [a[k] for k in left]
    kept = shared + [c for c in (*a, *b) if c not in shared + summed]
    z: Array = np_.einsum(f"{''.join(a)},{''.join(b)}->{''.join(kept)}", asarray(lhs), asarray(rhs))
    return z


def pad(operand: Any, padding_value: Any, padding_config: Any) -> Array:
    """Return x between, and with, numbers of one value: before, behind and between elements; less than 0 cuts.

    >>> pad(afx.ones(2), 0, [(1, -1, 1)])
    Array([0., 1., 0.], dtype=float32)
    """
    x, rows = asarray(operand), list(padding_config)
    if any(gap for _, _, gap in rows):
        sizes = [n + max(n - 1, 0) * gap for n, (_, _, gap) in zip(x.shape, rows, strict=True)]
        places = tuple([np.s_[:: gap + 1] for _, _, gap in rows])
        x = full(sizes, padding_value, x.dtype).at[places].set(x)
    cut = tuple([np.s_[max(-low, 0) : n + min(high, 0)] for n, (low, high, _) in zip(x.shape, rows, strict=True)])
    widths = [(max(low, 0), max(high, 0)) for low, high, _ in rows]
    padded: Array = np_.pad(x[cut], widths, constant_values=padding_value)
    return padded


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """Return numbers as a float of so many bits holds them."""
    x = asarray(operand)
    part, power = np_.frexp(x)
    z = np_.ldexp(np_.rint(np_.ldexp(part, mantissa_bits + 1)), power - mantissa_bits - 1)
    top = 2.0 ** (2 ** (exponent_bits - 1))
    z = where(np_.abs(z) >= top, np_.copysign(np.inf, x), z)
    return where(np_.abs(z) < 4 / top, np_.copysign(0.0, x), z)


# --- Solutions with implicit derivatives


def custom_root(f: Any, initial_guess: Any, solve: Any, tangent_solve: Any, has_aux: bool = False) -> Any:
    """Return what ``solve(f, guess)`` finds; its derivative is that of the implicit function theorem, by afx's solves."""
    del tangent_solve
    found = solve(f, initial_guess)
    found, *aux = found if has_aux else (found,)
    vector, unravel = flatten_to_vector(found, "custom_root")
    (x,) = stopped([vector])
    problem = parametrize(f, [unravel], [x.aval], (), "custom_root")

    def residual(x: Array, *params: Any) -> Array:
        return flatten_to_vector(problem.fn(x, *params), "custom_root")[0]

    root = unravel(attach_implicit_derivative(residual, x, problem.params, asarray(True)))
    return (root, *aux) if has_aux else root


def custom_linear_solve(matvec: Any, b: Any, solve: Any, *_: Any, has_aux: bool = False, **__: Any) -> Any:
    """Return what ``solve(matvec, b)`` finds, with the derivative of a linear system's solution."""

    def residual(x: Any) -> Any:
        return matvec(x) - b

    def find(*_: Any) -> Any:
        return solve(matvec, b)

    return custom_root(residual, b, find, None, has_aux)


# --- Functions with derivatives of one's own


class _WithRule:
    """A function whose derivative is given afterwards."""

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        name: Any = self
        functools.update_wrapper(name, fn)
        self._fn = fn
        self._still = tuple(sorted(nondiff_argnums))
        self._rules: tuple[Any, ...] = ()

    def _full(self, args: tuple[Any, ...], moving: Sequence[Any]) -> list[Any]:
        """Return all arguments, of which others move."""
        still, rest = {k % len(args) for k in self._still}, iter(moving)
        return [x if k in still else next(rest) for k, x in enumerate(args)]

    def _of_moving(self, args: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any], list[Any]]:
        """Return the function of the arguments that have derivatives, these, and the others."""
        still = {k % len(args): args[k] for k in self._still}
        moving = [x for k, x in enumerate(args) if k not in still]
        return lambda *xs: self._fn(*self._full(args, xs)), moving, list(still.values())


class custom_vjp(_WithRule):  # JAX's
    """A function whose reverse derivative `defvjp` gives; see `afx.custom_vjp`."""

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], optimize_remat: bool = False) -> None:
        """Set the forward and backward functions."""
        del optimize_remat
        self._rules = (fwd, bwd)

    def __call__(self, *args: Any) -> Any:
        """Compute it."""
        fwd, bwd = self._rules
        fn, moving, still = self._of_moving(args)
        return derivatives.custom_vjp(
            fn, lambda *xs: fwd(*self._full(args, xs)), lambda kept, ct: bwd(*still, kept, ct)
        )(*moving)


class custom_jvp(_WithRule):  # JAX's
    """A function whose forward derivative `defjvp` gives; see `afx.custom_jvp`."""

    def defjvp(self, rule: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        """Set the rule of primals and tangents, which are numbers all."""
        self._rules = (rule,)
        return rule

    def defjvps(self, *rules: Any) -> None:
        """Set a rule of each argument: of its tangent, the result and the arguments."""

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            z = self(*primals)
            parts = [r(t, z, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            return z, functools.reduce(lambda a, b: a + b, parts)

        self._rules = (rule,)

    def __call__(self, *args: Any) -> Any:
        """Compute it."""
        (rule,) = self._rules
        fn, moving, still = self._of_moving(args)
        return derivatives.custom_jvp(fn, lambda primals, tangents: rule(*still, primals, tangents))(*moving)


# --- Named axes of `vmap`, and what meets along them
#
# The innermost function of a named axis gets its place along it, a traced integer. An operation of a value and a place
# passes the loops of other axes, where only its value has an axis, until it comes to that of the place.

AXES: contextvars.ContextVar[dict[Any, tuple[Any, int]]] = contextvars.ContextVar("named axes")


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: Any = None
) -> Callable[..., Any]:
    """Return a function of many values, along an axis that has a name."""

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        axes = in_axes if is_sequence(in_axes) else [in_axes] * len(args)
        size = batching.read_batch(axes, args, *pytree.flatten((args, kwargs)), axis_size, "a function")[-1]

        def run_at(place: Any, own: tuple[Any, ...], named: dict[str, Any]) -> Any:
            token = AXES.set({**AXES.get({}), axis_name: (place, size)})
            try:
                return fun(*own, **named)
            finally:
                AXES.reset(token)

        mapped: Any = batching.vmap(run_at, (0, (*axes,), 0), out_axes)
        return mapped(np.arange(size, dtype=np.int32), args, kwargs)

    return run


def _meet(x: Any, axis_name: Any) -> Array:
    """Return the values of all places of an axis along a new first one."""
    place, size = _find(axis_name)
    z: Array = bind(MEET, asarray(x), place, size=size)
    return z


def _find(axis_name: Any) -> tuple[Any, int]:
    if axis_name not in AXES.get({}):
        raise NameError(f"unbound axis name: {axis_name}: give it to vmap as axis_name")
    return AXES.get()[axis_name]


def _meet_batch(size: int, xs: Values, batched: Bools, params: Params) -> Any:
    x, place = xs
    if not batched[1]:
        return moveaxis(bind(MEET, x, place, **params), 1, 0)
    return Unbatched(x if batched[0] else broadcast_to(x, (size, *shape_of(x))))


def _meet_pull(ct: Value, _z: Value, xs: Values, params: Params, *_: Any) -> Value:
    return take(bind(MEET, ct, xs[1], **params).sum(0), xs[1], 0)


def _meet_shape(x: Aval, _place: Aval, *, size: int) -> Aval:
    return Aval((size, *x.shape), x.dtype)


def _meet_nowhere(*_: Any, **__: Any) -> Any:
    raise ArgumentError("a named axis ended before the function that meets along it ran: call that within vmap's")


MEET: Primitive = Primitive(
    "meet",
    "custom",
    _meet_nowhere,
    _meet_shape,
    batch=_meet_batch,
    derivative=Derivative(
        vjps=(_meet_pull,), reads=(4,), jvp=lambda ts, _z, xs, params: bind(MEET, ts[0], xs[1], **params)
    ),
)


def _of_axes(reduce: Callable[[Array], Any]) -> Callable[..., Any]:
    """Return a function that reduces the values along one named axis or several."""

    def run(x: Any, axis_name: Any) -> Any:
        def meet(leaf: Any) -> Any:
            for name in axis_name if is_sequence(axis_name) else [axis_name]:
                leaf = reduce(_meet(leaf, name))
            return leaf

        return tree_map(meet, x)

    return run


pmean: Callable[..., Any] = _of_axes(lambda x: x.mean(0))
pmax: Callable[..., Any] = _of_axes(lambda x: x.max(0))
pmin: Callable[..., Any] = _of_axes(lambda x: x.min(0))


def psum(x: Any, axis_name: Any) -> Any:
    """Return the sum along named axes; of a number of Python's the product with their lengths."""
    if isinstance(x, (int, float)):
        return x * axis_size(axis_name)
    return _of_axes(lambda z: z.sum(0, dtype=z.dtype))(x, axis_name)


def axis_size(axis_name: Any) -> int:
    """Return the length of a named axis, or the product of several."""
    return math.prod([_find(name)[1] for name in (axis_name if is_sequence(axis_name) else [axis_name])])


def axis_index(axis_name: Any) -> Any:
    """Return the place along a named axis."""
    return _find(axis_name)[0]


def all_gather(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    """Return the values of all places along an axis, a new one unless ``tiled``."""

    def gather(leaf: Any) -> Array:
        z = _meet(leaf, axis_name)
        return np_.concatenate([*z], axis) if tiled else moveaxis(z, 0, axis)

    return tree_map(gather, x)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """Return the value of the place that sends to this one, zeros where none does."""
    place, size = _find(axis_name)
    sources = np.full(size, size)
    for source, target in perm:
        sources[target] = source

    def receive(leaf: Any) -> Array:
        values = _meet(leaf, axis_name)
        return take(np_.concatenate([values, np_.zeros_like(values[:1])]), asarray(sources)[place], 0)

    return tree_map(receive, x)


def pmap(
    fun: Callable[..., Any], axis_name: Any = None, *, in_axes: Any = 0, out_axes: Any = 0, axis_size: Any = None,
    backend: Any = None, devices: Any = None, donate_argnums: Any = (),
) -> Any:  # fmt: skip
    """Return a function of many values, where JAX has a device for each: here the processor computes all of them."""
    del backend, devices, donate_argnums
    return vmap(fun, in_axes, out_axes, axis_name, axis_size)


# --- One device


class Device:
    """The processor."""

    id: int = 0
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"


class Placement(contextlib.nullcontext[Any]):
    """A mesh of devices, or what says where arrays lie on one: all on the processor."""

    Auto = Explicit = Manual = None

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(self)


def devices(*_: Any, **__: Any) -> list[Device]:
    """Return the processor."""
    return [Device()]


def device_count(*_: Any, **__: Any) -> int:
    """Return how many devices or processes there are."""
    return 1


def process_index(*_: Any, **__: Any) -> int:
    """Return the number of the process among all."""
    return 0


def default_backend() -> str:
    """Return the kind of device."""
    return "cpu"


# --- Graphs


class Jaxpr:
    """A graph, by the names that JAX's have."""

    def __init__(self, graph: Any) -> None:
        self.graph: Any = graph
        self.jaxpr: Jaxpr = self
        self.eqns: Any = graph.equations
        self.invars: Any = graph.inputs
        self.outvars: Any = graph.outputs
        self.consts: Any = [c.value for _, c in graph.constants]
        self.in_avals: Any = [x.aval for x in graph.inputs]
        self.out_avals: Any = [x.aval for x in graph.outputs]

    def __repr__(self) -> str:
        return str(self.graph)


def make_jaxpr(fun: Callable[..., Any], static_argnums: Any = (), **_: Any) -> Callable[..., Jaxpr]:
    """Return a function that traces another one, some of whose arguments are static."""

    def run(*args: Any, **kwargs: Any) -> Jaxpr:
        given = static_argnums if is_sequence(static_argnums) else (static_argnums,)
        still = {k % len(args): args[k % len(args)] for k in given}

        def of_moving(*moving: Any, **kwargs: Any) -> Any:
            rest = iter(moving)
            return fun(*[still[k] if k in still else next(rest) for k in range(len(args))], **kwargs)

        moving = [x for k, x in enumerate(args) if k not in still]
        return Jaxpr(trace(functools.wraps(fun)(of_moving))(*moving, **kwargs))

    return run


# --- Attention and differential equations


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: Any = None, is_causal: bool = False,
    implementation: Any = None,
) -> Array:  # fmt: skip
    """Return attention of [..., time, heads, size], of whose keys several heads may share one."""
    del implementation
    q, k, v = [moveaxis(asarray(x), -2, -3) for x in (query, key, value)]
    times = q.shape[-3] // k.shape[-3]
    k, v = [x if times == 1 else repeat(x, times, -3) for x in (k, v)]
    return moveaxis(nn.dot_product_attention(q, k, v, mask=mask, bias=bias, causal=is_causal, scale=scale), -3, -2)


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8, **_: Any
) -> Any:
    """Return the solution at times, the first of which is that of the start."""

    def slope(time: Any, y: Any, *rest: Any) -> Any:
        return func(y, time, *rest)

    return integrate.odeint(slope, y0, t, *args, rtol=rtol, atol=atol).ys
