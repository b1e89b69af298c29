"""Models of ONNX come back: as functions that compute the same, and that are differentiated, compiled and trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, optim
from afx.errors import ArgumentError, ExportError
from tests.export.numpy_cases import FUNCTIONS
from tests.export.onnx.test_onnx_primitives import assert_comes_back
from tests.export.onnx_models import run_model

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

UNWRITTEN = {"dropout", "simulated", "spectrum"}  # which draw, or have a Fourier transform
PYTORCHS, FEWEST_OF_PYTORCH = ("pytorch-converted", "pytorch-operator"), 117  # of 117


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what NumPy computes beside a selection
def test_every_model_that_is_written_is_read() -> None:
    """Gradients, solutions, loops that count their steps or do not, and branches come back; others are not written."""
    unwritten = set[str]()
    for name, (fn, args) in FUNCTIONS.items():
        try:
            assert_comes_back(export.to_onnx(fn, *args), fn, *args)
        except ExportError as error:
            unwritten.add(name if str(error).startswith("to_onnx: ") else str(error))
    assert unwritten == UNWRITTEN


def test_loops_that_keep_their_steps_run_in_plain_calls() -> None:
    """The gradient of a loop of unknown length is read, also where it takes no step, and refused under jit."""

    def halve(x: Any) -> Any:
        return afx.while_loop(lambda c: c[0] > 1.0, lambda c: (c[0] * 0.5, c[1] + c[0] ** 2), (x, x))[1]

    back = export.from_onnx(export.to_onnx(afx.value_and_grad(halve), np.float64(100.0)))
    for x in (100.0, 0.5):
        for got, want in zip(back(np.float64(x)), afx.value_and_grad(halve)(np.float64(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    with pytest.raises(ExportError, match="keeps results of its steps: got Loop under jit"):
        afx.jit(back)(np.float64(100.0))


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

    with pytest.raises(ExportError, match="Multinomial"):
        export.from_onnx(model(helper.make_node("Multinomial", ["x"], ["y"])))
    shaped = model(helper.make_node("Cast", ["x"], ["n"], to=7), helper.make_node("Reshape", ["x", "n"], ["y"]))
    with pytest.raises(ExportError, match="depends on an input's numbers"):
        afx.jit(export.from_onnx(shaped))(np.ones(3, np.float32))
    with pytest.raises(ArgumentError, match="takes x"):
        export.from_onnx(shaped)()
    for got in ((np.ones(3),) * 2, {"z": np.ones(3)}):
        with pytest.raises(ArgumentError, match="takes x: got"):
            export.from_onnx(shaped)(*got) if isinstance(got, tuple) else export.from_onnx(shaped)(**got)


def make(opset: int, *nodes: Any, outs: tuple[str, ...] = ("y",), known: Any = (), shape: Any = None) -> Any:
    """Return a model of one input x in an opset."""
    helper, infer = onnx.helper, onnx.helper.make_tensor_value_info
    results = [infer(name, 1, None) for name in outs]
    graph = helper.make_graph(nodes, "g", [infer("x", 1, shape)], results, [*known])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def read_data(path: Path) -> np.ndarray[Any, Any]:
    """Return the array of a file of onnx's own tests."""
    return np.asarray(onnx.numpy_helper.to_array(onnx.load_tensor(str(path))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of powers of negative numbers
def test_models_of_pytorch_are_read_as_they_were_shipped() -> None:
    """All of the 117 models of opsets 6 and 9 in onnx's own suite give their results."""
    root, right = Path(onnx.__file__).parent / "backend" / "test" / "data", 0
    for path in sorted([p for suite in PYTORCHS for p in (root / suite).glob("*/model.onnx")]):
        data = path.parent / "test_data_set_0"
        try:
            fn = export.from_onnx(path)
        except ExportError:
            continue
        found = afx.pytree.leaves(fn(*[read_data(data / f"input_{k}.pb") for k in range(len(fn.inputs))]))
        for k, got in enumerate(found):
            np.testing.assert_allclose(got, read_data(data / f"output_{k}.pb"), rtol=1e-3, atol=1e-5)
        right += 1
    assert right >= FEWEST_OF_PYTORCH


ATTRIBUTES: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (6, "Clip", {"max": 0.25}), (10, "Clip", {"min": -0.5, "max": 0.5}), (9, "Slice", {"starts": [1], "ends": [-1]}),
    (9, "Slice", {"axes": [2, 0], "starts": [-3, 1], "ends": [9, 2]}), (12, "Squeeze", {"axes": [1]}),
    (7, "Squeeze", {}), (11, "Unsqueeze", {"axes": [0, 3]}), (10, "Pad", {"pads": [0, 1, 2, 1, 0, 0], "value": 1.5}),
    (7, "Pad", {"pads": [0, 0, 1, 0, 0, 2], "mode": "reflect"}), (12, "ReduceSum", {"axes": [0, -1], "keepdims": 0}),
    (9, "Upsample", {}), (10, "Resize", {}), (11, "Softmax", {}), (12, "LogSoftmax", {"axis": 2}),
    (12, "Softmax", {"axis": 0}),
    (8, "Dropout", {"ratio": 0.7}), (11, "Flatten", {"axis": 2}), (9, "TopK", {"k": 2}),
    (7, "Upsample", {"scales": [1.0, 1.0, 2.0]}),
)  # fmt: skip


@pytest.mark.parametrize(("opset", "kind", "attributes"), ATTRIBUTES)
def test_older_opsets_are_read_by_their_own_rules(opset: int, kind: str, attributes: dict[str, Any]) -> None:
    """What was an attribute then, or had another default, gives what onnxruntime gives."""
    x = np.random.default_rng(0).normal(size=(3, 1, 4)).astype(np.float32)
    has_scales = kind in ("Upsample", "Resize") and not attributes
    known = [onnx.numpy_helper.from_array(np.array([1, 1, 1.5], np.float32), "s")] if has_scales else []
    outs = ("y", "i") if kind == "TopK" else ("y",)
    node = onnx.helper.make_node(kind, ["x", *["s"] * has_scales], outs, **attributes)
    model = make(opset, node, outs=outs[:1], known=known, shape=[3, 1, 4])
    fn = export.from_onnx(model)
    assert not fn.params
    np.testing.assert_allclose(fn(x=x), run_model(model, x)[0], rtol=1e-6, atol=1e-6)


def test_an_operand_of_opset_6_stands_at_an_axis() -> None:
    """The second operand of arithmetic begins at the axis that is given."""
    model = make(6, onnx.helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=1), known=[tensor_of("b", 2)])
    x = np.ones((3, 2, 4), np.float32)
    np.testing.assert_array_equal(export.from_onnx(model)(x), x + np.arange(2, dtype=np.float32)[:, None])


def tensor_of(name: str, n: int) -> Any:
    """Return an initializer of 0, 1 and so on."""
    return onnx.numpy_helper.from_array(np.arange(n, dtype=np.float32), name)


def test_optional_results_are_read_or_named() -> None:
    """LayerNormalization's moments and Dropout's mask are results; batches' own moments of old opsets are refused by name."""
    node, x = onnx.helper.make_node, np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    known = [onnx.numpy_helper.from_array(np.ones(4, np.float32), "s")]
    layer = node("LayerNormalization", ["x", "s"], ["y", "m", "d"])
    outs = export.from_onnx(make(17, layer, outs=("y", "m", "d"), known=known))(x)
    np.testing.assert_allclose(outs[1], x.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outs[2], 1 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5), rtol=1e-5)
    same, mask = export.from_onnx(make(13, node("Dropout", ["x"], ["y", "m"]), outs=("y", "m")))(x)
    np.testing.assert_array_equal(same, x)
    assert mask.dtype == bool
    assert np.all(np.asarray(mask))
    norm = node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v", "i", "j"])
    with pytest.raises(ExportError, match=r"optional result of BatchNormalization is not read: got i, j;"):
        export.from_onnx(make(13, norm, outs=("y", "i"), known=known))


def test_what_draws_or_is_no_tensor_is_refused() -> None:
    """Dropout that trains by a ratio, batches' own moments, inputs that are sequences or optional."""
    helper, node = onnx.helper, onnx.helper.make_node
    known = [
        onnx.numpy_helper.from_array(np.array(v), n)
        for n, v in (("r", np.float32(0.5)), ("t", True), ("z", np.float32(0)))
    ]
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ExportError, match="Dropout draws, as in training, by a ratio"):
        export.from_onnx(make(13, node("Dropout", ["x", "r", "t"], ["y"]), known=known))(x)
    with pytest.raises(ExportError, match="Dropout draws"):
        export.from_onnx(make(6, node("Dropout", ["x"], ["y"])))(x)
    np.testing.assert_array_equal(
        export.from_onnx(make(13, node("Dropout", ["x", "z", "t"], ["y"]), known=known))(x), x
    )
    tensor = helper.make_tensor_type_proto(1, [2])
    for kind, type_of in (("sequence", helper.make_sequence_type_proto), ("optional", helper.make_optional_type_proto)):
        ends = [helper.make_value_info(n, type_of(tensor)) for n in "xy"]
        graph = helper.make_graph([node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
        with pytest.raises(ExportError, match=f"an input is no tensor: got x, {kind}"):
            export.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)]))


FAR = 2**40
HUGE: tuple[tuple[str, list[Any], dict[str, Any]], ...] = (
    ("TopK", [[FAR]], {}), ("TopK", [[4]], {}), ("TopK", [[-1]], {}), ("Pad", [[0, 0, FAR, 0, 0, 0]], {}),
    ("Tile", [[1, 1, FAR]], {}),
    ("Expand", [[FAR, 1, 1, 1]], {}), ("Resize", [None, None, [1, 1, FAR]], {}),
    ("Resize", [None, np.array([1, 1, 1e15], "f")], {}),
    ("MaxPool", [], {"kernel_shape": [2], "pads": [FAR, 0]}), ("LRN", [], {"size": FAR}),
    ("ConvTranspose", [np.ones((1, 1, 2), "f")], {"strides": [FAR]}),
    ("Conv", [np.ones((1, 1, 2), "f")], {"pads": [0, FAR]}),
    ("ConstantOfShape", [], {}), ("Range", [], {}), ("Loop", [], {}),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "operands", "attributes"), HUGE)
def test_sizes_in_a_file_are_checked_before_memory_is_taken(
    kind: str, operands: list[Any], attributes: dict[str, Any]
) -> None:
    """A file of some bytes that asks for terabytes is refused, as is one of more largest elements than there are."""
    helper, known = onnx.helper, list[Any]()
    names = ["x"] if kind not in ("ConstantOfShape", "Range", "Loop") else []
    operands = {"ConstantOfShape": [[FAR]], "Range": [0, FAR, 1], "Loop": [FAR, True]}.get(kind, operands)
    for k, value in enumerate(operands):
        names.append("" if value is None else f"v{k}")
        known += [] if value is None else [onnx.numpy_helper.from_array(np.asarray(value), f"v{k}")]
    if kind == "Loop":
        info = helper.make_tensor_value_info
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["k"], ["z"])], "b",
            [info("k", 7, []), info("c", 9, [])], [info("d", 9, []), info("z", 7, [])],
        )  # fmt: skip
        attributes = {"body": body}
    outs = ["y", "i"] if kind == "TopK" else ["y"]
    model = make(18, helper.make_node(kind, names, outs, **attributes), known=known)
    with pytest.raises(ExportError, match=r"has more than 268435456 elements|takes more than there is"):
        export.from_onnx(model)(np.ones((1, 1, 3), np.float32))
