"""StableHLO that jax's parser takes, and that XLA computes as afx does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from afx.errors import ExportError
from afx.export.stablehlo.table import STABLEHLO
from tests.export.numpy_cases import FUNCTIONS
from tests.ops import samples as made

CASES = (
    "polynomial", "selection", "moments", "products", "rosenbrock_hessian", "logistic", "catenary", "kalman", "branches",
    "regression", "power_iteration", "mapped_while", "chosen_in_loop", "attention",
)  # fmt: skip


@functools.cache
def xla() -> Callable[[str, tuple[Any, ...]], list[Any]]:
    """Return a function that verifies a module by jax's parser and runs it by XLA, with float64."""
    jax: Any = pytest.importorskip("jax", reason="jax is no dependency")
    interpreters: Any = pytest.importorskip("jax._src.interpreters.mlir", reason="another version of jax")
    ir: Any = pytest.importorskip("jaxlib.mlir.ir", reason="another version of jax")
    jaxlib: Any = pytest.importorskip("jaxlib._jax", reason="another version of jax")
    device = jax.devices("cpu")[0]
    context = interpreters.make_ir_context()

    def run(text: str, args: tuple[Any, ...]) -> list[Any]:
        with context, ir.Location.unknown(context):
            module = ir.Module.parse(text)
            module.operation.verify()
        program = device.client.compile_and_load(str(module), jaxlib.DeviceList((device,)), jaxlib.CompileOptions())
        with jax.enable_x64(True):
            given = [jax.device_put(np.asarray(x), device) for x in afx.pytree.leaves(args)]
            return [np.asarray(x) for x in program.execute(given)]

    return run


def assert_close(found: list[Any], wanted: list[Any]) -> None:
    """Assert that results have the dtypes and shapes of others, and their numbers up to rounding."""
    for x, y in zip(found, map(np.asarray, wanted), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_each_operation_computes_its_numbers() -> None:
    """XLA gives what afx gives for samples of every operation that has a form, in one module."""
    run, written = xla(), made.written()
    calls, operands = list[tuple[Any, Any, slice]](), list[Any]()
    for name in set(STABLEHLO.supported()) & {p.name for p in afx.primitives() if not made.holds_function(p)}:
        p = afx.core.primitive.lookup(name)
        samples = made.elementwise(p)[-3:-2] if p.is_elementwise else written[name][:2]
        for sample in samples:
            calls.append((p, sample, slice(len(operands), len(operands) + len(sample.operands))))
            operands += sample.operands

    def fn(*xs: Any) -> list[Any]:
        return [made.call(p, sample, *xs[part]) for p, sample, part in calls]

    found = run(export.to_stablehlo(fn, *operands, name="operations"), tuple(operands))
    assert_close(found, afx.pytree.leaves(fn(*operands)))


def test_enough_operations_have_a_form() -> None:
    """Elementwise operations, reductions, views, products, selections, casts and loops have one: 115 at least."""
    assert len(STABLEHLO.supported()) >= 115
    assert {"erf", "erfc", "ndtr", "gammaln", "digamma", "copysign", "kl_div"} <= {*STABLEHLO.supported()}


@pytest.mark.parametrize("name", CASES)
def test_each_function_computes_its_numbers(name: str) -> None:
    """XLA gives what afx gives for functions with gradients, loops and batches."""
    fn, args = FUNCTIONS[name]
    assert_close(xla()(export.to_stablehlo(fn, *args), args), afx.pytree.leaves(fn(*args)))


def test_formulas_reach_as_far_as_results() -> None:
    """Hyperbolic functions near the end of their dtype, exact gelu, and its gradient, are afx's."""
    for dtype, end in ((np.float32, 89.0), (np.float64, 710.0)):
        x = np.array([end, -end, 1e-8, 0.3, 3.0], dtype)

        def fn(x: Any) -> Any:
            gelu = afx.nn.gelu(x)
            return afx.sinh(x), afx.cosh(x), gelu, afx.grad(lambda x: afx.sum(afx.nn.gelu(x)))(x), afx.copysign(x, -x)

        for got, want in zip(xla()(export.to_stablehlo(fn, x), (x,)), fn(afx.asarray(x)), strict=True):
            assert got.dtype == dtype
            np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-30)


def test_numbers_that_are_not_finite_keep_their_bits() -> None:
    """Infinities and nan are written by their bits, captured arrays by their bytes."""
    captured = np.array([np.nan, -0.0, np.inf])

    def fn(x: Any) -> Any:
        return afx.where(x > 0, captured, -np.inf), afx.asarray(np.array([True, False]))

    first, second = xla()(export.to_stablehlo(fn, np.array([1.0, 1.0, -1.0])), (np.array([1.0, 1.0, -1.0]),))
    np.testing.assert_array_equal(first, [np.nan, -0.0, -np.inf])
    assert np.signbit(first[1])
    np.testing.assert_array_equal(second, [True, False])


def test_what_has_no_form_is_refused_at_its_line() -> None:
    """The message names the operation and the user's line; of a loop it says why."""
    with pytest.raises(ExportError, match=r"to_stablehlo: .* StableHLO: got sort at .*test_to_stablehlo.py:\d+"):
        export.to_stablehlo(lambda x: afx.sort(x), np.ones(3))
    fn, args = FUNCTIONS["newton"]
    with pytest.raises(ExportError, match=r"while_loop_backward .*use scan"):
        export.to_stablehlo(fn, *args)


def test_whole_numbers_zero_divisors_and_titles_are_taken() -> None:
    """Rounding leaves integers alone, and abs booleans; division by an integer 0 gives 0; titles are ASCII."""
    x, y, z = np.array([7, 0, -7], np.int32), np.array([0, 0, 2], np.int32), np.array([np.nan, 3.0])

    def fn(x: Any, y: Any, z: Any) -> Any:
        whole = [f(x) for f in (afx.round, afx.floor, afx.ceil, afx.trunc)]
        return *whole, afx.abs(x < 0), x // y, x % y, afx.fmod(x, y), afx.hypot(z, np.inf)

    with np.errstate(all="ignore"):
        wanted = afx.pytree.leaves(fn(*map(afx.asarray, (x, y, z))))
    assert_close(xla()(export.to_stablehlo(fn, x, y, z, name="\u03b1"), (x, y, z)), wanted)


INF = np.inf
HOSTILE = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.7, -3.7, 1e15, INF, -INF, np.nan])
ROWS = np.array([[INF, 1.0, 2.0], [-INF, -INF, -INF], [INF, INF, 1.0], [1.0, np.nan, 2.0], [-INF, 1.0, 2.0]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quotients_keep_numpys_numbers_at_infinities_and_their_signs_of_zero() -> None:
    """Quotients and remainders are NumPy's for all pairs of hostile numbers, with signs of zero."""
    x, y = [a.ravel() for a in np.meshgrid(HOSTILE, HOSTILE)]

    def fn(x: Any, y: Any) -> Any:
        return x // y, x % y, afx.fmod(x, y), afx.special.xlogy(x, y), afx.sign(x)

    found = xla()(export.to_stablehlo(fn, x, y), (x, y))
    for got, want in zip(found, [np.floor_divide(x, y), np.remainder(x, y), np.fmod(x, y)], strict=False):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(found, fn(*map(afx.asarray, (x, y))), strict=True):
        known = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(np.asarray(want)[known]))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.uint64])
def test_whole_numbers_are_finite(dtype: Any) -> None:
    """isfinite, isinf and isnan of integers and booleans, and sign of integers, are NumPy's."""
    x = np.array([0, 1, 3], dtype)
    names = ["isfinite", "isinf", "isnan", *["sign"] * (dtype is not np.bool_)]

    def fn(x: Any) -> list[Any]:
        return [getattr(afx, n)(x) for n in names]

    found = xla()(export.to_stablehlo(fn, x), (x,))
    for name, got in zip(names, found, strict=True):
        want = getattr(np, name)(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_shares_of_infinities_are_afxs(axis: Any) -> None:
    """softmax, log_softmax and logsumexp of infinite elements are what they are in afx."""

    def fn(x: Any) -> Any:
        return afx.nn.softmax(x, axis), afx.nn.log_softmax(x, axis), afx.special.logsumexp(x, axis)

    assert_close(xla()(export.to_stablehlo(fn, ROWS), (ROWS,)), list(fn(afx.asarray(ROWS))))


def test_formulas_stand_for_running_extremes_norms_and_pools() -> None:
    """What StableHLO lacks is written by the formulas of the operations, of nothing too."""
    x = np.array([[3.0, -4.0, 0.0, -0.5], [np.inf, 2.0, 2.0, 7.0], [0.0, 0.0, 0.0, 0.0]])

    def fn(x: Any) -> list[Any]:
        pooled = afx.nn.max_pool(afx.reshape(x, (1, 3, 4, 1)), (1, 2))
        lengths = [afx.vector_norm(x, axis=1), afx.vector_norm(x[:0], axis=0)]
        return [afx.cummax(x, axis=1), afx.cummin(x, axis=0), *lengths, pooled, afx.nn.softmax(x[:, :0], axis=0)]

    assert_close(xla()(export.to_stablehlo(fn, x), (x,)), fn(afx.asarray(x)))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_without_steps_is_its_carry(reverse: bool) -> None:
    """A scan over no rows gives its carry and no rows, with its gradient."""
    start, rows = np.arange(3.0), np.ones((0, 3))

    def loss(start: Any, rows: Any) -> Any:
        def step(c: Any, x: Any) -> tuple[Any, dict[str, Any]]:
            return c * x, {"y": c[0]}

        carry, ys = afx.scan(step, start, rows, reverse=reverse)
        return afx.sum(carry**2), (carry, ys)

    fn = afx.value_and_grad(loss, has_aux=True)
    found = xla()(export.to_stablehlo(fn, start, rows), (start, rows))
    assert_close(found, afx.pytree.leaves(fn(afx.asarray(start), afx.asarray(rows))))
    assert found[2].shape == (0,)
    np.testing.assert_array_equal(found[-1], 2 * start)


def test_draws_and_exponentials_of_matrices_are_loops() -> None:
    """What StableHLO lacks leaves by its formula: each number is eager's."""
    key = np.asarray(afx.random.key(3))

    def fn(k: Any, a: Any, x: Any) -> Any:
        return afx.random.gamma(k, a, (5,)), afx.random.poisson(k, 40.0 * a, (5,)), afx.linalg.expm(x)

    args = key, np.float64(0.7), np.linspace(-1.0, 1.0, 9).reshape(3, 3)
    assert_close(xla()(export.to_stablehlo(fn, *args), args), list(fn(*args)))
