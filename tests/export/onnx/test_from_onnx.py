"""Models of ONNX come back: as functions that compute the same, and that are differentiated, compiled and trained."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, optim
from afx.errors import ArgumentError, ExportError
from tests.export.cases import CASES
from tests.export.onnx.test_onnx_primitives import apply, samples_by_name
from tests.export.onnx_models import as_arrays, run_model

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

FEWEST = 120
BACK = ("branches", "catenary", "kalman", "lenet", "network", "scattered")


def compare(fn: Any, *args: Any) -> None:
    """Compare a function with what comes back of its model."""
    back = export.from_onnx(export.to_onnx(fn, *args))
    leaves = afx.pytree.leaves(args)
    wanted = afx.pytree.leaves(fn(*map(as_arrays, args)))
    for got, want in zip(afx.pytree.leaves(back(*leaves)), wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", BACK)
def test_what_was_written_is_read(name: str) -> None:
    """Gradients, loops and branches come back."""
    compare(CASES[name].fn, *CASES[name].args)


def test_most_primitives_are_read() -> None:
    """The samples of at least 120 primitives come back with their values."""
    count, by_name = 0, {p.name: p for p in afx.primitives()}
    for name, found in samples_by_name().items():
        filled = [s for s in found if all(np.size(x) for x in s.operands)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of what NumPy computes at edges
            try:
                for s in filled:
                    compare(functools.partial(apply, by_name[name], dict(s.params)), *map(np.asarray, s.operands))
            except ExportError:
                continue
        count += 1
    assert count >= FEWEST


def bring_model() -> Any:
    """Return a small classifier of pictures as other libraries write it, batch of any length."""
    helper, rng = onnx.helper, np.random.default_rng(0)

    def tensor(name: str, *shape: int) -> Any:
        return onnx.numpy_helper.from_array(rng.normal(scale=0.4, size=shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1, 1, 1], strides=[1, 2]),
        helper.make_node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["h"], transB=1),
        helper.make_node("LayerNormalization", ["h", "ln.weight", "ln.bias"], ["l"]),
        helper.make_node("LogSoftmax", ["l"], ["y"]),
    ]
    variance = onnx.numpy_helper.from_array(rng.uniform(0.5, 2.0, 4).astype(np.float32), "bn.var")
    names = {"conv.weight": (4, 2, 3, 3), "conv.bias": (4,), "bn.weight": (4,), "bn.bias": (4,), "bn.mean": (4,)}
    names |= {"head.weight": (3, 4), "head.bias": (3,), "ln.weight": (3,), "ln.bias": (3,)}
    known = [variance, *[tensor(name, *shape) for name, shape in names.items()]]
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", ["b", 2, 8, 8]), ("y", ["b", 3]))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_of_others_is_trained(tmp_path: Path) -> None:
    """It agrees with onnxruntime from a file, from bytes and from the model; its parameters are a tree that descends."""
    model = bring_model()
    x = np.random.default_rng(1).normal(size=(5, 2, 8, 8)).astype(np.float32)
    onnx.save(model, tmp_path / "net.onnx")
    (wanted,) = run_model(model, x)
    for given in (model, model.SerializeToString(), tmp_path / "net.onnx", str(tmp_path / "net.onnx")):
        np.testing.assert_allclose(export.from_onnx(given)(x), wanted, rtol=1e-5, atol=1e-5)
    net, labels = export.from_onnx(model), np.array([0, 1, 2, 0, 1])
    assert net.inputs == ("x",)
    assert "conv.weight" in net.params

    def loss(net: Any) -> Any:
        return -afx.mean(net(x)[np.arange(5), labels])

    optimizer = optim.adam(0.05)
    state, first = optimizer.init(net), float(loss(net))
    step = afx.jit(lambda net, state: optimizer.step(net, afx.grad(loss)(net), state))
    for _ in range(20):
        net, state = step(net, state)
    assert float(loss(net)) < 0.9 * first
    again = export.to_onnx(lambda net, x: net(x), net, x, params=0, dynamic_axes={"x": {0: "b"}})
    np.testing.assert_allclose(run_model(again, x[:2])[0], net(x[:2]), rtol=1e-5, atol=1e-5)


def test_what_is_not_read_is_named() -> None:
    """An unknown operator, a shape that depends on numbers, another number of inputs."""
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", 1, [3])
    y = helper.make_tensor_value_info("y", 1, None)

    def model(*nodes: Any) -> Any:
        return helper.make_model(helper.make_graph(nodes, "g", [x], [y]))

    with pytest.raises(ExportError, match="Hardmax"):
        export.from_onnx(model(helper.make_node("Hardmax", ["x"], ["y"])))
    shaped = model(helper.make_node("Cast", ["x"], ["n"], to=7), helper.make_node("Reshape", ["x", "n"], ["y"]))
    with pytest.raises(ExportError, match="depends on an input's numbers"):
        export.from_onnx(shaped)(np.ones(3, np.float32))
    with pytest.raises(ArgumentError, match="takes x"):
        export.from_onnx(shaped)()
