"""Matrix functions: extensions of functions of numbers, by `funm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from afx.core import Array, ArrayLike
from afx.ops._kinds.matrix import floating
from afx.ops.linalg.matrix_functions import Sampled, hermitian_function
from afx.ops.linalg.solve import solve
from afx.ops.linalg.spectra import eig
from afx.transforms.derivatives.jvp import jvp


@attrs.frozen
class _Derivatives:
    """A function's derivatives by bare values, from nested `jvp`."""

    fn: Callable[[Array], Array]

    def __call__(self, order: int, x: Any) -> Any:
        return np.asarray(_derivative(self.fn, order)(x))


def _derivative(fn: Callable[[Array], Array], order: int) -> Callable[[Any], Array]:
    if order == 0:
        return fn
    lower = _derivative(fn, order - 1)
    return lambda x: jvp(lower, (x,), (np.ones(x.shape, x.dtype),))[1]


def funm(a: ArrayLike, fn: Callable[[Array], Array], hermitian: bool = False) -> Array:
    """Return a function of square matrices, given as a function of numbers.

    Args:
        a: float[..., n, n], real or complex.
        fn: an elementwise function of afx's operations; smooth on the eigenvalues.
        hermitian: whether to take the symmetric (Hermitian) part: the result has its dtype, and derivatives by divided
            differences, right at equal eigenvalues. Where not, it goes by `eig`: the result is complex, and the matrices
            need n independent eigenvectors.

    Raises:
        ShapeError: not square.

    >>> funm(np.diag([0.0, 1.0]), afx.exp, hermitian=True).round(4)
    Array([[1.    , 0.    ],
           [0.    , 2.7183]], dtype=float64)
    """
    x = floating(a, "funm")
    if hermitian:
        return hermitian_function(x, Sampled(_Derivatives(fn)))
    w, v = eig(x)
    scaled = v * fn(w).reshape((*w.shape[:-1], 1, w.shape[-1]))
    return solve(v.swapaxes(-1, -2), scaled.swapaxes(-1, -2)).swapaxes(-1, -2)
