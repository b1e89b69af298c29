"""Normal quantile: rational approximations (Wichura 1988, Algorithm AS241), to 1e-7 and to 1e-16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from afx.compiler.random_tables import (
    CENTRAL_DOUBLE,
    CENTRAL_SINGLE,
    CENTRE,
    FAR,
    FAR_DOUBLE,
    FAR_SINGLE,
    NEAR,
    NEAR_DOUBLE,
    NEAR_SINGLE,
    OFFSET,
    Pair,
)

__all__ = ["CENTRE", "central", "central_of_each", "quantile", "quantile_of_any_tail", "quantile_of_tail"]

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
