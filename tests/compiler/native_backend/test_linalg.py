"""Small factorizations as machine code."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.ops.linalg.factorizations import giving_nan
from afx.ops.linalg.solve import solve_or_nan
from tests.compiler.native_backend.native_run import Native, assert_same_bits

REFUSED = -1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factorizations_are_numpys(dtype: str) -> None:
    """Inverses, solutions, determinants and Cholesky factors of matrices and of stacks have NumPy's bits."""
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(3, 5, 5)) + 4 * np.eye(5)).astype(dtype)
    y, one = rng.normal(size=(3, 5, 2)).astype(dtype), rng.normal(size=5).astype(dtype)

    def fn(a: Any, y: Any, one: Any) -> Any:
        good = a @ np.swapaxes(a, 1, 2) + np.eye(5, dtype=dtype)
        solve, tri = afx.linalg.solve, afx.linalg.solve_triangular
        systems = solve(a, y), solve(a[0], one), solve(a[1].T, y[1]), solve(a, y[0])
        triangular = tri(a, y, lower=True), tri(a, y), tri(a[0], one, trans=1, lower=True), tri(a[2, ::-1, ::-1], y[0])
        return (afx.linalg.inv(a), afx.linalg.det(a), afx.linalg.cholesky(good), *systems, *triangular)

    assert_same_bits(fn, a, y, one)
    assert_same_bits(lambda a, y: afx.grad(lambda a: (afx.linalg.solve(a, y) ** 2).sum())(a), a[0], y[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (3, 5), (7, 6, 2), (2, 3, 8, 5)])
def test_orthogonal_factors_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    """Q and R of matrices, stacks and transposes, reduced and complete, have NumPy's bits, and so do their derivatives."""
    a = np.random.default_rng(0).normal(size=shape).astype(dtype)
    assert_same_bits(lambda a: (*afx.linalg.qr(a), *afx.linalg.qr(a, mode="complete")), a)
    assert_same_bits(lambda a: afx.linalg.qr(a * 2).R, np.where(a > 1, np.nan, a) * np.zeros((), dtype))
    if shape[-2] >= shape[-1]:
        assert_same_bits(afx.grad(lambda a: (afx.linalg.qr(a).Q[..., 0] ** 2 * a[..., 0]).sum()), a)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (1, 1)])
def test_eigenvalues_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    """Eigenvalues and vectors of either triangle have NumPy's bits, and so do their derivatives; nan is left to NumPy."""
    a = np.random.default_rng(0).normal(size=shape).astype(dtype)

    def fn(a: Any) -> Any:
        eigh = afx.linalg.eigh
        return *eigh(a), *eigh(a, UPLO="U"), afx.linalg.eigvalsh(a), eigh(np.swapaxes(a, -1, -2))[0]

    def slope(a: Any) -> Any:
        return afx.grad(lambda a: (afx.linalg.eigh(a)[1][..., 0] ** 2).sum() + afx.linalg.eigvalsh(a)[..., 0].sum())(a)

    for f in (fn, slope):
        native = assert_same_bits(f, a)
        assert not any(why for _, why in native.plan.why_not_native)
        assert native(a)[1] == 0
    if shape[-1] > 1:  # a single nan is its own eigenvalue to LAPACK
        assert native(a * np.array(np.nan, dtype))[1] == REFUSED


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 6), (2, 6, 3), (3, 3)])
def test_singular_values_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    """Singular values and vectors, reduced and complete, have NumPy's bits, and so do their derivatives."""
    a = np.random.default_rng(0).normal(size=shape).astype(dtype)

    def fn(a: Any) -> Any:
        svd = afx.linalg.svd
        return *svd(a), *svd(a, full_matrices=False), afx.linalg.svdvals(a * 0), afx.grad(lambda a: svd(a)[1].sum())(a)

    native = assert_same_bits(fn, a)
    assert not any(why for _, why in native.plan.why_not_native)
    assert native(a)[1] == 0
    assert native(a * np.array(np.nan, dtype))[1] == REFUSED


def test_loops_of_factorizations_are_one_kernel() -> None:
    """Steps that factor a matrix run without a call of NumPy; large matrices, and complex ones, are left to it."""

    def fn(a: Any) -> Any:
        return afx.scan(lambda h, _: (afx.linalg.qr(h @ h + 1).Q, h[0]), a, None, 20)

    a = np.random.default_rng(0).normal(size=(3, 3))
    native = assert_same_bits(fn, a)
    assert not any(why for _, why in native.plan.why_not_native)
    assert native.program.text(0).count("np.linalg.qr_") == 2
    large = afx.jit(lambda a: afx.linalg.qr(a).R).lower(np.ones((200, 3))).plan.why_not_native
    assert any(why.startswith("qr of f8[200, 3]") for _, why in large)
    assert any(why for _, why in afx.jit(lambda a: afx.linalg.qr(a).R).lower(a + 0j).plan.why_not_native)


def test_matrices_without_a_result_are_refused() -> None:
    """Singular and indefinite matrices are left to NumPy, which raises, whatever the caller ignores; flags before stay."""
    singular = np.ones((3, 3))
    for fn in (afx.linalg.inv, afx.linalg.cholesky, lambda a: afx.linalg.solve(a, a)):
        native = Native(fn, singular)
        assert native(singular - 2 * np.eye(3) * (fn is afx.linalg.cholesky))[1] == REFUSED
        assert native(np.eye(3))[1] == 0
        with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
            afx.jit(fn, backend="native")(-singular)
    divided = Native(lambda a, x: (1 / x, afx.linalg.inv(a)), np.eye(3), np.zeros(2))
    assert divided(np.eye(3), np.zeros(2))[1] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_solutions_that_may_be_nan(dtype: str) -> None:
    """Solvers' steps go on with nan where a matrix is singular, without an error; flags before stay."""
    a, x = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(dtype), np.zeros(2, dtype)
    y = np.ones(3, dtype)
    a[2] = 1.0
    for fn in (solve_or_nan, lambda a, y: afx.grad(lambda a: (solve_or_nan(a, y) ** 2).sum())(a)):
        for matrix in (a[0], a[2], a[0] * np.nan, a[0] * np.inf):
            assert assert_same_bits(fn, matrix, y)(matrix, y)[1] == 0
    assert assert_same_bits(lambda a, y: afx.vmap(solve_or_nan)(a, np.stack([y] * 4)), a, y)(a, y)[1] == 0
    assert Native(lambda a, x: (1 / x, solve_or_nan(a, y)), a[0], x)(a[2], x)[1] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stacks_of_small_systems_are_loops_over_elements(dtype: str) -> None:
    """No call is left, the bits are those of NumPy's plan; singular systems are refused, or nan."""
    rng = np.random.default_rng(0)
    for n, columns in ((1, 1), (2, 3), (3, 1)):
        a, b = rng.normal(size=(500, n, n)).astype(dtype), rng.normal(size=(500, n, columns)).astype(dtype)
        native, marked = assert_same_bits(afx.linalg.solve, a, b), assert_same_bits(solve_or_nan, a, b)
        assert "np." not in native.program.text(0)
        a[3] = 0
        assert native(a, b)[1] == REFUSED
        (found,), errors = marked(a, b)
        assert errors == 0
        assert np.flatnonzero(np.isnan(found).any(axis=(1, 2))).tolist() == [3]


def test_loops_that_read_solutions_come_behind_them() -> None:
    """A loop of the same lengths that stands before the systems takes in nothing that reads their solutions."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(50, 3, 3)) + 3 * np.eye(3), rng.normal(size=(50, 3, 1)), rng.normal(size=(50, 3, 1))

    def solve_between(a: Any, b: Any, c: Any) -> Any:
        early = afx.exp(c)
        x = afx.linalg.solve(a, b)
        return x * 2.0 + early, afx.cos(x) + early

    x = np.linalg.solve(a, b)
    doubled, moved = afx.jit(solve_between, backend="native")(a, b, c)
    np.testing.assert_allclose(doubled, x * 2 + np.exp(c), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moved, np.cos(x) + np.exp(c), rtol=1e-12, atol=1e-12)
    assert_same_bits(solve_between, *[np.tile(v, (16, 1, 1)) for v in (a, b, c)])


def test_one_small_system_is_written_out_in_the_second_tier() -> None:
    """There the bits may be other ones: no call is left for a single system either."""
    a, b = np.array([[1e-9, 2.0, 1.0], [3.0, 1.0, 0.0], [2.0, 2.0, 5.0]]), np.ones((3, 2))
    native = Native(afx.linalg.solve, a, b, tier=2)
    (found,), errors = native(a, b)
    assert errors == 0
    assert "np." not in native.program.text(0)
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-14)
    assert native(np.ones((3, 3)), b)[1] == REFUSED


@pytest.mark.parametrize(("n", "columns"), [(3, 1), (8, 2), (21, 1), (40, 3), (33, 300)])
@pytest.mark.parametrize("lower", [False, True])
def test_triangles_are_used_in_the_second_tier(n: int, columns: int, lower: bool) -> None:
    """There substitution reads one triangle, in blocks of rows; many small systems do so in either tier, bit for bit."""
    rng = np.random.default_rng(n)
    a, b = rng.uniform(-1, 1, size=(n, n)) + n * np.eye(n), rng.normal(size=(n, columns))

    def fn(a: Any, b: Any) -> Any:
        return afx.linalg.solve_triangular(a, b, lower=lower)

    for dtype, rtol in (("float64", 1e-12), ("float32", 1e-5)):
        x, y = a.astype(dtype), b.astype(dtype)
        native = Native(fn, x, y, tier=2)
        (found,), errors = native(x, y)
        assert errors == 0
        assert "np.linalg" not in native.program.text(0)
        np.testing.assert_allclose(found, np.linalg.solve((np.tril if lower else np.triu)(a), b), rtol=rtol, atol=rtol)
        x[n // 2, n // 2] = 0
        assert native(x, y)[1] == REFUSED
        if n <= 8:
            assert "np." not in assert_same_bits(fn, np.stack([a.astype(dtype)] * 200), y).program.text(0)


def test_a_filter_is_one_kernel() -> None:
    """A Kalman filter by scan, a solution in each step, has no call of Python left."""
    rng = np.random.default_rng(1)
    move, see = np.eye(4) + 0.1 * rng.normal(size=(4, 4)), rng.normal(size=(2, 4))

    def fn(ys: Any) -> Any:
        def step(now: Any, y: Any) -> Any:
            x, p = now
            x, p = move @ x, move @ p @ move.T + 0.1 * np.eye(4)
            s = see @ p @ see.T + 0.5 * np.eye(2)
            gain = afx.linalg.solve(s, see @ p).T
            x = x + gain @ (y - see @ x)
            return (x, p - gain @ see @ p), x

        return afx.scan(step, (np.zeros(4), np.eye(4)), ys)

    program = assert_same_bits(fn, rng.normal(size=(30, 2))).program
    assert "np.linalg.solve(" in program.text(0)


def test_factors_that_may_be_nan() -> None:
    """A density that factorizes goes on with nan where a matrix is not positive definite; outside of it that raises."""
    a = np.stack([np.eye(3), -np.eye(3), 2 * np.eye(3)])

    def fn(x: afx.Array) -> afx.Array:
        with giving_nan():
            return afx.linalg.cholesky(x)

    for matrix in (a[0], a[1], a):
        assert assert_same_bits(fn, matrix)(matrix)[1] == 0
    assert np.isnan(fn(afx.asarray(a))).any(axis=(1, 2)).tolist() == [False, True, False]
    with pytest.raises(np.linalg.LinAlgError):
        afx.linalg.cholesky(a)
