"""A sample of ``python -m tests.distributed.soak``: random programs on random ranks, of which some are idle or lost."""

import pytest

from tests.distributed import soak
from tests.distributed.jobs import needs_mpi

pytestmark = needs_mpi


@pytest.mark.parametrize(("kind", "ranks"), [("training", 3), ("graph", 5)])
def test_random_programs_have_the_bits_of_one_process(kind: str, ranks: int) -> None:
    """Trainings of any sizes, whole and sharded; graphs with more ranks than slots that work."""
    assert soak.compare(kind, 40, 3, (ranks,)) == (3, [])


@pytest.mark.parametrize("seed", [101, 103])
def test_ranks_lost_in_random_calls_do_not_change_bits(seed: int) -> None:
    """Or there is one clear error."""
    places, ends, faults = soak.lose(seed, 1)
    assert not faults
    assert places.total() >= 1
    assert ends.total() >= 1
