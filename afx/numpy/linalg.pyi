# generated: run python -m tests.generate_names, with NumPy 2.4
# Typed as for Arrays: without one among the operands, functions give NumPy's ndarrays, which are taken as Arrays are.

from afx.linalg import cholesky as cholesky
from afx.linalg import cond as cond
from afx.linalg import cross as cross
from afx.linalg import det as det
from afx.linalg import diagonal as diagonal
from afx.linalg import eig as eig
from afx.linalg import eigh as eigh
from afx.linalg import eigvals as eigvals
from afx.linalg import eigvalsh as eigvalsh
from afx.linalg import inv as inv
from afx.linalg import lstsq as lstsq
from afx.linalg import matmul as matmul
from afx.linalg import matrix_norm as matrix_norm
from afx.linalg import matrix_power as matrix_power
from afx.linalg import matrix_rank as matrix_rank
from afx.linalg import matrix_transpose as matrix_transpose
from afx.linalg import multi_dot as multi_dot
from afx.linalg import norm as norm
from afx.linalg import outer as outer
from afx.linalg import pinv as pinv
from afx.linalg import qr as qr
from afx.linalg import slogdet as slogdet
from afx.linalg import solve as solve
from afx.linalg import svd as svd
from afx.linalg import svdvals as svdvals
from afx.linalg import tensordot as tensordot
from afx.linalg import tensorinv as tensorinv
from afx.linalg import tensorsolve as tensorsolve
from afx.linalg import trace as trace
from afx.linalg import vecdot as vecdot
from afx.linalg import vector_norm as vector_norm
from numpy.linalg import LinAlgError as LinAlgError
