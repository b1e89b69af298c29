"""Public signatures say exactly what they take and give."""

import importlib
import inspect
import typing

import pytest

from tests.every import every

MODULES = (
    *("afx", "afx.nn", "afx.optim", "afx.fft", "afx.pytree", "afx.random", "afx.special", "afx.errors"),
    *("afx.signal", "afx.ndimage", "afx.interpolate", "afx.linalg", "afx.cluster", "afx.stats"),
)
FUNCTIONS = [
    pytest.param(module, name, id=f"{module}.{name}")
    for module in MODULES
    for name in importlib.import_module(module).__all__
    if inspect.isfunction(value := getattr(importlib.import_module(module), name))
    or (inspect.isclass(value) and name.islower())  # a class under the name of a function
]


@every("module, name", FUNCTIONS, group=str)
def test_no_bare_any(module: str, name: str) -> None:
    """Each parameter and result of a public function has a type, and none is a bare ``Any``."""
    fn = getattr(importlib.import_module(module), name)
    vague: set[str] = set()
    for form in typing.get_overloads(fn) or [fn]:  # what type checkers see
        signature = inspect.signature(form)
        types = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        types["return"] = signature.return_annotation
        vague |= {key for key, kind in types.items() if kind is inspect.Parameter.empty or str(kind).endswith("Any")}
    assert vague == set()
