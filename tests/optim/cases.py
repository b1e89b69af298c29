"""One table of optimizers, which every test of all of them goes through."""

from __future__ import annotations

from collections.abc import Callable
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
    "adamax": lambda: optim.adamax(0.1, b2=0.99),
    "radam": lambda: optim.radam(0.1, b2=0.99),
    "yogi": lambda: optim.yogi(0.1, b2=0.99),
    "adagrad": lambda: optim.adagrad(0.5),
    "adadelta": lambda: optim.adadelta(optim.exponential_decay(1.0, 0.5, 150), eps=1e-4),
    "lion": lambda: optim.lion(optim.cosine_decay(0.05, 400), weight_decay=0.0),
    "lamb": lambda: optim.lamb(optim.exponential_decay(0.05, 0.5, 200), b2=0.99),
    "lars": lambda: optim.lars(optim.cosine_decay(1.0, 900), coefficient=0.02, momentum=0.5),
    "adafactor": lambda: optim.adafactor(optim.cosine_decay(0.2, 900), least_length=2),
    "muon": lambda: optim.muon(optim.linear(0.05, 0.0, 900)),
    "schedule-free adamw": lambda: optim.schedule_free_adamw(0.1, b2=0.99),
    "schedule-free sgd": lambda: optim.schedule_free_sgd(0.1),
    "schedule-free momentum": lambda: optim.schedule_free(optim.sgd(0.05, momentum=0.5), 0.05),
    "accumulated": lambda: optim.accumulate(optim.sgd(0.1), 2),
    "careful": lambda: optim.skip_nonfinite(optim.adam(0.1, b2=0.99), 0),
    "adjustable": lambda: optim.adjustable(optim.adamw(0.1, b2=0.99, weight_decay=1e-4)),
    "plateau": lambda: optim.chain(optim.sgd(0.1), optim.reduce_on_plateau(0.9, patience=50)),
    "projected": lambda: optim.projected(optim.sgd(0.1), lambda p: p),
    "adabelief": lambda: optim.adabelief(0.05, b2=0.99, eps_root=1e-12),
    "novograd": lambda: optim.novograd(optim.cosine_decay(0.1, 400), b2=0.9),
    "rprop": lambda: optim.rprop(0.02),
    "prodigy": lambda: optim.prodigy(b2=0.99, distance=1e-2),
    "lbfgs": lambda: optim.lbfgs(0.2, memory=5),
    "lookahead": lambda: optim.lookahead(optim.adam(0.2, b2=0.99), 5),
    "noisy": lambda: optim.chain(optim.add_noise(afx.random.key(0), 1e-8), optim.sgd(0.1)),
}
