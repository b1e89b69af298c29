"""`Csr` is a tree of values: its products, transposes and solutions are those of dense matrices, with derivatives."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import afx
from afx.errors import DtypeError, OperandError, ShapeError
from afx.sparse import Csr
from tests.every import together

RNG = np.random.default_rng(4)
N = 12
DENSE = np.where(RNG.uniform(size=(N, N)) < 0.25, RNG.normal(size=(N, N)), 0.0) + 4 * np.eye(N)
ROWS, COLUMNS = np.nonzero(DENSE)
SPARSE = Csr.from_entries(DENSE[ROWS, COLUMNS], ROWS, COLUMNS, (N, N))
B, W = RNG.normal(size=N), RNG.normal(size=N)


def test_a_matrix_is_a_tree_of_its_values() -> None:
    """Entries come in any order and add up; trees of one pattern have one structure; SciPy's matrices are taken."""
    order = RNG.permutation(len(ROWS))
    twice = Csr.from_entries(
        np.tile(DENSE[ROWS, COLUMNS][order], 2), np.tile(ROWS[order], 2), np.tile(COLUMNS[order], 2), (N, N)
    )
    np.testing.assert_array_equal(twice.todense(), 2 * DENSE)
    assert afx.pytree.structure(twice) == afx.pytree.structure(SPARSE) != afx.pytree.structure(SPARSE.T)
    assert [x.shape for x in afx.pytree.leaves(SPARSE)] == [(len(ROWS),)]
    np.testing.assert_array_equal(Csr.from_sparse(scipy.sparse.csr_array(DENSE)).todense(), DENSE)
    np.testing.assert_array_equal(Csr.from_sparse(SPARSE.entries()).toscipy().toarray(), DENSE)
    assert repr(SPARSE) == f"Csr(float64[12,12] of {len(ROWS)} entries)"
    empty = Csr.from_entries(np.zeros(0), [], [], (2, 3))
    np.testing.assert_array_equal(empty @ np.ones(3), np.zeros(2))


def test_products_and_sums() -> None:
    """Products from both sides, transposes, multiples, sums and differences are the dense matrix's."""
    right, left = RNG.normal(size=(N, 3)), RNG.normal(size=(3, N))
    for found, want in (
        (SPARSE @ B, DENSE @ B),
        (SPARSE @ right, DENSE @ right),
        (B @ SPARSE, B @ DENSE),
        (left @ SPARSE, left @ DENSE),
        (SPARSE.T @ B, DENSE.T @ B),
        ((2 * SPARSE).todense(), 2 * DENSE),
        ((SPARSE - SPARSE.T).todense(), DENSE - DENSE.T),
        ((SPARSE + SPARSE).todense(), 2 * DENSE),
    ):
        np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-14)


def test_solutions_and_their_derivatives() -> None:
    """Solutions, and derivatives of three orders by values and right side, are those of dense solutions, compiled too."""
    change = RNG.normal(size=len(ROWS))

    def found(s: Any) -> Any:
        a = Csr(SPARSE.values + s * change, SPARSE.pattern)
        return afx.sum(a.solve(B + s * W) ** 2 * W) + afx.sum(a.T.solve(afx.stack([B, W * s], axis=1)))

    def plain(s: Any) -> Any:
        a = afx.zeros((N, N), dtype=np.float64).at[ROWS, COLUMNS].set(SPARSE.values + s * change)
        solve = afx.linalg.solve
        return afx.sum(solve(a, B + s * W) ** 2 * W) + afx.sum(solve(a.T, afx.stack([B, W * s], axis=1)))

    zero, one = np.float64(0), np.float64(1)
    np.testing.assert_allclose(SPARSE.solve(B), np.linalg.solve(DENSE, B), rtol=1e-12)
    f, g = found, plain
    for _ in range(4):
        assert float(f(zero)) == pytest.approx(float(g(zero)), rel=1e-9)
        f, g = afx.grad(f), afx.grad(g)
    want = float(afx.grad(plain)(zero))
    assert float(afx.jit(afx.grad(found))(zero)) == pytest.approx(want, rel=1e-10)
    assert float(afx.jvp(found, (zero,), (one,))[1]) == pytest.approx(want, rel=1e-10)


def test_gradients_are_matrices_of_the_same_pattern() -> None:
    """A function of a matrix has a gradient that is one; an optimizer steps on it; batches of values are solved one by one."""

    def loss(a: Csr) -> Any:
        return afx.sum((a @ W - B) ** 2)

    slope = afx.grad(loss)(SPARSE)
    assert isinstance(slope, Csr)
    dense = 2 * np.outer(DENSE @ W - B, W)
    np.testing.assert_allclose(slope.values, dense[ROWS, COLUMNS], rtol=1e-12)
    optimizer = afx.optim.sgd(1e-3)
    stepped, _ = optimizer.step(SPARSE, slope, optimizer.init(SPARSE))
    assert float(loss(stepped)) < float(loss(SPARSE))
    scales = np.array([1.0, 2.0])
    found = afx.jit(afx.vmap(lambda s: (s * SPARSE).solve(B)))(scales)
    np.testing.assert_allclose(found, np.linalg.solve(DENSE, B) / scales[:, None], rtol=1e-11)
    assert np.isnan((0 * SPARSE).solve(B)).all()


def test_jacobians_become_matrices() -> None:
    """Newton's method with a sparse Jacobian solves a boundary value problem of thousands of unknowns, compiled."""
    n = 2000

    def residual(u: Any) -> Any:  # u'' = 2 u³ with u(0) = 1 and u(1) = 1/2, solved by 1 / (1 + x)
        padded = afx.pad(u, 1, constant_values=((1.0, 0.5),))
        return (padded[2:] - 2 * u + padded[:-2]) * (n + 1) ** 2 - 2 * u**3

    x = np.linspace(0, 1, n + 2)[1:-1]
    jacobian = afx.sparse_jacobian(residual)
    step = afx.jit(lambda u: u - Csr.from_sparse(jacobian(u)).solve(residual(u)))
    u = afx.asarray(1 - x / 2)
    for _ in range(6):
        u = step(u)
    np.testing.assert_allclose(u, 1 / (1 + x), atol=1e-7)


def test_mistakes_are_named() -> None:
    """What does not fit is refused."""
    with pytest.raises(ShapeError, match="each value has a row and a column"):
        Csr.from_entries(np.ones(2), [0], [0, 1], (2, 2))
    with pytest.raises(ShapeError, match="inside of the matrix"):
        Csr.from_entries(np.ones(1), [2], [0], (2, 2))
    with pytest.raises(ShapeError, match="b fits a square matrix"):
        SPARSE.solve(B[:3])
    with pytest.raises(OperandError, match="is no array"):
        np.asarray(SPARSE)


TWO = Csr.from_entries(np.array([2.0, 1.0, 4.0]), [0, 0, 1], [0, 1, 1], (2, 2))
SOLVERS = [afx.sparse.cg, afx.sparse.gmres, afx.sparse.bicgstab, afx.sparse.lsmr]


@pytest.mark.parametrize(
    ("rows", "shape", "error"),
    [
        ([0.5, 1.0], (2, 2), DtypeError),
        ([True, False], (2, 2), DtypeError),
        ([math.nan, 1.0], (2, 2), DtypeError),
        ([0, -1], (2, 2), ShapeError),
        ([0, 1], 2, ShapeError),
        ([0, 1], (2.5, 2), ShapeError),
        ([0, 1], (2, 2, 2), ShapeError),
        ([], (-1, 2), ShapeError),
    ],
)
def test_positions_and_shapes_are_whole_numbers(rows: Any, shape: Any, error: type[Exception]) -> None:
    """Others are refused, and never cut off."""
    with pytest.raises(error, match="from_entries: "):
        Csr.from_entries(np.ones(len(rows)), rows, list(range(len(rows))), shape)


def test_positions_of_large_matrices_are_merged() -> None:
    """Products of rows and columns beyond 64 bits, unsigned positions and a shape of NumPy's numbers."""
    shape: Any = np.array([10, 2**62])
    wide = Csr.from_entries(np.ones(3), np.array([9, 9, 3], np.uint32), np.array([2**61, 2**61, 7]), shape)
    assert wide.pattern.columns.tolist() == [7, 2**61]
    np.testing.assert_array_equal(wide.values, [1.0, 2.0])
    assert hash(wide.pattern) == hash(Csr.from_entries(np.ones(2), [9, 3], [2**61, 7], (10, 2**62)).pattern)


@together("b", [[3, 4], np.array([3, 4]), np.array([3.0, 4.0]), np.array([3 + 0j, 4])])
@together("dtype", [np.int32, np.float64, np.complex128])
def test_solutions_of_integers(b: Any, dtype: Any) -> None:
    """Integers, real and complex numbers meet as in dense systems."""
    a = Csr.from_entries(np.array([2, 1, 4]).astype(dtype), [0, 0, 1], [0, 1, 1], (2, 2))
    np.testing.assert_allclose(a.solve(b), [1.0, 1.0], rtol=1e-6)


def test_quotients_and_sums_of_sparse_matrices() -> None:
    """Multiples are quotients' inverse; both kinds of sparse matrices add, also by Python's sum."""
    entries = TWO.entries()
    np.testing.assert_array_equal((TWO / 3).todense(), TWO.todense() / 3)
    np.testing.assert_array_equal((entries / np.float32(3)).todense(), TWO.todense() / 3)
    both: Any = [TWO, entries]
    sums: Any = (TWO + entries, entries + TWO, sum(both))
    for found in sums:
        np.testing.assert_array_equal(found.todense(), 2 * TWO.todense())
    np.testing.assert_array_equal((entries - TWO).todense(), np.zeros((2, 2)))


@pytest.mark.parametrize("a", [TWO, TWO.entries()])
def test_sparse_beside_dense_is_refused(a: Any) -> None:
    """Sums with dense arrays, products of sparse ones and quotients by arrays name the way out."""
    for fault in (lambda: a + np.eye(2), lambda: np.eye(2) + a, lambda: 1 - a, lambda: a @ a, lambda: a * a):
        with pytest.raises(OperandError, match="sparse matri"):
            fault()
    for fault in (lambda: a / np.ones(2), lambda: np.ones((2, 2, 2)) @ a):
        with pytest.raises(ShapeError, match="sparse"):
            fault()


@pytest.mark.parametrize("x", [np.eye(2), [[1.0]], None])
def test_dense_matrices_are_no_sparse_ones(x: Any) -> None:
    """`from_sparse` says how entries of a dense matrix are taken."""
    with pytest.raises(OperandError, match=r"from_sparse: .* np\.nonzero"):
        Csr.from_sparse(x)
    assert Csr.from_sparse(TWO) is TWO
    with pytest.raises(ShapeError, match="two whole numbers"):
        Csr.from_sparse(scipy.sparse.coo_array(np.ones(3)))


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_refuse_what_is_no_system(solver: Any) -> None:
    """No matrix, another library's, or a sparse right side."""
    for a, b in ((None, np.ones(2)), (scipy.sparse.csr_array(np.eye(2)), np.ones(2)), (TWO, TWO)):
        with pytest.raises(OperandError, match=f"{solver.__name__}: "):
            solver(a, b)


def test_a_matrix_needs_a_pattern() -> None:
    """Values alone are no matrix; trees of other leaves are."""
    with pytest.raises(OperandError, match=r"Csr: positions are a Pattern: got .*; use Csr\.from_entries"):
        Csr(afx.ones(2), None)  # the mistake
    assert afx.pytree.map(lambda _: None, SPARSE).values is None
