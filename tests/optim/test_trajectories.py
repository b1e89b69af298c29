"""Each optimizer takes the steps of its formula, fifty of them: gradients of all sizes, a zero one, a hundredfold one."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, optim, pytree
from tests.every import together
from tests.optim.cases import TRAJECTORIES

STEPS, ZERO, LARGE = 50, 7, 20


def drawn() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw parameters, and gradients of which those of "still" are always 0."""
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(6, 4)), "b": rng.normal(size=4), "still": rng.normal(size=3)}
    grads = list[dict[str, Any]]()
    for t in range(STEPS):
        size = 0.0 if t == ZERO else 100.0 if t == LARGE else 1.0
        g = {k: size * rng.normal(size=p.shape) * 10.0 ** rng.integers(-3, 2) for k, p in params.items()}
        grads.append({**g, "still": np.zeros(3)})
    return params, grads


@together("name", TRAJECTORIES)
def test_trajectories_are_those_of_the_formulas(name: str) -> None:
    """After each of fifty compiled steps every parameter is where its formula leads, to 1e-11."""
    optimizer, formula = TRAJECTORIES[name]
    start, grads = drawn()
    paths = {k: formula(x, [g[k] for g in grads]) for k, x in start.items()}
    step = afx.jit(optimizer.step)
    params: Any = {k: afx.asarray(x) for k, x in start.items()}
    state = optimizer.init(params)
    for g in grads:
        params, state = step(params, {k: afx.asarray(x) for k, x in g.items()}, state)
        for k, path in paths.items():
            np.testing.assert_allclose(np.asarray(params[k]), next(path), rtol=1e-11, atol=1e-11)


# -- wrappers --------------------------------------------------------------------------------------------------------
def test_non_finite_steps_are_left_out_and_counted() -> None:
    """Nan and inf change nothing, up to the limit of steps in a row; then they show."""
    optimizer = optim.skip_nonfinite(optim.adam(0.1), 2)
    x = afx.asarray(np.array([1.0, -0.0]))
    x, state = optimizer.step(x, afx.asarray(np.array([1.0, 0.0])), optimizer.init(x))
    with np.errstate(invalid="ignore"):
        for k, bad in enumerate([np.nan, np.inf], 1):
            after, state = optimizer.step(x, afx.asarray(np.array([bad, 1.0])), state)
            assert pytree.equal(after, x)
            assert (float(state.inner.count), float(state.skipped), float(state.consecutive)) == (1, k, k)
        shown, _ = optimizer.step(x, afx.asarray(np.array([np.nan, 1.0])), state)
    assert np.isnan(np.asarray(shown)[0])
    _, state = optimizer.step(x, afx.ones(2, np.float64), state)
    assert (float(state.inner.count), float(state.skipped), float(state.consecutive)) == (2, 2, 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_settings_are_changed_while_training(compiled: bool) -> None:
    """Every number of an adjustable optimizer may be replaced in the state, without a new trace."""
    optimizer = optim.adjustable(optim.chain(optim.clip_by_value(2.0), optim.sgd(1.0, momentum=0.5)))
    traced = list[int]()

    def step(x: Array, state: Any) -> Any:
        traced.append(1)
        return optimizer.step(x, afx.asarray([3.0]), state)

    run = afx.jit(step) if compiled else step
    x, state = run(afx.zeros(1), optimizer.init(afx.zeros(1)))
    assert float(x[0]) == -2.0
    clip, sgd = state.settings.links
    settings = attrs.evolve(state.settings, links=(clip, attrs.evolve(sgd, learning_rate=afx.asarray(np.float64(0.5)))))
    x, state = run(x, attrs.evolve(state, settings=settings))
    assert (float(x[0]), x.dtype) == (-3.5, np.float32)  # velocity 0.5·2 + 2
    assert len(traced) == (1 if compiled else 2)


def test_averages_of_parameters() -> None:
    """Exponential averages start at the first parameters, or at 0 corrected; counters keep the newest value."""
    values = [1.0, 4.0, -2.0]
    trees = [{"p": afx.asarray(np.array([v])), "n": afx.asarray(int(v))} for v in values]
    ema, corrected, mean = optim.params_ema(0.9), optim.params_ema(0.9, debias=True), optim.params_mean()
    first = {"p": afx.asarray(np.array([10.0])), "n": afx.asarray(0)}
    states = [rule.init(first) for rule in (ema, corrected, mean)]
    for tree in trees:
        states = [rule.update(tree, state) for rule, state in zip((ema, corrected, mean), states, strict=True)]
    plain, zero = 10.0, 0.0
    for v in values:
        plain, zero = 0.9 * plain + 0.1 * v, 0.9 * zero + 0.1 * v
    found = [rule.params(state) for rule, state in zip((ema, corrected, mean), states, strict=True)]
    wanted = [plain, zero / (1 - 0.9**3), 1.0]
    for tree, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(tree["p"]), [value], rtol=1e-14)
        assert int(tree["n"]) == -2
    warm = optim.params_ema(0.999, warmup=True)
    assert float(warm.update(trees[0], warm.init(first)).average["p"][0]) == pytest.approx(0.1 * 10 + 0.9)


def test_schedule_free_gives_the_average_of_its_iterates() -> None:
    """`eval_params` is the mean of all iterates of a constant learning rate."""
    optimizer = optim.schedule_free(optim.sgd(0.1), 0.1)
    x = afx.zeros(1, np.float64)
    state, iterates = optimizer.init(x), list[float]()
    for _ in range(5):
        x, state = optimizer.step(x, afx.ones(1, np.float64), state)
        iterates.append(float(state.z[0]))
    np.testing.assert_allclose(float(optimizer.eval_params(x, state)[0]), np.mean(iterates), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200, 1e308])
def test_norms_of_any_size_are_clipped_to_the_limit(size: float) -> None:
    """Gradients of 1e200, whose squares would overflow, are clipped to 1; the smallest ones stay as they are."""
    grads = {"a": afx.asarray(np.array([3.0, 4.0]) * 0.2 * size), "b": afx.zeros(0, np.float64)}
    for rule in (optim.clip_by_global_norm(1.0), optim.clip_by_norm(1.0)):
        found = np.asarray(rule.update(grads, rule.init(grads), grads, None)[0]["a"])
        np.testing.assert_allclose(found, np.array([0.6, 0.8]) * min(size, 1.0), rtol=1e-14)
    single = afx.asarray(np.full(10, 3e38, np.float32))
    rule = optim.clip_by_global_norm(1.0)
    np.testing.assert_allclose(rule.update(single, rule.init(None), single, None)[0], np.full(10, 0.1**0.5), rtol=1e-6)


def test_units_are_clipped_by_their_parameters(rng: np.random.Generator) -> None:
    """`adaptive_clip` limits each column's gradient to a part of the column's norm, the least of which is eps."""
    p, g = rng.normal(size=(5, 3)) * [1.0, 10.0, 0.0], rng.normal(size=(5, 3))
    rule = optim.adaptive_clip(0.1, eps=1e-3)
    found = np.asarray(rule.update(afx.asarray(g), rule.init(None), afx.asarray(p), None)[0])
    limit = 0.1 * np.maximum(np.linalg.norm(p, axis=0), 1e-3)
    norm = np.linalg.norm(g, axis=0)
    np.testing.assert_allclose(found, g * np.where(norm < limit, 1.0, limit / norm), rtol=1e-13)


REFUSED: dict[str, tuple[Any, str]] = {
    "every": (lambda: optim.accumulate(optim.sgd(0.1), 0), "1 batch or more: got every=0"),
    "limit": (lambda: optim.skip_nonfinite(optim.sgd(0.1), -1), "0 or more: got -1"),
    "factor": (lambda: optim.reduce_on_plateau(1.5), "between 0 and 1: got 1.5"),
    "patience": (lambda: optim.reduce_on_plateau(patience=0), "patience is 1 or more: got 0"),
    "iterations": (lambda: optim.muon(iterations=0), "1 or more: got 0"),
    "dampening": (lambda: optim.sgd(0.1, dampening=0.5), "dampening belongs to momentum"),
    "nesterov": (lambda: optim.trace(0.9, nesterov=True, dampening=0.5), "needs whole gradients"),
    "initial": (lambda: optim.adagrad(initial=-1.0), "initial is 0 or more"),
    "warm-up": (lambda: optim.schedule_free_sgd(optim.constant(0.1), warmup=3), "write the warm-up into it"),
    "join": (lambda: optim.join([optim.constant(1.0)] * 3, [5, 2]), r"got 3 schedules and \[5, 2\]"),
    "one cycle": (lambda: optim.one_cycle(1.0, 10, rise=0.9, fall=0.5), "got rise=0.9, fall=0.5"),
    "restarts": (lambda: optim.cosine_restarts(1.0, 10, growth=0.5), "1 or more: got 0.5"),
    "an optimizer": (lambda: optim.adjustable(optim.scale_by_adam()), "needs an optimizer"),
}


@together("name", REFUSED)
def test_settings_out_of_range_are_refused(name: str) -> None:
    """Settings out of their range are refused when the optimizer or schedule is made."""
    make, message = REFUSED[name]
    with pytest.raises(errors.ArgumentError, match=message):
        make()


def test_plateaus_rest_and_end() -> None:
    """After it shrank the number rests for the cooldown, and never falls below the least one."""
    rule = optim.reduce_on_plateau(0.5, patience=1, cooldown=1, least=0.3)
    state, scales = rule.init(None), list[float]()
    for _ in range(6):
        _, state = rule.update(afx.ones(1), state, None, 1.0)
        scales.append(float(state.scale))
    assert scales == [1.0, 0.5, 0.5, 0.3, 0.3, 0.3]


def test_plateaus_need_the_loss() -> None:
    """A step without the loss says how to give it."""
    optimizer = optim.chain(optim.sgd(0.1), optim.reduce_on_plateau())
    with pytest.raises(errors.ArgumentError, match=r"step\(\.\.\., value=loss\)"):
        optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))
