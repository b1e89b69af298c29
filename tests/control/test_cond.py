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

    def test_branches_keep_what_they_close_over(self) -> None:
        """What is made of outer values alone is computed, and warns, where its branch is taken; derivatives and batches too."""
        fn = afx.jit(lambda x: afx.cond(x > 0, lambda: afx.log(x), lambda: afx.sum(afx.log(afx.stack([-x, -2 * x])))))
        for x, want, slope in ((2.0, np.log(2.0), 0.5), (-2.0, np.log(8.0), -1.0)):
            assert_close(fn(np.float64(x)), want)
            assert_close(afx.grad(fn)(np.float64(x)), slope)
            assert_close(afx.jit(afx.grad(fn))(np.float64(x)), slope)
            assert_close(afx.jvp(fn, (np.float64(x),), (np.float64(1.0),))[1], slope)
        graph = afx.trace(lambda x: afx.cond(x > 0, lambda: afx.log(x), lambda: afx.exp(x)))(1.0)
        assert {"log", "exp"}.isdisjoint(eq.primitive.name for eq in graph.equations)
        with np.errstate(invalid="ignore"):
            assert_close(afx.vmap(fn)(np.array([2.0, -2.0])), [np.log(2.0), np.log(8.0)])

    def test_loops_within_branches_stay_there(self) -> None:
        """A loop over outer values runs where its branch is taken, with derivatives by what both close over."""

        def fn(x: Any, w: Any) -> Any:
            return afx.cond(
                x > 0, lambda: afx.fori_loop(0, 3, lambda _, c: c * afx.sin(w), x), lambda: afx.grad(afx.cos)(w) * x
            )

        assert [eq.primitive.name for eq in afx.trace(fn)(1.0, 2.0).equations][-1] == "switch"
        for x in (1.5, -1.5):
            point = np.float64(x), np.float64(0.7)
            assert_close(afx.jit(fn)(*point), fn(*point))
            for got, want in zip(afx.jit(afx.grad(fn, (0, 1)))(*point), afx.grad(fn, (0, 1))(*point), strict=True):
                assert_close(got, want)

    def test_numbers_keep_their_digits(self) -> None:
        """A Python number given to a branch is rounded where it meets a dtype, not before; traced ones too."""
        x = np.ones(2)
        scale, shrink = (lambda t, x: afx.sum(x * t)), (lambda t, x: afx.sum(x / t))
        for p, want, slope in ((1.0, 0.2, 2.0), (-1.0, 20.0, -200.0)):
            traced = afx.jit(lambda p, t: afx.cond(p > 0, scale, shrink, t, x))
            assert float(traced(p, 0.1)) == want == float(afx.jit(lambda p: afx.cond(p > 0, scale, shrink, 0.1, x))(p))
            assert_close(afx.grad(traced, 1)(p, 0.1), np.float32(slope))
            assert float(afx.vmap(traced, (0, None))(np.array([p]), 0.1)[0]) == want

    def test_mistakes_are_explained(self) -> None:
        """Branches that differ, predicates that are no scalar and indices that are no integer raise."""
        with pytest.raises(afx.errors.AfxError, match="branch"):
            afx.jit(lambda p: afx.cond(p, lambda: np.ones(2), lambda: np.ones(3)))(True)
        with pytest.raises(afx.errors.ShapeError, match="one value"):
            afx.cond(np.array([True, False]), lambda: 1.0, lambda: 2.0)
        with pytest.raises(afx.errors.DtypeError, match="integer"):
            afx.switch(0.5, [afx.sin], 1.0)
