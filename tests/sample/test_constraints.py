"""Constraints: parameters keep them, there and back, and their determinants are those of the Jacobian."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import sample
from afx.errors import ShapeError, TreeError

BIJECTORS: list[tuple[sample.Bijector, int]] = [
    (sample.Positive(), 3),
    (sample.Lower(np.array([1.0, -2.0, 0.5])), 3),
    (sample.Upper(2.0), 3),
    (sample.Interval(-1.0, 3.0), 3),
    (sample.Interval(np.zeros(3), np.array([1.0, 2.0, 3.0])), 3),
    (sample.Simplex(), 4),
    (sample.Ordered(), 4),
    (sample.CholeskyCorrelation(), 6),
]


def free_elements(bijector: sample.Bijector, y: Any) -> Any:
    """Return as many elements of a parameter as it has degrees of freedom."""
    if isinstance(bijector, sample.Simplex):
        return y[:-1]
    return y[np.tril_indices(y.shape[0], -1)] if isinstance(bijector, sample.CholeskyCorrelation) else y


@pytest.mark.parametrize(("bijector", "n"), BIJECTORS)
@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_log_determinants_are_those_of_the_jacobian(bijector: sample.Bijector, n: int, scale: float) -> None:
    """`log_det` is the logarithm of the Jacobian's determinant by autodiff; `inverse` leads back."""
    x = scale * np.random.default_rng(n).standard_normal(n)
    jacobian = np.asarray(afx.jacfwd(lambda v: free_elements(bijector, bijector.forward(v)))(x))
    assert float(bijector.log_det(afx.asarray(x))) == pytest.approx(np.linalg.slogdet(jacobian)[1], rel=1e-8)
    y = bijector.forward(afx.asarray(x))
    np.testing.assert_allclose(bijector.inverse(afx.asarray(y)), x, rtol=1e-6, atol=1e-6)


def test_parameters_keep_their_constraints() -> None:
    """A simplex adds up to 1, factors have rows of length 1, ordered numbers ascend; leading axes are a batch."""
    x = afx.asarray(np.random.default_rng(0).standard_normal((5, 6)))
    shares = np.asarray(sample.Simplex().forward(x))
    assert shares.shape == (5, 7)
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0)
    factors = np.asarray(sample.CholeskyCorrelation().forward(x))
    assert factors.shape == (5, 4, 4)
    np.testing.assert_allclose((factors**2).sum(axis=-1), 1.0)
    assert (np.triu(factors, 1) == 0).all()
    assert (np.diff(sample.Ordered().forward(x)) > 0).all()
    np.testing.assert_allclose(np.linalg.norm(sample.UnitVector().forward(x), axis=-1), 1.0)
    with pytest.raises(ShapeError, match="1, 3, 6, 10"):
        sample.CholeskyCorrelation().forward(x[:, :5])


def test_far_positions_stay_finite() -> None:
    """Values and determinants are finite where slopes underflow, in float32 too."""
    for bijector, n in [*BIJECTORS, (sample.UnitVector(), 3)]:
        for x in (np.full(n, 60.0), np.full(n, -60.0)):
            value = bijector.log_det(afx.asarray(x))
            assert afx.isfinite(value)
            assert afx.all(afx.isfinite(afx.grad(bijector.log_det)(afx.asarray(x))))


@attrs.frozen
class Model:
    """A model with constraints on some of its parameters."""

    mean: Any
    scale: Any


def test_constraints_are_trees() -> None:
    """Bijectors stand in dicts, classes and tuples; None and what a dict leaves out have no constraint."""
    x = np.array([0.0, 1.0])
    for tree, constraints in (
        (Model(x, x), Model(None, sample.Positive())),
        ({"mean": x, "scale": x}, {"scale": sample.Positive()}),
        ((x, {"a": x}), (None, sample.Positive())),
    ):
        params = sample.constrain(constraints, tree)
        first, second = afx.pytree.leaves(params)
        np.testing.assert_array_equal(first, x)
        np.testing.assert_allclose(second, np.exp(x))
        np.testing.assert_allclose(afx.pytree.leaves(sample.unconstrain(constraints, params))[1], x)
        assert float(sample.log_det(constraints, tree)) == 1.0
    with pytest.raises(TreeError, match="more than the tree"):
        sample.constrain({"sd": sample.Positive()}, {"scale": x})
