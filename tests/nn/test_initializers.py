"""Initialisers: variances, structures, keys, mistakes."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import afx
from afx import nn
from afx.nn import initializers

SHAPE = (3, 3, 40, 90)  # fans 360 and 810
SCALED: dict[str, tuple[Any, float, bool]] = {
    "glorot_normal": (nn.glorot_normal, 2 / 1170, False),
    "glorot_uniform": (nn.glorot_uniform, 2 / 1170, True),
    "he_normal": (nn.he_normal, 2 / 360, False),
    "he_uniform": (nn.he_uniform, 2 / 360, True),
    "kaiming_normal": (partial(nn.kaiming_normal, slope=2.0, mode="fan_out"), 2 / (5 * 810), False),
    "kaiming_uniform": (partial(nn.kaiming_uniform, slope=math.sqrt(5)), 1 / (3 * 360), True),
    "lecun_normal": (nn.lecun_normal, 1 / 360, False),
    "lecun_uniform": (nn.lecun_uniform, 1 / 360, True),
    "variance_scaling": (partial(nn.variance_scaling, scale=3.0, mode="fan_avg"), 3 / 585, False),
    "truncated": (partial(nn.variance_scaling, distribution="truncated_normal"), 1 / 360, False),
    "uniform": (partial(nn.uniform, scale=0.3), 0.03, True),
    "normal": (partial(nn.normal, scale=0.3), 0.09, False),
}


@pytest.mark.parametrize("name", SCALED)
def test_variances_are_those_of_the_papers(name: str) -> None:
    """Mean 0, the variance, the shape of the distribution, and the default dtype."""
    init, variance, is_uniform = SCALED[name]
    w = np.asarray(init(1, SHAPE))
    assert (w.shape, w.dtype) == (SHAPE, np.float32)
    std = math.sqrt(variance)
    assert w.mean() == pytest.approx(0, abs=0.02 * std)
    assert w.std() == pytest.approx(std, rel=0.01)
    assert np.abs(w).max() <= math.sqrt(3) * std * (1 + 1e-6) if is_uniform else np.abs(w).max() > 2 * std
    with afx.default_dtype(afx.float64):
        assert init(1, (4, 3)).dtype == np.float64


def test_truncated_normal_numbers_stay_within_the_bound() -> None:
    """Two scales, or as many as one says."""
    assert float(afx.max(abs(nn.truncated_normal(0, (5000,), 0.5)))) <= 1.0
    assert float(afx.max(abs(nn.truncated_normal(0, (5000,), 1.0, 0.5)))) <= 0.5
    scaled = np.asarray(nn.variance_scaling(0, (100, 100), distribution="truncated_normal"))
    assert np.abs(scaled).max() <= 2 * 0.1 / 0.8796 + 1e-4


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 2, 3)])
def test_orthogonal_weights(shape: tuple[int, ...]) -> None:
    """The fewer of rows and columns are orthonormal times the gain; signs are drawn too."""
    with afx.default_dtype(afx.float64):
        w = np.asarray(nn.orthogonal(0, shape, 2.0)).reshape(-1, shape[-1])
    gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)
    signs = np.sign([np.asarray(nn.orthogonal(seed, shape)).ravel()[0] for seed in range(20)])
    assert set(signs) == {-1.0, 1.0}


def test_delta_orthogonal_kernels_keep_the_norm() -> None:
    """0 but for the middle of the window, which is orthogonal."""
    with afx.default_dtype(afx.float64):
        kernel = np.asarray(nn.delta_orthogonal(0, (3, 5, 2, 4)))
    middle = kernel[1, 2]
    np.testing.assert_allclose(middle @ middle.T, np.eye(2), atol=1e-12)
    assert np.count_nonzero(kernel) == np.count_nonzero(middle)


def test_sparse_weights_have_their_share_of_zeros() -> None:
    """Each output has as many zeros, at other inputs."""
    w = np.asarray(initializers.sparse(0, (20, 8), 0.75, 2.0))
    assert (w == 0).sum(0).tolist() == [15] * 8
    assert len({tuple(column) for column in (w == 0).T}) > 1
    assert w[w != 0].std() == pytest.approx(2.0, rel=0.4)
    assert not np.asarray(initializers.sparse(0, (4, 2), 1.0)).any()


def test_constants() -> None:
    """Zeros, ones, one number, the identity."""
    assert initializers.zeros(0, (2, 2)).tolist() == np.zeros((2, 2)).tolist()
    assert initializers.ones(0, (2,)).tolist() == [1.0, 1.0]
    assert initializers.constant(0, (2,), 3).tolist() == [3.0, 3.0]
    assert initializers.constant(0, (2,), 3).dtype == np.float32
    assert initializers.identity(0, (2, 3), 2.0).tolist() == (2 * np.eye(2, 3)).tolist()


@pytest.mark.parametrize(
    "init", [nn.orthogonal, nn.delta_orthogonal, partial(initializers.sparse, sparsity=0.3), nn.truncated_normal]
)
def test_keys(init: Any) -> None:
    """The same key gives the same weights, compiled and mapped over keys too, and another gives others."""
    shape = (3, 4, 4) if init is nn.delta_orthogonal else (4, 4)
    keys = afx.random.split(afx.random.key(0), 2)
    first, second = (np.asarray(init(key, shape)) for key in keys)
    assert first.tolist() != second.tolist()
    np.testing.assert_allclose(np.asarray(afx.jit(lambda key: init(key, shape))(keys[0])), first, atol=1e-6)
    np.testing.assert_allclose(np.asarray(afx.vmap(lambda key: init(key, shape))(keys)), [first, second], atol=1e-6)


def test_mistakes() -> None:
    """Shapes without fans or windows, unknown modes, shares beyond 1."""
    with pytest.raises(afx.errors.ShapeError, match="lecun_uniform: weights have inputs and outputs"):
        nn.lecun_uniform(0, (3,))
    with pytest.raises(afx.errors.ArgumentError, match="mode is one of"):
        nn.variance_scaling(0, (3, 2), mode="fan")  # a mistake on purpose
    with pytest.raises(afx.errors.ArgumentError, match="distribution is"):
        nn.variance_scaling(0, (3, 2), distribution="cauchy")  # a mistake on purpose
    with pytest.raises(afx.errors.ArgumentError, match="scale positive"):
        nn.variance_scaling(0, (3, 2), -1.0)
    with pytest.raises(afx.errors.ShapeError, match="delta_orthogonal"):
        nn.delta_orthogonal(0, (3, 4, 2))
    with pytest.raises(afx.errors.ShapeError, match="sparse: weights are a matrix"):
        initializers.sparse(0, (3, 4, 2))
    with pytest.raises(afx.errors.ArgumentError, match="share"):
        initializers.sparse(0, (3, 4), 1.5)
