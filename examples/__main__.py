"""Run the demonstrations, print what each claims and leave with a failure when a claim does not hold."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from examples import boundary_value, catenary, classifier, curve_derivative, local_optimum, polynomial
from examples.report import Claim

EXAMPLES: dict[str, Callable[[Path], list[Claim]]] = {
    "catenary": catenary.run,
    "classifier": classifier.run,
    "boundary_value": boundary_value.run,
    "curve_derivative": curve_derivative.run,
    "polynomial": polynomial.run,
    "local_optimum": local_optimum.run,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the examples named on the command line, all when none is; return the exit status."""
    parser = command_line()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in EXAMPLES]
    if unknown:
        parser.error(f"unknown example: {', '.join(unknown)}; choose from {', '.join(EXAMPLES)}")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output: no folder can be made at {options.output}: {error.strerror}; name another")
    return run_all(options.names or list(EXAMPLES), options.output)


def command_line() -> argparse.ArgumentParser:
    """Describe the command line."""
    names = "\n".join(f"  {name:<17} {summary(name)}" for name in EXAMPLES)
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Run the demonstrations: each prints its claims with their figures and saves its plots.",
        epilog=f"examples:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run (default: all)")
    folder = Path(__file__).parent / "output"
    parser.add_argument(
        "--output", type=Path, default=folder, metavar="DIR", help="where plots go (default: examples/output)"
    )
    return parser


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
    print(f"{failed} of {len(claims)} claims FAILED" if failed else f"all {len(claims)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
