"""Sparse matrices: values and indices of the entries, with products, sums and multiples."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import promote
from afx.core.tracing.tracer import is_traced
from afx.errors import MissingExtraError, OperandError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.elementwise.arithmetic import divide
from afx.ops.indexing.gather import gather, scatter
from afx.ops.linalg.sparse_solve import solve_entries
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import astype, permute_dims, reshape
from afx.ops.sorting.partition import lexsort

__all__ = ["SparseMatrix"]


@attrs.frozen(eq=False, repr=False)
class SparseMatrix:
    """A matrix as the list of its entries.

    Attributes:
        values: float[entries], in row-major order.
        indices: int[entries, 2], the row and the column of each.
        shape: the numbers of rows and columns.

    >>> import afx
    >>> SparseMatrix(afx.ones(2), afx.asarray([[0, 1], [1, 0]]), (2, 2)) @ afx.asarray([1.0, 2.0])
    Array([2., 1.], dtype=float32)
    """

    values: Array
    indices: Array
    shape: tuple[int, int] = pytree.static()
    __array_ufunc__: ClassVar[None] = None  # NumPy's arrays leave their operators to this class

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SparseMatrix({self.values.dtype}[{rows},{columns}] of {self.nnz} entries)"

    @property
    def nnz(self) -> int:
        """The number of entries, those that happen to be 0 included."""
        return self.values.shape[0]

    @property
    def T(self) -> SparseMatrix:  # NumPy's name
        """The transpose; its entries are in row-major order too."""
        order = lexsort((self.indices[:, 0], self.indices[:, 1]))
        return SparseMatrix(
            gather(self.values, order), flip(gather(self.indices, order), axis=1), (self.shape[1], self.shape[0])
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise OperandError(
            f"asarray: a sparse matrix is no array: got {self!r}; take .toscipy() for SciPy, or .todense()"
        )

    def todense(self) -> Array:
        """Return float[rows, columns]."""
        return scatter(self.values, self.indices[:, 0], self.indices[:, 1], shape=self.shape)

    def toscipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` of the numbers, for SciPy's solvers.

        Raises:
            MissingExtraError: SciPy is not installed.
            ConcreteValueError: the values are traced.
        """
        try:
            sparse: Any = importlib.import_module("scipy.sparse")
        except ImportError:
            raise MissingExtraError("toscipy: needs SciPy: pip install 'afx[scipy]'") from None
        rows, columns = np.asarray(self.indices).T
        return sparse.csr_array((np.array(self.values), (rows, columns)), shape=self.shape)

    def solve(self, b: ArrayLike) -> Array:
        """Return x with ``self @ x = b`` by SciPy's SuperLU, differentiable by the values and b in every order.

        Args:
            b: float[n], or float[n, k], integers too; nan comes back where the matrix is singular, as from SciPy.

        Raises:
            ShapeError: the matrix is not square, or b does not fit it.
            MissingExtraError: SciPy is not installed.
        """
        values, x = promote_operands(self.values, b)
        dtype = promote((values.dtype, x.dtype), (False, False), floating=True)
        values, x = astype(values, dtype), astype(x, dtype)
        n = self.shape[0]
        if self.shape != (n, n) or x.ndim not in (1, 2) or x.shape[0] != n:
            raise ShapeError(f"solve: b fits a square matrix: got a sparse {self.shape} and {x.aval}; reshape it")
        columns = reshape(x, (-1, 1)) if x.ndim == 1 else x
        z = solve_entries(values, self.indices[:, 0], self.indices[:, 1], columns)
        return z[:, 0] if x.ndim == 1 else z

    def __matmul__(self, other: ArrayLike) -> Array:
        """Return the product with a vector or a matrix."""
        x = _read_dense(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"matmul: inner axes differ: got a sparse {self.shape} @ {x.aval}; transpose or reshape it"
            )
        values = self.values if x.ndim == 1 else reshape(self.values, (-1, 1))
        terms = values * gather(x, self.indices[:, 1])
        return scatter(terms, self.indices[:, 0], shape=(self.shape[0], *x.shape[1:]))

    def __rmatmul__(self, other: ArrayLike) -> Array:
        """Return the product of a vector or a matrix with this one."""
        return multiply_left(other, self)

    def __mul__(self, factor: ArrayLike) -> SparseMatrix:
        """Return the product with a number."""
        _check_number("multiply", self, factor)
        return attrs.evolve(self, values=self.values * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> SparseMatrix:
        """Return the quotient by a number."""
        _check_number("divide", self, divisor)
        return attrs.evolve(self, values=divide(self.values, divisor))

    def __neg__(self) -> SparseMatrix:
        return attrs.evolve(self, values=-self.values)

    def __add__(self, other: SparseMatrix) -> SparseMatrix:
        """Return the sum; entries at the same position are one."""
        if isinstance(other, int) and other == 0:  # where `sum` begins
            return self
        if hasattr(other, "pattern"):  # a `Csr`, which adds itself
            return NotImplemented
        if not isinstance(other, SparseMatrix):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
            raise OperandError(
                f"add: sparse matrices add to sparse ones: got {self!r} and {describe_operand(other)}; take .todense()"
            )
        if self.shape != other.shape:
            raise ShapeError(f"add: sparse matrices differ in shape: got {self.shape} + {other.shape}; take equal ones")
        return _sum_of(self, other)

    __radd__ = __add__

    def __sub__(self, other: SparseMatrix) -> SparseMatrix:
        """Return the difference."""
        return self + -other

    def __rsub__(self, other: SparseMatrix) -> SparseMatrix:
        return -self + other


# -- operands --
def describe_operand(x: Any) -> str:
    """Return what a message says of an operand."""
    return str(aval_of(x)) if hasattr(x, "dtype") and hasattr(x, "shape") and not _is_sparse(x) else repr(x)


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "todense")


def _check_number(who: str, matrix: SparseMatrix, x: ArrayLike) -> None:
    """Raise an error for a factor or divisor that is no number."""
    if _is_sparse(x):
        raise OperandError(f"{who}: a sparse matrix takes a number: got {matrix!r} and {x!r}; take their values")
    aval = aval_of(x, who)
    if aval.shape != ():
        sign = {"multiply": "*", "divide": "/"}[who]
        raise ShapeError(
            f"{who}: a sparse matrix takes a number: got a sparse {matrix.shape} {sign} {aval}; use @ for products, "
            "or todense()"
        )


def _read_dense(x: Any) -> Array:
    """Return the dense factor of a product."""
    if _is_sparse(x):
        raise OperandError(f"matmul: a sparse matrix takes a dense one: got {x!r}; take .todense() of one")
    return asarray(x)


def multiply_left(other: ArrayLike, matrix: Any) -> Array:
    """Return the product of a vector or a matrix with a sparse matrix."""
    x = _read_dense(other)
    if x.ndim not in (1, 2) or x.shape[-1] != matrix.shape[0]:
        raise ShapeError(f"matmul: inner axes differ: got {x.aval} @ a sparse {matrix.shape}; transpose or reshape it")
    z: Array = matrix.T @ (x if x.ndim == 1 else permute_dims(x, (1, 0)))
    return z if x.ndim == 1 else permute_dims(z, (1, 0))


def merge_positions(rows: Any, columns: Any) -> tuple[Any, Any, Any]:
    """Return the distinct positions in row-major order, and which of them each entry is at."""
    order = np.lexsort((columns, rows))
    i, j = rows[order], columns[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (i[1:] != i[:-1]) | (j[1:] != j[:-1])
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(fresh) - 1
    return i[fresh], j[fresh], places


def _sum_of(x: SparseMatrix, y: SparseMatrix) -> SparseMatrix:
    """Return the sum of two matrices of one shape; where indices are unknown, with every entry of both."""
    values = concat([x.values, y.values])
    indices = concat([x.indices, y.indices])
    if is_traced(indices):
        return SparseMatrix(values, indices, x.shape)
    rows, columns, places = merge_positions(*np.asarray(indices).T)
    where = asarray(np.stack([rows, columns], axis=-1))
    return SparseMatrix(scatter(values, asarray(places), shape=(len(rows),)), where, x.shape)
