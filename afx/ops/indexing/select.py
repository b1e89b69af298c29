"""Selection and index tricks: choices among arrays, and indices of diagonals, triangles and grids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, check_dtype, check_memory_order, refuse_out, register_function, wrap
from afx.core.aval import Shape, aval_of, broadcast_avals, checked_shape, common_dtype, integer, normalize_axis
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, IndexRangeError, OperandError, ShapeError
from afx.ops.creation.creation import Nested, as_array, asarray, promote_operands, zeros
from afx.ops.elementwise.arithmetic import floor_divide, remainder
from afx.ops.elementwise.comparison import clip, not_equal, where
from afx.ops.indexing.gather import gather
from afx.ops.indexing.getitem import getitem, take
from afx.ops.indexing.index import ints, is_sequence
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, broadcast_to, reshape

T = TypeVar("T")


# --- Selection among arrays: by conditions, by index, by functions of pieces


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
    dtype = common_dtype(values)
    z = astype(default, dtype)
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
    parts = _list_arrays(choices)
    n = len(parts)
    if not n:
        raise ArgumentError("choose: there is an array or more to choose from: got none; give some")
    index = _bring_within(index, n, mode)
    parts = [promote_operands(v, *parts)[0] if is_sequence(v) else v for v in parts]
    if n == 1:
        return broadcast_to(parts[0], broadcast_avals("choose", [index.aval, aval_of(parts[0])]))
    return select([index == k for k in range(n - 1)], parts[:-1], parts[-1])


def _bring_within(index: Array, n: int, mode: str) -> Array:
    """Return indices of so many choices, by what a mode makes of those that are out of range."""
    if mode == "wrap":
        return remainder(index, n)
    if mode == "clip":
        return clip(index, 0, n - 1)
    if mode == "raise":
        return _check_choice(index, n)
    raise ArgumentError(f"choose: mode is 'raise', 'wrap' or 'clip': got {mode!r}; take one of them")


def _check_choice(index: Array, n: int) -> Array:
    """Return indices after checking their range: now where they are known, else when the compiled function runs."""
    wrong = (index < 0) | (index >= n)
    try:
        if wrong.any():
            raise IndexRangeError(f"choose: an index is out of bounds: got {index!r} for {n} choices; use mode='clip'")
    except ConcreteValueError:
        return gather(np.arange(n), where(wrong, n, index))
    return index


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
    z = zeros(y.shape, y.dtype)
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


# --- Index tricks: flat indices and those by axis, of diagonals and triangles, of grids

Lengths: TypeAlias = "int | Sequence[int]"
Mode: TypeAlias = Literal["raise", "wrap", "clip"]


def _integers(x: Nested, who: str) -> Array:
    index = asarray(x)
    if index.dtype.kind not in "iu" and index.size:
        raise DtypeError(f"{who}: indices are integers: got {index.aval}; convert them with astype")
    return astype(index, np.int64)


def _check_flat_index(index: Array, n: int, who: str) -> Array:
    """Return indices after checking their range, where they are known."""
    try:
        if ((index < 0) | (index >= n)).any():
            raise IndexRangeError(f"{who}: an index is out of bounds: got {index!r} for a length of {n}; correct it")
    except ConcreteValueError:
        pass  # compiled, they cannot be checked
    return index


@register_function
def unravel_index(indices: Nested, shape: Lengths, order: Literal["C", "F"] = "C") -> tuple[Array, ...]:
    """Return the indices along each axis of elements that are numbered by rows.

    Args:
        indices: integers of any shape.
        shape: of the array they count through.
        order: ``"C"`` numbers by rows, ``"F"`` by columns.

    Raises:
        DtypeError: not integers.
        IndexRangeError: more than there are elements, where the indices are known.

    >>> unravel_index(np.array([1, 5]), (2, 3))
    (Array([0, 1], dtype=int64), Array([1, 2], dtype=int64))
    """
    lengths = ints(shape, "unravel_index", "shape")
    if order != "C":
        check_memory_order(order, "unravel_index", "CF")
        return unravel_index(indices, lengths[::-1])[::-1]
    rest = _check_flat_index(_integers(indices, "unravel_index"), math.prod(lengths), "unravel_index")
    indices_by_axis: list[Array] = []
    for n in reversed(lengths):
        indices_by_axis.append(remainder(rest, n))
        rest = floor_divide(rest, n)
    return tuple(reversed(indices_by_axis))


@register_function
def ravel_multi_index(
    multi_index: Sequence[Nested] | ArrayLike,
    dims: Lengths,
    mode: Mode | Sequence[Mode] = "raise",
    order: Literal["C", "F"] = "C",
) -> Array:
    """Return the numbers, by rows, of elements given by their indices along each axis.

    Args:
        multi_index: integers, one array an axis.
        dims: the lengths of the axes.
        mode: what becomes of indices out of range: ``"raise"`` an error, where they are known, ``"wrap"`` counts them
            around, ``"clip"`` takes the nearest.
        order: ``"C"`` numbers by rows, ``"F"`` by columns.

    Raises:
        ArgumentError: not as many indices as axes.
        DtypeError: not integers.
        IndexRangeError: an index out of range.

    >>> ravel_multi_index(([0, 1], [1, 2]), (2, 3))
    Array([1, 5], dtype=int64)
    """
    lengths = ints(dims, "ravel_multi_index", "dims")
    parts = _list_arrays(multi_index)
    modes: list[Any] = [mode] * len(lengths) if isinstance(mode, str) else list(mode)
    if len(parts) != len(lengths) or len(modes) != len(lengths):
        raise ArgumentError(
            f"ravel_multi_index: takes an index for each axis: got {len(parts)} for {lengths}; give as many"
        )
    if order != "C":
        check_memory_order(order, "ravel_multi_index", "CF")
        return ravel_multi_index(parts[::-1], lengths[::-1], modes[::-1])
    number: Any = 0
    for part, n, how in zip(parts, lengths, modes, strict=True):
        index = _integers(part, "ravel_multi_index")
        if how not in WITHIN:
            raise ArgumentError(f"ravel_multi_index: mode is 'raise', 'wrap' or 'clip': got {how!r}; take one of them")
        number = number * n + WITHIN[how](index, n)
    return asarray(number)


WITHIN: dict[str, Callable[[Array, int], Array]] = {  # indices and a length, to indices below it
    "wrap": remainder,
    "clip": lambda index, n: clip(index, 0, n - 1),
    "raise": lambda index, n: _check_flat_index(index, n, "ravel_multi_index"),
}


def _list_arrays(arrays: Any) -> list[Any]:
    return list(arrays if is_sequence(arrays) else asarray(arrays))


@register_function
def ix_(*arrays: Nested) -> tuple[Array, ...]:
    """Return index vectors laid along axes of their own, so that ``x[ix_(rows, columns)]`` is the grid of them.

    A boolean vector stands for the indices where it is true.

    Raises:
        ShapeError: one that is no vector.

    >>> [i.shape for i in ix_([0, 2], [1])]
    [(2, 1), (1, 1)]
    """
    vectors: list[Array] = []
    for axis, given in enumerate(arrays):
        index = asarray(given)
        if index.ndim != 1:
            raise ShapeError(f"ix_: takes vectors: got {index.aval}; reshape it")
        if index.dtype.kind == "b":
            index = wrap(np.flatnonzero(index.concrete("ix_")))
        elif not index.size:
            index = astype(index, np.int64)
        vectors.append(reshape(index, (1,) * axis + (-1,) + (1,) * (len(arrays) - axis - 1)))
    return tuple(vectors)


@register_function
def indices(dimensions: Lengths, dtype: DTypeLike = int, sparse: bool = False) -> Array | tuple[Array, ...]:
    """Return the indices of a grid, one array an axis, stacked along a new first axis.

    Args:
        dimensions: the lengths of the axes.
        dtype: of the indices.
        sparse: returns a tuple of arrays that broadcast instead.

    >>> indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int64)
    """
    shape, target = checked_shape(dimensions, "indices"), check_dtype(dtype, "indices")
    if sparse:
        return tuple(map(wrap, np.indices(shape, target, sparse=True)))
    return wrap(np.indices(shape, target))


# -- diagonals and triangles --
def _pair(indices: Any) -> tuple[Array, ...]:
    return tuple(map(wrap, indices))


def _matrix(x: ArrayLike, who: str) -> Shape:
    aval = aval_of(x, who)
    if aval.ndim != 2:
        raise ShapeError(f"{who}: takes a matrix: got {aval}; reshape it")
    return aval.shape


@register_function
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of ``ndim`` axes of length n.

    >>> diag_indices(2)
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    (size,) = checked_shape(n, "diag_indices")
    return _pair(np.diag_indices(size, integer(ndim, "diag_indices", "ndim")))


@register_function
def diag_indices_from(x: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of x, whose axes all have one length.

    Raises:
        ShapeError: they have not, or there are fewer than two.

    >>> diag_indices_from(np.eye(2))
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    aval = aval_of(x, "diag_indices_from")
    if aval.ndim < 2 or len(set(aval.shape)) > 1:
        raise ShapeError(f"diag_indices_from: takes axes of one length, two or more: got {aval}; cut it")
    return diag_indices(aval.shape[0], aval.ndim)


@register_function
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Return the indices of the elements on and below the k-th diagonal of an n × m matrix.

    >>> tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    rows, columns = checked_shape((n, n if m is None else m), "tril_indices")
    return _pair(np.tril_indices(rows, integer(k, "tril_indices", "k"), columns))


@register_function
def tril_indices_from(x: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Return the indices of the elements on and below the k-th diagonal of a matrix.

    Raises:
        ShapeError: no matrix.

    >>> tril_indices_from(np.eye(2), -1)
    (Array([1], dtype=int64), Array([0], dtype=int64))
    """
    n, m = _matrix(x, "tril_indices_from")
    return tril_indices(n, k, m)


@register_function
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Return the indices of the elements on and above the k-th diagonal of an n × m matrix.

    >>> triu_indices(2)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    rows, columns = checked_shape((n, n if m is None else m), "triu_indices")
    return _pair(np.triu_indices(rows, integer(k, "triu_indices", "k"), columns))


@register_function
def triu_indices_from(x: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Return the indices of the elements on and above the k-th diagonal of a matrix.

    Raises:
        ShapeError: no matrix.

    >>> triu_indices_from(np.eye(2), 1)
    (Array([0], dtype=int64), Array([1], dtype=int64))
    """
    n, m = _matrix(x, "triu_indices_from")
    return triu_indices(n, k, m)


# -- joining by index --
class Concatenator:
    """NumPy's ``r_`` and ``c_`` for traced arrays too: what stands in the brackets, joined along an axis."""

    __slots__ = ("_layout", "_name")

    def __init__(self, name: str, layout: Any) -> None:
        self._name = name
        self._layout = layout

    def __getitem__(self, key: Any, /) -> Array:
        """Return the parts joined: arrays, numbers, lists, and slices, which stand for ranges.

        Raises:
            ArgumentError: the letters that ask for matrices.
        """
        items: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]  # a user's tuple
        layout: list[Any] = []
        parts: list[Any] = []
        start = 0
        for item in items:
            if isinstance(item, str):
                layout.append(item)
                continue
            part: Any = self._layout[item].reshape(-1).tolist() if isinstance(item, slice) else item
            shape: Shape = np.shape(part) if is_sequence(part) else aval_of(part, self._name).shape
            stop = start + math.prod(shape)
            is_number = isinstance(part, (int, float, complex))
            layout.append(start if is_number else np.arange(start, stop).reshape(shape))
            parts.append(part)
            start = stop
        if isinstance(layout[0], str) and layout[0] in ("r", "c"):
            raise ArgumentError(f"{self._name}: afx has no matrices: got {layout[0]!r}; leave it out")
        flat = concat([reshape(x, (-1,)) for x in promote_operands(*parts)])
        return take(flat, self._layout[tuple(layout)])

    def __repr__(self) -> str:
        return f"afx.{self._name}"


r_: Concatenator = Concatenator("r_", np.r_)
c_: Concatenator = Concatenator("c_", np.c_)


@register_function
def fromfunction(function: Callable[..., T], shape: Lengths, *, dtype: DTypeLike = float, **kwargs: object) -> T:
    """Return what a function gives for the indices of a grid, an array for each axis; differentiable as the function is.

    Args:
        function: of as many arrays as there are axes; it is called once.
        shape: the lengths of the axes.
        dtype: of the indices.
        **kwargs: passed on.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int64)
    """
    return function(*indices(shape, dtype), **kwargs)
