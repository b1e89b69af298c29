"""Sparse matrices: compressed rows whose pattern is structure, with products and solutions, and iterative solvers.

`afx.sparse_jacobian` and `afx.sparse_hessian` give matrices that `Csr.from_sparse` takes. The solvers are those of
`afx.linalg`: matrices may be functions, such as ``lambda x: a @ x``.
"""

from afx.control.linear_solvers import bicgstab, cg, gmres, lsmr
from afx.errors import refuse_names
from afx.transforms.sparse.sparse_matrix import Csr, Pattern

__all__ = ["Csr", "Pattern", "bicgstab", "cg", "gmres", "lsmr"]

refuse_names(__name__)
