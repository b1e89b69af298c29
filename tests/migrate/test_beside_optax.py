"""Optax's names in `afx.migrate.for_optax` move parameters as Optax does, with its arguments and defaults."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.migrate import for_optax

NAMES = (
    "adabelief adadelta adagrad adam adamax adamaxw adamw amsgrad lamb lars lion nadam nadamw novograd "
    "optimistic_gradient_descent radam rmsprop sgd sign_sgd yogi"
)


def _by_name(name: str) -> Callable[[Any], Any]:
    return lambda o: getattr(o, name)(0.05)


CASES: dict[str, Callable[[Any], Any]] = {
    **{name: _by_name(name) for name in NAMES.split()},
    "centered": lambda o: o.rmsprop(0.05, centered=True, momentum=0.9),
    "nesterov": lambda o: o.sgd(0.05, 0.9, True),
    "clipped": lambda o: o.chain(o.clip(0.5), o.clip_by_global_norm(0.7), o.adamw(0.1, weight_decay=0.1)),
    "parts": lambda o: o.chain(o.scale_by_adam(), o.add_decayed_weights(0.1), o.scale(-0.1)),
    "masked": lambda o: o.chain(o.masked(o.add_decayed_weights(0.1), {"w": True, "b": False}), o.sgd(0.1)),
    "labels": lambda o: o.multi_transform({"a": o.adam(0.1), "b": o.set_to_zero()}, {"w": "a", "b": "b"}),
}


@pytest.mark.parametrize("case", CASES)
def test_optimizers_move_as_optaxs(case: str) -> None:
    """Twelve steps on a quadratic function, in float64, to 1e-12."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    rng = np.random.default_rng(0)
    root, target = rng.normal(size=(6, 6)), rng.normal(size=(6, 3))
    matrix, start = root @ root.T / 6 + np.eye(6), {"w": np.full((6, 3), 0.1), "b": np.full(3, 0.2)}

    def loss(params: Any) -> Any:
        gap = params["w"] - target
        return 0.5 * (gap * (matrix @ gap)).sum() + ((params["b"] - 1.0) ** 2).sum()

    def run(o: Any, params: Any, grad: Any) -> Any:
        opt = CASES[case](o)
        state = opt.init(params)
        for _ in range(12):
            updates, state = opt.update(grad(params), state, params)
            params = o.apply_updates(params, updates)
        return params

    with jax.enable_x64(True):
        wanted = run(optax, {name: jax.numpy.asarray(x) for name, x in start.items()}, jax.grad(loss))
    found = run(for_optax, {name: afx.asarray(x) for name, x in start.items()}, afx.grad(loss))
    for name, value in found.items():
        np.testing.assert_allclose(value, np.asarray(wanted[name]), rtol=1e-12, atol=1e-12)
