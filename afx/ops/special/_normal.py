"""Normal quantile: rational approximations (Wichura 1988, Algorithm AS241), to 1e-7 and to 1e-16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

__all__ = ["CENTRE", "central", "central_of_each", "quantile", "quantile_of_any_tail", "quantile_of_tail"]

CENTRE = 0.425  # where the central approximation ends
OFFSET, NEAR, FAR = 0.180625, 1.6, 5.0

Pair = tuple[tuple[float, ...], tuple[float, ...]]  # coefficients of a numerator and a denominator, highest power first

CENTRAL_SINGLE: Pair = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
NEAR_SINGLE: Pair = ((0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777), (0.12021132975, 0.73700164250, 1.0))
FAR_SINGLE: Pair = (
    (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150),
    (0.012258202635, 0.24197894225, 1.0),
)

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

_array: Callable[..., Any] = np.array


def _rows(pair: Pair, dtype: type) -> tuple[Any, ...]:
    """Return both coefficients of each power as a column, highest power first; 0 where one polynomial has it not."""
    length = max(map(len, pair))
    rows = [(0.0,) * (length - len(part)) + part for part in pair]
    table = _array(rows, dtype)
    return tuple(table.T[:, :, None])


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
