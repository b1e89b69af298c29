"""`minimize`: a minimum of a scalar function of a tree of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple

import numpy as np

from afx.control.solving.functions import flatten_to_vector, parametrize, stopped
from afx.control.solving.vectors import as_vector
from afx.core.array.array import Array
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray, full
from afx.optim.solvers.constrained import Problem, constrain
from afx.optim.solvers.descend import State, attach_minimum, box_of, descend
from afx.optim.solvers.directions import Bfgs, Direction, Lbfgs, NewtonCg
from afx.optim.solvers.nelder_mead import shrink_simplex
from afx.optim.solvers.results import ConstrainedResult, MinimizeResult
from afx.optim.solvers.trust_region import Region, trust
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import eval_shape
from afx.transforms.derivatives.grad import grad, value_and_grad
from afx.transforms.derivatives.jvp import jvp

__all__ = ["MinimizeMethod", "minimize"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MinimizeMethod = Literal["lbfgs", "bfgs", "newton_cg", "trust_region", "nelder_mead"]


def minimize(
    fn: Callable[[T, *Ts], Array],
    init: T,
    *args: *Ts,
    method: MinimizeMethod = "lbfgs",
    bounds: tuple[Any, Any] | None = None,
    equalities: Callable[[T, *Ts], Any] | None = None,
    inequalities: Callable[[T, *Ts], Any] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    memory: int = 10,
) -> MinimizeResult[T]:
    """Return a local minimum of ``fn(x, *args)`` near a start.

    The minimum is differentiable by ``args``, by bounds, and by traced arrays that ``fn`` closes over, in both modes and
    every order: by the implicit function theorem, not through the iterations; the derivatives are nan where the result
    says that it has not converged. It does not depend on the start. Works under `jit` and `vmap`, where each element of
    the batch stops by itself.

    ================  ===================================================================================
    ``lbfgs``         limited-memory BFGS (Liu & Nocedal 1989), the default: any number of unknowns
    ``bfgs``          BFGS with a dense matrix: up to some hundred unknowns
    ``newton_cg``     Newton's directions by conjugate gradients on products with the Hessian
    ``trust_region``  the same model inside of a ball that follows its success (Steihaug 1983): where the curvature
                      is negative, and a line search would take many steps
    ``nelder_mead``   a simplex that needs values alone (Nelder & Mead 1965): for up to some ten unknowns and functions
                      with kinks; the tolerance is of its size, and the gradient of the result nan
    ================  ===================================================================================

    Line searches satisfy the strong Wolfe conditions; with bounds steps are projected (Bertsekas 1982).

    Args:
        fn: a function of a tree and ``args`` that returns a real scalar.
        init: the start, a tree of arrays; leaves that are not trained stay as they are.
        *args: what else ``fn`` takes, any trees.
        method: how directions are found.
        bounds: ``(lower, upper)``, each None, a number, or a tree of the structure of ``init``.
        equalities: a function of the same arguments whose results, any tree, are 0 at the minimum.
        inequalities: a function of the same arguments whose results are 0 or more. With either the method is that of
            augmented Lagrangians, on BFGS, with Newton's steps at the end, and the result a `ConstrainedResult`.
        tolerance: of the largest component of the gradient (with bounds: of the projected one); without it the square
            root of the precision, 1.5e-8 in float64 and 3.5e-4 in float32.
        max_iterations: the limit.
        memory: how many pairs ``lbfgs`` keeps.

    Raises:
        ArgumentError: no such method; bounds that leave nothing between them.
        ShapeError: ``fn`` returns no scalar.

    >>> import afx
    >>> result = minimize(lambda x, a: afx.sum((x - a) ** 2), afx.zeros(2), afx.asarray([1.0, 2.0]))
    >>> result.x, result.reason
    (Array([1., 2.], dtype=float32), 'the tolerance is met')
    """
    start, unravel = flatten_to_vector(init, "minimize")
    start = stopped([start])[0]
    if equalities is not None or inequalities is not None:
        limit = float(np.sqrt(np.finfo(start.dtype).eps)) if tolerance is None else tolerance
        conditions = equalities or _none, inequalities or _none
        return _minimize_constrained(fn, conditions, start, unravel, args, bounds, limit, max_iterations, memory)
    problem = parametrize(fn, [unravel], [start.aval], args, "minimize")

    def value_of(x: Array, *params: Any) -> Array:
        value = asarray(problem.fn(x, *params))
        if value.shape != ():
            raise ShapeError(f"minimize: the function returns a real scalar: got {value.aval}; reduce it with afx.sum")
        return value.astype(x.dtype)

    held = stopped(problem.params)
    slope = grad(value_of)
    both = value_and_grad(value_of)
    box = box_of(bounds, start, "minimize")
    inside = None if box is None else box.stopped()
    limit = np.sqrt(np.finfo(start.dtype).eps) if tolerance is None else tolerance

    def objective(x: Array) -> tuple[Array, Array]:
        return both(x, *held)

    def plain_slope(x: Array) -> Array:
        return slope(x, *held)

    def product(x: Array, v: Array) -> Array:
        return jvp(plain_slope, (x,), (v,))[1]

    if method == "nelder_mead":
        corner = shrink_simplex(lambda x: value_of(x, *held), start, float(limit), max_iterations, inside)
        x = attach_minimum(slope, corner.corners[0], problem.params, box, corner.status)
        value = corner.values[0] if x is corner.corners[0] else value_of(x, *problem.params)
        unknown = unravel(full(x.shape, np.nan, x.dtype))
        return MinimizeResult(corner.iterations, corner.evaluations, corner.status, unravel(x), value, unknown)

    end: Region | State[Any]
    if method == "trust_region":
        end = trust(objective, product, start, float(limit), max_iterations, inside)
    else:
        end = descend(objective, _direction(method, memory, product), start, float(limit), max_iterations, inside)

    x = attach_minimum(slope, end.point.x, problem.params, box, end.status)
    value, gradient = end.point.value, end.point.gradient
    if x is not end.point.x:  # so that they have derivatives too
        value, gradient = both(x, *problem.params)
    return MinimizeResult(end.iterations, end.evaluations, end.status, unravel(x), value, unravel(gradient))


def _none(*_: Any) -> tuple[()]:
    return ()


def _minimize_constrained(
    fn: Callable[..., Array],
    conditions: tuple[Callable[..., Any], Callable[..., Any]],
    start: Array,
    unravel: Callable[[Array], Any],
    args: Any,
    bounds: tuple[Any, Any] | None,
    tolerance: float,
    max_iterations: int,
    memory: int,
) -> ConstrainedResult[Any]:
    """Return a minimum under equalities and inequalities."""

    def joint(x: Any, *rest: Any) -> tuple[Array, Array, Array]:
        value = asarray(fn(x, *rest))
        if value.shape != ():
            raise ShapeError(f"minimize: the function returns a real scalar: got {value.aval}; reduce it with afx.sum")
        c, g = [as_vector(of(x, *rest), start.dtype, "minimize") for of in conditions]
        return value.astype(start.dtype), c, g

    for condition in conditions:
        check_callable(condition, "minimize")
    problem = parametrize(joint, [unravel], [start.aval], args, "minimize")
    params = problem.params
    _, c, g = eval_shape(problem.fn, start, *stopped(params))
    whole = Problem(problem.fn, c.shape[0], g.shape[0], box_of(bounds, start, "minimize"))
    end = constrain(whole, start, params, tolerance, max_iterations, memory)
    value, c, g = problem.fn(end.x, *params)

    def value_at(x: Array) -> Array:
        return problem.fn(x, *params)[0]

    gradient = grad(value_at)(end.x)
    work = end.iterations, end.evaluations, end.status
    return ConstrainedResult(*work, unravel(end.x), value, unravel(gradient), end.of_c, end.of_g, c, g)


def _direction(method: str, memory: int, product: Callable[[Array, Array], Array]) -> Direction[Any]:
    if method == "lbfgs":
        if memory < 1:
            raise ArgumentError(f"minimize: memory is a number of pairs: got {memory}; give 1 or more")
        return Lbfgs(memory)
    if method == "bfgs":
        return Bfgs()
    if method == "newton_cg":
        return NewtonCg(product)
    raise ArgumentError(
        f"minimize: no such method: got {method!r}; use 'lbfgs', 'bfgs', 'newton_cg', 'trust_region' or 'nelder_mead'"
    )
