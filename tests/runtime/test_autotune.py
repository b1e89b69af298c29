"""Autotuner: the fastest policy is found, kept and left when another one becomes faster."""

import pytest

from afx.runtime.thread_pool import Autotuner


@pytest.mark.parametrize("policies", [2, 3, 4])
@pytest.mark.parametrize("fast", [0, 1])
def test_an_autotuner_follows_the_fastest_policy(policies: int, fast: int) -> None:
    """It settles on the fastest policy, seldom pays for the others, and changes when another one becomes the fastest."""
    tuner, found = Autotuner(policies), list[int]()
    for best, calls in ((fast, 500), (policies - 1 - fast, 60 * policies)):
        for _ in range(calls):
            policy = tuner.pick()
            found.append(policy)
            tuner.observe(policy, 1.0 if policy == best else 5.0)
        assert found[-20:].count(best) >= 19
    first = found[1 + 2 * policies : 500]
    assert len(first) - first.count(fast) <= 4 * policies
    assert set(found[: 1 + 2 * policies]) == set(range(policies))


@pytest.mark.parametrize(("policies", "callers"), [(2, 2), (4, 2), (4, 3), (3, 5)])
def test_every_policy_is_tried_whoever_calls(policies: int, callers: int) -> None:
    """Calls that begin and end together do not skip a policy, and the dearest one is not taken."""
    cost = [1.0] * policies
    cost[-2] = 50.0
    tuner = Autotuner(policies)
    used = [0] * policies
    for _ in range(2000):
        chosen = [tuner.pick() for _ in range(callers)]
        for policy in chosen:
            tuner.observe(policy, cost[policy])
            used[policy] += 1
    assert min(used) > 0
    assert used[-2] < 0.02 * sum(used)


def test_the_first_policy_is_soon_tried_again() -> None:
    """Where something disturbed its first calls, such as a compiler beside them, the next ones run by it; others wait longer."""
    for fast, most in ((0, 10), (1, 60)):
        tuner, found = Autotuner(2), list[int]()
        for k in range(200):
            found.append(tuner.pick())
            tuner.observe(found[-1], 2.0 if k < 5 and found[-1] == fast else 1.0 if found[-1] == fast else 1.6)
        assert found[most:].count(fast) >= 0.96 * len(found[most:])


def test_a_call_that_wakes_threads_is_not_timed() -> None:
    """Threads that helped in none of the calls before come late to the first short one, which says nothing of the next."""
    tuner, found = Autotuner(2), [0]
    for k in range(400):
        way = tuner.pick()
        is_awake = found[-1] == way
        is_disturbed = way == 0 and k < 20  # a compiler has the other processor
        tuner.observe(way, 2e-4 if is_disturbed else 1.5e-4 if way else 1e-4 if is_awake else 1.6e-4)
        found.append(way)
    assert found[100:].count(0) >= 0.95 * len(found[100:])
