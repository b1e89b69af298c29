"""Refusals: kernels that leave call after call to NumPy's plan rest for some calls, with one message."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.native_backend.run.swap import FIRST_REST
from afx.compiler.target import Target, use_target

pytest.importorskip("llvmlite", reason="machine code is an extra")

GOOD, BAD = np.array([1.0, 4.0]), np.array([0.0, -1.0])
FIRST_TIER = Target(backend="native", native_tier=1)
REFUSED_MAX_CALLS = FIRST_TIER.native.refused_max_calls


def test_three_refusals_in_a_row_let_a_kernel_rest(caplog: pytest.LogCaptureFixture) -> None:
    """After the third call in a row that NumPy's plan has to run the kernel rests, and the logger says so once."""
    fn = afx.jit(lambda x: 1 / np.sqrt(x))
    with (
        use_target(FIRST_TIER),
        caplog.at_level(logging.INFO, "afx.jit"),
        np.errstate(all="call", call=lambda *_: None),
    ):
        assert fn.lower(GOOD).plan.native is not None
        caplog.clear()
        for k in range(3 * REFUSED_MAX_CALLS):
            np.testing.assert_array_equal(fn(BAD), [np.inf, np.nan])
            assert fn.lower(GOOD).status.backend == ("native" if k + 1 < REFUSED_MAX_CALLS else "numpy")
        status = fn.lower(GOOD).status
    assert "3 calls in a row" in status.reason
    assert status.refusals == REFUSED_MAX_CALLS + 1  # it was asked again once
    (record,) = [r for r in caplog.records if "in a row" in r.getMessage()]
    assert (record.levelname, record.name) == ("WARNING", "afx.jit")


def test_a_kernel_comes_back() -> None:
    """Calls with errors do not count against later ones: the kernel is asked again soon, and later after each refusal."""
    fn = afx.jit(lambda x: 1 / np.sqrt(x))
    with use_target(FIRST_TIER), np.errstate(all="call", call=lambda *_: None):
        code = fn.lower(GOOD).plan.native
        assert code is not None
        for _ in range(REFUSED_MAX_CALLS):
            fn(BAD)
        assert code.status.backend == "numpy"
        for _ in range(FIRST_REST + 1):
            np.testing.assert_array_equal(fn(GOOD), [1.0, 0.5])
        assert (code.status.backend, code.status.refusals) == ("native", REFUSED_MAX_CALLS)
        for _ in range(100):
            fn(BAD)
        assert code.status.refusals < 2 * REFUSED_MAX_CALLS + 6


def test_single_refusals_end_no_kernel() -> None:
    """A kernel that takes calls between those that it refuses stays, and runs by itself again."""
    fn = afx.jit(lambda x: 1 / np.sqrt(x))
    with use_target(FIRST_TIER), np.errstate(all="call", call=lambda *_: None):
        code = fn.lower(GOOD).plan.native
        assert code is not None
        linked = code.state
        for _ in range(REFUSED_MAX_CALLS):
            for x in (BAD, BAD, GOOD):
                np.testing.assert_array_equal(fn(x), 1 / np.sqrt(x))
            assert code.state is linked
        assert code.status.refusals == 2 * REFUSED_MAX_CALLS


def test_what_runs_twice_for_its_warnings_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Machine code with bits of its own stays where it warns, and the logger says once that calls run twice."""
    fn = afx.jit(lambda x: 1 / np.sqrt(x), backend="native")
    with caplog.at_level(logging.WARNING, "afx.jit"), np.errstate(all="call", call=lambda *_: None):
        for _ in range(2 * REFUSED_MAX_CALLS):
            fn(BAD)
    assert sum("run twice" in r.getMessage() for r in caplog.records) == 1
    assert fn.lower(BAD).status.backend == "native"


def test_reasons_are_sentences() -> None:
    """What has no machine code says why in more than the name of an operation."""
    x = np.arange(9.0).reshape(3, 3)

    def fn(x: Array) -> tuple[Array, ...]:
        return afx.linalg.eigvals(x), afx.sort(x, axis=0), afx.special.gammaln(x), afx.unwrap(x), x.astype("complex64")

    reasons = [reason for _, reason in afx.jit(fn).lower(x).native if reason]
    assert "eigvals" in " ".join(reasons)
    assert [reason for reason in reasons if len(reason.split()) < 3] == []


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("is_whole", [True, False])
def test_calls_that_warn_stay_in_machine_code(tier: int, is_whole: bool) -> None:
    """NumPy's plan names the lines a few times; then machine code warns itself, with the same results, and never rests."""

    def fn(x: Array) -> Array:
        y = 1 / np.sqrt(x)
        return y if is_whole else y @ np.linalg.inv(np.eye(2) + afx.abs(x))

    jitted, zero = afx.jit(fn), np.array([0.0, 4.0])
    with use_target(Target(backend="native", native_tier=tier)):
        jitted(GOOD)
        code = jitted.lower(GOOD).plan.native
        assert code is not None
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
            want = np.asarray(jitted(zero))
        for _ in range(20):
            with pytest.warns(RuntimeWarning, match="divide by zero encountered in"):
                np.testing.assert_array_equal(np.asarray(jitted(zero)), want)
        assert (code.status.backend, code.status.refusals <= REFUSED_MAX_CALLS - 1) == ("native", True)
        with pytest.warns(RuntimeWarning, match="in a compiled call as in some before, whose warnings name the lines"):
            jitted(zero)
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            jitted(zero)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
                jitted(zero)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(jitted(zero)), want)
