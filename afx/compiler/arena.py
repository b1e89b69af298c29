"""Arena: offsets into one block of memory, handed out and taken back."""

from __future__ import annotations

from bisect import insort

from afx.compiler.target import DEFAULT

__all__ = ["ALIGNMENT", "Arena"]

ALIGNMENT: int = DEFAULT.arena_alignment_bytes


class Arena:
    """Hands out offsets in one block of memory and takes them back, the smallest hole that fits first.

    Attributes:
        alignment: bytes of which each offset is a multiple.
        size: bytes that the block needs.
        live: bytes that are in use now.
        widest: the most that were in use at any time.
    """

    def __init__(self, alignment: int = ALIGNMENT) -> None:
        self.alignment: int = alignment
        self.size: int = 0
        self.live: int = 0
        self.widest: int = 0
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), by offset

    def take(self, nbytes: int) -> int:
        """Return the offset of a free piece."""
        need = -(-max(nbytes, 1) // self.alignment) * self.alignment
        self.live += need
        self.widest = max(self.widest, self.live)
        best = -1
        for k, (_, room) in enumerate(self._holes):
            if room >= need and (best < 0 or room < self._holes[best][1]):
                best = k
        if best >= 0:
            offset, room = self._holes.pop(best)
            if room > need:
                insort(self._holes, (offset + need, room - need))
            return offset
        if self._holes and sum(self._holes[-1]) == self.size:  # the last hole grows
            offset, _ = self._holes.pop()
        else:
            offset = self.size
        self.size = offset + need
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Take a piece back."""
        room = -(-max(nbytes, 1) // self.alignment) * self.alignment
        self.live -= room
        insort(self._holes, (offset, room))
        k = self._holes.index((offset, room))
        if k + 1 < len(self._holes) and offset + room == self._holes[k + 1][0]:
            room += self._holes.pop(k + 1)[1]
            self._holes[k] = (offset, room)
        if k and sum(self._holes[k - 1]) == offset:
            before, width = self._holes[k - 1]
            self._holes[k - 1 : k + 1] = [(before, width + room)]
