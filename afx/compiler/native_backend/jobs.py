"""Compiler jobs: functions that the compiling process takes by name, so that what they need is loaded there alone."""

from __future__ import annotations

import importlib
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["load_compiler", "make_described", "make_kernels"]

_loading: list[threading.Thread] = []


def load_compiler(modules: Sequence[str]) -> None:
    """Load the modules that make the primitives of schedules, and what compiles these, beside jobs that need neither."""
    _loading.append(threading.Thread(target=_import, args=(modules,), daemon=True))
    _loading[-1].start()


def make_described(modules: Sequence[str], data: bytes, target: Any, folder: str, key: str) -> bytes:
    """Make the kernels of a schedule from its description; see `kept.describe`. Return them as they are kept."""
    make = _load(modules)
    schedule, where = pickle.loads(data)
    return pickle.dumps(make(schedule, target, where, folder, key), protocol=5)


def make_kernels(modules: Sequence[str], *args: Any) -> Any:
    """Make the kernels of a schedule whose primitives these modules make; see `unit.make_kernels` for its arguments."""
    return _load(modules)(*args)


def _load(modules: Sequence[str]) -> Callable[..., Any]:
    while _loading:
        _loading.pop().join()
    return _import(modules)


def _import(modules: Sequence[str]) -> Callable[..., Any]:
    for module in modules:
        importlib.import_module(module)
    from afx.compiler.native_backend.unit import make_kernels

    return make_kernels
