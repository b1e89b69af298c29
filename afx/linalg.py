"""Linear algebra: systems, determinants and factorisations, and products and norms under the names of the array API standard."""

from afx.ops.axes import matrix_transpose
from afx.ops.diagonals import diagonal
from afx.ops.diagonals import matrix_trace as trace
from afx.ops.factorization import EighResult, cholesky, eigh, eigvalsh
from afx.ops.linalg import (
    SlogdetResult,
    det,
    inv,
    matrix_norm,
    matrix_power,
    norm,
    slogdet,
    solve,
)
from afx.ops.matrix import cross, matmul, outer, tensordot, vecdot
from afx.ops.moments import vector_norm

__all__ = [
    "EighResult",
    "SlogdetResult",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "norm",
    "outer",
    "slogdet",
    "solve",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
