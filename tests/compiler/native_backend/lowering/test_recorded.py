"""Recorded arrays: implementations learn their kind, and nothing of their elements."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location
from afx.compiler.native_backend.lowering.recorded import Recorded

RECORDER: Any = None  # which nothing here asks
X = Recorded(RECORDER, Location(0, 0, (24, 8), (2, 3), "f8"))

READS: dict[str, Callable[[Any], Any]] = {
    "a method": lambda x: x.sum(axis=0),
    "a test": lambda x: x.any(),
    "a copy": lambda x: x.copy(),
    "a part of complex numbers": lambda x: x.real,
    "a conversion": np.asarray,
    "a reduction of some": lambda x: np.add.reduce(x, where=[True, False, True]),
}


def test_their_kind_is_known() -> None:
    """Shapes, dtypes and strides are those of the memory; names that arrays of NumPy do not have are missed."""
    assert (X.shape, X.dtype, X.strides, X.ndim, X.nbytes) == ((2, 3), np.dtype("f8"), (24, 8), 2, 48)
    assert X.flags.c_contiguous
    assert not hasattr(X, "columns")


@pytest.mark.parametrize("name", READS)
def test_what_would_read_elements_is_refused(name: str) -> None:
    """Nobody knows them: what NumPy would return is made of whatever lies in memory."""
    with pytest.raises(UnsupportedError):
        READS[name](X)
