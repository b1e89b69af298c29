"""Programs of other libraries, rewritten and run, and what they print compared with what they printed."""

import re
from pathlib import Path

import numpy as np
import pytest

import afx
from afx.migrate import migrate_source

PROGRAMS = Path(__file__).parent / "programs"
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def check_program(path: Path, library: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Rewrite a program, run it, and compare its output: the numbers to 1e-6, the rest but for white space as it is."""
    source, remarks = migrate_source(path.read_text(encoding="utf-8"), library)
    known = ("agrees to the tolerance", "own stream", "edge of two bins")
    assert all(any(words in r.advice for words in known) for r in remarks)
    default = afx.get_default_dtype()
    try:
        with np.printoptions(precision=8):  # whatever a test before, or a program, has set
            exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
    finally:
        afx.set_default_dtype(default)
    printed, expected = capsys.readouterr().out, path.with_suffix(".txt").read_text(encoding="utf-8")
    assert NUMBER.sub("", printed).split() == NUMBER.sub("", expected).split()
    numbers = [np.array(NUMBER.findall(text), float) for text in (printed, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-6)
