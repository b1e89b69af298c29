"""Linear algebra: the array API standard's extension and NumPy's, differentiable in every order; leading axes are batches.

Systems, inverses, determinants, factorisations, eigenvalues and singular values are beside the products and norms that
afx has at its top level too.
"""

from afx.ops.axes import matrix_transpose
from afx.ops.determinants import SlogdetResult, det, slogdet
from afx.ops.diagonals import diagonal
from afx.ops.diagonals import matrix_trace as trace
from afx.ops.eigen import EighResult, EigResult, eig, eigh, eigvals, eigvalsh
from afx.ops.factorization import cholesky
from afx.ops.leastsquares import LstsqResult, lstsq, pinv
from afx.ops.linalg import inv, solve, tensorinv, tensorsolve
from afx.ops.lu import LUResult, lu
from afx.ops.matrix import cross, kron, matmul, outer, tensordot, vecdot
from afx.ops.matrixfunctions import expm, matrix_power, multi_dot
from afx.ops.moments import vector_norm
from afx.ops.norms import cond, matrix_norm, matrix_rank, norm
from afx.ops.qr import QRResult, qr
from afx.ops.svd import SVDResult, svd, svdvals
from afx.ops.triangular import solve_triangular

__all__ = [
    "EigResult",
    "EighResult",
    "LUResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "kron",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
