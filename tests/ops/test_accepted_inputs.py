"""What is asked for strictly is still taken in every form that says it."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import afx
from afx import linalg, nn


def test_weighted_averages_do_not_wrap() -> None:
    """Products and sums of small integers and of half precision go through wider dtypes."""
    found = afx.average(np.array([200, 100], np.uint8), weights=np.array([2, 3], np.uint8))
    assert float(found) == 140.0
    large = np.array([2**30, 2**30], np.int32)
    assert float(afx.average(large, weights=np.array([3, 4], np.int32))) == 2.0**30
    half = np.full(3000, 40, np.float16)
    value, total = afx.average(half, weights=half, returned=True)
    assert (float(value), value.dtype) == (40.0, np.float16)
    assert total.dtype == np.float16


def test_corrections_may_be_traced() -> None:
    """As numbers of a batch, or of a compiled call."""
    x = np.arange(3.0)
    assert float(afx.jit(lambda d: afx.var(x, correction=d))(1)) == 1.0
    np.testing.assert_allclose(afx.vmap(lambda d: afx.var(x, correction=d))(np.arange(2)), [2 / 3, 1])
    assert float(afx.jit(lambda d: afx.nanvar(x, correction=d))(1)) == 1.0


@pytest.mark.parametrize("one", [1, 1.0, np.float32(1), np.int64(1), afx.asarray(1.0)])
def test_numbers_may_be_numpys_or_arrays(one: Any) -> None:
    """A threshold and a power."""
    assert nn.huber(np.zeros(3), np.ones(3), delta=one).shape == (3,)
    if not isinstance(one, afx.Array):
        assert float(linalg.vector_norm(np.ones(3), ord=one)) == 3.0


def test_shares_may_be_rounded_or_nan() -> None:
    """Sums of shares miss 1 by a little, and nan stays nan."""
    assert nn.softmax_cross_entropy(np.zeros((1, 2)), np.array([[1.0001, 0]])).shape == (1,)
    assert nn.sigmoid_binary_cross_entropy(np.zeros(1), np.array([1 + 1e-10])).shape == (1,)
    assert np.isnan(nn.softmax_cross_entropy(np.zeros((1, 2)), np.array([[np.nan, 1]]))).all()


def test_rules_serve_calls_with_and_without_named_arguments() -> None:
    """One cotangent does for both, and None for what was not passed."""
    for rule in (lambda k, ct: (ct * k,), lambda k, ct: (ct * k, None)):
        f = afx.custom_vjp(lambda x, k=2.0: x * k, lambda x, k=2.0: (x * k, k), rule)
        assert float(afx.grad(lambda a, f=f: f(a))(2.0)) == 2.0
        assert float(afx.grad(lambda a, f=f: f(a, k=5.0))(2.0)) == 5.0
    short = afx.custom_vjp(lambda x, k: x * k, lambda x, k: (x * k, k), lambda k, ct: (ct * k,))
    with pytest.raises(afx.errors.TreeError, match="backward returns one cotangent per argument"):
        afx.grad(lambda k: short(5.0, k=k))(2.0)


@pytest.mark.parametrize("number", [-1, 300, 0])
def test_truth_asks_no_dtype(number: int) -> None:
    """Logical operations take any integer beside small ones, compiled too."""
    x = np.arange(3, dtype=np.uint8)
    for op in (afx.logical_and, afx.logical_or, afx.logical_xor):
        want = np.asarray(op(x, number))
        np.testing.assert_array_equal(afx.jit(lambda a, op=op: op(a, number))(x), want)
        np.testing.assert_array_equal(afx.jit(op)(x, number), want)


@pytest.mark.parametrize("ends", [[0.0, -np.inf], [-np.inf, 0.0], [1.0, np.inf], [2.0, 2.0]])
def test_interpolation_beside_infinity_is_numpys(ends: list[float]) -> None:
    """Between the points too."""
    x, xp = np.array([0.0, 0.5, 1.5, 2.0, 2.9, 3.0]), np.array([0.0, 3.0])
    np.testing.assert_array_equal(afx.interp(x, xp, np.array(ends)), np.interp(x, xp, ends))


@dataclasses.dataclass(frozen=True)
class Setting:
    """A static argument that holds a number."""

    value: Any


@pytest.mark.parametrize("wrap", [Setting, lambda v: frozenset([v]), lambda v: (Setting(v),)])
def test_static_values_inside_of_others_differ_by_type_and_sign(wrap: Any) -> None:
    """Dataclasses and sets are looked into."""
    seen: list[str] = []
    fn = afx.jit(lambda x, n: (seen.append(repr(n)), x)[1], static_argnums={1})
    for value in (0.0, -0.0, 0, False):
        fn(afx.ones(2), wrap(value))
    assert len(seen) == 4


def test_axes_and_ranges_may_be_vectors() -> None:
    """Where NumPy takes them."""
    assert afx.median(np.ones((1, 3)), axis=np.array([0])).shape == (3,)
    assert afx.flip(np.ones((2, 3)), axis=np.array([0, 1])).shape == (2, 3)
    for ends in (np.array([0.0, 2.0]), afx.asarray([0.0, 2.0]), [0.0, 2.0]):
        np.testing.assert_array_equal(afx.histogram(np.arange(3.0), 2, range=ends)[0], [1, 2])


def test_branches_take_arrays_that_stay_as_they_are() -> None:
    """Taken at once they are given Arrays too."""
    x = np.ones(3)
    for result in (afx.cond(True, lambda q: q, lambda q: q, x), afx.switch(0, [lambda q: q], x)):
        assert isinstance(result, afx.Array)
        x[:] = 9
        np.testing.assert_array_equal(result, np.ones(3))
        x[:] = 1


def test_ldexp_rounds_once() -> None:
    """Also where the result is subnormal, and for any integers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000) * 2.0**-1000
    power = rng.integers(-70, -20, 20_000)
    np.testing.assert_array_equal(afx.ldexp(x, power), np.ldexp(x, power))
    with np.errstate(over="ignore"):
        assert float(afx.ldexp(np.ones(1), np.array([2**63 + 5], np.uint64))[0]) == np.inf
