"""Markdown: fenced blocks of a text, run as a reader would type them."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Return each fenced block of a text in a language, with the number of its first line."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def run_python(text: str, script: Path) -> "subprocess.CompletedProcess[str]":
    """Run the Python blocks of a text one after another in a new process, where warnings are errors.

    They are written to a file in which each line has the number that it has in the text.
    """
    source = ""
    for line, block in blocks(text, "python"):
        source += "\n" * (line - 1 - source.count("\n")) + block
    script.write_text(source, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def failures_of_sessions(text: str, name: str) -> str:
    """Return what the interactive sessions of a text print otherwise than it shows, an empty text if nothing."""
    session = "\n".join(source for _, source in blocks(text, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    runner.run(test, out=report.append)
    return "".join(report)


def can_be_had(path: str) -> bool:
    """Tell whether a dotted name is a module or leads to something in one."""
    parts = path.split(".")
    value: object = importlib.import_module("afx")
    for k, word in enumerate(parts[1:], 2):
        if not hasattr(value, word):
            try:
                value = importlib.import_module(".".join(parts[:k]))
            except ImportError:
                return False
        else:
            value = getattr(value, word)
    return True
