"""SciPy's modules by afx's families: the functions, classes and laws that answer calls of SciPy's on traced Arrays.

`afx.interop.array_api` loads them where it is asked to: all of these families take a second.
"""

from __future__ import annotations

from typing import Any

from afx import cluster, interpolate, linalg, ndimage, signal, special, stats
from afx.core.array.array import Array
from afx.core.numpy_dispatch import UntranslatedError
from afx.migrate.for_jax import qr
from afx.ops import asarray, cbrt, conj, exp2, real, tril, triu

__all__ = ["FAMILIES"]


def cholesky(a: Any, lower: bool = False) -> Array:
    """Return SciPy's factor, of one triangle."""
    factor = linalg.cholesky(_hermitian(a, lower))
    return factor if lower else conj(factor).mT


def cho_factor(a: Any, lower: bool = False) -> tuple[Array, bool]:
    """Return SciPy's factor for `cho_solve`, of one triangle; in the other one, where SciPy leaves any numbers, zeros."""
    return cholesky(a, lower), lower


def eigh(a: Any, *, lower: bool = True, eigvals_only: bool = False) -> Any:
    """Return eigenvalues and eigenvectors, of one triangle."""
    return (linalg.eigvalsh if eigvals_only else linalg.eigh)(_hermitian(a, lower))


def eigvalsh(a: Any, *, lower: bool = True) -> Array:
    """Return eigenvalues, of one triangle."""
    return linalg.eigvalsh(_hermitian(a, lower))


def solve(a: Any, b: Any, lower: bool = False, *, assume_a: str | None = None, transposed: bool = False) -> Array:
    """Return the solution of a linear system, of one triangle where the matrix is said to be Hermitian."""
    if assume_a in ("her", "hermitian", "pos", "positive definite"):
        a = _hermitian(a, lower)
    elif assume_a not in (None, "gen", "general"):
        raise UntranslatedError(f"scipy.linalg.solve: afx's has no such form: got assume_a={assume_a!r}; leave it out")
    return linalg.solve(asarray(a).mT if transposed else a, b)


def _hermitian(a: Any, lower: bool) -> Array:
    """Return the Hermitian matrix of one triangle, which SciPy reads."""
    triangle = tril(a, -1) if lower else triu(a, 1)
    return triangle + conj(triangle).mT + tril(triu(real(a)))


def _named(family: Any) -> dict[str, Any]:
    """Return the public functions, classes and laws of a family by their names."""
    return {name: getattr(family, name) for name in family.__all__}


# whose arguments and results are SciPy's, too
FAMILIES: dict[str, dict[str, Any]] = {
    "scipy.cluster.vq": _named(cluster),
    "scipy.interpolate": _named(interpolate),
    "scipy.linalg": {
        **_named(linalg),
        **{fn.__name__: fn for fn in (cho_factor, cholesky, eigh, eigvalsh, qr, solve)},
    },
    "scipy.ndimage": _named(ndimage),
    "scipy.signal": _named(signal),
    "scipy.special": {"cbrt": cbrt, "exp2": exp2, **_named(special)},
    "scipy.stats": _named(stats),
}
