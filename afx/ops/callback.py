"""Callbacks: Python functions that run for their effect where a program computes, traced or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from afx import pytree
from afx.core import Aval, Bools, Params, Primitive, Value, Values, bind, register
from afx.core.tracing.traces import Unbatched
from afx.errors import GraphError, OperandError
from afx.ops.creation.creation import asarray
from afx.runtime.control_register import run_as_caller


class Callback:
    """A function of trees as a function of leaves, which equations can hold."""

    __slots__ = ("fn", "treedef")

    def __init__(self, fn: Callable[..., object], treedef: Any) -> None:
        self.fn: Callable[..., object] = fn
        self.treedef: Any = treedef

    def __call__(self, leaves: Sequence[Any]) -> None:
        """Call the function with the leaves put together."""
        args, kwargs = pytree.unflatten(self.treedef, list(leaves))
        run_as_caller(self.fn, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{getattr(self.fn, '__qualname__', 'a function')}>"

    def __reduce__(self) -> NoReturn:
        raise GraphError("pickle: a callback holds a Python function, which cannot be saved; leave it out")


def callback(fn: Callable[..., object], *args: Any, **kwargs: Any) -> None:
    """Call ``fn`` with the values of arrays, each time the program comes by: also where they are traced.

    Under `jit` and in loops it is called by the compiled program, in the order of the program's lines, and under `vmap`
    once for each element. Derivatives pass it by.

    Args:
        fn: a function whose result is ignored.
        *args: pytrees; their arrays and numbers arrive as read-only NumPy values.
        **kwargs: likewise.

    >>> import afx
    >>> seen = []
    >>> afx.jit(lambda x: afx.debug.callback(seen.append, x))(3.0)
    >>> seen
    [np.float32(3.0)]
    """
    if not callable(fn):
        raise OperandError(f"callback: needs a function: got {fn!r}; pass the function itself")
    leaves, treedef = pytree.flatten((args, kwargs))
    bind(callback_p, *[asarray(x) for x in leaves], call=Callback(fn, treedef), axes=())


def _run(*xs: Any, call: Callback, axes: tuple[Bools, ...]) -> tuple[Any, ...]:
    if axes:
        size = next(len(x) for x, batched in zip(xs, axes[0], strict=True) if batched)
        for k in range(size):
            _run(*[x[k] if b else x for x, b in zip(xs, axes[0], strict=True)], call=call, axes=axes[1:])
    else:
        call([_read_only(x) for x in xs])
    return (np.bool_(True),)


def _read_only(x: Any) -> Any:
    """Return a value of its own, which a program that goes on cannot change; of no axes as a NumPy scalar."""
    if np.ndim(x) == 0:
        return np.asarray(x)[()]
    copy = np.array(x)
    copy.flags.writeable = False
    return copy


def _abstract(*avals: Aval, call: Callback, axes: tuple[Bools, ...]) -> tuple[Aval, ...]:
    return (Aval((), np.dtype(bool)),)


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    done = bind(callback_p, *xs, call=params["call"], axes=(batched, *params["axes"]))
    return tuple(map(Unbatched, done))


callback_p: Primitive = register(
    Primitive(
        name="callback",
        kind="custom",
        impl=_run,
        abstract_eval=_abstract,
        batch=_batch,
        multiple_results=True,
        has_effects=True,
    )
)
