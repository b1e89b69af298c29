"""Sums over slots on several ranks: what does not fit is refused; `test_together` compares their bits."""

from tests.distributed.jobs import needs_mpi, run

pytestmark = needs_mpi
SUMS = "tests.distributed.summing"


def test_arrays_of_other_lengths_are_refused() -> None:
    """At once, and not added up as far as they go."""
    result = run(2, "other_lengths", module=SUMS)
    assert result.returncode != 0
    assert "a sum of other arrays" in result.stderr, result.stderr
