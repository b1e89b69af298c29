"""Polynomials that fit points, zeros of polynomials, and their derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.agreement import compiled_agrees, derivatives_agree, same, values_agree
from tests.ops.samples import together

RNG = np.random.default_rng(43)
T = np.linspace(-1.0, 2.0, 7)
Y = np.sin(T) + 0.1 * RNG.normal(size=7)
W = RNG.uniform(0.5, 2.0, size=7)
P = np.array([2.0, -3.0, -4.0, 1.0])
MATRIX = RNG.normal(size=(3, 3))

# The same call on both libraries, of one array; zeros are complex in afx always.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "polyfit by values": (lambda lib, x: lib.polyfit(T, x, 2), Y),
    "polyfit by places": (lambda lib, x: lib.polyfit(x, Y, 3), T),
    "polyfit by weights": (lambda lib, x: lib.polyfit(T, Y, 1, w=x), W),
    "polyfit of sets": (lambda lib, x: lib.polyfit(T, x, 2), np.stack([Y, Y**2], 1)),
    "polyfit with covariance": (lambda lib, x: lib.polyfit(T, x, 2, cov=True), Y),
    "polyfit of sets with covariance": (lambda lib, x: lib.polyfit(T, x, 2, cov=True), np.stack([Y, Y**2], 1)),
    "polyfit with covariance unscaled": (lambda lib, x: lib.polyfit(T, x, 2, w=W, cov="unscaled"), Y),
    "poly of a matrix": (lambda lib, x: lib.poly(x), MATRIX),
    "roots": (lambda lib, x: lib.roots(x) + 0j, P),
    "roots of a pair": (lambda lib, x: lib.roots(x), np.array([1.0, 0.5, 2.0])),
    "roots with zeros at the end": (lambda lib, x: lib.sort_complex(lib.roots(lib.append(x, [0.0]))), P),
}


@together("name", CASES)
def test_values_are_numpys(name: str) -> None:
    """The value is NumPy's."""
    values_agree(*CASES[name])


@together("name", CASES)
def test_derivatives_are_right(name: str) -> None:
    """Derivatives of first and second order agree with differences, in both modes."""
    call, x = CASES[name]
    derivatives_agree(lambda v: call(afx, v), x)


@together("name", CASES)
def test_compiled_and_mapped(name: str) -> None:
    """Jitted and mapped functions and gradients agree with plain ones."""
    call, x = CASES[name]
    compiled_agrees(lambda v: call(afx, v), x)


def test_all_that_least_squares_knows() -> None:
    """With ``full`` the residuals, rank, singular values and the cut are NumPy's."""
    got, want = afx.polyfit(T, Y, 2, full=True), np.polyfit(T, Y, 2, full=True)
    for z, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(z), w, rtol=1e-10)


def test_leading_zeros_are_left_out() -> None:
    """A polynomial written with a higher degree than it has loses no zeros; a constant has none."""
    same(afx.roots(np.concatenate([[0.0, 0.0], P])), np.roots(P) + 0j, rtol=1e-12)
    assert afx.roots(np.array([3.0])).shape == (0,)
    assert afx.roots(np.zeros(3)).shape == (0,)


def test_float32_stays() -> None:
    """Of float32 results are float32, zeros complex64."""
    assert afx.polyfit(T.astype(np.float32), Y.astype(np.float32), 2).dtype == afx.float32
    assert afx.roots(P.astype(np.float32)).dtype == afx.complex64


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "degree": (lambda: afx.polyfit(T, Y, -1), errors.ArgumentError, "polyfit: a degree is 0 or more: got deg=-1"),
    "points": (
        lambda: afx.polyfit(T, Y[1:], 1),
        errors.ShapeError,
        "polyfit: coordinates, values and weights do not fit",
    ),
    "covariance": (
        lambda: afx.polyfit(T[:2], Y[:2], 1, cov=True),
        errors.ArgumentError,
        "polyfit: a covariance takes more",
    ),
    "zeros": (lambda: afx.roots(MATRIX), errors.ShapeError, "roots: a polynomial is a vector of coefficients"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    """Wrong arguments raise afx's error with what was given."""
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()
