"""Distribution: the data of a step split over slots, with the same bits on any number of processes.

>>> import afx
>>> from afx import distributed
>>> def loss(w, x, y):
...     return afx.mean((x * w - y) ** 2)
>>> x = afx.asarray([1.0, 2.0, 3.0, 4.0])
>>> machines = distributed.local(2)                   # or distributed.connect(slots=2) under mpiexec
>>> step = machines.value_and_grad(loss, split=distributed.Split((3, 1)))
>>> value, grad = step(0.5, x, 2 * x)
>>> float(value), float(grad)
(16.875, -22.5)
"""

from afx.distributed.graph.placement import Estimate, Machine, estimate, place
from afx.distributed.graph.split import GraphSplit, split_graph
from afx.distributed.machines import Machines, local, map_over
from afx.distributed.mpi.connect import connect
from afx.distributed.parts import ShardedState, Split, by_slot
from afx.distributed.sharding import ShardedOptimizer, shard_optimizer
from afx.distributed.spmd import SlotValues
from afx.ops.collectives import all_gather, psum, psum_scatter, shift

__all__ = [
    "Estimate",
    "GraphSplit",
    "Machine",
    "Machines",
    "ShardedOptimizer",
    "ShardedState",
    "SlotValues",
    "Split",
    "all_gather",
    "by_slot",
    "connect",
    "estimate",
    "local",
    "map_over",
    "place",
    "psum",
    "psum_scatter",
    "shard_optimizer",
    "shift",
    "split_graph",
]


def __dir__() -> list[str]:
    return __all__
