"""What a program of gradbench needs of a library: arrays, loops, transformations, and a descent by gradients."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.benchmarks.libraries import namespace, transforms

__all__ = ["Kit"]

ENOUGH, FIRST_STEP, TRIES = 1e-5, 1e-5, 10  # of the descent, as gradbench has it


class Kit:
    """The functions of afx or jax under one name each.

    Attributes:
        library: whose.
        np: the namespace of arrays.
        jit: what compiles.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        if library == "afx":
            namespace("afx").set_default_dtype("float64")
        else:
            importlib.import_module("jax").config.update("jax_enable_x64", True)
        self.np: Any = namespace(library)
        module: Any = transforms(library)
        loops: Any = module.lax if library == "jax" else module
        self.jit, self.vmap, self.jvp = module.jit, module.vmap, module.jvp
        self.grad, self.jacfwd, self.jacrev = module.grad, module.jacfwd, module.jacrev
        self.scan, self.while_loop = loops.scan, loops.while_loop
        special: Any = importlib.import_module("jax.scipy.special" if library == "jax" else "afx.special")
        self.logsumexp, self.multigammaln = special.logsumexp, special.multigammaln

    def arrays(self, values: Sequence[Any]) -> list[Any]:
        """Return operands as the library's arrays."""
        return [self.np.asarray(np.asarray(x)) for x in values]

    def compile(self, fn: Callable[..., Any], has_long_loops: bool = False) -> Callable[..., Any]:
        """Return a function that is compiled, at once to machine code where one call is a loop of many thousand steps."""
        compiled: Callable[..., Any] = self.jit(
            fn, **({"backend": "native"} if has_long_loops and self.library == "afx" else {})
        )
        return compiled

    def wait(self, results: Any) -> Any:
        """Return results when they are there."""
        return importlib.import_module("jax").block_until_ready(results) if self.library == "jax" else results

    def slopes(self, mode: str, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the gradient of a function of a vector, forward by one direction after the other (f) or in reverse (r)."""
        if mode == "r":
            reverse: Callable[[Any], Any] = self.grad(fn)
            return reverse

        def forward(x: Any) -> Any:
            directions = np.eye(x.shape[0])
            return self.np.stack([self.jvp(fn, (x,), (self.np.asarray(d),))[1] for d in directions])

        return forward

    def descend(self, mode: str, fn: Callable[[Any], Any], start: Any) -> Any:
        """Return where a function is smallest: steps along the gradient, doubled after ten good ones, halved after a bad one.

        Source: Siskind & Pearlmutter 2008, "Using programming language theory to make automatic differentiation sound and
        efficient".
        """
        xp, slopes = self.np, self.slopes(mode, fn)

        def size(v: Any) -> Any:
            return xp.sqrt(xp.sum(v * v))

        def goes_on(state: Any) -> Any:
            _, _, g, _, _, is_near = state
            return xp.logical_and(xp.logical_not(is_near), size(g) > ENOUGH)

        def step(state: Any) -> Any:
            x, f, g, rate, count, _ = state
            new = x - rate * g
            is_near = xp.sqrt(xp.sum((x - new) ** 2)) <= ENOUGH
            lower, slope = fn(new), slopes(new)
            is_better = xp.logical_and(lower < f, xp.logical_not(is_near))
            count = xp.where(is_better, count + 1, 0)
            rate = xp.where(is_better, xp.where(count == TRIES, 2 * rate, rate), rate / 2)
            kept = [xp.where(is_better, a, b) for a, b in ((new, x), (lower, f), (slope, g))]
            return (*kept, rate, xp.where(count == TRIES, 0, count), is_near)

        state = (start, fn(start), slopes(start), xp.asarray(FIRST_STEP), xp.asarray(0), xp.asarray(False))
        return self.while_loop(goes_on, step, state)[0]
