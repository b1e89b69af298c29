"""Graphs of files: every graph that a trace gives loads, and of forged ones none whose results are not as it says."""

import contextlib
import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.errors import AfxError, FileFormatError, TreeError
from afx.io import graph_values, naming, values
from tests.every import together
from tests.ops import samples

SAMPLES = [(p, sample) for p, _, sample in samples.samples()]
DRAWS = 600


def read(graph: Any, arrays: Any) -> afx.Graph:
    """Return a graph from JSON, as a file's."""
    found: afx.Graph = values.Decoder(arrays, naming.AllowedNames(())).value(graph)
    return found


def written(graph: afx.Graph) -> tuple[Any, Any]:
    """Return a graph as JSON, and its arrays."""
    encoder = values.Encoder()
    return json.loads(json.dumps(encoder.value(graph, ""))), encoder.arrays


def graphs_of(p: Primitive, sample: Any) -> Iterator[afx.Graph]:
    """Trace an op, its derivative, and both over a batch."""

    def run(*xs: Any) -> Any:
        return bind(p, *xs, **dict(sample.params))

    def loss(*xs: Any) -> Any:
        found = run(*xs)
        outs = found if isinstance(found, tuple | list) else [found]
        return sum([afx.sum(afx.abs(z) ** 2) for z in outs if z.dtype.kind in "fc"], 0.0)

    xs = [np.asarray(x) for x in sample.operands]
    yield afx.trace(run)(*xs)
    yield afx.trace(afx.vmap(run))(*[np.stack([x, x]) for x in xs])
    if p.is_differentiable and sample.moving:
        yield afx.trace(afx.grad(loss, argnums=tuple(sample.moving)))(*xs)


@together("name", sorted({p.name for p, s in SAMPLES if s.params} | {"matmul", "where", "solve"}))
def test_what_a_trace_gives_loads(name: str) -> None:
    """No check refuses an equation of an op, of its derivative or of its batches."""
    for p, sample in SAMPLES:
        if p.name == name:
            with contextlib.suppress(AfxError, TypeError):  # no batches, no such derivative, a Python function
                for graph in graphs_of(p, sample):
                    with contextlib.suppress(TreeError):
                        again = read(*written(graph))
                        assert again == graph


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of numbers and flags within a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from _numbers(item, (*path, key))
    if value is None or type(value) in (int, bool):
        yield path


def _put(root: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        root = root[key]
    root[path[-1]] = value


def forge(draw: random.Random, graph: Any, xs: list[Any]) -> None:
    """Change numbers of parameters and shapes of operands, and let the outputs say what the op's rule says of them."""
    (equation,) = graph["equations"]
    spots = list(_numbers(equation["params"]))
    for path in draw.sample(spots, min(len(spots), draw.choice([0, 1, 2]))):
        _put(equation["params"], path, draw.choice([0, 1, 2, 3, 7, -1, -2, -5, 100, 10**6, True, False, None]))
    for k in draw.sample(range(len(xs)), min(len(xs), draw.choice([0, 1, 1, 2]))):
        shape = list(xs[k].shape)
        if shape and draw.random() < 0.7:
            shape[draw.randrange(len(shape))] = draw.choice([0, 1, 2, 3, 5, 9])
        else:
            shape.insert(draw.randrange(len(shape) + 1), draw.choice([1, 2, 3]))
        xs[k] = np.ones(shape, xs[k].dtype)
        graph["graph"][k][1] = shape
    decoder = values.Decoder({}, naming.AllowedNames(()))
    params = {key: decoder.parameter(value) for key, value in equation["params"].items()}
    found: Any = graph_values.read_primitive(equation["primitive"]).abstract_eval(*map(aval_of, xs), **params)
    outs = found if isinstance(found, tuple) else (found,)
    equation["outputs"] = [[a.dtype.str, [int(n) for n in a.shape], a.weak] for a in outs]


def test_forged_parameters_give_what_the_graph_says() -> None:
    """A graph with other axes, slices, windows or shapes is refused, or its results have the shapes that it declares."""
    draw, taken = random.Random(0), 0
    for p, sample in draw.choices(SAMPLES, k=DRAWS):
        xs = [np.asarray(x) for x in sample.operands]
        graph, arrays = written(afx.trace(lambda *ys, p=p, s=sample: bind(p, *ys, **dict(s.params)))(*xs))
        if len(graph["equations"]) != 1 or len(graph["graph"]) != len(xs):
            continue
        try:
            forge(draw, graph, xs)
            if sum(np.prod(shape, dtype=float) for _, shape, _ in graph["equations"][0]["outputs"]) > 1e6:
                continue
            found = read(graph, arrays)
        except (FileFormatError, TreeError):
            continue
        except Exception:  # the op's own rule finds no shape
            continue
        taken += 1
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                results = afx.evaluate(found, *xs)
            except Exception:  # an error is no memory of others
                continue
        for z, var in zip(results, found.outputs, strict=True):
            assert np.shape(z) == var.aval.shape, (p, graph)
    assert taken > DRAWS // 5


def conv(**changes: Any) -> Any:
    """Return the graph of a convolution, with other parameters."""
    params = {
        "stride": {"tuple": [1]},
        "dilation": {"tuple": [1]},
        "padding": {"tuple": [{"tuple": [0, 0]}]},
        "groups": 1,
        "window": {"tuple": [3]},
    } | changes
    length = params["window"]["tuple"][0]
    eq = {
        "primitive": "conv_kernel",
        "inputs": [0, 1],
        "outputs": [["<f8", [length, 4 // params["groups"], 6], False]],
        "params": params,
        "ignored_fp_errors": [],
    }
    avals = [["<f8", [2, 7, 4], False], ["<f8", [2, 5, 6], False]]
    return {"graph": avals, "constants": [], "equations": [eq], "outputs": [2]}


def test_windows_beyond_their_operands_are_refused() -> None:
    """A window of a hundred over seven elements would be read from memory of others."""
    assert read(conv(), {}).equations
    for changes in (
        {"window": {"tuple": [100]}},
        {"groups": 4},
        {"stride": {"tuple": [-1]}},
        {"stride": {"tuple": [True]}},
        {"dilation": {"tuple": [0]}},
        {"padding": {"tuple": [{"tuple": [50, 0]}]}},
    ):
        with pytest.raises(FileFormatError, match="a graph that does not hold together"):
            read(conv(**changes), {})
