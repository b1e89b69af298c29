"""Faults of a job: what differs, hangs, leaves or is killed gives one clear error, or the bits of one process."""

import re
import time
from pathlib import Path

import pytest

from afx import distributed
from afx.io import Checkpoints
from tests.distributed.faults import train_saved
from tests.distributed.jobs import needs_mpi, run, same_lines
from tests.distributed.programs import bits_of

pytestmark = needs_mpi
FAULTS = "tests.distributed.faults"
SHRINK = ("--with-ft", "ulfm")


def printed(text: str) -> list[str]:
    """Return sorted lines; the launcher writes zeros where a rank was killed."""
    return sorted(line for line in text.replace("\0", "").splitlines() if line.startswith("rank"))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "other_values",
            r"value_and_grad of cost: ranks hold other values .* argument 0\['w'\] on rank 1 .*broadcast",
        ),
        ("other_rates", r"ranks hold other values .* argument 0\['w'\] on rank 1 .*learning rates"),
        ("other_sharded_rates", "the ranks do not run the same optimizer"),
        ("sums", "a loss that is a sum over its examples"),
    ],
)
def test_ranks_that_differ_are_told_so(program: str, message: str) -> None:
    """Other parameters, learning rates or a loss of another kind do not train on without a word."""
    result = run(2, program, module=FAULTS)
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "other_calls",
            "rank . in (map|value_and_grad of cost: data 1 float64), rank . in (map|value_and_grad of cost: data 1)",
        ),
        (
            "missing_call",
            "rank . in (broadcast of rank 0|value_and_grad of cost: data 1 float64), rank . in (broadcast|value_and_grad)",
        ),
        ("leave", "rank 1 ended its program after value_and_grad of loss"),
    ],
)
def test_calls_that_do_not_fit_end_at_once(program: str, message: str) -> None:
    """Both calls are named, long before the deadline of ten minutes."""
    begin = time.monotonic()
    result = run(2, program, module=FAULTS)
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr
    assert time.monotonic() - begin < 120


def test_an_error_in_a_call_is_one_on_all_ranks_that_may_be_lost() -> None:
    """Of `map`, `average`, gradients, sharded steps and pipelines too: ranks that wait are told which one failed and why."""
    result = run(3, "errors_in_calls", "shrink", module=FAULTS, options=SHRINK)
    assert printed(result.stdout) == same_lines(3), result.stderr


def test_a_connection_that_cannot_go_on_says_so() -> None:
    """Where ranks make other calls, and an error keeps them from coming together again."""
    result = run(2, "over", module=FAULTS)
    lines = printed(result.stdout)
    assert re.search("rank 0: spmd of .* rank 1 does not come to the end of the call: got it in map", lines[0]), lines
    assert re.search("rank 0: spmd of .* the connection is over: got spmd of .*; start the job again", lines[1]), lines
    for line in lines[2:4]:
        assert re.search("rank 1: .* rank 0 ended its program after spmd", line), lines


def test_a_rank_does_not_wait_in_a_call_that_others_have_left() -> None:
    """It is told long before the deadline of ten minutes; what it waited for keeps its memory until the process ends."""
    begin = time.monotonic()
    result = run(2, "left_alone", module=FAULTS)
    assert result.returncode == 0, result.stderr
    first, second = printed(result.stdout)
    assert re.search("rank 1 in spmd of .*: 2. psum of float32.3., rank 0 in spmd of .*: 1. psum", first), first
    assert re.search("rank 1: spmd of .*: 2. psum of float32.3.: a call that rank 0 has left", second), second
    assert time.monotonic() - begin < 120


def test_training_goes_on_over_any_number_of_ranks(tmp_path: Path) -> None:
    """From 3 ranks over 2, of which one is killed behind its part of a checkpoint, and 4 to one process, bit for bit."""
    assert printed(run(3, "go_on", str(tmp_path / "run"), "2", "0", module=FAULTS).stdout) == same_lines(3)
    assert run(2, "go_on", str(tmp_path / "run"), "9", "4", module=FAULTS).returncode != 0
    assert Checkpoints(tmp_path / "run").steps() == [1, 2, 3]
    result = run(4, "go_on", str(tmp_path / "run"), "5", "0", module=FAULTS)
    assert printed(result.stdout) == same_lines(4), result.stderr
    start, state = train_saved(distributed.local(4), tmp_path / "run", 6)
    assert start == 5
    assert bits_of(state) == bits_of(train_saved(distributed.local(4), tmp_path / "whole", 6)[1])


@pytest.mark.parametrize("place", ["first", "second", "map", "broadcast", "graph", "shards"])
def test_a_rank_lost_anywhere_does_not_change_bits(place: str) -> None:
    """Also outside of repeated steps: first calls, maps, broadcasts, split graphs, sharded states."""
    result = run(3, "lose_outside", place, options=SHRINK, module=FAULTS)
    assert printed(result.stdout) == same_lines(2), result.stderr


def test_a_rank_that_hangs_is_left_behind() -> None:
    """At the deadline the ranks of its machine end it, and go on."""
    result = run(3, "hang_and_go_on", options=SHRINK, module=FAULTS)
    assert printed(result.stdout) == same_lines(2), result.stderr


def test_a_rank_lost_before_it_connects_is_an_error() -> None:
    """MPI itself would wait for it for ever."""
    result = run(2, "lost_before", options=SHRINK, module=FAULTS)
    assert result.returncode != 0
    assert "PeerLost: connect: no answer within the deadline: got 2.0 s of waiting for all ranks" in result.stderr


@pytest.mark.parametrize("program", ["raise_while_shrinking", "raise_alone"])
def test_an_aborted_job_that_could_go_on_fails(program: str) -> None:
    """An exception on one rank ends a job that outlives lost ranks, too, and not with status 0; so does that of the last one."""
    result = run(3, program, options=SHRINK, module=FAULTS)
    assert result.returncode != 0
    assert "RuntimeError: broken on purpose" in result.stderr
