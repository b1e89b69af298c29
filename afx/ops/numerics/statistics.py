"""Covariance: covariance and correlation matrices of variables."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import DType, check_dtype, float16, float32, promote, real_dtype
from afx.core.registry import register_function
from afx.core.weakness import is_weak
from afx.errors import ShapeError
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.complex import conj
from afx.ops.elementwise.where import clip
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.axes import atleast_2d
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["corrcoef", "cov"]


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
    found = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating=True)
    natural = found if dtype is None else check_dtype(dtype, who)
    weak = dtype is None and all([is_weak(v) for v in given])  # noqa: C419  # a list is quicker
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
    often, much = _weights(fweights, rows, "fweights"), _weights(aweights, rows, "aweights")
    w = much if often is None else often if much is None else often * much
    assert w is not None
    total = sum(w)
    d = rows - sum(rows * w, 1, keepdims=True) / total
    return d, d * w, total - correction * (1 if much is None else sum(w * much) / total)


def _weights(given: Any, rows: Array, name: str) -> Array | None:
    if given is None:
        return None
    w = promote_operands(given, rows)[0]
    if w.shape != rows.shape[1:]:
        raise ShapeError(f"cov: {name} hold one number an observation: got {w.aval} for {rows.aval}; give a vector")
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
