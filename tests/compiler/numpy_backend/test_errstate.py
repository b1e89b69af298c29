"""Warnings: plans are silent where the eager backward pass is, and there alone."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import afx
from afx import Array

SMALL = np.array([0.0, 1.0, 4.0])
LARGE = np.linspace(0.0, 4.0, 70_000)  # computed in blocks


MASKED: dict[str, Callable[[Array], Array]] = {
    "where": lambda x: afx.sum(afx.where(x > 0, afx.sqrt(x), 0.0)),
    "where, then a product": lambda x: afx.sum(afx.where(x > 0, afx.sqrt(x) * afx.sin(x), x) * x),
    "maximum": lambda x: afx.sum(afx.maximum(afx.sqrt(x), 1.0)),
    "clip": lambda x: afx.sum(afx.clip(afx.sqrt(x), 0.5, 3.0)),
    "a chain": lambda x: afx.sum(afx.where(x > 0, afx.tanh(afx.sqrt(afx.sqrt(x * 2.0))), 1.0)),
}


@pytest.mark.parametrize("x", [SMALL, LARGE, LARGE.astype(np.float32)], ids=["small", "blocks", "float32"])
@pytest.mark.parametrize("name", MASKED)
def test_plans_are_silent_where_the_eager_backward_pass_is(name: str, x: np.ndarray) -> None:
    """A branch that was not taken warns neither eagerly nor compiled, in any nesting; the gradients agree."""
    fn = MASKED[name]
    wanted = np.asarray(afx.grad(fn)(x))
    assert np.isfinite(wanted).all()
    for found in (afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn)), afx.jit(afx.grad(afx.jit(fn)))):
        np.testing.assert_allclose(np.asarray(found(x)), wanted, rtol=1e-5, atol=1e-6)


def test_batches_and_second_orders_are_silent_too() -> None:
    """So are plans of vmap of grad, and of hessians."""
    fn = MASKED["where"]
    rows = np.stack([SMALL, SMALL + 1])
    wanted = [np.asarray(afx.grad(fn)(row)).tolist() for row in rows]
    assert np.asarray(afx.jit(afx.vmap(afx.grad(fn)))(rows)).tolist() == wanted
    assert np.asarray(afx.vmap(afx.jit(afx.grad(fn)))(rows)).tolist() == wanted
    twice = np.asarray(afx.jit(afx.grad(lambda x: afx.sum(afx.grad(fn)(x))))(SMALL))
    np.testing.assert_allclose(twice, [0.0, -0.25, -0.03125], rtol=1e-12)


def test_a_plan_warns_where_the_function_itself_divides_by_zero() -> None:
    """Silence covers the backward pass of masked branches alone."""
    fn = afx.jit(afx.value_and_grad(lambda x: afx.sum(1.0 / x) + MASKED["where"](x)))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        fn(SMALL)


@pytest.mark.parametrize("x", [SMALL, LARGE], ids=["small", "blocks"])
def test_errstate_inside_a_jitted_function_belongs_to_it(x: np.ndarray) -> None:
    """What NumPy's errstate ignores while tracing the plan ignores, and nothing around it."""

    def quiet(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1.0 / x

    np.testing.assert_array_equal(np.asarray(afx.jit(quiet)(x))[:1], [np.inf])
    loud = afx.jit(lambda x: (quiet(x), afx.log(x)))
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
        loud(x)
    with pytest.warns(RuntimeWarning, match="divide by zero"):  # the same quotient outside is heard
        afx.jit(lambda x: (quiet(x), 1.0 / x))(x)


def test_errstate_around_a_call_is_no_part_of_the_plan() -> None:
    """A function first called under errstate warns at a later call without it."""
    fn = afx.jit(lambda x: 1.0 / x)
    with np.errstate(divide="ignore"):
        fn(SMALL)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        fn(SMALL)


def test_quiet_lines_share_one_errstate() -> None:
    """Neighbouring quiet lines stand in one block of the plan's source, in its readable form too."""
    source = afx.jit(afx.grad(MASKED["where"])).lower(SMALL).plan.source
    assert source.count("np_errstate(") == 1
    assert "errstate" not in afx.jit(afx.grad(lambda x: afx.sum(afx.sin(x) * x))).lower(SMALL).plan.source


def test_eager_products_behind_a_mask_warn_as_ever() -> None:
    """Only elementwise rules are silenced: an overflow in a matrix product's backward pass is heard."""
    w = np.full((2, 2), 1e200)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        afx.grad(lambda x: afx.sum(afx.where(x @ w > -1.0, x @ w, 0.0) * 1e200))(np.zeros((1, 2)))
    assert any("overflow" in str(w.message) for w in heard)
