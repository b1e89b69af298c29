"""Every public name says what it does, and every example in a docstring runs as shown."""

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import afx

MODULES = ["afx", *sorted(info.name for info in pkgutil.walk_packages(afx.__path__, "afx."))]
PUBLIC = [
    (name, attribute)
    for name in MODULES
    if not any(part.startswith("_") for part in name.split("."))
    for attribute in getattr(importlib.import_module(name), "__all__", ())
]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    """The examples in a module's docstrings, given `afx` and `np`, print what they show."""
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"afx": afx, "np": np}):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_docstrings(name: str) -> None:
    """Each module says what it is for."""
    assert (importlib.import_module(name).__doc__ or "").strip()


def is_documented(value: object) -> bool:
    """Tell whether a value needs no docstring of its own or has one."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return True
    return bool((value.__doc__ or "").strip())


@pytest.mark.parametrize(("name", "attribute"), PUBLIC)
def test_public_names_have_docstrings(name: str, attribute: str) -> None:
    """Each public function and class has a docstring."""
    assert is_documented(getattr(importlib.import_module(name), attribute))
