"""Start of machine code: what is kept is linked, else a schedule goes to the child process, and what it makes is linked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from afx.compiler.native_backend.code_folder import code_folder
from afx.compiler.native_backend.failures import FASTER_BY_NUMPY, TOO_LONG, UNKNOWN_HERE, warn
from afx.compiler.native_backend.helper import between_forks
from afx.compiler.native_backend.jobs import make_kernels
from afx.compiler.native_backend.kept import Kept, Made, find_kept, keep_verdict, key_of_schedule
from afx.compiler.native_backend.link import layout, link, load_linker
from afx.compiler.native_backend.llvm.flags import Layout
from afx.compiler.native_backend.lowering.product_order import products_digest
from afx.compiler.native_backend.process import service
from afx.compiler.native_backend.run import MixedRunner, Runner
from afx.compiler.native_backend.trial import NumpyPlan, Run, Trial
from afx.compiler.schedule import Call, Instruction, Schedule
from afx.core.registry import loaded_modules

if TYPE_CHECKING:
    from afx.compiler.native_backend.swap import NativeCode

__all__ = ["load_linker", "look", "start"]

IMAGE_COPIES = 2  # of object code: sections in memory, and what the linker knows of them
INSTRUCTION_BYTES = 3000  # of the programs of kernels, by instruction: measured
PRODUCTS = frozenset({"dot", "flat_dot", "vecdot", "matmul"})  # methods and ufuncs


def start(code: NativeCode) -> None:
    """Have the machine code of a plan made; it settles in another thread, or at once where there is none.

    Where the caller waits for it, lowering it here stops nobody.
    """
    if code.state != "compiling" or look(code):
        return
    where, schedule, target = _place(code.schedule), code.schedule, code.target
    if where is None:
        code.give_up(UNKNOWN_HERE)
        return
    if len(schedule) > target.native.lower_max_instructions:
        code.give_up(TOO_LONG)
        return

    def done(made: Made | None, reason: str) -> None:
        _finish(code, made, reason)

    if code.is_awaited and len(schedule) <= target.native.await_max_instructions:
        with between_forks():
            from afx.compiler.native_backend.build import compile_here  # lowering is for callers who wait alone

        compile_here(code.schedule, target, where, code.key, done)
    else:
        call = (make_kernels, loaded_modules(), schedule, target, where, code_folder(), code.key)
        service.submit(call, done, (not code.is_awaited, len(schedule)))


def look(code: NativeCode) -> bool:
    """Run what an earlier process kept of a plan, where there is something; tell whether there is."""
    where, folder = _place(code.schedule), code_folder()
    if where is None or not folder or code.has_looked or code.state not in ("waiting", "compiling"):
        return False
    code.has_looked = True
    code.key = key_of_schedule(code.schedule, code.target, where)
    found = find_kept(code.key, folder)
    if found is not None:
        _finish(code, found.made, "" if found.made else FASTER_BY_NUMPY, found)
    elif not code.is_awaited:
        service.start(loaded_modules())  # the calls that are to be counted will ask for it
    return found is not None


def _place(schedule: Schedule) -> Layout | None:
    """Return where things are kept here, with BLAS's orders of sums where code depends on them."""
    where = layout()
    if where is None or not any(map(_is_product, schedule.at_any_depth())):
        return where
    return attrs.evolve(where, products=products_digest())


def _is_product(instruction: Instruction) -> bool:
    """Tell whether it is a product of matrices or vectors."""
    return isinstance(instruction, Call) and bool({instruction.method, instruction.ufunc} & PRODUCTS)


def _finish(code: NativeCode, made: Made | None, reason: str, kept: Kept | None = None) -> None:
    """Link what was made, and run it: at once where it was tried before, or has bits of its own."""
    if made is None:
        code.give_up(reason)
        return
    try:
        with between_forks():
            run = _linked(made, code)
    except Exception as error:
        warn("plan", f"machine code cannot be linked ({type(error).__name__}: {error})")
        code.give_up(f"it cannot be linked: {error}")
        return
    is_chosen = code.target.tier > 1 or (made[0] is None and code.is_awaited) or (kept is not None and kept.is_tried)
    if is_chosen:
        code.settle("linked", run)
        return
    key, folder, schedule = code.key, code_folder(), code.schedule
    code.settle("linked", Trial(code, run, lambda is_faster: keep_verdict(key, folder, schedule, is_faster)))


def _linked(made: Made, code: NativeCode) -> Run:
    """Return what runs the kernels that were made, with BLAS held to one thread where it is called."""
    mixed, pieces, image = made
    code.idle.fixed_bytes += IMAGE_COPIES * len(image) + INSTRUCTION_BYTES * len(code.schedule)
    kernels = link([face for face, _ in pieces], image)
    if mixed is not None:
        several = MixedRunner(mixed, code.target, kernels, [constants for _, constants in pieces], code.idle)
        code.own_idle = several.idle
        return _held(several, code) if code.policy else several
    ((face, constants),) = pieces
    runner = Runner(code.schedule, code.target, kernels[0], constants, code.idle)
    code.own_idle = runner.idle
    return _held(runner.bind(), code) if code.policy and face.calls_blas else runner.bind()


def _held(run: Run, code: NativeCode) -> Run:
    (policy,) = code.policy

    def within(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        with policy:
            return run(values, plan)

    return within
