"""afx: NumPy with derivatives and compiled plans.

Write pure functions of arrays and frozen classes; `grad`, `jvp`, `vmap` and `jit` transform them. Modules that a plain
import does not need load when one of their names is first asked for. Type checkers read ``__init__.pyi``.
"""

import importlib
from typing import Any

from afx.core.constants import __version__ as __version__
from afx.core.name_table import FAMILIES, PUBLIC
from afx.core.registry import LAZY

__array_api_version__ = "2025.12"
__all__: list[str] = []  # the stub names them
__all__.extend(sorted([*FAMILIES, *[name for names in PUBLIC.values() for name in names.split()]]))  # pyright: ignore[reportUnsupportedDunderAll]  # the stub has the exact names

_EAGER = (  # nearly every program needs them
    "afx.errors",
    "afx.pytree",
    "afx.core.array.array",
    "afx.core.aval",
    "afx.core.constants",
    "afx.core.dtypes",
    "afx.core.primitive",
    "afx.core.tracing.tape",
    "afx.ops.creation.creation",
    "afx.ops.elementwise.arithmetic",
    "afx.ops.elementwise.comparison",
    "afx.ops.elementwise.exponentials",
    "afx.ops.elementwise.trigonometry",
    "afx.ops.manipulation.shape",
    "afx.ops.reductions.sums",
    "afx.transforms.derivatives.grad",
)
for _module in _EAGER:
    _loaded = importlib.import_module(_module)
    globals().update({_name: getattr(_loaded, _name) for _name in PUBLIC.get(_module, "").split()})


def __getattr__(name: str) -> Any:
    if name in FAMILIES:
        value = importlib.import_module(f"afx.{name}")
    elif name in LAZY and name in __all__:
        value = getattr(importlib.import_module(LAZY[name]), name)
    else:
        from afx.other_names import missing_name

        raise missing_name("afx", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *[name for name in globals() if name.startswith("__")]})
