"""`afx.distributed` in one process: what defines the bits of every number of ranks."""

import json
import tracemalloc
from typing import Any

import attrs
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import afx
from afx import Array, distributed, nn, optim
from afx.distributed import Split
from afx.distributed.link import error_of_rank
from afx.errors import ArgumentError, ShapeError, TreeError
from tests.distributed.programs import SPLITS, X, Y, train


def loss(w: Any, x: Array, y: Array) -> Array:
    """A mean over examples."""
    return afx.mean((x @ w["w"] + w["b"] - y) ** 2)


W = {"w": afx.asarray(np.linspace(-1, 1, 5)), "b": afx.asarray(np.float64(0.5))}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("compiled", [True, False])
def test_the_split_batch_has_the_gradient_of_the_whole(split: Split, compiled: bool) -> None:
    """Value and gradient differ from those of the unsplit batch by rounding alone; structure and dtypes are theirs."""
    value, grads = distributed.local(4).value_and_grad(loss, split=split, compiled=compiled)(W, X, Y)
    expected, whole = afx.value_and_grad(loss)(W, X, Y)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for part, full in zip(afx.pytree.leaves(grads), afx.pytree.leaves(whole), strict=True):
        assert part.dtype == full.dtype
        np.testing.assert_allclose(part, full, rtol=1e-12)


def test_one_slot_is_the_plain_function() -> None:
    """A Split of one slot gives the bits of `afx.value_and_grad`."""
    value, grads = distributed.local(1).value_and_grad(loss, split=Split((37,)), compiled=False)(W, X, Y)
    expected, whole = afx.value_and_grad(loss)(W, X, Y)
    assert float(value) == float(expected)
    assert afx.pytree.equal(grads, whole)


def test_sums_are_in_the_order_of_the_tree() -> None:
    """Halves are added first, which another order would change."""
    parts = [1e16, 1.0, -1e16, 1.0]
    found = distributed.local(4).average(lambda slot: afx.asarray(np.float64(parts[slot] * 4)), Split((1, 1, 1, 1)))
    assert float(found) == (1e16 + 1.0) + (-1e16 + 1.0) != ((1e16 + 1.0) - 1e16) + 1.0


def test_a_buffer_that_is_filled_again_is_read_in_time() -> None:
    """What `average` gets may be one writable array for all slots."""
    buffer = np.zeros(3)

    def compute(slot: int) -> Any:
        buffer[:] = slot
        return buffer

    assert distributed.local(4).average(compute, Split((1, 1, 1, 1))).tolist() == [1.5] * 3


def test_argnums_names_and_shared_arguments() -> None:
    """Several arguments are differentiated, and those that are shared reach each slot whole."""

    def fn(a: Array, x: Array, *, b: Array, table: Array) -> Array:
        return afx.mean(a * x) * b + table.shape[0]

    step = distributed.local(2).value_and_grad(fn, (0,), ("b",), split=Split((3, 1)), shared=["table"])
    value, (grads, named) = step(2.0, np.arange(4.0), b=3.0, table=np.zeros(7))
    assert (float(value), float(grads[0]), float(named["b"])) == (16.0, 4.5, 3.0)


def test_sums_over_many_slots_leave_one_copy() -> None:
    """What the levels of the tree need for a while is given back: between steps there is the sum alone."""
    machines, x = distributed.local(8), np.ones(1 << 18)
    tracemalloc.start()
    mean = machines.average(lambda slot: x * slot, Split((1,) * 8))
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 1.2 * x.nbytes
    assert float(mean[0]) == 3.5


def test_metrics_and_running_statistics_are_averaged() -> None:
    """Floating leaves of aux are averaged by the sizes; integers pass when they are the same, else raise."""

    def fn(w: Array, x: Array, *, count: Any = 1) -> tuple[Array, Any]:
        return afx.mean(w * x), {"mean": afx.mean(x), "count": afx.asarray(count), "rows": afx.asarray(x.shape[0])}

    machines = distributed.local(2)
    (_, aux), _ = machines.value_and_grad(fn, split=Split((2, 2)), has_aux=True)(1.0, np.arange(4.0))
    assert (float(aux["mean"]), int(aux["count"]), int(aux["rows"])) == (1.5, 1, 2)
    with pytest.raises(ArgumentError, match=r"integers or keys .* differ among the slots"):
        machines.value_and_grad(fn, split=Split((3, 1)), has_aux=True)(1.0, np.arange(4.0))


@attrs.frozen
class Batch:
    """A batch as a class."""

    x: Array
    y: Array


def test_models_and_batches_are_trees() -> None:
    """Layers and classes go through with their types."""
    layer = nn.Linear.create(afx.random.key(0), 5, 1)
    batch = Batch(afx.asarray(X.astype(np.float32)), afx.asarray(Y.astype(np.float32)))

    def fn(layer: nn.Linear, batch: Batch) -> Array:
        return afx.mean((layer(batch.x)[:, 0] - batch.y) ** 2)

    _, grads = distributed.local(3).value_and_grad(fn, split=Split((20, 10, 7)))(layer, batch)
    assert isinstance(grads, nn.Linear)
    _, whole = afx.value_and_grad(fn)(layer, batch)
    np.testing.assert_allclose(grads.weight, whole.weight, rtol=1e-4, atol=1e-6)


def test_training_depends_on_the_split_alone() -> None:
    """The same Split gives the same bits again; another one gives others."""
    assert train(distributed.local(4), SPLITS[0]) == train(distributed.local(4), SPLITS[0])
    assert train(distributed.local(4), SPLITS[0]) != train(distributed.local(4), SPLITS[1])


def test_map_keeps_the_order_and_the_trees() -> None:
    """Results stand in the order of the items, whatever their structure."""
    found = distributed.map_over(distributed.local(3), lambda k: {"k": k, "x": afx.ones(k)}, range(5))
    assert [(tree["k"], tree["x"].shape) for tree in found] == [(k, (k,)) for k in range(5)]


def test_scattering_is_cutting() -> None:
    """Scattered arrays give what whole ones give."""
    machines, split = distributed.local(4), SPLITS[1]
    x, y = machines.scatter(X, split), machines.scatter(Y, split)
    step = machines.value_and_grad(loss, split=split)
    assert afx.pytree.equal(step(W, x, y), step(W, X, Y))


def test_speeds_are_measured() -> None:
    """Each slot gets a positive speed, from which a Split follows."""
    speeds = distributed.local(2).measure_speeds(lambda: sum(range(1000)))
    assert len(speeds) == 2
    assert all(speed > 0 for speed in speeds)
    assert Split.proportional(10, speeds).sizes == (5, 5)


@hypothesis.given(st.integers(1, 10_000), st.lists(st.floats(0, 1e6), min_size=1, max_size=20).filter(any))
def test_proportional_splits_are_whole_and_within_one(total: int, speeds: list[float]) -> None:
    """Sizes add up, and each is its exact share rounded up or down."""
    split = Split.proportional(total, speeds)
    assert split.total == total
    for size, speed in zip(split.sizes, speeds, strict=True):
        assert abs(size - total * speed / sum(speeds)) < 1 + 1e-6


def test_a_split_is_data() -> None:
    """It is compared by its sizes, and its numbers can be written down and read again."""
    split = Split.proportional(100, [2, 1])
    assert Split(tuple(json.loads(json.dumps(split.sizes)))) == split
    assert afx.pytree.leaves(split) == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Split(()), ArgumentError, "whole numbers from 0 on"),
        (lambda: Split((1, -1)), ArgumentError, "whole numbers from 0 on"),
        (lambda: Split((1.0,)), ArgumentError, "whole numbers from 0 on"),  # a mistake
        (lambda: Split.proportional(4, [1, np.inf]), ArgumentError, "speeds are finite"),
        (lambda: distributed.local(0), ArgumentError, "slots is a whole number from 1 on: got 0"),
        (lambda: distributed.local(2.5), ArgumentError, "slots is a whole number from 1 on: got 2.5"),  # a mistake
        (lambda: distributed.local(2).map(None, [1]), ArgumentError, "map: needs a function"),  # a mistake
        (lambda: distributed.local(2).value_and_grad(loss, split=Split((1,))), ArgumentError, "got 1 for 2"),
        (
            lambda: distributed.local(1).value_and_grad(loss, split=Split((3,)))(W, X, Y),
            ShapeError,
            r"got \[37, 5\] for 3 examples; .* shared=",
        ),
        (lambda: distributed.local(1).broadcast(None), ArgumentError, "the root has nothing to send"),
    ],
)
def test_mistakes_are_named(call: Any, error: Any, message: str) -> None:
    """Wrong sizes and shapes say what they got."""
    with pytest.raises(error, match=message):
        call()


def test_gradients_accumulate_over_micro_batches() -> None:
    """Two halves of a batch, weighted, give the gradient of the whole."""
    machines = distributed.local(2)
    step = machines.value_and_grad(loss, split=Split((10, 8)))
    halves = [step(W, X[:18], Y[:18])[1], step(W, X[18:36], Y[18:36])[1]]
    whole = afx.grad(loss)(W, X[:36], Y[:36])
    mean = afx.pytree.map(lambda a, b: (a + b) / 2, *halves)
    for part, full in zip(afx.pytree.leaves(mean), afx.pytree.leaves(whole), strict=True):
        np.testing.assert_allclose(part, full, rtol=1e-12)


def test_complex_functions_have_complex_derivatives() -> None:
    """A holomorphic mean over the examples is split as a real one is."""
    x, w = np.arange(4.0) + 1j, np.complex128(1 + 2j)
    step = distributed.local(2).value_and_grad(
        lambda w, x: afx.mean((w * x) ** 2), split=Split((3, 1)), holomorphic=True
    )
    value, grad = step(w, x)
    np.testing.assert_allclose([value, grad], [np.mean((w * x) ** 2), np.mean(2 * w * x**2)], rtol=1e-14)


@pytest.mark.parametrize("split", [Split((1, 1, 0)), Split((3, 1, 2))])
def test_infinite_complex_numbers_stay_what_they_are(split: Split) -> None:
    """A weight is real: the other part of a number has nothing to do with it."""
    x = np.array([complex(np.inf, 1.0), complex(1.0, -np.inf), complex(-0.0, 2.0)])
    found = distributed.local(3).average(lambda slot: x, split)
    np.testing.assert_allclose(np.asarray(found).real, x.real)
    np.testing.assert_allclose(np.asarray(found).imag, x.imag)


def test_slots_return_trees_of_one_kind() -> None:
    """Trees that differ from slot to slot are refused."""
    with pytest.raises(ArgumentError, match="average: slots whose trees differ"):
        distributed.local(2).average(lambda slot: np.zeros(slot + 1), Split((1, 1)))


def test_results_stay_while_steps_go_on() -> None:
    """Memory of gradients is used again only when nobody holds them."""
    machines = distributed.local(2)
    found = [machines.average(lambda _, k=k: np.full(100_000, float(k)), Split((1, 1))) for k in range(5)]
    kept = [np.asarray(found[1])[3:7], found.pop(2)[:5]]
    found += [machines.average(lambda _, k=k: np.full(100_000, float(k)), Split((1, 1))) for k in (5, 6, 7)]
    assert [float(x[0]) for x in found] == [0, 1, 3, 4, 5, 6, 7]
    assert [float(x.sum()) for x in kept] == [4.0, 10.0]


def test_clipping_and_optimizers_take_the_gradients() -> None:
    """What comes out goes into any optimizer."""
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1))
    _, grads = distributed.local(2).value_and_grad(loss, split=Split((20, 17)))(W, X, Y)
    again, _ = optimizer.step(W, grads, optimizer.init(W))
    assert afx.pytree.structure(again) == afx.pytree.structure(W)


def noisy(w: Any, x: Array, key: Array) -> Array:
    """A mean with noise, of which no two parts are comparable."""
    return afx.mean((w * x) ** 2) + 0.1 * afx.sum(afx.random.normal(key, (3,)))


@pytest.mark.parametrize(
    "fn",
    [
        lambda w, x: afx.sum((w * x) ** 2),
        lambda w, x: afx.sum(w * x),
        lambda w, x: 0.5 * afx.vdot(w * x, w * x),
        lambda w, x: -afx.sum(afx.log(afx.abs(w * x) + 1.0)),
    ],
)
def test_a_sum_in_place_of_a_mean_is_found(fn: Any) -> None:
    """Slots would weigh it by their shares, silently too small; one slot alone may sum."""
    x = np.random.default_rng(3).normal(size=10) + 2.0
    with pytest.raises(ArgumentError, match="a loss that is a sum over its examples"):
        distributed.local(2).value_and_grad(fn, split=Split((5, 5)))(1.5, x)
    alone, _ = distributed.local(1).value_and_grad(fn, split=Split((10,)))(1.5, x)
    np.testing.assert_allclose(alone, fn(1.5, x), rtol=1e-12)


@pytest.mark.parametrize(
    "fn",
    [
        lambda w, x: afx.mean((w * x) ** 2) + w**2,
        lambda w, x: afx.mean(w * x) * 0.0,
        lambda w, x: afx.std(w * x),
        lambda w, x: afx.max(w * x),
    ],
)
def test_other_losses_pass(fn: Any) -> None:
    """Penalties, statistics of the batch and zeros are no sums."""
    x = np.random.default_rng(3).normal(size=10) + 2.0
    distributed.local(2).value_and_grad(fn, split=Split((5, 5)))(1.5, x)


def test_parts_that_slots_make_are_probed_too() -> None:
    """Rows of a slot are found by their number, and keys stay whole."""
    machines, key = distributed.local(2), afx.random.key(0)
    keys = distributed.by_slot(lambda slot: afx.random.fold_in(key, slot))
    rows = distributed.by_slot(lambda slot: afx.arange(4.0) + slot)
    machines.value_and_grad(noisy, split=Split((4, 4)))(1.0, rows, keys)
    with pytest.raises(ArgumentError, match="a loss that is a sum"):
        machines.value_and_grad(lambda w, x: afx.sum(w * x), split=Split((4, 4)))(1.0, rows)


def test_arguments_that_mean_nothing_are_refused() -> None:
    """Names of no argument, gradients of other parameters, no repetition, ranks that do not exist."""
    machines = distributed.local(2)
    split = distributed.Split((1, 1))
    for shared in (["nope"], [9], [-1]):
        with pytest.raises(ArgumentError, match="shared names no argument of the loss"):
            machines.value_and_grad(lambda w, x: afx.mean(w * x), split=split, shared=shared)
    optimizer = distributed.shard_optimizer(machines, optim.adam(0.1))
    w = {"w": afx.ones((2, 3))}
    with pytest.raises(ShapeError, match=r"the shape of grads\['w'\] differs"):
        optimizer.step(w, {"w": afx.ones((3, 2))}, optimizer.init(w))
    with pytest.raises(TreeError, match="the structure of grads"):
        optimizer.step(w, {"v": afx.ones((2, 3))}, optimizer.init(w))
    with pytest.raises(ArgumentError, match="measure_speeds: at least one repetition: got 0"):
        machines.measure_speeds(lambda: None, repeat=0)
    with pytest.raises(ArgumentError, match="broadcast: no such rank: got root=1 of 1"):
        machines.broadcast(1.0, root=1)
    with pytest.raises(ArgumentError, match="an array of objects"):
        machines.average(lambda slot: np.array([None]), split)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("ZeroDivisionError: division by zero", ZeroDivisionError),
        ("ShapeError: add: shapes", ShapeError),
        ("LinAlgError: Singular matrix", np.linalg.LinAlgError),
        ("OSError: [Errno 28] no space", OSError),
        ("OwnError: of the user's", ArgumentError),
        ("UnicodeDecodeError: made of parts", ArgumentError),
        ("StopIteration: which ends loops", ArgumentError),
        ("Warning: none", ArgumentError),
        ("open: a function", ArgumentError),
    ],
)
def test_errors_of_other_ranks_have_their_class(told: str, kind: type[Exception]) -> None:
    """Classes that afx, NumPy and Python know are kept, with the rank in the text."""
    error = error_of_rank("map", f"an error on rank 1: got {told}")
    assert type(error) is kind
    assert str(error) == f"map: an error on rank 1: got {told}; the next call finds all ranks in step"
