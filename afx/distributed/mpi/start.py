"""Start: MPI begins, and a rank that never comes there is an error instead of a wait for ever."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Generator
from typing import Any, Final

from afx.distributed.mpi.launch import is_one_machine
from afx.errors import MissingExtraError

__all__ = ["import_mpi", "limit_wait"]

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
        settings: Any = importlib.import_module("mpi4py").rc
        if "mpi4py.MPI" not in sys.modules and settings.initialize:
            settings.initialize, settings.finalize = False, settings.finalize is not False
            mpi: Any = importlib.import_module("mpi4py.MPI")
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
        init: Any = ctypes.CDLL(mpi.__file__).MPI_Init_thread
    except (OSError, AttributeError):
        mpi.Init_thread()
        return
    init(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))
