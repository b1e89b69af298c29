"""Operators of networks: convolutions and pools, resizing, normalization, recurrent layers, quantization, spectra."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from afx import fft, linalg, nn
from afx.core import Function, Ndarray
from afx.core.registry import FUNCTIONS
from afx.errors import ExportError
from afx.export.onnx.nodes import Options, accumulate, check_size, operator, read_ints, read_value

F: Any = FUNCTIONS

# --- Windows: convolutions and pools, whose channels stand second

WINDOW = "auto_pad=NOTSET|SAME_LOWER|SAME_UPPER|VALID dilations kernel_shape pads strides "


def _pad_windows(o: Options, shape: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and behind each axis, so that windows of these sizes (holes counted) begin and end there."""
    rank, way = len(shape), o.get("auto_pad", "NOTSET")
    pads, strides = o.get("pads", [0] * (2 * rank)), o.get("strides", [1] * rank)
    pairs = list(zip(pads[:rank], pads[rank:], strict=True)) if way == "NOTSET" else [(0, 0)] * rank
    if way.startswith("SAME"):
        missing = [max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(shape, sizes, strides, strict=True)]
        pairs = [_halve(m, way) for m in missing]
    check_size(f"padding of {o.kind}", [n + sum(pair) for n, pair in zip(shape, pairs, strict=True)])
    return pairs


def _halve(total: int, way: str) -> tuple[int, int]:
    return (total // 2, total - total // 2) if way == "SAME_UPPER" else (total - total // 2, total // 2)


def _spread(o: Options, window: Sequence[int]) -> list[int]:
    """Return the lengths of windows with their holes."""
    return [(k - 1) * d + 1 for k, d in zip(window, o.get("dilations", [1] * len(window)), strict=True)]


@operator("Conv", WINDOW + "group")
@accumulate
def _conv(o: Options, x: Any, kernel: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    moves = {"stride": o.get("strides", 1), "dilation": o.get("dilations", 1), "groups": o.get("group", 1)}
    turned = F.permute_dims(kernel, [*range(2, rank + 2), 1, 0])
    padding = _pad_windows(o, x.shape[2:], _spread(o, kernel.shape[2:]))
    z = nn.conv(F.moveaxis(x, 1, -1), turned, padding=padding, **moves)
    return F.moveaxis(z if bias is None else z + bias, -1, 1)


@operator("ConvTranspose", WINDOW + "group output_padding output_shape")
@accumulate
def _conv_transpose(o: Options, x: Any, kernel: Any, bias: Any = None) -> Any:
    rank, groups = x.ndim - 2, o.get("group", 1)
    turned = F.permute_dims(F.concat(F.split(kernel, groups), axis=1), [*range(2, rank + 2), 0, 1])
    strides, ends = o.get("strides", [1] * rank), o.get("output_padding", [0] * rank)
    moves = {"stride": strides, "dilation": o.get("dilations", 1), "groups": groups}
    check_size("ConvTranspose", [n * s + end for n, s, end in zip(x.shape[2:], strides, ends, strict=True)])
    z = nn.conv_transpose(F.moveaxis(x, 1, -1), turned, **moves)
    z = F.pad(z, [(0, 0), *[(0, end) for end in ends], (0, 0)])
    cuts = _cuts(o, [n * s for n, s in zip(x.shape[2:], strides, strict=True)], z.shape[1:-1])
    z = F.pad(z, [(0, 0), *[(max(0, -a), max(0, -b)) for a, b in cuts], (0, 0)])
    z = z[(slice(None), *[slice(max(0, a), n - max(0, b)) for (a, b), n in zip(cuts, z.shape[1:], strict=False)])]
    return F.moveaxis(z if bias is None else z + bias, -1, 1)


def _cuts(o: Options, same: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return what is cut off before and behind each axis of what a transposed convolution gives."""
    way = o.get("auto_pad", "NOTSET")
    wanted = o.get("output_shape", same if way.startswith("SAME") else None)
    if wanted is None:
        return _pad_windows(o, lengths, lengths)
    check_size("ConvTranspose", wanted)
    return [_halve(n - m, way) for n, m in zip(lengths, wanted[-len(lengths) :], strict=True)]


@attrs.frozen
class Windows:
    """How windows move along axes: a last one that would begin behind the data is left out, as ``ceil_mode`` has it.

    Attributes:
        pads: what stands before and behind each axis.
        ends: the same, so far that the last windows end there.
        places: for each element of a window, where it lies in all windows.
    """

    pads: list[tuple[int, int]]
    ends: list[tuple[int, int]]
    places: list[tuple[slice, ...]]

    @staticmethod
    def of(o: Options, shape: Sequence[int]) -> Windows:
        """Return the windows of a node along axes of these lengths."""
        window = o["kernel_shape"]
        strides, sizes = o.get("strides", [1] * len(window)), _spread(o, window)
        pads, ends, ways = _pad_windows(o, shape, sizes), list[tuple[int, int]](), list[list[slice]]()
        holes = o.get("dilations", [1] * len(window))
        for n, (a, b), whole, s, k, d in zip(shape, pads, sizes, strides, window, holes, strict=True):
            room = n + a + b - whole
            if k < 1 or room < 0:
                raise ExportError(
                    f"from_onnx: windows of {o.kind} do not fit: got {window} for {[*shape]} and padding {pads}; mend the model"
                )
            count = (-(-room // s) if o.get("ceil_mode") else room // s) + 1
            count -= int((count - 1) * s >= n + a)
            ends.append((a, max(b, (count - 1) * s + whole - n - a)))
            ways.append([slice(j * d, j * d + (count - 1) * s + 1, s) for j in range(k)])
        return Windows(pads, ends, list(itertools.product(*ways)))

    def pad(self, x: Any, blank: Any) -> Any:
        """Return x as far as the last windows end."""
        return F.pad(x, [(0, 0), (0, 0), *self.ends], "constant", constant_values=blank)

    def parts(self, wide: Any) -> Iterator[Any]:
        """Return each element of all windows."""
        return (wide[(slice(None), slice(None), *place)] for place in self.places)

    def count(self, shape: Sequence[int], includes_pads: bool) -> Any:
        """Return how many elements each window has, of the data or of the data and what pads say."""
        if includes_pads:
            ones = np.ones([1, 1, *[n + a + b for n, (a, b) in zip(shape, self.pads, strict=True)]])
            more = [(0, end - b) for (_, b), (_, end) in zip(self.pads, self.ends, strict=True)]
        else:
            ones, more = np.ones([1, 1, *shape]), self.ends
        return sum(self.parts(np.pad(ones, [(0, 0), (0, 0), *more])))


@operator("MaxPool", WINDOW + "ceil_mode storage_order", results=2)
def _max_pool(o: Options, x: Any) -> Any:
    """Return the largest of each window and, where it is a result, its place in the whole array."""
    blank = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    if o.outputs == 1 and o.attributes.keys().isdisjoint({"dilations", "ceil_mode"}) and x.dtype.kind == "f":
        options = {"stride": o.get("strides", [1] * (x.ndim - 2))}
        pairs = _pad_windows(o, x.shape[2:], o["kernel_shape"])
        wide = F.pad(x, [(0, 0), (0, 0), *pairs], "constant", constant_values=blank)
        return F.moveaxis(nn.max_pool(F.moveaxis(wide, 1, -1), o["kernel_shape"], **options), -1, 1)
    windows = Windows.of(o, x.shape[2:])
    parts = list(windows.parts(windows.pad(x, blank)))
    if o.outputs == 1:
        return functools.reduce(F.maximum, parts)
    last = tuple(range(2, x.ndim))
    inner = x.shape[:1:-1] if o.get("storage_order") else x.shape[2:]
    places = F.arange(x.size).reshape(*x.shape[:2], *inner)
    places = F.permute_dims(places, (0, 1, *last[::-1])) if o.get("storage_order") else places
    first = F.argmax(F.stack(parts), axis=0, keepdims=True)
    indices = F.take_along_axis(F.stack(list(windows.parts(windows.pad(places, -1)))), first, axis=0)
    return F.take_along_axis(F.stack(parts), first, axis=0)[0], indices[0]


@operator("AveragePool", WINDOW + "ceil_mode count_include_pad")
def _average_pool(o: Options, x: Any) -> Any:
    rank = x.ndim - 2
    if o.attributes.keys() <= {"kernel_shape", "strides"}:
        pooled = nn.avg_pool(F.moveaxis(x, 1, -1), o["kernel_shape"], stride=o.get("strides", [1] * rank))
        return F.moveaxis(pooled, -1, 1)
    windows = Windows.of(o, x.shape[2:])
    counts = windows.count(x.shape[2:], bool(o.get("count_include_pad")))
    return sum(windows.parts(windows.pad(x, 0))) / counts.astype(x.dtype)


@operator("LpPool", WINDOW + "ceil_mode p")
def _norm_pool(o: Options, x: Any) -> Any:
    p, windows = o.get("p", 2), Windows.of(o, x.shape[2:])
    return sum(abs(part) ** p for part in windows.parts(windows.pad(x, 0))) ** (1 / p)


# --- Places between elements: resizing along axes, and reads of grids

Taps = tuple[Ndarray, Ndarray]  # what each place reads: elements, and their shares
# where elements of a resized axis lie: i of m, among n, s times as many, or in a region r of 0 to 1
PLACES: dict[str, Callable[[Any, int, int, float, Any], Any]] = {
    "align_corners": lambda i, n, m, s, _r: i * ((n - 1) / (n * s - 1)) if m > 1 else i * 0.0,
    "asymmetric": lambda i, _n, _m, s, _r: i / s,
    "half_pixel": lambda i, _n, _m, s, _r: (i + 0.5) / s - 0.5,
    "half_pixel_symmetric": lambda i, n, m, s, _r: n / 2 * (1 - m / (n * s)) + (i + 0.5) / s - 0.5,
    "pytorch_half_pixel": lambda i, _n, m, s, _r: (i + 0.5) / s - 0.5 if m > 1 else i * 0.0,
    "tf_crop_and_resize": lambda i, n, m, _s, r: (n - 1) * (r[0] + (r[1] - r[0]) * (i / (m - 1) if m > 1 else i + 0.5)),
}  # fmt: skip
NEAREST: dict[str, Callable[[Any], Any]] = {
    "ceil": np.ceil, "floor": np.floor,
    "round_prefer_ceil": lambda p: np.floor(p + 0.5), "round_prefer_floor": lambda p: np.ceil(p - 0.5),
}  # fmt: skip


def _cubic(distance: Any, a: float) -> Any:
    """Return the share of an element at a distance (Keys 1981, equation 4)."""
    d = abs(distance)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, a * (((d - 5) * d + 8) * d - 4)
    return F.where(d <= 1, near, F.where(d < 2, far, 0.0))


def _linear(distance: Any, _a: float) -> Any:
    return F.maximum(1 - abs(distance), 0)


SHARES: dict[str, tuple[int, Callable[[Any, float], Any]]] = {  # how far a mode reads, and the shares by distance
    "linear": (1, _linear), "bilinear": (1, _linear), "cubic": (2, _cubic), "bicubic": (2, _cubic),
}  # fmt: skip


def _sizes(o: Options, shape: Sequence[int], scales: Any, sizes: Any) -> tuple[list[int], list[float]]:
    """Return the lengths of resized axes and how many times as long they are."""
    if scales is not None and np.size(scales):
        ratios = [float(s) for s in read_value(scales)]
        return [math.floor(n * s) for n, s in zip(shape, ratios, strict=True)], ratios
    lengths = read_ints(sizes)
    ratios = [m / n for m, n in zip(lengths, shape, strict=True)]
    policy = o.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return lengths, ratios
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(n * ratio + 0.5) for n in shape], [ratio] * len(shape)


@operator(
    "Resize Upsample",
    "antialias axes coordinate_transformation_mode=align_corners|asymmetric|half_pixel|half_pixel_symmetric|"
    "pytorch_half_pixel|tf_crop_and_resize cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy=stretch|not_larger|not_smaller mode=cubic|linear|nearest "
    "nearest_mode=ceil|floor|round_prefer_ceil|round_prefer_floor",
)
def _resize(o: Options, x: Any, *more: Any) -> Any:
    """Return x at other numbers of positions, along one axis after the other."""
    is_old = o.version <= 10
    roi, scales, sizes = (None, more[0], None) if is_old else (*more, None, None, None)[:3]
    axes = [a % x.ndim for a in o.get("axes", range(x.ndim))]
    lengths, ratios = _sizes(o, [x.shape[a] for a in axes], scales, sizes)
    check_size(o.kind, [*lengths, *[n for a, n in enumerate(x.shape) if a not in axes]])
    way = o.get("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel")
    crops = read_value(roi).reshape(2, -1).T if way == "tf_crop_and_resize" else [None] * len(axes)
    for axis, m, s, crop in zip(axes, lengths, ratios, crops, strict=True):
        if s != 1 or crop is not None:
            n = x.shape[axis]
            x = _read_between(x, axis, PLACES[way](np.arange(m), n, m, s, crop), o, s)
    return x


def _read_between(x: Any, axis: int, places: Ndarray, o: Options, scale: float) -> Any:
    n, shape = x.shape[axis], (-1, *[1] * (x.ndim - axis - 1))
    if o.get("mode", "nearest") == "nearest":
        nearest = NEAREST[o.get("nearest_mode", "floor" if o.version <= 10 else "round_prefer_floor")](places)
        z = F.take(x, np.clip(nearest, 0, n - 1).astype(np.int64), axis=axis)
    else:
        indices, shares = _taps(o, n, places, min(scale, 1.0) if o.get("antialias") else 1.0)
        parts = [
            F.take(x, i, axis=axis) * w.reshape(shape).astype(x.dtype) for i, w in zip(indices.T, shares.T, strict=True)
        ]
        z = functools.reduce(F.add, parts)
    if o.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return z
    outside = ((places < 0) | (places > n - 1)).reshape(shape)
    return F.where(outside, o.get("extrapolation_value", 0.0), z).astype(x.dtype)


def _taps(o: Options, n: int, places: Ndarray, scale: float) -> Taps:
    reach, share = SHARES[o["mode"]]
    low = np.floor(places).astype(np.int64)
    first = math.floor(-reach / scale) + 1
    indices = low[:, None] + np.arange(first, 2 - first)
    shares = np.asarray(share((indices - places[:, None]) * scale, o.get("cubic_coeff_a", -0.75)))
    if o.get("exclude_outside"):
        shares = np.where((indices >= 0) & (indices < n), shares, 0)
    if o.get("exclude_outside") or scale != 1:
        shares = shares / shares.sum(axis=1, keepdims=True)
    return np.clip(indices, 0, n - 1), shares


@operator("GridSample", "align_corners mode=bicubic|bilinear|cubic|linear|nearest padding_mode=border|reflection|zeros")
def _sample_grid(o: Options, x: Any, grid: Any) -> Any:
    """Return x between its elements, where a grid of places from -1 to 1 says."""
    corners, lengths = o.get("align_corners", 0), x.shape[2:]
    taps = list[list[tuple[Any, Any]]]()
    for n, g in zip(lengths, F.unstack(grid[..., ::-1], axis=-1), strict=True):
        ends = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        taps.append(_grid_taps(o, n, ends, (g + 1) / 2 * (ends[1] - ends[0]) + ends[0]))
    batch = np.arange(int(x.shape[0])).reshape(-1, *[1] * len(lengths))
    channels, total = F.moveaxis(x, 1, -1), None
    for taken in itertools.product(*taps):
        share = functools.reduce(F.multiply, [w for _, w in taken])
        part = channels[(batch, *[i for i, _ in taken])] * F.expand_dims(share, -1).astype(x.dtype)
        total = part if total is None else total + part
    return F.moveaxis(total, -1, 1)


def _grid_taps(o: Options, n: int, ends: tuple[float, float], places: Any) -> list[tuple[Any, Any]]:
    """Return the elements of an axis that places read, and their shares, which are 0 outside where padding is."""
    mode, padding = o.get("mode", "linear" if o.version > 16 else "bilinear"), o.get("padding_mode", "zeros")
    places = F.round(places) if mode == "nearest" else places
    if padding == "border" and "cubic" not in mode:
        places = F.clip(places, 0, n - 1)
    elif padding == "reflection" and "cubic" not in mode:
        places = _reflect(places, ends)
    low = F.stop_gradient(F.floor(places))
    if mode == "nearest":
        steps = [(low, F.ones_like(low))]
    else:
        reach, share = SHARES[mode]
        steps = [(low + k, share(low + k - places, -0.75)) for k in range(1 - reach, reach + 1)]
    taps = list[tuple[Any, Any]]()
    for index, share in steps:
        bounded = _reflect(index, ends) if padding == "reflection" else index
        weight = F.where((index >= 0) & (index < n), share, 0) if padding == "zeros" else share
        taps.append((F.clip(bounded, 0, n - 1).astype(np.int64), weight))
    return taps


def _reflect(places: Any, ends: tuple[float, float]) -> Any:
    low, span = ends[0], max(ends[1] - ends[0], 1e-30)
    far = F.remainder(places - low, 2 * span)
    return low + F.where(far > span, 2 * span - far, far)


# --- Normalization


@operator("LRN", "alpha beta bias size")
def _normalize_channels(o: Options, x: Any) -> Any:
    """Divide by powers of sums of squares of neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""
    size, n = o["size"], x.shape[1]
    before = (size - 1) // 2
    check_size("LRN", [size])
    squares = F.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
    total = sum([squares[:, k : k + n] for k in range(max(0, before + 1 - n), min(size, before + n))])
    return x / (o.get("bias", 1.0) + o.get("alpha", 1e-4) / size * total) ** o.get("beta", 0.75)


@operator("InstanceNormalization", "epsilon")
def _instance_norm(o: Options, x: Any, scale: Any, shift: Any) -> Any:
    z = nn.standardize(x, tuple(range(2, x.ndim)), eps=o.get("epsilon", 1e-5))
    return F.moveaxis(F.moveaxis(z, 1, -1) * scale + shift, -1, 1)


@operator("BatchNormalization", "epsilon is_test momentum training_mode", results=3)
def _batch_norm(o: Options, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
    if (o.version < 7 and not o.get("is_test")) or (o.version < 14 and o.outputs > 1):
        raise ExportError("from_onnx: BatchNormalization trains: got is_test=0; write the model for inference")
    rest = list[Any]()
    if o.get("training_mode"):
        axes, part = (0, *range(2, x.ndim)), o.get("momentum", 0.9)
        own = [F.mean(x, axis=axes), F.var(x, axis=axes)]
        rest = [old * part + new * (1 - part) for old, new in zip((mean, variance), own, strict=True)]
        mean, variance = own
    slope = scale / F.sqrt(variance + o.get("epsilon", 1e-5))
    return (F.moveaxis((F.moveaxis(x, 1, -1) - mean) * slope + shift, -1, 1).astype(x.dtype), *rest)


@operator("LayerNormalization", "axis epsilon", results=3)
def _layer_norm(o: Options, x: Any, scale: Any, shift: Any = None) -> Any:
    axes, eps = tuple(range(o.get("axis", -1) % x.ndim, x.ndim)), o.get("epsilon", 1e-5)
    z = nn.standardize(x, axes, eps=eps) * scale
    z = z if shift is None else z + shift
    moments = [F.mean(x, axis=axes, keepdims=True), 1 / F.sqrt(F.var(x, axis=axes, keepdims=True) + eps)]
    return (z, *[m.astype(np.float32) for m in moments])[: o.outputs]


@operator("LpNormalization", "axis p")
def _norm(o: Options, x: Any) -> Any:
    norm = linalg.vector_norm(x, axis=o.get("axis", -1), ord=o.get("p", 2), keepdims=True)
    return F.where(norm == 0, 0, x / F.where(norm == 0, 1, norm)).astype(x.dtype)


@operator("GlobalLpPool", "p")
def _global_norm(o: Options, x: Any) -> Any:
    p = o.get("p", 2)
    return F.sum(abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)


# --- Recurrent layers: directions one after the other, each a scan along time

ACTIVATIONS: dict[
    str, Callable[[Any, float | None, float | None], Any]
] = {  # of alpha and beta, as the operators say them
    "affine": lambda x, a, b: x * (1.0 if a is None else a) + (b or 0.0),
    "elu": lambda x, a, _b: nn.elu(x, 1.0 if a is None else a),
    "hardsigmoid": lambda x, a, b: F.clip(x * (0.2 if a is None else a) + (0.5 if b is None else b), 0, 1),
    "leakyrelu": lambda x, a, _b: F.where(x < 0, x * (0.01 if a is None else a), x),
    "relu": lambda x, _a, _b: nn.relu(x),
    "scaledtanh": lambda x, a, b: (1.0 if a is None else a) * F.tanh(x * (1.0 if b is None else b)),
    "sigmoid": lambda x, _a, _b: nn.sigmoid(x),
    "softplus": lambda x, _a, _b: nn.softplus(x),
    "softsign": lambda x, _a, _b: x / (1 + abs(x)),
    "tanh": lambda x, _a, _b: F.tanh(x),
    "thresholdedrelu": lambda x, a, _b: F.where(x > (1.0 if a is None else a), x, 0),
}
# of alpha, beta
TAKES = {"affine": 2, "elu": 1, "hardsigmoid": 2, "leakyrelu": 1, "scaledtanh": 2, "thresholdedrelu": 1}
GATED = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _activations(o: Options, count: int) -> list[list[Callable[[Any], Any]]]:
    """Return the activations of each direction."""
    names = [name.lower() for name in o.get("activations", GATED[o.kind] * count)]
    if not {*names} <= {*ACTIVATIONS} or len(names) != count * len(GATED[o.kind]):
        raise ExportError(f"from_onnx: {o.kind} has activations that are not read: got {names}; write it with others")
    alphas, betas, chosen = iter(o.get("activation_alpha", [])), iter(o.get("activation_beta", [])), list[Any]()
    each = len(GATED[o.kind])
    for k, name in enumerate(names):
        a = next(alphas, None) if TAKES.get(name) else None
        b = next(betas, None) if TAKES.get(name) == 2 else None
        clip = None if k % each == 2 else o.get("clip")  # of gates, not of LSTM's cells, as runtimes have it
        chosen.append(functools.partial(_activate, ACTIVATIONS[name], a, b, clip))
    return [chosen[k * each : (k + 1) * each] for k in range(count)]


def _activate(form: Function, a: float | None, b: float | None, clip: float | None, x: Any) -> Any:
    return form(x if clip is None else F.clip(x, -clip, clip), a, b)


def _step_rnn(_o: Options, acts: Any, x: Any, state: Any, r: Any, b: Any, _p: Any) -> Any:
    return (acts[0](x + state[0] @ r.T + b),)


def _step_gru(o: Options, acts: Any, x: Any, state: Any, r: Any, b: Any, _p: Any) -> Any:
    """Return the state behind a step (Cho et al. 2014); gates are update, reset and the new values."""
    (h,), n = state, r.shape[1]
    gates = x[:, : 2 * n] + h @ r[: 2 * n].T + b[: 2 * n]
    update, reset = acts[0](gates[:, :n]), acts[0](gates[:, n:])
    linear = (
        reset * (h @ r[2 * n :].T + b[2 * n :])
        if o.get("linear_before_reset")
        else (reset * h) @ r[2 * n :].T + b[2 * n :]
    )
    new = acts[1](x[:, 2 * n :] + linear)
    return ((1 - update) * new + update * h,)


def _step_lstm(o: Options, acts: Any, x: Any, state: Any, r: Any, b: Any, p: Any) -> Any:
    """Return the state behind a step (Hochreiter & Schmidhuber 1997, with peepholes); gates are in, out, forget and new."""
    h, c = state
    i, out, f, new = F.split(x + h @ r.T + b, 4, axis=-1)
    peep_i, peep_out, peep_f = F.split(p, 3)
    i = acts[0](i + peep_i * c)
    f = 1 - i if o.get("input_forget") else acts[0](f + peep_f * c)
    c = f * c + i * acts[1](new)
    return acts[0](out + peep_out * c) * acts[2](c), c


RECURRENT = {"RNN": (_step_rnn, 1), "GRU": (_step_gru, 3), "LSTM": (_step_lstm, 4)}
ACTIVATED = "activation_alpha activation_beta activations clip hidden_size layout "


@operator("RNN", ACTIVATED + "direction=forward|reverse|bidirectional output_sequence", results=2)
@operator("GRU", ACTIVATED + "direction=forward|reverse|bidirectional linear_before_reset output_sequence", results=2)
@operator("LSTM", ACTIVATED + "direction=forward|reverse|bidirectional input_forget output_sequence", results=3)
def _recur(o: Options, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *more: Any) -> Any:
    """Return the states of all steps, and the last ones."""
    count, n, first = w.shape[0], r.shape[-1], o.get("layout", 0)
    (step, gates), slots = RECURRENT[o.kind], 2 if o.kind == "LSTM" else 1
    x = F.swapaxes(x, 0, 1) if first else x
    steps, batch = x.shape[:2]
    states = [F.zeros((count, batch, n), dtype=x.dtype) if s is None else F.swapaxes(s, 0, 1) if first else s
              for s in (*more, None, None)[:slots]]  # fmt: skip
    peeps = F.zeros((count, 3 * n), dtype=x.dtype) if len(more) < 3 or more[2] is None else more[2]
    inside = F.arange(steps).reshape(-1, 1, 1) < (steps if lengths is None else F.expand_dims(lengths, -1))
    rows, lasts = list[Any](), list[Any]()
    for d, acts in enumerate(_activations(o, count)):
        bias = F.zeros(2 * gates * n, dtype=x.dtype) if b is None else b[d]
        inner, outer = x @ w[d].T + bias[: gates * n], functools.partial(step, o, acts)
        back = o.get("direction", "forward") == "reverse" or d == 1
        last, row = _scan_steps(outer, inner, inside, [s[d] for s in states], (r[d], bias[gates * n :], peeps[d]), back)
        rows.append(row)
        lasts.append(last)
    whole, ends = F.stack(rows, axis=1), [F.stack([last[k] for last in lasts]) for k in range(slots)]
    return (F.permute_dims(whole, (2, 0, 1, 3)), *[F.swapaxes(e, 0, 1) for e in ends]) if first else (whole, *ends)


def _scan_steps(step: Any, x: Any, inside: Any, states: Any, weights: Any, back: bool) -> Any:
    """Return the last states and all rows of the first; behind the ends of sequences states stand and rows are 0."""

    def go(state: Any, row: Any) -> Any:
        here, known = row
        new = step(here, state, *weights)
        state = tuple([F.where(known, a, b) for a, b in zip(new, state, strict=True)])
        return state, F.where(known, new[0], 0)

    return F.scan(go, tuple(states), (x, inside), reverse=back)


# --- Numbers of few bits: scales and zero points along an axis, in blocks or of the whole


def _align_scale(o: Options, x: Any, scale: Any) -> Any:
    axis = o.get("axis", 1)
    if o.get("block_size"):
        check_size(o.kind, [*scale.shape, o["block_size"]])
        spread = F.repeat(scale, o["block_size"], axis=axis)
        return spread[(slice(None),) * (axis % x.ndim) + (slice(x.shape[axis]),)]
    if scale.ndim == 0 or scale.size == 1:
        return scale.reshape(())
    return scale.reshape((-1, *[1] * (x.ndim - axis % x.ndim - 1)))


@operator("DequantizeLinear", "axis block_size output_dtype")
def _dequantize(o: Options, x: Any, scale: Any, zero: Any = None) -> Any:
    wide = x.astype(np.int64) - (0 if zero is None else _align_scale(o, x, zero).astype(np.int64))
    return (wide.astype(scale.dtype) * _align_scale(o, x, scale)).astype(o.get("output_dtype") or scale.dtype)


@operator("QuantizeLinear", "axis block_size output_dtype saturate")
def _quantize(o: Options, x: Any, scale: Any, zero: Any = None) -> Any:
    """Return rounded multiples of the scale, ties to even, within the bounds of their dtype."""
    dtype = np.dtype(o.get("output_dtype") or (np.uint8 if zero is None else zero.dtype))
    if dtype.kind not in "iu":
        raise ExportError(f"from_onnx: QuantizeLinear to {dtype} is not read: got a zero point of it; use integers")
    shift = 0 if zero is None else _align_scale(o, x, zero).astype(np.float64)
    bounds = np.iinfo(dtype)
    multiples = F.round(x.astype(scale.dtype) / _align_scale(o, x, scale)).astype(np.float64) + shift
    return F.clip(multiples, bounds.min, bounds.max).astype(dtype)


def _center(x: Any, zero: Any, axis: int = 0) -> Any:
    """Return integers without their zero point as doubles, whose sums of products are exact."""
    wide = x.astype(np.float64)
    if zero is None:
        return wide
    shape = zero.shape if zero.ndim in (0, x.ndim) else [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]
    return wide - zero.astype(np.float64).reshape(() if zero.size == 1 else shape)


@operator("MatMulInteger")
def _multiply_integers(_o: Options, x: Any, y: Any, zero_x: Any = None, zero_y: Any = None) -> Any:
    return (_center(x, zero_x, -2) @ _center(y, zero_y, -1)).astype(np.int32)


@operator("ConvInteger", WINDOW + "group")
def _conv_integers(o: Options, x: Any, kernel: Any, zero_x: Any = None, zero_kernel: Any = None) -> Any:
    return _conv(o, _center(x, zero_x), _center(kernel, zero_kernel)).astype(np.int32)


def _requantize(sums: Any, scale_x: Any, scale_y: Any, scale: Any, zero: Any) -> Any:
    o, wide = Options("QuantizeLinear", 13, 1, {}), np.float64
    ratio = scale_x.astype(wide) * scale_y.astype(wide) / scale.astype(wide)
    return _quantize(o, sums * ratio, np.float64(1), zero)


@operator("QLinearMatMul")
def _multiply_quantized(_o: Options, x: Any, *rest: Any) -> Any:
    scale_x, zero_x, y, scale_y, zero_y, scale, zero = rest
    scale_x, scale_y = [s.reshape(()) if s.size == 1 else s for s in (scale_x, scale_y)]
    sums = _center(x, zero_x, -2) @ _center(y, zero_y, -1)
    return _requantize(sums, scale_x if scale_x.ndim != 1 else scale_x[:, None], scale_y, scale, zero)


@operator("QLinearConv", WINDOW + "group")
def _conv_quantized(o: Options, x: Any, *rest: Any) -> Any:
    scale_x, zero_x, kernel, scale_kernel, zero_kernel, scale, zero, *bias = rest
    sums = _conv(o, _center(x, zero_x), _center(kernel, zero_kernel))
    each = [-1, *[1] * (x.ndim - 2)]
    sums = sums + bias[0].astype(np.float64).reshape(each) if bias and bias[0] is not None else sums
    return _requantize(sums, scale_x.reshape(()), scale_kernel.reshape(each), scale.reshape(()), zero.reshape(()))


# --- Determinants, and spectra: complex numbers are pairs along a last axis


@operator("Det")
def _determinant(_o: Options, x: Any) -> Any:
    return linalg.det(x)


def _unpair(x: Any) -> Any:
    """Return complex numbers, or real ones, which are transformed in double: what is 0 by their symmetry comes out as 0."""
    return x[..., 0].astype(np.float64) if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _pair(z: Any, dtype: Any) -> Any:
    return F.stack([F.real(z), F.imag(z)], axis=-1).astype(dtype)


@operator("DFT", "axis inverse onesided")
def _transform(o: Options, x: Any, length: Any = None, axis: Any = None) -> Any:
    given = o.get("axis", 1) if o.version < 20 else -2 if axis is None else read_ints(axis)[0]
    place, count, z = given % x.ndim, None if length is None else read_ints(length)[0], _unpair(x)
    check_size("DFT", [count or 0, x.size // max(1, x.shape[place])])
    if o.get("inverse") and o.get("onesided"):
        return F.expand_dims(fft.irfft(z, count, axis=place), -1).astype(x.dtype)
    if o.get("onesided"):
        return _pair(fft.rfft(F.real(z), count, axis=place), x.dtype)
    return _pair((fft.ifft if o.get("inverse") else fft.fft)(z, count, axis=place), x.dtype)


@operator("STFT", "onesided")
def _transform_frames(o: Options, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    hop = read_ints(step)[0]
    n = read_ints(length)[0] if length is not None else x.shape[1] if window is None else window.shape[0]
    z = _unpair(x if x.ndim == 3 else x[..., None])
    frames = z[:, np.arange(0, x.shape[1] - n + 1, hop)[:, None] + np.arange(n)]
    frames = frames if window is None else frames * window
    if o.get("onesided", 1):
        return _pair(fft.rfft(F.real(frames), axis=-1), x.dtype)
    return _pair(fft.fft(frames, axis=-1), x.dtype)
