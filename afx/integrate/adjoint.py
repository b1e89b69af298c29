"""Adjoint: gradients of differential equations by a differential equation that runs backwards.

Source: Pontryagin et al. 1962; Chen, Rubanova, Bettencourt & Duvenaud 2018, "Neural ordinary differential equations",
algorithm 1. Memory does not grow with the number of steps; the gradient is that of the exact solution, up to tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from afx.control.scan import scan
from afx.control.solving.functions import attach_pullback
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.ops.creation.creation import asarray, zeros
from afx.ops.linalg.products import vecdot
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import reshape
from afx.transforms.derivatives.vjp import vjp

__all__ = ["attach_adjoint"]

Solve = Callable[
    [Callable[[Array, Array], Array], Array, Array], Array
]  # (field, y, two times) to the state at the last


def attach_adjoint(
    field: Callable[..., Array], solve: Solve, states: Array, y: Array, times: Array, params: Sequence[Any]
) -> Array:
    """Return states of a solution as a function of its start, times and parameters, for reverse mode.

    Args:
        field: (t, y, *params) to dy/dt.
        solve: integrates another field between two times.
        states: float[times, n], what was found, a constant for derivatives.
        y: the first state.
        times: float[times].
        params: what the field depends on.
    """
    floating = [aval_of(p).dtype.kind in "fc" for p in params]

    def pull(found: Array, inputs: Sequence[Any], ct: Array) -> Sequence[Any]:
        _, ts, *ps = inputs
        moving = [p for p, f in zip(ps, floating, strict=True) if f]
        n = found.shape[1]

        def along(t: Array, v: Array, *some: Any) -> Array:
            given = iter(some)
            return field(t, v, *[next(given) if f else p for p, f in zip(ps, floating, strict=True)])

        def augmented(t: Array, z: Array) -> Array:
            v, adjoint = z[:n], z[n : 2 * n]

            def here(u: Array, *some: Any) -> Array:
                return along(t, u, *some)

            slope, pull_back = vjp(here, v, *moving)
            return concat([slope, *[-reshape(g, (-1,)).astype(z.dtype) for g in pull_back(adjoint)]])

        sizes = [p.size for p in moving]

        def interval(carry: tuple[Array, Array], x: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
            adjoint, total = carry
            v, seed, late, early = x
            adjoint = adjoint + seed
            rate = vecdot(seed, along(late, v, *moving))
            z = solve(augmented, concat([v, adjoint, zeros(sum(sizes), v.dtype)]), stack([late, early]))
            return (z[n : 2 * n], total + z[2 * n :]), rate

        start = (zeros(n, found.dtype), zeros(sum(sizes), found.dtype))
        (adjoint, total), rates = scan(
            interval, start, (found[1:], ct[1:], ts[1:], ts[:-1]), length=found.shape[0] - 1, reverse=True
        )
        # the first state is the start at any time, and a later start is a shorter way
        first = -vecdot(adjoint, along(ts[0], found[0], *moving))
        ct_ts = concat([reshape(first, (1,)), asarray(rates)])
        cuts: list[Array] = []
        position = 0
        for p in moving:
            cuts.append(reshape(total[position : position + p.size], p.shape).astype(p.dtype))
            position += p.size
        back = iter(cuts)
        return [adjoint + ct[0], ct_ts, *[next(back) if f else None for f in floating]]

    return attach_pullback("odeint", states, [y, times, *params], pull)
