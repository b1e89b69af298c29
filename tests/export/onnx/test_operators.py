"""What operators of ONNX give is what onnxruntime gives: options that onnx's own suite leaves out, functions, given values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from afx.errors import ArgumentError, ExportError
from tests.every import together
from tests.export.onnx import node_suite
from tests.export.onnx_models import run_model

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

node = onnx.helper.make_node
HEAVY = ("attention", "averagepool", "lppool", "maxpool", "softmax_cross_entropy_loss")  # which take seconds to make
FEWEST = 600  # of those that half of the other files make in onnx 1.23


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Return numbers of a shape: normal floats, or all that an integer can be."""
    rng = np.random.default_rng(shape)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def bring(nodes: Any, known: dict[str, Any], inputs: dict[str, Any], outs: Any = ("y",), **more: Any) -> Any:
    """Return a model of inputs, of constants by name and of results."""
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in known.items()]
    kinds = [(k, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.shape(v)) for k, v in inputs.items()]
    ends = [onnx.helper.make_tensor_value_info(*kind) for kind in kinds]
    graph = onnx.helper.make_graph(nodes, "g", ends, [onnx.ValueInfoProto(name=name) for name in outs], tensors)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", 20), ("own", 1))]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9, **more)


LAYER = {"LSTM": 4, "GRU": 3, "RNN": 1}
ENDS, PEEPS = np.array([3, 1, 5], np.int32), draw(2, 9)


def recur(kind: str, count: int = 1, lengths: bool = False, states: bool = False, **options: Any) -> Any:
    """Return a recurrent layer of 3 states along 5 steps of 3 rows of 2 numbers, and its operands."""
    n = 3 * LAYER[kind]
    operands: dict[str, Any] = {"w": draw(count, n, 2), "r": draw(count, n, 3), "b": draw(count, 2 * n)}
    operands |= {"ends": ENDS if lengths else None, "h": draw(count, 3, 3) if states else None}
    operands |= {"c": draw(count, 3, 3) if states else None, "p": PEEPS[:count]} if kind == "LSTM" and states else {}
    outs = ("y", "last", "cell")[: 3 if kind == "LSTM" else 2]
    return kind, draw(5, 3, 2), operands, {"hidden_size": 3, **options}, outs


BOTH = {"direction": "bidirectional", "count": 2}
CASES: dict[str, tuple[str, Any, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "lstm of sequences": recur("LSTM", lengths=True, states=True, **BOTH),
    "lstm back": recur("LSTM", lengths=True, direction="reverse", activations=["Sigmoid", "Relu", "Tanh"], clip=0.5),
    "lstm with coupled gates": recur("LSTM", states=True, input_forget=1),
    "gru of sequences": recur("GRU", lengths=True, states=True, **BOTH),
    "gru with linear states": recur("GRU", states=True, linear_before_reset=1, clip=0.7),
    "gru by others": recur("GRU", activations=["HardSigmoid", "Affine"], activation_alpha=[0.3, 0.9], activation_beta=[0.4, 0.1]),
    "rnn back": recur("RNN", lengths=True, direction="reverse", activations=["LeakyRelu"], activation_alpha=[0.1]),
    "rnn both ways": recur("RNN", states=True, activations=["Relu", "Tanh"], **BOTH),
    "pool with its places": ("MaxPool", draw(2, 3, 7, 6), {}, {"kernel_shape": [2, 3], "strides": [2, 1],
      "dilations": [2, 1], "pads": [1, 1, 0, 1]}, ("y", "i")),
    "pool to the ceiling": ("MaxPool", draw(1, 2, 8), {}, {"kernel_shape": [3], "strides": [2],
      "ceil_mode": 1}, ("y",)),
    "pool of bytes": ("MaxPool", draw(1, 2, 8, dtype=np.int8), {}, {"kernel_shape": [3], "pads": [1, 1]}, ("y",)),
    "mean of the padded": ("AveragePool", draw(1, 2, 5, 6), {}, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1],
      "strides": [2, 2], "count_include_pad": 1}, ("y",)),
    "mean of the same": ("AveragePool", draw(1, 2, 5, 6), {}, {"kernel_shape": [3, 2], "strides": [2, 2],
      "auto_pad": "SAME_LOWER"}, ("y",)),
    "convolution of the same": ("Conv", draw(1, 4, 7, 6), {"w": draw(6, 2, 3, 2)}, {"group": 2, "strides": [2,
      1], "auto_pad": "SAME_UPPER"}, ("y",)),
    "transposed to a shape": ("ConvTranspose", draw(1, 2, 4, 3), {"w": draw(2, 3, 3, 3)}, {"strides": [2, 2],
      "output_shape": [8, 7]}, ("y",)),
    "cubic": ("Resize", draw(1, 1, 5, 4), {"roi": None, "s": np.array([1, 1, 1.7, 0.6], np.float32)},
      {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}, ("y",)),
    "cubic without aliases": ("Resize", draw(1, 1, 9, 8), {"roi": None, "s": np.array([1, 1, 0.4, 0.6],
      np.float32)}, {"mode": "cubic", "antialias": 1}, ("y",)),
    "linear without aliases": ("Resize", draw(1, 1, 9, 8), {"roi": None, "s": np.array([1, 1, 0.4, 0.6],
      np.float32)}, {"mode": "linear", "antialias": 1}, ("y",)),
    "grid": ("GridSample", draw(2, 2, 5, 4), {"g": draw(2, 3, 3, 2)}, {"mode": "cubic",
      "padding_mode": "border", "align_corners": 1}, ("y",)),
    "reflected grid": ("GridSample", draw(2, 2, 5, 4), {"g": 2 * draw(2, 3, 3, 2)}, {"mode": "linear",
      "padding_mode": "reflection"}, ("y",)),
    "rows of batches": ("GatherND", draw(2, 3, 4), {"i": np.array([[[1], [-2]], [[0], [2]]])},
      {"batch_dims": 1}, ("y",)),
    "elements behind": ("GatherElements", draw(3, 4), {"i": np.array([[0, -1], [1, -2]])}, {"axis": 1}, ("y",)),
    "elements added": ("ScatterElements", draw(3, 4), {"i": np.array([[0, -1], [1, 1]]), "v": draw(2, 2)},
      {"axis": 1, "reduction": "add"}, ("y",)),
    "rows multiplied": ("ScatterND", draw(3, 4), {"i": np.array([[0], [-1], [0]]), "v": draw(3, 4)},
      {"reduction": "mul"}, ("y",)),
    "totals before": ("CumSum", draw(3, 4), {"a": np.int32(-1)}, {"exclusive": 1, "reverse": 1}, ("y",)),
    "last largest": ("ArgMax", np.ones((3, 4), np.float32), {}, {"axis": 1, "select_last_index": 1}, ("y",)),
    "norm": ("LpNormalization", draw(3, 4), {}, {"p": 1, "axis": 0}, ("y",)),
    "levels": ("QuantizeLinear", draw(3, 4), {"s": np.array([0.01, 0.02, 0.03], np.float32), "z": np.array([3,
      -5, 0], np.int8)}, {"axis": 0}, ("y",)),
    "levels to floats": ("DequantizeLinear", draw(3, 4, dtype=np.uint8), {"s": np.array([0.01, 0.02, 0.03, 1],
      np.float32), "z": np.array([3, 5, 0, 255], np.uint8)}, {"axis": 1}, ("y",)),
    "whole products": ("MatMulInteger", draw(3, 4, dtype=np.uint8), {"w": draw(4, 2, dtype=np.int8),
      "a": np.uint8(7), "b": np.array([3, -4], np.int8)}, {}, ("y",)),
    "whole convolution": ("ConvInteger", draw(1, 2, 5, 5, dtype=np.uint8), {"w": draw(3, 2, 3, 3,
      dtype=np.uint8), "a": np.uint8(7)}, {"pads": [1, 1, 1, 1]}, ("y",)),
    # weights of seven bits: onnxruntime adds pairs of products in 16 bits where a processor has no VNNI
    "convolution of levels": ("QLinearConv", draw(1, 2, 5, 5, dtype=np.uint8), {"a": np.float32(0.01),
      "z": np.uint8(120), "w": draw(3, 2, 3, 3, dtype=np.int8) // 2, "b": np.array([0.01, 0.02, 0.03], np.float32),
      "k": np.zeros(3, np.int8), "c": np.float32(0.05), "d": np.uint8(100), "e": np.array([100, -50, 7],
      np.int32)}, {}, ("y",)),
    "spectrum": ("DFT", draw(2, 8, 1), {}, {"onesided": 1}, ("y",)),
    "back from a spectrum": ("DFT", draw(2, 8, 2), {}, {"inverse": 1}, ("y",)),
}  # fmt: skip


@together("name", CASES)
def test_operators_agree_with_onnxruntime(name: str) -> None:
    """Values, shapes and dtypes are onnxruntime's, in a plain call and compiled, where floats alone are traced."""
    kind, x, operands, options, outs = CASES[name]
    names = ["x", *[k if v is not None else "" for k, v in operands.items()]]
    model = bring(
        [node(kind, names, outs, **options)], {k: v for k, v in operands.items() if v is not None}, {"x": x}, outs
    )
    fn = export.from_onnx(model)
    for run in (fn, afx.jit(fn)):
        for got, want in zip(afx.pytree.leaves(run(x)), run_model(model, x), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * max(1.0, float(np.max(abs(want)))))


def test_onnxs_own_tests_pass_or_are_refused_by_name() -> None:
    """Most of what every other file of the installed suite makes passes, nothing is wrong; `node_suite` runs all files."""
    files = [name for name in node_suite.list_files() if name not in HEAVY][::2]
    fates = node_suite.run_cases(node_suite.load_cases(files))
    assert fates["wrong"] == {}
    assert fates["crashed"] == {}
    assert all(why.startswith("from_onnx: ") for why in fates["refused"].values())
    assert len(fates["passed"]) >= FEWEST


def test_values_that_decide_shapes_are_given_or_constant() -> None:
    """A shape is an input where it is given as it is, also beside what is traced and differentiated; traced it is refused."""
    x, shape = draw(3, 4), np.array([2, 6])
    fn = export.from_onnx(bring([node("Reshape", ["x", "s"], ["y"])], {}, {"x": x, "s": shape}))
    np.testing.assert_array_equal(fn(x, shape), x.reshape(2, 6))
    np.testing.assert_array_equal(afx.jit(functools.partial(fn, s=shape))(x), x.reshape(2, 6))
    np.testing.assert_array_equal(afx.grad(lambda x: afx.sum(fn(x, shape) ** 2))(x), 2 * x)
    with pytest.raises(
        ExportError, match=r"depends on an input's numbers: got int64.*traced; make it a constant, or give it"
    ):
        afx.jit(fn)(x, shape)


def test_a_models_own_functions_are_read() -> None:
    """They take a node's attributes where they name them, their own defaults elsewhere, also within branches."""
    scaled = node("LeakyRelu", ["a"], ["b"])
    scaled.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    opsets, one = [onnx.helper.make_opsetid("", 20)], onnx.helper.make_attribute("slope", 0.5)
    function = onnx.helper.make_function("own", "Bend", ["a"], ["b"], [scaled], opsets, attribute_protos=[one])
    branches = [
        onnx.helper.make_graph(
            [node("Bend", ["x"], ["z"], domain="own", **given)], "b", [], [onnx.ValueInfoProto(name="z")]
        )
        for given in ({"slope": 0.25}, {})
    ]
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0), node("Less", ["total", "zero"], ["test"]),
        node("If", ["test"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]  # fmt: skip
    x = draw(3, 4)
    model = bring(nodes, {"zero": np.float32(0)}, {"x": x}, functions=[function])
    for run in (export.from_onnx(model), afx.jit(export.from_onnx(model))):
        for y in (x - 9, x + 9):
            np.testing.assert_allclose(run(y), run_model(model, y)[0], rtol=1e-6)
            np.testing.assert_allclose(run(y), np.where(y < 0, y * (0.25 if y.sum() < 0 else 0.5), y), rtol=1e-6)


def test_functions_that_call_themselves_are_refused() -> None:
    """A damaged model does not read forever."""
    call = node("Round", ["a"], ["b"], domain="own")
    function = onnx.helper.make_function("own", "Round", ["a"], ["b"], [call], [onnx.helper.make_opsetid("own", 1)])
    model = bring([node("Round", ["x"], ["y"], domain="own")], {}, {"x": draw(3)}, functions=[function])
    with pytest.raises(ExportError, match=r"an operator is not read: got own\.Round"):
        export.from_onnx(model)


def test_operators_that_stand_for_others_are_differentiated() -> None:
    """MeanVarianceNormalization, which onnx defines by others, has onnxruntime's values and the gradient of differences."""
    x = draw(2, 4, 3, 3)
    model = bring([node("MeanVarianceNormalization", ["x"], ["y"])], {}, {"x": x})
    fn = export.from_onnx(model)
    np.testing.assert_allclose(fn(x), run_model(model, x)[0], rtol=1e-5, atol=1e-6)
    afx.testing.check_grads(lambda x: afx.sum(afx.sin(fn(x))), (x.astype(np.float64),), order=1)


def test_constants_of_floats_are_parameters_unless_they_decide_shapes_or_cases() -> None:
    """Weights that stand as constants, also in branches, are trained; exponents, bounds and scales are not."""

    def constant(name: str, value: Any) -> Any:
        return node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.asarray(value, np.float32), name))

    inner = [constant("w", [1.0, 2.0, 3.0, 4.0]), node("Mul", ["x", "w"], ["z"])]
    rest = [constant("v", [4.0, 3.0, 2.0, 1.0]), node("Mul", ["x", "v"], ["z"])]
    branches = [onnx.helper.make_graph(g, "b", [], [onnx.ValueInfoProto(name="z")]) for g in (inner, rest)]
    nodes = [
        node("If", ["yes"], ["a"], then_branch=branches[0], else_branch=branches[1]),
        constant("two", 2.0), node("Pow", ["a", "two"], ["b"]), node("Clip", ["b", "low", "high"], ["c"]),
        constant("share", [1.0, 0.5]), node("Resize", ["c", "", "share"], ["d"]), node("Add", ["d", "shift"], ["y"]),
    ]  # fmt: skip
    x = draw(2, 4)
    known = {"yes": np.array(True), "low": np.float32(0.1), "high": np.float32(5), "shift": np.ones(2, np.float32)}
    model = bring(nodes, known, {"x": x})
    fn = export.from_onnx(model)
    assert fn.params.keys() == {"w", "v", "shift"}
    np.testing.assert_allclose(fn(x), run_model(model, x)[0], rtol=1e-6)
    slopes = afx.grad(lambda fn: afx.sum(fn(x)))(fn).params
    assert np.any(np.asarray(slopes["w"]))
    assert not np.any(np.asarray(slopes["v"]))
    assert export.from_onnx(model, params=["low", "w"]).params.keys() == {"low", "w"}
    with pytest.raises(
        ArgumentError, match=r"no such arrays of floats are in the model: got params \['yes'\]; choose of .*w"
    ):
        export.from_onnx(model, params=["yes"])


@pytest.mark.parametrize(
    ("number", "name"), [(onnx.TensorProto.BFLOAT16, "BFLOAT16"), (onnx.TensorProto.STRING, "STRING"), (99, "type 99")]
)
def test_elements_that_afx_has_not_are_named(number: int, name: str) -> None:
    """Texts, brain floats and unknown numbers are refused where the model is read."""
    ends = [onnx.helper.make_tensor_value_info(n, 1, [3]) for n in "xy"]
    ends[0].type.tensor_type.elem_type = number
    graph = onnx.helper.make_graph([node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    with pytest.raises(ExportError, match=f"the input 'x'.*{name}"):
        export.from_onnx(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]))


def test_nodes_that_give_fewer_results_than_they_name_are_refused() -> None:
    """An operator that stands for nothing of these operands, a split into fewer parts, too many steps."""
    x = draw(4)
    parts = bring([node("Split", ["x", "s"], ["y", "z"])], {"s": np.array([4])}, {"x": x})
    with pytest.raises(ExportError, match=r"parts of Split do not fit: got \[4\] of \[4\] for 2"):
        export.from_onnx(parts)(x)
    none = bring([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {}, {"x": x})
    with pytest.raises(ExportError, match="SpaceToDepth"):
        export.from_onnx(none)(x)
    info = onnx.helper.make_tensor_value_info
    inner = [node("Identity", ["c"], ["d"]), node("Identity", ["k"], ["z"])]
    body = onnx.helper.make_graph(
        inner, "b", [info("k", 7, []), info("c", 9, [])], [info("d", 9, []), info("z", 7, [])]
    )
    steps = bring([node("Loop", ["n", ""], ["y"], body=body)], {}, {"n": np.array(1 << 60)})
    with pytest.raises(ExportError, match="Loop has more than"):
        export.from_onnx(steps)(np.array(1 << 60))


@pytest.mark.parametrize(
    ("made", "known", "message"),
    [
        (node("DFT", ["x", "n", "a"], ["y"]), {"n": np.array(1 << 40), "a": np.array(1)}, "DFT has more than"),
        (
            node("AveragePool", ["x"], ["y"], kernel_shape=[1 << 13, 1 << 13], ceil_mode=1),
            {},
            "windows of AveragePool do not fit",
        ),
    ],
)
def test_numbers_of_a_file_take_no_memory_before_they_are_checked(
    made: Any, known: dict[str, Any], message: str
) -> None:
    """Lengths of transforms, and windows larger than what they move along, are refused at once."""
    x = draw(1, 4, 4, 1) if made.op_type != "DFT" else draw(1, 4, 1)
    with pytest.raises(ExportError, match=message):
        export.from_onnx(bring([made], known, {"x": x}))(x)
