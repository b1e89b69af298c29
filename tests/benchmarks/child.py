"""One workload of one library, measured in a process of its own: prints what it found as one line of JSON."""

from __future__ import annotations

import importlib
import importlib.util
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tests.benchmarks import everyday, gradbench, networks
from tests.benchmarks.c_library import C
from tests.benchmarks.libraries import NATIVE, arrays, fix_parameters
from tests.benchmarks.workloads import WORKLOADS

__all__ = ["TABLES", "measure"]

TABLES = {
    "compiled": WORKLOADS,
    "everyday": everyday.WORKLOADS,
    "networks": networks.WORKLOADS,
    "gradbench": gradbench.WORKLOADS,
}

IMPORTS = {  # what a user's program begins with
    "afx": ("afx", "afx.nn", "afx.optim"),
    "jax": ("jax", "jax.numpy", "jax.nn"),
    "torch": ("torch", "torch.nn.functional", "torch.optim"),
    C: (),
    "autograd": ("autograd", "autograd.numpy"),
}
SLOW = 2.0  # seconds; what takes longer is run twice and no more
MOST = 5000  # runs
WARM_SECONDS, COMPILE_SECONDS = 0.3, 30.0  # how long afx runs at least, and waits for machine code at most
TRIALS = 40  # calls in which it chooses
SAMPLE = 1000  # numbers of each array that are compared


def blas() -> str:
    """Return the name, version, processor type and threads of the BLAS that NumPy runs on, as far as it tells."""
    try:
        import threadpoolctl
    except ImportError:
        found: Any = np.show_config(mode="dicts")
        given = found["Build Dependencies"]["blas"]
        return f"{given['name']} {given['version']} ({given.get('openblas configuration', 'processor unknown')})"
    pools = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
    return ", ".join(
        f"{p['internal_api']} {p['version']} {p.get('architecture', '')} ({p['num_threads']} threads)" for p in pools
    )


def peak() -> float:
    """Return the largest memory this process has had, in MB."""
    try:  # ru_maxrss would begin with what the parent had before exec
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return found / 1024**2 if sys.platform == "darwin" else found / 1024


def forget_peak() -> None:
    """Let the peak begin anew from what is in use, where the system can do that."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")


def leaves(result: Any) -> list[Any]:
    """Return the arrays of a result, in order."""
    if attrs.has(type(result)) and not hasattr(result, "shape"):
        return [y for field in attrs.fields(type(result)) for y in leaves(getattr(result, field.name))]
    if isinstance(result, list | tuple):
        return [y for x in result for y in leaves(x)]
    return [result]


def numbers(result: Any) -> list[list[float]]:
    """Return some numbers of each array, evenly spaced."""
    bare = [np.asarray(x.detach() if hasattr(x, "detach") else x) for x in leaves(result)]
    return [x.ravel()[:: max(1, x.size // SAMPLE)].astype(float).tolist() for x in bare]


def _seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def _steady(run: Callable[[], Any], seconds: float) -> float:
    """Return the median time of a run, once compilers that work beside the calls have had as long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()
    taken: list[float] = []
    begin = time.perf_counter()
    while len(taken) < 5 or (time.perf_counter() - begin < seconds and len(taken) < MOST):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def wait_for_machine_code(run: Callable[[], Any]) -> None:
    """Run until afx has compiled what it wants to, and has chosen between machine code and NumPy's calls."""
    if importlib.util.find_spec("llvmlite") is None:
        return
    service = importlib.import_module("afx.compiler.native_backend.service.process").service
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_SECONDS or (
        service.is_busy and time.perf_counter() - begin < COMPILE_SECONDS
    ):
        run()
    for _ in range(TRIALS):
        run()


def measure(library: str, name: str, seconds: float, products: str) -> dict[str, Any]:
    """Return seconds of the first call and of the later ones, MB above the imports, and numbers of the results.

    The numbers of the first and the third call are compared by the caller before it believes the times.
    """
    work, backend = next(table[name] for table in TABLES.values() if name in table), "auto"
    if library == NATIVE:
        library, backend = "afx", "native"
    for module in IMPORTS[library]:
        importlib.import_module(module)
    if library == "afx" and products != "default":
        importlib.import_module("afx.compiler.threads").set_products(products)
    if backend == "native":
        importlib.import_module("afx").set_backend(backend)
    arrays(library, [np.zeros(1, np.float32)])  # whatever a library sets up at its first array
    forget_peak()
    before = peak()
    job = work.make(library)
    first, result = _seconds(job.run)
    seen = {"first": numbers(job.numbers(result))}
    steady, result = _seconds(job.run)
    if steady < SLOW:
        seen["third"] = numbers(job.numbers(job.run()))
        del result
        if library == "afx":
            wait_for_machine_code(job.run)
        steady = _steady(job.run, seconds)
    return {"first": first, "steady": steady, "memory": peak() - before, "numbers": seen, "blas": blas()}


if __name__ == "__main__":
    if "fixed" in sys.argv[5:]:
        fix_parameters()
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4])))
