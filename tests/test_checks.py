"""The linter and both type checkers have nothing to say, so that one test command runs everything."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "ruff": ("ruff", "check"),
    "mypy": ("mypy",),
    "pyright": ("basedpyright", "--pythonpath", sys.executable),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_is_clean(name: str) -> None:
    """The check, configured in pyproject.toml, passes on the whole checkout."""
    command = [sys.executable, "-m", *CHECKS[name]]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]
