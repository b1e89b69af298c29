"""SciPy's special functions in machine code: its own loops, called by pointer."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import numpy as np
import pytest

import afx
from afx.compiler.native_backend.functions.rounded import ROUNDED
from afx.compiler.target import current, use_target
from afx.core.primitive import lookup
from afx.core.tracing.tracer import bind
from tests.compiler.native_backend.native_run import Native, assert_same_bits
from tests.every import together
from tests.ops import samples

pytest.importorskip("llvmlite", reason="machine code is an extra")
special: Any = pytest.importorskip("scipy.special", reason="special functions are an extra")


def is_ufunc(name: str) -> bool:
    """Tell whether SciPy's function is a ufunc, and none of Python."""
    return isinstance(getattr(special, name or "", None), np.ufunc)


OPS = {p.name: p for p, _, _ in samples.samples() if is_ufunc(p.lowering.scipy_ufunc)}


@together("dtype", ["float32", "float64"])
@together("name", OPS)
def test_special_functions_have_scipys_bits(name: str, dtype: str) -> None:
    """Each op that is one ufunc of SciPy gives its bits, in fused loops and at ends of its domain."""
    p = OPS[name]
    x = np.array([0.5, 2.0, -1.5, 0.0, 1.0, np.inf, -np.inf, np.nan, 30.0, 1e-30], dtype)
    xs = [np.roll(x, k) for k in range(samples.arity(p))]
    assert_same_bits(lambda *xs: bind_and_scale(p, *xs), *xs)


def bind_and_scale(p: Any, *xs: Any) -> Any:
    """Return an op's result times two, in one fused loop."""
    return bind(p, *xs) * 2


@pytest.mark.parametrize("tier", [1, 2])
def test_a_scan_with_special_functions_is_one_kernel(tier: int) -> None:
    """Steps with `gammaln`, `erf` and exact `gelu` throw no loop back to NumPy's calls."""

    def fn(y: Any) -> Any:
        return afx.scan(
            lambda s, r: (s + afx.special.gammaln(r + 1.5) - afx.special.erf(s), afx.nn.gelu(s, approximate=False)),
            y[0],
            y,
        )

    y = np.linspace(0.1, 3, 50)
    native = Native(fn, y, tier=tier)
    (last, rows), errors = native(y)
    assert errors == 0
    want = native.plan(y)
    np.testing.assert_allclose(last, want[0], rtol=1e-13)
    np.testing.assert_allclose(rows, want[1], rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["log_gamma_density", "gamma_density", "betaln", "log_beta_density", "beta_density"])
def test_densities_are_recorded(name: str, dtype: str) -> None:
    """Densities that are several calls of NumPy and SciPy have their bits, at ends of their domains, and no warnings."""
    p = lookup(name)
    x = np.array([0.5, 2.0, -1.5, 0.0, 1.0, np.inf, -np.inf, np.nan, 130.0, 1e-30, 1e30, 0.9], dtype)
    grids = np.meshgrid(x, x)
    xs = [z.reshape(-1) for z in (*grids, np.roll(grids[0], 5))][: samples.arity(p)]
    native = assert_same_bits(lambda *xs: bind_and_scale(p, *xs), *xs)
    assert not any(why for _, why in native.plan.why_not_native)
    assert native(*xs)[1] == 0


def test_steps_with_densities_are_one_kernel() -> None:
    """A chain of steps that ask for a gamma distribution's density, and its gradient, have no call of NumPy left."""

    def fn(a: Any, ys: Any) -> Any:
        def step(total: Any, y: Any) -> Any:
            total = total + afx.stats.gamma.logpdf(y + 0.1 * total**2, a)
            return total, total

        return afx.scan(step, 0.0 * a, ys)[0]

    a, ys = np.array(2.5), np.linspace(0.5, 3, 9)
    for f in (fn, afx.grad(fn)):
        assert not any(why for _, why in assert_same_bits(f, a, ys).plan.why_not_native)


@pytest.mark.parametrize("denormals", ["keep", "flush"])
@pytest.mark.parametrize("name", ROUNDED)
def test_floats_are_rounded_as_scipys_doubles(name: str, denormals: Literal["keep", "flush"]) -> None:
    """All that lies near the middle of two floats, or is no usual number, is SciPy's to round: large and small, by the bit."""
    rng = np.random.default_rng(0)
    sizes = [rng.normal(size=100_000) * 2, rng.uniform(0, 100, 100_000), 10.0 ** rng.uniform(-45, 38, 100_000)]
    near = [c + np.arange(-300, 300) * 6e-8 for c in (0.0, 1.0, 2.0, 3.93, 8.0)]
    ends = [0.0, -0.0, 1.0, 2.0, np.inf, -np.inf, np.nan, 3e38, 1e-40]
    x = rng.permutation(np.concatenate([*sizes, -sizes[-1], *near, np.arange(500.0), ends]).astype(np.float32))
    with use_target(attrs.evolve(current.target, denormals=denormals)):
        native = assert_same_bits(getattr(afx.special, name), x)
    assert f"rounded.{name}" in native.program.text(0)


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_functions_keep_errors_told_before(name: str) -> None:
    """SciPy's loop, which takes back all flags, runs for numbers that are hard, behind an overflow."""
    x = np.full(40, 3e38, np.float32)
    fn = getattr(afx.special, name)
    native = Native(lambda x: (x * x, fn(afx.where(x > 1, np.float32(np.nan), x))), x)
    assert native(x)[1] != 0
