"""Mistakes that both type checkers must report: each line that ends in ``# rejected``, and no other."""

import attrs

import afx
from afx import Array, optim


@attrs.frozen
class Line:
    slope: Array
    intercept: Array


def loss(line: Line, x: Array) -> Array:
    return afx.sum((line.slope * x + line.intercept) ** 2)


def immutability(line: Line, x: Array) -> None:
    x[0] = 1.0  # rejected
    line.slope = x  # rejected


def operands(x: Array) -> None:
    x + "one"  # rejected
    afx.sin("one")  # rejected
    afx.sum(x, axis="rows")  # rejected


def gradients(line: Line, x: Array) -> None:
    afx.grad(loss)(x, x)  # rejected
    afx.grad(loss)(line)  # rejected
    afx.grad(loss)(line, x, x)  # rejected
    wrong: Array = afx.grad(loss)(line, x)  # rejected
    afx.sin(wrong)


def compiled(line: Line, x: Array) -> None:
    afx.jit(loss)(x, line)  # rejected


def optimizers(line: Line, x: Array) -> None:
    optimizer = optim.adam(1e-2)
    state = optimizer.init(line)
    optimizer.step(line, x, state)  # rejected
    optimizer.step(line, line, line)  # rejected
