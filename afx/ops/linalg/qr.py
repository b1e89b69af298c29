"""QR factorization: of stacks of matrices.

The rules are those of Walter & Lehmann 2010, "Algorithmic differentiation of linear algebra functions with application
in optimum experimental design", for complex matrices with the conjugate transpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.ops._kinds.matrix import adjoint, arrays, choice, conjugate, floating, matrices, matrix_op, transposed
from afx.ops.creation.creation import zeros
from afx.ops.creation.matrices import eye, triu
from afx.ops.elementwise.complex import real
from afx.ops.linalg.triangular import right_solve_triangular
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import broadcast_to

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["QRResult", "qr"]


class QRResult(NamedTuple):
    """An orthogonal (unitary) Q and an upper triangular R whose product is the matrix."""

    Q: Array
    R: Array


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...


@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> Array: ...


def qr(a: ArrayLike, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult | Array:
    """Return Q with orthonormal columns and the upper triangular R with ``Q @ R = a``.

    Derivatives exist where the first min(m, n) columns of a are linearly independent. The columns that "complete" adds
    to a tall matrix's Q are any basis of what is left: their derivative is the one that turns them no more than they
    must, so that functions of the space they span have right derivatives.

    Args:
        a: float[..., m, n], real or complex.
        mode: "reduced" gives Q[..., m, k] and R[..., k, n] with k = min(m, n), "complete" Q[..., m, m] and R[..., m, n],
            "r" only the R of "reduced".

    Raises:
        ShapeError: no matrices.
        ArgumentError: another mode.
        numpy.linalg.LinAlgError: where it is differentiated and R has a 0 on its diagonal.

    >>> qr(afx.asarray([[0.0, 2.0], [1.0, 3.0]])).R
    Array([[-1., -3.],
           [ 0., -2.]], dtype=float32)
    """
    choice("qr", "mode", mode, ("reduced", "complete", "r"))
    x = floating(a, "qr")
    matrices(x.aval, "qr")
    rows, columns = x.shape[-2:]
    if rows >= columns:
        q, r = bind(qr_p, x, full=mode == "complete" and rows > columns)
    else:  # the columns beyond the square are expressed in those of Q
        q, r = bind(qr_p, x[..., :rows], full=False)
        r = concat([r, adjoint(q) @ x[..., rows:]], axis=-1)
    return r if mode == "r" else QRResult(q, r)


def _abstract(a: Aval, *, full: bool) -> tuple[Aval, Aval]:
    matrices(a, "qr")
    *lead, m, n = a.shape
    k = m if full else min(m, n)
    return Aval((*lead, m, k), a.dtype), Aval((*lead, k, n), a.dtype)


def _run(a: Any, *, full: bool) -> Any:
    return arrays(np.linalg.qr(a, mode="complete" if full else "reduced"))


def _mirror_triangle(x: Array) -> Array:
    """Return the Hermitian matrix with the upper triangle of x, its diagonal's real part."""
    above = triu(x, k=1)
    found: Array = above + adjoint(above) + real(x) * eye(x.shape[-1], dtype=real(x).dtype)
    return found


def _push(t: Array, z: tuple[Array, Array], a: Array, *, full: bool) -> tuple[Array, Array]:
    n = t.shape[-1]
    q, r = z[0][..., :n], z[1][..., :n, :]
    c = right_solve_triangular(t, r, lower=False)
    inner = adjoint(q) @ c
    below = inner - triu(inner)
    # dR R⁻¹: upper triangular with a real diagonal; what is left of inner is skew-Hermitian
    upper = triu(inner, k=1) + adjoint(below) + real(inner) * eye(n, dtype=real(inner).dtype)
    dq, dr = c - q @ upper, upper @ r
    if not full:
        return dq, dr
    others = z[0][..., n:]
    blank = broadcast_to(zeros((), dtype=t.dtype), (*t.shape[:-2], others.shape[-1], n))
    return concat([dq, -q @ (adjoint(c) @ others)], axis=-1), concat([dr, blank], axis=-2)


def _pull(ct: tuple[Array, Array], z: tuple[Array, Array], a: Any, *, full: bool) -> Array:
    n = z[1].shape[-1]
    q, r, cq, cr = z[0][..., :n], z[1][..., :n, :], ct[0][..., :n], ct[1][..., :n, :]
    c = cq + conjugate(q) @ _mirror_triangle(cr @ transposed(r) - transposed(q) @ cq)
    if full:
        others = z[0][..., n:]
        c = c - conjugate(others) @ (adjoint(ct[0][..., n:]) @ conjugate(q))
    return right_solve_triangular(c, transposed(r), lower=True)


def _native(xp: Recorder, q: Any, r: Any, a: Any, *, full: bool) -> None:
    """Make Q of the reflections that LAPACK leaves below R, as NumPy does."""
    xp.matrix(a)
    raw, tau = xp.new(a.shape, "f8"), xp.new((*a.shape[:-2], min(a.shape[-2:])), "f8")
    xp.copy(raw, a)
    ignored = ("divide", "over")  # as by NumPy, which raises where an argument is wrong, and never here
    xp.call("linalg.qr_r_raw", [raw], [tau], refuses=False, quiet=ignored, changes=1)
    xp.call("linalg.qr_complete" if full else "linalg.qr_reduced", [raw, tau], [q], refuses=False, quiet=ignored)
    xp.give(r, xp.where(np.triu(np.ones(r.shape[-2:], bool)), raw[..., : r.shape[-2], :], 0.0))


qr_p: Primitive = matrix_op("qr", _run, _abstract, _push, _pull, reads=1, multiple_results=True, native=_native)
