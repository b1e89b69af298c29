"""`cond` and `switch`: the same values and derivatives eagerly, compiled, batched and in both modes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from tests.control.agreement import assert_close


def branched(x: Any) -> Array:
    """Return a root where the sum is positive, a square elsewhere."""
    return afx.sum(afx.cond(afx.sum(x) > 0, lambda y: afx.sqrt(y) * 3.0, lambda y: y * y, x))


class TestCond:
    """One of several functions is run."""

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_compiled_agrees(self, sign: float) -> None:
        """Both branches have the plain derivatives when compiled, in both modes and second order."""
        x = sign * np.array([0.3, 2.0])
        want = afx.grad(branched)(x)
        assert_close(afx.jit(afx.grad(branched))(x), want)
        assert_close(afx.grad(afx.jit(branched))(x), want)
        assert_close(afx.jvp(afx.jit(branched), (x,), (np.ones(2),))[1], np.sum(np.asarray(want)))
        assert_close(afx.hessian(afx.jit(branched))(x), afx.hessian(branched)(x))

    def test_batched_predicate(self) -> None:
        """A predicate that differs along the batch chooses elementwise, and the branch not taken has no nan."""
        x = np.array([[0.3, 2.0], [-0.3, -2.0]])
        with np.errstate(invalid="ignore"):
            for run in (afx.grad(branched), afx.grad(afx.jit(branched))):
                assert_close(afx.vmap(run)(x), np.stack([np.asarray(afx.grad(branched)(row)) for row in x]))

    def test_switch_takes_the_nearest(self) -> None:
        """An index outside the list takes the first or the last branch, compiled too."""
        branches = [afx.sin, afx.cos, afx.exp]
        for index, want in ((-3, np.sin(0.5)), (1, np.cos(0.5)), (7, np.exp(0.5))):
            assert_close(afx.switch(index, branches, np.float64(0.5)), want)
            assert_close(afx.jit(lambda i: afx.switch(i, branches, np.float64(0.5)))(index), want)

    def test_branches_close_over_traced_values(self) -> None:
        """What a branch closes over is differentiated."""
        fn = afx.jit(lambda w, p: afx.cond(p, lambda x: x * w, lambda x: x, 3.0))
        assert float(afx.grad(fn)(2.0, True)) == 3.0
        assert float(afx.grad(fn)(2.0, False)) == 0.0

    def test_mistakes_are_explained(self) -> None:
        """Branches that differ, predicates that are no scalar and indices that are no integer raise."""
        with pytest.raises(afx.errors.AfxError, match="branch"):
            afx.jit(lambda p: afx.cond(p, lambda: np.ones(2), lambda: np.ones(3)))(True)
        with pytest.raises(afx.errors.ShapeError, match="one value"):
            afx.cond(np.array([True, False]), lambda: 1.0, lambda: 2.0)
        with pytest.raises(afx.errors.DtypeError, match="integer"):
            afx.switch(0.5, [afx.sin], 1.0)
