"""Quantiles: elements of the sorted array, and interpolations between them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DType, Tracer, common_dtype, get_default_dtype, register_function
from afx.core.aval import Aval, Shape, aval_of, normalize_axes
from afx.core.primitive import is_weak, numbers_beside
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, ShapeError
from afx.ops._basic import reduced
from afx.ops.creation.creation import asarray, operand_of, stop_gradient
from afx.ops.elementwise.comparison import clip, isinf, isnan, maximum, where
from afx.ops.elementwise.floating_point import ceil, floor, rint
from afx.ops.indexing.gather import gather
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape
from afx.ops.reductions.cumulative import cumsum
from afx.ops.reductions.sums import Axis
from afx.ops.sorting.sort import argsort, sort

Fractions = ArrayLike | Sequence[float]
Count = int | Array
Place = Callable[[Count, Array], Array]


@register_function
def median(
    x: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the median along axes: the middle element, or the mean of the two in the middle; nan where one is.

    Tied elements share the derivative evenly, as those of `sort` do; of nothing the median is nan.

    Args:
        x: any shape of real numbers; integers give the default dtype.
        axis: one axis, several, or all (None).
        out: None: results are not written into arrays.
        overwrite_input: has no effect.
        keepdims: keeps the axes, with length 1.

    >>> median(np.array([3.0, 1.0, 2.0, 10.0]))
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "median")
    return _quantile(x, 0.5, axis, "linear", keepdims, "median", skipping=False)


@register_function
def quantile(
    x: ArrayLike,
    q: Fractions,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which fractions ``q`` of the elements lie; nan where an element is.

    Args:
        x: any shape of real numbers; integers give the default dtype, unless the method picks an element.
        q: fractions from 0 to 1, of any shape, which goes in front of that of the result; differentiable too (on an
            element the slope towards the next one is taken).
        axis: one axis, several, or all (None).
        out: None: results are not written into arrays.
        overwrite_input: has no effect.
        method: how fractions between two elements are read, as in NumPy: ``linear``, ``lower``, ``higher``,
            ``nearest``, ``midpoint``, ``inverted_cdf``, ``averaged_inverted_cdf``, ``closest_observation``,
            ``interpolated_inverted_cdf``, ``hazen``, ``weibull``, ``median_unbiased`` or ``normal_unbiased``.
        keepdims: keeps the axes, with length 1.
        weights: how much each element counts, for ``inverted_cdf``: of x's shape, or one for each along one axis.

    Raises:
        ArgumentError: a fraction outside 0 to 1, another method, negative weights, or none above 0.
        DtypeError: complex numbers, which have no order.
        ShapeError: weights of another shape.

    Source: Hyndman & Fan 1996.

    >>> quantile(np.array([0.0, 1.0, 4.0]), 0.75)
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "quantile")
    return _quantile(x, q, axis, method, keepdims, "quantile", weights=weights, skipping=False)


@register_function
def percentile(
    x: ArrayLike,
    q: Fractions,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which ``q`` per cent of the elements lie; arguments and errors are those of `quantile`.

    >>> percentile(np.array([0.0, 1.0, 4.0]), 75)
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "percentile")
    return _quantile(
        x, _hundredth(q, "percentile"), axis, method, keepdims, "percentile", weights=weights, skipping=False
    )


@register_function
def nanmedian(
    x: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the median of the elements that are not nan, nan where all are; arguments are those of `median`.

    >>> nanmedian(np.array([3.0, np.nan, 2.0]))
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "nanmedian")
    return _quantile(x, 0.5, axis, "linear", keepdims, "nanmedian", skipping=True)


@register_function
def nanquantile(
    x: ArrayLike,
    q: Fractions,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return quantiles of the elements that are not nan, nan where all are; arguments are those of `quantile`.

    >>> nanquantile(np.array([3.0, np.nan, 2.0]), 0.5)
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "nanquantile")
    return _quantile(x, q, axis, method, keepdims, "nanquantile", weights=weights, skipping=True)


@register_function
def nanpercentile(
    x: ArrayLike,
    q: Fractions,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return percentiles of the elements that are not nan, nan where all are; arguments are those of `quantile`.

    >>> nanpercentile(np.array([3.0, np.nan, 2.0]), 50)
    Array(2.5, dtype=float64)
    """
    x = operand_of(x, out, "nanpercentile")
    return _quantile(
        x, _hundredth(q, "nanpercentile"), axis, method, keepdims, "nanpercentile", weights=weights, skipping=True
    )


# -- where a quantile stands --
def _between(alpha: float, beta: float) -> Place:
    """Return the index, counted from 0, of a fraction among n elements after Hyndman & Fan's two parameters."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _closest(n: Count, q: Array) -> Array:
    """Return the nearest index; of two the one whose number, counted from 1, is even."""
    place = n * q - 1.5
    return where((place == floor(place)) & (floor(place) % 2 == 1), place, floor(place) + 1)


def _averaged(n: Count, q: Array) -> Array:
    place = n * q - 1
    return where(place == floor(place), place + 0.5, ceil(place))


def _middle(n: Count, q: Array) -> Array:
    place = (n - 1) * q
    return (floor(place) + ceil(place)) / 2


METHODS: dict[str, Place] = {
    "linear": lambda n, q: (n - 1) * q,
    "lower": lambda n, q: floor((n - 1) * q),
    "higher": lambda n, q: ceil((n - 1) * q),
    "nearest": lambda n, q: rint((n - 1) * q),
    "midpoint": _middle,
    "inverted_cdf": lambda n, q: ceil(n * q - 1),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "median_unbiased": _between(1 / 3, 1 / 3),
    "normal_unbiased": _between(3 / 8, 3 / 8),
}
PICKING = frozenset({"lower", "higher", "nearest", "inverted_cdf", "closest_observation"})


def _fractions(q: Any, x: Aval, who: str) -> tuple[Array, DType]:
    """Return the fractions, exact where they are known, and the dtype of the result."""
    listed = is_sequence(q)
    given = aval_of(asarray(q) if listed else q, who)
    floats = common_dtype((x,), floating=True)
    weak = listed or given.weak or given.dtype.kind != "f"
    dtype = floats if weak else np.result_type(floats, given.dtype)
    traced = asarray(q) if listed else q
    if isinstance(traced, Tracer):
        return astype(traced, given.dtype if given.dtype.kind == "f" else get_default_dtype()), dtype
    known = np.asarray(q)
    if known.dtype.kind == "f" and known.dtype.itemsize < 8:  # 0.2 is a fifth: no neighbour is picked for its rounding
        known = known.astype(str)
    known = known.astype(np.float64)
    if not ((known >= 0) & (known <= 1)).all():
        per = "percentages lie from 0 to 100" if "percentile" in who else "fractions lie from 0 to 1"
        raise ArgumentError(f"{who}: {per}: got {q!r}; clip or scale them")
    return asarray(known), dtype


def _hundredth(q: Any, who: str) -> Any:
    """Return percentages as fractions."""
    if is_sequence(q):
        return [_hundredth(v, who) for v in q]
    aval_of(q, who)
    return q / 100


# -- what stands there --
def _quantile(
    x: Any, q: Any, axis: Axis, method: str, keepdims: bool, who: str, *, skipping: bool, weights: Any = None
) -> Array:
    """Return quantiles along axes, those of ``q`` in front of what is left.

    Raises:
        ArgumentError: there is no such method.
        DtypeError: complex numbers.
        ShapeError: an axis without elements.
    """
    aval = aval_of(x, who)
    if method not in METHODS:
        raise ArgumentError(f"{who}: no such method: got {method!r}; use one of {', '.join(METHODS)}")
    if aval.dtype.kind == "c":
        raise DtypeError(f"{who}: complex numbers have no order: got {aval}; take the abs or a part")
    fractions, dtype = _fractions(q, aval, who)
    keeps = is_weak(x) and q.__class__ in (float, int)
    fractions = numbers_beside(q, x) if keeps else fractions
    axes = normalize_axes(axis, aval.ndim, who)
    rows = _rows(x if keeps or method in PICKING else astype(x, dtype), aval.shape, axes)
    # cuts off what made a nan from the derivative
    rows = where(isnan(rows), math.nan, rows) if skipping and rows.dtype.kind == "f" else rows
    if not rows.shape[-1]:
        if who in ("quantile", "percentile"):
            raise ShapeError(
                f"{who}: reduction over an empty axis has no identity: got {aval} along axis {axis}; check for empties"
            )
        rows = broadcast_to(astype(math.nan, dtype), (*rows.shape[:-1], 1))
    if weights is None:
        quantiles = _take_at(rows, reshape(fractions, (-1,)), METHODS[method], dtype, skipping)
    else:
        w = _rows(_spread_weights(weights, aval, axes, method, who), aval.shape, axes)
        quantiles = _take_weighted(rows, w, reshape(fractions, (-1,)), skipping)
    rest = len(aval.shape) - len(axes)
    reshaped = reshape(quantiles, (*quantiles.shape[:-1], *fractions.shape))
    front = permute_dims(reshaped, (*range(rest, reshaped.ndim), *range(rest)))
    if not keepdims:
        return front
    return reshape(front, fractions.shape + tuple([1 if a in axes else n for a, n in enumerate(aval.shape)]))


def _rows(x: ArrayLike, shape: Shape, axes: Shape) -> Array:
    """Return x with these axes as one, behind the others."""
    rest = [a for a in range(len(shape)) if a not in axes]
    turned = permute_dims(x, (*rest, *axes)) if (*rest, *axes) != tuple(range(len(shape))) else x
    return reshape(turned, (*reduced(shape, axes), math.prod([shape[a] for a in axes])))


def _take_at(rows: Array, q: Array, place: Place, dtype: DType, skipping: bool) -> Array:
    """Return the elements of each row at fractions q[m] of its length, as the last axis."""
    ordered = sort(rows)
    n = rows.shape[-1]
    floats = rows.dtype.kind == "f"
    if skipping and floats:
        count = n - isnan(ordered).sum(axis=-1, keepdims=True)
        last = maximum(count, 1) - 1
        if is_weak(rows):
            count = where(isnan(ordered), 0.0, 1.0).sum(axis=-1, keepdims=True)
        at = place(count if is_weak(count) else count.astype(q.dtype), q)
        low, high = (take_along_axis(ordered, clip(i, 0, last)) for i in _neighbours(at))
    else:
        at = place(n, q)
        low, high = (gather(ordered, clip(i, 0, n - 1), axis=rows.ndim - 1) for i in _neighbours(at))
    share = at - floor(at)
    share = share if is_weak(share) else share.astype(dtype)
    z = low if rows.dtype.kind != "f" or place in PICKED else _interpolate(low, high, share)
    return where(isnan(ordered[..., n - 1 :]), math.nan, z) if floats and not skipping else z


def _spread_weights(weights: Any, aval: Aval, axes: Shape, method: str, who: str) -> Array:
    """Return weights in the operand's shape."""
    if method != "inverted_cdf":
        raise ArgumentError(f"{who}: weights belong to one method: got {method!r}; use method='inverted_cdf'")
    w = asarray(weights, np.float64)
    if len(axes) == 1 and w.shape == (aval.shape[axes[0]],):
        w = broadcast_to(reshape(w, [-1 if a == axes[0] else 1 for a in range(aval.ndim)]), aval.shape)
    if w.shape != aval.shape:
        raise ShapeError(f"{who}: weights have the shape of x: got {w.aval} for {aval}; give one for each element")
    with contextlib.suppress(ConcreteValueError):  # compiled, they cannot be checked
        known = w.concrete(who)
        if not ((known >= 0).all() and np.isfinite(known).all() and (known.sum(axis=axes) > 0).all()):
            raise ArgumentError(f"{who}: weights are finite, not negative, and not all 0: got {w.aval}; clip them")
    return stop_gradient(w)


def _take_weighted(rows: Array, weights: Array, q: Array, skipping: bool) -> Array:
    """Return the first element of each sorted row at which the sum of weights reaches a fraction of theirs, as last axis."""
    empty = isnan(rows)
    order = argsort(rows)
    ordered, w = (
        take_along_axis(rows, order),
        take_along_axis(where(empty, 0.0, weights) if skipping else weights, order),
    )
    reached = cumsum(w, axis=-1)
    reached = reached / reached[..., -1:]
    short = (reached[..., None, :] < q[:, None]) | (reached[..., None, :] == 0)  # of no weight: no quantile
    at = clip(short.sum(axis=-1), 0, rows.shape[-1] - 1)
    z = take_along_axis(ordered, at)
    return z if skipping or rows.dtype.kind != "f" else where(empty.any(axis=-1, keepdims=True), math.nan, z)


PICKED = frozenset({METHODS[name] for name in PICKING})


def _neighbours(at: Array) -> tuple[Array, Array]:
    below = floor(at).astype(np.int64)
    return below, below + 1


def _interpolate(low: Array, high: Array, share: Array) -> Array:
    """Return what lies between two elements; where they are equal, or infinite, exactly these."""
    high = where((share == 0) & isinf(high), low, high)
    return where(low == high, low, low * (1 - share) + high * share)
