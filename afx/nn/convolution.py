"""Convolutional layers: kernels that move over one, two, three or any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, checked_shape
from afx.errors import ArgumentError
from afx.nn.initializers import Initializer, Seed, he_normal
from afx.nn.layer import layer
from afx.ops.creation.creation import zeros
from afx.ops.nn.convolution import conv
from afx.ops.nn.transposed_convolution import conv_transpose
from afx.ops.nn.windows import Padding, each_axis, padded_by
from afx.pytree import static

__all__ = ["Conv", "ConvTranspose"]

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
    return value if isinstance(value, int | str) else tuple([_hashable(v) for v in value])
