"""Solver functions: a user's function of trees as one of a vector and parameters, and implicit derivatives of its roots.

A solution x(p) of F(x, p) = 0 has the derivative -(dF/dx)⁻¹ dF/dp (implicit function theorem), however it was found. So a
solver runs on plain values, without being recorded, and `attach_implicit_derivative` makes its result depend on the
parameters again: in forward and reverse mode and in every order, since the rule is written in terms of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.linear_solvers import gmres
from afx.core.array.array import Array
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import float32
from afx.core.interpreter import evaluate
from afx.core.tracing.graph_trace import GraphTrace
from afx.core.tracing.tracer import Tracer
from afx.errors import ConcreteValueError, DtypeError, TracerError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import reshape
from afx.transforms._arguments import check_callable, moving_leaves, name_of
from afx.transforms.custom.custom_call import custom_call
from afx.transforms.custom.custom_rules import CustomRules
from afx.transforms.derivatives.flat_functions import Transposed, push_through
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.sparse.sparse_derivatives import sparse_jacobian

__all__ = [
    "Parametrized",
    "attach_derivative",
    "attach_implicit_derivative",
    "attach_pullback",
    "flatten_to_vector",
    "parametrize",
    "stopped",
]

T = TypeVar("T")
R = TypeVar("R")

DENSE_MAX_UNKNOWNS = 512  # beyond, a Jacobian takes more memory and time than products with it

Slope = Callable[[Array, Sequence[Any], Sequence[Any]], Array]
Pull = Callable[[Array, Sequence[Any], Array], Sequence[Any]]


def flatten_to_vector(tree: T, who: str) -> tuple[Array, Callable[[Array], T]]:
    """Return the trained leaves of a tree as one vector, and the function that puts a vector in their place.

    The vector has the widest dtype of the leaves, float32 at least; leaves keep their own.

    Raises:
        DtypeError: a leaf is complex, or none is floating.
    """
    leaves, treedef = pytree.flatten(tree)
    moving = moving_leaves(leaves, treedef, who, lambda path: f"the start{path}") or [True] * len(leaves)
    own = [asarray(x) for x, m in zip(leaves, moving, strict=True) if m]
    for x in own:
        if x.dtype.kind == "c":
            raise DtypeError(f"{who}: unknowns are real: got {x.aval}; pass real and imaginary parts")
    dtype = np.result_type(float32, *[x.dtype for x in own])
    ends = np.cumsum([x.size for x in own]).tolist()

    def unravel(vector: Array) -> T:
        parts = iter([reshape(vector[e - x.size : e], x.shape).astype(x.dtype) for x, e in zip(own, ends, strict=True)])
        return pytree.unflatten(treedef, [next(parts) if m else x for x, m in zip(leaves, moving, strict=True)])

    return concat([reshape(x, (-1,)).astype(dtype) for x in own]), unravel


@attrs.frozen(eq=False)
class Parametrized(Generic[R]):
    """A function of a vector that names everything it has derivatives by.

    Attributes:
        fn: (vector, *params) to the result.
        params: the floating arguments and all traced arrays that the user's function closes over.
    """

    fn: Callable[..., R]
    params: list[Any]

    def plain(self) -> Callable[..., R]:
        """Return the function of the vector alone, in which nothing is recorded."""
        held = stopped(self.params)
        return lambda *xs: self.fn(*xs, *held)


def stopped(leaves: Sequence[Any]) -> list[Any]:
    """Return values that no derivative flows through; untraced ones as they are."""
    return [stop_gradient(x) if isinstance(x, Tracer) else x for x in leaves]


def parametrize(
    fn: Callable[..., R], inputs: Sequence[Callable[[Array], Any]], avals: Sequence[Aval], args: Any, who: str
) -> Parametrized[R]:
    """Return ``fn(*inputs, *args)`` as a function of vectors and of all that it has derivatives by.

    Args:
        fn: a user's function.
        inputs: how each vector becomes one of the function's first arguments.
        avals: of the vectors.
        args: the function's other arguments, a tuple of trees; what is not floating stays as it is.
        who: the solver, for messages.
    """
    check_callable(fn, who)
    leaves, treedef = pytree.flatten(args)
    floating = [aval_of(x, f"{who}: args").dtype.kind in "fc" for x in leaves]
    params = [asarray(x) for x, f in zip(leaves, floating, strict=True) if f]
    count = len(inputs)

    def flat(*values: Any) -> R:
        given = iter(values[count:])
        rest = pytree.unflatten(treedef, [next(given) if f else x for x, f in zip(leaves, floating, strict=True)])
        return fn(*[make(v) for make, v in zip(inputs, values[:count], strict=True)], *rest)

    return _lift_closure(flat, [*avals, *[p.aval for p in params]], params, f"{who} of {name_of(fn)}")


def _lift_closure(fn: Callable[..., R], avals: Sequence[Aval], params: list[Any], name: str) -> Parametrized[R]:
    """Make what a function closes over a parameter; one with Python branches stays as it is."""
    trace = GraphTrace(name)
    try:
        leaves, tree = pytree.flatten(fn(*[trace.input(Aval(a.shape, a.dtype)) for a in avals]))
        graph = trace.finish([asarray(z) for z in leaves])
    except ConcreteValueError:
        _check_closed_over(fn, avals, params, name)
        return Parametrized(fn, params)
    finally:
        trace.alive = False
    if not trace.lifted:
        return Parametrized(fn, params)
    return Parametrized(lambda *v: pytree.unflatten(tree, evaluate(graph, *v)), [*params, *trace.lifted])


def _check_closed_over(fn: Callable[..., Any], avals: Sequence[Aval], params: list[Any], name: str) -> None:
    """Raise where a function with Python branches closes over a traced array, since derivatives by it would be lost."""
    count = len(avals) - len(params)
    out = fn(*[zeros(a.shape, a.dtype) for a in avals[:count]], *stopped(params))
    if any(isinstance(z, Tracer) for z in pytree.leaves(out)):
        raise TracerError(
            f"{name}: the function closes over a traced array and asks for the value of another; "
            "pass the array as one of args, or write the branch with afx.cond or afx.where"
        )


def attach_implicit_derivative(
    residual: Callable[..., Array], solution: Array, params: Sequence[Any], converged: Array, *, sparse: bool = False
) -> Array:
    """Return a solution as a differentiable function of its parameters.

    Args:
        residual: (vector, *params) to a vector of the same length that is 0 at the solution.
        solution: what a solver found, a constant for derivatives.
        params: what the residual depends on; leaves that are not floating have no derivatives.
        converged: bool, whether it is a solution; the derivatives of what is none are nan.
        sparse: whether the residual's Jacobian is.
    """

    def slope(z: Array, given: Sequence[Any], tangents: Sequence[Any]) -> Array:
        ps, ts = given[:-1], tangents[:-1]
        found = push_through(lambda *v: [residual(z, *v)], ps, ts)[1][0]
        found = found * where(given[-1], asarray(1, found.dtype), np.nan)  # a product: its transpose is nan too

        def at(x: Array) -> Array:
            return residual(x, *ps)

        if sparse:
            return -sparse_jacobian(at)(z).solve(found)
        if z.shape[0] <= DENSE_MAX_UNKNOWNS:
            return -solve_or_nan(jacfwd(at)(z), found)

        def product(v: Array) -> Array:
            return jvp(at, (z,), (v,))[1]

        return -gmres(product, found, tol=100 * float(np.finfo(z.dtype).eps)).x

    return attach_derivative("implicit solution", solution, [*params, converged], slope)


def attach_derivative(name: str, value: Array, params: Sequence[Any], slope: Slope) -> Array:
    """Return a value as a function of parameters with a given derivative.

    Unlike `custom_jvp` of the identity, every level of differentiation sees the value as such a function.

    Args:
        name: of the function, for messages.
        value: a constant for derivatives.
        params: what it depends on.
        slope: (value, params, tangents) to the value's tangent, linear in the tangents.
    """

    def attached(xs: Sequence[Any]) -> list[Any]:
        return custom_call(rules, xs) if any(isinstance(x, Tracer) for x in xs) else [xs[0]]

    def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        (z,) = attached(xs)
        return [z], [ts[0] + slope(z, xs[1:], ts[1:])]

    def forward(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        return attached(xs), xs

    back = Transposed(push)
    rules = CustomRules(name, lambda *xs: [xs[0]], forward, back.backward, push, 0, back.masked, back.left_out)
    found: Array = attached([value, *params])[0]
    return found


def attach_pullback(name: str, value: Array, params: Sequence[Any], pull: Pull) -> Array:
    """Return a value as a function of parameters with a given reverse-mode derivative; it has no other mode.

    Args:
        name: of the function, for messages.
        value: a constant for derivatives.
        params: what it depends on.
        pull: (value, params, cotangent) to one cotangent (or None) per parameter.
    """

    def attached(xs: Sequence[Any]) -> list[Any]:
        return custom_call(rules, xs) if any(isinstance(x, Tracer) for x in xs) else [xs[0]]

    def backward(xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        (z,) = attached(xs)  # which outer derivatives see as a function of the parameters, too
        return [None, *pull(z, xs[1:], cts[0])]

    def masked(xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        # the value does not show on what it depends: every parameter is alive
        return backward(xs, [where(m, c, 0.0) for m, c in zip(masks, cts, strict=True)]), [None] * len(xs)

    rules = CustomRules(name, lambda *xs: [xs[0]], lambda xs: (attached(xs), xs), backward, None, masked=masked)
    found: Array = attached([value, *params])[0]
    return found
