"""README.md keeps its word: its Python runs, its commands are one line each, its names exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.markdown import ROOT, failures_of_sessions, run_python
from tests.markdown import blocks as blocks_of

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[int, str]]:
    """Return each fenced block of README.md in a language, with the number of its first line."""
    return blocks_of(README, language)


def test_python_blocks_run(tmp_path: Path) -> None:
    """The Python blocks of README.md run one after another, as a reader would type them, without a warning."""
    result = run_python(README, tmp_path / "README.py")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_new_operation_is_a_file_of_its_own(tmp_path: Path) -> None:
    """The block that adds an operation imports all that it uses."""
    (source,) = [source for _, source in blocks("python") if "unary(" in source]
    path = tmp_path / "softsign.py"
    path.write_text(source, encoding="utf-8")
    result = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_sessions_print_what_they_show() -> None:
    """The interactive sessions of README.md print what the reader is told."""
    assert failures_of_sessions(README, "README.md") == ""


@pytest.mark.parametrize("ending", ["-m examples", "-m pytest"])
def test_each_command_is_one_line(ending: str) -> None:
    """One line, starting from a clone, makes its environment and runs the examples or the tests."""
    lines = [line for _, block in blocks("sh") for line in block.splitlines() if line.endswith(ending)]
    assert len(lines) == 1
    assert lines[0].startswith("python -m venv ")


def test_ci_runs_the_command_of_the_readme() -> None:
    """.ci/run holds no test command of its own but takes the one in README.md."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "pip install" not in script


def test_the_map_names_what_exists() -> None:
    """Every path in the README's map of the house exists."""
    map_of_the_house = README.partition("## The map of the house")[2]
    paths = re.findall(r"`((?:afx|examples|tests)/[\w/.]*)`", map_of_the_house)
    assert [path for path in paths if not (ROOT / path).exists()] == []
