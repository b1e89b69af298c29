"""A network of three layers with dropout and batch normalization reads handwritten digits."""

from __future__ import annotations

from pathlib import Path

import afx
from afx import Array, nn
from examples.digits import cross_validate, flatten, panels
from examples.report import Claim, save

HIDDEN = 256


def network(key: Array) -> nn.Sequential:
    """Return two hidden layers, each normalized by its batch and with a third of its outputs dropped."""
    first, second, third = afx.random.split(key, 3)
    return nn.Sequential(
        flatten,
        nn.Linear.create(first, 64, HIDDEN, bias=False, init=nn.he_normal),
        nn.BatchNorm.create(HIDDEN),
        nn.relu,
        nn.Dropout(0.3),
        nn.Linear.create(second, HIDDEN, HIDDEN, bias=False, init=nn.he_normal),
        nn.BatchNorm.create(HIDDEN),
        nn.relu,
        nn.Dropout(0.3),
        nn.Linear.create(third, HIDDEN, 10),
    )


def run(output: Path, epochs: int = 30, folds: int = 5) -> list[Claim]:
    """Train and test on five folds."""
    result = cross_validate(network, epochs, folds)
    save(output / "digits_mlp.png", *panels(result))
    return [Claim("mean accuracy of the folds", result.mean, 0.98, at_least=True, shown="{:.2%}")]
