"""`root` finds zeros, says how, and its solutions are differentiable by the parameters."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

METHODS: list[Any] = ["newton", "broyden", "bisection"]


def cube(x: Any, a: Any) -> Any:
    """Return what is 0 at a cube root."""
    return x**3 - a


def cube_root(a: Any, method: Any = "newton") -> Any:
    """Return cube roots."""
    return optim.root(cube, np.ones(3), a, method=method, bracket=(0.0, 10.0)).x


@pytest.mark.parametrize("method", METHODS)
def test_roots_and_their_derivatives(method: Any) -> None:
    """The cube root has its closed form's values and derivatives, plain, compiled and batched."""
    a = np.array([2.0, 3.0, 40.0])
    np.testing.assert_allclose(cube_root(a, method), np.cbrt(a), rtol=1e-12)
    want = np.diag(np.cbrt(a) / (3 * a))
    for jacobian in (afx.jacfwd(cube_root), afx.jacrev(cube_root), afx.jit(afx.jacrev(cube_root))):
        np.testing.assert_allclose(jacobian(a, method), want, rtol=1e-10, atol=1e-14)
    batch = np.stack([a, 2 * a])
    np.testing.assert_allclose(afx.vmap(lambda b: cube_root(b, method))(batch), np.cbrt(batch), rtol=1e-12)
    single = cube_root(a.astype(np.float32), method)
    np.testing.assert_allclose(single, np.cbrt(a), rtol=1e-6)


def test_second_derivative_of_a_root() -> None:
    """Derivatives of second order follow."""
    a = np.float64(5.0)
    of = lambda b: optim.root(lambda x: x * x - b, np.float64(1.0)).x
    assert float(afx.hessian(of)(a)) == pytest.approx(-0.25 * 5**-1.5, rel=1e-9)
    assert float(afx.grad(afx.grad(of))(a)) == pytest.approx(-0.25 * 5**-1.5, rel=1e-9)


@pytest.mark.parametrize("method", METHODS[:2])
def test_systems_over_trees(method: Any) -> None:
    """Unknowns and equations are trees."""

    def system(v: Any) -> Any:
        return v["x"] ** 2 + v["y"] - 3.0, v["x"] - v["y"]

    result = optim.root(system, {"x": np.float64(1.0), "y": np.float64(2.0)}, method=method)
    assert float(result.x["x"]) == pytest.approx((np.sqrt(13) - 1) / 2, rel=1e-12)
    assert result.converged
    assert np.abs(result.residuals).max() < 1e-11


def test_newton_converges_from_afar() -> None:
    """Steps that overshoot are shortened: arctan's plain Newton method diverges from 3."""
    result = optim.root(afx.arctan, np.float64(3.0))
    assert float(result.x) == pytest.approx(0.0, abs=1e-12)


def test_it_says_why_it_stopped() -> None:
    """What has no root, no bracket, or a singular Jacobian says so."""
    assert not optim.root(lambda x: x * x + 1.0, np.ones(1)).converged
    none = optim.root(lambda x: x * x + 1.0, np.ones(1), method="bisection", bracket=(0.0, 1.0))
    assert none.reason == "the function has the same sign at both ends of the bracket"
    singular = optim.root(lambda x: afx.stack([x[0] + x[1], 2 * x[0] + 2 * x[1] - 1]), np.ones(2))
    assert not singular.converged
    assert optim.root(cube, np.ones(1), 2.0, max_iterations=1).reason == "the limit of iterations was reached"


def test_wrong_use_is_named() -> None:
    """Mistakes raise where they are made."""
    with pytest.raises(afx.errors.ShapeError, match="as many equations as unknowns"):
        optim.root(lambda x: x[:1], np.ones(2))
    with pytest.raises(afx.errors.ArgumentError, match="bracket"):
        optim.root(cube, np.ones(1), 2.0, method="bisection")
    with pytest.raises(afx.errors.ArgumentError, match="no such method"):
        optim.root(cube, np.ones(1), 2.0, method="secant")  # the mistake


def test_sparse_newton_solves_boundary_value_problems() -> None:
    """Steps and derivatives of thousands of unknowns stay sparse; the derivative by a boundary value is the closed form's."""
    n = 1500
    x = np.linspace(0, 1, n + 2)[1:-1]

    def residual(
        u: Any, left: Any
    ) -> Any:  # u'' = 2 u³ between left and left / (1 + left), solved by left / (1 + left x)
        ends = afx.concat([afx.reshape(left, (1,)), u, afx.reshape(left / (1 + left), (1,))])
        return (ends[2:] - 2 * u + ends[:-2]) * (n + 1) ** 2 - 2 * u**3

    def solve(left: Any) -> Any:
        return optim.root(residual, 1 - x / 2, left, sparse=True, tolerance=1e-6)

    one = np.float64(1.0)
    result = solve(one)
    assert result.converged
    assert int(result.iterations) < 10
    np.testing.assert_allclose(result.x, 1 / (1 + x), atol=1e-7)
    slope = afx.jit(afx.grad(lambda left: afx.sum(solve(left).x)))(one)
    assert float(slope) == pytest.approx(np.sum(1 / (1 + x) ** 2), rel=1e-6)
    with pytest.raises(afx.errors.ArgumentError, match="use 'newton'"):
        optim.root(lambda x: x, np.ones(2), method="broyden", sparse=True)
