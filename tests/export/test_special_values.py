"""Exported functions at special values: what C, NumPy's text, ONNX and StableHLO compute is what afx computes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.export.special_values import TARGETS, differences

pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

CHOSEN = {
    "c": "bd",
    "numpy": "bLfd",
    "onnx": "blLfd",
    "stablehlo": "lf",
}  # dtypes; others by `tests.export.special_values`
FEWEST = {"c": 70, "numpy": 100, "onnx": 70, "stablehlo": 70}  # operations of each dtype


@pytest.mark.parametrize(
    ("target", "dtype"), [(target, dtype) for target, dtypes in CHOSEN.items() for dtype in dtypes]
)
def test_each_operation_is_that_of_afx_at_special_values(target: str, dtype: str) -> None:
    """Zeros, infinities, nan, the smallest and largest numbers, -1, in all pairs, by every operation that is written."""
    if target == "stablehlo":
        pytest.importorskip("jax", reason="StableHLO is run by XLA")
    found, count = differences(target, dtype)
    assert not found
    assert count >= FEWEST[target]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS)
def test_integers_wrap(target: str) -> None:
    """ONNX's quotient of the least number by -1 would end the process, and its powers be rounded: both are NumPy's."""
    if target == "stablehlo":
        pytest.importorskip("jax", reason="StableHLO is run by XLA")
    x, y = np.array([-(2**63), -(2**63), 7, -7], np.int64), np.array([-1, 3, 0, 2], np.int64)
    n = np.array([70, 3, 41, 0], np.int64)
    (quotient,) = TARGETS[target](lambda x, y: [x // y], x, y)
    np.testing.assert_array_equal(quotient, [-(2**63), -3074457345618258603, 0, -4])
    if target != "c":  # which has none of integers
        (power,) = TARGETS[target](lambda x, n: [x**n], x, n)
        np.testing.assert_array_equal(power, x**n)
