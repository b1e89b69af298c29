"""Clusters: the nearest of several centres, by SciPy's name; differentiable by both.

`afx.nn` and the guides' k-means show how centres are found.
"""

from __future__ import annotations

from afx.core import Array, ArrayLike
from afx.errors import ShapeError, refuse_names
from afx.ops import argmin, sum as sum_, take, vector_norm
from afx.ops._basic import in_floats
from afx.ops.creation.creation import as_array, promote_operands

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike) -> tuple[Array, Array]:
    """Return for each observation the number of the nearest code, the first of equally near ones, and its distance to it.

    Distances are differentiable by observations and codes, numbers are not.

    Args:
        obs: float[n, features]; or float[n], of one feature.
        code_book: float[codes, features]; or float[codes].

    Returns:
        Numbers, int64[n], and distances, float[n].

    Raises:
        ShapeError: there is no code, or the features are not as many.

    >>> codes, distances = vq(np.array([[1.0, 1.0], [5.0, 4.0]]), np.array([[0.0, 1.0], [5.0, 5.0]]))
    >>> codes, distances
    (Array([0, 1], dtype=int64), Array([1., 1.], dtype=float64))
    """
    x, codes = (as_array(in_floats(v, "vq")) for v in promote_operands(obs, code_book))
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:] or not codes.shape[0]:
        raise ShapeError(
            f"vq: takes observations and codes of as many features, and one code or more: got {x.aval} and {codes.aval}; "
            "reshape one of them"
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    gaps = x[:, None, :] - codes[None, :, :]
    numbers = argmin(sum_(gaps * gaps, axis=-1), axis=-1)
    return numbers, vector_norm(x - take(codes, numbers, axis=0), axis=-1)


refuse_names(__name__)
