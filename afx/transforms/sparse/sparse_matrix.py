"""Sparse matrices: entries by their indices or in compressed rows, with products, sums and solutions."""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Shown, aval_of, floating_dtype, is_traced, wrap
from afx.errors import DtypeError, MissingExtraError, OperandError, ShapeError
from afx.ops import asarray, astype, concat, divide, flip, lexsort, permute_dims, promote_operands, reshape
from afx.ops.indexing.gather import gather, scatter
from afx.ops.linalg.banded import solve_entries

# --- Sparse matrices: values and indices of the entries, with products, sums and multiples


@attrs.frozen(eq=False, repr=False)
class SparseMatrix(Shown):
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
            sparse = importlib.import_module("scipy.sparse")
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
        dtype = floating_dtype(values.dtype, x.dtype)
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


# --- Csr: sparse matrices whose pattern is structure and whose values are a leaf, with products and solutions

Ints = np.ndarray[Any, np.dtype[np.int64]]


@attrs.frozen(eq=False)
class Pattern(Shown):
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
class Csr(Shown):
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
    pattern: Pattern = pytree.static()
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
        elements, shape = asarray(values), _read_shape(shape)
        i, j = _read_positions(rows, "rows"), _read_positions(columns, "columns")
        if not elements.shape == i.shape == j.shape or elements.ndim != 1:
            raise ShapeError(
                f"from_entries: each value has a row and a column: got {elements.aval} for {i.shape} rows and {j.shape} columns"
            )
        if i.size and (min(i.min(), j.min()) < 0 or i.max() >= shape[0] or j.max() >= shape[1]):
            raise ShapeError(f"from_entries: entries lie inside of the matrix: got positions outside of {shape}")
        i, j, places = merge_positions(i, j)
        return cls(scatter(elements, asarray(places), shape=(len(i),)), _pattern_of(i, j, shape))

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
    indices = np.asarray(positions)
    if indices.dtype.kind not in "iu" and indices.size:
        raise DtypeError(f"from_entries: {which} are integers: got {indices.dtype}{list(indices.shape)}; use astype")
    return indices.astype(np.int64)
