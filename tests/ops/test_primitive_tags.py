"""Tags of primitives: each that a record carries is true, since simplification, masks and plans trust it blindly."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from tests.ops import samples as made
from tests.ops.domains import is_smooth
from tests.ops.samples import Sample, call, normal_like, together

EVERY = [(p, k, sample) for p, k, sample in made.samples()]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, at the ends of domains


def tagged(has: Callable[[Primitive], Any], fits: Callable[[Primitive, Sample], bool] = lambda _p, _s: True) -> Any:
    """Return the mark of a test over all samples of the primitives that have a tag."""
    cases = [pytest.param(p, s, id=f"{p.name}-{k}") for p, k, s in EVERY if has(p) and fits(p, s)]
    assert cases
    return made.each_sample(cases)


def is_real(_p: Primitive, sample: Sample) -> bool:
    """Tell whether all operands are real."""
    return not any(np.asarray(x).dtype.kind == "c" for x in sample.operands)


def arrays(sample: Sample) -> list[np.ndarray]:
    """Return fresh contiguous operands."""
    return [np.array(x) for x in sample.operands]


@tagged(lambda p: p.algebra.commutative)
def test_commutative(p: Primitive, sample: Sample) -> None:
    """The two operands can be exchanged, to the bit."""
    x, y = arrays(sample)
    np.testing.assert_array_equal(p.impl(x, y, **sample.params), p.impl(y, x, **sample.params))


@tagged(lambda p: p.algebra.identity is not None)
def test_identity(p: Primitive, sample: Sample) -> None:
    """The number leaves the other operand as it is, on the sides that the op can have it on."""
    for x in arrays(sample):
        number = x.dtype.type(p.algebra.identity)
        np.testing.assert_array_equal(p.impl(x, number), x)
        if p.algebra.commutative:
            np.testing.assert_array_equal(p.impl(number, x), x)


@tagged(lambda p: p.algebra.involution)
def test_involution(p: Primitive, sample: Sample) -> None:
    """Applying it twice gives the operand."""
    (x,) = arrays(sample)
    np.testing.assert_array_equal(p.impl(p.impl(x, **sample.params), **sample.params), x)


@tagged(lambda p: p.masking.nonnegative_linear)
def test_nonnegative_linear(p: Primitive, sample: Sample) -> None:
    """It is additive in the operands that it differentiates by, and no coefficient is negative."""
    xs, ys = sample.points, [normal_like(x) for x in sample.points]
    sums = call(p, sample, *sample.at(tuple(x + y for x, y in zip(xs, ys, strict=True))))
    parts = [call(p, sample, *sample.at(tuple(v))) for v in (xs, ys)]
    for z, a, b in zip(sums, *parts, strict=True):
        np.testing.assert_allclose(np.asarray(z), np.asarray(a) + np.asarray(b), rtol=1e-12, atol=1e-12)
    positive = tuple(np.abs(x) for x in xs)
    assert all((np.real(np.asarray(z)) >= 0).all() for z in call(p, sample, *sample.at(positive)))


@tagged(lambda p: p.masking.selects, is_real)
def test_selects(p: Primitive, sample: Sample) -> None:
    """No coefficient is negative, and elements of coefficient 0 can move a little without any effect."""

    def fn(*xs: Any) -> tuple[Any, ...]:
        return tuple(z for z in call(p, sample, *sample.at(xs)) if z.dtype.kind == "f")

    zs, back = afx.vjp(fn, *sample.points)
    slopes = [np.asarray(g) for g in back(tuple(afx.ones_like(z) for z in zs))]
    assert all((g >= 0).all() for g in slopes)
    moved = [x + 1e-9 * (g == 0) for x, g in zip(sample.points, slopes, strict=True)]
    for z, want in zip(fn(*moved), zs, strict=True):
        np.testing.assert_array_equal(np.asarray(z), np.asarray(want))


@together("p", [p for p in afx.primitives() if p.masking.finite_partials and p.is_elementwise], ids=str)
def test_finite_partials(p: Primitive) -> None:
    """Finite operands, zeros and their neighbours among them, give finite values and partials."""
    points = [-3.0, -1.0, -0.5, -1e-300, -0.0, 0.0, 1e-300, 0.5, 1.0, 3.0]
    count = made.arity(p) - p.condition_operands
    xs = [np.array(column) for column in zip(*itertools.product(points, repeat=count), strict=True)]
    head = [np.arange(xs[0].size) % 2 == 0] * p.condition_operands

    def fn(*values: Any) -> Any:
        return call(p, Sample(()), *head, *values)[0]

    z, back = afx.vjp(fn, *xs)
    assert np.isfinite(np.asarray(z)).all()
    assert all(np.isfinite(np.asarray(g)).all() for g in back(afx.ones_like(z)))


@tagged(lambda p: p.lowering.slicewise_over_axis, lambda _p, s: len(s.params["axis"]) == 1)
def test_slicewise_over_axis(p: Primitive, sample: Sample) -> None:
    """Each slice along the axis gives what it gives alone."""
    (x,) = arrays(sample)
    (axis,) = sample.params["axis"]
    rows, want = np.moveaxis(x, axis, -1), np.moveaxis(np.asarray(p.impl(x, **sample.params)), axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        alone = p.impl(rows[index].copy(), **{**sample.params, "axis": (0,)})
        np.testing.assert_allclose(alone, want[index], rtol=1e-13)


@tagged(lambda p: p.lowering.emit_view)
def test_emit_view(p: Primitive, sample: Sample) -> None:
    """The expression that plans write down is the view that running the op gives."""
    (x,) = arrays(sample)
    assert p.lowering.emit_view is not None
    z = eval(p.lowering.emit_view("x", **sample.params), {"x": x, "np": np})
    np.testing.assert_array_equal(z, p.impl(x, **sample.params))
    assert np.shares_memory(z, x) or not z.size


@tagged(lambda p: p.lowering.make_kernel and not p.lowering.updates_first_operand)
def test_make_kernel(p: Primitive, sample: Sample) -> None:
    """A kernel gives what running the op gives, whatever was in the memory, and again for other operands."""
    assert p.lowering.make_kernel is not None
    xs = arrays(sample)
    kernel = p.lowering.make_kernel(*[aval_of(x) for x in xs], **sample.params)
    for scale in (1, 3):
        values = [x * scale if x.dtype.kind in "fc" else x for x in xs]
        want = p.impl(*values, **sample.params)
        out = np.full(want.shape, 77, want.dtype)
        kernel(out, *values)
        np.testing.assert_allclose(out, want, rtol=1e-13)


@tagged(lambda p: p.lowering.updates_first_operand)
def test_updates_first_operand(p: Primitive, sample: Sample) -> None:
    """The result may take the first operand's memory, and is the same there."""
    assert p.lowering.make_kernel is not None
    xs = arrays(sample)
    want = p.impl(*[x.copy() for x in xs], **sample.params)
    kernel = p.lowering.make_kernel(*[aval_of(x) for x in xs], **sample.params)
    for out in (xs[0].copy(), np.full(want.shape, 77, want.dtype)):
        first = out if (out == xs[0]).all() else xs[0].copy()
        kernel(out, first, *xs[1:])
        np.testing.assert_array_equal(out, want)


def has_rows(p: Primitive, sample: Sample) -> bool:
    """Tell whether a sample has rows, and works along other axes than theirs."""
    rows = [np.shape(sample.operands[k]) for k in p.lowering.batch_operands]
    return all(shape and shape[0] for shape in rows) and 0 not in sample.params.get("axis", ())


@tagged(lambda p: p.lowering.batch_operands, has_rows)
def test_batch_operands(p: Primitive, sample: Sample) -> None:
    """Rows of these operands go into the same rows of the result, or are summed over."""
    xs = arrays(sample)
    where = p.lowering.batch_operands
    want = np.asarray(p.impl(*xs, **sample.params))
    parts = [
        np.asarray(p.impl(*[x[k : k + 1] if n in where else x for n, x in enumerate(xs)], **_of_rows(p, sample, 1)))
        for k in range(len(xs[where[0]]))
    ]
    together = sum(parts) if p.lowering.sums_over_batch else np.concatenate(parts)
    np.testing.assert_allclose(together, want, rtol=1e-12, atol=1e-12)


def _of_rows(p: Primitive, sample: Sample, rows: int) -> dict[str, Any]:
    """Return the parameters for fewer rows: a shape among them is the result's."""
    params = dict(sample.params)
    if "shape" in params and not p.lowering.sums_over_batch:
        params["shape"] = (rows, *params["shape"][1:])
    return params


@tagged(lambda p: p.lowering.reduce_ufunc)
def test_reduce_ufunc(p: Primitive, sample: Sample) -> None:
    """The ufunc's reduction over the axis gives what running the op gives."""
    assert p.lowering.reduce_ufunc is not None
    (x,) = arrays(sample)
    np.testing.assert_allclose(
        p.lowering.reduce_ufunc.reduce(x, axis=sample.params["axis"]), p.impl(x, **sample.params), rtol=1e-13
    )


@tagged(lambda p: p.lowering.ufunc)
def test_ufunc(p: Primitive, sample: Sample) -> None:
    """The ufunc gives what running the op gives, in the result's dtype, for operands of that dtype."""
    assert p.lowering.ufunc is not None
    xs = arrays(sample)
    np.testing.assert_array_equal(p.lowering.ufunc(*xs), p.impl(*xs))


@tagged(lambda p: p.promotes_to_float and p.is_elementwise)
def test_promotes_to_float(p: Primitive, sample: Sample) -> None:
    """Integers compute in the default dtype."""
    whole = [np.ones_like(x, dtype=np.int64) for x in sample.operands]
    assert aval_of(p.impl(*whole)).dtype.kind != "i"
    assert p.abstract_eval(*[aval_of(x) for x in whole]).dtype.kind != "i"  # elementwise: one


def _in(dtype: str, sample: Sample) -> list[Any]:
    return [np.asarray(x).astype(dtype) if k in sample.moving else x for k, x in enumerate(sample.operands)]


def _takes(p: Primitive, sample: Sample, dtype: str) -> bool:
    """Tell whether a primitive has a derivative by operands of a dtype."""
    if not p.is_differentiable or not is_smooth(p) or sample.drawn or not sample.moving:
        return False
    if not is_real(p, sample):
        return False
    try:
        p.abstract_eval(*[aval_of(x) for x in _in(dtype, sample)], **sample.params)
    except afx.errors.AfxError:
        return False
    return True


SINGLE = [
    pytest.param(p, s, dtype, id=f"{p.name}-{k}-{dtype}")
    for dtype in ("f", "F")
    for p, k, s in EVERY
    if _takes(p, s, dtype)
]


@made.each_sample(SINGLE, "p, sample, dtype")
def test_derivatives_in_single_precision(p: Primitive, sample: Sample, dtype: str) -> None:
    """Derivatives in float32 and complex64 have the operands' dtypes, and are those in double precision of the same points."""
    found = []
    rng = np.random.default_rng(11)
    ts = [rng.normal(size=x.shape) for x in sample.points]
    if sample.symmetric:
        ts = [(t + t.swapaxes(-1, -2)) / 2 for t in ts]
    for kind in (dtype, {"f": "d", "F": "D"}[dtype]):
        xs = tuple(np.asarray(x).astype(dtype).astype(kind) for x in sample.points)
        zs, slopes = afx.jvp(lambda *v: call(p, sample, *sample.at(v)), xs, tuple(t.astype(kind) for t in ts))
        cts = tuple(afx.ones_like(z) for z in zs)
        back = afx.vjp(lambda *v: call(p, sample, *sample.at(v)), *xs)[1](cts)
        assert [g.dtype for g in back] == [x.dtype for x in xs]
        assert [s.dtype for s in slopes] == [z.dtype for z in zs]
        found.append([np.asarray(v) for v in (*slopes, *back)])
    for single, double in zip(*found, strict=True):
        scale = np.abs(double[np.isfinite(double)]).max(initial=1.0)
        np.testing.assert_allclose(single, double, rtol=2e-3, atol=2e-4 * scale)


@tagged(lambda p: not p.lowering.calls_lapack)
def test_calls_no_lapack(p: Primitive, sample: Sample) -> None:
    """An op that does not say so runs no function of `numpy.linalg` or `scipy.linalg`, whose threads plans limit."""
    modules = set[str]()
    p.impl(*sample.operands, **sample.params)  # tables that it makes once, such as nodes of a quadrature, do not count
    sys.setprofile(
        lambda frame, event, _: modules.add(frame.f_globals.get("__name__", "")) if event == "call" else None
    )
    try:
        p.impl(*sample.operands, **sample.params)
    finally:
        sys.setprofile(None)
    assert not [name for name in modules if name.startswith(("numpy.linalg", "scipy.linalg"))]
