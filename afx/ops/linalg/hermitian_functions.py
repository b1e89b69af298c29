"""Hermitian matrix functions: derivatives of every order, at equal eigenvalues too.

With eigenvalues w, projectors P and divided differences f[…], the operation of order k is

    M(a; t1, …, tk) = Σ f[w_0, …, w_k] P_0 t1 P_1 t2 … tk P_k,

linear in each t; order 0 is f(a). Its derivative by a is the sum of those with one more direction at every position
(Daleckii & Krein 1965). Its transposes are itself with exchanged operands. No eigenvector is differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import Aval
from afx.core.primitive import Params, Primitive, Value, define
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.matrix import hermitian, square, transposed
from afx.ops.linalg._divided_differences import Scalar, divided_differences

__all__ = ["hermitian_function"]

LETTERS = "abcdefghijklm"


def hermitian_function(a: Array, fn: Scalar) -> Array:
    """Return a function of the symmetric (Hermitian) part of matrices."""
    return bind_single(hermitian_function_p, a, fn=fn)


def _abstract(a: Aval, *ts: Aval, fn: Scalar) -> Aval:
    square(a, "hermitian_function")
    return a


def _impl(a: Any, *ts: Any, fn: Scalar) -> Any:
    square(Aval(a.shape, a.dtype), "hermitian_function")
    half = a.astype(np.result_type(a.dtype, np.float64)) / 2
    w, v = np.linalg.eigh(half + half.swapaxes(-1, -2).conj())
    rounding = w.shape[-1] * np.finfo(a.dtype).eps * np.abs(w).max(axis=-1, keepdims=True, initial=0)
    w = w * ~((w < 0) & (w >= -rounding))  # of a semidefinite matrix, 0 up to rounding
    vh = v.swapaxes(-1, -2).conj()
    f = divided_differences(fn, w, len(ts))
    if not ts:
        return ((v * f[..., None, :]) @ vh).astype(a.dtype)
    axes = LETTERS[: len(ts) + 1]
    pairs = [f"...{axes[k : k + 2]}" for k in range(len(ts))]
    inner = np.einsum(f"...{axes},{','.join(pairs)}->...{axes[0]}{axes[-1]}", f, *[vh @ t @ v for t in ts])
    return (v @ inner @ vh).astype(a.dtype)


def _bind(fn: Scalar, a: Array, ts: list[Array]) -> Array:
    return bind_single(hermitian_function_p, a, *ts, fn=fn)


def _push(tangents: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    a, *ts = xs
    fn: Scalar = params["fn"]
    terms = [_bind(fn, a, [*ts[:k], t, *ts[k + 1 :]]) for k, t in enumerate(tangents[1:]) if t is not None]
    if tangents[0] is not None:
        t = hermitian(tangents[0])
        terms += [_bind(fn, a, [*ts[:k], t, *ts[k:]]) for k in range(len(ts) + 1)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return to_lower_level(total)


def _pull(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value | None]:
    a, *ts = xs
    fn: Scalar = params["fn"]
    g = transposed(ct)
    found: list[Value | None] = [None] * len(xs)
    if avals[0] is not None:
        total = _bind(fn, a, [*ts, g])
        for k in range(1, len(ts) + 1):
            total = total + _bind(fn, a, [*ts[k:], g, *ts[:k]])
        found[0] = to_lower_level(hermitian(transposed(total)))
    for k in range(len(ts)):
        if avals[k + 1] is not None:
            found[k + 1] = to_lower_level(transposed(_bind(fn, a, [*ts[k + 1 :], g, *ts[:k]])))
    return found


hermitian_function_p: Primitive = define(
    name="hermitian_function",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract,
    vjp_all=_pull,
    reads=(-1,),
    jvp=_push,
    batch=batch_along_axes("hermitian_function"),
    calls_lapack=True,
)
