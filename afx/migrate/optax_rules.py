"""Optimizers of Optax that afx lacks or has otherwise: states have Optax's names, and steps its numbers.

The exception is `lbfgs`, whose line search is afx's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from afx import pytree
from afx.control.cond import cond
from afx.control.solving import flatten_to_vector
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate.for_optax import (
    Pair,
    add_decayed_weights,
    chain,
    join_schedules,
    scale_by_learning_rate,
    sgd,
    stateless,
    warmup_cosine_decay_schedule,
)
from afx.migrate.optax_trees import vdot
from afx.ops.creation.creation import asarray, ones_like, zeros, zeros_like
from afx.ops.elementwise.arithmetic import sign, sqrt
from afx.ops.elementwise.comparison import clip, isfinite, maximum, minimum, where
from afx.optim.solvers.descend import Lbfgs, Pairs, Point, search_strong_wolfe
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["LookaheadParams", "lbfgs", "lookahead", "polyak_sgd", "value_and_grad_from_state"]

np_: Any = np  # NumPy's functions, of Arrays


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
        moved = clip(size * where(s > 0, eta_plus, eta_minus), min_step_size, max_step_size)
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
        rows = [[np_.max(s, axis=_others(s, k), keepdims=True) for k in range(s.ndim)] for s in sums]
        return pytree.map(lambda u: -learning_rate * u, mean), (rows, mean)

    return Pair(init, update)


def _others(x: Any, axis: int) -> tuple[int, ...]:
    return tuple([k for k in range(x.ndim) if k != axis])


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


# --- Wrappers


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


# --- L-BFGS


class LbfgsState(NamedTuple):
    """The state of `lbfgs`: value and gradient at the parameters are not known before the second step."""

    count: Any
    value: Any
    grad: Any
    params: Any
    updates: Any
    memory: Pairs


def lbfgs(learning_rate: None = None, memory_size: int = 10) -> Pair:
    """Return limited-memory BFGS with afx's line search, from ``update(…, value=value, grad=grad, value_fn=fn)``.

    Raises:
        ArgumentError: it is given a learning rate.
    """
    if learning_rate is not None:
        raise ArgumentError(f"lbfgs: a line search has no learning rate: got {learning_rate!r}; call afx.optim.lbfgs")
    rule = Lbfgs(memory_size)

    def init(params: Any) -> LbfgsState:
        x, none = flatten_to_vector(params, "lbfgs")[0], pytree.map(zeros_like, params)
        return LbfgsState(asarray(0), asarray(np.inf), none, params, none, rule.init(x))

    def update(updates: Any, state: LbfgsState, params: Any, *, value: Any, value_fn: Any, **_: Any) -> Any:
        x, unravel = flatten_to_vector(params, "lbfgs")
        g, last, before = [flatten_to_vector(tree, "lbfgs")[0] for tree in (updates, state.params, state.updates)]
        memory = rule.learn(state.memory, where(state.count > 0, x - last, 0.0), g - before, g)

        def objective(x: Array) -> tuple[Array, Array]:
            there, grads = value_and_grad(value_fn)(unravel(x))
            return there, flatten_to_vector(grads, "lbfgs")[0]

        direction = rule.propose(memory, x, g, ones_like(x).astype(bool))[0]
        end = search_strong_wolfe(objective, Point(x, asarray(value), g), direction, asarray(1.0, x.dtype))[0]
        after = LbfgsState(state.count + 1, end.value, unravel(end.gradient), params, updates, memory)
        return unravel(end.x - x), after

    return Pair(init, update)


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for value and gradient, which are computed whatever the state has."""

    def of_params(params: Any, *args: Any, state: Any, **kwargs: Any) -> Any:
        del state
        return value_and_grad(value_fn)(params, *args, **kwargs)

    return of_params


# --- Schedules


def piecewise_interpolate_schedule(interpolate_type: str, init_value: float, boundaries_and_scales: Any = None) -> Any:
    """Return a schedule that goes from one value to the next by lines or cosines."""
    scales: dict[int, float] = boundaries_and_scales or {}
    pairs = sorted(scales.items())
    ends, values = [0, *[int(b) for b, _ in pairs]], np.cumprod([init_value, *[s for _, s in pairs]])

    def schedule(count: Any) -> Any:
        z = asarray(values[-1])
        for a, b, low, high in reversed(list(zip(ends, ends[1:], values, values[1:], strict=False))):
            share = (asarray(count) - a) / max(b - a, 1)
            share = (1 - np_.cos(np.pi * share)) / 2 if interpolate_type == "cosine" else share
            z = where(asarray(count) < b, low + (high - low) * share, z)
        return z

    return schedule


def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: float,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Any:
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
) -> Any:
    """Return a schedule up and down by lines."""
    first, last = int(pct_start * transition_steps), int(pct_final * transition_steps)
    scales = {first: div_factor, last: 1 / div_factor, transition_steps: 1 / final_div_factor}
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, scales)


def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Any:
    """Return a schedule up to a value."""
    return piecewise_interpolate_schedule("linear", init_value, {warmup_steps: peak_value / init_value})


def sgdr_schedule(cosine_kwargs: Any) -> Any:
    """Return cosines with warm restarts (Loshchilov & Hutter 2017)."""
    parts: list[dict[str, Any]] = list(cosine_kwargs)
    ends = [int(n) for n in np.cumsum([part["decay_steps"] for part in parts])]
    return join_schedules([warmup_cosine_decay_schedule(**part) for part in parts], ends[:-1])
