"""Random programs of what everyday programs are made of: stacks of small matrices, rows, views, joins, scans.

`random_everyday` draws one from a seed; `tests.native_soak` compares them bit by bit between both back ends.
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
]
BOUND = 1e3


def random_everyday(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a random function of two stacks of square matrices, or of its gradient, and these."""
    rng = np.random.default_rng(seed)
    count, n = int(rng.choice([2, 3, 8, 33, 200])), int(rng.integers(1, 5))
    dtype = rng.choice(["float32", "float64"])
    args = [rng.normal(size=(count, n, n)).astype(dtype) for _ in range(2)]
    plan = [[int(k) for k in rng.integers(1 << 30, size=3)] for _ in range(int(rng.integers(3, 14)))]

    def fn(*xs: Any) -> Any:
        values = list(xs)
        for kind, i, j in plan:
            z = RULES[kind % len(RULES)](values[i % len(values)], values[j % len(values)])
            values.append(np.clip(z, -BOUND, BOUND).astype(xs[0].dtype))
        return tuple(values[-4:])

    if seed % 3:
        return fn, args
    return afx.grad(lambda x, y: sum(np.sum(np.tanh(z)) for z in fn(x, y)), argnums=(0, 1)), args
