"""Products of small matrices need no call, and keep the order in which NumPy adds up their terms."""

import itertools
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering.products import find_orders, products_digest
from afx.compiler.native_backend.program.elements import Arithmetic, Orders, Sum, chain
from afx.compiler.native_backend.service import unit
from afx.compiler.native_backend.service.link import layout
from tests.compiler.native_backend.native_run import FIRST_TIER, Native, assert_same_bits, schedule_of, use_limits

SIZES = [(2, 2, 2), (3, 3, 3), (2, 2, 1), (1, 3, 3), (4, 4, 4), (3, 5, 2), (1, 4, 1), (8, 8, 8), (5, 16, 3)]
LONG = [(100, 5, 1), (31, 16, 1), (40, 3, 4), (1, 4, 100)]  # computed by loops over rows


def pair(m: int, k: int, n: int, dtype: str, turned: tuple[int, int] = (0, 0)) -> tuple[Any, Any]:
    """Return two matrices of normal numbers, stored by rows or by columns."""
    rng = np.random.default_rng(m + 10 * k + 100 * n)
    x = rng.normal(size=(k, m) if turned[0] else (m, k)).astype(dtype)
    return x, rng.normal(size=(n, k) if turned[1] else (k, n)).astype(dtype)


def multiply(x: Any, y: Any) -> Any:
    """Return the product."""
    return x @ y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_products_have_the_bits_of_numpy(dtype: str) -> None:
    """Matrices stored either way, many at once, by vectors, and vectors by vectors."""
    for (m, k, n), turned in itertools.product([*SIZES, *LONG], [(0, 0), (1, 1)]):
        x, y = pair(m, k, n, dtype, turned)

        def products(x: Any, y: Any, turned: Any = turned) -> Any:
            x, y = x.T if turned[0] else x, y.T if turned[1] else y
            return x @ y, x[0] @ y, x @ y[:, 0], x[0] @ y[:, -1], np.stack([x, -x, x + 1]) @ y

        assert_same_bits(products, x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, "large", "tiny"])
def test_odd_numbers_give_what_numpy_gives_with_its_errors(dtype: str, value: Any) -> None:
    """Infinities, nan and overflow come from NumPy's own loop, with the flags that it raises."""
    info = np.finfo(dtype)
    value = {"large": info.max, "tiny": info.tiny}.get(value, value)
    for m, k, n in [(2, 2, 2), (3, 3, 1), (1, 4, 4), (100, 5, 1)]:
        x, y = pair(m, k, n, dtype)
        x[0, 1] = y[-1, 0] = value
        native = assert_same_bits(multiply, x, y)
        _, errors = native(x, y)
        _, called = called_alone(x, y)
        assert errors == called


def called_alone(x: Any, y: Any) -> tuple[Any, int]:
    """Return what NumPy's loop gives, and the errors that it raises."""
    with use_limits(product_inline_max_products=0):
        return Native(multiply, x, y)(x, y)


def test_a_step_of_a_filter_calls_no_product() -> None:
    """The products of a scan over two states are written out in the text of its machine code."""

    def run(f: Any, ys: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            m, c = carry
            m, c = f @ m, f @ c @ f.T
            return (m + y * (c @ m), c / (1 + m @ m)), m @ c @ m

        return afx.scan(step, (np.ones(2), np.eye(2)), ys)[1]

    args = np.array([[0.9, 0.1], [0.2, 0.8]]), np.linspace(0.0, 1.0, 20)
    native = assert_same_bits(run, *args)
    if find_orders("f8", (2, 2, 2), (16, 8, 16, 8, 16, 8)) is not None:
        assert "in registers" in native.program.text(0)
    second = Native(run, *args, tier=2)
    assert "NumPy's matmul" not in second.program.text(0)
    np.testing.assert_allclose(second(*args)[0][0], native(*args)[0][0], rtol=1e-12)


def test_products_that_differ_in_memory_alone_share_their_code() -> None:
    """Whichever of their operands was there first, and loops over rows keep the text short."""

    def run(x: Any, u: Any, v: Any) -> Any:
        first = x @ u
        return first, x @ v, (x * 2) @ (v + first[0])

    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape).astype("f4") for shape in [(100, 5), (5,), (5,)]]
    assert_same_bits(run, *args)
    short, long = text_of(run, *args), text_of(run, *args, product_inline_max_operations=1 << 20)
    assert short.count("define internal void @ufunccall") == 1
    if find_orders("f4", (100, 5, 1), (20, 4, 4, 0, 4, 0)) is not None:
        assert len(long.splitlines()) > 3 * len(short.splitlines())  # with what stands around


def text_of(fn: Any, *args: Any, **limits: int) -> str:
    """Return the module of a function as text, made with some other thresholds."""
    where = layout()
    assert where is not None
    known = attrs.evolve(where, products=products_digest())
    target = attrs.evolve(FIRST_TIER, native=attrs.evolve(FIRST_TIER.native, **limits))
    return unit.make_unit(schedule_of(fn, *args), target, known)[2]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_orders_describe_the_loops_that_they_were_found_from(dtype: str) -> None:
    """Terms of every element add up to NumPy's bits on numbers that were not asked for."""
    size = int(dtype[1:])
    for m, k, n in SIZES:
        strides = tuple([0 if d == 1 else s * size for d, s in ((m, k), (k, 1), (k, n), (n, 1), (m, n), (n, 1))])
        orders = find_orders(dtype, (m, k, n), strides)
        if orders is None:
            continue
        x, y = pair(m, k, n, dtype)
        assert sum([_evaluate(orders, x, y, at) != (x @ y)[at] for at in np.ndindex(m, n)]) == 0


def _evaluate(orders: Orders, x: Any, y: Any, at: tuple[int, ...]) -> Any:
    """Return an element of a product by Python's own numbers, exact before each rounding."""
    kind, (i, j) = x.dtype.type, at

    def fuse(a: Any, b: Any, c: Any) -> Any:
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        return type(c)(exact) if type(c) is np.float64 else _single(exact)

    def term(k: int) -> tuple[Any, Any]:
        return x[i, k], y[k, j]

    ops = Arithmetic[Any](term, lambda a, b: a * b, lambda a, b: a + b, fuse, np.float64, kind, lambda a: type(a)(0))
    columns: int = y.shape[1]
    order = orders.kinds[orders.numbers[i * columns + j]]
    found: Any = order.evaluate(ops)
    return found


def _single(exact: Fraction) -> np.float32:
    """Round once to float32: of the neighbours of the number rounded twice, the nearest one."""
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return min(around, key=lambda z: abs(Fraction(float(z)) - exact))


def test_a_chain_fuses_each_term_but_the_first() -> None:
    """The order of the second tier is one term after the other."""
    assert chain(2) == Sum(("right", 0, 1))


def test_other_processes_with_another_order_call_numpys_loops() -> None:
    """What is compiled for BLAS of another order, or of none that is known, calls NumPy's loops."""
    x, y = pair(2, 2, 2, "float64")
    schedule = schedule_of(multiply, x, y)
    place = layout()
    assert place is not None
    assert "ufunc.matmul" in unit.make_unit(schedule, FIRST_TIER, place)[2]
    assert products_digest() == products_digest()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 4), (3, 8), (5, 6)])
def test_rows_of_results_are_written_together(dtype: str, shape: tuple[int, int]) -> None:
    """Sums and chains of small products, whose rows are read as one, have NumPy's bits."""
    rows, columns = shape
    x, y = np.random.default_rng(0).normal(size=(2, rows, columns)).astype(dtype)

    def fn(x: Any, y: Any) -> Any:
        z = (x @ y.T) @ x
        return z + y, (z * 2) @ y.T

    assert_same_bits(fn, x, y)
    assert_same_bits(fn, np.where(x > 1, np.inf, x).astype(dtype), y)


@pytest.mark.parametrize("backend", ["auto", "native"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_array_multiplies_itself(dtype: str, backend: Any) -> None:
    """One array given twice, as it lies, turned, as rows, or with a view of itself, by either tier."""

    def products(x: Any) -> Any:
        rows = (x @ x, x.T @ x, x @ x.T, x.T @ x.T, x @ x @ x, x[0] @ x, x @ x[0], x @ x[:, 0], x[0] @ x[0])
        return *rows, afx.einsum("ij,jk->ik", x, x), x[:2] @ x, x[::-1] @ x, np.stack([x, x]) @ x, x[1:] @ x[:, 1:]

    for n in range(2, 13):
        x = (np.arange(n * n) % 7 - 3).reshape(n, n).astype(dtype)
        compiled = afx.jit(products, backend=backend)
        wide = products(x.astype("float64"))  # whole numbers: exact
        for _ in range(3):
            for got, expected in zip(compiled(x), wide, strict=True):
                np.testing.assert_array_equal(got, np.asarray(expected, dtype))
