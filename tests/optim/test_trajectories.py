"""Each optimizer takes the steps of its formula, fifty of them: gradients of all sizes, a zero one, a hundredfold one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, optim, pytree

STEPS, ZERO, LARGE = 50, 7, 20
RATE = 0.05
Path = Iterator[Any]
Sequence = list[Any]


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


# -- formulas, for one array -----------------------------------------------------------------------------------------
def sgd(x: Any, gs: Sequence, momentum: float = 0.9, dampening: float = 0.0) -> Path:
    """Torch's momentum with dampening: the first gradient is taken whole."""
    v = gs[0]
    for t, g in enumerate(gs):
        v = v if t == 0 else momentum * v + (1 - dampening) * g
        x = x - RATE * v
        yield x


def moments(gs: Sequence, b1: float = 0.9, b2: float = 0.999) -> Iterator[Any]:
    """Yield step, gradient and the two moving averages."""
    m = v = np.zeros_like(gs[0])
    for t, g in enumerate(gs, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        yield t, g, m, v


def amsgrad(x: Any, gs: Sequence, correct_first: bool) -> Path:
    """Optax takes the maximum of corrected averages, torch corrects the maximum."""
    largest = np.zeros_like(x)
    for t, _, m, v in moments(gs):
        second = 1 - 0.999**t
        largest = np.maximum(largest, v / second if correct_first else v)
        root = np.sqrt(largest) if correct_first else np.sqrt(largest) / np.sqrt(second)
        x = x - RATE * m / (1 - 0.9**t) / (root + 1e-8)
        yield x


def nadam(x: Any, gs: Sequence, decay: float | None, rate: float = RATE) -> Path:
    """Dozat 2016, Algorithm 2; without a schedule of the momentum in Optax's form."""
    product = 1.0
    for t, g, m, v in moments(gs):
        now, ahead = [0.9 if decay is None else 0.9 * (1 - 0.5 * 0.96 ** (s * decay)) for s in (t, t + 1)]
        product *= now
        mean = ahead * m / (1 - product * ahead) + (1 - now) * g / (1 - product)
        x = x - rate * mean / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        yield x


def radam(x: Any, gs: Sequence, correct_eps: bool, threshold: float = 5.0) -> Path:
    """Liu et al. 2020, Algorithm 2, with the threshold 5."""
    limit = 2 / (1 - 0.999) - 1
    for t, _, m, v in moments(gs):
        rest = 1 - 0.999**t
        length = limit - 2 * t * 0.999**t / rest
        mean = m / (1 - 0.9**t)
        if length >= threshold:
            ratio = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            root = np.sqrt(v / rest) + 1e-8 if correct_eps else (np.sqrt(v) + 1e-8) / np.sqrt(rest)
            mean = ratio * mean / root
        x = x - RATE * mean
        yield x


def yogi(x: Any, gs: Sequence) -> Path:
    """Zaheer et al. 2018, Algorithm 2, with Optax's start and corrections."""
    m = v = np.full_like(x, 1e-6)
    for t, g in enumerate(gs, 1):
        m, v = 0.9 * m + 0.1 * g, v - 0.001 * np.sign(v - g**2) * g**2
        x = x - RATE * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-3)
        yield x


def adamax(x: Any, gs: Sequence) -> Path:
    """Kingma & Ba 2015, Algorithm 2."""
    u = np.zeros_like(x)
    for t, g, m, _ in moments(gs):
        u = np.maximum(0.999 * u, np.abs(g) + 1e-8)
        x = x - RATE * m / (1 - 0.9**t) / u
        yield x


def adagrad(x: Any, gs: Sequence, initial: float, eps: float, in_root: bool) -> Path:
    """Duchi et al. 2011; torch starts at 0, Optax at 0.1 and has eps in the root."""
    s = np.full_like(x, initial)
    for g in gs:
        s = s + g**2
        x = x - RATE * g / (np.sqrt(s + eps) if in_root else np.sqrt(s) + eps)
        yield x


def adadelta(x: Any, gs: Sequence) -> Path:
    """Zeiler 2012, Algorithm 1."""
    s = moves = np.zeros_like(x)
    for g in gs:
        s = 0.9 * s + 0.1 * g**2
        u = np.sqrt(moves + 1e-6) / np.sqrt(s + 1e-6) * g
        moves = 0.9 * moves + 0.1 * u**2
        x = x - RATE * u
        yield x


def lion(x: Any, gs: Sequence, decay: float) -> Path:
    """Chen et al. 2023, Algorithm 2."""
    m = np.zeros_like(x)
    for g in gs:
        x = x - RATE * (np.sign(0.9 * m + 0.1 * g) + decay * x)
        m = 0.99 * m + 0.01 * g
        yield x


def trust(u: Any, x: Any, coefficient: float = 1.0) -> Any:
    """Scale an update to the norm of its parameters."""
    size, weight = np.linalg.norm(u), np.linalg.norm(x)
    return u if size == 0 or weight == 0 else coefficient * weight / size * u


def lamb(x: Any, gs: Sequence, decay: float) -> Path:
    """You et al. 2020, Algorithm 2."""
    for t, _, m, v in moments(gs):
        u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + decay * x
        x = x - RATE * trust(u, x)
        yield x


def lars(x: Any, gs: Sequence, decay: float) -> Path:
    """You et al. 2017, Algorithm 1, the learning rate inside of the momentum."""
    v = np.zeros_like(x)
    for g in gs:
        v = 0.9 * v + RATE * trust(g + decay * x, x, 0.1)
        x = x - v
        yield x


def adafactor(x: Any, gs: Sequence) -> Path:
    """Shazeer & Stern 2018, Algorithm 4, as in Optax."""
    row = column = v = 0.0
    for t, g in enumerate(gs, 1):
        b = 1 - t**-0.8
        s = g**2 + 1e-30
        if x.ndim == 2:
            row, column = b * row + (1 - b) * s.mean(0), b * column + (1 - b) * s.mean(1)
            u = g / np.sqrt(np.outer(column, row / row.mean()))
        else:
            v = b * v + (1 - b) * s
            u = g / np.sqrt(v)
        u = u / max(1.0, np.sqrt((u**2).mean()))
        x = x - RATE * max(1e-3, np.sqrt((x**2).mean())) * u
        yield x


QUINTIC = (3.4445, -4.775, 2.0315)


def muon(
    x: Any,
    gs: Sequence,
    coefficients: tuple[float, float, float] = QUINTIC,
    rms: float | None = None,
    adam_rate: float = RATE,
) -> Path:
    """Jordan et al. 2024 for matrices, NAdam in Optax's form for others."""
    if x.ndim != 2:
        yield from nadam(x, gs, None, adam_rate)
        return
    a, b, c = coefficients
    size = max(1.0, x.shape[1] / x.shape[0]) ** 0.5 if rms is None else rms * max(x.shape) ** 0.5
    m = np.zeros_like(x)
    for t, g in enumerate(gs, 1):
        m = 0.95 * m + 0.05 * g
        z = 0.95 * m / (1 - 0.95 ** (t + 1)) + 0.05 * g / (1 - 0.95**t)
        z = z / (np.linalg.norm(z) + 1e-8)
        for _ in range(5):
            gram = z.T @ z
            z = a * z + z @ (b * gram + c * gram @ gram)
        x = x - RATE * z * size
        yield x


def schedule_free(x: Any, gs: Sequence) -> Path:
    """Defazio et al. 2024 on gradient descent with a warm-up of ten steps."""
    y = z = x
    total = largest = 0.0
    for t, g in enumerate(gs):
        largest = max(largest, RATE * min((t + 1) / 10, 1))
        total += largest**2
        average = (y - 0.1 * z) / 0.9
        z = z - RATE * min(t / 10, 1) * (g + 0.1 * y)
        average = average + largest**2 / total * (z - average)
        y = 0.9 * average + 0.1 * z
        yield y


def adabelief(x: Any, gs: Sequence) -> Path:
    """Zhuang et al. 2020, Algorithm 2."""
    m = s = np.zeros_like(x)
    for t, g in enumerate(gs, 1):
        m = 0.9 * m + 0.1 * g
        s = 0.999 * s + 0.001 * (g - m) ** 2 + 1e-16
        x = x - RATE * m / (1 - 0.9**t) / (np.sqrt(s / (1 - 0.999**t)) + 1e-16)
        yield x


def novograd(x: Any, gs: Sequence, decay: float) -> Path:
    """Ginsburg et al. 2019, Algorithm 1."""
    m, v = np.zeros_like(x), None
    for g in gs:
        size = (g**2).sum()
        v = size if v is None else 0.25 * v + 0.75 * size
        m = 0.9 * m + g / (np.sqrt(v) + 1e-6) + decay * x
        x = x - RATE * m
        yield x


def rprop(
    x: Any, gs: Sequence, shrink: float = 0.5, grow: float = 1.2, least: float = 1e-6, most: float = 50.0
) -> Path:
    """Igel & Hüsken 2000, iRprop without backtracking."""
    size, last = np.full_like(x, RATE), np.zeros_like(x)
    for g in gs:
        turn = g * last
        size = np.clip(size * np.where(turn > 0, grow, np.where(turn < 0, shrink, 1.0)), least, most)
        last = np.where(turn < 0, 0.0, g)
        x = x - size * np.sign(last)
        yield x


def lookahead(x: Any, gs: Sequence) -> Path:
    """Zhang et al. 2019, Algorithm 1, around gradient descent."""
    slow = x
    for t, g in enumerate(gs, 1):
        x = x - RATE * g
        if t % 5 == 0:
            x = slow = slow + 0.25 * (x - slow)
        yield x


def adam_with_eps_root(x: Any, gs: Sequence) -> Path:
    """Kingma & Ba 2015 with Optax's second eps, under the root."""
    for t, _, m, v in moments(gs):
        x = x - RATE * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t) + 1e-4) + 1e-8)
        yield x


def centralized(x: Any, gs: Sequence) -> Path:
    """Yong et al. 2020, equation 1, for weights whose outputs are the last axis."""
    for g in gs:
        x = x - RATE * (g - g.mean(0) if g.ndim == 2 else g)
        yield x


def accumulated(x: Any, gs: Sequence) -> Path:
    """Gradient descent along means of four gradients."""
    for t in range(len(gs)):
        if t % 4 == 3:
            x = x - RATE * np.mean(gs[t - 3 : t + 1], 0)
        yield x


CASES: dict[str, tuple[optim.Optimizer[Any], Callable[[Any, Any], Path]]] = {
    "dampening": (optim.sgd(RATE, momentum=0.9, dampening=0.3), lambda x, g: sgd(x, g, dampening=0.3)),
    "amsgrad, torch": (optim.amsgrad(RATE), lambda x, g: amsgrad(x, g, False)),
    "amsgrad, optax": (optim.amsgrad(RATE, correct_first=True), lambda x, g: amsgrad(x, g, True)),
    "nadam, torch": (optim.nadam(RATE), lambda x, g: nadam(x, g, 4e-3)),
    "nadam, optax": (optim.nadam(RATE, momentum_decay=None), lambda x, g: nadam(x, g, None)),
    "adam, nesterov": (optim.adam(RATE, nesterov=True), lambda x, g: nadam(x, g, None)),
    "radam, optax": (optim.radam(RATE), lambda x, g: radam(x, g, True)),
    "radam, threshold 9": (optim.radam(RATE, threshold=9.0), lambda x, g: radam(x, g, True, 9.0)),
    "radam, torch": (optim.radam(RATE, correct_eps=False), lambda x, g: radam(x, g, False)),
    "yogi": (optim.yogi(RATE), yogi),
    "adamax": (optim.adamax(RATE), adamax),
    "adagrad, torch": (optim.adagrad(RATE), lambda x, g: adagrad(x, g, 0.0, 1e-10, False)),
    "adagrad, optax": (
        optim.adagrad(RATE, initial=0.1, eps=1e-7, eps_in_root=True),
        lambda x, g: adagrad(x, g, 0.1, 1e-7, True),
    ),
    "adadelta": (optim.adadelta(RATE), adadelta),
    "lion": (optim.lion(RATE, weight_decay=0.1), lambda x, g: lion(x, g, 0.1)),
    "lamb": (optim.lamb(RATE, weight_decay=0.1), lambda x, g: lamb(x, g, 0.1)),
    "lars": (optim.lars(RATE, weight_decay=0.1, coefficient=0.1), lambda x, g: lars(x, g, 0.1)),
    "adafactor": (optim.adafactor(RATE, least_length=4), adafactor),
    "muon": (optim.muon(RATE), muon),
    "muon at Adam's size": (
        optim.muon(RATE, coefficients=(2.0, -1.5, 0.5), consistent_rms=0.2, adam_learning_rate=2 * RATE),
        partial(muon, coefficients=(2.0, -1.5, 0.5), rms=0.2, adam_rate=2 * RATE),
    ),
    "schedule-free": (optim.schedule_free_sgd(RATE, warmup=10, weight_decay=0.1), schedule_free),
    "accumulated": (optim.accumulate(optim.sgd(RATE), 4), accumulated),
    "adabelief": (optim.adabelief(RATE), adabelief),
    "novograd": (optim.novograd(RATE, weight_decay=0.1), lambda x, g: novograd(x, g, 0.1)),
    "rprop": (optim.rprop(RATE), rprop),
    "rprop within bounds": (
        optim.rprop(RATE, shrink=0.4, grow=1.5, least=RATE / 3, most=2 * RATE),
        partial(rprop, shrink=0.4, grow=1.5, least=RATE / 3, most=2 * RATE),
    ),
    "lookahead": (optim.lookahead(optim.sgd(RATE), 5, share=0.25), lookahead),
    "eps_root": (optim.adam(RATE, eps_root=1e-4), adam_with_eps_root),
    "centralized": (optim.chain(optim.centralize(), optim.scale_by_learning_rate(RATE)), centralized),
    "adjustable": (optim.adjustable(optim.lamb(RATE, weight_decay=0.1)), lambda x, g: lamb(x, g, 0.1)),
}


@pytest.mark.parametrize("name", CASES)
def test_trajectories_are_those_of_the_formulas(name: str) -> None:
    """After each of fifty compiled steps every parameter is where its formula leads, to 1e-11."""
    optimizer, formula = CASES[name]
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


@pytest.mark.parametrize("name", REFUSED)
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
