"""The same work done by each library: a loss's value and gradients, or a training step with Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from tests.benchmarks.c_library import C

__all__ = [
    "LIBRARIES",
    "NATIVE",
    "Job",
    "Losses",
    "adam_step",
    "arrays",
    "compiled",
    "fix_parameters",
    "namespace",
    "rate",
    "scan_of",
    "training",
    "transforms",
    "value_and_grad",
]

LIBRARIES = ("afx", "jax", "torch", "autograd")
NATIVE = "native"  # afx with backend="native", as a peer of itself
RATE, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8

Losses = dict[str, Callable[..., Any]]

_fixed = list[bool]()  # one element where training steps have a learning rate of 0


def fix_parameters() -> None:
    """Let training steps, from here on, leave the parameters where they are: each call computes with the same numbers."""
    _fixed.append(True)


def rate() -> float:
    """Return the learning rate: 0 in all but name where parameters stay, as each is far larger."""
    return 1e-30 if _fixed else RATE


def _as_it_is(result: Any) -> Any:
    return result


@attrs.frozen
class Job:
    """A piece of work of one library, ready to run.

    Attributes:
        run: does it once and waits for the result.
        numbers: takes from a result what all libraries must agree on, in one order and layout.
    """

    run: Callable[[], Any]
    numbers: Callable[[Any], Any] = _as_it_is


def namespace(library: str) -> Any:
    """Return the module in which a library keeps its functions of arrays."""
    if library == "afx":
        import afx

        return afx
    if library == "jax":
        import jax.numpy

        return jax.numpy
    if library == "torch":
        import torch

        return torch
    import autograd.numpy

    return autograd.numpy


def scan_of(library: str) -> Callable[..., Any]:
    """Return a library's loop of known length."""
    if library == "jax":
        import jax

        return jax.lax.scan
    found: Callable[..., Any] = namespace(library).scan
    return found


def arrays(library: str, values: Sequence[np.ndarray]) -> list[Any]:
    """Return a library's own arrays of these numbers; jax is told to keep float64."""
    if library in ("autograd", C):
        return list(values)
    m = namespace(library)
    if library == "torch":
        return [m.from_numpy(x.copy()) for x in values]
    if library == "jax":
        import jax

        floats = [x.dtype for x in values if x.dtype.kind in "fc"]
        if floats:  # integers alone say nothing
            jax.config.update("jax_enable_x64", np.dtype(np.float64) in floats or np.dtype(np.complex128) in floats)
    return [m.asarray(x) for x in values]


def transforms(library: str) -> Any:
    """Return the module in which afx or jax keeps its transformations."""
    if library == "afx":
        return namespace("afx")
    import jax

    return jax


def compiled(library: str, fn: Callable[..., Any], values: Sequence[np.ndarray]) -> Job:
    """Return a call of a function that afx or jax compiles."""
    args = arrays(library, values)
    run = transforms(library).jit(fn)
    if library == "afx":
        return Job(lambda: run(*args))
    import jax

    return Job(lambda: jax.block_until_ready(run(*args)))


def value_and_grad(
    library: str,
    loss: Callable[..., Any],
    params: Sequence[np.ndarray],
    data: Sequence[np.ndarray] = (),
    model: Callable[..., Any] | None = None,
) -> Job:
    """Return the value of ``loss(params, *data)`` and its gradients by the params, compiled where the library can.

    afx takes the params as a ``model``, where one is given; everybody else as a tuple.
    """
    p, d = tuple(arrays(library, params)), arrays(library, data)
    if library == "afx":
        import afx

        tree, mine = (model(*p) if model else p), afx.jit(afx.value_and_grad(loss))
        return Job(lambda: mine(tree, *d))
    if library == "jax":
        import jax

        theirs = jax.jit(jax.value_and_grad(loss))
        return Job(lambda: jax.block_until_ready(theirs(p, *d)))
    if library == "torch":
        leaves = [x.requires_grad_() for x in p]
        return Job(lambda: _torch_gradients(loss, leaves, d))
    import autograd

    run = autograd.value_and_grad(loss)
    return Job(lambda: run(p, *d))


def _torch_gradients(loss: Callable[..., Any], p: list[Any], d: list[Any]) -> Any:
    import torch

    value = loss(p, *d)
    return value.detach(), torch.autograd.grad(value, p)


def training(
    library: str, loss: Callable[..., Any], params: Sequence[np.ndarray], data: Sequence[np.ndarray] = ()
) -> Job:
    """Return one step of Adam on ``loss(params, *data)``, from the params and the state that the last one left.

    jax and afx may write over the last ones' memory, as training loops do.
    """
    p, d = tuple(arrays(library, params)), arrays(library, data)
    maker = {"afx": _afx_training, "jax": _jax_training, "torch": _torch_training, "autograd": _autograd_training}
    return maker[library](loss, p, d)


def _afx_training(loss: Callable[..., Any], p: Any, d: list[Any]) -> Job:
    import afx
    from afx import optim

    rule = optim.adam(rate(), b1=B1, b2=B2, eps=EPS)
    now: list[Any] = [p, rule.init(p)]

    def step(p: Any, state: Any, *d: Any) -> Any:
        value, grads = afx.value_and_grad(loss)(p, *d)
        return *rule.step(p, grads, state), value

    compiled = afx.jit(step, donate_argnums=(0, 1))

    def run() -> Any:
        *now[:], value = compiled(*now, *d)
        return value, now[0]

    return Job(run)


def adam_step(sqrt: Callable[[Any], Any], params: Any, grads: Any, state: Any) -> Any:
    """Return the next params and state: Adam by hand, on tuples, for the libraries that bring none."""
    count, mu, nu = state
    count = count + 1
    mu = tuple([B1 * m + (1 - B1) * g for m, g in zip(mu, grads, strict=True)])
    nu = tuple([B2 * n + (1 - B2) * g * g for n, g in zip(nu, grads, strict=True)])
    root = sqrt(1 - B2**count)
    size, eps = rate() * root / (1 - B1**count), EPS * root
    moved = tuple([p - size * m / (sqrt(n) + eps) for p, m, n in zip(params, mu, nu, strict=True)])
    return moved, (count, mu, nu)


def _jax_training(loss: Callable[..., Any], p: Any, d: list[Any]) -> Job:
    import jax
    import jax.numpy as jnp

    mu, nu = (tuple([jnp.zeros_like(x) for x in p]) for _ in range(2))
    now: list[Any] = [p, (jnp.zeros(()), mu, nu)]

    def step(p: Any, state: Any, *d: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, *d)
        return *adam_step(jnp.sqrt, p, grads, state), value

    compiled = jax.jit(step, donate_argnums=(0, 1))

    def run() -> Any:
        *now[:], value = jax.block_until_ready(compiled(*now, *d))
        return value, now[0]

    return Job(run)


def _torch_training(loss: Callable[..., Any], p: Any, d: list[Any]) -> Job:
    import torch

    leaves = [x.requires_grad_() for x in p]
    rule = torch.optim.Adam(leaves, lr=rate(), betas=(B1, B2), eps=EPS, fused=True)

    def run() -> Any:
        rule.zero_grad()
        value = loss(leaves, *d)
        value.backward()
        rule.step()
        return value.detach(), leaves

    return Job(run)


def _autograd_training(loss: Callable[..., Any], p: Any, d: list[Any]) -> Job:
    import autograd

    zeros = tuple([np.zeros_like(x) for x in p])
    now: list[Any] = [p, (np.float32(0), zeros, zeros)]
    gradient = autograd.value_and_grad(loss)

    def run() -> Any:
        value, grads = gradient(now[0], *d)
        now[:] = adam_step(np.sqrt, now[0], grads, now[1])
        return value, now[0]

    return Job(run)
