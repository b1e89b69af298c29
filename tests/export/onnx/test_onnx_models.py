"""Larger models of ONNX: loops, branches, filters, a trained LeNet and a transformer, at any length of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, nn, optim, random
from afx.errors import ExportError
from tests.export.cases import CASES
from tests.export.onnx_models import assert_agrees, check

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

LOOPS = {  # cases with loops and branches: the operator that they become, and how much their steps enlarge rounding
    "branches": ("If", 1.0), "catenary": ("Loop", 1.0), "kalman": ("Scan", 1.0), "lotka_volterra": ("Scan", 10.0),
    "minimum": ("Loop", 10.0), "newton": ("Loop", 1.0),
}  # fmt: skip
OTHERS = (
    "determinant",
    "gaussian_process",
    "matrix_kalman",
    "solution",
    "lenet",
    "negative_binomial",
    "network",
    "network_jacobian",
    "per_example",
    "rosenbrock_hessian",
    "scattered",
)


def draw(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return normal numbers."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def operators(nodes: Any) -> Iterator[str]:
    """Yield the operators of nodes and of the graphs within them."""
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g.node)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_are_operators(name: str) -> None:
    """Scans, while loops and their gradients, and branches, agree with afx."""
    kind, scale = LOOPS[name]
    model = check(CASES[name].fn, *CASES[name].args, scale=scale)
    assert kind in set(operators(model.graph.node))


@pytest.mark.parametrize("name", OTHERS)
def test_what_leaves_as_c_leaves_as_onnx(name: str) -> None:
    """The same functions as machine code's tests: gradients of networks, Jacobians, batches, scattered sums."""
    check(CASES[name].fn, *CASES[name].args, scale=10.0)


def test_scans_walk_back_and_forth() -> None:
    """Reversed ones, with results of each step, with and without rows to walk along, and loops that take no step."""

    def walk(x: Any, reverse: bool) -> Any:
        return afx.scan(lambda c, row: (c * 0.5 + row, c - row), afx.zeros(3, dtype="float64"), x, reverse=reverse)

    check(lambda x: (walk(x, True), walk(x, False)), draw(5, 3))
    check(lambda x: afx.scan(lambda c, _: (c * 1.5, c + 1.0), x, None, length=4, reverse=True), draw(3))

    def halve(x: Any) -> Any:
        return afx.while_loop(lambda c: c[0] > 1.0, lambda c: (c[0] * 0.5, c[1] + c[0] ** 2), (x, x))[1]

    model = check(afx.value_and_grad(halve), np.float64(100.0))
    assert_agrees(model, afx.value_and_grad(halve), np.float64(0.5))


def test_a_loop_over_a_dynamic_axis() -> None:
    """A scan along rows, and its gradient, take any number of them; a batch axis goes through its steps."""

    def total(x: Any) -> Any:
        last, rows = afx.scan(lambda c, row: (afx.tanh(c + row), c * row), x[0] * 0.0, x)
        return afx.sum(last) + afx.mean(rows**2)

    fn = afx.value_and_grad(total)
    model = export.to_onnx(fn, draw(4, 2, 3), dynamic_axes={"x": {0: "time", 1: "batch"}})
    for shape in ((4, 2, 3), (7, 1, 3), (1, 5, 3)):
        assert_agrees(model, fn, draw(*shape))


def test_formulas_stand_along_dynamic_axes() -> None:
    """Operations that are written by formulas take any length, inside of loops too."""

    def fn(x: Any, y: Any) -> Any:
        last, rows = afx.scan(lambda c, row: (c + afx.sinh(row), afx.special.ndtr(row)), x[0] * 0.0, x)
        return last, rows, afx.special.erf(x), x // y, afx.special.gammaln(x * x + 1.0), afx.hypot(x, y[0])

    model = export.to_onnx(fn, draw(4, 3), draw(4, 3, seed=1), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
    for n in (4, 7, 1):
        assert_agrees(model, fn, draw(n, 3), draw(n, 3, seed=1))


def test_matrices_are_pivoted() -> None:
    """Zeros on a diagonal are no obstacle, a singular matrix has the determinant 0, a batch of any length is solved."""
    a = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
    check(lambda a: (afx.linalg.inv(a), afx.linalg.det(a), afx.linalg.slogdet(a)), a)
    check(afx.linalg.det, np.ones((2, 3, 3)))
    model = export.to_onnx(afx.linalg.solve, a[None], draw(1, 3, 2), dynamic_axes={"a": {0: "n"}, "b": {0: "n"}})
    assert_agrees(model, afx.linalg.solve, a + draw(4, 3, 3), draw(4, 3, 2), scale=10.0)
    with pytest.raises(ExportError, match=r"cholesky \(of matrices of more than 32 rows"):
        export.to_onnx(afx.linalg.cholesky, np.eye(33))


# -- networks --
def lenet() -> nn.Sequential:
    """Return two convolutions with pooling and two linear layers (LeCun et al. 1998)."""
    keys = random.split(random.key(0), 4)
    return nn.Sequential(
        nn.Conv.create(keys[0], (5, 5), 1, 4, padding="same"),
        nn.relu,
        lambda x: nn.max_pool(x, 2),
        nn.Conv.create(keys[1], (3, 3), 4, 8),
        nn.tanh,
        lambda x: nn.avg_pool(x, 2),
        lambda x: x.reshape((len(x), -1)),
        nn.Linear.create(keys[2], 32, 16),
        nn.relu,
        nn.Linear.create(keys[3], 16, 3),
    )


def images(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return pictures with a bright third, and which it is."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x = rng.normal(scale=0.3, size=(n, 12, 12, 1))
    x[np.arange(n)[:, None], labels[:, None] * 4 + np.arange(4)] += 1.0
    return x.astype(np.float32), labels


def classify(net: nn.Sequential, x: Any, labels: Any) -> Any:
    """Return the loss of a classifier."""
    return afx.mean(nn.softmax_cross_entropy(net(x), labels))


def test_a_trained_lenet_has_a_dynamic_batch() -> None:
    """Its logits, and the gradient of its loss by pictures and by parameters, for batches of any length."""
    net, optimizer = lenet(), optim.adam(1e-2)
    state = optimizer.init(net)
    x, labels = images(48)

    @afx.jit
    def step(net: Any, state: Any) -> Any:
        return optimizer.step(net, afx.grad(classify)(net, x, labels), state)

    for _ in range(30):
        net, state = step(net, state)
    assert float(classify(net, x, labels)) < 0.2

    def apply(net: Any, x: Any) -> Any:
        return net(x)

    model = export.to_onnx(apply, net, x, params=0, dynamic_axes={"x": {0: "batch"}})
    assert {"Conv", "Relu", "Max"} & set(operators(model.graph.node)) >= {"Conv"}
    both = afx.value_and_grad(classify, argnums=(0, 1))
    slopes = export.to_onnx(both, net, x, labels, params=0, dynamic_axes={"x": {0: "n"}, "labels": {0: "n"}})
    for n in (1, 5):
        more = images(n, seed=n)
        assert_agrees(model, apply, net, more[0], params=(0,))
        assert_agrees(slopes, both, net, *more, params=(0,), scale=3.0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_transformer_has_a_dynamic_batch_and_length(causal: bool) -> None:
    """Attention, normalization and GELU, in float32, with their gradient by the input."""
    block = nn.TransformerBlock.create(random.key(0), 8, 2, hidden=16, causal=causal)

    def apply(x: Any) -> Any:
        return block(x)

    def slope(x: Any) -> Any:
        return afx.grad(lambda x: afx.mean(block(x) ** 2))(x)

    for fn in (apply, slope):
        model = export.to_onnx(fn, draw(2, 5, 8, dtype="float32"), dynamic_axes={"x": {0: "batch", 1: "time"}})
        for shape in ((2, 5, 8), (1, 9, 8), (4, 1, 8)):
            assert_agrees(model, fn, draw(*shape, dtype="float32"), scale=3.0)
