"""Models of ONNX: functions, gradients and networks, run by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from afx.errors import ArgumentError, ExportError
from tests.export.onnx_models import assert_agrees, check

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")


def draw(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return normal numbers."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def energy(x: Any, scale: Any) -> Any:
    """Return a number of all elements."""
    hidden = afx.tanh(x * scale)
    return afx.sum(hidden**2) + afx.mean(afx.log1p(afx.exp(-x)))


# -- functions and derivatives --
def test_a_gradient_is_a_model() -> None:
    """Value and gradient agree to 1e-12 in float64 and to 1e-6 in float32."""
    check(afx.value_and_grad(energy), draw(4, 3), np.float64(0.5))
    check(afx.value_and_grad(energy), draw(4, 3, dtype="float32"), np.float32(0.5))


def test_a_jacobian_and_a_hessian_are_models() -> None:
    """Derivatives of vectors, and second ones."""
    check(afx.jacrev(lambda x: afx.sin(x) * afx.sum(x)), draw(4))
    check(afx.hessian(lambda x: energy(x, 0.5)), draw(3))


def test_a_batched_function_is_a_model() -> None:
    """What `vmap` makes, of a gradient too."""
    check(afx.vmap(afx.grad(energy), in_axes=(0, None)), draw(5, 3), np.float64(2.0))


# -- names --
def test_a_transpose_times_a_vector_is_a_model() -> None:
    """Also of stacks: onnxruntime joins a transpose and a product, and takes a vector for a row then."""
    x, v = np.arange(6.0).reshape(3, 2), np.array([1.0, -2.0, 0.5])
    for fn in (lambda x: afx.sin(x).T @ v, lambda x: afx.matrix_transpose(afx.stack([x, -x])) @ v):
        assert_agrees(export.to_onnx(fn, x), fn, x)


def test_names_are_those_of_the_pytree_and_of_the_users_variables() -> None:
    """Inputs and results are called after leaves, values after the variables that the user's lines assign."""
    model = export.to_onnx(
        lambda x, p: {"loss": energy(x, p["scale"])}, draw(3), {"scale": np.float64(1)}, name="model"
    )
    graph = model.graph
    assert [i.name for i in graph.input] == ["x", "p_scale"]
    assert [i.doc_string for i in graph.input] == ["x", "p['scale']"]
    assert [o.name for o in graph.output] == ["result_loss"]
    assert graph.name == "model"
    assert "hidden" in {name for node in graph.node for name in node.output}
    assert [(s.domain, s.version) for s in model.opset_import] == [("", 18)]


def test_parameters_are_initializers() -> None:
    """Arguments that are named as parameters stand in the model, under the names of their leaves."""
    params, x = {"w": draw(3, 2), "b": draw(2)}, draw(5, 3)

    def apply(params: Any, x: Any) -> Any:
        return afx.tanh(x @ params["w"] + params["b"])

    model = check(apply, params, x, params=(0,))
    assert [i.name for i in model.graph.input] == ["x"]
    assert {"params_w", "params_b"} <= {i.name for i in model.graph.initializer}


# -- dynamic axes --
def test_a_dynamic_axis_takes_any_length() -> None:
    """A gradient of a mean over it divides by its length; parts that are joined and flattened follow."""

    def loss(x: Any) -> Any:
        both = afx.concat([x, afx.ones_like(x), x[1:]])
        return afx.mean(both.reshape((-1,)) ** 2) + afx.sum(x) * len(x)

    fn = afx.value_and_grad(loss)
    model = export.to_onnx(fn, draw(4, 3), dynamic_axes={"x": {0: "batch"}})
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for n in (1, 2, 9):
        assert_agrees(model, fn, draw(n, 3))


def test_two_dynamic_axes() -> None:
    """Products of lengths are lengths too."""

    def flat(x: Any) -> Any:
        return afx.mean(x.reshape((x.shape[0] * x.shape[1], x.shape[2])), axis=0) + x.sum()

    model = export.to_onnx(flat, draw(2, 3, 4), dynamic_axes={"x": {0: "batch", 1: "time"}})
    for shape in ((2, 3, 4), (5, 1, 4), (1, 8, 4)):
        assert_agrees(model, flat, draw(*shape))


def test_what_depends_otherwise_is_refused() -> None:
    """A length that is no sum or product of dynamic ones is named with the user's line."""
    with pytest.raises(ExportError, match=r"test_onnx\.py:\d+ depends on dynamic axes"):
        export.to_onnx(lambda x: x[: len(x) // 2] * 2.0, draw(4), dynamic_axes={"x": {0: "n"}})


def test_captured_numbers_that_follow_a_length_are_computed() -> None:
    """Arrays that a function makes of a length alone: counts, ones, a triangle, and 0-d numbers."""

    def fn(x: Any) -> Any:
        n = x.shape[0]
        places, half = np.arange(2 * n).reshape(2, n) + 1, np.array(0.5 / n)
        lower = afx.where(np.tri(n, dtype=bool), x[:, None] * x[None, :], 0.0)
        return x * half + np.full(n, 2.5) + places[1] * x, lower

    model = export.to_onnx(fn, draw(4), dynamic_axes={"x": {0: "n"}})
    for n in (1, 3, 8):
        assert_agrees(model, fn, draw(n))
    with pytest.raises(ExportError, match="captured array depends"):
        export.to_onnx(lambda x: x * np.sqrt(np.arange(len(x))), draw(4), dynamic_axes={"x": {0: "n"}})
    with pytest.raises(ExportError, match="captured array depends"):
        export.to_onnx(lambda x: x * np.array([0.5 * len(x) ** 2, 1.0]), draw(2, 2), dynamic_axes={"x": {0: "n"}})


# -- refusals --
def test_what_has_no_form_is_refused_by_name() -> None:
    """The operation and the user's line, or the dtype, are in the message."""
    with pytest.raises(ExportError, match=r"ONNX \(opset 18\): got eigvalsh at .*test_onnx\.py:\d+"):
        export.to_onnx(lambda x: afx.linalg.eigvalsh(x), np.eye(3))
    with pytest.raises(ExportError, match="complex128"):
        export.to_onnx(lambda x: abs(x * 1j), draw(3))
    with pytest.raises(ExportError, match="float16"):
        export.to_onnx(lambda x: x + 1, np.ones(3, np.float16))


def test_wrong_arguments_are_named() -> None:
    """A dynamic axis of what is no argument, or that it lacks, and a parameter without numbers."""
    with pytest.raises(ArgumentError, match="there are x"):
        export.to_onnx(lambda x: x * 2, draw(3), dynamic_axes={"y": {0: "n"}})
    with pytest.raises(ArgumentError, match="lacks"):
        export.to_onnx(lambda x: x * 2, draw(3), dynamic_axes={"x": {1: "n"}})
    with pytest.raises(ArgumentError, match="numbers"):
        export.to_onnx(lambda w: w * 2, afx.eval_shape(lambda: afx.zeros(3)), params=0)


# -- operations that ONNX lacks: formulas, with loops of their own --
def test_draws_and_exponentials_of_matrices_are_loops() -> None:
    """Each number is eager's: rejection is a loop, as are squarings of a matrix."""
    key = np.asarray(afx.random.key(3))
    check(lambda k, a: afx.random.gamma(k, a, (5,)), key, np.float64(0.7))
    check(lambda k, mean: afx.random.wald(k, mean, (5,)), key, np.float64(1.5))
    check(lambda k, rate: afx.random.poisson(k, rate, (5,)), key, np.float64(30.0))
    check(lambda k, p: afx.random.binomial(k, 50.0, p, (5,)), key, np.float64(0.4))
    check(afx.linalg.expm, draw(3, 3), scale=10.0)
