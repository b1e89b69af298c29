"""Histograms and covariance: counts in bins, differentiable in weights and edges, and correlations of variables."""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, aval_of, common_dtype, floating_dtype, integer, is_weak, register_function
from afx.core.dtypes import DType, check_dtype, float16, float32, float64, promote, real_dtype
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, ShapeError
from afx.ops._basic import sum_dtype
from afx.ops.creation.creation import Nested, as_array, asarray, ones, promote_operands, stop_gradient
from afx.ops.creation.ranges import linspace
from afx.ops.elementwise.comparison import clip, isfinite, where
from afx.ops.elementwise.complex import conj
from afx.ops.indexing.gather import scatter
from afx.ops.indexing.index import is_sequence, shape_of
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.join import atleast_2d, concat, stack, unstack
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions.cumulative import diff
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import max, min, sum
from afx.ops.sorting.sort import searchsorted

# --- Histograms: counts in bins, differentiable in the weights and in the extremes between which equal bins lie

_bin_edges: Any = np.histogram_bin_edges  # its result type is not known to checkers
Bins: TypeAlias = "int | str | ArrayLike | Sequence[float]"
Ends: TypeAlias = "tuple[ArrayLike, ArrayLike] | None"


@register_function
def bincount(x: Nested, /, weights: Nested | None = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """Return how often each number from 0 on occurs, or the sums of the weights of its occurrences.

    Args:
        x: int[n], no negative ones.
        weights: float[n]; differentiable. Booleans and integers are summed in float64.
        minlength: the number of bins at least.
        length: the number of bins; without it the largest element decides, which must be known then.

    Raises:
        DtypeError: elements that are not integers.
        ShapeError: no vector, or weights of another length.
        ConcreteValueError: elements that are not known, as under `jit`, without ``length``.

    >>> bincount(np.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int64)
    """
    index = asarray(x)
    if index.ndim != 1:
        raise ShapeError(f"bincount: counts the elements of a vector: got {index.aval}; reshape it")
    if index.dtype.kind not in "biu" and index.size:
        raise DtypeError(f"bincount: counts integers: got {index.aval}; convert them with astype")
    index = astype(index, np.int64)
    if length is None:
        known = index.concrete("bincount")
        minlength = integer(minlength, "bincount", "minlength")
        if minlength < 0:
            raise ArgumentError(f"bincount: there are 0 bins or more: got minlength={minlength}; give another number")
        if known.size and known.min() < 0:
            raise ArgumentError(
                f"bincount: numbers must not be negative: got {known.min()} in {index.aval}; shift them"
            )
        length = int(known.max(initial=minlength - 1)) + 1
    w = ones(index.shape, np.int64) if weights is None else asarray(weights)
    if weights is not None and w.dtype.kind in "biu":
        w = astype(w, float64)
    if w.shape != index.shape:
        raise ShapeError(f"bincount: a weight belongs to each element: got {w.aval} for {index.aval}; give as many")
    return scatter(w, index, shape=(length,))


@register_function
def digitize(x: Nested, bins: Nested, right: bool = False) -> Array:
    """Return the number of the bin that each element lies in: i where ``bins[i - 1] <= x < bins[i]``.

    Args:
        x: any shape.
        bins: float[n], ascending or descending; nan is the largest number.
        right: whether bins hold their right edge and not the left one.

    Raises:
        ShapeError: the bins are no vector.
        ArgumentError: they are in no order.

    >>> digitize(np.array([0.5, 2.0]), np.array([0.0, 1.0, 2.0]))
    Array([1, 3], dtype=int64)
    """
    y, edges = promote_operands(x, bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins are a vector: got {edges.aval}; reshape it")
    try:
        known = stop_gradient(edges).concrete("digitize")
        if _is_falling(known) and (known[1:] > known[:-1]).any():
            raise ArgumentError(
                f"digitize: bins must be monotonically increasing or decreasing: got {edges!r}; sort them"
            )
    except ConcreteValueError:
        pass  # compiled, they cannot be checked
    if edges.shape[0] < 2:
        return searchsorted(edges, y, side="left" if right else "right")
    rising = searchsorted(edges, y, side="left" if right else "right")
    falling = edges.shape[0] - searchsorted(flip(edges), y, side="left" if right else "right")
    return where(_is_falling(edges), falling, rising)


def _is_falling(edges: Any) -> Any:
    return (edges[:1] != edges[:1]).any() | (edges[1:] < edges[:-1]).any()  # nan in front: the largest comes first


# -- edges --
@register_function
def histogram_bin_edges(x: Nested, bins: Bins = 10, range: Ends = None, weights: Nested | None = None) -> Array:
    """Return the edges of the bins of a histogram.

    Args:
        x: any shape; its extremes are the outer edges, and have their derivative.
        bins: how many, of equal widths; NumPy's name of a rule that says how many; or the edges themselves.
        range: the outer edges; without them the extremes of x.
        weights: has no effect.

    Raises:
        ArgumentError: no bins, or edges that do not ascend.

    >>> histogram_bin_edges(np.array([0.0, 1.0]), 2)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    return _edges(reshape(as_array(x), (-1,)), bins, range, "histogram_bin_edges")


def _edges(x: Array, bins: Any, ends: Ends, who: str) -> Array:
    """Return the edges of bins: those given, or even ones by their number or by a rule of NumPy's.

    Raises:
        ArgumentError: the rule, the range or the order of the edges is wrong.
        ShapeError: the edges are no vector of two or more.
    """
    if ends is not None and (len(ends) if is_sequence(ends) else shape_of(ends)) not in (2, (2,)):
        raise ArgumentError(f"{who}: a range is a pair of ends: got {ends!r}; give (low, high)")
    if isinstance(bins, str):
        known = stop_gradient(x).concrete(who)
        bounds = None if ends is None else [stop_gradient(asarray(end)).concrete(who) for end in ends]
        try:
            bins = len(_bin_edges(known, bins, bounds)) - 1
        except ValueError as error:
            raise ArgumentError(f"{who}: NumPy has no such rule ({error}): got {bins!r}; give a number") from error
    if not is_sequence(bins) and aval_of(bins, who).ndim == 0:
        return _even_edges(x, bins, ends, who)
    edges = promote_operands(bins, x)[0]
    if edges.ndim != 1 or edges.size < 2:
        raise ShapeError(f"{who}: edges are a vector of two or more: got {edges.aval}; reshape it, or give a number")
    try:
        if (stop_gradient(edges[1:]) < stop_gradient(edges[:-1])).any():
            raise ArgumentError(f"{who}: bins must increase monotonically: got {edges!r}; sort them")
    except ConcreteValueError:
        pass  # compiled, they cannot be checked
    return edges


def _even_edges(x: Array, bins: Any, ends: Ends, who: str) -> Array:
    """Return edges of ``bins`` bins of one width, from the range, or from the least to the greatest element.

    Raises:
        ArgumentError: no bin, or a range that is reversed or not finite.
    """
    count = integer(bins, who, "bins")
    if count < 1:
        raise ArgumentError(f"{who}: there is 1 bin or more: got bins={bins}; give another number")
    # among float64 edges integers lie where they belong
    dtype = float64 if x.dtype.kind in "iu" else floating_dtype(x.dtype)
    if ends is not None:
        low, high = (astype(end, dtype) for end in ends)
    elif x.size:
        low, high = astype(min(x), dtype), astype(max(x), dtype)
    else:
        low, high = astype(0.0, dtype), astype(1.0, dtype)
    flat = low == high
    try:
        if (low > high).any():
            raise ArgumentError(
                f"{who}: max must be larger than min in range parameter: got {low!r} to {high!r}; exchange its ends"
            )
        if not (isfinite(low) & isfinite(high)).all():
            raise ArgumentError(f"{who}: the ends of the range are not finite: got {low!r} and {high!r}; give range=")
    except ConcreteValueError:
        pass  # compiled, they cannot be checked
    return linspace(where(flat, low - 0.5, low), where(flat, high + 0.5, high), count + 1)


def _bin(x: Array, edges: Array) -> tuple[Array, Array]:
    """Return the bin of each element, and whether it lies in any; the last one holds its right edge."""
    count = edges.shape[0] - 1
    y = stop_gradient(x)
    place = searchsorted(edges, y, side="right") - 1
    place = where(y == edges[-1], count - 1, place)
    return clip(place, 0, count - 1), (place >= 0) & (place < count)


# -- histograms --
@register_function
def histogram(
    x: Nested, bins: Bins = 10, range: Ends = None, density: bool | None = None, weights: Nested | None = None
) -> tuple[Array, Array]:
    """Return how many elements lie in each bin, and the edges of the bins; the last bin holds its right edge.

    The counts have derivative 0 by x; they are differentiable in the weights, as the edges are in the extremes of x.

    Args:
        x: any shape.
        bins: see `histogram_bin_edges`; a number or edges under `jit`.
        range: see `histogram_bin_edges`; elements outside are not counted.
        density: divides by the widths of bins and the total, so that the integral is 1.
        weights: of x's shape: what each element counts; booleans and small integers are summed as int64.

    Raises:
        ShapeError: weights of another shape.
        ArgumentError: see `histogram_bin_edges`.

    >>> histogram(np.array([0.0, 0.25, 1.0]), 2)[0]
    Array([2, 1], dtype=int64)
    """
    if weights is not None and isinstance(bins, str):
        raise ArgumentError(f"histogram: no rule counts weights: got bins={bins!r} with weights; give a number of bins")
    y = asarray(x)
    w = _weights_of_elements(weights, y, "histogram")
    flat = reshape(y, (-1,))
    edges = _edges(flat, bins, range, "histogram")
    counts = _count_in_boxes([flat], [edges], w)
    if not density:
        return counts, edges
    counts = astype(counts, promote((counts.dtype, edges.dtype), (weights is None, False), floating=True))
    return counts / diff(edges) / sum(counts), edges


def _weights_of_elements(weights: Nested | None, x: Array, who: str) -> Array:
    if weights is None:
        return ones((x.size,), np.int64)
    w = promote_operands(weights, x)[0]
    if w.shape != x.shape:
        raise ShapeError(f"{who}: weights have the shape of x: got {w.aval} for {x.aval}; give one each")
    return reshape(astype(w, sum_dtype(w.dtype)), (-1,))


def _count_in_boxes(columns: Sequence[Array], edges: Sequence[Array], w: Array) -> Array:
    """Return the sums of weights in the boxes of a grid."""
    inside: Any = True
    number: Any = 0
    shape = tuple([e.shape[0] - 1 for e in edges])
    for x, e, n in zip(columns, edges, shape, strict=True):
        place, held = _bin(x, e)
        inside, number = held & inside, number * n + place
    total = scatter(where(inside, w, np.zeros((), w.dtype)), number, shape=(math.prod(shape),))
    return reshape(total, shape)


@register_function
def histogramdd(
    sample: Nested,
    bins: int | Sequence[Bins] = 10,
    range: Sequence[Ends] | None = None,
    density: bool | None = None,
    weights: Nested | None = None,
) -> tuple[Array, tuple[Array, ...]]:
    """Return how many points lie in each box of a grid, and the edges along each axis; see `histogram`.

    Args:
        sample: float[points, axes], or a sequence of one vector an axis.
        bins: for each axis, or one number for all.
        range: the outer edges of each axis, or None.
        density: divides by the volumes of boxes and the total.
        weights: float[points].

    Raises:
        ArgumentError: bins or ranges for another number of axes.
        ShapeError: a sample of other than two axes, or weights of another length.

    >>> histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]]), 2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    points = _points(sample)
    if points.ndim != 2:
        raise ShapeError(f"histogramdd: a sample is a matrix: got {points.aval}; reshape it to [points, axes]")
    return _count_in_grid(unstack(points, axis=1), bins, range, density, weights, "histogramdd")


def _points(sample: Any) -> Array:
    points = stack([asarray(c) for c in sample], axis=1) if is_sequence(sample) else asarray(sample)
    return reshape(points, (-1, 1)) if points.ndim == 1 else points


def _count_in_grid(
    columns: Sequence[Array], bins: Any, ranges: Any, density: bool | None, weights: Any, who: str
) -> tuple[Array, tuple[Array, ...]]:
    """Return counts of points, or their density, in the boxes between edges of each axis, and these edges.

    Bins are of all axes or of each, ranges of each.
    """
    each = list(bins) if is_sequence(bins) or (hasattr(bins, "__len__") and np.ndim(bins)) else [bins] * len(columns)
    ends = [None] * len(columns) if ranges is None else list(ranges)
    if len(each) != len(columns) or len(ends) != len(columns):
        raise ArgumentError(
            f"{who}: bins and ranges belong to each axis: got {len(each)} and {len(ends)} for {len(columns)}; "
            "give one for each"
        )
    edges = tuple([_edges(x, b, e, who) for x, b, e in zip(columns, each, ends, strict=True)])
    counts = _count_in_boxes(columns, edges, _weights_of_elements(weights, columns[0], who))
    counts = astype(counts, floating_dtype(counts.dtype, columns[0].dtype))
    if density:
        counts = counts / sum(counts)
        for axis, e in enumerate(edges):
            counts = counts / reshape(diff(e), (-1, *(1,) * (len(edges) - axis - 1)))
    return counts, edges


@register_function
def histogram2d(
    x: Nested,
    y: Nested,
    bins: Bins | Sequence[Bins] = 10,
    range: Sequence[Ends] | None = None,
    density: bool | None = None,
    weights: Nested | None = None,
) -> tuple[Array, Array, Array]:
    """Return how many points of the plane lie in each box of a grid, and the edges along x and along y.

    Args:
        x: float[points].
        y: float[points].
        bins: one number or vector of edges for both axes, or a pair of these.
        range: the outer edges of both axes, or None.
        density: divides by the areas of boxes and the total.
        weights: float[points].

    Raises:
        ShapeError: vectors of different lengths.

    >>> histogram2d(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    columns = promote_operands(x, y)
    if columns[0].ndim != 1 or columns[0].shape != columns[1].shape:
        got = " and ".join(str(c.aval) for c in columns)
        raise ShapeError(f"histogram2d: points have two coordinates: got {got}; give vectors of one length")
    pair = bins if isinstance(bins, Sequence) and not isinstance(bins, str) and len(bins) == 2 else [bins, bins]
    counts, edges = _count_in_grid(columns, pair, range, density, weights, "histogram2d")
    return counts, edges[0], edges[1]


# --- Covariance: covariance and correlation matrices of variables


@register_function
def cov(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: ArrayLike | Sequence[int] | None = None,
    aweights: ArrayLike | Sequence[float] | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return the covariance matrix of variables that were observed together.

    Args:
        x: float[variables, observations], or the observations of one variable.
        y: more variables with the same observations.
        rowvar: whether variables are rows; where it is false they are columns.
        bias: divides by the number of observations instead of one less.
        ddof: what is subtracted from the number of observations, whatever ``bias`` says.
        fweights: int[observations], how often each observation was made.
        aweights: float[observations], how much each counts; differentiable too.
        dtype: converts the observations first.

    Raises:
        ShapeError: more than two axes, or weights of another length.
        DtypeError: ``fweights`` that are no integers.
        ArgumentError: negative weights.

    >>> cov(np.array([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float64)
    """
    rows, natural = _variables(x, y, rowvar, dtype, "cov")
    d, weighted, number = _deviations(rows, fweights, aweights, bias, ddof)
    z = matmul(d, conj(weighted).T) / number
    z = z if is_weak(z) else astype(z, natural)
    return reshape(z, ()) if z.shape == (1, 1) else z


def _variables(
    x: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: DTypeLike | None, who: str
) -> tuple[Array, DType]:
    """Return the variables as rows, in one floating dtype that holds sums, and the dtype of the result."""
    given = [v for v in (x, y) if v is not None]
    avals = [aval_of(v, who) for v in given]
    if builtins.any(a.ndim > 2 for a in avals):
        raise ShapeError(f"{who}: takes vectors and matrices: got {', '.join(map(str, avals))}; reshape them")
    promoted = common_dtype(avals, floating=True)
    natural = promoted if dtype is None else check_dtype(dtype, who)
    weak = dtype is None and all(map(is_weak, given))
    held = given if weak else [astype(v, float32 if natural == float16 else natural) for v in given]
    rows = [atleast_2d(v) for v in held]
    if not rowvar:  # a vector is one variable, and so is one row among the others
        columns = [a.ndim == 2 and (k == 0 or a.shape[0] != 1) for k, a in enumerate(avals)]
        rows = [v.T if turned else v for v, turned in zip(rows, columns, strict=True)]
    return concat(rows, axis=0), natural


def _deviations(rows: Array, fweights: Any, aweights: Any, bias: bool, ddof: float | None) -> tuple[Array, Array, Any]:
    """Return the deviations from the means, the same weighted, and what sums of their products are divided by."""
    correction = (0 if bias else 1) if ddof is None else ddof
    n = rows.shape[1]
    if fweights is None and aweights is None:
        d = rows - sum(rows, 1, keepdims=True) / n
        return d, d, n - correction if n > correction else math.nan
    often, much = _weights_of_rows(fweights, rows, "fweights"), _weights_of_rows(aweights, rows, "aweights")
    w = much if often is None else often if much is None else often * much
    assert w is not None
    total = sum(w)
    d = rows - sum(rows * w, 1, keepdims=True) / total
    return d, d * w, total - correction * (1 if much is None else sum(w * much) / total)


def _weights_of_rows(given: Any, rows: Array, name: str) -> Array | None:
    if given is None:
        return None
    w = promote_operands(given, rows)[0]
    if w.shape != rows.shape[1:]:
        raise ShapeError(f"cov: {name} hold one number an observation: got {w.aval} for {rows.aval}; give a vector")
    if name == "fweights" and (times := asarray(given)).dtype.kind not in "biu":
        raise DtypeError(
            f"cov: fweights are numbers of times: got {times.aval}; convert them with astype, or give aweights"
        )
    with contextlib.suppress(ConcreteValueError):  # compiled, they cannot be checked
        if (stop_gradient(w) < 0).any():
            raise ArgumentError(f"cov: {name} must not be negative: got {given!r}; clip them")
    return astype(w, real_dtype(rows.dtype))


@register_function
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return the matrix of correlation coefficients of variables that were observed together, all from -1 to 1.

    Arguments are those of `cov`. A variable that does not vary has coefficients nan.

    >>> corrcoef(np.array([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float64)
    """
    rows, natural = _variables(x, y, rowvar, dtype, "corrcoef")
    d = rows - sum(rows, 1, keepdims=True) / rows.shape[1]
    unit = d / vector_norm(d, 1, keepdims=True)
    z = _bound_correlation(matmul(unit, conj(unit).T) if d.shape[1] else matmul(d, conj(d).T) * math.nan)
    z = z if is_weak(z) else astype(z, natural)
    return reshape(z, ()) if z.shape == (1, 1) else z


def _bound_correlation(z: Array) -> Array:
    """Return z within -1 and 1, which rounding may leave, with the derivative it has without the bounds."""
    if z.dtype.kind == "c":
        return z
    known = stop_gradient(z)
    return z + (clip(known, -1, 1) - known)
