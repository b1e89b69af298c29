"""What every primitive promises, checked from its record: nothing here names an op."""

import contextlib
import functools
import itertools
from typing import Any

import numpy as np
import pytest

import afx
import afx.nn
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from tests.every import Failures, every
from tests.ops import samples as made
from tests.ops.domains import DOMAINS, TIED, is_smooth
from tests.ops.samples import Sample, call, normal_like, outputs, together

STEP = 1e-3
DIFFERENCES = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # the central formula of order 8
DTYPES = "?bhilBHILefdFD"
TOLERANCES = {"e": 2e-3, "f": 2e-6, "F": 2e-6}
CASES = [pytest.param(p, sample, id=f"{p.name}-{k}") for p, k, sample in made.samples()]
SMOOTH = [c for c in CASES if c.values[0].is_differentiable]
SMOOTH_SAMPLES = {c.values[0]: [d.values[1] for d in SMOOTH if d.values[0] is c.values[0]] for c in SMOOTH}
PLAIN = [p for p in afx.primitives() if not made.holds_function(p)]
WRITING = [c for c in CASES if c.values[0].lowering.impl_into is not None]
FORWARD = [c for c in SMOOTH if not c.values[1].drawn]
SECOND = [c for c in SMOOTH if is_smooth(c.values[0]) and made.is_real(*c.values)]
READING = [c for c in SMOOTH if c.values[0].derivative.vjps is not None and not c.values[0].multiple_results]
each_case, each_smooth = made.each_sample(CASES), made.each_sample(SMOOTH)
each_plain = every("p", [pytest.param(p, id=p.name) for p in PLAIN], group=lambda p: p.name[0])
pytestmark = [
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # at the edge of a domain NumPy says so
]


@each_plain
def test_every_primitive_has_samples(p: Primitive) -> None:
    """A primitive that is not elementwise is tested on operands written down for it."""
    found = made.elementwise(p) if p.is_elementwise else made.written().get(p.name, [])
    assert found, f"add '{p.name}': [Sample(operands, params), …] to SAMPLES of tests/ops/samples_<its file>.py"


@each_case
def test_shape_rule_tells_the_result(p: Primitive, sample: Sample) -> None:
    """The shape rule gives the shape and dtype that running the op gives."""
    expected = outputs(p, p.abstract_eval(*[aval_of(x) for x in sample.operands], **sample.params))
    for z, want in zip(call(p, sample, *sample.operands), expected, strict=True):
        assert (z.shape, z.dtype) == (want.shape, want.dtype)


@each_case
def test_shape_rule_tells_the_dtype(p: Primitive, sample: Sample) -> None:
    """For operands of any dtype the shape rule, running and compiling agree on the dtype, or on the op's own error."""

    def fn(*values: Any) -> tuple[Any, ...]:
        return call(p, sample, *values)

    told: list[tuple[list[Any], tuple[Any, ...]]] = []
    for dtype in DTYPES if sample.moving else DTYPES[:1]:
        xs = [np.asarray(x).astype(dtype) if k in sample.moving else x for k, x in enumerate(sample.operands)]
        try:
            told.append((xs, outputs(p, p.abstract_eval(*[aval_of(x) for x in xs], **sample.params))))
        except afx.errors.AfxError:
            for run in (fn, afx.jit(fn)):
                with pytest.raises(afx.errors.AfxError):
                    run(*xs)

    def each(cases: list[Any]) -> list[Any]:
        return [fn(*xs) for xs in cases]

    plans = afx.jit(each)([xs for xs, _ in told])  # one of all: most of the time is that of plans
    for (xs, expected), found in zip(told, plans, strict=True):
        for z, compiled, want in zip(fn(*xs), found, expected, strict=True):
            assert z.dtype == compiled.dtype == want.dtype, [str(aval_of(x)) for x in xs]
            tolerance = TOLERANCES.get(want.dtype.char, 1e-12)
            np.testing.assert_allclose(np.asarray(compiled), np.asarray(z), rtol=tolerance, atol=tolerance)


@each_case
def test_operands_are_left_alone(p: Primitive, sample: Sample) -> None:
    """An implementation writes only into what it has allocated, and says so when it returns an operand's memory."""
    xs = [np.array(x) for x in sample.operands]
    for x in xs:
        x.flags.writeable = False
    before = [x.tobytes() for x in xs]
    zs = outputs(p, p.impl(*xs, **sample.params))
    assert [x.tobytes() for x in xs] == before
    if not p.lowering.may_alias:
        assert not any(np.shares_memory(z, x) for z, x in itertools.product(zs, xs) if isinstance(z, np.ndarray))


@made.each_sample(WRITING)
def test_writing_into_memory_gives_the_same(p: Primitive, sample: Sample) -> None:
    """Where an op can compute into memory that it is given, it gives what running it gives, whatever was there."""
    assert p.lowering.impl_into is not None
    xs = [np.asarray(x) for x in sample.operands]
    want = p.impl(*xs, **sample.params)
    out = np.full(want.shape, 77, want.dtype)
    p.lowering.impl_into(out, *xs, **sample.params)
    np.testing.assert_allclose(out, want, rtol=1e-13)


@each_case
def test_traced_and_compiled_agree(p: Primitive, sample: Sample) -> None:
    """A graph of the op, evaluated or compiled, gives what the op gives."""

    def fn(*xs: Any) -> tuple[Any, ...]:
        return call(p, sample, *xs)

    graph = afx.trace(fn)(*sample.operands)
    afx.check(graph)
    for found in (afx.evaluate(graph, *sample.operands), afx.jit(fn)(*sample.operands)):
        for z, want in zip(found, fn(*sample.operands), strict=True):
            assert (z.shape, z.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(np.asarray(z), np.asarray(want), rtol=1e-13, atol=1e-13)


@each_case
def test_results_outlive_the_next_call(p: Primitive, sample: Sample) -> None:
    """What a plan makes of computed operands stays as it is when the plan runs again on others."""

    def fn(shift: Any, *xs: Any) -> tuple[Any, ...]:
        return call(p, sample, *[x + shift if k in sample.moving else x for k, x in enumerate(xs)])

    compiled = afx.jit(fn)
    first = compiled(afx.asarray(0.0, dtype=np.float64), *sample.operands)
    before = [np.array(z) for z in first]
    with contextlib.suppress(afx.errors.AfxError):  # a whole number that moves is none
        compiled(afx.asarray(1e-9, dtype=np.float64), *sample.operands)
    for z, want, plain in zip(first, before, fn(0.0, *sample.operands), strict=True):
        np.testing.assert_array_equal(z, want)
        np.testing.assert_allclose(np.asarray(z), np.asarray(plain), rtol=1e-13, atol=1e-13)


def difference(fn: Any, xs: Any, ts: Any, step: float = STEP) -> list[Any]:
    """Return the derivative of a function of arrays along directions by differences, to about 1e-12."""
    found: list[Any] = []
    for steps, weight in DIFFERENCES:
        h = steps * step
        above = fn(*[x + h * t for x, t in zip(xs, ts, strict=True)])
        below = fn(*[x - h * t for x, t in zip(xs, ts, strict=True)])
        found.append([weight / step * (np.asarray(a) - np.asarray(b)) for a, b in zip(above, below, strict=True)])
    return [sum(parts) for parts in zip(*found, strict=True)]


def step_of(p: Primitive, xs: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Return the step of a difference, which crosses no tie where an op has some, and what rounding leaves of it."""
    step = STEP if is_smooth(p) else STEP / 512
    return step, 4 * np.finfo(float).eps * max(float(np.max(np.abs(x), initial=1)) for x in xs) / step


@made.each_sample(FORWARD)
def test_forward_mode_is_the_derivative(p: Primitive, sample: Sample) -> None:
    """Forward mode agrees with central differences in float64, where the op is smooth."""
    xs, ts = sample.points, sample.directions()

    def fn(*values: Any) -> tuple[Any, ...]:
        return call(p, sample, *sample.at(values))

    def inexact(*values: Any) -> list[Any]:
        return [z for z in fn(*values) if z.dtype.kind in "fc"]

    slopes = [t for t in afx.jvp(fn, xs, ts)[1] if t.dtype.kind in "fc"]
    step, rounding = step_of(p, xs)
    for slope, want in zip(slopes, difference(inexact, xs, ts, step), strict=True):
        np.testing.assert_allclose(np.asarray(slope), want, rtol=1e-9, atol=max(1e-10, rounding))


@each_smooth
def test_reverse_mode_is_the_adjoint(p: Primitive, sample: Sample) -> None:
    """Reverse mode is the transpose of forward mode: ⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩, for each operand alone and all together."""
    moving, directions = sample.moving, sample.directions()
    for chosen in [moving] + ([[k] for k in moving] if len(moving) > 1 else []):
        xs = tuple(np.asarray(sample.operands[k]) for k in chosen)
        ts = tuple(directions[moving.index(k)] for k in chosen)

        def fn(*values: Any, chosen: list[int] = chosen) -> tuple[Any, ...]:
            return tuple(z for z in call(p, sample, *sample.at(values, chosen)) if z.dtype.kind in "fc")

        zs, slopes = afx.jvp(fn, xs, ts)
        assert [(s.shape, s.dtype) for s in slopes] == [(z.shape, z.dtype) for z in zs]
        cts = tuple(afx.asarray(normal_like(z)) for z in zs)
        back = afx.vjp(fn, *xs)[1](cts)
        forward = sum(np.sum(np.asarray(c) * np.asarray(s)) for c, s in zip(cts, slopes, strict=True))
        reverse = sum(np.sum(np.asarray(g) * t) for g, t in zip(back, ts, strict=True))
        np.testing.assert_allclose(np.real(forward), np.real(reverse), rtol=1e-9, atol=1e-10)
        assert [(g.shape, g.dtype) for g in back] == [(x.shape, x.dtype) for x in xs]


@made.each_sample(SECOND)
def test_second_order(p: Primitive, sample: Sample) -> None:
    """The gradient's derivative agrees with the central difference of the gradient, where that is smooth."""
    zs = call(p, sample, *sample.operands)
    xs, ts, cts = sample.points, sample.directions(), [normal_like(z) for z in zs]

    def total(values: Any) -> Any:
        found = zip(call(p, sample, *sample.at(values)), cts, strict=True)
        return sum([afx.sum(z * c) for z, c in found if z.dtype.kind == "f"], start=afx.asarray(np.float64(0)))

    slope, (step, rounding) = afx.hvp(total, (xs,), (ts,)), step_of(p, xs)
    for s, want in zip(slope, difference(lambda *values: afx.grad(total)(values), xs, ts, step), strict=True):
        np.testing.assert_allclose(np.asarray(s), want, rtol=1e-9, atol=max(1e-9, rounding))


@together("p", SMOOTH_SAMPLES, ids=str)
def test_compiled_gradient_agrees(p: Primitive) -> None:
    """The gradient under jit, and of the jitted op, is the plain gradient: of all samples in one plan."""
    samples = SMOOTH_SAMPLES[p]
    cts = [[normal_like(z) for z in call(p, sample, *sample.operands)] for sample in samples]

    def total(k: int, *values: Any) -> Any:
        zs = call(p, samples[k], *samples[k].at(values))
        parts = [afx.sum(afx.real(z * c)) for z, c in zip(zs, cts[k], strict=True) if z.dtype.kind in "fc"]
        return sum(parts[1:], parts[0])

    def totals(points: Any) -> Any:
        return [total(k, *xs) for k, xs in enumerate(points)]

    def gradients(points: Any) -> Any:
        return [afx.grad(functools.partial(total, k), tuple(range(len(xs))))(*xs) for k, xs in enumerate(points)]

    points = [sample.points for sample in samples]
    zs, pull = afx.vjp(afx.jit(totals), points)
    (back,) = pull([afx.ones_like(z) for z in zs])
    failures = Failures()
    for k, (plain, *found) in enumerate(zip(gradients(points), afx.jit(gradients)(points), back, strict=True)):
        with failures.case(f"{p.name}-{k}, of those with a derivative"):
            for g, want in itertools.chain.from_iterable(zip(gs, plain, strict=True) for gs in found):
                np.testing.assert_allclose(np.asarray(g), np.asarray(want), rtol=1e-10, atol=1e-12)
    failures.report()


def _neighbour(p: Primitive, x: Any) -> np.ndarray:
    """Return other operands that the op takes too: elements exchanged or, where their order counts, scaled."""
    x = np.asarray(x)
    if p.is_elementwise:
        return np.flip(x)
    return x * 1.25 if x.dtype.kind in "fc" else x


@each_case
def test_batching_is_a_loop(p: Primitive, sample: Sample) -> None:
    """Mapping over any of the operands, along the first or the last axis, gives what a loop over them gives."""

    def fn(*xs: Any) -> tuple[Any, ...]:
        return call(p, sample, *xs)

    choices = [flags for flags in itertools.product([False, True], repeat=len(sample.operands)) if any(flags)]
    cases: list[Any] = []
    for flags, axis in itertools.product(choices, (0, -1)):
        pairs = [
            [np.asarray(x), _neighbour(p, x) if f else np.asarray(x)]
            for x, f in zip(sample.operands, flags, strict=True)
        ]
        many = [np.stack(pair, axis) if f else x for pair, x, f in zip(pairs, sample.operands, flags, strict=True)]
        cases.append((pairs, afx.vmap(fn, tuple(axis if f else None for f in flags)), many))

    def each(operands: list[Any]) -> list[Any]:
        return [mapped(*many) for (_, mapped, _), many in zip(cases, operands, strict=True)]

    plans = afx.jit(each)([many for _, _, many in cases])  # one of all: most of the time is that of plans
    for (pairs, mapped, many), compiled in zip(cases, plans, strict=True):
        wanted = [fn(*[pair[i] for pair in pairs]) for i in range(2)]
        for found, i in itertools.product((mapped(*many), compiled), range(2)):
            for z, want in zip(found, wanted[i], strict=True):
                assert z.dtype == want.dtype
                np.testing.assert_allclose(np.asarray(z)[i], np.asarray(want), rtol=1e-12, atol=1e-12)


@each_case
def test_a_batch_of_none_has_the_shapes_of_one(p: Primitive, sample: Sample) -> None:
    """A batch without an element gives one, with the shapes and dtypes of each, and so do its derivatives."""
    if not sample.operands:
        return

    def mapped(*xs: Any) -> Any:
        return afx.vmap(lambda *each: call(p, sample, *each))(*xs)

    def total(*xs: Any) -> Any:
        parts = [afx.sum(afx.real(z)) for z in mapped(*xs) if z.dtype.kind in "fc"]
        return sum(parts, afx.asarray(0.0))

    one, none = ([np.stack([x])[:count] for x in sample.operands] for count in (1, 0))
    for found, want in zip(mapped(*none), mapped(*one), strict=True):
        assert (found.shape, found.dtype) == ((0, *want.shape[1:]), want.dtype)
    if p.is_differentiable and sample.moving and p.derivative.vjps is not None:
        slopes = afx.grad(total, tuple(sample.moving))(*none)
        assert [g.shape for g in slopes] == [none[k].shape for k in sample.moving]


@each_plain
def test_records_are_complete(p: Primitive) -> None:
    """A differentiable primitive has a rule for each mode and says what its pullbacks read; each has a batching rule."""
    if p.derivative.vjps is not None:
        assert len(p.derivative.reads) in (1, len(p.derivative.vjps))
    has_rules = p.derivative.jvp is not None
    assert has_rules != (p.derivative.through is not None) if p.is_differentiable else not has_rules
    assert p.batch is not None


@made.each_sample(READING)
def test_rules_read_what_they_say(p: Primitive, sample: Sample) -> None:
    """A pullback gives the same when every value that it does not claim to read is absent."""
    assert p.derivative.vjps is not None
    xs = tuple(np.asarray(x) for x in sample.operands)
    z = np.asarray(bind(p, *xs, **sample.params))
    ct = normal_like(z)
    for k in sample.moving:
        one = len(p.derivative.vjps) == 1
        pull, reads = p.derivative.vjps[0 if one else k], p.derivative.reads[0 if len(p.derivative.reads) == 1 else k]
        kept = tuple(x if reads >> j & 2 else None for j, x in enumerate(xs))
        want = pull(ct, z, xs, sample.params, xs[k].shape, xs[k].dtype)
        found = pull(ct, z if reads & 1 else None, kept, sample.params, xs[k].shape, xs[k].dtype)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_domains_are_those_of_operations() -> None:
    """Each operation whose operands are drawn elsewhere than usual, or that has ties, is one that exists."""
    assert DOMAINS.keys() | TIED <= {p.name for p in afx.primitives()}
