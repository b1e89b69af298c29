"""The table of scalar operations: each column says what NumPy does."""

import math
import operator
from typing import Any

import numpy as np
import pytest

from afx.core.scalar_ops import SCALAR_OPS, ScalarOp, scalar_op
from tests.every import together

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-310, 1e300, -1e300, math.inf, -math.inf, math.nan]
FINITE = [-2.5, -1.0, 0.5, 3.0]
NAMES = {"abs_": abs, "sqrt_": math.sqrt}


def having(column: str) -> list[str]:
    """Return the operations of which a column is filled."""
    return [name for name, op in SCALAR_OPS.items() if getattr(op, column) not in ("", (), None, False, frozenset())]


def arguments(name: str, values: list[Any]) -> list[tuple[Any, ...]]:
    """Return as many operands as an operation takes, in every order."""
    return [(x,) for x in values] if getattr(np, name).nin == 1 else [(x, y) for x in values for y in values]


def bits(x: Any) -> bytes:
    """Return the bits of a float, of nan always the same."""
    return np.where(np.isnan(x), math.nan, x).tobytes()


def evaluated(text: str, xs: tuple[Any, ...]) -> Any:
    """Return the value of an expression of the table."""
    return eval(text.format(*[f"({x!r})" for x in xs]), {**NAMES})


@together("name", SCALAR_OPS)
def test_rows_are_ufuncs_with_loops_of_their_dtypes(name: str) -> None:
    """NumPy has a ufunc of each name, which takes operands of each dtype as they are."""
    ufunc: Any = getattr(np, name)
    for dtype in scalar_op(name).dtypes:
        own = np.dtype(dtype)
        assert ufunc.resolve_dtypes((*[own] * ufunc.nin, None))[: ufunc.nin] == (own,) * ufunc.nin


@together(
    "name", [n for n in having("python") if not set("&|^<>") & set(scalar_op(n).symbol) or n in having("is_comparison")]
)
def test_expressions_compute_what_numpy_computes(name: str) -> None:
    """Python's numbers give the bits of NumPy's, integers too where the row says so; what passes on infinities does."""
    op, ufunc = scalar_op(name), getattr(np, name)
    for xs in arguments(name, FINITE):
        if name != "sqrt" or xs[0] >= 0:
            assert bits(np.float64(evaluated(op.python, xs))) == bits(np.float64(ufunc(*xs)))
    for ks in arguments(name, [-3, 0, 7]) if op.counts else []:
        assert evaluated(op.python, ks) == ufunc(*ks)
    for k in range(ufunc.nin) if not op.is_comparison else []:
        with np.errstate(all="ignore"):
            found = [ufunc(*[math.inf if j == k else x for j in range(ufunc.nin)]) for x in FINITE]
        assert k not in op.passing or not np.isfinite(found).any()


@pytest.mark.parametrize("name", having("of_bools"))
def test_expressions_of_truth_values(name: str) -> None:
    """Python's truth values give NumPy's."""
    for xs in arguments(name, [False, True]):
        assert evaluated(scalar_op(name).of_bools, xs) is bool(getattr(np, name)(*xs))


@together("name", SCALAR_OPS)
def test_reductions_begin_with_what_changes_nothing(name: str) -> None:
    """The start of a reduction is NumPy's, lanes begin with a number that leaves every bit, and the reduction has its name."""
    op, ufunc = scalar_op(name), getattr(np, name)
    assert op.start is None or op.start == ufunc.reduce(np.zeros(0, int if name == "bitwise_or" else float))
    assert op.lane is None or all(bits(ufunc(op.lane, np.float64(x))) == bits(np.float64(x)) for x in SPECIAL)
    assert not op.fold or operator.attrgetter(op.fold)(np)(FINITE) == ufunc.reduce(FINITE)


@together("name", having("commutes"))
def test_operands_change_places(name: str) -> None:
    """The bits do not depend on the order of the operands."""
    values: list[Any] = SPECIAL if "f8" in scalar_op(name).dtypes else [0, 1, -1, 6]
    with np.errstate(all="ignore"):
        for x, y in arguments(name, values):
            assert bits(getattr(np, name)(x, y)) == bits(getattr(np, name)(y, x))


@together("name", having("is_quiet"))
def test_quiet_operations_raise_no_flag(name: str) -> None:
    """No value of a float raises a floating-point error."""
    with np.errstate(all="raise"):
        for xs in arguments(name, SPECIAL):
            getattr(np, name)(*map(np.float64, xs))


def test_unknown_ufuncs_have_an_empty_row() -> None:
    """Nothing is known of what the table does not name."""
    assert scalar_op("gcd") == ScalarOp()
