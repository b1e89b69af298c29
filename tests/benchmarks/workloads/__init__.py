"""What is timed: one family of workloads a file, each written once for every library that can do it sensibly.

Where a library has several ways, each gets the fastest one known.
"""

from tests.benchmarks.workloads import (
    adam,
    bundle,
    catenary,
    chain,
    classifier,
    gru,
    hand,
    lenet,
    likelihoods,
    linear_systems,
    logistic,
    lookups,
    lotka_volterra,
    lstm,
    mandelbrot,
    mlp,
    nbody,
    rosenbrock,
    rows,
    stencils,
    transformer,
)
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "Workload"]

FAMILIES = (
    classifier, chain, mlp, lenet, adam, logistic, transformer, lstm, gru, catenary, lotka_volterra, rosenbrock, rows, stencils,
    nbody, linear_systems, mandelbrot, likelihoods, bundle, hand,
    lookups,
)  # fmt: skip
WORKLOADS: dict[str, Workload] = {work.name: work for family in FAMILIES for work in family.WORKLOADS}
