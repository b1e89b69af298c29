"""Loading of ONNX models: from files and bytes, and of the tensors in them; what is damaged or lies elsewhere is refused."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from afx.errors import ExportError

__all__ = ["FAULTS", "check_size", "load_model", "read_opset", "read_tensor"]

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
    found: int = max([s.version for s in model.opset_import if s.domain in ("", "ai.onnx")], default=0)
    if found < OLDEST:
        raise ExportError(
            f"from_onnx: operators of opsets below {OLDEST} are not read: got opset {found}; "
            f"convert the model: onnx.version_converter.convert_version(model, {OLDEST})"
        )
    return found


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
        found: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor)
    except FAULTS as error:
        raise ExportError(f"from_onnx: the tensor {tensor.name!r} is damaged: got {error}; write it again") from error
    return found


def check_size(what: str, shape: Sequence[int]) -> None:
    """Raise before memory is taken for what numbers in a file ask for, and hardly mean.

    Raises:
        ExportError: it has too many elements.
    """
    if math.prod(shape) > MOST_ELEMENTS:
        raise ExportError(f"from_onnx: {what} has more than {MOST_ELEMENTS} elements: got {[*shape]}; mend the model")
