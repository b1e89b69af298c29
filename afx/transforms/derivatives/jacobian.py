"""Jacobians: `jacfwd`, `jacrev`, `hessian`, `hvp`, and derivatives element by element."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Aval, aval_of, get_default_dtype, is_traced, wrap
from afx.errors import ArgumentError, DtypeError
from afx.ops import asarray, astype, ones_like, reshape, stack, zeros
from afx.pytree import Tree
from afx.transforms._arguments import (
    AnyOptions,
    AuxOptions,
    Function,
    Options,
    bound_position,
    check_callable,
    check_holomorphic,
    moving_leaves,
    name_of,
    pair_of,
    run_of_trees,
    transformed,
)
from afx.transforms.derivatives.grad import (
    DiffArguments,
    differentiated,
    either_argnums,
    grad,
    pullback_of,
    run_grad,
    vjp,
)
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.derivatives.nan_check import check_nan
from afx.transforms.vmap import vmap

# --- Jacobians: `jacfwd`, `jacrev`, `hessian` and `hvp` of functions with many outputs

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
T0 = TypeVar("T0")
A = TypeVar("A")
R = TypeVar("R")


class Jacobian(Protocol):
    """What type checkers see of `jacfwd` and `jacrev`."""

    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]  # the first that fits is meant
        self, fn: Callable[Concatenate[ArrayLike, P], Array], **options: Unpack[Options]
    ) -> Function[Concatenate[ArrayLike, P], Array]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[T, P], Array], **options: Unpack[Options]
    ) -> Function[Concatenate[T, P], T]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[T, P], tuple[Array, A]], **options: Unpack[AuxOptions]
    ) -> Function[Concatenate[T, P], tuple[T, A]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Array, P], R], **options: Unpack[Options]
    ) -> Function[Concatenate[Array, P], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[T0, T, P], Array], argnums: Literal[1], **options: Unpack[Options]
    ) -> Function[Concatenate[T0, T, P], T]: ...
    @overload
    def __call__(
        self,
        fn: Callable[Concatenate[T0, T, P], Array],
        argnums: tuple[Literal[0], Literal[1]],
        **options: Unpack[Options],
    ) -> Function[Concatenate[T0, T, P], tuple[T0, T]]: ...
    @overload
    def __call__(
        self,
        fn: Callable[Q, Any],
        argnums: int | Sequence[int] | None = None,
        argnames: str | Sequence[str] = (),
        **options: Unpack[AnyOptions],
    ) -> Function[Q, Any]: ...
    @overload
    def __call__(
        self, fn: Callable[Q, Any], *, argnum: int | Sequence[int], **options: Unpack[AnyOptions]
    ) -> Function[Q, Any]: ...


def _is_jacobian(fn: Callable[..., Any]) -> Jacobian:
    """Give a function the types of `Jacobian`."""
    return cast("Jacobian", fn)


@_is_jacobian
def jacfwd(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian function of ``fn`` by forward mode: one pass per input element, batched.

    Best where inputs are fewer than outputs.

    Args:
        fn: a function from pytrees of arrays to a pytree of arrays.
        argnums: the positional argument to differentiate, the first by default; a tuple of them gives tuples.
        argnames: keyword arguments to differentiate; their derivatives are in a dict by name, as in `afx.grad`.
        argnum: autograd's name of ``argnums``.
        has_aux: whether ``fn`` returns ``(result, aux)``; the function then returns ``(jacobian, aux)``.
        holomorphic: whether ``fn`` is a complex-differentiable function of complex arguments with complex results.

    Returns:
        A function whose result has the structure of ``fn``'s result, and instead of each leaf the structure of the
        argument, with leaves of shape ``output.shape + input.shape``.

    Raises:
        DtypeError: the argument holds integers, or complex numbers without ``holomorphic``: there the derivative along
            the real axis is not all.

    >>> import afx
    >>> jacfwd(lambda x: x * x)(afx.asarray([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    argnums = either_argnums(argnums, argnum, "jacfwd")
    return _jacobian_by(forward_jacobian, jacfwd, fn, argnums, argnames, has_aux, holomorphic)


def _jacobian_by(
    run: Callable[..., Any],
    transform: Callable[..., Any],
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str],
    has_aux: bool,
    holomorphic: bool,
) -> Callable[..., Any]:
    """Return the function that a call of ``transform`` makes, which ``run`` computes."""
    make = functools.partial(transform, fn, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)
    who = make.func.__name__
    check_callable(fn, who)
    chosen = DiffArguments(fn, argnums, argnames, who)
    jacobian: Callable[..., Any] = checked(functools.partial(run, chosen, has_aux, holomorphic), make)
    return jacobian


def forward_jacobian(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    """Return what the function of `jacfwd` does, for messages in the name of ``chosen.who``, without the search for nan."""
    who, fn = chosen.who, chosen.fn
    x, call = chosen.split(args, kwargs)
    leaves, treedef = pytree.flatten(x)
    moving = moving_leaves(leaves, treedef, who, chosen.label) or [True] * len(leaves)
    if holomorphic:
        check_holomorphic(leaves, treedef, who, chosen.label, moving)
    else:
        check_real(leaves, who, "argument", "take afx.jacrev for real results")
    leaves = [asarray(v) for v in leaves]
    primal = pytree.unflatten(treedef, leaves)
    basis = pytree.unflatten(treedef, _basis([v.aval for v in leaves], moving))
    aux = _pair(call(primal), fn, who)[1] if has_aux else None

    def result(y: Any) -> Any:
        return _pair(call(y), fn, who)[0] if has_aux else call(y)

    def push(t: Any) -> Any:
        return jvp(result, (primal,), (t,))[1]

    columns = vmap(push, out_axes=-1)(basis)
    _check_any(pytree.leaves(columns), columns, chosen)
    if holomorphic:
        _check_complex(pytree.leaves(columns), who)
    jacobian = pytree.map(lambda c: chosen.arrange(_split(c, c.shape[:-1], leaves, treedef, moving)), columns)
    return (jacobian, aux) if has_aux else jacobian


def checked(compute: Callable[..., Any], make: functools.partial[Any]) -> Any:
    """Return the function that a transformation makes, which looks for nan inside of `debug_nans`."""
    who, fn = make.func.__name__, make.args[0]

    def run(*args: Any, **kwargs: Any) -> Any:
        result = compute(*args, **kwargs)
        check_nan(f"{who} of {name_of(fn)}", compute, args, kwargs, result)
        return result

    return transformed(run, who, fn, make, whole=True)


def _pair(out: Any, fn: Callable[..., Any], who: str) -> tuple[Any, Any]:
    return pair_of(out, name_of(fn), "(result, aux)", f"{who} with has_aux=True")


@_is_jacobian
def jacrev(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian function of ``fn`` by reverse mode: one pass per output element, batched.

    Best where outputs are fewer than inputs. Arguments and result are those of `jacfwd`; complex arguments of real
    results are differentiated as `grad` does.

    Raises:
        DtypeError: the argument holds integers, or a result is complex without ``holomorphic``: its real part alone
            would be differentiated.

    >>> import afx
    >>> jacrev(lambda x: x * x)(afx.asarray([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    argnums = either_argnums(argnums, argnum, "jacrev")
    return _jacobian_by(reverse_jacobian, jacrev, fn, argnums, argnames, has_aux, holomorphic)


def reverse_jacobian(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    """Return what the function of `jacrev` does, for messages in the name of ``chosen.who``, without the search for nan."""
    who = chosen.who
    x, call = chosen.split(args, kwargs)
    leaves, treedef = pytree.flatten(x)
    moving = moving_leaves(leaves, treedef, who, chosen.label)
    if holomorphic:
        check_holomorphic(leaves, treedef, who, chosen.label, moving)
    out, pullback, *aux = pullback_of(call, (x,), has_aux)
    outputs, out_tree = pytree.flatten(out)
    if holomorphic:
        _check_complex(outputs, who)
    else:
        check_real(outputs, who, "result", "take afx.jacfwd for real arguments")
    _check_any(outputs, out, chosen)
    avals = [aval_of(v) for v in outputs]

    def pull(ct: list[Array]) -> Any:
        return pullback(pytree.unflatten(out_tree, ct))[0]

    pull_each = _one_by_one(pull) if is_few(outputs, leaves) else vmap(pull)
    rows = pull_each(_basis(avals))
    jacobian = pytree.unflatten(out_tree, [chosen.arrange(_rows(rows, avals, k)) for k in range(len(avals))])
    return (jacobian, *aux) if has_aux else jacobian


FEW = 4  # passes that are quicker one by one than batched, outside of traces


def is_few(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Tell whether passes backward, one for each number of the outputs, are quicker one by one."""
    return 0 < sum([aval_of(x).size for x in outputs]) <= FEW and not any(map(is_traced, inputs))


def _one_by_one(pull: Callable[[list[Array]], Any]) -> Callable[[list[Array]], Any]:
    """Return what `vmap` of a function computes, by one call for each element."""

    def pull_each(basis: list[Array]) -> Any:
        rows_of_result = [pull([rows[k] for rows in basis]) for k in range(basis[0].shape[0])]
        return pytree.map(lambda *rows: stack(rows), *rows_of_result)

    return pull_each


def function_of(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: int, who: str
) -> tuple[Callable[[Any], Any], Any]:
    """Return the function of the one argument that is differentiated, and that argument."""
    if not args and argnums == 0 and kwargs:  # every argument by name
        bound = inspect.signature(fn).bind(**kwargs)
        args, kwargs = bound.args, bound.kwargs
    if not isinstance(argnums, (int, np.integer)):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"{who}: argnums is one position: got {argnums!r}; put several arguments into a tuple")
    n = bound_position(int(argnums), len(args), fn, who)

    return lambda x: fn(*args[:n], x, *args[n + 1 :], **kwargs), args[n]


def check_real(leaves: Sequence[Any], who: str, what: str, way: str) -> None:
    """Raise where a leaf is complex, for which derivatives by one direction do not tell those by others."""
    for x in leaves:
        if aval_of(x, who).dtype.kind == "c":
            raise DtypeError(
                f"{who}: a complex {what} needs two derivatives: got {aval_of(x)}; {way}, or split it into its parts, "
                "or pass holomorphic=True if the function is complex-differentiable"
            )


def _check_any(outputs: Sequence[Any], out: Any, chosen: DiffArguments) -> None:
    if not outputs:
        raise ArgumentError(
            f"{chosen.who}: {name_of(chosen.fn)} returns no arrays: got {pytree.structure(out)}; return what to differentiate"
        )


def _check_complex(outputs: Sequence[Any], who: str) -> None:
    for x in outputs:
        if aval_of(x, who).dtype.kind != "c":
            raise DtypeError(
                f"{who}: holomorphic functions have complex results: got {aval_of(x)}; leave holomorphic= out"
            )


def _basis(avals: Sequence[Aval], moving: Sequence[bool] | None = None) -> list[Array]:
    """Return the unit vectors of a tree, batched: leaf k has shape ``[number of moving elements] + shape``."""
    sizes = [a.size if moving is None or moving[k] else 0 for k, a in enumerate(avals)]
    total = sum(sizes)
    basis: list[Array] = []
    start = 0
    for a, size in zip(avals, sizes, strict=True):
        rows = np.zeros((total, a.size), a.dtype)
        rows[np.arange(start, start + size), np.arange(size)] = 1
        basis.append(wrap(rows.reshape(total, *a.shape)))
        start += size
    return basis


def _split(
    columns: Array, shape: tuple[int, ...], leaves: Sequence[Array], treedef: Any, moving: Sequence[bool]
) -> Any:
    """Return the last axis of a matrix of columns as a tree of the inputs' shapes; zeros for those that do not move."""
    parts: list[Array] = []
    start = 0
    for x, moves in zip(leaves, moving, strict=True):
        if not moves:
            parts.append(zeros((*shape, *x.shape), x.dtype))
            continue
        parts.append(reshape(columns[..., start : start + x.size], (*shape, *x.shape)))
        start += x.size
    return pytree.unflatten(treedef, parts)


def _rows(rows: Any, avals: Sequence[Aval], k: int) -> Any:
    """Return the rows that belong to output k, its axes in front."""
    start = sum(a.size for a in avals[:k])
    stop = start + avals[k].size
    return pytree.map(lambda r: reshape(r[start:stop], (*avals[k].shape, *r.shape[1:])), rows)


# --- Hessians: `hessian` and `hvp` of scalar functions


@overload
def hessian(
    fn: Callable[Concatenate[Array, P], Array], **options: Unpack[Options]
) -> Function[Concatenate[Array, P], Array]: ...
@overload
def hessian(
    fn: Callable[Concatenate[Array, P], tuple[Array, A]], **options: Unpack[AuxOptions]
) -> Function[Concatenate[Array, P], tuple[Array, A]]: ...
@overload
def hessian(
    fn: Callable[Concatenate[T0, Array, P], Array], argnums: Literal[1], **options: Unpack[Options]
) -> Function[Concatenate[T0, Array, P], Array]: ...
@overload
def hessian(
    fn: Callable[Concatenate[Array, Array, P], Array],
    argnums: tuple[Literal[0], Literal[1]],
    **options: Unpack[Options],
) -> Function[Concatenate[Array, Array, P], tuple[tuple[Array, Array], tuple[Array, Array]]]: ...
@overload
def hessian(
    fn: Callable[Q, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    **options: Unpack[AnyOptions],
) -> Function[Q, Any]: ...
@overload
def hessian(
    fn: Callable[Q, Any], *, argnum: int | Sequence[int], **options: Unpack[AnyOptions]
) -> Function[Q, Any]: ...
def hessian(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function of second derivatives of a scalar ``fn``: forward mode over reverse mode.

    Up to four numbers outside of other transformations take reverse mode twice, which is quicker there. The result has
    the structure of the argument twice over; for an array of shape s it has shape ``s + s``. Arguments are those of
    `jacfwd`.

    >>> import afx
    >>> hessian(lambda x: afx.sum(x**3))(afx.asarray([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    argnums = either_argnums(argnums, argnum, "hessian")
    gradient = differentiated(run_grad, fn, argnums, argnames, has_aux, holomorphic, "hessian")
    chosen, of_gradient = (DiffArguments(each, argnums, argnames, "hessian") for each in (fn, gradient))

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten(chosen.split(args, kwargs)[0])
        few = is_few(leaves, leaves)
        few = few and moving_leaves(leaves, treedef, "hessian", chosen.label) is None
        few = few and all(aval_of(x).dtype.kind == "f" for x in leaves)
        return (reverse_jacobian if few else forward_jacobian)(of_gradient, has_aux, holomorphic, *args, **kwargs)

    make = functools.partial(hessian, fn, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)
    second: Callable[..., Any] = checked(run, make)
    return second


def hvp(fn: Callable[..., Array], primals: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> Tree:
    """Return the product of the Hessian of ``fn`` by its first argument with a direction, without forming it.

    Args:
        fn: a scalar function.
        primals: its arguments.
        tangents: the direction, of the same structure; those of the other arguments move them as well.

    >>> import afx
    >>> hvp(lambda x: afx.sum(x**3), (afx.ones(2),), (afx.ones(2),))
    Array([6., 6.], dtype=float32)
    """
    check_callable(fn, "hvp")
    return run_of_trees(_curve, fn, primals, tangents)


def _curve(fn: Callable[..., Array], primals: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> Tree:
    return jvp(grad(fn), primals, tangents)[1]


# --- Elementwise derivatives: `elementwise_grad` of functions that work element by element


def elementwise_grad(
    fn: Callable[P, Array],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
) -> Callable[P, Any]:
    """Return the derivative of a function that works element by element: each result's by its own operand.

    It is the gradient of the sum of the results, as autograd's function of this name: where a result depends on other
    elements too, their derivatives are added up. Integers are taken as floats, in the default dtype.

    Args:
        fn: returns an array.
        argnums: the positional argument to differentiate, the first by default; a tuple of them gives a tuple.
        argnames: keyword arguments to differentiate, as in `afx.grad`.
        argnum: autograd's name of ``argnums``.

    >>> import afx
    >>> elementwise_grad(afx.sin)(afx.zeros(3))
    Array([1., 1., 1.], dtype=float32)
    """
    check_callable(fn, "elementwise_grad")
    argnums = either_argnums(argnums, argnum, "elementwise_grad")
    chosen = DiffArguments(fn, argnums, argnames, "elementwise_grad")

    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        x, call = chosen.split(args, kwargs)
        x = pytree.map(_as_float, x)
        moving_leaves(*pytree.flatten(x), "elementwise_grad", chosen.label)
        out, pullback = vjp(call, x)
        _check_any(pytree.leaves(out), out, chosen)
        for leaf in pytree.leaves(out):
            check_real([leaf], "elementwise_grad", "result", "take its parts apart")
        return chosen.arrange(pullback(pytree.map(ones_like, out))[0])

    make = functools.partial(elementwise_grad, fn, argnums, argnames)
    derivative: Callable[P, Any] = transformed(run, "elementwise_grad", fn, make, whole=True)
    return derivative


def _as_float(x: Any) -> Any:
    """Return integers as floats in the default dtype, and any other leaf as it is."""
    return astype(x, get_default_dtype()) if aval_of(x, "elementwise_grad").dtype.kind in "iu" else x
