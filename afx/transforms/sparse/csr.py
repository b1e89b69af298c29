"""Csr: sparse matrices whose pattern is structure and whose values are a leaf, with products and solutions."""

from __future__ import annotations

import functools
import operator
from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike, wrap
from afx.core.tracing.tracer import is_traced
from afx.errors import DtypeError, OperandError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.indexing.gather import gather, scatter
from afx.transforms.sparse.sparse_matrix import SparseMatrix, describe_operand, merge_positions, multiply_left

__all__ = ["Csr", "Pattern"]

Ints = np.ndarray[Any, np.dtype[np.int64]]


@attrs.frozen(eq=False)
class Pattern:
    """Where the entries of a matrix are, row by row; equal patterns are one structure.

    Attributes:
        starts: int[rows + 1], where each row's entries begin, and their number.
        columns: int[entries], the column of each.
        shape: the numbers of rows and columns.
    """

    starts: Ints
    columns: Ints
    shape: tuple[int, int]

    @functools.cached_property
    def _key(self) -> tuple[bytes, bytes, tuple[int, int]]:
        return self.starts.tobytes(), self.columns.tobytes(), self.shape

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Pattern) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    @functools.cached_property
    def rows(self) -> Ints:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.starts))

    @functools.cached_property
    def transposed(self) -> tuple[Pattern, Ints]:
        """The pattern of the transpose, and which entries of this one are its entries."""
        order = np.lexsort((self.rows, self.columns))
        return _pattern_of(self.columns[order], self.rows[order], (self.shape[1], self.shape[0])), order


def _pattern_of(rows: Ints, columns: Ints, shape: tuple[int, int]) -> Pattern:
    """Return the pattern of entries in row-major order."""
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return Pattern(starts.astype(np.int64), np.ascontiguousarray(columns, np.int64), shape)


@attrs.frozen(eq=False, repr=False)
class Csr:
    """A sparse matrix in compressed rows: a tree whose only leaf are the values of the entries.

    Optimizers, derivatives and solvers see the values alone; functions are compiled once for each pattern.

    Attributes:
        values: float[entries], row by row.
        pattern: where they are.

    Raises:
        OperandError: the pattern is none.

    >>> import afx
    >>> a = Csr.from_entries(np.array([2.0, 1.0, 4.0]), [0, 0, 1], [0, 1, 1], (2, 2))
    >>> a @ np.array([1.0, 1.0]), a.solve(np.array([3.0, 4.0]))
    (Array([3., 4.], dtype=float64), Array([1., 1.], dtype=float64))
    >>> afx.grad(lambda a: afx.sum(a.solve(np.array([3.0, 4.0]))))(a).values
    Array([-0.5  , -0.5  , -0.125], dtype=float64)
    """

    values: Array
    pattern: Pattern = pytree.static()  # noqa: RUF009  # a field specifier
    __array_ufunc__: ClassVar[None] = None  # NumPy's arrays leave their operators to this class

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.pattern, Pattern):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
            raise OperandError(
                f"Csr: positions are a Pattern: got {describe_operand(self.pattern)}; use Csr.from_entries"
            )

    @classmethod
    def from_entries(cls, values: ArrayLike, rows: Any, columns: Any, shape: tuple[int, int]) -> Csr:
        """Return the matrix of entries in any order; values at one position add up.

        Args:
            values: float[entries].
            rows: int[entries], known numbers, as the columns.
            columns: int[entries].
            shape: the numbers of rows and columns.

        Raises:
            ShapeError: the lengths differ, a position lies outside, or the shape is not two numbers of 0 or more.
            DtypeError: a row or a column is no integer.
        """
        held, shape = asarray(values), _read_shape(shape)
        i, j = _read_positions(rows, "rows"), _read_positions(columns, "columns")
        if not held.shape == i.shape == j.shape or held.ndim != 1:
            raise ShapeError(
                f"from_entries: each value has a row and a column: got {held.aval} for {i.shape} rows and {j.shape} columns"
            )
        if i.size and (min(i.min(), j.min()) < 0 or i.max() >= shape[0] or j.max() >= shape[1]):
            raise ShapeError(f"from_entries: entries lie inside of the matrix: got positions outside of {shape}")
        i, j, places = merge_positions(i, j)
        return cls(scatter(held, asarray(places), shape=(len(i),)), _pattern_of(i, j, shape))

    @classmethod
    def from_sparse(cls, matrix: Any) -> Csr:
        """Return the matrix of a result of `sparse_jacobian` or `sparse_hessian`, or of SciPy's sparse arrays.

        Raises:
            OperandError: it is no sparse matrix, or the positions of its entries are traced.
            ShapeError: it is a sparse array of SciPy's that is no matrix.
        """
        if isinstance(matrix, Csr):
            return matrix
        if not isinstance(matrix, SparseMatrix):
            if not hasattr(matrix, "tocoo"):
                raise OperandError(
                    f"from_sparse: takes a sparse matrix, afx's or SciPy's: got {describe_operand(matrix)}; of a dense one x "
                    "take from_entries(x[i, j], i, j, x.shape) with i, j = np.nonzero(x)"
                )
            entries = matrix.tocoo()
            return cls.from_entries(entries.data, entries.row, entries.col, entries.shape)
        if is_traced(matrix.indices):
            raise OperandError(f"from_sparse: positions are structure: got traced ones in {matrix!r}; close over them")
        rows, columns = np.asarray(matrix.indices).T
        return cls.from_entries(matrix.values, rows, columns, matrix.shape)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Csr({self.values.dtype}[{rows},{columns}] of {self.nnz} entries)"

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.pattern.shape

    @property
    def nnz(self) -> int:
        """The number of entries, those that happen to be 0 included."""
        return len(self.pattern.columns)

    @property
    def T(self) -> Csr:  # NumPy's name
        """The transpose."""
        pattern, order = self.pattern.transposed
        return Csr(gather(self.values, wrap(order)), pattern)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise OperandError(f"asarray: a sparse matrix is no array: got {self!r}; take .todense(), or its values")

    def entries(self) -> SparseMatrix:
        """Return the matrix as the list of its entries."""
        return SparseMatrix(self.values, wrap(np.stack([self.pattern.rows, self.pattern.columns], axis=1)), self.shape)

    def todense(self) -> Array:
        """Return float[rows, columns]."""
        return self.entries().todense()

    def toscipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` of the numbers; see `SparseMatrix.toscipy`."""
        return self.entries().toscipy()

    def __matmul__(self, other: ArrayLike) -> Array:
        """Return the product with a vector or a matrix."""
        return self.entries() @ other

    def __rmatmul__(self, other: ArrayLike) -> Array:
        """Return the product of a vector or a matrix with this one."""
        return multiply_left(other, self)

    def __mul__(self, factor: ArrayLike) -> Csr:
        """Return the product with a number."""
        return attrs.evolve(self, values=(self.entries() * factor).values)

    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> Csr:
        """Return the quotient by a number."""
        return attrs.evolve(self, values=(self.entries() / divisor).values)

    def __neg__(self) -> Csr:
        return attrs.evolve(self, values=-self.values)

    def __add__(self, other: Csr | SparseMatrix) -> Csr:
        """Return the sum; entries at the same position are one."""
        if isinstance(other, Csr) and self.pattern == other.pattern:
            return Csr(self.values + other.values, self.pattern)
        return Csr.from_sparse(self.entries() + (other.entries() if isinstance(other, Csr) else other))

    __radd__ = __add__

    def __sub__(self, other: Csr | SparseMatrix) -> Csr:
        """Return the difference."""
        return self + -other

    def __rsub__(self, other: SparseMatrix) -> Csr:
        return -self + other

    def solve(self, b: ArrayLike) -> Array:
        """Return x with ``self @ x = b``; see `SparseMatrix.solve`."""
        return self.entries().solve(b)


# -- arguments --
def _read_shape(shape: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns."""
    try:
        rows, columns = map(operator.index, shape)
    except (TypeError, ValueError):
        rows, columns = -1, -1
    if min(rows, columns) < 0:
        raise ShapeError(f"from_entries: a shape is two whole numbers of 0 or more: got {shape}; give (rows, columns)")
    return rows, columns


def _read_positions(positions: Any, which: str) -> Ints:
    """Return positions as integers; an empty list has no dtype of its own."""
    found = np.asarray(positions)
    if found.dtype.kind not in "iu" and found.size:
        raise DtypeError(f"from_entries: {which} are integers: got {found.dtype}{list(found.shape)}; use astype")
    return found.astype(np.int64)
