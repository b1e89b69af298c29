"""Arguments of machine code that are numbers: NumPy's scalars, arrays without axes, and Python's."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering.lower import lower_plan
from afx.compiler.target import use_target
from tests.compiler.native_backend.native_run import FIRST_TIER, same_bits


def assert_whole(fn: Any, *args: Any) -> Any:
    """Assert that a function is one kernel, which takes these arguments and gives NumPy's bits; return its plan."""
    plain = afx.jit(fn, backend="numpy")(*args)
    with use_target(FIRST_TIER):
        compiled = afx.jit(fn)
        plan = compiled.lower(*args).plan
        found = compiled(*args)
    assert lower_plan(plan.schedule)[0] is None
    assert plan.native.is_linked
    assert plan.native.state.run(args, plan) is not None
    for z, want in zip(found, plain, strict=True):
        assert same_bits(z, want)
    return plan


@pytest.mark.parametrize("kind", [np.float64, np.asarray, np.float32])
def test_scalars_of_numpy(kind: Any) -> None:
    """A scalar is taken as an array without axes."""
    x = np.linspace(-1, 1, 30)

    def fn(x: Any, s: Any) -> Any:
        return x * s, afx.scan(lambda c, _: (c * s - 0.5, c), s, None, 4)[1]

    assert_whole(fn, x, kind(1.7))


@pytest.mark.parametrize("number", [2.5, 3, True, -7, 1e300, float("nan")])
def test_numbers_of_python(number: Any) -> None:
    """Python numbers keep the dtype of what they meet, in loops and branches too."""
    x = np.linspace(-1, 1, 30).astype(np.float32)

    def fn(x: Any, s: Any) -> Any:
        y = afx.scan(lambda c, _: (c * s - x[0], c.sum() * s), x, None, 4)
        return x * s, *y, afx.cond(x[0] > 0, lambda x: x * s, lambda x: x - s, x)

    with np.errstate(all="ignore"):
        assert_whole(fn, x, number)


def test_python_integers_count_steps_and_name_elements() -> None:
    """A while loop up to a Python number, and an element named by one, are machine code."""
    x = np.arange(9.0)

    def fn(x: Any, n: Any) -> Any:
        steps = afx.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + x), (0, x))
        return *steps, x[n], x.at[n].add(1.0), afx.fori_loop(0, n, lambda k, y: y + x[k], x)

    for n in (0, 5, 8):
        plan = assert_whole(fn, x, n)
    assert plan.native.state.run((x, 9), plan) is None
    assert plan.native.state.run((x, 1 << 70), plan) is None
