"""Run the benchmarks and print their tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.benchmarks import (
    compiled,
    convolutions,
    denormals,
    distributed,
    eager,
    exported,
    first_calls,
    first_seconds,
    growth,
    importing,
    loops,
    portable,
    settle,
    solvers,
)
from tests.benchmarks.c_library import C
from tests.benchmarks.child import TABLES as COMPARED
from tests.benchmarks.harness import available
from tests.benchmarks.libraries import LIBRARIES, NATIVE
from tests.benchmarks.workloads import WORKLOADS

PEERS = f"beside whom (all that are installed); {NATIVE} is afx's second tier, {C} C by hand"
TABLES = (
    "eager",
    "compiled",
    "everyday",
    "networks",
    "gradbench",
    "first_calls",
    "first_seconds",
    "growth",
    "denormals",
    "loops",
    "convolutions",
    "importing",
    "settle",
    "distributed",
    "exported",
    "portable",
    "solvers",
)
KNOWN = {name: work for table in COMPARED.values() for name, work in table.items()}
OTHERS = (*settle.NAMES, *loops.LOOPS, *convolutions.NAMES, *portable.NAMES)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"which tables: {', '.join(TABLES)} (all)")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="workloads whose name holds a part")
    parser.add_argument(
        "--peers",
        nargs="*",
        default=LIBRARIES[1:],
        help=f"beside whom (all that are installed); {NATIVE}: afx's second tier",
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library, in turn (3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each measures the steady time (1)")
    parser.add_argument(
        "--products",
        choices=("default", "blas", "plan"),
        default="default",
        help="whose threads compute afx's large products",
    )
    parser.add_argument(
        "--busy", type=int, default=0, help="threads that compute in Python beside the calls of settle (0)"
    )
    parser.add_argument(
        "--fixed", action="store_true", help="training steps with a learning rate of 0: each call has the same numbers"
    )
    parser.add_argument("--quick", action="store_true", help="one short round: to see that everything runs")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads")
    parser.add_argument("--json", type=Path, help="also write every round to this file")
    found = parser.parse_args()
    if unknown := set(found.tables) - set(TABLES):
        parser.error(f"no such table: {', '.join(unknown)}; there are {', '.join(TABLES)}")
    if unknown := set(found.peers) - {*LIBRARIES[1:], NATIVE, C}:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(LIBRARIES[1:])}")
    for part in found.only:
        if not any(part.lower() in name.lower() for name in (*KNOWN, *OTHERS)):
            parser.error(f"no workload's name holds {part!r}; --list prints them")
    return found


def main() -> int:
    """Run what the command line asks for, and return 1 where something failed or disagreed."""
    asked = _arguments()
    if asked.list:
        print("\n".join(KNOWN))
        return 0
    tables = asked.tables or TABLES
    good = True
    if "eager" in tables:
        eager.main(asked.quick)
    for name, workloads in COMPARED.items():
        if name not in tables:
            continue
        libraries = ("afx", *[NATIVE] * (NATIVE in asked.peers))
        libraries += tuple([p for p in (*LIBRARIES[1:], C) if p in asked.peers and available(p)])
        rounds, seconds = (1, 0.1) if asked.quick else (asked.rounds, asked.seconds)
        choice = compiled.Choice(tuple(asked.only), libraries, rounds, seconds, asked.products, workloads, asked.fixed)
        good &= compiled.main(choice, asked.json)
    if "first_calls" in tables:
        names = [n for n in WORKLOADS if any(part.lower() in n.lower() for part in asked.only)]
        first_calls.main(1 if asked.quick else 5, names or first_calls.NAMES)
    if "first_seconds" in tables:
        chosen = [n for n in first_seconds.NAMES if any(part.lower() in n.lower() for part in asked.only)]
        marks = (0.1, 0.3) if asked.quick else first_seconds.MARKS
        first_seconds.main(1 if asked.quick else asked.rounds, chosen or first_seconds.NAMES, marks)
    others: dict[str, Callable[[bool], bool | None]] = {
        "growth": growth.main,
        "denormals": denormals.main,
        "exported": exported.main,
        "loops": partial(loops.main, only=asked.only),
        "convolutions": partial(convolutions.main, only=asked.only),
        "portable": partial(portable.main, only=asked.only),
        "solvers": solvers.main,
    }
    for name, run in others.items():
        if name in tables:
            good &= run(asked.quick) is not False
    if "importing" in tables:
        importing.main(3 if asked.quick else 15)
    if "settle" in tables:
        chosen = [n for n in settle.NAMES if any(part.lower() in n.lower() for part in asked.only)]
        settle.main(1 if asked.quick else asked.rounds, chosen or settle.NAMES, asked.busy)
    if "distributed" in asked.tables:  # started by name alone: it takes a launcher and both processors
        good &= distributed.main() == 0
    return 0 if good else 1


sys.exit(main())
