"""Complex arithmetic in loops of machine code: NumPy's bits and its warnings, wherever its loops run in vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering import complex_loops
from tests.compiler.native_backend.native_run import Native, assert_same_bits

RNG = np.random.default_rng(0)
ODD = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 3e38, 1e-30, 1e300, 1.7e308, 1, -1, 2e-45])
DTYPES = ["complex64", "complex128"]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sums": lambda x, y: (x + y, x - y, -x, afx.conj(y)),
    "products": lambda x, y: (x * y, afx.square(x), x * afx.conj(y), (2.5 - 1j) * x + x * (0.3 + 2j)),
    "quotients": lambda x, y: (x / y, 1 / x, y / (1.5 + 0.5j)),
    "sizes": lambda x, y: (afx.abs(x), afx.abs(x * y) ** 2),
    "parts": lambda x, y: ((x * y).real + (x - y).imag, x * y, (x * y).imag.sum()),
    "choices": lambda x, y: (afx.where(afx.abs(x) > 1, x * y, y), x.real * y + (x.imag > 0) * x),
    "apart": lambda x, y: (
        x[::-1] * y,
        x[::2] + y[::2],
        afx.abs(y[::2]),
        afx.abs(y[..., :1]),
        x[..., 1:] / y[..., :-1],
    ),
}


def numbers(dtype: str, *shape: int) -> Any:
    """Return numbers, the first third of which are zeros of both signs, infinite, nan, denormal and large ones."""
    parts = RNG.normal(size=(*shape, 2))
    some = parts.reshape(-1)[: parts.size // 3]
    some[:] = RNG.choice(ODD, some.size)
    with np.errstate(over="ignore"):
        return parts.astype(f"f{np.dtype(dtype).itemsize // 2}").view(dtype)[..., 0]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_numpys(name: str, dtype: str) -> None:
    """Of rows of any length, in both tiers, with zeros, infinities, nan, denormal and large numbers."""
    for shape in ((1,), (2,), (3,), (7,), (16,), (33,), (1000,), (3, 5), (7, 1), (4, 3, 2), (40, 37)):
        x, y = numbers(dtype, *shape), numbers(dtype, *shape)
        for tier in (1, 2):
            assert_same_bits(FUNCTIONS[name], x, y, tier=tier)


@pytest.mark.parametrize("dtype", DTYPES)
def test_warnings_are_numpys(dtype: str) -> None:
    """Errors are told of just those numbers of which NumPy tells them."""
    large = np.finfo(dtype).max / 2
    values = [
        0,
        -0.0,
        1,
        np.inf,
        complex(np.nan, 1),
        complex(np.inf, np.nan),
        large * (1 + 1j),
        1e-30,
        complex(0, np.inf),
        3j,
    ]
    pairs: list[tuple[Any, Any]] = [
        (np.multiply, afx.multiply), (np.divide, afx.divide), (np.add, afx.add),
        (lambda x, _: np.abs(x), lambda x, _: afx.abs(x)), (lambda x, _: np.square(x), lambda x, _: afx.square(x)),
    ]  # fmt: skip
    for ufunc, fn in pairs:
        x, y = np.ones(21, dtype), np.ones(21, dtype)
        native = Native(fn, x, y)
        for first in values:
            for second in values:
                x[4], y[4] = first, second
                told = set[str]()
                with np.errstate(all="call", under="ignore", call=lambda kind, _flags, told=told: told.add(kind)):
                    ufunc(x, y)
                assert bool(native(x, y)[1]) == bool(told), (ufunc, first, second, told)


def test_other_loops_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NumPy that multiplies in another way is called for that, and code for its sums stays."""
    x = numbers("complex64", 33)
    monkeypatch.setitem(complex_loops.COMPUTED, "product", lambda x, y: ((x * y).real + 1, (x * y).imag))
    complex_loops.is_numpys.cache_clear()
    try:
        native = assert_same_bits(lambda x: (x * x[:1] + x, afx.abs(x)), x)
    finally:
        complex_loops.is_numpys.cache_clear()
    assert [loop.ufunc for step in native.program.block.all_steps() for loop in step.loops] == ["multiply"]
