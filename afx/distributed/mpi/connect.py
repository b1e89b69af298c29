"""Connect: processes started by ``mpiexec`` become the ranks of slots, through mpi4py (extra ``distributed``)."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import platform
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal

import numpy as np

from afx.distributed.machines import Machines, local
from afx.distributed.mpi.link import MpiLink
from afx.distributed.mpi.watch import Peer, Watch
from afx.errors import ArgumentError, MissingExtraError, PeerLost
from afx.runtime import job
from afx.runtime.thread_pool import allowed_processors, count_processors, get_threads, machine_processors, set_threads

# --- Launch: what the environment says about how this process was started

# By launcher: Open MPI's mpiexec; PMI (MPICH, Intel MPI, srun --mpi=pmi2); a step of SLURM
RANK_COUNTS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
HERE_COUNT = "OMPI_COMM_WORLD_LOCAL_SIZE"
# What launchers of MPI set: Open MPI, PMI and PMIx, MVAPICH, SLURM, PALS of Cray, jsrun, Flux
LAUNCHERS = ("OMPI_COMM_", "PMI", "MPI_", "MV2_", "SLURM_", "PALS_", "JSM_", "FLUX_")
TORCH_RANK, TORCH_COUNT = "RANK", "WORLD_SIZE"  # of torchrun and its kin, which start processes without MPI


def is_launched() -> bool:
    """Tell whether a launcher of MPI may have started this process."""
    return any(name.startswith(LAUNCHERS) for name in os.environ)


def asked_ranks(environment: Mapping[str, str]) -> int:
    """Return how many ranks the launcher started, as far as its variables tell; 1 where they do not."""
    for name in RANK_COUNTS:
        if (text := environment.get(name, "")).isdigit():
            return int(text)
    text = environment.get("PMIX_RANK", "")
    return int(text) + 1 if text.isdigit() else 1  # at least so many


def is_one_machine(environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether all ranks run on this machine, as far as the launcher's variables tell."""
    env = os.environ if environment is None else environment
    local_count = env.get(HERE_COUNT)
    return env.get(RANK_COUNTS[0]) == local_count if local_count is not None else asked_ranks(env) == 1


def check_launch(seen: int, environment: Mapping[str, str] | None = None) -> None:
    """Refuse a job whose processes do not know each other: each of them would be rank 0.

    Args:
        seen: the ranks that MPI sees.
        environment: variables; this process's own by default.

    Raises:
        ArgumentError: the launcher started more ranks than MPI sees.
    """
    env = os.environ if environment is None else environment
    asked = asked_ranks(env)
    if seen > 1:
        return
    if asked <= 1:
        _refuse_torch(env)
        return
    if "SLURM_STEP_NUM_TASKS" in env and "OMPI_COMM_WORLD_SIZE" not in env:
        raise ArgumentError(
            f"connect: srun started {asked} processes that do not know each other: got one rank in each, all of them rank 0; "
            'start by mpiexec -n "$SLURM_NTASKS" python -m mpi4py train.py inside of sbatch or salloc, or by '
            "srun --mpi=pmix where the cluster's PMIx and that of mpi4py's MPI fit"
        )
    raise ArgumentError(
        f"connect: the launcher started {asked} ranks or more and MPI sees {seen}: got an mpiexec of another MPI than "
        "mpi4py's; use the one that the extra distributed installs"
    )


def _refuse_torch(env: Mapping[str, str]) -> None:
    text = env.get(TORCH_COUNT, "")
    if text.isdigit() and int(text) > 1 and TORCH_RANK in env:
        raise ArgumentError(
            f"connect: a launcher such as torchrun started {text} processes, which MPI does not join: got {TORCH_RANK}="
            f"{env[TORCH_RANK]} and {TORCH_COUNT}={text}, all of them rank 0; start by mpiexec -n {text} python -m mpi4py "
            f"train.py, or unset {TORCH_COUNT} for one process"
        )


# --- Start: MPI begins, and a rank that never comes there is an error instead of a wait for ever

# Quick start within one machine: 0.1 s instead of 1.1 s for the search for networks; and no open port there.
SETTINGS: Final = {"OMPI_MCA_pml": "ob1"}
NETWORK: Final = "OMPI_MCA_btl"


@contextlib.contextmanager
def limit_wait(deadline: float) -> Generator[None]:
    """End this process with an error where what it does takes longer: MPI's own start and first calls wait for ever."""

    def end() -> None:
        sys.stderr.write(
            f"afx.errors.PeerLost: connect: no answer within the deadline: got {deadline:.1f} s of waiting for all ranks to "
            "begin; one was lost before it did: look at the output of the others, and start the job again\n"
        )
        sys.stderr.flush()
        os._exit(1)  # the main thread is inside of MPI

    timer = threading.Timer(deadline, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def import_mpi() -> Any:
    """Return mpi4py's module, with MPI begun.

    Raises:
        MissingExtraError: mpi4py is not installed, or finds no library of MPI.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault(NETWORK, "self,sm" if is_one_machine() else "self,sm,tcp")
    try:
        settings = importlib.import_module("mpi4py").rc
        if "mpi4py.MPI" not in sys.modules and settings.initialize:
            settings.initialize, settings.finalize = False, settings.finalize is not False
            mpi = importlib.import_module("mpi4py.MPI")
            settings.initialize = True
            _begin(mpi)
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise MissingExtraError('connect: needs mpi4py: got none; pip install "afx[distributed]"') from error
    except RuntimeError as error:
        raise MissingExtraError(
            f"connect: needs a library of MPI beside mpi4py: got none that it can load ({str(error).splitlines()[0]}); "
            'pip install "afx[distributed]", or load the cluster\'s module of MPI'
        ) from error


def _begin(mpi: Any) -> None:
    """Initialize MPI; mpi4py would hold Python's lock meanwhile, so that no other thread could see to the deadline."""
    try:
        init = ctypes.CDLL(mpi.__file__).MPI_Init_thread
    except (OSError, AttributeError):
        mpi.Init_thread()
        return
    init(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))


# --- Connect

FEW_PROCESSORS: Final = 8  # of which one process uses a single one: a job's binding rather than a small machine


def connect(
    slots: int | None = None, *, deadline: float = 300.0, on_loss: Literal["stop", "shrink"] = "stop"
) -> Machines:
    """Return the slots of a job that ``mpiexec`` started, shared by its ranks.

    Start it by ``mpiexec -n 2 python -m mpi4py train.py``. An exception on one rank ends all ranks with its traceback.
    A script that no launcher started is one process, in which no MPI begins.
    Ranks that share a machine's processors get an equal part of its threads (`afx.set_threads`); ranks of one machine are
    neighbours, whatever order the launcher gave them.

    Args:
        slots: the number of logical machines; None for one a rank. Results depend on it, not on the number of ranks.
        deadline: how many seconds to wait for another rank before `PeerLost` is raised.
        on_loss: ``"stop"`` ends the job when a rank is lost. ``"shrink"`` goes on without it: the others do the call
            again, with the same bits; a rank that hangs is ended at the deadline by those on its machine. Needs Open MPI 5
            and ``mpiexec --with-ft ulfm``.

    Raises:
        MissingExtraError: mpi4py is not installed.
        ArgumentError: more ranks than slots, or a launcher that starts separate jobs of one rank each, such as torchrun.
        PeerLost: a rank was lost meanwhile.
    """
    if on_loss not in ("stop", "shrink"):
        raise ArgumentError(f'connect: on_loss is "stop" or "shrink": got {on_loss!r}')
    if "mpi4py.MPI" not in sys.modules and not is_launched():  # Open MPI would leave 16 MB in /dev/shm behind
        check_launch(1)
        return _begin_alone(_count_slots(1, slots))
    with limit_wait(deadline):
        mpi = import_mpi()
    check_launch(mpi.COMM_WORLD.size)
    count = _count_slots(mpi.COMM_WORLD.size, slots)
    _abort_on_error(mpi.COMM_WORLD)
    try:
        with limit_wait(deadline):
            comm = mpi.COMM_WORLD.Shrink() if on_loss == "shrink" else mpi.COMM_WORLD.Dup()
        link = MpiLink(mpi, comm, count, deadline, on_loss == "shrink")
        _abort_on_error(mpi.COMM_WORLD, link.watch)
    except mpi.Exception as error:
        raise PeerLost(f"connect: a rank was lost ({error}): got no answer; start the job again") from error
    machines = Machines(link, count)
    machines.repeat_until_committed("connect", lambda: _meet(link, machines))
    atexit.register(_say_goodbye, machines, link)
    job.begin(machines)
    return machines


def _count_slots(ranks: int, slots: int | None) -> int:
    count = ranks if slots is None else slots
    if not 1 <= ranks <= count:
        raise ArgumentError(f"connect: at most one rank a slot: got {ranks} ranks for {count} slots; add slots")
    return count


def _begin_alone(slots: int) -> Machines:
    machines = local(slots)
    job.begin(machines)
    return machines


def _meet(link: MpiLink, machines: Machines) -> None:
    """Tell each other where the ranks run, make those of one machine neighbours, and compare slots and versions."""
    processors = allowed_processors()
    own_place = [platform.node(), os.getpid(), processors]
    places = [json.loads(data) for data in link.gather(json.dumps(own_place).encode())]
    hosts = list(dict.fromkeys(host for host, _, _ in places))
    order = sorted(range(len(places)), key=lambda rank: hosts.index(places[rank][0]))
    comm = link.comm
    if order != list(range(len(places))):
        comm = comm.Split(0, order.index(link.rank))
    link.use(comm, [Peer(places[rank][0], places[rank][1]) for rank in order])
    link.add_control()
    _share_processors(processors, sum(one[0] == own_place[0] and one[2] == processors for one in places))
    versions = f"{machines.slots} {sys.version_info[:2]} {np.__version__}"
    machines.agreement.check_same(versions, "number of slots and versions")


def _share_processors(processors: Sequence[int], share: int) -> None:
    """Give each rank the threads that are left to it where ranks share processors: more would only wait for each other."""
    set_threads(min(get_threads(), max(1, count_processors() // share)))
    total = machine_processors()
    if len(processors) == 1 and total >= FEW_PROCESSORS:
        warnings.warn(
            f"connect: this rank may use 1 of {total} processors: mpiexec binds each rank to one core by default; start it "
            'with --bind-to none, or with --map-by ppr:1:node:PE=N for N cores a rank (SLURM: PE="$SLURM_CPUS_PER_TASK")',
            stacklevel=3,
        )


def _say_goodbye(machines: Machines, link: MpiLink) -> None:
    """Tell ranks that still wait that this one ends; before MPI does, which would wait for them."""
    if not machines.is_closed:
        machines.is_closed = True
        link.watch.say_goodbye()


def _abort_on_error(comm: Any, watch: Watch | None = None) -> None:
    """End all ranks when one ends by an exception, as plain mpi4py does not."""

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        status = 130 if kind is KeyboardInterrupt else 1
        if watch is not None and watch.is_alone():
            os._exit(status)  # Open MPI's launcher ends with status 0 where the last one of several ranks aborts
        if watch is not None:
            watch.say_goodbye()  # an abort of three ranks or more does not reach the others where ranks may be lost
        comm.Abort(status)

    sys.excepthook = end
