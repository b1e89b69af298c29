"""Arguments of samplers: a key, a shape, a dtype, and parameters that broadcast to the shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, aval_of, broadcast_avals, broadcast_shapes, checked_shape
from afx.core.dtypes import DType, check_dtype, get_default_dtype, promote
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.manipulation.shape import astype
from afx.ops.random.bits import check_key

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "ShapeLike",
    "checked_key",
    "drawn_shape",
    "floating",
    "require_order",
    "require_positive",
    "require_probability",
    "require_scale",
    "resolve_arguments",
]

ShapeLike = int | Sequence[int] | None


def checked_key(key: ArrayLike, who: str) -> ArrayLike:
    """Return a key, or raise `ArgumentError` where it is none, or many."""
    check_key(key, who)
    if len(key.shape) != 1:  # type: ignore[union-attr]  # a key has a shape
        raise ArgumentError(f"{who}: takes one key, uint32[2]: got {aval_of(key)}; use vmap for several")
    return key


def floating(dtype: DTypeLike | None, who: str, *params: ArrayLike) -> DType:
    """Return the real floating dtype that is asked for, or that the parameters have together."""
    if dtype is None:
        avals = [aval_of(x, who) for x in params]
        found = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating=True)
    else:
        found = check_dtype(dtype, who)
    if found.kind != "f":
        raise DtypeError(f"{who}: draws real floating numbers: got {found}; use afx.float32 or afx.float64")
    return found


def resolve_arguments(
    who: str, key: ArrayLike, shape: ShapeLike, dtype: DTypeLike | None, *params: Any
) -> tuple[Shape, DType, list[Any]]:
    """Return a draw's shape, its floating dtype, and its parameters in that dtype; Python numbers stay as they are.

    Raises:
        ArgumentError: the key is none.
        DtypeError: the dtype is not a real floating one.
        ShapeError: the parameters do not broadcast to the shape.
    """
    checked_key(key, who)
    if dtype is None and shape is not None and all(x.__class__ is float for x in params):
        return checked_shape(shape, who), get_default_dtype(), list(params)
    found = floating(dtype, who, *params)
    lengths = drawn_shape(who, shape, *params)
    cast = [float(x) if isinstance(x, (int, float)) else astype(x, found) for x in params]
    return lengths, found, cast


def drawn_shape(who: str, shape: ShapeLike, *params: ArrayLike) -> Shape:
    """Return the shape of a draw: the one asked for, or that of its parameters."""
    avals = [aval_of(x, who) for x in params]
    if shape is None:
        return broadcast_avals(who, avals) if avals else ()
    lengths = checked_shape(shape, who)
    if broadcast_shapes([lengths, *[a.shape for a in avals]]) != lengths:
        got = ", ".join(map(str, avals))
        raise ShapeError(f"{who}: parameters do not broadcast to the shape: got {got} and shape {lengths}; widen it")
    return lengths


def _values_of(*params: Any) -> list[Any] | None:
    """Return the bare values of parameters, None where one is traced: those are trusted."""
    if any(isinstance(x, Tracer) for x in params):
        return None
    return [x._value if isinstance(x, Array) else x for x in params]


def _refuse(who: str, what: str, *params: Any) -> NoReturn:
    got = ", ".join([repr(x) if isinstance(x, (int, float)) else str(aval_of(x)) for x in params])
    raise ArgumentError(f"{who}: {what}: got {got}; change it")


def require_positive(who: str, name: str, x: Any) -> None:
    """Raise `ArgumentError` where a parameter whose value is known is not above 0."""
    values = _values_of(x)
    if values and not np.all(values[0] > 0):
        _refuse(who, f"{name} is above 0", x)


def require_scale(who: str, x: Any, name: str = "a scale") -> None:
    """Raise `ArgumentError` where a parameter whose value is known is below 0."""
    if x.__class__ is float and x >= 0:
        return
    values = _values_of(x)
    if values and not np.all(values[0] >= 0):
        _refuse(who, f"{name} is 0 or more", x)


def require_probability(who: str, x: Any) -> None:
    """Raise `ArgumentError` where a probability whose value is known does not lie from 0 to 1."""
    values = _values_of(x)
    if values and not (np.all(values[0] >= 0) and np.all(values[0] <= 1)):
        _refuse(who, "a probability lies from 0 to 1", x)


def require_order(who: str, low: Any, high: Any) -> None:
    """Raise `ArgumentError` where a lower bound whose value is known lies above the upper one."""
    if low.__class__ is high.__class__ is float and low <= high:
        return
    values = _values_of(low, high)
    if values and not np.all(values[0] <= values[1]):
        _refuse(who, "low lies below high", low, high)
