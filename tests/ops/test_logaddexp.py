"""logaddexp and logaddexp2 by loops that take several numbers at once: NumPy's values, special ones and flags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from tests.ops.samples import together

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1000.0, -1000.0, 1e308, -1e308, 5e-324, 700.0, -744.0]
NAMES = ("logaddexp", "logaddexp2")
DTYPES = ("float16", "float32", "float64")


def pairs(dtype: str, count: int = 3000) -> tuple[Any, Any]:
    """Return two arrays in which every pair of special values meets, then near and far ones."""
    a, b = (v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    rng = np.random.default_rng(0)
    x, gap = 10 * rng.normal(size=count), np.exp(rng.uniform(-12, 3, count))
    with np.errstate(over="ignore"):
        return np.concatenate([a, x]).astype(dtype), np.concatenate([b, x + gap]).astype(dtype)


@together("dtype", DTYPES)
@together("name", NAMES)
@together("backend", ["eager", "auto", "native"])
def test_values_are_numpys(backend: Any, name: str, dtype: str) -> None:
    """Infinities, nan and zeros are NumPy's, numbers within four units of the last place beside it, whatever computes them."""
    x, y = pairs(dtype)
    fn = getattr(afx, name)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
        found = np.asarray((fn if backend == "eager" else afx.jit(fn, backend=backend))(x, y))
    assert found.dtype == want.dtype
    odd = ~np.isfinite(want) | (want == 0)
    assert np.array_equal(found[odd], want[odd], equal_nan=True)
    larger = np.maximum(x, y)[~odd]  # where it cancels with the rest, its places count
    size = np.maximum(np.abs(want[~odd]), np.abs(larger))
    assert (np.abs(found[~odd] - want[~odd]) <= 4 * np.spacing(np.minimum(size, np.finfo(dtype).max / 2))).all()


def raises(fn: Any, kind: str, *xs: Any) -> bool:
    """Tell whether a call raises a floating-point error of this kind."""
    errors: dict[str, Any] = {"all": "ignore", kind: "raise"}
    with np.errstate(**errors):
        try:
            fn(*xs)
        except FloatingPointError:
            return True
        return False


@together("dtype", DTYPES[1:])
@together("name", NAMES)
@together("kind", ["over", "invalid", "divide"])
def test_errors_are_numpys(kind: str, name: str, dtype: str) -> None:
    """Numbers raise where NumPy's raise: a difference that overflows, never one of equal infinities, and nan none."""
    x, y = pairs(dtype, 0)
    mine, theirs = getattr(afx, name), getattr(np, name)
    for one in zip(x[:, None], y[:, None], strict=True):
        assert raises(mine, kind, *one) == (raises(theirs, kind, *one) and not np.isnan(one).any()), one


@pytest.mark.parametrize("name", NAMES)
def test_numbers_keep_the_arrays_dtype(name: str) -> None:
    """A Python number beside an array is of the array's dtype, and integers and truth values are numbers."""
    fn, x = getattr(afx, name), np.linspace(-2, 2, 5, dtype="f4")
    for z in (fn(x, 0.0), fn(0, x), afx.jit(fn)(x, 0.5), afx.jit(fn, static_argnums=0)(1, x)):
        assert np.asarray(z).dtype == np.float32
    assert np.allclose(fn(True, np.arange(3)), getattr(np, name)(1.0, np.arange(3.0)), rtol=1e-6)
    assert float(fn(1, 2)) == pytest.approx(float(getattr(np, name)(1, 2)), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_loops_over_single_numbers(name: str) -> None:
    """Compiled, both are made of ufuncs whose loops take several numbers at once."""
    x = np.linspace(-1, 1, 100)
    steps = str(afx.jit(getattr(afx, name)).lower(x, x[::-1].copy()).plan.schedule)
    assert f"{name}(" not in steps
    assert "log1p(" in steps
