"""`Machines.pipeline`: a model in stages has the gradients of the whole one, and trains where no rank has room for it."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed
from afx.distributed.pipeline import order_passes
from afx.errors import ArgumentError, ShapeError
from tests.distributed.jobs import needs_mpi, run, same_lines
from tests.distributed.programs import stage, stage_loss, stage_parameters

X = np.random.default_rng(0).normal(size=(12, 6))
Y = np.random.default_rng(1).normal(size=(12, 6))


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 12])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_stages_have_the_gradients_of_the_whole(slots: int, micro_batches: int) -> None:
    """Whatever the number of microbatches, but for rounding."""
    machines = distributed.local(slots)
    step = machines.pipeline([stage] * slots, stage_loss, micro_batches=micro_batches)
    value, slopes = step(distributed.by_slot(stage_parameters), X, Y)

    def whole(params: Any) -> Any:
        x = afx.asarray(X)
        for part in params:
            x = stage(part, x)
        return stage_loss(x, Y)

    expected, gradient = afx.value_and_grad(whole)([stage_parameters(slot) for slot in range(slots)])
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for found, part in zip(slopes.gather(), gradient, strict=True):
        np.testing.assert_allclose(found["w"], part["w"], rtol=1e-11, atol=1e-14)
        assert int(found["n"]) == 0


@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_few_microbatches_are_on_their_way_at_a_time(stages: int, count: int) -> None:
    """Each pass runs once, backward after forward, and a stage keeps no more than the stages from it on."""
    for k in range(stages):
        passes, open_, most = list(order_passes(k, stages, count)), 0, 0
        for forward, _ in passes:
            open_ += 1 if forward else -1
            most = max(most, open_)
        assert most <= stages - k
        assert [number for forward, number in passes if forward] == list(range(count))
        assert [number for forward, number in passes if not forward] == list(range(count))


def test_mistakes_are_named() -> None:
    """Another number of stages, and batches that do not divide."""
    machines = distributed.local(2)
    with pytest.raises(ArgumentError, match="got 1 stages for 2 slots"):
        machines.pipeline([stage], stage_loss, micro_batches=2)
    step = machines.pipeline([stage] * 2, stage_loss, micro_batches=5)
    with pytest.raises(ShapeError, match="rows of x that 5 microbatches do not divide"):
        step(distributed.by_slot(stage_parameters), X, Y)


@needs_mpi
def test_a_model_larger_than_a_rank_trains() -> None:
    """With a limit on address space that one process exceeds, two ranks take steps."""
    alone = run(1, "large_model")
    assert "MemoryError" in alone.stderr + alone.stdout or "Unable to allocate" in alone.stderr, alone.stderr
    result = run(2, "large_model")
    assert sorted(result.stdout.splitlines()) == same_lines(2), result.stderr
