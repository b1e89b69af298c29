"""Dawson's, Fresnel's, sine and cosine integrals beside mpmath, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import afx
from afx import special

INTEGRALS: dict[str, Callable[[Any], Any]] = {
    "dawsn": lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
    "fresnel, 0": mpmath.fresnels,
    "fresnel, 1": mpmath.fresnelc,
    "sici, 0": mpmath.si,
    "sici, 1": mpmath.ci,
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals_beside_mpmath(name: str) -> None:
    """Dawson's, Fresnel's, the sine and the cosine integral, and their derivatives, are those of many digits."""
    fn, _, part = name.partition(", ")
    own: Callable[[Any], Any] = getattr(special, fn)
    call = (lambda x: own(x)[int(part)]) if part else own
    x = np.array([1e-8, 0.3, 1.0, 2.5, 6.0])
    want = [float(INTEGRALS[name](mpmath.mpf(v))) for v in x]
    np.testing.assert_allclose(np.asarray(call(x)), want, rtol=1e-12)
    slopes = [float(mpmath.diff(INTEGRALS[name], mpmath.mpf(v))) for v in x[1:]]
    got = afx.vjp(call, x[1:])[1](afx.ones(4, afx.float64))[0]
    np.testing.assert_allclose(np.asarray(got), slopes, rtol=1e-11, atol=1e-12)
    assert call(np.float32(1.0)).dtype == np.float32
    assert np.isnan(float(call(np.nan)))
