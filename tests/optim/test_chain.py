"""Rules that change gradients, and chains of rules."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, optim
from tests.every import together


def changed(rule: optim.Transformation[Any], grads: Any, params: Any = None) -> Any:
    """Return what a rule makes of gradients."""
    found, _ = rule.update(grads, rule.init(params), grads if params is None else params, None)
    return found


# -- the norm --------------------------------------------------------------------------------------------------------
def test_global_norm_is_that_of_all_elements(rng: np.random.Generator) -> None:
    """The norm of a tree is the norm of its elements in one vector, complex ones by absolute value."""
    a, b, c = rng.normal(size=(3, 2)), rng.normal(size=4).astype(np.float32), rng.normal(size=2) * (1 + 1j)
    flat = np.concatenate([a.ravel(), b, c])
    norm = optim.global_norm({"a": a, "b": (b, c), "none": None, "empty": np.zeros((0, 3))})
    assert norm.dtype == np.float64
    np.testing.assert_allclose(float(norm), np.linalg.norm(flat), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_global_norm_neither_overflows_nor_vanishes(size: float) -> None:
    """The norm of 3 and 4 times a size is 5 times it, where squares would leave the range."""
    norm = optim.global_norm((np.array([3.0 * size]), np.float64(4.0 * size)))
    np.testing.assert_allclose(float(norm), 5.0 * size, rtol=1e-14)


def test_global_norm_of_nothing_is_zero() -> None:
    """Trees without elements have the norm 0; at 0 the derivative is 0."""
    assert float(optim.global_norm(())) == 0.0
    assert float(optim.global_norm(np.zeros(0))) == 0.0
    np.testing.assert_array_equal(np.asarray(afx.grad(optim.global_norm)(afx.zeros(3))), np.zeros(3))


def test_global_norm_differentiates(rng: np.random.Generator) -> None:
    """The gradient of the norm is the unit vector."""
    x = rng.normal(size=5)
    slope = afx.grad(lambda p: optim.global_norm((p[:2], p[2:])))(afx.asarray(x))
    np.testing.assert_allclose(np.asarray(slope), x / np.linalg.norm(x), rtol=1e-12)


# -- clipping --------------------------------------------------------------------------------------------------------
def test_clip_by_global_norm_keeps_the_direction(rng: np.random.Generator) -> None:
    """Gradients above the limit are scaled down to it; others stay as they are, bit by bit."""
    a, b = rng.normal(size=3), rng.normal(size=(2, 2)).astype(np.float32)
    norm = float(optim.global_norm((a, b)))
    tight = changed(optim.clip_by_global_norm(norm / 7), (afx.asarray(a), afx.asarray(b)))
    np.testing.assert_allclose(np.asarray(tight[0]), a / 7, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(tight[1]), b / 7, rtol=1e-6)
    assert tight[1].dtype == np.float32
    loose = changed(optim.clip_by_global_norm(norm * 1.01), (afx.asarray(a), afx.asarray(b)))
    np.testing.assert_array_equal(np.asarray(loose[0]), a)
    np.testing.assert_array_equal(np.asarray(loose[1]), b)


def test_clip_by_global_norm_of_zero_gradients() -> None:
    """Gradients of 0 stay 0."""
    np.testing.assert_array_equal(np.asarray(changed(optim.clip_by_global_norm(1.0), afx.zeros(3))), np.zeros(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_clip_by_global_norm_shows_what_is_not_finite(bad: float) -> None:
    """A gradient that is nan or infinite is not clipped to something harmless."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(changed(optim.clip_by_global_norm(1.0), afx.asarray([bad, 1.0])))
    assert np.isnan(found).any()


def test_clip_by_value_limits_elements() -> None:
    """Each element is brought into the interval."""
    found = changed(optim.clip_by_value(0.5), afx.asarray([-3.0, -0.5, 0.1, 9.0]))
    np.testing.assert_array_equal(np.asarray(found), np.float32([-0.5, -0.5, 0.1, 0.5]))


# -- scaling and decay -----------------------------------------------------------------------------------------------
def test_scale_behind_an_optimizer_scales_its_updates() -> None:
    """Half of Adam's steps are steps half as long."""
    whole, half = optim.adam(0.1), optim.chain(optim.adam(0.2), optim.scale(0.5))
    x, g = afx.ones(3), afx.asarray([1.0, -2.0, 1e-3])
    a, _ = whole.step(x, g, whole.init(x))
    b, _ = half.step(x, g, half.init(x))
    np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=1e-6)


def test_added_decay_is_the_derivative_of_a_penalty(rng: np.random.Generator) -> None:
    """`add_decayed_weights` in front of an optimizer is the optimizer on the penalised loss."""
    x = afx.asarray(rng.normal(size=3))

    def loss(x: Array) -> Array:
        return afx.sum(afx.cos(x))

    decayed, plain = optim.chain(optim.add_decayed_weights(0.3), optim.adam(0.1)), optim.adam(0.1)
    a, _ = decayed.step(x, afx.grad(loss)(x), decayed.init(x))
    b, _ = plain.step(x, afx.grad(lambda x: loss(x) + 0.15 * afx.sum(x**2))(x), plain.init(x))
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


def test_schedule_state_counts(rng: np.random.Generator) -> None:
    """`scale_by_schedule` behind a step of 1 is the optimizer with that learning rate, and shows its factor."""
    schedule = optim.cosine_decay(0.3, 5)
    scaled, plain = optim.chain(optim.sgd(1.0), optim.scale_by_schedule(schedule)), optim.sgd(schedule)
    x = y = afx.asarray(rng.normal(size=3))
    s, t = scaled.init(x), plain.init(y)
    for k in range(7):
        x, s = scaled.step(x, x, s)
        y, t = plain.step(y, y, t)
        assert float(s[1].count) == k + 1
        assert float(s[1].factor) == float(t.learning_rate)
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12)


# -- two kinds -------------------------------------------------------------------------------------------------------
REFUSED: dict[str, tuple[Any, str]] = {
    "two optimizers": (
        lambda: optim.chain(optim.sgd(0.1), optim.sgd(0.1)),
        "two optimizers .*: got Sgd, Sgd; keep one",
    ),
    "decay behind": (
        lambda: optim.chain(optim.adam(0.1), optim.add_decayed_weights(0.1)),
        "only transformations that rescale: got AddDecayedWeights behind Adam; put it in front",
    ),
    "momentum behind": (lambda: optim.chain(optim.sgd(0.1), optim.trace(0.9)), "got Trace behind Sgd"),
    "a masked optimizer": (
        lambda: optim.masked(optim.sgd(0.1), True),
        "masked: takes a transformation: got the optimizer Sgd; write freeze to keep",
    ),
    "a frozen transformation": (
        lambda: optim.freeze(optim.scale_by_adam(), True),
        r"freeze: needs an optimizer: got the transformation ScaleByAdam, .*; write chain\(it, scale_by_learning_rate",
    ),
    "a group of a transformation": (lambda: optim.partition({"a": optim.ema(0.9)}, "a"), "the transformation Ema"),
    "a projected transformation": (lambda: optim.projected(optim.scale(1.0), lambda p: p), "needs an optimizer"),
    "a negative scale": (
        lambda: optim.scale(-0.1),
        r"scale: the factor is 0 or more: got -0\.1; to go downhill write scale_by_learning_rate\(0\.1\)",
    ),
    "a negative schedule": (
        lambda: optim.scale_by_schedule(lambda count: -0.5).init(afx.ones(1)),
        r"scale_by_schedule: the factor is 0 or more: got -0\.5; to go downhill write scale_by_learning_rate\(0\.5\)",
    ),
    "no learning rate": (lambda: optim.scale_by_learning_rate(0.0), "scale_by_learning_rate: learning_rate is above 0"),
}


@together("name", REFUSED)
def test_what_would_go_uphill_or_do_nothing_is_refused(name: str) -> None:
    """Optimizers and transformations in each other's places raise when they are put together, and say what to write."""
    make, message = REFUSED[name]
    with pytest.raises(errors.ArgumentError, match=message):
        make()


def test_optax_recipes_are_written_down_as_they_are(rng: np.random.Generator) -> None:
    """AdamW as Optax spells it: clip, scale, decay, and the learning rate last."""
    recipe = optim.chain(
        optim.clip_by_global_norm(1e6),
        optim.scale_by_adam(),
        optim.add_decayed_weights(0.3),
        optim.scale_by_learning_rate(optim.cosine_decay(0.1, 10)),
    )
    whole = optim.adamw(optim.cosine_decay(0.1, 10), weight_decay=0.3)
    x = y = afx.asarray(rng.normal(size=4))
    s, t = recipe.init(x), whole.init(y)
    for _ in range(6):
        g = afx.asarray(rng.normal(size=4))
        x, s = recipe.step(x, g, s)
        y, t = whole.step(y, g, t)
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-13)
    assert float(s[3].learning_rate) == float(t.learning_rate)


def test_rescalings_stand_behind_an_optimizer() -> None:
    """Clips, scales and trust ratios of updates keep their direction."""
    x, g = afx.asarray([3.0, 4.0]), afx.asarray([1.0, 1.0])
    for rule in (optim.scale(0.5), optim.clip_by_value(0.5), optim.scale_by_trust_ratio(0.1)):
        optimizer = optim.chain(optim.sgd(1.0), rule)
        after, _ = optimizer.step(x, g, optimizer.init(x))
        assert bool((after < x).all())


def test_learning_rates_are_changed_in_the_state() -> None:
    """A learning rate put into the state holds from then on, eager and compiled, without a new trace."""
    optimizer = optim.chain(optim.clip_by_value(10.0), optim.sgd(1.0))
    traced = list[int]()

    @afx.jit
    def step(x: Array, state: Any) -> Any:
        traced.append(1)
        return optimizer.step(x, afx.ones(1, np.float64), state)

    x, state = afx.zeros(1, np.float64), optimizer.init(afx.zeros(1, np.float64))
    x, state = step(x, state)
    state = (state[0], attrs.evolve(state[1], learning_rate=afx.asarray(np.float64(0.25))))
    for _ in range(2):
        x, state = step(x, state)
    assert (float(x[0]), float(state[1].learning_rate), len(traced)) == (-1.5, 0.25, 1)
    plain = optim.sgd(1.0)
    eager = attrs.evolve(plain.init(x), learning_rate=0.5)
    assert float(plain.step(afx.zeros(1), afx.ones(1), eager)[0][0]) == -0.5


# -- chains ----------------------------------------------------------------------------------------------------------
def test_rules_act_in_order() -> None:
    """Clipping before scaling differs from scaling before clipping."""
    g = afx.asarray([3.0])
    before = changed(optim.chain(optim.clip_by_value(1.0), optim.scale(2.0)), g)
    after = changed(optim.chain(optim.scale(2.0), optim.clip_by_value(1.0)), g)
    assert (float(before[0]), float(after[0])) == (2.0, 1.0)


def test_chains_nest() -> None:
    """A chain is a rule; a chain of one rule is that rule."""
    inner = optim.chain(optim.clip_by_value(1.0), optim.scale(2.0))
    outer = optim.chain(inner, optim.sgd(0.5))
    x = afx.zeros(1)
    after, state = outer.step(x, afx.asarray([3.0]), outer.init(x))
    assert float(after[0]) == -1.0
    assert isinstance(state[0], tuple)
    alone = optim.chain(optim.sgd(0.5))
    np.testing.assert_array_equal(np.asarray(alone.step(x, afx.ones(1), alone.init(x))[0]), [-0.5])


def test_chain_hands_the_loss_on() -> None:
    """The paper's optimizer in a chain sees the value given to the chain's step."""
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.arrayflow(0.1))
    x = afx.zeros(2)
    _, state = optimizer.step(x, afx.ones(2), optimizer.init(x), value=2.5)
    assert float(state[1].losses[-1]) == 2.5


def test_optimizers_print_and_compare_by_what_they_are() -> None:
    """Rules made by the same call are equal, hash, and print their settings."""
    first, second = (optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert "Adam(learning_rate=0.1" in repr(first)
    assert optim.adam(0.1) != optim.adam(0.2)
