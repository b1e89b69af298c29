"""Structural primitives: cast, reshape, broadcast, sum and where, on which the rules of all other kinds stand.

Public functions of the same names stand in their families; these here take values of any level and check nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import (
    Array,
    DType,
    Function,
    bind_single,
    common_dtype,
    int64,
    is_inexact,
    promote,
    to_lower_level,
    uint64,
    wrap,
)
from afx.core.aval import Aval, Shape, aval_of, broadcast_avals, broadcast_shapes
from afx.core.primitive import (
    Algebra,
    Bools,
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    define,
    is_weak,
    register,
)
from afx.errors import ShapeError
from afx.ops._kinds.linear import batch_along_axes, batch_elementwise, batch_unchanged, in_each_part, linear

xp: Any = np  # NumPy's functions, of any arrays that answer to them


def cast(x: Any, dtype: DType) -> Array:
    """Return x in another dtype."""
    return bind_single(cast_p if is_inexact(dtype) and is_inexact(aval_of(x).dtype) else convert_p, x, dtype=dtype)


def in_floats(x: Any, who: str) -> Any:
    """Return an operand in a floating dtype, integers in the default one; what is weak stays so."""
    aval = aval_of(x, who)
    if is_weak(x):
        return x
    dtype = common_dtype((aval,), floating=True)
    return x if isinstance(x, Array) and aval.dtype == dtype else cast(x, dtype)


def reshape_as(x: Any, shape: Shape) -> Array:
    """Return the elements of x in another shape."""
    return x if isinstance(x, Array) and x.shape == shape else bind_single(reshape_p, x, shape=shape)


def broadcast(x: Any, shape: Shape) -> Array:
    """Return x repeated along new axes in front and along its axes of length 1."""
    if isinstance(x, np.generic):  # what pulling a scalar loss back begins with
        return wrap(_broadcast_run(x, shape=shape))
    return bind_single(broadcast_to_p, x, shape=shape)


def sum_over(x: Any, axis: Shape) -> Array:
    """Return the sum along axes, which are named from the front."""
    return bind_single(sum_p, x, axis=axis)


def select_where(condition: Any, x: Any, y: Any) -> Array:
    """Return x where the condition, a boolean, holds, and y elsewhere."""
    return bind_single(where_p, condition, x, y)


def reduced(shape: Shape, axis: Shape) -> Shape:
    """Return the shape without these axes."""
    return tuple([n for a, n in enumerate(shape) if a not in axis])


def numpy_of(x: Any) -> Any:
    """Return an operand as a NumPy value; a Python number takes afx's dtype."""
    return x if x.__class__ is np.ndarray else np.asarray(x, aval_of(x).dtype)


# -- cast --
def _cast_run(x: Any, *, dtype: DType) -> Any:
    with np.errstate(over="ignore"):
        if dtype.kind not in "bc" and np.asarray(x).dtype.kind == "c":
            x = np.real(x)
        x = np.asarray(x)
        return (_wrapping(x, dtype) if dtype.kind == "u" else x).astype(dtype)


def _wrapping(x: Any, dtype: DType) -> Any:
    """Return floats that become uint32 as int64, as NumPy's own results depend on strides where they do not fit."""
    return x.astype(np.int64) if dtype == np.uint32 and x.dtype.kind == "f" else x


def _cast_into(out: Any, x: Any, *, dtype: DType) -> None:
    if x.dtype.kind == "c" and dtype.kind in "iuf":
        x = x.real
    if dtype.kind == "u":
        x = _wrapping(x, dtype)
    if dtype.itemsize >= x.dtype.itemsize:
        np.copyto(out, x, casting="unsafe")
    else:
        with np.errstate(over="ignore"):
            np.copyto(out, x, casting="unsafe")


def _cast_abstract(x: Aval, *, dtype: DType) -> Aval:
    return Aval(x.shape, dtype)


def _cast_transpose(ct: Array, x: Aval, *, dtype: DType) -> Array:
    return (ct.real if ct.dtype.kind == "c" and x.dtype.kind != "c" else ct).astype(x.dtype)


cast_p = linear(
    "cast",
    _cast_run,
    _cast_abstract,
    _cast_transpose,
    batch=batch_unchanged("cast"),
    nonnegative_linear=True,
    canonical="cast",
    impl_into=_cast_into,
)
convert_p = define(
    "convert",
    "nondifferentiable",
    _cast_run,
    _cast_abstract,
    batch=batch_unchanged("convert"),
    canonical="cast",
    impl_into=_cast_into,
)


def _fit_run(x: Any, *, dtype: DType) -> Any:
    info, y = np.iinfo(dtype), np.asarray(x)
    if y.size and not (info.min <= y.min() and y.max() <= info.max):
        raise OverflowError(f"{y.min() if y.min() < info.min else y.max()} is out of bounds for {dtype}")
    return y.astype(dtype)


# what traced Python integers become beside arrays of integers, which refuse those that they do not hold
fit_p = define("fit", "nondifferentiable", _fit_run, _cast_abstract, batch=batch_unchanged("fit"), canonical="fit")


# -- reshape --
def resolved_shape(x: Any, have: Shape, shape: Shape) -> Shape:
    """Return the shape with its -1 filled in, or raise."""
    size = math.prod(have)
    if -1 in shape:
        known = math.prod([n for n in shape if n != -1])
        if shape.count(-1) == 1 and known > 0 and size % known == 0:
            return tuple([size // known if n == -1 else n for n in shape])
    elif math.prod(shape) == size and all([n >= 0 for n in shape]):
        return shape
    raise ShapeError(
        f"reshape: cannot reshape array of size {size} into shape {shape}: got {aval_of(x)}; change the shape"
    )


def _reshape_into(out: Any, x: Any, *, shape: Shape) -> None:
    np.copyto(out.reshape(x.shape), x)  # what it is given is in one piece


def _reshape_transpose(ct: Array, x: Aval, *, shape: Shape) -> Array:
    return ct.reshape(x.shape)


def _reshape_run(x: Any, *, shape: Shape) -> Any:
    return numpy_of(x).reshape(shape)


def _reshape_text(x: str, *, shape: Shape) -> str:
    return f"{x}.reshape({shape if len(shape) != 1 else shape[0]})"


def _reshape_abstract(x: Aval, *, shape: Shape) -> Aval:
    return Aval(resolved_shape(x, x.shape, shape), x.dtype)


def _reshape_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return reshape_as(xs[0], (size, *params["shape"]))


reshape_p = linear(
    "reshape",
    _reshape_run,
    _reshape_abstract,
    _reshape_transpose,
    batch=_reshape_batch,
    nonnegative_linear=True,
    may_alias=True,
    emit_view=_reshape_text,
    impl_into=_reshape_into,
    canonical="reshape",
)


# -- broadcast --
def _broadcast_run(x: Any, *, shape: Shape) -> Any:
    x = np.asarray(x) if issubclass(x.__class__, np.generic) else numpy_of(x)
    if not x.shape:  # np.broadcast_to takes microseconds, and most scalars come this way
        return np.ndarray(shape, x.dtype, x, strides=(0,) * len(shape))
    return np.broadcast_to(x, shape)


def _broadcast_abstract(x: Aval, *, shape: Shape) -> Aval:
    if broadcast_shapes([x.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: the shape does not fit: got {x} and shape {shape}; reshape it first")
    return Aval(shape, x.dtype)


def _broadcast_transpose(ct: Array, x: Aval, *, shape: Shape) -> Array:
    lead = len(shape) - x.ndim
    axes = (*range(lead), *[a for a, n in enumerate(x.shape, lead) if n == 1 and shape[a] != 1])
    return reshape_as(sum_over(ct, axes) if axes else ct, x.shape)


def _broadcast_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    x, shape = xs[0], params["shape"]
    return broadcast(reshape_as(x, (size,) + (1,) * (len(shape) - x.ndim + 1) + x.shape[1:]), (size, *shape))


broadcast_to_p = linear(
    "broadcast_to",
    _broadcast_run,
    _broadcast_abstract,
    _broadcast_transpose,
    batch=_broadcast_batch,
    nonnegative_linear=True,
    may_alias=True,
    canonical="broadcast",
)


# -- sum --
def _sum_run(x: Any, *, axis: Shape) -> Any:
    values = numpy_of(x)
    if values.dtype.char == "?" and len(axis) == values.ndim:
        return np.int64(np.count_nonzero(values))  # ten times as fast as a sum in int64
    return np.add.reduce(values, axis=axis)


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype of a sum or product: small integers and booleans grow to 64 bits."""
    if dtype.kind in "bi":
        return int64
    return uint64 if dtype.kind == "u" else dtype


def sum_aval(x: Aval, *, axis: Shape) -> Aval:
    """Return the Aval of a sum or product."""
    return Aval(reduced(x.shape, axis), sum_dtype(x.dtype))


def _sum_transpose(ct: Array, x: Aval, *, axis: Shape) -> Array:
    if len(axis) == x.ndim:
        return broadcast(ct, x.shape)
    return broadcast(reshape_as(ct, tuple([1 if a in axis else n for a, n in enumerate(x.shape)])), x.shape)


def record_reduction(ufunc: np.ufunc) -> Callable[..., None]:
    """Return the native form of a reduction in the dtype of its result, of floats in their order."""

    def native(xp: Any, out: Any, x: Any, *, axis: Shape) -> None:
        wide = xp.cast(x, out.dtype)
        xp.give(out, ufunc.reduce(xp.dense(wide) if out.dtype.kind in "biu" else wide, axis))

    return native


def _sum_native(xp: Any, out: Any, x: Any, *, axis: Shape) -> None:
    """Sum integers and booleans in the wider dtype of their sum, in which no order matters."""
    if out.dtype.kind not in "iu":
        xp.refuse(f"{out.dtype}, in an order of its own")
    record_reduction(np.add)(xp, out, x, axis=axis)


sum_p = linear(
    "sum",
    _sum_run,
    sum_aval,
    _sum_transpose,
    batch=batch_along_axes("sum"),
    nonnegative_linear=True,
    reduce_ufunc=np.add,
    native=_sum_native,
    takes_empty=True,
    parts=in_each_part("sum"),
)


# -- where --
_where: Function = np.where


def _where_run(condition: Any, x: Any, y: Any) -> Any:
    z = _where(condition, x, y)
    if z.dtype.kind in "fc" and (z.dtype is getattr(x, "dtype", None) or z.dtype is getattr(y, "dtype", None)):
        return z  # an inexact operand's own dtype is what operands promote to
    avals = [aval_of(x), aval_of(y)]
    dtype = promote((avals[0].dtype, avals[1].dtype), (avals[0].weak, avals[1].weak))
    if dtype.kind in "iu":
        for number, a in zip((x, y), avals, strict=True):
            if a.weak:
                dtype.type(number)  # raises where the dtype does not hold it: NumPy's where cuts its bits off
    return z if z.dtype == dtype else z.astype(dtype)


_BITS = {"f": np.dtype(np.int32), "d": np.dtype(np.int64)}


_MANY = 4096  # elements above which a look at the condition costs little beside the select
_RUNS = 16  # mean length of a run of equal conditions above which copying under a mask is faster


def _is_irregular(condition: Any, out: Any) -> bool:
    """Tell whether a condition changes so often that branches are predicted wrongly."""
    if out.size < _MANY or condition.shape != out.shape or not condition.flags.c_contiguous:
        return False
    flat = condition.reshape(-1)
    return bool(np.count_nonzero(flat[1:] != flat[:-1]) * _RUNS > flat.size)


def _select_bits(out: Any, condition: Any, x: Any, y: Any) -> None:
    """Choose without branches: y's bits, exchanged with x's where the condition holds."""
    bits: Any = _BITS[out.dtype.char]
    mask, other = out.view(bits), np.asarray(y, out.dtype).view(bits)
    changed = np.bitwise_xor(np.asarray(x, out.dtype).view(bits), other)
    np.negative(condition.view(np.int8), mask, casting="unsafe")
    np.bitwise_and(mask, changed, mask)
    np.bitwise_xor(mask, other, mask)


def _where_into(out: Any, condition: Any, x: Any, y: Any) -> None:
    """Write a choice into ``out``, by bits where the condition changes so often that branches cost more."""
    shape = out.shape
    if y.shape == () and x.shape == shape:
        bits = _BITS.get(out.dtype.char)
        if bits is not None and condition.shape == shape != () and y.view(bits) == 0:
            alive = out.view(bits)  # all bits where the condition holds: an "and" is far faster than a choice
            np.negative(condition.view(np.int8), alive, casting="unsafe")
            np.bitwise_and(alive, x.view(bits), alive)
            return
        if _is_irregular(condition, out) and bits is not None:
            _select_bits(out, condition, x, y)
            return
        np.copyto(out, y)
        np.copyto(out, x, where=condition)
    elif _is_irregular(condition, out) and out.dtype.char in _BITS:
        _select_bits(out, condition, x, y)
    else:
        np.copyto(out, x)
        np.copyto(out, y, where=np.logical_not(condition))


def _where_abstract(condition: Aval, x: Aval, y: Aval) -> Aval:
    shape = broadcast_avals("where", (condition, x, y))
    dtype = promote((x.dtype, y.dtype), (x.weak, y.weak))
    return Aval(shape, dtype, x.weak and y.weak and (not shape or dtype.kind in "fc"))


def _where_pull(k: int) -> Any:
    def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        zero = np.zeros((), ct.dtype)  # keeps the cotangent's dtype, as a weak 0 would under the raw NumPy
        return to_lower_level(select_where(xs[0], ct, zero) if k == 1 else select_where(xs[0], zero, ct))

    return pull


def _where_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    zero = np.zeros((), z.dtype)
    tangent = to_lower_level(select_where(xs[0], *[zero if t is None else t for t in ts[1:]]))
    return tangent if tangent.shape == z.shape else to_lower_level(broadcast(tangent, z.shape))


where_p = register(
    Primitive(
        name="where",
        kind="elementwise",
        impl=_where_run,
        abstract_eval=_where_abstract,
        batch=batch_elementwise("where"),
        derivative=Derivative(vjps=(_where_pull(0), _where_pull(1), _where_pull(2)), reads=(0, 2, 2), jvp=_where_push),
        masking=Masking(
            mask=lambda k, z, xs, params, shape: xs[0] if k == 1 else np.logical_not(xs[0]), finite_partials=True
        ),
        lowering=Lowering(impl_into=_where_into),
        algebra=Algebra(canonical="select"),
    )
)
