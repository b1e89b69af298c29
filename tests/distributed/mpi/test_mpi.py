"""`afx.distributed` over MPI: the bits of one process on any number of ranks, and an end to every fault."""

import importlib.util
import re
import time

import pytest

from tests.distributed.jobs import needs_mpi, run

pytestmark = needs_mpi


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_ranks_do_not_change_bits(ranks: int) -> None:
    """Unequal and empty slots, dtypes side by side, metrics, keys, maps and broadcasts: all as in one process."""
    result = run(ranks, "bits")
    assert sorted(result.stdout.splitlines()) == [f"rank {k} of {ranks}: same" for k in range(ranks)], result.stderr


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the demonstrations need the extra examples")
def test_the_demonstrations_run_in_a_job() -> None:
    """Data-parallel training and a split graph: no bit differs from one process; rank 0 alone claims."""
    result = run(2, "examples")
    claims = sorted(line for line in result.stdout.splitlines() if line.startswith("claims"))
    assert claims == ["claims [True, True, True]", "claims []"], result.stderr


def test_a_sharded_step_takes_the_memory_that_it_needs() -> None:
    """A few times the parameters on each of two ranks, with Adam: nine before chunks were given away."""
    result = run(2, "memory")
    peaks = [float(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("peak")]
    assert len(peaks) == 2, result.stderr
    assert max(peaks) < 5, peaks  # about 3.1, beside the old and the new parameters, which both ranks see once


def test_a_killed_rank_ends_the_job() -> None:
    """Within three seconds, where the job does not go on without it."""
    result = run(2, "die")
    end = time.time()
    found = re.search(r"killed at ([\d.]+)", result.stdout)
    assert found is not None, result.stderr
    assert result.returncode != 0
    assert end - float(found[1]) < 10  # about 0.5 where the machine is quiet


def test_other_programs_are_refused_before_they_compute() -> None:
    """The digests of the ranks are compared at the first call."""
    result = run(2, "differ")
    assert result.returncode != 0
    assert "the ranks do not run the same program, Split and settings" in result.stderr


def test_other_graphs_of_the_same_code_are_refused() -> None:
    """So are the graphs that the ranks trace, which may depend on more than code."""
    result = run(2, "differ_in_graph")
    assert result.returncode != 0
    assert "the ranks do not run the same traced graph" in result.stderr


def test_an_exception_on_one_rank_ends_all() -> None:
    """The job ends at once, with the traceback."""
    begin = time.monotonic()
    result = run(2, "fail")
    assert result.returncode != 0
    assert "RuntimeError: broken on purpose" in result.stderr
    assert time.monotonic() - begin < 60


def test_a_hang_ends_at_the_deadline() -> None:
    """A rank that does not answer turns into an error that says so."""
    result = run(2, "hang")
    assert result.returncode != 0
    assert re.search(r"PeerLost: .*: no answer within the deadline: got [\d.]+ s of waiting", result.stderr)


def test_waiting_takes_next_to_no_processor_time() -> None:
    """A rank that waits for two seconds sleeps most of them."""
    result = run(2, "idle")
    found = re.search(r"share ([\d.]+)", result.stdout)
    assert found is not None, result.stderr
    assert float(found[1]) < 0.2  # about 0.02 where the machine is quiet; a blocking wait takes 1


@pytest.mark.parametrize("seed", range(3))
def test_lost_ranks_do_not_change_bits(seed: int) -> None:
    """Three of four ranks are killed at random moments of random steps: the last one ends with the bits of one process."""
    result = run(4, "lose", str(seed), options=("--with-ft", "ulfm"))
    assert "rank 0 of 1: same" in result.stdout.replace("\0", "").split("\n"), result.stderr
