"""Convolution: `convolve` of vectors, and along chosen axes of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import normalize_axes
from afx.core.registry import register_function
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.promotion import promote_operands
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import permute_dims, reshape
from afx.ops.nn.convolution import Mode, check_vectors, conv, slide

__all__ = ["convolve"]

Axes = tuple[Sequence[int], Sequence[int]] | Sequence[Sequence[int]]


@register_function
def convolve(
    signal: ArrayLike, kernel: ArrayLike, mode: Mode = "full", *, axes: Axes | None = None, dot_axes: Axes = ((), ())
) -> Array:
    """Return the convolution of two vectors, element i of which is Σⱼ signal[i - j]·kernel[j], or of arrays along axes.

    Args:
        signal: float[n], or an array.
        kernel: float[m], or an array.
        mode: as in `correlate`, except that the order of the operands does not matter. Of arrays ``"same"`` keeps the
            lengths of ``signal`` (as `scipy.signal.convolve` does).
        axes: the axes of each operand to convolve along, in pairs; all of arrays of two axes or more unless given.
        dot_axes: the axes of each operand to sum products over, in pairs.

    Returns:
        The axes of ``signal`` that are in neither, those of ``kernel``, and the convolved ones behind them, as
        ``autograd.scipy.signal.convolve`` orders them.

    Raises:
        ShapeError: an operand is empty, axes do not pair up, or neither operand is the longer one where the mode is
            ``"valid"``.
        ArgumentError: another mode.

    >>> import afx
    >>> convolve(afx.asarray([1.0, 2.0]), afx.asarray([1.0, 10.0]))
    Array([ 1., 12., 20.], dtype=float32)
    """
    x, k = promote_operands(signal, kernel)
    if axes is None and x.ndim <= 1 and k.ndim <= 1:
        return _convolve_vectors(x, k, mode)
    if mode not in ("valid", "same", "full"):
        raise ArgumentError(f"convolve: mode is 'valid', 'same' or 'full': got {mode!r}; choose one of them")
    along = (range(x.ndim), range(k.ndim)) if axes is None else axes
    pairs = _pair_axes(x, k, along, dot_axes)
    roles = [(normalize_axes(a, v.ndim, "convolve"), normalize_axes(d, v.ndim, "convolve")) for v, a, d in pairs]
    return _along(x, k, mode, roles[0], roles[1])


def _convolve_vectors(x: Array, k: Array, mode: Mode) -> Array:
    check_vectors("convolve", x, k, mode)
    if k.size > x.size:
        x, k = k, x
    z = slide("convolve", x, k[::-1], mode)
    start = (k.size - 1) // 2
    return z if mode != "same" else z[start : start + x.size]


def _pair_axes(x: Array, k: Array, axes: Axes, dot_axes: Axes) -> list[tuple[Array, Sequence[int], Sequence[int]]]:
    """Return each operand with its convolved and its contracted axes, which come in pairs."""
    (a, b), (d, e) = axes, dot_axes
    lengths = [x.shape[i] == k.shape[j] for i, j in zip(d, e, strict=False)]
    if len(a) != len(b) or len(d) != len(e) or not len(a) or not all(lengths) or not x.size or not k.size:
        raise ShapeError(
            f"convolve: axes do not pair up, or an operand is empty: got {x.aval} and {k.aval} with axes={axes!r} and "
            f"dot_axes={dot_axes!r}; give as many axes of each, of the same lengths where they are summed over"
        )
    return [(x, a, d), (k, b, e)]


Roles = tuple[tuple[int, ...], tuple[int, ...]]


def _along(x: Array, k: Array, mode: Mode, of_x: Roles, of_k: Roles) -> Array:
    """Return a convolution as that of a batch with kernels: axes apart are examples and outputs, contracted ones channels."""
    lengths = [[v.shape[i] for i in conv_axes] for v, (conv_axes, _) in ((x, of_x), (k, of_k))]
    if mode == "valid" and any(n < m for n, m in zip(*lengths, strict=True)):
        if any(n > m for n, m in zip(*lengths, strict=True)):
            raise ShapeError(
                f"convolve: one operand is the longer one along all axes: got {x.aval} and {k.aval}; use mode='full'"
            )
        z = _along(k, x, mode, of_k, of_x)
        first, second = k.ndim - sum(map(len, of_k)), x.ndim - sum(map(len, of_x))
        order = (*range(first, first + second), *range(first), *range(first + second, z.ndim))
        return permute_dims(z, order)
    (left, spatial, channels), (right, window, _) = _apart(x, of_x), _apart(k, of_k)
    rows = permute_dims(x, (*left, *of_x[0], *of_x[1]))
    columns = permute_dims(flip(k, axis=of_k[0]), (*of_k[0], *of_k[1], *right))
    lead, out = [x.shape[i] for i in left], [k.shape[i] for i in right]
    pads = [(0, 0) if mode == "valid" else (m // 2, (m - 1) // 2) if mode == "same" else (m - 1, m - 1) for m in window]
    z = conv(
        reshape(rows, (math.prod(lead), *spatial, channels)),
        reshape(columns, (*window, channels, math.prod(out))),
        padding=pads,
    )
    z = reshape(z, (*lead, *z.shape[1:-1], *out))
    n, m = len(lead), len(spatial)
    return permute_dims(z, (*range(n), *range(n + m, z.ndim), *range(n, n + m)))


def _apart(v: Array, roles: Roles) -> tuple[list[int], list[int], int]:
    """Return the axes in neither role, the lengths of the convolved ones, and the product of the contracted ones."""
    rest = [i for i in range(v.ndim) if i not in (*roles[0], *roles[1])]
    return rest, [v.shape[i] for i in roles[0]], math.prod([v.shape[i] for i in roles[1]])
