"""Every primitive with one array as two of its operands, and with views of one: as it is with copies apart.

Cases are those of the registry's tests whose operands have a shape and a dtype in common, and products of small matrices.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import export
from afx.compiler.target import Target, use_target
from afx.core.primitive import Primitive
from afx.errors import AfxError
from tests.export.forms import has_c_form
from tests.ops import samples as made
from tests.ops.samples import Sample, call, normal_like

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
MOST = 64  # calls in a program: most of the time is that of plans
SIZES, WIDTHS = range(1, 10), (np.float32, np.float64)  # of matrices that have forms of their own
EACH = 20  # which of the cases are exported
FEWEST = 90
NATIVE = Target(backend="native")  # compiled before the first call


@attrs.frozen(eq=False)
class Case:
    """A call whose operands i and j are made of one array.

    Attributes:
        p: the primitive.
        sample: all operands, of which i and j are replaced.
        places: i and j.
        base: the array.
        views: from the array to both operands, NumPy's or afx's.
    """

    p: Primitive
    sample: Sample
    places: tuple[int, int]
    base: np.ndarray[Any, Any]
    views: Callable[[Any], tuple[Any, Any]]

    def run(self, base: Any, *, apart: bool = False) -> tuple[Any, ...]:
        """Return the results, of operands in memory of their own where they are wanted apart."""
        pair = [np.array(x) for x in self.views(base)] if apart else self.views(base)
        return self.bind(pair)

    def bind(self, pair: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of these two operands."""
        return call(self.p, self.sample, *self.sample.at(tuple(pair), [*self.places]))

    @property
    def moves(self) -> bool:
        """Whether there is a derivative by the array."""
        return self.p.is_differentiable and {*self.places} <= {*self.sample.moving}


def shifted(shape: tuple[int, ...]) -> Callable[[Any], tuple[Any, Any]]:
    """Return the function from a vector to two arrays of a shape, one element apart."""
    return lambda x: (x[:-1].reshape(shape), x[1:].reshape(shape))


def turned(x: Any) -> tuple[Any, Any]:
    """Return x and its transpose."""
    return x, x.swapaxes(-1, -2) if isinstance(x, np.ndarray) else afx.swapaxes(x, -1, -2)


def make_cases(p: Primitive, sample: Sample) -> Iterator[Case]:
    """Yield the calls of a sample for each two operands that can be one array."""
    values = [np.asarray(x) for x in sample.operands]
    for i, j in itertools.combinations(range(len(values)), 2):
        x, y = values[i], values[j]
        if x.shape != y.shape or x.dtype != y.dtype:
            continue
        yield Case(p, sample, (i, j), x, lambda x: (x, x))
        if x.size:
            row = np.concatenate([x.ravel(), x.ravel()[:1]])
            yield Case(p, sample, (i, j), row, shifted(x.shape))
            yield Case(p, sample, (i, j), x, lambda x: (x, x[::-1]) if x.ndim else (x, x[None][0]))
        if x.ndim > 1 and x.shape[-1] == x.shape[-2]:
            yield Case(p, sample, (i, j), x, turned)


def collect() -> list[Case]:
    """Return all cases that have a result when operands lie apart."""
    every = [(p, s) for p, _, s in made.samples() if len(s.operands) > 1]
    product, rng = next(p for p in afx.primitives() if p.name == "matmul"), np.random.default_rng(0)
    every += [(product, Sample((rng.normal(size=(n, n)).astype(t),) * 2)) for n in SIZES for t in WIDTHS]
    found = list[Case]()
    for case in itertools.chain.from_iterable(itertools.starmap(make_cases, every)):
        try:
            case.run(case.base, apart=True)
        except (AfxError, np.linalg.LinAlgError):
            continue
        found.append(case)
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = collect()
BATCHES = [CASES[k : k + MOST] for k in range(0, len(CASES), MOST)]
each_batch = pytest.mark.parametrize("cases", BATCHES, ids=range(len(BATCHES)))


def run_all(cases: Sequence[Case]) -> Callable[[Sequence[Any]], list[tuple[Any, ...]]]:
    """Return the function of the arrays of cases to all results."""
    return lambda bases: [case.run(x) for case, x in zip(cases, bases, strict=True)]


def compare(case: Case, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Assert that results are equal up to the rounding of their dtype."""
    for z, want in zip(found, map(np.asarray, wanted), strict=True):
        got = np.asarray(z)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), case
        tolerance = 1e-5 if got.dtype.char in "fF" else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=f"{case.p.name} {case.places}")


def test_most_primitives_of_two_operands_are_among_them() -> None:
    """Ninety primitives and more take one array twice."""
    assert len({case.p.name for case in CASES}) > FEWEST


@each_batch
@pytest.mark.parametrize("target", [None, NATIVE], ids=["numpy", "native"])
def test_values_are_those_of_copies(cases: Sequence[Case], target: Target | None) -> None:
    """Eagerly and compiled, by both back ends, arrays that share memory give what arrays apart give."""
    bases = [case.base for case in cases]
    wanted = [case.run(case.base, apart=True) for case in cases]
    if target is None:
        found = [run_all(cases)(bases), run_all(cases)([afx.asarray(x) for x in bases]), afx.jit(run_all(cases))(bases)]
    else:
        with use_target(target):
            found = [afx.jit(run_all(cases))(bases)]
    for results in found:
        for case, got, want in zip(cases, results, wanted, strict=True):
            compare(case, got, want)


@each_batch
def test_batches_are_those_of_copies(cases: Sequence[Case]) -> None:
    """Mapped over stacked arrays, each row is what its copies give."""
    many = [
        np.stack([case.base, case.base[::-1] if case.p.is_elementwise and case.base.ndim else case.base])
        for case in cases
    ]
    for results in (afx.vmap(run_all(cases))(many),):
        for case, got, xs in zip(cases, results, many, strict=True):
            for k, x in enumerate(xs):
                compare(case, [np.asarray(z)[k] for z in got], case.run(x, apart=True))


def pull(case: Case, pair: Sequence[Any], cts: Sequence[Any]) -> Any:
    """Return the sum of products of results and cotangents, by which derivatives are taken."""
    parts = [afx.sum(afx.real(z * ct)) for z, ct in zip(case.bind(pair), cts, strict=True) if z.dtype.kind in "fc"]
    return sum(parts, start=afx.asarray(np.float64(0)))


@each_batch
def test_gradients_are_sums_of_those_by_copies(cases: Sequence[Case]) -> None:
    """The gradient by the one array is that by both operands apart, put together by the adjoint of the views."""
    moved = [case for case in cases if case.moves]
    cotangents = [[normal_like(z) for z in case.run(case.base, apart=True)] for case in moved]

    def total(bases: Sequence[Any]) -> Any:
        found = [pull(c, c.views(x), cts) for c, x, cts in zip(moved, bases, cotangents, strict=True)]
        return sum(found, start=afx.asarray(np.float64(0)))

    bases = [afx.asarray(case.base) for case in moved]
    found = [afx.grad(total)(bases), afx.jit(afx.grad(total))(bases)] if moved else []
    for gradients in found:
        for case, got, cts in zip(moved, gradients, cotangents, strict=True):
            first, second = [np.array(x) for x in case.views(case.base)]
            parts = afx.grad(lambda x, y, case=case, cts=cts: pull(case, (x, y), cts), (0, 1))(first, second)
            _, back = afx.vjp(case.views, case.base)
            compare(case, [got], back(tuple(parts)))


def test_exported_functions_take_one_array_twice() -> None:
    """Machine code that is exported gives what copies give: products of small matrices, and every twentieth of all cases."""
    products = [case for case in CASES if case.p.name == "matmul"]
    chosen = [case for case in [*products[::3], *CASES[::EACH]] if has_c_form(case.run, case.base)]
    assert len(chosen) > len(products) // 3
    bases = [case.base for case in chosen]
    made = export.compile(run_all(chosen), bases, name="twice")
    for case, got in zip(chosen, made(bases), strict=True):
        compare(case, got, case.run(case.base, apart=True))
