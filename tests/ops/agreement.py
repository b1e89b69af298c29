"""One call on NumPy and on afx: values, dtypes, derivatives of two orders in both modes, compiled and batched."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import afx

RNG = np.random.default_rng(17)
STEP = 1e-6


def flat(z: Any) -> list[Any]:
    """Return the arrays of a result, whatever tuples and lists hold them."""
    if isinstance(z, (list, tuple)):
        return [leaf for part in z for leaf in flat(part)]
    return [z]


def floats(z: Any) -> list[Any]:
    """Return the arrays of a result that have a derivative."""
    return [leaf for leaf in flat(z) if leaf.dtype.kind in "fc"]


def same(got: Any, want: Any, rtol: float = 1e-10) -> None:
    """Compare results, their shapes and the kinds of their dtypes."""
    assert len(flat(got)) == len(flat(want))
    for z, w in zip(flat(got), flat(want), strict=True):
        assert isinstance(z, afx.Array)
        assert z.shape == np.shape(w)
        assert z.dtype.kind == np.asarray(w).dtype.kind
        np.testing.assert_allclose(np.asarray(z), w, rtol=rtol, atol=rtol)


def values_agree(call: Callable[[Any, Any], Any], x: np.ndarray) -> None:
    """Check that afx gives NumPy's values, as Arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns of empty and all-nan slices, afx gives nan
        want = call(np, x)
    same(call(afx, afx.asarray(x)), want)


def derivatives_agree(fn: Callable[[Any], Any], x: np.ndarray, *, second: bool = True) -> None:
    """Check derivatives against central differences, modes against each other, and batches against loops."""
    t = RNG.normal(size=x.shape)
    zs, slopes = afx.jvp(lambda v: floats(fn(v)), (x,), (t,))
    above, below = floats(fn(x + STEP * t)), floats(fn(x - STEP * t))
    cts = [RNG.normal(size=z.shape) for z in zs]
    for slope, up, down in zip(slopes, above, below, strict=True):
        difference = (np.asarray(up) - np.asarray(down)) / (2 * STEP)
        np.testing.assert_allclose(np.asarray(slope), difference, rtol=1e-5, atol=1e-7)

    def total(v: Any) -> Any:
        return sum([afx.sum(afx.real(z * c)) for z, c in zip(floats(fn(v)), cts, strict=True)], start=afx.sum(v) * 0.0)

    gradient = afx.grad(total)(x)
    assert (gradient.shape, gradient.dtype) == (x.shape, x.dtype)
    forward = sum(float(np.sum(np.real(c * np.asarray(s)))) for c, s in zip(cts, slopes, strict=True))
    np.testing.assert_allclose(np.sum(np.asarray(gradient) * t), forward, rtol=1e-8, atol=1e-9)
    if second:
        bend = (np.asarray(afx.grad(total)(x + STEP * t)) - np.asarray(afx.grad(total)(x - STEP * t))) / (2 * STEP)
        np.testing.assert_allclose(np.asarray(afx.hvp(total, (x,), (t,))), bend, rtol=1e-4, atol=1e-6)


def compiled_agrees(fn: Callable[[Any], Any], x: np.ndarray) -> None:
    """Check the jitted function, its jitted gradient, and the mapped function."""
    for got, want in zip(flat(afx.jit(fn)(x)), flat(fn(x)), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-10, atol=1e-12)

    def total(v: Any) -> Any:
        return sum([afx.sum(afx.real(z)) for z in floats(fn(v))], start=afx.sum(v) * 0.0)

    want = np.asarray(afx.grad(total)(x))
    np.testing.assert_allclose(np.asarray(afx.jit(afx.grad(total))(x)), want, rtol=1e-9, atol=1e-11)
    pair = np.stack([x, 1.1 * x])
    for got, one, two in zip(flat(afx.vmap(fn)(pair)), flat(fn(pair[0])), flat(fn(pair[1])), strict=True):
        np.testing.assert_allclose(
            np.asarray(got), np.stack([np.asarray(one), np.asarray(two)]), rtol=1e-10, atol=1e-12
        )
    mapped = np.asarray(afx.vmap(afx.grad(total))(pair))
    np.testing.assert_allclose(mapped[0], want, rtol=1e-9, atol=1e-11)
