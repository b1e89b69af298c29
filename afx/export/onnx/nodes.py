"""Nodes of ONNX: how files of models are read, what a node says, and the table of the operators that are read."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import numpy as np

from afx.core import Function, Ndarray
from afx.errors import ExportError, TracerError

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
        items = [value] if is_one else list(cast("Iterable[Any]", value))
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


def read_domain(message: Any) -> str:
    """Return whose operators are meant: the empty name is ONNX itself."""
    return "" if message.domain == "ai.onnx" else str(message.domain)


def read_opsets(imports: Sequence[Any]) -> dict[str, int]:
    """Return the versions of the operators, by domain.

    Raises:
        ExportError: those of ONNX itself are too old.
    """
    opsets = {read_domain(s): int(s.version) for s in imports}
    if opsets.get("", OLDEST) < OLDEST:
        raise ExportError(
            f"from_onnx: operators of opsets below {OLDEST} are not read: got opset {opsets['']}; "
            f"convert the model: onnx.version_converter.convert_version(model, {OLDEST})"
        )
    return opsets


def read_tensor(onnx: Any, tensor: Any) -> Ndarray:
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
        array: Ndarray = onnx.numpy_helper.to_array(tensor)
    except FAULTS as error:
        raise ExportError(f"from_onnx: the tensor {tensor.name!r} is damaged: got {error}; write it again") from error
    return array.astype(read_dtype(onnx, f"the tensor {tensor.name!r}", tensor.data_type), copy=False)


def read_dtype(onnx: Any, what: str, number: int) -> np.dtype[Any]:
    """Return the dtype of ONNX's number.

    Raises:
        ExportError: afx has none of that kind.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError) as error:
        raise ExportError(f"from_onnx: the model is damaged: got {what} of type {number}; write it again") from error
    if dtype.isbuiltin != 1 or dtype.kind not in "biufc":
        name = onnx.TensorProto.DataType.Name(number)
        raise ExportError(f"from_onnx: {what} is no array of afx: got elements of {name}; write it with other elements")
    return dtype


def check_size(what: str, shape: Sequence[int]) -> None:
    """Raise before memory is taken for what numbers in a file ask for, and hardly mean.

    Raises:
        ExportError: it has too many elements.
    """
    if math.prod(shape) > MOST_ELEMENTS:
        raise ExportError(f"from_onnx: {what} has more than {MOST_ELEMENTS} elements: got {[*shape]}; mend the model")


def read_value(x: Any) -> Ndarray:
    """Return the numbers of what must be known where the model is called or traced: they decide shapes.

    Raises:
        ExportError: it is traced.
    """
    try:
        return np.asarray(x)
    except TracerError as error:
        raise ExportError(
            f"from_onnx: a shape or an axis depends on an input's numbers: got {x.aval}, traced; make it a constant, or "
            "give it to the model as it is: functools.partial(model, shape=…)"
        ) from error


def read_ints(x: Any) -> list[int]:
    """Return whole numbers that must be known, as `read_value` does."""
    return [int(n) for n in np.ravel(read_value(x))]


# --- The table: each operator is a function of a node's options, then of its operands, of which those that are left out
# are None; attributes that it does not name stand at their defaults, or the model is refused


@attrs.frozen
class Operator:
    """What is read of an operator.

    Attributes:
        form: returns the result, or a tuple of results, of a node's options and its operands.
        attributes: those that are read, by name, each with the texts that it may be, if it is one.
        results: how many are read, where there are several.
    """

    form: Function
    attributes: dict[str, tuple[str, ...]]
    results: int


OPERATORS: dict[str, Operator] = {}
MANY = 1 << 31  # results, as far as there are
F = TypeVar("F", bound="Callable[..., Any]")


def operator(names: str, attributes: str = "", results: int = 1) -> Callable[[F], F]:
    """Enter a function as operators; attributes are written as ``axis mode=linear|nearest``."""
    pairs = [text.partition("=")[::2] for text in attributes.split()]
    known = {name: tuple(choices.split("|")) if choices else () for name, choices in pairs}

    def enter(form: F) -> F:
        OPERATORS.update({name: Operator(form, known, results) for name in names.split()})
        return form

    return enter


def operators(forms: Mapping[str, Function], attributes: str = "") -> None:
    """Enter functions as operators that have the same attributes."""
    for name, form in forms.items():
        operator(name, attributes)(form)


def accumulate(form: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes products of half precision in float32, as runtimes do, and rounds their sums once."""

    def run(o: Options, *xs: Any) -> Any:
        if all(x is None or x.dtype != np.float16 for x in xs):
            return form(o, *xs)
        return form(o, *[x if x is None else x.astype(np.float32) for x in xs]).astype(np.float16)

    return run


OPERANDS: dict[str, tuple[str, ...]] = {  # attributes of earlier opsets that became operands, in this order
    "Clip": ("min", "max"), "Dropout": ("ratio",), "Pad": ("pads", "value"), "Slice": ("starts", "ends", "axes"),
    "Split": ("split",), "Squeeze": ("axes",), "TopK": ("k",), "Unsqueeze": ("axes",), "Upsample": ("scales",),
}  # fmt: skip
DTYPES = {("BitCast", "to"), ("Cast", "to"), ("EyeLike", "dtype"), ("QuantizeLinear", "output_dtype"),
          ("DequantizeLinear", "output_dtype")}  # fmt: skip
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


def find_schema(onnx: Any, node: Any, opset: int) -> Any:
    """Return ONNX's description of a node's operator.

    Raises:
        ExportError: there is none in the opset.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, read_domain(node))
    except onnx.defs.SchemaError as error:
        raise ExportError(
            f"from_onnx: the opset has no such operator: got {node.op_type} in opset {opset}; raise the model's opset"
        ) from error
    return schema


def read_options(onnx: Any, node: Any, schema: Any, read_graph: Callable[[Any], Any]) -> Options:
    """Return a node's options.

    Raises:
        ExportError: its operands or attributes are not those of its operator, or have effects that are not read.
    """
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
    read = OPERATORS[node.op_type].attributes
    is_right = known is not None and known.type.value == a.type and (not read.get(a.name) or value in read[a.name])
    if is_right and a.name in (*read, *OPERANDS.get(node.op_type, ())):
        return np.asarray(value, TYPED[a.name]) if a.name in TYPED else value
    if not is_right or not _is_default(onnx, known, value):
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
        if (node.op_type, a.name) in DTYPES and value:
            return read_dtype(onnx, f"the result of {node.op_type}", value)
        if a.type == onnx.AttributeProto.STRINGS:
            return [text.decode() for text in value]
        return value.decode() if isinstance(value, bytes) else value
    except ExportError:
        raise
    except FAULTS as error:
        raise ExportError(
            f"from_onnx: {node.op_type} has a damaged attribute: got {a.name}, {error}; write it again"
        ) from error


def _is_default(onnx: Any, known: Any, value: Any) -> bool:
    if not known.default_value.name:
        return False
    default = onnx.helper.get_attribute_value(known.default_value)
    return bool(value == (default.decode() if isinstance(default, bytes) else default))
