"""Elementwise ops on operands of different dtypes, and on complex numbers."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.ops._kinds.elementwise import elementwise_impl
from tests.ops.domains import is_smooth
from tests.ops.samples import RNG, arity, elementwise, normal_like, together

DTYPES = "?bhilBHILefdFD"
ELEMENTWISE = [p for p in afx.primitives() if p.is_elementwise]
HOLOMORPHIC = [p for p in ELEMENTWISE if p.is_differentiable and is_smooth(p)]
EPS = 1e-6
pytestmark = [
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # at the edge of a domain NumPy says so
]


def _agree(p: Primitive, xs: tuple[Any, ...]) -> None:
    """Check that running an op gives what its shape rule says, or that both raise the op's own error."""
    try:
        want = p.abstract_eval(*map(aval_of, xs))
    except afx.errors.AfxError:
        with pytest.raises(afx.errors.AfxError):
            bind(p, *xs)
        return
    assert isinstance(want, afx.Aval)
    z = bind(p, *xs)
    assert (z.shape, z.dtype) == (want.shape, want.dtype), [str(aval_of(x)) for x in xs]


@together("p", ELEMENTWISE, ids=lambda p: p.name)
def test_mixed_dtypes_have_the_stated_result(p: Primitive) -> None:
    """Arrays and 0-d arrays of every combination of dtypes have the dtype of the shape rule, or raise as it does."""
    count = arity(p)
    chars = DTYPES if count < 3 else "?iBfD"
    for dtypes in itertools.product(chars, repeat=count):
        for shapes in itertools.islice(itertools.product(((2,), ()), repeat=count), 2 if count > 2 else None):
            _agree(p, tuple(np.ones(s, d) for s, d in zip(shapes, dtypes, strict=True)))


@together("p", [p for p in ELEMENTWISE if arity(p) == 2], ids=lambda p: p.name)
@together("number", [True, 2, 2.0, 2j])
def test_python_numbers_are_weak(p: Primitive, number: Any) -> None:
    """A Python number beside an array or a NumPy scalar takes its dtype, where the kind allows."""
    for char in DTYPES:
        for x in (np.ones(2, char), np.ones((), char)[()]):
            _agree(p, (x, number))
            _agree(p, (number, x))


def _complex_points(p: Primitive) -> tuple[Any, ...]:
    """Return complex operands near the real ones inside an op's domain, or an empty tuple where it takes none."""
    xs = tuple(
        x if k < p.condition_operands else x + 1j * RNG.uniform(0.2, 0.6, np.shape(x))
        for k, x in enumerate(elementwise(p)[0].operands)
    )
    try:
        bind(p, *xs)
    except afx.errors.AfxError:
        return ()
    return xs


@together("p", HOLOMORPHIC, ids=lambda p: p.name)
def test_complex_derivatives(p: Primitive) -> None:
    """On complex operands forward mode is the central difference, and reverse mode its adjoint without conjugation."""
    points = _complex_points(p)
    if not points:
        return
    head, xs = points[: p.condition_operands], points[p.condition_operands :]
    ts = tuple(normal_like(x) for x in xs)

    def fn(*values: Any) -> Any:
        return bind(p, *head, *values)

    z, slope = afx.jvp(fn, xs, ts)
    above, below = (fn(*[x + s * EPS * t for x, t in zip(xs, ts, strict=True)]) for s in (1, -1))
    difference = (np.asarray(above) - np.asarray(below)) / (2 * EPS)
    np.testing.assert_allclose(np.asarray(slope), difference, rtol=1e-6, atol=1e-8)
    ct = normal_like(z)
    back = afx.vjp(fn, *xs)[1](afx.asarray(ct))
    reverse = sum(np.sum(np.asarray(g) * t) for g, t in zip(back, ts, strict=True))
    assert np.real(np.sum(ct * np.asarray(slope))) == pytest.approx(np.real(reverse), rel=1e-9)


def _bent_identity(x: Any) -> Any:
    return (np.sqrt(x * x + 1) - 1) / 2 + x


@pytest.mark.parametrize("char", "?bhiqBHIQ")
def test_recipes_compute_integers_in_the_default_dtype(char: str) -> None:
    """An op of one operand that calls several ufuncs gets integers as floats, in which squares do not wrap around."""
    run = elementwise_impl("bent_identity", _bent_identity, True, 1, "f")
    x = np.array([1, 120]).astype(char)
    for value in (x, x[-1], x[-1].item()):
        np.testing.assert_allclose(run(value), _bent_identity(np.asarray(value, float)), rtol=1e-6)
        assert run(value).dtype == np.float32


def test_averages_keep_imaginary_parts() -> None:
    """Of complex numbers with integer weights, and of integers with complex weights."""
    x, y = np.array([1 + 2j, 3 + 4j]), np.array([1, 2])
    for u, w in ((x, y), (y, x), (x.astype(np.complex64), y), (y, x.astype(np.complex64))):
        np.testing.assert_allclose(afx.average(u, weights=w), np.average(u, weights=w), rtol=1e-6)


def test_weights_of_counts_do_not_wrap() -> None:
    """Sums of booleans and small integers are counts: `bincount` gives float64, a histogram and segments int64."""
    places = np.array([0, 1, 1, 1])
    for w in (np.ones(4, bool), np.full(4, 100, np.int8)):
        want = np.bincount(places, weights=w)
        found = afx.bincount(places, weights=w)
        np.testing.assert_array_equal(found, want)
        assert found.dtype == np.float64
        for counts in (afx.histogram(places, 2, weights=w)[0], afx.segment_sum(w, places)):
            np.testing.assert_array_equal(counts, want)
            assert counts.dtype == np.int64
    assert afx.segment_prod(np.full(4, 100, np.int8), places).tolist() == [100, 1000000]


def test_reductions_begin_in_the_dtype_asked_for() -> None:
    """``initial`` is converted to ``dtype`` as the elements are."""
    x = np.array([2**15, -3], np.int32)
    for ours, theirs in ((afx.prod, np.prod), (afx.sum, np.sum)):
        want = theirs(x, dtype=np.uint16, initial=np.int8(3))
        assert int(ours(x, dtype=np.uint16, initial=np.int8(3))) == want


@together("bins", [[1, 2, np.nan], [np.nan, 2, 1], [3, 2, 1], [1, 1], [np.nan, np.nan], [0, 200]])
@together("right", [False, True])
def test_bins_of_nan_are_the_largest(bins: list[float], right: bool) -> None:
    """`digitize` counts nan at the end of rising bins, and in front of falling ones, as NumPy does; compiled too."""
    x, edges = np.array([0.5, 1.0, 1.5, 5.0, np.nan]), np.array(bins)
    want = np.digitize(x, edges, right)
    np.testing.assert_array_equal(afx.digitize(x, edges, right), want)
    np.testing.assert_array_equal(afx.jit(lambda x, b: afx.digitize(x, b, right))(x, edges), want)


def test_bins_without_an_order_are_refused() -> None:
    """Also of unsigned integers, differences of which are not negative."""
    for bins in (np.array([1, 3, 2], np.uint8), np.array([np.nan, 1, 2])):
        with pytest.raises(afx.errors.ArgumentError, match="monotonically"):
            afx.digitize(1, bins)


def test_fractions_of_float32_pick_no_neighbour() -> None:
    """A fifth is a fifth in every dtype: the element that stands there is picked."""
    x = np.arange(6, dtype=np.int16)
    for dtype in (np.float16, np.float32, np.float64):
        for method in ("lower", "higher", "nearest"):
            assert int(afx.percentile(x, dtype(20), method=method)) == 1
            assert int(afx.quantile(x, dtype(0.2), method=method)) == 1


def test_interpolation_takes_real_points() -> None:
    """Complex numbers have no order."""
    with pytest.raises(afx.errors.DtypeError, match="interp: complex numbers have no order"):
        afx.interp(np.array([1j]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def test_quotients_by_integers_keep_their_digits() -> None:
    """The derivative of a float64 by an integer array has all digits, compiled too."""
    y = np.array([3, 7])
    for dtype in (np.int8, np.int64):
        slope = afx.jit(afx.grad(lambda x, y: afx.sum(x / y)))(np.ones(2), y.astype(dtype))
        np.testing.assert_allclose(np.asarray(slope), 1 / y, rtol=1e-15 if dtype == np.int64 else 1e-6)
