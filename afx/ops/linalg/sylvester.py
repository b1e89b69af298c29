"""Sylvester's equation: solutions for stacks of matrices.

Its solution X of ``A X + X B = C`` differentiates by the same equation: ``A dX + dX B = dC - dA X - X dB``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, broadcast_shapes
from afx.core.dtypes import promote
from afx.core.primitive import Params, Primitive, Value, define
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.errors import ShapeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.matrix import floating, plain, square, transposed
from afx.ops.manipulation.shape import astype, broadcast_to

__all__ = ["solve_lyapunov", "solve_sylvester"]


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Return x with ``a @ x + x @ b = q``, as one linear system of m·n unknowns.

    Args:
        a: float[..., m, m], real or complex.
        b: float[..., n, n]; no eigenvalue of it is minus one of a.
        q: float[..., m, n].

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: there is no solution, or more than one.

    >>> solve_sylvester(np.array([[2.0]]), np.array([[1.0]]), np.array([[6.0]]))
    Array([[2.]], dtype=float64)
    """
    operands = [floating(x, "solve_sylvester") for x in (a, b, q)]
    dtype = promote(tuple([x.dtype for x in operands]), (False,) * 3)
    x, y, z = [astype(x, dtype) for x in operands]
    square(x.aval, "solve_sylvester")
    square(y.aval, "solve_sylvester")
    lead = broadcast_shapes([x.shape[:-2], y.shape[:-2], z.shape[:-2]])
    if lead is None or z.shape[-2:] != (x.shape[-1], y.shape[-1]):
        raise ShapeError(
            f"solve_sylvester: q has the rows of a and the columns of b: got {x.aval}, {y.aval} and {z.aval}; reshape q"
        )
    full = [broadcast_to(v, (*lead, *v.shape[-2:])) for v in (x, y, z)]
    return bind_single(sylvester_p, *full, hermitian=False)


def solve_lyapunov(h: Array, q: Array) -> Array:
    """Return x with ``h @ x + x @ h = q`` for symmetric (Hermitian) h; what is undetermined is 0."""
    return bind_single(sylvester_p, h, h, q, hermitian=True)


def _abstract(a: Aval, b: Aval, q: Aval, *, hermitian: bool) -> Aval:
    square(a, "solve_sylvester")
    return q


def _impl(a: Any, b: Any, q: Any, *, hermitian: bool) -> Any:
    square(Aval(a.shape, a.dtype), "solve_sylvester")
    if hermitian:
        w, v = np.linalg.eigh(a)
        vh = v.swapaxes(-1, -2).conj()
        sums = w[..., :, None] + w[..., None, :]
        inner = vh @ q @ v
        return v @ np.divide(inner, sums, out=np.zeros_like(inner), where=sums != 0) @ vh
    m, n = q.shape[-2:]
    one, other = np.eye(m, dtype=a.dtype), np.eye(n, dtype=a.dtype)
    system = np.einsum("...ij,kl->...ikjl", a, other) + np.einsum("ij,...lk->...ikjl", one, b)
    right = q.reshape(*q.shape[:-2], m * n, 1)
    return plain(np.linalg.solve(system.reshape(*q.shape[:-2], m * n, m * n), right)).reshape(q.shape)


def _push(tangents: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    ta, tb, tq = tangents
    terms = [tq] if tq is not None else []
    terms += [-(ta @ z)] if ta is not None else []
    terms += [-(z @ tb)] if tb is not None else []
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return to_lower_level(bind_single(sylvester_p, xs[0], xs[1], total, **params))


def _pull(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value | None]:
    y = bind_single(sylvester_p, transposed(xs[0]), transposed(xs[1]), ct, **params)
    found = [
        -(y @ transposed(z)) if avals[0] is not None else None,
        -(transposed(z) @ y) if avals[1] is not None else None,
        y if avals[2] is not None else None,
    ]
    return [None if v is None else to_lower_level(v) for v in found]


sylvester_p: Primitive = define(
    name="solve_sylvester",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract,
    vjp_all=_pull,
    reads=(7, 7, 6),
    jvp=_push,
    batch=batch_along_axes("solve_sylvester"),
    calls_lapack=True,
)
