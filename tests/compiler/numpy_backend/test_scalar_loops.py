"""Scalar loops: steps on 0-d float64 values give NumPy's bits, warnings and errors on Python's floats."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.target import Target, use_target
from tests.every import together

Step = Callable[[Any, Any], tuple[Any, Any]]


def rotate(carry: Any, x: Any) -> tuple[Any, Any]:
    """Carry four numbers with sums, products, quotients, roots, constants and an exchange."""
    a, b, c, d = carry
    e = a * b - c / (d * d + 1.5)
    f = afx.sqrt(e * e + 0.25) * -0.5
    return (b, a + 0.125 * f, -c, d - x / 3.0), (e, f, a, 1.0)


def call_functions(carry: Any, x: Any) -> tuple[Any, Any]:
    """Carry four numbers through functions that NumPy computes."""
    a, b, c, d = carry
    e = afx.exp(afx.sin(a) * 0.1) + afx.maximum(b, x) ** 2.5
    return (b, afx.log(e + 1.0), afx.tanh(d), afx.arctan2(c, a) + d**3), (e, afx.minimum(a, -0.0))


def choose(carry: Any, x: Any) -> tuple[Any, Any]:
    """Carry four numbers through choices between them."""
    a, b, c, d = carry
    near = (abs(a) < 1.0) & ~(b > x) | (c == d)
    return (afx.where(near, a + x, -b), a, afx.where(x >= 0.0, d, c), afx.where(near, d, afx.sqrt(abs(a)))), (near, a)


STEPS: dict[str, Step] = {"arithmetic": rotate, "functions": call_functions, "choices": choose}
START = tuple(np.float64(x) for x in (0.3, 1.7, -0.2, 0.9))


def source_of(fn: Callable[..., Any], *xs: Any) -> str:
    """Return the plan of a function as Python."""
    return afx.jit(fn).lower(*xs).plan.source


def run(step: Step, start: Any, xs: Any, reverse: bool = False) -> Any:
    """Run the steps as one loop."""
    return afx.jit(lambda start, xs: afx.scan(step, start, xs, reverse=reverse))(start, xs)


def by_numpy(step: Step, start: Any, xs: Any, reverse: bool = False) -> Any:
    """Run the steps as a loop of NumPy's calls: a plan may not have so few lines that floats are taken."""
    with use_target(Target(scalar_max_lines=0)):
        return run(step, start, xs, reverse)


def bits(tree: Any) -> list[bytes]:
    """Return all numbers of a tree byte for byte, with dtype and shape."""
    arrays = [np.asarray(x) for x in afx.pytree.flatten(tree)[0]]
    return [repr((x.dtype, x.shape)).encode() + x.tobytes() for x in arrays]


@together("reverse", [False, True])
@together("length", [0, 1, 7, 25])
@together("name", STEPS)
def test_floats_give_the_bits_of_numpy(name: str, length: int, reverse: bool) -> None:
    """Of the last carry and of all rows, in several chunks of rows and in both directions."""
    step, xs = STEPS[name], np.random.default_rng(1).normal(size=length)
    with use_target(Target(scalar_chunk_steps=8)):
        found = run(step, START, xs, reverse)
    assert bits(found) == bits(by_numpy(step, START, xs, reverse))
    assert bits(found) == bits(afx.scan(step, START, xs, reverse=reverse)) or length == 0


def test_loops_on_numbers_take_floats() -> None:
    """The plan shows arithmetic of Python, and for float32 and arrays NumPy's calls."""
    xs = np.arange(3.0)
    scan = lambda start, xs: afx.scan(rotate, start, xs)
    assert "def steps_1(" in source_of(scan, START, xs)
    single = tuple(np.float32(x) for x in START)
    assert "def steps_1(" not in source_of(scan, single, xs.astype(np.float32))
    assert "def steps_1(" not in source_of(scan, tuple(np.full(2, x) for x in START), xs)


def test_gradients_of_loops_are_those_of_numpy() -> None:
    """Both loops, forward and backward, run on floats."""
    xs = np.linspace(-1.0, 1.0, 9)

    def loss(start: Any, xs: Array) -> Array:
        last, rows = afx.scan(rotate, start, xs)
        return afx.sum(rows[0]) + last[0] * last[3]

    fn = afx.jit(afx.grad(loss, argnums=(0, 1)))
    assert fn.lower(START, xs).plan.source.count("def steps_") == 2
    with use_target(Target(scalar_max_lines=0)):
        wanted = afx.jit(afx.grad(loss, argnums=(0, 1)))(START, xs)
    assert bits(fn(START, xs)) == bits(wanted)


def count(carry: Any, k: Any) -> tuple[Any, Any]:
    """Count steps beside a number that they scale."""
    n, x = carry
    return (n * 3 + k, x * 0.5 + afx.astype(n, "float64")), (n - 1, n > k)


@pytest.mark.parametrize("start", [1, 2**61, -(2**62)])
def test_whole_numbers_count_as_those_of_numpy(start: int) -> None:
    """Also where they leave the range of int64 and begin anew."""
    first, xs = (np.int64(start), np.float64(0.5)), np.arange(12)
    assert "def steps_1(" in source_of(lambda c, xs: afx.scan(count, c, xs), first, xs)
    assert bits(run(count, first, xs)) == bits(by_numpy(count, first, xs))
    assert bits(run(count, first, xs)) == bits(afx.scan(count, first, xs))


def test_counted_loops_take_floats() -> None:
    """`fori_loop` hands its counter to the step."""
    fn = afx.jit(lambda x: afx.fori_loop(0, 10, lambda i, c: c * 0.5 + i, x))
    assert "def steps_1(" in fn.lower(np.float64(1.0)).plan.source
    assert float(fn(np.float64(1.0))) == float(afx.fori_loop(0, 10, lambda i, c: c * 0.5 + i, np.float64(1.0)))


SPECIAL: dict[str, tuple[Step, Any]] = {
    "overflow of a product": (lambda c, x: (c * 1e200, c), 1e200),
    "infinity minus infinity": (lambda c, x: (c * 1e300 - c * 1e300, c), 1e10),
    "an overflow that a quotient hides": (lambda c, x: (1.0 / (c * 1e300), c), 1e10),
    "a division by zero": (lambda c, x: (c / x, c), 1.0),
    "zero by zero": (lambda c, x: (x / x + c, c), 1.0),
    "the root of a negative number": (lambda c, x: (afx.sqrt(c), x), -1.0),
    "the logarithm of zero": (lambda c, x: (afx.log(x) * 0.5 + c, c), 1.0),
    "an exponential that overflows and is hidden": (lambda c, x: (1.0 / afx.exp(c), c), 1e3),
    "the sine of infinity": (lambda c, x: (afx.sin(c) * 2.0, c), np.inf),
    "a carried infinity": (lambda c, x: (c + x, -c), np.inf),
    "a carried nan": (lambda c, x: (c * x, c), np.nan),
    "a reciprocal of zero": (lambda c, x: (x**-1 + c, c), 1.0),
    "a choice of what is finite": (lambda c, x: (afx.where(x > 1.0, c / x, c), c), 1.0),
    "a comparison of nan": (lambda c, x: (afx.where(c > x, 1.0, x), c), np.nan),
    "a constant infinity": (lambda c, x: (c - np.inf, c), 1.0),
}


def heard(fn: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return what a function gives, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fn()
    return found, [str(w.message) for w in caught]


@pytest.mark.parametrize("case", SPECIAL)
def test_numbers_that_are_not_finite_are_left_to_numpy(case: str) -> None:
    """With its bits and its warnings, each as often as NumPy gives it."""
    step, start = SPECIAL[case]
    xs = np.array([0.0, 0.0, 2.0])
    assert "def steps_1(" in source_of(lambda c, xs: afx.scan(step, c, xs), np.float64(start), xs)
    found, warned = heard(lambda: run(step, np.float64(start), xs))
    wanted, expected = heard(lambda: by_numpy(step, np.float64(start), xs))
    assert bits(found) == bits(wanted)
    assert warned == expected


@pytest.mark.parametrize("case", ["overflow of a product", "a division by zero", "the root of a negative number"])
def test_errors_that_the_caller_asks_for_are_raised(case: str) -> None:
    """And those that the caller ignores are silent."""
    step, start = SPECIAL[case]
    xs = np.zeros(3)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        run(step, np.float64(start), xs)
    with np.errstate(all="ignore"):
        assert heard(lambda: run(step, np.float64(start), xs))[1] == []


def test_results_that_are_too_small_are_heard_where_that_is_asked_for() -> None:
    """Nothing follows from them, so that NumPy runs each step."""
    step: Step = lambda c, x: (c * 1e-300 + 1.0, c * 1e-300)
    xs = np.zeros(3)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        run(step, np.float64(1e-20), xs)
    assert heard(lambda: run(step, np.float64(1e-20), xs))[1] == []


def test_random_steps_give_the_bits_of_numpy() -> None:
    """Sums, products, quotients and functions of five numbers in any order."""
    ops: list[Callable[..., Any]] = [
        afx.add, afx.subtract, afx.multiply, afx.divide, afx.maximum, afx.negative, afx.square, afx.exp, afx.sin,
    ]  # fmt: skip
    for seed in range(12):
        rng = np.random.default_rng(seed)
        picks = [(int(rng.integers(len(ops))), *map(int, rng.integers(0, 5, 2))) for _ in range(14)]

        def step(carry: Any, x: Any, picks: list[tuple[int, int, int]] = picks) -> tuple[Any, Any]:
            values = [*carry, x]
            for op, i, j in picks:
                values.insert(0, ops[op](values[i], values[j]) if op < 5 else ops[op](values[i]))
            return tuple(values[:4]), values[4]

        xs = rng.normal(size=6)
        found, warned = heard(lambda step=step, xs=xs: run(step, START, xs))
        wanted, expected = heard(lambda step=step, xs=xs: by_numpy(step, START, xs))
        assert bits(found) == bits(wanted)
        assert warned == expected
