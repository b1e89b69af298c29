"""Floating-point flags of kernels: they are those of NumPy's calls, whatever the elements are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.run.run import Runner
from afx.compiler.target import Target, use_target
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.integrate import odeint
from tests.compiler.native_backend.native_run import Native, compile_together, of_tier, schedule_of
from tests.every import Failures
from tests.ops import samples as made
from tests.ops.samples import Sample, call

LENGTHS = ((1, 2, 3), (6, 7), (11, 18), (33, 40))  # less than a vector, less than two, one and a rest, several
REAL = ("float32", "float64")
FLAGS = {"divide by zero": 1, "overflow": 2, "invalid value": 8}
FILLS_IN = frozenset({"floor_divide"})  # which computes what infinite operands give in another way
ORDERED = 1e10  # beyond, sums of numbers of both signs overflow in one order and not in another

WITH_FORM = """
    abs acos acosh add all any argmax argmin asin asinh atan atan2 atanh beta betainc betaincc betainccinv
    binary_cross_entropy broadcast_to cast cbrt ceil cholesky cholesky_or_nan clip concat conv conv_input
    conv_kernel convert copysign cos cosh cummax cummin cumulative_prod cumulative_sum deg2rad det digamma divide elu embed
    equal erf erfc erfcinv erfcx erfinv exp exp1 exp2 expi expm1 first_of_window floor floor_divide fmax fmin
    fmod gamma gammainc gammaincc gammaln gather gelu gelu_tanh greater greater_equal hypot index_add index_set
    inv isfinite isinf isnan less less_equal log log10 log1p log2 log_ndtr log_softmax logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logsumexp matmul max max_first maximum min minimum multiply
    multiply_logarithms nanmax nanmin ndtr ndtri ndtri_exp negative nextafter not_equal permute_dims
    pick_from_window positive pow prod put_into_window qr rad2deg relu remainder reshape rgamma roll scale_kept
    scatter scatter_unread select sigmoid sign signbit silu sin sinc sinh slice slice_add slice_set softmax
    softplus solve solve_or_nan solve_triangular spacing split sqrt square stack standardize stdtr stop_gradient
    subtract sum tan tanh trunc unstack vector_norm where
"""


def special(dtype: Any) -> np.ndarray:
    """Return numbers of every kind: ordinary, tiny, huge, zeros, infinities, nan."""
    info = np.finfo(dtype)
    ordinary = [1.0, -1.5, 0.3, 2.5, 7.0, -0.25, 30.0, -30.0, 89.0, -104.0, 710.0, -750.0]
    extreme = [info.tiny, -info.tiny, info.smallest_subnormal, 1e10, -1e10, info.max / 3, info.max, -info.max]
    return np.array([*ordinary, *extreme, 0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)


def draw(rng: np.random.Generator, x: Any, share: float, most: float = np.inf) -> np.ndarray:
    """Return an array like another one of floats, a share of whose elements are numbers of any kind."""
    x = np.array(x)
    pool = special(x.dtype)
    pool = pool[~(np.isfinite(pool) & (abs(pool) > most))]
    chosen = rng.random(x.shape) < share
    return np.where(chosen, rng.choice(pool, x.shape), x)


def numpy_flags(native: Native, *xs: Any) -> int:
    """Return the flags that NumPy's plan raises."""
    seen: set[str] = set()
    with np.errstate(all="call", under="ignore", call=lambda kind, _: seen.add(kind)):
        native.plan(*xs)
    return sum([FLAGS[kind] for kind in seen])


def choose_lengths(name: str) -> list[int]:
    """Return one length of each kind, others for other names: most of a test's time goes into compiling for it."""
    return [lengths[zlib.crc32(name.encode()) // 7 % len(lengths)] for lengths in LENGTHS]


def has_form(tier: int, fn: Any, *xs: Any) -> bool:
    """Tell whether a function has a native form as a whole."""
    try:
        lower_schedule(schedule_of(fn, *xs), of_tier(tier))
    except UnsupportedError:
        return False
    return True


def elementwise_cases() -> Iterator[Any]:
    """Yield the elementwise ops of real numbers that have a native form, with the tiers in which they have it."""
    for p in {p.name: p for p, _, _ in made.samples()}.values():
        if p.is_elementwise and made.takes(p, "float32"):
            quiet = [np.full(7, 0.5, np.float32)] * made.arity(p)
            for tier in (1, 2):
                if has_form(tier, lambda *xs, p=p: bind(p, *xs), *quiet):
                    yield pytest.param(p, tier, id=f"{p.name}-{tier}")


def other_cases() -> list[Any]:
    """Return the other ops of real numbers that have a native form, with a tier and the samples of which they have it there."""
    found: dict[tuple[str, int], tuple[Primitive, int, dict[str, Sample]]] = {}
    for p, k, s in made.samples():
        if not p.is_elementwise and s.moving and all(x.dtype == np.float64 for x in s.points):
            quiet = [x.astype(np.float32) for x in s.points]
            for tier in (1, 2):
                if has_form(tier, lambda *xs, p=p, s=s: call(p, s, *s.at(xs)), *quiet):
                    found.setdefault((p.name, tier), (p, tier, {}))[2][f"{p.name}-{k}"] = s
    return [pytest.param(*case, id=f"{name}-{tier}") for (name, tier), case in found.items()]


with np.errstate(all="ignore"):
    ELEMENTWISE, OTHERS = list(elementwise_cases()), other_cases()


def test_ops_keep_their_native_forms() -> None:
    """No op loses the native form that it had when this was written, of elements or of its first operands."""
    names = {case.values[0].name for case in (*ELEMENTWISE, *OTHERS)}
    assert not set(WITH_FORM.split()) - names


@made.each_sample(ELEMENTWISE, "p, tier")
def test_elementwise_flags_are_numpys(p: Primitive, tier: int) -> None:
    """Rows of any length raise what NumPy's ufunc raises for their elements, and nothing for elements beside them."""
    rngs = {dtype: np.random.default_rng(zlib.crc32(f"{p.name} {dtype}".encode())) for dtype in REAL}
    lengths = [(dtype, n) for dtype in REAL for n in choose_lengths(f"{p.name} {dtype} {tier}")]
    operands = [[np.full(n, 0.5, dtype) for _ in range(made.arity(p))] for dtype, n in lengths]
    natives = compile_together([(lambda *xs: bind(p, *xs), quiet) for quiet in operands], tier)
    failures = Failures()
    for (dtype, length), quiet, native in zip(lengths, operands, natives, strict=True):
        for share in (0.1, 0.3, 1.0) * 3:
            xs = [draw(rngs[dtype], x, share) for x in quiet]
            if p.name in FILLS_IN and not all(np.isfinite(x).all() for x in xs):
                continue
            with failures.case(f"{length} of {dtype}"):
                assert native(*xs)[1] == numpy_flags(native, *xs), xs
    failures.report()


@made.each_sample(OTHERS, "p, tier, samples")
def test_no_native_form_raises_flags_of_its_own(p: Primitive, tier: int, samples: dict[str, Sample]) -> None:
    """Of no operands a kernel raises flags that NumPy's calls do not raise."""
    cases = [(f"{name}-{dtype}", dtype, s) for name, s in samples.items() for dtype in REAL]
    operands = [[x.astype(dtype) for x in s.points] for _, dtype, s in cases]
    calls = [(lambda *xs, s=s: call(p, s, *s.at(xs)), quiet) for (_, _, s), quiet in zip(cases, operands, strict=True)]
    failures = Failures()
    for (name, dtype, _), quiet, native in zip(cases, operands, compile_together(calls, tier), strict=True):
        rng = np.random.default_rng(zlib.crc32(f"{p.name} {dtype}".encode()))
        for share in (0.0, 0.1, 0.3, 1.0) * 3:
            xs = [draw(rng, x, share, ORDERED) for x in quiet]
            errors = native(*xs)[1]
            if errors > 0:
                with failures.case(name):
                    assert errors & ~numpy_flags(native, *xs) == 0, xs
    failures.report()


@pytest.mark.parametrize("tier", [1, 2])
def test_rows_of_every_length_raise_no_flags_of_their_own(tier: int) -> None:
    """Arithmetic, roots, casts, comparisons and sums of rows of 1 to 40 elements raise what NumPy raises."""
    lengths, failures = range(1, 41), Failures()
    # both tiers have both dtypes, at every number of elements beyond a vector
    operands = [[np.full(length, 0.5, REAL[(length // 4 + tier) % 2])] * 2 for length in lengths]

    def fn(x: Any, y: Any) -> Any:
        sums = [np.sum(afx.stack([x, y]), axis=1), np.sum(x / y), x[::-1] * y[:, None]]
        return x + y, x * y, x / y, np.sqrt(x), 1 / np.sqrt(y), x < y, np.maximum(x, y), x.astype("float32"), sums

    natives = compile_together([(fn, quiet) for quiet in operands], tier)
    for length, quiet, native in zip(lengths, operands, natives, strict=True):
        rng = np.random.default_rng(length)
        for share in (0.0, 0.1, 0.3, 1.0) * 3:
            xs = [draw(rng, x, share, ORDERED) for x in quiet]
            with failures.case(f"{length}"):
                found, wanted = native(*xs)[1], numpy_flags(native, *xs)
                assert found & ~8 == wanted & ~8, xs
                assert found & ~wanted == 0, xs
    failures.report()


@pytest.mark.parametrize("tier", [1, 2])
def test_kernels_of_solvers_are_not_refused(tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers of equations and minimizers raise no flags on ordinary problems; over both tiers each meets both precisions."""
    refused: list[int] = []
    checked = Runner._checked

    def watch(self: Runner, errors: int, *rest: Any) -> Any:
        refused.append(errors)
        return checked(self, errors, *rest)

    def hares(_: Any, y: Any) -> Any:
        return afx.stack([y[0] * (1.1 - 0.4 * y[1]), y[1] * (0.1 * y[0] - 0.4)])

    def valley(x: Any) -> Any:
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    monkeypatch.setattr(Runner, "_checked", watch)
    with use_target(Target(backend="native", native_tier=tier)):
        for dtype in REAL:
            times, start = np.linspace(0, 10, 20, dtype=dtype), np.array([10.0, 5.0], dtype)
            assert afx.jit(lambda y, t=times: odeint(hares, y, t).ys)(start).dtype == dtype
        dtype = REAL[tier - 1]
        times, start = np.linspace(0, 10, 20, dtype=dtype), np.array([10.0, 5.0], dtype)
        assert afx.jit(afx.grad(lambda y: np.sum(odeint(hares, y, times).ys)))(start).dtype == dtype
        for k, method in enumerate(("bfgs", "lbfgs", "newton_cg")):
            solve = afx.jit(lambda x, m=method: optim.minimize(valley, x, method=m).x)
            np.testing.assert_allclose(solve(np.full(2, -1.2, REAL[(k + tier) % 2])), 1.0, rtol=0.02)
    assert refused == []


def test_what_a_loop_guards_raises_no_flag() -> None:
    """A quotient in a loop that does not run is not computed ahead of it."""

    def fn(x: Any, y: Any) -> Any:
        return afx.while_loop(lambda s: s[1] > 0, lambda s: (x[0] / s[1], s[1] - 1), (x[0], y[0]))[0]

    for dtype in REAL:
        x, y = np.ones(1, dtype), np.zeros(1, dtype)
        for tier in (1, 2):
            native = Native(fn, x, y, tier=tier)
            assert native(x, y)[1] == numpy_flags(native, x, y) == 0
