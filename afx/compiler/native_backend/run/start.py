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

from afx.compiler.native_backend.llvm.writer import Layout
from afx.compiler.native_backend.lowering.products import products_digest
from afx.compiler.native_backend.run.run import MixedRunner, Runner
from afx.compiler.native_backend.run.trial import Code, NumpyPlan, Run, Trial
from afx.compiler.native_backend.service.code_cache import (
    Kept,
    Made,
    describe,
    find_kept,
    keep_verdict,
    key_of_description,
)
from afx.compiler.native_backend.service.helper import TOO_LONG, UNKNOWN_HERE, code_folder, warn
from afx.compiler.native_backend.service.image import Image
from afx.compiler.native_backend.service.link import layout, link, load_linker
from afx.compiler.native_backend.service.process import LAST, make_described, service
from afx.compiler.schedule.schedule import Call, Instruction, Schedule
from afx.compiler.target import current
from afx.core.registry import loaded_modules
from afx.runtime.buffer_cache import IdleBuffers
from afx.runtime.thread_pool import between_forks

IMAGE_COPIES = 2  # of object code: sections in memory, and what the linker knows of them
INSTRUCTION_BYTES = 3000  # of the programs of kernels, by instruction: measured
PRODUCTS = frozenset({"dot", "flat_dot", "vecdot", "matmul"})  # methods and ufuncs


def load() -> None:
    """Load what linking needs besides this module: LLVM, where object code is none that is laid out elsewhere."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        load_linker()


def start(code: Code) -> None:
    """Have the machine code of a plan made, or link it where it is kept.

    Where the caller waits for it, it is lowered here, in less time than another process needs to import afx.
    """
    if code.state != "compiling" or look(code):
        return
    where, schedule, target = _place(code.schedule), code.schedule, code.target
    if where is None:
        code.give_up(UNKNOWN_HERE)
    elif len(schedule) > target.native.lower_max_instructions:
        code.give_up(TOO_LONG)
    elif (code.is_awaited or code.is_long) and len(schedule) <= target.native.await_max_instructions:
        with between_forks():
            from afx.compiler.native_backend.service.build import compile_here  # lowering is for callers who wait alone

        compile_here(code.schedule, target, where, code.key, code.arrive)
    else:
        try:
            data = describe(schedule, where)
        except Exception as error:  # of a function that the user's code holds, say: this job's fault alone
            code.give_up(f"another process cannot have what it holds ({error})")
            return
        code.key = code.key or key_of_description(data, target)
        call = (make_described, loaded_modules(), data, target, code_folder(), code.key)
        service.submit(call, code.arrive, (not code.is_awaited, len(schedule)))


def look(code: Code) -> bool:
    """Run what an earlier process kept of a plan, where there is something; tell whether there is."""
    where, folder = _place(code.schedule), code_folder()
    if where is None or not folder or code.has_looked or code.state not in ("waiting", "compiling"):
        return False
    code.has_looked = True
    try:
        code.key = key_of_description(describe(code.schedule, where), code.target)
    except Exception:  # a function of the user's
        return False
    kept = find_kept(code.key, folder, code.trusts)
    if kept is not None and kept.made is None:
        code.trust_numpy(current.target.service.trusted_max_seconds)
    elif kept is not None:
        take(code, kept.made, "", kept)
    return kept is not None


def _place(schedule: Schedule) -> Layout | None:
    """Return where things are kept here, with BLAS's orders of sums where code depends on them."""
    where = layout()
    if where is None or not any(map(_is_product, schedule.at_any_depth())):
        return where
    return attrs.evolve(where, products=products_digest())


def _is_product(instruction: Instruction) -> bool:
    """Tell whether it is a product of matrices or vectors."""
    return isinstance(instruction, Call) and bool({instruction.method, instruction.ufunc} & PRODUCTS)


def take(code: Code, made: Made | bytes | None, reason: str, kept: Kept | None = None) -> None:
    """Link what was made, and run it: at once where it was tried before, or has bits of its own."""
    if made is None:
        code.give_up(reason)
        return
    try:
        unpacked: Made = pickle.loads(made) if isinstance(made, bytes) else made
        run, own_idle, nbytes = _linked(unpacked, code)
    except Exception as error:
        warn("plan", f"machine code cannot be linked ({type(error).__name__}: {error})")
        code.give_up(f"it cannot be linked: {error}")
        return
    code.own_idle = own_idle
    code.idle.fixed_bytes += nbytes
    is_whole = unpacked[0] is None
    is_chosen = code.target.tier > 1 or (kept is not None and kept.is_tried)
    if is_chosen or (is_whole and (code.is_awaited or code.is_long)):
        code.settle("linked", run)
        return
    key, folder, schedule = code.key, code_folder(), code.schedule
    code.settle("linked", Trial(code, run, lambda is_faster: keep_verdict(key, folder, schedule, is_faster, _submit)))


def _submit(call: tuple[Any, ...]) -> None:
    service.submit(call, None, LAST)


def _linked(made: Made, code: Code) -> tuple[Run, IdleBuffers, int]:
    """Return what runs the kernels that were made, with BLAS held to one thread where it is called; buffers; bytes."""
    mixed, pieces, image = made
    nbytes = (1 if isinstance(image, Image) else IMAGE_COPIES) * len(image) + INSTRUCTION_BYTES * len(code.schedule)
    kernels = link([face for face, _ in pieces], image)
    if mixed is not None:
        several = MixedRunner(mixed, code.target, kernels, [constants for _, constants in pieces], code.idle)
        return _held(several, code) if code.policy else several, several.idle, nbytes
    ((face, constants),) = pieces
    runner = Runner(code.schedule, code.target, kernels[0], constants, code.idle)
    run = _held(runner.bind(), code) if code.policy and face.calls_blas else runner.bind()
    return run, runner.idle, nbytes


def _held(run: Run, code: Code) -> Run:
    (policy,) = code.policy

    def within(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        with policy:
            return run(values, plan)

    return within
