"""Pickles and copies: what afx hands out travels to other processes, and says so where it cannot."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, Graph, optim
from afx.errors import GraphError

X = afx.asarray([0.5, 1.5, 2.5])


def wave(x: Array) -> Array:
    """A straight program with a constant."""
    return afx.sum(afx.sin(x) * np.arange(3.0) * 2.0 + x)


def flow(x: Array) -> Array:
    """A loop, a branch, a loop of unknown length, a jitted part and a slice."""
    carry, _ = afx.scan(lambda c, row: (c * row[0] + 1.0, c), x[0], x.reshape(3, 1))
    carry = afx.cond(carry > 0, lambda: carry, lambda: -carry)
    carry = afx.while_loop(lambda c: c < 10.0, lambda c: c * 2 + 1, carry)
    return afx.jit(lambda y: y * 2)(carry) + x[1:]


@afx.jit
def doubled(x: Array) -> Array:
    """A jitted function of this module."""
    return x * 2


@pytest.mark.parametrize("fn", [wave, flow], ids=["straight", "control flow"])
@pytest.mark.parametrize("again", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy, copy.copy])
def test_graphs_come_back_equal(fn: Any, again: Any) -> None:
    """A pickled or copied graph is equal, has the same hash, text and digest, checks itself and runs."""
    graph = afx.trace(fn)(X)
    other: Graph = again(graph)
    assert other == graph
    assert (hash(other), str(other), other.digest) == (hash(graph), str(graph), graph.digest)
    afx.check(other)
    assert afx.evaluate(other, X)[0].tolist() == afx.evaluate(graph, X)[0].tolist() == fn(X).tolist()


def test_sources_stay_readable() -> None:
    """The user's file, line and function of each equation survive as text."""
    graph = afx.trace(wave)(X)
    again = pickle.loads(pickle.dumps(graph))
    assert [str(eq.source) for eq in again] == [str(eq.source) for eq in graph]
    assert {(Path(eq.source.file).name, eq.source.function) for eq in again} == {("test_pickling.py", "wave")}
    assert pickle.loads(pickle.dumps(again)) == graph


def test_graphs_with_python_functions_say_so() -> None:
    """Custom rules are Python: pickling names them; copying in the same process works."""
    mine = afx.custom_jvp(afx.sin, lambda x, t: (afx.sin(x[0]), t[0]))
    graph = afx.trace(lambda x: mine(x) * 2)(X)
    with pytest.raises(GraphError, match=r"pickle: custom_jvp of sin holds Python functions"):
        pickle.dumps(graph)
    assert afx.evaluate(copy.deepcopy(graph), X)[0].tolist() == (mine(X) * 2).tolist()


def test_jitted_functions_pickle_by_name() -> None:
    """As a plain function, a decorated one comes back as itself."""
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(afx.jit(lambda x: x))


CHILD = """
import pickle, sys
import afx
graphs, state, x = pickle.load(sys.stdin.buffer)
found = [(afx.evaluate(g, x)[0].tolist(), g.digest) for g in graphs]
sys.stdout.buffer.write(pickle.dumps((found, graphs, state)))
"""


def test_graphs_arrays_and_states_travel_between_processes() -> None:
    """Another process evaluates a pickled graph to the same bits and digest, and sends equal data back."""
    graphs = [afx.trace(wave)(X), afx.trace(flow)(X)]
    optimizer = optim.adam(1e-2)
    state = optimizer.step(X, X, optimizer.init(X))[1]
    root = str(Path(afx.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((graphs, state, X)),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "7"},
    )
    found, others, other_state = pickle.loads(run.stdout)
    assert found == [(afx.evaluate(g, X)[0].tolist(), g.digest) for g in graphs]
    assert others == graphs
    assert afx.pytree.equal(other_state, state)
