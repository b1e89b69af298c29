"""What type checkers know of optimizers: parameters and states keep their types."""

from typing import assert_type

import attrs

import afx
from afx import Array, optim


@attrs.frozen
class Line:
    slope: Array
    intercept: Array


def loss(line: Line, x: Array) -> Array:
    return afx.sum((line.slope * x + line.intercept) ** 2)


def adam(line: Line, x: Array) -> None:
    optimizer = optim.adam(1e-2)
    state = optimizer.init(line)
    assert_type(state, optim.AdamState[Line])
    grads = afx.grad(loss)(line, x)
    assert_type(optimizer.step(line, grads, state), tuple[Line, optim.AdamState[Line]])
    assert_type(state.mu, Line)


def step(line: Line, state: optim.AdamState[Line], x: Array) -> tuple[Line, optim.AdamState[Line], Array]:
    value, grads = afx.value_and_grad(loss)(line, x)
    line, state = optim.adam(1e-2).step(line, grads, state, value=value)
    return line, state, value


def compiled(line: Line, x: Array) -> None:
    state = optim.adam(1e-2).init(line)
    assert_type(afx.jit(step)(line, state, x), tuple[Line, optim.AdamState[Line], Array])
