"""Many cases in one test: each of them runs, and those that fail are reported together, by their names.

A test of its own costs pytest two milliseconds in the process that runs it and as many where it is collected, more than
most samples of an operation take.
"""

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
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
        except pytest.skip.Exception as error:  # which would end all cases
            self._found[name] = AssertionError(f"a case that is skipped is a test of its own: {error}")

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
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(group(case.values[0]), []).append(case)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        run = _run_cases(test, _split(arguments), begin)
        return pytest.mark.parametrize("cases", [pytest.param(some, id=name) for name, some in groups.items()])(run)

    return decorate


def together(
    arguments: str | Sequence[str],
    values: Iterable[Any],
    *,
    ids: Callable[[Any], Any] | Iterable[str] | None = None,
    begin: Callable[[str], Any] = str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that runs a test for all values as one test; its arguments are those of ``pytest.mark.parametrize``.

    A random generator that a fixture gives is as new for each case; what else fixtures give is shared by all of them.
    """
    names, given = _split(arguments), list(values)
    told = [None] * len(given) if ids is None or callable(ids) else list(ids)
    by_value = ids if callable(ids) else None
    cases = [_case(value, names, name, by_value, k) for k, (value, name) in enumerate(zip(given, told, strict=True))]
    assert cases, "no case"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        run = _run_cases(test, names, begin)

        @functools.wraps(run)
        def run_all(*args: Any, **fixtures: Any) -> None:
            run(*args, cases=cases, **fixtures)

        run_all.__signature__ = _without(inspect.signature(run), ["cases"])  # what pytest reads
        return run_all

    return decorate


def _split(arguments: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in arguments.split(",")] if isinstance(arguments, str) else list(arguments)


def _without(signature: inspect.Signature, names: Sequence[str], *first: inspect.Parameter) -> inspect.Signature:
    """Return a signature without some parameters."""
    return signature.replace(parameters=[*first, *[p for p in signature.parameters.values() if p.name not in names]])


def _case(value: Any, names: Sequence[str], name: str | None, by_value: Callable[[Any], Any] | None, k: int) -> Any:
    """Return values of arguments as pytest's parameters, with the name that pytest gives them."""
    case: Any = value if hasattr(value, "values") and hasattr(value, "marks") else None
    if case is None:
        case = pytest.param(value) if len(names) == 1 else pytest.param(*value)
    assert not case.marks, "a case of a test has no marks"
    if case.id is not None:
        return case
    parts = [by_value and by_value(v) for v in case.values]
    parts = [
        _name(v, f"{n}{k}") if part is None else part for v, n, part in zip(case.values, names, parts, strict=True)
    ]
    return pytest.param(*case.values, id=name or "-".join(map(str, parts)))


def _name(value: Any, otherwise: str) -> str:
    """Return what pytest calls a value."""
    if isinstance(value, (str, int, float, complex, bool)) or value is None:
        return str(value)
    return value.__name__ if isinstance(getattr(value, "__name__", None), str) else otherwise


def _run_cases(test: Callable[..., None], names: Sequence[str], begin: Callable[[str], Any]) -> Callable[..., None]:
    """Return a test that runs another one for each of its cases."""

    @functools.wraps(test)
    def run(*args: Any, cases: Sequence[Any], **fixtures: Any) -> None:
        failures = Failures()
        for case in cases:
            begin(f"{test.__name__}[{case.id}]")
            own = {k: copy.deepcopy(v) if isinstance(v, np.random.Generator) else v for k, v in fixtures.items()}
            with failures.case(case.id):
                test(*args, **dict(zip(names, case.values, strict=True)), **own)
        failures.report()

    cases_first = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = _without(inspect.signature(test), names, cases_first)  # what pytest reads
    return run
