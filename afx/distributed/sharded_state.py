"""Sharded state: an optimizer's states by slot, of which each rank has its own."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["ShardedState"]


@attrs.frozen
class ShardedState:
    """The optimizer's states by slot: those of this rank's slots, or of all after `ShardedOptimizer.gather`.

    A state of all slots can be saved by `afx.io.save` and used on any number of ranks.
    """

    by_slot: dict[int, Any]
