"""The optimizers once more, in NumPy: each formula of its paper, one after the other, in float64."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Path = Iterator[np.ndarray[Any, Any]]
Rate = Callable[[int], float]


def sgd(x: Any, grads: Sequence[Any], rate: Rate, momentum: float = 0.0, nesterov: bool = False) -> Path:
    """Polyak's and Nesterov's momentum in the form of Sutskever et al. 2013, for a constant learning rate.

    Their velocity is -rate times the sum of gradients that torch and afx keep.
    """
    velocity = np.zeros_like(x)
    for t, g in enumerate(grads):
        velocity = momentum * velocity - rate(t) * g
        x = x + (momentum * velocity - rate(t) * g if nesterov else velocity)
        yield x


def adam(x: Any, grads: Sequence[Any], rate: Rate, b1: float, b2: float, eps: float, decay: float = 0.0) -> Path:
    """Algorithm 1 of Kingma & Ba 2015, line by line; with ``decay``, algorithm 2 of Loshchilov & Hutter 2019."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        m_hat = m / (1 - b1**t)
        v_hat = v / (1 - b2**t)
        x = x - rate(t - 1) * (m_hat / (np.sqrt(v_hat) + eps) + decay * x)
        yield x


def rmsprop(
    x: Any, grads: Sequence[Any], rate: Rate, decay: float, eps: float, momentum: float = 0.0, centered: bool = False
) -> Path:
    """Hinton 2012, lecture 6e; centred as Graves 2013, with eps outside of the root."""
    n, mean, velocity = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for t, g in enumerate(grads):
        n = decay * n + (1 - decay) * g**2
        mean = decay * mean + (1 - decay) * g
        root = np.sqrt(n - mean**2 if centered else n)
        velocity = momentum * velocity + g / (root + eps)
        x = x - rate(t) * velocity
        yield x


def arrayflow(
    x: Any, fn: Callable[[Any], tuple[float, Any]], steps: int, s: float, beta: float, m: int
) -> Iterator[tuple[Any, float, bool]]:
    """Algorithm 1 of the paper, with line 26 corrected and the queues full of the first loss.

    Yields the parameters, the step size and whether it may still grow, after each step.
    """
    c1, c2 = np.array([-1 / 3, 3 / 2, -3, 11 / 6]), np.array([-1.0, 4.0, -5.0, 2.0])
    first, _ = fn(x)
    losses = deque([first] * m, maxlen=m)
    averages = deque([first] * 4, maxlen=4)
    growing, direction = True, np.zeros_like(x)
    for _ in range(steps):
        loss, gradient = fn(x)
        losses.append(loss)
        averages.append(np.mean(losses))
        d1, d2 = (float(c @ np.array(averages)) for c in (c1, c2))
        tiny = 1e-12 * abs(averages[-1])  # what rounding makes of equal averages
        if d1 > tiny and d2 > tiny:
            s *= 0.99
            growing = False
        elif growing and d1 < -tiny:
            s *= 1.02
        direction = beta * gradient + (1 - beta) * direction
        x = x - s * direction
        yield x, s, growing
