"""Cases that share a test: all of them run, and a failure names its cases."""

import traceback
from typing import Any

import pytest

from tests.every import every

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


def test_an_interrupt_ends_all() -> None:
    """What is no failure is not collected."""

    @every("x, k", CASES, group=str)
    def test_it(x: str, k: int) -> None:
        raise KeyboardInterrupt(x, k)

    with pytest.raises(KeyboardInterrupt):
        test_it(cases=groups_of(test_it)["a"])
