"""Optax's names: transformations, optimizers, schedules and losses with its arguments, on those of `afx.optim`.

An optimizer here has ``init`` and ``update``, which returns what is to be added; programs written for afx call
``optimizer.step``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx import optim, pytree
from afx.control.cond import cond
from afx.core.array.array import Array
from afx.core.tracing.tracer import is_traced
from afx.migrate import optax_chains, optax_trees
from afx.migrate.optax_chains import (
    Pair,
    add_decayed_weights,
    chain,
    constant_schedule,
    cosine_decay_schedule,
    identity,
    scale_by_adam,
    scale_by_learning_rate,
    sgd,
    stateless,
)
from afx.migrate.optax_trees import total, vdot
from afx.ops.creation.creation import asarray, ones_like, zeros, zeros_like
from afx.ops.elementwise.arithmetic import sign, sqrt
from afx.ops.elementwise.comparison import clip as clip_, isfinite, maximum, minimum, where
from afx.ops.linalg.norms import norm
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["LookaheadParams", "apply_updates", "lookahead", "polyak_sgd", "value_and_grad_from_state"]

np_: Any = np  # NumPy's functions, of Arrays
Schedule: TypeAlias = Callable[[Any], Any]


def __getattr__(name: str) -> Any:
    """Return a transformation, or an optimizer, that `afx.optim` has."""
    if name in optax_chains.TABLE or name in optax_chains.__all__:
        return getattr(optax_chains, name)
    if hasattr(optax_trees, name):
        return getattr(optax_trees, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def normalize_by_update_norm(scale_factor: float = 1.0, eps: float = 1e-6) -> Pair:
    """Return a transformation to a length, which all updates have together."""

    def update(updates: Any, _: Any) -> Any:
        size = scale_factor / (optax_trees.norm(updates) + eps)
        return pytree.map(lambda g: g * size, updates)

    return stateless(update)


def safe_norm(x: Any, min_norm: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Return a norm, or a number that it is not below, where the derivative is 0."""
    least = norm(x, ord, axis, keepdims=True) <= min_norm
    size = norm(where(least, ones_like(asarray(x)), x), ord, axis, keepdims=keepdims)
    return where(least if keepdims else least.reshape(size.shape), min_norm, size)


# --- Schedules: an Array that counts is int32 in JAX, whatever ``jax_enable_x64`` says, and its quotient float32. It is rounded
# as XLA rounds: in a jitted step it multiplies by 1 over the steps, and rounds a product and its sum once. Python's numbers
# have all digits, here as there.


def _single(x: Any) -> Array:
    """Return numbers of float32 in float64."""
    return asarray(x, np.float64).astype(np.float32).astype(np.float64)


def _divide(count: Array, steps: int) -> Array:
    """Return the share of the steps, which a jitted step rounds later."""
    return count * _single(1 / steps) if is_traced(count) else _single(count / steps)


def _of_counts(plain: Schedule, rounded: Callable[[Array], Array]) -> Schedule:
    """Return a schedule of Python's numbers, and of counts."""

    def schedule(count: Any) -> Any:
        return rounded(count.astype(np.float64)).astype(np.float32) if isinstance(count, Array) else plain(count)

    return schedule


def _constant(value: Any) -> Schedule:
    constant: Schedule = constant_schedule(value)
    return constant


def polynomial_schedule(
    init_value: Any, end_value: Any, power: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Return a schedule from one value to another by a power of what is left."""
    if transition_steps <= 0:
        return _constant(init_value)

    def rounded(count: Array) -> Array:
        done = clip_(count - transition_begin, 0, transition_steps)
        left = _single(1 - _divide(done, transition_steps))
        left = left if power == 1 else _single(left**power)
        product = _single(init_value - end_value) * left
        return (product if is_traced(count) else _single(product)) + _single(end_value)

    return _of_counts(optim.polynomial(init_value, end_value, power, transition_steps, begin=transition_begin), rounded)


def linear_schedule(init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """Return a schedule from one value to another in equal steps."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def exponential_decay(
    init_value: Any,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """Return a schedule that falls by a rate in so many steps."""
    if transition_steps <= 0 or decay_rate == 0:
        return _constant(init_value)

    def rounded(count: Array) -> Array:
        turns = _single(_divide(maximum(count - transition_begin, 0), transition_steps))
        value = _single(init_value) * _single(_single(decay_rate) ** (np_.floor(turns) if staircase else turns))
        return value if end_value is None else (maximum if decay_rate < 1 else minimum)(value, end_value)

    options: dict[str, Any] = {"staircase": staircase, "begin": transition_begin, "end": end_value}
    return _of_counts(optim.exponential_decay(init_value, decay_rate, transition_steps, **options), rounded)


def join_schedules(schedules: Any, boundaries: Any) -> Schedule:
    """Return a schedule that follows one after another, each from its own start."""

    def schedule(step: Any) -> Any:
        values = [schedules[0](step), *[s(step - b) for s, b in zip(schedules[1:], boundaries, strict=True)]]
        value = values[0]
        for boundary, following in zip(boundaries, values[1:], strict=True):
            value = where(asarray(step) < boundary, value, following)
        return value.astype(np.float32) if any(getattr(v, "dtype", None) == np.float32 for v in values) else value

    return schedule


def _warm(init_value: Any, peak_value: Any, warmup_steps: int, following: Schedule) -> Schedule:
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), following], [warmup_steps])


def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Schedule:
    """Return a schedule up to a value."""
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Return a schedule up by a line and down by a cosine, in so many steps together."""
    least = end_value / peak_value if peak_value else 0.0
    falls = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, least, exponent)
    return _warm(init_value, peak_value, warmup_steps, falls)


def warmup_exponential_decay_schedule(
    init_value: float, peak_value: float, warmup_steps: int, *args: Any, **options: Any
) -> Schedule:
    """Return a schedule up by a line and down by an `exponential_decay` of the other arguments."""
    return _warm(init_value, peak_value, warmup_steps, exponential_decay(peak_value, *args, **options))


def piecewise_interpolate_schedule(
    interpolate_type: str, init_value: float, boundaries_and_scales: Any = None
) -> Schedule:
    """Return a schedule that goes from one value to the next by lines or cosines."""
    scales: dict[int, float] = boundaries_and_scales or {}
    pairs = sorted(scales.items())
    ends, values = [0, *[int(b) for b, _ in pairs]], np.cumprod([init_value, *[s for _, s in pairs]])

    def schedule(count: Any) -> Any:
        fit: Any = _single if isinstance(count, Array) else asarray
        z = asarray(values[-1])
        for a, b, low, high in reversed(list(zip(ends, ends[1:], values, values[1:], strict=False))):
            gone, steps = asarray(count) - a, max(b - a, 1)
            share = fit(_divide(gone, steps)) if fit is _single else gone * (1 / steps)
            rest = fit(fit(np_.cos(fit(fit(np.pi) * share))) + 1) / 2 if interpolate_type == "cosine" else 1 - share
            z = where(asarray(count) < b, high + (low - high) * rest, z)
        return z

    return schedule


def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: float,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Return a schedule up and down by cosines (Smith & Topin 2018)."""
    last = {int(pct_start * transition_steps): div_factor, int(transition_steps): 1 / (div_factor * final_div_factor)}
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, last)


def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: float,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Return a schedule up and down by lines."""
    first, last = int(pct_start * transition_steps), int(pct_final * transition_steps)
    scales = {first: div_factor, last: 1 / div_factor, transition_steps: 1 / final_div_factor}
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, scales)


def sgdr_schedule(cosine_kwargs: Any) -> Schedule:
    """Return cosines with warm restarts (Loshchilov & Hutter 2017)."""
    parts: list[dict[str, Any]] = list(cosine_kwargs)
    ends = [int(n) for n in np.cumsum([part["decay_steps"] for part in parts])]
    return join_schedules([warmup_cosine_decay_schedule(**part) for part in parts], ends[:-1])


# --- Rules that afx lacks or has otherwise: states have Optax's names, and steps its numbers


def _each(fn: Callable[..., Any], count: int, *trees: Any) -> list[Any]:
    """Return trees of the several results of a function of leaves."""
    leaves, treedef = pytree.flatten(trees[0])
    rows = [fn(*xs) for xs in zip(leaves, *map(pytree.leaves, trees[1:]), strict=True)]
    return [pytree.unflatten(treedef, [row[k] for row in rows]) for k in range(count)]


def _scaled(fn: Callable[..., Any], count: int) -> Pair:
    """Return a transformation of ``fn(step, u, *kept)`` to an update and what is kept, from zeros, of each leaf."""

    def init(params: Any) -> Any:
        return (zeros((), np.int64), *[pytree.map(zeros_like, params) for _ in range(count)])

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> Any:
        del params
        step = state[0] + 1

        def of_leaf(u: Any, *own: Any) -> Any:
            return fn(step.astype(u.dtype), u, *own)

        changed, *kept = _each(of_leaf, count + 1, updates, *state[1:])
        return changed, (step, *kept)

    return Pair(init, update)


def adan(
    learning_rate: Any,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Any = None,
) -> Pair:
    """Return Adan (Xie and others 2022, Algorithm 1)."""

    def change(t: Any, g: Any, m: Any, v: Any, n: Any, last: Any) -> Any:
        gap = where(t == 1, 0.0, g - last)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * gap
        n = b3 * n + (1 - b3) * (g + (1 - b2) * gap) ** 2
        step = m / (1 - b1**t) + (1 - b2) * (v / (1 - b2**t))
        return step / (sqrt(n / (1 - b3**t) + eps_root) + eps), m, v, n, g

    return chain(_scaled(change, 4), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def ademamix(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: Any = 0.9999,
    alpha: Any = 5.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: None = None,
    weight_decay: float = 0.0,
    mask: Any = None,
) -> Pair:
    """Return AdEMAMix (Pagliardini and others 2024): Adam with a second, slow average."""
    del mu_dtype

    def change(t: Any, g: Any, m: Any, slow: Any, v: Any) -> Any:
        count: Any = (t - 1).astype(np.int64)
        keep: Any = b3(count) if callable(b3) else b3
        share: Any = alpha(count) if callable(alpha) else alpha
        m, slow, v = b1 * m + (1 - b1) * g, keep * slow + (1 - keep) * g, b2 * v + (1 - b2) * g * g
        return (m / (1 - b1**t) + share * slow) / (sqrt(v / (1 - b2**t) + eps_root) + eps), m, slow, v

    return chain(_scaled(change, 3), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> Pair:
    """Return Rprop; what is kept of a gradient is the step that it made."""

    def change(t: Any, g: Any, size: Any, last: Any) -> Any:
        size = where(t == 1, learning_rate, size)
        s = g * last
        moved = clip_(size * where(s > 0, eta_plus, eta_minus), min_step_size, max_step_size)
        size = where(s == 0, size, moved)
        return where(s < 0, 0.0, -last), size, where(s < 0, 0.0, size * sign(g))  # a step behind, as Optax's

    return _scaled(change, 2)


def sm3(learning_rate: float, momentum: float = 0.9) -> Pair:
    """Return SM3 (Anil and others 2019): sums of squares by rows and columns."""

    def init(params: Any) -> Any:
        def rows(p: Any) -> Any:
            return [zeros([n if k == axis else 1 for k, n in enumerate(p.shape)], p.dtype) for axis in range(p.ndim)]

        leaves = pytree.leaves(params)
        return [rows(p) for p in leaves], pytree.map(zeros_like, params)

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> Any:
        del params
        leaves, treedef = pytree.flatten(updates)
        sums = [g**2 + functools.reduce(minimum, rows) for g, rows in zip(leaves, state[0], strict=True)]
        scaled = [where(s > 0, g / sqrt(s + 1e-8), 0.0) for g, s in zip(leaves, sums, strict=True)]
        mean = pytree.map(
            lambda old, u: momentum * old + (1 - momentum) * u, state[1], pytree.unflatten(treedef, scaled)
        )
        rows = [[np_.max(s, axis=tuple({*range(s.ndim)} - {k}), keepdims=True) for k in range(s.ndim)] for s in sums]
        return pytree.map(lambda u: -learning_rate * u, mean), (rows, mean)

    return Pair(init, update)


def fromage(learning_rate: float, min_norm: float = 1e-6) -> Pair:
    """Return Fromage (Bernstein and others 2020)."""
    share = 1 / (1 + learning_rate**2) ** 0.5

    def change(updates: Any, params: Any) -> Any:
        def step(u: Any, p: Any) -> Any:
            top, below = [maximum(sqrt((x * x).sum()), min_norm) for x in (p, u)]
            return -learning_rate * share * (u * (top / below)) + (share - 1) * p

        return pytree.map(step, updates, params)

    return stateless(change)


def polyak_sgd(
    max_learning_rate: float = 1.0, scaling: Any = 1.0, f_min: float = 0.0, eps: float = 0.0, variant: str = "sps"
) -> Pair:
    """Return descent by Polyak's steps, from ``update(…, value=value)``."""

    def update(updates: Any, state: Any, params: Any = None, *, value: Any, **_: Any) -> Any:
        del params
        square = vdot(updates, updates) + eps
        gap = asarray(value) - f_min
        gap = maximum(gap, 0.0) if variant == "sps+" else gap
        small = square <= np.finfo(float).eps
        step = where(small, 0.0, minimum(gap / where(small, 1.0, square), max_learning_rate))
        return pytree.map(lambda u: step * u, updates), state

    def init(_: Any) -> Any:
        return ()

    return chain(sgd(scaling), Pair(init, update))


class ProdigyState(NamedTuple):
    """The state of `prodigy`."""

    exp_avg: Any
    exp_avg_sq: Any
    grad_sum: Any
    params0: Any
    estim_lr: Any
    numerator_weighted: Any
    count: Any


def prodigy(
    learning_rate: Any = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    beta3: float | None = None,
    eps: float = 1e-8,
    estim_lr0: float = 1e-6,
    estim_lr_coef: float = 1.0,
    weight_decay: float = 0.0,
    safeguard_warmup: bool = False,
) -> Pair:
    """Return Prodigy (Mishchenko & Defazio 2024), corrected for the start of the averages."""
    b1, b2 = betas
    keep = b2**0.5 if beta3 is None else beta3

    def init(params: Any) -> ProdigyState:
        none, kind = pytree.map(zeros_like, params), pytree.leaves(params)[0].dtype
        return ProdigyState(none, none, none, params, asarray(estim_lr0, kind), zeros((), kind), asarray(0))

    def update(updates: Any, state: ProdigyState, params: Any, **_: Any) -> Any:
        far, count = state.estim_lr, state.count + 1
        own = learning_rate(state.count) if callable(learning_rate) else learning_rate
        t = count.astype(far.dtype)
        rate = far * own * ((1 - b2**t) ** 0.5 / (1 - b1**t))
        part = (far if safeguard_warmup else rate) / estim_lr0

        def averages(g: Any, m: Any, v: Any, s: Any) -> Any:
            g = far * g
            return b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g, keep * s + part * g

        means, squares, slopes = _each(averages, 3, updates, *state[:3])
        gone = vdot(updates, pytree.map(lambda p0, p: p0 - p, state.params0, params))
        gain = keep * state.numerator_weighted + far / estim_lr0 * rate * gone
        further = maximum(far, estim_lr_coef * gain / total(pytree.map(np_.abs, slopes)))

        def moved(m: Any, v: Any, p: Any) -> Any:
            return -weight_decay * rate * p - rate * m / (sqrt(v) + further * eps)

        after = ProdigyState(means, squares, slopes, state.params0, further, gain, count)
        return pytree.map(moved, means, squares, params), after

    return Pair(init, update)


# --- Wrappers


class ScheduleFreeState(NamedTuple):
    """The state of `schedule_free`."""

    b1: Any
    weight_sum: Any
    step_count: Any
    max_lr: Any
    base_optimizer_state: Any
    z: Any


def schedule_free(base_optimizer: Any, learning_rate: Any, b1: float = 0.9, weight_lr_power: float = 2.0) -> Pair:
    """Return an optimizer of the average of its iterates (Defazio and others 2024)."""

    def init(params: Any) -> ScheduleFreeState:
        kind = pytree.leaves(params)[0].dtype
        none = zeros((), kind)
        return ScheduleFreeState(asarray(b1, kind), none, asarray(1), none, base_optimizer.init(params), params)

    def update(updates: Any, state: ScheduleFreeState, params: Any, **extra: Any) -> Any:
        rate: Any = learning_rate(state.step_count) if callable(learning_rate) else learning_rate
        largest = maximum(state.max_lr, rate)
        weight = largest**weight_lr_power
        total = state.weight_sum + weight
        share = where(total > 0, weight / where(total > 0, total, 1.0), 0.0)
        moves, inner = base_optimizer.update(updates, state.base_optimizer_state, params, **extra)
        z = pytree.map(lambda old, u: old + u, state.z, moves)

        def moved(y: Any, x: Any, z: Any) -> Any:
            return b1 * ((1 - share) * x + share * z) + (1 - b1) * z - y

        after = ScheduleFreeState(state.b1, total, state.step_count + 1, largest, inner, z)
        return pytree.map(moved, params, schedule_free_eval_params(state, params), z), after

    return Pair(init, update)


def schedule_free_eval_params(state: Any, params: Any) -> Any:
    """Return the average of the iterates."""
    return pytree.map(lambda y, z: (y - (1 - state.b1) * z) / state.b1, params, state.z)


def _free(rule: Any, rate: Any, warmup_steps: Any, decay: Any, **options: Any) -> Pair:
    rate = rate if warmup_steps is None else warmup_constant_schedule(0.0, rate, warmup_steps)
    first = (rule, add_decayed_weights(decay)) if decay else (rule,)
    return schedule_free(chain(*first, scale_by_learning_rate(rate)), rate, **options)


def schedule_free_sgd(
    learning_rate: Any = 1.0, warmup_steps: int | None = None, *, weight_decay: float | None = None, **options: Any
) -> Pair:
    """Return `schedule_free` descent."""
    return _free(identity(), learning_rate, warmup_steps, weight_decay, **options)


def schedule_free_adamw(
    learning_rate: Any = 0.0025,
    warmup_steps: int | None = None,
    *,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    **options: Any,
) -> Pair:
    """Return `schedule_free` AdamW."""
    return _free(scale_by_adam(0.0, b2, eps), learning_rate, warmup_steps, weight_decay, **options)


class ApplyIfFiniteState(NamedTuple):
    """The state of `apply_if_finite`."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


def apply_if_finite(inner: Any, max_consecutive_errors: int) -> Pair:
    """Return an optimizer that leaves out steps that are not finite, but for too many in a row."""

    def init(params: Any) -> ApplyIfFiniteState:
        return ApplyIfFiniteState(asarray(0), asarray(True), asarray(0), inner.init(params))

    def update(updates: Any, state: ApplyIfFiniteState, params: Any = None, **_: Any) -> Any:
        finite: Any = functools.reduce(lambda a, b: a & b, [isfinite(u).all() for u in pytree.leaves(updates)])
        count = where(finite, 0, state.notfinite_count + 1)

        def step(_: Any) -> Any:
            return inner.update(updates, state.inner_state, params)

        def leave(_: Any) -> Any:
            return pytree.map(zeros_like, updates), state.inner_state

        moves, after = cond(finite | (count > max_consecutive_errors), step, leave, asarray(0.0))
        return moves, ApplyIfFiniteState(count, finite, state.total_notfinite + where(finite, 0, 1), after)

    return Pair(init, update)


class LookaheadParams(NamedTuple):
    """Fast and slow parameters."""

    fast: Any
    slow: Any

    @classmethod
    def init_synced(cls, params: Any) -> LookaheadParams:
        """Return both as they are at the start."""
        return cls(params, params)


class LookaheadState(NamedTuple):
    """The state of `lookahead`."""

    fast_state: Any
    steps_since_sync: Any


def lookahead(fast_optimizer: Any, sync_period: int, slow_step_size: float, reset_state: bool = False) -> Pair:
    """Return an optimizer of `LookaheadParams` (Zhang and others 2019)."""

    def init(params: Any) -> LookaheadState:
        return LookaheadState(fast_optimizer.init(getattr(params, "fast", params)), asarray(0))

    def update(updates: Any, state: LookaheadState, params: Any, **_: Any) -> Any:
        moves, inner = fast_optimizer.update(updates, state.fast_state, params.fast)
        meet = state.steps_since_sync == sync_period - 1
        gap = pytree.map(lambda f, u, s: where(meet, f + u - s, 0.0), params.fast, moves, params.slow)
        if reset_state:
            first = fast_optimizer.init(params.fast)
            inner = pytree.map(lambda old, new: where(meet, new, old), inner, first)
        fast = pytree.map(lambda u, d: u - (1 - slow_step_size) * d, moves, gap)
        slow = pytree.map(lambda d: slow_step_size * d, gap)
        return LookaheadParams(fast, slow), LookaheadState(inner, (state.steps_since_sync + 1) % sync_period)

    return Pair(init, update)


def adaptive_grad_clip(clipping: float, eps: float = 1e-3) -> Pair:
    """Return gradients that are at most a share of the parameters, unit by unit (Brock and others 2021)."""

    def norm(x: Any) -> Any:
        axes = None if np_.squeeze(x).ndim <= 1 else 0 if x.ndim in (2, 3) else tuple(range(x.ndim - 1))
        return sqrt((x * x).sum(axis=axes, keepdims=True))

    def change(g: Any, p: Any) -> Any:
        size, limit = norm(g), clipping * maximum(norm(p), eps)
        return where(size < limit, g, limit * (g / maximum(size, 1e-6)))

    return stateless(lambda updates, params: pytree.map(change, updates, params))


# --- Values, and parameters


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for value and gradient, which are computed whatever the state has."""

    def of_params(params: Any, *args: Any, state: Any, **kwargs: Any) -> Any:
        del state
        return value_and_grad(value_fn)(params, *args, **kwargs)

    return of_params


def apply_updates(params: Any, updates: Any) -> Any:
    """Return parameters with updates added.

    >>> apply_updates({"w": 1.0}, {"w": 0.5})
    {'w': 1.5}
    """
    return pytree.map(lambda old, update: old + update, params, updates)


def incremental_update(new_tensors: Any, old_tensors: Any, step_size: Any) -> Any:
    """Return a share of new numbers and the rest of old ones."""
    return pytree.map(lambda new, old: step_size * new + (1.0 - step_size) * old, new_tensors, old_tensors)


def safe_increment(count: Any) -> Array:
    """Return a counter and 1, up to the largest number of its dtype."""
    n: Array = asarray(count)
    return where(n < np.iinfo(n.dtype).max, n + 1, n)
