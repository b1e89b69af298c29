"""Arrays beside other libraries' types: operators ask them, NumPy writes into its own arrays, SciPy takes afx functions."""

import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import afx
from afx import Array, errors
from tests.every import together

X = afx.asarray(np.array([1.0, 2.0, 3.0]))


class Other:
    """A type that knows how to join an Array."""

    def __radd__(self, other: Any) -> str:
        return "radd"

    def __add__(self, other: Any) -> str:
        return "add"

    def __rmatmul__(self, other: Any) -> str:
        return "rmatmul"

    def __rdivmod__(self, other: Any) -> str:
        return "rdivmod"

    def __gt__(self, other: Any) -> str:
        return "gt"


SCIPY = tuple(int(part) for part in scipy.__version__.split(".")[:2])


def test_operators_ask_types_that_they_do_not_know() -> None:
    """An unknown type answers itself, traced or not; without an answer Python's own TypeError names both."""
    a: Any = X
    assert (a + Other(), Other() + a, a @ Other(), a < Other()) == ("radd", "add", "rmatmul", "gt")
    assert divmod(a, Other()) == "rdivmod"
    afx.grad(lambda x: afx.sum(x) if x + Other() == "radd" else afx.sum(x * 0))(X)
    with pytest.raises(TypeError, match="unsupported operand"):
        a + object()
    with pytest.raises(TypeError, match="unsupported operand"):
        divmod(a, object())
    with pytest.raises(TypeError, match="not supported between"):
        assert a < object()


def test_comparisons_with_none_and_texts_are_python_s() -> None:
    """Nothing and a text equal no array; a list raises, since a silent False would be worse."""
    a: Any = afx.asarray(np.float64(1.0))
    assert a == pytest.approx(1.0)
    assert pytest.approx(1.0) == a
    assert (a == None) is False  # noqa: E711  # the operator is what is tested
    assert (a != None) is True  # noqa: E711 - the comparison itself is tested
    assert a not in (None, "auto")
    for other in ([1.0], "x", None):
        with pytest.raises(errors.OperandError, match="convert it with"):
            a + other
    with pytest.raises(errors.OperandError, match="list"):
        assert a == [1.0]


def test_pandas_and_sparse_matrices_join() -> None:
    """A Series and SciPy's sparse matrices take an Array on either side."""
    a: Any = X
    assert isinstance(a @ scipy.sparse.csr_array(np.eye(3)), np.ndarray)
    pandas = pytest.importorskip("pandas", reason="the neighbour is tested where it is installed")
    series: Any = pandas.Series([1.0, 2.0, 3.0])
    for found in (X / series, series / X):
        assert isinstance(found, pandas.Series)
        assert found.tolist() == [1.0, 1.0, 1.0]


def test_writing_into_numpy_s_arrays() -> None:
    """An ndarray is written as NumPy does; an Array is not, and a traced value never leaves its trace."""
    n, a = np.ones(3), cast(Any, X)
    m = n
    n += X
    np.add(n, X, out=n)
    np.add.at(n, [0, 0], afx.ones(2))
    np.testing.assert_array_equal(n, [5.0, 5.0, 7.0])
    assert n is m
    np.copyto(n, X)
    np.sum(afx.stack([X, X]), axis=0, out=n)
    np.put(n, [0], afx.asarray([9.0]))
    np.testing.assert_array_equal(n, [9.0, 4.0, 6.0])

    def into(x: Any) -> Any:
        n = np.ones(3)
        n += x
        return afx.sum(x)

    for run in (afx.grad(into), afx.jit(into), afx.vmap(into)):
        with pytest.raises(errors.TracerError):
            run(np.ones((3, 3)) if run.__name__ == "vmap" else np.ones(3))
    with pytest.raises(errors.ImmutableError):
        np.add(n, n, out=a)
    with pytest.raises(errors.ImmutableError):
        np.copyto(a, n)


def test_conversions_of_untraced_arrays_give_numpy_s() -> None:
    """What makes NumPy's arrays does so of an Array, and stays traced where that is."""
    for found in (np.atleast_1d(X), np.atleast_2d(X), np.ascontiguousarray(X), np.require(X), np.asfortranarray(X)):
        assert type(found) is np.ndarray
    assert [type(v) for v in np.atleast_1d(X, X)] == [np.ndarray] * 2
    found = afx.grad(lambda x: afx.sum(np.atleast_2d(x) ** 2))(X)
    np.testing.assert_array_equal(found, 2 * X)


def rosenbrock(x: Any) -> Array:
    """Return Rosenbrock's function."""
    return afx.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


SECOND = ("Newton-CG", "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov")
METHODS = ("Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "COBYQA", "SLSQP", *SECOND)


@together("method", METHODS)
def test_minimize_takes_functions_as_they_are(method: str) -> None:
    """Every method finds the minimum with afx's value, gradient and Hessian."""
    options: dict[str, Any] = {"jac": afx.grad(rosenbrock)} if method not in ("Nelder-Mead", "Powell", "COBYQA") else {}
    if method in SECOND:
        options["hess"] = afx.hessian(rosenbrock)
    found = scipy.optimize.minimize(rosenbrock, np.array([1.2, 1.1]), method=method, **options)
    np.testing.assert_allclose(found.x, 1, atol=1e-2)


def circle(x: Any) -> Any:
    """Return the squared distance from the origin."""
    return x[0] ** 2 + x[1] ** 2


def pair(x: Any) -> Array:
    """Return two functions that are 0 at (1, 1)."""
    return afx.stack([x[0] ** 2 - x[1], x[0] + x[1] - 2])


def test_constraints_and_roots_take_functions_as_they_are() -> None:
    """Constraints, least squares, curve fits, roots and boundary value problems, too."""
    x0, jac = np.array([0.5, 0.5]), afx.grad(rosenbrock)
    bound = scipy.optimize.NonlinearConstraint(circle, 0, 1.5, jac=afx.grad(circle))
    for method, constraint in (
        ("trust-constr", bound),
        ("SLSQP", {"type": "ineq", "fun": lambda x: 1.5 - circle(x), "jac": lambda x: -afx.grad(circle)(x)}),
    ):
        found = scipy.optimize.minimize(rosenbrock, x0, jac=jac, method=method, constraints=constraint)
        np.testing.assert_allclose(found.x, [0.9072, 0.8227], atol=1e-3)
    t = np.linspace(0, 1, 9)
    y = 2 * np.exp(-1.3 * t)

    def model(t: Any, a: Any, b: Any) -> Any:
        return a * afx.exp(-b * t)

    def misfit(p: Any) -> Any:
        return model(t, p[0], p[1]) - y

    robust = [("trf", "soft_l1"), ("dogbox", "huber")] * (SCIPY >= (1, 15))  # which wrote into the residuals before
    for method, loss in (("trf", "linear"), *robust, ("lm", "linear")):
        fit = scipy.optimize.least_squares(misfit, np.ones(2), jac=afx.jacfwd(misfit), method=method, loss=loss)
        np.testing.assert_allclose(fit.x, [2, 1.3], rtol=1e-5)
    np.testing.assert_allclose(scipy.optimize.curve_fit(model, t, y, p0=[1.0, 1.0])[0], [2, 1.3], rtol=1e-6)
    for method in ("hybr", "lm"):
        np.testing.assert_allclose(scipy.optimize.root(pair, [1.2, 1.1], jac=afx.jacfwd(pair), method=method).x, 1)


def test_boundary_problems_and_linear_operators_take_functions_as_they_are() -> None:
    """`solve_bvp` and a `LinearOperator` of forward mode work."""
    import scipy.integrate
    import scipy.sparse.linalg

    found = scipy.integrate.solve_bvp(
        lambda x, y: afx.stack([y[1], -afx.exp(y[0])]),
        lambda a, b: afx.stack([a[0], b[0]]),
        np.linspace(0, 1, 5),
        np.zeros((2, 5)),
    )
    assert found.success

    def linear(x: Any) -> Any:
        return afx.stack([3 * x[0] + x[1], x[0] + 2 * x[1]])

    operator: Any = scipy.sparse.linalg.LinearOperator(  # which asks for the dtype by a vector of int8
        (2, 2),
        matvec=lambda v: afx.jvp(linear, (np.zeros(2),), (v,))[1],
        rmatvec=lambda v: afx.vjp(linear, np.zeros(2))[1](v)[0],
    )
    assert operator.dtype == np.float64
    np.testing.assert_allclose(scipy.sparse.linalg.cg(operator, np.ones(2))[0], [0.2, 0.4])
    np.testing.assert_array_equal(operator.rmatvec(np.array([1, 2])), [5.0, 5.0])
    np.testing.assert_array_equal(afx.linearize(linear, np.zeros(2))[1](np.array([1, 2])), [5.0, 5.0])


@pytest.mark.parametrize("transform", [afx.grad, afx.value_and_grad, afx.hessian])
def test_other_arguments_come_as_they_were_given(transform: Callable[..., Any]) -> None:
    """What is not differentiated is the caller's own object, by position or by name."""
    given: list[Any] = [np.ones(3), [1, 2], np.array([True, False, True])]
    seen: list[Any] = []

    def fn(x: Any, *rest: Any, last: Any) -> Any:
        seen[:] = [*rest, last]
        return afx.sum(x * x)

    transform(fn)(np.ones(2), *given[:2], last=given[2])
    assert all(s is g for s, g in zip(seen, given, strict=True))


def test_arrays_that_rules_keep_are_copied_once() -> None:
    """A large array that several rules read is copied once; writes of the caller afterwards change no gradient."""
    n = np.ones(1 << 18)

    def fn(x: Any, n: Any) -> Any:
        return afx.sum(x * n) + afx.sum(x * n) + afx.sum(n / x)

    tracemalloc.start()
    _, pull = afx.vjp(lambda x: fn(x, n), np.float64(1.0))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 3.5 * n.nbytes  # the copy, and the quotients, of which one is read
    n[:] = 7
    assert float(pull(np.float64(1.0))[0]) == n.size

    def writing(x: Any) -> Any:
        m = np.ones(1 << 13)
        first = afx.sum(x * m)
        m[:] = 3
        return first + afx.sum(x * m)

    assert float(afx.grad(writing)(np.float64(1.0))) == 4 << 13


@pytest.mark.parametrize("transform", [afx.grad, afx.jit, lambda f: lambda x: afx.jvp(f, (x,), (x,)), afx.vmap])
def test_traced_arrays_stay_in_their_thread(transform: Callable[..., Any]) -> None:
    """A traced array that is used in another thread raises there; a whole derivative in each thread works."""
    found: list[Any] = []

    def fn(x: Any) -> Any:
        def work() -> None:
            for use in (lambda: x * 2, lambda: afx.sin(x), lambda: afx.stack([x, x])):
                try:
                    found.append(use())
                except errors.TracerError as error:
                    found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return afx.sum(x)

    transform(fn)(np.ones(2))
    assert len(found) == 3
    assert all("another thread" in str(z) for z in found)


def test_each_thread_differentiates_for_itself() -> None:
    """Gradients taken in several threads at once are right, and a pullback runs in another thread than its trace."""
    results: dict[int, float] = {}

    def work(k: int) -> None:
        for _ in range(20):
            results[k] = float(afx.grad(lambda x: afx.sum(x**3) * k)(np.float64(2.0)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 12.0 * k for k in range(4)}
    _, pull = afx.vjp(lambda x: x**3, np.float64(2.0))
    thread = threading.Thread(target=lambda: results.update({9: float(pull(np.float64(1.0))[0])}))
    thread.start()
    thread.join()
    assert results[9] == 12


CASES: dict[str, Callable[[Any], Any]] = {
    "moveaxis": lambda x: np.moveaxis(x, source=0, destination=1),
    "repeat": lambda x: np.repeat(x, repeats=2),
    "split": lambda x: np.split(x, indices_or_sections=3, axis=1),
    "array_split": lambda x: np.array_split(x, indices_or_sections=2),
    "hsplit": lambda x: np.hsplit(x, indices_or_sections=3),
    "triu": lambda x: np.triu(x, 1),
    "clip": lambda x: np.clip(x, a_min=1, a_max=2),
    "tile": lambda x: np.tile(x, reps=2),
    "atleast_1d of two": lambda x: np.atleast_1d(x, x[0]),
    "broadcast_arrays": lambda x: np.broadcast_arrays([1.0, 2.0, 3.0], x),
    "meshgrid": lambda x: np.meshgrid([1.0, 2.0], x[0]),
    "einsum": lambda x: np.einsum("ij,j->i", x, [1.0, 2.0, 3.0]),
    "einsum of lists": lambda x: np.einsum(x, [0, 1], [1.0, 2.0, 3.0], [1], [0]),
    "average": lambda x: np.average(x, axis=1, weights=[1.0, 2.0, 3.0]),
    "select": lambda x: np.select([x > 1, [True, False, True]], [x, [1.0, 2.0, 3.0]]),
    "choose": lambda x: np.choose([0, 1, 0], [x, [1.0, 2.0, 3.0]]),
}


@together("name", CASES)
def test_numpy_s_forms_of_arguments(name: str) -> None:
    """Names, lists beside an Array and several arguments are taken as NumPy takes them, plain, traced and compiled."""
    fn, x = CASES[name], np.arange(6.0).reshape(2, 3) + 0.1
    want = afx.pytree.leaves(fn(x))
    for found in (fn(afx.asarray(x)), afx.jit(fn)(x)):
        for z, w in zip(afx.pytree.leaves(found), want, strict=True):
            np.testing.assert_allclose(np.asarray(z), w, rtol=1e-15)
    afx.testing.check_grads(fn, (x,), order=1)


def test_own_functions_take_numpy_s_forms() -> None:
    """The functions of afx take these names and places too."""
    x = afx.asarray(np.arange(6.0).reshape(2, 3))
    for found, want in (
        (afx.moveaxis(x, source=0, destination=1), np.moveaxis(x, 0, 1)),
        (afx.repeat(x, repeats=2), np.repeat(x, 2)),
        (afx.split(x, indices_or_sections=3, axis=1)[1], np.split(x, 3, 1)[1]),
        (afx.triu(x, 1), np.triu(x, 1)),
        (afx.tril(x, -1), np.tril(x, -1)),
        (afx.tile(x, reps=2), np.tile(x, 2)),
    ):
        np.testing.assert_array_equal(found, want)
