"""A model of ONNX is read as onnxruntime runs it, or refused with words: attributes, opsets, files and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afx import export
from afx.errors import ExportError
from tests.export.onnx_models import run_model

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

node = onnx.helper.make_node
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
WHOLE = np.array([-5, 5, 4, -(2**31)], np.int32)


def bring(nodes: Any, known: dict[str, Any] | None = None, x: Any = X, opset: int = 18) -> Any:
    """Return a model of x and of constants by name."""
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (known or {}).items()]
    ends = [onnx.helper.make_tensor_value_info("x", onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    graph = onnx.helper.make_graph(nodes, "g", ends, [onnx.ValueInfoProto(name="y")], tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def loop() -> Any:
    """Return a loop that doubles and passes its condition on."""
    info = onnx.helper.make_tensor_value_info
    inner = [node("Identity", ["ci"], ["co"]), node("Add", ["a", "a"], ["b"])]
    ends = [info("i", 7, []), info("ci", 9, []), info("a", 1, [3, 4])]
    body = onnx.helper.make_graph(inner, "b", ends, [info("co", 9, []), info("b", 1, [3, 4])])
    return node("Loop", ["n", "f", "x"], ["y"], body=body)


REVERSED = {"s": [-100], "e": [-(2**62)], "a": [1], "t": [-1]}
READ: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "constant": ([node("Constant", [], ["c"], value_float=0.5), node("Mul", ["x", "c"], ["y"])], {}, X),
    "constants": ([node("Constant", [], ["c"], value_floats=[0.5] * 4), node("Mul", ["x", "c"], ["y"])], {}, X),
    "infinite": ([node("IsInf", ["x"], ["y"], detect_negative=0)], {}, np.array([np.inf, -np.inf, 1], np.float32)),
    "selu": ([node("Selu", ["x"], ["y"], alpha=1.0, gamma=1.5)], {}, X),
    "power": ([node("Pow", ["x", "p"], ["y"])], {"p": np.int64(2)}, X),
    "power of integers": ([node("Pow", ["x", "p"], ["y"])], {"p": np.float32(2.5)}, np.array([2, 3], np.int32)),
    "quotient": ([node("Div", ["x", "p"], ["y"])], {"p": np.int32(-3)}, WHOLE),
    "quotient above 0": ([node("Div", ["x", "p"], ["y"])], {"p": np.int32(3)}, WHOLE),
    "slice": ([node("Slice", ["x", "s", "e", "a", "t"], ["y"])], REVERSED, X),
    "no step": ([loop()], {"n": np.int64(3), "f": np.array(False)}, X),
    "steps": ([loop()], {"n": np.int64(3), "f": np.array(True)}, X),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_agrees_with_onnxruntime(name: str) -> None:
    """Values and dtypes are onnxruntime's."""
    nodes, known, x = READ[name]
    model = bring(nodes, known, x)
    got, (want,) = np.asarray(export.from_onnx(model)(x)), run_model(model, x)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-6)


REFUSED = {
    "Resize.*mode='octic'": bring([node("Resize", ["x", "", "s"], ["y"], mode="octic")], {"s": [1.0, 2.0]}),
    "LayerNormalization.*stash_type=10": bring(
        [node("LayerNormalization", ["x", "s"], ["y"], stash_type=10)], {"s": X[0]}
    ),
    "Concat.*kind='evil'": bring([node("Concat", ["x"], ["y"], axis=0, kind="evil")]),
    "Concat lacks.*give axis": bring([node("Concat", ["x"], ["y"])]),
    "BitShift.*direction='ZZ'": bring([node("BitShift", ["x", "x"], ["y"], direction="ZZ")]),
    "ScatterND.*__init__": bring([node("ScatterND", ["x", "i", "x"], ["y"], reduction="__init__")], {"i": [[0]]}),
    "no node gives: got q": bring([node("Add", ["x", "q"], ["y"])]),
    "Add has other operands": bring([node("Add", ["x"], ["y"])]),
    "results need.*got y": bring([node("Relu", ["x"], ["z"])]),
    "no such operator: got Gelu": bring([node("Gelu", ["x"], ["y"])]),
    "got opset 5; convert": bring([node("Clip", ["x"], ["y"], min=-1.0, max=1.0)], opset=5),
    "no model of ONNX": b"",
    "damaged": b"garbage" * 9,
    "NoneType": None,
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_read_is_refused(words: str) -> None:
    """Effects that are not read and models that are not well formed are named when the model is read."""
    with pytest.raises(ExportError, match=words):
        export.from_onnx(REFUSED[words])


def test_lengths_that_do_not_fit_are_refused() -> None:
    """A zero behind the rank in a shape, known when the model is called."""
    fn = export.from_onnx(bring([node("Reshape", ["x", "s"], ["y"])], {"s": [3, 2, 2, 0]}))
    with pytest.raises(ExportError, match="operands of Reshape do not fit"):
        fn(X)


@pytest.mark.parametrize("is_attribute", [False, True])
def test_files_are_read_beside_a_path_alone(
    is_attribute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and models in memory open no file; a path opens those of its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())

    def model(place: str) -> Any:
        t = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
        t.external_data.add(key="location", value=place)
        found = bring([*[node("Constant", [], ["w"], value=t)] * is_attribute, node("Add", ["x", "w"], ["y"])])
        found.graph.initializer.extend([t] * (not is_attribute))
        return found

    for given in (model("inside.bin"), model("inside.bin").SerializeToString()):
        with pytest.raises(ExportError, match="another file"):
            export.from_onnx(given)
    path = tmp_path / "model.onnx"
    for place, reads in (("inside.bin", True), ("missing.bin", False), ("../inside.bin", False)):
        path.write_bytes(model(place).SerializeToString())
        if reads:
            np.testing.assert_array_equal(export.from_onnx(path)(X), X + np.arange(4, dtype=np.float32))
        else:
            with pytest.raises(ExportError, match="file cannot be read"):
                export.from_onnx(path)


def test_names_that_are_given_twice_or_no_text_and_negative_shapes_are_refused() -> None:
    """A damaged model is refused where it is read: it does not shadow a result, nor raise something else."""

    def read(nodes: Any, weights: Any = ()) -> Any:
        x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "xy")
        return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y], weights))

    node = onnx.helper.make_node
    with pytest.raises(ExportError, match="a name is given twice: got y, again by Neg"):
        export.from_onnx(read([node("Abs", ["x"], ["y"]), node("Neg", ["x"], ["y"])]))
    weight = onnx.TensorProto(name="w", data_type=1, dims=[-1], raw_data=b"1234")
    with pytest.raises(ExportError, match="'w' is damaged: got a shape of"):
        export.from_onnx(read([node("Add", ["x", "w"], ["y"])], [weight]))
    text = read([node("Abs", ["x"], ["y"], name="first")]).SerializeToString()
    for name in (b"Abs", b"first"):
        with pytest.raises(ExportError, match=r"the model is damaged|is not read"):
            export.from_onnx(text.replace(name, b"\xff" * len(name)))
