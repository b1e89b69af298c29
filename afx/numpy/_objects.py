"""Objects: names of NumPy's that are neither functions nor constants, as `afx.numpy` has them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.tracing.tracer import Tracer
from afx.numpy._namespace import adopt, answer
from afx.ops.creation.creation import asarray
from afx.ops.indexing.index_tricks import c_, r_
from afx.ops.manipulation.join import stack
from afx.ops.manipulation.shape import broadcast_to, reshape

__all__ = ["OBJECTS"]


class ndarray(ABC):  # noqa: B024  # NumPy's name, and no method of its own
    """What `isinstance` asks: an `afx.Array`, traced or not, or an array of NumPy's."""


ndarray.register(Array)
ndarray.register(np.ndarray)
ndarray.__module__ = "afx.numpy"


class _Joining:
    """``r_`` and ``c_`` of NumPy."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours, self.theirs = ours, theirs
        self.__doc__ = theirs.__doc__

    def __getitem__(self, key: Any) -> Any:
        return answer(lambda: self.ours[key], self.theirs.__getitem__, (key,), {})


class vectorize:  # NumPy's name
    """A function of numbers, applied to each element: NumPy's where nothing is traced, else a loop that is differentiated.

    It calls Python for every element, as NumPy's does; `afx.vmap` calls it once.
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc: Callable[..., Any] = pyfunc
        names = None if excluded is None else set(excluded)
        self.theirs: Callable[..., Any] = np.vectorize(pyfunc, otypes, doc, names, cache, signature)
        self.plain: bool = not excluded and signature is None
        self.__doc__ = self.theirs.__doc__
        self.__name__: str = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.plain and not kwargs and any(isinstance(x, Tracer) for x in args):
            return self._loop([asarray(x) for x in args])
        return adopt(self.theirs(*args, **kwargs))

    def _loop(self, operands: list[Array]) -> Any:
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        rows = [reshape(broadcast_to(x, shape), (-1,)) for x in operands]
        results = [self.pyfunc(*[row[i] for row in rows]) for i in range(rows[0].size)]
        if results and isinstance(results[0], tuple):
            return tuple([reshape(stack(list(parts)), shape) for parts in zip(*results, strict=True)])
        return reshape(stack(results), shape)


OBJECTS: dict[str, Any] = {
    "c_": _Joining(c_, np.c_),
    "ndarray": ndarray,
    "r_": _Joining(r_, np.r_),
    "vectorize": vectorize,
}
