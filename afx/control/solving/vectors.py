"""Pieces that solvers share: results and bounds as vectors, norms, and the loop that runs until a status is reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.solving.compiled import are_plain, run_or_compile
from afx.control.solving.functions import flatten_to_vector
from afx.control.solving.report import Status
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.dtypes import DType
from afx.errors import DtypeError, ShapeError
from afx.ops.creation.creation import asarray, full, zeros
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.sums import max as max_

__all__ = ["as_vector", "bound_vector", "iterate", "norm_of"]

EAGER_STEPS: Final = 10  # measured: tracing and compiling a solver's step takes the time of about ten of its steps


S = TypeVar("S", bound=Any)


def iterate(state: S, advance: Callable[[S], S], limit: int) -> S:
    """Return the last state of a solver that advances until its status is another than running, or up to a limit.

    On concrete values the first steps are Python's, and those that follow are compiled.
    """

    def run(s: S, last: int) -> S:
        def going(s: S) -> Array:
            running: Array = (s.status == int(Status.RUNNING)) & (s.iterations < last)
            return running

        return while_loop(going, advance, s)

    is_known = are_plain(state)
    end = run(state, min(limit, EAGER_STEPS) if is_known else limit)
    if is_known and bool((end.status == int(Status.RUNNING)) & (end.iterations < limit)):

        def go_on(s: S) -> S:
            return run(s, limit)

        end = run_or_compile(go_on, end, name="solver")
    over = end.status == int(Status.RUNNING)
    done: S = attrs.evolve(end, status=where(over, int(Status.ITERATION_LIMIT), end.status))
    return done


def norm_of(x: Array) -> Array:
    """Return the largest absolute value, 0 of no elements."""
    return max_(abs_(x), initial=0.0)


def as_vector(out: Any, dtype: DType, who: str) -> Array:
    """Return what a user's function returns, a tree of real numbers, as a vector."""
    leaves = [asarray(z) for z in pytree.leaves(out)]
    for z in leaves:
        if z.dtype.kind not in "fiu":
            raise DtypeError(f"{who}: the function returns real numbers: got {z.aval}; return real and imaginary parts")
    return concat([reshape(z, (-1,)).astype(dtype) for z in leaves]) if leaves else zeros(0, dtype)


def bound_vector(bound: Any, default: float, like: Array, who: str) -> Array:
    """Return a bound as a vector: None gives the default, a number is for all."""
    if bound is None:
        return full(like.shape, default, like.dtype)
    leaves = pytree.leaves(bound)
    if len(leaves) == 1 and not aval_of(leaves[0], f"{who}: bounds").shape:
        return full(like.shape, leaves[0], like.dtype)
    vector = flatten_to_vector(
        pytree.map(lambda x: asarray(x, np.result_type(aval_of(x).dtype, np.float32)), bound), f"{who}: bounds"
    )[0]
    if vector.shape != like.shape:
        raise ShapeError(f"{who}: bounds have as many elements as the start: got {vector.aval}, for {like.aval}")
    return vector.astype(like.dtype)
