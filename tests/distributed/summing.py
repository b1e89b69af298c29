"""Programs of sums that the tests start under ``mpiexec``: each is a function, named on the command line."""

import sys
from typing import Any

import numpy as np

import afx
from afx import distributed
from afx.distributed import Machines, Split
from afx.distributed.mpi import link as mpi_link, shared_memory
from tests.distributed.programs import SLOTS, bits_of, leave_to_numpy, replacing, report

SPLITS = [Split((3, 1, 2, 1)), Split((1, 0, 5, 2)), Split((0, 7, 0, 1))]
SLOT_BYTES = 1 << 16


def make_tree(slot: int, number: int) -> Any:
    """Return leaves of several dtypes and sizes, empty ones among them, which differ from slot to slot."""
    generator = np.random.default_rng([slot, number])
    return {
        "none": np.empty((0, 3)),
        "scalar": generator.normal(),
        "long": generator.normal(size=(number % 3, 25_000)),
        "complex": generator.normal(size=(2, 400)) + 1j * generator.normal(size=(2, 400)),
        "columns": generator.normal(size=(40, 50)).astype(np.float32).T,
        "count": np.arange(number + 5),
        "half": generator.normal(size=2500 * number).astype(np.float16),
    }


def average_all(machines: Machines) -> list[bytes]:
    """Return the bits of averages of many sizes."""
    found: list[bytes] = []
    for number in range(6):
        for split in SPLITS:
            found += bits_of(machines.average(lambda slot, number=number: make_tree(slot, number), split))
    return found


def share_nothing(port: object) -> None:
    """Take the place of `share_memory` where messages are sent."""


def shared() -> None:
    """Sums by memory that the ranks share, in many small chunks, and by messages have the bits of one process."""
    is_shared = sys.argv[2] == "memory"
    way = replacing(mpi_link, "share_memory", mpi_link.share_memory if is_shared else share_nothing)
    with replacing(shared_memory, "SLOT_BYTES", SLOT_BYTES), way:  # 2**18 else
        sum_by(is_shared)


def sum_by(is_shared: bool) -> None:
    """Compare sums with one process, by memory or by messages."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    same = average_all(machines) == average_all(distributed.local(SLOTS))
    link: Any = machines.link
    same &= machines.ranks == 1 or bool(link._shared_sums) == is_shared
    report(machines, same)


def other_lengths() -> None:
    """Ranks average arrays of other lengths."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    split = Split((1, 1, 1, 1))
    machines.average(lambda slot: afx.zeros(5), split)
    machines.average(lambda slot: afx.zeros(5 + machines.rank), split)


def other_integers() -> None:
    """Slots return other integers; the error is caught, and sums go on."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    split, caught = Split((1, 1, 1, 1)), 0
    for size in (3, 300_000):
        for count in (1, size):
            try:
                machines.average(lambda slot, n=count, size=size: np.repeat([slot, 7], [n, size - n]), split)
            except afx.errors.ArgumentError:
                caught += 1
    report(machines, caught == 4 and float(machines.average(float, split)) == 1.5)


def kept() -> None:
    """More results are held than blocks are shared, and given up in another order on each rank."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    split, local = Split((1, 2, 1, 4)), distributed.local(SLOTS)
    held: list[tuple[int, Any]] = []
    same = True
    for number in range(16):
        held.append((number, machines.average(lambda slot, number=number: make_tree(slot, number // 4 + 1), split)))
        if number % 5 == 4:
            del held[machines.rank :: 2]
        for before, tree in held:
            expected = local.average(lambda slot, number=before: make_tree(slot, number // 4 + 1), split)
            same &= bits_of(tree) == bits_of(expected)
    report(machines, same)


if __name__ == "__main__":
    leave_to_numpy()
    globals()[sys.argv[1]]()
