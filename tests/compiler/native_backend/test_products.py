"""Large products: the pieces of NumPy's plan, which threads share."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

pytest.importorskip("llvmlite", reason="machine code is an extra")
pytest.importorskip("threadpoolctl", reason="plans cut products where they can hold BLAS to one thread")

from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.program.leaves import UfuncCall
from afx.compiler.target import DEFAULT, Target, use_target
from afx.runtime import thread_pool
from afx.runtime.blas import blas
from tests.compiler.native_backend.native_run import (
    FIRST_TIER,
    Native,
    assert_same_bits,
    same_bits,
    use_limits,
    use_threads,
)


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    """Let three threads run, each with one of BLAS, as plans do."""
    with use_threads(3), blas:
        yield


def _products(native: Native) -> list[UfuncCall]:
    return [step for step in native.program.block.all_steps() if isinstance(step, UfuncCall) and step.cores]


def _arrays(dtype: str, *shapes: tuple[int, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("m", "k", "n"), [(300, 170, 131), (33, 400, 500), (257, 129, 128), (161, 161, 163)])
def test_pieces_have_the_bits_of_numpys_plan(dtype: str, m: int, k: int, n: int) -> None:
    """Rows or columns are cut, of operands as they lie and of transposes; any number of threads gives the same."""
    x, y, z = _arrays(dtype, (m, k), (k, n), (m, n))

    def fn(x: Any, y: Any, z: Any) -> Any:
        return x @ y, z @ y.T, x.T @ z + 1

    native = assert_same_bits(fn, x, y, z)
    assert [p.is_cut for p in _products(native)] == [True] * 3
    many = native(x, y, z)[0]
    with thread_pool.single_threaded:
        alone = native(x, y, z)[0]
    assert all(same_bits(a, b) for a, b in zip(many, alone, strict=True))
    assert np.allclose(many[0], x.astype("f8") @ y.astype("f8"), atol=1e-3 if dtype == "f4" else 1e-11)


def test_matrices_times_vectors() -> None:
    """Rows of a matrix that multiplies a vector are cut; a vector times a matrix is one call."""
    x, v = np.random.default_rng(0).normal(size=(90_000, 50)).astype("f4"), np.linspace(-1, 1, 50, dtype="f4")

    def fn(x: Any, v: Any) -> Any:
        y = np.tanh(x @ v)
        return y, y @ x

    assert [p.parts for p in _products(assert_same_bits(fn, x, v))] == [2, 0]


def test_pieces_between_nests() -> None:
    """What reads a product waits for all of its pieces, and each piece for what it reads."""
    x, w = _arrays("f4", (256, 512), (512, 512))

    def fn(x: Any, w: Any) -> Any:
        hidden = np.maximum(x @ w, 0)
        return (hidden * 2 + 1) @ w - hidden, (hidden @ w).sum(axis=0)

    assert sum([p.is_cut for p in _products(assert_same_bits(fn, x, w))]) == 3


def test_pieces_in_a_loop_run_one_after_the_other() -> None:
    """A step of a scan computes all pieces of its products."""
    x, w = _arrays("f8", (180, 170), (170, 170))

    def fn(x: Any, w: Any) -> Any:
        return afx.scan(lambda h, _: (np.tanh(h @ w / 20), None), x, None, 3)[0]

    assert [p.is_cut for p in _products(assert_same_bits(fn, x, w))] == [True]


@pytest.mark.parametrize("many", [2, 5, 8, 19])
def test_many_small_products_are_shared(many: int) -> None:
    """Stacks of matrices are cut between matrices; those of large matrices, which BLAS's threads may cut, are not."""
    rng = np.random.default_rng(0)
    n = int((DEFAULT.native.product_share_min_products / many) ** (1 / 3)) + 1
    x, y = rng.normal(size=(2, many, n, n))
    native = assert_same_bits(lambda x, y: (x @ y, x.swapaxes(1, 2) @ y), x, y)
    is_small = n**3 <= DEFAULT.native.product_many_max_products
    assert [p.parts for p in _products(native)] == [min(many, 8) if is_small else 0] * 2


def test_products_of_interleaved_matrices() -> None:
    """Heads of attention lie between each other: one batch axis runs in NumPy's loop, the other around it."""
    x, y = np.random.default_rng(0).normal(size=(2, 3, 7, 4, 5)).astype("f4")

    def fn(x: Any, y: Any) -> Any:
        x, y = x.transpose(0, 2, 1, 3), y.transpose(0, 2, 1, 3)
        z = x @ y.swapaxes(-1, -2)
        return z, (z @ x) * 2, x @ x.swapaxes(-1, -2), x[:, 1:] @ y.swapaxes(-1, -2)[:, :1]

    assert len(_products(assert_same_bits(fn, x, y))) == 4


@use_limits(product_block_max_products=60 * 10**6)
def test_products_that_take_long_are_left_to_numpy() -> None:
    """No signal is seen while a kernel runs: of many products, or a large one, those beyond some 40 ms are calls of NumPy."""
    x, y = _arrays("f4", (300, 300), (300, 300))
    lowered = afx.jit(lambda x, y: np.tanh(np.tanh(x @ y) @ y) @ y).lower(x, y)
    with pytest.raises(UnsupportedError, match="large product"):
        lower_schedule(lowered.plan.schedule, lowered.plan.target)
    assert [bool(reason) for _, reason in lowered.plan.why_not_native].count(True) == 1


@pytest.mark.parametrize("target", [FIRST_TIER, Target(backend="native")])
def test_a_training_step_with_large_products(target: Target) -> None:
    """A network's step gives what NumPy's plan gives, in the first tier to the bit, and no call of NumPy is left."""
    w, v, x = _arrays("f4", (256, 400), (400, 200), (128, 256))
    params, rule = (w / 16, v / 20), optim.sgd(0.1, momentum=0.9)

    def step(params: Any, state: Any, x: Any) -> Any:
        value, grads = afx.value_and_grad(lambda p: ((np.tanh(x @ p[0]) @ p[1]) ** 2).mean())(params)
        return value, *rule.step(params, grads, state)

    state = rule.init(params)
    want = afx.pytree.leaves(afx.jit(step, backend="numpy")(params, state, x))
    with use_target(target):
        compiled = afx.jit(step)
        found = afx.pytree.leaves(compiled(params, state, x))
        assert not any(reason for _, reason in compiled.lower(params, state, x).plan.why_not_native)
    for a, b in zip(found, want, strict=True):
        assert same_bits(a, b) if target is FIRST_TIER else np.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x @ y,
        lambda x, y: x[None] @ y[:, None],
        lambda x, y: x[:, None] @ y[None],
        lambda x, y: afx.einsum("i,i->", x, y),
        lambda x, y: afx.stack([x, y]) @ y,
        lambda x, y: afx.tensordot(x, y, 1),
    ],
    ids=["dot", "row by column", "outer", "einsum", "matrix by vector", "tensordot"],
)
def test_products_of_one_complex_number_are_numpys(fn: Any, dtype: str) -> None:
    """Products along axes of length 1 take the strides that NumPy hands to its loops: infinities give the same bits."""
    parts = [1.0, -0.0, np.inf, -np.inf, np.nan]
    native = Native(fn, np.ones(1, dtype), np.ones(1, dtype))
    for a, b, c, d in itertools.product(parts, repeat=4):
        x, y = np.array([complex(a, b)], dtype), np.array([complex(c, d)], dtype)
        (found,), _ = native(x, y)
        with np.errstate(all="ignore"):
            (want,) = native.plan(x, y)
        real = f"f{found.itemsize // 2}"
        assert same_bits(found.reshape(-1).view(real), np.asarray(want).reshape(-1).view(real)), (x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("m", "k", "n"), [(40, 30, 256), (33, 200, 128), (200, 9, 384), (64, 300, 1024), (31, 8, 640)])
def test_products_of_panels(m: int, k: int, n: int, dtype: str) -> None:
    """Of operands whose rows lie far apart, or whose columns do; a matrix may be multiplied by its own transpose.

    Elements are small integers, of whose products no library rounds a sum.
    """
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((m, k), (k, n), (n, n + 3)))
    turned = np.ascontiguousarray(y.T)
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda x, y: x @ y, (x, y)),
        (lambda x, y: x @ y.T, (x, turned)),
        (lambda x, y: x.T @ y.T, (np.ascontiguousarray(x.T), turned)),
        (lambda z: z.T @ z, (z,)),
        (lambda z: z @ z.T, (z,)),
    ]
    for fn, args in cases:
        for backend in ("native", "portable"):
            np.testing.assert_array_equal(
                np.asarray(afx.jit(fn, backend=backend)(*args)), fn(*[a.astype("f8") for a in args])
            )


@pytest.mark.parametrize("batch", [(1,), (1, 1), (2,)])
@pytest.mark.parametrize(("m", "k", "n"), [(25, 31, 31), (8, 40, 33), (33, 9, 64)])
def test_products_of_stacks_by_transposes(batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    """Also of one matrix, in tiles that read columns; elements are small integers."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 10, (*batch, *shape)).astype("f8") for shape in ((m, k), (k, n)))
    turned = afx.matrix_transpose
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda x, y: x @ y, (x, y)),
        (lambda x, y: x @ turned(y), (x, y.swapaxes(-1, -2).copy())),
        (lambda x, y: turned(x) @ y, (x.swapaxes(-1, -2).copy(), y)),
        (lambda x, y: turned(x) @ turned(y), (x.swapaxes(-1, -2).copy(), y.swapaxes(-1, -2).copy())),
    ]
    for fn, args in cases:
        for backend in ("native", "portable"):
            np.testing.assert_array_equal(np.asarray(afx.jit(fn, backend=backend)(*args)), x @ y)
