"""Sharded state: an optimizer's states by slot, of which each rank has its own."""

from __future__ import annotations

import attrs

from afx.io.shards import Shards

__all__ = ["ShardedState"]


@attrs.frozen
class ShardedState(Shards):
    """The optimizer's states by slot: those of this rank's slots, or of all after `ShardedOptimizer.gather`.

    `afx.io.Checkpoints` lets each rank write its own slots, and read those that it needs, on any number of ranks; a state of
    all slots can be saved by `afx.io.save`. `SlotValues` are saved as ``ShardedState(values.by_slot)``, and used again
    by ``by_slot(state.by_slot.__getitem__)``.

    Attributes:
        by_slot: the states.
    """
