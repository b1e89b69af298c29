"""Each primitive that has a form in ONNX computes there what it computes here, on the operands of the registry's tests."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import export
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.errors import ExportError
from tests.every import Failures
from tests.export.onnx_models import TOLERANCE, as_arrays, check, run_model
from tests.ops.samples import Sample, arity, samples, takes

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="models are run by onnxruntime")

FEWEST, PARTS = 120, 4
LEAST_ELEMENTWISE = 100


# of what is written as a program of its own, a series and squarings; of SciPy's float32 loop, which is off by 1.1e-6
SCALES = {"expm": 4.0, "betainc": 1.5}


@functools.cache
def samples_by_name() -> dict[str, list[Sample]]:
    """Return the real samples of each primitive."""
    found: dict[str, list[Sample]] = {}
    for p, _, sample in samples():
        values = [*sample.operands, *[np.zeros((), v) for v in sample.params.values() if isinstance(v, np.dtype)]]
        if not any(np.asarray(x).dtype.kind == "c" for x in values):
            found.setdefault(p.name, []).append(sample)
    return found


def narrow(x: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return an operand, of this dtype where it is of floats."""
    value = np.asarray(x)
    return value.astype(dtype) if value.dtype.kind == "f" else value


def compare(name: str, sample: Sample, *, is_read: bool) -> None:
    """Compare a primitive of these operands with onnxruntime, and with what comes back of its model."""
    fn = functools.partial(apply, primitive(name), dict(sample.params))
    model = check(fn, *sample.operands, scale=SCALES.get(name, 1.0))
    if is_read and all(np.size(x) for x in sample.operands):
        assert_comes_back(model, fn, *sample.operands)


def assert_comes_back(model: Any, fn: Any, *args: Any) -> None:
    """Assert that what is read from a model gives what the function gives."""
    wanted = afx.pytree.leaves(fn(*map(as_arrays, args)))
    found = afx.pytree.leaves(export.from_onnx(model)(*afx.pytree.leaves(args)))
    for got, want in zip(found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def converted(found: list[Sample], dtype: Any) -> list[Sample]:
    """Return samples whose floats are of this dtype."""
    return [attrs.evolve(s, operands=tuple(narrow(x, dtype) for x in s.operands)) for s in found]


def in_single(name: str, found: list[Sample]) -> list[Sample]:
    """Return samples of float32: those of an elementwise primitive in one, as their shapes are tested in float64."""
    narrowed = converted(found, np.float32)
    if not primitive(name).is_elementwise:
        return narrowed
    rows = [[x.ravel() for x in np.broadcast_arrays(*s.operands)] for s in narrowed]
    return [attrs.evolve(found[0], operands=tuple(map(np.concatenate, zip(*rows, strict=True))))]


@functools.cache
def primitive(name: str) -> Primitive:
    """Return a primitive by its name."""
    return next(p for p in afx.primitives() if p.name == name)


def apply(p: Primitive, params: dict[str, Any], *xs: Any) -> Any:
    """Bind a primitive."""
    return bind(p, *xs, **params)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what NumPy computes at edges
def test_most_primitives_have_a_form(part: int) -> None:
    """At least 120 agree with onnxruntime to 1e-12, 1e-6 in float32, and are read back; others are refused by name."""
    count, failures = 0, Failures()
    for name, found in [*samples_by_name().items()][part::PARTS]:
        for k, sample in enumerate([*converted(found, np.float64), *in_single(name, found)]):
            with failures.case(f"{name}-{k}"):
                try:
                    compare(name, sample, is_read=k < len(found))
                except ExportError:
                    assert not k, "a primitive that writes its first sample writes all"
                    break
        else:
            count += 1
    failures.report()
    assert count >= FEWEST // PARTS


EDGES = {
    np.float64: (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e300, -1e300, 1e-300, 3.0, 710.0, -745.0),
    np.float32: (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e38, -1e38, 1e-38, 3.0, 89.0, -103.0),
}
ALONG = ("sum", "prod", "max", "min", "argmax", "argmin", "nanmax", "nanmin", "cumulative_sum", "cummax", "vector_norm")


# of nan, and of -inf, SciPy's beta functions are inf, and those of formulas nan; its float32 loop of stdtr is wrong at 1e-38
OTHERS = {np.float64: ("beta", "betaln"), np.float32: ("beta", "betaln", "stdtr")}


@pytest.mark.parametrize("dtype", EDGES)
def test_special_values_agree(dtype: Any) -> None:
    """Elementwise functions of nan, infinities, zeros and extremes, in all pairs, give there what they give here."""
    count = 0
    for p in [p for p in afx.primitives() if p.is_elementwise and arity(p) <= 2]:
        if takes(p, dtype) and p.name not in OTHERS[dtype]:
            grid = np.array(list(itertools.product(EDGES[dtype], repeat=arity(p))), dtype).T
            with warnings.catch_warnings(), contextlib.suppress(ExportError):
                warnings.simplefilter("ignore", RuntimeWarning)
                check_each(functools.partial(apply, p, {}), *grid)
                count += 1
    assert count >= LEAST_ELEMENTWISE


def check_each(fn: Any, *columns: Any) -> None:
    """Compare each number by its own size."""
    found = run_model(export.to_onnx(fn, *columns), *columns)
    for got, want in zip(found, afx.pytree.leaves(fn(*columns)), strict=True):
        tolerance = TOLERANCE.get(got.dtype, 0.0)
        np.testing.assert_allclose(got, np.asarray(want), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ALONG)
def test_reductions_keep_nan(name: str) -> None:
    """A nan or an infinity anywhere along an axis."""
    p = next(p for p in afx.primitives() if p.name == name)
    params = dict(next(s for s in samples_by_name()[name] if np.ndim(s.operands[0]) > 1).params)
    params["axis"] = (1,) if isinstance(params["axis"], tuple) else 1
    rows = np.array(list(itertools.product((np.nan, np.inf, -np.inf, 1.0, 2.0), repeat=3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check_each(functools.partial(apply, p, params), rows)
