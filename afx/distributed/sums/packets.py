"""Packets: parts of flat buffers as messages of a size that MPI takes, with small ones joined."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np

from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.rounds import Span

__all__ = [
    "ALIGNMENT",
    "PIECE_BYTES",
    "Packet",
    "Piece",
    "cut_leaves",
    "cut_packets",
    "gather_packet",
    "join_buffers",
    "packet_views",
    "scatter_packet",
    "span_parts",
]

PIECE_BYTES: Final = 1 << 22  # measured on one machine: smaller ones are slower at 100 MB, larger ones not faster
JOIN_BYTES: Final = 1 << 12  # a copy of it costs less than a message
ALIGNMENT: Final = 8

Piece: TypeAlias = tuple[
    int, slice, int, slice
]  # of a leaf: which part of a message, where in it, the leaf, what of it


@attrs.frozen
class Packet:
    """One message.

    Attributes:
        parts: the number of the dtype, the part of its buffer, and where it begins in the message, in bytes.
        nbytes: of the message.
    """

    parts: tuple[tuple[int, slice, int], ...]
    nbytes: int

    @property
    def is_joined(self) -> bool:
        """Whether it holds more than one part, which are copied together."""
        return len(self.parts) != 1


def span_parts(layout: Layout, span: Span) -> list[slice]:
    """Return the part of each buffer that a span is."""
    first, last, whole = span
    return [slice(length * first // whole, length * last // whole) for length in layout.lengths]


@functools.lru_cache(maxsize=1024)
def cut_packets(layout: Layout, spans: tuple[Span, ...], piece_bytes: int) -> tuple[Packet, ...]:
    """Return the messages that carry parts of buffers."""
    large: list[Packet] = []
    small: list[tuple[int, slice, int]] = []
    offset = 0
    by_span = [span_parts(layout, span) for span in spans]
    for kind, dtype in enumerate(layout.dtypes):
        step = max(piece_bytes // dtype.itemsize, 1)
        for parts in by_span:
            for start in range(parts[kind].start, parts[kind].stop, step):
                part = slice(start, min(start + step, parts[kind].stop))
                nbytes = (part.stop - start) * dtype.itemsize
                if nbytes >= JOIN_BYTES:
                    large.append(Packet(((kind, part, 0),), nbytes))
                else:
                    small.append((kind, part, offset))
                    offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return (*large, Packet(tuple(small), offset)) if small else tuple(large)


def join_buffers(layout: Layout) -> Packet:
    """Return the message that carries whole buffers, whatever their sizes."""
    parts: list[tuple[int, slice, int]] = []
    offset = 0
    for kind, (length, dtype) in enumerate(zip(layout.lengths, layout.dtypes, strict=True)):
        parts.append((kind, slice(0, length), offset))
        offset += -(-length * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return Packet(tuple(parts), offset)


def cut_leaves(layout: Layout, packets: Sequence[Packet]) -> list[list[Piece]]:
    """Return what each message has of which leaves."""
    by_kind: list[list[tuple[int, slice]]] = [[] for _ in layout.dtypes]
    for leaf, (kind, at) in enumerate(layout.places()):
        by_kind[kind].append((leaf, at))
    stops = [[at.stop for _, at in leaves] for leaves in by_kind]
    found: list[list[Piece]] = []
    for packet in packets:
        pieces: list[Piece] = []
        for number, (kind, part, _) in enumerate(packet.parts):
            for leaf, at in by_kind[kind][bisect.bisect_right(stops[kind], part.start) :]:
                if at.start >= part.stop:
                    break
                start, stop = max(at.start, part.start), min(at.stop, part.stop)
                into, source = slice(start - part.start, stop - part.start), slice(start - at.start, stop - at.start)
                pieces.append((number, into, leaf, source))
        found.append(pieces)
    return found


def packet_views(packet: Packet, layout: Layout, memory: Ndarray) -> list[Ndarray]:
    """Return the parts of a joined message as arrays of their dtypes."""
    found: list[Ndarray] = []
    for kind, part, offset in packet.parts:
        dtype = layout.dtypes[kind]
        found.append(memory[offset : offset + (part.stop - part.start) * dtype.itemsize].view(dtype))
    return found


def gather_packet(packet: Packet, layout: Layout, buffers: Sequence[Ndarray]) -> Ndarray:
    """Return what a message sends: the part itself, or a copy of several."""
    if not packet.is_joined:
        ((kind, part, _),) = packet.parts
        return buffers[kind][part]
    memory: Ndarray = np.zeros(packet.nbytes, np.uint8)
    for view, (kind, part, _) in zip(packet_views(packet, layout, memory), packet.parts, strict=True):
        view[...] = buffers[kind][part]
    return memory


def scatter_packet(packet: Packet, layout: Layout, memory: Ndarray, buffers: Sequence[Ndarray]) -> None:
    """Copy the parts of a joined message to their places."""
    for view, (kind, part, _) in zip(packet_views(packet, layout, memory), packet.parts, strict=True):
        buffers[kind][part] = view
