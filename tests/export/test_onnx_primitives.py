"""Each primitive that has a form in ONNX computes there what it computes here, on the operands of the registry's tests."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.errors import ExportError
from tests.export.onnx_models import check
from tests.ops.samples import Sample, samples

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

FEWEST = 120


@functools.cache
def samples_by_name() -> dict[str, list[Sample]]:
    """Return the real samples of each primitive."""
    found: dict[str, list[Sample]] = {}
    for p, _, sample in samples():
        values = [*sample.operands, *[np.zeros((), v) for v in sample.params.values() if isinstance(v, np.dtype)]]
        if not any(np.asarray(x).dtype.kind == "c" for x in values):
            found.setdefault(p.name, []).append(sample)
    return found


@functools.cache
def supported() -> tuple[str, ...]:
    """Return the primitives whose samples are written."""
    return tuple([name for name in samples_by_name() if not isinstance(compare(name, np.float64), str)])


def narrow(x: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return an operand, of this dtype where it is of floats."""
    value = np.asarray(x)
    return value.astype(dtype) if value.dtype.kind == "f" else value


def compare(name: str, dtype: Any) -> str | None:
    """Compare all samples of a primitive with onnxruntime; return the reason where it is refused."""
    p: Primitive = next(p for p in afx.primitives() if p.name == name)
    for sample in samples_by_name()[name]:
        operands = [narrow(x, dtype) for x in sample.operands]
        fn = functools.partial(apply, p, dict(sample.params))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of what NumPy computes at edges
            try:
                check(fn, *operands)
            except ExportError as error:
                return str(error)
    return None


def apply(p: Primitive, params: dict[str, Any], *xs: Any) -> Any:
    """Bind a primitive."""
    return bind(p, *xs, **params)


def test_most_primitives_have_a_form() -> None:
    """In float64, at least 120 primitives agree with onnxruntime to 1e-12; others are refused by name."""
    assert len(supported()) >= FEWEST


def test_floats_agree_too() -> None:
    """In float32, the same primitives agree to 1e-6."""
    refused = {name: reason for name in supported() if (reason := compare(name, np.float32)) is not None}
    assert not refused
