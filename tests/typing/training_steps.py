"""Batches of NumPy's arrays go to steps that are written for Arrays."""

from collections.abc import Iterator
from typing import assert_type

import attrs
import numpy as np

import afx
from afx import Array, data, optim, train


@attrs.frozen
class Line:
    slope: Array


State = tuple[Line, optim.AdamState[Line]]
adam = optim.adam(0.1)
line = Line(afx.ones(()))
begin: State = (line, adam.init(line))


def loss(line: Line, x: Array, y: Array) -> Array:
    return afx.mean((line.slope * x - y) ** 2)


@afx.jit
def advance(state: State, batch: tuple[Array, Array]) -> tuple[State, Array]:
    line, inner = state
    value, grads = afx.value_and_grad(loss)(line, *batch)
    return adam.step(line, grads, inner), value


@afx.jit
def by_name(state: State, batch: dict[str, Array]) -> Array:
    return state[0].slope * batch["x"]


x, y = np.ones(8), np.ones(8)
assert_type(advance(begin, (x, y)), tuple[State, Array])
assert_type(by_name(begin, {"x": x, "y": y}), Array)
batches = data.batches((x, y), 2, key=afx.random.key(0))
assert_type(train.steps(advance, begin, batches.stream(0)), Iterator[train.Step[State, Array]])
assert_type(adam.step(line, line, begin[1]), tuple[Line, optim.AdamState[Line]])
