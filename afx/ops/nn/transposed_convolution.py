"""Transposed convolution: the adjoint of `conv`, from few positions to many."""

from __future__ import annotations

from collections.abc import Sequence

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.linalg.products import same_dtype
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import reshape
from afx.ops.nn._convolution import Pairs
from afx.ops.nn.convolution import conv_input_p
from afx.ops.nn.windows import Padding, each_axis, padded_by

__all__ = ["conv_transpose"]


def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return elements times kernels, summed where windows overlap: the adjoint of `conv`, often called deconvolution.

    Element i of x adds ``x[i] * kernel[j]`` to position ``stride·i + dilation·j`` (Dumoulin & Visin 2016, chapter 4).

    Args:
        x: float[batch, *spatial, channels].
        kernel: float[*window, channels/groups, out], not flipped.
        stride: from one element's window to the next in the result.
        padding: cut off at both ends: ``"valid"`` for none, so that n elements give ``stride·(n - 1) + span``
            positions; ``"same"`` for ``stride·n``; or numbers as in `conv`.
        dilation: from one element of the window to the next.
        groups: channels and outputs are split into so many groups that do not mix.

    Returns:
        float[batch, *positions, out].

    Raises:
        ShapeError: the axes do not fit, or more is cut off than there is.
        ArgumentError: stride, padding, dilation or groups out of range.

    >>> import afx
    >>> conv_transpose(afx.ones((1, 2, 1)), afx.ones((3, 1, 1)), stride=2)[0, :, 0]
    Array([1., 1., 2., 1., 1.], dtype=float32)
    """
    a, k = aval_of(x, "conv_transpose"), aval_of(kernel, "conv_transpose")
    rank = k.ndim - 2
    if rank < 1 or a.ndim != k.ndim:
        raise ShapeError(
            f"conv_transpose: x is [batch, *spatial, channels] and kernel [*window, channels, out]: got x {a} and "
            f"kernel {k}; reshape"
        )
    (groups,) = each_axis(groups, 1, "groups", "conv_transpose")
    if a.shape[-1] != groups * k.shape[-2] or k.shape[-1] % groups:
        raise ShapeError(
            f"conv_transpose: channels differ: got x {a} and kernel {k} with groups={groups}; the kernel's last axes "
            "are [channels/groups, out], and groups divide out"
        )
    stride = each_axis(stride, rank, "stride", "conv_transpose")
    dilation = each_axis(dilation, rank, "dilation", "conv_transpose")
    spans = tuple([(w - 1) * d + 1 for w, d in zip(k.shape[:rank], dilation, strict=True)])
    spatial, pads = _result(a, k, padding, stride, dilation, spans)
    x, weights = same_dtype(x, kernel, "conv_transpose")
    shape = (a.shape[0], *spatial, k.shape[-1])
    params = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    return bind_single(conv_input_p, x, _adjoint(asarray(weights), groups), shape=shape, **params)


def _result(x: Aval, k: Aval, padding: Padding, stride: Shape, dilation: Shape, spans: Shape) -> tuple[Shape, Pairs]:
    """Return the spatial shape of the result, and what the convolution back is padded by."""
    lengths, window = x.shape[1:-1], k.shape[: len(stride)]
    if not all(window) or not all(lengths):
        raise ShapeError(f"conv_transpose: no elements: got x {x} and kernel {k}; use 1 or more along each axis")
    if padding == "same":
        spatial = tuple([n * s for n, s in zip(lengths, stride, strict=True)])
        return spatial, padded_by("same", spatial, window, stride, dilation, "conv_transpose")
    pads = padded_by(padding, lengths, window, stride, dilation, "conv_transpose")
    whole = [s * (n - 1) + span for n, s, span in zip(lengths, stride, spans, strict=True)]
    spatial = tuple([n - front - behind for n, (front, behind) in zip(whole, pads, strict=True)])
    if any(n < 1 for n in spatial):
        raise ArgumentError(f"conv_transpose: padding cuts off all: got x {x}, kernel {k} and {padding=}; cut off less")
    return spatial, pads


def _adjoint(kernel: Array, groups: int) -> Array:
    """Return float[*window, out/groups, channels], the kernel of the convolution whose adjoint is wanted."""
    *window, channels, out = kernel.shape
    parts = reshape(kernel, (*window, channels, groups, out // groups))
    return reshape(moveaxis(parts, -1, -3).swapaxes(-1, -2), (*window, out // groups, groups * channels))
