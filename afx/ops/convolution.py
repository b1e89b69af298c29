"""Cross-correlation and convolution: windows as rows of a matrix, and one matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from afx.core.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.functions import public
from afx.errors import ArgumentError, ShapeError
from afx.ops.axes import moveaxis
from afx.ops.creation import asarray
from afx.ops.matrix import matmul
from afx.ops.padding import flip
from afx.ops.shaping import reshape
from afx.ops.windows import Padding, each_axis, padded_by, patches, positions

__all__ = ["conv", "convolve", "correlate"]

Mode = Literal["valid", "same", "full"]


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return the cross-correlation of a batch with kernels, over any number of spatial axes.

    Args:
        x: float[batch, *spatial, channels].
        kernel: float[*window, channels/groups, out], not flipped.
        stride: from one position of the window to the next; a number, or one for each spatial axis.
        padding: ``"valid"`` for none, ``"same"`` for as many positions as there are elements (divided by the stride),
            a number, or one (or a pair) for each spatial axis.
        dilation: from one element of the window to the next.
        groups: channels and outputs are split into so many groups that do not mix.

    Returns:
        float[batch, *positions, out].

    Raises:
        ShapeError: the axes do not fit, or the window is longer than the padded array.
        ArgumentError: stride, padding, dilation or groups out of range.

    >>> import afx
    >>> conv(afx.ones((1, 4, 1)), afx.ones((3, 1, 1)))[0, :, 0]
    Array([3., 3.], dtype=float32)
    """
    a, k = aval_of(x, "conv"), aval_of(kernel, "conv")
    rank = k.ndim - 2
    if rank < 1 or a.ndim != k.ndim:
        raise ShapeError(
            f"conv: x is [batch, *spatial, channels] and kernel [*window, channels, out]: got x {a} and kernel {k}; reshape"
        )
    if groups < 1 or a.shape[-1] != groups * k.shape[-2] or k.shape[-1] % groups:
        raise ShapeError(
            f"conv: channels differ: got x {a} and kernel {k} with groups={groups}; the kernel's last axes are "
            "[channels/groups, out], and groups divide out"
        )
    window, out = k.shape[:rank], k.shape[-1]
    stride, dilation = each_axis(stride, rank, "stride", "conv"), each_axis(dilation, rank, "dilation", "conv")
    pads = padded_by(padding, a.shape[1:-1], window, stride, dilation, "conv")
    places = positions(a, window, stride, dilation, pads, "conv")
    rows = patches(x, window, stride, dilation, pads)
    span = math.prod(window)
    if groups == 1:
        return reshape(
            matmul(reshape(rows, (-1, rows.shape[-1])), reshape(kernel, (-1, out))), (a.shape[0], *places, out)
        )
    each, per = k.shape[-2], out // groups
    columns = moveaxis(reshape(rows, (-1, span, groups, each)), 2, 0)
    weights = moveaxis(reshape(kernel, (span, each, groups, per)), 2, 0)
    z = matmul(reshape(columns, (groups, -1, span * each)), reshape(weights, (groups, span * each, per)))
    return reshape(moveaxis(z, 0, 1), (a.shape[0], *places, out))


@public
def correlate(signal: ArrayLike, kernel: ArrayLike, mode: Mode = "valid") -> Array:
    """Return the cross-correlation of two vectors: the kernel, not flipped, moved along the signal.

    Element i is Σⱼ signal[i + j]·kernel[j]. Source: the paper's ``cross_correlate``.

    Args:
        signal: float[n].
        kernel: float[m].
        mode: ``"valid"`` gives the n - m + 1 places where the kernel lies inside; ``"full"`` all n + m - 1 where it
            touches; ``"same"`` the n around the middle, as `numpy.correlate` for a kernel that is not longer.

    Raises:
        ShapeError: an operand is no vector or empty, or in mode "valid" the kernel is longer than the signal.
        ArgumentError: another mode.

    >>> import afx
    >>> correlate(afx.asarray([1.0, 2.0, 4.0]), afx.asarray([-1.0, 1.0]))
    Array([1., 2.], dtype=float32)
    """
    a, k = aval_of(signal, "correlate"), aval_of(kernel, "correlate")
    if a.ndim != 1 or k.ndim != 1 or not a.size or not k.size:
        raise ShapeError(f"correlate: takes two vectors of 1 element or more: got {a} and {k}; use nn.conv for batches")
    n, m = a.size, k.size
    if mode not in ("valid", "same", "full"):
        raise ArgumentError(f"correlate: mode is 'valid', 'same' or 'full': got {mode!r}")
    if mode == "valid" and m > n:
        raise ShapeError(
            f"correlate: the kernel is longer than the signal: got {a} and {k}; exchange them, or use mode='full'"
        )
    pads = {"valid": (0, 0), "full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2)}[mode]
    rows = patches(reshape(asarray(signal), (1, n, 1)), (m,), (1,), (1,), (pads,))
    return reshape(matmul(rows, kernel), (-1,))


@public
def convolve(signal: ArrayLike, kernel: ArrayLike, mode: Mode = "full") -> Array:
    """Return the convolution of two vectors: `correlate` with the shorter one flipped.

    Args:
        signal: float[n].
        kernel: float[m].
        mode: as in `correlate`; the order of the operands does not matter.

    >>> import afx
    >>> convolve(afx.asarray([1.0, 2.0]), afx.asarray([1.0, 10.0]))
    Array([ 1., 12., 20.], dtype=float32)
    """
    if aval_of(kernel, "convolve").size > aval_of(signal, "convolve").size:
        signal, kernel = kernel, signal
    if mode == "same":  # numpy.convolve centres on the other side of the middle
        n, m = aval_of(signal).size, aval_of(kernel).size
        return correlate(signal, flip(kernel), "full")[(m - 1) // 2 : (m - 1) // 2 + n]
    return correlate(signal, flip(kernel), mode)
