"""Target checks: shapes, dtypes and ranges of targets beside predictions, where values are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike, to_numpy_value
from afx.core.aval import aval_of
from afx.core.dtypes import is_inexact, promote
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import subtract
from afx.ops.manipulation.shape import astype

__all__ = ["as_numbers", "check_classes", "check_positive", "check_same_shape", "check_shares", "difference", "known"]

ROUNDING = 1e-3  # by which sums of shares in half precision may miss 1


def known(targets: ArrayLike) -> Any:
    """Return the values of targets as NumPy's, None where they are not known or there are none."""
    if isinstance(targets, Tracer) or not aval_of(targets).size:
        return None
    return to_numpy_value(targets, "targets")


def _extremes(targets: ArrayLike) -> list[Any]:
    """Return the smallest and the largest target, none where they are not known or there are none."""
    value = known(targets)
    return [] if value is None else [np.minimum.reduce(value, None), np.maximum.reduce(value, None)]


def check_classes(targets: ArrayLike, count: int, who: str) -> None:
    """Raise where targets are no classes."""
    for extreme in _extremes(targets):
        if not 0 <= extreme < count:
            raise IndexRangeError(
                f"{who}: a target is no class: got {extreme} for {count} classes; leave such examples "
                "out, or give them the weight 0"
            )


def check_shares(targets: ArrayLike, who: str) -> None:
    """Raise where targets are no probabilities."""
    aval = aval_of(targets)
    if aval.dtype.kind == "c":
        raise DtypeError(f"{who}: targets are probabilities: got {aval}; take a part first")
    found = _extremes(targets)
    if any(extreme < -ROUNDING or extreme > 1 + ROUNDING for extreme in found):  # nan passes, as it does elsewhere
        raise ArgumentError(
            f"{who}: targets are probabilities, from 0 to 1: got numbers from {found[0]} to {found[-1]}; "
            "labels of -1 and 1 become (labels + 1) / 2"
        )


def as_numbers(targets: ArrayLike, beside: ArrayLike) -> Array:
    """Return targets that are integers or booleans in the dtype of what they are compared with."""
    t, a = aval_of(targets), aval_of(beside)
    return asarray(targets) if is_inexact(t.dtype) else astype(targets, promote((a.dtype,), (a.weak,), True))


def check_same_shape(who: str, x: ArrayLike, y: ArrayLike, names: str = "predictions and targets") -> None:
    """Raise where shapes differ; one number for all is fine."""
    a, b = aval_of(x, who), aval_of(y, who)
    if a.shape != b.shape and b.ndim:
        raise ShapeError(f"{who}: {names} differ in shape: got {a} and {b}; reshape one of them")


def difference(who: str, predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return predictions less targets, in the predictions' dtype."""
    check_same_shape(who, predictions, targets)
    return subtract(predictions, targets if aval_of(targets).weak else as_numbers(targets, predictions))


def check_positive(who: str, name: str, value: Any, advice: str) -> None:
    """Raise where a parameter is no positive number, as far as it is known."""
    if isinstance(value, str) or (not isinstance(value, Tracer) and not value > 0):
        raise ArgumentError(f"{who}: {name} is positive: got {value}; {advice}")
