"""Matrix functions: powers, the exponential, roots and logarithms, and functions of Hermitian matrices."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Aval, Function, bind_single, to_lower_level
from afx.core.primitive import Params, Primitive, Tangents, Value, Values, define
from afx.core.registry import FUNCTIONS
from afx.errors import ArgumentError, MissingExtraError, ShapeError
from afx.ops._basic import xp
from afx.ops._kinds.linear import batch_along_axes
from afx.ops._kinds.matrix import eigh_by_lapack, floating, hermitian, matrix_op, plain, square, square_aval, transposed
from afx.ops.creation.creation import as_array, stop_gradient
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import where
from afx.ops.linalg.products import matmul
from afx.ops.linalg.solve import inv
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.reductions.sums import max as max_
from afx.runtime.control_register import run_as_caller

# --- Divided differences: of any order, accurate for equal, near and far points, on bare float64 values
#
# ``f[x0, …, xk]`` is the recursion's quotient where the points are far apart. Where they are near it is the Taylor
# series around their middle, whose m-th term holds the complete homogeneous symmetric polynomial of the distances;
# functions that know only their first derivatives take the integral over a simplex instead (Hermite and Genocchi).

TERMS = 22  # of the series: near points leave less than 1e-16
NEAR = 0.25  # how far apart near points are, at most, by the size of the smallest
TRUSTED = 1e-12  # two rules of integration that agree so well are right
_where: Any = np.where  # its result type is not known to checkers


class Scalar(Protocol):
    """A function of numbers, hashable, that computes with bare arrays."""

    def value(self, x: Any) -> Any:
        """Return the function."""
        ...

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return ``f[x0, …, xk]`` of points along the last axis, sorted, and where it is right: where they are near."""
        ...


def divided_differences(fn: Scalar, w: Any, order: int) -> Any:
    """Return ``f[w_i, w_j, …]`` of eigenvalues float[..., n] as float[..., n, n, …], with order + 1 axes."""
    grids = np.indices((w.shape[-1],) * (order + 1))
    with np.errstate(all="ignore"):
        return _differences(fn, np.sort(np.stack([w[..., g] for g in grids], axis=-1), axis=-1))


def _differences(fn: Scalar, x: Any) -> Any:
    if x.shape[-1] == 1:
        return fn.value(x[..., 0])
    differences, near = fn.near(x)
    if np.all(near):
        return differences
    far = (_differences(fn, x[..., 1:]) - _differences(fn, x[..., :-1])) / (x[..., -1] - x[..., 0])
    return _where(near, differences, far)


def _series(x: Any, middle: Any, unit: Any, coefficient: Callable[[int], Any]) -> Any:
    """Return the Taylor series: ``Σ c_{k+m} h_m``, of distances and coefficients by a unit of length."""
    order = x.shape[-1] - 1
    distances = (x - middle[..., None]) / unit[..., None]
    powers = [np.ones_like(middle)] + [np.zeros_like(middle)] * TERMS  # h_m of the points so far
    for i in range(order + 1):
        for m in range(1, TERMS + 1):
            powers[m] = powers[m] + distances[..., i] * powers[m - 1]
    total = sum(coefficient(order + m) * powers[m] for m in range(TERMS, -1, -1))
    return total / unit**order


def _are_near(x: Any) -> Any:
    """Tell where points are near by their distance to 0."""
    low, high = x[..., 0], x[..., -1]
    return (low * high > 0) & (high - low <= NEAR * np.minimum(np.abs(low), np.abs(high)))


def _middle(x: Any) -> Any:
    return x[..., 0] + (x[..., -1] - x[..., 0]) / 2


@attrs.frozen
class Power:
    """A real power."""

    p: float

    def value(self, x: Any) -> Any:
        """Return the power."""
        return np.sqrt(x) if self.p == 0.5 else x**self.p

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the series of binomial coefficients; of equal zeros, the derivative."""
        middle = _middle(x)
        choose = [1.0]
        for j in range(x.shape[-1] + TERMS):
            choose.append(choose[-1] * (self.p - j) / (j + 1))
        order = int(x.shape[-1]) - 1
        series = _series(x, middle, middle, lambda j: choose[j]) * self.value(middle)
        zero = x[..., 0] == x[..., -1]
        slope = choose[order] * (0 * middle) ** (self.p - order) if choose[order] else 0.0
        return _where(zero & (middle == 0), slope, series), _are_near(x) | zero


@attrs.frozen
class Logarithm:
    """The natural logarithm."""

    def value(self, x: Any) -> Any:
        """Return the logarithm."""
        return np.log(x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the series of the logarithm."""
        middle = _middle(x)
        return _series(x, middle, middle, lambda j: (-1) ** (j - 1) / j), _are_near(x)


@attrs.frozen
class Exponential:
    """The exponential function."""

    def value(self, x: Any) -> Any:
        """Return the exponential."""
        return np.exp(x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the exponential series of points less than 1 apart."""
        middle = _middle(x)
        series = _series(x, middle, np.ones_like(middle), lambda j: 1 / math.factorial(j)) * np.exp(middle)
        return series, x[..., -1] - x[..., 0] <= 1


@attrs.frozen
class Sampled:
    """A function given by its derivatives.

    Attributes:
        derivative: ``(order, x)`` to the derivative of an order at bare values.
    """

    derivative: Callable[[int, Any], Any]

    def value(self, x: Any) -> Any:
        """Return the function."""
        return self.derivative(0, x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the integral over the simplex, where two rules agree on it."""
        fine, coarse = self._integral(x, 12), self._integral(x, 8)
        same = np.abs(fine - coarse) <= TRUSTED * np.abs(fine)
        close = x[..., -1] - x[..., 0] <= 1e-3 * np.maximum(np.abs(x[..., 0]), np.abs(x[..., -1]))
        return fine, same | close

    def _integral(self, x: Any, count: int) -> Any:
        order = x.shape[-1] - 1
        nodes, weights = np.polynomial.legendre.leggauss(count)
        t = np.meshgrid(*[(nodes + 1) / 2] * order, indexing="ij")
        weight = math.prod(np.meshgrid(*[weights / 2] * order, indexing="ij"))
        steps, point = np.diff(x, axis=-1), x[..., 0].reshape(*x.shape[:-1], *[1] * order)
        share: Any = 1.0
        for i in range(order):
            share = share * t[i]
            weight = weight * t[i] ** (order - 1 - i)
            point = point + share * steps[..., i].reshape(*x.shape[:-1], *[1] * order)
        terms = self.derivative(order, point) * weight
        return terms.sum(axis=tuple(range(-order, 0)))


# --- Hermitian matrix functions: derivatives of every order, at equal eigenvalues too
#
# With eigenvalues w, projectors P and divided differences f[…], the operation of order k is
#
#     M(a; t1, …, tk) = Σ f[w_0, …, w_k] P_0 t1 P_1 t2 … tk P_k,
#
# linear in each t; order 0 is f(a). Its derivative by a is the sum of those with one more direction at every position
# (Daleckii & Krein 1965). Its transposes are itself with exchanged operands. No eigenvector is differentiated.

LETTERS = "abcdefghijklm"


def hermitian_function(a: Array, fn: Scalar) -> Array:
    """Return a function of the symmetric (Hermitian) part of matrices."""
    return bind_single(hermitian_function_p, a, fn=fn)


def _abstract(a: Aval, *ts: Aval, fn: Scalar) -> Aval:
    square(a, "hermitian_function")
    return a


def _impl(a: Any, *ts: Any, fn: Scalar) -> Any:
    square(Aval(a.shape, a.dtype), "hermitian_function")
    half = a.astype(np.result_type(a.dtype, np.float64)) / 2
    w, v = eigh_by_lapack(half + half.swapaxes(-1, -2).conj())
    rounding = w.shape[-1] * np.finfo(a.dtype).eps * np.abs(w).max(axis=-1, keepdims=True, initial=0)
    w = w * ~((w < 0) & (w >= -rounding))  # of a semidefinite matrix, 0 up to rounding
    vh = v.swapaxes(-1, -2).conj()
    f = divided_differences(fn, w, len(ts))
    if not ts:
        return ((v * f[..., None, :]) @ vh).astype(a.dtype)
    axes = LETTERS[: len(ts) + 1]
    pairs = [f"...{axes[k : k + 2]}" for k in range(len(ts))]
    inner = np.einsum(f"...{axes},{','.join(pairs)}->...{axes[0]}{axes[-1]}", f, *[vh @ t @ v for t in ts])
    return (v @ inner @ vh).astype(a.dtype)


def _bind(fn: Scalar, a: Array, ts: list[Array]) -> Array:
    return bind_single(hermitian_function_p, a, *ts, fn=fn)


def _push(tangents: Tangents, z: Value, xs: Values, params: Params) -> Value:
    a, *ts = xs
    fn: Scalar = params["fn"]
    terms = [_bind(fn, a, [*ts[:k], t, *ts[k + 1 :]]) for k, t in enumerate(tangents[1:]) if t is not None]
    if tangents[0] is not None:
        t = hermitian(tangents[0])
        terms += [_bind(fn, a, [*ts[:k], t, *ts[k:]]) for k in range(len(ts) + 1)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return to_lower_level(total)


def _pull(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value | None]:
    a, *ts = xs
    fn: Scalar = params["fn"]
    g = transposed(ct)
    cotangents = [None] * len(xs)
    if avals[0] is not None:
        total = _bind(fn, a, [*ts, g])
        for k in range(1, len(ts) + 1):
            total = total + _bind(fn, a, [*ts[k:], g, *ts[:k]])
        cotangents[0] = to_lower_level(hermitian(transposed(total)))
    for k in range(len(ts)):
        if avals[k + 1] is not None:
            cotangents[k + 1] = to_lower_level(transposed(_bind(fn, a, [*ts[k + 1 :], g, *ts[:k]])))
    return cotangents


hermitian_function_p: Primitive = define(
    name="hermitian_function",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract,
    vjp_all=_pull,
    reads=(-1,),
    jvp=_push,
    batch=batch_along_axes("hermitian_function"),
    calls_lapack=True,
)


# --- Matrix roots: principal square roots, logarithms and real powers of stacks of matrices
#
# General matrices are SciPy's business: by their Schur form (Björck & Hammarling 1983; Al-Mohy & Higham 2012; Higham
# & Lin 2013). Symmetric (Hermitian) ones go by their eigenvalues, with derivatives by divided differences.


def frechet(p: Primitive, a: Array, t: Array, **params: Any) -> Array:
    """Return a matrix function's derivative in a direction: a block of the function of [[a, t], [0, a]]."""
    n = a.shape[-1]
    if not n:
        return t
    top = stop_gradient(max_(abs_(t), axis=(-2, -1), keepdims=True))
    scale = where(top == 0, 1, top)  # so that a large direction asks for no more work
    upper = concat([a, t / scale], axis=-1)
    lower = concat([a * 0, a], axis=-1)
    return bind_single(p, concat([upper, lower], axis=-2), **params)[..., :n, n:] * scale


def sqrtm(a: ArrayLike, hermitian: bool = False) -> Array:
    """Return the principal square root of square matrices.

    Real matrices have a real one; where there is none the result is nan: make them complex.

    Args:
        a: float[..., n, n], real or complex, without eigenvalues on the negative axis.
        hermitian: whether to take the symmetric (Hermitian) part, positive semidefinite, and compute by its
            eigenvalues; all derivatives are right at equal ones. The extra ``scipy`` is needed where not.

    Raises:
        ShapeError: not square.
        MissingExtraError: SciPy is not installed, and the matrices are not Hermitian.

    >>> sqrtm(np.diag([4.0, 9.0]), hermitian=True)
    Array([[2., 0.],
           [0., 3.]], dtype=float64)
    """
    x = floating(a, "sqrtm")
    return hermitian_function(x, Power(0.5)) if hermitian else bind_single(sqrtm_p, x)


def logm(a: ArrayLike, hermitian: bool = False) -> Array:
    """Return the principal logarithm of square matrices; arguments are `sqrtm`'s.

    >>> logm(np.eye(2), hermitian=True)
    Array([[0., 0.],
           [0., 0.]], dtype=float64)
    """
    x = floating(a, "logm")
    return hermitian_function(x, Logarithm()) if hermitian else bind_single(logm_p, x)


def fractional_matrix_power(a: ArrayLike, t: float, hermitian: bool = False) -> Array:
    """Return square matrices to a real power t, a Python number; the other arguments are `sqrtm`'s.

    >>> fractional_matrix_power(np.diag([4.0, 9.0]), -0.5, hermitian=True).round(4)
    Array([[0.5   , 0.    ],
           [0.    , 0.3333]], dtype=float64)
    """
    x = floating(a, "fractional_matrix_power")
    power = float(t)
    return hermitian_function(x, Power(power)) if hermitian else bind_single(fractional_matrix_power_p, x, power=power)


# -- general matrices --
def _schur_op(name: str) -> Primitive:
    """Make an op of SciPy's function of this name, of stacks of matrices too."""

    def impl(a: Any, **params: float) -> Any:
        fn = _find_function(name)
        double = a.astype(np.result_type(a.dtype, np.float64))  # SciPy warns of what single precision loses
        z = np.empty(a.shape, np.complex128)
        with np.errstate(all="ignore"):
            for k in np.ndindex(a.shape[:-2]):  # SciPy's logarithm of infinities goes on without an end
                is_given = name == "sqrtm" or np.isfinite(double[k]).all()
                z[k] = fn(double[k], *params.values()) if is_given else np.nan
        if a.dtype.kind == "c":
            return z.astype(a.dtype)
        noise = float(np.finfo(np.float64).eps) * 1e3 * np.abs(z).max(axis=(-2, -1), keepdims=True, initial=0)
        lost = (np.abs(z.imag) > noise).any(axis=(-2, -1), keepdims=True)
        real_part = np.where(lost, np.nan, z.real)
        return real_part.astype(a.dtype)

    def abstract(a: Aval, **_params: float) -> Aval:
        square(a, name)
        return Aval(a.shape, a.dtype)

    def push(t: Array, z: Any, a: Array, **params: float) -> Array:
        return frechet(op, a, t, **params)

    def pull(ct: Array, z: Any, a: Array, **params: float) -> Array:
        return frechet(op, transposed(a), ct, **params)

    op = matrix_op(name, impl, abstract, push, pull, reads=2)
    return op


def _find_function(name: str) -> Function:
    try:
        module: Any = run_as_caller(importlib.import_module, "scipy.linalg")
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: needs SciPy for matrices that are not Hermitian; pip install 'afx[scipy]', or pass hermitian=True"
        ) from error
    function: Function = getattr(module, name)
    return function


sqrtm_p: Primitive = _schur_op("sqrtm")
logm_p: Primitive = _schur_op("logm")
fractional_matrix_power_p: Primitive = _schur_op("fractional_matrix_power")


# --- Matrix functions: powers, the exponential, and chained products


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
    z = None
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


THETA = 5.371920351148152  # up to this 1-norm the approximant is right to double precision (Higham 2005)
# up to this size of its powers it is, but for the first term that is left out (Al-Mohy & Higham 2009)
POWERS_THETA = 4.25


@functools.cache
def _pade() -> tuple[float, ...]:
    """Return the coefficients of the numerator of the Padé approximant of order 13, the highest being 1."""
    coefficients = [1.0]
    for k in range(13, 0, -1):
        coefficients.append(coefficients[-1] * k * (27 - k) / (14 - k))
    return tuple(coefficients[::-1])


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


# of Taylor's series, which is exact up to this norm (Bader, Blanes and Casas 2019)
TAYLOR_TERMS, TAYLOR_NORM = 16, 0.75


def _expm_by_series(a: Any) -> Any:
    """Return the exponential of matrices by scaling and squaring of Taylor's series (Paterson and Stockmeyer 1973)."""
    norm = xp.max(xp.sum(xp.abs(a), axis=-2), axis=-1, initial=0.0).astype(np.float64)
    is_finite = xp.isfinite(norm)
    halvings = xp.ceil(xp.log2(xp.maximum(xp.where(is_finite, norm, 1.0) / TAYLOR_NORM, 1.0)))
    x = (
        xp.where(is_finite[..., None, None], a, xp.zeros((), a.dtype))
        * xp.exp2(-halvings).astype(a.dtype)[..., None, None]
    )
    square = x @ x
    powers = [xp.eye(a.shape[-1], dtype=a.dtype), x, square, square @ x]
    fourth, z = square @ square, powers[0] / math.factorial(TAYLOR_TERMS)
    for first in range(TAYLOR_TERMS - 4, -1, -4):
        part = xp.zeros((), a.dtype)
        for k, power in enumerate(powers):
            part = part + power / math.factorial(first + k)
        z = fourth @ z + part

    def is_open(state: Any) -> Any:
        return xp.any(state[0] < halvings)

    def squared(state: Any) -> Any:
        k, z = state
        return k + 1.0, xp.where((k < halvings)[..., None, None], z @ z, z)

    z = FUNCTIONS.while_loop(is_open, squared, (xp.zeros((), np.float64), z))[1]
    return xp.where(is_finite[..., None, None], z, xp.full((), math.nan, a.dtype))


expm_p: Primitive = matrix_op(
    "expm",
    _expm_run,
    functools.partial(square_aval, "expm"),
    lambda t, _z, a: frechet(expm_p, a, t),
    lambda ct, _z, a: frechet(expm_p, transposed(a), ct),
    reads=2,
    formula=_expm_by_series,
)
