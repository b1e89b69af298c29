"""Gradients: `grad` and `value_and_grad` of a scalar function, in the type of its parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Value
from afx.core.tracing.debug_nans import OPEN_BLOCKS
from afx.ops.creation.creation import asarray
from afx.transforms._arguments import (
    check_callable,
    check_holomorphic,
    moving_leaves,
    name_of,
    pair_of,
    result_tree,
    scalar_output,
    transformed,
)
from afx.transforms.derivatives._diff_arguments import DiffArguments, either_argnums
from afx.transforms.derivatives.nan_check import check_nan
from afx.transforms.derivatives.vjp import Linearization, enter_tape, strip_tracers

if TYPE_CHECKING:
    from afx.transforms._function import Function

__all__ = ["grad", "value_and_grad"]

P = ParamSpec("P")
T = TypeVar("T")
T0 = TypeVar("T0")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
A = TypeVar("A")
Q = ParamSpec("Q")


@overload
def value_and_grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Function[Concatenate[ArrayLike, P], tuple[Array, Array]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], Array],
    argnums: Literal[0] | None = None,
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]],
    argnums: Literal[0] | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T, P], tuple[tuple[Array, A], T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T, P], Array],
    argnums: Literal[1],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, T, P], Array],
    argnums: Literal[2],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, P], Array],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, P], tuple[Array, tuple[T0, T1]]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, T2, P], Array],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, T2, P], tuple[Array, tuple[T0, T1, T2]]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T, P], tuple[Array, A]],
    argnums: Literal[1],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T, P], tuple[tuple[Array, A], T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, P], tuple[Array, A]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, P], tuple[tuple[Array, A], tuple[T0, T1]]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array],
    argnums: int | Sequence[int],
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array],
    *,
    argnames: str | Sequence[str],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Q, tuple[tuple[Array, A], Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Any], *, argnum: int | Sequence[int], has_aux: bool = False, holomorphic: bool = False
) -> Function[Q, tuple[Any, Any]]: ...
def value_and_grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
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
        argnum: autograd's name of ``argnums``.
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
    argnums = either_argnums(argnums, argnum, "value_and_grad")
    return differentiated(run_value_and_grad, fn, argnums, argnames, has_aux, holomorphic)


@overload
def grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Function[Concatenate[ArrayLike, P], Array]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], Array],
    argnums: Literal[0] | None = None,
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]],
    argnums: Literal[0] | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T, P], Array],
    argnums: Literal[1],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, T, P], Array],
    argnums: Literal[2],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, P], Array],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, P], tuple[T0, T1]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, T2, P], Array],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, T2, P], tuple[T0, T1, T2]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T, P], tuple[Array, A]],
    argnums: Literal[1],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T, P], tuple[T, A]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, P], tuple[Array, A]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Concatenate[T0, T1, P], tuple[tuple[T0, T1], A]]: ...
@overload
def grad(
    fn: Callable[Q, Array],
    argnums: int | Sequence[int],
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Q, Any]: ...
@overload
def grad(
    fn: Callable[Q, Array],
    *,
    argnames: str | Sequence[str],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Function[Q, Any]: ...
@overload
def grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Function[Q, tuple[Any, A]]: ...
@overload
def grad(
    fn: Callable[Q, Any], *, argnum: int | Sequence[int], has_aux: bool = False, holomorphic: bool = False
) -> Function[Q, Any]: ...
def grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
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
    argnums = either_argnums(argnums, argnum, "grad")
    return differentiated(run_grad, fn, argnums, argnames, has_aux, holomorphic)


def differentiated(
    run: Callable[..., Any],
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str],
    has_aux: bool,
    holomorphic: bool,
    who: str = "grad",
) -> Callable[..., Any]:
    """Return the function that differentiates ``fn`` by ``run``, for messages in the name of ``who``."""
    check_callable(fn, who)
    chosen = DiffArguments(fn, argnums, argnames, who)
    make = functools.partial(differentiated, run, fn, argnums, argnames, has_aux, holomorphic, who)
    found: Callable[..., Any] = transformed(functools.partial(run, chosen, has_aux, holomorphic), who, fn, make)
    return found


def run_grad(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    value, gradient = run_value_and_grad(chosen, has_aux, holomorphic, *args, **kwargs)
    return (gradient, value[1]) if has_aux else gradient


def run_value_and_grad(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    who, fn = chosen.who, chosen.fn
    target, call = chosen.split(args, kwargs)
    leaves, treedef = pytree.flatten(target)
    moving = moving_leaves(leaves, treedef, who, chosen.label, arguments=chosen.count > 1)
    if holomorphic:
        check_holomorphic(leaves, treedef, who, chosen.label, moving=moving)
    record = Linearization(chosen.title)
    record.again = lambda tape: call(pytree.unflatten(treedef, enter_tape(tape, leaves, moving)))
    try:
        out = call(pytree.unflatten(treedef, record.enter(leaves, moving)))
        out, aux = pair_of(out, name_of(fn), "(scalar, aux)", "grad with has_aux=True") if has_aux else (out, None)
    finally:
        record.tape.finish()
    value = scalar_output(out, fn, who, holomorphic)
    if OPEN_BLOCKS:
        check_nan(record.tape.name, fn, args, kwargs, record.plain(value))
    cts: list[Value] = [None] * len(leaves)
    if record.owns(value):
        cts = record.pull([value], [value.dtype.type(1)])
    gradient = chosen.arrange(result_tree(treedef, cts, leaves))
    plain = record.plain(value)
    plain = plain if isinstance(plain, Array) else asarray(plain)
    return ((plain, strip_tracers(record, aux)) if has_aux else plain), gradient
