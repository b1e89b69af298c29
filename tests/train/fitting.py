"""A training with noise, checkpoints and prefetching, for tests that interrupt it."""

import time
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import Array, data, io, optim, train

X = np.linspace(-1.0, 1.0, 24)
OPTIMIZER = optim.adam(0.05)


def begin() -> Any:
    """Return the state at the beginning: parameters, optimizer state, random key."""
    w = {"slope": afx.asarray(0.0), "shift": afx.asarray(np.zeros(2))}
    return w, OPTIMIZER.init(w), afx.random.key(1)


@afx.jit
def advance(state: Any, x: Array) -> Any:
    """Take one step with noise from the key."""
    w, inner, key = state
    key, mine = afx.random.split(key)
    noise = 0.1 * afx.random.normal(mine, x.shape, dtype=np.float64)

    def loss(w: Any) -> Array:
        return afx.mean((w["slope"] * x + afx.sum(w["shift"]) - 3.0 * x - 1.0 + noise) ** 2)

    value, grad = afx.value_and_grad(loss)(w)
    w, inner = OPTIMIZER.step(w, grad, inner)
    return (w, inner, key), value


def fit(folder: Path, last: int, pause: float = 0.0) -> Any:
    """Train up to a number of steps, with checkpoints, on from the newest."""
    with io.Checkpoints(folder, keep=2) as checkpoints:
        start, state = train.resume(checkpoints, begin())
        if start >= last:
            return state
        batches = data.prefetch(data.batches(X, 5, key=afx.random.key(9)).stream(start))
        run = train.limit_steps(train.steps(advance, state, batches, start=start), last)
        for step in train.save_checkpoints(run, checkpoints, every=3):
            time.sleep(pause)
            state = step.state
        return state


def bits(tree: Any) -> list[bytes]:
    """Return the bytes of all leaves."""
    return [np.asarray(leaf).tobytes() for leaf in afx.pytree.leaves(tree)]
