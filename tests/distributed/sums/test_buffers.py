"""`afx.distributed.sums.buffers`: leaves as flat arrays, whatever their memory."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed, optim
from afx.distributed.sums.buffers import flatten_tree

X = np.arange(12.0)

TREES: dict[str, Any] = {
    "steps, and what lies behind them": (X[0:4:2], X[2:4]),
    "columns": (X.reshape(6, 2)[:, 0], X.reshape(6, 2)[:, 1]),
    "backwards": (X[3::-1], X[4:]),
    "one number again and again": (np.broadcast_to(X[0], 2), X[2:4]),
    "neighbours": (X[:5], X[5:12].reshape(7, 1)),
    "empty ones": (X[:0], X[0:4:2], X[2:2], X[2:4]),
}


@pytest.mark.parametrize("name", TREES)
def test_parts_of_buffers_are_those_of_the_leaves(name: str) -> None:
    """As a view where leaves lie side by side in one memory, and never of what lies between their elements."""
    layout, leaves = flatten_tree(TREES[name])
    whole = np.concatenate([np.ravel(leaf) for leaf in TREES[name]])
    for start in range(whole.size):
        (found,) = layout.cut(leaves, [slice(start, whole.size)])
        assert found.tolist() == whole[start:].tolist()


def test_a_sharded_step_moves_what_is_there() -> None:
    """Parameters that are every second element of an array are not those beside them."""
    x = afx.arange(8.0)
    params = {"a": x[::2], "b": x[4:]}
    optimizer = distributed.shard_optimizer(distributed.local(1), optim.sgd(1.0))
    moved, _ = optimizer.step(params, afx.pytree.map(afx.ones_like, params), optimizer.init(params))
    assert moved["a"].tolist() == [-1.0, 1.0, 3.0, 5.0]
    assert moved["b"].tolist() == [3.0, 4.0, 5.0, 6.0]
