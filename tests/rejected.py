"""Mistakes that both type checkers must report: each line that ends in ``# rejected``, and no other.

Those that end in ``# rejected by pyright`` mypy cannot see: it does not solve the types of a function's parameters from the
type of ``self``.
"""

import attrs
import numpy as np

import afx
from afx import Array, optim


@attrs.frozen
class Line:
    slope: Array
    intercept: Array


def loss(line: Line, x: Array) -> Array:
    return afx.sum((line.slope * x + line.intercept) ** 2)


def product(x: Array, y: Array) -> Array:
    return x * y


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
    afx.jit(loss)(line, "one")  # rejected
    afx.jit(loss)(line)  # rejected
    afx.jit(product)(x)  # rejected
    afx.jit(product)(x, "two")  # rejected
    afx.jit(product)("one", "two")  # rejected
    afx.jit(product)(1, 2, 3)  # rejected by pyright
    afx.jit(product)("one", 2)  # rejected by pyright
    afx.jit(product)("one", x)  # rejected
    afx.jit(product)(x, np.ones(3), 2.0)  # rejected by pyright
    afx.jit(loss)("one", np.ones(3))  # rejected by pyright


def chosen_arguments(line: Line, x: Array) -> None:
    wrong: Line = afx.grad(loss, 1)(line, x)  # rejected
    afx.grad(loss, (0, 1))(line)  # rejected
    afx.grad(loss, (0, 1))(wrong, x, x)  # rejected


def optimizers(line: Line, x: Array) -> None:
    optimizer = optim.adam(1e-2)
    state = optimizer.init(line)
    optimizer.step(line, x, state)  # rejected
    optimizer.step(line, line, line)  # rejected


def kinds_of_optimizers(line: Line) -> None:
    optim.chain(optim.sgd(0.1), optim.sgd(0.1))  # rejected
    optim.chain(optim.adam(0.1), optim.add_decayed_weights(0.1))  # rejected
    optim.chain(optim.clip_by_value(1.0), optim.sgd(0.1), optim.trace(0.9))  # rejected
    optim.chain(optim.clip_by_value(1.0), optim.scale(0.1)).step(line, line, (1, 2))  # rejected
    optim.masked(optim.sgd(0.1), True)  # rejected
    optim.freeze(optim.scale_by_adam(), True)  # rejected
    optim.partition({"a": optim.trace(0.9)}, "a")  # rejected
    optim.projected(optim.scale(1.0), non_negative)  # rejected


def non_negative(line: Line) -> Line:
    return line
