"""Likelihoods with gradients: a Gaussian mixture (ADBench's), a Gaussian process, and a sampler's logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, scan_of, transforms, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

POINTS = 1000
PROCESS_POINTS = 100
ROWS, COLUMNS, LEAPS, LENGTH = 200, 10, 20, 0.01


def _logsumexp(library: str) -> Callable[..., Any]:
    if library == "afx":
        from afx import logsumexp
    else:
        from jax.nn import logsumexp
    return logsumexp


def _mixture(library: str, d: int, k: int) -> Job:
    """Return the log-likelihood of full covariances given by triangular factors of their inverses."""
    m, logsumexp = namespace(library), _logsumexp(library)
    below = np.tril_indices(d, -1)

    def loss(p: Any, x: Any) -> Any:
        weights, means, logs, entries = p
        factors = m.zeros((k, d, d), x.dtype).at[:, below[0], below[1]].set(entries)
        between = x[:, None] - means
        moved = m.einsum("kij,nkj->nki", factors, between) + m.exp(logs) * between
        inner = weights + m.sum(logs, axis=1) - 0.5 * m.sum(moved * moved, axis=2)
        return m.sum(logsumexp(inner, axis=1)) - POINTS * logsumexp(weights)

    rng = np.random.default_rng(0)
    shapes = ((k,), (k, d), (k, d), (k, d * (d - 1) // 2))
    params = [0.3 * rng.normal(size=shape) for shape in shapes]
    return value_and_grad(library, loss, params, [rng.normal(size=(POINTS, d))])


def _process(library: str) -> Job:
    """Return the marginal likelihood of a Gaussian process with a squared exponential kernel."""
    m = namespace(library)

    def solve(factor: Any, y: Any) -> Any:
        if library == "afx":
            return m.linalg.solve_triangular(factor, y, lower=True)
        import jax

        return jax.scipy.linalg.solve_triangular(factor, y, lower=True)

    def loss(p: Any, x: Any, y: Any) -> Any:
        scale, length, noise = (m.exp(q) for q in p)
        kernel = scale * m.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise * m.eye(PROCESS_POINTS)
        factor = m.linalg.cholesky(kernel)
        white = solve(factor, y)
        return 0.5 * m.sum(white * white) + m.sum(m.log(m.diagonal(factor)))

    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, PROCESS_POINTS))
    params = [np.asarray(v) for v in (0.0, 0.0, -2.0)]
    return value_and_grad(library, loss, params, [x, np.sin(x) + 0.1 * rng.normal(size=PROCESS_POINTS)])


def _sampler(library: str) -> Job:
    """Walk a Hamiltonian trajectory of a logistic regression's posterior: leapfrog steps with a gradient each."""
    m, scan = namespace(library), scan_of(library)

    def fn(w: Any, momentum: Any, x: Any, signs: Any) -> Any:
        def energy(w: Any) -> Any:
            return m.sum(m.logaddexp(0.0, -signs * (x @ w))) + 0.5 * m.sum(w * w)

        gradient = transforms(library).grad(energy)

        def step(now: Any, _: Any) -> Any:
            w, p = now
            p = p - LENGTH / 2 * gradient(w)
            w = w + LENGTH * p
            return (w, p - LENGTH / 2 * gradient(w)), None

        w, p = scan(step, (w, momentum), None, LEAPS)[0]
        return w, energy(w) + 0.5 * m.sum(p * p)

    rng = np.random.default_rng(0)
    w, momentum = rng.normal(size=(2, COLUMNS))
    x = rng.normal(size=(ROWS, COLUMNS))
    return compiled(library, fn, [w, momentum, x, np.where(rng.random(ROWS) < 0.5, -1.0, 1.0)])


PAIR = ("afx", "jax")
WORKLOADS = [
    *[
        Workload(f"Gaussian mixture, {POINTS} points, d {d}, K {k}", lambda lib, d=d, k=k: _mixture(lib, d, k), PAIR)
        for d, k in ((10, 25), (20, 50), (64, 25))
    ],
    Workload(f"Gaussian process, {PROCESS_POINTS} points", _process, PAIR),
    Workload(f"Hamiltonian trajectory, {ROWS} × {COLUMNS}, {LEAPS} steps", _sampler, PAIR),
]
