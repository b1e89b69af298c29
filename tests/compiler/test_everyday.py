"""Programs that people write: none of them runs NumPy's calls inside a loop, but those that are listed with the reason."""

from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.schedule.schedule import Loop
from tests.benchmarks.everyday import DTYPES, PROGRAMS, Program
from tests.every import together

pytest.importorskip("llvmlite", reason="machine code is an extra")


def plans(program: Program, dtype: str) -> list[Any]:
    """Return the plans of the value, and of the value with its gradient."""
    with afx.default_dtype(dtype):
        loss, params, data = program.arguments("afx", dtype)
        return [afx.jit(fn).lower(tuple(params), *data).plan for fn in (loss, afx.value_and_grad(loss))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_loop_runs_numpy_calls(name: str, dtype: str) -> None:
    """Every loop is machine code as a whole; a program of which one is not says why, and stays listed no longer than that."""
    program, reasons = PROGRAMS[name], list[str]()
    for plan in plans(program, dtype):
        loops = [str(i) for i in plan.schedule.instructions if isinstance(i, Loop)]
        reasons += [reason for text, reason in plan.why_not_native if reason and text in loops]
    assert bool(reasons) == bool(program.loops_in_numpy), reasons
    assert all(program.loops_in_numpy in reason for reason in reasons), reasons


@together("name", PROGRAMS)
def test_programs_have_gradients(name: str) -> None:
    """In float64 the gradient is the difference quotient along a direction, and everything is finite."""
    program = PROGRAMS[name]
    with afx.default_dtype("float64"):
        loss, params, data = program.arguments("afx", "float64")
        rng = np.random.default_rng(1)
        ways = [rng.normal(size=x.shape) for x in params]
        fn = afx.jit(loss)
        value, slopes = afx.jit(afx.value_and_grad(loss))(tuple(params), *data)
        found = sum(float(np.sum(np.asarray(g) * t)) for g, t in zip(slopes, ways, strict=True))

        def at(step: float) -> float:
            return float(fn(tuple([x + step * t for x, t in zip(params, ways, strict=True)]), *data))

        step = 1e-6
        want = (at(step) - at(-step)) / (2 * step)
    assert np.isfinite(float(value))
    assert found == pytest.approx(want, rel=2e-3, abs=1e-6 * (1 + abs(float(value))))


def test_there_are_forty_of_them() -> None:
    """Each field has its programs."""
    assert len(PROGRAMS) >= 40
