"""Checks of what a sampler is given: the density's result, its parameters, and where it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.graph import Var
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, OperandError, ShapeError
from afx.ops.creation.creation import asarray
from afx.sample.constraints import Constraints, bijectors_of, constrain, log_det, unconstrain
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import trace

__all__ = ["check_dependence", "checked_density", "position_of_start"]

T = TypeVar("T")

SLACK = 1e-3  # of the largest element: shares that add up to 0.999 are meant to add up to 1


def checked_density(found: Any) -> Array:
    """Return what a log density gave, if it is one real number."""
    if found is None or isinstance(found, tuple | list | dict | str):
        raise OperandError(f"sample: a log density is one real number: got {type(found).__name__}; return it alone")  # pyright: ignore[reportUnknownArgumentType]  # a user's value
    aval = aval_of(found, "sample: the log density")
    if aval.shape:
        raise ShapeError(f"sample: a log density is one number: got {aval}; sum those of the observations")
    if aval.dtype.kind == "c":
        raise DtypeError(f"sample: a log density is a real number: got {aval}; take the real part")
    return asarray(found)


def check_dependence(log_density: Callable[[T], Any], constraints: Constraints, position: T, who: str) -> None:
    """Raise where a density does not read a parameter, which then has no law: it could be anywhere.

    Args:
        log_density: of the constrained parameters.
        constraints: of the parameters; one that has bounds gives a law by itself.
        position: the unconstrained parameters.
        who: for messages.
    """
    check_callable(log_density, who)

    def density(position: T) -> Array:
        return checked_density(log_density(constrain(constraints, position))) + log_det(constraints, position)

    graph = trace(density)(position)
    read = {atom.index for atom in graph.outputs if isinstance(atom, Var)}
    for eq in reversed(graph.equations):
        if any(var.index in read for var in eq.outputs):
            read |= {atom.index for atom in eq.inputs if isinstance(atom, Var)}
    for path, var in zip(pytree.paths(pytree.structure(position)), graph.inputs, strict=True):
        if var.index not in read and var.aval.size:
            raise ArgumentError(
                f"{who}: the log density does not depend on a parameter: got {var.aval} at {path or 'the start'}; "
                "give it a prior, or leave it out"
            )


def position_of_start(constraints: Constraints, start: T, who: str) -> T:
    """Return the unconstrained position of a start that keeps its constraints."""
    with np.errstate(all="ignore"):
        position = unconstrain(constraints, start)
        again = constrain(constraints, position)
    leaves = zip(*map(pytree.leaves, (start, again)), strict=True)
    pairs = zip(pytree.paths(pytree.structure(start)), bijectors_of(constraints, start), leaves, strict=True)
    for path, bijector, (x, y) in pairs:
        if bijector is not None and not isinstance(y, Tracer) and not _is_near(np.asarray(x), np.asarray(y)):
            raise ArgumentError(
                f"{who}: a start lies within its constraints: got {np.asarray(x).tolist()} at {path or 'the start'} "
                f"for {bijector!r}; begin within it"
            )
    return position


def _is_near(x: Any, y: Any) -> bool:
    return x.shape == y.shape and (not x.size or bool(np.allclose(x, y, rtol=0.0, atol=SLACK * np.abs(x).max())))
