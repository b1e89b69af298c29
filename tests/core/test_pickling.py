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


def test_digests_are_sound_or_refused() -> None:
    """A digest tells graphs within graphs apart; one of Python functions, of which two may look alike, is refused."""

    def looped(factor: float) -> Graph:
        return afx.trace(lambda x: afx.scan(lambda c, row: (c + row * factor, c), 0.0, x))(X)

    assert looped(2.0).digest == looped(2.0).digest != looped(3.0).digest
    for k in (2.0, 3.0):
        mine = afx.custom_vjp(lambda x: x, lambda x: (x, None), lambda _, ct, k=k: (ct * k,))
        graph = afx.trace(lambda x, mine=mine: afx.scan(lambda c, row: (c + mine(row), c), 0.0, x))(X)
        with pytest.raises(GraphError, match=r"digest: .* is a Python function"):
            _ = graph.digest
        assert "equations" in str(graph)


def _in_a_new_process(code: str, data: bytes = b"") -> bytes:
    """Return the output of a fresh interpreter that has afx alone."""
    env = {**os.environ, "PYTHONPATH": str(Path(afx.__file__).parents[1]), "PYTHONHASHSEED": "7"}
    return subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, env=env).stdout


def test_a_new_process_knows_every_primitive() -> None:
    """All are found by name, whatever was imported before: each pickle loads, and the list is the same."""
    every = [p.name for p in afx.primitives()]
    load = "import pickle, sys; [pickle.loads(p) for p in pickle.load(sys.stdin.buffer)]; import afx"
    found = _in_a_new_process(
        f"{load}; sys.stdout.buffer.write(pickle.dumps([p.name for p in afx.primitives()]))",
        pickle.dumps([pickle.dumps(p) for p in afx.primitives()]),
    )
    assert pickle.loads(found) == every
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    "fn",
    [
        afx.nn.softmax,
        afx.nn.log_softmax,
        lambda x: afx.nn.LayerNorm.create(3)(x),
        lambda x: afx.nn.sigmoid_binary_cross_entropy(x, x),
    ],
    ids=["softmax", "log_softmax", "standardize", "binary cross-entropy"],
)
def test_graphs_of_families_load_in_a_new_process(fn: Any) -> None:
    """A graph whose ops live in a family that was not imported loads and runs."""
    graph = afx.trace(fn)(X)
    code = "import pickle, sys; g, x = pickle.load(sys.stdin.buffer); import afx; "
    code += "sys.stdout.buffer.write(pickle.dumps(afx.evaluate(g, x)[0].tolist()))"
    assert pickle.loads(_in_a_new_process(code, pickle.dumps((graph, X)))) == afx.evaluate(graph, X)[0].tolist()


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
    found, others, other_state = pickle.loads(_in_a_new_process(CHILD, pickle.dumps((graphs, state, X))))
    assert found == [(afx.evaluate(g, X)[0].tolist(), g.digest) for g in graphs]
    assert others == graphs
    assert afx.pytree.equal(other_state, state)
