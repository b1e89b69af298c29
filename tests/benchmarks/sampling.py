"""Sampling beside numpyro and blackjax: seconds from a cold start, and effective draws a second.

``python -m tests.benchmarks.sampling`` runs each in a process of its own: four chains, 1,000 draws after 1,000 of warm-up,
float64, diagonal mass matrices, a target of 0.8, all on one density of unconstrained parameters. *Cold* is the whole
process, import and compilation included; the rates are those of a second run, with another key, warm-up included. On a
busy machine the last column, by the processor's seconds of the sampling process, is the one to read.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
CHAINS, DRAWS, WARMUP = 4, 1000, 1000
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])  # Rubin 1981
Run = Callable[[int], Any]


def eight_schools(m: Any) -> tuple[Callable[[Any], Any], int]:
    """Return the density of the effects of coaching, standardized, and the number of parameters."""
    y, sd = SCHOOLS

    def fn(x: Any) -> Any:
        mu, log_tau, z = x[0], x[1], x[2:]
        tau = m.exp(log_tau)
        fit = m.sum(((y - mu - tau * z) / sd) ** 2) + m.sum(z**2) + (mu / 5) ** 2
        return -0.5 * fit - m.log1p((tau / 5) ** 2) + log_tau

    return fn, 10


def logistic(m: Any) -> tuple[Callable[[Any], Any], int]:
    """Return the density of a logistic regression's weights, 500 × 10."""
    random = np.random.default_rng(0)
    x = random.standard_normal((500, 10))
    signs = np.where(random.random(500) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 10))), 1.0, -1.0)
    return lambda w: -m.sum(m.logaddexp(0.0, -signs * (x @ w))) - 0.5 * m.sum(w * w), 10


def process(m: Any) -> tuple[Callable[[Any], Any], int]:
    """Return the density of the logarithms of a Gaussian process's length, height and noise, 40 points."""
    random = np.random.default_rng(1)
    x = np.sort(random.uniform(0, 10, 40))
    y = np.sin(x) + 0.2 * random.standard_normal(40)
    apart, eye = (x[:, None] - x) ** 2, np.eye(40)

    def fn(p: Any) -> Any:
        length, height, noise = m.exp(p[0]), m.exp(p[1]), m.exp(p[2])
        factor = m.linalg.cholesky(height**2 * m.exp(-0.5 * apart / length**2) + (noise**2 + 1e-8) * eye)
        white = solve(m)(factor, y)
        return -0.5 * m.sum(white**2) - m.sum(m.log(m.diagonal(factor))) - 0.5 * m.sum(p**2)

    return fn, 3


def solve(m: Any) -> Callable[[Any, Any], Any]:
    """Return the solution of lower triangular systems."""
    if m.__name__ == "afx":
        return lambda factor, y: m.linalg.solve_triangular(factor, y, lower=True)
    jax: Any = importlib.import_module("jax.scipy.linalg")
    return lambda factor, y: jax.solve_triangular(factor, y, lower=True)


WORKLOADS = {"eight schools": eight_schools, "logistic regression": logistic, "Gaussian process": process}


def run_afx(workload: str) -> Run:
    """Return the run of `afx.sample`."""
    afx: Any = importlib.import_module("afx")
    fn, n = WORKLOADS[workload](afx)
    sampler = afx.sample.nuts(fn)
    return lambda seed: np.asarray(
        afx.sample.draw(sampler, afx.random.key(seed), np.zeros(n), chains=CHAINS, draws=DRAWS, warmup=WARMUP).params
    )


def run_numpyro(workload: str) -> Run:
    """Return numpyro's run, chains vectorized."""
    jax, infer = _load_jax(), importlib.import_module("numpyro.infer")
    fn, n = WORKLOADS[workload](jax.numpy)

    def energy(x: Any) -> Any:
        return -fn(x)

    kernel: Any = infer.NUTS(potential_fn=energy)
    options: dict[str, Any] = {"num_chains": CHAINS, "chain_method": "vectorized", "progress_bar": False}
    mcmc: Any = infer.MCMC(kernel, num_warmup=WARMUP, num_samples=DRAWS, **options)

    def run(seed: int) -> Any:
        start = jax.random.uniform(jax.random.PRNGKey(seed + 100), (CHAINS, n), minval=-1.0, maxval=1.0)
        mcmc.run(jax.random.PRNGKey(seed), init_params=start)
        return np.asarray(mcmc.get_samples(group_by_chain=True))

    return run


def run_blackjax(workload: str) -> Run:
    """Return blackjax's run, chains by vmap."""
    jax, blackjax = _load_jax(), importlib.import_module("blackjax")
    fn, n = WORKLOADS[workload](jax.numpy)

    def chain(key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        start = jax.random.uniform(first, (n,), minval=-1.0, maxval=1.0)
        warmup: Any = blackjax.window_adaptation(blackjax.nuts, fn)
        (state, parameters), _ = warmup.run(second, start, num_steps=WARMUP)
        step = blackjax.nuts(fn, **parameters).step

        def advance(state: Any, key: Any) -> Any:
            new, _ = step(key, state)
            return new, new.position

        return jax.lax.scan(advance, state, jax.random.split(third, DRAWS))[1]

    whole = jax.jit(jax.vmap(chain))
    return lambda seed: np.asarray(whole(jax.random.split(jax.random.PRNGKey(seed), CHAINS)))


def _load_jax() -> Any:
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


LIBRARIES: dict[str, Callable[[str], Run]] = {"afx": run_afx, "numpyro": run_numpyro, "blackjax": run_blackjax}


def measure(library: str, workload: str) -> None:
    """Print the seconds of two runs and the least effective size of the second, as JSON."""
    run = LIBRARIES[library](workload)
    times, x = list[float](), np.empty(0)
    for seed in range(2):
        began = time.perf_counter(), time.process_time()
        x = run(seed)
        times += [time.perf_counter() - began[0], time.process_time() - began[1]]
    from_chains: Any = importlib.import_module("afx.sample")
    size = float(min(np.min(from_chains.ess_bulk(x)), np.min(from_chains.ess_tail(x))))
    print(json.dumps([*times, size]))


def main() -> None:
    """Print a table."""
    print(f"{'workload':22}{'library':10}{'cold s':>8}{'again s':>9}{'least ESS':>11}{'ESS/s':>9}{'ESS/CPU s':>11}")
    for workload in WORKLOADS:
        for library in LIBRARIES:
            command = [sys.executable, "-m", "tests.benchmarks.sampling", library, workload]
            began = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
            whole = time.perf_counter() - began
            if done.returncode:
                print(f"{workload:22}{library:10}  {done.stderr.strip().splitlines()[-1][:70]}")
                continue
            _, _, again, busy, size = json.loads(done.stdout.splitlines()[-1])
            rates = f"{size / again:9.0f}{size / busy:11.0f}"
            print(f"{workload:22}{library:10}{whole - again:8.2f}{again:9.2f}{size:11.0f}{rates}", flush=True)


if __name__ == "__main__":
    measure(*sys.argv[1:]) if sys.argv[1:] else main()
