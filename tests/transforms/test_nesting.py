"""Transformations, loops and branches inside each other, in any order, against closed forms."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from tests.every import together

Fn = Callable[[Any], Any]
X = np.float64(0.7)


def _one(x: Array) -> Array:
    return afx.ones((), x.dtype)


DERIVATIVES: dict[str, Callable[[Fn], Fn]] = {
    "grad": afx.grad,
    "value_and_grad": lambda f: lambda x: afx.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: afx.vjp(f, x)[1](_one(x))[0],
    "jvp": lambda f: lambda x: afx.jvp(f, (x,), (_one(x),))[1],
    "linearize": lambda f: lambda x: afx.linearize(f, x)[1](_one(x)),
    "jacfwd": afx.jacfwd,
    "jacrev": afx.jacrev,
}
AROUND: dict[str, Callable[[Fn], Fn]] = {
    "jit": afx.jit,
    "jit of a closure": lambda f: lambda x: afx.jit(lambda: f(x))(),
    "vmap": lambda f: lambda x: afx.vmap(f)(afx.broadcast_to(x, (2,)))[1],
    "vmap of a closure": lambda f: lambda x: afx.vmap(lambda z: f(x) + 0 * z)(np.zeros(2))[0],
    "checkpoint": afx.checkpoint,
    "scan over outputs": lambda f: lambda x: afx.scan(lambda c, _: (c, f(x)), x, None, length=2)[1][1],
    "scan of a carry": lambda f: lambda x: afx.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "cond": lambda f: lambda x: afx.cond(x > 0, f, lambda y: y * 0.0, x),
    "cond of closures": lambda f: lambda x: afx.cond(x > 0, lambda: f(x), lambda: x * 0.0),
    "while_loop": lambda f: lambda x: afx.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    "fori_loop": lambda f: lambda x: afx.fori_loop(0, 1, lambda _, c: f(c), x),
}


def _nests() -> Iterator[tuple[str, str, str]]:
    """Yield pairs of derivatives, and what stands inside the first, between them or around both."""
    pairs = list(itertools.product(DERIVATIVES, repeat=2))
    for k, (inner, outer) in enumerate(pairs):
        for j, around in enumerate(AROUND):
            if (k + j) % 3 == 0:  # each meets each, in a third of the places
                yield inner, outer, around


@together(("inner", "outer", "around"), list(_nests()))
def test_second_derivatives(inner: str, outer: str, around: str) -> None:
    """The second derivative of x·sin(x) is right wherever a loop, branch or transformation is put around a part."""
    wrap, first, second = AROUND[around], DERIVATIVES[inner], DERIVATIVES[outer]

    def fn(x: Array) -> Array:
        return afx.sin(x) * x

    want = 2 * math.cos(X) - X * math.sin(X)
    for nest in (second(first(wrap(fn))), second(wrap(first(fn))), wrap(second(first(fn)))):
        assert float(nest(afx.asarray(X))) == pytest.approx(want, rel=1e-12)


@together("around", list(itertools.product(AROUND, repeat=2)), ids=" in ".join)
def test_loops_branches_and_transformations_hold_each_other(around: tuple[str, str]) -> None:
    """Any two of them nest, and their gradient's gradient is right, compiled too."""
    inside, outside = (AROUND[name] for name in around)
    fn = outside(afx.grad(inside(lambda x: afx.exp(x) * x)))
    for run in (afx.grad(fn), afx.jit(afx.grad(fn))):
        assert float(run(afx.asarray(X))) == pytest.approx((X + 2) * math.exp(X), rel=1e-12)


class TestConfusion:
    """Derivatives by different variables, or by the same variable in different calls, never mix."""

    def test_closures_through_vmap(self) -> None:
        """A gradient by a variable that a mapped inner gradient closes over."""
        x = np.linspace(0.1, 1, 4)

        def fn(s: Array) -> Array:
            return afx.sum(afx.vmap(afx.grad(lambda y: afx.sin(y * s)))(x))

        want = np.sum(np.cos(x * X) - x * X * np.sin(x * X))
        for run in (afx.grad(fn), afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn))):
            assert float(run(X)) == pytest.approx(want)

    def test_closures_through_jit(self) -> None:
        """A compiled inner function whose closure is differentiated outside: d/ds of (∂/∂y s·y²) at y = s is 4s."""

        def fn(s: Array) -> Array:
            return afx.grad(afx.jit(lambda y: y * y * s))(s)

        for run in (afx.grad(fn), afx.jit(afx.grad(fn)), afx.jacfwd(fn)):
            assert float(run(np.float64(1.5))) == pytest.approx(6.0)

    def test_a_pullback_inside_a_gradient(self) -> None:
        """A pullback made of an outer variable is differentiated through."""

        def fn(x: Array) -> Array:
            return afx.vjp(lambda z: z * z * x, x)[1](afx.ones((), x.dtype))[0]

        assert float(afx.grad(fn)(np.float64(3.0))) == 12.0

    def test_a_pullback_is_differentiated_by_its_cotangent(self) -> None:
        """A pullback is a function like any other."""
        _, pullback = afx.vjp(afx.sin, X)
        assert float(afx.grad(lambda c: pullback(c)[0] ** 2)(np.float64(2.0))) == pytest.approx(4 * math.cos(X) ** 2)
        np.testing.assert_allclose(np.asarray(afx.vmap(pullback)(np.ones(3))[0]), np.cos(X))

    def test_the_same_function_at_two_levels(self) -> None:
        """An inner derivative at a traced point, beside the outer one by the same variable."""

        def fn(x: Array) -> Array:
            return x * afx.jvp(lambda y: x * y * y, (x,), (afx.ones((), x.dtype),))[1]

        assert float(afx.grad(fn)(np.float64(2.0))) == pytest.approx(24.0)  # d/dx of x · 2x²
        assert float(afx.jvp(afx.grad(fn), (np.float64(2.0),), (np.float64(1.0),))[1]) == pytest.approx(24.0)

    def test_recursion(self) -> None:
        """A function that differentiates itself, three levels deep: the third derivative of x⁵."""

        def derivative(x: Array, order: int) -> Array:
            return afx.grad(derivative)(x, order - 1) if order else x**5

        assert float(derivative(afx.asarray(np.float64(2.0)), 3)) == pytest.approx(60 * 4.0)


def test_fifth_derivative() -> None:
    """Five gradients inside each other, plain and compiled."""
    fn: Fn = afx.exp
    for _ in range(5):
        fn = afx.grad(fn)
    for run in (fn, afx.jit(fn), lambda x: afx.vmap(fn)(afx.stack([x, x]))[0]):
        assert float(run(X)) == pytest.approx(math.exp(X), rel=1e-13)


def test_python_numbers_that_are_traced_are_tangents() -> None:
    """The argument of a jitted function, or what a choice of two numbers gives."""
    slope = lambda x, t: afx.jvp(afx.sin, (x,), (t,))[1]
    assert float(afx.jit(lambda t: slope(t, t))(0.5)) == pytest.approx(0.5 * np.cos(0.5))
    chosen = lambda x: slope(x, afx.where(x > 0.4, 2.0, 3.0))
    np.testing.assert_allclose(afx.vmap(afx.jit(chosen))(np.array([0.3, 0.5])), [3 * np.cos(0.3), 2 * np.cos(0.5)])
    assert float(afx.jit(afx.grad(lambda t: slope(t, t * t)))(0.5)) == pytest.approx(np.cos(0.5) - 0.25 * np.sin(0.5))
