"""Operators of ONNX: how files of models are read, and each operator as a function of its options."""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np

from afx import nn
from afx.core.array.array import Array
from afx.core.registry import FUNCTIONS
from afx.errors import ExportError

# --- Loading of ONNX models: from files and bytes, and of the tensors in them; what is damaged or lies elsewhere is
# refused

OLDEST = 6  # opset: the first that ONNX's own converter takes from PyTorch's early releases
MOST_ELEMENTS = 1 << 28  # of what numbers in a file ask for: 2 GiB of doubles, as the largest file has
FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # of a model that is not well formed


def load_model(onnx: Any, model: Any) -> Any:
    """Return the model of a path, of bytes or as it is; tensors in other files are loaded for a path alone.

    Raises:
        ExportError: it is damaged, empty or no model, its opset is too old, or its tensors' files cannot be read.
    """
    damage = importlib.import_module("google.protobuf.message").Error
    try:
        if isinstance(model, (str, os.PathLike)):
            path = Path(cast("str | os.PathLike[str]", model))
            model = onnx.load(str(path), load_external_data=False)
            _load_tensors(onnx, model, str(path.parent))
        elif isinstance(model, bytes):
            model = onnx.load_model_from_string(model)
    except damage as error:
        raise ExportError(f"from_onnx: the model is damaged: got {error}; write it again") from error
    if not isinstance(model, onnx.ModelProto) or not model.HasField("graph"):
        raise ExportError(
            f"from_onnx: no model of ONNX: got {type(model).__name__} without a graph; pass a path, bytes or a ModelProto"
        )
    _check_text(model)
    return model


def _check_text(message: Any) -> None:
    """Raise where text is not UTF-8: protobuf gives such names as bytes."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        is_one = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        items: list[Any] = [value] if is_one else list(cast("Iterable[Any]", value))
        for x in items:
            if hasattr(x, "ListFields"):
                _check_text(x)
            elif isinstance(x, bytes):
                raise ExportError(
                    f"from_onnx: the model is damaged: got {field.name} {x!r}, which is no text; write it again"
                )


def _load_tensors(onnx: Any, model: Any, folder: str) -> None:
    try:
        onnx.external_data_helper.load_external_data_for_model(model, folder)
    except (*FAULTS, OSError, onnx.checker.ValidationError) as error:
        raise ExportError(
            f"from_onnx: a tensor's file cannot be read: got {error}; place it beside the model"
        ) from error


def read_opset(model: Any) -> int:
    """Return the version of the operators.

    Raises:
        ExportError: it is missing or too old.
    """
    version: int = max([s.version for s in model.opset_import if s.domain in ("", "ai.onnx")], default=0)
    if version < OLDEST:
        raise ExportError(
            f"from_onnx: operators of opsets below {OLDEST} are not read: got opset {version}; "
            f"convert the model: onnx.version_converter.convert_version(model, {OLDEST})"
        )
    return version


def read_tensor(onnx: Any, tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor's numbers.

    Raises:
        ExportError: they lie in another file, or do not fit its shape.
    """
    if onnx.external_data_helper.uses_external_data(tensor):
        raise ExportError(
            f"from_onnx: the numbers of {tensor.name!r} lie in another file: got a model without its path; pass the path"
        )
    if any(n < 0 for n in tensor.dims):
        raise ExportError(
            f"from_onnx: the tensor {tensor.name!r} is damaged: got a shape of {[*tensor.dims]}; write it again"
        )
    try:
        array: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor)
    except FAULTS as error:
        raise ExportError(f"from_onnx: the tensor {tensor.name!r} is damaged: got {error}; write it again") from error
    return array


def check_size(what: str, shape: Sequence[int]) -> None:
    """Raise before memory is taken for what numbers in a file ask for, and hardly mean.

    Raises:
        ExportError: it has too many elements.
    """
    if math.prod(shape) > MOST_ELEMENTS:
        raise ExportError(f"from_onnx: {what} has more than {MOST_ELEMENTS} elements: got {[*shape]}; mend the model")


# --- Attributes of ONNX's operators: those that are read; any other stands at its default, or the model is refused

REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp", "L1", "L2", "LogSum", "SumSquare")
BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")  # by axis, in opset 6
REDUCED = ("axes", "keepdims", "noop_with_empty_axes")
CONVOLVED = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
POOLED = ("auto_pad", "ceil_mode", "kernel_shape", "pads", "strides")
READ: dict[str, tuple[str, ...]] = {  # by operator; those of no effect on what is read are among them
    **dict.fromkeys(("ArgMax", "ArgMin"), ("axis", "keepdims")),
    **dict.fromkeys([f"Reduce{n}" for n in REDUCTIONS], REDUCED),
    **dict.fromkeys(("Concat", "Flatten", "Gather", "GatherElements", "LogSoftmax", "Softmax"), ("axis",)),
    "AveragePool": (*POOLED, "count_include_pad"), "BatchNormalization": ("epsilon", "is_test", "momentum"),
    **dict.fromkeys(BROADCAST, ("axis", "broadcast")), **dict.fromkeys(("Elu", "LeakyRelu"), ("alpha",)),
    "BitShift": ("direction",), "Cast": ("to", "saturate"), "ConstantOfShape": ("value",),
    "Constant": ("value", "value_float", "value_floats", "value_int", "value_ints"),
    "Conv": CONVOLVED, "ConvTranspose": (*CONVOLVED, "output_padding"), "CumSum": ("exclusive", "reverse"),
    "Dropout": ("is_test", "seed"), "Gelu": ("approximate",), "Gemm": ("alpha", "beta", "broadcast", "transA", "transB"),
    "If": ("else_branch", "then_branch"), "IsInf": ("detect_negative", "detect_positive"),
    "InstanceNormalization": ("epsilon",), "LayerNormalization": ("axis", "epsilon"), "Loop": ("body",),
    "LRN": ("alpha", "beta", "bias", "size"),
    "MaxPool": (*POOLED, "storage_order"), "Mod": ("fmod",), "Pad": ("mode",), "Reshape": ("allowzero",),
    "Resize": ("coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "mode",
               "nearest_mode"),
    "Scan": ("body", "num_scan_inputs", "scan_input_axes", "scan_input_directions", "scan_output_axes",
             "scan_output_directions"),
    "ScatterND": ("reduction",), "Selu": ("alpha", "gamma"), "Shape": ("start", "end"), "Shrink": ("bias", "lambd"),
    "Split": ("axis", "num_outputs"), "TopK": ("axis", "largest", "sorted"), "Transpose": ("perm",), "Upsample": ("mode",),
}  # fmt: skip
OPERANDS: dict[str, tuple[str, ...]] = {  # attributes of earlier opsets that became operands, in this order
    "Clip": ("min", "max"), "Dropout": ("ratio",), "Pad": ("pads", "value"), "Slice": ("starts", "ends", "axes"),
    "Split": ("split",), "Squeeze": ("axes",), "TopK": ("k",), "Unsqueeze": ("axes",), "Upsample": ("scales",),
}  # fmt: skip
CHOICES = {
    "coordinate_transformation_mode": ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel"),
    "approximate": ("none", "tanh"), "auto_pad": ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"),
    "direction": ("LEFT", "RIGHT"), "mode": ("constant", "edge", "linear", "nearest", "reflect", "wrap"),
    "reduction": ("none", "add", "max", "min", "mul"),
}  # fmt: skip
TYPED = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}


@attrs.frozen
class Options:
    """What a node says beside its operands: its attributes, apart from its kind and its number of outputs.

    Attributes:
        kind: the operator.
        version: the opset that defined the operator as it is meant.
        outputs: how many results there are.
        attributes: by name.
    """

    kind: str
    version: int
    outputs: int
    attributes: dict[str, Any]

    @property
    def operands(self) -> list[Any]:
        """Operands that the opset wrote as attributes; those that are left out are None."""
        names = OPERANDS.get(self.kind, ())
        return [self.get(name) for name in names] if any(name in self.attributes for name in names) else []

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute or, where it is left out, the default."""
        return self.attributes.get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


def read_options(onnx: Any, node: Any, opset: int, read_graph: Callable[[Any], Any]) -> Options:
    """Return a node's options.

    Raises:
        ExportError: its operands or attributes are not those of its operator, or have effects that are not read.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError as error:
        raise ExportError(
            f"from_onnx: the opset has no such operator: got {node.op_type} in opset {opset}; raise the model's opset"
        ) from error
    _check_operands(node, schema)
    options = {a.name: _read_attribute(onnx, node, schema, a, read_graph) for a in node.attribute}
    missing = [name for name, a in schema.attributes.items() if a.required and name not in options]
    if missing or (node.op_type == "Constant" and len(options) != 1):
        raise ExportError(
            f"from_onnx: {node.op_type} lacks attributes: got {sorted(options)}; give {', '.join(missing) or 'one value'}"
        )
    return Options(node.op_type, schema.since_version, len(node.output), options)


def _check_operands(node: Any, schema: Any) -> None:
    needed = [k for k, x in enumerate(schema.inputs) if x.option.name == "Single"]
    fits = schema.min_input <= len(node.input) <= schema.max_input and len(node.output) <= schema.max_output
    if not fits or not all(k < len(node.input) and node.input[k] for k in needed):
        raise ExportError(
            f"from_onnx: {node.op_type} has other operands or results: got {list(node.input)} and {list(node.output)}; "
            "mend the model"
        )


def _read_attribute(onnx: Any, node: Any, schema: Any, a: Any, read_graph: Callable[[Any], Any]) -> Any:
    known = schema.attributes.get(a.name)
    if a.type == onnx.AttributeProto.GRAPH and known is not None:
        return read_graph(a.g)
    value = _read_value(onnx, node, a)
    is_right = known is not None and known.type.value == a.type and value in CHOICES.get(a.name, (value,))
    if is_right and a.name in (*READ.get(node.op_type, ()), *OPERANDS.get(node.op_type, ())):
        return np.asarray(value, TYPED[a.name]) if a.name in TYPED else value
    if not is_right or not _is_default(onnx, known, a.name, value):
        raise ExportError(
            f"from_onnx: {node.op_type} has an attribute that is not read: got {a.name}={value!r}; "
            "leave it at its default or write the model without it"
        )
    return value


def _read_value(onnx: Any, node: Any, a: Any) -> Any:
    try:
        value = onnx.helper.get_attribute_value(a)
        if isinstance(value, onnx.TensorProto):
            return read_tensor(onnx, value)
        if (node.op_type, a.name) == ("Cast", "to"):
            return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value))
        return value.decode() if isinstance(value, bytes) else value
    except ExportError:
        raise
    except FAULTS as error:
        raise ExportError(
            f"from_onnx: {node.op_type} has a damaged attribute: got {a.name}, {error}; write it again"
        ) from error


def _is_default(onnx: Any, known: Any, name: str, value: Any) -> bool:
    if name == "dilations":  # which have no default in the operators' table
        return all(n == 1 for n in value)
    if not known.default_value.name:
        return False
    default = onnx.helper.get_attribute_value(known.default_value)
    return bool(value == (default.decode() if isinstance(default, bytes) else default))


# --- Operators: functions of a node's options, then of its operands, of which those that are left out are None

F: Any = FUNCTIONS


def _ints(x: Any) -> list[int]:
    """Return what must be known while the program is traced."""
    return [int(n) for n in _known(x)]


def _known(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, Array):
        raise ExportError(
            f"from_onnx: a shape or an axis depends on an input's numbers: got {x.aval}; make it a constant"
        )
    return np.ravel(x)


def _align(o: Options, x: Any, y: Any) -> Any:
    """Return an operand whose first axis is another's axis of this number, as opset 6 says it."""
    if o.version >= 7 or "axis" not in o.attributes:
        return y
    return y.reshape((*y.shape, *[1] * (x.ndim - o["axis"] % x.ndim - y.ndim)))


def _divide(o: Options, x: Any, y: Any) -> Any:
    y = _align(o, x, y)
    if x.dtype.kind == "f":
        return x / y
    low = x // y
    return low + ((low * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


def _infinite(o: Options, x: Any) -> Any:
    up, down = bool(o.get("detect_positive", 1)), bool(o.get("detect_negative", 1))
    return F.isinf(x) & (up & (x > 0) | down & (x < 0))


def _cumulative(o: Options, x: Any, axis: Any) -> Any:
    place, back = _ints(axis)[0], o.get("reverse")
    sums = F.cumulative_sum(F.flip(x, axis=place) if back else x, axis=place, dtype=x.dtype)
    sums = F.flip(sums, axis=place) if back else sums
    return sums - x if o.get("exclusive") else sums


def _reshape(o: Options, x: Any, shape: Any) -> Any:
    keeps = not o.get("allowzero")
    return x.reshape(tuple([x.shape[k] if n == 0 and keeps else n for k, n in enumerate(_ints(shape))]))


def _slice(_o: Options, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    low, high, index = _ints(starts), _ints(ends), [slice(None)] * x.ndim
    places = range(len(low)) if axes is None else _ints(axes)
    strides = [1] * len(low) if steps is None else _ints(steps)
    for axis, start, end, step in zip(places, low, high, strides, strict=True):
        n = x.shape[axis]
        index[axis] = slice(max(start, -n), None if step < 0 and end < -n else end, step)
    return x[tuple(index)]


def _split(o: Options, x: Any, sizes: Any = None) -> Any:
    axis, count = o.get("axis", 0), o.outputs
    lengths = [-(-x.shape[axis] // count)] * count if sizes is None else _ints(sizes)
    return tuple(F.split(x, np.cumsum(lengths)[: count - 1].tolist(), axis=axis))


def _pad(o: Options, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    widths, each = _ints(pads), [(0, 0)] * x.ndim
    for k, axis in enumerate(range(x.ndim) if axes is None else _ints(axes)):
        each[axis] = (widths[k], widths[k + len(widths) // 2])
    check_size("Pad", [n + sum(w) for n, w in zip(x.shape, each, strict=True)])
    mode = o.get("mode", "constant")
    return F.pad(x, each, mode, **({"constant_values": 0 if value is None else value} if mode == "constant" else {}))


def _scatter(o: Options, x: Any, i: Any, values: Any) -> Any:
    reduction: str = o.get("reduction", "none")
    place = F.asarray(x).at[tuple([i[..., k] for k in range(i.shape[-1])])]
    return getattr(place, {"none": "set", "mul": "multiply"}.get(reduction, reduction))(values)


def _reduce(function: str, o: Options, x: Any, axes: Any = None) -> Any:
    given = o.get("axes") if axes is None else _ints(axes)
    if not given and o.get("noop_with_empty_axes"):
        return x
    before, name, after = NORMS.get(function, (None, function.lower(), None))
    x = x if before is None else getattr(F, before)(x)
    reduced = getattr(F, name)(x, axis=tuple(given) if given else None, keepdims=bool(o.get("keepdims", 1)))
    reduced = reduced if after is None else getattr(F, after)(reduced)
    return reduced if reduced.dtype == x.dtype else reduced.astype(x.dtype)


def _place(function: str, o: Options, x: Any) -> Any:
    return getattr(F, function)(x, axis=o.get("axis", 0), keepdims=bool(o.get("keepdims", 1)))


def _top(o: Options, x: Any, k: Any) -> Any:
    axis, count = o.get("axis", -1), _ints(k)[0]
    if not 0 <= count <= x.shape[axis]:
        raise ExportError(f"from_onnx: TopK takes more than there is: got k={count} of {[*x.shape]}; mend the model")
    order = F.take(F.argsort(x, axis=axis, descending=bool(o.get("largest", 1))), np.arange(count), axis=axis)
    return F.take_along_axis(x, order, axis=axis), order


def _padding(o: Options, shape: Sequence[int]) -> Any:
    rank = len(shape)
    pads = o.get("pads", [0] * (2 * rank))
    counted = o.get("count_include_pad") and any(pads)
    if o.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or o.get("ceil_mode") or counted:
        raise ExportError(
            f"from_onnx: {o.kind} has padding that is not read: got {o.attributes}; write it with pads, uncounted"
        )
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    check_size(f"padding of {o.kind}", [n + sum(pair) for n, pair in zip(shape, pairs, strict=True)])
    return pairs


def _conv(o: Options, x: Any, kernel: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    moves = {"stride": o.get("strides", 1), "dilation": o.get("dilations", 1), "groups": o.get("group", 1)}
    turned = F.permute_dims(kernel, [*range(2, rank + 2), 1, 0])
    z = nn.conv(F.moveaxis(x, 1, -1), turned, padding=_padding(o, x.shape[2:]), **moves)
    return F.moveaxis(z if bias is None else z + bias, -1, 1)


def _pool(pool: Callable[..., Any], o: Options, x: Any) -> Any:
    window = o["kernel_shape"]
    options = {"stride": o.get("strides", [1] * len(window)), "padding": _padding(o, x.shape[2:])}
    return F.moveaxis(pool(F.moveaxis(x, 1, -1), window, **options), -1, 1)


def _gemm(o: Options, x: Any, y: Any, bias: Any = None) -> Any:
    z = (x.T if o.get("transA") else x) @ (y.T if o.get("transB") else y) * o.get("alpha", 1.0)
    return z if bias is None else z + bias * o.get("beta", 1.0)


def _conv_transpose(o: Options, x: Any, kernel: Any, bias: Any = None) -> Any:
    rank, groups = x.ndim - 2, o.get("group", 1)
    turned = F.permute_dims(F.concat(F.split(kernel, groups), axis=1), [*range(2, rank + 2), 0, 1])
    strides, ends = o.get("strides", [1] * rank), o.get("output_padding", [0] * rank)
    moves = {"stride": strides, "dilation": o.get("dilations", 1), "groups": groups}
    cuts = _padding(o, x.shape[2:])
    check_size("ConvTranspose", [n * s + end for n, s, end in zip(x.shape[2:], strides, ends, strict=True)])
    z = nn.conv_transpose(F.moveaxis(x, 1, -1), turned, **moves)
    z = F.pad(z, [(0, 0), *[(0, end) for end in ends], (0, 0)])
    z = z[(slice(None), *[slice(a, n - b) for (a, b), n in zip(cuts, z.shape[1:], strict=False)])]
    return F.moveaxis(z if bias is None else z + bias, -1, 1)


def _shrink(o: Options, x: Any) -> Any:
    bias, edge = o.get("bias", 0.0), o.get("lambd", 0.5)
    return F.where(x < -edge, x + bias, F.where(x > edge, x - bias, 0)).astype(x.dtype)


def _dropout(o: Options, x: Any, ratio: Any = None, trains: Any = None) -> Any:
    """Return x and that all of it is kept: what is dropped in training is drawn, by numbers of no model."""
    is_drawn = not o.get("is_test") if o.version < 7 else trains is not None and bool(_ints(trains)[0])
    share = 0.5 if ratio is None else ratio
    if is_drawn and (isinstance(share, Array) or np.asarray(share).item() != 0):
        raise ExportError(
            "from_onnx: Dropout draws, as in training, by a ratio: got training_mode=1; write the model for inference"
        )
    return (x, F.broadcast_to(F.asarray(True), x.shape))[: o.outputs]


def _resize(o: Options, x: Any, *more: Any) -> Any:
    """Return x at other numbers of positions, along one axis after the other."""
    is_old = o.version <= 10
    scales, sizes = (more[0], None) if is_old else (*more, None, None)[1:3]
    if scales is None or not np.size(scales):
        lengths = _ints(sizes)
        ratios = [m / n for m, n in zip(lengths, x.shape, strict=True)]
    else:
        ratios = [float(s) for s in _known(scales)]
        lengths = [math.floor(n * s) for n, s in zip(x.shape, ratios, strict=True)]
    check_size(o.kind, lengths)
    way = o.get("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel")
    for axis, (n, m, s) in enumerate(zip(x.shape, lengths, ratios, strict=True)):
        if s != 1:
            x = _read_between(
                x, axis, PLACES[way](np.arange(m), n, m, s), o, "floor" if is_old else "round_prefer_floor"
            )
    return x


def _read_between(x: Any, axis: int, places: np.ndarray[Any, Any], o: Options, nearest: str) -> Any:
    last = x.shape[axis] - 1
    if o.get("mode", "nearest") == "nearest":
        nearest_places = NEAREST[o.get("nearest_mode", nearest)](places)
        return F.take(x, np.clip(nearest_places, 0, last).astype(np.int64), axis=axis)
    places = np.clip(places, 0, last)
    low = np.floor(places).astype(np.int64)
    share = (places - low).reshape((-1, *[1] * (x.ndim - axis - 1))).astype(x.dtype)
    return F.take(x, low, axis=axis) * (1 - share) + F.take(x, np.minimum(low + 1, last), axis=axis) * share


def _normalize_channels(o: Options, x: Any) -> Any:
    """Divide by powers of sums of squares of neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""
    size, n = o["size"], x.shape[1]
    before = (size - 1) // 2
    check_size("LRN", [size])
    squares = F.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
    total = sum([squares[:, k : k + n] for k in range(max(0, before + 1 - n), min(size, before + n))])
    return x / (o.get("bias", 1.0) + o.get("alpha", 1e-4) / size * total) ** o.get("beta", 0.75)


def _instance_norm(o: Options, x: Any, scale: Any, shift: Any) -> Any:
    z = nn.standardize(x, tuple(range(2, x.ndim)), eps=o.get("epsilon", 1e-5))
    return F.moveaxis(F.moveaxis(z, 1, -1) * scale + shift, -1, 1)


def _slope(o: Options, x: Any, slope: Any) -> Any:
    if o.version < 7 and slope.ndim == 1:  # one of each channel
        slope = slope.reshape((-1, *[1] * (x.ndim - 2)))
    return F.where(x < 0, x * slope, x)


def _shares(function: Callable[..., Any], o: Options, x: Any) -> Any:
    if o.version >= 13:
        return function(x, o.get("axis", -1))
    return function(x, tuple(range(o.get("axis", 1) % x.ndim, x.ndim)))


def _tile(_o: Options, x: Any, times: Any) -> Any:
    check_size("Tile", [n * t for n, t in zip(x.shape, _ints(times), strict=True)])
    return F.tile(x, tuple(_ints(times)))


def _expand(_o: Options, x: Any, lengths: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, tuple(_ints(lengths)))
    check_size("Expand", shape)
    return F.broadcast_to(x, shape)


def _fill(o: Options, lengths: Any) -> Any:
    check_size("ConstantOfShape", _ints(lengths))
    return F.broadcast_to(o.get("value", np.zeros(1, np.float32))[0], tuple(_ints(lengths)))


def _batch_norm(o: Options, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
    if o.version < 7 and not o.get("is_test"):
        raise ExportError("from_onnx: BatchNormalization trains: got is_test=0; write the model for inference")
    slope = scale / F.sqrt(variance + o.get("epsilon", 1e-5))
    return F.moveaxis((F.moveaxis(x, 1, -1) - mean) * slope + shift, -1, 1)


def _layer_norm(o: Options, x: Any, scale: Any, shift: Any = None) -> Any:
    axes, eps = tuple(range(o.get("axis", -1) % x.ndim, x.ndim)), o.get("epsilon", 1e-5)
    z = nn.standardize(x, axes, eps=eps) * scale
    z = z if shift is None else z + shift
    moments = [F.mean(x, axis=axes, keepdims=True), 1 / F.sqrt(F.var(x, axis=axes, keepdims=True) + eps)]
    return (z, *[m.astype(np.float32) for m in moments])[: o.outputs]


PLAIN = """Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Cos Cosh Equal Erf Exp Floor Greater IsNaN Less Log MatMul Round
    Sign Sin Sinh Sqrt Tan Tanh Reciprocal Where"""  # which have the names of afx's functions, in small letters
NAMES = {  # and those of another name
    "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "GreaterOrEqual": "greater_equal", "LessOrEqual": "less_equal", "Mul": "multiply",
    "Neg": "negative", "Not": "logical_not", "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip
NORMS = {  # what stands before a reduction and after it
    "L1": ("abs", "sum", None), "L2": ("square", "sum", "sqrt"), "LogSum": (None, "sum", "log"),
    "SumSquare": ("square", "sum", None),
}  # fmt: skip
PLACES: dict[
    str, Callable[[Any, int, int, float], Any]
] = {  # where elements of a resized axis lie: i of m, among n, s times as many
    "align_corners": lambda i, n, m, s: i * ((n - 1) / (n * s - 1)) if m > 1 else i * 0.0,
    "asymmetric": lambda i, _n, _m, s: i / s,
    "half_pixel": lambda i, _n, _m, s: (i + 0.5) / s - 0.5,
    "pytorch_half_pixel": lambda i, _n, m, s: (i + 0.5) / s - 0.5 if m > 1 else i * 0.0,
}
NEAREST: dict[str, Callable[[Any], Any]] = {
    "ceil": np.ceil, "floor": np.floor,
    "round_prefer_ceil": lambda p: np.floor(p + 0.5), "round_prefer_floor": lambda p: np.ceil(p - 0.5),
}  # fmt: skip
FIXED = {"Dropout", "Range", "Resize", "Upsample"}  # whose floats decide what is computed, and are no parameters
FIRST_RESULTS = {"Dropout": 2, "LayerNormalization": 3, "TopK": 2}  # that are read, where there are several
FOLDED = {"Max": F.maximum, "Min": F.minimum, "Sum": F.add}  # which take any number of operands
OF_ONE: dict[str, Callable[[Options, Any], Any]] = {
    "Cast": lambda o, x: x.astype(o["to"]),
    "ConstantOfShape": _fill,
    "Elu": lambda o, x: nn.elu(x, o.get("alpha", 1.0)),
    "Flatten": lambda o, x: x.reshape((math.prod(x.shape[: o.get("axis", 1)]), -1)),
    "Gelu": lambda o, x: nn.gelu(x, approximate=o.get("approximate") == "tanh"),
    "GlobalMaxPool": lambda _o, x: F.max(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    "GlobalAveragePool": lambda _o, x: F.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    "Identity": lambda _o, x: x,
    "LeakyRelu": lambda o, x: F.where(x < 0, x * o.get("alpha", 0.01), x),
    "LRN": _normalize_channels,
    "LogSoftmax": functools.partial(_shares, nn.log_softmax),
    "Relu": lambda _o, x: nn.relu(x),
    "Selu": lambda o, x: o.get("gamma", 1.05070098) * nn.elu(x, o.get("alpha", 1.67326324)),
    "Shape": lambda o, x: np.array(x.shape[o.get("start") : o.get("end")], np.int64),
    "Sigmoid": lambda _o, x: nn.sigmoid(x),
    "Size": lambda _o, x: np.array(math.prod(x.shape)),
    "Shrink": _shrink,
    "Softmax": functools.partial(_shares, nn.softmax),
    "Softplus": lambda _o, x: nn.softplus(x),
    "Transpose": lambda o, x: F.permute_dims(x, o.get("perm", range(x.ndim)[::-1])),
}
OF_TWO: dict[str, Callable[[Options, Any, Any], Any]] = {
    "BitShift": lambda o, x, y: getattr(F, f"bitwise_{o['direction'].lower()}_shift")(x, y),
    "Expand": _expand,
    "Gather": lambda o, x, i: F.take(x, i, axis=o.get("axis", 0)),
    "GatherElements": lambda o, x, i: F.take_along_axis(
        x, F.where(i < 0, i + x.shape[o.get("axis", 0)], i), o.get("axis", 0)
    ),
    "GatherND": lambda _o, x, i: x[tuple([i[..., k] for k in range(i.shape[-1])])],
    "PRelu": _slope,
    "Tile": _tile,
    "Mod": lambda o, x, y: F.fmod(x, y) if o.get("fmod") else F.remainder(x, y),
}


def _call(function: str, o: Options, *xs: Any) -> Any:
    return getattr(F, function)(*([xs[0], _align(o, *xs)] if "axis" in o.attributes else xs))


def _join(o: Options, *xs: Any) -> Any:
    return F.concat(xs, axis=o["axis"]) if o.kind == "Concat" else functools.reduce(FOLDED[o.kind], xs)


def _count(_o: Options, *ends: Any) -> Any:
    start, stop, step = [np.asarray(x).item() for x in ends]
    check_size("Range", [max(0, math.ceil((stop - start) / step))])
    return np.arange(start, stop, step, dtype=ends[0].dtype)


def _constant(o: Options) -> Any:
    return next(iter(o.attributes.values()))


def _reaxis(o: Options, x: Any, axes: Any = None) -> Any:
    given = None if axes is None else _ints(axes)
    return (F.expand_dims if o.kind == "Unsqueeze" else F.squeeze)(x, None if given is None else tuple(given))


def _power(o: Options, x: Any, y: Any) -> Any:
    return F.pow(x, _align(o, x, y)).astype(x.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    **OF_ONE, **OF_TWO, **dict.fromkeys(("Concat", *FOLDED), _join), "Dropout": _dropout,
    **{n: functools.partial(_call, n.lower()) for n in PLAIN.split()},
    **{n: functools.partial(_call, function) for n, function in NAMES.items()},
    **{n: functools.partial(_place, n.lower()) for n in ("ArgMax", "ArgMin")},
    **{f"Reduce{n}": functools.partial(_reduce, n) for n in REDUCTIONS},
    "AveragePool": functools.partial(_pool, nn.avg_pool), "BatchNormalization": _batch_norm,
    "Clip": functools.partial(_call, "clip"), "Constant": _constant, "Conv": _conv,
    "ConvTranspose": _conv_transpose, "CumSum": _cumulative, "Div": _divide,
    "Gemm": _gemm, "InstanceNormalization": _instance_norm, "LayerNormalization": _layer_norm,
    "MaxPool": functools.partial(_pool, nn.max_pool), "Pad": _pad,
    "IsInf": _infinite, "Pow": _power,
    "Range": _count, "Reshape": _reshape, "Resize": _resize, "ScatterND": _scatter, "Slice": _slice, "Split": _split,
    "Squeeze": _reaxis, "TopK": _top, "Unsqueeze": _reaxis, "Upsample": _resize,
}  # fmt: skip
