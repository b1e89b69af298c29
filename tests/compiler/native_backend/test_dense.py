"""Arguments that are not dense: what compiled functions compute depends on values, dtypes and shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.target import Target, use_target
from tests.every import together

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import assert_same_bits, by_numpy

BACKENDS = ["numpy", "auto", "native", "portable"]
RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, 8))


def _unaligned(x: Any) -> Any:
    memory = np.empty(x.nbytes + 1, np.uint8)
    z = memory[1:].view(x.dtype).reshape(x.shape) if x.dtype.itemsize == 1 else np.ndarray(x.shape, x.dtype, memory, 1)
    z[...] = x
    return z


def _frozen(x: Any) -> Any:
    z = x.copy()
    z.flags.writeable = False
    return z


def _columns(x: Any) -> Any:
    return np.concatenate([x, x], axis=-1)[..., : x.shape[-1]]


FORMS: dict[str, Callable[[Any], Any]] = {
    "dense": np.copy,
    "read-only": _frozen,
    "columns": _columns,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "Fortran": np.asfortranarray,
    "unaligned": _unaligned,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "windows that overlap": lambda x: np.lib.stride_tricks.sliding_window_view(np.arange(13.0).astype(x.dtype), 8),
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "0-d": lambda x: x.ravel()[1:2].reshape(()),
}


def program(x: Any, y: Any) -> Any:
    """Compute what is laid out by its operands: elementwise chains, a sum by rows, a product, a running sum."""
    z = afx.sin(x) * y + x / (1.0 + y * y)
    return z, afx.sum(z), afx.cumulative_sum(afx.reshape(z, (-1,))), z.T @ z if z.ndim == 2 else z


@together("backend", BACKENDS)
@together("form", FORMS)
@together("dtype", ["float32", "float64"])
def test_strides_change_no_bit(backend: Any, form: str, dtype: str) -> None:
    """An argument that is strided, unaligned or swapped gives the bits of its dense copy, from the first call on."""
    x = FORMS[form](X.astype(dtype))
    dense = np.array(x, x.dtype.newbyteorder("="), order="C")
    fn, fresh = (afx.jit(program, backend=backend) for _ in range(2))
    expected = [np.asarray(z).tobytes() for z in fresh(dense, dense)]
    for args in ((x, x), (x, dense), (dense, x), (x, x), (dense, dense)):
        results = fn(*args)
        assert [np.asarray(z).tobytes() for z in results] == expected
        assert all(np.asarray(z).flags.c_contiguous for z in results)


@pytest.mark.parametrize("form", FORMS)
def test_machine_code_runs_on_strided_arguments(form: str) -> None:
    """A kernel takes calls with arguments that are not dense, on copies, and stays."""
    x = FORMS[form](X)
    with use_target(Target(backend="native", native_tier=1)):
        fn = afx.jit(lambda x: afx.sum(afx.exp(x) * x))
        for _ in range(10):
            fn(x)
        status = fn.lower(x).status
    assert (status.backend, status.refusals) == ("native", 0), status


def test_tokens_of_a_language_model() -> None:
    """Tokens as slices ``z[:, :-1]`` and ``z[:, 1:]`` of one array run by machine code, with the bits of their copies."""
    table, z = RNG.normal(size=(11, 5)), RNG.integers(0, 11, (4, 9))

    def loss(table: Any, x: Any, y: Any) -> Any:
        return afx.nn.softmax_cross_entropy(table[x] @ table.T, y).mean()

    with use_target(Target(backend="native", native_tier=1)):
        step = afx.jit(afx.value_and_grad(loss))
        expected = step(table, z[:, :-1].copy(), z[:, 1:].copy())
        for _ in range(5):
            value, grads = step(table, z[:, :-1], z[:, 1:])
            assert (np.asarray(value).tobytes(), np.asarray(grads).tobytes()) == tuple(
                np.asarray(v).tobytes() for v in expected
            )
        status = step.lower(table, z[:, :-1], z[:, 1:]).status
    assert (status.backend, status.refusals) == ("native", 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_donated_arguments_may_be_strided(backend: Any) -> None:
    """An argument that is given away and not dense is copied; results are right and nobody else's memory is written."""
    whole = np.arange(48.0).reshape(6, 8)
    before = whole.copy()
    fn = afx.jit(lambda x: x * 2.0 + 1.0, backend=backend, donate_argnums=0)
    for _ in range(3):
        z = fn(whole[:, ::2])
        np.testing.assert_array_equal(z, before[:, ::2] * 2.0 + 1.0)
    np.testing.assert_array_equal(whole, before)


def _columns_in_a_loop(x: Any) -> Any:
    """Return a loop's masks and numbers, of which some are made from transposes, and sums of parts."""

    def step(c: Any, _: None) -> Any:
        mask, y = c
        turned = np.broadcast_to(np.any(mask, axis=0)[:, None], mask.shape)
        y = afx.where(turned, y.T @ y, 0.5) * 0.3
        return (turned.T, np.sin(y)), np.mean(y[::2, ::3])

    return afx.scan(step, (x > 0, x), None, length=4)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: afx.sin(x).T + 1,
        lambda x: (np.transpose(x) * 2, afx.exp(x.T) - afx.sin(x).T),
        lambda x: afx.sum(x[::2, ::2] * 1.0) + afx.mean(x[1:, ::3]),
        lambda x: afx.where(x.T > 0, x.T + 1j, 2.0),
        _columns_in_a_loop,
    ],
)
def test_what_is_made_of_transposes_lies_in_rows(fn: Any) -> None:
    """Results and carries lie in row-major order whatever lies in another one, so that all of it is one kernel."""
    x = np.random.default_rng(0).normal(size=(6, 6))
    assert_same_bits(fn, x)
    for backend in ("numpy", None):
        for z in afx.pytree.leaves(afx.jit(fn, backend=backend)(x)):
            assert np.asarray(z).flags.c_contiguous


def _steps_on(y: Any) -> Any:
    for _ in range(6):
        y = np.tanh(y @ y.T @ y) * 0.5 + afx.sum(y, axis=0, keepdims=True)
    return y


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: by_numpy(x.T),
        lambda x: by_numpy(x.T)[np.arange(3)[:, None], np.arange(4)[None]],
        lambda x: afx.sort(x.T, axis=0) + by_numpy(x.T),
        lambda x: afx.take(by_numpy(x.T), np.arange(6), axis=1),
        lambda x: afx.sum(by_numpy(np.stack([x, x]).T), axis=0),
        lambda x: by_numpy(x).T,
    ],
)
def test_kernels_take_what_numpy_makes_of_transposes(fn: Any) -> None:
    """Between kernels NumPy's calls make rows too, so that no kernel refuses what they give it."""
    with use_target(Target(backend="native", native_tier=1)):
        whole = afx.jit(lambda x: _steps_on(fn(x)))
        for _ in range(5):
            found = whole(X)
        status = whole.lower(X).status
    assert status.refusals == 0, status
    expected = afx.jit(lambda x: _steps_on(fn(x)), backend="numpy")(X)
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
