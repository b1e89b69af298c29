"""Each optimizer takes the steps of its paper, computed by NumPy in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim
from tests.every import together
from tests.optim import oracles

STEPS = 60


def constant(step: int) -> float:
    """Return the same learning rate at all steps."""
    return 0.05 + 0 * step


def falling(step: int) -> float:
    """Return a learning rate that falls."""
    return 0.2 * 0.9**step


CASES: dict[str, tuple[optim.Optimizer[Any], Callable[[Any, Any], oracles.Path]]] = {
    "sgd": (optim.sgd(0.05), lambda x, g: oracles.sgd(x, g, constant)),
    "sgd, falling rate": (
        optim.sgd(optim.exponential_decay(0.2, 0.9, 1)),
        lambda x, g: oracles.sgd(x, g, falling),
    ),
    "momentum": (optim.sgd(0.05, momentum=0.9), lambda x, g: oracles.sgd(x, g, constant, 0.9)),
    "nesterov": (
        optim.sgd(0.05, momentum=0.9, nesterov=True),
        lambda x, g: oracles.sgd(x, g, constant, 0.9, nesterov=True),
    ),
    "adam": (optim.adam(0.05), lambda x, g: oracles.adam(x, g, constant, 0.9, 0.999, 1e-8)),
    "adam, falling rate": (
        optim.adam(optim.exponential_decay(0.2, 0.9, 1), b1=0.0, b2=0.5, eps=0.1),
        lambda x, g: oracles.adam(x, g, falling, 0.0, 0.5, 0.1),
    ),
    "adamw": (
        optim.adamw(0.05, b1=0.7, weight_decay=0.3),
        lambda x, g: oracles.adam(x, g, constant, 0.7, 0.999, 1e-8, 0.3),
    ),
    "rmsprop": (optim.rmsprop(0.05), lambda x, g: oracles.rmsprop(x, g, constant, 0.99, 1e-8)),
    "rmsprop with momentum": (
        optim.rmsprop(0.05, decay=0.8, momentum=0.5),
        lambda x, g: oracles.rmsprop(x, g, constant, 0.8, 1e-8, 0.5),
    ),
    "centred rmsprop": (
        optim.rmsprop(0.05, eps=1e-2, momentum=0.5, centered=True),
        lambda x, g: oracles.rmsprop(x, g, constant, 0.99, 1e-2, 0.5, centered=True),
    ),
}


def drawn(rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """Draw a start, and gradients of very different sizes, some of them 0."""
    grads = [rng.normal(size=4) * 10.0 ** rng.integers(-4, 3, size=4) * (rng.random(4) < 0.9) for _ in range(STEPS)]
    return rng.normal(size=4), grads


@together("name", CASES)
@together(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_steps_are_the_papers(name: str, dtype: Any, tolerance: float, rng: np.random.Generator) -> None:
    """After every step the parameters are where the formulas lead, to rounding in the parameters' dtype."""
    optimizer, oracle = CASES[name]
    start, grads = drawn(rng)
    start, grads = start.astype(dtype).astype(float), [g.astype(dtype).astype(float) for g in grads]
    params = afx.asarray(start.astype(dtype))
    state = optimizer.init(params)
    for g, wanted in zip(grads, oracle(start, grads), strict=True):
        params, state = optimizer.step(params, afx.asarray(g.astype(dtype)), state)
        assert params.dtype == dtype
        size = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(np.asarray(params), wanted, rtol=tolerance, atol=tolerance * size)


def test_states_show_what_the_formulas_have(rng: np.random.Generator) -> None:
    """Named fields of the states hold the averages of the papers, the count and the learning rate."""
    g, h = rng.normal(size=3), rng.normal(size=3)

    def after_two(optimizer: optim.Optimizer[Any]) -> Any:
        params, state = afx.zeros(3, np.float64), optimizer.init(afx.zeros(3, np.float64))
        for slope in (g, h):
            params, state = optimizer.step(params, afx.asarray(slope), state)
        return state

    adam = after_two(optim.adam(optim.linear(0.1, 0.0, 10), b1=0.8, b2=0.6))
    np.testing.assert_allclose(np.asarray(adam.mu), 0.8 * 0.2 * g + 0.2 * h, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(adam.nu), 0.6 * 0.4 * g**2 + 0.4 * h**2, rtol=1e-14)
    assert float(adam.count) == 2
    assert float(adam.learning_rate) == pytest.approx(0.09, rel=1e-15)
    momentum = after_two(optim.sgd(0.1, momentum=0.9))
    np.testing.assert_allclose(np.asarray(momentum.velocity), 0.9 * g + h, rtol=1e-14)
    rmsprop = after_two(optim.rmsprop(0.1, decay=0.9, centered=True))
    np.testing.assert_allclose(np.asarray(rmsprop.mean), 0.9 * 0.1 * g + 0.1 * h, rtol=1e-14)
    assert rmsprop.velocity is None


def test_first_step_of_adam_has_the_size_of_the_learning_rate() -> None:
    """Whatever the size of the gradient, from 1e-12 to 1e12, Adam's first step is the learning rate long."""
    g = afx.asarray(10.0 ** np.arange(-12, 13, 4))
    optimizer = optim.adam(0.01, eps=1e-30)
    params, _ = optimizer.step(afx.zeros(7, np.float64), g, optimizer.init(afx.zeros(7, np.float64)))
    np.testing.assert_allclose(np.asarray(params), -0.01, rtol=1e-12)


def test_ten_thousand_steps_of_adam_keep_the_bias_correction_exact() -> None:
    """Under a constant gradient Adam's step stays the learning rate: the corrections do not lose digits."""
    optimizer = optim.adam(1.0)
    step = afx.jit(optimizer.step)
    params, state = afx.zeros(1, np.float64), optimizer.init(afx.zeros(1, np.float64))
    for _ in range(10_000):
        params, state = step(params, afx.ones(1, np.float64), state)
    assert float(params[0]) == pytest.approx(-10_000, rel=1e-7)


def test_centred_rmsprop_survives_a_constant_gradient() -> None:
    """Rounding brings the centred mean square below 0; the steps stay finite all the same."""
    optimizer = optim.rmsprop(1e-3, decay=0.5, eps=1e-3, centered=True)
    params, g = afx.zeros(64), afx.asarray(np.linspace(0.1, 3.0, 64, dtype=np.float32))
    state = optimizer.init(params)
    for _ in range(80):
        params, state = optimizer.step(params, g, state)
    assert bool(afx.all(afx.isfinite(params)))
    np.testing.assert_array_less(np.asarray(params), 0.0)
