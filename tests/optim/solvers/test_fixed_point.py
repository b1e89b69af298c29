"""`fixed_point` finds what a function returns as it is, faster than by iteration alone."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

A = np.random.default_rng(1).normal(size=(6, 6))
A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
B = np.arange(6.0)


def affine(x: Any, b: Any) -> Any:
    """Return an affine map of spectral radius 0.9."""
    return A @ x + b


def test_affine_maps() -> None:
    """The fixed point of an affine map, and its derivative, are solutions of linear systems."""
    matrix = np.linalg.inv(np.eye(6) - A)
    result = optim.fixed_point(affine, np.zeros(6), B)
    assert result.converged
    np.testing.assert_allclose(result.x, matrix @ B, rtol=1e-9)
    of = lambda b: optim.fixed_point(affine, np.zeros(6), b).x
    for jacobian in (afx.jacrev(of), afx.jacfwd(of), afx.jit(afx.jacrev(of))):
        np.testing.assert_allclose(jacobian(B), matrix, rtol=1e-10)
    np.testing.assert_allclose(afx.vmap(of)(np.stack([B, -B])), np.stack([matrix @ B, -matrix @ B]), rtol=1e-9)


def test_acceleration() -> None:
    """Anderson's acceleration needs fewer evaluations, and converges where plain iteration does not."""
    fast, plain = [optim.fixed_point(afx.cos, np.ones(3), memory=m) for m in (5, 0)]
    np.testing.assert_allclose(fast.x, plain.x, rtol=1e-11)
    assert int(fast.evaluations) < int(plain.evaluations) / 4
    assert float(optim.fixed_point(lambda x: 3.0 * x + 1.0, np.ones(())).x) == pytest.approx(-0.5, rel=1e-10)


def test_precision_limits_and_mistakes() -> None:
    """float32 stays float32, limits are reported, mistakes are named."""
    single = optim.fixed_point(afx.cos, np.float32(1.0))
    assert single.x.dtype == np.float32
    assert single.converged
    assert optim.fixed_point(affine, B, B, max_iterations=2).reason == "the limit of iterations was reached"
    with pytest.raises(afx.errors.ShapeError, match="what it takes"):
        optim.fixed_point(lambda x: x[:1], B)
    with pytest.raises(afx.errors.ArgumentError, match="memory"):
        optim.fixed_point(afx.cos, B, memory=-1)
