"""Machine code in time: seconds from a first call's start to the end of the first call by machine code.

Each figure is from a process of its own. *Empty* and *filled* are the folders of kept code; *native* is what the first call
takes that waits for machine code, with an empty folder. *Jump* is the most that one of the first hundred calls took of the
one before it, but for the first two. With ``--busy`` four threads compute in Python beside the calls.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.compiled import FORCED, duration

__all__ = ["NAMES", "main", "measure"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds until machine code takes over
HUNDRED, FOLLOWED = 100, 3.0  # calls that are compared with the one before each, within so many seconds
BARS = {"empty": 1.3, "busy": 3.0}  # times the first call that waits; of the median, the worst may be twice as long
Run = Callable[[], Any]


def _runge_kutta(afx: Any, steps: int) -> Run:
    """Return the gradient of an oscillator's end by its start and its constants."""

    def rate(y: Any, p: Any) -> Any:
        return afx.stack([y[1], -p[0] * afx.sin(y[0]) - p[1] * y[1]])

    def step(now: Any, _: Any) -> Any:
        y, p = now
        a = rate(y, p)
        b = rate(y + 0.005 * a, p)
        c = rate(y + 0.005 * b, p)
        d = rate(y + 0.01 * c, p)
        return (y + 0.01 / 6 * (a + 2 * b + 2 * c + d), p), None

    def loss(y: Any, p: Any) -> Any:
        return afx.sum(afx.scan(step, (y, p), None, steps)[0][0] ** 2)

    fn = afx.jit(afx.value_and_grad(loss, (0, 1)))
    y, p = np.array([1.0, 0.0]), np.array([2.0, 0.1])
    return lambda: fn(y, p)


def _unrolled_gru(afx: Any) -> Run:
    rng = np.random.default_rng(0)
    p = [(0.1 * rng.normal(size=s)).astype(np.float32) for s in ((32, 192), (64, 192), (192,))]
    xs, h = rng.normal(size=(100, 16, 32)).astype(np.float32), np.zeros((16, 64), np.float32)

    def loss(p: Any, xs: Any, h: Any) -> Any:
        for x in xs:
            given, own = x @ p[0] + p[2], h @ p[1]
            reset, keep = afx.nn.sigmoid(given[:, :64] + own[:, :64]), afx.nn.sigmoid(given[:, 64:128] + own[:, 64:128])
            h = (1 - keep) * afx.tanh(given[:, 128:] + reset * own[:, 128:]) + keep * h
        return afx.mean(h * h)

    fn = afx.jit(afx.value_and_grad(loss))
    return lambda: fn(p, xs, h)


def _while_loop(afx: Any) -> Run:
    def newton(a: Any) -> Any:
        def step(s: Any) -> Any:
            return s[0] - 0.05 * (s[0] ** 3 - a) / (3 * s[0] ** 2), s[1] + 1

        def is_open(s: Any) -> Any:
            return s[1] < 2000

        return afx.sum(afx.while_loop(is_open, step, (a, 0))[0])

    fn = afx.jit(newton)
    a = np.linspace(1.0, 5.0, 16)
    return lambda: fn(a)


def _odeint(afx: Any) -> Run:
    def end(y: Any, p: Any) -> Any:
        def rate(_: Any, y: Any, p: Any) -> Any:
            return afx.stack([p[0] * y[0] - y[0] * y[1], y[0] * y[1] - p[1] * y[1]])

        found = afx.integrate.odeint(rate, y, np.linspace(0.0, 10.0, 20), p, rtol=1e-6, atol=1e-9)
        return afx.sum(found.ys**2)

    fn = afx.jit(afx.value_and_grad(end, (0, 1)))
    y, p = np.array([1.0, 0.5]), np.array([1.1, 0.9])
    return lambda: fn(y, p)


def _banana(afx: Any, method: str, size: int) -> Run:
    def banana(x: Any) -> Any:
        return afx.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def fit(x: Any) -> Any:
        return afx.optim.minimize(banana, x, method=method).x

    fn = afx.jit(fit)
    x = np.linspace(-1.0, 1.0, size)
    return lambda: fn(x)


def _nuts(afx: Any) -> Run:
    from tests.benchmarks.sampling import eight_schools

    fn, n = eight_schools(afx)
    sampler, keys = afx.sample.nuts(fn), iter(range(1 << 20))
    return lambda: afx.sample.draw(sampler, afx.random.key(next(keys)), np.zeros(n), chains=4, draws=50, warmup=50)


def _lenet(_: Any) -> Run:
    from tests.benchmarks.digits import in_afx

    rng, numbers = np.random.default_rng(0), iter(range(1 << 20))
    images = rng.random((1437, 8, 8)).astype(np.float32), rng.integers(0, 10, 1437)
    epoch = in_afx(images, 100)()
    return lambda: epoch(next(numbers))


def _stiff(afx: Any, name: str) -> Run:
    """Return a stiff solve of a test set."""
    from tests.integrate.problems import PROBLEMS

    problem = PROBLEMS[name]
    options: Any = {"method": "rodas", "rtol": 1e-9, "atol": 1e-9 * problem.floor, "max_steps": 200_000}

    def solve(y: Any) -> Any:
        return afx.integrate.odeint(lambda t, y: problem.field(afx, t, y), y, [0.0, problem.end], **options).ys[-1]

    fn = afx.jit(solve)
    return lambda: fn(problem.start)


def _two_bodies(afx: Any) -> Run:
    """Return the gradient of an eccentric orbit's end by its start (DETEST's D5)."""

    def rate(_: Any, y: Any) -> Any:
        cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
        return afx.stack([y[2], y[3], -y[0] / cube, -y[1] / cube])

    def end(y: Any) -> Any:
        return afx.sum(afx.integrate.odeint(rate, y, [0.0, 20.0], rtol=1e-9, atol=1e-9, max_steps=100_000).ys[-1] ** 2)

    fn = afx.jit(afx.grad(end))
    y = np.array([0.1, 0.0, 0.0, 19.0**0.5])
    return lambda: fn(y)


def _minimal_surface(afx: Any, n: int = 32) -> Run:
    wave = np.sin(np.pi * np.linspace(0, 1, n + 2))
    edge = np.zeros((n + 2, n + 2))
    edge[0] = edge[-1] = wave

    def area(x: Any) -> Any:
        z = afx.asarray(edge).at[1:-1, 1:-1].set(x.reshape((n, n)))
        steps = (z[1:, :-1] - z[:-1, :-1], z[:-1, 1:] - z[:-1, :-1])
        return afx.sum(afx.sqrt(1 + (n + 1) ** 2 * (steps[0] ** 2 + steps[1] ** 2))) / (n + 1) ** 2

    fn = afx.jit(lambda x: afx.optim.minimize(area, x, method="newton_cg").x)
    x = np.zeros(n * n)
    return lambda: fn(x)


def _kalman(afx: Any, steps: int = 500, n: int = 4) -> Run:
    """Return a filter's log likelihood with its derivative by the noise of the states."""
    rng = np.random.default_rng(0)
    move, see = np.eye(n) + 0.01 * rng.normal(size=(n, n)), np.eye(2, n)
    ys = rng.normal(size=(steps, 2))

    def likelihood(noise: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            mean, spread = move @ state[0], move @ state[1] @ move.T + 0.01 * noise * np.eye(n)
            seen, off = see @ spread @ see.T + 0.1 * np.eye(2), y - see @ mean
            gain = afx.linalg.solve(seen, see @ spread).T
            fit = -0.5 * (off @ afx.linalg.solve(seen, off) + afx.linalg.slogdet(seen)[1])
            return (mean + gain @ off, spread - gain @ seen @ gain.T), fit

        return afx.sum(afx.scan(step, (np.zeros(n), np.eye(n)), ys)[1])

    fn = afx.jit(afx.value_and_grad(likelihood))
    return lambda: fn(np.float64(1.0))


def _hmc(afx: Any) -> Run:
    from tests.benchmarks.sampling import eight_schools

    fn, n = eight_schools(afx)
    sampler, keys = afx.sample.hmc(fn), iter(range(1 << 20))
    return lambda: afx.sample.draw(sampler, afx.random.key(next(keys)), np.zeros(n), chains=4, draws=50, warmup=50)


PROGRAMS: dict[str, Callable[[Any], Run]] = {
    "scan of 100 RK4 steps, gradient": lambda afx: _runge_kutta(afx, 100),
    "scan of 1,000 RK4 steps, gradient": lambda afx: _runge_kutta(afx, 1000),
    "scan of 10,000 RK4 steps, gradient": lambda afx: _runge_kutta(afx, 10_000),
    "GRU, 100 steps in a Python loop": _unrolled_gru,
    "while_loop of 2,000 steps": _while_loop,
    "odeint, gradient": _odeint,
    "bfgs inside jit": lambda afx: _banana(afx, "bfgs", 8),
    "lbfgs, 50 unknowns": lambda afx: _banana(afx, "lbfgs", 50),
    "newton_cg, minimal surface": _minimal_surface,
    "odeint, van der Pol": lambda afx: _stiff(afx, "van der pol"),
    "odeint, Robertson": lambda afx: _stiff(afx, "robertson"),
    "odeint, HIRES": lambda afx: _stiff(afx, "hires"),
    "odeint, two bodies, gradient": _two_bodies,
    "Kalman filter, gradient": _kalman,
    "HMC, eight schools": _hmc,
    "NUTS, eight schools": _nuts,
    "LeNet on digits, an epoch": _lenet,
}
NAMES = tuple(PROGRAMS)


def _codes() -> list[Any]:
    """Return the list that holds the machine code of each plan that is made from now on."""
    executable: Any = importlib.import_module("afx.compiler.executable")
    make, made = executable.native_code, list[Any]()

    def make_and_note(*args: Any) -> Any:
        code = make(*args)
        made.extend([] if code is None else [code])
        return code

    executable.native_code = make_and_note
    return made


def measure(name: str, backend: str, folder: str, busy: int) -> dict[str, float]:
    """Return the seconds to the end of the first run that began when machine code was there, and of a later run."""
    afx: Any = importlib.import_module("afx")
    for module in ("nn", "optim", "sample", "integrate", "data"):
        importlib.import_module(f"afx.{module}")
    importlib.import_module("afx.compiler.native_backend.service.helper").choose_folder(folder)
    afx.set_backend(backend)
    afx.asarray(np.zeros(1))
    codes, run, ends = _codes(), PROGRAMS[name](afx), threading.Event()
    for _ in range(busy):
        threading.Thread(target=_keep_busy, args=(ends,), daemon=True).start()
    calls, start = list[float](), time.perf_counter()
    while time.perf_counter() - start < PATIENCE:
        reasons = [c.status.reason for c in codes]
        is_there = not all("not taken" in r for r in reasons) and not any("being compiled" in r for r in reasons)
        before = time.perf_counter()
        run()
        calls.append(time.perf_counter() - before)
        if is_there or backend == "native":
            break
    taken = time.perf_counter() - start
    ends.set()
    first = len(calls)
    while len(calls) < first + 3 or (len(calls) < HUNDRED and time.perf_counter() - start < taken + FOLLOWED):
        before = time.perf_counter()
        run()
        calls.append(time.perf_counter() - before)
    return {
        "taken": taken,
        "calls": first,
        "later": statistics.median(calls[first:]),
        "jump": max([b / a for a, b in itertools.pairwise(calls[1:HUNDRED])]),
        "linked": sum(c.is_linked for c in codes),
    }


def _keep_busy(ends: threading.Event) -> None:
    x = 1
    while not ends.is_set():
        for _ in range(1000):
            x = x * 3 % 1_000_003


def _apart(name: str, backend: str, folder: str, busy: int = 0) -> dict[str, float]:
    environment = {k: v for k, v in os.environ.items() if k not in FORCED}
    command = [sys.executable, "-W", "ignore", "-m", __name__, name, backend, folder, str(busy)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _rounds(name: str, busy: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round: waiting, with an empty folder, and with the one that these filled."""
    found: dict[str, list[float]] = {"native": [], "empty": [], "filled": [], "jump": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            found["native"].append(_apart(name, "native", one)["taken"])
            empty = _apart(name, "auto", two, busy)
            found["empty"].append(empty["taken"])
            found["jump"].append(empty["jump"])
            found["filled"].append(_apart(name, "auto", two, busy)["taken"])
    return found


def main(rounds: int = 10, names: Sequence[str] = NAMES, busy: int = 0) -> None:
    """Print the table: medians and the worst."""
    print("\nSeconds to the first call by machine code" + (f", beside {busy} busy threads" if busy else ""))
    print(f"{'':38}{'native':>10}{'empty':>10}{'worst':>10}{'ratio':>8}{'filled':>10}{'worst':>10}{'jump':>8}")
    for name in names:
        found = _rounds(name, busy, rounds)
        cells = [statistics.median(found["native"])]
        for kind in ("empty", "filled"):
            cells += [statistics.median(found[kind]), max(found[kind])]
        native, empty, worst, *filled = map(duration, cells)
        ratio, jump = cells[1] / cells[0], statistics.median(found["jump"])
        print(
            f"{name:38}{native:>10}{empty:>10}{worst:>10}{ratio:>7.2f}×"
            + "".join(f"{c:>10}" for c in filled)
            + f"{jump:>7.2f}×",
            flush=True,
        )
    print(
        f"bars: ratio {BARS['busy' if busy else 'empty']}, the worst twice that; filled 60 ms beyond tracing; jump 1.5"
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
