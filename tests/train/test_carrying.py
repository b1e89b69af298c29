"""What a run carries: patience, limits and the best state are the same whether a training was interrupted or not."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import io, nn, train
from afx.errors import TreeError

VALUES = [5.0, 4.0, 3.0, 3.5, 3.2, 3.1, 3.6, 1.0, 0.5, 0.4, 0.3]


def replay(start: Any, state: Any) -> Any:
    """Make a run whose values are given and whose state is an array of the step's number."""
    return train.steps(lambda s, value: (s + 1.0, value), state, VALUES[start:], start=start)


Put = Callable[[Any, io.Checkpoints], Any]


def stop(run: Any, **options: Any) -> Any:
    """Stop after four measurements without an improvement: at step 7."""
    return train.stop_early(run, patience=4, **options)


def save(run: Any, checkpoints: io.Checkpoints) -> Any:
    """Save every state."""
    return train.save_checkpoints(run, checkpoints, every=1)


PIPES: dict[str, Put] = {
    "saved behind": lambda run, checkpoints: save(stop(run), checkpoints),
    "saved before": lambda run, checkpoints: stop(save(run, checkpoints)),
    "by a metric": lambda run, checkpoints: save(
        train.stop_early(train.evaluate(run, lambda s: {"x": VALUES[int(s) - 1]}), "x", patience=4), checkpoints
    ),
    "twice": lambda run, checkpoints: save(stop(train.stop_early(run, patience=9, mode="max")), checkpoints),
}


@pytest.mark.parametrize("pipe", PIPES)
@pytest.mark.parametrize("pieces", [[11], [1, 11], [3, 11], [5, 6, 11], [1, 2, 3, 4, 5, 6, 11], [7, 11]])
def test_patience_goes_on_after_resume(tmp_path: Path, pipe: str, pieces: list[int]) -> None:
    """Interrupted anywhere, the run stops at the step where the whole one would have stopped."""
    numbers: list[int] = []
    for last in pieces:
        checkpoints = io.Checkpoints(tmp_path)
        start, state = train.resume(checkpoints, afx.asarray(0.0))
        run = PIPES[pipe](train.limit_steps(replay(start, state), last), checkpoints)
        numbers += [step.number for step in run]
    assert numbers == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("pieces", [[11], [2, 11], [3, 11], [5, 11], [7, 11]])
def test_the_best_state_is_restored(tmp_path: Path, pieces: list[int]) -> None:
    """The run ends with the best step once more, whether it was interrupted or not."""
    last: Any = None
    for limit in pieces:
        checkpoints = io.Checkpoints(tmp_path)
        start, state = train.resume(checkpoints, afx.asarray(0.0))
        run = stop(train.limit_steps(replay(start, state), limit), restore_best=True)
        last = train.finish(save(run, checkpoints))
    assert (last.number, float(last.state), last.value) == (3, 3.0, 3.0)


def test_the_best_state_survives_donation() -> None:
    """A step that is given the memory of the state before does not take that of the best one."""
    step = afx.jit(lambda s, value: (s + 1.0, value), donate_argnums=0)
    run = train.steps(step, afx.zeros(3), VALUES)
    last = train.finish(stop(run, restore_best=True))
    assert (last.number, last.state.tolist()) == (3, [3.0, 3.0, 3.0])


def test_without_a_worse_step_nothing_is_repeated() -> None:
    """Where the last step is the best one, the run has no step twice."""
    run = train.stop_early(train.limit_steps(replay(0, 0.0), 3), patience=2, restore_best=True)
    assert [step.number for step in run] == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "put",
    [
        lambda run: train.show_progress(train.limit_steps(run, 4), mininterval=0),
        lambda run: train.limit_steps(train.show_progress(run, mininterval=0), 4),
        lambda run: train.limit_steps(train.show_progress(train.limit_steps(run, 9), mininterval=0), 4),
        lambda run: train.show_progress(train.History().record(train.limit_steps(run, 4)), mininterval=0),
        lambda run: train.limit_steps(train.stop_early(train.show_progress(run, mininterval=0), patience=9), 4),
    ],
)
def test_progress_learns_the_total(put: Callable[[Any], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """The bar knows the number of steps from `limit_steps`, on either side of it, and begins where a training resumes."""
    assert [step.number for step in put(replay(0, 0.0))] == [1, 2, 3, 4]
    assert "4/4" in capfd.readouterr().err
    assert [step.number for step in put(replay(2, 0.0))] == [3, 4]
    shown = capfd.readouterr().err
    assert "4/4" in shown
    assert "2/4" in shown


def test_a_total_that_is_given_counts(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever says the number of steps knows it."""
    list(train.show_progress(train.limit_steps(replay(0, 0.0), 3), 7, mininterval=0))
    assert "3/7" in capfd.readouterr().err


# -------------------------------------------------------------------------------------------------- what can be saved


@attrs.frozen
class Net:
    """A class of the program, with a function of the program."""

    layer: nn.Linear
    activation: Any = afx.static(default=np.tanh)


def bend(x: afx.Array) -> afx.Array:
    """Bend."""
    return afx.tanh(x) * 2.0


def test_resume_allows_what_the_initial_state_holds(tmp_path: Path) -> None:
    """Classes and functions of the initial state need no further leave."""
    net = Net(nn.Linear.create(afx.random.key(0), 2, 1), bend)
    io.Checkpoints(tmp_path).save(5, net)
    start, state = train.resume(io.Checkpoints(tmp_path), net)
    assert (start, type(state.activation)) == (5, type(bend))
    assert afx.pytree.equal(state.layer, net.layer)


def test_partial_functions_in_a_state_resume(tmp_path: Path) -> None:
    """A `functools.partial` equals no other one: what resumes holds that of the program, so that no step is traced anew."""
    net = Net(nn.Linear.create(afx.random.key(0), 2, 1), functools.partial(nn.leaky_relu, slope=0.2))
    io.Checkpoints(tmp_path).save(5, net)
    start, state = train.resume(io.Checkpoints(tmp_path), net)
    assert (start, state.activation) == (5, net.activation)
    assert afx.pytree.structure(state) == afx.pytree.structure(net)
    other = attrs.evolve(net, activation=functools.partial(nn.leaky_relu, slope=0.3))
    with pytest.raises(TreeError, match="resume: the saved state has another structure"):
        train.resume(io.Checkpoints(tmp_path), other)


def test_a_lambda_is_found_at_the_start(tmp_path: Path) -> None:
    """What cannot be saved is named at the first step, not when the first checkpoint is due."""
    run = train.steps(lambda s, x: (s, x), {"f": lambda x: x}, VALUES)
    with pytest.raises(TreeError, match=r"a lambda, .* at \['f'\]"):
        next(iter(train.save_checkpoints(run, io.Checkpoints(tmp_path), every=1000)))
    with pytest.raises(TreeError, match=r"a lambda, .* at \['f'\]"):
        train.resume(io.Checkpoints(tmp_path), {"f": lambda x: x})
    arrays = train.steps(lambda s, x: (s, x), {"f": np.array([{}])}, VALUES)
    with pytest.raises(afx.errors.DtypeError, match="save numbers alone"):
        next(iter(train.save_checkpoints(arrays, io.Checkpoints(tmp_path), every=1000)))
