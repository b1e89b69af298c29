"""Every public name says what it does, and every example in a docstring runs as shown."""

import doctest
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest

import afx
from tests.every import every
from tests.generate_names import own_names

MODULES = ["afx", *sorted(info.name for info in pkgutil.walk_packages(afx.__path__, "afx."))]
PUBLIC = [
    (name, attribute)
    for name in MODULES
    if not any(part.startswith("_") for part in name.split("."))
    for attribute in own_names(importlib.import_module(name))
]
TERM = r"(?!(?:What|Which|Where|How|Whether|The|A|An)\b)[\w`'\-., ]{2,60}: \S"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    """The examples in a module's docstrings, given `afx` and `np`, print what they show."""
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"afx": afx, "np": np}):
        if name.startswith("afx.numpy") and test.name != name:
            continue  # the functions' docstrings are NumPy's
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@every("name", [pytest.param(name, id=name) for name in MODULES], group=lambda name: ".".join(name.split(".")[:2]))
def test_modules_begin_with_their_term(name: str) -> None:
    """A module's docstring begins with `<Term>: <one short sentence>`, the term a noun without an article."""
    summary = (importlib.import_module(name).__doc__ or "").split("\n\n")[0].strip()
    assert re.match(TERM, summary), summary
    assert summary.endswith(".")
    assert not re.search(r"\.\s+[A-Z]", summary), f"not one sentence: {summary}"
    assert len(summary.split()) <= 25, summary


def is_documented(value: object) -> bool:
    """Tell whether a value needs no docstring of its own or has one."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return True
    return bool((value.__doc__ or "").strip())


def test_public_names_have_docstrings() -> None:
    """Each public function and class has a docstring."""
    assert [pair for pair in PUBLIC if not is_documented(getattr(importlib.import_module(pair[0]), pair[1]))] == []
