"""`afx.distributed.messages`: what exchanges numbers says so where it is called inside of a transformation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed, optim
from afx.distributed import Split
from afx.errors import TracerError
from tests.every import together

MACHINES = distributed.local(2)
HALVES = Split((1, 1))
OPTIMIZER = distributed.shard_optimizer(MACHINES, optim.adam(0.1))
X = afx.ones(2)


def waves(x: Any) -> Any:
    """Two branches, and their sum."""
    return afx.sin(x) + afx.cos(x)


def loss(w: Any, x: Any) -> Any:
    """A mean."""
    return afx.mean((w * x) ** 2)


def detached(w: Any, x: Any) -> Any:
    """A mean, times a number that has no derivative."""
    return afx.mean(w * x) * float(np.asarray(w))


def slope(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the gradient of a function's sum."""

    def total(x: Any) -> Any:
        return afx.sum(fn(x))

    return afx.grad(total)


GRAPH = distributed.split_graph(afx.trace(waves)(np.ones(2)), [0, 1, 0])
STEP: Any = MACHINES.value_and_grad(loss, split=HALVES)
PLAIN_STEP: Any = MACHINES.value_and_grad(loss, split=HALVES, compiled=False)
WHOLE_STEP = OPTIMIZER.value_and_step(loss, split=HALVES)
PIPELINE = MACHINES.pipeline([lambda w, x: w * x, lambda w, x: w + x], loss, micro_batches=1)

CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "value and gradient": ("value_and_grad of machines", lambda x: STEP(x, X)[1]),
    "a batch": ("value_and_grad of machines", lambda x: STEP(X, x)[1]),
    "named arguments": ("value_and_grad of machines", lambda x: STEP(X, x=x)[1]),
    "parts that are not compiled": ("value_and_grad of machines", lambda x: PLAIN_STEP(x, X)[1]),
    "average": ("distributed", lambda x: MACHINES.average(lambda slot: x * slot, HALVES)),
    "map": ("distributed", lambda x: MACHINES.map(lambda k: x * k, [1.0, 2.0])[0]),
    "spmd": ("spmd of", lambda x: MACHINES.spmd(distributed.psum)(x).first),
    "spmd of parts": ("spmd of", lambda x: MACHINES.spmd(distributed.psum)(distributed.by_slot(lambda k: x * k)).first),
    "broadcast": ("distributed", MACHINES.broadcast),
    "scatter": ("scatter", lambda x: MACHINES.scatter(x, HALVES)),
    "graph": ("run_graph", lambda x: MACHINES.run_graph(GRAPH, x.astype(np.float64))[0]),
    "pipeline": ("distributed", lambda x: PIPELINE(distributed.by_slot(lambda slot: x), X, X)[0]),
    "init": ("distributed", lambda x: OPTIMIZER.init(x).by_slot[0].mu),
    "step": ("step of a sharded optimizer", lambda x: OPTIMIZER.step(x, X, OPTIMIZER.init(X))[0]),
    "step in one": ("value_and_step", lambda x: WHOLE_STEP(x, OPTIMIZER.init(X), X)[1]),
}


@together("name", CALLS)
@together("transform", [afx.jit, slope])
def test_traced_values_are_refused_by_name(name: str, transform: Any) -> None:
    """The message says who exchanges numbers, and within what."""
    who, call = CALLS[name]
    with pytest.raises(
        TracerError, match=rf"{who}.*: machines exchange numbers, not traced values: got .* in (jit|grad) of"
    ):
        transform(call)(X)


def test_a_mistake_inside_of_a_loss_is_told_as_it_is() -> None:
    """A loss that asks for values of its own traced arguments is no call inside of a transformation."""
    step: Any = MACHINES.value_and_grad(detached, split=HALVES)
    with pytest.raises(TracerError, match=r"^np.asarray: its result would not be differentiated"):
        step(afx.asarray(2.0), X)
