"""Python numbers among the operands: run, traced and jitted, an op gives one dtype, the one of its shape rule."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.registry import FUNCTIONS, load_all
from afx.core.tracing.tracer import bind
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


def check(fn: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> None:
    """Check that a function's results have one dtype: run, traced with numbers inside or as arguments, and jitted."""
    fine: list[tuple[Any, ...]] = []
    for xs in cases:
        want = dtype_of(fn, *xs)
        inside = dtype_of(lambda xs=xs: afx.eval_shape(lambda: fn(*xs)))
        outside = dtype_of(lambda xs=xs: afx.eval_shape(fn, *xs))
        assert (want, want) == (inside, outside), (xs, want, inside, outside)
        if want is not None:
            fine.append(xs)
    jitted = afx.jit(lambda cases: [fn(*xs) for xs in cases])(fine)
    for xs, z in zip(fine, jitted, strict=True):
        assert z.dtype == fn(*xs).dtype, xs


@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_elementwise_ops_give_one_dtype(p: Primitive) -> None:
    """Python numbers beside small dtypes promote the same way run, traced and jitted, or raise everywhere."""
    check(lambda *xs: bind(p, *xs), of(p))


@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_shape_rules_know_python_numbers(p: Primitive) -> None:
    """The shape rule of weak Avals names the dtype that the op gives."""
    for xs in of(p):
        try:
            want = p.abstract_eval(*map(aval_of, xs))
        except afx.errors.AfxError:
            with pytest.raises(afx.errors.AfxError):
                bind(p, *xs)
            continue
        assert isinstance(want, afx.Aval)
        assert bind(p, *xs).dtype == want.dtype, xs


@pytest.mark.filterwarnings("ignore:Cannot convert float safely:DeprecationWarning")  # a number in a parameter's place
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
