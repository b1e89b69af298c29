"""The linter and both type checkers have nothing to say of the checkout, and refuse what is wrong.

Each type checker runs once, over the files that pyproject.toml names and tests/rejected.py, where each line marked
``# rejected`` is a mistake that both must report, and nothing else; those marked ``# rejected by pyright`` are seen by pyright
alone.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REJECTED = "tests/rejected.py"
ROOM = {"NODE_OPTIONS": "--max-semi-space-size=128"}  # megabytes: a fifth of pyright's time
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python module in the checkout; pyright's short-lived values, of which Node collects the garbage, have room."""
    environment = os.environ | ROOM
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def marked_lines(*marks: str) -> set[int]:
    """Return the numbers of the lines that hold a mistake."""
    lines = (ROOT / REJECTED).read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(marks)}


def assert_only(marked: set[int], errors: Iterable[tuple[str, int, str]]) -> None:
    """Assert that errors, each a path, a line and a message, are one or more for each marked line and none anywhere else."""
    found: dict[bool, list[tuple[str, int, str]]] = {True: [], False: []}
    for error in errors:
        found[error[0] == REJECTED].append(error)
    assert found[False] == []
    assert {line for _, line, _ in found[True]} == marked


def test_ruff_is_clean() -> None:
    """The linter, configured in pyproject.toml, passes on the whole checkout."""
    result = run("ruff", "check")
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]


def test_mypy_finds_the_mistakes_alone() -> None:
    """Mypy reports each marked line of tests/rejected.py, and nothing in the files that it is configured for."""
    result = run("mypy", *TOOLS["mypy"]["files"], REJECTED)
    assert re.search(r"^Found \d+ errors in 1 file \(checked \d{3,} source files\)$", result.stdout, re.MULTILINE), (
        result.stdout[-20_000:] + result.stderr[-2_000:]
    )
    found = re.findall(r"^([^:\n]+):(\d+): error: (.*)$", result.stdout, re.MULTILINE)
    assert_only(marked_lines("# rejected"), [(path.replace("\\", "/"), int(line), text) for path, line, text in found])


def test_pyright_finds_the_mistakes_alone() -> None:
    """Pyright reports each marked line of tests/rejected.py, those that mypy cannot see too, and nothing elsewhere."""
    files = [*TOOLS["pyright"]["include"], REJECTED]
    result = run("basedpyright", "--outputjson", "--pythonpath", sys.executable, *files)
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] > 100, result.stderr
    errors = [entry for entry in report["generalDiagnostics"] if entry["severity"] == "error"]
    places = [Path(entry["file"]).resolve().relative_to(ROOT).as_posix() for entry in errors]
    lines = [(entry["range"]["start"]["line"] + 1, entry["message"]) for entry in errors]
    marked = marked_lines("# rejected", "# rejected by pyright")
    assert_only(marked, [(place, *line) for place, line in zip(places, lines, strict=True)])
