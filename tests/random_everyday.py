"""Random programs of what everyday programs are made of: stacks of small matrices, rows, views, joins, loops.

`random_everyday` draws one from a seed: a chain of rules, also as the step of a loop, in branches or of each of a batch.
`tests.native_soak` compares them bit by bit between both back ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import afx

__all__ = ["random_everyday"]

Rule = Callable[[Any, Any], Any]


def _rows(x: Any) -> Any:
    """Return a softmax of rows by hand."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _filter(x: Any, y: Any) -> Any:
    """Return states of a scan over the first axis whose step is small products and a solution."""
    one = np.eye(x.shape[-1], dtype=x.dtype)

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        m, c = carry
        f = one * 0.9 + 0.05 * np.tanh(row)
        m, c = f @ m, f @ c @ f.T + 0.1 * one
        gain = c[:, 0] / (c[0, 0] + 1.0)
        return (m + gain * np.sin(row[0, 0]), c - np.outer(gain, c[0])), np.log(c[0, 0] + 2.0)

    (m, c), found = afx.scan(step, (y[0, :, 0], one), x)
    return x * found[:, None, None] + c + m


def _parts(x: Any, y: Any) -> Any:
    """Return an array whose parts are written one after the other."""
    z = afx.asarray(x).at[..., 0].set(np.cos(y[..., 0]))
    return z.at[1:, :1].add(y[:-1, :1])


def _fit(x: Any, y: Any) -> Any:
    """Return small parameters after damped Gauss-Newton steps, one fit for each matrix."""

    def fit(q: Any, v: Any) -> Any:
        def step(q: Any, _: Any) -> Any:
            j = np.tanh(v) + np.eye(len(q), dtype=v.dtype)
            return q - 0.5 * afx.linalg.solve(j.T @ j + 0.5 * np.eye(len(q), dtype=v.dtype), j.T @ (j @ q - v[0])), None

        return afx.scan(step, q, None, length=3)[0]

    return afx.vmap(fit)(x[:, 0], y)[:, None, :] + x


def _descend(x: Any, y: Any) -> Any:
    """Return points after steps down a logistic loss, by a derivative within a loop."""

    def energy(w: Any) -> Any:
        z = np.sum(y * w, axis=(1, 2))
        return np.mean(np.logaddexp(0.0, z) - np.where(z > 0.1, 1.0, 0.5) * z)

    return afx.scan(lambda w, _: (w - 0.5 * afx.grad(energy)(w), None), x[0], None, length=4)[0] + x


def _gate(x: Any, y: Any) -> Any:
    """Return states of a gated cell over the first axis, each kept where its row has ended."""
    w = np.concatenate([np.sin(y[0]), np.cos(y[-1])])

    def step(h: Any, row: Any) -> Any:
        t, v = row
        both = np.concatenate([v, h], axis=1)
        z = afx.nn.sigmoid(both @ w)
        new = (1 - z) * h + z * np.tanh(np.concatenate([v, z * h], axis=1) @ w)
        return np.where((t < y.shape[0] - np.arange(h.shape[0]))[:, None], new, h), np.where(h > 0, 1.0, 0.5) * h

    return afx.scan(step, np.tanh(y[0]), (np.arange(x.shape[0]), x))[1]


def _attend(x: Any, y: Any) -> Any:
    """Return causal attention with padding, guarded by a large negative number."""
    n = np.arange(x.shape[1])
    seen = (n[None, :, None] >= n[None, None, :]) & (
        n[None, None, :] <= (np.arange(len(x)) % x.shape[1])[:, None, None]
    )
    return _rows(np.where(seen, x @ np.swapaxes(y, 1, 2), -1e9)) @ y


def _move(x: Any, y: Any) -> Any:
    """Return points after leapfrog steps with forces between pairs of them."""
    points = np.tanh(x[:8, 0])

    def force(p: Any) -> Any:
        d = p[None] - p[:, None]
        return np.sum(d * ((np.sum(d * d, axis=-1) + 0.1) ** -1.5)[:, :, None], axis=1)

    def step(now: Any, _: Any) -> Any:
        p, v = now
        v = v + 0.01 * force(p)
        p = p + 0.02 * v
        return (p, v + 0.01 * force(p)), None

    p, v = afx.scan(step, (points, 0 * points), None, length=3)[0]
    return y + np.sum(p * v, axis=0)


def _spread(x: Any, y: Any) -> Any:
    """Return an array after steps of diffusion within its edges, and of a wave around a ring."""
    flat = x.reshape(len(x), -1)

    def step(now: Any, _: Any) -> Any:
        u, before = now
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        ring = np.roll(u, 1, axis=0) - 2 * u + np.roll(u, -1, axis=0)
        return (u.at[1:-1, 1:-1].add(0.1 * lap) + 0.05 * ring, u - 0.1 * before), None

    return afx.scan(step, (flat, flat), None, length=4)[0][1].reshape(x.shape) + y


def _grow(x: Any, y: Any) -> Any:
    """Return an array after as many steps as it takes to become large."""
    return afx.while_loop(
        lambda s: (s[0] < 5) & (np.mean(abs(s[1])) < 2.0), lambda s: (s[0] + 1, s[1] * 1.5 + 0.1 * np.cos(y)), (0, x)
    )[1]


def _chosen(x: Any, y: Any) -> Any:
    """Return rows at indices that data decide, and rows added where several indices agree."""
    at = (np.floor(abs(y[:, 0, 0]) * 10).astype(np.int32)) % x.shape[0]
    return (
        x[at]
        + afx.zeros_like(y).at[at].add(y) / np.maximum(afx.zeros_like(y[:, 0, 0]).at[at].add(1.0), 1.0)[:, None, None]
    )


RULES: list[Rule] = [
    lambda x, y: x + np.sin(y),
    lambda x, y: np.tanh(x) * y - x,
    lambda x, y: np.where(x > y, x * 0.5, y),
    lambda x, y: np.logaddexp(x, y),
    lambda x, y: _rows(x) + y,
    lambda x, y: np.exp(-abs(x)) * np.cumsum(y, axis=0) * 0.1,
    lambda x, y: np.tanh(x) @ np.tanh(y),
    lambda x, y: np.tanh(x).transpose(0, 2, 1) @ y,
    lambda x, y: np.tanh(x)[0] @ y,
    lambda x, y: y @ np.cos(x)[0].T,
    lambda x, y: np.einsum("bij,bkj->bik", np.tanh(x), np.tanh(y)),
    lambda x, y: afx.linalg.solve(np.tanh(x) + 4 * np.eye(x.shape[-1]), y),
    lambda x, y: afx.linalg.solve(np.tanh(x) + 4 * np.eye(x.shape[-1]), y[..., :1]) + x,
    lambda x, y: afx.linalg.solve((np.tanh(x) + 4 * np.eye(x.shape[-1])).transpose(0, 2, 1), y[0, :, 0])[..., None] + x,
    lambda x, y: np.roll(x, (1, -2), axis=(0, 2)) + y,
    lambda x, y: np.concatenate([x[:1], y[1:]]),
    lambda x, y: np.concatenate([x[..., :1], np.cos(y[..., 1:])], axis=-1),
    lambda x, y: np.stack([np.sin(x[0]), y[0]]).sum(axis=0) + x,
    _parts,
    lambda x, y: np.real(np.fft.ifft(np.fft.fft(x, axis=0) * np.exp(-abs(y)), axis=0)),
    lambda x, y: np.fft.irfft(np.fft.rfft(x, axis=0), n=x.shape[0], axis=0) - y,
    lambda x, y: np.sort(x, axis=0) + y,
    lambda x, y: np.take_along_axis(x, np.argsort(y, axis=0), axis=0),
    lambda x, y: np.searchsorted(np.sort(y[:, 0, 0]), x).astype(y.dtype) * 0.1 + y,
    lambda x, y: np.interp(np.tanh(x), np.linspace(-1, 1, len(y)), y[:, 0, 0]),
    lambda x, y: x * (np.max(y, axis=0) - np.min(y, axis=(1, 2), keepdims=True)),
    lambda x, y: x[np.argmin(y[:, 0, 0])] + y,
    lambda x, y: x.reshape(-1)[::-1].reshape(x.shape) - y,
    _filter,
    lambda x, y: afx.linalg.norm(x, axis=-1, keepdims=True) + y,
    lambda x, y: np.var(x, axis=0) + y,
    lambda x, y: afx.nn.max_pool(x, x.shape[1], stride=1)[:, :1] + y,
    _fit,
    _descend,
    _gate,
    _attend,
    _move,
    _spread,
    _grow,
    _chosen,
    lambda x, y: np.where(x > 0.1, 1.0, 0.5) * y,
    lambda x, y: np.where(x > 0, x, 0.0) + np.where(y < 0.3, 0.25, -1.0) * y,
    lambda x, y: np.mean(np.logaddexp(0.0, -x * y), axis=0) + y,
    lambda x, y: afx.nn.softplus(x) - afx.nn.sigmoid(y) * x,
    lambda x, y: np.log1p(np.exp(np.minimum(x, 20.0))) * y,
    lambda x, y: afx.special.gammaln(np.minimum(abs(x), 50.0) + 1.5) * 0.1 + y,
    lambda x, y: afx.special.erf(x / np.sqrt(2.0)) * y,
    lambda x, y: np.where(np.argmin(x, axis=1)[:, :, None] == np.arange(x.shape[2]), 1.0, 0.0) * y,
    lambda x, y: np.mean(np.sort((x[:, 0] @ y[0]).reshape(-1))[: max(1, len(x) // 20)]) + y,
    lambda x, y: afx.top_k(x.reshape(-1), 2)[0].sum() * y,
    lambda x, y: np.log(np.cumsum(np.exp(x - np.max(x, axis=0)), axis=0)) + np.cumsum(y, axis=-1),
    lambda x, y: np.flip(np.cumsum(np.flip(x, axis=0), axis=0), axis=0) * 0.1 - y,
    lambda x, y: np.cumprod(np.cos(x), axis=1) + y,
    lambda x, y: np.prod(np.cos(x), axis=0) * y,
    lambda x, y: np.sqrt(np.fft.fft2(x).real ** 2 + np.fft.fft2(y).imag ** 2 + 1e-3),
    lambda x, y: (
        np.fft.irfft(1j * np.arange(len(x) // 2 + 1)[:, None, None] * np.fft.rfft(x, axis=0), len(x), axis=0) + y
    ),
    lambda x, y: afx.nn.conv(x, np.tanh(y[:2]), padding="same") + y,
    lambda x, y: np.pad(np.diff(x, axis=0), ((1, 0), (0, 0), (0, 0))) + y,
    lambda x, y: afx.linalg.inv(np.tanh(x) @ np.swapaxes(np.tanh(x), 1, 2) + np.eye(x.shape[-1])) @ y,
    lambda x, y: afx.linalg.cholesky(np.tanh(x) @ np.swapaxes(np.tanh(x), 1, 2) + np.eye(x.shape[-1])) + y,
    lambda x, y: np.interp(np.sin(x), np.cumsum(np.exp(np.tanh(y[:, 0, 0]))) * 0.1 - 1, np.cos(x[:, 0, 0])),
    lambda x, y: np.einsum("bij,bjk,lk->bil", np.tanh(x), np.tanh(y), np.cos(x[0])),
    lambda x, y: np.tensordot(np.tanh(x), np.cos(y[0]), 1),
    lambda x, y: (x.reshape(len(x), -1).T @ np.tanh(y).reshape(len(y), -1))[:1, : x.shape[2]] * 0.1 + x,
    lambda x, y: np.outer(x[:, 0, 0], y[0, 0]).reshape(len(x), 1, -1) + y,
    lambda x, y: np.sum((x[:, :, None] - y[:, None]) ** 2, axis=-1),
    lambda x, y: np.where(np.any(x > y, axis=-1, keepdims=True), x, np.mean(y, axis=(0, 1))),
    lambda x, y: afx.vmap(lambda a, b: afx.cond(a[0, 0] > b[0, 0], lambda: a * 0.5, lambda: np.sin(b) + a))(x, y),
    lambda x, y: afx.vmap(afx.grad(lambda a, b: np.sum(np.tanh(a) * b) / (1 + np.sum(a * a))))(x, y),
    lambda x, y: afx.jvp(lambda v: np.tanh(v) / (1 + v * v), (x,), (y,))[1],
    lambda x, y: (x[:, ::-1] * np.swapaxes(y, 1, 2))[::-1],
    lambda x, y: np.stack([x[:, 0], np.sin(y[:, -1])], axis=1)[:, :1] * y,
]
BOUND = 1e3
FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {  # of a function of two arrays that gives two
    "once": lambda body, x, y: body(x, y),
    "scan": lambda body, x, y: afx.scan(lambda c, _: (body(*c), c[0]), (x, y), None, length=3),
    "walk": lambda body, x, y: afx.scan(lambda c, v: ((body(c[0], x + v)[1], c[0]), c[1]), (x, y), y[:2]),
    "exchange": lambda body, x, y: afx.fori_loop(0, 3, lambda _, c: (body(*c)[0], c[0]), (x, y)),
    "while": lambda body, x, y: afx.while_loop(
        lambda s: (s[0] < 3) & (np.max(s[1][0]) < 0.5 * BOUND), lambda s: (s[0] + 1, body(*s[1])), (0, (x, y))
    ),
    "cond": lambda body, x, y: afx.cond(np.sum(x) > np.sum(y), body, lambda x, y: (y, x * 2.0), x, y),
    "vmap": lambda body, x, y: afx.vmap(body)(np.stack([x, y, x * 0.5]), np.stack([y, y, x])),
    "jvp": lambda body, x, y: afx.jvp(body, (x, y), (y, np.cos(x))),
}


def random_everyday(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a random function of two stacks of square matrices, or of its gradient, and these."""
    rng = np.random.default_rng(seed)
    count, n = int(rng.choice([2, 3, 8, 33, 200])), int(rng.choice([1, 2, 3, 4, 4, 7, 16]))
    dtype = rng.choice(["float32", "float64"])
    args = [rng.normal(size=(count, n, n)).astype(dtype) for _ in range(2)]
    form = FORMS[rng.choice([*["once"] * len(FORMS), *FORMS])]
    plan = [[int(k) for k in rng.integers(1 << 30, size=3)] for _ in range(int(rng.integers(2, 12)))]

    def body(*xs: Any) -> tuple[Any, Any]:
        values = list(xs)
        for kind, i, j in plan:
            z = RULES[kind % len(RULES)](values[i % len(values)], values[j % len(values)])
            values.append(np.clip(z, -BOUND, BOUND).astype(xs[0].dtype))
        return values[-1], values[-2]

    def fn(x: Any, y: Any) -> tuple[Any, ...]:
        return tuple(afx.pytree.leaves(form(body, x, y)))

    if seed % 3:
        return fn, args
    return afx.grad(lambda x, y: sum(np.sum(np.tanh(z)) for z in fn(x, y) if z.dtype.kind == "f"), argnums=(0, 1)), args
