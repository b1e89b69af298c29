"""Fused spaces as loops over blocks: NumPy's bits for every number of rows and threads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.native_backend.program.loops import BlockLoop
from afx.compiler.target import NativeTarget, Target, use_target
from afx.runtime import thread_pool
from tests.compiler.native_backend.native_run import Native, assert_same_bits, same_bits, use_threads

SMALL: dict[str, Any] = {
    "fuse_min_elements": 16,
    "block_max_bytes": 1024,
    "block_min_elements": 16,
    "native": NativeTarget(share_min_elements=100, rows_max_elements=40),
}
COLUMNS = 12


@pytest.fixture(autouse=True)
def _small_blocks() -> Iterator[None]:
    """Make blocks small, so that tests are quick, and let three threads run."""
    with use_threads(3), use_target(Target(**SMALL)):
        yield


def _drawn(*shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(len(shape)).normal(size=shape) * 3).astype(dtype)


def _losses(x: Any, w: Any, scale: Any) -> Any:
    """Return values and gradients of what works on rows, its sums over all of them, and its sums of columns."""

    def norm(x: Any, scale: Any) -> Any:
        y = nn.LayerNorm(scale, scale[::-1])(x)
        return (y * w).sum() + (x * scale).var(axis=1).mean()

    def soft(x: Any) -> Any:
        return (nn.softmax(x, axis=1) * w).sum() - afx.logsumexp(x * w, axis=1).mean() + nn.log_softmax(x).max()

    return afx.value_and_grad(norm, argnums=(0, 1))(x, scale), afx.value_and_grad(soft)(x), (x * w).sum(axis=0)


def _loops(native: Native) -> list[BlockLoop]:
    return [step for step in native.program.block.all_steps() if isinstance(step, BlockLoop)]


@pytest.mark.parametrize(
    ("count", "dtype"), [(1, "float64"), (8, "float32"), (33, "float64"), (97, "float32"), (128, "float64")]
)
def test_rows_have_numpys_bits(count: int, dtype: str) -> None:
    """Softmax, its logarithm and layer normalisation agree with the plan, whole blocks or not, one row or many."""
    args = [_drawn(*s, dtype=dtype) for s in ((count, COLUMNS), (count, COLUMNS), (COLUMNS,))]
    native = assert_same_bits(_losses, *args)
    loops = _loops(native)
    assert (count < 30) or any(loop.is_cut for loop in loops)
    assert (count < 90) or any(not loop.is_cut and len(loop.bodies[0].args) for loop in loops)


def test_long_rows_are_summed_from_zero() -> None:
    """Sums of rows that are too long for BLAS begin with the zero that another loop over the rows has left."""
    x, w = np.random.default_rng(0).normal(size=(2, 40, 1100)).astype(np.float32)
    with use_target(Target(block_max_bytes=1 << 16, block_min_elements=16, native=SMALL["native"])):

        def fn(x: Any) -> Any:
            value = afx.value_and_grad(lambda x: (nn.softmax(x, axis=1) * w).sum())(x)
            return value, nn.log_softmax(x * w) * 2, afx.logsumexp(x * w, axis=1) + (x * w).sum(axis=1), x.var(axis=1)

        native = assert_same_bits(fn, x)
    assert "sum.reduce" in str(native.plan.schedule)
    assert len(_loops(native)) > 2


def test_any_number_of_threads_gives_the_same() -> None:
    """How many threads share the blocks changes no bit."""
    args = [_drawn(*s) for s in ((131, COLUMNS), (131, COLUMNS), (COLUMNS,))]
    native = assert_same_bits(_losses, *args)
    wanted = native(*args)[0]
    for threads in (1, 2, 5, 20):
        thread_pool.set_threads(threads)
        assert all(same_bits(a, b) for a, b in zip(native(*args)[0], wanted, strict=True))


def test_operands_lie_in_any_way() -> None:
    """Blocks read transposes, slices, reversed and broadcast operands in place, and some operands also as wholes."""
    x, y = _drawn(90, 24), _drawn(12, 90)

    def fn(x: Any, y: Any) -> Any:
        z = x[:, ::2] * y.T - x[::-1, :COLUMNS]
        return nn.softmax(z + x[:1, :COLUMNS], axis=1) * 2, (z * x[:, 12:]).sum(axis=1) * 3, (z * z[:1]).sum()

    assert_same_bits(fn, x, y)


def test_elements_in_blocks() -> None:
    """Sums over elements of any shape are sums of blocks, as in the plan."""
    x = _drawn(5000, dtype="float64")
    with use_target(Target(**{**SMALL, "fuse_min_elements": 64, "block_min_elements": 512})):
        native = assert_same_bits(
            lambda x, y: ((np.exp(-x * x) * y).sum(), (x * y).max(), x * y + 1), x, x[::-1].copy()
        )
        assert [loop.is_cut for loop in _loops(native)] == [True]
        assert_same_bits(lambda x: (np.tanh(x) * x).mean(), x.reshape(5, 20, 50))


def test_rows_that_depend_on_other_rows() -> None:
    """What reads the rows before, or all of them, is computed behind them."""
    x = _drawn(64, COLUMNS)

    def fn(x: Any) -> Any:
        y = nn.softmax(x * 2, axis=1)
        z = y[1:] - y[:-1]
        return nn.softmax(z, axis=1) * z.sum(axis=0), (y - y.sum(axis=0)).max(axis=1), afx.argmax(y, axis=1)

    assert_same_bits(fn, x)


@pytest.mark.parametrize("row", [0, 40, 96])
def test_errors_of_any_block_are_seen(row: int) -> None:
    """A floating-point error in any row is seen, whichever thread meets it, but not one that equations ignore."""
    x = np.ones((97, COLUMNS))
    x[row, 3] = 0.0

    def loud(x: Any) -> Any:
        return (1 / x).sum(axis=1) * x.max(axis=1)

    def quiet(x: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return loud(x)

    assert Native(loud, x)(x)[1] & 1
    assert Native(quiet, x)(x)[1] == 0
    assert Native(loud, x)(x + 1)[1] == 0


def test_errors_raise_and_warn_as_numpy_does() -> None:
    """Under ``np.errstate`` a compiled function raises, warns or keeps quiet, and gives the plan's bits."""
    x = np.ones((97, COLUMNS), np.float32)
    x[50, 3] = 3e38

    def fn(x: Any) -> Any:
        return (nn.softmax(x, axis=1) * (x * 10)).sum(axis=1)

    with np.errstate(over="ignore"):
        want = afx.jit(fn, backend="numpy")(x)
    with use_target(Target(backend="native", native_tier=1, **SMALL)):
        compiled = afx.jit(fn)
        assert compiled.lower(x).plan.native.is_linked
        with np.errstate(over="ignore"):
            assert same_bits(compiled(x), want)
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            compiled(x)
        with np.errstate(over="warn"), pytest.warns(RuntimeWarning, match="overflow"):
            assert same_bits(compiled(x), want)
        assert same_bits(compiled(np.asfortranarray(x[:, ::-1])[:, ::-1] * 0), afx.jit(fn, backend="numpy")(x * 0))


@pytest.mark.parametrize("shape", [(97, 12), (1, 300), (33, 40), (5, 9, 60), (64, 1100)])
def test_reductions_along_inner_axes_are_shared(shape: tuple[int, ...]) -> None:
    """What NumPy's plan does not fuse is cut over rows too, where all of it works on each row by itself."""
    x = _drawn(*shape)
    x[0, 1], x[-1, -2:] = np.inf, np.nan
    with use_target(Target(native=SMALL["native"])):

        def fn(x: Any) -> Any:
            reduced = [f(x, axis=-1) for f in (afx.logsumexp, afx.var, afx.argmax, afx.argmin, np.sum, np.max)]
            return *reduced, nn.softmax(x), nn.log_softmax(x), x.sum(axis=0), x.mean(), afx.argmax(x[:, ::-1], axis=-1)

        native = Native(fn, x)
        with np.errstate(all="ignore"):
            assert all(map(same_bits, native(x)[0], native.plan(x)))
        one = Native(lambda x: nn.softmax(x * 2), x)
        for y in (x, np.nan_to_num(x, posinf=1)):
            with np.errstate(all="ignore"):
                assert all(map(same_bits, one(y)[0], one.plan(y)))
    assert any(loop.is_cut for loop in _loops(native)) == (shape[0] > 1)


def test_loops_and_branches_run_blocks() -> None:
    """Blocks within steps of a loop, and within a branch, are run by one thread."""
    x = _drawn(40, COLUMNS)

    def step(y: Any) -> Any:
        return nn.softmax(y * 2 + 1, axis=1) + x

    assert_same_bits(
        lambda x: (
            afx.scan(lambda y, _: (step(y), y.sum()), x, None, 4),
            afx.cond(x.sum() > 0, step, lambda y: (y * y).sum(axis=1, keepdims=True) + y, x),
        ),
        x,
    )


def test_the_second_tier_runs_blocks_too() -> None:
    """With bits of its own, machine code agrees to the last digits."""
    args = [_drawn(*s, dtype="float64") for s in ((97, COLUMNS), (97, COLUMNS), (COLUMNS,))]
    native = Native(_losses, *args, tier=2)
    for z, want in zip(native(*args)[0], native.plan(*args), strict=True):
        np.testing.assert_allclose(z, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(40, 12), (97, 8)])
def test_rows_are_made_among_the_zeros_around_them(shape: tuple[int, int]) -> None:
    """Gradients of slices, which a loop over blocks makes with sums of their rows, are written to their places at once."""

    def energy(u: Any, scale: Any) -> Any:
        across, down = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
        size = afx.sqrt(across * across + down * down + scale)
        return (size / afx.sum(size, axis=1, keepdims=True) * size).sum()

    native = assert_same_bits(afx.value_and_grad(energy), _drawn(*shape), np.float32(0.1))
    written = {arg.roots for loop in _loops(native) for arg in loop.bodies[0].args if arg.stride}
    whole = 4 * shape[0] * shape[1]
    copies = [step for step in native.program.block.steps if isinstance(step, Nest) and not step.operations]
    assert written
    assert all(4 * step.elements < whole // 2 for step in copies), "zeros alone, at the edges"


STRIDED: dict[str, Any] = {
    "every other": lambda x: (x[::2], x[1::2]),
    "from the end": lambda x: (x[::-1][:-1], x[1:]),
    "each third, backwards": lambda x: (x[-1:0:-3], x[1:-1:3]),
    "columns that follow each other": lambda x: (x.reshape(-1, 4)[:, ::2], x.reshape(-1, 4)[:, 1::2]),
    "a part of each row": lambda x: (x.reshape(-1, 8)[:, :3], x.reshape(-1, 8)[:, 4:7]),
    "one element": lambda x: (afx.broadcast_to(x[5], (x.size,)), x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", STRIDED)
def test_blocks_of_strided_elements(name: str, dtype: str) -> None:
    """Elements at one distance from each other make blocks as dense ones do, with NumPy's bits, of denormals and nan too."""

    def fn(x: Any) -> Any:
        a, b = STRIDED[name](x)
        return afx.sum(100 * (b - a * a) ** 2 + (1 - a) ** 2), afx.exp(a) * b - afx.maximum(a, b)

    for count in (240, 2400, 9984):
        x = _drawn(count, dtype=dtype)
        native = assert_same_bits(fn, x)
        assert _loops(native)
        x[[3, 50, 101]] = np.nan, np.inf, np.finfo(dtype).tiny / 4
        with np.errstate(all="ignore"):
            assert_same_bits(fn, x)
            assert_same_bits(lambda x: afx.grad(lambda x: fn(x)[0])(x), x[::-1])
