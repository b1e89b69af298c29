"""SciPy's solvers on trees of arrays: derivatives are filled in and everything is compiled (extra ``scipy``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx import pytree
from afx.control.solving import as_scalar, as_vector, bound_vector, flatten_to_vector
from afx.core import Array, DTypeLike, Function, Shown, aval_of, is_inexact
from afx.errors import MissingExtraError
from afx.ops import asarray
from afx.optim.solvers.descend import ends_of
from afx.transforms._arguments import check_callable
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import grad, value_and_grad
from afx.transforms.derivatives.jacobian import jacfwd, jacrev
from afx.transforms.derivatives.jvp import jvp

__all__ = ["ScipyResult", "scipy_least_squares", "scipy_minimize", "scipy_root"]


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GRADIENTS = frozenset(
    [
        "cg",
        "bfgs",
        "newton-cg",
        "l-bfgs-b",
        "tnc",
        "slsqp",
        "dogleg",
        "trust-ncg",
        "trust-krylov",
        "trust-exact",
        "trust-constr",
    ]
)
HESSIANS = frozenset(("dogleg", "trust-exact"))  # methods that need the matrix
PRODUCTS = frozenset(("newton-cg", "trust-ncg", "trust-krylov", "trust-constr"))
WITHOUT_JACOBIAN = frozenset(
    ["broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "krylov", "df-sane"]
)


@attrs.frozen(eq=False)
class ScipyResult(Shown, Generic[T]):
    """What a solver of SciPy found.

    Attributes:
        x: the point, a tree as the start was.
        value: the function there: a scalar, or the residuals as a vector.
        iterations: how many there were, -1 where SciPy does not tell.
        evaluations: of the function.
        converged: whether SciPy calls it a success.
        reason: SciPy's message.
        scipy: SciPy's own result, of vectors.
    """

    x: T
    value: Array
    iterations: int
    evaluations: int
    converged: bool
    reason: str
    scipy: Any


def scipy_minimize(
    fn: Callable[[T, *Ts], Array],
    init: T,
    *args: *Ts,
    method: str | None = None,
    bounds: tuple[Any, Any] | None = None,
    tolerance: float | None = None,
    options: Mapping[str, Any] | None = None,
    dtype: DTypeLike = np.float64,
) -> ScipyResult[T]:
    """Return a local minimum of ``fn(x, *args)`` by `scipy.optimize.minimize`.

    The function is compiled with its gradient; methods that use them get the Hessian or its products with vectors. The
    result is no function of parameters for derivatives: `minimize` is.

    Args:
        fn: a function of a tree and ``args`` that returns a real scalar.
        init: the start, a tree of arrays; leaves that are not trained stay.
        *args: what else ``fn`` takes, any trees.
        method: one of SciPy's, such as "BFGS", "L-BFGS-B", "Newton-CG", "trust-exact"; SciPy chooses without it.
        bounds: ``(lower, upper)``, each None, a number, or a tree of the structure of ``init``.
        tolerance: SciPy's ``tol``.
        options: SciPy's options of the method.
        dtype: in which the floating leaves of ``init`` are computed, and returned.

    Raises:
        MissingExtraError: SciPy is not installed.
        ShapeError: ``fn`` returns no scalar.
        DtypeError: it is no real number.

    >>> import afx
    >>> scipy_minimize(lambda x: afx.sum((x - 2.0) ** 2), afx.zeros(2), method="BFGS").x
    Array([2., 2.], dtype=float64)
    """
    optimize = _optimize("scipy_minimize")
    start, unravel = _start(fn, init, dtype, "scipy_minimize")

    def value_of(v: Array) -> Array:
        return as_scalar(fn(unravel(v), *args), v.dtype, "scipy_minimize", "fiu")

    given: dict[str, Any] = {"method": method, "tol": tolerance, "options": dict(options or {})}
    run, derivatives = _derivatives(value_of, (method or "bfgs").lower(), start)
    if bounds is not None:
        given["bounds"] = optimize.Bounds(*_ends(bounds, start, "scipy_minimize"))
    return _read_result(optimize.minimize(run, np.array(start), **given, **derivatives), unravel, start)


def _derivatives(value_of: Function, method: str, start: Array) -> tuple[Function, dict[str, Any]]:
    """Return the function that a method of SciPy's calls, and the arguments that say which derivatives it has."""
    slope, given = grad(value_of), dict[str, Any]()

    def product(v: Array, t: Array) -> Array:
        return jvp(slope, (v,), (t,))[1]

    if method in HESSIANS:
        given["hess"] = _plain(jit(jacfwd(slope)), start)
    if method in PRODUCTS:
        given["hessp"] = _plain(jit(product), start)
    if method in GRADIENTS:
        return _plain(jit(value_and_grad(value_of)), start), given | {"jac": True}
    return _plain(jit(value_of), start), given


def _ends(bounds: tuple[Any, Any], start: Array, who: str) -> list[Any]:
    """Return lower and upper bounds as vectors, infinite where there is none."""
    return [
        np.asarray(bound_vector(b, s * np.inf, start, who)) for b, s in zip(ends_of(bounds, who), (-1, 1), strict=True)
    ]


def scipy_least_squares(
    fn: Callable[[T, *Ts], Any],
    init: T,
    *args: *Ts,
    method: str = "trf",
    bounds: tuple[Any, Any] | None = None,
    tolerance: float = 1e-8,
    options: Mapping[str, Any] | None = None,
    dtype: DTypeLike = np.float64,
) -> ScipyResult[T]:
    """Return a minimum of half the sum of squares of ``fn(x, *args)`` by `scipy.optimize.least_squares`.

    Args:
        fn: a function of a tree and ``args`` that returns residuals, any tree.
        init: the start, a tree of arrays; leaves that are not trained stay.
        *args: what else ``fn`` takes, any trees.
        method: "trf", "dogbox" or "lm".
        bounds: ``(lower, upper)``, each None, a number, or a tree of the structure of ``init``.
        tolerance: SciPy's ``ftol``, ``xtol`` and ``gtol``.
        options: other arguments of SciPy's, such as ``loss``.
        dtype: in which the floating leaves of ``init`` are computed, and returned.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> import afx
    >>> scipy_least_squares(lambda x: 10 * (x - 2.0), afx.zeros(2)).x
    Array([2., 2.], dtype=float64)
    """
    optimize = _optimize("scipy_least_squares")
    start, unravel = _start(fn, init, dtype, "scipy_least_squares")

    def residuals(v: Array) -> Array:
        return as_vector(fn(unravel(v), *args), v.dtype, "scipy_least_squares")

    run = jit(residuals)
    wide = run(start).shape[0] < start.shape[0]
    jacobian = jit((jacrev if wide else jacfwd)(residuals))
    functions = {"fun": _plain(run, start), "jac": _plain(jacobian, start)}
    ends = _ends(bounds or (None, None), start, "scipy_least_squares")
    given = {"ftol": tolerance, "xtol": tolerance, "gtol": tolerance, **(options or {})}
    found = optimize.least_squares(**functions, x0=np.array(start), bounds=ends, method=method, **given)
    return _read_result(found, unravel, start)


def scipy_root(
    fn: Callable[[T, *Ts], Any],
    init: T,
    *args: *Ts,
    method: str = "hybr",
    tolerance: float | None = None,
    options: Mapping[str, Any] | None = None,
    dtype: DTypeLike = np.float64,
) -> ScipyResult[T]:
    """Return a point where ``fn(x, *args)`` is 0 by `scipy.optimize.root`.

    Args:
        fn: a function of a tree and ``args`` that returns as many numbers as the tree has, in any tree.
        init: the start, a tree of arrays; leaves that are not trained stay.
        *args: what else ``fn`` takes, any trees.
        method: one of SciPy's, such as "hybr", "lm", "krylov"; those that use a Jacobian get it.
        tolerance: SciPy's ``tol``.
        options: SciPy's options of the method.
        dtype: in which the floating leaves of ``init`` are computed, and returned.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> import afx
    >>> scipy_root(lambda x: x * x - 4.0, afx.ones(2)).x
    Array([2., 2.], dtype=float64)
    """
    optimize = _optimize("scipy_root")
    start, unravel = _start(fn, init, dtype, "scipy_root")

    def residuals(v: Array) -> Array:
        return as_vector(fn(unravel(v), *args), v.dtype, "scipy_root")

    given: dict[str, Any] = {"method": method, "tol": tolerance, "options": dict(options or {})}
    if method.lower() not in WITHOUT_JACOBIAN:
        given["jac"] = _plain(jit(jacfwd(residuals)), start)
    return _read_result(optimize.root(_plain(jit(residuals), start), np.array(start), **given), unravel, start)


def _optimize(who: str) -> Any:
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise MissingExtraError(f"{who}: needs SciPy: pip install 'afx[scipy]'") from None


def _start(fn: Any, init: T, dtype: DTypeLike, who: str) -> tuple[Array, Callable[[Array], T]]:
    """Return the start as a vector of a dtype, and the function that makes a tree of such a vector."""
    check_callable(fn, who)
    wide = pytree.map(lambda x: asarray(x).astype(dtype) if is_inexact(aval_of(x).dtype) else x, init)
    return flatten_to_vector(wide, who)


def _plain(run: Function, start: Array) -> Function:
    """Return a compiled function as SciPy calls it: of NumPy's arrays, which it may write into, to such arrays."""

    def call(*vectors: Any) -> Any:
        out = run(*[asarray(np.asarray(v, start.dtype)) for v in vectors])
        return pytree.map(np.array, out)

    return call


def _read_result(result: Any, unravel: Callable[[Array], T], start: Array) -> ScipyResult[T]:
    value = asarray(np.asarray(result.fun, start.dtype))
    return ScipyResult(
        unravel(asarray(np.asarray(result.x, start.dtype))),
        value,
        int(getattr(result, "nit", -1)),
        int(getattr(result, "nfev", -1)),
        bool(result.success),
        str(result.message),
        result,
    )
