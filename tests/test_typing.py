"""Type checkers refuse what is wrong.

What they accept is checked by tests/test_checks.py, which runs them over tests/typing. Here they run over
tests/rejected.py, where each line marked ``# rejected`` is a mistake that both must report, and nothing else; those marked
``# rejected by pyright`` are seen by pyright alone.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REJECTED = ROOT / "tests" / "rejected.py"


def run(*command: str) -> str:
    """Return what a Python module prints when it is run on the file of mistakes."""
    arguments = [sys.executable, "-m", *command, str(REJECTED.relative_to(ROOT))]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def marked_lines(*marks: str) -> set[int]:
    """Return the numbers of the lines that hold a mistake."""
    lines = REJECTED.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(marks)}


def test_mypy_rejects_each_mistake() -> None:
    """Mypy reports each marked line of tests/rejected.py and no other."""
    found = re.findall(r"rejected\.py:(\d+): error", run("mypy"))
    assert {int(line) for line in found} == marked_lines("# rejected")


def test_pyright_rejects_each_mistake() -> None:
    """Pyright reports each marked line of tests/rejected.py, those that mypy cannot see too, and no other."""
    report = json.loads(run("basedpyright", "--outputjson", "--pythonpath", sys.executable))
    errors = [entry for entry in report["generalDiagnostics"] if entry["severity"] == "error"]
    assert {entry["range"]["start"]["line"] + 1 for entry in errors} == marked_lines(
        "# rejected", "# rejected by pyright"
    )
