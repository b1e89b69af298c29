"""Derivatives by several arguments and by name, auxiliary results, pickling, and sparse arithmetic."""

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, pytree
from afx.errors import ArgumentError, OperandError, ShapeError
from tests.every import together

X, Y = np.array([1.0, 2.0]), np.float64(3.0)


def energy(x: Any, y: Any) -> Array:
    """Return a scalar of two arguments."""
    return afx.sum(x**2) * y**2


def norm2(x: Any) -> Array:
    """Return a scalar of one argument."""
    return afx.sum(x * x)


def test_hessian_by_several_arguments() -> None:
    """A tuple of arguments gives a tuple of tuples: the blocks of the whole Hessian."""
    (xx, xy), (yx, yy) = afx.hessian(energy, (0, 1))(X, Y)
    np.testing.assert_allclose(np.asarray(xx), 18 * np.eye(2))
    np.testing.assert_allclose(np.asarray(xy), 12 * X)
    np.testing.assert_allclose(np.asarray(yx), 12 * X)
    np.testing.assert_allclose(np.asarray(yy), 10.0)
    assert np.allclose(np.asarray(afx.jit(afx.hessian(energy, (0, 1)))(X, Y)[0][1]), 12 * X)


@pytest.mark.parametrize("jacobian", [afx.jacfwd, afx.jacrev])
def test_jacobians_by_name_and_with_auxiliary_results(jacobian: Any) -> None:
    """Names give a dict, several positions a tuple, and aux is passed on."""
    fn = lambda x, y: (x * y, {"x": x})
    (by_x, by_y), aux = jacobian(fn, (0, 1), has_aux=True)(X, Y)
    np.testing.assert_allclose(np.asarray(by_x), 3 * np.eye(2))
    np.testing.assert_allclose(np.asarray(by_y), X)
    assert np.asarray(aux["x"]).tolist() == X.tolist()
    by_name = jacobian(lambda x, y: x * y, argnames="y")(X, y=Y)
    np.testing.assert_allclose(np.asarray(by_name["y"]), X)
    both = jacobian(lambda x, y: x * y, 0, "y")(X, y=Y)
    np.testing.assert_allclose(np.asarray(both[0]), 3 * np.eye(2))


def test_few_and_many_parameters_have_the_same_hessian() -> None:
    """Second derivatives by few numbers are those by many, compiled and by hand; trees, names and kinks included."""

    def loss(p: Any, y: Any, *, scale: Any = 2.0) -> Any:
        shape, rate = afx.exp(p["shape"]), p["rate"]
        return afx.sum(afx.where(y > 1.0, (y / scale) ** shape, rate[0] * y) * afx.maximum(rate[1], 0.3)) * scale

    p = {"shape": np.float64(0.3), "rate": np.array([0.5, 0.7])}
    y = np.linspace(0.1, 3.0, 7)
    few, many = afx.hessian(loss)(p, y), afx.jacfwd(afx.grad(loss))(p, y)
    compiled = afx.jit(afx.hessian(loss))(p, y)
    for found in (few, compiled):
        assert pytree.structure(found) == pytree.structure(many)
        for x, z in zip(pytree.leaves(found), pytree.leaves(many), strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(z), rtol=1e-13, atol=1e-15)
    by_name = afx.hessian(loss, argnames="scale")(p, y, scale=np.float64(2.0))["scale"]["scale"]
    want = afx.grad(afx.grad(lambda s: loss(p, y, scale=s)))(np.float64(2.0))
    assert float(by_name) == pytest.approx(float(want), rel=1e-13)


def test_hessian_and_vjp_with_auxiliary_results() -> None:
    """The auxiliary result comes last, with plain values."""
    second, aux = afx.hessian(lambda x: (afx.sum(x**3), x), has_aux=True)(X)
    np.testing.assert_allclose(np.asarray(second), np.diag(6 * X))
    assert not afx.is_traced(aux)
    value, pullback, extra = afx.vjp(lambda x: (2 * x, x + 1), X, has_aux=True)
    assert np.asarray(value).tolist() == [2.0, 4.0]
    assert np.asarray(pullback(afx.ones_like(value))[0]).tolist() == [2.0, 2.0]
    assert np.asarray(extra).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", ["hessian", "jacfwd", "jacrev", "elementwise_grad"])
def test_messages_name_what_was_called(name: str) -> None:
    """Wrong positions, functions and dtypes are told in the name of the function that the user called."""
    transform = getattr(afx, name)
    for bad in (
        lambda: transform(norm2, 3)(X),
        lambda: transform(norm2, "x")(X),
        lambda: transform(3.0),
        lambda: transform(norm2)(np.arange(3) > 1),
        lambda: transform(norm2, argnames="y")(X),
    ):
        with pytest.raises(afx.errors.AfxError, match=f"^{name}: "):
            bad()


def test_elementwise_grad() -> None:
    """Each element's own derivative, of one argument or several."""
    np.testing.assert_allclose(np.asarray(afx.elementwise_grad(afx.tanh)(X)), 1 / np.cosh(X) ** 2)
    first, second = afx.elementwise_grad(lambda x, y: x * y**2, (0, 1))(X, X + 1)
    np.testing.assert_allclose(np.asarray(first), (X + 1) ** 2)
    np.testing.assert_allclose(np.asarray(second), 2 * X * (X + 1))
    np.testing.assert_allclose(np.asarray(afx.elementwise_grad(afx.elementwise_grad(afx.sin))(X)), -np.sin(X))


def test_is_traced() -> None:
    """It tells tracers from arrays, under every transformation."""
    seen: list[bool] = []
    fn = lambda x: (seen.append(afx.is_traced(x)), afx.sum(x))[1]  # a function that notes
    for transform in (lambda f: f, afx.grad, afx.jit, afx.jacfwd):
        transform(fn)(afx.asarray(X))
    afx.vmap(fn)(afx.asarray(X))
    assert seen == [False, True, True, True, True]


@pytest.mark.parametrize(
    "fn", [afx.grad(norm2), afx.value_and_grad(norm2), afx.jit(afx.grad(norm2)), afx.grad(energy, (0, 1))]
)
def test_gradients_pickle(fn: Any) -> None:
    """A gradient is pickled as what it is made of, compiled or not."""
    args = (X, Y) if "energy" in repr(fn) else (X,)
    copy = pickle.loads(pickle.dumps(fn))
    assert repr(copy(*args)) == repr(fn(*args))


def cubed(x: Any) -> Any:
    """Return a cube, a function of a module."""
    return x**3


@together(
    "transform",
    [
        afx.vmap,
        afx.hessian,
        afx.jacfwd,
        afx.jacrev,
        afx.elementwise_grad,
        afx.sparse_jacobian,
        afx.sparse_hessian,
        afx.trace,
        functools.partial(afx.custom_vjp, forward=cubed, backward=cubed),
        functools.partial(afx.custom_jvp, rule=cubed),
    ],
)
def test_transformed_functions_pickle(transform: Any) -> None:
    """What a transformation returns is pickled as what it is made of, and serves as a method."""
    scalar = transform in (afx.hessian, afx.sparse_hessian)
    fn = transform(norm2 if scalar else cubed)
    copy = pickle.loads(pickle.dumps(fn))
    assert repr(copy(X)) == repr(fn(X))
    assert repr(fn) == f"<{getattr(transform, 'func', transform).__name__} of {'norm2' if scalar else 'cubed'}>"
    method = transform((lambda self, x: norm2(x)) if scalar else lambda self, x: cubed(x))
    assert callable(type("Holder", (), {"method": method})().method)


@afx.grad
def decorated(x: Any) -> Any:
    """Return a cube."""
    return x**3


def test_a_decorated_function_pickles_by_name() -> None:
    """What stands in the module under its function's name is found there again."""
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert decorated.__name__ == "decorated"
    assert repr(afx.grad(norm2)) == "<grad of norm2>"


SPARSE = afx.sparse_jacobian(lambda x: x[1:] * x[:-1])(np.arange(1.0, 5.0))
DENSE = np.asarray(SPARSE.todense())


def test_sparse_arithmetic() -> None:
    """Transposes, sums, differences and multiples are those of the dense matrices."""
    for found, want in (
        (SPARSE.T, DENSE.T),
        (SPARSE + 2 * SPARSE, 3 * DENSE),
        (SPARSE - SPARSE / 2, DENSE / 2),
        (-SPARSE * 3.0, -3 * DENSE),
    ):
        np.testing.assert_allclose(np.asarray(found.todense()), want)
    assert (SPARSE + SPARSE).nnz == SPARSE.nnz
    np.testing.assert_allclose(np.asarray(np.ones(3) @ SPARSE), np.ones(3) @ DENSE)
    np.testing.assert_allclose(np.asarray(np.ones((2, 3)) @ SPARSE), np.ones((2, 3)) @ DENSE)
    np.testing.assert_allclose(np.asarray(SPARSE.T @ np.ones(3)), DENSE.T @ np.ones(3))
    np.testing.assert_allclose(SPARSE.T.toscipy().toarray(), DENSE.T)


def test_sparse_arithmetic_differentiates() -> None:
    """Gradients pass through multiples, sums and transposes, compiled too."""
    loss = lambda a: afx.sum((SPARSE * a + SPARSE).T @ afx.ones(3, dtype=np.float64))
    for run in (afx.grad(loss), afx.jit(afx.grad(loss))):
        np.testing.assert_allclose(float(run(2.0)), DENSE.sum())


def test_sparse_mistakes() -> None:
    """Conversion to an array, unlike shapes and products by arrays are refused with the way out."""
    with pytest.raises(OperandError, match="toscipy"):
        np.asarray(SPARSE)
    with pytest.raises(ShapeError, match="differ in shape"):
        SPARSE + SPARSE.T
    with pytest.raises(ShapeError, match="use @"):
        SPARSE * np.ones(4)
    with pytest.raises(TypeError):
        SPARSE + 1.0  # the mistake


def test_nothing_to_differentiate_is_refused() -> None:
    """An empty choice of arguments says so."""
    with pytest.raises(ArgumentError, match="nothing to differentiate"):
        afx.jacfwd(norm2, ())
