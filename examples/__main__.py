"""Run the demonstrations, print what each claims and leave with a failure when a claim does not hold."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from examples import (
    autoencoder,
    boundary_value,
    catenary,
    character_model,
    classifier,
    curve_derivative,
    data_parallel,
    digits_lenet,
    digits_mlp,
    exported_model,
    flow,
    gaussian_process,
    graph_split,
    hamiltonian,
    heat_equation,
    local_optimum,
    logistic_regression,
    lotka_volterra,
    polynomial,
    slot_programs,
    time_series,
)
from examples.report import Claim

EXAMPLES: dict[str, Callable[[Path], list[Claim]]] = {
    "catenary": catenary.run,
    "classifier": classifier.run,
    "boundary_value": boundary_value.run,
    "curve_derivative": curve_derivative.run,
    "polynomial": polynomial.run,
    "local_optimum": local_optimum.run,
    "digits_mlp": digits_mlp.run,
    "digits_lenet": digits_lenet.run,
    "character_model": character_model.run,
    "time_series": time_series.run,
    "autoencoder": autoencoder.run,
    "flow": flow.run,
    "logistic_regression": logistic_regression.run,
    "gaussian_process": gaussian_process.run,
    "lotka_volterra": lotka_volterra.run,
    "heat_equation": heat_equation.run,
    "hamiltonian": hamiltonian.run,
    "exported_model": exported_model.run,
    "data_parallel": data_parallel.run,
    "graph_split": graph_split.run,
    "slot_programs": slot_programs.run,
}
PAPER = ("catenary", "classifier", "boundary_value", "curve_derivative", "polynomial", "local_optimum")


def main(arguments: list[str] | None = None) -> int:
    """Run the examples named on the command line, the paper's when none is; return the exit status."""
    parser = command_line()
    options = parser.parse_args(arguments)
    if options.list:
        print(listing())
        return 0
    unknown = [name for name in options.names if name not in EXAMPLES]
    if unknown:
        parser.error(f"unknown example: {', '.join(unknown)}; choose from {', '.join(EXAMPLES)}")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output: no folder can be made at {options.output}: {error.strerror}; name another")
    return run_all(options.names or PAPER, options.output)


def command_line() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Run the demonstrations: each prints its claims with their figures and saves its plots.",
        epilog=f"examples:\n{listing()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run (default: the paper's six)")
    parser.add_argument("--list", action="store_true", help="show all examples and leave")
    folder = Path(__file__).parent / "output"
    parser.add_argument(
        "--output", type=Path, default=folder, metavar="DIR", help="where plots go (default: examples/output)"
    )
    return parser


def listing() -> str:
    """Return a line for each example."""
    return "\n".join(f"  {name:<19} {summary(name)}" for name in EXAMPLES)


def summary(name: str) -> str:
    """Return the first line of an example's docstring."""
    return (sys.modules[f"examples.{name}"].__doc__ or "").partition("\n")[0]


def run_all(names: Iterable[str], output: Path) -> int:
    """Run the examples in turn and print what each claims; return 1 when a claim fails, else 0."""
    claims: list[Claim] = []
    for name in names:
        print(f"{name}: {summary(name)}", flush=True)
        start = time.perf_counter()
        found = EXAMPLES[name](output)
        for claim in found:
            print(f"{name}: {claim}")
        print(f"  took {time.perf_counter() - start:.1f} s\n", flush=True)
        claims += found
    failed = sum(not claim.holds for claim in claims)
    if not claims:  # a rank beside the first one, which speaks
        return 0
    print(f"{failed} of {len(claims)} claims FAILED" if failed else f"all {len(claims)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
