"""The second tier as it runs: bits from the first call on, warnings, arguments that a kernel does not take as they lie."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.program.elements import Fast
from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.target import Target

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, by_numpy, same_bits


def loss(x: Any) -> Any:
    """Return a sum of functions."""
    return afx.sum(np.exp(-x * x) * np.sin(x)) + np.log(1 + x[0] ** 2)


def test_the_tier_is_a_setting_of_the_target() -> None:
    """The back end "native" means the second tier unless the target says otherwise; all others the first."""
    assert [Target(backend=b).tier for b in ("auto", "numpy", "native")] == [1, 1, 2]
    assert Target(backend="native", native_tier=1).tier == 1


def test_bits_are_the_same_from_the_first_call_on() -> None:
    """The first call has the bits of later ones, of another function of the same program, and of any layout of arguments."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(200, 2)).astype(np.float32)
    x = np.ascontiguousarray(wide[:, 0])
    first = [afx.jit(afx.value_and_grad(loss), backend="native")(x) for _ in range(2)]
    fn = afx.jit(afx.value_and_grad(loss), backend="native")
    unaligned = np.frombuffer(b"0" + x.tobytes(), np.uint8)[1:].view(np.float32)
    later = [fn(value) for value in (wide[:, 0], x, unaligned, x, afx.asarray(x))]
    for value, grad in (*first, *later):
        assert same_bits(value, first[0][0])
        assert same_bits(grad, first[0][1])
    expected = afx.value_and_grad(loss)(x.astype(np.float64))
    assert np.allclose(first[0][0], expected[0], rtol=1e-6)
    assert np.allclose(first[0][1], expected[1], rtol=1e-4, atol=1e-6)


def test_layouts_do_not_change_bits_beside_calls_of_numpy() -> None:
    """Kernels between NumPy's calls take transposed and strided arrays with the bits of dense ones."""
    fn = afx.jit(lambda x, y: (np.exp(x) * np.tanh(x) + 1, by_numpy(y), np.sin(x).sum()), backend="native")
    x, y = np.random.default_rng(4).normal(size=(2, 30, 30))
    assert "NumPy's: " in fn.lower(x, y).plan.source
    want = fn(np.ascontiguousarray(x.T), y)
    for z, expected in zip(fn(x.T, y), want, strict=True):
        assert same_bits(z, expected)
    for z, expected in zip(fn(np.repeat(x.T, 2, axis=1)[:, ::2], y), want, strict=True):
        assert same_bits(z, expected)


@pytest.mark.parametrize("fn", [lambda x: 1 / x + np.exp(x), lambda x: 1 / by_numpy(x) + np.exp(x)])
def test_errors_warn_and_results_stand(fn: Any) -> None:
    """A floating-point error warns at the user's line, or raises under ``errstate``; the bits are those of quiet calls."""
    native = afx.jit(fn, backend="native")
    x = np.array([0.5, 0.0, 0.7])
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = native(x)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        loud = native(x)
    assert same_bits(loud, quiet)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        native(x)
    assert same_bits(native(x[:1]), afx.jit(fn, backend="native")(x[:1]))


def test_arguments_of_functions_that_saturate_are_quiet() -> None:
    """Functions that saturate, and gradients of them, neither warn nor run NumPy's plan beside."""
    fn = afx.jit(afx.grad(lambda x: afx.sum(np.tanh(x) + afx.nn.sigmoid(x) + np.exp(-x * x))), backend="native")
    x = np.array([-1e4, 1e4, 0.0, 800.0, -800.0, 30.0])
    with np.errstate(all="raise", under="ignore"):
        found = np.asarray(fn(x))
    assert np.allclose(
        found, afx.grad(lambda x: afx.sum(np.tanh(x) + afx.nn.sigmoid(x) + np.exp(-x * x)))(x), atol=1e-15
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [2, 3, 5, 9, 16, 17, 31])
def test_short_rows_have_the_bits_of_longer_ones(length: int, dtype: str) -> None:
    """Fewer lanes do for rows that fill not all of them: others would keep the identity, of sums the zero that changes none."""
    x = np.random.default_rng(length).normal(size=(11, length)).astype(dtype)
    x[0], x[1, 0], x[2, -1] = -0.0, np.inf, np.nan

    def fn(x: Any) -> Any:
        return afx.sum(x * 1.5, axis=1), afx.max(x * 2.0, axis=1), afx.min(-x, axis=1)

    found, _ = Native(fn, x, tier=2)(x)
    for k, rest in enumerate((-0.0, -np.inf, -np.inf)):
        longer = np.concatenate([x, np.full((11, 64 - length), rest, dtype)], axis=1)
        want, _ = Native(fn, longer, tier=2)(longer)
        assert same_bits(found[k], want[k])


@pytest.mark.parametrize("shape", [(12, 9), (6, 9, 9), (50, 3), (4, 17)])
@pytest.mark.parametrize("axis", [-1, -2])
def test_functions_of_short_rows_are_stored_before_they_are_reduced(shape: tuple[int, ...], axis: int) -> None:
    """Functions are computed in groups of rows that fill vectors, and reduced in another loop, to the same bits."""
    x, y = np.random.default_rng(3).normal(size=(2, *shape)).astype("float32")

    def fn(x: Any, y: Any) -> Any:
        return afx.sum(afx.exp(x - y), axis=axis), afx.max(afx.sin(x) * y, axis=axis)

    native = Native(fn, x, y, tier=2)
    nests = [step for step in native.program.block.all_steps() if isinstance(step, Nest)]
    assert not any(nest.folds and any(isinstance(op.name, Fast) for op in nest.operations) for nest in nests)
    elements, _ = Native(lambda x, y: (afx.exp(x - y), afx.sin(x) * y), x, y, tier=2)(x, y)
    want, _ = Native(lambda e, s: (afx.sum(e, axis=axis), afx.max(s, axis=axis)), *elements, tier=2)(*elements)
    assert all(same_bits(z, w) for z, w in zip(native(x, y)[0], want, strict=True))
