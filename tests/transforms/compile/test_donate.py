"""Arguments that are donated: their memory takes results, and nothing that others see changes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, optim
from afx.errors import ArgumentError, OperandError


def fresh(size: int = 100_000, seed: int = 0) -> Array:
    """Return numbers in memory that nothing else sees."""
    return afx.asarray(np.random.default_rng(seed).normal(size=size).astype(np.float32)) + 0.0


def memory_of(x: Array) -> int:
    """Return where an array's elements lie."""
    place: int = x._value.ctypes.data
    return place


def update(p: Array, g: Array) -> Array:
    """Take a step."""
    return p - 0.1 * afx.sin(g) * p


@pytest.mark.parametrize("size", [7, 100_000], ids=["small", "in blocks"])
def test_a_result_takes_the_memory_of_an_argument(size: int) -> None:
    """The values are those of the plain function, in the memory that was donated."""
    p, g = fresh(size), fresh(size, 1)
    wanted, place = np.asarray(update(p, g)).copy(), memory_of(p)
    found = afx.jit(update, donate_argnums=0)(p, g)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert memory_of(found) == place


def test_what_was_given_away_says_so() -> None:
    """Every use of it raises, with the way out; its repr does not."""
    p = fresh()
    afx.jit(update, donate_argnums=0)(p, fresh())
    uses: list[Any] = [
        lambda: p + 1,
        lambda: np.asarray(p),
        lambda: p.shape,
        lambda: afx.sin(p),
        lambda: float(p),
        lambda: p[0],
    ]
    for use in uses:
        with pytest.raises(OperandError, match="donate_argnums"):
            use()
    assert "donated" in repr(p)


def test_memory_that_others_see_is_left_alone() -> None:
    """Views by NumPy, a second argument of the same memory, and the caller's own array keep their values."""
    step = afx.jit(update, donate_argnums=0)
    p = fresh()
    seen = np.asarray(p)
    before = seen.copy()
    step(p, fresh(seed=1))
    np.testing.assert_array_equal(seen, before)
    mine = np.ones(100_000, np.float32)
    for _ in range(2):
        step(mine, fresh(seed=1))
    np.testing.assert_array_equal(mine, 1)
    both = fresh()
    wanted = np.asarray(update(both, both)).copy()
    np.testing.assert_allclose(step(both, both), wanted, rtol=1e-6)


def test_a_value_that_is_read_later_is_not_overwritten() -> None:
    """An argument is written only after its last use."""
    fn = lambda p: (p * 2, afx.cumulative_sum(p) + p[::-1])
    p = fresh()
    wanted = [np.asarray(v).copy() for v in fn(p)]
    for found, value in zip(afx.jit(fn, donate_argnums=0)(p), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)


def test_training_in_the_memory_of_parameters_and_state() -> None:
    """Steps that give both away are those of the plain steps, and need no memory for either."""
    rule = optim.adam(1e-2)
    gradient = fresh(seed=1)
    step = afx.jit(lambda p, g, s: rule.step(p, g, s), donate_argnums=(0, 2))
    params, plain = fresh(), fresh()
    state, other = rule.init(params), rule.init(plain)
    for _ in range(3):
        params, state = step(params, gradient, state)
        plain, other = rule.step(plain, gradient, other)
    place = memory_of(params), memory_of(state.mu), memory_of(state.nu)
    params, state = step(params, gradient, state)
    plain, other = rule.step(plain, gradient, other)
    assert {memory_of(params), memory_of(state.mu), memory_of(state.nu)} == set(place)
    np.testing.assert_allclose(params, plain, rtol=1e-5, atol=1e-6)


def test_training_many_leaves() -> None:
    """Small and large parameters train alike, whether donated or not."""
    rule = optim.adam(1e-2)

    def step(p: Any, s: Any) -> Any:
        grads = afx.grad(lambda p: sum(afx.sum(afx.sin(x) ** 2) for x in p.values()))(p)
        return rule.step(p, grads, s)

    params = {f"p{k}": fresh(size, k) for k, size in enumerate((3, 50_000, 40_000, 10))}
    plain = {k: x + 0.0 for k, x in params.items()}
    state, other = rule.init(params), rule.init(plain)
    giving = afx.jit(step, donate_argnums=(0, 1))
    for _ in range(4):
        params, state = giving(params, state)
        plain, other = step(plain, other)
    for found, wanted in zip(params.values(), plain.values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_inside_another_transformation_nothing_is_given_away() -> None:
    """Under grad the argument stays usable."""
    step = afx.jit(update, donate_argnums=0)
    p, g = fresh(5), fresh(5, 1)
    found = afx.grad(lambda p: afx.sum(step(p, g)))(p)
    np.testing.assert_allclose(found, 1 - 0.1 * np.sin(np.asarray(g)), rtol=1e-6)
    assert p.shape == (5,)


def test_static_arguments_beside_it() -> None:
    """Positions count all arguments; a static one cannot be donated."""
    step = afx.jit(lambda k, p: p * k, static_argnums=0, donate_argnums=1)
    p = fresh()
    place = memory_of(p)
    assert memory_of(step(2, p)) == place
    with pytest.raises(ArgumentError, match="not static"):
        afx.jit(update, static_argnums=0, donate_argnums=0)


def test_loops_in_python_hold_what_their_steps_give_away() -> None:
    """A step of ``scan``, ``fori_loop`` or ``while_loop`` may donate the carry: the first one stays usable."""
    step = afx.jit(lambda c, x: c + x, donate_argnums=0)
    loops: list[Any] = [
        lambda c: afx.scan(lambda c, x: (step(c, x), c), c, np.ones((4, 1), np.float32)),
        lambda c: afx.fori_loop(0, 4, lambda k, c: step(c, 1.0), c),
        lambda c: afx.while_loop(lambda c: c[0] < 4, lambda c: step(c, 1.0), c),
    ]
    for loop in loops:
        c = afx.zeros(3)
        np.testing.assert_array_equal(afx.pytree.leaves(loop(c))[0], [4.0, 4.0, 4.0])
        np.testing.assert_array_equal(c, np.zeros(3))
    np.testing.assert_array_equal(loops[0](afx.zeros(3))[1][:, 0], [0.0, 1.0, 2.0, 3.0])


def test_a_loop_that_breaks_off_gives_back_what_a_step_donated() -> None:
    """Whatever ends it, an interrupt too, the carry that was passed stays usable."""
    step = afx.jit(lambda c: c + 1, donate_argnums=0)

    def broken(_: Any, c: Any) -> Any:
        step(c)
        raise KeyboardInterrupt

    c = afx.zeros(3)
    with pytest.raises(KeyboardInterrupt):
        afx.fori_loop(0, 4, broken, c)
    np.testing.assert_array_equal(c, np.zeros(3))
