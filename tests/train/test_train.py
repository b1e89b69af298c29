"""`afx.train`: pieces of a training loop that compose, stop as told, and resume bit for bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import io, optim, train
from afx.errors import ArgumentError, NanError, TreeError
from tests.train.fitting import bits, fit

VALUES = [5.0, 4.0, 3.0, 3.5, 3.2, 1.0]


def replay(values: Any = VALUES, start: int = 0) -> Any:
    """Make a run whose state is the number of steps and whose values are given."""
    return train.steps(lambda count, value: (count + 1, value), start, values, start=start)


def test_steps_and_finish() -> None:
    """Numbers count from 1 or on from the start; the state is carried; an empty run is refused."""
    assert [(s.number, s.state, s.value) for s in replay([1.0, 2.0], 3)] == [(4, 4, 1.0), (5, 5, 2.0)]
    assert train.finish(replay()).state == 6
    with pytest.raises(ArgumentError, match="a training of no step"):
        train.finish(replay([]))


def test_evaluation_history_and_early_stopping_compose() -> None:
    """Metrics are measured every so many steps, noted once each, and decide when to stop."""
    history = train.History()
    run = train.evaluate(replay(), lambda state: {"error": abs(4 - state), "count": state}, every=2)
    run = train.evaluate(run, lambda state: {"more": np.float32(1.0)}, every=3)
    done = list(history.record(train.stop_early(run, "error", patience=1), every=2))
    assert [s.number for s in done] == [1, 2, 3, 4, 5, 6]
    assert (history.numbers, history.values) == ([2, 4, 6], [4.0, 3.5, 1.0])
    assert history.metrics["error"] == [(2, 2.0), (4, 0.0), (6, 2.0)]
    assert history.metrics["more"] == [(3, 1.0), (6, 1.0)]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"patience": 1}, 4),
        ({"patience": 2}, 5),
        ({"patience": 3}, 6),
        ({"patience": 1, "min_delta": 1.5}, 2),
        ({"patience": 1, "mode": "max"}, 2),
    ],
)
def test_stop_early(options: Any, count: int) -> None:
    """The run ends after that many measurements without an improvement."""
    assert len(list(train.stop_early(replay(), **options))) == count


def test_nan_is_no_improvement() -> None:
    """A value that is not a number is never the best one."""
    assert len(list(train.stop_early(replay([np.nan, np.nan, 1.0]), patience=2))) == 2


def test_guard_finite() -> None:
    """A step that is not finite is never yielded; the message has its number and the leaf."""
    bad = [1.0, np.inf, 1.0]
    assert [s.number for s in train.guard_finite(replay(bad), action="stop")] == [1]
    with pytest.raises(NanError, match="guard_finite: step 2 is not finite: got nan or infinity in value"):
        train.finish(train.guard_finite(replay(bad)))
    run = train.steps(
        lambda s, x: ({"w": s["w"] * x, "n": s["n"]}, 0.0), {"w": afx.ones(2), "n": afx.asarray(3)}, [1.0, np.nan]
    )
    with pytest.raises(NanError, match=r"step 2 is not finite: got nan or infinity in state\['w'\]"):
        train.finish(train.guard_finite(run))


def test_limits() -> None:
    """A run ends at a number of steps, without asking for one more batch, and at a time."""
    taken: list[int] = []

    def batches() -> Any:
        for k in range(10):
            taken.append(k)
            yield 0.0

    assert [s.number for s in train.limit_steps(replay(batches()), 3)] == [1, 2, 3]
    assert taken == [0, 1, 2]
    assert [s.number for s in train.limit_steps(replay(VALUES, 5), 2)] == []
    assert len(list(train.limit_time(replay(), 0.0))) == 1


def test_progress_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """The bar has the label, the value and the metrics, and the steps pass through."""
    pytest.importorskip("tqdm", reason="the extra progress")
    run = train.evaluate(replay(), lambda state: {"error": 0.25}, every=6)
    assert len(list(train.show_progress(run, 6, every=1, label="fit", mininterval=0))) == 6
    shown = capfd.readouterr().err
    assert "fit" in shown
    assert "6/6" in shown
    assert "error=0.25" in shown


@pytest.mark.parametrize("call", [train.evaluate, train.show_progress, train.save_checkpoints])
def test_every_is_positive(call: Any, tmp_path: Path) -> None:
    """A number of steps below 1 is refused when the piece is put on."""
    extra = {train.evaluate: [dict], train.save_checkpoints: [io.Checkpoints(tmp_path)]}.get(call, [])
    with pytest.raises(ArgumentError, match="got every=0"):
        call(replay(), *extra, every=0)


def test_a_metric_that_is_not_measured_is_named() -> None:
    """The message lists what is measured."""
    run = train.evaluate(replay(), lambda state: {"error": 0.0})
    with pytest.raises(ArgumentError, match=r"got 'eror'; evaluate measures \['error'\]"):
        list(train.stop_early(run, "eror", patience=1))


# --------------------------------------------------------------------------------------------------------- resuming


def test_resuming_is_bit_for_bit(tmp_path: Path) -> None:
    """Parameters, optimizer state, key and position in the data go on as if nothing had happened."""
    whole = fit(tmp_path / "a", 30)
    for last in (1, 4, 11, 12, 29, 30):
        again = fit(tmp_path / "b", last)
    assert bits(again) == bits(whole)
    assert len(list((tmp_path / "b").iterdir())) == 2


def test_another_structure_is_refused(tmp_path: Path) -> None:
    """A folder of another model's states is named, not loaded."""
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(1, {"w": 1.0})
    with pytest.raises(TreeError, match=r"resume: the saved state has another structure .*got \{'w': \*\}"):
        train.resume(checkpoints, (1.0,))
    checkpoints.save(2, {"w": afx.zeros((4, 3))})
    with pytest.raises(TreeError, match=r"another shape at \['w'\] than the initial one: got \(4, 3\) for \(8, 3\)"):
        train.resume(checkpoints, {"w": afx.zeros((8, 3))})


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_killed_trainings_resume(tmp_path: Path) -> None:
    """A training that is killed at random moments ends with the parameters of an undisturbed one."""
    code = (
        "import sys; from pathlib import Path; from tests.train.fitting import fit; "
        "print('on', flush=True); fit(Path(sys.argv[1]), 400, 0.0005); print('done', flush=True)"
    )
    random = np.random.default_rng(0)
    kills = 0
    for _ in range(20):
        command = [sys.executable, "-c", code, str(tmp_path / "killed")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "on\n"
            time.sleep(random.uniform(0.0, 0.35) if kills < 2 else 0.0)
            if kills < 2:
                process.kill()
                kills += process.wait() == -signal.SIGKILL
            elif "done" in process.stdout.read():
                break
    assert kills == 2
    assert bits(fit(tmp_path / "killed", 400)) == bits(fit(tmp_path / "whole", 400))


@attrs.frozen
class Own:
    """A model of the program itself."""

    weight: afx.Array


def test_resume_allows_what_the_initial_state_holds(tmp_path: Path) -> None:
    """Classes of one's own need no leave to come back: the initial state names them."""
    with io.Checkpoints(tmp_path) as checkpoints:
        state = (Own(afx.ones(2)), optim.adam(0.1).init(Own(afx.ones(2))))
        checkpoints.save(7, state)
        number, again = train.resume(checkpoints, state)
    assert number == 7
    assert afx.pytree.equal(again, state)
