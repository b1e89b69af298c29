"""Models that packages on the index carry: read from their files, as onnxruntime computes them, and trained further.

The packages are ``magika`` (kinds of files), ``silero-vad`` (speech, with a branch for each rate) and ``rapidocr-onnxruntime``
(directions of written lines); ``pip install --no-deps`` suffices, since nothing of theirs is imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, optim
from tests.export.onnx_models import run_model

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")


def speech(seed: int) -> dict[str, Any]:
    """Return a piece of sound, a state and the rate, by which the model chooses a branch."""
    rng = np.random.default_rng(seed)
    sound, state = rng.normal(scale=0.1, size=(2, 576)), rng.normal(size=(2, 2, 128))
    return {"input": sound.astype(np.float32), "state": state.astype(np.float32), "sr": np.array(16000)}


def read_bytes(seed: int) -> dict[str, Any]:
    """Return the beginnings and ends of two files, with 256 where there are none."""
    return {"bytes": np.random.default_rng(seed).integers(0, 257, (2, 2048), np.int32)}


def lines(seed: int) -> dict[str, Any]:
    """Return pictures of two lines."""
    return {"x": np.random.default_rng(seed).normal(size=(2, 3, 48, 96)).astype(np.float32)}


MODELS = {
    "magika": ("models/standard_v3_3/model.onnx", read_bytes),
    "silero_vad": ("data/silero_vad.onnx", speech),
    "rapidocr_onnxruntime": ("models/ch_ppocr_mobile_v2.0_cls_infer.onnx", lines),
}


@pytest.mark.parametrize("package", MODELS)
def test_models_of_packages_agree_with_onnxruntime_and_are_trained(package: str) -> None:
    """Results differ by 1e-5 of the largest at most, and ten steps of Adam bring the result of one input to that of another."""
    spec = importlib.util.find_spec(package)
    file, draw = MODELS[package]
    path = Path(((spec and spec.submodule_search_locations) or [""])[0]) / file
    if not path.is_file():
        pytest.skip(f"no {file} of {package} is installed: pip install --no-deps {package.replace('_', '-')}")
    fn, inputs = export.from_onnx(path), draw(0)
    assert len(fn.params) >= 10
    wanted = run_model(onnx.load(path), *[inputs[name] for name in fn.inputs])
    for got, want in zip(afx.pytree.leaves(fn(**inputs)), wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.max(abs(want))))
    target = afx.pytree.leaves(fn(**draw(1)))[0]

    def loss(fn: Any) -> Any:
        return afx.mean((afx.pytree.leaves(fn(**inputs))[0] - target) ** 2)

    optimizer = optim.adam(1e-3)
    state, first = optimizer.init(fn), float(loss(fn))
    step = afx.jit(lambda fn, state: optimizer.step(fn, afx.grad(loss)(fn), state))
    for _ in range(10):
        fn, state = step(fn, state)
    assert float(loss(fn)) < 0.9 * first
