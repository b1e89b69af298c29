"""`afx.distributed.shard_optimizer`: the steps of the whole optimizer, with the state divided among slots."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, distributed, io, optim, random
from afx.distributed.link import RankLostError
from afx.errors import ArgumentError
from tests.distributed.programs import SPLITS, X, Y, bits_of, loss, parameters, train_in_one, train_of, train_sharded
from tests.every import together
from tests.optim.cases import OPTIMIZERS


@attrs.frozen
class Model:
    """Leaves of two dtypes, with ones that are not trained."""

    weight: Array
    bias: Array
    count: Array
    mean: Array = afx.non_trainable()


MODEL = Model(
    afx.asarray(np.linspace(-1, 1, 7).reshape(7, 1)),
    afx.asarray(np.float32([0.5, 1.5])),
    afx.asarray(3),
    afx.asarray(np.float64(2.0)),
)
GRADS = Model(
    afx.ones((7, 1), dtype="float64") * 0.5,
    afx.asarray(np.float32([1, -1])),
    afx.asarray(0),
    afx.asarray(np.float64(0)),
)


WHOLE = {"adafactor", "lbfgs", "muon", "noisy", "prodigy"}  # look at more than single elements
BY_LOSS = {"arrayflow", "plateau"}


@together("slots", [1, 3, 20])
@together("name", sorted(OPTIMIZERS.keys() - WHOLE - BY_LOSS))
def test_sharded_steps_are_those_of_the_whole(slots: int, name: str) -> None:
    """The same bits as without sharding; what is not trained stays as it is."""
    optimizer = OPTIMIZERS[name]()
    sharded = distributed.shard_optimizer(distributed.local(slots), optimizer)
    state, whole = sharded.init(MODEL), optimizer.init(MODEL)
    mine = theirs = MODEL
    for _ in range(4):
        mine, state = sharded.step(mine, GRADS, state)
        theirs, whole = optimizer.step(theirs, GRADS, whole)
    assert isinstance(mine, Model)
    assert bits_of(mine) == bits_of(theirs)


@pytest.mark.parametrize("slots", [1, 2, 3, 20])
@pytest.mark.parametrize(
    "optimizer",
    [
        optim.chain(optim.clip_by_global_norm(0.3), optim.adam(0.1)),
        optim.chain(optim.clip_by_norm(0.3), optim.sgd(0.1, momentum=0.9)),
        optim.lamb(0.1, weight_decay=0.01),
        optim.lars(0.1, momentum=0.9),
    ],
)
def test_norms_are_those_of_whole_arrays(slots: int, optimizer: Any) -> None:
    """Clipping by norms, LAMB and LARS take steps of the whole optimizer but for rounding, also where slots have no element."""
    sharded = distributed.shard_optimizer(distributed.local(slots), optimizer)
    state, whole = sharded.init(MODEL), optimizer.init(MODEL)
    mine = theirs = MODEL
    for _ in range(4):
        mine, state = sharded.step(mine, GRADS, state)
        theirs, whole = optimizer.step(theirs, GRADS, whole)
    for x, y in zip(afx.pytree.leaves(mine), afx.pytree.leaves(theirs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6)


@pytest.mark.parametrize("optimizer", [optim.muon(0.1), optim.adafactor(0.1)])
def test_optimizers_that_look_at_whole_arrays_are_refused(optimizer: Any) -> None:
    """A chunk would change what they do: they are named before anything is trained."""
    with pytest.raises(ArgumentError, match="an optimizer that looks at more than elements and norms"):
        distributed.shard_optimizer(distributed.local(2), optimizer)


def test_a_gathered_state_is_saved_and_goes_on(tmp_path: Path) -> None:
    """A checkpoint holds the states of all slots and continues bit for bit."""
    state, p = train_of(3)
    io.save(tmp_path / "state.npz", (state, p))
    again, q = io.load(tmp_path / "state.npz")
    local = distributed.local(4)
    assert bits_of(train_sharded(local, 3, again, q, start=3)) == bits_of(train_sharded(local, 6))


def test_a_state_of_other_slots_is_refused() -> None:
    """The message says what to save."""
    sharded = distributed.shard_optimizer(distributed.local(2), optim.adam(0.1))
    state = distributed.ShardedState({0: sharded.init(MODEL).by_slot[0]})
    with pytest.raises(ArgumentError, match=r"got \[0\], missing \[1\]; save what gather"):
        sharded.step(MODEL, GRADS, state)


@pytest.mark.parametrize("split", SPLITS)
def test_a_step_in_one_gives_the_bits_of_gradient_and_step(split: distributed.Split) -> None:
    """Value, metrics, parameters and state are those of `Machines.value_and_grad` and `ShardedOptimizer.step`."""
    machines = distributed.local(4)
    out, p, state = train_in_one(machines, split)
    gradient = machines.value_and_grad(loss, split=split, has_aux=True)
    optimizer = distributed.shard_optimizer(machines, optim.adamw(0.1, weight_decay=0.01))
    q, expected = parameters(), optimizer.init(parameters())
    found: Any = None
    for number in range(4):
        keys = distributed.by_slot(lambda slot, number=number: random.fold_in(random.key(number), slot))
        found, grads = gradient(q, X, Y, keys)
        q, expected = optimizer.step(q, grads, expected)
    assert bits_of((out, p, state)) == bits_of((found, q, expected))


def test_a_step_in_one_names_what_is_wrong() -> None:
    """A Split of other slots, and a state that lacks one."""
    sharded = distributed.shard_optimizer(distributed.local(2), optim.adam(0.1))

    def cost(w: Array, x: Array) -> Array:
        return afx.mean(w * x)

    with pytest.raises(ArgumentError, match="value_and_step: a Split of other slots: got 3 for 2"):
        sharded.value_and_step(cost, split=distributed.Split((1, 1, 1)))
    step = sharded.value_and_step(cost, split=distributed.Split((1, 1)))
    state = distributed.ShardedState({0: sharded.init(1.0).by_slot[0]})
    with pytest.raises(ArgumentError, match=r"got \[0\], missing \[1\]; save what gather"):
        step(1.0, state, np.ones(2))


def test_a_state_is_looked_at_again_when_a_rank_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that takes over a slot of a lost one says that it has no state of it."""
    machines = distributed.local(2)
    optimizer = distributed.shard_optimizer(machines, optim.adam(0.1))
    state = distributed.ShardedState({0: optimizer.init(MODEL).by_slot[0]})
    lost = list[int]()

    def lose(*_: Any) -> None:
        lost.append(1)
        raise RankLostError

    monkeypatch.setattr(machines.link, "owner", lambda slot: 0 if lost else slot)
    monkeypatch.setattr(machines.link, "gather_parts", lose)
    with pytest.raises(ArgumentError, match=r"got \[0\], missing \[1\]; save what gather"):
        optimizer.step(MODEL, GRADS, state)
    assert lost == [1]


def test_a_state_is_gathered_on_a_rank() -> None:
    """A root that is none is named."""
    optimizer = distributed.shard_optimizer(distributed.local(2), optim.sgd(0.1))
    state = optimizer.init(afx.ones(3))
    assert sorted(optimizer.gather(state, root=0).by_slot) == [0, 1]
    for root in (1, -1):
        with pytest.raises(ArgumentError, match=f"gather: no such rank: got root={root} of 1; ranks count from 0"):
            optimizer.gather(state, root=root)


def test_changing_arrays_of_the_caller_changes_no_state() -> None:
    """States that keep parameters keep their numbers."""
    w = np.ones(4)
    optimizer = distributed.shard_optimizer(distributed.local(2), optim.lookahead(optim.sgd(0.1)))
    state = optimizer.init({"w": w})
    w[:] = 7.0
    assert [state.by_slot[slot].slow[0].tolist() for slot in (0, 1)] == [[1.0, 1.0], [1.0, 1.0]]
