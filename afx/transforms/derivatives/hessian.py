"""Hessians: `hessian` and `hvp` of scalar functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, moving_leaves
from afx.transforms.derivatives._diff_arguments import DiffArguments, either_argnums
from afx.transforms.derivatives.grad import differentiated, grad, run_grad
from afx.transforms.derivatives.jacobian import checked, forward_jacobian, is_few, reverse_jacobian
from afx.transforms.derivatives.jvp import jvp

if TYPE_CHECKING:
    from afx.transforms._function import Function

__all__ = ["hessian", "hvp"]

P = ParamSpec("P")
Q = ParamSpec("Q")
A = TypeVar("A")
T0 = TypeVar("T0")


@overload
def hessian(
    fn: Callable[Concatenate[Array, P], Array], *, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Function[Concatenate[Array, P], Array]: ...
@overload
def hessian(
    fn: Callable[Concatenate[Array, P], tuple[Array, A]], *, has_aux: Literal[True], holomorphic: bool = False
) -> Function[Concatenate[Array, P], tuple[Array, A]]: ...
@overload
def hessian(
    fn: Callable[Concatenate[T0, Array, P], Array], argnums: Literal[1], *, has_aux: Literal[False] = False
) -> Function[Concatenate[T0, Array, P], Array]: ...
@overload
def hessian(
    fn: Callable[Concatenate[Array, Array, P], Array],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[False] = False,
) -> Function[Concatenate[Array, Array, P], tuple[tuple[Array, Array], tuple[Array, Array]]]: ...
@overload
def hessian(
    fn: Callable[Q, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function[Q, Any]: ...
@overload
def hessian(
    fn: Callable[Q, Any], *, argnum: int | Sequence[int], has_aux: bool = False, holomorphic: bool = False
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
    found: Callable[..., Any] = checked(run, make)
    return found


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
    return jvp(grad(fn), primals, tangents)[1]
