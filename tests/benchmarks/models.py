"""Models beside numpyro: seconds of a process that imports, draws from a model and prints a summary.

``python -m tests.benchmarks.models`` runs each model of ``tests/sample/models.py`` by `afx.sample` and by numpyro, in turn, each
in a process of its own: four chains, 1,000 draws after 1,000 of warm-up, float64, and a summary of every parameter. Nothing
that was compiled before is used. The last columns are the least effective sizes of a parameter's mean.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.sample.models import DATA as D, MODELS

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
CHAINS, DRAWS, WARMUP = 4, 1000, 1000
TARGET = {"schools": 0.95}  # of acceptance, 0.9 of the others


class Numpyro:
    """The same laws and data in numpyro's own words."""

    def __init__(self) -> None:
        self.jax: Any = importlib.import_module("jax")
        self.jax.config.update("jax_enable_x64", True)
        self.jnp: Any = self.jax.numpy
        numpyro: Any = importlib.import_module("numpyro")
        self.draw: Callable[..., Any] = numpyro.sample
        self.factor: Callable[..., Any] = numpyro.factor
        self.laws: Any = importlib.import_module("numpyro.distributions")
        self.infer: Any = importlib.import_module("numpyro.infer")

    def _ordered(self, name: str, n: int) -> Any:
        d = self.laws
        x = self.draw(name, d.ImproperUniform(d.constraints.ordered_vector, (), (n,)))
        self.factor(f"{name}_law", d.Normal(0.0, 3.0).log_prob(x).sum())
        return x

    def schools(self) -> None:
        """Draw eight schools, centred."""
        d = self.laws
        mu = self.draw("mu", d.Normal(0.0, 5.0))
        tau = self.draw("tau", d.LogNormal(np.log(4.0), 0.7))
        theta = self.draw("theta", d.Normal(mu, tau).expand([8]))
        self.draw("y", d.Normal(theta, D["errors"]), obs=D["effects"])

    def schools_apart(self) -> None:
        """Draw eight schools by standardized effects."""
        d = self.laws
        mu, tau = self.draw("mu", d.Normal(0.0, 5.0)), self.draw("tau", d.HalfCauchy(5.0))
        z = self.draw("z", d.Normal(0.0, 1.0).expand([8]))
        self.draw("y", d.Normal(mu + tau * z, D["errors"]), obs=D["effects"])

    def kidscore(self) -> None:
        """Draw a regression."""
        d = self.laws
        b = self.draw("b", d.Normal(self.jnp.array([90.0, 0.0, 0.0]), 20.0))
        x = np.stack([np.ones(120), D["high"], D["iq"] - 100], axis=1)
        self.draw("y", d.Normal(x @ b, self.draw("sigma", d.HalfCauchy(10.0))), obs=D["score"])

    def radon(self) -> None:
        """Draw levels of counties."""
        d = self.laws
        mu, tau = self.draw("mu", d.Normal(0.0, 3.0)), self.draw("tau", d.HalfNormal(1.0))
        z = self.draw("z", d.Normal(0.0, 1.0).expand([12]))
        beta, sigma = self.draw("beta", d.Normal(0.0, 2.0)), self.draw("sigma", d.HalfNormal(1.0))
        self.draw("y", d.Normal((mu + tau * z)[D["county"]] + beta * D["floor"], sigma), obs=D["radon"])

    def dugongs(self) -> None:
        """Draw a curve of growth."""
        d = self.laws
        alpha, beta = self.draw("alpha", d.Normal(0.0, 10.0)), self.draw("beta", d.Normal(0.0, 10.0))
        rate, sigma = self.draw("rate", d.Uniform(0.5, 1.0)), self.draw("sigma", d.HalfNormal(1.0))
        self.draw("y", d.Normal(alpha - beta * rate ** D["ages"], sigma), obs=D["lengths"])

    def garch(self) -> None:
        """Draw returns whose variance follows them."""
        d = self.laws
        mu, a0 = self.draw("mu", d.Normal(0.0, 1.0)), self.draw("a0", d.HalfNormal(1.0))
        a1 = self.draw("a1", d.Uniform(0.0, 1.0))
        b1 = self.draw("b1", d.Uniform(0.0, 1 - a1))

        def step(v: Any, y: Any) -> Any:
            return a0 + a1 * (y - mu) ** 2 + b1 * v, v

        _, variances = self.jax.lax.scan(step, 1.0 + 0 * a0, D["returns"])
        self.draw("y", d.Normal(mu, self.jnp.sqrt(variances)), obs=D["returns"])

    def classes(self) -> None:
        """Draw a regression of ordered classes."""
        beta, cuts = self.draw("beta", self.laws.Normal(0.0, 2.0)), self._ordered("cuts", 3)
        self.draw("y", self.laws.OrderedLogistic(beta * D["dose"], cuts), obs=D["class"].astype(int))

    def mixture(self) -> None:
        """Draw a mixture of two normal laws."""
        d = self.laws
        w, mu = self.draw("w", d.Dirichlet(self.jnp.array([2.0, 2.0]))), self._ordered("mu", 2)
        sigma = self.draw("sigma", d.LogNormal(0.0, 0.5).expand([2]))
        self.draw("y", d.MixtureSameFamily(d.Categorical(probs=w), d.Normal(mu, sigma)), obs=D["mixed"])

    def hmm(self) -> None:
        """Draw a hidden Markov chain."""
        d, jax, jnp = self.laws, self.jax, self.jnp
        rows = self.draw("rows", d.Dirichlet(jnp.array([2.0, 2.0])).expand([2]))
        mu = self._ordered("mu", 2)

        def step(a: Any, y: Any) -> Any:
            return jax.nn.logsumexp(a[:, None] + jnp.log(rows), axis=0) + d.Normal(mu, 1.0).log_prob(y), None

        first = np.log(0.5) + d.Normal(mu, 1.0).log_prob(D["emitted"][0])
        self.factor("y", jax.nn.logsumexp(jax.lax.scan(step, first, D["emitted"][1:])[0]))

    def run(self, name: str) -> dict[str, Any]:
        """Return draws of a model, and print their summary."""
        kernel = self.infer.NUTS(getattr(self, name), target_accept_prob=TARGET.get(name, 0.9))
        options: dict[str, Any] = {"num_chains": CHAINS, "chain_method": "vectorized", "progress_bar": False}
        mcmc = self.infer.MCMC(kernel, num_warmup=WARMUP, num_samples=DRAWS, **options)
        mcmc.run(self.jax.random.PRNGKey(0))
        mcmc.print_summary()
        return {key: np.asarray(x) for key, x in mcmc.get_samples(group_by_chain=True).items()}


def run_afx(name: str) -> dict[str, Any]:
    """Return draws of a model, and print their summary."""
    afx: Any = importlib.import_module("afx")
    sampler = afx.sample.nuts(MODELS[name]())
    options = {"chains": CHAINS, "draws": DRAWS, "warmup": WARMUP, "target": TARGET.get(name, 0.9)}
    draws = afx.sample.draw(sampler, afx.random.key(0), **options)
    print(afx.sample.summary(draws))
    return {key: np.asarray(x) for key, x in draws.params.items()}


RUNS: dict[str, Callable[[str], dict[str, Any]]] = {"afx": run_afx, "numpyro": lambda name: Numpyro().run(name)}


def draw(library: str, name: str) -> None:
    """Draw, print a summary, and leave the seconds that it took and what was drawn in a file."""
    began = float(os.environ["BEGAN"])
    params = RUNS[library](name)
    took = time.time() - began
    sample: Any = importlib.import_module("afx.sample")
    flat = {key: x.reshape(*x.shape[:2], -1) for key, x in params.items()}
    size = min(float(np.nanmin(sample.ess_bulk(x))) for x in flat.values())
    means = {key: x.mean((0, 1)).tolist() for key, x in flat.items()}
    print(json.dumps({"seconds": took, "size": size, "means": means}))


def measure(library: str, name: str) -> dict[str, Any]:
    """Return what a process of its own found, or raise with the last line of its errors."""
    with tempfile.TemporaryDirectory() as folder:
        own = {**os.environ, "BEGAN": repr(time.time()), "AFX_CODE_CACHE": folder}
        command = [sys.executable, "-m", "tests.benchmarks.models", "--run", library, name]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=own, check=False)
    if done.returncode:
        raise RuntimeError(f"{library}, {name}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs=2, metavar=("LIBRARY", "MODEL"), help="one of them, in this process")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("models", nargs="*", default=[*MODELS])
    given = parser.parse_args()
    if given.run:
        draw(*given.run)
        return
    print(f"{'model':16}{'afx s':>8}{'numpyro s':>11}{'ratio':>7}{'afx ESS':>9}{'numpyro ESS':>13}")
    ratios = list[float]()
    for name in given.models:
        rounds = [{library: measure(library, name) for library in RUNS} for _ in range(given.rounds)]
        own, other = (statistics.median(r[library]["seconds"] for r in rounds) for library in RUNS)
        ratios.append(other / own)
        sizes = "".join(f"{rounds[0][library]['size']:{width}.0f}" for library, width in (("afx", 9), ("numpyro", 13)))
        print(f"{name:16}{own:8.2f}{other:11.2f}{ratios[-1]:7.2f}{sizes}", flush=True)
    print(f"{'mean':35}{statistics.geometric_mean(ratios):7.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
