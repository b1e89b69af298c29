"""A gated recurrent unit foretells a chaotic series, six steps ahead."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np

import afx
from afx import Array, nn, optim
from examples.report import Checks, Claim, Curve, Panel, progress, save, training

AHEAD, HIDDEN, BATCH, LENGTH = 6, 48, 32, 128
LEARNED, UNSEEN = 4000, 1000


@attrs.frozen
class Forecaster:
    """A recurrent net that corrects the guess that nothing will change."""

    walk: nn.GRU
    out: nn.Linear

    @classmethod
    def create(cls, key: Array) -> Forecaster:
        """Draw the weights."""
        first, second = afx.random.split(key)
        return cls(nn.GRU.create(first, 1, HIDDEN), nn.Linear.create(second, HIDDEN, 1))

    def __call__(self, x: Array) -> Array:
        """Return for each step what comes `AHEAD` steps later, float[..., time] for float[..., time]."""
        hidden, _ = self.walk(x[..., None])
        return x + self.out(hidden)[..., 0]


State: TypeAlias = optim.AdamState[Forecaster]


def series(count: int, delay: int = 17) -> Array:
    """Return ``x' = 0.2 x(t - delay) / (1 + x(t - delay)**10) - 0.1 x`` in steps of 1 (Mackey & Glass 1977), scaled."""

    def step(past: Array, _: None) -> tuple[Array, Array]:
        old, now = past[0], past[-1]
        new = now + 0.2 * old / (1 + old**10) - 0.1 * now
        return afx.append(past[1:], new), new

    def walked(past: Array) -> Array:
        _, values = afx.scan(step, past, None, count + 500)
        found: Array = values[500:]  # what the start decides is over
        return found

    x = afx.jit(walked)(afx.full(delay + 1, 1.2, afx.float64))
    return ((x - afx.mean(x)) / afx.std(x)).astype(afx.float32)


def loss(model: Forecaster, x: Array) -> Array:
    """Return the mean squared error of the forecasts, once the net has seen some steps."""
    return afx.mean(nn.mse(model(x[:, :-AHEAD]), x[:, AHEAD:])[:, LENGTH // 4 :])


def train(x: Array, steps: int, look: Checks[Forecaster]) -> tuple[Forecaster, list[float]]:
    """Fit a net to random pieces of the series; return it and the losses."""
    start, draws = afx.random.split(afx.random.key(0))
    model = Forecaster.create(start)
    optimizer = optim.adam(optim.warmup_cosine(1e-2, steps // 10, steps))
    state, losses = optimizer.init(model), list[float]()

    @afx.jit
    def step(model: Forecaster, state: State, key: Array) -> tuple[Forecaster, State, Array]:
        begin = afx.random.randint(key, 0, x.size - LENGTH - AHEAD, (BATCH, 1))
        value, grads = afx.value_and_grad(loss)(model, x[begin + afx.arange(LENGTH + AHEAD)])
        model, state = optimizer.step(model, grads, state)
        return model, state, value

    for number in progress(range(steps), "GRU"):
        model, state, value = step(model, state, afx.random.fold_in(draws, number))
        losses.append(float(value))
        look(number, model)
    return model, losses


def run(output: Path, steps: int = 800) -> list[Claim]:
    """Learn from the first part of the series and foretell the rest."""
    x = series(LEARNED + UNSEEN)
    unseen, each = x[LEARNED:], afx.jit(loss)
    pieces = unseen[: unseen.size // (LENGTH + AHEAD) * (LENGTH + AHEAD)].reshape(-1, LENGTH + AHEAD)
    checks = Checks[Forecaster](lambda model: float(each(model, pieces)), every=20)
    model, losses = train(x[:LEARNED], steps, checks)
    truth = x[LEARNED:]
    found = afx.jit(Forecaster.__call__)(model, x)[LEARNED - AHEAD : -AHEAD]
    error = float(afx.sqrt(afx.mean((found - truth) ** 2)))
    unchanged = float(afx.sqrt(afx.mean((x[LEARNED - AHEAD : -AHEAD] - truth) ** 2)))
    print(f"  root mean squared error of no change: {unchanged:.3f} standard deviations")
    time = np.arange(300)
    save(
        output / "time_series.png",
        Panel(
            "Unseen steps",
            "step",
            "standard deviations",
            (Curve(time, truth[:300], "series"), Curve(time, found[:300], f"foretold {AHEAD} steps before", "C1--")),
        ),
        Panel("Loss while it learns", "step", "squared error", training(losses, checks), log_y=True),
    )
    return [Claim("root mean squared error, in standard deviations", error, 0.05, shown="{:.3f}")]
