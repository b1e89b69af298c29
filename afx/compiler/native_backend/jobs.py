"""Compiler jobs: functions that the compiling process takes by name, so that what they need is loaded there alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["load_compiler", "make_kernels"]


def load_compiler(modules: Sequence[str]) -> None:
    """Load the modules that make the primitives of schedules, and what compiles these."""
    _load(modules)


def make_kernels(modules: Sequence[str], *args: Any) -> Any:
    """Make the kernels of a schedule whose primitives these modules make; see `unit.make_kernels` for its arguments."""
    return _load(modules)(*args)


def _load(modules: Sequence[str]) -> Callable[..., Any]:
    for module in modules:
        importlib.import_module(module)
    from afx.compiler.native_backend.unit import make_kernels

    return make_kernels
