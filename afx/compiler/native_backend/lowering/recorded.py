"""Recorded arrays: what an op's implementation sees of its operands while a recorder takes down what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, of_array, part_of
from afx.compiler.operands import Operand
from afx.core.aval import Aval

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.calls import Calls

__all__ = ["Recorded"]

METADATA = frozenset({"dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"})
VIEWS = frozenset({np.moveaxis, np.swapaxes, np.transpose, np.expand_dims, np.squeeze, np.broadcast_to, np.flip})


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: views are taken of it as of NumPy's arrays, and NumPy's functions of elements are recorded.

    What is written to a result as a whole, by ``out=`` or `numpy.copyto`, is what the name stands for from then on, and
    takes no memory; parts are written into memory. Memory of NumPy that an implementation offers by ``out=`` is left alone:
    what the call returns holds the elements.
    """

    def __init__(
        self,
        recorder: Calls,
        location: Location,
        value: Operand | None = None,
        *,
        has_memory: bool = False,
        is_view: bool = False,
    ) -> None:
        self.recorder: Calls = recorder
        self.location: Location = location
        self.value: Operand | None = (
            value  # what it is in the schedule, which loops over elements need not read from memory
        )
        self._shadow: Any = None
        self._home = (location, value) if has_memory else None
        self.is_view: bool = is_view
        self._is_seen = False  # by a view

    @property
    def shadow(self) -> Any:
        """An array that lies as this one does, whose elements must not be read."""
        if self._shadow is None:
            self._shadow = of_array(self.location)
        return self._shadow

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy says of an array whatever its elements are.

        Raises:
            UnsupportedError: a method of NumPy's arrays, which would read elements that nobody knows.
        """
        if name in METADATA or not hasattr(np.ndarray, name):
            return getattr(self.shadow, name)
        raise UnsupportedError(f"ndarray.{name}")

    @property
    def aval(self) -> Aval:
        """Its type."""
        return Aval(self.shape, self.dtype)

    @property
    def operand(self) -> Operand:
        """What reads it in the schedule."""
        if self.value is None:
            self.value = self.recorder.at(self.location)
        return self.value

    # -- writes --
    @property
    def is_in_memory(self) -> bool:
        """Whether it is what lies in its own memory."""
        return self._home is None or self.location is self._home[0]

    def become(self, x: Any) -> None:
        """Take the elements of another array."""
        is_whole = isinstance(x, Recorded) and x.shape == self.shape and not self.is_view
        if is_whole and not (self._is_seen and self._home):
            found = self.recorder.cast(x, self.dtype)
            self.location, self.value, self._shadow = found.location, found.value, None
        else:
            self._settle()
            self.recorder.write(self, x)

    def _settle(self) -> None:
        """Write what a name stands for into its memory, parts of which are looked at."""
        if self._home is not None and not self.is_in_memory:
            of = Recorded(self.recorder, self.location, self.value)
            (self.location, self.value), self._shadow = self._home, None
            self.recorder.write(self, of)

    def __setitem__(self, index: Any, x: Any) -> None:
        if _names_elements(index):
            self.recorder.scatter("set", self, index if index.__class__ is tuple else (index,), x)
        else:
            self.recorder.write(self[index], x)

    # -- views --
    def look(self, look: Callable[[Any], Any]) -> Recorded:
        """Return the view that a function takes."""
        self._settle()
        self._is_seen = True
        view = look(self.shadow)
        assert np.may_share_memory(self.shadow, view) or not view.size, "a view that copies"
        return Recorded(self.recorder, part_of(self.location, self.shadow, view), is_view=True)

    def __getitem__(self, index: Any) -> Recorded:
        places: Any = index if index.__class__ is tuple else (index,)
        if _names_elements(places):
            indices = [i for i in places if isinstance(i, Recorded)]
            return self.recorder.gather(self, indices, len(places) - len(indices))
        return self.look(lambda x: x[places if Ellipsis in places else (*places, ...)])

    def __len__(self) -> int:
        return len(self.shadow)

    @property
    def T(self) -> Recorded:  # NumPy's name
        """The view with its axes in reverse order."""
        return self.look(lambda x: x.T)

    def transpose(self, *axes: Any) -> Recorded:
        """Return a view with axes in another order."""
        return self.look(lambda x: x.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Recorded:
        """Return a view with two axes exchanged."""
        return self.look(lambda x: x.swapaxes(a, b))

    def reshape(self, *shape: Any) -> Any:
        """Return the elements in another shape, copied where no view has it."""
        if self.size and not np.may_share_memory(self.shadow, self.shadow.reshape(*shape)):
            return self.recorder.dense(self).reshape(*shape)
        return self.look(lambda x: x.reshape(*shape))

    # -- elements --
    def astype(self, dtype: Any) -> Any:
        """Return the elements in a dtype."""
        return self.recorder.cast(self, np.dtype(dtype))

    def view(self, dtype: Any) -> Any:
        """Return the bits of integers as those of others."""
        found = np.dtype(dtype)
        if found.itemsize != self.dtype.itemsize or self.dtype.kind + found.kind not in ("iu", "ui"):
            raise UnsupportedError(f"bits of {self.dtype} as {found}")
        return self.recorder.cast(self, found)

    # -- NumPy's functions --
    def dot(self, y: Any) -> Any:
        """Return the product with a vector."""
        return self.recorder.dot(self, y)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *xs: Any, out: tuple[Any] = (None,), where: Any = True, **options: Any
    ) -> Any:
        """Record what a ufunc makes of arrays, and of numbers of their dtype."""
        name = ufunc.__name__
        if method == "at":
            return self.recorder.scatter(name, *xs)
        if method == "accumulate":
            return self.recorder.accumulate(name, xs[0], options["axis"], out[0])
        if method == "reduce" and where is True:
            found = self.recorder.reduce(name, *xs, **options)
        elif method != "__call__" or options or ufunc.nout > 1 or not (where is True or ufunc is np.negative):
            # where= is for what raises no flag: all elements are computed
            raise UnsupportedError(f"{name}.{method}")
        else:
            found = self.recorder.vecdot(*xs) if ufunc is np.vecdot else self.recorder.ufunc(name, *xs)
        if where is not True:
            found = self.recorder.where(where, found, out[0])
        if isinstance(out[0], Recorded):
            out[0].become(found)
            return out[0]
        return found

    def __array_function__(self, function: Any, _types: Any, xs: Any, options: Any) -> Any:
        """Record a choice of elements, a copy, a join, or zeros; take views as NumPy does."""
        if function is np.where and len(xs) == 3:
            return self.recorder.where(*xs)
        if function is np.copyto:
            to, x = xs
            return to.become(self.recorder.where(options["where"], x, to) if "where" in options else x)
        if function is np.concatenate:
            return self.recorder.concatenate(*xs, **options)
        if function is np.stack:
            return self.recorder.stack(*xs, **options)
        if function is np.take:
            return self.recorder.gather(xs[0], xs[1:], options["axis"])
        if function in (np.argmax, np.argmin):
            return self.recorder.find_extreme(function is np.argmax, *xs, **options)
        if function is np.zeros_like:
            return self.recorder.constant(np.zeros((), self.dtype))
        if function in VIEWS:
            source: Recorded = xs[0]
            return source.look(lambda y: function(y, *xs[1:], **options))
        raise UnsupportedError(function.__name__)

    def __bool__(self) -> bool:
        """Raise: no element is known.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a branch on data")


def _names_elements(index: Any) -> bool:
    """Tell whether an index names elements by arrays."""
    return any(isinstance(i, Recorded) for i in index) if index.__class__ is tuple else isinstance(index, Recorded)
