"""Products: of vectors, matrices and tensors, and sums of products named by letters."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from afx.core import Array, ArrayLike, DType, bind2, bind_single, promote, refuse_out, register_function
from afx.core.aval import (
    Aval,
    Shape,
    aval_of,
    broadcast_avals,
    broadcast_shapes,
    common_dtype,
    integer,
    normalize_axis,
    shape_of,
)
from afx.core.primitive import Bools, Params, Primitive, Value, Values
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.linear import bilinear
from afx.ops.creation.creation import as_array, promote_operands
from afx.ops.elementwise.arithmetic import multiply
from afx.ops.elementwise.complex import conj
from afx.ops.manipulation.edit import diagonal
from afx.ops.manipulation.join import moveaxis, stack
from afx.ops.manipulation.shape import astype, expand_dims, permute_dims, reshape
from afx.ops.reductions.sums import sum

# --- Products: of matrices and vectors


def same_dtype(x: ArrayLike, y: ArrayLike, who: str) -> tuple[Any, Any]:
    """Return the operands in their common dtype."""
    if _dtype_of(x, None) is _dtype_of(y, 0):
        return x, y
    a, b = aval_of(x, who), aval_of(y, who)
    if a.weak and b.weak:
        return x, y
    dtype: DType = promote((a.dtype, b.dtype), (a.weak, b.weak))
    return astype(x, dtype), astype(y, dtype)


def _dtype_of(x: Any, default: Any) -> Any:
    return x._value.dtype if x.__class__ is Array else getattr(x, "dtype", default)


def _is_plain_product(x: Any, y: Any) -> bool:
    """Tell whether Arrays that nothing traces are vectors or matrices of one dtype that `matmul` multiplies."""
    if x.__class__ is not Array or y.__class__ is not Array:
        return False
    u, v = x._value, y._value
    return u.dtype is v.dtype and 1 <= u.ndim <= 2 and 1 <= v.ndim <= 2 and u.shape[-1] == v.shape[0]


@register_function
def matmul(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the matrix product over the last axis of x and the last but one of y; leading axes broadcast.

    Args:
        x: float[..., m, k], or a vector float[k], which counts as one row.
        y: float[..., k, n], or a vector float[k], which counts as one column.

    Returns:
        float[..., m, n], without the axis of an operand that is a vector.

    Raises:
        ShapeError: the inner axes differ, leading axes do not broadcast, or an operand has no axis.

    >>> matmul(afx.asarray([[1.0, 2.0]]), afx.asarray([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    return bind2(matmul_p, *same_dtype(x, y, "matmul"))


def _check_product(x: Aval, y: Aval) -> None:
    if not x.ndim or not y.ndim:
        raise ShapeError(f"matmul: an operand has no axis: got {x} @ {y}; use * for a number")
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else -1]:
        raise ShapeError(f"matmul: inner axes differ: got {x} @ {y}; transpose or reshape an operand")
    if broadcast_shapes([x.shape[:-2], y.shape[:-2]]) is None:
        raise ShapeError(f"matmul: leading axes do not broadcast: got {x} @ {y}; reshape an operand")


def _abstract(x: Aval, y: Aval) -> Aval:
    _check_product(x, y)
    lead = broadcast_shapes([x.shape[:-2], y.shape[:-2]])
    assert lead is not None
    shape = lead + (x.shape[-2:-1] if x.ndim > 1 else ()) + (y.shape[-1:] if y.ndim > 1 else ())
    return Aval(shape, promote((x.dtype, y.dtype), (x.weak, y.weak)))


# the rules use operators and methods alone: at the ground level they are NumPy's own
def _pull_first(ct: Array, y: Array, x: Aval) -> Array:
    if y.ndim == 1:
        return (ct.reshape((*ct.shape, 1)) if x.ndim > 1 else ct) * y
    if x.ndim == 1:
        return (y @ ct.reshape((*ct.shape, 1))).reshape((*y.shape[:-2], y.shape[-2]))
    return ct @ y.swapaxes(-1, -2)


def _pull_second(ct: Array, x: Array, y: Aval) -> Array:
    if y.ndim == 1:
        return ct * x if x.ndim == 1 else ct.reshape((-1,)) @ x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    if x.ndim == 1:
        return x.reshape((-1, 1)) * ct.reshape((*ct.shape[:-1], 1, ct.shape[-1]))
    if y.ndim == 2 and x.ndim > 2:  # one product over all leading axes, instead of one for each
        count = math.prod(x.shape[:-1])
        return x.reshape((count, x.shape[-1])).swapaxes(0, 1) @ ct.reshape((count, ct.shape[-1]))
    return x.swapaxes(-1, -2) @ ct


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    ranks = [x.ndim - b for x, b in zip(xs, batched, strict=True)]
    x, y = xs
    if ranks[0] == 1:  # a vector is a row or a column, so that the batch axis can stand in front of it
        x = reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    if ranks[1] == 1:
        y = reshape(y, (*y.shape, 1))
    rank = max(*ranks, 2)
    ups = [
        reshape(v, (size,) + (1,) * (rank - v.ndim + 1) + v.shape[1:]) if b else v
        for v, b in zip((x, y), batched, strict=True)
    ]
    z = bind_single(matmul_p, *ups)
    z = z[..., 0] if ranks[1] == 1 else z
    return z if ranks[0] > 1 else z[..., 0, :] if ranks[1] > 1 else z[..., 0]


def _run(x: Any, y: Any) -> Any:
    if x.__class__ is np.ndarray and x.ndim == 1 and y.__class__ is np.ndarray and y.ndim == 1:
        return x.dot(y)  # matmul takes longer to find its loop
    if getattr(y, "ndim", 0) == 2 and getattr(x, "ndim", 0) > 2 and x.flags.c_contiguous and x.size:
        return np.matmul(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[1])  # one product, not many
    return np.matmul(x, y)


def _alive(k: int, mask: Any, avals: tuple[Aval, ...], params: Params) -> Any:
    """Return the rows of the first operand, or the columns of the second, that living elements read."""
    x, y = avals
    full = mask if y.ndim > 1 else mask.reshape((*mask.shape, 1))
    full = full if x.ndim > 1 else full.reshape((*full.shape[:-1], 1, full.shape[-1]))
    return full.any(axis=-1 - k, keepdims=True)


matmul_p: Primitive = bilinear(
    "matmul", _run, _abstract, (_pull_first, _pull_second), batch=_batch, ufunc=np.matmul, alive=_alive
)


@register_function
def tensordot(x: ArrayLike, y: ArrayLike, axes: int | Sequence[Any] = 2) -> Array:
    """Return the sum of products over pairs of axes.

    Args:
        x: any shape.
        y: any shape.
        axes: how many of the last axes of x go with the first ones of y; or two sequences of axes that go in pairs.

    Raises:
        ShapeError: axes of a pair differ in length, or there is no such axis.
        ArgumentError: the axes do not pair up.

    >>> tensordot(afx.asarray([[1.0, 2.0]]), afx.asarray([[3.0, 4.0]]), axes=2)
    Array(11., dtype=float32)
    """
    return _contract("tensordot", x, y, axes)


def _contract(who: str, x: ArrayLike, y: ArrayLike, axes: int | Sequence[Any]) -> Array:
    x, y = promote_operands(x, y)
    a, b = x.aval, y.aval
    first, second = _pair_axes(who, a, b, axes)
    if [a.shape[n] for n in first] != [b.shape[n] for n in second]:
        raise ShapeError(
            f"{who}: summed axes differ in length: got {a} with axes {first} and {b} with axes {second}; "
            "transpose or reshape an operand"
        )
    free_a, free_b = ([n for n in range(v.ndim) if n not in used] for v, used in ((a, first), (b, second)))
    inner_size = _size(a, first)
    rows = reshape(permute_dims(x, (*free_a, *first)), (_size(a, free_a), inner_size))
    columns = reshape(permute_dims(y, (*second, *free_b)), (inner_size, _size(b, free_b)))
    return reshape(matmul(rows, columns), tuple([a.shape[n] for n in free_a] + [b.shape[n] for n in free_b]))


def _pair_axes(who: str, a: Aval, b: Aval, axes: Any) -> tuple[list[int], list[int]]:
    """Return the axes of each operand that are summed over, in pairs."""
    axes = axes.tolist() if isinstance(axes, np.ndarray) else axes
    try:
        if isinstance(axes, SupportsIndex):
            count = operator.index(axes)
            pairs = [list(range(a.ndim - count, a.ndim)), list(range(count))]
            sound = 0 <= count <= min(a.ndim, b.ndim)
        else:
            given = [
                [operator.index(n)] if isinstance(n, SupportsIndex) else [operator.index(m) for m in n] for n in axes
            ]
            pairs = [[normalize_axis(n, v.ndim, who) for n in ns] for v, ns in zip((a, b), given, strict=True)]
            sound = len(pairs[0]) == len(pairs[1]) and all(len(set(ns)) == len(ns) for ns in pairs)
    except (TypeError, ValueError) as error:
        if isinstance(error, ShapeError):
            raise
        pairs, sound = [], False
    if not sound:
        raise ArgumentError(
            f"{who}: axes do not pair up: got axes={axes!r} for {a} and {b}; give a number of axes, or two sequences "
            "of equally many, each axis once"
        )
    return pairs[0], pairs[1]


def _size(x: Aval, axes: Sequence[int]) -> int:
    return math.prod([x.shape[n] for n in axes])


@register_function
def dot(x: ArrayLike, y: ArrayLike, out: None = None) -> Array:
    """Return NumPy's dot product.

    Of vectors and matrices it is `matmul`; of more axes the sum over the last axis of x and the last but one of y, for
    every pair of the others; of a number and an array their product.

    Raises:
        ShapeError: the axes that are summed over differ in length.

    >>> dot(afx.asarray([1.0, 2.0]), afx.asarray([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    if out is not None:
        refuse_out(out, "dot")
    if _is_plain_product(x, y):  # the commonest case, with fewer questions
        return bind2(matmul_p, x, y)
    a, b = shape_of(x, "dot"), shape_of(y, "dot")
    if 1 <= len(a) <= 2 and 1 <= len(b) <= 2 and a[-1] == b[0]:
        return bind2(matmul_p, *same_dtype(x, y, "matmul"))
    if not a or not b:
        return multiply(x, y)
    return _contract("dot", x, y, ([-1], [-2 if len(b) > 1 else -1]))


@register_function
def vdot(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the dot product of all elements, the conjugate of x taken.

    Raises:
        ShapeError: the operands have unlike numbers of elements.

    >>> vdot(afx.asarray([1.0, 2.0]), afx.asarray([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    u, v = promote_operands(x, y)
    if u.size != v.size:
        raise ShapeError(
            f"vdot: operands have unlike numbers of elements: got {u.aval} and {v.aval}; cut or pad one of them"
        )
    return matmul(reshape(conj(u), (u.size,)), reshape(v, (v.size,)))


@register_function
def vecdot(x: ArrayLike, y: ArrayLike, *, axis: int = -1) -> Array:
    """Return the dot product of vectors along an axis of each operand, the conjugate of x taken; other axes broadcast.

    Raises:
        ShapeError: the vectors differ in length, or other axes do not broadcast.

    >>> vecdot(afx.asarray([[1.0, 2.0]]), afx.asarray([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    a, b = aval_of(x, "vecdot"), aval_of(y, "vecdot")
    axis = integer(axis, "vecdot", "axis")
    ends = [v.shape[axis] if -v.ndim <= axis < v.ndim else None for v in (a, b)]
    if ends[0] is None or ends[0] != ends[1]:
        raise ShapeError(f"vecdot: lengths along axis {axis} differ: got {a} and {b}; reshape an operand")
    if axis >= 0 and a.ndim != b.ndim:  # it counts from the front of each operand
        x, y, axis = moveaxis(x, axis, -1), moveaxis(y, axis, -1), -1
    broadcast_avals("vecdot", (aval_of(x), aval_of(y)))
    products = multiply(conj(x), y)
    return sum(products, axis=axis, dtype=products.dtype)


@register_function
def matvec(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the products of matrices with vectors, float[…, m, n] with float[…, n]; other axes broadcast.

    Raises:
        ShapeError: the matrices have not as many columns as the vectors components.

    >>> matvec(afx.asarray([[1.0, 2.0]]), afx.asarray([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    if not aval_of(y, "matvec").ndim or aval_of(x).ndim < 2:
        raise ShapeError(
            f"matvec: takes matrices and vectors: got {aval_of(x)} and {aval_of(y)}; use vecdot or multiply"
        )
    z = matmul(x, expand_dims(y, -1))
    return reshape(z, z.shape[:-1])


@register_function
def vecmat(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the products of vectors, conjugated, with matrices, float[…, m] with float[…, m, n]; other axes broadcast.

    Raises:
        ShapeError: the matrices have not as many rows as the vectors components.

    >>> vecmat(afx.asarray([3.0, 4.0]), afx.asarray([[1.0], [2.0]]))
    Array([11.], dtype=float32)
    """
    if not aval_of(x, "vecmat").ndim or aval_of(y).ndim < 2:
        raise ShapeError(
            f"vecmat: takes vectors and matrices: got {aval_of(x)} and {aval_of(y)}; use vecdot or multiply"
        )
    z = matmul(expand_dims(conj(x), -2), y)
    return reshape(z, (*z.shape[:-2], z.shape[-1]))


@register_function
def inner(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the sum of products over the last axes, for every pair of the others.

    Raises:
        ShapeError: the last axes differ in length.

    >>> inner(afx.asarray([1.0, 2.0]), afx.asarray([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    if not aval_of(x, "inner").ndim or not aval_of(y, "inner").ndim:
        return multiply(x, y)
    return _contract("inner", x, y, ([-1], [-1]))


@register_function
def outer(x: ArrayLike, y: ArrayLike, out: None = None) -> Array:
    """Return the products of every element of x (rows) with every element of y (columns).

    >>> outer(afx.asarray([1.0, 2.0]), afx.asarray([3.0, 4.0]))
    Array([[3., 4.],
           [6., 8.]], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "outer")
    a, b = promote_operands(x, y)
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


@register_function
def kron(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the Kronecker product: y scaled by each element of x, laid out as blocks.

    >>> kron(afx.asarray([1.0, 2.0]), afx.asarray([1.0, 1.0]))
    Array([1., 1., 2., 2.], dtype=float32)
    """
    u, v = promote_operands(x, y)
    a, b = u.shape, v.shape
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    woven_a = tuple([n for m in a for n in (m, 1)])
    woven_b = tuple([n for m in b for n in (1, m)])
    return reshape(
        multiply(reshape(u, woven_a), reshape(v, woven_b)), tuple([m * n for m, n in zip(a, b, strict=True)])
    )


@register_function
def cross(
    x: ArrayLike, y: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Return the cross product of vectors of 3 components along an axis; other axes broadcast.

    Args:
        x: the first vectors.
        y: the second ones.
        axis: where the components lie, of operands and result; as in NumPy it overrides the other three.
        axisa: where those of x lie.
        axisb: where those of y lie.
        axisc: where those of the result lie.

    Raises:
        ShapeError: the vectors have not 3 components, or other axes do not broadcast.

    >>> cross(afx.asarray([1.0, 0.0, 0.0]), afx.asarray([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    a, b = aval_of(x, "cross"), aval_of(y, "cross")
    first, second, last = (integer(k if axis is None else axis, "cross", "axis") for k in (axisa, axisb, axisc))
    if any(not -v.ndim <= k < v.ndim or v.shape[k] != 3 for v, k in ((a, first), (b, second))):
        raise ShapeError(
            f"cross: vectors have 3 components along an axis: got {a} along {first} and {b} along {second}; pad, or name the axis"
        )
    broadcast_avals("cross", [_without(a, first), _without(b, second)])
    u, v = moveaxis(as_array(x), first, 0), moveaxis(as_array(y), second, 0)
    parts = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    return moveaxis(stack(parts), 0, last)


def _without(x: Aval, axis: int) -> Aval:
    at = axis % x.ndim
    return Aval(x.shape[:at] + x.shape[at + 1 :], x.dtype)


# --- Einsum: sums of products named by letters, computed as matrix products of pairs
#
# What is to be done follows from the subscripts and shapes alone, and is kept: einsum in a loop costs little more
# than its products.

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@register_function
def einsum(
    subscripts: str | ArrayLike, /, *operands: ArrayLike | Sequence[int | EllipsisType], optimize: bool = True
) -> Array:
    """Return the sum of products that ``subscripts`` names: a letter for each axis, summed where it is not in the result.

    Products of more than two operands are taken pair by pair in the order that `numpy.einsum_path` finds, or, where it
    finds none, so that least is in memory; each pair is one (batched) matrix product.

    Args:
        subscripts: ``"ij,jk->ik"``; without an arrow the result has the letters that occur once, in alphabetical order.
            ``...`` stands for further axes, which broadcast, and are summed where the result has none. A letter that an
            operand repeats takes its diagonal.
            NumPy's other form names axes by numbers: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
        *operands: one per term.
        optimize: whether to look for a good order of pairs; else from left to right.

    Raises:
        ArgumentError: the subscripts are malformed or do not fit the operands.
        ShapeError: a letter stands for two lengths.

    >>> einsum("ij,j->i", np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
    Array([11.], dtype=float64)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _join_subscripts((subscripts, *operands))
    arrays = _in_one_dtype(promote_operands(*operands))
    plan = _plan(subscripts, tuple([x.aval for x in arrays]), bool(optimize))
    work = [_single(x, p) for x, p in zip(arrays, plan.singles, strict=True)]
    for pair in plan.pairs:
        y, x = work.pop(pair.second), work.pop(pair.first)
        u, v = _laid(x, pair.x), _laid(y, pair.y)
        z = multiply(u, v) if pair.elementwise else matmul(u, v)
        work.append(z if z.shape == pair.shape else reshape(z, pair.shape))
    return _laid(work[0], plan.last)


@register_function
def einsum_path(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Sequence[int | EllipsisType],
    optimize: bool | str | Sequence[Any] = "greedy",
) -> tuple[list[Any], str]:
    """Return NumPy's order of products for `einsum`, from the shapes alone, and a text that tells what it costs.

    Raises:
        ArgumentError: subscripts that do not fit the shapes, or an order that is none.

    >>> einsum_path("ij,jk,kl->il", np.ones((9, 2)), np.ones((2, 9)), np.ones((9, 3)))[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _join_subscripts((subscripts, *operands))
    shapes = [x.shape for x in promote_operands(*operands)]
    stand_ins = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    try:
        path, text = np.einsum_path(subscripts, *stand_ins, optimize=optimize)
    except (ValueError, RuntimeError, KeyError) as error:
        got = ", ".join(map(str, shapes))
        raise ArgumentError(
            f"einsum_path: NumPy finds no order ({error}): got {subscripts!r} for shapes {got}; change the subscripts"
        ) from error
    return list(path), text


def _in_one_dtype(arrays: list[Array]) -> list[Array]:
    """Return arrays in the result's dtype: sums over axes of one operand would leave its own."""
    avals = [x.aval for x in arrays]
    if len({a.dtype for a in avals}) < 2 or all([a.weak for a in avals]):
        return arrays
    dtype = common_dtype(avals)
    return [astype(x, dtype) for x in arrays]


def _join_subscripts(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as a text from operands that are each followed by the list of its axes' numbers."""
    numbered = dict(enumerate(LETTERS))
    operands, lists = given[: len(given) // 2 * 2 : 2], [*given[1::2], *given[len(given) // 2 * 2 :]]
    try:
        terms = ["".join(["..." if n is Ellipsis else numbered[n] for n in axes]) for axes in lists]
    except (TypeError, KeyError):
        raise ArgumentError(
            f"einsum: takes a text such as 'ij,jk->ik', or a list of axes behind each operand: got {len(given)} "
            "arguments of another form; write the subscripts as a text"
        ) from None
    result = [f"->{terms.pop()}"] if len(given) % 2 else []
    return ",".join(terms) + "".join(result), operands


class _Single(NamedTuple):
    """What is done to an operand by itself: pairs of axes whose diagonal is taken, and its shape afterwards."""

    diagonals: tuple[tuple[int, int], ...]
    shape: Shape


class _Layout(NamedTuple):
    """Axes to sum over, the order of those that remain (None: as it is), and the shape."""

    summed: Shape
    order: Shape | None
    shape: Shape


class _Pair(NamedTuple):
    """A product of two of the values at hand: both are taken out, the result is put at the end."""

    first: int
    second: int
    x: _Layout
    y: _Layout
    elementwise: bool
    shape: Shape


class _Plan(NamedTuple):
    singles: tuple[_Single, ...]
    pairs: tuple[_Pair, ...]
    last: _Layout


def _single(y: Array, p: _Single) -> Array:
    for i, j in p.diagonals:
        y = diagonal(y, 0, i, j)
    return y if y.shape == p.shape else reshape(y, p.shape)


def _laid(x: Array, layout: _Layout) -> Array:
    if layout.summed:
        x = astype(sum(x, axis=layout.summed), x.dtype)  # einsum keeps small integers, and booleans
    if layout.order is not None:
        x = permute_dims(x, layout.order)
    return x if x.shape == layout.shape else reshape(x, layout.shape)


# -- making the plan --
@functools.lru_cache(maxsize=1024)
def _plan(subscripts: str, avals: tuple[Aval, ...], optimize: bool) -> _Plan:
    terms, result = _parse_subscripts(subscripts, avals)
    lengths = _lengths(terms, avals, subscripts)
    if any(n not in lengths for n in result) or len(set(result)) != len(result):
        raise ArgumentError(f"einsum: the result has letters of no operand, or twice: got {subscripts!r}; mend them")
    path = _path(terms, lengths, result, optimize)
    singles, work = zip(*[_planned_single(t, a, lengths) for t, a in zip(terms, avals, strict=True)], strict=True)
    names, pairs = list(work), list[_Pair]()
    for i, j in path:
        t, s = names.pop(j), names.pop(i)
        pair, term = _planned_pair((i, j), s, t, set(result).union(*names), lengths)
        pairs.append(pair)
        names.append(term)
    return _Plan(singles, tuple(pairs), _layout(names[0], result, lengths))


def _name_ellipses(terms: Sequence[str], avals: Sequence[Aval], free: Sequence[str]) -> tuple[list[str], str]:
    """Return terms with letters in place of their ellipses, and the letters of the longest of these."""
    extra = [a.ndim - len(t.replace("...", "")) if "..." in t else 0 for t, a in zip(terms, avals, strict=True)]
    widest = max(extra, default=0)
    dots = "".join(free[:widest])
    full = [
        t.replace("...", dots[widest - e :]) if t.count("...") == 1 else t for t, e in zip(terms, extra, strict=True)
    ]
    return full, dots


def _parse_subscripts(subscripts: str, avals: Sequence[Aval]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; an ellipsis becomes unused letters."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(avals):
        raise ArgumentError(
            f"einsum: {len(terms)} terms need as many operands: got {subscripts!r} and {len(avals)} operands; "
            "separate terms by commas"
        )
    full, dots = _name_ellipses(terms, avals, [n for n in LETTERS if n not in text])
    if not arrow:
        names = "".join(full).replace(".", "")
        right = "..." + "".join(sorted({n for n in names if names.count(n) == 1 and n not in dots}))
    result = right.replace("...", dots) if right.count("...") <= 1 else right
    for t, a in zip(full, avals, strict=True):
        if len(t) != a.ndim or not all(n in LETTERS for n in t + result):
            raise ArgumentError(
                f"einsum: a term is not one letter for each axis: got {subscripts!r} with {a}; mend it, or use ..."
            )
    return full, result


def _lengths(terms: list[str], avals: Sequence[Aval], subscripts: str) -> dict[str, int]:
    """Return the length of each letter; operands may have 1 where others have more, but not along a diagonal."""
    lengths: dict[str, int] = {}
    for term, a in zip(terms, avals, strict=True):
        within: dict[str, int] = {}
        for name, n in zip(term, a.shape, strict=True):
            known = within.get(name, lengths.get(name, 1) if n != 1 else n)
            if known != n and (name in within or known != 1):
                got = ", ".join(map(str, avals))
                raise ShapeError(
                    f"einsum: {name!r} stands for lengths {known} and {n}: got {subscripts!r} with {got}; reshape one"
                )
            within[name] = n
        lengths.update({name: n for name, n in within.items() if n != 1 or name not in lengths})
    return lengths


def _path(terms: list[str], lengths: dict[str, int], result: str, optimize: bool) -> list[tuple[int, int]]:
    """Return the pairs to multiply, by their positions among the values that remain; results are put at the end."""
    in_order = [(0, 1)] * (len(terms) > 1) + [(0, k) for k in range(len(terms) - 2, 0, -1)]
    if not optimize or len(terms) < 3:
        return in_order
    dummies = [np.broadcast_to(np.float32(0), [lengths[n] for n in t]) for t in terms]
    path = np.einsum_path(",".join(terms) + "->" + result, *dummies, optimize="greedy")[0]
    steps = [tuple(sorted(step)) for step in path[1:]]
    if all(len(step) == 2 for step in steps):
        return [(step[0], step[1]) for step in steps]
    return _small_path(terms, lengths, result)  # NumPy would sum over all letters at once, which pairs cannot


def _small_path(terms: list[str], lengths: dict[str, int], result: str) -> list[tuple[int, int]]:
    """Return the pairs whose products add least to what is in memory, one after the other (Smith & Gray 2018, "greedy")."""
    names: list[str] = list(terms)
    path: list[tuple[int, int]] = []

    def size(letters: Iterable[str]) -> int:
        return math.prod([lengths[n] for n in letters])

    def product(i: int, j: int) -> set[str]:
        return set(names[i] + names[j]) & set(result).union(*[t for k, t in enumerate(names) if k not in (i, j)])

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        return size(product(i, j)) - size(names[i]) - size(names[j]), size(set(names[i] + names[j]))

    while len(names) > 1:
        i, j = min(itertools.combinations(range(len(names)), 2), key=cost)
        term = "".join(sorted(product(i, j)))
        names = [*[t for k, t in enumerate(names) if k not in (i, j)], term]
        path.append((i, j))
    return path


def _planned_single(term: str, a: Aval, lengths: dict[str, int]) -> tuple[_Single, str]:
    """Return the reduction that makes each letter of a term occur once, without axes of length 1 that stand for more."""
    diagonals: list[tuple[int, int]] = []
    length = dict(zip(term, a.shape, strict=True))
    for name in sorted(set(term)):
        while term.count(name) > 1:
            i, j = (k for k, n in enumerate(term) if n == name and term[:k].count(name) < 2)
            diagonals.append((i, j))
            term = "".join([n for k, n in enumerate(term) if k not in (i, j)]) + name
    term = "".join([n for n in term if length[n] == lengths[n]])
    return _Single(tuple(diagonals), _shape(term, lengths)), term


def _shape(names: Iterable[str], lengths: dict[str, int]) -> Shape:
    return tuple([lengths[n] for n in names])


def _layout(term: str, want: Sequence[str], lengths: dict[str, int], shape: Shape | None = None) -> _Layout:
    """Return the transposition that turns axes named by a term into those wanted, in their order."""
    summed = tuple([a for a, n in enumerate(term) if n not in want])
    rest = [n for n in term if n in want]
    order = tuple(map(rest.index, want))
    return _Layout(
        summed, None if order == tuple(range(len(order))) else order, _shape(want, lengths) if shape is None else shape
    )


def _planned_pair(
    places: tuple[int, int], s: str, t: str, kept: set[str], lengths: dict[str, int]
) -> tuple[_Pair, str]:
    """Return the product of two operands, summed over the letters that are not kept, and the letters of the result."""
    both = [n for n in s if n in t]
    batch, inner = [n for n in both if n in kept], [n for n in both if n not in kept]
    rows, columns = [n for n in s if n not in t and n in kept], [n for n in t if n not in s and n in kept]
    term = "".join([*batch, *rows, *columns])
    b, i, r, c = (_shape(names, lengths) for names in (batch, inner, rows, columns))
    if not inner:
        x = _layout(s, [*batch, *rows], lengths, b + r + (1,) * len(c))
        y = _layout(t, [*batch, *columns], lengths, b + (1,) * len(r) + c)
    else:  # without a batch, an operand that has only inner letters is a vector
        front, sums = ((math.prod(b),) if batch else ()), (math.prod(i),)
        x = _layout(s, [*batch, *rows, *inner], lengths, front + ((math.prod(r),) if rows or batch else ()) + sums)
        y = _layout(
            t, [*batch, *inner, *columns], lengths, front + sums + ((math.prod(c),) if columns or batch else ())
        )
    return _Pair(*places, x, y, not inner, _shape(term, lengths)), term
