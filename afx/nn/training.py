"""Training of classes of one's own: the layers inside of them get their keys, and give their new state, by path."""

from __future__ import annotations

import copy
import functools
import inspect
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from afx import pytree
from afx.core.array.array import Array
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError
from afx.nn.layer import children
from afx.ops.random.bits import check_key
from afx.random import fold_in
from afx.transforms._arguments import check_callable

__all__ = ["train"]

M = TypeVar("M")
R = TypeVar("R")


class _InTraining:
    """What stands for a layer in training: called, it calls the layer's ``train`` and keeps the new layer."""

    def __init__(self, layer: Any, key: Array | None, path: str) -> None:
        self._layer, self._key, self._path, self._calls = layer, key, path, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _check_state(self._layer, self._path)
        bound = inspect.signature(self._layer.__call__).bind(*args, **kwargs)
        given, own = dict(bound.arguments), self._key
        if own is not None and self._calls:
            own = fold_in(own, self._calls)
        self._calls += 1
        by_hand = given.pop("key", None)
        x = given.pop(next(iter(given)))
        out, self._layer = self._layer.train(x, own if by_hand is None else by_hand, **given)
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def train(fn: Callable[[M], R], model: M, key: Array | None = None) -> tuple[R, M]:
    """Return ``fn`` of a model whose layers are in training, and the model with their new state.

    Every layer with a method ``train(x, key)``, wherever it stands in the model, works as in training where ``fn`` calls
    it: `Dropout` draws, `BatchNorm` uses the batch and moves its statistics. Its key is ``key`` folded with its path, and
    with the number of the call where it is called again; so a new layer changes no other's numbers. Inside of
    `afx.scan` or `afx.vmap` a layer has one key for all elements, and may not have state.

    Args:
        fn: a function of the model, such as ``lambda model: model(x)``.
        model: any tree of layers, with frozen classes, lists, tuples, dicts.
        key: a random key; None where no layer draws.

    Raises:
        ArgumentError: a layer draws, and there is no key; a layer with state is called inside of a transformation.

    >>> import attrs
    >>> @attrs.frozen
    ... class Residual:
    ...     inner: afx.nn.Sequential
    ...     def __call__(self, x: afx.Array) -> afx.Array:
    ...         return x + self.inner(x)
    >>> model = Residual(afx.nn.Sequential(afx.nn.Linear.create(0, 3, 3), afx.nn.Dropout(0.5), afx.nn.BatchNorm.create(3)))
    >>> y, model = train(lambda model: model(afx.ones((5, 3))), model, afx.random.key(0))
    >>> y.shape, type(model).__name__
    ((5, 3), 'Residual')
    """
    check_callable(fn, "train")
    if key is not None:
        check_key(key, "train")
    prepared = _map_children(model, "", lambda child, path: _stand_for_layer(child, path, key))
    return fn(prepared), _map_children(prepared, "", _wrap_layer)


def _stand_for_layer(value: Any, path: str, key: Array | None) -> Any:
    """Return what stands for a layer, None for what is none."""
    if isinstance(value, type) or not (callable(value) and callable(getattr(value, "train", None))):
        return None
    return _InTraining(value, None if key is None else fold_in(key, zlib.crc32(path.encode())), path)


def _wrap_layer(value: Any, path: str) -> Any:
    if type(value) is not _InTraining:
        return None
    layer = value._layer  # pyright: ignore[reportPrivateUsage]  # the trace's name stands nowhere else  # its own record
    _check_state(layer, path)
    return layer


def _check_state(layer: Any, path: str) -> None:
    """Raise where the state of a layer was made inside of a transformation that has ended."""
    for x in pytree.leaves(layer):
        if isinstance(x, Tracer) and not x._trace.alive:  # pyright: ignore[reportPrivateUsage]  # the trace's name stands nowhere else  # of the package
            raise ArgumentError(
                f"nn.train: a layer with state is called inside of {x._trace.name}: "  # pyright: ignore[reportPrivateUsage]  # the trace's name stands nowhere else
                f"got {type(layer).__name__} at model{path}; call it on the whole batch, outside of the transformation, or "
                "call its train there by hand and return the new layer"
            )


def _map_children(value: Any, path: str, change: Callable[[Any, str], Any]) -> Any:
    """Return a tree with what ``change`` gives in place of values; where it gives None, its children are changed."""
    made = change(value, path)
    if made is not None:
        return made
    old = children(value)
    new = {step: _map_children(child, path + step, change) for step, child in old.items()}
    return value if all(new[step] is child for step, child in old.items()) else _replace_children(value, new)


def _replace_children(value: Any, new: Mapping[str, Any]) -> Any:
    """Return a tree of the same class with other children; constructors and their checks are passed over."""
    values = list(new.values())
    if isinstance(value, dict):
        return dict(zip(value, values, strict=True))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a user's value
    if isinstance(value, list | tuple):
        kind: Any = type(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a user's value
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    if isinstance(value, functools.partial):
        func, args, keywords = values
        return functools.partial(func, *args, **keywords)
    if inspect.ismethod(value):
        return getattr(values[0], value.__name__)
    made = copy.copy(value)
    for step, child in new.items():
        object.__setattr__(made, step[1:], child)
    return made
