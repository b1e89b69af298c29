"""Is a histogram drawn from a Gaussian? A small convolutional network tells, and its input is bent until it errs."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, TypeVar

import attrs
import numpy as np

import afx
from afx import Array, nn, optim
from examples.histograms import Random, batch, gaussian, other
from examples.report import Bars, Claim, Curve, Panel, Series, progress, save

S = TypeVar("S")
Hacking: TypeAlias = tuple[list[Array], list[float]]


@attrs.frozen
class Classifier:
    """Three kernels of length 5, a maximum over pairs, and two linear maps to one number."""

    kernels: Array  # float[5, 1, 3]
    weight: Array  # float[18, 7]
    bias: Array  # float[7]
    readout: Array  # float[7]

    @classmethod
    def random(cls, random: Random) -> Classifier:
        """Draw every parameter from N(0, 1)."""
        shapes = ((5, 1, 3), (18, 7), (7,), (7,))
        return cls(*(afx.asarray(random.standard_normal(shape, np.float32)) for shape in shapes))

    def __call__(self, x: Array) -> Array:
        """Return the score of each histogram, float[batch, 16] -> float[batch]: above 0 it is called Gaussian."""
        correlated = nn.conv(x[..., None], self.kernels)  # float[batch, 12, 3]
        pooled = nn.max_pool(correlated, 2)  # float[batch, 6, 3]
        return (pooled.reshape(-1, 18) @ self.weight + self.bias) @ self.readout


def loss(model: Classifier, x: Array, is_gaussian: Array) -> Array:
    """Return the mean cross entropy, log(1 + exp(y)) - target y, in a form that cannot overflow."""
    y = model(x)
    return afx.mean(nn.softplus(y) - is_gaussian * y)


def train(optimizer: optim.Optimizer[S], of_each: int, steps: int, title: str) -> tuple[Classifier, list[float]]:
    """Fit a random classifier to fresh examples at every step; return it and the losses."""
    random = np.random.default_rng(1)
    model = Classifier.random(random)
    state, losses = optimizer.init(model), list[float]()

    @afx.jit
    def step(model: Classifier, state: S, x: Array, targets: Array) -> tuple[Classifier, S, Array]:
        value, grads = afx.value_and_grad(loss)(model, x, targets)
        model, state = optimizer.step(model, grads, state)
        return model, state, value

    for _ in progress(range(steps), title):
        x, targets = batch(random, of_each)
        model, state, value = step(model, state, afx.asarray(x), afx.asarray(targets))
        losses.append(float(value))
    return model, losses


def accuracy(model: Classifier, of_each: int = 5000) -> float:
    """Return the fraction of fresh examples that the model classifies rightly."""
    x, targets = batch(np.random.default_rng(2), of_each)
    right = (model(afx.asarray(x)) > 0) == (afx.asarray(targets) > 0)
    return float(afx.mean(right.astype(float)))


def hack(model: Classifier, start: float = -4.62, goal: float = 2.85) -> Hacking:
    """Follow the gradient with respect to the input, from class 0 until the score passes the goal."""

    def score(x: Array) -> Array:
        return model(x[None])[0]

    candidates = other(np.random.default_rng(3), 1000)
    x = afx.asarray(candidates[np.abs(np.asarray(model(afx.asarray(candidates))) - start).argmin()])
    inputs, scores = [x], [float(score(x))]
    while scores[-1] < goal and len(scores) < 1000:
        x = x + 5e-6 * afx.grad(score)(x)
        inputs.append(x)
        scores.append(float(score(x)))
    return inputs, scores


def histogram(title: str, x: Series, color: str) -> Panel:
    """Lay out one histogram."""
    return Panel(title, "bin", "fraction of the draws", (Bars(x, color=color),))


def training(paper: list[float], better: list[float]) -> tuple[Panel, Panel, Panel]:
    """Lay out the losses of both runs and an example of each class."""
    runs = ((paper, "paper's run: inertia, fixed step", "C1-"), (better, "Adam", "C0-"))
    curves = tuple(Curve(np.arange(1, len(run) + 1), np.array(run), label, form) for run, label, form in runs)
    random = np.random.default_rng(4)
    return (
        Panel("Loss on fresh examples", "step", "cross entropy", curves, log_y=True),
        histogram("Class 1: Gaussian", gaussian(random, 1)[0], "C0"),
        histogram("Class 0: another distribution", other(random, 1)[0], "C1"),
    )


def bending(inputs: list[Array], scores: list[float]) -> tuple[Panel, Panel, Panel]:
    """Lay out the input before and after the hacking, and the scores on the way."""
    return (
        histogram(f"Class 0, score {scores[0]:.2f}", inputs[0], "C1"),
        histogram(f"Bent into class 1, score {scores[-1]:.2f}", inputs[-1], "C0"),
        Panel("On the way", "step", "score", (Curve(np.arange(len(scores)), np.array(scores), "", "C0.-"),)),
    )


def run(output: Path) -> list[Claim]:
    """Train as the paper does and with Adam, measure both on fresh examples, then hack the better one's input."""
    inertia = optim.sgd(0.03 * 0.05, momentum=0.95)  # g <- 0.05 gradient + 0.95 g, a step of 0.03 g
    paper, paper_losses = train(inertia, of_each=50, steps=1000, title="paper's run")
    model, losses = train(optim.adam(optim.cosine_decay(0.05, 1500)), of_each=20, steps=1500, title="Adam")
    inputs, scores = hack(model)
    print(f"  paper's run, batches of 100: {accuracy(paper):.2%} of 10 000 fresh examples are right")
    print(f"  hacking: {len(scores) - 1} steps along the input's gradient, score {scores[0]:.2f} -> {scores[-1]:.2f}")
    save(output / "classifier.png", *training(paper_losses, losses))
    save(output / "classifier_hacked.png", *bending(inputs, scores))
    return [
        Claim("accuracy on 10 000 fresh examples", accuracy(model), 0.995, at_least=True, shown="{:.2%}"),
        Claim("score of the class-0 input before hacking", scores[0], 0.0, shown="{:.2f}"),
        Claim("score after hacking", scores[-1], 0.0, at_least=True, shown="{:.2f}"),
    ]
