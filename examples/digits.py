"""Handwritten digits: 1,797 images of 8×8 pixels, and the cross-validation that the networks for them share."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

import afx
from afx import Array, data, nn, optim
from examples.report import Bars, Curve, Panel, progress

__all__ = ["Result", "cross_validate", "flatten", "images", "panels"]

BATCH = 64
DIGITS = 10


@attrs.frozen(eq=False)
class Result:
    """What came out of the folds: their accuracies, the losses of the first, and who was taken for whom."""

    accuracies: tuple[float, ...]
    losses: tuple[float, ...]
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
    model: nn.Sequential, train_set: tuple[Array, Array], key: Array, epochs: int, title: str
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
    return model, losses


def cross_validate(make: Callable[[Array], nn.Sequential], epochs: int, folds: int, seed: int = 0) -> Result:
    """Train a network on four fifths of the images and test it on the rest, for each fifth (or fewer of them)."""
    accuracies, first, confusion = list[float](), list[float](), afx.zeros((DIGITS, DIGITS), afx.int64)
    x, y = images()
    parts = data.folds((x, y), 5, key=afx.random.key(seed), stratify=y)[:folds]
    for number, (train_set, (x_test, y_test)) in enumerate(parts):
        start, run = afx.random.split(afx.random.fold_in(afx.random.key(seed), number))
        model, losses = train(make(start), train_set, run, epochs, f"fold {number + 1}")
        scores = model(x_test)
        accuracies.append(float(nn.accuracy(scores, y_test)))
        confusion = confusion + nn.confusion_matrix(scores, y_test)
        first = first or losses
    print(f"  accuracies of the folds: {', '.join(f'{a:.2%}' for a in accuracies)}")
    return Result(tuple(accuracies), tuple(first), confusion)


def panels(result: Result) -> tuple[Panel, Panel]:
    """Lay out the losses of the first fold and the share of errors of each digit."""
    table = np.asarray(result.confusion)
    errors = 1 - np.diag(table) / table.sum(axis=1)
    steps = np.arange(1, len(result.losses) + 1)
    curve = Curve(steps, np.array(result.losses), form="C0-")
    return (
        Panel("Loss of the first fold", "step", "cross entropy", (curve,), log_y=True),
        Panel("Errors of each digit, 0 to 9", "digit + 1", "share of its images", (Bars(errors),)),
    )
