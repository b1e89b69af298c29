"""Outputs that nothing reads: ops that hold graphs pull no zeros through slopes that are infinite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from tests.every import together

X = np.array([0.0, 1.0, 4.0])  # the root has an infinite slope at the first
RULE = afx.custom_jvp(
    lambda x: (afx.sqrt(x), x * x),
    lambda p, t: ((afx.sqrt(p[0]), p[0] ** 2), (t[0] / 2 / afx.sqrt(p[0]), 2 * p[0] * t[0])),
)
PAIR: Callable[[Any], Any] = lambda x: (afx.sqrt(x), x * x)  # held by several ops
HELD = {
    "jit": afx.jit(PAIR),
    "checkpoint": afx.checkpoint(PAIR),
    "custom_jvp": RULE,
    "vmap of jit": afx.vmap(afx.jit(PAIR)),
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of roots at 0


def until_full(x: Any, step: Callable[[Any], Any]) -> Any:
    """Return the state of a loop that runs twice, which is not known before."""
    return afx.while_loop(lambda s: s[0] < afx.sum(x) - 3.0, lambda s: (s[0] + 1.0, *step(s[1:])), (0.0 * x[0], x, x))


CASES: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {  # a loss, its gradient, its curvature
    **{name: (lambda x, fn=fn: afx.sum(fn(x)[1]), [0.0, 2.0, 8.0], [2.0, 2.0, 2.0]) for name, fn in HELD.items()},
    "carry that nothing reads": (
        lambda x: afx.sum(afx.scan(lambda c, y: (c * afx.sqrt(y), y * y), x[1], x)[1]),
        [0.0, 2.0, 8.0],
        [2.0, 2.0, 2.0],
    ),
    "carry that is read but for its last value": (
        lambda x: afx.sum(afx.scan(lambda c, y: (c * afx.sqrt(y), c * c), 1.0, x[::-1])[1]),
        [0.0, 4.0, 2.0],  # the sum of 1, x[2] and x[2]·x[1]
        [0.0, 0.0, 0.0],
    ),
    "the same from the end": (
        lambda x: afx.sum(afx.scan(lambda c, y: (c * afx.sqrt(y), c * c), 1.0, x, reverse=True)[1]),
        [0.0, 4.0, 2.0],
        [0.0, 0.0, 0.0],
    ),
    "carry that another one reads": (  # roots of x reach the results after two steps
        lambda x: afx.sum(
            afx.scan(lambda c, y: ((afx.sqrt(y), c[0], c[1]), c[2] ** 2), (x[1], x[1], x[2]), x[::-1])[1]
        ),
        [0.0, 4.0, 8.0],
        [0.0, 4.0, 2.0],
    ),
    "one of two carries": (
        lambda x: afx.sum(afx.scan(lambda c, y: ((afx.sqrt(c[0]), c[1] + y), None), (x, 0 * x), x)[0][1]),
        [3.0, 3.0, 3.0],
        [0.0, 0.0, 0.0],
    ),
    "one of two results": (
        lambda x: afx.sum(afx.scan(lambda c, y: (c, (y * y, afx.sqrt(y))), 0.0, x)[1][0]),
        [0.0, 2.0, 8.0],
        [2.0, 2.0, 2.0],
    ),
    "finite step behind a root": (
        lambda x: afx.sum(afx.scan(lambda c, y: (afx.sin(c), y * y), afx.sqrt(x), x)[1]),
        [0.0, 2.0, 8.0],
        [2.0, 2.0, 2.0],
    ),
    "fori_loop": (
        lambda x: afx.sum(afx.fori_loop(0, 2, lambda _, c: (afx.sqrt(c[0]), c[1] * x), (x, x))[1]),
        [0.0, 3.0, 48.0],
        [0.0, 6.0, 24.0],
    ),
    "while_loop": (
        lambda x: afx.sum(until_full(x, lambda s: (afx.sqrt(s[0]), s[1] * s[1]))[2]),
        [0.0, 4.0, 256.0],
        [0.0, 12.0, 192.0],
    ),
    "while_loop, read before": (
        lambda x: afx.sum(until_full(x, lambda s: (s[0] * x, s[0]))[2]),
        [0.0, 2.0, 8.0],
        [2.0] * 3,
    ),
    "cond": (
        lambda x: afx.sum(afx.cond(x[1] > 0, PAIR, lambda v: (v, v), x)[1]),
        [0.0, 2.0, 8.0],
        [2.0, 2.0, 2.0],
    ),
    "cond behind a root": (
        lambda x: afx.sum(afx.cond(x[1] > 0, lambda r, v: (r, v * v), lambda r, v: (v, v), afx.sqrt(x), x)[1]),
        [0.0, 2.0, 8.0],
        [2.0, 2.0, 2.0],
    ),
}


@together("case", CASES)
def test_what_nothing_reads_adds_nothing(case: str) -> None:
    """First and second derivatives are those of what is read, in every mode, eager and compiled."""
    loss, want, curvature = CASES[case]
    mapped = lambda x: afx.vmap(afx.grad(loss))(x[None])[0]
    for run in (
        afx.grad(loss),
        afx.jit(afx.grad(loss)),
        afx.grad(afx.jit(loss)),
        mapped,
        afx.jit(mapped),
        afx.grad(afx.checkpoint(loss)),
    ):
        np.testing.assert_allclose(np.asarray(run(X)), want, rtol=1e-13, atol=1e-13)
    for run in (afx.hessian(loss), afx.jit(afx.jacrev(afx.grad(loss)))):
        np.testing.assert_allclose(np.diag(np.asarray(run(X))), curvature, rtol=1e-12, atol=1e-13)


def test_a_loop_without_steps_keeps_its_first_carry() -> None:
    """Whatever the step reads: the cotangent of the carry goes straight to the first one."""
    loss = lambda x: afx.sum(
        afx.scan(lambda c, y: (afx.sqrt(y), c), x, np.zeros((0, 3)))[0] ** 2
    )  # a function to differentiate
    for run in (afx.grad(loss), afx.jit(afx.grad(loss))):
        assert np.asarray(run(X)).tolist() == [0.0, 2.0, 8.0]
