"""The example's digests are those of the guide, on every kind of processor that this machine can be."""

from __future__ import annotations

from pathlib import Path

import pytest

import afx
from afx import export
from examples.one_hash import digest, programs
from tests.portable.test_portable import IS_X86, MACHINES

pytest.importorskip("llvmlite", reason="machine code is an extra")
pytest.importorskip("sklearn", reason="the digits are its")

ROOT = Path(__file__).parents[2]


def test_digests_are_those_of_the_guide_and_readme() -> None:
    """One call of each program, and one of code for SSE2 alone, which has neither wide vectors nor fused operations."""
    text = (ROOT / "examples" / "guides" / "one_hash.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, (program, arguments) in programs().items():
        result = digest(afx.jit(program, backend="portable")(*arguments))
        assert f"{result}  {name}" in text
        assert f"`{result}` of {name}" in " ".join(readme.split())
        if IS_X86:
            compiled = export.compile(program, *arguments, target=MACHINES["SSE2"], name="one", bits="portable")
            assert digest(compiled(*arguments)) == result, name
