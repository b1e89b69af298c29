"""Learning: images, clusters, factors, embeddings, graphs, attention and dropout written by hand."""

from __future__ import annotations

from typing import Any

import numpy

from tests.benchmarks.everyday.program import Kit, Made, Program

__all__ = ["PROGRAMS"]


def denoising(k: Kit) -> Made:
    """Return the energy of an image: distance from the noisy one, and smoothed total variation."""
    np = k.np

    def loss(p: Any, seen: Any) -> Any:
        u = p[0]
        dx, dy = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
        return 0.5 * np.sum((u - seen) ** 2) + 0.2 * np.sum(np.sqrt(dx * dx + dy * dy + 1e-4))

    return loss, [k.rng.normal(size=(256, 256))], [k.rng.normal(size=(256, 256))]


def phase_retrieval(k: Kit) -> Made:
    """Return the misfit of the magnitudes of a padded image's spectrum."""
    np = k.np

    def loss(p: Any, magnitude: Any) -> Any:
        spectrum = np.fft.fft2(np.pad(p[0], 32))
        found = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-6)
        return np.mean((found - magnitude) ** 2)

    return (
        loss,
        [k.rng.uniform(size=(64, 64))],
        [numpy.abs(numpy.fft.fft2(numpy.pad(k.rng.uniform(size=(64, 64)), 32)))],
    )


def clusters(k: Kit) -> Made:
    """Return the distance of points from the nearest centre."""
    np = k.np

    def loss(p: Any, x: Any) -> Any:
        d = np.sum(x * x, axis=1)[:, None] - 2 * x @ p[0].T + np.sum(p[0] ** 2, axis=1)
        nearest = np.argmin(d, axis=1)
        member = np.where(nearest[:, None] == np.arange(10)[None, :], 1.0, 0.0)
        return np.sum(member * d) / x.shape[0]

    return loss, [k.rng.normal(size=(10, 8))], [k.rng.normal(size=(5000, 8))]


def factors(k: Kit) -> Made:
    """Return the misfit of a matrix of which some entries are known."""
    np = k.np

    def loss(p: Any, seen: Any, known: Any) -> Any:
        u, v = p
        error = np.where(known, seen - u @ v.T, 0.0)
        return np.sum(error**2) + 0.1 * (np.sum(u * u) + np.sum(v * v))

    params = [k.rng.normal(size=(300, 10)), k.rng.normal(size=(200, 10))]
    return loss, params, [k.rng.normal(size=(300, 200)), k.rng.random((300, 200)) < 0.2]


def embeddings(k: Kit) -> Made:
    """Return the loss of words in context and drawn beside it, by rows of two tables."""
    np, softplus = k.np, k.nn.softplus

    def loss(p: Any, word: Any, near: Any, far: Any) -> Any:
        words, contexts = p
        w = words[word]
        good = np.sum(w * contexts[near], axis=1)
        bad = np.einsum("bd,bnd->bn", w, contexts[far])
        return np.mean(softplus(-good)) + np.mean(np.sum(softplus(bad), axis=1))

    tables = [0.1 * k.rng.normal(size=(2000, 32)) for _ in range(2)]
    return loss, tables, [k.rng.integers(0, 2000, s) for s in (512, 512, (512, 5))]


def graph_network(k: Kit) -> Made:
    """Return the loss of two rounds of messages, added up where edges end."""
    np = k.np

    def loss(p: Any, x: Any, start: Any, end: Any, y: Any) -> Any:
        w1, w2, w3 = p
        count = np.zeros(x.shape[0]).at[end].add(1.0)
        for w in (w1, w2):
            mean = np.zeros((x.shape[0], w.shape[0])).at[end].add(x[start]) / np.maximum(count, 1.0)[:, None]
            z = (x + mean) @ w
            x = np.where(z > 0, z, 0.01 * z)
        return np.mean((x @ w3 - y) ** 2)

    shapes = ((16, 32), (32, 32), (32,))
    data = [k.rng.normal(size=(500, 16)), *[k.rng.integers(0, 500, 3000) for _ in range(2)], k.rng.normal(size=500)]
    return loss, [0.3 * k.rng.normal(size=s) for s in shapes], data


def attention(k: Kit) -> Made:
    """Return the loss of causal attention with padding, guarded by a large negative number."""
    np = k.np

    def loss(p: Any, x: Any, lengths: Any) -> Any:
        wq, wk, wv = p
        q, keys, v = x @ wq, x @ wk, x @ wv
        n = x.shape[1]
        at = np.arange(n)
        seen = (at[None, :, None] >= at[None, None, :]) & (at[None, None, :] < lengths[:, None, None])
        score = np.where(seen, q @ np.swapaxes(keys, 1, 2) / np.sqrt(32.0), -1e9)
        score = np.exp(score - np.max(score, axis=-1, keepdims=True))
        return np.mean((score / np.sum(score, axis=-1, keepdims=True) @ v) ** 2)

    weights = [0.2 * k.rng.normal(size=(32, 32)) for _ in range(3)]
    return loss, weights, [k.rng.normal(size=(16, 64, 32)), k.rng.integers(8, 64, 16)]


def dropout(k: Kit) -> Made:
    """Return the loss of a network with dropout by hand, and leaky units by where."""
    np = k.np

    def loss(p: Any, x: Any, y: Any, noise: Any) -> Any:
        w1, b1, w2, b2 = p
        h = x @ w1 + b1
        h = np.where(h > 0, 1.0, 0.1) * h
        h = h * np.where(noise < 0.9, 1 / 0.9, 0.0)
        return np.mean((np.tanh(h @ w2 + b2)[:, 0] - y) ** 2)

    shapes = ((30, 64), (64,), (64, 1), (1,))
    data = [k.rng.normal(size=(256, 30)), k.rng.normal(size=256), k.rng.random((256, 64))]
    return loss, [0.2 * k.rng.normal(size=s) for s in shapes], data


PROGRAMS = [
    Program("total variation denoising", denoising),
    Program("phase retrieval", phase_retrieval),
    Program("k-means", clusters),
    Program("matrix factorisation", factors),
    Program("word embeddings", embeddings),
    Program("graph network", graph_network),
    Program("attention by hand", attention),
    Program("dropout by hand", dropout),
]
