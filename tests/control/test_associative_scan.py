"""`associative_scan`: running results, with derivatives."""

import numpy as np
import pytest

import afx
from tests.control.agreement import assert_close


@pytest.mark.parametrize("n", range(1, 10))
def test_associative_scan(n: int) -> None:
    """Running results agree with NumPy's for every length, from either end, with derivatives."""
    x = np.arange(1.0, n + 1)
    assert_close(afx.associative_scan(afx.add, x), np.cumsum(x))
    assert_close(afx.associative_scan(afx.add, x, reverse=True), np.cumsum(x[::-1])[::-1])
    assert_close(afx.grad(lambda x: afx.associative_scan(afx.multiply, x)[-1])(x), np.prod(x) / x)
