"""Quadrature: Gauss's rule for smooth functions, for many parameters at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["double", "integral", "record_double", "rule"]

NODES = 64
BLOCK = 1024  # parameters at a time: the values of the integrand stay in the cache


@functools.cache
def rule() -> tuple[Any, Any]:
    """Return the nodes and weights of Gauss and Legendre on the interval from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def integral(fn: Callable[..., Any], *xs: Any) -> Any:
    """Return the integral of ``fn(u, *xs)`` over u from 0 to 1.

    Args:
        fn: an integrand of arrays that broadcast: u along the last axis, parameters along the first.
        *xs: its parameters, of one shape; the result's.
    """
    u, weights = rule()
    flat = [np.asarray(x).reshape(-1, 1) for x in xs]
    blocks = [fn(u, *[x[k : k + BLOCK] for x in flat]) @ weights for k in range(0, flat[0].size, BLOCK)]
    return np.concatenate([*blocks, np.zeros(0)]).reshape(np.shape(xs[0]))


def double(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of float64 arrays of one shape as one of any real values, with NumPy's result dtype and no warnings."""

    def compute(*xs: Any, **params: Any) -> Any:
        arrays: list[Any] = [np.asarray(x) for x in xs]
        dtype = np.result_type(*arrays)
        if dtype.kind == "c":
            raise TypeError("complex numbers")  # the shape rule says what is wrong
        operands = np.broadcast_arrays(*[x.astype(np.float64) for x in arrays])
        with np.errstate(all="ignore"):
            z = np.asarray(fn(*operands, **params))
            return z.astype(dtype if dtype.kind == "f" else np.float64)[()]

    return compute


def record_double(fn: Callable[..., Any]) -> Callable[..., None]:
    """Return the native form of what `double` makes of a function without branches on data: its calls, in order."""

    def native(xp: Recorder, out: Any, *xs: Any, **params: Any) -> None:
        with np.errstate(all="ignore"):
            xp.give(out, fn(*[xp.cast(x, np.float64) for x in xs], **params))

    return native
