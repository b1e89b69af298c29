"""Random draws as machine code: the bits of NumPy's plan, which are those of every machine."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.ops.special import _quadrature
from tests.compiler.native_backend.native_run import assert_same_bits

KEY = np.asarray(afx.random.key(7))


def test_words_keys_and_folds() -> None:
    """Bits of every width, new keys, and keys folded with integers of any sign and dtype."""

    def fn(key: Any, n: Any, many: Any) -> Any:
        random = afx.random
        widths = [random.bits(key, (5, 3), dtype=d) for d in ("uint8", "uint16", "uint32", "uint64")]
        each = afx.vmap(lambda k: random.bits(k, 3))(many)
        return (
            *widths,
            random.split(key),
            random.split(key, (2, 5)),
            random.fold_in(key, n),
            random.fold_in(key, 3),
            each,
        )

    many = np.asarray(afx.random.split(KEY, 6))
    for n in (np.int64(-5), np.int32(7), np.uint64(1 << 63)):
        assert_same_bits(fn, KEY, np.asarray(n), many)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(dtype: str) -> None:
    """Numbers of each distribution with a native form, the tails among them, for one key and for many, few and many at once."""

    def fn(key: Any, many: Any) -> Any:
        random = afx.random
        draws = random.uniform, random.normal, random.exponential, random.laplace, random.logistic
        found = [draw(key, shape, dtype=dtype) for draw in draws for shape in ((), (3,), (40, 17), (4000,))]
        return (*found, afx.vmap(lambda k: afx.random.normal(k, 9, dtype=dtype))(many))

    native = assert_same_bits(fn, KEY, np.asarray(afx.random.split(KEY, 11)))
    assert native(KEY, np.asarray(afx.random.split(KEY, 11)))[1] == 0
    normal = native(KEY, np.asarray(afx.random.split(KEY, 11)))[0][7]
    assert np.abs(normal).max() > 3  # beyond the centre of its formula, and its tail


def test_far_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula of far tails, which one draw in 10^11 meets, is right where both back ends begin it earlier."""
    monkeypatch.setattr(_quadrature, "FAR", 1.3)
    for dtype in ("float32", "float64"):
        assert_same_bits(lambda key, dtype=dtype: afx.random.normal(key, 500, dtype=dtype), KEY)


def test_a_random_walk_is_one_kernel() -> None:
    """Metropolis's sampler by scan has no call of Python left."""

    def fn(key: Any, x: Any) -> Any:
        def step(now: Any, key: Any) -> Any:
            x, value = now
            first, second = afx.random.split(key)
            y = x + 0.5 * afx.random.normal(first, 3, dtype="float64")
            new = -0.5 * (y * y).sum()
            goes = np.log(afx.random.uniform(second, dtype="float64")) < new - value
            now = afx.where(goes, y, x), afx.where(goes, new, value)
            return now, now[0]

        return afx.scan(step, (x, -0.5 * (x * x).sum()), afx.random.split(key, 50))

    program = assert_same_bits(fn, KEY, np.ones(3)).program
    assert "philox(" in program.text(0)
