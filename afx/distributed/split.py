"""Split: how many examples of a batch each slot gets, as pure data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs

from afx.core.cached import Cached
from afx.errors import ArgumentError

__all__ = ["Split", "divide_proportionally"]


def _check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    found = tuple(sizes)
    if not found or any(type(size) is not int or size < 0 for size in found) or sum(found) == 0:
        raise ArgumentError(
            f"Split: sizes are whole numbers from 0 on, not all 0: got {found}; such as Split((128, 128))"
        )
    return found


@attrs.frozen(slots=False)
class Split:
    """The sizes of the parts of a batch, one a slot.

    A slot is a logical machine. Results depend on program and Split alone, not on how many processes share the slots.
    A slot of size 0 takes no part.

    Attributes:
        sizes: the number of examples of each slot.

    Raises:
        ArgumentError: no size, a negative one, or none above 0.

    >>> Split((3, 1)).bounds
    ((0, 3), (3, 4))
    """

    sizes: tuple[int, ...] = attrs.field(converter=_check_sizes)

    @classmethod
    def proportional(cls, examples: int, speeds: Sequence[float]) -> Split:
        """Return the split of a batch in proportion to the speeds of machines, rounded by largest remainder.

        Args:
            examples: of the whole batch.
            speeds: one a slot, in any unit; 0 leaves a slot out.

        Raises:
            ArgumentError: negative or infinite speeds, or none above 0.

        >>> Split.proportional(10, [1.0, 1.0, 2.0]).sizes
        (3, 2, 5)
        """
        weights = [float(speed) for speed in speeds]
        if not weights or not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise ArgumentError(
                f"Split: speeds are finite, at least 0 and not all 0: got {list(speeds)}; measure them again"
            )
        return cls(divide_proportionally(examples, weights))

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self.sizes)

    @property
    def total(self) -> int:
        """The number of examples of the whole batch."""
        return sum(self.sizes)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Where each slot's examples begin and end in the whole batch."""
        return tuple(itertools.pairwise((0, *itertools.accumulate(self.sizes))))

    @Cached
    def weights(self) -> dict[int, float]:
        """The share of each slot that takes part in the whole batch, in their order."""
        return {slot: size / self.total for slot, size in enumerate(self.sizes) if size}


def divide_proportionally(total: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Return whole numbers in proportion to weights that add up to a total (Hamilton's method of largest remainders)."""
    whole = math.fsum(weights)
    exact = [total * weight / whole for weight in weights]
    sizes = [math.floor(x) for x in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda k: sizes[k] - exact[k])
    for k in by_remainder[: total - sum(sizes)]:
        sizes[k] += 1
    return tuple(sizes)
