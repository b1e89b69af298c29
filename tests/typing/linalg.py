"""What type checkers know of linear algebra: results depend on the arguments that choose them."""

from typing import assert_type

from afx import Array, linalg


def results(x: Array) -> None:
    assert_type(linalg.qr(x), linalg.QRResult)
    assert_type(linalg.qr(x, "complete"), linalg.QRResult)
    assert_type(linalg.qr(x, mode="r"), Array)
    assert_type(linalg.svd(x), linalg.SVDResult)
    assert_type(linalg.svd(x, full_matrices=False), linalg.SVDResult)
    assert_type(linalg.svd(x, False, False), Array)
    assert_type(linalg.svd(x, compute_uv=False), Array)
    assert_type(linalg.lu(x), linalg.LUResult)
    assert_type(linalg.lu(x, permute_l=True), tuple[Array, Array])
    assert_type(linalg.eigh(x).eigenvectors, Array)
    assert_type(linalg.lstsq(x, x).rank, Array)
    assert_type(linalg.solve_triangular(x, x, trans="C", lower=True), Array)
    assert_type(linalg.matrix_norm(x, ord="nuc"), Array)
