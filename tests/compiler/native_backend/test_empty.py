"""Arrays without elements: loops of no turns, sums of nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering.lower import explain_schedule
from tests.compiler.native_backend.native_run import assert_same_bits
from tests.every import together

X = np.arange(6.0).reshape(2, 3) - 2.5
WIDE, TALL, NOWHERE = np.zeros((2, 0)), np.zeros((0, 3)), np.array([], np.int64)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda e: afx.exp(e) * 2 + 1, (WIDE,)),
    "result given back": (lambda e, x: (e, e[:, None], x + 1), (WIDE, X)),
    "sum and product": (lambda e: (e.sum(1), afx.prod(e, 1) - 3, e.sum(0), e.sum() + 1), (WIDE,)),
    "sum of float32": (lambda e: (e.sum(1), e.astype(np.float64).sum(0) + 1), (WIDE.astype(np.float32),)),
    "sum of integers": (lambda e: e.astype(np.int32).sum(1) + 2, (WIDE,)),
    "mean": (lambda e: (e.mean(1), afx.var(e, 0)), (WIDE,)),
    "truth": (lambda e: (afx.any(e > 0, 1), afx.all(e > 0)), (WIDE,)),
    "products": (lambda f, x: (f.T @ f + 1, f @ x.T, x[0] @ f.T, f[:, 0] @ f[:, 1]), (TALL, X)),
    "batches": (lambda f: afx.ones((4, 2, 0)) @ f[None] * 3, (np.zeros((0, 5)),)),
    "stack": (lambda e: np.stack([e, e * 2]), (WIDE,)),
    "concatenate": (lambda x, e: np.concatenate([e, x * 2, e, x], 1), (X, WIDE)),
    "split": (lambda x: [part * 2 for part in np.split(x, [0, 2, 2], 1)], (X,)),
    "pad": (lambda e: np.pad(e * 2, ((0, 1), (1, 2))) + 1, (WIDE,)),
    "pad without a loop": (lambda e: np.pad(e, ((0, 1), (1, 2))), (WIDE,)),
    "slices": (lambda x: (x[:, :0] * 2, x[:0].sum(0), x[2:, ::-1] + 1, x * 3), (X,)),
    "update of a part": (lambda x: x.at[:, 1:1].set(5.0) + x.at[:0].add(1.0), (X,)),
    "gather": (lambda x, i: (x[i] * 2, x[:, i] + 1, x[i, i] - 1), (X, NOWHERE)),
    "scatter": (lambda x, i: (x.at[i].add(1.0), x.at[i].set(2.0) * 2), (X, NOWHERE)),
    "gradient of a gather": (lambda x, i: afx.grad(lambda x: (x[i] ** 2).sum() + x.sum() ** 2)(x), (X, NOWHERE)),
    "cumulative": (lambda e: (afx.cumsum(e, 1) * 2, afx.cumsum(e, 0)), (WIDE,)),
    "places of extremes": (lambda e: afx.argmax(e, 0), (WIDE,)),
    "softmax": (lambda e: afx.nn.softmax(e, 0) * 2, (WIDE,)),
    "vmap over nothing": (lambda f: afx.vmap(lambda r: afx.exp(r).sum() * 2)(f), (TALL,)),
    "factors": (lambda e: afx.linalg.cholesky(e.T @ e) * 2, (WIDE,)),
    "right sides": (lambda f: afx.linalg.solve(f.T @ f + np.eye(3), f.T) * 2, (TALL,)),
    "random": (lambda x: x + afx.random.normal(afx.random.key(0), (0, 3)).sum(0), (X,)),
    "scan of no steps": (lambda f, x: afx.scan(lambda c, r: (c + r, c * r), x[0], f), (TALL, X)),
    "scan with an empty carry": (
        lambda e, x: afx.scan(lambda c, r: ((c[0] + r, c[1] * 2), c[1] + c[0].sum()), (x[0], e), x[0]),
        (WIDE, X),
    ),
    "while": (
        lambda e, x: afx.while_loop(lambda c: c[0].sum() < 10, lambda c: (c[0] * 2, c[1] + 1), (x, e)),
        (WIDE, X + 3),
    ),
    "cond": (lambda e, x: afx.cond(x.sum() > 0, lambda e: e * 2, lambda e: e + 1, e), (WIDE, X)),
}


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@together("tier", [1, 2])
@together("name", PROGRAMS)
def test_nothing_is_computed_as_numpy_does(name: str, tier: int) -> None:
    """Programs with arrays of size 0 are one kernel with NumPy's bits."""
    fn, args = PROGRAMS[name]
    assert_same_bits(fn, *args, tier=tier)


def test_indices_without_results_are_looked_at() -> None:
    """Rows of no elements are asked for at an index that does not exist: NumPy raises, and so does a plan."""
    plan = afx.jit(lambda f, i: f[i] * 2)
    lowered = plan.lower(WIDE, np.array([0, 1]))
    assert "no elements at indices" in [reason for _, reason in explain_schedule(lowered.plan.schedule)]
    with pytest.raises(IndexError):
        plan(WIDE, np.array([0, 5]))
