"""`fixed_point`: a tree of arrays that a function returns as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.solving.functions import attach_implicit_derivative, flatten_to_vector, parametrize, stopped
from afx.control.solving.report import Status, choose_status, is_converged
from afx.control.solving.vectors import as_vector, iterate, norm_of
from afx.core.array.array import Array
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, where
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.join import concat
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum as sum_
from afx.optim.solvers.results import FixedPointResult

__all__ = ["fixed_point"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GROWTH = 10.0  # how far the residual may grow beyond the least one before what was learned is forgotten


def fixed_point(
    fn: Callable[[T, *Ts], T],
    init: T,
    *args: *Ts,
    memory: int = 5,
    tolerance: float | None = None,
    max_iterations: int = 1000,
) -> FixedPointResult[T]:
    """Return x near a start with ``fn(x, *args) = x``, by Anderson's acceleration of plain iteration.

    The point is differentiable by ``args``, and by traced arrays that ``fn`` closes over, in both modes and every order:
    by the implicit function theorem, not through the iterations. Works under `jit` and `vmap`.

    Source: Walker & Ni 2011, "Anderson acceleration for fixed-point iterations"; a step that makes the residual
    ten times as large as the least one forgets what was learned.

    Args:
        fn: a function of a tree and ``args`` that returns a tree of the same shapes.
        init: the start, a tree of arrays; leaves that are not trained stay as they are.
        *args: what else ``fn`` takes, any trees.
        memory: how many differences are kept; 0 iterates plainly.
        tolerance: of the largest change, relative to the largest element where that is above 1; without it the
            precision to the power 3/4, 1.8e-12 in float64 and 6.4e-6 in float32.
        max_iterations: the limit.

    Raises:
        ArgumentError: the memory is negative.
        ShapeError: ``fn`` returns another number of numbers.

    >>> import afx
    >>> fixed_point(afx.cos, np.float64(1.0)).x
    Array(0.73908513, dtype=float64)
    """
    if memory < 0:
        raise ArgumentError(f"fixed_point: memory is a number of differences: got {memory}; give 0 or more")
    start, unravel = flatten_to_vector(init, "fixed_point")
    start = stopped([start])[0]
    problem = parametrize(fn, [unravel], [start.aval], args, "fixed_point")

    def residual(x: Array, *params: Any) -> Array:
        out = as_vector(problem.fn(x, *params), x.dtype, "fixed_point")
        if out.shape != x.shape:
            raise ShapeError(f"fixed_point: the function returns what it takes: got {out.aval} for {x.aval}")
        return out - x

    held = stopped(problem.params)
    limit = float(np.finfo(start.dtype).eps ** 0.75 if tolerance is None else tolerance)
    end = _march(lambda x: residual(x, *held), start, limit, memory, max_iterations)
    x = attach_implicit_derivative(residual, end.x, problem.params, is_converged(end.status))
    found = end.residual if x is end.x else residual(x, *problem.params)
    return FixedPointResult(end.iterations, end.evaluations, end.status, unravel(x), found)


@attrs.frozen
class Iterate:
    """The state of the iteration; differences are the newest first, zeros where there are none."""

    x: Array
    residual: Array
    moves: Array
    changes: Array
    best: Array
    iterations: Array
    evaluations: Array
    status: Array


def _march(residual: Callable[[Array], Array], start: Array, tolerance: float, memory: int, limit: int) -> Iterate:
    def status_of(x: Array, r: Array) -> Array:
        small = norm_of(r) <= tolerance * maximum(norm_of(x), 1.0)
        state = choose_status(small, Status.CONVERGED, Status.RUNNING)
        return where(all_(isfinite(r)), state, int(Status.NONFINITE))

    def advance(s: Iterate) -> Iterate:
        step = s.residual
        if memory:
            step = step - _accelerate(s)
        x = s.x + step
        r = residual(x)
        size = vector_norm(r)
        worse = ~(size <= GROWTH * s.best)
        keep = (~worse).astype(x.dtype)
        moves, changes = s.moves, s.changes
        if memory:
            moves = keep * concat([(x - s.x)[None], s.moves[:-1]])
            changes = keep * concat([(r - s.residual)[None], s.changes[:-1]])
        best = where(worse, size, where(size < s.best, size, s.best))
        return Iterate(x, r, moves, changes, best, s.iterations + 1, s.evaluations + 1, status_of(x, r))

    none = zeros((memory, start.shape[0]), start.dtype)
    first = residual(start)
    begin = Iterate(start, first, none, none, vector_norm(first), asarray(0), asarray(1), status_of(start, first))
    return iterate(begin, advance, limit)


def _accelerate(s: Iterate) -> Array:
    """Return what Anderson's acceleration takes off a plain step: the differences whose changes explain the residual."""
    gram = s.changes @ s.changes.T
    size = sum_(s.changes * s.changes)
    eps = float(np.finfo(size.dtype).eps)
    regular = gram + (100 * eps * size + float(np.finfo(size.dtype).tiny)) * eye(gram.shape[0], dtype=gram.dtype)
    weights = solve_or_nan(regular, s.changes @ s.residual)
    weights = where(isfinite(weights), weights, 0.0)
    return (s.moves + s.changes).T @ weights
