"""Handwritten digits: 1,797 images of 8×8 pixels, and the cross-validation that the networks for them share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import attrs
import numpy as np

import afx
from afx import Array, data, nn, optim
from examples.report import Bars, Checks, Panel, progress, training

__all__ = ["Result", "cross_validate", "flatten", "images", "panels"]

BATCH = 64
DIGITS = 10
Run: TypeAlias = "tuple[list[float], Checks[nn.Sequential]]"


@attrs.frozen(eq=False)
class Result:
    """What came out of the folds: their accuracies, the losses of the first run, and who was taken for whom."""

    accuracies: tuple[float, ...]
    run: Run
    confusion: Array  # int64[10, 10]

    @property
    def mean(self) -> float:
        """The mean accuracy."""
        return sum(self.accuracies) / len(self.accuracies)


def images() -> tuple[Array, Array]:
    """Return float32[1797, 8, 8, 1] between 0 and 1, and the digits."""
    x, y = data.load_sklearn("digits", dtype=np.float32)
    return x.reshape(-1, 8, 8, 1) / 16, y


def flatten(x: Array) -> Array:
    """Return float[batch, features] from images."""
    return x.reshape(x.shape[0], -1)


def train(
    model: nn.Sequential,
    train_set: tuple[Array, Array],
    key: Array,
    epochs: int,
    title: str,
    look: Checks[nn.Sequential],
) -> tuple[nn.Sequential, list[float]]:
    """Fit a network to images with AdamW; return it and the losses of the steps."""
    order, noise = afx.random.split(key)
    batches = data.batches(train_set, BATCH, key=order)
    optimizer = optim.adamw(optim.cosine_decay(3e-3, epochs * len(batches)), weight_decay=1e-3)
    state, losses = optimizer.init(model), list[float]()

    @afx.jit
    def step(
        model: nn.Sequential, state: optim.AdamState[nn.Sequential], x: Array, y: Array, key: Array
    ) -> tuple[nn.Sequential, optim.AdamState[nn.Sequential], Array]:
        def loss(model: nn.Sequential) -> tuple[Array, nn.Sequential]:
            logits, new = model.train(x, key)
            return afx.mean(nn.softmax_cross_entropy(logits, y, smoothing=0.05)), new

        (value, model), grads = afx.value_and_grad(loss, has_aux=True)(model)
        model, state = optimizer.step(model, grads, state)
        return model, state, value

    for number in progress(range(epochs * len(batches)), title):
        x, y = batches[number]
        model, state, value = step(model, state, x, y, afx.random.fold_in(noise, number))
        losses.append(float(value))
        look(number, model)
    return model, losses


@afx.jit
def _cross_entropy(x: Array, y: Array, model: nn.Sequential) -> Array:
    return afx.mean(nn.softmax_cross_entropy(model(x), y, smoothing=0.05))


def cross_entropy(x: Array, y: Array, model: nn.Sequential) -> float:
    """Return the loss of images that the network has not learned from."""
    return float(_cross_entropy(x, y, model))


def cross_validate(make: Callable[[Array], nn.Sequential], epochs: int, folds: int, seed: int = 0) -> Result:
    """Train a network on four fifths of the images and test it on the rest, for each fifth (or fewer of them)."""
    accuracies, runs, confusion = list[float](), list[Run](), afx.zeros((DIGITS, DIGITS), afx.int64)
    x, y = images()
    parts = data.folds((x, y), 5, key=afx.random.key(seed), stratify=y)[:folds]
    for number, (train_set, (x_test, y_test)) in enumerate(parts):
        start, run = afx.random.split(afx.random.fold_in(afx.random.key(seed), number))
        checks = Checks(partial(cross_entropy, x_test, y_test), every=40)
        model, losses = train(make(start), train_set, run, epochs, f"fold {number + 1}", checks)
        scores = model(x_test)
        accuracies.append(float(nn.accuracy(scores, y_test)))
        confusion = confusion + nn.confusion_matrix(scores, y_test)
        runs.append((losses, checks))
    print(f"  accuracies of the folds: {', '.join(f'{a:.2%}' for a in accuracies)}")
    return Result(tuple(accuracies), runs[0], confusion)


def panels(result: Result) -> tuple[Panel, Panel]:
    """Lay out the losses of the first fold and the share of errors of each digit."""
    table = np.asarray(result.confusion)
    errors = 1 - np.diag(table) / table.sum(axis=1)
    bars = Bars(errors, names=[str(digit) for digit in range(DIGITS)])
    return (
        Panel("Loss of the first fold", "step", "cross entropy", training(*result.run), log_y=True),
        Panel("Errors of each digit", "digit", "share of its images", (bars,)),
    )
