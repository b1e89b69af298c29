"""What is timed compiled: each workload once for afx and once for jax, on the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

__all__ = ["WORKLOADS"]

Run = Callable[[], Any]
RATE, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


def _chain(m: Any) -> Callable[..., Any]:
    def fn(x: Any, y: Any) -> Any:
        for _ in range(2):
            z = m.tanh(x) * y
            w = m.exp(-z * z)
            x = x + w * m.sin(z)
            y = m.log(1.0 + w * y * y) + y
        return m.sum(x * y)

    return fn


def chain(peer: str, size: int, dtype: str) -> Run:
    """Value and gradients of products of tanh, exp, log and sin of two vectors."""
    rng = np.random.default_rng(0)
    x, y = (rng.random(size).astype(dtype) for _ in range(2))
    if peer == "afx":
        import afx

        mine = afx.jit(afx.value_and_grad(_chain(afx), (0, 1)))
        a, b = afx.asarray(x), afx.asarray(y)
        return lambda: mine(a, b)
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    theirs = jax.jit(jax.value_and_grad(_chain(jax.numpy), (0, 1)))
    c, d = jax.numpy.asarray(x), jax.numpy.asarray(y)
    return lambda: jax.block_until_ready(theirs(c, d))


def _jax_adam(params: Any, grads: Any, state: Any) -> Any:
    import jax
    import jax.numpy as jnp

    count, mu, nu = state
    count = count + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, mu, grads)
    nu = jax.tree.map(lambda n, g: B2 * n + (1 - B2) * g * g, nu, grads)
    first, second = 1 - B1**count, 1 - B2**count
    moved = jax.tree.map(lambda p, m, n: p - RATE * (m / first) / (jnp.sqrt(n / second) + EPS), params, mu, nu)
    return moved, (count, mu, nu)


def adam(peer: str, size: int) -> Run:
    """One step of Adam on one vector, from the state that the last one left."""
    rng = np.random.default_rng(0)
    p, g = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    if peer == "afx":
        import afx
        from afx import optim

        rule = optim.adam(RATE)
        point, slope = afx.asarray(p), afx.asarray(g)
        mine: list[Any] = [point, rule.init(point)]
        step = afx.jit(lambda p, g, s: rule.step(p, g, s))

        def run() -> None:
            mine[:] = step(mine[0], slope, mine[1])

        return run
    import jax
    import jax.numpy as jnp

    theirs: list[Any] = [jnp.asarray(p), (jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))]
    compiled, given = jax.jit(_jax_adam), jnp.asarray(g)

    def other() -> None:
        theirs[:] = jax.block_until_ready(compiled(theirs[0], given, theirs[1]))

    return other


SHAPES = ((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))


def _scores(relu: Any, p: Any, x: Any) -> Any:
    return relu(relu(x @ p[0] + p[1]) @ p[2] + p[3]) @ p[4] + p[5]


def mlp(peer: str, batch: int) -> Run:
    """One training step with Adam of a perceptron 784-512-512-10 under the softmax cross entropy."""
    rng = np.random.default_rng(0)
    parameters = tuple([(rng.normal(size=s) * 0.05).astype(np.float32) for s in SHAPES])
    x = rng.normal(size=(batch, 784)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    return _afx_mlp(parameters, x, targets) if peer == "afx" else _jax_mlp(parameters, x, targets)


def _afx_mlp(parameters: Any, x: Any, targets: Any) -> Run:
    import afx
    from afx import nn, optim

    rule = optim.adam(RATE)
    now: list[Any] = [tuple(map(afx.asarray, parameters))]
    now.append(rule.init(now[0]))
    xs, ts = afx.asarray(x), afx.asarray(targets)

    @afx.jit
    def step(p: Any, s: Any, x: Any, t: Any) -> Any:
        value, grads = afx.value_and_grad(lambda p: afx.mean(nn.softmax_cross_entropy(_scores(nn.relu, p, x), t)))(p)
        return *rule.step(p, grads, s), value

    def run() -> None:
        now[:] = step(now[0], now[1], xs, ts)[:2]

    return run


def _jax_mlp(parameters: Any, x: Any, targets: Any) -> Run:
    import jax
    import jax.numpy as jnp

    now: list[Any] = [tuple(map(jnp.asarray, parameters))]
    zeros = tuple(map(jnp.zeros_like, now[0]))
    now.append((jnp.zeros(()), zeros, zeros))
    xs, ts = jnp.asarray(x), jnp.asarray(targets)

    @jax.jit
    def step(p: Any, s: Any, x: Any, t: Any) -> Any:
        def loss(p: Any) -> Any:
            return -jnp.mean(jnp.sum(t * jax.nn.log_softmax(_scores(jax.nn.relu, p, x)), -1))

        value, grads = jax.value_and_grad(loss)(p)
        return *_jax_adam(p, grads, s), value

    def run() -> None:
        now[:] = jax.block_until_ready(step(now[0], now[1], xs, ts))[:2]

    return run


@attrs.frozen
class Workload:
    """A name, and how to make it for a peer."""

    name: str
    make: Callable[..., Run]
    arguments: tuple[Any, ...]


WORKLOADS = (
    *[
        Workload(f"elementwise chain, {size:.0e}, {dtype}", chain, (size, dtype))
        for size, dtype in ((10**3, "float32"), (10**5, "float32"), (10**7, "float32"), (10**6, "float64"))
    ],
    *[Workload(f"Adam, {size:.0e} parameters", adam, (size,)) for size in (700_000, 10**7)],
    *[Workload(f"MLP 784-512-512-10 with Adam, batch {batch}", mlp, (batch,)) for batch in (32, 128, 512)],
)
