"""Matrix functions: powers, the exponential, and chained products."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.matrix import floating, matrix_op, plain, square, transposed
from afx.ops.creation.creation import as_array
from afx.ops.creation.matrices import eye
from afx.ops.linalg._divided_differences import Exponential
from afx.ops.linalg.hermitian_functions import hermitian_function
from afx.ops.linalg.products import matmul
from afx.ops.linalg.roots import frechet
from afx.ops.linalg.solve import inv
from afx.ops.manipulation.shape import broadcast_to, reshape

__all__ = ["expm", "matrix_power", "multi_dot"]


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return square matrices multiplied n times by themselves; negative powers are those of the inverse.

    Args:
        a: [..., n, n]; integers stay integers where n is not negative.
        n: an integer.

    Raises:
        ShapeError: not square.
        ArgumentError: n is no integer.
        numpy.linalg.LinAlgError: a singular matrix and a negative n.

    >>> matrix_power(afx.asarray([[2.0]]), 3)
    Array([[8.]], dtype=float32)
    """
    x = as_array(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: needs square matrices: got {x.aval}; reshape it")
    try:
        count = operator.index(n)
    except TypeError:
        raise ArgumentError(f"matrix_power: n is an integer: got {n!r}; round it") from None
    base = inv(x) if count < 0 else x
    z: Array | None = None
    count = abs(count)
    while count:
        if count % 2:
            z = base if z is None else matmul(z, base)
        count //= 2
        base = matmul(base, base) if count else base
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape) if z is None else z


# -- chains --
def multi_dot(arrays: Sequence[ArrayLike], /) -> Array:
    """Return the product of two or more matrices, in the order of products that costs least.

    Args:
        arrays: matrices that fit; the first may be a vector, which counts as a row, and the last one, a column.

    Raises:
        ArgumentError: fewer than two.
        ShapeError: they do not fit, or have other numbers of axes.

    >>> multi_dot([afx.asarray([[1.0, 2.0]]), afx.asarray([[3.0], [4.0]]), afx.asarray([[2.0]])])
    Array([[22.]], dtype=float32)
    """
    xs = [as_array(x) for x in arrays]
    if len(xs) < 2:
        raise ArgumentError(f"multi_dot: multiplies two matrices or more: got {len(xs)}; add another")
    got = ", ".join(str(x.aval) for x in xs)
    first, last = xs[0].ndim == 1, xs[-1].ndim == 1
    xs[0] = reshape(xs[0], (1, -1)) if first else xs[0]
    xs[-1] = reshape(xs[-1], (-1, 1)) if last else xs[-1]
    if any(x.ndim != 2 for x in xs) or any(x.shape[1] != y.shape[0] for x, y in itertools.pairwise(xs)):
        raise ShapeError(f"multi_dot: matrices do not fit one after another: got {got}; transpose or reshape one")
    z = _product(xs, _cuts([x.shape[0] for x in xs] + [xs[-1].shape[1]]), 0, len(xs) - 1)
    return reshape(z, z.shape[1 if first else 0 : 1 if last else 2])


def _cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where the cheapest order cuts the chain from i to j; matrix i is ``sizes[i]`` by ``sizes[i + 1]``."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            prices = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(prices)
            cuts[i, j] = i + prices.index(cost[i, j])
    return cuts


def _product(xs: list[Array], cuts: dict[tuple[int, int], int], i: int, j: int) -> Array:
    if i == j:
        return xs[i]
    return matmul(_product(xs, cuts, i, cuts[i, j]), _product(xs, cuts, cuts[i, j] + 1, j))


# -- the exponential --
def expm(a: ArrayLike, hermitian: bool = False) -> Array:
    """Return the exponential of square matrices, by scaling, a Padé approximant of order 13, and squaring.

    The algorithm is that of Al-Mohy & Higham 2009, "A new scaling and squaring algorithm for the matrix exponential"; the
    derivative is read from the exponential of a block matrix (Najfeld & Havel 1995).

    Args:
        a: float[..., n, n], real or complex.
        hermitian: whether to take the symmetric (Hermitian) part, and compute by its eigenvalues.

    Raises:
        ShapeError: not square.

    >>> expm(afx.asarray([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    x = floating(a, "expm")
    return hermitian_function(x, Exponential()) if hermitian else bind_single(expm_p, x)


def _expm_abstract(a: Aval) -> Aval:
    square(a, "expm")
    return Aval(a.shape, a.dtype)


THETA = 5.371920351148152  # up to this 1-norm the approximant is right to double precision (Higham 2005)
# up to this size of its powers it is, but for the first term that is left out (Al-Mohy & Higham 2009)
POWERS_THETA = 4.25


@functools.cache
def _pade() -> tuple[float, ...]:
    """Return the coefficients of the numerator of the Padé approximant of order 13, the highest being 1."""
    found = [1.0]
    for k in range(13, 0, -1):
        found.append(found[-1] * k * (27 - k) / (14 - k))
    return tuple(found[::-1])


def _expm_run(a: Any) -> Any:
    finite = plain(np.isfinite(a).all(axis=(-2, -1), keepdims=True))
    x = np.where(finite, a, np.zeros((), a.dtype))
    halvings = _halvings(x)[..., None, None]
    z = _approximant(_scale_by_powers(x, -halvings))
    for k in range(int(halvings.max(initial=0))):
        z = plain(np.where(halvings > k, z @ z, z))
    return np.where(finite, z, np.asarray(np.nan, a.dtype))


def _scale_by_powers(x: Any, exponents: Any) -> Any:
    """Return a matrix times a power of two."""
    return x * np.ldexp(np.ones((), x.real.dtype), exponents)


def _size(x: Any) -> Any:
    """Return the 1-norms of matrices."""
    return np.abs(x).sum(axis=-2).max(axis=-1, initial=0)


def _doublings(x: Any) -> Any:
    """Return the powers of two, not below 1, that numbers do not exceed."""
    return np.ceil(np.log2(np.maximum(x, 1))).astype(int)


def _halvings(x: Any) -> Any:
    """Return how often to halve each matrix: by its norm, or less often where its powers are smaller than the norm predicts."""
    by_norm = _doublings(_size(x) / THETA)
    if not by_norm.any():
        return by_norm
    x = x.astype(np.result_type(x, np.float64))
    exponents = _doublings(_size(x))
    small = _scale_by_powers(x, -exponents[..., None, None])  # its powers do not overflow
    p2 = small @ small
    p4 = p2 @ p2
    roots = [
        _scale_by_powers(_size(p) ** (1 / k), exponents) for k, p in ((6, p4 @ p2), (8, p4 @ p4), (10, p4 @ p2 @ p4))
    ]
    bound = np.minimum(np.maximum(roots[0], roots[1]), np.maximum(roots[1], roots[2]))
    by_powers = _doublings(bound / POWERS_THETA)
    return np.minimum(by_norm, by_powers + _more(_scale_by_powers(np.abs(x), -by_powers[..., None, None])))


def _more(size: Any) -> Any:
    """Return how many more halvings the first term that the approximant leaves out asks for, from elements' sizes."""
    first = math.comb(26, 13) * math.factorial(27)
    top = _size(size)
    sums = np.ones((*size.shape[:-2], 1, size.shape[-1])) / np.where(top > 0, top, 1)[..., None, None]
    with np.errstate(over="ignore"):
        for _ in range(27):
            sums = plain(np.minimum(sums @ size, np.finfo(np.float64).max / size.shape[-1]))
    share = sums.max(axis=(-2, -1), initial=0) / first / (np.finfo(np.float64).eps / 2)
    return np.ceil(np.log2(np.maximum(share, 1)) / 26).astype(int)


def _approximant(x: Any) -> Any:
    b = _pade()
    one = plain(np.eye(x.shape[-1], dtype=x.dtype))
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    high_u = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2)
    high_v = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2)
    u = x @ (high_u + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    v = high_v + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    return plain(np.linalg.solve(v - u, v + u))


def _expm_push(t: Array, z: Any, a: Array) -> Array:
    return frechet(expm_p, a, t)


def _expm_pull(ct: Array, z: Any, a: Array) -> Array:
    return frechet(expm_p, transposed(a), ct)


expm_p: Primitive = matrix_op("expm", _expm_run, _expm_abstract, _expm_push, _expm_pull, reads=2)
