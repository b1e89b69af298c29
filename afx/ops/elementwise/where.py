"""Choices: `where`, and the larger, smaller and clipped values."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, broadcast_avals
from afx.core.dtypes import DType, bool_, promote
from afx.core.primitive import Algebra, Derivative, Lowering, Masking, Params, Primitive, Value, register
from afx.core.registry import FUNCTIONS, register_function
from afx.core.tracing.tracer import bind2, bind_single, to_lower_level
from afx.ops._kinds.elementwise import batch_elementwise, binary, elementwise
from afx.ops.elementwise.comparison import logical_not, not_equal

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


maximum_p = binary(
    "maximum",
    np.maximum,
    (lambda _z, x, y: _ties(x, y, x > y), lambda _z, x, y: _ties(x, y, y > x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
)


@register_function
def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the smaller of x and y, nan where either is; at a tie each has half of the derivative.

    >>> minimum(1.0, 2.0)
    Array(1., dtype=float32)
    """
    return bind2(minimum_p, x, y)


minimum_p = binary(
    "minimum",
    np.minimum,
    (lambda _z, x, y: _ties(x, y, x < y), lambda _z, x, y: _ties(x, y, y < x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
)


@register_function
def clip(x: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Return x limited to the interval from ``min`` to ``max``.

    The derivative by x is 1 inside and on the bounds, 0 outside; a bound has the derivative where it is in force.

    >>> clip(np.array([-1.0, 0.5, 3.0]), 0.0, 1.0)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    lower = -np.inf if min is None else min
    upper = np.inf if max is None else max
    if min is None and max is None:
        return FUNCTIONS.positive(x)
    if aval_of(x, "clip").dtype.kind in "biu" and (min is None or max is None):
        return minimum(x, upper) if min is None else maximum(x, lower)
    return bind_single(clip_p, x, lower, upper)


def _inside(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x >= lower) & (x <= upper)


def _at_lower(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x < lower) & (lower <= upper)


def _at_upper(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (upper < lower) | (x > upper)


def _clipped(xs: tuple[Value, ...], params: Params) -> Value:
    x, lower, upper = xs
    return minimum(upper, maximum(x, lower))


clip_p = elementwise(
    "clip",
    np.clip,
    (_inside, _at_lower, _at_upper),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    finite_partials=True,
    smooth=False,
    decompose=_clipped,
    opaque=True,
)


@register_function
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """Return x where the condition holds, y elsewhere.

    What was not chosen has the derivative 0 even where the formula behind it is infinite or nan:
    ``where(x > 0, sqrt(x), 0)`` needs no second ``where``.

    Args:
        condition: bool, or numbers of which zero is false.
        x: chosen where it holds.
        y: chosen elsewhere.

    >>> where(True, 1.0, 2.0)
    Array(1., dtype=float32)
    """
    if aval_of(condition, "where").dtype != bool_:
        condition = not_equal(condition, 0)
    return bind_single(where_p, condition, x, y)


def _cast(z: Any, dtype: DType) -> Any:
    return z if z.dtype == dtype else z.astype(dtype)


def _where_run(condition: Any, x: Any, y: Any) -> Any:
    avals = [aval_of(x), aval_of(y)]
    dtype = promote((avals[0].dtype, avals[1].dtype), (avals[0].weak, avals[1].weak))
    if dtype.kind in "iu":
        for number, a in zip((x, y), avals, strict=True):
            if a.weak:
                dtype.type(number)  # raises where the dtype does not hold it: NumPy's where cuts its bits off
    return _cast(np.where(condition, x, y), dtype)


_BITS = {"f": np.dtype(np.int32), "d": np.dtype(np.int64)}


def _where_into(out: Any, condition: Any, x: Any, y: Any) -> None:
    shape = out.shape
    if y.shape == () and x.shape == shape:
        bits = _BITS.get(out.dtype.char)
        if bits is not None and condition.shape == shape != () and y.view(bits) == 0:
            alive = out.view(bits)  # all bits where the condition holds: an "and" is far faster than a choice
            np.negative(condition.view(np.int8), alive, casting="unsafe")
            np.bitwise_and(alive, x.view(bits), alive)
            return
        np.copyto(out, y)
        np.copyto(out, x, where=condition)
    else:
        np.copyto(out, x)
        np.copyto(out, y, where=np.logical_not(condition))


def _where_abstract(condition: Aval, x: Aval, y: Aval) -> Aval:
    shape = broadcast_avals("where", (condition, x, y))
    return Aval(shape, promote((x.dtype, y.dtype), (x.weak, y.weak)), x.weak and y.weak)


def _where_pull(k: int) -> Any:
    def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        zero = np.zeros((), ct.dtype)  # keeps the cotangent's dtype, as a weak 0 would under the raw NumPy
        return to_lower_level(where(xs[0], ct, zero) if k == 1 else where(xs[0], zero, ct))

    return pull


def _where_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    zero = np.zeros((), z.dtype)
    found = to_lower_level(where(xs[0], *[zero if t is None else t for t in ts[1:]]))
    return found if found.shape == z.shape else to_lower_level(FUNCTIONS.broadcast_to(found, z.shape))


def _where_mask(k: int, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape) -> Value:
    return xs[0] if k == 1 else logical_not(xs[0])


where_p = register(
    Primitive(
        name="where",
        kind="elementwise",
        impl=_where_run,
        abstract_eval=_where_abstract,
        batch=batch_elementwise("where"),
        derivative=Derivative(vjps=(_where_pull(0), _where_pull(1), _where_pull(2)), reads=(0, 2, 2), jvp=_where_push),
        masking=Masking(mask=_where_mask, finite_partials=True),
        lowering=Lowering(impl_into=_where_into),
        algebra=Algebra(canonical="select"),
    )
)
