"""Linear algebra: the array API standard's extension and NumPy's, differentiable in every order; leading axes are batches.

Systems, inverses, determinants, factorisations, eigenvalues and singular values are beside the products and norms that
afx has at its top level too.
"""

from typing import TYPE_CHECKING, NoReturn

from afx.control.implicit_solution import IterativeResult
from afx.control.linear_solvers import bicgstab, cg, gmres
from afx.control.lsmr import lsmr
from afx.ops.linalg.banded import solve_banded
from afx.ops.linalg.cholesky import cholesky
from afx.ops.linalg.determinants import SlogdetResult, det, slogdet
from afx.ops.linalg.eigen import EighResult, EigResult, eig, eigh, eigvals, eigvalsh
from afx.ops.linalg.factored import LUFactorResult, cho_factor, cho_solve, lu_factor, lu_solve
from afx.ops.linalg.lstsq import LstsqResult, lstsq, pinv
from afx.ops.linalg.lu import LUResult, lu
from afx.ops.linalg.matrix_functions import expm, matrix_power, multi_dot
from afx.ops.linalg.norms import cond, matrix_norm, matrix_rank, norm
from afx.ops.linalg.polar import PolarResult, polar
from afx.ops.linalg.products import cross, kron, matmul, outer, tensordot, vecdot
from afx.ops.linalg.qr import QRResult, qr
from afx.ops.linalg.roots import fractional_matrix_power, logm, sqrtm
from afx.ops.linalg.solve import inv, solve, tensorinv, tensorsolve
from afx.ops.linalg.svd import SVDResult, svd, svdvals
from afx.ops.linalg.sylvester import solve_sylvester
from afx.ops.linalg.triangular import solve_triangular
from afx.ops.manipulation.axes import matrix_transpose
from afx.ops.manipulation.diagonals import diagonal
from afx.ops.manipulation.diagonals import matrix_trace as trace
from afx.ops.reductions.moments import vector_norm
from afx.other_names import missing_name
from afx.transforms.funm import funm

__all__ = [
    "EigResult",
    "EighResult",
    "IterativeResult",
    "LUFactorResult",
    "LUResult",
    "LstsqResult",
    "PolarResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "bicgstab",
    "cg",
    "cho_factor",
    "cho_solve",
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
    "fractional_matrix_power",
    "funm",
    "gmres",
    "inv",
    "kron",
    "logm",
    "lsmr",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "polar",
    "qr",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers shall go on to refuse names that are not there

    def __getattr__(name: str) -> NoReturn:
        raise missing_name(__name__, name)
