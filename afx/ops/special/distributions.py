"""Distribution functions: Fisher's F, Student's t, and quantiles of discrete distributions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, Function, Primitive, bind_single, epsilon, register_function
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import TINY, binary, elementwise
from afx.ops._kinds.special import bind_in_double, bind_special, in_doubles, parametric, scipy
from afx.ops.elementwise.arithmetic import abs as abs_, sign, sqrt
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.elementwise.exponentials import exp, log, log1p
from afx.ops.special._incomplete import bell, degree_terms, fisher_by_degrees, sides
from afx.ops.special._quadrature import double
from afx.ops.special._shares import beta_shares
from afx.ops.special.errors import ndtr
from afx.ops.special.gamma import betaln, digamma_gap, polygamma
from afx.ops.special.incomplete import betainc_slope_p, density_beta, positive, ternary

# --- Fisher's F distribution: its function of half the degrees of freedom, and the complement, differentiable by all

_where: Any = np.where  # its result type is not known to checkers


def fisher(a: ArrayLike, b: ArrayLike, s: ArrayLike) -> Array:
    """Return ``betainc(a, b, a s / (a s + b))``: the probability of a ratio below s, of 2a and 2b degrees of freedom."""
    return bind_single(fisher_p, a, b, s)


def fisherc(a: ArrayLike, b: ArrayLike, s: ArrayLike) -> Array:
    """Return ``1 - fisher(a, b, s)``, accurate where it is small."""
    return bind_single(fisherc_p, a, b, s)


def fisher_slope(a: ArrayLike, b: ArrayLike, s: ArrayLike, m: int, n: int) -> Array:
    """Return the derivative of `fisher`, of order m by a and n by b."""
    return bind_single(fisher_slope_p, a, b, s, m=m, n=n)


def _side(near: str, far: str) -> Function:
    """Return one of the two functions, by the smaller one of the share and its complement."""

    def run(a: Any, b: Any, s: Any) -> Any:
        swap, c, d, x = sides(a, b, s)
        return _where((a > 0) & (b > 0) & (s >= 0), _where(swap, scipy(far)(c, d, x), scipy(near)(c, d, x)), np.nan)

    return double(run)


def _fisher_shares(a: Any, b: Any, s: Any) -> tuple[Any, Any]:
    """Return both functions by formulas."""
    swap, c, d, x = sides(a, b, s)
    share, other = beta_shares(c, d, x)
    is_right = (a > 0) & (b > 0) & (s >= 0)
    return tuple(
        [xp.where(is_right, z, math.nan) for z in (xp.where(swap, other, share), xp.where(swap, share, other))]
    )


def _density_fisher(a: Array, b: Array, s: Array) -> Array:
    """Return the density by s, which is positive."""
    a, b = positive(a), positive(b)
    odds = minimum(a * s / b, float(np.finfo(s.dtype).max) / 4)
    small = odds <= 1
    x, y = where(small, odds, 1), 1 / where(small, 1, odds)
    u, v = x / (1 + x), y / (1 + y)  # the share, or its complement, where it is the smaller one
    front = where(small, density_beta(a, b, where(small, u, 0.5)), density_beta(b, a, where(small, 0.5, v)))
    return front * where(small, u * (1 - u), v * (1 - v)) / s


def _by_s(_z: Any, a: Array, b: Array, s: Array) -> Array:
    a, b = positive(a), positive(b)
    inside = a * s / b > 0
    return where(
        inside, _density_fisher(a, b, where(inside, s, 1)), density_beta(a, b, where(inside, 0, 0 * s)) * a / b
    )


def _slope_by_s(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    a, b = positive(a), positive(b)
    inside = a * s / b > 0
    t = where(inside, s, 1)
    inverse, share = 1 / (a * t + b), 1 / (a + b / t)
    by_a = log((a + b) * share) - b * (share - inverse) + digamma_gap(a, b) - log1p(b / a)
    by_b = log((a + b) * inverse) - a * (inverse - share) + digamma_gap(b, a) - log1p(a / b)
    terms = degree_terms(m, n, (by_a, by_b), (a, b, inverse, share), polygamma)
    front = where(inside, _density_fisher(a, b, t), 0)
    return where(front == 0, 0, front * bell(m, n, terms))


def _slope_by_a(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    return fisher_slope(a, b, s, m + 1, n)


def _slope_by_b(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    return fisher_slope(a, b, s, m, n + 1)


fisher_p: Primitive = ternary(
    "fisher",
    _side("betainc", "betaincc"),
    (lambda _z, a, b, s: fisher_slope(a, b, s, 1, 0), lambda _z, a, b, s: fisher_slope(a, b, s, 0, 1), _by_s),
    formula=in_doubles(_fisher_shares, 0),
)
fisherc_p: Primitive = ternary(
    "fisherc",
    _side("betaincc", "betainc"),
    (
        lambda _z, a, b, s: -fisher_slope(a, b, s, 1, 0),
        lambda _z, a, b, s: -fisher_slope(a, b, s, 0, 1),
        lambda z, a, b, s: -_by_s(z, a, b, s),
    ),
    formula=in_doubles(_fisher_shares, 1),
)
fisher_slope_p: Primitive = parametric(
    "fisher_slope", double(fisher_by_degrees), (_slope_by_a, _slope_by_b, _slope_by_s), {"m": 1, "n": 0}
)


# --- Student's t distribution: log density, distribution function and quantiles, differentiable by both arguments

MANY = 30.0  # degrees of freedom, from which on the terms of the derivative by them cancel
FAR = -46.0  # logarithm of a share 1e-20, beside which one rounds to one


def log_square_plus_one(u: Array) -> Array:
    """Return ``log(1 + u²)``, without overflow."""
    far = abs_(u) > 1
    large = where(far, u, 1)
    return where(far, 2 * log(abs_(large)) + log1p((1 / large) ** 2), log1p(where(far, 0, u) ** 2))


def log_density(df: Array, t: Array) -> Array:
    """Return the logarithm of the density, the normal one for an infinite number of degrees of freedom."""
    n = minimum(df, float(np.finfo(df.dtype).max))
    return -0.5 * log(n) - betaln(n / 2, 0.5) - (n + 1) / 2 * log_square_plus_one(t / sqrt(n))


def _density_student(df: Array, t: Array) -> Array:
    return exp(log_density(df, t))


@register_function
def stdtr(df: ArrayLike, t: ArrayLike) -> Array:
    """Return Student's t distribution function; needs the extra ``scipy``.

    Args:
        df: degrees of freedom, positive, any shape.
        t: a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> stdtr(3.0, 0.0)
    Array(0.5, dtype=float64)
    """
    return bind_special(stdtr_p, df, t)


def _by_df(_z: Array, df: Array, t: Array) -> Array:
    n = minimum(df, float(np.finfo(df.dtype).max))
    few, u = n < MANY, t / sqrt(n)
    a, inner = where(few, n, MANY) / 2, few & (abs_(u) < 1)
    share = exp(-log_square_plus_one(where(inner, 1, u)))  # n / (n + t²)
    rest = u * u / (1 + u * u)  # of which 1 is the whole
    far = bind_single(betainc_slope_p, a, 0.5, where(few & ~inner, share, 0.5), m=1, n=0)
    far = where(inner, -bind_single(betainc_slope_p, 0.5, a, where(inner, rest, 0.5), m=0, n=1), far)
    near = -sign(t) * far / 4 - _density_student(n, t) * t / (2 * n)
    least = abs_(t) < epsilon(t.dtype) ** 0.5  # where the density is that of 0, and a square may vanish
    half = maximum(a, 4 * float(np.finfo(t.dtype).tiny))
    near = where(least, _density_student(n, t) * t * (digamma_gap(half, 0.5) - 0.5 / half) / 2, near)
    square = minimum(t * t, float(np.finfo(t.dtype).max))
    return where(few, near, sign(t) * fisher_slope(0.5, where(few, MANY, n) / 2, where(few, 1, square), 0, 1) / 4)


_NORMAL = 1e25  # degrees of freedom


def _stdtr(df: Any, t: Any) -> Any:
    is_normal = df > _NORMAL  # to the last digit
    tail = 0.5 * _fisher_shares(0.5, xp.maximum(xp.where(is_normal, 1.0, df) / 2, TINY), t * t)[1]
    z = xp.where(is_normal, ndtr(t), xp.where(t < 0, tail, 1.0 - tail))
    return xp.where(df > 0, z, math.nan)


stdtr_p: Primitive = binary(
    "stdtr",
    scipy("stdtr"),
    (_by_df, lambda _z, df, t: _density_student(df, t)),
    kinds="f",
    formula=in_doubles(_stdtr),
    formula_sums=True,
)


@register_function
def stdtrit(df: ArrayLike, p: ArrayLike) -> Array:
    """Return the t at which ``stdtr(df, t)`` is p, the quantile of Student's t distribution; needs the extra ``scipy``.

    Args:
        df: degrees of freedom, positive, any shape.
        p: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> stdtrit(3.0, 0.5)
    Array(0., dtype=float64)
    """
    return bind_in_double(stdtrit_p, df, p)


def _quantile_by_df(z: Array, df: Array, _p: Array) -> Array:
    """Return ``-(∂F/∂df) / f``; in tails, where f may underflow, that of ``F = share**a / (2 a B(a, 1/2))``, a = df / 2."""
    log_share = -log_square_plus_one(z / sqrt(df))
    tail = log_share < FAR
    near = where(tail, 0, z)
    n, far = where(tail, df, 1), where(tail, log_share, FAR)
    in_tail = where(tail, z, 0) * ((far + 1 + digamma_gap(n / 2, 0.5)) / 2 - 1 / n) / n
    return where(tail, in_tail, -_by_df(z, df, near) / _density_student(df, near))


_FAR = 2e8  # times the root of df: beyond, SciPy's quantiles lose digits, stop, or are infinite
_of_tail, _log_beta = scipy("stdtrit"), scipy("betaln")


def _stdtrit_run(df: Any, p: Any) -> Any:
    """Return SciPy's quantiles, and far out those of the tail, ``F = share**a / (2 a B(a, 1/2))`` with a = df / 2."""
    t = _of_tail(df, p)
    with np.errstate(invalid="ignore"):
        lost = ~(np.abs(np.asarray(t, np.float64)) < _FAR * np.sqrt(df)) & (p > 0) & (p < 1) & np.isfinite(df)
    if not np.any(lost):
        return t
    n, q = [np.asarray(np.broadcast_to(x, np.shape(t))[lost], np.float64) for x in (df, p)]
    with np.errstate(over="ignore", invalid="ignore"):
        log_share = (np.log(n * np.minimum(q, 1 - q)) + _log_beta(n / 2, 0.5)) * 2 / n
        far = np.copysign(np.exp((np.log(n) - log_share) / 2), q - 0.5)
        z = np.array(t)
        z[lost] = np.where(log_share < -37, far, z[lost])  # beside which one rounds to one
    return z


stdtrit_p: Primitive = binary(
    "stdtrit", _stdtrit_run, (_quantile_by_df, lambda z, df, _p: exp(-log_density(df, z))), kinds="f"
)


# --- Discrete quantiles: steps with derivative 0

ROUNDING = 2e-15  # a distribution function that falls short of the probability by no more has reached it
DOUBLINGS = 80  # of a step from the guess
HALVINGS = 160

Moments: TypeAlias = Callable[[Any], tuple[Any, Any, Any]] | Callable[[Any, Any], tuple[Any, Any, Any]]
Tail: TypeAlias = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]


def _least(reached: Callable[[Any], Any], guess: Any, least: float, most: Any) -> Any:
    """Return the least whole number from which on a condition holds: by ever longer steps from a guess, then by halving."""
    high = np.clip(guess, least, most)
    low, first = high - 1, np.maximum(1.0, np.floor(high * 1e-12))
    step = first
    for _ in range(DOUBLINGS):
        short = (high < most) & ~reached(high)
        if not np.any(short):
            break
        low, high = _where(short, high, low), _where(short, np.minimum(high + step, most), high)
        step = 2 * step
    step = first
    for _ in range(DOUBLINGS):
        far = (low >= least) & reached(np.maximum(low, least))
        if not np.any(far):
            break
        low, high = _where(far, np.maximum(low - step, least - 1), low), _where(far, low, high)
        step = 2 * step
    for _ in range(HALVINGS):
        middle = np.floor(0.5 * (low + high))
        inside = (middle > low) & (middle < high)
        if not np.any(inside):
            break
        enough = reached(_where(inside, middle, high))
        low, high = _where(inside & ~enough, middle, low), _where(inside & enough, middle, high)
    return high


def _step(
    name: str,
    moments: Moments,
    tails: tuple[Tail, Tail],
    arity: int,
    least: float = 0.0,
    most: Function = lambda *_: math.inf,
) -> tuple[Primitive, Primitive]:
    """Make ops of the quantiles of a probability and of a complement, each settled by its own tail.

    Args:
        name: the law's.
        moments: of the parameters: mean, standard deviation and skewness, for a guess (Cornish & Fisher 1938).
        tails: the distribution function of a number and the parameters, and its complement.
        arity: how many operands there are: the parameters and the probability.
        least: the least number.
        most: the greatest, of the parameters.
    """

    def settle(upper: bool, *xs: Any) -> Any:
        *parameters, q = xs
        mean, width, skewness = moments(*parameters)
        z = scipy("ndtri")(q) * (-1 if upper else 1)
        guess = np.ceil(mean + width * (z + skewness * (z * z - 1) / 6))
        bound = q * (1 + ROUNDING) if upper else q * (1 - ROUNDING)

        def reached(k: Any) -> Any:  # of nan too, so that no search goes on for it
            return ~(tails[1](k, *parameters) > bound) if upper else ~(tails[0](k, *parameters) < bound)

        settled = _least(reached, np.where(np.isfinite(guess), guess, least), least, most(*parameters))
        unknown = np.isnan(sum(xs))
        return np.where(unknown, math.nan, settled)

    def make(op: str, upper: bool) -> Primitive:
        compute = double(functools.partial(settle, upper))
        return elementwise(op, compute, (0.0,) * arity, kinds="f")

    return make(f"{name}_quantile", False), make(f"{name}_upper_quantile", True)


def _binomial_moments(n: Any, p: Any) -> tuple[Any, Any, Any]:
    width = np.sqrt(n * p * (1 - p))
    return n * p, width, (1 - 2 * p) / width


def _nbinom_moments(n: Any, p: Any) -> tuple[Any, Any, Any]:
    failures = n * (1 - p)
    return failures / p, np.sqrt(failures) / p, (2 - p) / np.sqrt(failures)


def _largest_count(n: Any, _p: Any) -> Any:
    return np.ceil(n)


poisson_quantile_p: Primitive
poisson_upper_p: Primitive
binomial_quantile_p: Primitive
binomial_upper_p: Primitive
nbinom_quantile_p: Primitive
nbinom_upper_p: Primitive
geometric_quantile_p: Primitive
geometric_upper_p: Primitive

poisson_quantile_p, poisson_upper_p = _step(
    "poisson",
    lambda mu: (mu, np.sqrt(mu), 1 / np.sqrt(mu)),
    (lambda k, mu: scipy("gammaincc")(k + 1, mu), lambda k, mu: scipy("gammainc")(k + 1, mu)),
    2,
)
binomial_quantile_p, binomial_upper_p = _step(
    "binomial",
    _binomial_moments,
    (
        lambda k, n, p: np.where(k >= n, 1.0, scipy("betaincc")(k + 1, np.maximum(n - k, 0), p)),
        lambda k, n, p: np.where(k >= n, 0.0, scipy("betainc")(k + 1, np.maximum(n - k, 0), p)),
    ),
    3,
    most=_largest_count,
)
nbinom_quantile_p, nbinom_upper_p = _step(
    "nbinom",
    _nbinom_moments,
    (lambda k, n, p: scipy("betainc")(n, k + 1, p), lambda k, n, p: scipy("betaincc")(n, k + 1, p)),
    3,
)
geometric_quantile_p, geometric_upper_p = _step(
    "geometric",
    lambda p: (1 / p, np.sqrt(1 - p) / p, (2 - p) / np.sqrt(1 - p)),
    (lambda k, p: -np.expm1(k * np.log1p(-p)), lambda k, p: np.exp(k * np.log1p(-p))),
    2,
    least=1.0,
)


def poisson_quantile(mu: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the Poisson distribution, of a complement where ``upper`` says so."""
    return bind_single(poisson_upper_p if upper else poisson_quantile_p, mu, q)


def binomial_quantile(n: Array, p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the binomial distribution, of a complement where ``upper`` says so."""
    return bind_single(binomial_upper_p if upper else binomial_quantile_p, n, p, q)


def nbinom_quantile(n: Array, p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the negative binomial distribution, of a complement where ``upper`` says so."""
    return bind_single(nbinom_upper_p if upper else nbinom_quantile_p, n, p, q)


def geometric_quantile(p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the geometric distribution, of a complement where ``upper`` says so."""
    return bind_single(geometric_upper_p if upper else geometric_quantile_p, p, q)
