"""Transformations of jitted functions: compiled as a whole, and kept with the function."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import AfxError, ConcreteValueError, DtypeError, NanError, OperandError, ShapeError, TreeError
from tests.every import together

X = np.array([0.3, -1.2, 0.7])
W = np.array([[0.5, -0.2, 1.1], [0.4, 0.9, -0.3]])


def loss(x: Any) -> Any:
    """Return a smooth scalar of a vector."""
    return afx.sum(afx.sin(x) * afx.exp(-x * x)) + afx.sum(afx.tanh(W @ x))


def _jvp(fn: Any) -> Any:
    return lambda x: afx.jvp(fn, (x,), (2 * x,))


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "grad": afx.grad,
    "value_and_grad": afx.value_and_grad,
    "jacfwd": afx.jacfwd,
    "jacrev": afx.jacrev,
    "hessian": afx.hessian,
    "jvp": _jvp,
    "grad of grad": lambda fn: afx.grad(lambda x: afx.sum(afx.grad(fn)(x) ** 2)),
    "jacrev of grad": lambda fn: afx.jacrev(afx.grad(fn)),
    "vmap of grad": lambda fn: lambda x: afx.vmap(afx.grad(fn))(afx.stack([x, 2 * x])),
    "jvp of grad": lambda fn: _jvp(afx.grad(fn)),
    "hvp": lambda fn: lambda x: afx.hvp(fn, (x,), (x + 1,)),
    "elementwise_grad": afx.elementwise_grad,
    "vjp": lambda fn: lambda x: afx.vjp(fn, x)[1](np.float64(2.0)),
    "vmap of a pullback": lambda fn: lambda x: afx.vmap(afx.vjp(fn, x)[1])(np.array([1.0, -2.0])),
    "derivative of a pullback": lambda fn: (
        lambda x: afx.grad(lambda c: afx.sum(afx.vjp(fn, x)[1](c)[0] ** 2))(x[0] * 2)
    ),
}


@together("name", TRANSFORMATIONS)
@together("backend", ["auto", "numpy"])
def test_a_transformation_gives_what_it_gives_of_the_plain_function(name: str, backend: Any) -> None:
    """Whatever is around the jitted function: the same numbers, dtypes and structure, at the first call and later."""
    want = TRANSFORMATIONS[name](loss)(afx.asarray(X))
    found = TRANSFORMATIONS[name](afx.jit(loss, backend=backend))
    for x in (afx.asarray(X), X, X):
        given = found(x)
        assert afx.pytree.structure(given) == afx.pytree.structure(want)
        for a, b in zip(afx.pytree.leaves(given), afx.pytree.leaves(want), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_it_has_the_bits_of_jit_around_it() -> None:
    """Compiled as a whole, it is the program that `jit` makes of the transformation."""
    for name in ("grad", "value_and_grad", "jacfwd", "hessian", "jvp"):
        found = TRANSFORMATIONS[name](afx.jit(loss))(X)
        want = afx.jit(TRANSFORMATIONS[name](afx.jit(loss)))(X)
        for a, b in zip(afx.pytree.leaves(found), afx.pytree.leaves(want), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_it_is_made_once() -> None:
    """A transformation that is written down anew at each call is known by the jitted function: each is traced once."""
    traces: list[Any] = []

    @afx.jit
    def fn(x: Any, k: Any) -> Any:
        traces.append(x)
        return afx.sum(x * x) * k

    for k in range(5):
        afx.grad(fn)(X, float(k))
        afx.value_and_grad(fn, argnums=(0,))(X, float(k))
        afx.jvp(fn, (X, 1.0), (X, 0.0))
    assert len(traces) == 3
    afx.grad(fn)(X.astype(np.float32), 1.0)
    assert len(traces) == 4
    fn.clear_cache()
    afx.grad(fn)(X, 1.0)
    assert len(traces) == 5


def test_it_goes_with_the_function() -> None:
    """What was compiled is freed with the jitted function, without the garbage collector."""

    def fn(x: Any) -> Any:
        return afx.sum(x * x)

    jitted: Any = afx.jit(fn)
    afx.grad(jitted)(X)
    afx.hessian(jitted)(X)
    afx.jvp(jitted, (X,), (X,))
    afx.hvp(jitted, (X,), (X,))
    for _ in range(30):
        afx.vjp(jitted, X)[1](X[0])
    plans = [weakref.ref(d) for d in [*jitted._derived.values(), jitted._last_vjp[1]]]
    assert len(plans) >= 5
    gc.collect()
    gc.disable()
    try:
        del jitted
        assert not any(plan() for plan in plans)
    finally:
        gc.enable()


def test_a_pullback_runs_the_compiled_backward_pass_of_its_own_point() -> None:
    """It can be called again and again, of trees, also where nothing depends on an argument or a result."""

    def fn(tree: Any, _: Any) -> Any:
        return {"a": afx.sin(tree["x"]) * 2, "b": afx.asarray(3.0), "c": afx.argmax(tree["x"])}

    jitted = afx.jit(fn)
    points = [{"x": afx.asarray(X * k)} for k in (1, 2)]
    pulled = [afx.vjp(jitted, point, X) for point in points]
    for _ in range(2):
        for k, (value, pullback) in enumerate(pulled):
            np.testing.assert_array_equal(value["a"], jitted(points[k], X)["a"])
            by_tree, by_y = pullback({"a": X, "b": np.float32(1), "c": np.int64(0)})
            np.testing.assert_allclose(by_tree["x"], 2 * np.cos(X * (k + 1)) * X, rtol=1e-15)
            np.testing.assert_array_equal(by_y, np.zeros(3))
    with pytest.raises(ShapeError, match="vjp: "):
        pulled[0][1]({"a": X[:2], "b": np.float32(1), "c": np.int64(0)})
    with pytest.raises(DtypeError, match="vjp: "):
        afx.vjp(jitted, np.arange(3), X)


@pytest.mark.parametrize("size", [3, 3000])  # 3000 numbers are not copied between the two programs
def test_a_pullback_called_often(size: int) -> None:
    """After some calls arguments and cotangents are taken apart by Python of their own: nothing changes, nor do errors."""

    def fn(tree: Any, k: Any) -> tuple[Any, dict[str, Any]]:
        return {"a": afx.sin(tree["x"]) * tree["x"], "n": afx.argmax(tree["x"])}, {"k": k + 1, "word": "aux"}

    jitted = afx.jit(fn)
    tree = {"x": afx.linspace(0.1, 2.0, size, dtype=afx.float64), "y": afx.ones(2), "n": afx.asarray([1, 2])}
    k = np.array(0.5)
    want_value, want_pullback, want_aux = afx.vjp(fn, tree, k, has_aux=True)
    ones = np.ones(size)
    for _ in range(60):
        value, pullback, aux = afx.vjp(jitted, tree, k, has_aux=True)
        for ct in ({"a": afx.asarray(ones), "n": np.int64(0)}, {"a": ones, "n": afx.asarray(0)}):
            found, want = pullback(ct), want_pullback(ct)
            assert afx.pytree.structure(found) == afx.pytree.structure(want)
            for a, b in zip(afx.pytree.leaves(found), afx.pytree.leaves(want), strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_array_equal(value["a"], want_value["a"])
    assert (float(aux["k"]), aux["word"]) == (float(want_aux["k"]), "aux")
    with pytest.raises(ShapeError, match="vjp: "):
        pullback({"a": np.ones(size + 1), "n": np.int64(0)})
    with pytest.raises(DtypeError, match="vjp: "):
        pullback({"a": ones.astype(np.float32), "n": np.int64(0)})
    with pytest.raises(TreeError, match="vjp: "):
        pullback(ones)
    with pytest.raises(OperandError, match="vjp with has_aux=True"):
        afx.vjp(afx.jit(afx.sin), X, has_aux=True)


@pytest.mark.parametrize("size", [3, 3000])
def test_a_pullback_keeps_its_point(size: int) -> None:
    """Writing into an array of NumPy, or giving an Array's memory away, after the forward pass changes no derivative."""
    jitted = afx.jit(lambda x: afx.sum(x * x))
    given = afx.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(30):
        x = np.arange(size, dtype=np.float64)
        pullback = afx.vjp(jitted, x)[1]
        x[:] = -1
        np.testing.assert_array_equal(pullback(np.array(1.0))[0], 2.0 * np.arange(size))
        y = afx.asarray(np.arange(size, dtype=np.float64))
        pullback = afx.vjp(jitted, y)[1]
        given(y)
        np.testing.assert_array_equal(pullback(1.0)[0], 2.0 * np.arange(size))


def test_pullbacks_of_transformations() -> None:
    """Of a gradient, a mapped function and a Jacobian of a jitted function too: the numbers of the plain function."""
    transformations: list[Callable[[Any], Any]] = [afx.grad, afx.jacfwd, lambda fn: afx.vmap(afx.grad(fn))]
    for k, transform in enumerate(transformations):
        x = np.stack([X, -X]) if k == 2 else X
        want, pull = afx.vjp(transform(loss), x)
        fn = transform(afx.jit(loss))
        for _ in range(30):
            value, pullback = afx.vjp(fn, x)
            np.testing.assert_allclose(value, want, rtol=1e-13)
            np.testing.assert_allclose(pullback(want)[0], pull(want)[0], rtol=1e-13)
    with pytest.raises(ShapeError, match=r"^grad: .* must return a scalar"):
        afx.vjp(afx.grad(afx.jit(afx.sin)), X)


def test_static_arguments_stay_static() -> None:
    """They keep their values, by position or name, are no argument to differentiate, and must hash."""
    fn = afx.jit(lambda x, n, up=True: afx.sum(x**n) if up else afx.sum(x), static_argnums=1, static_argnames="up")
    np.testing.assert_allclose(afx.grad(fn)(X, 3), 3 * X**2, rtol=1e-14)
    np.testing.assert_allclose(afx.grad(fn)(X, 2), 2 * X, rtol=1e-14)
    np.testing.assert_array_equal(afx.grad(fn)(X, 2, up=False), np.ones(3))
    with pytest.raises(TreeError, match="a static argument is not hashable"):
        afx.grad(fn, argnums=1)(X, 3.0)
    with pytest.raises(TreeError, match="a static argument is not hashable"):
        afx.grad(fn)(X, [3])


def test_no_memory_is_taken() -> None:
    """An argument that calls give away is whole after a derivative of them."""
    fn = afx.jit(lambda x: afx.sum(x * x), donate_argnums=0)
    x = afx.asarray(X)
    np.testing.assert_array_equal(afx.grad(fn)(x), 2 * X)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: afx.grad(afx.jit(lambda x: x * 2))(X), ShapeError, r"^grad: .* must return a scalar"),
        (lambda: afx.grad(afx.jit(loss))(np.arange(3)), DtypeError, r"^grad: "),
        (lambda: afx.hessian(afx.jit(loss))(np.arange(3)), DtypeError, r"^hessian: "),
        (lambda: afx.jvp(afx.jit(loss), (X,), (X[:2],)), AfxError, r"^jvp: "),
        (
            lambda: afx.vmap(afx.jit(lambda x, y: x + y))(X, X[:2]),
            ShapeError,
            r"^vmap: lengths along the batch axis differ",
        ),
        (
            lambda: afx.grad(afx.jit(lambda x: x if x > 0 else -x))(afx.asarray(2.0)),
            ConcreteValueError,
            r"test_of_jitted\.py",
        ),
    ],
)
def test_errors_are_those_of_the_transformation(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    """They name it, and the user's line, not the compiled whole."""
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "jit of grad" not in str(caught.value)


def test_within_other_transformations_it_is_part_of_them() -> None:
    """Traced arguments, and what the function closes over, are differentiated, mapped and compiled as before."""

    def inner(y: Any) -> Any:
        return afx.sum(afx.grad(afx.jit(lambda x: afx.sum(x * x * y)))(X) ** 2)

    want = 8 * X**2 * X  # of the sum of (2 x y)^2, at y = x
    for fn in (inner, afx.jit(inner)):
        np.testing.assert_allclose(afx.grad(fn)(X), want, rtol=1e-14)
    np.testing.assert_allclose(afx.vmap(inner)(np.ones((2, 3))), [4 * np.sum(X**2)] * 2, rtol=1e-14)
    jitted = afx.jit(loss)
    found = afx.jit(lambda x: afx.grad(jitted)(x) * 2)(X)
    np.testing.assert_allclose(found, 2 * np.asarray(afx.grad(loss)(X)), rtol=1e-14)


def test_pythons_numbers_keep_the_default_dtype() -> None:
    """A derivative by a Python number is one in the default dtype, as without `jit`."""
    for default in (np.float32, np.float64):
        with afx.default_dtype(default):
            found = afx.value_and_grad(afx.jit(lambda x: afx.sin(x) * x))(2.0)
            want = afx.value_and_grad(lambda x: afx.sin(x) * x)(2.0)
        assert [(a.dtype, float(a)) for a in found] == [(b.dtype, float(b)) for b in want]


def test_a_search_for_nan_runs_the_plain_way() -> None:
    """Inside of `debug_nans` the operation is named that gave one, as the function is not compiled there."""
    fn = afx.grad(afx.jit(lambda x: afx.sum(afx.sqrt(x) * 0.0)))
    x = np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        fn(x)
        with afx.debug_nans(), pytest.raises(NanError, match="backward pass of sqrt"):
            fn(x)


def test_threads_whose_first_calls_meet() -> None:
    """Several threads differentiate one jitted function at once: all have the same bits."""
    fn, found = afx.jit(loss), list[bytes]()
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        found.extend([np.asarray(afx.grad(fn)(X)).tobytes() for _ in range(30)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    assert len(set(found)) == 1
