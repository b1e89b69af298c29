"""`afx.testing.check_grads` passes right derivatives and finds wrong ones."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors
from afx.testing import check_grads


@attrs.frozen
class Line:
    slope: Array
    intercept: Array
    count: int = 3


def _loss(line: Line, x: Array, keys: Array) -> dict[str, Array]:
    y = afx.tanh(line.slope * x[keys] + line.intercept)
    return {"values": y, "keys": keys, "sum": afx.sum(y * y) * line.count}


def test_right_derivatives_pass() -> None:
    """Trees, integers among the arguments and results, float32 and complex points are all taken."""
    line = Line(afx.ones(2), afx.asarray(0.5))
    check_grads(_loss, (line, np.array([0.1, 0.2, 0.3], np.float32), np.array([2, 0])), order=3)
    check_grads(lambda z: z * z * afx.exp(z), (np.array([0.3 + 0.2j]),))
    check_grads(afx.abs, (np.array([0.3 + 0.2j]),), order=1)


def _wrong_forward(x: Array) -> Array:
    return afx.custom_jvp(afx.sin, lambda xs, ts: (afx.sin(*xs), ts[0] * 2))(x)


def _wrong_reverse(x: Array) -> Array:
    return afx.custom_vjp(afx.sin, lambda v: (afx.sin(v), v), lambda v, ct: (ct * afx.sin(v),))(x)


def _wrong_second(x: Array) -> Array:
    """Return sin(x), whose derivative is right as a number and detached from x."""
    return afx.custom_jvp(afx.sin, lambda xs, ts: (afx.sin(*xs), ts[0] * afx.stop_gradient(afx.cos(*xs))))(x)


@pytest.mark.parametrize(
    ("fn", "options", "words"),
    [
        (_wrong_forward, {}, "forward mode of _wrong_forward, order 1"),
        (_wrong_reverse, {"modes": ["rev"]}, "reverse mode of _wrong_reverse, order 1"),
        (_wrong_second, {}, "order 2"),
        (_wrong_second, {"modes": ["rev"]}, "reverse mode of _wrong_second, order 2"),
    ],
)
def test_wrong_derivatives_are_found(fn: Callable[[Array], Array], options: dict[str, Any], words: str) -> None:
    """A wrong rule, or one whose own derivative is lost, raises and says which."""
    with pytest.raises(AssertionError, match=words):
        check_grads(fn, (np.array([0.3, 0.4]),), **options)


def test_one_order_alone() -> None:
    """What fails at the second order passes at the first."""
    check_grads(_wrong_second, (0.3,), order=1)


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda: check_grads(afx.sin, (0.3,), order=0), errors.ArgumentError, "order"),
        (lambda: check_grads(afx.sin, (0.3,), modes=["reverse"]), errors.ArgumentError, "'fwd' and 'rev'"),
        (lambda: check_grads(afx.sin, (0.3,), modes=[]), errors.ArgumentError, "modes"),
        (lambda: check_grads(afx.sin, (np.arange(3),)), errors.DtypeError, r"int64\[3\]"),
        (lambda: check_grads(lambda x: x > 0, (0.3,)), errors.DtypeError, "returns nothing"),
    ],
)
def test_mistakes_are_explained(run: Callable[[], None], kind: type[Exception], words: str) -> None:
    """A wrong order, mode or argument raises with the reason."""
    with pytest.raises(kind, match=words):
        run()


def _float32_rule(x: Array) -> Array:
    """Return ``0.7 * x``, whose rule knows the factor in float32."""
    return afx.custom_jvp(lambda x: x * 0.7, lambda xs, ts: (xs[0] * 0.7, ts[0] * float(np.float32(0.7))))(x)


@pytest.mark.parametrize("modes", [("fwd", "rev"), ("rev",)])
def test_rules_that_compute_in_float32_are_found(modes: Any) -> None:
    """A derivative that is right to float32's digits alone is wrong beside float64 data."""
    with pytest.raises(AssertionError, match="_float32_rule"):
        check_grads(_float32_rule, (np.linspace(0.3, 2.0, 9),), order=1, modes=modes)


def test_numbers_beside_float64_keep_their_digits() -> None:
    """Python numbers as operands pass at float64's tolerance, in functions large, small and steep too."""
    check_grads(lambda x: 10**x, (1.0,), order=3)
    check_grads(lambda x: afx.logaddexp(x, 0.7) + afx.arctan2(0.3, x) + afx.special.xlogy(x, 0.1), (1.3,))
    check_grads(lambda x: 1e8 * afx.cos(x), (np.linspace(0.0, 3.0, 5),))
    check_grads(lambda x: afx.exp(20 * x), (np.linspace(0.0, 1.0, 5),))
    check_grads(lambda x: 1e-12 * x**3, (2.0,))
