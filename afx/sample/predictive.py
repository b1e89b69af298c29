"""Predictions and comparisons: draws of data, log likelihoods of each observation, PSIS-LOO and WAIC, and arviz's groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from afx import pytree
from afx.core import Array, ArrayLike
from afx.errors import ArgumentError, ShapeError
from afx.ops import asarray, reshape
from afx.random.keys import fold_in, split
from afx.sample.diagnostics import FEWEST, Numbers, _ess, _split, columns_of
from afx.sample.draw import Draws, check_draws
from afx.sample.model import Model
from afx.stats.law import Expanded, Observed
from afx.transforms._arguments import describe
from afx.transforms.vmap import vmap

T = TypeVar("T")


def _params_of(draws: Any) -> Any:
    is_run = bool(isinstance(draws, Draws))
    return draws.params if is_run else draws


def _over_draws(model: Model[Any], draws: Any, fn: Callable[..., Any], *keys: Any) -> Any:
    """Return a function of each of the draws' parameters, with their axes in front."""
    params = _params_of(draws)
    lead = _axes_of_draws(model, params)
    count = int(np.prod(lead))
    flat = pytree.map(lambda x: reshape(asarray(x), (count, *asarray(x).shape[len(lead) :])), params)
    found = vmap(fn)(flat, *[split(key, count) for key in keys])
    return pytree.map(lambda x: reshape(x, (*lead, *x.shape[1:])), found)


def _axes_of_draws(model: Model[Any], params: Any) -> tuple[int, ...]:
    """Return the axes of draws, which all parameters of a model have in front of their own."""
    if not isinstance(model, Model):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise ArgumentError(f"sample: predictions are those of a Model: got {describe(model)}; give one")
    own, treedef = pytree.flatten(model.initial())
    if pytree.structure(params) != treedef:
        raise ArgumentError(f"sample: draws are of the model's parameters, {treedef}: got {describe(params)}")
    pairs = list(zip(own, map(asarray, pytree.leaves(params)), strict=True))
    leads = [x.shape[: x.ndim - y.ndim] for y, x in pairs]
    if any((*leads[0], *y.shape) != x.shape for y, x in pairs):
        raise ShapeError(
            f"sample: draws have the same axes in front of each parameter: got shapes {[x.shape for _, x in pairs]} "
            f"of parameters {[y.shape for y, _ in pairs]}"
        )
    return leads[0] if leads else ()


def predict(model: Model[T], key: ArrayLike, draws: Any, data: tuple[Any, ...] | None = None) -> dict[str, Array]:
    """Return one draw of the data for each draw of the parameters, by the names of outcomes.

    Args:
        model: whose likelihood gives ``law.observe(data)``.
        key: a random key.
        draws: of the posterior, from `draw`; or parameters with axes in front, such as ``model.draw_prior(key, 100)``.
        data: in place of the model's, as for new places; ``observe(None)`` has the law's own shape.

    Raises:
        ArgumentError: an outcome is numbers alone, which have no law to draw from.

    >>> import afx
    >>> from afx import sample, stats
    >>> model = sample.Model({"m": stats.norm(0.0, 1.0)}, lambda p: stats.norm(p["m"], 1.0).observe(np.zeros(3)))
    >>> sample.predict(model, afx.random.key(1), model.draw_prior(afx.random.key(0), 5))["y"].shape
    (5, 3)
    """

    def one(params: T, own: Array) -> dict[str, Array]:
        drawn = dict[str, Array]()
        for k, (name, outcome) in enumerate(model.outcomes(params, data).items()):
            if not isinstance(outcome, Observed):
                raise ArgumentError(f"predict: {name} has no law: got its logarithms; return law.observe(data) for it")
            law = outcome.law
            if outcome.data is not None:
                shape = np.broadcast_shapes(law.shape, asarray(outcome.data).shape)
                law = Expanded(law, shape[: len(shape) - len(law.shape)])
            drawn[name] = law.rvs(fold_in(own, k))
        return drawn

    found: dict[str, Array] = _over_draws(model, draws, one, key)
    return found


def log_likelihood(model: Model[T], draws: Any) -> dict[str, Array]:
    """Return the logarithm of the density of each observation, for each draw, by the names of outcomes.

    Args:
        model: of the data.
        draws: from `draw`, or parameters with axes in front.
    """
    pointwise: Callable[[T], dict[str, Array]] = partial(Model[T].pointwise, model)
    found: dict[str, Array] = _over_draws(model, draws, pointwise)
    return found


# --- Leave-one-out by importance sampling, and WAIC


@attrs.frozen(eq=False)
class Elpd:
    """An estimate of how well a model predicts data that it has not seen.

    Attributes:
        elpd: the sum of the expected logarithms of the density of each observation.
        se: its standard error.
        p: how many parameters the model seems to have.
        pointwise: float[observations], of each.
        pareto_k: float[observations], shapes of the tails of weights; None of WAIC. Above ``good_k`` an observation is too
            influential: fit the model without it.
        good_k: the greatest that is reliable with so many draws.
        warning: what speaks against the estimate, empty where nothing does.
    """

    elpd: float
    se: float
    p: float
    pointwise: Numbers
    pareto_k: Numbers | None = None
    good_k: float | None = None
    warning: str = ""

    def __repr__(self) -> str:
        lines = [f"elpd {self.elpd:.2f} (se {self.se:.2f}), p {self.p:.2f}, {len(self.pointwise)} observations"]
        if self.pareto_k is not None and self.good_k is not None:
            bad = int(np.sum(self.pareto_k > self.good_k))
            lines.append(f"Pareto k: greatest {np.max(self.pareto_k):.2f}, {bad} above {self.good_k:.2f}")
        return "\n".join([*lines, self.warning] if self.warning else lines)


def loo(model: Model[T], draws: Draws[T], name: str | None = None, *, efficiency: float | None = None) -> Elpd:
    """Return the expected log density of each observation with it left out, by Pareto-smoothed importance sampling.

    Source: Vehtari, Gelman & Gabry 2017; Vehtari, Simpson, Gelman, Yao & Gabry 2024; tails by Zhang & Stephens 2009.

    Args:
        model: of the data.
        draws: from `draw`.
        name: of the outcome, where there are several.
        efficiency: effective draws for each draw, by which tails are cut; the mean over parameters without it, as arviz
            has it.

    Raises:
        ArgumentError: there are several outcomes and no name.

    >>> import afx
    >>> from afx import sample, stats
    >>> model = sample.Model({"m": stats.norm(0.0, 9.0)}, lambda p: stats.norm(p["m"], 1.0).observe(np.arange(4.0)))
    >>> draws = sample.draw(sample.nuts(model), afx.random.key(0), draws=100, warmup=100)
    >>> bool(sample.loo(model, draws).pareto_k.max() < 0.7)
    True
    """
    heights = _heights(model, draws, name, "loo")
    count = heights.shape[0]
    if efficiency is None:
        columns = [np.asarray(x) for x in columns_of(_params_of(draws)).values()]
        is_several = columns[0].shape[0] > 1
        efficiency = float(np.mean([_ess(_split(x)) for x in columns])) / count if is_several else 1.0
    elif not efficiency > 0:
        raise ArgumentError(f"loo: efficiency is above 0: got {efficiency}; leave it out for the parameters' own")
    tail = int(np.ceil(min(count / 5, 3 * np.sqrt(count / efficiency))))
    logs, shapes = smooth_weights(-heights, tail)
    pointwise = _log_sum(logs + heights)
    lppd = float(np.sum(_log_sum(heights) - math.log(count)))
    good = min(1 - 1 / math.log10(count), 0.7)
    bad = int(np.sum(shapes > good))
    warning = f"{bad} observations are too influential for this estimate: look at pareto_k" if bad else ""
    return _estimate(pointwise, lppd - float(np.sum(pointwise)), shapes, good, warning)


def waic(model: Model[T], draws: Draws[T], name: str | None = None) -> Elpd:
    """Return the widely applicable information criterion, on the scale of log densities (Watanabe 2010; use `loo`).

    Args:
        model: of the data.
        draws: from `draw`.
        name: of the outcome, where there are several.
    """
    heights = _heights(model, draws, name, "waic")
    spread = np.var(heights, axis=0)
    pointwise = _log_sum(heights) - np.log(heights.shape[0]) - spread
    warning = "variances above 0.4: loo is more reliable" if (spread > 0.4).any() else ""
    return _estimate(pointwise, float(np.sum(spread)), None, None, warning)


def compare(models: Mapping[str, Elpd]) -> dict[str, tuple[float, float]]:
    """Return how much each model falls short of the best one, and the standard error of that, the best first.

    Raises:
        ArgumentError: they are of other observations, or there are none.
    """
    if not isinstance(models, Mapping) or not all(isinstance(x, Elpd) for x in models.values()) or not models:  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise ArgumentError(f"compare: takes what loo or waic give, by names: got {describe(models)}; give a dict")
    ranked = sorted(models.items(), key=lambda item: (math.isnan(item[1].elpd), -item[1].elpd))
    best = ranked[0][1].pointwise
    if any(x.pointwise.shape != best.shape for _, x in ranked):
        raise ArgumentError(f"compare: models of the same observations: got {[len(x.pointwise) for _, x in ranked]}")
    gaps = {name: best - x.pointwise for name, x in ranked}
    return {name: (float(np.sum(gap)), float(np.sqrt(len(gap) * np.var(gap)))) for name, gap in gaps.items()}


def _heights(model: Model[Any], draws: Any, name: str | None, who: str) -> Numbers:
    """Return the log likelihood of one outcome, float[draws, observations]."""
    check_draws(draws, who)
    found = log_likelihood(model, draws)
    if name is None and len(found) > 1:
        raise ArgumentError(f"{who}: one outcome at a time: got {', '.join(found)}; give name=")
    if name is not None and name not in found:
        raise ArgumentError(f"{who}: no outcome {name!r}: got {', '.join(found)}")
    x = np.asarray(found[name or next(iter(found))], np.float64)
    if x.ndim < 3:
        raise ShapeError(f"{who}: takes a likelihood of each observation: got {x.shape[2:]}; do not sum over them")
    if x.shape[1] < FEWEST:
        raise ShapeError(f"{who}: takes four draws of each chain at least: got {x.shape[1]}; draw more")
    return x.reshape(x.shape[0] * x.shape[1], -1)


def _estimate(pointwise: Numbers, p: float, k: Numbers | None, good: float | None, warning: str) -> Elpd:
    se = float(np.sqrt(len(pointwise) * np.var(pointwise)))
    return Elpd(float(np.sum(pointwise)), se, p, pointwise, k, good, warning)


def _log_sum(x: Numbers) -> Numbers:
    top = np.max(x, axis=0)
    total: Numbers = np.log(np.sum(np.exp(x - top), axis=0)) + top
    return total


def smooth_weights(logs: Numbers, tail: int) -> tuple[Numbers, Numbers]:
    """Return logarithms of importance weights, float[draws, n], smooth in the tails, with the sum 1, and the tails' shapes.

    The greatest weights become the expected order statistics of the generalized Pareto law that fits them.
    """
    smooth, shapes = logs - np.max(logs, axis=0), np.full(logs.shape[1], np.inf)
    for column in range(logs.shape[1]):
        x = smooth[:, column]
        edge = max(np.partition(x, -tail - 1)[-tail - 1], np.log(np.finfo(np.float64).tiny))
        above = np.flatnonzero(x > edge)
        if len(above) <= FEWEST:
            continue
        above = above[np.argsort(x[above], kind="stable")]
        excesses: Numbers = np.exp(x[above]) - np.exp(edge)
        shape, scale = fit_pareto(excesses)
        shapes[column] = shape
        if np.isfinite(shape):
            shares = (np.arange(len(above)) + 0.5) / len(above)
            quantiles = (
                -scale * np.log1p(-shares) if shape == 0 else scale * np.expm1(-shape * np.log1p(-shares)) / shape
            )
            x[above] = np.minimum(np.log(quantiles + np.exp(edge)), 0.0)
    return smooth - _log_sum(smooth), shapes


def fit_pareto(x: Numbers) -> tuple[float, float]:
    """Return shape and scale of the generalized Pareto law of ascending excesses: a mean over a grid of likelihoods.

    Source: Zhang & Stephens 2009, section 3; the shape is drawn to 0.5 as by ten further numbers (Vehtari et al. 2024).
    """
    n = len(x)
    size = 30 + int(np.sqrt(n))
    grid = 1 - np.sqrt(size / (np.arange(1, size + 1) - 0.5))
    grid = grid / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]
    shapes = np.mean(np.log1p(-grid[:, None] * x), axis=1)
    with np.errstate(all="ignore"):
        heights = n * (np.log(-grid / shapes) - shapes - 1)
        totals: Numbers = np.exp(heights - heights[:, None]).sum(axis=1)
    weights = 1 / totals
    kept = weights >= 10 * np.finfo(np.float64).eps
    rate = float(np.average(grid[kept], weights=weights[kept]))
    shape = float(np.mean(np.log1p(-rate * x)))
    return (n * shape + 5) / (n + 10), -shape / rate


# --- Groups for arviz

STATISTICS = {  # arviz's names of what draws have
    "lp": "log_density", "energy": "energy", "acceptance_rate": "acceptance",
    "n_steps": "leaps", "tree_depth": "depth", "diverging": "diverged",
}  # fmt: skip


def to_arviz(
    draws: Draws[T],
    model: Model[T] | None = None,
    key: ArrayLike | None = None,
    *,
    prior: int = 500,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return draws as the groups that ``arviz.from_dict(**groups)`` takes.

    These are ``posterior`` and ``sample_stats``; with a model also ``log_likelihood`` and ``observed_data``, and with a key
    ``prior``, ``prior_predictive`` and ``posterior_predictive`` of outcomes that have laws.

    Args:
        draws: from `draw`.
        model: that they are of.
        key: a random key, for predictions.
        prior: how many draws of the prior.
        dims: names of the axes of a parameter or outcome, by its name.
        coords: the labels along these axes.

    Raises:
        ArgumentError: two parameters would have one name, or ``dims`` names none or other axes.

    >>> import afx
    >>> from afx import sample
    >>> normal = sample.nuts(lambda p: -0.5 * p["x"] ** 2)
    >>> draws = sample.draw(normal, afx.random.key(0), {"x": np.float64(0.0)}, draws=3, warmup=0)
    >>> sample.to_arviz(draws)["posterior"]["x"].shape
    (4, 3)
    """
    check_draws(draws, "to_arviz")
    stats = {name: getattr(draws, field) for name, field in STATISTICS.items()}
    groups: dict[str, Any] = {"posterior": _name_leaves(draws.params), "sample_stats": _as_numpy(stats)}
    if model is not None:
        groups |= _model_groups(draws, model, key, prior)
    axes = {name: (x.shape[2:]) for group in groups.values() for name, x in group.items() if x.ndim >= 2}
    for name, names in (dims or {}).items():
        if name not in axes or len(names) != len(axes[name]):
            raise ArgumentError(
                f"to_arviz: dims are of parameters or outcomes: got {name!r} with {list(names)}; shapes are {axes}"
            )
    extra = {"dims": dims, "coords": coords}
    return groups | {name: dict(value) for name, value in extra.items() if value is not None}


def _model_groups(draws: Draws[T], model: Model[T], key: ArrayLike | None, count: int) -> dict[str, Any]:
    outcomes = model.outcomes(model.initial())
    observed = {name: np.asarray(x.data) for name, x in outcomes.items() if isinstance(x, Observed)}
    groups: dict[str, Any] = {"log_likelihood": _as_numpy(log_likelihood(model, draws)), "observed_data": observed}
    if key is None:
        return groups
    first, second, third = split(key, 3)
    before = model.draw_prior(first, count)
    groups["prior"] = {name: x[None] for name, x in _name_leaves(before).items()}
    if len(observed) == len(outcomes):
        groups["prior_predictive"] = {k: np.asarray(x)[None] for k, x in predict(model, second, before).items()}
        groups["posterior_predictive"] = _as_numpy(predict(model, third, draws))
    return groups


def _as_numpy(group: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(x) for name, x in group.items()}


def _name_leaves(params: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the leaves of a tree by names, or raise where two would have one."""
    leaves = pytree.flatten_with_path(params)[0]
    names = [path.strip(".[]'").replace("']['", ".") or "x" for path, _ in leaves]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"to_arviz: parameters have names of their own: got {twice} twice; rename one of each")
    return {name: np.asarray(leaf) for name, (_, leaf) in zip(names, leaves, strict=True)}
