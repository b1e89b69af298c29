"""Threads never see each other's traces."""

from tests.soak import TASKS, soak


def test_four_threads_differentiate_nested_functions() -> None:
    """Two seconds of the soak that ``python -m tests.soak`` runs for a minute: no wrong answer, no error."""
    counts, faults = soak(2.0)
    assert not faults, faults
    assert set(counts) <= set(TASKS)
    assert counts.total() > 20
