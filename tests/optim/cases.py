"""One table of optimizers, which every test of all of them goes through, and the formulas whose steps they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np

import afx
from afx import Array, optim


@attrs.frozen
class Layer:
    weight: Array
    bias: Array


@attrs.frozen
class Model:
    """Parameters as people have them: nested, of several shapes and dtypes, with things that are no parameters."""

    layers: tuple[Layer, ...]
    scale: dict[str, Array]
    depth: int = 2
    name: str = "model"
    extra: None = None


def model(rng: np.random.Generator, dtype: Any = np.float64) -> Model:
    """Draw a model, mostly of one dtype; its scale is float64 always."""

    def draw(*shape: int, of: Any = dtype) -> Any:
        return afx.asarray(rng.normal(size=shape).astype(of))

    return Model((Layer(draw(3, 2), draw(2)), Layer(draw(2, 1), draw(1))), {"s": draw(of=np.float64), "e": draw(0, 3)})


OPTIMIZERS: dict[str, Callable[[], optim.Optimizer[Any]]] = {
    "sgd": lambda: optim.sgd(0.1),
    "plainest": lambda: optim.scale_by_learning_rate(0.1),
    "momentum": lambda: optim.sgd(0.05, momentum=0.9),
    "nesterov": lambda: optim.sgd(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: optim.adam(0.1, b2=0.99),
    "adamw": lambda: optim.adamw(0.1, b2=0.99, weight_decay=1e-4),
    "rmsprop": lambda: optim.rmsprop(0.02, decay=0.9),
    "rmsprop with momentum": lambda: optim.rmsprop(0.01, momentum=0.5),
    "centred rmsprop": lambda: optim.rmsprop(0.01, centered=True, eps=0.1),
    "arrayflow": lambda: optim.arrayflow(0.02),
    "clipped sgd": lambda: optim.chain(optim.clip_by_global_norm(5.0), optim.sgd(0.1)),
    "clipped adam": lambda: optim.chain(optim.clip_by_value(1.0), optim.adam(optim.cosine_decay(0.2, 600, alpha=0.01))),
    "scaled sgd": lambda: optim.chain(
        optim.add_decayed_weights(1e-5),
        optim.sgd(1.0),
        optim.scale_by_schedule(optim.warmup_cosine(0.1, 10, 2000, end=0.05)),
    ),
    "frozen": lambda: optim.freeze(optim.adam(0.1), lambda path, leaf: False),
    "partition": lambda: optim.partition({"all": optim.adam(0.1)}, "all"),
    "masked": lambda: optim.chain(optim.masked(optim.clip_by_global_norm(5.0), True), optim.sgd(0.1)),
    "dampened": lambda: optim.sgd(0.05, momentum=0.9, dampening=0.5),
    "nadam": lambda: optim.nadam(optim.exponential_decay(0.1, 0.5, 200), b2=0.99),
    "amsgrad": lambda: optim.amsgrad(0.1, b2=0.99),
    "radam": lambda: optim.radam(0.1, b2=0.99),
    "adagrad": lambda: optim.adagrad(0.5),
    "adafactor": lambda: optim.adafactor(optim.cosine_decay(0.2, 900), least_length=2),
    "schedule-free adamw": lambda: optim.schedule_free_adamw(0.1, b2=0.99),
    "schedule-free sgd": lambda: optim.schedule_free_sgd(0.1),
    "schedule-free momentum": lambda: optim.schedule_free(optim.sgd(0.05, momentum=0.5), 0.05),
    "accumulated": lambda: optim.accumulate(optim.sgd(0.1), 2),
    "careful": lambda: optim.skip_nonfinite(optim.adam(0.1, b2=0.99), 0),
    "adjustable": lambda: optim.adjustable(optim.adamw(0.1, b2=0.99, weight_decay=1e-4)),
    "plateau": lambda: optim.chain(optim.sgd(0.1), optim.reduce_on_plateau(0.9, patience=50)),
    "projected": lambda: optim.projected(optim.sgd(0.1), lambda p: p),
    "prodigy": lambda: optim.prodigy(b2=0.99, distance=1e-2),
    "lbfgs": lambda: optim.lbfgs(0.2, memory=5),
    "lookahead": lambda: optim.lookahead(optim.adam(0.2, b2=0.99), 5),
    "noisy": lambda: optim.chain(optim.add_noise(afx.random.key(0), 1e-8), optim.sgd(0.1)),
}

RATE = 0.05
Path = Iterator[Any]
Sequence = list[Any]
TRAJECTORIES: dict[str, tuple[optim.Optimizer[Any], Callable[[Any, Any], Path]]] = {}


def follows(
    converging: Callable[[Any], optim.Optimizer[Any]], **settings: Any
) -> Callable[[Callable[..., Path]], Callable[..., Path]]:
    """Enter the optimizer of a formula's name: it converges as told, and with these settings takes the formula's steps."""

    def enter(formula: Callable[..., Path]) -> Callable[..., Path]:
        make = getattr(optim, formula.__name__)
        OPTIMIZERS[formula.__name__] = partial(converging, make)
        TRAJECTORIES[formula.__name__] = make(RATE, **settings), partial(formula, **settings)
        return formula

    return enter


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


@follows(lambda make: make(0.1, b2=0.99))
def yogi(x: Any, gs: Sequence) -> Path:
    """Zaheer et al. 2018, Algorithm 2, with Optax's start and corrections."""
    m = v = np.full_like(x, 1e-6)
    for t, g in enumerate(gs, 1):
        m, v = 0.9 * m + 0.1 * g, v - 0.001 * np.sign(v - g**2) * g**2
        x = x - RATE * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-3)
        yield x


@follows(lambda make: make(0.1, b2=0.99))
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


@follows(lambda make: make(optim.exponential_decay(1.0, 0.5, 150), eps=1e-4))
def adadelta(x: Any, gs: Sequence) -> Path:
    """Zeiler 2012, Algorithm 1."""
    s = moves = np.zeros_like(x)
    for g in gs:
        s = 0.9 * s + 0.1 * g**2
        u = np.sqrt(moves + 1e-6) / np.sqrt(s + 1e-6) * g
        moves = 0.9 * moves + 0.1 * u**2
        x = x - RATE * u
        yield x


@follows(lambda make: make(optim.cosine_decay(0.05, 400), weight_decay=0.0), weight_decay=0.1)
def lion(x: Any, gs: Sequence, weight_decay: float) -> Path:
    """Chen et al. 2023, Algorithm 2."""
    m = np.zeros_like(x)
    for g in gs:
        x = x - RATE * (np.sign(0.9 * m + 0.1 * g) + weight_decay * x)
        m = 0.99 * m + 0.01 * g
        yield x


def trust(u: Any, x: Any, coefficient: float = 1.0) -> Any:
    """Scale an update to the norm of its parameters."""
    size, weight = np.linalg.norm(u), np.linalg.norm(x)
    return u if size == 0 or weight == 0 else coefficient * weight / size * u


@follows(lambda make: make(optim.exponential_decay(0.05, 0.5, 200), b2=0.99), weight_decay=0.1)
def lamb(x: Any, gs: Sequence, weight_decay: float) -> Path:
    """You et al. 2020, Algorithm 2."""
    for t, _, m, v in moments(gs):
        u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + weight_decay * x
        x = x - RATE * trust(u, x)
        yield x


@follows(
    lambda make: make(optim.cosine_decay(1.0, 900), coefficient=0.02, momentum=0.5), weight_decay=0.1, coefficient=0.1
)
def lars(x: Any, gs: Sequence, weight_decay: float, coefficient: float) -> Path:
    """You et al. 2017, Algorithm 1, the learning rate inside of the momentum."""
    v = np.zeros_like(x)
    for g in gs:
        v = 0.9 * v + RATE * trust(g + weight_decay * x, x, coefficient)
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


@follows(lambda make: make(optim.linear(0.05, 0.0, 900)))
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


@follows(lambda make: make(0.05, b2=0.99, eps_root=1e-12))
def adabelief(x: Any, gs: Sequence) -> Path:
    """Zhuang et al. 2020, Algorithm 2."""
    m = s = np.zeros_like(x)
    for t, g in enumerate(gs, 1):
        m = 0.9 * m + 0.1 * g
        s = 0.999 * s + 0.001 * (g - m) ** 2 + 1e-16
        x = x - RATE * m / (1 - 0.9**t) / (np.sqrt(s / (1 - 0.999**t)) + 1e-16)
        yield x


@follows(lambda make: make(optim.cosine_decay(0.1, 400), b2=0.9), weight_decay=0.1)
def novograd(x: Any, gs: Sequence, weight_decay: float) -> Path:
    """Ginsburg et al. 2019, Algorithm 1."""
    m, v = np.zeros_like(x), None
    for g in gs:
        size = (g**2).sum()
        v = size if v is None else 0.25 * v + 0.75 * size
        m = 0.9 * m + g / (np.sqrt(v) + 1e-6) + weight_decay * x
        x = x - RATE * m
        yield x


@follows(lambda make: make(0.02))
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


TRAJECTORIES |= {
    "dampening": (optim.sgd(RATE, momentum=0.9, dampening=0.3), lambda x, g: sgd(x, g, dampening=0.3)),
    "amsgrad, torch": (optim.amsgrad(RATE), lambda x, g: amsgrad(x, g, False)),
    "amsgrad, optax": (optim.amsgrad(RATE, correct_first=True), lambda x, g: amsgrad(x, g, True)),
    "nadam, torch": (optim.nadam(RATE), lambda x, g: nadam(x, g, 4e-3)),
    "nadam, optax": (optim.nadam(RATE, momentum_decay=None), lambda x, g: nadam(x, g, None)),
    "adam, nesterov": (optim.adam(RATE, nesterov=True), lambda x, g: nadam(x, g, None)),
    "radam, optax": (optim.radam(RATE), lambda x, g: radam(x, g, True)),
    "radam, threshold 9": (optim.radam(RATE, threshold=9.0), lambda x, g: radam(x, g, True, 9.0)),
    "radam, torch": (optim.radam(RATE, correct_eps=False), lambda x, g: radam(x, g, False)),
    "adagrad, torch": (optim.adagrad(RATE), lambda x, g: adagrad(x, g, 0.0, 1e-10, False)),
    "adagrad, optax": (
        optim.adagrad(RATE, initial=0.1, eps=1e-7, eps_in_root=True),
        lambda x, g: adagrad(x, g, 0.1, 1e-7, True),
    ),
    "adafactor": (optim.adafactor(RATE, least_length=4), adafactor),
    "muon at Adam's size": (
        optim.muon(RATE, coefficients=(2.0, -1.5, 0.5), consistent_rms=0.2, adam_learning_rate=2 * RATE),
        partial(muon, coefficients=(2.0, -1.5, 0.5), rms=0.2, adam_rate=2 * RATE),
    ),
    "schedule-free": (optim.schedule_free_sgd(RATE, warmup=10, weight_decay=0.1), schedule_free),
    "accumulated": (optim.accumulate(optim.sgd(RATE), 4), accumulated),
    "rprop within bounds": (
        optim.rprop(RATE, shrink=0.4, grow=1.5, least=RATE / 3, most=2 * RATE),
        partial(rprop, shrink=0.4, grow=1.5, least=RATE / 3, most=2 * RATE),
    ),
    "lookahead": (optim.lookahead(optim.sgd(RATE), 5, share=0.25), lookahead),
    "eps_root": (optim.adam(RATE, eps_root=1e-4), adam_with_eps_root),
    "centralized": (optim.chain(optim.centralize(), optim.scale_by_learning_rate(RATE)), centralized),
    "adjustable": (optim.adjustable(optim.lamb(RATE, weight_decay=0.1)), lambda x, g: lamb(x, g, 0.1)),
}
