"""Diagnostics: whether chains have met, how many independent draws theirs are worth, and a table of both.

R-hat and effective sample sizes are those of Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, over draws
float[chains, draws, ...]; E-BFMI is Betancourt's 2016. Figures and further tables are arviz's: see `to_arviz`.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from afx import pytree
from afx.core import ArrayLike
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.sample.draw import Draws
from afx.transforms._arguments import describe

Numbers: TypeAlias = "npt.NDArray[np.float64]"

FEWEST = 4  # draws of a chain


def r_hat(x: ArrayLike) -> Numbers:
    """Return the rank-normalized split R-hat of draws float[chains, draws, ...]: 1 where chains agree, fine below 1.01.

    Raises:
        ShapeError: fewer than four draws, or no axis of chains.

    >>> bool(r_hat(np.random.default_rng(0).normal(size=(4, 200))) < 1.03)
    True
    """
    return _for_each("r_hat", x, _r_hat)


def ess_bulk(x: ArrayLike) -> Numbers:
    """Return how many independent draws would give the centre of the distribution as well; 400 or more are asked for.

    Raises:
        ShapeError: as `r_hat`.
    """
    return _for_each("ess_bulk", x, lambda chains: _ess(_normalize(_split(chains))))


def ess_tail(x: ArrayLike) -> Numbers:
    """Return how many independent draws would give the quantiles of 5 and 95 % as well, the worse of both.

    Raises:
        ShapeError: as `r_hat`.
    """
    return _for_each("ess_tail", x, _ess_tail)


def e_bfmi(energy: ArrayLike) -> Numbers:
    """Return of each chain how well momenta explore energies, float[chains]; below 0.3 tails may be missed.

    Args:
        energy: float[chains, draws], such as ``draws.energy``.
    """
    e = _numbers_of("e_bfmi", energy)
    if e.ndim != 2:
        raise ShapeError(f"e_bfmi: energies have an axis of chains and one of draws: got shape {e.shape}")
    shares: Numbers = np.sum(np.diff(e, axis=1) ** 2, axis=1) / (e.shape[1] * np.var(e, axis=1))
    return shares


def _numbers_of(who: str, x: ArrayLike) -> Numbers:
    """Return draws as numbers, or say what is given in their place."""
    given = np.asarray(x) if hasattr(x, "__array__") or isinstance(x, (list, tuple)) else np.asarray(None)
    if given.dtype.kind not in "fiub":
        raise DtypeError(f"{who}: takes draws of one parameter, real numbers: got {describe(x)}; give draws.params[…]")
    return given.astype(np.float64)


def _for_each(who: str, x: ArrayLike, fn: Callable[[Numbers], float]) -> Numbers:
    """Return a function of each number's chains, float[chains, draws]."""
    draws = _numbers_of(who, x)
    if draws.ndim < 2 or draws.shape[0] == 0 or draws.shape[1] < FEWEST:
        raise ShapeError(f"{who}: takes draws float[chains, draws, ...], four at least: got shape {draws.shape}")
    values = [fn(draws[(..., *index)]) for index in np.ndindex(draws.shape[2:])]
    return np.reshape(np.asarray(values, np.float64), draws.shape[2:])


def _split(x: Numbers) -> Numbers:
    """Return the halves of chains as chains."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normalize(x: Numbers) -> Numbers:
    """Return the normal quantiles of ranks; ties have their mean rank."""
    if not np.isfinite(x).all():
        return np.full_like(x, np.nan)
    _, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    quantile = NormalDist().inv_cdf
    table = np.array([quantile(p) for p in (ranks - 0.375) / (x.size + 0.25)])
    return table[places].reshape(x.shape)


def _r_hat(chains: Numbers) -> float:
    halves = _split(chains)
    folded = np.abs(halves - np.median(halves))
    bulk, spread = (_compare_variances(_normalize(x)) for x in (halves, folded))
    return float(np.fmax(bulk, spread))


def _compare_variances(x: Numbers) -> float:
    n = x.shape[1]
    within = np.var(x, axis=1, ddof=1).mean()
    if within == 0:  # of chains that stand still: at one place, or at places of their own
        return np.inf if np.ptp(x) > 0 else np.nan
    return float(np.sqrt((n - 1) / n + np.var(x.mean(axis=1), ddof=1) / within))


def _ess_tail(chains: Numbers) -> float:
    if np.isnan(chains).any():
        return np.nan
    ends = np.quantile(chains, [0.05, 0.95])
    return float(np.min([_ess(_split((chains <= end).astype(np.float64))) for end in ends]))


def _ess(x: Numbers) -> float:
    """Return the effective size by Geyer's initial monotone sequence of autocorrelations (Stan reference manual)."""
    n = x.shape[1]
    if not np.isfinite(x).all():
        return np.nan
    if np.ptp(x) == 0:
        return float(x.size)
    deviations = x - x.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(deviations, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    whole = covariance[0] + np.var(x.mean(axis=1), ddof=1)
    correlations = 1 - (within - covariance) / whole
    correlations[0] = 1.0
    pairs = correlations[: n - n % 2].reshape(-1, 2).sum(axis=1)
    last = (n - 3) // 2
    broken = np.flatnonzero(pairs[:last] < 0)
    count = int(broken[0]) if broken.size else last
    rest = max(correlations[2 * count], 0.0)
    time = 2 * np.minimum.accumulate(pairs[:count]).sum() - 1 + rest
    return float(x.size / max(time, 1 / np.log10(x.size)))


@attrs.frozen(repr=False, eq=False)
class Summary:
    """A table of draws, one row a number; it prints itself.

    Attributes:
        names: of the rows: paths of parameters, with the place in an array.
        mean: of the draws.
        sd: their standard deviation.
        quantiles: float[rows, 3], of 5, 50 and 95 %.
        ess_bulk: effective size of the centre.
        ess_tail: effective size of the tails.
        r_hat: rank-normalized and split.
        divergences: how many there were, None of plain trees.
        e_bfmi: of each chain, None of plain trees.
    """

    names: tuple[str, ...]
    mean: Numbers
    sd: Numbers
    quantiles: Numbers
    ess_bulk: Numbers
    ess_tail: Numbers
    r_hat: Numbers
    divergences: int | None = None
    e_bfmi: Numbers | None = None

    def __repr__(self) -> str:
        width = max([len(name) for name in self.names], default=0)
        heads = ("mean", "sd", "5 %", "50 %", "95 %", "bulk", "tail", "R-hat")
        lines = [" " * width + "".join(f"{head:>10}" for head in heads)]
        columns = (self.mean, self.sd, *self.quantiles.T, self.ess_bulk, self.ess_tail, self.r_hat)
        forms = (*["10.4g"] * 5, "10.0f", "10.0f", "10.4f")
        for name, *row in zip(self.names, *columns, strict=True):
            lines.append(f"{name:<{width}}" + "".join(f"{v:{form}}" for v, form in zip(row, forms, strict=True)))
        if self.e_bfmi is not None:
            lines.append(f"{self.divergences} divergences; E-BFMI {', '.join(f'{v:.2f}' for v in self.e_bfmi)}")
        return "\n".join(lines)


def summary(draws: Any) -> Summary:
    """Return a table of means, quantiles, effective sizes and R-hat.

    Args:
        draws: from `draw`, or a tree of arrays float[chains, draws, ...].

    >>> summary({"x": np.random.default_rng(0).normal(size=(4, 200))}).names
    ("['x']",)
    """
    run: Draws[Any] | None = draws if isinstance(draws, Draws) else None  # pyright: ignore[reportUnknownVariableType]  # of any tree
    columns = columns_of(draws if run is None else run.params)
    if not columns:
        raise ArgumentError("summary: no parameter: got an empty tree; give draws")
    short = next(((path, d.shape) for path, d in columns.items() if d.ndim < 2 or d.shape[1] < FEWEST), None)
    if short is not None:
        raise ShapeError(
            f"summary: takes draws float[chains, draws, ...], four at least: got shape {short[1]} at {short[0] or 'the top'}"
        )
    shapes = {d.shape for d in columns.values()}
    if len(shapes) > 1:
        raise ShapeError(f"summary: parameters have the same chains and draws: got shapes {sorted(shapes)}; cut them")
    x = np.stack(list(columns.values()), axis=-1)
    axes = (0, 1)
    table = (np.mean(x, axes), np.std(x, axes, ddof=1), np.quantile(x, [0.05, 0.5, 0.95], axes).T)
    mixing = (ess_bulk(x), ess_tail(x), r_hat(x))
    if run is None:
        return Summary(tuple(columns), *table, *mixing)
    return Summary(tuple(columns), *table, *mixing, int(np.sum(run.diverged)), e_bfmi(run.energy))


def columns_of(tree: Any) -> dict[str, Numbers]:
    """Return draws [chains, draws] of each number of a tree of draws, by its path."""
    columns = dict[str, Numbers]()
    for path, leaf in pytree.flatten_with_path(tree)[0]:
        x = np.asarray(leaf, np.float64)
        for index in np.ndindex(x.shape[2:]):
            columns[path + (f"[{', '.join(map(str, index))}]" if index else "")] = x[(..., *index)]
    return columns
