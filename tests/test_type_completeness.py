"""Every public symbol of afx has a type that all checkers agree on."""

import os
import subprocess
import sys
from pathlib import Path

from tests.test_checks import ROOM

ROOT = Path(__file__).resolve().parent.parent


def test_each_public_symbol_has_a_known_type(tmp_path: Path) -> None:
    """``pyright --verifytypes`` finds nothing that is unknown, or that checkers could infer differently."""
    options = ("--verifytypes", "afx", "--ignoreexternal", "--pythonpath", sys.executable)
    result = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options],
        cwd=tmp_path,  # as an installed package, without the settings of this checkout
        env={**os.environ, **ROOM, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    summary = result.stdout[result.stdout.find("Symbols used in public interface") :]
    assert "Type completeness score: 100%" in summary, summary[:20_000]
    assert result.returncode == 0, summary[:20_000]
