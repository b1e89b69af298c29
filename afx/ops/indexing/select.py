"""Selection among arrays: by conditions, by index, by functions of pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, broadcast_avals, normalize_axis
from afx.core.dtypes import promote
from afx.core.options import refuse_out
from afx.core.registry import register_function
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, IndexRangeError, OperandError, ShapeError
from afx.ops.creation.creation import Nested, as_array, asarray, zeros
from afx.ops.creation.promotion import promote_operands
from afx.ops.elementwise.arithmetic import remainder
from afx.ops.elementwise.comparison import not_equal
from afx.ops.elementwise.where import clip, where
from afx.ops.indexing.gather import gather
from afx.ops.indexing.getitem import getitem
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.shape import astype, broadcast_to, reshape

__all__ = ["choose", "compress", "extract", "piecewise", "select"]


@register_function
def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """Return, elementwise, the choice whose condition is the first to hold; what is not chosen has derivative 0.

    Args:
        condlist: conditions, bool.
        choicelist: as many arrays; all broadcast to one shape.
        default: where none holds.

    Raises:
        ArgumentError: none, or not as many choices as conditions.
        DtypeError: a condition that is not bool.

    >>> x = np.array([1.0, 2.0, 3.0])
    >>> select([x < 2, x < 3], [x, 10 * x])
    Array([ 1., 20.,  0.], dtype=float64)
    """
    if not is_sequence(condlist) or not is_sequence(choicelist):
        raise OperandError("select: takes lists of conditions and of choices: got something else; write [c], [x]")
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"select: takes one choice for each condition: got {len(condlist)} conditions and {len(choicelist)} choices; "
            "give at least one of each, and as many"
        )
    condlist = [asarray(c) if is_sequence(c) else c for c in condlist]
    choicelist = [promote_operands(v, *choicelist)[0] if is_sequence(v) else v for v in choicelist]
    avals = [aval_of(v, "select") for v in (*condlist, *choicelist, default)]
    for a in avals[: len(condlist)]:
        if a.dtype.kind != "b":
            raise DtypeError(f"select: conditions are booleans: got {a}; compare with 0")
    shape = broadcast_avals("select", avals)
    values = avals[len(condlist) :]
    dtype = promote(tuple([a.dtype for a in values]), tuple([a.weak for a in values]))
    z: Any = astype(default, dtype)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        z = where(condition, astype(choice, dtype), z)
    return broadcast_to(z, shape)


@register_function
def choose(
    x: ArrayLike | Sequence[int],
    choices: Sequence[ArrayLike] | ArrayLike,
    out: None = None,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Array:
    """Return, elementwise, the element of the choice that an index names; what is not chosen has derivative 0.

    Args:
        x: integers.
        choices: arrays, or one array whose first axis they lie along; all broadcast to one shape.
        out: None: results are not written into arrays.
        mode: what becomes of indices that are out of range: ``"raise"`` an error, ``"wrap"`` counts them around,
            ``"clip"`` takes the nearest.

    Raises:
        DtypeError: indices that are not integers.
        IndexRangeError: indices out of range, where they are known.
        ArgumentError: another mode.

    >>> choose([0, 1, 0], [np.array([1.0, 2.0, 3.0]), 0.0])
    Array([1., 0., 3.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "choose")
    index = asarray(x)
    if index.dtype.kind not in "biu":
        raise DtypeError(f"choose: indices are integers: got {index.aval}; convert them with astype")
    parts: list[Any] = _list_choices(choices)
    n = len(parts)
    if mode == "wrap":
        index = remainder(index, n)
    elif mode == "clip":
        index = clip(index, 0, n - 1)
    elif mode == "raise":
        index = _check_range(index, n)
    else:
        raise ArgumentError(f"choose: mode is 'raise', 'wrap' or 'clip': got {mode!r}; take one of them")
    parts = [promote_operands(v, *parts)[0] if is_sequence(v) else v for v in parts]
    return select([index == k for k in range(n - 1)], parts[:-1], parts[-1]) if n > 1 else _only(index, parts[0])


def _list_choices(choices: Any) -> list[Any]:
    return list(choices if is_sequence(choices) else asarray(choices))


def _check_range(index: Array, n: int) -> Array:
    """Return indices after checking their range: now where they are known, else when the compiled function runs."""
    wrong = (index < 0) | (index >= n)
    try:
        if wrong.any():
            raise IndexRangeError(f"choose: an index is out of bounds: got {index!r} for {n} choices; use mode='clip'")
    except ConcreteValueError:
        return gather(np.arange(n), where(wrong, n, index))
    return index


def _only(index: Array, choice: ArrayLike) -> Array:
    return broadcast_to(choice, broadcast_avals("choose", [index.aval, aval_of(choice)]))


@register_function
def piecewise(
    x: ArrayLike,
    condlist: Sequence[ArrayLike] | ArrayLike,
    funclist: Sequence[Callable[..., ArrayLike] | ArrayLike],
    *args: object,
    **kw: object,
) -> Array:
    """Return functions of x, each where its condition holds, the last of those that do; 0 where none does.

    Every function sees the whole of x; what it gives elsewhere is not used and has derivative 0, even where it is
    infinite or nan.

    Args:
        x: any shape.
        condlist: conditions of x's shape.
        funclist: functions, or numbers, one for each condition; one more stands for everywhere else.
        *args: further arguments of the functions.
        **kw: and their named ones.

    Raises:
        ArgumentError: not as many functions as conditions, or one more.

    >>> x = np.array([-1.0, 4.0])
    >>> piecewise(x, [x > 0], [np.sqrt, -1.0])
    Array([-1.,  2.], dtype=float64)
    """
    y = as_array(x)
    conditions = _conditions(condlist, y)
    z: Any = zeros(y.shape, y.dtype)
    if not is_sequence(funclist):
        raise OperandError(f"piecewise: takes a list of functions or numbers: got {funclist!r}; write [f, g]")
    pieces = list(funclist)
    if len(pieces) == len(conditions) + 1:
        z = _piece(pieces.pop(), y, args, kw)
    if len(pieces) != len(conditions):
        raise ArgumentError(
            f"piecewise: takes a function for each condition, or one more: got {len(conditions)} conditions and "
            f"{len(pieces)} functions; add functions or leave some out"
        )
    for condition, piece in zip(conditions, pieces, strict=True):
        z = where(condition, _piece(piece, y, args, kw), z)
    return broadcast_to(z, y.shape)


def _conditions(given: Any, x: Array) -> list[Array]:
    """Return conditions as a list of arrays; one of them may stand alone."""
    if is_sequence(given) and given and (is_sequence(given[0]) or hasattr(given[0], "dtype")):
        return [as_array(c) for c in given]
    whole = asarray(given)
    return list(whole) if whole.ndim > x.ndim else [whole]


def _piece(piece: Any, x: Array, args: tuple[object, ...], kw: dict[str, object]) -> Array:
    with np.errstate(all="ignore"):  # outside of its condition a function may be anything
        value: Any = piece(x, *args, **kw) if callable(piece) else piece
        return astype(value, x.dtype)


@register_function
def compress(condition: ArrayLike | Sequence[bool], x: ArrayLike, axis: int | None = None, out: None = None) -> Array:
    """Return the slices of x along an axis for which a condition holds.

    Args:
        condition: bool[n], known values, since they decide the shape; slices beyond it are left out.
        x: any shape.
        axis: the axis; without one x is read as if it were flat.
        out: None: results are not written into arrays.

    Raises:
        ShapeError: a condition that is no vector, or longer than the axis.
        ConcreteValueError: a condition under `jit` and `vmap`; use `where`.

    >>> compress([True, False, True], np.array([1.0, 2.0, 3.0]))
    Array([1., 3.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "compress")
    if axis is None:
        return compress(condition, reshape(x, (-1,)), 0)
    place = normalize_axis(axis, aval_of(x, "compress").ndim, "compress")
    held = _truth(condition)
    if held.ndim != 1 or held.shape[0] > aval_of(x).shape[place]:
        raise ShapeError(
            f"compress: a condition is a vector along the axis: got {held.aval} for {aval_of(x)}; reshape it"
        )
    part = as_array(x)[(*(slice(None),) * place, slice(0, held.shape[0]))]
    return getitem(part, (*(slice(None),) * place, held))


def _truth(condition: Nested) -> Array:
    held = asarray(condition)
    return held if held.dtype.kind == "b" else not_equal(held, 0)


@register_function
def extract(condition: ArrayLike | Sequence[bool], x: ArrayLike) -> Array:
    """Return the elements of x where a condition of as many elements holds; errors are those of `compress`.

    >>> extract(np.array([True, False]), np.array([1.0, 2.0]))
    Array([1.], dtype=float64)
    """
    return compress(reshape(_truth(condition), (-1,)), x)
