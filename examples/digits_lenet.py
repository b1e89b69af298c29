"""A small convolutional network in the manner of LeNet reads handwritten digits."""

from __future__ import annotations

from pathlib import Path

import afx
from afx import Array, nn
from examples.digits import cross_validate, flatten, panels
from examples.report import Claim, save


def halve(x: Array) -> Array:
    """Return the largest of each four neighbouring pixels."""
    return nn.max_pool(x, 2)


def network(key: Array) -> nn.Sequential:
    """Return two convolutions, each with normalization and pooling, and two linear layers (LeCun et al. 1998)."""
    keys = afx.random.split(key, 4)
    return nn.Sequential(
        nn.Conv.create(keys[0], (3, 3), 1, 32, padding="same", bias=False),
        nn.BatchNorm.create(32),
        nn.relu,
        halve,
        nn.Conv.create(keys[1], (3, 3), 32, 64, padding="same", bias=False),
        nn.BatchNorm.create(64),
        nn.relu,
        halve,
        flatten,
        nn.Linear.create(keys[2], 256, 128, init=nn.he_normal),
        nn.relu,
        nn.Dropout(0.3),
        nn.Linear.create(keys[3], 128, 10),
    )


def run(output: Path, epochs: int = 30, folds: int = 5) -> list[Claim]:
    """Train and test on five folds."""
    result = cross_validate(network, epochs, folds)
    save(output / "digits_lenet.png", *panels(result))
    return [Claim("mean accuracy of the folds", result.mean, 0.988, at_least=True, shown="{:.2%}")]
