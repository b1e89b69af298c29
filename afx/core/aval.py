"""Abstract values: shape, dtype and weakness of an array without its numbers."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from afx.core.dtypes import KEPT, DType, data_dtype, promote, weak_dtype
from afx.errors import ArgumentError, AxisError, OperandError, ShapeError, TracerError
from afx.pytree.nodes import is_table, table_values

Shape = tuple[int, ...]

SCALARS = (bool, int, float, complex)
NUMPY: Any = (np.ndarray, np.generic)


class Aval:
    """The shape and dtype of an array, printed ``float32[8,3]``.

    Attributes:
        shape: lengths of the axes.
        dtype: the NumPy dtype.
        weak: whether it stands for a Python scalar, which takes the dtype of what it meets (printed ``float32[]~``).
        size: the number of elements.

    >>> str(Aval((8, 3), np.dtype("float32")))
    'float32[8,3]'
    """

    # written by hand: one is made at every operation of a trace, and each is asked a hundred times
    __slots__ = ("dtype", "shape", "size", "weak")

    shape: Shape
    dtype: DType
    weak: bool
    size: int

    def __init__(self, shape: Shape, dtype: DType, weak: bool = False) -> None:
        _set_shape(self, shape)
        _set_dtype(self, dtype)
        _set_weak(self, weak)
        _set_size(self, math.prod(shape))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Aval: {name} cannot be set: got {value!r}; make a new Aval")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aval):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.weak == other.weak

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak))

    def __reduce__(self) -> tuple[type[Aval], tuple[Shape, DType, bool]]:
        return (Aval, (self.shape, self.dtype, self.weak))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes the elements take."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]{'~' if self.weak else ''}"

    __repr__ = __str__

    __afx_leaf__ = True  # a pytree of Avals has them as its leaves (eval_shape)


# what sets the attributes of a new Aval, and nothing else does
_set_shape: Callable[[Aval, Shape], None] = Aval.__dict__["shape"].__set__
_set_dtype: Callable[[Aval, DType], None] = Aval.__dict__["dtype"].__set__
_set_weak: Callable[[Aval, bool], None] = Aval.__dict__["weak"].__set__
_set_size: Callable[[Aval, int], None] = Aval.__dict__["size"].__set__


def aval_of(x: Any, who: str = "afx") -> Aval:
    """Return the Aval of an array, NumPy value or Python number.

    Raises:
        OperandError: ``x`` is none of these; the message says how to make it one.
    """
    kind = x.__class__
    if kind in SCALARS:
        return Aval((), weak_dtype(kind), True)
    aval = None if kind is np.ndarray else x if kind is Aval else getattr(x, "aval", None)
    if isinstance(aval, Aval):
        return aval
    if isinstance(x, NUMPY):
        return Aval(x.shape, x.dtype if x.dtype.char in KEPT and x.dtype.isnative else data_dtype(x.dtype, who))
    for kind in SCALARS:  # subclasses of int and float, such as IntEnum
        if isinstance(x, kind):
            return Aval((), weak_dtype(kind), True)
    if is_table(x.__class__):
        return aval_of(operand_values(x, who), who)
    advice = ", in the dtype of your data" if x.__class__ in (list, tuple) else ""
    raise OperandError(
        f"{who}: operands are arrays and numbers: got {type(x).__name__} ({_excerpt(x)}); convert it with afx.asarray{advice}"
    )


def shape_of(x: Any, who: str = "afx") -> Shape:
    """Return the shape of an array, NumPy value or Python number; the quick way to the commonest question."""
    shape: Any = getattr(x, "shape", None)
    return shape if shape.__class__ is tuple else aval_of(x, who).shape


def _excerpt(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "…"


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape | None:
    """Return the shape these broadcast to, or None where they do not fit.

    >>> broadcast_shapes([(8, 1), (3,)])
    (8, 3)
    """
    first = shapes[0]
    for shape in shapes:
        if shape != first and shape and first:
            break
        first = first or shape
    else:
        return first  # the one that they have, numbers aside
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            if length != 1 and result[axis] not in (1, length):
                return None
            if length != 1:
                result[axis] = length
    return tuple(result)


def widest_of_alike(avals: Sequence[Aval]) -> Aval | None:
    """Return the Aval that others broadcast to, if all have one dtype, none is weak, and each has its shape or no axes.

    None elsewhere: this is the quick way to the commonest answer.
    """
    wide = avals[0]
    for a in avals:  # a loop: a call for each operand would cost more than the rest
        if a.dtype is not wide.dtype or a.weak:
            return None
        if a.shape != wide.shape and a.shape:
            if wide.shape:
                return None
            wide = a
    return wide


def common_dtype(avals: Sequence[Aval], floating: bool = False) -> DType:
    """Return the dtype in which an operation on these operands computes, which has no integer result if it is floating."""
    return promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating)


def broadcast_avals(name: str, avals: Sequence[Aval]) -> Shape:
    """Return the common shape of an elementwise operation's operands, or raise `ShapeError`."""
    shape = broadcast_shapes([a.shape for a in avals])
    if shape is None:
        got = ", ".join(map(str, avals))
        raise ShapeError(
            f"{name}: operands could not be broadcast together: got {got}; reshape an operand or add axes of length 1"
        )
    return shape


def normalize_axis(axis: int, ndim: int, who: str) -> int:
    """Return ``axis`` counted from the front.

    Raises:
        ArgumentError: it is no integer.
        AxisError: the array has no such axis.
    """
    place = axis if axis.__class__ is int else integer(axis, who, "an axis")
    if not -ndim <= place < ndim:
        hint = f"use an axis from {-ndim} to {ndim - 1}" if ndim else "a 0-d array has no axes"
        raise AxisError(f"{who}: axis {place} is out of bounds for array of dimension {ndim}: got axis={axis}; {hint}")
    return place % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, who: str) -> Shape:
    """Return axes counted from the front, sorted, without repeats; None means all of them.

    Raises:
        ArgumentError: one is no integer.
        AxisError: the array has no such axis.
        ShapeError: an axis is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given: Any = axis if _are_several(axis) else (axis,)
    axes = sorted(normalize_axis(a, ndim, who) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{who}: duplicate value in axis: got axis={axis}; name each once")
    return tuple(axes)


def _are_several(given: Any) -> bool:
    """Tell a sequence or a vector from one number."""
    return isinstance(given, Sequence) or bool(getattr(given, "ndim", False))


def checked_shape(shape: int | Sequence[int], who: str) -> Shape:
    """Return a shape, of a length, a sequence or a vector of them, as a tuple.

    Raises:
        ArgumentError: a length is no integer.
        ShapeError: a length is negative.
    """
    if type(shape) is int and shape >= 0:
        return (shape,)
    given: Any = shape if _are_several(shape) else (shape,)
    lengths = tuple([integer(n, who, "a length of the shape") for n in given])
    if any(n < 0 for n in lengths):
        raise ShapeError(f"{who}: negative dimensions are not allowed: got shape {lengths}; change the shape")
    return lengths


def integer(given: Any, who: str, what: str, kind: str = "an integer") -> int:
    """Return an integer of any kind as an int.

    Args:
        given: what the caller gave.
        who: the operation, for errors.
        what: the name of the argument, for errors.
        kind: what it may be, for errors.

    Raises:
        TracerError: a traced number, on which what is computed cannot depend.
        ArgumentError: anything else that is not an integer.
    """
    try:
        if given.__class__ is not np.bool_:  # which NumPy takes for a number before 2.3
            return operator.index(given)
    except TracerError as error:
        raise type(error)(f"{who}: {what} must be known, since what is computed depends on it: {error}") from None
    except TypeError:
        pass
    raise ArgumentError(f"{who}: {what} is {kind}: got {given!r}; convert it")


DEEPEST = 8  # calls between an operator and its operands' values


def operand_values(table: Any, who: str) -> Any:
    """Return the values of a table of pandas, or raise where it is beside a plain Array's operator, which it answers."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(DEEPEST):
        if frame is None:
            break
        here = frame.f_locals
        if frame.f_code.co_qualname.startswith("Operators.") and here.get("other") is table:
            if not hasattr(here["self"], "_trace"):
                raise OperandError(
                    f"{who}: the table's operator is asked first: got {type(table).__name__}; use a function"
                )
            break
        frame = frame.f_back
    return table_values(table)
