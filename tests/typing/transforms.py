"""What type checkers know of transformed functions: the parameters' own types, and the arguments' names."""

import functools
from typing import NamedTuple, assert_type

import attrs
import numpy as np

import afx
from afx import Array, Graph, nn


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


def chosen_arguments(line: Line, x: Array, parts: dict[str, Array]) -> None:
    assert_type(afx.grad(loss, 0)(line, x), Line)
    assert_type(afx.grad(loss, 1)(line, x), Array)
    assert_type(afx.grad(loss, argnums=1)(line, x, weight=2.0), Array)
    assert_type(afx.grad(three, 2)(line, x, parts), dict[str, Array])
    assert_type(afx.grad(loss, (0, 1))(line, x), tuple[Line, Array])
    assert_type(afx.grad(three, (0, 1, 2))(line, x, parts), tuple[Line, Array, dict[str, Array]])
    assert_type(afx.value_and_grad(loss, 1)(line, x), tuple[Array, Array])
    assert_type(afx.value_and_grad(loss, argnums=(0, 1))(line, x), tuple[Array, tuple[Line, Array]])
    assert_type(afx.grad(loss_and_guess, 1, has_aux=True)(line, x), tuple[Array, dict[str, Array]])
    assert_type(
        afx.value_and_grad(loss_and_guess, (0, 1), has_aux=True)(line, x),
        tuple[tuple[Array, dict[str, Array]], tuple[Line, Array]],
    )


def three(line: Line, x: Array, parts: dict[str, Array]) -> Array:
    return loss(line, x) + parts["shift"]


def fit_and_rest(x: Array) -> tuple[Array, dict[str, Array]]:
    return x, {"rest": x}


def power(x: Array, n: int = 2) -> Array:
    return x**n


def loss_and_line(x: Array, line: Line) -> Array:
    return loss(line, x)


def energy(a: Array, b: Array) -> Array:
    return afx.sum(a * b)


def jacobians(line: Line, x: Array) -> None:
    assert_type(afx.jacfwd(energy, 1)(x, x), Array)
    assert_type(afx.jacrev(energy, (0, 1))(x, x), tuple[Array, Array])
    assert_type(afx.jacrev(loss_and_line, 1)(x, line), Line)
    assert_type(afx.hessian(energy, 1)(x, x), Array)
    assert_type(afx.hessian(energy, (0, 1))(x, x), tuple[tuple[Array, Array], tuple[Array, Array]])
    assert_type(afx.jacfwd(power)(x), Array)
    assert_type(afx.jacrev(power)(x), Array)
    assert_type(afx.hessian(power)(x), Array)
    assert_type(afx.jacfwd(power)(x, n=3), Array)
    assert_type(afx.jacfwd(loss)(line, x), Line)
    assert_type(afx.jacrev(fit_and_rest)(x), tuple[Array, dict[str, Array]])
    assert_type(afx.jacrev(fit_and_rest, has_aux=True)(x), tuple[Array, dict[str, Array]])
    assert_type(afx.hessian(fit_and_rest, has_aux=True)(x), tuple[Array, dict[str, Array]])


def shapes(line: Line, x: Array) -> None:
    assert_type(afx.eval_shape(loss, line, afx.Aval((3,), afx.float32)), afx.Aval)
    assert_type(afx.eval_shape(fit_and_rest, x), tuple[Array, dict[str, Array]])


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
    assert_type(afx.grad(fast, (0, 1))(line, x), tuple[Line, Array])
    assert_type(afx.jacrev(afx.jit(fit_and_rest))(x), tuple[Array, dict[str, Array]])


def compiled_on_numpys_arrays(line: Line, x: Array, state: dict[str, Array]) -> None:
    fast = afx.jit(loss)
    assert_type(fast(line, np.ones(3)), Array)
    assert_type(fast(line, 2.0, weight=2.0), Array)
    assert_type(afx.jit(power)(np.ones(3)), Array)
    assert_type(afx.jit(power)(1.5), Array)
    assert_type(afx.jit(advance)(line, state, np.ones(3), x), tuple[Line, dict[str, Array]])
    assert_type(afx.jit(advance)(line, state, x, 2.0), tuple[Line, dict[str, Array]])
    assert_type(afx.jit(advance)(line, state, np.ones(3), y=np.ones(3)), tuple[Line, dict[str, Array]])
    assert_type(afx.jit(sum_pair)(line, (np.ones(3), x)), Array)
    assert_type(afx.jit(total)(x, np.ones(3), 1, 2.0), Array)


def sum_pair(line: Line, pair: tuple[Array, Array]) -> Array:
    return line.slope * (pair[0] + pair[1])


def total(*xs: Array) -> Array:
    return xs[0]


def advance(line: Line, state: dict[str, Array], x: Array, y: Array) -> tuple[Line, dict[str, Array]]:
    return line, {"sum": state["sum"] + x + y}


@functools.partial(afx.jit, static_argnames="n")
def unrolled(x: Array, n: int = 2) -> Array:
    return x**n


def partial_decorators(x: Array) -> None:
    found: Array = unrolled(x, n=3)
    assert found.ndim == x.ndim


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
    assert_type(afx.scan(lambda carry, y: (carry + y, carry), x, x), tuple[Array, Array])
    assert_type(afx.map(lambda y: (afx.sin(y), line), x), tuple[Array, Line])
    assert_type(afx.fori_loop(0, 3, lambda k, y: y + k, x), Array)
    assert_type(nn.train(lambda model: model(x), nn.PReLU.create()), tuple[Array, nn.PReLU])


def branches(line: Line, x: Array, y: Array, parts: dict[str, Array]) -> None:
    assert_type(afx.cond(afx.sum(x) > 0, lambda v: afx.sin(v), lambda v: v * 2, x), Array)
    assert_type(afx.cond(True, lambda v, w: (v, w), lambda v, w: (v, w), x, line), tuple[Array, Line])
    assert_type(afx.cond(True, lambda v, w, u: v + w * u, lambda v, w, u: v, x, y, x), Array)
    assert_type(afx.cond(True, lambda v: v["a"], lambda v: v["b"], parts), Array)
    assert_type(afx.switch(1, (lambda v: afx.sin(v), lambda v: v * 2), x), Array)
    assert_type(afx.switch(1, (lambda v, w: w, lambda v, w: w), x, line), Line)
    assert_type(afx.switch(1, [lambda: x, lambda: y]), Array)
    assert_type(afx.switch(1, [afx.sin, afx.cos], x), Array)
    afx.switch(1, [lambda v: v["a"], lambda v: afx.sin(v["b"])], parts)


def lambdas(x: Array, y: Array) -> None:
    afx.hessian(lambda x: afx.sum(x))(x)
    afx.value_and_grad(lambda x: afx.sum(x))(x)
    afx.jacrev(lambda x: afx.exp(x))(x)
    afx.vmap(afx.grad(lambda x: afx.sum(x**3)))(x)  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]  # it takes the lambda's x for any number
    afx.grad(product_of_two, argnum=1)(x, y)
    assert_type(afx.grad(product_of_two, argnums=(0, 1))(x, y), tuple[Array, Array])


def product_of_two(x: Array, y: Array) -> Array:
    return afx.sum(x * y)
