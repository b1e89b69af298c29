"""Public functions with operands of mixed dtypes give what wide numbers give, in NumPy's dtypes or those that are stated."""

import importlib
import itertools
import re
from typing import Any

import numpy as np
import pytest

import afx
from tests import dtype_sweep
from tests.dtype_sweep import LAYOUTS, LEFT_OUT, PAIRS, Row, check, rows

ROWS = rows()
PARTS = 24
NATIVE = ('m.einsum("i,j->j", x, y)', "m.sum(x)", "m.trapezoid(x, y)", "m.divide(x, y)", "m.floor_divide(x, y)")
MODULES = (
    *("afx", "afx.special", "afx.linalg", "afx.fft", "afx.nn", "afx.stats"),
    *("afx.signal", "afx.ndimage", "afx.interpolate", "afx.cluster"),
)


def sample(row: Row, count: int, first: int) -> list[tuple[str, str]]:
    """Return pairs of dtypes for a row: others for the next one, so that a few rows see all."""
    start = 37 * ROWS.index(row) + first
    return [PAIRS[(start + 11 * k) % len(PAIRS)] for k in range(count)]


@pytest.mark.parametrize("part", range(PARTS))
def test_values_and_dtypes_of_mixed_operands(part: int) -> None:
    """Eagerly, of arrays in all layouts: strided, reversed, read-only, 0-d, empty, and of one array given twice."""
    found = []
    for row in ROWS[part::PARTS]:
        for k, pair in enumerate(sample(row, 14, 0)):
            layout = LAYOUTS[k % 4] if k < 12 else "plain"
            found.append((row.name, pair, layout, check(row, pair, layout, "eager", k % 2)))
    assert not [f for f in found if f[-1]]


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_and_batched(part: int) -> None:
    """`jit` and `vmap` give the same values in the same dtypes."""
    for row, road in itertools.product(ROWS[part::PARTS], ("jit", "vmap")):
        for pair in sample(row, 1, len(road)):
            assert not check(row, pair, "plain", road, 0), (row.name, pair, road)


@pytest.mark.parametrize("name", NATIVE)
def test_machine_code(name: str) -> None:
    """So does machine code."""
    row = next(row for row in ROWS if row.name == name)
    for pair in sample(row, 3, 5):
        assert not check(row, pair, "plain", "native", 0), pair


def test_every_public_function_has_a_row() -> None:
    """Each function of the namespaces of functions of arrays is called, or left out for a reason that is stated."""
    called = {name for row in ROWS for name in re.findall(r"\w+", row.name)}
    stated = {name for names in LEFT_OUT.values() for name in names.split()}
    public = {
        name
        for module in map(importlib.import_module, MODULES)
        for name in module.__all__
        if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
    }
    assert not public - called - stated
    assert not stated - public


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
def test_afx_numpy_has_numpys_dtypes() -> None:
    """Rows whose dtypes are the data's in afx have NumPy's in `afx.numpy`."""
    for name in dtype_sweep.STATED:
        if not name.startswith("m.") or "linalg" in name or "fft" in name or "histogram" in name:
            continue
        call = dtype_sweep.compiled(name)
        for pair in PAIRS:
            given: list[Any] = dtype_sweep.operands(pair, "plain", np.random.default_rng(1), False)
            with np.errstate(all="ignore"):
                try:
                    want = call(np, *given)
                except (TypeError, ValueError):
                    continue
                got = call(afx.numpy, *map(afx.asarray, given))
            ours, theirs = (z[0] if isinstance(z, tuple) else z for z in (got, want))
            assert ours.dtype == theirs.dtype, (name, pair)
