"""Selection: `where`, and the larger, smaller and clipped values."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import bool_
from afx.core.options import refuse_out
from afx.core.primitive import Params, Primitive, Value
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind2, bind_single
from afx.errors import ArgumentError
from afx.ops._basic import where_p
from afx.ops._kinds.elementwise import binary, elementwise, elementwise_impl
from afx.ops.creation.creation import as_array
from afx.ops.elementwise.comparison import not_equal

__all__ = [
    "clip",
    "maximum",
    "minimum",
    "where",
]


def _ties(x: Array, y: Array, chosen: Array) -> Array:
    """Return 1 where this operand is chosen, one half at a tie, 0 elsewhere."""
    return where(x == y, 0.5, chosen)


@register_function
def maximum(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the larger of x and y, nan where either is; at a tie each has half of the derivative.

    >>> maximum(1.0, 2.0)
    Array(2., dtype=float32)
    """
    return bind2(maximum_p, x, y)


maximum_p: Primitive = binary(
    "maximum",
    np.maximum,
    (lambda _z, x, y: _ties(x, y, x > y), lambda _z, x, y: _ties(x, y, y > x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
    smooth=False,
)


@register_function
def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the smaller of x and y, nan where either is; at a tie each has half of the derivative.

    >>> minimum(1.0, 2.0)
    Array(1., dtype=float32)
    """
    return bind2(minimum_p, x, y)


minimum_p: Primitive = binary(
    "minimum",
    np.minimum,
    (lambda _z, x, y: _ties(x, y, x < y), lambda _z, x, y: _ties(x, y, y < x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
    smooth=False,
)


@register_function
def clip(
    x: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """Return x limited to the interval from ``min`` to ``max``, which NumPy also calls ``a_min`` and ``a_max``.

    The derivative by x is 1 inside and on the bounds, 0 outside; a bound has the derivative where it is in force.

    Raises:
        ArgumentError: a bound is given by both of its names.

    >>> clip(np.array([-1.0, 0.5, 3.0]), 0.0, 1.0)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "clip")
    if a_min is not None or a_max is not None:
        if (a_min is not None and min is not None) or (a_max is not None and max is not None):
            raise ArgumentError(
                "clip: a bound is given twice: got min and a_min, or max and a_max; give it by one of its names"
            )
        return clip(x, a_min if min is None else min, a_max if max is None else max)
    lower = -np.inf if min is None else min
    upper = np.inf if max is None else max
    if min is None and max is None:
        return x if isinstance(x, Array) else as_array(x)
    if (min is None or max is None) and aval_of(x, "clip").dtype.kind in "biu":
        return minimum(x, upper) if min is None else maximum(x, lower)
    return bind_single(clip_p, x, lower, upper)


def _inside(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x >= lower) & (x <= upper)


def _at_upper(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (upper < lower) | (x > upper)


def _clipped(xs: tuple[Value, ...], params: Params) -> Value:
    x, lower, upper = xs
    return minimum(upper, maximum(x, lower))


_clip_any = elementwise_impl("clip", np.clip, floating=False, arity=3, kinds="biuf")


def _clip_run(x: Any, lower: Any, upper: Any) -> Any:
    if x.__class__ is np.ndarray and x.dtype.kind == "f" and lower.__class__ is upper.__class__ is float:
        return x.clip(lower, upper)  # the commonest case, without looking for the dtype
    return _clip_any(x, lower, upper)


def _at_lower(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x < lower) & (lower <= upper)


clip_p: Primitive = elementwise(
    "clip",
    np.clip,
    (_inside, _at_lower, _at_upper),
    impl=_clip_run,
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    finite_partials=True,
    smooth=False,
    decompose=_clipped,
    opaque=True,
)


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array: ...
@overload
def where(condition: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Array | tuple[Array, ...]:
    """Return x where the condition holds, y elsewhere; without both, where it holds: `nonzero`.

    What was not chosen has the derivative 0 even where the formula behind it is infinite or nan:
    ``where(x > 0, sqrt(x), 0)`` needs no second ``where``.

    Args:
        condition: bool, or numbers of which zero is false.
        x: chosen where it holds.
        y: chosen elsewhere.

    Raises:
        ArgumentError: one of x and y alone.

    >>> where(True, 1.0, 2.0)
    Array(1., dtype=float32)
    """
    if x is None or y is None:
        return _where_true(condition, x, y)
    if getattr(condition, "dtype", None) is not bool_ and aval_of(condition, "where").dtype != bool_:
        condition = not_equal(condition, 0)
    return bind_single(where_p, condition, x, y)


def _where_true(condition: ArrayLike, x: ArrayLike | None, y: ArrayLike | None) -> tuple[Array, ...]:
    if x is not None or y is not None:
        raise ArgumentError("where: takes both x and y, or neither: got one of them; give the other")
    return as_array(condition).nonzero()
