"""Many cases in one test: each of them runs, and those that fail are reported together, by their names.

A test of its own costs pytest two milliseconds in the process that runs it and as many where it is collected, more than
most samples of an operation take.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

FAILURES = (Exception, pytest.fail.Exception)


class Failures:
    """Failures of the cases of one test."""

    def __init__(self) -> None:
        self._count = 0
        self._found: dict[str, BaseException] = {}

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Run a case, whose failure is kept."""
        self._count += 1
        try:
            yield
        except FAILURES as error:
            error.add_note(f"in the case {name}")
            self._found[name] = error

    def report(self) -> None:
        """Raise all failures together, if there are any."""
        if self._found:
            names = f"{len(self._found)} of {self._count} cases: {', '.join(self._found)}"
            raise BaseExceptionGroup(names, [*self._found.values()])


def every(
    arguments: str, cases: Iterable[Any], *, group: Callable[[Any], str], begin: Callable[[str], Any] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test for each case, as one test for each group of them.

    Args:
        arguments: the names of the test's arguments that a case gives, with commas between them.
        cases: the values of these arguments, as ``pytest.param(..., id=name)``.
        group: the group of a case: a function of its first argument.
        begin: what is called before each case with the name that it would have as a test of its own.
    """
    names = [name.strip() for name in arguments.split(",")]
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(group(case.values[0]), []).append(case)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(cases: Sequence[Any], **fixtures: Any) -> None:
            failures = Failures()
            for case in cases:
                begin(f"{test.__name__}[{case.id}]")
                with failures.case(case.id):
                    test(**dict(zip(names, case.values, strict=True)), **fixtures)
            failures.report()

        others = [p for p in signature.parameters.values() if p.name not in names]
        cases_first = [inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD), *others]
        run.__signature__ = signature.replace(parameters=cases_first)  # what pytest reads
        return pytest.mark.parametrize("cases", [pytest.param(some, id=name) for name, some in groups.items()])(run)

    return decorate
