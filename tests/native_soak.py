"""Random programs as machine code between canaries: ``python -m tests.native_soak`` runs some minutes and prints counts.

Each program runs as kernels in several threads at once, and in a forked process now and then; every result is compared
bit by bit with NumPy's plan. Then functions that are called while another process compiles them are compared as well.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import Counter
from typing import Any

import attrs
import numpy as np

import afx
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.target import NativeTarget, current
from tests.compiler.native_backend.lowering.test_pieces import Mixed
from tests.compiler.native_backend.native_run import Native, same_bits
from tests.compiler.native_backend.test_bits import random_program
from tests.random_everyday import random_everyday
from tests.random_libraries import AFX
from tests.random_programs import MODES, POINT, make_program
from tests.soak import soak

THREADS, CALLS, FORK_EVERY = 3, 4, 25
SPECIAL_EVERY, SPECIAL_SHARE = 4, 0.03
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e-40, 710.0)
FAULT, ALL_FLAGS = -1, 15  # what a kernel returns that leaves its call to NumPy's plan; those that it tells
FLAGS = {"divide by zero": 1, "overflow": 2, "invalid value": 8}


def program_of(seed: int) -> tuple[Any, list[Any]]:
    """Return a random function and its arguments: of small arrays with derivatives, of larger ones, or of small matrices."""
    if seed % 3 < 2:
        fn, args = random_program(seed // 3) if seed % 3 == 0 else random_everyday(seed // 3)
        return fn, [_with_special(x, seed) for x in args] if seed // 3 % SPECIAL_EVERY == 0 else args
    found = []
    program, mode = make_program(seed, 3 + seed % 3, 1 + seed % 2), MODES[seed % len(MODES)]
    program.run(AFX, mode, lambda fn: found.append(fn) or fn)
    return found[0], [np.asarray(v) for v in POINT]


def _with_special(x: Any, seed: int) -> Any:
    """Return an array some of whose elements are zeros of either sign, infinite, nan, or overflow soon."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        return np.where(rng.random(x.shape) < SPECIAL_SHARE, rng.choice(SPECIAL, x.shape).astype(x.dtype), x)


def flags_of(plan: Any, args: list[Any]) -> tuple[list[Any], int]:
    """Return what NumPy's plan gives, and the floating-point errors that it meets."""
    seen = set[str]()
    with np.errstate(all="call", under="ignore", call=lambda kind, _: seen.add(kind)):
        found = plan.run_numpy(*args)
    return found, sum([FLAGS[kind] for kind in seen])


def kernel_of(fn: Any, args: list[Any]) -> tuple[str, Any, Any]:
    """Return how a function runs as machine code, what runs it, and its plan."""
    try:
        native = Native(fn, *args)
        return "whole", lambda: native(*args), native.plan
    except UnsupportedError:
        mixed = Mixed(fn, *args)
        return "pieces", lambda: (mixed(*args), ALL_FLAGS), mixed.plan


def check(seed: int) -> tuple[str, list[str]]:
    """Run one program; return how it ran, and what was wrong."""
    fn, args = program_of(seed)
    try:
        how, run, plan = kernel_of(fn, args)
    except UnsupportedError as error:
        return str(error)[:60], []
    faults, left = list[str](), list[int]()
    wanted, flags = flags_of(plan, args)

    def work() -> None:
        with np.errstate(all="ignore"):
            for _ in range(CALLS):
                found, errors = run()
                if found is None or errors == FAULT:
                    left.append(seed)  # an array that lies in another order than the kernel was made for
                elif flags & ~errors:
                    faults.append(f"seed {seed}: {how}: flags {errors}, NumPy's {flags}")
                elif not all(same_bits(z, w) for z, w in zip(found, wanted, strict=True)):
                    faults.append(f"seed {seed}: {how}: other bits")

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if seed % FORK_EVERY == 0:
        child = os.fork()
        if child == 0:
            work()
            os._exit(len(faults) > 0)
        if os.waitpid(child, 0)[1]:
            faults.append(f"seed {seed}: {how}: wrong after fork")
    return f"{how}{', left to NumPy' if left else ''}", faults


def main() -> None:
    """Run as many seconds as the command line says."""
    warnings.simplefilter("ignore")  # flags are compared
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 180.0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts, faults = Counter[str](), list[str]()
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end and len(faults) < 10:
        try:
            how, wrong = check(seed)
        except Exception as error:  # any error at all is a fault to report
            how, wrong = "error", [f"seed {seed}: {error!r}"]
        counts[how] += 1
        faults += wrong
        seed += 1
    current.set(attrs.evolve(current.target, native=NativeTarget(compile_min_seconds=0.0)))
    calls, others = soak(seconds / 4)
    lines = [f"{count:6} {how}" for how, count in counts.most_common()]
    lines.append(
        f"seeds {first} to {seed}; {calls.total()} calls beside the compiling process; backend {afx.get_backend()}"
    )
    sys.stdout.write("\n".join([*lines, *faults, *others, ""]))
    sys.exit(bool(faults or others))


if __name__ == "__main__":
    main()
