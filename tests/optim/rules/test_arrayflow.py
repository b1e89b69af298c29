"""The paper's optimizer: inertia, and a step size that follows the loss."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors, optim
from tests.every import together
from tests.optim import oracles


def bowl(x: Array) -> Array:
    """A long narrow valley."""
    return afx.sum(x**2 * np.array([1.0, 20.0]))


def bowl_numpy(x: Any) -> tuple[float, Any]:
    """Its value and gradient in NumPy."""
    weights = np.array([1.0, 20.0])
    return float(np.sum(x**2 * weights)), 2 * weights * x


def waves(x: Array) -> Array:
    """A wavy slope, whose loss falls and rises."""
    return afx.sum(afx.sin(3.0 * x) + 0.1 * x**2)


def waves_numpy(x: Any) -> tuple[float, Any]:
    """Its value and gradient in NumPy."""
    return float(np.sum(np.sin(3.0 * x) + 0.1 * x**2)), 3.0 * np.cos(3.0 * x) + 0.2 * x


STEPS = 40  # after that the losses differ by rounding alone, and so do the signs of their differences


@together(("loss", "oracle"), [(bowl, bowl_numpy), (waves, waves_numpy)])
@together("compiled", [False, True])
@together(("s", "beta", "window"), [(0.02, 0.05, 10), (0.05, 0.4, 3), (0.3, 1.0, 1)])
def test_steps_are_algorithm_1(
    loss: Callable[[Array], Array], oracle: Any, compiled: bool, s: float, beta: float, window: int
) -> None:
    """Parameters, step size and growth follow the algorithm step by step, eagerly and compiled."""
    optimizer = optim.arrayflow(s, beta=beta, window=window)

    def step(x: Array, state: optim.ArrayflowState[Array]) -> tuple[Array, optim.ArrayflowState[Array]]:
        value, grads = afx.value_and_grad(loss)(x)
        return optimizer.step(x, grads, state, value=value)

    run = afx.jit(step) if compiled else step
    start = np.array([1.5, -0.7])
    x, state = afx.asarray(start), optimizer.init(afx.asarray(start))
    for wanted, size, growing in oracles.arrayflow(start, oracle, STEPS, s, beta, window):
        x, state = run(x, state)
        np.testing.assert_allclose(float(state.learning_rate), size, rtol=1e-12)
        assert bool(state.growing) is growing
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-6, atol=1e-9)


def sizes(losses: list[float], s: float = 1.0, window: int = 1) -> list[float]:
    """Return the step size after each of these losses."""
    optimizer = optim.arrayflow(s, window=window)
    params, state = afx.zeros(1), optimizer.init(afx.zeros(1))
    found = list[float]()
    for loss in losses:
        params, state = optimizer.step(params, afx.zeros(1), state, value=loss)
        found.append(float(state.learning_rate))
    return found


def test_step_size_stays_while_the_loss_does() -> None:
    """Equal losses neither grow nor shrink the step, whatever rounding makes of thirds."""
    for loss in (0.1, 1.0, 1e10, 1 / 3, -7.7):
        assert sizes([loss] * 30, window=7) == [1.0] * 30


def test_step_size_grows_while_the_loss_falls() -> None:
    """From the second loss on, a falling loss lets the step grow by 2 percent a step."""
    falling = [10.0 - t for t in range(20)]
    np.testing.assert_allclose(sizes(falling), 1.02 ** np.arange(20), rtol=1e-12)


def test_step_size_never_grows_again_after_the_loss_has_risen() -> None:
    """A loss that rises ever faster shrinks the step by 1 percent; when it falls again, the step stays."""
    found = sizes([1.0, 2.0, 4.0, 8.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.2, 0.1])
    np.testing.assert_allclose(found[:5], 0.99 ** np.arange(5), rtol=1e-12)
    assert found[-1] == min(found)
    assert all(b <= a for a, b in itertools.pairwise(found))


def test_first_loss_fills_the_queues() -> None:
    """After the first step all remembered losses and averages are that loss."""
    optimizer = optim.arrayflow(window=5)
    _, state = optimizer.step(afx.zeros(1), afx.ones(1), optimizer.init(afx.zeros(1)), value=3.5)
    np.testing.assert_array_equal(np.asarray(state.losses), np.full(5, 3.5))
    np.testing.assert_array_equal(np.asarray(state.averages), np.full(4, 3.5))


def test_inertia_starts_from_nothing() -> None:
    """The first direction is beta times the gradient."""
    optimizer = optim.arrayflow(0.5, beta=0.25)
    params, state = optimizer.step(afx.zeros(2), afx.asarray([1.0, -2.0]), optimizer.init(afx.zeros(2)), value=0.0)
    np.testing.assert_array_equal(np.asarray(state.direction), [0.25, -0.5])
    np.testing.assert_array_equal(np.asarray(params), [-0.125, 0.25])


def test_defaults_are_the_original_programs() -> None:
    """s₀ = 1e-5, β = 0.05 and a window of 10."""
    assert optim.arrayflow() == optim.Arrayflow(1e-5, beta=0.05, window=10)


def test_loss_is_needed() -> None:
    """A step without the loss says how to give it; a loss that is no real scalar is refused."""
    optimizer = optim.arrayflow()
    x, state = afx.zeros(2), optimizer.init(afx.zeros(2))
    with pytest.raises(errors.ArgumentError, match=r"step\(\.\.\., value=loss\)"):
        optimizer.step(x, x, state)
    with pytest.raises(errors.ShapeError, match=r"value=float32\[2\]"):
        optimizer.step(x, x, state, value=x)
    with pytest.raises(errors.DtypeError, match="real"):
        optimizer.step(x, x, state, value=1j)


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_loss_that_is_not_finite_moves_no_step_size(loss: float) -> None:
    """A loss of nan or inf stays visible in the state, and the step size waits for better ones."""
    with np.errstate(invalid="ignore"):
        optimizer = optim.arrayflow(1.0, window=2)
        state = optimizer.init(afx.zeros(1))
        for value in (1.0, loss):
            _, state = optimizer.step(afx.zeros(1), afx.zeros(1), state, value=value)
    assert not np.isfinite(np.asarray(state.losses)).all()
    if np.isnan(loss):
        assert float(state.learning_rate) == 1.0
