"""Four threads that differentiate nested functions at once: ``python -m tests.soak`` runs a minute and prints counts.

Every answer is compared, to the last bit, with the one that a single thread gave before. Jitted functions are shared
between the threads, and made anew by each of them too; the interpreter switches threads every few microseconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import afx

__all__ = ["TASKS", "soak"]

X = np.linspace(0.2, 1.4, 7)
W = np.linspace(-0.5, 0.9, 49).reshape(7, 7)
Task = Callable[[float], Any]


def wave(x: Any, k: float) -> Any:
    """Return a scalar of a vector."""
    return afx.sum(afx.sin(x * k) * afx.exp(-x)) + afx.vector_norm(W @ x) * k


def inner(x: Any, k: float) -> Any:
    """Return a function of x whose computation differentiates by another variable, and closes over x."""
    return afx.sum(afx.grad(lambda y: wave(x * y, k) + afx.sum(y * y * x))(x + k))


def looped(x: Any, k: float) -> Any:
    """Return the end of a loop whose step closes over x."""
    return afx.sum(afx.scan(lambda c, row: (afx.tanh(c * row + x * k), c), x, W)[0])


def held(x: Any, k: float) -> Any:
    """Return a checkpointed function with a branch that depends on its value."""
    return afx.checkpoint(lambda v: wave(v, k) if v[0] > 0 else afx.sum(v))(x)


def masked(x: Any, k: float) -> Any:
    """Return a function with infinite slopes where it is not selected."""
    root = afx.sqrt(afx.maximum(x - 0.2, 0.0))
    return afx.sum(afx.where(x > 0.2, root, 0.0) * k) + afx.sum(root[1:])


shared = afx.jit(lambda x, k: afx.grad(inner)(x, k))
loops = afx.jit(lambda x, k: afx.while_loop(lambda c: afx.sum(c) < 9.0, lambda c: c * (1.5 + k) + x, x))
TASKS: dict[str, Task] = {
    "grad of grad": lambda k: afx.grad(inner)(X, k),
    "hessian": lambda k: afx.hessian(wave)(X, k),
    "shared jit": lambda k: shared(X, k),
    "jit made anew": lambda k: afx.jit(afx.grad(wave))(X, k),
    "vmap of grad": lambda k: afx.vmap(afx.grad(wave), (0, None))(W, k),
    "jacrev of jvp": lambda k: afx.jacrev(lambda x: afx.jvp(lambda y: afx.sin(y * k) * x, (x,), (X,))[1])(X),
    "scan": lambda k: afx.grad(looped)(X, k),
    "jit of scan": lambda k: afx.jit(afx.grad(looped))(X, k),
    "checkpoint": lambda k: afx.grad(held)(X, k),
    "while_loop": lambda k: afx.grad(lambda x: afx.sum(loops(x, k)))(X),
    "masks": lambda k: afx.grad(masked)(X, k),
    "default dtype": lambda k: _in_float64(k),
}


def _in_float64(k: float) -> Any:
    with afx.default_dtype(np.float64):
        return afx.grad(lambda x: x * x * k)(afx.asarray(2.0))


def _bytes(k: float, task: Task) -> tuple[bytes, str]:
    value = np.asarray(task(k))
    return value.tobytes(), str(value.dtype)


def soak(seconds: float, threads: int = 4) -> tuple[Counter[str], list[str]]:
    """Run the tasks in threads for some seconds; return how often each ran, and the wrong answers."""
    points = [0.25, 0.5, 1.0, 1.75]
    wanted = {(name, k): _bytes(k, task) for name, task in TASKS.items() for k in points}
    counts: list[Counter[str]] = [Counter() for _ in range(threads)]
    faults: list[str] = []
    start, end = threading.Barrier(threads), time.monotonic() + seconds

    def work(own: int) -> None:
        rng = np.random.default_rng(own)
        names = list(TASKS)
        start.wait()
        while time.monotonic() < end and len(faults) < 10:
            name, k = names[rng.integers(len(names))], points[rng.integers(len(points))]
            try:
                if _bytes(k, TASKS[name]) != wanted[name, k]:
                    faults.append(f"{name} at {k}: another answer")
            except Exception as error:  # any error at all is a fault to report
                faults.append(f"{name} at {k}: {error!r}")
            counts[own][name] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(own,)) for own in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    return sum(counts, Counter()), faults


def main() -> None:
    """Run for a minute, or as many seconds as the command line says, and print the counts."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    counts, faults = soak(seconds)
    lines = [f"{name:15} {count:8}" for name, count in counts.most_common()]
    lines.append(f"{'all':15} {counts.total():8} in {seconds:g} s by four threads, {len(faults)} wrong")
    sys.stdout.write("\n".join([*lines, *faults, ""]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
