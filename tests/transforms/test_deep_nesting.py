"""Functions that are compiled or checkpointed inside one another, many times."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

DEPTH = 300


def nested(wrap: Callable[[Any], Any]) -> Any:
    """Return a function inside of three hundred others, each of which adds 1."""

    def around(fn: Any) -> Any:
        return wrap(lambda x: fn(x) + 1.0)

    fn: Any = lambda x: 2.0 * x  # the innermost one
    for _ in range(DEPTH):
        fn = around(fn)
    return fn


@pytest.mark.parametrize("wrap", [afx.jit, afx.checkpoint], ids=["jit", "checkpoint"])
def test_three_hundred_levels(wrap: Callable[[Any], Any]) -> None:
    """Values and derivatives pass through all of them, in every mode."""
    x = np.float64(3.0)
    assert float(nested(wrap)(x)) == 306.0
    assert float(afx.grad(nested(wrap))(x)) == 2.0
    assert float(afx.jit(nested(wrap))(x)) == 306.0
    assert float(afx.jit(afx.grad(nested(wrap)))(x)) == 2.0
    assert np.asarray(afx.vmap(nested(wrap))(np.ones(2))).tolist() == [302.0, 302.0]
    assert float(afx.jvp(nested(wrap), (x,), (x,))[1]) == 6.0


def test_nested_checkpoints_keep_their_second_derivatives() -> None:
    """Checkpoints inside of checkpoints differentiate twice."""
    inner = afx.checkpoint(afx.sin)
    outer = afx.checkpoint(lambda x: afx.sum(inner(x) ** 3))
    x = np.array([0.3, 0.7])
    want = np.asarray(afx.hessian(lambda x: afx.sum(afx.sin(x) ** 3))(x))
    np.testing.assert_allclose(np.asarray(afx.hessian(outer)(x)), want, rtol=1e-12)
