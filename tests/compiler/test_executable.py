"""Plans: the values of the graph, in memory that is used again and never seen outside."""

import importlib
import importlib.util
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, nn
from afx.compiler.executable import make_plan
from afx.compiler.schedule.buffers import Arena
from afx.compiler.target import Target, use_target
from afx.runtime.thread_pool import get_threads, run_blocks, set_threads
from tests.compiler.programs import inputs, program
from tests.every import together


def small_blocks(fuse_min_elements: int, block_max_bytes: int) -> Target:
    """Return a target of tiny blocks."""
    return Target(fuse_min_elements=fuse_min_elements, block_min_elements=1, block_max_bytes=block_max_bytes)


def chain(x: Array, y: Array) -> tuple[Array, Array]:
    """Elementwise work with a sum at its end."""
    z = afx.tanh(x * y) + afx.exp(-x * x)
    w = afx.where(z > 0.5, z, x) * 0.25 - y
    return afx.sum(w * z), w


@pytest.mark.parametrize("shape", [(3, 5), (300, 400)], ids=["small", "in blocks"])
@pytest.mark.parametrize("seed", range(30))
def test_a_plan_computes_what_the_ops_compute(seed: int, shape: tuple[int, int]) -> None:
    """A jitted random program gives the values of its plain run, call after call."""
    fn = program(seed)
    compiled = afx.jit(fn)
    with np.errstate(all="ignore"):
        for k in range(2):
            xs = inputs(seed + k, shape, dtype="float64")
            for found, wanted in zip(compiled(*xs), fn(*xs), strict=True):
                a, b = np.asarray(found), np.asarray(wanted)
                assert a.dtype == b.dtype
                scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * scale)


@use_target(small_blocks(fuse_min_elements=16, block_max_bytes=64))
@together("seed", range(60))
def test_tiny_blocks_compute_what_the_ops_compute(seed: int) -> None:
    """However small the blocks of rows and elements are, a plan gives the values of the plain run."""
    fn = program(seed, 20)
    compiled = afx.jit(fn)
    with np.errstate(all="ignore"):
        for k in range(2):
            xs = inputs(seed + k, (12, 7), dtype="float64")
            for found, wanted in zip(compiled(*xs), fn(*xs), strict=True):
                b = np.asarray(wanted)
                scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
                np.testing.assert_allclose(found, b, rtol=1e-8, atol=1e-9 * scale)


@use_target(small_blocks(fuse_min_elements=16, block_max_bytes=2000))
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (1, 2)])
def test_examples_in_blocks_compute_what_the_ops_compute(padding: Any, stride: int, groups: int) -> None:
    """Convolutions and pooling, forward and backward, run a few examples at a time and give the same values."""
    rng = np.random.default_rng(0)
    x, kernel, bias = rng.normal(size=(10, 8, 8, 4)), rng.normal(size=(3, 3, 4 // groups, 6)), rng.normal(size=6)

    def loss(x: Any, kernel: Any, bias: Any) -> Array:
        y = nn.conv(x, kernel, stride=stride, padding=padding, groups=groups) + bias
        y = nn.max_pool(nn.relu(y), 2, stride=1)
        return afx.sum(nn.softmax(afx.mean(y, axis=(1, 2))) * afx.arange(6) ** 2)

    found = afx.jit(afx.value_and_grad(loss, (0, 1, 2)))
    value, grads = found(x, kernel, bias)
    wanted, slopes = afx.value_and_grad(loss, (0, 1, 2))(x, kernel, bias)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for a, b in zip(grads, slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    if importlib.util.find_spec("threadpoolctl") is not None:
        text = found.lower(x, kernel, bias).plan.source
        assert "conv_" not in text[text.index("def run(") :]


@use_target(small_blocks(fuse_min_elements=1, block_max_bytes=64))
@pytest.mark.parametrize("donated", [(), (0,)])
def test_reshaped_results_of_blocks_are_computed_in_place(donated: tuple[int, ...]) -> None:
    """What is reshaped into a result of a region is written there at once, and never over what is still read."""

    def fn(x: Array) -> tuple[Array, ...]:
        y = afx.sin(x).reshape(12, 2, 3)
        z = (y * 2.0).reshape(12, 6)
        return (
            y,
            z,
            afx.cos(x) + z,
            (z + x).reshape(12, 3, 2).reshape(12, 6, 1),
            afx.exp(y).reshape(12, 6).reshape(12, 2, 3),
        )

    x = afx.asarray(np.random.default_rng(0).normal(size=(12, 6)))
    wanted = fn(x)
    compiled = afx.jit(fn, donate_argnums=donated)
    assert "[...]" not in compiled.lower(x).plan.source
    for found, want in zip(compiled(x + 0.0), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-14)


def test_results_share_no_memory_with_buffers_or_arguments() -> None:
    """A later call changes no earlier result, also where an argument or a view is returned."""
    fn = afx.jit(
        lambda x: (x, x.reshape(-1), afx.sin(x).reshape(-1)[1:3], (x * 2).T, afx.broadcast_to(x * 3, (2, 2, 3)))
    )
    x = np.arange(6.0).reshape(2, 3)
    first = fn(x)
    kept = [np.array(a) for a in first]
    assert not any(np.shares_memory(np.asarray(a), x) for a in first)
    fn(x + 1)
    for a, b in zip(first, kept, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)


SAME: dict[str, Callable[[Array], Array]] = {
    "stop_gradient": afx.stop_gradient,
    "roll": lambda x: afx.roll(x, x.shape[-1], axis=-1),
    "an axis of one": lambda x: afx.roll(x[..., None], 1, axis=-1)[..., 0],
    "round": lambda x: afx.round(x.astype(int)),
    "scan": lambda x: afx.scan(lambda c, u: (afx.roll(c + u, 0), c), x, afx.stack([x, x]))[1],
}


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 3)])
@pytest.mark.parametrize("name", SAME)
def test_ops_that_return_their_operand_share_its_place(name: str, shape: tuple[int, ...]) -> None:
    """Its memory is not free while the result is read, and results have memory of their own."""
    same = SAME[name]

    def fn(x: Array) -> tuple[Array, Array]:
        y = same(x * 2)
        return y, same(x * 3) * afx.sum(x) + afx.sum(y * x)

    x = afx.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    compiled = afx.jit(fn)
    first, second = compiled(x)
    held = np.asarray(first).copy()
    compiled(x + 4)
    for found, want in zip((first, second, held), (*fn(x), fn(x)[0]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_memory_of_results_is_used_again_only_when_nobody_holds_it() -> None:
    """Large results stay as they are as long as an Array or a view of it lives; then their memory is used again."""
    fn = afx.jit(lambda x: afx.sin(x) + x)
    x = np.linspace(0.0, 1.0, 100_000)
    held = fn(x)
    view = np.asarray(fn(x * 2))[10:20]
    copies = np.array(held), view.copy()
    for k in range(5):
        fn(x * k)
    np.testing.assert_array_equal(np.asarray(held), copies[0])
    np.testing.assert_array_equal(view, copies[1])


def test_the_arena_is_as_small_as_the_widest_point() -> None:
    """A long chain of small values needs two buffers, not one for each."""

    def fn(x: Array) -> Array:
        y = x
        for _ in range(50):
            y = afx.sin(y) @ x
        return y

    plan = afx.jit(fn).lower(np.ones((8, 8))).plan
    assert plan.memory <= 1.1 * plan.widest <= 1.1 * 2 * 8 * 8 * 8


def test_an_arena_takes_back_what_it_gave() -> None:
    """Pieces that are free together are handed out again as one."""
    arena = Arena()
    a, b, c = (arena.take(100) for _ in range(3))
    arena.give(a, 100)
    arena.give(b, 100)
    assert arena.take(200) == a
    arena.give(c, 100)
    assert arena.size == 384
    assert arena.widest == 384


def test_the_source_is_python() -> None:
    """The source of a plan names each call of NumPy and the memory it writes."""
    source = afx.jit(lambda x: afx.sum(afx.sin(x) * 2.0)).lower(np.ones(3)).plan.source
    compile(source, "plan", "exec")
    assert "np_sin = np.sin" in source
    assert "np_sin(a, b)" in source


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    """Blocks and sums are split in the same way for any number of threads."""
    x, y = inputs(1, (500, 601))
    before, found = get_threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append([np.array(v) for v in afx.jit(chain)(x, y)])
    finally:
        set_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_can_call_one_function() -> None:
    """Each call works in memory of its own."""
    fn = afx.jit(chain)
    cases = [inputs(k, (300, 200)) for k in range(4)]
    wanted = [np.array(chain(*xs)[1]) for xs in cases]
    right: list[bool] = []

    def work(k: int) -> None:
        right.extend([np.allclose(np.asarray(fn(*cases[k])[1]), wanted[k], atol=1e-6) for _ in range(10)])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert right == [True] * 40


def test_an_error_in_a_block_reaches_the_caller() -> None:
    """Whichever thread meets it; the next call works."""
    x = np.full(400_000, -1.0)
    fn = afx.jit(lambda x: afx.sum(afx.log(x) * x))
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        fn(x)
    np.testing.assert_allclose(float(fn(-x)), 0.0)


def test_an_interrupt_leaves_a_function_usable() -> None:
    """After an interrupt in a block no thread still writes, and the next call is right."""
    calls = itertools.count()

    def block(k: int, start: int, stop: int, _own: tuple[Any, ...], out: Any) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        out[start:stop] = k

    out = np.zeros(100)
    with pytest.raises(KeyboardInterrupt):
        run_blocks(block, 100, 10, [(), ()], (out,))
    run_blocks(block, 100, 10, [(), ()], (out,))
    np.testing.assert_array_equal(out, np.repeat(np.arange(10.0), 10))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: afx.sum(x) * x + afx.sum(x * 2),
        lambda x: x / afx.max(x * x) - afx.min(-x) * afx.sin(x),
        lambda x: (x - afx.mean(x)) / afx.sqrt(afx.mean((x - afx.mean(x)) ** 2)),
        lambda x: afx.cumulative_sum(x * 2.0) * x + afx.sin(x * 2.0),
    ],
)
def test_sums_between_regions_are_waited_for(fn: Callable[[Array], Array]) -> None:
    """What depends on a sum over all blocks runs after it."""
    x = np.random.default_rng(0).normal(size=100_000)
    np.testing.assert_allclose(np.asarray(afx.jit(fn)(x)), np.asarray(fn(afx.asarray(x))), rtol=1e-9, atol=1e-9)


def test_a_plan_runs_a_graph() -> None:
    """`make_plan` needs no simplification before."""
    graph = afx.trace(chain)(*inputs(0))
    for found, wanted in zip(make_plan(graph)(*[x.numpy() for x in inputs(0)]), chain(*inputs(0)), strict=True):
        np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-6)


@use_target(Target(function_max_lines=2))
@pytest.mark.parametrize("seed", range(20))
def test_a_plan_of_several_functions_computes_the_same(seed: int) -> None:
    """Where a plan is cut into functions changes no value, and nothing of a call stays behind."""
    fn, xs = program(seed), inputs(seed, dtype="float64")
    compiled = afx.jit(fn)
    with np.errstate(all="ignore"):
        for _ in range(2):
            for found, wanted in zip(compiled(*xs), fn(*xs), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_long_plan_keeps_none_of_its_values() -> None:
    """A plan of thousands of lines frees its arguments and results, is freed itself, and works after an error."""

    def chain(x: Array) -> Array:
        for _ in range(3000):
            x = afx.sin(x) * 0.99
        return x

    fn = afx.jit(chain)
    x = afx.ones(3)
    wanted = np.asarray(chain(x))
    np.testing.assert_allclose(fn(x), wanted, rtol=1e-6)
    seen = weakref.ref(x)
    plan = weakref.ref(fn.lower(x).plan)
    del x
    assert seen() is None
    del fn
    assert plan() is None


def test_reshaped_values_give_their_memory_back_to_the_region() -> None:
    """Blocks of a long chain of reshapes need no more memory than those of a short one."""

    def fn(x: Array, n: int) -> Array:
        for _ in range(n):
            x = nn.softmax(afx.sin(x).reshape(400, 500, 2)).reshape(400, 1000) * 1.5
        return x

    x = np.ones((400, 1000), np.float32)
    compiled = afx.jit(fn, static_argnums=1)
    scratch = [compiled.lower(x, n).plan.scratch for n in (2, 8)]
    assert scratch[0] == scratch[1]
    np.testing.assert_allclose(compiled(x, 8), fn(afx.asarray(x), 8), rtol=1e-5)


def test_derived_programs_are_bounded() -> None:
    """Batches of ever new sizes do not pile up."""
    fn = afx.jit(lambda v: v * 2)
    for size in range(1, 300):
        afx.vmap(fn)(np.ones((size, 2), np.float32))
    info = afx.vmap(fn).__dict__["_jitted"].cache_info()
    assert info.entries <= info.max_entries == 256


def test_costs_are_those_of_the_ops() -> None:
    """Convolutions count products and sums, loops their steps, branches the dearest one."""
    conv = afx.jit(nn.conv).lower(np.ones((2, 8, 8, 3)), np.ones((3, 3, 3, 4)))
    assert conv.flops == 2 * (2 * 6 * 6 * 4) * 27
    loop = afx.jit(lambda x: afx.scan(lambda c, _: (c * 2, None), x, None, 10)[0]).lower(np.ones(3))
    assert loop.flops == 30
    branch = afx.jit(lambda x: afx.cond(x[0] > 0, lambda x: x * 2 + 1, lambda x: x * 2, x)).lower(np.ones(3))
    assert branch.flops == 2 * 3 + 1
