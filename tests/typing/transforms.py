"""What type checkers know of transformed functions: the parameters' own types, and the arguments' names."""

from typing import NamedTuple, assert_type

import attrs

import afx
from afx import Array, Graph


@attrs.frozen
class Line:
    slope: Array
    intercept: Array


class Pair(NamedTuple):
    first: Array
    second: Array


def loss(line: Line, x: Array, *, weight: float = 1.0) -> Array:
    return afx.sum((line.slope * x + line.intercept) ** 2) * weight


def loss_and_guess(line: Line, x: Array) -> tuple[Array, dict[str, Array]]:
    return loss(line, x), {"guess": line.slope * x}


def gradients(line: Line, pair: Pair, x: Array) -> None:
    assert_type(afx.grad(loss)(line, x), Line)
    assert_type(afx.grad(loss)(line, x, weight=2.0), Line)
    assert_type(afx.value_and_grad(loss)(line, x), tuple[Array, Line])
    assert_type(afx.grad(product)(pair), Pair)
    assert_type(afx.grad(product, holomorphic=True)(pair), Pair)
    assert_type(afx.value_and_grad(loss, holomorphic=False)(line, x), tuple[Array, Line])
    assert_type(afx.sparse_jacobian(product)(pair), afx.SparseMatrix)
    assert_type(afx.sparse_hessian(product)(pair) @ x, Array)
    assert_type(afx.grad(afx.sum)(x), Array)


def product(pair: Pair) -> Array:
    return afx.sum(pair.first * pair.second)


def auxiliary_output(line: Line, x: Array) -> None:
    assert_type(afx.grad(loss_and_guess, has_aux=True)(line, x), tuple[Line, dict[str, Array]])
    assert_type(
        afx.value_and_grad(loss_and_guess, has_aux=True)(line, x),
        tuple[tuple[Array, dict[str, Array]], Line],
    )


def compiled(line: Line, x: Array) -> None:
    fast = afx.jit(loss)
    assert_type(fast(line, x, weight=2.0), Array)
    assert_type(afx.grad(fast)(line, x), Line)
    assert_type(afx.jit(afx.grad(loss))(line, x), Line)


@afx.jit
def decorated(line: Line, x: Array) -> tuple[Line, Array]:
    value, grads = afx.value_and_grad(loss)(line, x)
    return grads, value


def decorators(line: Line, x: Array) -> None:
    assert_type(decorated(line, x), tuple[Line, Array])


def graphs(line: Line, x: Array) -> None:
    assert_type(afx.trace(loss)(line, x), Graph)
    assert_type(afx.stop_gradient(line), Line)


def step(carry: Line, x: Array) -> tuple[Line, dict[str, Array]]:
    return carry, {"product": carry.slope * x}


def loops(line: Line, x: Array) -> None:
    assert_type(afx.scan(step, line, x), tuple[Line, dict[str, Array]])
