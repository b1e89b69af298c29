"""What every primitive promises, checked from its record: nothing here names an op."""

import inspect
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
import afx.nn
from afx.core.aval import Aval, aval_of
from afx.core.primitive import Primitive
from afx.core.tracer import bind
from tests.ops import samples_indexing, samples_linalg, samples_reductions, samples_shaping
from tests.ops.samples import Sample

SAMPLES = {
    **samples_shaping.SAMPLES,
    **samples_indexing.SAMPLES,
    **samples_reductions.SAMPLES,
    **samples_linalg.SAMPLES,
}
SYMMETRIC = {"cholesky", "eigh"}  # defined for symmetric operands only: tests/ops/test_linalg.py
HOLD_FUNCTIONS = {p.name for p in afx.primitives() if p.record is not None} | SYMMETRIC
RNG = np.random.default_rng(7)
EPS = 1e-6


def _elementwise(p: Primitive) -> list[Sample]:
    """Return operands inside the domain of an elementwise op, of shapes that broadcast."""
    count = len(inspect.signature(p.pullbacks[0]).parameters) and len(p.pullbacks) if p.pullbacks else _arity(p)
    shapes: list[tuple[tuple[int, ...], ...]] = [((2, 3),) * count, ((),) * count, ((0, 2),) * count]
    if count > 1:
        shapes.append(((2, 1), (3,), (1, 1))[:count])
    low, high = p.domain
    return [Sample(tuple(_operand(p, k, RNG.uniform(low, high, s)) for k, s in enumerate(shape))) for shape in shapes]


def _arity(p: Primitive) -> int:
    return p.ufunc.nin if p.ufunc is not None else 1


def _operand(p: Primitive, k: int, x: np.ndarray) -> np.ndarray:
    if k < p.first_value:
        return x > 0
    return x if _takes(p, np.float64) else (4 * np.abs(x)).astype(np.int64)


def _takes(p: Primitive, dtype: Any) -> bool:
    try:
        p.abstract(*[Aval((), np.dtype(dtype))] * (_arity(p) if p.ufunc else len(p.pullbacks or (0,))))
    except TypeError:
        return False
    return True


def _cases() -> Iterator[Any]:
    for p in afx.primitives():
        if p.name in HOLD_FUNCTIONS:
            continue
        found = _elementwise(p) if p.elementwise else SAMPLES.get(p.name, [])
        for k, sample in enumerate(found):
            yield pytest.param(p, sample, id=f"{p.name}-{k}")


CASES = list(_cases())
SMOOTH = [c for c in CASES if c.values[0].differentiable]
each_case = pytest.mark.parametrize(("p", "sample"), CASES)
each_smooth = pytest.mark.parametrize(("p", "sample"), SMOOTH)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Overflow at the edge of a domain is NumPy's to report, and not what is tested here."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        yield


def _outs(p: Primitive, z: Any) -> tuple[Any, ...]:
    return z if p.multiple else (z,)


def _call(p: Primitive, sample: Sample, *xs: Any) -> tuple[Any, ...]:
    return _outs(p, bind(p, *xs, **sample.params))


def _moving(sample: Sample) -> list[int]:
    return [k for k, x in enumerate(sample.operands) if np.asarray(x).dtype.kind in "fc"]


def _direction(x: Any) -> Any:
    x = np.asarray(x)
    t = RNG.normal(size=x.shape)
    return t + 1j * RNG.normal(size=x.shape) if x.dtype.kind == "c" else t


def _with(sample: Sample, moving: list[int], values: tuple[Any, ...]) -> list[Any]:
    xs = list(sample.operands)
    for k, v in zip(moving, values, strict=True):
        xs[k] = v
    return xs


def test_every_primitive_has_samples() -> None:
    """A primitive that is not elementwise is tested on operands written down for it."""
    known = {c.values[0].name for c in CASES}
    missing = [p.name for p in afx.primitives() if p.name not in known | HOLD_FUNCTIONS]
    assert missing == [], "add their operands to a tests/ops/samples_*.py"


@each_case
def test_shape_rule_tells_the_result(p: Primitive, sample: Sample) -> None:
    """The shape rule gives the shape and dtype that running the op gives."""
    expected = p.abstract(*[aval_of(x) for x in sample.operands], **sample.params)
    for z, want in zip(_call(p, sample, *sample.operands), expected if p.multiple else (expected,), strict=True):
        assert (z.shape, z.dtype) == (want.shape, want.dtype)


@each_case
@pytest.mark.parametrize("dtype", ["?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "F", "D"])
def test_shape_rule_tells_the_dtype(p: Primitive, sample: Sample, dtype: str) -> None:
    """For operands of any dtype the shape rule either gives the dtype of the result or raises the op's own error."""
    xs = [np.asarray(x).astype(dtype) if k in _moving(sample) else x for k, x in enumerate(sample.operands)]
    try:
        expected = p.abstract(*[aval_of(x) for x in xs], **sample.params)
    except afx.errors.AfxError:
        with pytest.raises(afx.errors.AfxError):
            _call(p, sample, *xs)
        return
    for z, want in zip(_call(p, sample, *xs), expected if p.multiple else (expected,), strict=True):
        assert z.dtype == want.dtype


@each_case
def test_operands_are_left_alone(p: Primitive, sample: Sample) -> None:
    """An implementation writes only into what it has allocated, and says so when it returns an operand's memory."""
    xs = [np.array(x) for x in sample.operands]
    for x in xs:
        x.flags.writeable = False
    before = [x.tobytes() for x in xs]
    zs = _outs(p, p.run(*xs, **sample.params))
    assert [x.tobytes() for x in xs] == before
    if not p.view:
        assert not any(np.shares_memory(z, x) for z, x in itertools.product(zs, xs) if isinstance(z, np.ndarray))


@each_case
def test_traced_and_compiled_agree(p: Primitive, sample: Sample) -> None:
    """A graph of the op, evaluated or compiled, gives what the op gives."""
    plain = _call(p, sample, *sample.operands)

    def fn(*xs: Any) -> tuple[Any, ...]:
        return _call(p, sample, *xs)

    graph = afx.trace(fn)(*sample.operands)
    afx.check(graph)
    for found in (afx.evaluate(graph, *sample.operands), afx.jit(fn)(*sample.operands)):
        for z, want in zip(found, plain, strict=True):
            assert z.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(z), np.asarray(want), rtol=1e-13, atol=1e-13)


@each_smooth
def test_forward_mode_is_the_derivative(p: Primitive, sample: Sample) -> None:
    """Forward mode agrees with central differences in float64, where the op is smooth."""
    moving = _moving(sample)
    xs = tuple(np.asarray(sample.operands[k]) for k in moving)
    ts = tuple(_direction(x) for x in xs)

    def fn(*values: Any) -> tuple[Any, ...]:
        return _call(p, sample, *_with(sample, moving, values))

    values, slopes = afx.jvp(fn, xs, ts)
    above = fn(*[x + EPS * t for x, t in zip(xs, ts, strict=True)])
    below = fn(*[x - EPS * t for x, t in zip(xs, ts, strict=True)])
    for z, slope, up, down in zip(values, slopes, above, below, strict=True):
        if z.dtype.kind not in "fc":
            continue
        difference = (np.asarray(up) - np.asarray(down)) / (2 * EPS)
        np.testing.assert_allclose(np.asarray(slope), difference, rtol=2e-6, atol=2e-8)


@each_smooth
def test_reverse_mode_is_the_adjoint(p: Primitive, sample: Sample) -> None:
    """Reverse mode is the transpose of forward mode: ⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩, for each operand alone and all together."""
    moving = _moving(sample)
    for chosen in [moving] + ([[k] for k in moving] if len(moving) > 1 else []):
        xs = tuple(np.asarray(sample.operands[k]) for k in chosen)
        ts = tuple(_direction(x) for x in xs)

        def fn(*values: Any, chosen: list[int] = chosen) -> tuple[Any, ...]:
            return tuple(z for z in _call(p, sample, *_with(sample, chosen, values)) if z.dtype.kind in "fc")

        zs, slopes = afx.jvp(fn, xs, ts)
        cts = tuple(afx.asarray(_direction(z)) for z in zs)
        back = afx.vjp(fn, *xs)[1](cts)
        forward = sum(np.sum(np.asarray(c) * np.asarray(s)) for c, s in zip(cts, slopes, strict=True))
        reverse = sum(np.sum(np.asarray(g) * t) for g, t in zip(back, ts, strict=True))
        np.testing.assert_allclose(np.real(forward), np.real(reverse), rtol=1e-9, atol=1e-10)
        assert [(g.shape, g.dtype) for g in back] == [(x.shape, x.dtype) for x in xs]


@each_smooth
def test_second_order(p: Primitive, sample: Sample) -> None:
    """The gradient's derivative agrees with the central difference of the gradient."""
    moving = _moving(sample)
    xs = tuple(np.asarray(sample.operands[k]) for k in moving)
    if any(x.dtype.kind == "c" for x in xs) or not p.smooth:
        return
    cts = [_direction(z) for z in _call(p, sample, *sample.operands)]
    ts = tuple(_direction(x) for x in xs)

    def total(values: Any) -> Any:
        zs = _call(p, sample, *_with(sample, moving, values))
        parts = [afx.sum(z * c) for z, c in zip(zs, cts, strict=True) if z.dtype.kind == "f"]
        return sum(parts[1:], parts[0])

    if np.iscomplexobj(np.asarray(_call(p, sample, *sample.operands)[0])):
        return
    slope = afx.hvp(total, (xs,), (ts,))
    above = afx.grad(total)(tuple(x + EPS * t for x, t in zip(xs, ts, strict=True)))
    below = afx.grad(total)(tuple(x - EPS * t for x, t in zip(xs, ts, strict=True)))
    for s, up, down in zip(slope, above, below, strict=True):
        np.testing.assert_allclose(np.asarray(s), (np.asarray(up) - np.asarray(down)) / (2 * EPS), rtol=1e-5, atol=1e-7)


@each_smooth
def test_compiled_gradient_agrees(p: Primitive, sample: Sample) -> None:
    """The gradient under jit, and of the jitted op, is the plain gradient."""
    moving = _moving(sample)
    xs = tuple(np.asarray(sample.operands[k]) for k in moving)
    cts = [_direction(z) for z in _call(p, sample, *sample.operands)]

    def total(*values: Any) -> Any:
        zs = _call(p, sample, *_with(sample, moving, values))
        parts = [afx.sum(afx.real(z * c)) for z, c in zip(zs, cts, strict=True) if z.dtype.kind in "fc"]
        return sum(parts[1:], parts[0])

    nums = tuple(range(len(xs)))
    plain = afx.grad(total, nums)(*xs)
    for found in (afx.jit(afx.grad(total, nums))(*xs), afx.grad(afx.jit(total), nums)(*xs)):
        for g, want in zip(found, plain, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(want), rtol=1e-10, atol=1e-12)


@each_case
def test_batching_is_a_loop(p: Primitive, sample: Sample) -> None:
    """Mapping over any of the operands gives what a loop over them gives."""
    size, count = 2, len(sample.operands)
    for flags in itertools.product([False, True], repeat=count):
        if not any(flags) or count > 3:
            continue
        many = [
            np.stack([np.asarray(x), np.flip(np.asarray(x))])
            if f and np.asarray(x).ndim and p.elementwise
            else np.stack([np.asarray(x)] * size)
            if f
            else x
            for x, f in zip(sample.operands, flags, strict=True)
        ]

        def fn(*xs: Any) -> tuple[Any, ...]:
            return _call(p, sample, *xs)

        found = afx.vmap(fn, tuple(0 if f else None for f in flags))(*many)
        for i in range(size):
            one = fn(*[x[i] if f else x for x, f in zip(many, flags, strict=True)])
            for z, want in zip(found, one, strict=True):
                np.testing.assert_allclose(np.asarray(z)[i], np.asarray(want), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [p for p in afx.primitives() if p.name not in HOLD_FUNCTIONS], ids=lambda p: p.name)
def test_rules_read_what_they_say(p: Primitive) -> None:
    """A primitive with pullbacks says for each of them what it reads, and has a forward rule and a batching rule."""
    if p.pullbacks is not None:
        assert len(p.reads) in (1, len(p.pullbacks))
    assert (p.jvp is not None) == p.differentiable
    assert p.batch is not None


EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 5e-324, 1e-300, 1e300]


@pytest.mark.parametrize(
    "p", [p for p in afx.primitives() if p.elementwise and p.differentiable and p.smooth], ids=lambda p: p.name
)
def test_no_nan_where_forward_is_finite(p: Primitive) -> None:
    """At finite operands whose value is finite, a derivative is a number or an infinity, never nan."""
    count = len(p.pullbacks or ()) - p.first_value
    finite = [e for e in EDGES if np.isfinite(e)]
    for values in itertools.product(finite, repeat=count):
        xs = tuple(np.array(v) for v in values)
        head = (np.array(True),) * p.first_value
        z = bind(p, *head, *xs)
        if not np.isfinite(np.asarray(z)):
            continue
        if p.name == "pow" and values[0] < 0:
            continue  # a negative base: the power is defined at integer exponents only, as its docstring says
        grads = afx.grad(lambda *v, head=head: bind(p, *head, *v), tuple(range(count)))(*xs)
        assert not any(np.isnan(np.asarray(g)) for g in grads), (values, grads)
