"""Schedules are pure functions of the number of steps taken."""

import math
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors, optim
from tests.every import together


def at(schedule: Any, *counts: float) -> list[float]:
    """Return a schedule's values, given counts as states hold them."""
    return [float(schedule(afx.asarray(np.float64(c)))) for c in counts]


def test_constant() -> None:
    """It is the same at all steps."""
    assert at(optim.constant(0.3), 0, 1, 1e9) == [0.3] * 3


def test_linear() -> None:
    """It goes from start to end in equal steps, up or down, and stays there."""
    np.testing.assert_allclose(at(optim.linear(1.0, 0.2, 4), 0, 1, 2, 4, 5, 100), [1.0, 0.8, 0.6, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(at(optim.linear(0.0, 1.0, 2), 0, 1, 2, 3), [0.0, 0.5, 1.0, 1.0])


def test_exponential_decay() -> None:
    """It is multiplied by the rate over so many steps, smoothly or at once."""
    counts = np.arange(0, 25, 3)
    np.testing.assert_allclose(at(optim.exponential_decay(0.5, 0.1, 10), *counts), 0.5 * 0.1 ** (counts / 10))
    steps = at(optim.exponential_decay(0.5, 0.1, 10, staircase=True), 0, 9, 10, 19, 20)
    np.testing.assert_allclose(steps, [0.5, 0.5, 0.05, 0.05, 0.005])


def test_cosine_decay() -> None:
    """It falls along half a cosine to alpha times its start, and stays there."""
    found = at(optim.cosine_decay(0.4, 8, alpha=0.25), *range(12))
    wanted = [0.1 + 0.3 * (1 + math.cos(math.pi * min(t, 8) / 8)) / 2 for t in range(12)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_warmup_cosine() -> None:
    """It rises in a line, then falls along half a cosine."""
    found = at(optim.warmup_cosine(1.0, 4, 12, start=0.2, end=0.1), *range(15))
    rise = [0.2 + 0.2 * t for t in range(4)]
    fall = [0.1 + 0.9 * (1 + math.cos(math.pi * min(t - 4, 8) / 8)) / 2 for t in range(4, 15)]
    np.testing.assert_allclose(found, rise + fall, rtol=1e-14)


def test_piecewise_constant() -> None:
    """It is multiplied by each factor from its step on, in whatever order they are given."""
    schedule = optim.piecewise_constant(1.0, {20: 0.1, 5: 0.5})
    np.testing.assert_allclose(at(schedule, 0, 4, 5, 19, 20, 99), [1.0, 1.0, 0.5, 0.5, 0.05, 0.05], rtol=1e-14)


def test_polynomial() -> None:
    """It falls as a power of what is left of the steps, from a later step on."""
    found = at(optim.polynomial(0.5, 0.1, 3.0, 10, begin=2), 0, 2, 7, 12, 20)
    np.testing.assert_allclose(found, [0.5, 0.5, 0.1 + 0.4 / 8, 0.1, 0.1], rtol=1e-14)


def test_exponential_decay_begins_and_ends_where_it_is_told() -> None:
    """It stays at its start before, and at its end, which a growing one has above."""
    falling = optim.exponential_decay(1.0, 0.5, 2, begin=4, end=0.3)
    np.testing.assert_allclose(at(falling, 0, 4, 6, 8, 50), [1.0, 1.0, 0.5, 0.3, 0.3], rtol=1e-14)
    np.testing.assert_allclose(at(optim.exponential_decay(1.0, 2.0, 1, end=5.0), 0, 2, 3), [1.0, 4.0, 5.0])


def test_cosine_decay_with_exponent() -> None:
    """The cosine's part is raised to the exponent."""
    wanted = 0.4 * (0.75 * (0.5 * (1 + math.cos(math.pi * 3 / 8))) ** 2 + 0.25)
    assert at(optim.cosine_decay(0.4, 8, alpha=0.25, exponent=2.0), 3)[0] == pytest.approx(wanted, rel=1e-14)


def test_warm_up_of_any_schedule_and_join() -> None:
    """A warm-up rises to the first value; joined schedules count from their own starts."""
    warm = optim.warmup(optim.exponential_decay(0.8, 0.5, 2), 4, start=0.4)
    np.testing.assert_allclose(at(warm, 0, 1, 2, 4, 6, 8), [0.4, 0.5, 0.6, 0.8, 0.4, 0.2], rtol=1e-14)
    joined = optim.join([optim.constant(1.0), optim.linear(2.0, 0.0, 4), optim.constant(7.0)], [3, 5])
    np.testing.assert_allclose(at(joined, 0, 2, 3, 4, 5, 99), [1.0, 1.0, 2.0, 1.5, 7.0, 7.0], rtol=1e-14)


def test_inverse_square_root() -> None:
    """It rises in a line to its peak, then falls as one over the root."""
    found = at(optim.inverse_sqrt(0.6, 4), 0, 2, 4, 16, 36)
    np.testing.assert_allclose(found, [0.0, 0.3, 0.6, 0.3, 0.2], rtol=1e-14)


@pytest.mark.parametrize("growth", [1.0, 2.0, 1.5])
def test_cosine_restarts(growth: float) -> None:
    """Each period falls along half a cosine and is longer than the last; restarts meet their steps exactly."""
    wanted, place, length = list[float](), 0.0, 4.0
    for t in range(60):
        if t >= place + length:
            place, length = place + length, length * growth
        wanted.append(0.1 + 0.4 * (1 + math.cos(math.pi * (t - place) / length)) / 2)
    np.testing.assert_allclose(
        at(optim.cosine_restarts(0.5, 4, growth=growth, end=0.1), *range(60)), wanted, rtol=1e-12
    )


def test_one_cycle() -> None:
    """Up to the peak, back to the start, and far below it: in Optax's steps and in torch's."""
    found = at(
        optim.one_cycle(1.0, 20, rise=0.25, fall=0.75, div_factor=4.0, final_div_factor=10.0, shape="linear"),
        0,
        5,
        10,
        15,
        20,
    )
    np.testing.assert_allclose(found, [0.25, 1.0, 0.625, 0.25, 0.025], rtol=1e-14)
    found = at(optim.one_cycle(1.0, 21, rise=0.25, div_factor=4.0, inclusive=True), 0, 2.125, 4.25, 20)
    np.testing.assert_allclose(found, [0.25, 0.625, 1.0, 0.25e-4], rtol=1e-12)
    middle = at(optim.one_cycle(1.0, 20, rise=0.25, div_factor=4.0), 12.5)[0]
    assert middle == pytest.approx((1 + 0.25e-4) / 2, rel=1e-12)


SCHEDULES: dict[str, optim.Schedule] = {
    "polynomial": optim.polynomial(0.1, 0.01, 2.0, 7),
    "exponential with end": optim.exponential_decay(0.1, 0.3, 3, begin=2, end=0.05),
    "warm-up of any": optim.warmup(optim.linear(0.1, 0.01, 7), 3, start=0.05),
    "joined": optim.join([optim.constant(0.1), optim.linear(0.05, 0.01, 7)], [4]),
    "inverse square root": optim.inverse_sqrt(0.1, 3),
    "restarts": optim.cosine_restarts(0.1, 3, growth=2.0, end=0.01),
    "one cycle": optim.one_cycle(0.1, 9),
    "constant": optim.constant(0.1),
    "linear": optim.linear(0.1, 0.01, 7),
    "exponential": optim.exponential_decay(0.1, 0.3, 3),
    "staircase": optim.exponential_decay(0.1, 0.3, 3, staircase=True),
    "cosine": optim.cosine_decay(0.1, 7),
    "warm-up": optim.warmup_cosine(0.1, 3, 7),
    "piecewise": optim.piecewise_constant(0.1, {2: 0.5, 4: 0.3}),
}


@together("name", SCHEDULES)
def test_learning_rates_are_float64_and_compile(name: str) -> None:
    """In a state the learning rate keeps the digits of float64; compiled steps follow the schedule without new traces."""
    schedule = SCHEDULES[name]
    optimizer = optim.sgd(schedule)
    traced = list[int]()

    @afx.jit
    def step(x: Array, state: optim.SgdState[Array]) -> tuple[Array, optim.SgdState[Array]]:
        traced.append(1)
        return optimizer.step(x, afx.ones(2), state)

    x, state = afx.zeros(2), optimizer.init(afx.zeros(2))
    assert float(state.learning_rate) == at(schedule, 0)[0]
    for k in range(10):
        before = x
        x, state = step(x, state)
        assert float(state.learning_rate) == pytest.approx(at(schedule, k)[0], rel=1e-14)
        np.testing.assert_allclose(np.asarray(before - x), at(schedule, k)[0], rtol=1e-5, atol=1e-7)
    assert len(traced) == 1


@together("name", SCHEDULES)
def test_schedules_take_plain_numbers(name: str) -> None:
    """To look at a schedule, call it with a number or with many."""
    schedule: Any = SCHEDULES[name]
    np.testing.assert_allclose(float(schedule(3)), at(schedule, 3)[0], rtol=1e-6)


def test_users_write_schedules() -> None:
    """Any function of the count is a schedule: 1 / √(1 + t)."""
    optimizer = optim.sgd(lambda count: 1 / afx.sqrt(1 + count))
    x, state = afx.zeros(1), optimizer.init(afx.zeros(1))
    for _ in range(4):
        x, state = optimizer.step(x, afx.ones(1), state)
    assert float(x[0]) == pytest.approx(-sum((1 + t) ** -0.5 for t in range(4)), rel=1e-6)


def test_bad_schedules_are_refused() -> None:
    """Schedules over no steps, of rates below 0, or that do not return a scalar are refused."""
    steps: Any = [5, 10]
    with pytest.raises(
        errors.ArgumentError, match=r"piecewise_constant: takes a mapping: got list; write {step: factor}"
    ):
        optim.piecewise_constant(0.1, steps)
    with pytest.raises(errors.ArgumentError, match=r"partition: takes a mapping: got list; write {label: optimizer}"):
        optim.partition(steps, {"a": "x"})
    with pytest.raises(errors.ArgumentError, match="1 or more: got 0"):
        optim.linear(1.0, 0.0, 0)
    with pytest.raises(errors.ArgumentError, match=r"above 0: got -0\.5"):
        optim.exponential_decay(1.0, -0.5, 3)
    with pytest.raises(errors.ArgumentError, match="got 10 of 5 steps"):
        optim.warmup_cosine(1.0, 10, 5)
    with pytest.raises(errors.ShapeError, match=r"learning_rate: a scalar: got float32\[2\]"):
        optim.sgd(lambda count: afx.ones(2)).init(afx.ones(2))
    with pytest.raises(errors.DtypeError, match="real number"):
        optim.sgd(lambda count: 1j).init(afx.ones(2))
