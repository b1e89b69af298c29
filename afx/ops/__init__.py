"""Ops: one family of operations a file, each op's rules directly beside it.

Rooms above take functions from here, and what only a few of them need from its file. A file of ops loads with the first
function that is taken from it; type checkers read ``__init__.pyi``.
"""

import importlib
from typing import Any

from afx.core.registry import LAZY


def __getattr__(name: str) -> Any:
    home = LAZY.get(name, "")
    if not home.startswith("afx.ops."):
        raise AttributeError(f"module 'afx.ops' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value
