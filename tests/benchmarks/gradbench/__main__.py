"""afx as a tool of gradbench: reads its messages, a line of JSON each, and answers them with results and times."""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Any

from tests.benchmarks.gradbench.evals import EVALS
from tests.benchmarks.gradbench.kit import Kit


def evaluate(message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a message that asks for a function's result; the first time is that of compiling too."""
    given: Any = message["input"]
    module, name = EVALS[message["module"]], message["function"]
    kit, runs = Kit("afx"), given if isinstance(given, dict) else {}
    operands, fixed = module.read(given)
    call, values = kit.compile(module.functions(kit, **fixed)[name], module.has_long_loops), kit.arrays(operands)
    times, elapsed = list[int](), 0
    while not times or len(times) < runs.get("min_runs", 1) or elapsed < 1e9 * runs.get("min_seconds", 0):
        start = time.perf_counter_ns()
        result = call(*values)
        times.append(time.perf_counter_ns() - start)
        elapsed += times[-1]
    timings = [{"name": "evaluate", "nanoseconds": t} for t in times]
    return {"success": True, "output": module.answer(name, result, given), "timings": timings}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a message."""
    try:
        if message["kind"] == "start":
            return {"tool": "afx"}
        if message["kind"] == "define":
            return {"success": message["module"] in EVALS}
        return evaluate(message) if message["kind"] == "evaluate" else {}
    except Exception as error:
        return {"success": False, "error": "".join(traceback.format_exception(error))}


def main() -> None:
    """Answer messages until there are no more."""
    for line in sys.stdin:
        message = json.loads(line)
        sys.stdout.write(json.dumps({"id": message["id"], **answer(message)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
