"""Gradients: `grad` and `value_and_grad` of a scalar function, in the type of its parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, overload

import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Value
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.transforms._arguments import (
    bound_position,
    check_callable,
    check_holomorphic,
    moving_leaves,
    name_of,
    named,
    pair_of,
    result_tree,
    scalar_output,
)
from afx.transforms.vjp import Linearization, enter_tape

__all__ = ["grad", "value_and_grad"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
Q = ParamSpec("Q")


@overload
def value_and_grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[ArrayLike, P], tuple[Array, Array]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]], *, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[Concatenate[T, P], tuple[tuple[Array, A], T]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array],
    argnums: int | Sequence[int],
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array],
    *,
    argnames: str | Sequence[str],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[Q, tuple[tuple[Array, A], Any]]: ...
def value_and_grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes ``fn`` and its gradient together.

    Args:
        fn: returns a real scalar; traced with concrete values, so that Python control flow works.
        argnums: the positional arguments to differentiate, the first by default; a tuple of them gives a tuple of
            gradients. Each may be any pytree of floating or complex arrays.
        argnames: keyword arguments to differentiate; their gradients are in a dict by name. Together with ``argnums``
            the gradient is the pair of both.
        has_aux: whether ``fn`` returns ``(scalar, aux)``; aux, any pytree, is passed on with plain values.
        holomorphic: whether ``fn`` is a complex-differentiable function of complex arguments with a complex result;
            the gradient is then its complex derivative. That it is one is the caller's promise.

    Returns:
        A function of the same arguments that returns ``(value, gradient)``, or ``((value, aux), gradient)``. The
        gradient has the structure, shapes and dtypes of what it belongs to; that of integers and booleans inside of a
        tree, and of fields marked with `non_trainable`, is zeros of their dtype. By complex numbers z = x + iy a real
        function f has the gradient ∂f/∂x - i·∂f/∂y: its conjugate is the direction of steepest ascent.

    Raises:
        ShapeError: ``fn`` does not return a scalar.
        DtypeError: what is differentiated is not floating or complex, or the result is not a real floating scalar; with
            ``holomorphic``, either is not complex.
        ArgumentError: an argument to differentiate was not given or holds no arrays, or ``fn`` is not a function.

    >>> import afx
    >>> value_and_grad(lambda x: afx.sum(x * x))(afx.ones(2))
    (Array(2., dtype=float32), Array([2., 2.], dtype=float32))
    """
    check_callable(fn, "grad")
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    chosen = _DiffArguments(fn, argnums, names)
    name = f"grad of {name_of(fn)}"

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        target, call = chosen.split(args, kwargs)
        leaves, treedef = pytree.flatten(target)
        moving = moving_leaves(leaves, treedef, "grad", chosen.label, arguments=chosen.count > 1)
        if holomorphic:
            check_holomorphic(leaves, treedef, "grad", chosen.label, moving=moving)
        record = Linearization(name)
        record.again = lambda tape: call(pytree.unflatten(treedef, enter_tape(tape, leaves, moving)))
        try:
            out = call(pytree.unflatten(treedef, record.enter(leaves, moving)))
            out, aux = _with_aux(out, fn) if has_aux else (out, None)
        finally:
            record.tape.finish()
        value = scalar_output(out, fn, "grad", holomorphic)
        cts: list[Value] = [None] * len(leaves)
        if record.owns(value):
            cts = record.pull([value], [value.dtype.type(1)])
        gradient = chosen.arrange(result_tree(treedef, cts, leaves))
        plain = record.plain(value)
        plain = plain if isinstance(plain, Array) else asarray(plain)
        return ((plain, strip_tracers(record, aux)) if has_aux else plain), gradient

    return run


@overload
def grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[ArrayLike, P], Array]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]], *, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(
    fn: Callable[Q, Array],
    argnums: int | Sequence[int],
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[Q, Any]: ...
@overload
def grad(
    fn: Callable[Q, Array],
    *,
    argnames: str | Sequence[str],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[Q, Any]: ...
@overload
def grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[Q, tuple[Any, A]]: ...
def grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the gradient of ``fn``.

    Arguments and errors are those of `value_and_grad`.

    Returns:
        A function of the same arguments that returns the gradient, or ``(gradient, aux)``.

    >>> import afx
    >>> grad(lambda x: afx.sum(x**3))(afx.asarray([1.0, 2.0]))
    Array([ 3., 12.], dtype=float32)
    >>> grad(lambda z: z**3, holomorphic=True)(afx.asarray(1.0 + 2.0j))
    Array(-9.+12.j, dtype=complex64)
    """
    both = cast(Any, value_and_grad)(
        fn, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic
    )  # the overloads are for callers

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


class _DiffArguments:
    """Which arguments are differentiated: takes them out of a call, and puts traced ones in their places."""

    def __init__(self, fn: Callable[..., Any], argnums: int | Sequence[int] | None, names: tuple[str, ...]) -> None:
        self.fn = fn
        self.names = names
        self.single = argnums is None or isinstance(argnums, (int, np.integer))
        if argnums is None:
            self.nums: tuple[int, ...] = () if names else (0,)
        else:
            self.nums = _positions(argnums)
        self.count = len(self.nums) + len(names)
        if not self.count:
            raise ArgumentError("grad: nothing to differentiate: got argnums=(); name an argument")

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        """Return the differentiated arguments (a tuple where there are several), and how to call with traced ones."""
        if not args and self.nums == (0,) and kwargs:
            args, kwargs = self._first_by_name(kwargs)
        for n in self.names:
            if n not in kwargs:
                raise ArgumentError(f"grad: argnames={n!r} was not given by name to {name_of(self.fn)}; pass it so")
        nums = [bound_position(n, len(args), self.fn, "grad") for n in self.nums]
        if len(set(nums)) != len(nums):
            raise ArgumentError(f"grad: an argument is named twice: got argnums={self.nums}; name each once")
        fixed = list(args)
        targets = [args[n] for n in nums] + [kwargs[n] for n in self.names]

        def call(traced: Any) -> Any:
            values = (traced,) if self.count == 1 else traced
            for n, value in zip(nums, values, strict=False):
                fixed[n] = value
            if self.names:
                return self.fn(*fixed, **{**kwargs, **dict(zip(self.names, values[len(nums) :], strict=True))})
            return self.fn(*fixed, **kwargs)

        return targets[0] if self.count == 1 else tuple(targets), call

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


def _positions(argnums: Any) -> tuple[int, ...]:
    """Return argnums as a tuple, or raise where they are not integers."""
    found: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, (tuple, list, range)) else (argnums,)  # pyright: ignore[reportUnknownArgumentType]  # a user's value
    if not all(isinstance(n, (int, np.integer)) for n in found):
        raise ArgumentError(
            f"grad: argnums are positions: got argnums={argnums!r}; give integers, and names with argnames="
        )
    return tuple(map(int, found))


def _with_aux(out: Any, fn: Callable[..., Any]) -> tuple[Any, Any]:
    return pair_of(out, name_of(fn), "(scalar, aux)", "grad with has_aux=True")


def strip_tracers(record: Linearization, aux: Any) -> Any:
    """Return aux with the tracers of this call replaced by their values."""
    leaves, treedef = pytree.flatten(aux)
    return pytree.unflatten(treedef, [record.plain(x) for x in leaves])
