"""Quadrature and quantiles: Gauss's rule, and quantiles of normal and gamma distributions on bare values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from afx.core import Form, Function, float64

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Quadrature: Gauss's rule for smooth functions, for many parameters at once

NODES = 64
QUADRATURE_BLOCK = 1024  # parameters at a time: the values of the integrand stay in the cache


@functools.cache
def rule() -> tuple[Any, Any]:
    """Return the nodes and weights of Gauss and Legendre on the interval from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def integral(fn: Function, *xs: Any) -> Any:
    """Return the integral of ``fn(u, *xs)`` over u from 0 to 1.

    Args:
        fn: an integrand of arrays that broadcast: u along the last axis, parameters along the first.
        *xs: its parameters, of one shape; the result's.
    """
    u, weights = rule()
    flat = [np.asarray(x).reshape(-1, 1) for x in xs]
    blocks = [
        fn(u, *[x[k : k + QUADRATURE_BLOCK] for x in flat]) @ weights for k in range(0, flat[0].size, QUADRATURE_BLOCK)
    ]
    return np.concatenate([*blocks, np.zeros(0)]).reshape(np.shape(xs[0]))


def double(fn: Form) -> Function:
    """Return a function of float64 arrays of one shape as one of any real values, with NumPy's result dtype and no warnings."""

    def compute(*xs: Any, **params: Any) -> Any:
        arrays = [np.asarray(x) for x in xs]
        dtype = np.result_type(*arrays)
        if dtype.kind == "c":
            raise TypeError("complex numbers")  # the shape rule says what is wrong
        operands = np.broadcast_arrays(*[x.astype(np.float64) for x in arrays])
        with np.errstate(all="ignore"):
            z = np.asarray(fn(*operands, **params))
            return z.astype(dtype if dtype.kind == "f" else np.float64)[()]

    return compute


def record_double(fn: Function) -> Callable[..., None]:
    """Return the native form of what `double` makes of a function without branches on data: its calls, in order."""

    def native(xp: Recorder, out: Any, *xs: Any, **params: Any) -> None:
        with np.errstate(all="ignore"):
            xp.give(out, fn(*[xp.cast(x, np.float64) for x in xs], **params))

    return native


# --- Normal quantile: rational approximations (Wichura 1988, Algorithm AS241), to 1e-7 and to 1e-16

CENTRE = 0.425  # where the central approximation ends
OFFSET, NEAR, FAR = 0.180625, 1.6, 5.0

Pair = tuple[tuple[float, ...], tuple[float, ...]]  # coefficients of a numerator and a denominator, highest power first

CENTRAL_SINGLE: Pair = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
NEAR_SINGLE: Pair = ((0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777), (0.12021132975, 0.73700164250, 1.0))
FAR_SINGLE: Pair = ((0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150), (0.012258202635, 0.24197894225, 1.0))

CENTRAL_DOUBLE: Pair = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.3871328727963666080,
    ),
    (
        5226.4952788528545610,
        28729.085735721942674,
        39307.895800092710610,
        21213.794301586595867,
        5394.1960214247511077,
        687.18700749205790830,
        42.313330701600911252,
        1.0,
    ),
)
NEAR_DOUBLE: Pair = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.241780725177450611770,
        1.27045825245236838258,
        3.64784832476320460504,
        5.76949722146069140550,
        4.63033784615654529590,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.4759380849953449460e-4,
        0.0151986665636164571966,
        0.148103976427480074590,
        0.689767334985100004550,
        1.67638483018380384940,
        2.05319162663775882187,
        1.0,
    ),
)
FAR_DOUBLE: Pair = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.00124266094738807843860,
        0.0265321895265761230930,
        0.296560571828504891230,
        1.78482653991729133580,
        5.46378491116411436990,
        6.65790464350110377720,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        0.0148753612908506148525,
        0.136929880922735805310,
        0.599832206555887937690,
        1.0,
    ),
)

_array: Function = np.array


def _rows(pair: Pair, dtype: type) -> tuple[Any, ...]:
    """Return both coefficients of each power as a column, highest power first; 0 where one polynomial has it not."""
    length = max(map(len, pair))
    rows = [(0.0,) * (length - len(part)) + part for part in pair]
    return tuple(_array(rows, dtype).T[:, :, None])


RATIOS = {
    ("f", "central"): _rows(CENTRAL_SINGLE, np.float32),
    ("f", "near"): _rows(NEAR_SINGLE, np.float32),
    ("f", "far"): _rows(FAR_SINGLE, np.float32),
    ("d", "central"): _rows(CENTRAL_DOUBLE, np.float64),
    ("d", "near"): _rows(NEAR_DOUBLE, np.float64),
    ("d", "far"): _rows(FAR_DOUBLE, np.float64),
}


SIDE_BY_SIDE_MAX_ELEMENTS = 2048  # up to which calls cost more than what they compute


def _ratio(part: str, r: Any) -> Any:
    """Return the quotient of two polynomials, which are evaluated side by side where that saves half the calls."""
    rows, flat = RATIOS[r.dtype.char, part], r.reshape(-1)
    if flat.size <= SIDE_BY_SIDE_MAX_ELEMENTS:
        above, below = _polynomials(rows, flat)
    else:
        above, below = _ratio_apart(rows, flat)
    above /= below
    return above.reshape(r.shape)


def _ratio_apart(rows: tuple[Any, ...], r: Any) -> list[Any]:
    return [_polynomials([c[k, 0] for c in rows], r) for k in range(2)]


def _polynomials(coefficients: Sequence[Any], r: Any) -> Any:
    first, *between, last = coefficients
    y = first * r
    for c in between:
        y += c
        y *= r
    y += last
    return y


def central(q: Any, out: Any) -> None:
    """Write the quantiles at ``½ + q`` for q from -`CENTRE` to `CENTRE`; what it writes for others means nothing."""
    r = np.multiply(q, q)
    np.subtract(q.dtype.type(OFFSET), r, out=r)
    np.multiply(q, _ratio("central", r), out=out)


def quantile_of_tail(p: Any) -> Any:
    """Return the number above which a normal one lies with probability p, at most ``½ - CENTRE``."""
    kind = p.dtype.type
    r = np.log(p, dtype=np.float64)  # whose last digit differs between machines: rounded to float32 it hardly does
    np.negative(r, out=r)
    r = np.sqrt(r, out=r).astype(p.dtype)
    z = _ratio("near", r - kind(NEAR))
    is_far = r > kind(FAR)
    if is_far.any():
        z[is_far] = _ratio("far", r[is_far] - kind(FAR))
    return z


# -- the same of each element, whatever its value --
def _ratio_of_each(part: str, r: Any) -> Any:
    above, below = _ratio_apart(RATIOS[r.dtype.char, part], r)
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def central_of_each(q: Any) -> Any:
    """Return the quantiles at ``½ + q``, as `central` does."""
    return q * _ratio_of_each("central", q.dtype.type(OFFSET) - q * q)


def quantile_of_any_tail(p: Any) -> Any:
    """Return what `quantile_of_tail` does, and numbers without a meaning for probabilities beyond it."""
    kind = p.dtype.type
    r = np.sqrt(-np.log(p.astype(np.float64))).astype(p.dtype)
    far, near = _ratio_of_each("far", r - kind(FAR)), _ratio_of_each("near", r - kind(NEAR))
    return cast(Any, np.where(r > kind(FAR), far, near))


def quantile(p: Any) -> Any:
    """Return the quantiles of a normal distribution at any probabilities p from 0 to 1."""
    q = p - p.dtype.type(0.5)
    z = np.empty_like(q)
    central(q, z)
    far = np.nonzero(np.abs(q) > CENTRE)
    tail = p[far]
    below = tail < 0.5
    z_far = quantile_of_tail(np.where(below, tail, 1 - tail))
    z[far] = np.negative(z_far, out=z_far, where=below)
    return z


# --- Gamma quantiles: derivatives of quantiles by the shape, and logarithms of factorials, without SciPy
#
# Write ``y`` for the logarithm of a gamma number of shape a and ``z = exp(y)``. With t the distance from y,
#
#     J_k(a, y) = ∫ tᵏ exp(a t - z (eᵗ - 1)) dt
#
# over t < 0, or less that over t > 0, whichever decays from the start; its derivative by a is ``J_{k+1}``. At a fixed
# probability y moves with a by
#
#     dy/da = (ψ(a) - y) J₀ - J₁        (implicit differentiation: Figurnov, Mohamed & Mnih 2018),
#
# which is a ratio of integrals: it stays finite where the probability and the density underflow.

SERIES = 30.0  # for shapes up to this the lower integral is a series
LEAST = 2.0  # up to this z the lower one is taken, whatever the shape
DECAY = 45.0  # the integrand falls to exp of minus this within the interval
BLOCK = 2048  # elements whose integrands stay in the cache
LARGE = 16.0  # from here on asymptotic series have every digit
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
HUGE = 1e290  # bounds what overflows at the least shapes, so that no infinities cancel


def log_factorial(k: Any) -> Any:
    """Return log k! of whole float64 numbers from 0 on: from a table, and by Stirling's series."""
    x = np.maximum(k, LARGE) + 1
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    for i, b in enumerate(BERNOULLI, 1):
        large += b / (2 * i * (2 * i - 1)) / x ** (2 * i - 1)
    table = np.array([math.lgamma(i + 1) for i in range(int(LARGE))])
    return np.where(k < LARGE, table[np.minimum(k, LARGE - 1).astype(np.intp)], large)


def psi_series(order: int, a: Any) -> list[Any]:
    """Return the coefficients of ψ's Taylor series around positive numbers, ``ψ⁽ʲ⁾(a) / j!`` up to an order."""
    x = np.array(a, float64)
    shifts = [np.zeros_like(x) for _ in range(order + 1)]
    for _ in range(int(LARGE)):  # ψ(x) = ψ(x + 1) - 1/x
        small = x < LARGE
        for j, shift in enumerate(shifts):
            shift -= np.where(small, (-1) ** j * np.minimum(x ** -(j + 1.0), HUGE), 0.0)
        x += small
    return [_psi_far(j, x) + shift for j, shift in enumerate(shifts)]


def _psi_far(j: int, x: Any) -> Any:
    total = np.log(x) - 0.5 / x if j == 0 else 1 / (j * x**j) + 0.5 / x ** (j + 1)
    for i, b in enumerate(BERNOULLI, 1):
        term = b / (2 * i) * math.comb(2 * i + j - 1, j) / x ** (2 * i + j)
        total = total - term if j == 0 else total + term
    return total if j == 0 else (-1) ** (j + 1) * total


def flow(order: int, a: Any, y: Any) -> Any:
    """Return the derivative of an order of dy/da by a, where y stays: of flat float64 vectors.

    nan where a is not above 0 or exp(y) is infinite.
    """
    with np.errstate(all="ignore"):
        z = np.exp(y)
        out = np.full(a.shape, np.nan)
        valid = (a > 0) & (z < np.inf)
        short = (z <= LEAST) | ((z <= a) & (a <= SERIES))
        for chosen, compute in ((valid & short, _series), (valid & ~short, _quadrature)):
            places = np.flatnonzero(chosen)
            for start in range(0, len(places), BLOCK):
                part = places[start : start + BLOCK]
                out[part] = compute(order, a[part], y[part], z[part])
    return out


def flow_by_logarithm(order: int, a: Any, y: Any) -> Any:
    """Return the derivative of `flow` of an order by y: that of ``ψ(a) - y - (a - z) dy/da`` by a."""
    with np.errstate(all="ignore"):
        slope = math.factorial(order) * psi_series(order, a)[order] - (a - np.exp(y)) * flow(order, a, y)
        return slope - order * flow(order - 1, a, y) if order else slope - y


def _series(order: int, a: Any, y: Any, z: Any) -> Any:
    """Return the flow as ``Σ (ψ(a + m + 1) - y) zᵐ / (a (a + 1) … (a + m))``, with Taylor series in a carried along."""
    psi = psi_series(order, a + 1)
    psi[0] -= y
    terms = [1 / a]
    for _ in range(order):
        terms.append(np.maximum(np.minimum(-terms[-1] / a, HUGE), -HUGE))
    total = _product(psi, terms)
    for m in range(1, _length(a, z)):
        previous = 0.0
        for j in range(order + 1):
            psi[j] = psi[j] + (-1) ** j / (a + m) ** (j + 1)
            terms[j] = previous = (z * terms[j] - previous) / (a + m)
        total += _product(psi, terms)
    return math.factorial(order) * total


def _product(xs: list[Any], ys: list[Any]) -> Any:
    """Return the last coefficient of the product of two Taylor series."""
    return sum(x * y for x, y in zip(xs[1:], ys[-2::-1], strict=True)) + xs[0] * ys[-1]


def _length(a: Any, z: Any) -> int:
    """Return how many terms of the series there are until they fall below the rounding of the first."""
    worst = int(np.argmax(z - a)), int(np.argmax(z))
    return max(_length_of(float(a[k]), float(z[k])) for k in worst) + 8


def _length_of(a: float, z: float) -> int:
    m, term = 0, 1.0
    while term > 1e-18:
        m += 1
        term *= z / (a + m)
    return m


def _quadrature(order: int, a: Any, y: Any, z: Any) -> Any:
    """Return the flow from the integrals, by Leibniz's rule."""
    moments = _moments(order + 1, a, z)
    psi = psi_series(order, a)
    psi[0] -= y
    terms = [math.comb(order, j) * math.factorial(j) * psi[j] * moments[order - j] for j in range(order + 1)]
    return sum(terms) - moments[order + 1]


def _moments(order: int, a: Any, z: Any) -> list[Any]:
    """Return J_k up to an order, by Gauss's rule on the interval where the integrand is not negligible."""
    nodes, weights = rule()
    sign = np.where(z <= a, -1.0, 1.0)
    end = _end(a, z, sign)
    t = (sign * end)[:, None] * nodes
    values = np.expm1(t)
    values *= -z[:, None]
    values += a[:, None] * t
    np.exp(values, out=values)
    return [-sign * end * (sign * end) ** k * (values @ (weights * nodes**k)) for k in range(order + 1)]


def _end(a: Any, z: Any, sign: Any) -> Any:
    """Return the distance at which the integrand's exponent has fallen by `DECAY`: Newton's method from beyond it."""
    with np.errstate(divide="ignore"):
        t = np.minimum(DECAY / np.abs(z - a), np.sqrt(3 * DECAY / z))
    # the square root is a bound for short distances alone
    t = cast(Any, np.where((sign < 0) & (t > 1), (DECAY + z) / a, t))
    for _ in range(12):
        s = sign * t
        t = t - (z * np.expm1(s) - a * s - DECAY) / (sign * (z * np.exp(s) - a))
    return t
