"""Elementwise ops on operands of different dtypes, and on complex numbers."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from tests.ops.samples import RNG, arity, elementwise, normal_like

DTYPES = "?bhilBHILefdFD"
ELEMENTWISE = [p for p in afx.primitives() if p.is_elementwise]
HOLOMORPHIC = [p for p in ELEMENTWISE if p.is_differentiable and p.sampling.smooth]
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


@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_mixed_dtypes_have_the_stated_result(p: Primitive) -> None:
    """Arrays and 0-d arrays of every combination of dtypes have the dtype of the shape rule, or raise as it does."""
    count = arity(p)
    chars = DTYPES if count < 3 else "?iBfD"
    for dtypes in itertools.product(chars, repeat=count):
        for shapes in itertools.islice(itertools.product(((2,), ()), repeat=count), 2 if count > 2 else None):
            _agree(p, tuple(np.ones(s, d) for s, d in zip(shapes, dtypes, strict=True)))


@pytest.mark.parametrize("p", [p for p in ELEMENTWISE if arity(p) == 2], ids=lambda p: p.name)
@pytest.mark.parametrize("number", [True, 2, 2.0, 2j])
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


@pytest.mark.parametrize("p", HOLOMORPHIC, ids=lambda p: p.name)
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


def test_quotients_by_integers_keep_their_digits() -> None:
    """The derivative of a float64 by an integer array has all digits, compiled too."""
    y = np.array([3, 7])
    for dtype in (np.int8, np.int64):
        slope = afx.jit(afx.grad(lambda x, y: afx.sum(x / y)))(np.ones(2), y.astype(dtype))
        np.testing.assert_allclose(np.asarray(slope), 1 / y, rtol=1e-15 if dtype == np.int64 else 1e-6)
