"""Linear algebra: the array API standard's extension and NumPy's, differentiable in every order; leading axes are batches.

Systems, inverses, determinants, factorisations, eigenvalues and singular values are beside the products and norms that
afx has at its top level too.
"""

from afx.control.linear_solvers import IterativeResult, bicgstab, cg, gmres, lsmr
from afx.errors import refuse_names
from afx.ops.linalg.banded import solve_banded
from afx.ops.linalg.factorizations import (
    LUFactorResult,
    LUResult,
    QRResult,
    cho_factor,
    cho_solve,
    cholesky,
    lu,
    lu_factor,
    lu_solve,
    qr,
    solve_triangular,
)
from afx.ops.linalg.matrix_functions import expm, fractional_matrix_power, logm, matrix_power, multi_dot, sqrtm
from afx.ops.linalg.norms import (
    LstsqResult,
    PolarResult,
    QdwhResult,
    cond,
    lstsq,
    matrix_norm,
    matrix_rank,
    norm,
    pinv,
    polar,
    qdwh,
    solve_sylvester,
)
from afx.ops.linalg.products import cross, kron, matmul, outer, tensordot, vecdot
from afx.ops.linalg.solve import SlogdetResult, det, inv, slogdet, solve, tensorinv, tensorsolve
from afx.ops.linalg.spectra import EighResult, EigResult, SVDResult, eig, eigh, eigvals, eigvalsh, svd, svdvals
from afx.ops.linalg.structured import (
    block_diag,
    cholesky_update,
    circulant,
    companion,
    convolution_matrix,
    dft,
    eigh_tridiagonal,
    expm_frechet,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    householder_product,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    qr_multiply,
    symmetric_product,
    toeplitz,
    tridiagonal_solve,
)
from afx.ops.manipulation.edit import diagonal, matrix_trace as trace
from afx.ops.manipulation.join import matrix_transpose
from afx.ops.reductions.moments import vector_norm
from afx.transforms.funm import funm
from afx.transforms.schur_forms import HessenbergResult, SchurResult, hessenberg, rsf2csf, schur

__all__ = [
    "EigResult", "EighResult", "HessenbergResult", "IterativeResult", "LUFactorResult", "LUResult", "LstsqResult",
    "PolarResult", "QRResult", "QdwhResult", "SVDResult", "SchurResult", "SlogdetResult", "bicgstab", "block_diag",
    "cg", "cho_factor", "cho_solve", "cholesky", "cholesky_update", "circulant", "companion", "cond",
    "convolution_matrix", "cross", "det", "dft", "diagonal", "eig", "eigh", "eigh_tridiagonal", "eigvals", "eigvalsh",
    "expm", "expm_frechet", "fiedler", "fiedler_companion", "fractional_matrix_power", "funm", "gmres", "hadamard",
    "hankel", "helmert", "hessenberg", "hilbert", "householder_product", "inv", "invhilbert", "invpascal", "kron",
    "leslie", "logm", "lsmr", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pascal", "pinv", "polar", "qdwh", "qr",
    "qr_multiply", "rsf2csf", "schur", "slogdet", "solve", "solve_banded", "solve_sylvester", "solve_triangular",
    "sqrtm", "svd", "svdvals", "symmetric_product", "tensordot", "tensorinv", "tensorsolve", "toeplitz", "trace",
    "tridiagonal_solve", "vecdot", "vector_norm",
]  # fmt: skip

refuse_names(__name__)
