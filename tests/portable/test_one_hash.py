"""The example's digests are those of the guide, on every kind of processor that this machine can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afx
from afx import export, pytree
from examples.one_hash import PROGRAMS, digest
from tests.portable.test_portable import IS_X86, MACHINES

pytest.importorskip("llvmlite", reason="machine code is an extra")

ROOT = Path(__file__).parents[2]


def test_digests_are_those_of_the_guide_and_readme() -> None:
    """One call of each program."""
    text = (ROOT / "examples" / "guides" / "one_hash.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, (program, argument) in PROGRAMS.items():
        found = digest(afx.jit(program, backend="portable")(argument))
        assert f"{found}  {name}" in text
        assert f"`{found}` of {name}" in " ".join(readme.split())


@pytest.mark.skipif(not IS_X86, reason="the machines are kinds of x86-64")
def test_another_processor_gives_the_same_digests() -> None:
    """Code for SSE2 alone, which has neither wide vectors nor fused operations, gives a network's digest."""
    name = "a network after 300 steps"
    program, argument = PROGRAMS[name]
    compiled = export.compile(program, argument, target=MACHINES["SSE2"], name="network", bits="portable")
    wanted = pytree.leaves(afx.jit(program, backend="portable")(argument))
    for x, z in zip(pytree.leaves(compiled(argument)), wanted, strict=True):
        np.testing.assert_array_equal(x, z)
