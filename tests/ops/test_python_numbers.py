"""Python numbers among the operands: run, traced and jitted, an op gives one dtype, the one of its shape rule."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.registry import FUNCTIONS, load_all
from afx.core.tracing.tracer import bind
from tests.ops.domains import domain
from tests.ops.samples import arity

NUMBERS = (True, 2, 0.5, 0.5j)
SMALL = tuple(np.ones(2, d) for d in "?bHiefF")
SCALARS = tuple(np.ones((), d)[()] for d in "bef")
ELEMENTWISE = [p for p in afx.primitives() if p.is_elementwise]
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]


def calls(count: int) -> list[tuple[Any, ...]]:
    """Return operands of which one at least is a Python number."""
    pool = (*NUMBERS, *SMALL, *SCALARS) if count < 3 else (*NUMBERS, SMALL[0], SMALL[1], SMALL[4], SMALL[5])
    found = itertools.product(pool, repeat=count)
    return [xs for xs in found if any(type(x) in (bool, int, float, complex) for x in xs)]


def of(p: Primitive) -> list[tuple[Any, ...]]:
    """Return the calls of an op; what it chooses by is a bool."""
    return [xs for xs in calls(arity(p)) if all(aval_of(x).dtype == bool for x in xs[: p.condition_operands])]


def dtype_of(fn: Callable[..., Any], *xs: Any) -> Any:
    """Return the dtype of a result, or None where it raises afx's error."""
    try:
        z = fn(*xs)
    except afx.errors.AfxError:
        return None
    return z.dtype


def check(fn: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Check that a function's results have one dtype: run, traced with numbers inside or as arguments, and jitted.

    Returns:
        the dtype of each case, None of one that raises.
    """
    told = [dtype_of(fn, *xs) for xs in cases]
    for xs, want in zip(cases, told, strict=True):
        inside = dtype_of(lambda xs=xs: afx.eval_shape(lambda: fn(*xs)))
        outside = dtype_of(lambda xs=xs: afx.eval_shape(fn, *xs))
        assert (want, want) == (inside, outside), (xs, want, inside, outside)
    fine = [(xs, want) for xs, want in zip(cases, told, strict=True) if want is not None]
    jitted = afx.jit(lambda cases: [fn(*xs) for xs in cases])([xs for xs, _ in fine])
    for (xs, want), z in zip(fine, jitted, strict=True):
        assert z.dtype == want, xs
    return told


@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_elementwise_ops_give_one_dtype(p: Primitive) -> None:
    """Python numbers beside small dtypes promote the same way run, traced, jitted and by the shape rule, or raise everywhere."""
    cases = of(p)
    for xs, want in zip(cases, check(lambda *operands: bind(p, *operands), cases), strict=True):
        if want is None:
            with pytest.raises(afx.errors.AfxError):
                p.abstract_eval(*map(aval_of, xs))
        else:
            told = p.abstract_eval(*map(aval_of, xs))
            assert isinstance(told, afx.Aval)
            assert told.dtype == want, xs


@pytest.mark.filterwarnings("ignore:Cannot convert float safely:DeprecationWarning")  # a number in a parameter's place
@pytest.mark.filterwarnings("ignore:In future, it will be an error for 'np.bool':DeprecationWarning")  # NumPy 2.0
def test_public_functions_of_one_and_two_numbers_give_one_dtype() -> None:
    """So does every public function that takes Python numbers, composites and reductions too."""
    load_all()
    pool = (*NUMBERS, SMALL[0], SMALL[1], SMALL[4])
    tried = 0
    for name, fn in sorted(vars(FUNCTIONS).items()):
        for xs in [(x,) for x in NUMBERS] + [(x, y) for x, y in itertools.product(pool, repeat=2)]:
            try:
                z = fn(*xs)
            except (TypeError, ValueError, IndexError, AttributeError):  # a parameter's place, or not defined for it
                continue
            if isinstance(z, afx.Array):
                tried += 1
                assert z.dtype == dtype_of(lambda fn=fn, xs=xs: afx.eval_shape(lambda: fn(*xs))), (name, xs)
    assert tried > 2000


def test_round_and_abs_of_python_numbers() -> None:
    """`round(True)` is True, `abs(1j)` has the default dtype, and clip mixes bools and integers."""
    assert afx.round(True).dtype == bool
    assert afx.abs(1j).dtype == np.float32
    with afx.default_dtype(np.float64):
        assert afx.abs(1j).dtype == np.float64
    assert afx.clip(1, np.ones(2, bool), np.ones(2, np.int32)).dtype == np.int32


DOUBLE = [p for p in ELEMENTWISE if p.is_differentiable and arity(p) > 1]


def others(p: Primitive, value: float) -> list[Any]:
    """Return operands that are not float64 near a value: numbers, and arrays of other dtypes where they can hold it."""
    return [value, np.full(2, value, np.float32)] + ([2, np.full(2, 2)] if domain(p)[0] < 2 < domain(p)[1] else [])


def modes(fn: Callable[..., Any], x: Any, y: Any) -> Iterator[Any]:
    """Yield the derivative of ``fn(x, y)`` by x, of float64, in each mode that compiles nothing; y is closed over."""

    def total(x: Any, y: Any = y) -> Any:
        return afx.sum(fn(x, y))

    ones = np.ones_like(x)
    yield afx.grad(total)(x)
    yield afx.jvp(lambda x: fn(x, y), (x,), (ones,))[1]
    yield afx.vmap(afx.grad(total))(np.stack([x, x]))[1]
    yield afx.grad(afx.checkpoint(total))(x, y)
    yield afx.jvp(afx.grad(total), (x,), (ones,))[1]


def compiled(calls: Sequence[tuple[Callable[..., Any], Any, Any]]) -> list[Any]:
    """Return the same of several functions in the modes that are left, compiled: plans of all, which take most of the time."""

    def total(k: int, x: Any, y: Any) -> Any:
        return afx.sum(calls[k][0](x, y))

    def slopes(pairs: Any) -> list[Any]:  # with y closed over, and as an argument
        ways = [(afx.grad(lambda x, k=k: total(k, x, calls[k][2])), x, k, y) for k, (x, y) in enumerate(pairs)]
        return [afx.stack([closed(x), afx.grad(lambda x, k=k, y=y: total(k, x, y))(x)]) for closed, x, k, y in ways]

    def totals(xs: Any, ys: Any) -> list[Any]:
        return [total(k, x, y) for k, (x, y) in enumerate(zip(xs, ys, strict=True))]

    xs, ys = [x for _, x, _ in calls], [y for *_, y in calls]
    zs, pull = afx.vjp(lambda xs: afx.jit(totals)(xs, ys), xs)
    (back,) = pull([afx.ones_like(z) for z in zs])
    inside: list[Any] = afx.jit(slopes)([*zip(xs, ys, strict=True)])
    return [*inside, *back]


@pytest.mark.parametrize("p", DOUBLE, ids=lambda p: p.name)
def test_rules_read_operands_in_the_dtype_of_the_result(p: Primitive) -> None:
    """Numbers, integers and float32 beside float64 give the digits that the same values in float64 give."""
    low, high = domain(p)
    calls = list[tuple[Callable[..., Any], Any, Any]]()
    for k in range(p.condition_operands, arity(p)):
        where = [low + (high - low) * share for share in (0.35, 0.7, 0.8)]
        xs = [np.array([True, False]) if j < p.condition_operands else where[j] for j in range(arity(p))]
        x = np.array([where[k], low + (high - low) * 0.55])
        for j in range(p.condition_operands, arity(p)):
            for y in others(p, where[j]) if j != k else []:

                def fn(x: Any, y: Any, k: int = k, j: int = j, xs: Sequence[Any] = xs) -> Any:
                    ys = [np.float64(v) if isinstance(v, float) else v for v in xs]
                    ys[k], ys[j] = x, y
                    return bind(p, *ys)

                calls.append((fn, x, y))
    strong = [(fn, x, np.asarray(y, np.float64)) for fn, x, y in calls]
    weak, right = ([*compiled(some), *[z for call in some for z in modes(*call)]] for some in (calls, strong))
    for found, want in zip(weak, right, strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=4e-15, atol=1e-300)


def test_large_and_small_numbers_beside_float64() -> None:
    """Numbers that float32 does not hold keep their derivatives."""
    x = np.float64(1.0)
    assert float(afx.grad(lambda x: 10**x)(x)) == pytest.approx(10 * math.log(10), rel=1e-15)
    assert float(afx.grad(lambda x: 1e40**x)(x)) == pytest.approx(1e40 * math.log(1e40), rel=1e-15)
    assert float(afx.grad(lambda x: afx.special.xlogy(x, 1e-46))(x)) == pytest.approx(math.log(1e-46), rel=1e-15)
    assert float(afx.grad(lambda x: afx.logaddexp(x, 0.7))(x)) == pytest.approx(1 / (1 + math.exp(-0.3)), rel=1e-15)


def _twofold(kind: str) -> Callable[[Any, Any], Any]:
    """Return ``x * y`` with rules of its own."""
    if kind == "vjp":
        return afx.custom_vjp(
            lambda x, y: x * y,
            lambda x, y: (x * y, (x, y)),
            lambda kept, ct: (ct * kept[1], ct * kept[0]),
        )
    return afx.custom_jvp(lambda x, y: x * y, lambda x, t: (x[0] * x[1], t[0] * x[1] + x[0] * t[1]))


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_custom_rules_keep_the_digits_of_numbers(kind: str) -> None:
    """A number that a custom rule reads keeps float64's digits beside float64, closed over or passed, eager or compiled."""
    fn, x = _twofold(kind), np.float64(1.3)
    found = [
        afx.grad(lambda x: fn(x, 0.7))(x),
        afx.grad(fn)(x, 0.7),
        afx.jit(afx.grad(lambda x: fn(x, 0.7)))(x),
        afx.jit(afx.grad(fn))(x, 0.7),
        afx.grad(afx.jit(fn))(x, 0.7),
        afx.vmap(afx.grad(lambda x: fn(x, 0.7)))(np.full(2, x))[1],
        afx.grad(afx.checkpoint(fn))(x, 0.7),
    ]
    if kind == "jvp":
        found += [
            afx.jvp(lambda x: fn(x, 0.7), (x,), (np.float64(1),))[1],
            afx.jvp(afx.jit(lambda x: fn(x, 0.7)), (x,), (np.float64(1),))[1],
        ]
    assert [float(z) for z in found] == [0.7] * len(found)
