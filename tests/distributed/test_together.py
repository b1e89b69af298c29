"""Programs over MPI that end well: on any number of ranks they have the bits of one process, or the errors that they expect."""

from pathlib import Path

import pytest

from tests.distributed.jobs import needs_mpi
from tests.distributed.together import run_together

# What each promises, and on how many ranks.
PROMISES: dict[str, tuple[str, tuple[int, ...]]] = {
    "programs.shard": ("each rank keeps its part of an optimizer's state; a gathered one goes on", (2, 3)),
    "programs.graphs 2": ("random graphs of 200 operations, one of them a gradient, each on a random slot", (2, 3)),
    "programs.step_in_one": ("a step that exchanges chunks, for any Split, also with slots without examples", (2, 3)),
    "programs.slot_programs": ("halo exchange and its gradient, columns of a network, scattered sums, rings", (3, 4)),
    "programs.stages": ("inputs of a pipeline are read on the first rank, targets on the last one alone", (3, 4)),
    "programs.pieces": ("messages are cut where one call of MPI takes no more elements", (3,)),
    "programs.machines_of 2,1": ("ranks that share machines sum there first: whole sums and those of chunks", (3,)),
    "summing.shared memory": (
        "leaves of all dtypes and sizes, empty and in columns, end anywhere in a chunk",
        (2, 3, 4),
    ),
    "summing.shared messages": ("the same by messages", (2, 3)),
    "summing.kept": ("results stay as they are while a rank holds them, whatever is computed next", (2, 3)),
    "summing.other_integers": ("sums go on after integers that differ, in small arrays and in large ones", (2,)),
    "faults.idle_graph": ("ranks without slots of a graph wait for its outputs", (2, 4)),
    "faults.connect_again": ("what ranks said at the end of a connection does not reach the next one", (2,)),
    "faults.list_ports": ("ranks that talk through memory listen on no address of the network", (2,)),
    "faults.other_integers": ("integers that differ are refused by all ranks, also where one rank adds them up", (2,)),
    "faults.differ_in_calls": ("other structures, shapes, weights, items, roots or inputs of a call are refused", (2,)),
    "faults.errors_in_slots": ("an error in a slot is one on all ranks; a program that catches it goes on", (3,)),
    "faults.errors_in_calls stop": ("so is one in a map, an average, a gradient, a sharded step or a pipeline", (3,)),
    "faults.clocks": ("limits of time and early stopping go by rank 0", (3,)),
}


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_programs_that_end_well(ranks: int, tmp_path: Path) -> None:
    """Each agrees with one process on each rank; a checkpoint is a file a rank, and one that makes it valid."""
    calls = [call for call, (_, counts) in PROMISES.items() if ranks in counts]
    if ranks == 3:
        calls.append(f"faults.save_once {tmp_path}")
    assert run_together(ranks, *calls) == []
    assert len([*tmp_path.iterdir()]) == (2 * (1 + 3) if ranks == 3 else 0)
