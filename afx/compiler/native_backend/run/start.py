"""Start of machine code: what is kept is linked, else a schedule goes to the child process, and what it makes is linked.

All of it happens in threads that call compiled functions: a thread beside them would wait for the interpreter's lock at
each step. The one that waits for the child imports nothing, so that a process may be forked off at any time.
"""

from __future__ import annotations

import pickle
import platform
import sys
from collections.abc import Sequence
from typing import Any

import attrs

from afx.compiler.native_backend.llvm.writer import Addresses
from afx.compiler.native_backend.lowering.products import products_digest
from afx.compiler.native_backend.run.job import CodeJob, Kernels, NumpyPlan, Run
from afx.compiler.native_backend.run.run import MixedRunner, Runner
from afx.compiler.native_backend.service import code_cache
from afx.compiler.native_backend.service.code_cache import Done, Kept, Made, describe, find_kept, key_of_description
from afx.compiler.native_backend.service.helper import TOO_LONG, UNKNOWN_HERE, code_folder
from afx.compiler.native_backend.service.image import Image
from afx.compiler.native_backend.service.link import layout, link as link_kernels, load_linker
from afx.compiler.native_backend.service.process import LAST, make_described, service
from afx.compiler.schedule.schedule import Call, Instruction, Schedule
from afx.core.registry import loaded_modules
from afx.core.scalar_ops import MATMUL
from afx.runtime.thread_pool import between_forks

IMAGE_COPIES = 2  # of object code: sections in memory, and what the linker knows of them
INSTRUCTION_BYTES = 3000  # of the programs of kernels, by instruction: measured
PRODUCTS = frozenset({"dot", "flat_dot", "vecdot", MATMUL})  # methods and ufuncs


def load() -> None:
    """Load what linking needs besides this module: LLVM, where object code is none that is laid out elsewhere."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        load_linker()


def start(job: CodeJob, arrive: Done) -> str:
    """Have the machine code of a plan made, which arrives later; return why it cannot be, else an empty text.

    Where the caller waits for it, or the other process is about to import afx, it is lowered here, in less time.
    """
    where, schedule, target = _place(job.schedule), job.schedule, job.target
    if where is None:
        return UNKNOWN_HERE
    if len(schedule) > target.native.lower_max_instructions:
        return TOO_LONG
    is_quicker_here = job.is_awaited or job.is_long or (job.is_slow and not service.is_warm)
    if is_quicker_here and len(schedule) <= target.native.await_max_instructions:
        service.start()  # it imports LLVM while this process lowers
        with between_forks():
            from afx.compiler.native_backend.service.build import compile_here  # lowering is for callers who wait alone

        compile_here(schedule, target, where, job.key, arrive)
        if not job.is_awaited:
            service.preload(loaded_modules())
        return ""
    try:
        data = describe(schedule, where)
    except Exception as error:  # of a function that the user's code holds, say: this job's fault alone
        return f"another process cannot have what it holds ({error})"
    job.key = job.key or key_of_description(data, target)
    call = (make_described, loaded_modules(), data, target, code_folder(), job.key)
    service.submit(call, arrive, (not job.is_awaited, len(schedule)))
    return ""


def look(job: CodeJob, trusts: bool) -> Kept | None:
    """Return what an earlier process kept of a plan; where its verdict is trusted, that NumPy's calls were faster too."""
    where, folder = _place(job.schedule), code_folder()
    if where is None or not folder:
        return None
    try:
        job.key = key_of_description(describe(job.schedule, where), job.target)
    except Exception:  # a function of the user's
        return None
    return find_kept(job.key, folder, trusts)


def _place(schedule: Schedule) -> Addresses | None:
    """Return where things are kept here, with BLAS's orders of sums where code depends on them."""
    where = layout()
    if where is None or not any(map(_is_product, schedule.at_any_depth())):
        return where
    return attrs.evolve(where, products=products_digest())


def _is_product(instruction: Instruction) -> bool:
    """Tell whether it is a product of matrices or vectors."""
    return isinstance(instruction, Call) and bool({instruction.method, instruction.ufunc} & PRODUCTS)


def keep_verdict(job: CodeJob, is_faster: bool) -> None:
    """Keep what a trial came to for later processes."""
    code_cache.keep_verdict(job.key, code_folder(), job.schedule, is_faster, _submit)


def _submit(call: tuple[Any, ...]) -> None:
    service.submit(call, None, LAST)


def link(job: CodeJob, made: Made | bytes) -> Kernels:
    """Link the kernels that were made, with BLAS held to one thread where it is called."""
    mixed, pieces, image = pickle.loads(made) if isinstance(made, bytes) else made
    kernels = link_kernels([face for face, _ in pieces], image)
    if mixed is not None:
        own = [constants for _, constants in pieces]
        several = MixedRunner(mixed, job.target, kernels, own, job.idle, job.flushes)
        run, idle = _held(several, job) if job.policy else several, several.idle
    else:
        ((face, constants),) = pieces
        runner = Runner(job.schedule, job.target, kernels[0], constants, job.idle)
        run, idle = _held(runner.bind(), job) if job.policy and face.calls_blas else runner.bind(), runner.idle
    copies = 1 if isinstance(image, Image) else IMAGE_COPIES
    job.idle.fixed_bytes += copies * len(image) + INSTRUCTION_BYTES * len(job.schedule)
    return Kernels(run, idle, is_whole=mixed is None)


def _held(run: Run, job: CodeJob) -> Run:
    (policy,) = job.policy

    def within(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        with policy:
            return run(values, plan)

    return within
