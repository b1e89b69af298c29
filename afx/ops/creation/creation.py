"""Creation: arrays from data, numbers and shapes, promotion of operands, and stopped gradients."""

from __future__ import annotations

from array import array as PythonArray
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from afx import pytree
from afx.core import Aval, DTypeLike, Tracer, aval_of, bind, checked_shape, integer, register_function
from afx.core.array.array import Array, ArrayLike, is_owned, snapshot, wrap
from afx.core.dtypes import check_dtype, data_dtype, default_complex, get_default_dtype
from afx.core.numpy_names import Order, check_device, check_memory_order, refuse_out
from afx.core.primitive import NUMPY_OF, Primitive, weak_or_strong
from afx.errors import CopyError, OperandError
from afx.ops._basic import broadcast, cast, numpy_of
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.linear import batch_unchanged
from afx.ops.indexing.index import is_sequence
from afx.pytree.trees import use_converter

if TYPE_CHECKING:
    from typing_extensions import Buffer


# --- Creation
#
# Wherever a ``device`` can be named it is ``"cpu"``, the only one; another raises `ArgumentError`.

Nested: TypeAlias = "ArrayLike | Sequence[Nested]"
SEQUENCES: frozenset[Any] = frozenset({list, tuple})  # types of operands that become arrays


@register_function
def asarray(
    obj: Nested | Buffer,
    dtype: DTypeLike | None = None,
    order: Order | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """Return an Array of the elements of an array, a number or nested sequences of them.

    NumPy arrays keep their dtype and are copied, so that writing into them later changes nothing. Python floats take
    the default dtype. Sequences may hold traced arrays, which are stacked.

    Args:
        obj: the elements; whatever NumPy reads as an array, such as a memoryview, will do.
        dtype: that of the elements unless given.
        order: has no effect: arrays are in row-major order.
        device: ``"cpu"``, the only one.
        copy: False refuses to copy; True has no effect, since arrays are immutable.

    Raises:
        OperandError: not numbers, or sequences of unequal lengths.
        CopyError: ``copy=False``, and the memory is not afx's own.

    >>> asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if order is not None:
        check_memory_order(order, "asarray")
    check_device(device, "asarray")
    target = None if dtype is None else check_dtype(dtype, "asarray")
    if copy is False:
        _check_uncopied(obj, target)
    if isinstance(obj, Array):
        if obj.__class__ is not Array and obj.aval.weak:
            # a traced number becomes an array, as Python's own do
            kinds = {"f": get_default_dtype, "c": default_complex}
            target = target or (kinds[obj.dtype.kind]() if obj.dtype.kind in kinds else obj.dtype)
        return obj if target is None else cast(obj, target) if obj.dtype != target or obj.aval.weak else obj
    if isinstance(obj, (np.ndarray, np.generic)):
        value = snapshot(obj, "asarray")
        return wrap(value if target is None else value.astype(target))
    if _holds_tracer(obj):
        return _stack_arrays(obj, target)
    return wrap(_convert_numbers(obj, target))


def operand_of(x: ArrayLike, out: object, who: str) -> ArrayLike:
    """Return an operand of a function that takes no target to write into, a sequence as an array."""
    refuse_out(out, who)
    return asarray(x) if x.__class__ in SEQUENCES else x


def as_array(x: Any) -> Array:
    """Return an operand as an Array; what is weak stays so."""
    if isinstance(x, Array):
        return x
    return weak_or_strong(NUMPY_OF[x.__class__](x)) if x.__class__ in (float, complex) else asarray(x)


def _check_uncopied(obj: Any, target: Any) -> None:
    """Raise where an Array of this could only be made by copying."""
    got = obj.__class__.__name__
    if isinstance(obj, Array) or (isinstance(obj, np.ndarray) and is_owned(obj)):  # pyright: ignore[reportUnknownArgumentType]  # a user's array
        if target is None or target == aval_of(obj).dtype:
            return
        got = str(aval_of(obj))
    raise CopyError(f"asarray: cannot be had without a copy: got {got} and copy=False; drop copy=False")


def _stack_arrays(obj: Any, target: Any, beside: Sequence[Any] = ()) -> Array:
    """Return traced arrays in nested sequences as one; Python's floats beside them have these floating dtypes' digits."""
    dtypes = beside or _floating_dtypes(obj)
    like = np.empty(0, np.result_type(*dtypes)) if target is None and dtypes else None
    parts: Any = [
        _stack_arrays(o, target, dtypes)
        if _holds_tracer(o)
        else asarray(o, target)
        if like is None
        else promote_operands(like, o)[1]
        for o in obj
    ]
    join: Any = np.stack  # of Arrays, so afx's own
    stacked: Array = join(parts)
    return stacked


def _holds_tracer(obj: Any) -> bool:
    return isinstance(obj, (list, tuple)) and any(isinstance(o, Tracer) or _holds_tracer(o) for o in obj)  # pyright: ignore[reportUnknownVariableType]  # a user's nested sequence


def _convert_numbers(obj: Any, target: Any) -> Any:
    """Return a NumPy array of Python numbers, floats in the default dtype unless NumPy data is among them."""
    try:
        value = np.array(obj, dtype=target)
    except (TypeError, ValueError, OverflowError) as error:
        advice = "give equal lengths" if target is None else f"give equal lengths of numbers that {target} holds"
        raise OperandError(f"asarray: not an array of numbers ({error}): got {type(obj).__name__}; {advice}") from error
    if value.dtype.kind == "O":
        raise OperandError(
            f"asarray: not an array of numbers: got {type(obj).__name__} {obj!r:.60}; give a list, or an array of numbers"
        )
    if target is not None:
        return value
    own = data_dtype(value.dtype, "asarray")
    if own.kind in "fc" and not _holds_numpy(obj):
        own = get_default_dtype() if own.kind == "f" else default_complex()
    return value.astype(own, copy=False)


def _holds_numpy(obj: Any) -> bool:
    if isinstance(obj, (list, tuple)):
        return any(_holds_numpy(o) for o in obj)  # pyright: ignore[reportUnknownVariableType]  # a user's nested sequence
    return hasattr(obj, "dtype") or hasattr(obj, "__array__") or isinstance(obj, (bytearray, memoryview, PythonArray))


@register_function
def array(
    obj: Nested | Buffer,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = None,
    order: Order = "K",
    subok: bool = False,
    ndmin: int = 0,
) -> Array:
    """Return an Array of the elements; `asarray` under NumPy's other name.

    Args:
        obj: the elements, as in `asarray`.
        dtype: that of the elements unless given.
        copy: False refuses to copy; True has no effect, since arrays are immutable.
        order: has no effect: arrays are in row-major order.
        subok: has no effect.
        ndmin: the least number of axes: axes of length 1 stand in front where there are fewer.

    >>> array([1, 2])
    Array([1, 2], dtype=int64)
    """
    check_memory_order(order, "array")
    x = asarray(obj, dtype, copy=copy)
    lead = integer(ndmin, "array", "ndmin") - x.ndim
    return broadcast(x, (1,) * lead + x.shape) if lead > 0 else x


@register_function
def copy(x: Nested, order: Order = "K", subok: bool = False) -> Array:
    """Return an Array of the elements: an Array itself, which is immutable, and a copy of anything else.

    >>> copy(np.array([1.0]))
    Array([1.], dtype=float64)
    """
    check_memory_order(order, "copy")
    return asarray(x)


@register_function
def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """Return a copy of an array of another library that speaks DLPack, and an Array as it is.

    Args:
        x: an array with ``__dlpack__``.
        device: ``"cpu"``, the only one.
        copy: False refuses to copy, as every array of another library is: it could be written into.

    Raises:
        CopyError: ``copy=False``, and the array is not afx's own.
        ArgumentError: another device.
        OperandError: x does not speak DLPack.

    >>> from_dlpack(np.arange(2))
    Array([0, 1], dtype=int64)
    """
    check_device(device, "from_dlpack")
    if isinstance(x, Array):
        return x
    if copy is False:
        raise CopyError(
            f"from_dlpack: memory of other libraries is copied: got {type(x).__name__} and copy=False; drop copy=False"
        )
    if not hasattr(x, "__dlpack__"):
        raise OperandError(f"from_dlpack: {type(x).__name__} does not speak DLPack: got {x!r}; call afx.asarray")
    exporter: Any = x
    return asarray(np.from_dlpack(exporter))


def _fill(
    shape: int | Sequence[int], value: Any, dtype: DTypeLike | None, order: object, device: str | None, who: str
) -> Array:
    check_memory_order(order, who)
    check_device(device, who)
    target = get_default_dtype() if dtype is None else check_dtype(dtype, who)
    return wrap(np.full(checked_shape(shape, who), value, target))


@register_function
def zeros(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, order: Order = "C", *, device: str | None = None
) -> Array:
    """Return an array of zeros, of the default dtype unless one is given.

    Raises:
        ShapeError, ArgumentError: a length is negative or no integer.

    >>> zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill(shape, 0, dtype, order, device, "zeros")


@register_function
def ones(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, order: Order = "C", *, device: str | None = None
) -> Array:
    """Return an array of ones, of the default dtype unless one is given.

    >>> ones(2)
    Array([1., 1.], dtype=float32)
    """
    return _fill(shape, 1, dtype, order, device, "ones")


@register_function
def empty(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, order: Order = "C", *, device: str | None = None
) -> Array:
    """Return an array of zeros: an immutable array could never be filled in later.

    >>> empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill(shape, 0, dtype, order, device, "empty")


@register_function
def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "C",
    *,
    device: str | None = None,
) -> Array:
    """Return an array that holds one value everywhere; differentiable in that value.

    Args:
        shape: the lengths of the axes.
        fill_value: a number or 0-d array; an array that broadcasts to the shape works as well.
        dtype: that of the value unless given.
        order: has no effect: arrays are in row-major order.
        device: ``"cpu"``, the only one.

    >>> full(2, 7.0)
    Array([7., 7.], dtype=float32)
    """
    check_device(device, "full")
    check_memory_order(order, "full")
    value = as_array(fill_value) if dtype is None else asarray(fill_value, dtype)
    return broadcast(value, checked_shape(shape, "full"))


def _like(
    x: ArrayLike, dtype: DTypeLike | None, order: object, shape: int | Sequence[int] | None, who: str
) -> tuple[int | Sequence[int], Any]:
    check_memory_order(order, who)
    aval = aval_of(x, who)
    return aval.shape if shape is None else shape, aval.dtype if dtype is None else dtype


@register_function
def zeros_like(
    x: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Return zeros of the shape and dtype of x, or of another ``shape``; ``order`` and ``subok`` have no effect.

    >>> zeros_like(ones(2))
    Array([0., 0.], dtype=float32)
    """
    return zeros(*_like(x, dtype, order, shape, "zeros_like"), device=device)


@register_function
def ones_like(
    x: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Return ones of the shape and dtype of x, or of another ``shape``; ``order`` and ``subok`` have no effect.

    >>> ones_like(zeros(2))
    Array([1., 1.], dtype=float32)
    """
    return ones(*_like(x, dtype, order, shape, "ones_like"), device=device)


@register_function
def empty_like(
    x: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Return zeros of the shape and dtype of x, or of another ``shape``; ``order`` and ``subok`` have no effect.

    >>> empty_like(ones(2))
    Array([0., 0.], dtype=float32)
    """
    return zeros(*_like(x, dtype, order, shape, "empty_like"), device=device)


@register_function
def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Return an array of the shape and dtype of x, or of another ``shape``, that holds one value everywhere.

    >>> full_like(zeros(2), 7.0)
    Array([7., 7.], dtype=float32)
    """
    lengths, target = _like(x, dtype, order, shape, "full_like")
    return full(lengths, fill_value, target, device=device)


@register_function
def to_device(x: ArrayLike, device: str, /, *, stream: object = None) -> Array:
    """Return x itself; the only device is ``"cpu"``.

    Raises:
        ArgumentError: another device.

    >>> to_device(afx.ones(1), "cpu")
    Array([1.], dtype=float32)
    """
    check_device(device, "to_device")
    return asarray(x)


use_converter(asarray)


# --- Promotion of operands: nested Python numbers take the dtype of the arrays they meet


@register_function
def promote_operands(*operands: Any) -> list[Array]:
    """Return operands as arrays; Python's floats, nested in lists too, take the floating dtype of those that have one.

    By themselves they would take the default dtype, and lose digits where they meet float64.

    >>> promote_operands(np.array([1.0]), [0.1, 0.2])[1]
    Array([0.1, 0.2], dtype=float64)
    """
    if all(x.__class__ is Array for x in operands):
        return list(operands)
    dtypes = _floating_dtypes([x for x in operands if not is_sequence(x)])
    if not dtypes:
        return [as_array(x) for x in operands]
    dtype = np.result_type(*dtypes)
    real = np.finfo(dtype).dtype
    return [asarray(x, {"f": real, "c": np.result_type(dtype, np.complex64)}.get(_kind(x))) for x in operands]


def _kind(x: Any) -> str:
    """Return the kind of dtype that Python's numbers have, the empty string where there are arrays among them."""
    if not is_sequence(x):
        if hasattr(x, "dtype"):
            return x.dtype.kind if _is_weak_array(x) else ""
        return np.dtype(type(x)).kind if isinstance(x, (int, float, complex)) else ""
    kinds = {_kind(item) for item in x}
    return "" if "" in kinds else max(kinds, key="biufc".index, default="")


def _floating_dtypes(x: Any) -> list[Any]:
    """Return the floating dtypes of arrays in nested sequences, without those of traced Python numbers."""
    if is_sequence(x):
        return [dtype for item in x for dtype in _floating_dtypes(item)]
    return [x.dtype] if hasattr(x, "dtype") and x.dtype.kind in "fc" and not _is_weak_array(x) else []


def _is_weak_array(x: Any) -> bool:
    return isinstance(x, Array) and x.aval.weak


# --- Stopped gradients: `stop_gradient` gives a value that derivatives see as a constant

T = TypeVar("T")


@register_function
def stop_gradient(x: T) -> T:
    """Return a tree of arrays with the same values, whose derivative is 0.

    Under `grad` the result is a plain value: ``float(stop_gradient(x))`` and ``np.asarray(stop_gradient(x))`` work.

    >>> import afx
    >>> afx.grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float32)
    """
    return pytree.map(lambda leaf: bind(stop_gradient_p, leaf), x)


def _abstract(x: Aval) -> Aval:
    return Aval(x.shape, x.dtype)


stop_gradient_p: Primitive = nondifferentiable(
    "stop_gradient",
    numpy_of,
    _abstract,
    batch=batch_unchanged("stop_gradient"),
    may_alias=True,
    canonical="stop_gradient",
)
