"""Tracebacks of afx's errors: the caller's lines and one sentence, the whole on demand."""

import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import afx
from afx import tracebacks
from tests.markdown import ROOT

PROGRAM = """
import sys, afx
from afx import nn

first, second = nn.Linear.create(0, 3, 4), nn.Linear.create(1, 5, 2)

def model(layers, x):
    return layers[1](nn.relu(layers[0](x)))

def loss(layers, x):
    return afx.mean(model(layers, x) ** 2)

SETUP
step(((first, second)), afx.ones((7, 3)))
"""
SETUPS = {
    "grad": "step = afx.grad(loss)",
    "jit": "step = afx.jit(afx.value_and_grad(loss))",
    "vmap": "step = afx.vmap(loss, in_axes=(None, 0))",
    "hessian": "step = afx.hessian(loss)",
    "checkpoint": "step = afx.grad(afx.checkpoint(loss))",
}
MOST_LINES = 12


def run(program: str, folder: Path) -> list[str]:
    """Run a program that fails, and return what it prints on standard error."""
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    return ended.stderr.splitlines()


@pytest.mark.parametrize("name", SETUPS)
def test_a_terminal_shows_the_callers_lines(name: str, tmp_path: Path) -> None:
    """A wrong shape below a transformation is told in a dozen lines, none of them of a file of afx's."""
    lines = run(PROGRAM.replace("SETUP", SETUPS[name]), tmp_path)
    assert len(lines) <= MOST_LINES
    assert not [line for line in lines if line.strip().startswith("File") and "program.py" not in line]
    assert "return layers[1](nn.relu(layers[0](x)))" in "".join(lines)
    assert lines[-2].startswith("afx.errors.ShapeError: Linear")


def test_the_switch_shows_the_whole(tmp_path: Path) -> None:
    """`afx.debug.show_whole_tracebacks` brings the calls inside of afx back."""
    setup = "afx.debug.show_whole_tracebacks()\n" + SETUPS["grad"]
    lines = run(PROGRAM.replace("SETUP", setup), tmp_path)
    assert [line for line in lines if "linear.py" in line]
    assert lines[-1].startswith("afx.errors.ShapeError")


def test_errors_of_the_program_stay_whole(tmp_path: Path) -> None:
    """What afx did not raise is printed as Python prints it."""
    setup = "step = afx.grad(lambda layers, x: {}['nothing'])"
    assert [line for line in run(PROGRAM.replace("SETUP", setup), tmp_path) if "grad.py" in line]


def test_hooks_that_stand_already_print(tmp_path: Path) -> None:
    """A hook that the program has set prints what is left of the traceback."""
    hook = "sys.excepthook = lambda kind, error, trace: sys.stderr.write(f'hooked {kind.__name__}\\n')\n"
    assert run(PROGRAM.replace("SETUP", hook + SETUPS["grad"]), tmp_path)[0] == "hooked ShapeError"


@pytest.fixture
def whole_again() -> Iterator[None]:
    """Show tracebacks briefly after a test."""
    yield
    tracebacks.show_whole_tracebacks(False)


@pytest.mark.usefixtures("whole_again")
def test_notebooks_show_the_callers_lines() -> None:
    """IPython and Jupyter ask an exception for its own lines."""
    with pytest.raises(afx.errors.ShapeError) as found:
        afx.grad(lambda x: afx.sum(x @ afx.ones((4, 2))))(afx.ones((8, 3)))
    lines = "\n".join(found.value._render_traceback_()).splitlines()
    assert len(lines) <= MOST_LINES
    assert not [line for line in lines if "afx/" in line and "tests" not in line]
    assert len(traceback.format_exception(found.value)) > len(lines)  # which others see
    afx.debug.show_whole_tracebacks()
    with pytest.raises(NotImplementedError):
        found.value._render_traceback_()  # so that IPython shows its own
