"""Recorded arrays: what an op's implementation sees of its operands while a recorder takes down what it does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, of_array, part_of
from afx.compiler.operands import Operand

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["Recorded"]

VIEWS = frozenset({np.moveaxis, np.swapaxes, np.transpose, np.expand_dims, np.squeeze, np.broadcast_to})


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: views are taken of it as of NumPy's arrays, and NumPy's functions of elements are recorded."""

    def __init__(self, recorder: Recorder, location: Location, value: Operand | None = None) -> None:
        self.recorder: Recorder = recorder
        self.location: Location = location
        self.value = value  # what it is in the schedule, which loops over elements need not read from memory
        self.shadow: Any = of_array(location)

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy says of an array: its shape, dtype, strides, flags."""
        return getattr(self.shadow, name)

    def __getitem__(self, index: Any) -> Recorded:
        return self._see(self.shadow[index])

    @property
    def T(self) -> Recorded:  # NumPy's name
        """The view with its axes in reverse order."""
        return self._see(self.shadow.T)

    def transpose(self, *axes: Any) -> Recorded:
        """Return a view with axes in another order."""
        return self._see(self.shadow.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Recorded:
        """Return a view with two axes exchanged."""
        return self._see(self.shadow.swapaxes(a, b))

    def reshape(self, *shape: Any) -> Recorded:
        """Return the elements in another shape, copied where no view has it."""
        found = self.shadow.reshape(*shape)
        return (
            self._see(found) if np.may_share_memory(self.shadow, found) else self.recorder.dense(self).reshape(*shape)
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *xs: Any, **options: Any) -> Recorded:
        """Record what a ufunc makes of arrays, and of numbers of their dtype."""
        if method != "__call__" or options:
            raise UnsupportedError(f"{ufunc.__name__}.{method}")
        return self.recorder.ufunc(ufunc.__name__, *xs)

    def __array_function__(self, function: Any, _types: Any, xs: Any, options: Any) -> Recorded:
        """Record a choice of elements, or zeros; take views as NumPy does."""
        if function is np.where and len(xs) == 3:
            return self.recorder.where(*xs)
        if function is np.zeros_like:
            return self.recorder.constant(np.zeros((), self.dtype))
        if function in VIEWS:
            x: Recorded = xs[0]
            return x._see(function(x.shadow, *xs[1:], **options))
        raise UnsupportedError(function.__name__)

    def __bool__(self) -> bool:
        """Raise: no element is known.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a branch on data")

    def _see(self, view: Any) -> Recorded:
        assert np.may_share_memory(self.shadow, view), "a view that copies"
        return Recorded(self.recorder, part_of(self.location, self.shadow, view))
