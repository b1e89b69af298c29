"""Floating-point flags of kernels: they are those of NumPy's calls, whatever the elements are."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.run import Runner
from afx.compiler.target import Target, use_target
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.integrate import odeint
from tests.compiler.native_backend.native_run import Native
from tests.ops import samples as made
from tests.ops.samples import Sample, call

LENGTHS = (1, 2, 3, 6, 7, 11, 18, 33, 40)
REAL = ("float32", "float64")
FLAGS = {"divide by zero": 1, "overflow": 2, "invalid value": 8}
FILLS_IN = frozenset({"floor_divide"})  # which computes what infinite operands give in another way
ORDERED = 1e10  # beyond, sums of numbers of both signs overflow in one order and not in another


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


def compiled(fn: Any, *xs: Any, tier: int) -> Native | None:
    """Return a function as machine code, None where it has no native form as a whole."""
    try:
        return Native(fn, *xs, tier=tier)
    except UnsupportedError:
        return None


ELEMENTWISE = [p for p in {p.name: p for p, _, _ in made.samples()}.values() if p.is_elementwise]
OTHERS = [(p, k, s) for p, k, s in made.samples() if not p.is_elementwise and s.moving]


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_elementwise_flags_are_numpys(p: Primitive, dtype: str, tier: int) -> None:
    """Rows of any length raise what NumPy's ufunc raises for their elements, and nothing for elements beside them."""
    rng = np.random.default_rng(zlib.crc32(f"{p.name} {dtype}".encode()))
    for length in LENGTHS:
        quiet = [np.full(length, 0.5, dtype) for _ in range(made.arity(p))]
        native = compiled(lambda *xs: bind(p, *xs), *quiet, tier=tier) if made.takes(p, dtype) else None
        if native is None:
            pytest.skip("no native form")
        for share in (0.1, 0.3, 1.0) * 3:
            xs = [draw(rng, x, share) for x in quiet]
            if p.name in FILLS_IN and not all(np.isfinite(x).all() for x in xs):
                continue
            assert native(*xs)[1] == numpy_flags(native, *xs), xs


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(("p", "sample"), [pytest.param(p, s, id=f"{p.name}-{k}") for p, k, s in OTHERS])
def test_no_native_form_raises_flags_of_its_own(p: Primitive, sample: Sample, dtype: str, tier: int) -> None:
    """Of no operands a kernel raises flags that NumPy's calls do not raise."""
    rng = np.random.default_rng(zlib.crc32(f"{p.name} {dtype}".encode()))
    if any(x.dtype != np.float64 for x in sample.points):
        pytest.skip("of complex numbers")
    quiet = [x.astype(dtype) for x in sample.points]
    native = compiled(lambda *xs: call(p, sample, *sample.at(xs)), *quiet, tier=tier)
    if native is None:
        pytest.skip("no native form")
    for share in (0.0, 0.1, 0.3, 1.0) * 3:
        xs = [draw(rng, x, share, ORDERED) for x in quiet]
        errors = native(*xs)[1]
        if errors > 0:
            assert errors & ~numpy_flags(native, *xs) == 0, xs


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("length", range(1, 41))
def test_rows_of_every_length_raise_no_flags_of_their_own(length: int, dtype: str, tier: int) -> None:
    """Arithmetic, roots, casts, comparisons and sums of rows of 1 to 40 elements raise what NumPy raises."""

    def fn(x: Any, y: Any) -> Any:
        sums = [np.sum(afx.stack([x, y]), axis=1), np.sum(x / y), x[::-1] * y[:, None]]
        return x + y, x * y, x / y, np.sqrt(x), 1 / np.sqrt(y), x < y, np.maximum(x, y), x.astype("float32"), sums

    quiet = [np.full(length, 0.5, dtype)] * 2
    native, rng = Native(fn, *quiet, tier=tier), np.random.default_rng(length)
    for share in (0.0, 0.1, 0.3, 1.0) * 3:
        xs = [draw(rng, x, share, ORDERED) for x in quiet]
        assert native(*xs)[1] & ~8 == numpy_flags(native, *xs) & ~8, xs
        assert native(*xs)[1] & ~numpy_flags(native, *xs) == 0, xs


@pytest.mark.parametrize("tier", [1, 2])
def test_kernels_of_solvers_are_not_refused(tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers of equations and minimizers raise no flags on ordinary problems, in either precision."""
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
            assert afx.jit(afx.grad(lambda y, t=times: np.sum(odeint(hares, y, t).ys)))(start).dtype == dtype
            for method in ("bfgs", "lbfgs", "newton_cg"):
                solve = afx.jit(lambda x, m=method: optim.minimize(valley, x, method=m).x)
                np.testing.assert_allclose(solve(np.full(2, -1.2, dtype)), 1.0, rtol=0.02)
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
