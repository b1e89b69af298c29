"""Models of ONNX in tests: run by onnxruntime on one thread, and compared with afx."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import export

TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}  # of the largest element


def run_model(model: Any, *leaves: Any) -> list[np.ndarray[Any, Any]]:
    """Return what onnxruntime computes for these inputs."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    found: list[np.ndarray[Any, Any]] = session.run(None, dict(zip(names, leaves, strict=True)))
    return found


def assert_agrees(
    model: Any, fn: Callable[..., Any], *args: Any, params: tuple[int, ...] = (), scale: float = 1.0
) -> None:
    """Assert that a model gives what the function gives, up to rounding of its dtypes; the scale is of long programs."""
    inputs = [np.asarray(x) for k, arg in enumerate(args) if k not in params for x in afx.pytree.leaves(arg)]
    with np.errstate(all="ignore"):
        wanted = [np.asarray(z) for z in afx.pytree.leaves(fn(*map(as_arrays, args)))]
    found = run_model(model, *inputs)
    for got, want in zip(found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        tolerance = scale * TOLERANCE.get(want.dtype, 0.0)
        sizes = np.abs(want[np.isfinite(want)])
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * float(np.max(sizes, initial=1.0)))


def as_arrays(tree: Any) -> Any:
    """Return a tree whose leaves are Arrays, so that functions of NumPy's names are afx's."""
    return afx.pytree.map(afx.asarray, tree)


def check(fn: Callable[..., Any], *args: Any, scale: float = 1.0, **options: Any) -> Any:
    """Export a function, and compare the model with it; return the model."""
    params = options.get("params", ())
    model = export.to_onnx(fn, *args, **options)
    assert_agrees(model, fn, *args, params=params, scale=scale)
    return model
