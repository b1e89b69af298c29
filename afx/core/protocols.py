"""NumPy's dispatch: ``np.sin(x)`` on an Array is ``afx.sin(x)``, found by name; what afx lacks raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.functions import FUNCTIONS, known
from afx.errors import OperandError

__all__ = ["array_function", "array_ufunc"]

# Where NumPy's name of a ufunc or function differs from afx's, or NumPy's conventions ask for another function.
UFUNC_NAMES = {
    "absolute": "abs",
    "power": "pow",
    "float_power": "pow",
    "true_divide": "divide",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "fabs": "abs",
    "mod": "remainder",
}
FUNCTION_NAMES = {
    "amax": "max",
    "amin": "min",
    "concatenate": "concat",
    "transpose": "numpy_transpose",
    "product": "prod",
    "around": "round",
}
REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
ACCUMULATIONS = {"add": "cumulative_sum", "multiply": "cumulative_prod"}


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer ``ufunc(*inputs)``, ``ufunc.reduce`` and ``ufunc.accumulate`` with afx's own function."""
    name = ufunc.__name__
    kwargs = {k: v for k, v in kwargs.items() if v is not None}
    if "out" in kwargs or "where" in kwargs:
        raise OperandError(f"np.{name}: out= and where= write into an array: afx arrays are immutable; use afx.where")
    if method == "__call__":
        return _find(UFUNC_NAMES.get(name, name), f"np.{name}")(*inputs, **kwargs)
    if method == "reduce" and name in REDUCTIONS:
        kwargs.setdefault("axis", inputs[1] if len(inputs) > 1 else 0)
        return _find(REDUCTIONS[name], f"np.{name}.reduce")(inputs[0], **kwargs)
    if method == "accumulate" and name in ACCUMULATIONS:
        return _find(ACCUMULATIONS[name], f"np.{name}.accumulate")(inputs[0], axis=kwargs.get("axis", 0))
    if method == "outer" and len(inputs) == 2:
        x, y = (FUNCTIONS.asarray(a) for a in inputs)
        return _find(UFUNC_NAMES.get(name, name), f"np.{name}.outer")(x.reshape(x.shape + (1,) * y.ndim), y)
    raise _missing(f"np.{name}.{method}")


def array_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a NumPy function called on an Array with afx's function of that name."""
    name: str = func.__name__
    module = getattr(func, "__module__", "numpy").replace("numpy", "np", 1)
    shown = f"{module}.{name}"
    if kwargs.get("out") is not None:
        raise OperandError(f"{shown}: out= writes into an array: afx arrays are immutable; use the result")
    qualified = name if module == "np" else f"{module.split('.')[-1]}_{name}"
    for candidate in (f"numpy_{qualified}", FUNCTION_NAMES.get(qualified, qualified)):
        if known(candidate):
            return getattr(FUNCTIONS, candidate)(*args, **{k: v for k, v in kwargs.items() if k != "out"})
    raise _missing(shown)


def _find(name: str, shown: str) -> Any:
    if not known(name):
        raise _missing(shown)
    return getattr(FUNCTIONS, name)


def _missing(shown: str) -> OperandError:
    return OperandError(
        f"{shown}: afx has no such function: got an afx.Array; write it with afx's functions, "
        "or call NumPy's on np.asarray(x), which has no derivative"
    )
