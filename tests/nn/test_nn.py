"""Activations, losses and layers."""

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import afx
from afx import nn

EXTREME = np.array([-1e4, -50.0, -1.0, 0.0, 1.0, 50.0, 1e4])


@pytest.mark.parametrize(
    "fn",
    [nn.relu, nn.leaky_relu, nn.elu, nn.silu, nn.gelu, nn.sigmoid, nn.softplus, nn.log_sigmoid, nn.tanh, nn.softmax],
)
def test_activations_are_finite_at_extremes(fn: Any) -> None:
    """Values and derivatives are finite and silent at large arguments of either sign."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(np.asarray(fn(EXTREME))).all()
        assert np.isfinite(np.asarray(afx.grad(lambda x: afx.sum(fn(x) ** 2))(EXTREME / 100))).all()


def test_relu_at_zero() -> None:
    """The derivative of relu at 0 is 0."""
    assert afx.grad(lambda x: afx.sum(nn.relu(x)))(np.array([-1.0, 0.0, 1.0])).tolist() == [0.0, 0.0, 1.0]


def test_exact_gelu_is_scipys() -> None:
    """The exact form is x·Φ(x), differentiable twice."""
    x = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(np.asarray(nn.gelu(x, approximate=False)), x * special.ndtr(x))
    np.testing.assert_allclose(np.asarray(nn.gelu(x)), x * special.ndtr(x), atol=5e-4)


def test_standardize_loses_no_digits_to_a_large_mean() -> None:
    """Differences are taken before squares; several axes, plain and compiled; equal elements give zeros."""
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    wanted = (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 1e-5)
    for way in (nn.standardize, afx.jit(nn.standardize, static_argnums=1)):
        np.testing.assert_allclose(np.asarray(way(x + 1e6, (0, 2))), wanted, atol=1e-8)
    assert nn.standardize(afx.full((2, 3), 7.0)).tolist() == np.zeros((2, 3)).tolist()
    assert nn.standardize(np.arange(3)).dtype == np.float32
    assert nn.standardize(np.zeros((2, 0))).shape == (2, 0)
    layer = nn.LayerNorm(afx.asarray([2.0, 3.0]), afx.asarray([0.0, 1.0]))
    np.testing.assert_allclose(np.asarray(layer([[1.0, 3.0]])), [[-2.0, 4.0]], rtol=1e-4)


@pytest.mark.parametrize("eps", [-1.0, "small", np.nan, True])
def test_standardize_checks_eps(eps: Any) -> None:
    """What is no number of 0 or more is named."""
    with pytest.raises(afx.errors.ArgumentError, match="standardize: eps is a number of 0 or more: got"):
        nn.standardize(np.ones(3), eps=eps)


def test_softmax_gives_masked_elements_no_share() -> None:
    """Elements that are -inf have the share 0, and no nan in the gradient of the others."""
    x = np.array([0.0, -np.inf, 0.0])
    assert nn.softmax(x).tolist() == [0.5, 0.0, 0.5]
    assert afx.grad(lambda x: afx.sum(nn.softmax(x) * np.array([1.0, 0.0, 0.0])))(x)[0] == 0.25


def test_cross_entropies_do_not_overflow() -> None:
    """Losses of extreme logits are exact, with the gradients of the formulas."""
    logits = np.array([[1e4, 0.0], [0.0, 1e4]])
    assert nn.softmax_cross_entropy(logits, np.array([0, 0])).tolist() == [0.0, 1e4]
    np.testing.assert_allclose(
        np.asarray(nn.softmax_cross_entropy(logits, np.eye(2))),
        np.asarray(nn.softmax_cross_entropy(logits, np.array([0, 1]))),
    )
    assert nn.sigmoid_binary_cross_entropy(np.array([1e4, -1e4, 0.0]), np.array([1.0, 1.0, 0.5])).tolist() == [
        0.0,
        1e4,
        np.log(2.0),
    ]
    y, t = np.array([-2.0, 0.3]), np.array([1.0, 0.0])
    found = afx.grad(lambda y: afx.sum(nn.sigmoid_binary_cross_entropy(y, t)))(y)
    np.testing.assert_allclose(np.asarray(found), 1 / (1 + np.exp(-y)) - t)


def test_layers_have_shapes_and_gradients() -> None:
    """Layers map batches to batches, and their gradients are layers."""
    model = nn.MLP.create(0, [3, 8, 2])
    x = np.ones((5, 3), np.float32)
    assert model(x).shape == (5, 2)
    g = afx.jit(afx.grad(lambda m: afx.sum(m(x) ** 2)))(model)
    assert isinstance(g, nn.MLP)
    assert g.layers[0].weight.shape == (3, 8)
    assert nn.Conv.create(0, (3, 3), 4, 8, stride=2, padding="same", groups=2)(np.ones((2, 8, 8, 4))).shape == (
        2,
        4,
        4,
        8,
    )
    assert nn.Embedding.create(0, 10, 4)(np.array([[1, 2, 3]])).shape == (1, 3, 4)
    y = nn.LayerNorm.create(6)(np.random.default_rng(0).normal(size=(4, 6)))
    np.testing.assert_allclose(np.asarray(afx.mean(y, -1)), 0, atol=1e-6)
    np.testing.assert_allclose(np.asarray(afx.std(y, -1)), 1, atol=1e-4)


def test_initialisers_repeat_and_scale() -> None:
    """The same seed gives the same weights, of the variance that the papers say."""
    shape = (400, 300)
    assert nn.he_normal(1, shape).tolist() == nn.he_normal(1, shape).tolist()
    for init, variance in ((nn.he_normal, 2 / 400), (nn.lecun_normal, 1 / 400), (nn.glorot_uniform, 2 / 700)):
        w = init(2, shape)
        assert w.dtype == afx.float32
        assert float(afx.var(w)) == pytest.approx(variance, rel=0.02)


def test_weights_are_drawn_from_keys() -> None:
    """A seed stands for its key; layers of one model start differently; models are drawn under vmap and jit too."""
    key = afx.random.key(3)
    assert nn.Linear.create(3, 4, 5).weight.tolist() == nn.Linear.create(key, 4, 5).weight.tolist()
    model = nn.MLP.create(key, [4, 4, 4])
    assert model.layers[0].weight.tolist() != model.layers[1].weight.tolist()
    many = afx.vmap(lambda k: nn.MLP.create(k, [4, 4, 4]))(afx.random.split(key, 3))
    assert many.layers[0].weight.shape == (3, 4, 4)
    assert (
        afx.jit(lambda k: nn.MLP.create(k, [4, 4, 4]))(key).layers[1].weight.tolist() == model.layers[1].weight.tolist()
    )
    rng = np.random.default_rng(0)
    assert nn.normal(rng, (3,)).tolist() != nn.normal(rng, (3,)).tolist()


def test_mistakes_are_explained() -> None:
    """Shapes that would silently broadcast raise."""
    with pytest.raises(afx.errors.ShapeError, match="predictions and targets"):
        nn.mse(np.ones((3, 1)), np.ones(3))
    with pytest.raises(afx.errors.ShapeError, match="classes"):
        nn.softmax_cross_entropy(np.ones((3, 2)), np.array([1, 2]))
    with pytest.raises(afx.errors.ArgumentError, match="groups"):
        nn.Conv.create(0, (3,), 3, 4, groups=2)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu"])
def test_activations_and_their_slopes_share_an_exponential(name: str) -> None:
    """A compiled value with its gradient computes one exponential an element."""
    x = np.linspace(-3.0, 3.0, 7)
    gradient = afx.jit(afx.value_and_grad(lambda x: afx.sum(getattr(nn, name)(x))))
    assert [e.primitive.name for e in gradient.lower(x).graph.equations].count("exp") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slopes_of_sigmoids_have_their_digits_in_both_tails(dtype: Any) -> None:
    """Derivatives of `sigmoid`, `softplus` and the binary cross entropy are right to a few units in the last place."""
    x = np.linspace(-80, 80, 321).astype(dtype)
    with mpmath.workdps(60):
        shares = [1 / (1 + mpmath.exp(-mpmath.mpf(float(v)))) for v in x]
        wanted = {
            nn.sigmoid: [s * (1 - s) for s in shares],
            nn.softplus: shares,
            lambda x: nn.sigmoid_binary_cross_entropy(x, np.zeros_like(x)): shares,
        }
    for function, slopes in wanted.items():
        gradient = afx.grad(lambda x, f=function: afx.sum(f(x)))
        for run in (gradient, afx.jit(gradient)):
            np.testing.assert_allclose(
                np.asarray(run(x)), np.array(slopes, float), rtol=4 * np.finfo(dtype).eps, atol=0
            )
