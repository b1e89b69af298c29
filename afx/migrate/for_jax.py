"""Calls of JAX, Optax and Equinox: functions with their arguments, for programs that `python -m afx.migrate jax` rewrote.

Programs written for afx call what is behind them: ``optimizer.step``, `afx.random`, `afx.nn`, `afx.static`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from afx import nn, optim, pytree, random
from afx.core.array.array import Array

__all__ = ["Linear", "Optax", "apply_updates", "field", "filter_tree", "is_array", "randint", "uniform"]

DEFAULTS: dict[str, dict[str, Any]] = {  # Optax's, where afx has others
    "adagrad": {"initial": 0.1, "eps": 1e-7, "eps_in_root": True},
    "adamw": {"weight_decay": 1e-4},
    "rmsprop": {"decay": 0.9, "eps_in_root": True},
}


@attrs.frozen
class Optax:
    """An optimizer of afx's whose `update` returns updates, as Optax's do; a transformation waits for its optimizer."""

    rule: Any

    def init(self, params: Any) -> Any:
        """Return the first state."""
        return self.rule.init(params)

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Return what is to be added to the parameters, and the next state."""
        moved, state = self.rule.step(params, grads, state)
        return pytree.map(lambda new, old: new - old, moved, params), state


def chain(*parts: Optax) -> Optax:
    """Return an optimizer that applies one after the other."""
    return Optax(optim.chain(*[part.rule for part in parts]))


def __getattr__(name: str) -> Callable[..., Optax]:
    """Return a factory of `afx.optim` with Optax's defaults."""
    made: Any = getattr(optim, name, None) if not name.startswith("_") else None
    if made is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda *args, **kwargs: Optax(made(*args, **{**DEFAULTS.get(name, {}), **kwargs}))


def apply_updates(params: Any, updates: Any) -> Any:
    """Return parameters with updates added.

    >>> apply_updates({"w": 1.0}, {"w": 0.5})
    {'w': 1.5}
    """
    return pytree.map(lambda old, update: old + update, params, updates)


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Return draws between two numbers; see `afx.random.uniform`."""
    return random.uniform(key, shape, minval, maxval, dtype=dtype)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Return whole numbers from the first up to below the second; see `afx.random.randint`."""
    given = {} if dtype is None else {"dtype": dtype}
    return random.randint(key, minval, maxval, shape, **given)


def is_array(x: Any) -> bool:
    """Tell whether a value is an Array."""
    return isinstance(x, Array)


def filter_tree(tree: Any, *_: Any, **__: Any) -> Any:
    """Return the tree itself: what is not trained needs no filter."""
    return tree


def field(*, static: bool = False, **kwargs: Any) -> Any:
    """Return a field, of the structure where it is static."""
    return pytree.static(**kwargs) if static else attrs.field(**kwargs)


def Linear(in_features: int, out_features: int, use_bias: bool = True, *, key: Any) -> nn.Linear:  # Equinox's
    """Return a layer ``x @ w + b``."""
    return nn.Linear.create(key, in_features, out_features, bias=use_bias)
