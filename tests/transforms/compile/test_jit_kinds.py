"""A compiled function gives what the plain one gives, whichever call came first and however arguments are passed."""

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors


def repeated(x: Array, n: int = 2) -> Array:
    """Double x n times."""
    for _ in range(n):
        x = x * 2
    return x


compiled_by_another_name = afx.jit(repeated, static_argnums=1)


@pytest.mark.parametrize("values", [(0.0, -0.0), (1, 1.0, True), ((1,), (True,), (1.0,))])
def test_static_values_that_are_equal_differ_by_type_and_sign(values: tuple[Any, ...]) -> None:
    """Each has a trace of its own."""
    seen: list[str] = []
    fn = afx.jit(lambda x, n: (seen.append(repr(n)), x)[1], static_argnums=1)
    for value in values:
        fn(afx.ones(2), value)
    assert seen == list(map(repr, values))


def test_the_order_of_keys_is_part_of_the_kind() -> None:
    """A function that looks at the order of a dict sees that of its own argument."""
    a, b = afx.zeros(2), afx.ones(2)
    rows = afx.jit(lambda d: afx.stack(list(d.values())))
    named = afx.jit(lambda **d: afx.stack(list(d.values())))
    same = afx.jit(lambda d: {k: 2 * v for k, v in d.items()})
    for order in ({"a": a, "b": b}, {"b": b, "a": a}):
        np.testing.assert_array_equal(rows(order), list(order.values()))
        np.testing.assert_array_equal(named(**order), list(order.values()))
        assert list(same(order)) == list(order)


def test_static_arguments_may_be_passed_by_position_or_by_name() -> None:
    """Whichever way the function was told of them."""
    x = afx.ones(2)
    for options in ({"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "n"}):
        fn: Any = afx.jit(repeated, **options)
        for result in (fn(x, 3), fn(x, n=3), fn(n=3, x=x)):
            np.testing.assert_array_equal(result, [8.0, 8.0])
        np.testing.assert_array_equal(fn(x), [4.0, 4.0])


def test_a_name_behind_any_number_of_arguments_is_no_position() -> None:
    """It is told by its name alone; positions from the end count the arguments of the call."""
    fn = afx.jit(lambda *xs, n=2: xs[1] * n, static_argnames="n")
    np.testing.assert_array_equal(fn(afx.ones(2), afx.ones(2), n=3), [3.0, 3.0])
    last = afx.jit(lambda *xs: xs[0] * xs[-1], static_argnums=-1)
    np.testing.assert_array_equal(last(afx.ones(2), afx.ones(2), 3), [3.0, 3.0])


@pytest.mark.parametrize("positions", [None, 1.0, "1", (0, 1.5)])
def test_positions_are_integers(positions: Any) -> None:
    """Anything else is told at once."""
    for option in ("static_argnums", "donate_argnums"):
        with pytest.raises(errors.ArgumentError, match=f"jit: {option} are positions: got"):
            afx.jit(repeated, **{option: positions})


def test_a_derivative_first_changes_nothing_for_donation() -> None:
    """Where arguments are traced nothing is donated; a later plain call donates."""
    fn = afx.jit(lambda v: v * 2, donate_argnums=0)
    x = afx.ones(3)
    np.testing.assert_array_equal(afx.grad(lambda v: fn(v).sum())(x), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(x, [1.0, 1.0, 1.0])
    fn(x)
    with pytest.raises(errors.OperandError, match="donated"):
        np.asarray(x)


@pytest.mark.parametrize("transform", [lambda f: afx.vmap(lambda v: f(v)), lambda f: afx.hessian(lambda v: f(v).sum())])
@pytest.mark.parametrize("number", [3, 3.0, True])
def test_numbers_keep_their_kind_under_vmap(transform: Callable[..., Any], number: complex) -> None:
    """A Python number beside a batch takes the batch's dtype inside a compiled function too."""
    inner = afx.jit(lambda v, k: v * v * k)
    x = afx.ones(2)
    found = transform(lambda v: inner(v, number))(x)
    want = transform(lambda v: v * v * number)(x)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


SMALL = np.array([1, 44, 255], np.uint8)
HUGE = np.array([2**53 + 1], np.uint64)
COMPARED: dict[str, tuple[Callable[..., Array], tuple[Any, ...]]] = {
    "less than a number out of bounds": (lambda x: x < 300, (SMALL,)),
    "equal to one": (lambda x: x == -1, (SMALL,)),
    "to a huge one": (lambda x: x < 2**70, (SMALL,)),
    "to a traced one": (lambda x, n: x == n, (SMALL, 300)),
    "traced and within": (lambda x, n: x > n, (SMALL, 44)),
    "unsigned above -1": (lambda x: x > -1, (HUGE,)),
    "unsigned above a traced -1": (lambda x, n: x > n, (HUGE, -1)),
    "unsigned beside signed": (lambda x, y: x == y, (HUGE, np.array([2**53]))),
    "int32 below 2**40": (lambda x: x < 2**40, (np.arange(3, dtype=np.int32),)),
}


@pytest.mark.parametrize("case", COMPARED)
def test_integers_compare_as_numbers(case: str) -> None:
    """Whatever dtype they have, and whether their own dtype holds Python's or not."""
    fn, args = COMPARED[case]
    np.testing.assert_array_equal(afx.jit(fn)(*args), fn(*args))
    np.testing.assert_array_equal(
        afx.jit(lambda *xs: afx.where(fn(*xs), 1.0, 2.0) * 3)(*args), np.where(fn(*args), 3, 6)
    )


REFUSED: dict[str, tuple[Callable[..., Array], tuple[Any, ...]]] = {
    "a number": (lambda x: x + 300, (SMALL,)),
    "a traced number": (lambda x, n: x + n, (SMALL, 300)),
    "a choice": (lambda x: afx.where(x > 3, 300, x), (SMALL,)),
    "a traced choice": (lambda x, n: afx.where(x > 3, n, x), (SMALL, 300)),
    "an update": (lambda x, n: x.at[0].set(n), (afx.asarray(SMALL), 300)),
    "a negative power": (lambda x, y: x**y, (np.array([2]), np.array([-1]))),
    "a negative power of a number": (lambda n: n**-1, (2,)),
    "a number beyond int64": (lambda n: n, (2**70,)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_integers_cannot_hold_is_refused(case: str) -> None:
    """Compiled functions raise afx's own errors; nothing is cut off."""
    fn, args = REFUSED[case]
    with pytest.raises(errors.OperandError, match=r"out of bounds|too large|negative integer powers"):
        afx.jit(fn)(*args)


def test_traced_numbers_within_bounds_are_taken() -> None:
    """In the dtype of the array."""
    np.testing.assert_array_equal(afx.jit(lambda x, n: x + n)(SMALL, 3), SMALL + np.uint8(3))
    np.testing.assert_array_equal(afx.jit(lambda x, n: x.at[0].set(n))(afx.asarray(SMALL), 3), [3, 44, 255])


def test_compiled_functions_pickle_under_another_name() -> None:
    """Those that are not found by the name of what they compile carry the function and its options."""
    copy = pickle.loads(pickle.dumps(compiled_by_another_name))
    np.testing.assert_array_equal(copy(afx.ones(2), 3), [8.0, 8.0])
    partial = pickle.loads(pickle.dumps(afx.jit(functools.partial(repeated, n=3))))
    np.testing.assert_array_equal(partial(afx.ones(2)), [8.0, 8.0])
