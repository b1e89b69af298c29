"""Convolutional layers: kernels that move over spatial axes, and images and signals of more positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Shape, aval_of, checked_shape, integer
from afx.errors import ArgumentError, ShapeError
from afx.nn.initializers import Initializer, Seed, he_normal
from afx.nn.layers import layer
from afx.ops import asarray, astype, moveaxis, repeat, reshape, take, zeros
from afx.ops.nn.convolution import conv, conv_transpose
from afx.ops.nn.windows import Padding, each_axis, padded_by
from afx.pytree import static

__all__ = ["Conv", "ConvTranspose", "pixel_shuffle", "upsample"]

# --- Convolutional layers: kernels that move over one, two, three or any number of spatial axes

Numbers = int | tuple[int, ...]


@layer
@attrs.frozen
class Conv:
    """A convolution (cross-correlation) with a bias.

    Attributes:
        kernel: float[*window, channels/groups, out].
        bias: float[out], or None.
        stride: from one position to the next; a number, or one for each spatial axis.
        padding: ``"valid"``, ``"same"``, a number, or numbers or pairs for each spatial axis, as in `afx.nn.conv`.
        dilation: from one element of the window to the next.
        groups: how many groups of channels do not mix.

    >>> Conv.create(0, (3,), 1, 4)(afx.ones((2, 8, 1))).shape
    (2, 6, 4)
    """

    kernel: Array
    bias: Array | None
    stride: Numbers = static(default=1)
    padding: Padding = static(default="valid")
    dilation: Numbers = static(default=1)
    groups: int = static(default=1)

    @classmethod
    def create(
        cls,
        seed: Seed,
        window: Sequence[int],
        channels: int,
        out: int,
        *,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        init: Initializer = he_normal,
    ) -> Self:
        """Return a layer with drawn kernels and a bias of zeros, or without one.

        Raises:
            ArgumentError: an argument out of its range.
        """
        shape = _kernel_shape(cls.__name__, window, channels, out, groups)
        options = _checked_options(cls.__name__, len(shape) - 2, stride, padding, dilation)
        return cls(init(seed, shape), zeros(out) if bias else None, **options, groups=groups)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *positions, out] for float[batch, *spatial, channels]."""
        return self._biased(conv(x, self.kernel, groups=self.groups, **self._options()))

    def _options(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def _biased(self, z: Array) -> Array:
        return z if self.bias is None else z + self.bias


@layer
@attrs.frozen
class ConvTranspose(Conv):
    """A transposed convolution with a bias: ``stride`` times as many positions as elements.

    Its attributes and ``create`` are those of `Conv`; padding is cut off at the ends, as in `afx.nn.conv_transpose`.

    >>> ConvTranspose.create(0, (4,), 1, 3, stride=2, padding="same")(afx.ones((2, 8, 1))).shape
    (2, 16, 3)
    """

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *positions, out] for float[batch, *spatial, channels]."""
        return self._biased(conv_transpose(x, self.kernel, groups=self.groups, **self._options()))


def _kernel_shape(who: str, window: Sequence[int], channels: int, out: int, groups: int) -> Shape:
    if isinstance(window, int):
        raise ArgumentError(
            f"{who}: the window has a length for each spatial axis: got {window}; write ({window},) for one axis, "
            f"({window}, {window}) for images: nn.{who}.create(key, window, channels, out)"
        )
    spatial = checked_shape(window, who)
    channels, out, groups = checked_shape((channels, out, groups), who)
    if not spatial or not all(spatial) or not channels or not out:
        raise ArgumentError(f"{who}: no elements: got {window=}, {channels=} and {out=}; give 1 or more of each")
    if groups < 1 or channels % groups or out % groups:
        raise ArgumentError(
            f"{who}: groups divide channels and outputs: got {channels}, {out} and groups={groups}; "
            "take a common divisor"
        )
    return (*spatial, channels // groups, out)


def _checked_options(who: str, rank: int, stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    """Return these where they are well formed, sequences as tuples."""
    if isinstance(padding, str) and padding not in ("valid", "same") and padding.lower() in ("valid", "same"):
        raise ArgumentError(f"{who}: padding is spelt in small letters: got {padding!r}; write {padding.lower()!r}")
    each_axis(stride, rank, "stride", who)
    each_axis(dilation, rank, "dilation", who)
    ones = (1,) * rank
    given: Any = padding
    padded_by(given, ones, ones, ones, ones, who)
    return {"stride": _hashable(stride), "padding": _hashable(padding), "dilation": _hashable(dilation)}


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | str) else tuple(map(_hashable, value))


# --- Resampling: images and signals of more positions than there were


def upsample(x: ArrayLike, factor: int | Sequence[int], *, method: Literal["nearest", "linear"] = "nearest") -> Array:
    """Return ``factor`` times as many positions along each spatial axis.

    Positions are the middles of cells, so ends repeat (PyTorch's ``align_corners=False``); in two dimensions linear is
    bilinear.

    Args:
        x: float[batch, *spatial, channels].
        factor: 1 or more; one for all spatial axes, or one each.
        method: the nearest position, or between two of them.

    Raises:
        ShapeError: there is no spatial axis, or a factor too many.
        ArgumentError: a factor below 1, or another method.

    >>> upsample(afx.asarray([[[0.0], [1.0]]]), 2, method="linear")[0, :, 0]
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    a = aval_of(x, "upsample")
    factors = list(factor) if isinstance(factor, Sequence) else [factor] * (a.ndim - 2)
    if a.ndim < 3 or len(factors) != a.ndim - 2:
        raise ShapeError(f"upsample: x is [batch, *spatial, channels]: got {a} and {factor=}; give a factor for each")
    if method not in ("nearest", "linear") or min(integer(n, "upsample", "factor") for n in factors) < 1:
        raise ArgumentError(
            f"upsample: factors are 1 or more, methods 'nearest' and 'linear': got {factor} and {method!r}; choose among them"
        )
    y = asarray(x)
    for axis, n in enumerate(factors, 1):
        y = repeat(y, n, axis=axis) if method == "nearest" else _between(y, n, axis)
    return y


def _between(x: Array, factor: int, axis: int) -> Array:
    """Return values on a line between neighbours, at the middles of cells ``factor`` times as small."""
    size = x.shape[axis]
    places = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, max(size - 1, 0))
    low = np.minimum(places.astype(int), max(size - 2, 0))
    share = astype(asarray((places - low).reshape((-1,) + (1,) * (x.ndim - 1 - axis))), x.dtype)
    left, right = take(x, low, axis=axis), take(x, np.minimum(low + 1, size - 1), axis=axis)
    return left + share * (right - left)


def pixel_shuffle(x: ArrayLike, factor: int) -> Array:
    """Return an image of more positions and fewer channels (Shi et al. 2016, equation 4).

    The order of the channels is PyTorch's: those of one output channel stand together, row by row.

    Args:
        x: float[batch, *spatial, channels · factor to the power of the number of spatial axes].
        factor: how many times as long each spatial axis becomes.

    Raises:
        ShapeError: the channels are not that many.

    >>> pixel_shuffle(afx.arange(4.0).reshape(1, 1, 1, 4), 2)[0, :, :, 0]
    Array([[0., 1.],
           [2., 3.]], dtype=float32)
    """
    a = aval_of(x, "pixel_shuffle")
    rank = a.ndim - 2
    if rank < 1 or integer(factor, "pixel_shuffle", "factor") < 1 or a.shape[-1] % factor**rank:
        raise ShapeError(
            f"pixel_shuffle: channels are a multiple of {factor}^{rank}: got {a}; give [batch, *spatial, channels]"
        )
    batch, *spatial, channels = a.shape
    parts = reshape(asarray(x), (batch, *spatial, channels // factor**rank, *[factor] * rank))
    for k in range(rank):  # each factor behind its axis
        parts = moveaxis(parts, a.ndim + k, 2 * (k + 1))
    return reshape(parts, (batch, *[n * factor for n in spatial], channels // factor**rank))
