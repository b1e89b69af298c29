"""Cases that share a test: all of them run, and a failure names its cases."""

import traceback
from typing import Any

import numpy as np
import pytest

from tests.every import every, together

CASES = [pytest.param(x, k, id=f"{x}-{k}") for x in ("a", "b") for k in range(3)]


def groups_of(test: Any) -> dict[str, list[Any]]:
    """Return the cases of each test that pytest makes of a function, by what is in its brackets."""
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    return {case.id: case.values[0] for case in mark.args[1]}


def test_each_case_runs_once_and_is_begun_by_its_name() -> None:
    """In the order in which they stand, with the fixtures that the test asks for; a group is a test."""
    seen, begun = list[Any](), list[str]()

    @every("x, k", CASES, group=str.upper, begin=begun.append)
    def test_it(x: str, k: int, other: int) -> None:
        seen.append((x, k, other))

    groups = groups_of(test_it)
    assert {name: len(cases) for name, cases in groups.items()} == {"A": 3, "B": 3}
    for cases in groups.values():
        test_it(cases=cases, other=5)
    assert seen == [(*case.values, 5) for case in CASES]
    assert begun == [f"test_it[{case.id}]" for case in CASES]


def test_a_failure_hides_no_other() -> None:
    """What fails is named in the first line, with the message and the place of each; the rest runs nevertheless."""
    seen = list[int]()

    @every("x, k", CASES, group=str)
    def test_it(x: str, k: int) -> None:
        seen.append(k)
        if k == 0:
            with pytest.raises(ValueError, match="nothing"):
                pass
        assert k != 2, f"{x} is wrong"

    with pytest.raises(BaseExceptionGroup, match=r"2 of 3 cases: b-0, b-2") as caught:
        test_it(cases=groups_of(test_it)["b"])
    assert seen == [0, 1, 2]
    text = "".join(traceback.format_exception(caught.value))
    for words in ("in the case b-0", "DID NOT RAISE", "in the case b-2", "b is wrong"):
        assert words in text


def test_values_run_together_under_the_names_that_pytest_gives_them() -> None:
    """Values, tuples of them and ``pytest.param``, with ``ids`` or without; decorators stand on one another."""
    begun, seen = list[str](), list[Any]()

    @together("x, k", [("a", 1.5), pytest.param(len, None, id="size"), (int, [])], begin=begun.append)
    @together("y", [(1, 2), (3, 4)], ids=lambda y: f"to {y[1]}", begin=begun.append)
    def test_it(x: Any, k: Any, y: Any, rng: np.random.Generator) -> None:
        seen.append((x, k, y, rng.random()))

    test_it(rng=np.random.default_rng(0))
    number = np.random.default_rng(0).random()
    assert seen == [(x, k, y, number) for x, k in (("a", 1.5), (len, None), (int, [])) for y in ((1, 2), (3, 4))]
    inner = ["test_it[to 2]", "test_it[to 4]"]
    assert begun == ["test_it[a-1.5]", *inner, "test_it[size]", *inner, "test_it[int-k2]", *inner]


def test_failures_of_values_that_run_together_are_named() -> None:
    """Those of decorators that stand on one another by both names; a case that is skipped, or has a mark, is refused."""

    @together("x", [1, 2, 3])
    @together("y", ["u", "v"])
    def test_it(x: int, y: str) -> None:
        if (x, y) == (3, "u"):
            pytest.skip("not here")
        assert (x, y) != (2, "v")

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases: 2, 3") as caught:
        test_it()
    text = "".join(traceback.format_exception(caught.value))
    for words in ("1 of 2 cases: v", "in the case 2", "1 of 2 cases: u", "not here"):
        assert words in text
    with pytest.raises(AssertionError, match="no marks"):
        together("x", [pytest.param(1, marks=pytest.mark.xfail)])
    with pytest.raises(AssertionError, match="no case"):
        together("x", [])


def test_an_interrupt_ends_all() -> None:
    """What is no failure is not collected."""

    @every("x, k", CASES, group=str)
    def test_it(x: str, k: int) -> None:
        raise KeyboardInterrupt(x, k)

    with pytest.raises(KeyboardInterrupt):
        test_it(cases=groups_of(test_it)["a"])
