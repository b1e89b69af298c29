"""Sums over slots on several ranks: by memory that they share, and by messages, the bits of one process."""

import pytest

from tests.distributed.jobs import needs_mpi, run, same_lines

pytestmark = needs_mpi
SUMS = "tests.distributed.summing"


@pytest.mark.parametrize(
    ("ranks", "way"), [(2, "memory"), (3, "memory"), (4, "memory"), (2, "messages"), (3, "messages")]
)
def test_sums_have_the_bits_of_one_process(ranks: int, way: str) -> None:
    """For leaves of all dtypes and sizes, empty and in columns, that end anywhere in a chunk."""
    result = run(ranks, "shared", way, module=SUMS)
    assert sorted(result.stdout.splitlines()) == same_lines(ranks), result.stderr


def test_arrays_of_other_lengths_are_refused() -> None:
    """At once, and not added up as far as they go."""
    result = run(2, "other_lengths", module=SUMS)
    assert result.returncode != 0
    assert "a sum of other arrays" in result.stderr, result.stderr


@pytest.mark.parametrize("ranks", [2, 3])
def test_results_stay_as_they_are_while_a_rank_holds_them(ranks: int) -> None:
    """Whatever the ranks compute next, and whichever results another rank gave up."""
    result = run(ranks, "kept", module=SUMS)
    assert sorted(result.stdout.splitlines()) == same_lines(ranks), result.stderr


def test_sums_go_on_after_integers_that_differ() -> None:
    """All ranks raise, for small arrays and for large ones, wherever they differ."""
    result = run(2, "other_integers", module=SUMS)
    assert sorted(result.stdout.splitlines()) == same_lines(2), result.stderr
