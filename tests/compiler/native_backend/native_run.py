"""Runs functions as machine code between canaries, beside the NumPy plan of the same graph."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

import afx
from afx.compiler.native_backend.llvm.emit import choose_passes, emit_programs
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.run.run import run_on_threads, team_memory
from afx.compiler.native_backend.service.child import FEW_PASSES, compile_text
from afx.compiler.native_backend.service.link import Kernel, layout, link
from afx.compiler.native_backend.service.process import CompileService, make_kernels
from afx.compiler.target import NativeTarget, Target, current, use_target
from afx.runtime import thread_pool
from afx.runtime.control_register import run_in_mode

FIRST_TIER = Target(backend="native", native_tier=1)  # NumPy's bits, compiled before the first call
GUARD = 256  # bytes before and behind each array
MARK = 0xA5


def by_numpy(x: Any, axis: int = -1) -> Any:
    """Return Bessel's function of x, which machine code does not compute: one call, of x's shape."""
    assert axis < 2
    return afx.special.jv(2, x)


class Guarded:
    """Memory of an array with marked bytes around it."""

    def __init__(self, shape: Sequence[int], dtype: Any, value: Any = None) -> None:
        size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
        raw = np.full(size + 2 * GUARD + 64, MARK, np.uint8)
        start = GUARD + -(raw.ctypes.data + GUARD) % 64
        self.before, self.behind = raw[:start], raw[start + size :]
        self.array = np.ndarray(tuple(shape), dtype, raw, start)
        if value is not None:
            self.array[...] = value

    @property
    def intact(self) -> bool:
        return bool((self.before == MARK).all() and (self.behind == MARK).all())


@functools.lru_cache(maxsize=64)
def compile_once(text: str) -> bytes:
    """Return the object code of a module, compiled once: many a function is the same text in both tiers."""
    code: bytes = compile_text(text, "")
    return code


class Native:
    """A function compiled for the kinds of some arguments, in this process."""

    def __init__(self, fn: Callable[..., Any], *args: Any, tier: int = 1, compiled: bool = True) -> None:
        lowered = afx.jit(fn).lower(*args)
        self.plan = lowered.plan
        self.target = of_tier(tier)
        self.program, self.constants = lower_schedule(lowered.plan.schedule, self.target)
        if compiled:
            self.kernel: Kernel = link([self.program], compile_once(self.text))[0]

    @functools.cached_property
    def text(self) -> str:
        """The module of this function alone."""
        return emit([self.program], self.target.native)

    def __call__(self, *args: Any) -> tuple[list[Any], int]:
        """Return results and the floating-point errors that were seen."""
        count = len(args)
        params = self.program.params
        given = [Guarded(np.shape(a), np.asarray(a).dtype, a) for a in args]
        outs = [Guarded(p.shape, p.dtype) for p in params[count : len(params) - len(self.constants)]]
        arena = Guarded((self.program.block.arena,), np.uint8)
        arrays = [g.array for g in (*given, *outs)]
        given_all = (*arrays, *self.constants, arena.array)
        if self.program.block.is_shared:
            given_all = (*given_all, *team_memory(self.kernel))
            threads = thread_pool.get_threads()
            errors = run_in_mode(self.plan.flushes, run_on_threads, self.kernel.call, given_all, threads)
        else:
            errors = run_in_mode(self.plan.flushes, self.kernel.call, *given_all)
        assert all(g.intact for g in (*given, *outs, arena))
        for g, a in zip(given, args, strict=True):
            assert g.array.tobytes() == np.ascontiguousarray(a).tobytes()
        return [g.array for g in outs], errors


def emit(programs: Sequence[Any], limits: NativeTarget) -> str:
    """Return the module of programs."""
    where = layout()
    assert where is not None
    return emit_programs(programs, where, limits)


def compile_together(calls: Sequence[tuple[Callable[..., Any], Sequence[Any]]], tier: int) -> list[Native]:
    """Compile functions for the kinds of their arguments, as kernels of one module wherever LLVM's passes are the same."""
    found = [Native(fn, *args, tier=tier, compiled=False) for fn, args in calls]
    for passes, group in itertools.groupby(sorted(found, key=_passes), _passes):
        some = list(group)
        parts = [some] if passes else [[native] for native in some]  # a longer module would have other passes
        for part in parts:
            text = part[0].text if len(part) == 1 else emit([native.program for native in part], part[0].target.native)
            assert text.startswith(passes)
            for native, kernel in zip(part, link([n.program for n in part], compile_once(text)), strict=True):
                native.kernel = kernel
    return found


def _passes(native: Native) -> str:
    """Return the first line of a module that needs few of LLVM's passes, empty where it needs all."""
    found = {choose_passes([native.program], characters, native.target.native) for characters in (0, sys.maxsize)}
    first = native.text.partition("\n")[0] if len(found) > 1 else found.pop()  # of loops it depends on their length
    return f"{first}\n" if first == FEW_PASSES else ""


def of_tier(tier: int) -> Target:
    """Return the target that is set, for machine code of a tier."""
    return attrs.evolve(current.target, backend="native", native_tier=tier)


@contextlib.contextmanager
def use_limits(**changes: Any) -> Iterator[None]:
    """Compile with other thresholds of machine code inside a ``with`` block, or a function that is decorated."""
    target = current.target
    with use_target(attrs.evolve(target, native=attrs.evolve(target.native, **changes))):
        yield


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let plans use so many threads inside a ``with`` block."""
    before = thread_pool.get_threads()
    thread_pool.set_threads(count)
    try:
        yield
    finally:
        thread_pool.set_threads(before)


def assert_same_bits(fn: Callable[..., Any], *args: Any, tier: int = 1) -> Native:
    """Assert that machine code gives what the NumPy plan gives, bit by bit but for the sign and payload of nan."""
    native = Native(fn, *args, tier=tier)
    found, _ = native(*args)
    with np.errstate(all="ignore"):
        expected = native.plan(*args)
    for k, (z, want) in enumerate(zip(found, expected, strict=True)):
        assert same_bits(z, want), f"result {k}: {z} is not {want}"
    return native


def same_bits(x: Any, y: Any) -> bool:
    """Tell whether arrays are equal bit by bit but for what nan carries."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "c":
        x, y = (np.stack([z.real, z.imag]) for z in (x, y))
    if x.dtype.kind == "f":
        both = np.isnan(x) & np.isnan(y)
        x, y = np.where(both, 0, x), np.where(both, 0, y)
    return x.tobytes() == y.tobytes()


def run_python(script: str) -> str:
    """Return what a script prints in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def schedule_of(fn: Any, *args: Any) -> Any:
    """Return the schedule of a function."""
    return afx.jit(fn, backend="numpy").lower(*args).plan.schedule


def ask(service: CompileService, schedule: Any) -> tuple[threading.Event, list[Any]]:
    """Submit a schedule; return what tells that an answer is there, and the object code, or None."""
    done, found = threading.Event(), list[Any]()

    def answer(made: Any, reason: str) -> None:
        assert bool(reason) == (made is None)
        found.append(None if made is None else made[2])
        done.set()

    where = layout()
    assert where is not None
    service.submit((make_kernels, (), schedule, Target(), where), answer)
    return done, found


def wait_for(condition: Any, seconds: float = 30.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)
