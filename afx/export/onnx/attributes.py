"""Attributes of ONNX's operators: those that are read; any other stands at its default, or the model is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from afx.errors import ExportError
from afx.export.onnx.loading import FAULTS, read_tensor

__all__ = ["Options", "read_options"]

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
    found = {a.name: _read_attribute(onnx, node, schema, a, read_graph) for a in node.attribute}
    missing = [name for name, a in schema.attributes.items() if a.required and name not in found]
    if missing or (node.op_type == "Constant" and len(found) != 1):
        raise ExportError(
            f"from_onnx: {node.op_type} lacks attributes: got {sorted(found)}; give {', '.join(missing) or 'one value'}"
        )
    return Options(node.op_type, schema.since_version, len(node.output), found)


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
