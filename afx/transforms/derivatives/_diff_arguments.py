"""Differentiated arguments: which arguments of a call a transformation differentiates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.pytree.registry import is_table
from afx.transforms._arguments import bound_position, name_of, named

__all__ = ["DiffArguments", "either_argnums"]


def either_argnums(argnums: Any, argnum: Any, who: str) -> Any:
    """Return the positions of arguments, given by JAX's name or by autograd's."""
    if argnum is None:
        return argnums
    if argnums is not None:
        raise ArgumentError(
            f"{who}: positions are given twice: got argnums={argnums!r} and argnum={argnum!r}; drop one"
        )
    return argnum


class DiffArguments:
    """Which arguments are differentiated: takes them out of a call, and puts traced ones there instead."""

    def __init__(
        self, fn: Callable[..., Any], argnums: int | Sequence[int] | None, argnames: str | Sequence[str], who: str
    ) -> None:
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        self.fn = fn
        self.who = who
        self.fn_name: str = name_of(fn)
        self.title: str = f"{who} of {self.fn_name}"
        self.names = names
        self.single: bool = argnums is None or isinstance(argnums, (int, np.integer))
        if argnums is None:
            self.nums: tuple[int, ...] = () if names else (0,)
        else:
            self.nums = _positions(argnums, who)
        self.count: int = len(self.nums) + len(names)
        self.takes_first: bool = self.nums == (0,) and not names
        if not self.count:
            raise ArgumentError(f"{who}: nothing to differentiate: got argnums=(); name an argument")

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        """Return the differentiated arguments (a tuple where there are several), and how to call with traced ones."""
        args, kwargs = _with_values(args, kwargs)
        if self.takes_first:
            if not args and kwargs:
                args, kwargs = self._first_by_name(kwargs)
            if args:
                return args[0], self._calls_with_first(args[1:], kwargs)
        for n in self.names:
            if n not in kwargs:
                raise ArgumentError(
                    f"{self.who}: argnames={n!r} was not given by name to {name_of(self.fn)}; pass it so"
                )
        nums = [bound_position(n, len(args), self.fn, self.who) for n in self.nums]
        if len(set(nums)) != len(nums):
            raise ArgumentError(f"{self.who}: an argument is named twice: got argnums={self.nums}; name each once")
        fixed = list(args)
        targets = [args[n] for n in nums] + [kwargs[n] for n in self.names]

        def call(traced: Any) -> Any:
            values = (traced,) if self.count == 1 else traced
            for n, value in zip(nums, values, strict=False):
                fixed[n] = value
            if self.names:
                return self.fn(*fixed, **{**kwargs, **dict(zip(self.names, values[len(nums) :], strict=True))})
            return self.fn(*fixed, **kwargs)

        call.__qualname__ = self.fn_name
        return targets[0] if self.count == 1 else tuple(targets), call

    def _calls_with_first(self, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
        fn = self.fn

        def call(traced: Any) -> Any:
            return fn(traced, *rest, **kwargs)

        call.__qualname__ = self.fn_name
        return call

    def label(self, path: str) -> str:
        """Return the name of a leaf of the differentiated arguments for messages."""
        labels = [f"argument {n}" for n in (*self.nums, *self.names)]
        return labels[0] + path if self.count == 1 else named(path, labels)

    def _first_by_name(self, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Let a call that names every argument differentiate the function's first one."""
        bound = inspect.signature(self.fn).bind(**kwargs)
        return bound.args, bound.kwargs

    def arrange(self, gradient: Any) -> Any:
        """Return the gradient as the caller chose it."""
        if not self.names:
            return (gradient,) if self.count == 1 and not self.single else gradient
        values = (gradient,) if self.count == 1 else gradient
        named_ones = dict(zip(self.names, values[len(self.nums) :], strict=True))
        if not self.nums:
            return named_ones
        return (values[0] if self.single else values[: len(self.nums)], named_ones)


def _positions(argnums: Any, who: str) -> tuple[int, ...]:
    """Return argnums as a tuple, or raise where they are not integers."""
    found: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, (tuple, list, range)) else (argnums,)  # pyright: ignore[reportUnknownArgumentType]  # a user's value
    if not all(isinstance(n, (int, np.integer)) for n in found):
        raise ArgumentError(
            f"{who}: argnums are positions: got argnums={argnums!r}; give integers, and names with argnames="
        )
    return tuple(map(int, found))


def _with_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with the values of pandas' tables, as compiled functions get them too; others as they are."""
    if any(is_table(x.__class__) for x in (*args, *kwargs.values())):
        args = tuple([_value_of(x) for x in args])
        kwargs = {name: _value_of(x) for name, x in kwargs.items()}
    return args, kwargs


def _value_of(x: Any) -> Any:
    return asarray(x) if is_table(x.__class__) else x
