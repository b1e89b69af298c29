"""Random programs: float64 beside numbers, lists and other dtypes, with transformations inside and around.

Compiled runs are compared with eager ones, derivatives with differences of eighth order.
``python -m tests.random_programs`` compares with JAX.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.random_libraries import AFX
from tests.random_programs import MODES, POINT, RUNS, SHALLOW, apart, make_program

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of branches that are not chosen
WEIGHTS = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # of central differences
STEP = 1e-3
SMOOTH = SimpleNamespace(**{**vars(AFX), "doubled": AFX.custom})  # whose rules are true derivatives


def _moved(fn: Any, t: float) -> float:
    x, y = POINT
    return float(fn(SMOOTH, AFX.asarray(x + t * (x * 0.7 - 0.1)), AFX.asarray(y + t * (y * -0.4 + 0.3))))


@pytest.mark.parametrize("start", range(0, 220, 11))
def test_compiled_programs_give_what_eager_ones_give(start: int) -> None:
    """Values and derivatives of every kind agree to 1e-13 and stay float64."""
    for seed in range(start, start + len(MODES)):
        mode = MODES[seed % len(MODES)]
        program = make_program(seed, 2 + seed % 3, 1 + (mode in SHALLOW))
        eager = program.run(AFX, mode)
        assert apart(program.run(AFX, mode, RUNS["numpy"]), eager) < 1e-13, (seed, mode, program.source)


@pytest.mark.parametrize("seed", range(300, 312))
def test_machine_code_of_programs_gives_what_eager_ones_give(seed: int) -> None:
    """Gradients as machine code agree to 1e-13."""
    pytest.importorskip("llvmlite", reason="machine code is an extra")
    program = make_program(seed, 4, 2)
    assert apart(program.run(AFX, "grad", RUNS["native"]), program.run(AFX, "grad")) < 1e-13, program.source


@pytest.mark.parametrize("start", range(400, 500, 10))
def test_derivatives_of_programs_are_differences(start: int) -> None:
    """Forward and reverse mode agree to 1e-12, and with differences of eighth order to 1e-8."""
    for seed in range(start, start + 10):
        program = make_program(seed, 4, 2)
        slope = float(program.run(SMOOTH, "jvp")[1])
        back = [np.asarray(g) for g in program.run(SMOOTH, "grad")]
        x, y = POINT
        pulled = float(np.sum(back[0] * (x * 0.7 - 0.1)) + np.sum(back[1] * (y * -0.4 + 0.3)))
        assert slope == pytest.approx(pulled, rel=1e-11, abs=1e-11), (seed, program.source)
        steps = [w * (_moved(program.function, k * STEP) - _moved(program.function, -k * STEP)) for k, w in WEIGHTS]
        assert slope == pytest.approx(sum(steps) / STEP, rel=1e-7, abs=1e-8), (seed, program.source)
