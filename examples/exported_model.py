"""A fitted model as a file of C: the gradient of a likelihood leaves Python, and a compiled program gives the same numbers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import afx
from afx import export
from examples.lotka_volterra import RATES, loss
from examples.report import Claim

PROGRAM = """
#include "likelihood.h"
#include <stdio.h>

static _Alignas(64) char work[1 << 20];

int main(void) {{
  static double rates[4], counts[{count}];
  double value, slopes[4];
  if (sizeof work < likelihood_work_bytes()) return 2;
  if (fread(rates, 8, 4, stdin) != 4 || fread(counts, 8, {count}, stdin) != {count}) return 3;
  if (likelihood(rates, counts, &value, slopes, work)) return 4;
  fwrite(&value, 8, 1, stdout);
  fwrite(slopes, 8, 4, stdout);
  return 0;
}}
"""


def run(_folder: Path) -> list[Claim]:
    """Compile the gradient of the fit of predators and prey, call it from C where a compiler is found, and compare."""
    rates, counts = afx.asarray(np.log(RATES)), afx.asarray(np.random.default_rng(0).normal(size=(40, 2)))
    gradient = afx.value_and_grad(loss)
    exported = export.compile(gradient, rates, counts, name="likelihood")
    value, slopes = gradient(rates, counts)
    expected = np.array([float(value), *np.asarray(slopes)])
    here = float(exported(rates, counts)[0])
    claims = [
        Claim("the object file takes kilobytes:", len(exported.object) / 1024, 64.0, shown="{:.1f}"),
        Claim("machine code differs from the plan by", abs(here / float(value) - 1.0), 1e-12),
    ]
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return claims
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, code = exported.save(folder)
        (folder / "main.c").write_text(PROGRAM.format(count=counts.size))
        subprocess.run([compiler, "main.c", code.name, "-o", "main", "-lm"], cwd=folder, check=True)
        given = np.asarray(rates).tobytes() + np.asarray(counts).tobytes()
        done = subprocess.run([str(folder / "main")], input=given, capture_output=True, check=True)
    in_c = np.frombuffer(done.stdout)
    claims.append(Claim("a program of C differs by", float(np.max(np.abs(in_c / expected - 1.0))), 1e-11))
    return claims
