"""Windows, packed bits, questions about shapes and dtypes, vectorised functions: NumPy's values, and more than NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors, nn
from tests.ops.samples import together

X = np.arange(24.0).reshape(2, 3, 4)


@together("name", ["bartlett", "blackman", "hamming", "hanning", "kaiser"])
@together("count", [-1, 0, 1, 2, 7, 8])
def test_windows(name: str, count: int) -> None:
    """Windows are NumPy's, in the default dtype unless one is given."""
    more = (3.5,) if name == "kaiser" else ()
    ours, theirs = getattr(afx, name), getattr(np, name)(count, *more)
    np.testing.assert_array_equal(np.asarray(ours(count, *more, dtype=np.float64)), theirs)
    assert ours(count, *more).dtype == np.float32
    with pytest.raises(errors.ArgumentError, match=name):
        ours(2.5, *more)


def test_kaiser_is_differentiable_in_beta() -> None:
    """The window has a derivative by β, the same compiled."""

    def window(beta: Any) -> Any:
        return afx.kaiser(9, beta, dtype=np.float64)

    h = 1e-6
    slope = (np.kaiser(9, 3 + h) - np.kaiser(9, 3 - h)) / (2 * h)
    np.testing.assert_allclose(np.asarray(afx.jacfwd(window)(np.float64(3.0))), slope, atol=1e-9)
    np.testing.assert_allclose(np.asarray(afx.jit(window)(np.float64(3.0))), np.kaiser(9, 3), rtol=1e-12)
    with pytest.raises(errors.ShapeError, match="beta"):
        afx.kaiser(3, np.ones(2))


BITS = np.random.default_rng(0).integers(0, 3, (3, 11, 2))


@together("axis", [None, 0, 1, -1])
@together("order", ["big", "little"])
@together("count", [None, 5, 40, -3])
def test_bits_are_packed_as_numpys(axis: int | None, order: Any, count: int | None) -> None:
    """Packed and unpacked, plain and compiled."""
    packed = np.packbits(BITS, axis, order)
    for run in (afx.packbits, afx.jit(lambda x: afx.packbits(x, axis, order))):
        got = run(BITS) if run is not afx.packbits else run(BITS, axis, order)
        np.testing.assert_array_equal(np.asarray(got), packed)
        assert got.dtype == np.uint8
    np.testing.assert_array_equal(
        np.asarray(afx.unpackbits(packed, axis, count, order)), np.unpackbits(packed, axis, count, order)
    )


def test_bits_refuse_other_arrays() -> None:
    """Floats, other integers than bytes and other orders are refused by name; nothing packs into nothing."""
    with pytest.raises(errors.DtypeError, match="packbits"):
        afx.packbits(np.ones(3))
    with pytest.raises(errors.DtypeError, match="unpackbits"):
        afx.unpackbits(np.ones(3, int))
    with pytest.raises(errors.ArgumentError, match="bitorder"):
        afx.packbits([True], bitorder="middle")  # which is refused
    assert afx.packbits(np.zeros(0, bool)).shape == (0,)


ASKED: dict[str, Callable[[Any], Any]] = {
    "ndim": lambda m: [m.ndim(X), m.ndim(3.0), m.ndim([[1.0]])],
    "shape": lambda m: [m.shape(X), m.shape(3.0), m.shape([[1.0, 2.0]])],
    "size": lambda m: [m.size(X), m.size(X, 1), m.size(X, -1), m.size([1, 2]), m.size(3)],
    "isscalar": lambda m: [m.isscalar(3), m.isscalar(X), m.isscalar("a"), m.isscalar(np.float32(2))],
    "issubdtype": lambda m: [m.issubdtype("int8", np.integer), m.issubdtype(np.float32, np.float64)],
    "promote_types": lambda m: [m.promote_types(a, b) for a in "?bhiqefdFD" for b in "?BHIQefdFD"],
    "broadcast_shapes": lambda m: [m.broadcast_shapes((3, 1), (4,), ()), m.broadcast_shapes(2), m.broadcast_shapes()],
    "fromfunction": lambda m: [np.asarray(m.fromfunction(lambda i, j: i * 3 + j, (3, 4))).tolist()],
    "einsum_path": lambda m: [m.einsum_path("ij,jk,kl->il", np.ones((9, 2)), np.ones((2, 9)), np.ones((9, 3)))],
}


@pytest.mark.parametrize("name", ASKED)
def test_questions_are_answered_as_by_numpy(name: str) -> None:
    """What is asked of shapes, dtypes and orders of products has NumPy's answer."""
    assert ASKED[name](afx) == ASKED[name](np)


def test_questions_take_traced_arrays() -> None:
    """Shapes and orders of products are known of traced arrays, and NumPy's own names reach them."""

    @afx.jit
    def run(x: Any) -> Any:
        assert afx.shape(x) == np.shape(x) == (2, 3, 4)
        assert afx.size(x) == np.size(x) == 24
        assert np.size(x, 1) == 3
        assert afx.ndim(x) == np.ndim(x) == 3
        assert afx.einsum_path("aij->a", x)[0] == ["einsum_path", (0,)]
        return x

    run(X)
    with pytest.raises(errors.ArgumentError, match="einsum_path: NumPy finds no order"):
        afx.einsum_path("ij,jk", X[0], X[0])
    with pytest.raises(errors.ArgumentError, match="einsum: takes a text such as"):
        afx.einsum(X[0], [-1, 5], X[0], [5, 2])
    with pytest.raises(errors.ShapeError, match="broadcast_shapes"):
        afx.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_values_are_put_along_an_axis(axis: int | None) -> None:
    """The result is what NumPy makes of a copy; x is unchanged, and both operands have derivatives."""
    x = np.random.default_rng(1).normal(size=(3, 4))
    places = np.argmax(x, axis=axis, keepdims=True) if axis is not None else np.array([3, 7])
    want = x.copy()
    np.put_along_axis(want, places, 9.0, axis)
    np.testing.assert_array_equal(np.asarray(afx.put_along_axis(x, places, 9.0, axis)), want)
    afx.testing.check_grads(lambda y, v: afx.put_along_axis(y, places, v, axis), (x, np.float64(2.0)))
    with pytest.raises(errors.ShapeError, match="put_along_axis"):
        afx.put_along_axis(x, np.zeros((1, 1, 1), int), 0.0, 0)


def test_functions_are_vectorized() -> None:
    """By elements and by signature, with arguments left out, as NumPy does it; differentiable."""
    x, y = np.random.default_rng(2).normal(size=(5, 1, 3)), np.random.default_rng(3).normal(size=(4, 3))
    dot = afx.vectorize(afx.vdot, signature="(n),(n)->()")
    np.testing.assert_allclose(np.asarray(dot(x, y)), np.vecdot(x, y), rtol=1e-13)
    np.testing.assert_array_equal(np.asarray(afx.vectorize(lambda a, b: a + b)(x, y)), x + y)
    shifted = afx.vectorize(lambda a, n: a + len(n), excluded={1})
    np.testing.assert_array_equal(np.asarray(shifted(x, "ab")), x + 2)
    first, second = afx.vectorize(lambda v: (v * 2, v[0]), signature="(n)->(n),()")(y)
    np.testing.assert_array_equal(np.asarray(first), y * 2)
    assert second.shape == (4,)
    assert afx.vectorize(lambda a: a * 2)(np.zeros((0, 3))).shape == (0, 3)
    afx.testing.check_grads(dot, (x, y))
    for operands, kind, match in (((x, y[:, :2]), errors.ShapeError, "fit"), ((x,), errors.ArgumentError, "signature")):
        with pytest.raises(kind, match=match):
            dot(*operands)
    with pytest.raises(errors.ShapeError, match="broadcast"):
        dot(np.ones((2, 3)), np.ones((4, 3)))


ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "log1mexp": (nn.log1mexp, lambda x: np.log(-np.expm1(-x))),
    "squareplus, sharp": (lambda x: nn.squareplus(x, 0.0), lambda x: np.maximum(x, 0)),
    "hard_swish": (nn.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_more_activations(name: str) -> None:
    """Values beside their formulas, and derivatives."""
    fn, formula = ACTIVATIONS[name]
    x = np.array([1e-300, 1e-9, 0.3, 0.7, 2.0, 2.9, 30.0])
    np.testing.assert_allclose(np.asarray(fn(x)), formula(x), rtol=1e-12, atol=1e-13)
    afx.testing.check_grads(fn, (x[2:],))


def test_squareplus_has_all_digits() -> None:
    """Far below 0 nothing cancels, at infinity slopes are finite, and the corner's width is learned."""
    np.testing.assert_allclose(float(nn.squareplus(np.float64(-1e9))), 1e-9, rtol=1e-12)
    afx.testing.check_grads(nn.squareplus, (np.array([-3.0, 0.0, 2.0]), np.float64(2.0)))


def test_log_means() -> None:
    """The mean of exponentials is taken without overflow, over all elements or those that count."""
    x = np.array([[1000.0, 1001.0], [-3.0, 2.0]])
    want = [np.log(np.mean(np.exp(x[0] - 1000))) + 1000]
    np.testing.assert_allclose(np.asarray(nn.logmeanexp(x, axis=1))[:1], want, rtol=1e-14)
    chosen = np.array([[True, False], [True, True]])
    got = nn.logmeanexp(x, axis=1, where=chosen, keepdims=True)
    np.testing.assert_allclose(np.asarray(got)[:, 0], [1000.0, np.log(np.mean(np.exp(x[1])))], rtol=1e-14)
    afx.testing.check_grads(lambda y: nn.logmeanexp(y, axis=0), (x,))
