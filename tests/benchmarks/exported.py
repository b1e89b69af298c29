"""Exported functions beside C by hand: nanoseconds a call, called from C, on one processor."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import export
from tests.benchmarks.c_library import FLAGS, SOURCES, compiler
from tests.benchmarks.workloads import catenary, lotka_volterra

__all__ = ["main", "write_program"]

DRIVER = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "gradient.h"
#include "catenary_step.h"
#include "lotka_volterra_gradient.h"
#include "lorenz_gradient.h"

void catenary(float *y, const float *free_points, long steps, float rate, float length);
double lotka_volterra(const double *p, double u, double v, const double *seen, long steps, double h, double *states,
                      double *g);
double lorenz(const double *start, long steps, double h, double *states, double *g);

static double random_of(double low, double high) {{ return low + (high - low) * rand() / (double)RAND_MAX; }}

int main(int argc, char **argv) {{
  (void)argc;
  char which = argv[1][0];
  long calls = atol(argv[2]), failed = 0;
  static double w[10], value[1], slopes[10], p[4] = {{1.1, 0.4, 0.4, 0.1}}, u = 10, v = 5, g[4];
  static double seen[2 * {steps}], states[2 * {steps} + 2];
  static double flow[3] = {{1, 1, 1}}, past[3 * {flow_steps}];
  static float y[{points}], next[{points}], free_points[{points}];
  void *work = aligned_alloc(64, (gradient_work_bytes() + catenary_step_work_bytes()
                                  + lotka_volterra_gradient_work_bytes()
                                  + lorenz_gradient_work_bytes() + 127) / 64 * 64);
  for (int k = 0; k < 10; k++) w[k] = random_of(-1, 1);
  for (int k = 0; k < {points}; k++) y[k] = k && k < {points} - 1 ? random_of(-0.1, 0) : 0;
  for (int k = 1; k < {points} - 1; k++) free_points[k] = 1;
  for (int k = 0; k < 2 * {steps}; k++) seen[k] = random_of(1, 10);
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  for (long k = 0; k < calls; k++) switch (which) {{
    case 'g': failed += gradient(w, value, slopes, work); break;
    case 'c': failed += catenary_step(y, free_points, next, work); break;
    case 'C': catenary(y, free_points, 1, {rate}f, {length}f); break;
    case 'l': failed += lotka_volterra_gradient(p, p + 1, p + 2, p + 3, &u, &v, seen, value, g, g + 1, g + 2, g + 3, work); break;
    case 'L': value[0] = lotka_volterra(p, u, v, seen, {steps}, {h}, states, g); break;
    case 'f': failed += lorenz_gradient(flow, value, g, work); break;
    case 'F': value[0] = lorenz(flow, {flow_steps}, {flow_h}, past, g); break;
  }}
  clock_gettime(CLOCK_MONOTONIC, &after);
  printf("%.9g\\n", ((after.tv_sec - before.tv_sec) * 1e9 + (after.tv_nsec - before.tv_nsec)) / calls);
  return failed != 0;
}}
"""
FLOW_STEPS, FLOW_LENGTH = 200, 0.01
ROWS = {  # of a table: the driver's letter for afx, that for C, calls
    "10-parameter gradient": ("g", "", 2_000_000),
    f"catenary, one step of {catenary.POINTS} points": ("c", "C", 2_000_000),
    f"Lotka-Volterra gradient, {lotka_volterra.STEPS} steps": ("l", "L", 5_000),
    f"Lorenz gradient, {FLOW_STEPS} steps of an array of three": ("f", "F", 100_000),
}


def _rosenbrock(x: Any) -> Any:
    return afx.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _flow(start: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return s + FLOW_LENGTH * afx.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z]), None

    return afx.sum(afx.scan(step, start, None, FLOW_STEPS)[0] ** 2)


def _functions() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    points, steps = np.zeros(catenary.POINTS, np.float32), lotka_volterra.STEPS
    number = np.float64(1.0)
    fit = afx.value_and_grad(lotka_volterra.loss_of("afx"), argnums=0)
    return {
        "gradient": (afx.value_and_grad(_rosenbrock), (np.zeros(10),)),
        "catenary_step": (catenary.step_of("afx"), (points, points)),
        "lotka_volterra_gradient": (fit, ([number] * 4, number, number, np.zeros((2, steps)))),
        "lorenz_gradient": (afx.value_and_grad(_flow), (np.ones(3),)),
    }


def write_program(folder: Path) -> Path:
    """Export, compile and link everything into one program of a letter and a number of calls; return its path."""
    found = compiler()
    assert found is not None
    objects: list[str] = []
    for name, (fn, args) in _functions().items():
        objects.append(str(export.compile(fn, *args, name=name).save(folder)[1]))
    text = DRIVER.format(
        points=catenary.POINTS, steps=lotka_volterra.STEPS, rate=catenary.RATE, length=catenary.LENGTH,
        h=lotka_volterra.LENGTH, flow_steps=FLOW_STEPS, flow_h=FLOW_LENGTH,
    )  # fmt: skip
    (folder / "driver.c").write_text(text)
    sources = [str(SOURCES / f"{name}.c") for name in ("catenary", "lotka_volterra", "lorenz")]
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    program = folder / "driver"
    subprocess.run([found, *flags, str(folder / "driver.c"), *sources, *objects, "-o", str(program), "-lm"], check=True)
    return program


def main(quick: bool) -> None:
    """Print nanoseconds of each call, the best of several runs, and how many times C's time that is."""
    if compiler() is None:
        print("\nexported functions: no C compiler is installed")
        return
    print("\nexported functions, called from C")
    with tempfile.TemporaryDirectory() as folder:
        program = write_program(Path(folder))
        for name, (mine, theirs, calls) in ROWS.items():
            here, there = [_time(program, letter, calls, 1 if quick else 7) for letter in (mine, theirs)]
            beside = f"   C {here / there:.2f}×" if there else ""
            print(f"  {name:44s} {here:10.1f} ns{beside}")


def _time(program: Path, letter: str, calls: int, rounds: int) -> float:
    if not letter:
        return 0.0
    command = [str(program), letter, str(calls)]
    return min(
        [float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(rounds)]
    )
