"""Draws: what to write instead of `numpy.random`, whose functions change a state that `afx.jit` would see once.

Generators that hold their state themselves (``default_rng``, ``RandomState``) are NumPy's own: draw data from them outside
of compiled functions. Inside, `afx.random` draws from keys.
"""

from typing import Any

import numpy

from afx import random
from afx.numpy._namespace import names
from afx.other_names import missing_name

__all__: list[str]


def _holds_state(name: str) -> bool:
    """Tell whether a name of NumPy's is a class of generators, or makes one."""
    return name == "default_rng" or isinstance(getattr(numpy.random, name, None), type)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if _holds_state(name):
        return getattr(numpy.random, name)
    if name in dir(random) and hasattr(numpy.random, name):
        raise AttributeError(
            f"afx.numpy.random.{name}: draws here come from keys: write afx.random.{name}(key, …), "
            f"or numpy.random.default_rng(seed).{name}(…) for data, outside of afx.jit"
        )
    raise missing_name(__name__, name)


def __dir__() -> list[str]:
    return [name for name in names(numpy.random) if _holds_state(name)]
