"""The table of a model's layers."""

import io
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, nn


def table(model: Any, *args: Any) -> list[str]:
    """Return the lines of the table."""
    file = io.StringIO()
    nn.summary(model, *args, file=file)
    return file.getvalue().splitlines()


def test_layers_outputs_and_parameters() -> None:
    """A row for each layer, numbers that are not trained apart; shapes alone are traced."""
    model = nn.Sequential(nn.Conv.create(0, (3,), 1, 4), nn.BatchNorm.create(4), nn.relu, nn.Dropout(0.5))
    assert table(model, afx.Aval((2, 8, 1), np.dtype(np.float32))) == [
        "Layer      Type       Output          Parameters",
        "------------------------------------------------",
        "layers[0]  Conv       float32[2,6,4]          16",
        "layers[1]  BatchNorm  float32[2,6,4]          16",
        "layers[3]  Dropout    float32[2,6,4]           0",
        "------------------------------------------------",
        "Sequential: 24 parameters, and 8 numbers that are not trained",
    ]
    assert table(model)[0] == "Layer      Type       Parameters"


def test_ones_own_model() -> None:
    """Parameters of its own, parts that are not called, outputs of several arrays, Python control flow."""

    @attrs.frozen
    class Net:
        walk: nn.GRU
        parts: dict[str, nn.Linear]
        scale: Array

        def __call__(self, x: Array) -> Array:
            y, _ = self.walk(x)
            return y * self.scale if float(afx.max(y)) < 2 else y

    model = Net(nn.GRU.create(0, 3, 4), {"spare": nn.Linear.create(0, 2, 2)}, afx.ones(4))
    lines = table(model, afx.ones((2, 5, 3)))
    assert lines[2].split() == [".", "Net", "float32[2,5,4]", "4"]
    assert lines[3].split() == ["walk", "GRU", "(float32[2,5,4],", "float32[2,4])", "100"]
    assert lines[4].split() == ["parts['spare']", "Linear", "6"]
    assert lines[-1] == "Net: 110 parameters"


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    """The table goes to standard output."""
    nn.summary(nn.Linear.create(0, 1, 1, bias=False))
    assert capsys.readouterr().out.splitlines()[-1] == "Linear: 1 parameter"


def test_what_cannot_be_called() -> None:
    """Arguments for a model that is no function are named."""
    with pytest.raises(afx.errors.ArgumentError, match="summary: the model is no function: got dict"):
        table({"a": afx.ones(2)}, afx.ones(2))


def test_running_statistics_are_not_trained(rng: np.random.Generator) -> None:
    """An optimizer leaves them alone, and they are no parameters."""
    norm, x = nn.BatchNorm.create(3), rng.normal(size=(8, 3)).astype(np.float32)
    assert nn.count_parameters(norm) == 6
    assert repr(norm).startswith("BatchNorm(6 parameters:")
    optimizer = afx.optim.adamw(0.1, weight_decay=0.1)

    def loss(norm: nn.BatchNorm) -> tuple[Array, nn.BatchNorm]:
        y, new = norm.train(x)
        return afx.mean((y - 1) ** 2), new

    (_, new), grads = afx.value_and_grad(loss, has_aux=True)(norm)
    moved, _ = optimizer.step(new, grads, optimizer.init(new))
    assert moved.mean.tolist() == new.mean.tolist()
    assert moved.variance.tolist() == new.variance.tolist() != norm.variance.tolist()
    assert moved.shift.tolist() != norm.shift.tolist()
