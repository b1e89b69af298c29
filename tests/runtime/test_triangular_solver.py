"""Triangular systems by BLAS's own routines, and by halves where those cannot be found."""

from typing import Any

import numpy as np
import pytest

from afx.ops.linalg import factorizations
from afx.runtime.blas import find_solver
from tests.every import together

LENGTH = factorizations.BLOCK + 6


def systems(dtype: str, batch: tuple[int, ...], sides: int) -> tuple[Any, Any]:
    """Return well-conditioned matrices and right-hand sides."""
    rng = np.random.default_rng(sides)
    a = rng.normal(size=(*batch, LENGTH, LENGTH)) / LENGTH + 3 * np.eye(LENGTH)
    b = rng.normal(size=(*batch, LENGTH, sides))
    if dtype in "FD":
        a, b = a + 1j * rng.normal(size=a.shape) / LENGTH, b - 1j * rng.normal(size=b.shape)
    return a.astype(dtype), b.astype(dtype)


@pytest.fixture(params=["BLAS", "halves"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each way in turn."""
    if request.param == "halves":
        monkeypatch.setattr(factorizations, "find_solver", lambda _: None)


@pytest.mark.usefixtures("_way")
@together("dtype", ["f", "d", "F", "D"])
@together("batch", [(), (2, 3), (0,)])
@together("sides", [0, 1, 5])
def test_solutions_solve(dtype: str, batch: tuple[int, ...], sides: int) -> None:
    """Both triangles in both orders of memory, with every kind of diagonal; the other triangle is not read."""
    a, b = systems(dtype, batch, sides)
    for matrix in (a, np.ascontiguousarray(np.swapaxes(a, -1, -2)).swapaxes(-1, -2), np.repeat(a, 2, -1)[..., ::2]):
        for lower in (False, True):
            for unit in (False, True):
                other = np.triu(np.full(a.shape, np.nan, dtype), 1)
                hidden = np.where(np.isnan(other if lower else np.swapaxes(other, -1, -2)), dtype_nan(dtype), matrix)
                x = factorizations.solved(hidden, b, lower=lower, unit=unit)
                full = np.tril(a) if lower else np.triu(a)
                if unit:
                    full[..., range(LENGTH), range(LENGTH)] = 1
                assert (x.dtype, x.shape) == (b.dtype, b.shape)
                np.testing.assert_allclose(full @ x, b, atol=1e-5 if dtype in "fF" else 1e-13)


def dtype_nan(dtype: str) -> Any:
    """Return nan in a dtype."""
    return np.full((), np.nan, dtype)


@pytest.mark.usefixtures("_way")
def test_stacks_are_broadcast() -> None:
    """One matrix for many right-hand sides, and the other way round; neither operand is written."""
    a, b = systems("d", (3,), 2)
    before = a.copy(), b.copy()
    one = factorizations.solved(a[0], b, lower=True, unit=False)
    np.testing.assert_allclose(np.tril(a[0]) @ one, b, atol=1e-13)
    many = factorizations.solved(a, b[0], lower=True, unit=False)
    np.testing.assert_allclose(np.tril(a) @ many, np.broadcast_to(b[0], many.shape), atol=1e-13)
    assert all(np.array_equal(x, y) for x, y in zip((a, b), before, strict=True))


@pytest.mark.usefixtures("_way")
def test_a_zero_on_the_diagonal_is_refused() -> None:
    """As for small systems; where the diagonal counts as ones it is not read."""
    a, b = systems("d", (), 2)
    a[4, 4] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        factorizations.solved(a, b, lower=True, unit=False)
    assert np.isfinite(factorizations.solved(a, b, lower=True, unit=True)).all()


@pytest.mark.usefixtures("_way")
def test_special_values_spread_as_in_substitution() -> None:
    """What depends on a nan or an infinity is not finite, and the rest is as it was."""
    a, b = systems("d", (), 1)
    b[LENGTH // 2] = np.nan
    x = factorizations.solved(a, b, lower=True, unit=False)
    assert np.isfinite(x[: LENGTH // 2]).all()
    assert np.isnan(x[LENGTH // 2 :]).all()


def test_dtypes_without_a_routine_have_none() -> None:
    """Only the two in which NumPy's factorizations compute."""
    assert find_solver("f") is None
