"""Programs that people write: each by itself, as a user would type it, with nothing of afx that jax lacks.

Every one is measured as a value and as a value with its gradient, in float32 and in float64.
"""

from tests.benchmarks.everyday import learning, physics, regression, series, solving
from tests.benchmarks.everyday.program import DTYPES, KINDS, Program, workloads_of
from tests.benchmarks.workloads.workload import Workload

__all__ = ["DTYPES", "KINDS", "PROGRAMS", "WORKLOADS", "Program"]

FAMILIES = (regression, series, physics, learning, solving)
PROGRAMS: dict[str, Program] = {program.name: program for family in FAMILIES for program in family.PROGRAMS}
WORKLOADS: dict[str, Workload] = {w.name: w for program in PROGRAMS.values() for w in workloads_of(program)}
