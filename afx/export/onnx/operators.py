"""Operators of arrays: arithmetic, shapes, reads and writes at indices, reductions and order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx import nn
from afx.core.registry import FUNCTIONS
from afx.errors import ExportError
from afx.export.onnx.elementwise import OF_FLOAT32, SAME
from afx.export.onnx.nodes import MANY, Options, accumulate, check_size, operator, operators, read_ints, read_value

F: Any = FUNCTIONS

# --- Arithmetic, element by element

PLAIN = f"{SAME} {OF_FLOAT32} Atan IsNaN Sign Where"  # which have the names of afx's functions, in small letters
ALIGNED = {  # and those of two operands, with the names that they have here
    "Add": "add", "And": "logical_and", "Equal": "equal", "Greater": "greater", "Less": "less", "Mul": "multiply",
    "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip
NAMES = {  # and those of another name
    "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "GreaterOrEqual": "greater_equal", "LessOrEqual": "less_equal",
    "Neg": "negative", "Not": "logical_not",
}  # fmt: skip
FOLDED = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}  # which take any number of operands


def _call(function: str, _o: Options, *xs: Any) -> Any:
    return getattr(F, function)(*xs)


def _align(o: Options, x: Any, y: Any) -> Any:
    """Return an operand whose first axis is another's axis of this number, as opset 6 says it."""
    if o.version >= 7 or "axis" not in o.attributes:
        return y
    return y.reshape((*y.shape, *[1] * (x.ndim - o["axis"] % x.ndim - y.ndim)))


def _call_aligned(function: str, o: Options, x: Any, y: Any) -> Any:
    return getattr(F, function)(x, _align(o, x, y))


def _fold(function: str, o: Options, *xs: Any) -> Any:
    z = functools.reduce(getattr(F, function), xs)
    return z / np.array(len(xs), z.dtype) if o.kind == "Mean" else z


operators({n: functools.partial(_call, n.lower()) for n in PLAIN.split()})
operators({n: functools.partial(_call, function) for n, function in NAMES.items()})
operators({n: functools.partial(_call_aligned, function) for n, function in ALIGNED.items()}, "axis broadcast")
operators({n: functools.partial(_fold, function) for n, function in FOLDED.items()})
ACTIVATIONS: dict[str, Callable[[Options, Any], Any]] = {
    "Elu": lambda o, x: nn.elu(x, o.get("alpha", 1.0)),
    "Gelu": lambda o, x: nn.gelu(x, approximate=o.get("approximate") == "tanh"),
    "LeakyRelu": lambda o, x: F.where(x < 0, x * o.get("alpha", 0.01), x),
    "Relu": lambda _o, x: F.maximum(x, 0) if x.dtype.kind == "i" else nn.relu(x),
    "Selu": lambda o, x: o.get("gamma", 1.05070098) * nn.elu(x, o.get("alpha", 1.67326324)),
    "Sigmoid": lambda _o, x: nn.sigmoid(x),
    "Softplus": lambda _o, x: nn.softplus(x),
}
operators(ACTIVATIONS, "alpha approximate=none|tanh beta gamma")


@operator("Div", "axis broadcast")
def _divide(o: Options, x: Any, y: Any) -> Any:
    y = _align(o, x, y)
    if x.dtype.kind == "f":
        return x / y
    low = x // y
    return low + ((low * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


@operator("Pow", "axis broadcast")
def _power(o: Options, x: Any, y: Any) -> Any:
    return F.pow(x, _align(o, x, y)).astype(x.dtype)


@operator("IsInf", "detect_negative detect_positive")
def _infinite(o: Options, x: Any) -> Any:
    up, down = bool(o.get("detect_positive", 1)), bool(o.get("detect_negative", 1))
    return F.isinf(x) & (up & (x > 0) | down & (x < 0))


@operator("BitShift", "direction=LEFT|RIGHT")
def _shift(o: Options, x: Any, y: Any) -> Any:
    return getattr(F, f"bitwise_{o['direction'].lower()}_shift")(x, y)


@operator("Clip")
def _clip(_o: Options, x: Any, low: Any = None, high: Any = None) -> Any:
    return F.clip(x, low, high)


@operator("Shrink", "bias lambd")
def _shrink(o: Options, x: Any) -> Any:
    bias, edge = o.get("bias", 0.0), o.get("lambd", 0.5)
    return F.where(x < -edge, x + bias, F.where(x > edge, x - bias, 0)).astype(x.dtype)


@operator("PRelu")
def _slope(o: Options, x: Any, slope: Any) -> Any:
    if o.version < 7 and slope.ndim == 1:  # one of each channel
        slope = slope.reshape((-1, *[1] * (x.ndim - 2)))
    return F.where(x < 0, x * slope, x)


@operator("Gemm", "alpha beta broadcast transA transB")
@accumulate
def _gemm(o: Options, x: Any, y: Any, bias: Any = None) -> Any:
    z = (x.T if o.get("transA") else x) @ (y.T if o.get("transB") else y) * o.get("alpha", 1.0)
    z = z if bias is None else z + bias * o.get("beta", 1.0)
    return z.astype(x.dtype)


@operator("MatMul")
@accumulate
def _multiply(_o: Options, x: Any, y: Any) -> Any:
    return x @ y


@operator("Einsum", "equation")
@accumulate
def _einsum(o: Options, *xs: Any) -> Any:
    return F.einsum(o["equation"], *xs)


@operator("Mod", "fmod")
def _remainder(o: Options, x: Any, y: Any) -> Any:
    return (F.fmod if o.get("fmod") else F.remainder)(x, y)


@operator("Cast", "to saturate round_mode")
def _cast(o: Options, x: Any) -> Any:
    return x.astype(o["to"])


@operator("BitCast", "to")
def _cast_bits(o: Options, x: Any) -> Any:
    return F.asarray(read_value(x).view(o["to"]))


@operator("Dropout", "is_test seed", results=2)
def _dropout(o: Options, x: Any, ratio: Any = None, trains: Any = None) -> Any:
    """Return x and that all of it is kept: what is dropped in training is drawn, by numbers of no model."""
    is_drawn = not o.get("is_test") if o.version < 7 else trains is not None and bool(read_ints(trains)[0])
    if is_drawn and (0.5 if ratio is None else read_value(ratio).item()) != 0:
        raise ExportError(
            "from_onnx: Dropout draws, as in training, by a ratio: got training_mode=1; write the model for inference"
        )
    return (x, F.broadcast_to(F.asarray(True), x.shape))[: o.outputs]


# --- Constants, shapes and parts


@operator("Constant", "value value_float value_floats value_int value_ints")
def _constant(o: Options) -> Any:
    return next(iter(o.attributes.values()))


@operator("ConstantOfShape", "value")
def _fill(o: Options, lengths: Any) -> Any:
    check_size("ConstantOfShape", read_ints(lengths))
    return F.broadcast_to(o.get("value", np.zeros(1, np.float32))[0], tuple(read_ints(lengths)))


@operator("EyeLike", "dtype k")
def _eye(o: Options, x: Any) -> Any:
    return F.eye(*x.shape, k=o.get("k", 0), dtype=o.get("dtype") or x.dtype)


@operator("Range")
def _count(_o: Options, *ends: Any) -> Any:
    start, stop, step = [read_value(x).item() for x in ends]
    check_size("Range", [max(0, math.ceil((stop - start) / step))])
    return np.arange(start, stop, step, dtype=ends[0].dtype)


SHAPES: dict[str, Callable[[Options, Any], Any]] = {
    "Flatten": lambda o, x: x.reshape(_flatten(x.shape, o.get("axis", 1))),
    "Identity": lambda _o, x: x,
    "Shape": lambda o, x: np.array(x.shape[o.get("start") : o.get("end")], np.int64),
    "Size": lambda _o, x: np.array(math.prod(x.shape)),
    "Transpose": lambda o, x: F.permute_dims(x, o.get("perm", range(x.ndim)[::-1])),
}
operators(SHAPES, "axis end perm start")


def _flatten(shape: Sequence[int], axis: int) -> tuple[int, int]:
    return math.prod(shape[:axis]), math.prod(shape[axis:])


@operator("Concat", "axis")
def _concat(o: Options, *xs: Any) -> Any:
    return F.concat(xs, axis=o["axis"])


@operator("Reshape", "allowzero")
def _reshape(o: Options, x: Any, shape: Any) -> Any:
    keeps = not o.get("allowzero")
    return x.reshape(tuple([x.shape[k] if n == 0 and keeps else n for k, n in enumerate(read_ints(shape))]))


@operator("Squeeze Unsqueeze")
def _reaxis(o: Options, x: Any, axes: Any = None) -> Any:
    given = None if axes is None else tuple(read_ints(axes))
    return (F.expand_dims if o.kind == "Unsqueeze" else F.squeeze)(x, given)


@operator("Slice")
def _slice(_o: Options, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    low, high, index = read_ints(starts), read_ints(ends), [slice(None)] * x.ndim
    places = range(len(low)) if axes is None else read_ints(axes)
    strides = [1] * len(low) if steps is None else read_ints(steps)
    for axis, start, end, step in zip(places, low, high, strides, strict=True):
        n = x.shape[axis]
        index[axis] = slice(max(start, -n), None if step < 0 and end < -n else end, step)
    return x[tuple(index)]


@operator("Split", "axis num_outputs", results=MANY)
def _split(o: Options, x: Any, sizes: Any = None) -> Any:
    axis, count = o.get("axis", 0), o.outputs
    lengths = [-(-x.shape[axis] // count)] * count if sizes is None else read_ints(sizes)
    if sizes is not None and (len(lengths) != count or sum(lengths) != x.shape[axis]):
        raise ExportError(
            f"from_onnx: parts of Split do not fit: got {lengths} of {[*x.shape]} for {count}; mend the model"
        )
    return tuple(F.split(x, np.cumsum(lengths)[: count - 1].tolist(), axis=axis))


@operator("Pad", "mode=constant|edge|reflect|wrap")
def _pad(o: Options, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    widths, each = read_ints(pads), [(0, 0)] * x.ndim
    for k, axis in enumerate(range(x.ndim) if axes is None else read_ints(axes)):
        each[axis] = (widths[k], widths[k + len(widths) // 2])
    check_size("Pad", [n + sum(w) for n, w in zip(x.shape, each, strict=True)])
    x = x[tuple([slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, each, strict=True)])]
    each = [(max(0, a), max(0, b)) for a, b in each]
    mode = o.get("mode", "constant")
    return F.pad(x, each, mode, **({"constant_values": 0 if value is None else value} if mode == "constant" else {}))


@operator("Tile")
def _tile(_o: Options, x: Any, times: Any) -> Any:
    check_size("Tile", [n * t for n, t in zip(x.shape, read_ints(times), strict=True)])
    return F.tile(x, tuple(read_ints(times)))


@operator("Expand")
def _expand(_o: Options, x: Any, lengths: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, tuple(read_ints(lengths)))
    check_size("Expand", shape)
    return F.broadcast_to(x, shape)


@operator("Trilu", "upper")
def _triangle(o: Options, x: Any, k: Any = None) -> Any:
    return (F.triu if o.get("upper", 1) else F.tril)(x, k=0 if k is None else read_ints(k)[0])


@operator("ReverseSequence", "batch_axis time_axis")
def _reverse(o: Options, x: Any, lengths: Any) -> Any:
    time, batch = o.get("time_axis", 0), o.get("batch_axis", 1)
    rows = F.moveaxis(x, (batch, time), (0, 1))
    steps = np.arange(int(rows.shape[1]))
    ends = F.expand_dims(lengths, -1)
    order = F.where(steps < ends, ends - 1 - steps, steps)
    return F.moveaxis(rows[np.arange(rows.shape[0])[:, None], order], (0, 1), (batch, time))


# --- Reads and writes at indices


def _wrap(i: Any, n: int) -> Any:
    return F.where(i < 0, i + n, i)


def _along(x: Any, i: Any, axis: int) -> tuple[Any, ...]:
    """Return an index of places along an axis, of the shape of i, beside the other axes' own."""
    grids = np.ogrid[tuple(map(slice, i.shape))]
    return tuple([_wrap(i, x.shape[axis]) if a == axis % x.ndim else g for a, g in enumerate(grids)])


def _update(o: Options, x: Any, index: Any, values: Any) -> Any:
    reduction: str = o.get("reduction", "none")
    names = {"none": "set", "mul": "multiply"}
    return getattr(F.asarray(x).at[index], names.get(reduction, reduction))(values)


def _parts(i: Any, shape: Sequence[int], skipped: int = 0) -> tuple[Any, ...]:
    """Return what stands along the last axis as an index, behind axes whose places are those of the index itself."""
    front = np.ogrid[tuple(map(slice, i.shape[:-1]))][:skipped]
    return (*front, *[_wrap(i[..., k], shape[skipped + k]) for k in range(i.shape[-1])])


@operator("Gather", "axis")
def _gather(o: Options, x: Any, i: Any) -> Any:
    return F.take(x, i, axis=o.get("axis", 0))


@operator("GatherElements", "axis")
def _gather_elements(o: Options, x: Any, i: Any) -> Any:
    return x[_along(x, i, o.get("axis", 0))]


@operator("GatherND", "batch_dims")
def _gather_nd(o: Options, x: Any, i: Any) -> Any:
    return x[_parts(i, x.shape, o.get("batch_dims", 0))]


@operator("Scatter ScatterElements", "axis reduction=none|add|max|min|mul")
def _scatter_elements(o: Options, x: Any, i: Any, values: Any) -> Any:
    return _update(o, x, _along(x, i, o.get("axis", 0)), values)


@operator("ScatterND", "reduction=none|add|max|min|mul")
def _scatter(o: Options, x: Any, i: Any, values: Any) -> Any:
    return _update(o, x, _parts(i, x.shape), values)


@operator("TensorScatter", "axis mode=circular|linear")
def _write_cache(o: Options, x: Any, values: Any, first: Any = None) -> Any:
    axis = o.get("axis", -2) % x.ndim
    grids: list[Any] = list(np.ogrid[tuple(map(slice, values.shape))])
    start = 0 if first is None else first.reshape((-1, *[1] * (x.ndim - 1)))
    place = grids[axis] + start
    grids[axis] = place % x.shape[axis] if o.get("mode") == "circular" else place
    return F.asarray(x).at[tuple(grids)].set(values)


@operator("OneHot", "axis")
def _one_hot(o: Options, i: Any, depth: Any, values: Any) -> Any:
    n, axis = read_ints(depth)[0], o.get("axis", -1)
    check_size("OneHot", [*i.shape, n])
    along = [-1 if a == axis % (i.ndim + 1) else 1 for a in range(i.ndim + 1)]
    return F.where(F.expand_dims(_wrap(i, n), axis) == F.reshape(np.arange(n), along), values[1], values[0])


@operator("Compress", "axis")
def _compress(o: Options, x: Any, condition: Any) -> Any:
    places = np.flatnonzero(read_value(condition))
    return F.take(x.reshape(-1) if o.get("axis") is None else x, places, axis=o.get("axis", 0))


@operator("NonZero")
def _nonzero(_o: Options, x: Any) -> Any:
    return F.asarray(np.stack(np.nonzero(np.atleast_1d(read_value(x)))).astype(np.int64))


@operator("Unique", "axis sorted", results=4)
def _unique(o: Options, x: Any) -> Any:
    """Return the different values, in order or as they come first, with their places, those of all and their counts."""
    axis = o.get("axis")
    values, first, every, counts = np.unique(
        read_value(x), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not o.get("sorted", 1):
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis=axis or 0), first[order], counts[order]
        every = np.argsort(order)[every.ravel()]
    rest = [F.asarray(np.ravel(a).astype(np.int64)) for a in (first, every, counts)]
    return (F.asarray(values), *rest)


# --- Reductions, running totals and order

NORMS = {  # what stands before a reduction and after it
    "L1": ("abs", "sum", None), "L2": ("square", "sum", "sqrt"), "LogSum": (None, "sum", "log"),
    "SumSquare": ("square", "sum", None),
}  # fmt: skip
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp", *NORMS)
BLANK: dict[str, Callable[[Any], Any]] = {  # of nothing
    "max": lambda dtype: -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min,
    "min": lambda dtype: np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max,
}


def _reduce(function: str, o: Options, x: Any, axes: Any = None) -> Any:
    given = o.get("axes") if axes is None else read_ints(axes)
    before, name, after = NORMS.get(function, (None, function.lower(), None))
    x = x if before is None else getattr(F, before)(x)
    over = tuple(given) if given else () if o.get("noop_with_empty_axes") else tuple(range(x.ndim))
    keeps = bool(o.get("keepdims", 1))
    if name in BLANK and any(x.shape[a] == 0 for a in over):
        shape = [1 if a in {b % x.ndim for b in over} else n for a, n in enumerate(x.shape)]
        reduced = F.full(
            [n for a, n in enumerate(shape) if keeps or a not in {b % x.ndim for b in over}], BLANK[name](x.dtype)
        )
    else:
        reduced = x if not over else getattr(F, name)(x, axis=over, keepdims=keeps)
    reduced = reduced if after is None else getattr(F, after)(reduced)
    return reduced if reduced.dtype == x.dtype else reduced.astype(x.dtype)


def _place(function: str, o: Options, x: Any) -> Any:
    axis = o.get("axis", 0)
    turned = F.flip(x, axis=axis) if o.get("select_last_index") else x
    place = getattr(F, function)(turned, axis=axis, keepdims=bool(o.get("keepdims", 1)))
    return x.shape[axis] - 1 - place if o.get("select_last_index") else place


operators({f"Reduce{n}": functools.partial(_reduce, n) for n in REDUCTIONS}, "axes keepdims noop_with_empty_axes")
operators({n: functools.partial(_place, n.lower()) for n in ("ArgMax", "ArgMin")}, "axis keepdims select_last_index")
POOLS: dict[str, Callable[[Options, Any], Any]] = {
    "GlobalAveragePool": lambda _o, x: F.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    "GlobalMaxPool": lambda _o, x: F.max(x, axis=tuple(range(2, x.ndim)), keepdims=True),
}
operators(POOLS)


@operator("CumSum CumProd", "exclusive reverse")
def _run_total(o: Options, x: Any, axis: Any) -> Any:
    place, back, blank = read_ints(axis)[0], o.get("reverse"), int(o.kind == "CumProd")
    x = F.flip(x, axis=place) if back else x
    if o.get("exclusive") and x.shape[place]:
        whole = (slice(None),) * (place % x.ndim)
        x = F.concat([F.full_like(x[(*whole, slice(1))], blank), x[(*whole, slice(-1))]], axis=place)
    totals = (F.cumulative_prod if blank else F.cumulative_sum)(x, axis=place, dtype=x.dtype)
    return F.flip(totals, axis=place) if back else totals


@operator("TopK", "axis largest sorted", results=2)
def _top(o: Options, x: Any, k: Any) -> Any:
    axis, count = o.get("axis", -1), read_ints(k)[0]
    if not 0 <= count <= x.shape[axis]:
        raise ExportError(f"from_onnx: TopK takes more than there is: got k={count} of {[*x.shape]}; mend the model")
    order = F.take(F.argsort(x, axis=axis, descending=bool(o.get("largest", 1))), np.arange(count), axis=axis)
    return F.take_along_axis(x, order, axis=axis), order


def _shares(function: Callable[..., Any], o: Options, x: Any) -> Any:
    if o.version >= 13:
        return function(x, o.get("axis", -1))
    return function(x, tuple(range(o.get("axis", 1) % x.ndim, x.ndim)))


def _first_largest(x: Any, axis: Any) -> Any:
    """Return 1 at the first of the largest, and 0 elsewhere."""
    axes = (axis,) if isinstance(axis, int) else axis
    flat = F.moveaxis(x, axes, range(-len(axes), 0))
    rows = flat.reshape((*flat.shape[: flat.ndim - len(axes)], -1))
    hot = F.argmax(rows, axis=-1, keepdims=True) == F.arange(rows.shape[-1])
    return F.moveaxis(hot.reshape(flat.shape), range(-len(axes), 0), axes).astype(x.dtype)


SHARES = {"Hardmax": _first_largest, "LogSoftmax": nn.log_softmax, "Softmax": nn.softmax}
operators({n: functools.partial(_shares, function) for n, function in SHARES.items()}, "axis")


@operator("NonMaxSuppression", "center_point_box")
def _suppress(o: Options, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None) -> Any:
    """Return batch, class and number of the boxes that overlap no better one of their class by more than a share."""
    count, share = 0 if most is None else read_ints(most)[0], 0.0 if overlap is None else read_value(overlap).item()
    edges, values = read_value(boxes).astype(np.float64), read_value(scores)
    sides = [edges[..., :2], edges[..., 2:]]
    if o.get("center_point_box"):
        sides = [sides[0] - sides[1] / 2, sides[0] + sides[1] / 2]
    low, high, chosen = np.minimum(*sides), np.maximum(*sides), list[tuple[int, int, int]]()
    areas = np.prod(high - low, axis=-1)
    for b, c in np.ndindex(*values.shape[:2]):
        rest = np.argsort(-values[b, c], kind="stable")
        rest = rest if least is None else rest[values[b, c][rest] > read_value(least).item()]
        first = len(chosen)
        while rest.size and len(chosen) - first < count:
            best, rest = rest[0], rest[1:]
            chosen.append((b, c, int(best)))
            inner = np.clip(np.minimum(high[b, best], high[b, rest]) - np.maximum(low[b, best], low[b, rest]), 0, None)
            common = np.prod(inner, axis=-1)
            rest = rest[common <= share * (areas[b, best] + areas[b, rest] - common)]
    return F.asarray(np.array(chosen, np.int64).reshape(-1, 3))
