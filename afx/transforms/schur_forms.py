"""Forms of matrices under unitary changes of basis: Schur's, real and complex, and Hessenberg's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, NoReturn, overload

import numpy as np

from afx.core import Array, ArrayLike, Aval, Primitive, bind, define
from afx.errors import MissingExtraError, ShapeError, TracerError
from afx.ops import abs as abs_, astype, conj, diagonal, hypot, pad, real, sqrt, triu, where
from afx.ops._kinds.linear import batch_unchanged
from afx.ops._kinds.matrix import adjoint, choice, diag_embed, floating, promote_pair, square
from afx.transforms.custom_derivatives import custom_jvp


class SchurResult(NamedTuple):
    """A triangular T, of real matrices with blocks of two rows where eigenvalues are complex, and a unitary Z."""

    T: Array
    Z: Array


class HessenbergResult(NamedTuple):
    """H with zeros below the diagonal beside the main one, and a unitary Q."""

    H: Array
    Q: Array


def schur(a: ArrayLike, output: Literal["real", "complex"] = "real") -> SchurResult:
    """Return T and Z with ``Z @ T @ Zᴴ = a``: eigenvalues stand on T's diagonal; needs the extra ``scipy``.

    It has no derivative: signs, phases and the order of eigenvalues are LAPACK's. `eig`, `eigh`, `sqrtm`, `logm`, `expm`
    and `funm` have theirs.

    Args:
        a: float[..., n, n], real or complex.
        output: ``"complex"`` gives real matrices a triangular T too.

    Raises:
        ShapeError: not square.
        TracerError: where it is differentiated.
        numpy.linalg.LinAlgError: nan or inf.

    >>> schur(np.array([[2.0, 1.0], [0.0, 3.0]])).T
    Array([[2., 1.],
           [0., 3.]], dtype=float64)
    """
    choice("schur", "output", output, ("real", "complex"))
    return SchurResult(*_bind("schur", a, output))


@overload
def hessenberg(a: ArrayLike, calc_q: Literal[False] = False) -> Array: ...
@overload
def hessenberg(a: ArrayLike, calc_q: Literal[True]) -> HessenbergResult: ...
def hessenberg(a: ArrayLike, calc_q: bool = False) -> Array | HessenbergResult:
    """Return H, or H and Q with ``Q @ H @ Qᴴ = a``, where H is 0 below the first diagonal under the main one.

    It has no derivative, as `schur` has none, and needs the extra ``scipy``.

    Raises:
        ShapeError: not square.
        TracerError: where it is differentiated.
        numpy.linalg.LinAlgError: nan or inf.

    >>> hessenberg(np.diag([1.0, 2.0, 3.0]))
    Array([[1., 0., 0.],
           [0., 2., 0.],
           [0., 0., 3.]], dtype=float64)
    """
    h, q = _bind("hessenberg", a, "real")
    return HessenbergResult(h, q) if calc_q else h


def _bind(name: str, a: ArrayLike, output: str) -> tuple[Array, Array]:
    x = floating(a, name)
    square(x.aval, name)

    def refuse(_primals: Any, _tangents: Any) -> NoReturn:
        raise TracerError(
            f"{name}: has no derivative: got {x.aval}; use eig, eigh, sqrtm, logm, expm or funm, which have one, "
            "or afx.stop_gradient where none is wanted"
        )

    def form(x: Array) -> Any:
        return bind(unitary_form_p, x, name=name, output=output)

    run: Callable[[Array], tuple[Array, Array]] = custom_jvp(form, refuse)
    return run(x)


def _abstract(a: Aval, *, name: str, output: str) -> tuple[Aval, Aval]:
    square(a, name)
    dtype = np.result_type(a.dtype, np.complex64) if output == "complex" else a.dtype
    return Aval(a.shape, dtype), Aval(a.shape, dtype)


def _run(a: Any, *, name: str, output: str) -> tuple[Any, Any]:
    form, basis = (np.empty(z.shape, z.dtype) for z in _abstract(Aval(a.shape, a.dtype), name=name, output=output))
    try:
        module = importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise MissingExtraError(f"{name}: needs SciPy, which is not installed; pip install 'afx[scipy]'") from error
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
    compute = (
        functools.partial(module.schur, output=output)
        if name == "schur"
        else functools.partial(module.hessenberg, calc_q=True)
    )
    for k in np.ndindex(a.shape[:-2]) if a.size else ():
        form[k], basis[k] = compute(a[k])
    return form, basis


unitary_form_p: Primitive = define(
    name="unitary_form",
    kind="nondifferentiable",
    impl=_run,
    abstract_eval=_abstract,
    batch=batch_unchanged("unitary_form"),
    calls_lapack=True,
    multiple_results=True,
)


def rsf2csf(T: ArrayLike, Z: ArrayLike) -> SchurResult:
    """Return the complex Schur form of a real one: each block of two rows is turned until it is triangular.

    Args:
        T: float[..., n, n], as `schur` gives it.
        Z: float[..., n, n].

    Raises:
        ShapeError: not square, or of different shapes.

    >>> rsf2csf(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2)).T.imag
    Array([[ 1.,  0.],
           [ 0., -1.]], dtype=float64)
    """
    form, basis = promote_pair(T, Z, "rsf2csf")
    square(form.aval, "rsf2csf")
    if form.shape != basis.shape:
        raise ShapeError(f"rsf2csf: T and Z are of one shape: got {form.aval} and {basis.aval}; take schur's")
    dtype = np.result_type(form.dtype, np.complex64)
    if not form.shape[-1]:
        return SchurResult(astype(form, dtype), astype(basis, dtype))
    turns = _turns(form, dtype)
    return SchurResult(triu(turns @ form @ adjoint(turns)), basis @ adjoint(turns))


def _turns(form: Array, dtype: np.dtype[Any]) -> Array:
    """Return the unitary matrix, blocks of two rows on its diagonal, that makes blocks triangular."""
    main, below, above = diagonal(form), diagonal(form, offset=-1), diagonal(form, offset=1)
    first, second = main[..., :-1], main[..., 1:]
    is_block = abs_(below) > np.finfo(float).eps * (abs_(first) + abs_(second))
    half = (first - second) / 2
    root = sqrt(astype(where(is_block, half * half + below * above, 1), dtype))
    value = half + where(real(conj(half) * root) < 0, -root, root)  # LAPACK's first eigenvalue less the second number
    length = where(is_block, hypot(abs_(value), abs_(below)), 1)
    cosine, sine = where(is_block, value / length, 1), where(is_block, below / length, 0)
    lead = [(0, 0)] * (main.ndim - 1)
    ones = [pad(x, [*lead, ends], constant_values=1) for x, ends in ((conj(cosine), (0, 1)), (cosine, (1, 0)))]
    upper = pad(diag_embed(sine), [*lead, (0, 1), (1, 0)])
    return diag_embed(ones[0] * ones[1]) + upper - upper.swapaxes(-1, -2)
