"""A variational autoencoder learns eight numbers that tell a handwritten digit, and draws new ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs

import afx
from afx import Array, data, nn, optim
from examples.digits import flatten, images
from examples.report import Checks, Claim, Panel, Pixels, progress, save, sheet, training

LATENT, HIDDEN, BATCH = 8, 256, 64


@attrs.frozen
class Autoencoder:
    """From images to the means and log variances of a few numbers, and from such numbers to pixels."""

    encoder: nn.MLP
    decoder: nn.MLP

    @classmethod
    def create(cls, key: Array) -> Autoencoder:
        """Draw the weights."""
        first, second = afx.random.split(key)
        encoder = nn.MLP.create(first, (64, HIDDEN, HIDDEN, 2 * LATENT), activation=nn.silu)
        return cls(encoder, nn.MLP.create(second, (LATENT, HIDDEN, HIDDEN, 64), activation=nn.silu))

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Return means and logarithms of variances, float[batch, latent] each."""
        mean, log_variance = afx.split(self.encoder(x), 2, axis=-1)
        return mean, log_variance


State: TypeAlias = optim.AdamState[Autoencoder]


def bound(model: Autoencoder, x: Array, key: Array) -> Array:
    """Return for each image a bound on its code length in nats (Kingma & Welling 2014, equation 10).

    That is the cross entropy of its pixels, read as shares of black, and the divergence of its code from the normal.
    """
    mean, log_variance = model.encode(x)
    code = mean + afx.exp(log_variance / 2) * afx.random.normal(key, mean.shape)
    pixels = afx.sum(nn.sigmoid_binary_cross_entropy(model.decoder(code), x), axis=-1)
    return pixels + afx.sum(afx.exp(log_variance) + mean**2 - 1 - log_variance, axis=-1) / 2


def train(x: Array, epochs: int, look: Checks[Autoencoder]) -> tuple[Autoencoder, list[float]]:
    """Fit an autoencoder to images; return it and the losses."""
    start, order, draws = afx.random.split(afx.random.key(0), 3)
    model, batches = Autoencoder.create(start), data.batches(x, BATCH, key=order)
    steps = epochs * len(batches)
    optimizer = optim.adamw(optim.cosine_decay(2e-3, steps), weight_decay=0.05)
    state, losses = optimizer.init(model), list[float]()

    @afx.jit
    def step(model: Autoencoder, state: State, x: Array, key: Array) -> tuple[Autoencoder, State, Array]:
        def loss(model: Autoencoder) -> Array:
            return afx.mean(bound(model, x, key))

        value, grads = afx.value_and_grad(loss)(model)
        model, state = optimizer.step(model, grads, state)
        return model, state, value

    for number in progress(range(steps), "autoencoder"):
        model, state, value = step(model, state, batches[number], afx.random.fold_in(draws, number))
        losses.append(float(value))
        look(number, model)
    return model, losses


@afx.jit
def mean_bound(model: Autoencoder, x: Array, key: Array) -> Array:
    """Return the code length of some digits in nats an image."""
    return afx.mean(bound(model, x, key))


def unseen_bound(x: Array, model: Autoencoder) -> float:
    """Return the code length of digits that the model has not learned from."""
    return float(mean_bound(model, x, afx.random.key(2)))


def run(output: Path, epochs: int = 150) -> list[Claim]:
    """Learn four fifths of the digits, measure the rest, and draw new ones."""
    pixels = flatten(images()[0])
    learned, unseen = data.folds(pixels, 5, key=afx.random.key(1))[0]
    checks = Checks(partial(unseen_bound, unseen), every=100)
    model, losses = train(learned, epochs, checks)
    found = unseen_bound(unseen, model)
    share = afx.clip(afx.mean(learned, axis=0), 1e-3, 1 - 1e-3)
    alone = afx.broadcast_to(afx.log(share / (1 - share)), unseen.shape)
    independent = float(afx.mean(afx.sum(nn.sigmoid_binary_cross_entropy(alone, unseen), axis=-1)))
    print(f"  pixels that know nothing of each other: {independent:.2f} nats an image")
    drawn = nn.sigmoid(model.decoder(afx.random.normal(afx.random.key(3), (64, LATENT))))
    save(
        output / "autoencoder.png",
        Panel("Loss while it learns", "step", "nats an image", training(losses, checks), log_x=True),
        Panel("Digits from the data", "", "", (Pixels(sheet(unseen[:64].reshape(64, 8, 8), 8)),)),
        Panel("Digits it draws", "", "", (Pixels(sheet(drawn.reshape(64, 8, 8), 8)),)),
    )
    return [Claim("code length of unseen digits in nats", found, 24.5, shown="{:.2f}")]
