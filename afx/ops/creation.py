"""Making arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array import Array, snapshot, wrap
from afx.core.dtypes import check_dtype, default_complex, get_default_dtype
from afx.core.functions import FUNCTIONS, public
from afx.core.tracer import Tracer
from afx.errors import OperandError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["asarray", "ones", "zeros"]


@public
def asarray(obj: Any, dtype: DTypeLike | None = None, *, copy: bool | None = None) -> Array:
    """Return an Array of the elements of an array, a number or nested sequences of them.

    NumPy arrays keep their dtype and are copied, so that writing into them later changes nothing. Python floats take
    the default dtype. Sequences may hold traced arrays, which are stacked.

    Raises:
        OperandError: not numbers, or sequences of unequal lengths.

    >>> asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    target = None if dtype is None else check_dtype(dtype, "asarray")
    if isinstance(obj, Array):
        return obj if target is None else FUNCTIONS.astype(obj, target)
    if isinstance(obj, (np.ndarray, np.generic)):
        value = snapshot(obj, "asarray")
        return wrap(value if target is None else value.astype(target))
    if _holds_tracer(obj):
        return FUNCTIONS.stack([asarray(o, target) for o in obj])
    return wrap(_from_python(obj, target))


def _holds_tracer(obj: Any) -> bool:
    return isinstance(obj, (list, tuple)) and any(isinstance(o, Tracer) or _holds_tracer(o) for o in obj)  # pyright: ignore[reportUnknownVariableType]  # a user's nested sequence


def _from_python(obj: Any, target: Any) -> Any:
    """Return a NumPy array of Python numbers, floats in the default dtype unless NumPy data is among them."""
    try:
        value = np.array(obj, dtype=target)
    except (TypeError, ValueError, OverflowError) as error:
        raise OperandError(f"asarray: not an array of numbers ({error}): got {type(obj).__name__}; give equal lengths") from error
    check_dtype(value.dtype, "asarray")
    if target is None and value.dtype.kind in "fc" and not _holds_numpy(obj):
        value = value.astype(get_default_dtype() if value.dtype.kind == "f" else default_complex())
    return value


def _holds_numpy(obj: Any) -> bool:
    if isinstance(obj, (list, tuple)):
        return any(_holds_numpy(o) for o in obj)  # pyright: ignore[reportUnknownVariableType]  # a user's nested sequence
    return hasattr(obj, "dtype")


@public
def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None) -> Array:
    """Return an array of zeros, of the default dtype unless one is given.

    >>> zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return wrap(np.zeros(shape, get_default_dtype() if dtype is None else check_dtype(dtype, "zeros")))


@public
def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None) -> Array:
    """Return an array of ones, of the default dtype unless one is given.

    >>> ones(2)
    Array([1., 1.], dtype=float32)
    """
    return wrap(np.ones(shape, get_default_dtype() if dtype is None else check_dtype(dtype, "ones")))
