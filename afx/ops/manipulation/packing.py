"""Bits: boolean arrays packed into bytes, eight a byte, and back."""

from __future__ import annotations

from typing import Literal

import numpy as np

from afx.core import Array, integer, normalize_axis, register_function
from afx.errors import ArgumentError, DtypeError
from afx.ops.creation.creation import Nested, asarray
from afx.ops.elementwise.comparison import not_equal
from afx.ops.manipulation.join import moveaxis
from afx.ops.manipulation.pad import pad
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions.sums import sum as sum_

Order = Literal["big", "little"]


def _places(bitorder: str, who: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return by how many places each of eight bits is moved."""
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"{who}: bitorder is 'big' or 'little': got {bitorder!r}; take one of them")
    places = np.arange(8, dtype=np.uint8)
    return places[::-1] if bitorder == "big" else places


@register_function
def packbits(x: Nested, axis: int | None = None, bitorder: Order = "big") -> Array:
    """Return the elements of an array of integers or booleans as bits, those that are not 0 set: eight a uint8.

    Args:
        x: integers or booleans.
        axis: along which bits are packed, filled up with zeros; None reads x as if it were flat.
        bitorder: ``"big"`` makes the first bit that of 128, ``"little"`` that of 1.

    Raises:
        DtypeError: x holds floats.
        ArgumentError: another bitorder.

    >>> packbits(afx.asarray([True, False, True]))
    Array([160], dtype=uint8)
    """
    places, bits = _places(bitorder, "packbits"), asarray(x)
    if bits.dtype.kind not in "biu":
        raise DtypeError(f"packbits: packs booleans and integers: got {bits.aval}; compare it with a threshold")
    bits = reshape(bits, (-1,)) if axis is None or not bits.ndim else bits
    along = normalize_axis(axis or 0, bits.ndim, "packbits")
    rows = moveaxis(astype(not_equal(bits, 0), np.uint8), along, -1)
    full = pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -rows.shape[-1] % 8)])
    bytes_ = reshape(full, (*full.shape[:-1], full.shape[-1] // 8, 8)) << places
    return moveaxis(sum_(bytes_, axis=-1, dtype=np.uint8), -1, along)


@register_function
def unpackbits(x: Nested, axis: int | None = None, count: int | None = None, bitorder: Order = "big") -> Array:
    """Return the bits of an array of uint8, as uint8 of 0 and 1: what `packbits` packed, and the zeros behind.

    Args:
        x: uint8.
        axis: along which bits are laid out; None reads x as if it were flat.
        count: how many bits are wanted: zeros stand behind where there are fewer; a negative number leaves out as many.
        bitorder: ``"big"`` or ``"little"``, as it was packed.

    Raises:
        DtypeError: x is not uint8.
        ArgumentError: another bitorder.

    >>> unpackbits(np.array([160], np.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    places, packed = _places(bitorder, "unpackbits"), asarray(x)
    if packed.dtype != np.uint8:
        raise DtypeError(f"unpackbits: unpacks uint8: got {packed.aval}; use astype")
    packed = reshape(packed, (-1,)) if axis is None or not packed.ndim else packed
    along = normalize_axis(axis or 0, packed.ndim, "unpackbits")
    rows = moveaxis(packed, along, -1)
    bits = reshape((rows[..., None] >> places) & np.uint8(1), (*rows.shape[:-1], rows.shape[-1] * 8))
    if count is not None:
        wanted = integer(count, "unpackbits", "count")
        bits = bits[..., :wanted]
        bits = pad(bits, [(0, 0)] * (rows.ndim - 1) + [(0, max(wanted - bits.shape[-1], 0))])
    return moveaxis(bits, -1, along)
