"""Programs that end well, one after another in one job: most of the time of a short job is its start."""

import json
import sys

from tests.distributed import faults, programs, summing
from tests.distributed.jobs import run

MODULES = {"programs": programs, "faults": faults, "summing": summing}


def run_together(ranks: int, *calls: str) -> list[str]:
    """Run programs, each ``"module.function words"``, on some ranks; return those that did not agree on each, and why."""
    result = run(ranks, json.dumps(calls), module="tests.distributed.together")
    lines = [line for line in result.stdout.splitlines() if ": rank " in line]
    expected = [f"{call}: rank {k} of {ranks}: same" for call in calls for k in range(ranks)]
    wrong = [line for line in expected if line not in lines] + [line for line in lines if line not in expected]
    return [*wrong, result.stderr] if wrong or result.returncode else []


def main() -> None:
    """Run the programs that the command line names."""
    programs.leave_to_numpy()
    for call in json.loads(sys.argv[1]):
        (module, _, name), *words = [part if k else part.partition(".") for k, part in enumerate(call.split())]
        sys.argv[1:] = [name, *words]
        programs.title = f"{call}: "
        getattr(MODULES[module], name)()


if __name__ == "__main__":
    main()
