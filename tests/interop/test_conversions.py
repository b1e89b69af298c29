"""Errors of converted arrays name what to write instead, and where arrays cannot be written they say so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from scipy import interpolate, linalg

import afx
from afx import errors

X = np.array([0.2, 0.7])
CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "r_": (lambda x: np.r_[x, 1.0], r"call afx\.r_"),
    "c_": (lambda x: np.c_[x, x], r"call afx\.c_"),
    "a function that afx has": (lambda x: linalg.cholesky(afx.outer(x, x) + afx.eye(2)), r"call afx\.linalg\.cholesky"),
    "one that it has not": (lambda x: linalg.khatri_rao(afx.outer(x, x), afx.eye(2)), r"with afx\.linalg's functions"),
    "a class that afx has": (
        lambda x: interpolate.CubicSpline([0.0, 1.0], x)(0.5),
        r"call afx\.interpolate\.CubicSpline",
    ),
    "an object of such a class": (lambda x: interpolate.CubicSpline(X, X)(x), r"call afx\.interpolate\.CubicSpline"),
    "a class that it has not": (lambda x: interpolate.KroghInterpolator(X, x), r"with afx\.interpolate's functions"),
    "NumPy itself": (lambda x: np.asarray(x), "compute with afx's functions"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("transform", [afx.jacrev, afx.jit])
def test_the_error_names_afxs_function(name: str, transform: Callable[..., Any]) -> None:
    """Where SciPy or NumPy converts a traced array, the error names afx's own function of that name."""
    call, text = CALLS[name]
    with pytest.raises(errors.ConcreteValueError, match=text):
        transform(call)(X)


def _write(x: Any) -> Any:
    y = np.zeros(3)
    y[1:] = x
    return y


def _write_one(x: Any) -> Any:
    y = np.zeros(3)
    y[1] = x[0]
    return y


@pytest.mark.parametrize("transform", [afx.jacrev, afx.jit])
def test_writes_name_the_guide(transform: Callable[..., Any]) -> None:
    """A traced array written into an ndarray, and any write into an Array, is answered by the guide's name."""
    with pytest.raises(errors.ConcreteValueError, match=r"afx\.asarray\(y\)\.at\[i\].*guides/array_api\.md"):
        transform(_write)(X)
    with pytest.raises(ValueError, match="setting an array element") as caught:
        transform(_write_one)(X)
    assert "guides/array_api.md" in str(caught.value.__cause__)
    with pytest.raises(errors.ImmutableError, match=r"guides/array_api\.md"):
        afx.zeros(3)[0] = 1.0


def test_flags_are_those_of_a_read_only_array() -> None:
    """``x.flags`` says what libraries ask of NumPy's arrays: not written, in row-major order; traced or not."""
    seen: list[Any] = []
    afx.grad(lambda x: (seen.append(x.flags), afx.sum(x))[1])(X)
    for flags in (afx.zeros((2, 3)).flags, *seen):
        assert not flags.writeable
        assert flags.c_contiguous


def test_copies_and_numbers_without_axes() -> None:
    """``asarray(x, copy=True)`` takes Arrays, and ``concat`` takes 0-d arrays where NumPy does."""
    x = afx.asarray(X)
    assert afx.asarray(x, copy=True).tolist() == X.tolist()
    assert afx.concat([x[0], x[1]], axis=None).tolist() == X.tolist()
    assert scipy.special.expit(x).shape == (2,)
