"""Control register: the processor's switch that takes denormal operands, and gives denormal results, as zeros.

It is MXCSR (FTZ and DAZ) on x86-64 and FPCR (FZ) on ARM, one for each thread. It is read and written by the C library's
``fegetenv`` and ``fesetenv``, on Linux and macOS; elsewhere nothing changes it. What runs within `run_in_mode` computes in
that mode; then the register is the caller's again, however that ends. Threads that take part are given the caller's mode, and
code of the caller's, such as a handler of warnings, runs in the mode that it had.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import platform
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import numpy as np

from afx.core.primitive import Printable

R = TypeVar("R")


@attrs.frozen(eq=False, repr=False)
class _Layout(Printable):
    """Where C's ``fenv_t`` holds the control register, in words of 32 bits.

    Attributes:
        words: of the structure.
        control: the word of the control register.
        flush: its bits that flush operands and results.
        status: the word of flags.
        met: the flag of denormal operands.
        flags: all flags.
    """

    words: int
    control: int
    flush: int
    status: int
    met: int
    flags: int


_X86, _ARM = (0x8040, 0x02, 0x3F), (1 << 24, 0x80, 0x9F)
_LAYOUTS = {
    ("linux", "x86_64"): _Layout(8, 7, _X86[0], 7, *_X86[1:]),
    ("darwin", "x86_64"): _Layout(4, 1, _X86[0], 1, *_X86[1:]),
    ("linux", "aarch64"): _Layout(2, 0, _ARM[0], 1, *_ARM[1:]),
    ("darwin", "arm64"): _Layout(4, 2, _ARM[0], 0, *_ARM[1:]),
}

_MODES = {("linux", "x86_64"): 1}  # where glibc's ``femode_t`` holds the control register


class _Thread(threading.local):
    """What a thread knows of itself.

    Attributes:
        mode: whether it flushed before `run_in_mode` changed that; None where nothing is changed.
    """

    mode: bool | None = None


_thread = _Thread()


class _Register:
    """The register of the calling thread.

    Attributes:
        run: ``run(flushing, fn, *args)`` calls a function in a mode.
    """

    def __init__(self, layout: _Layout) -> None:
        library = ctypes.PyDLL(None)  # whose calls keep the interpreter's lock
        self._get: Any = library.fegetenv
        self._set: Any = library.fesetenv
        self._library = library
        self._layout = layout
        self._new: Any = ctypes.c_uint32 * (layout.words + 4)  # more than a libc needs
        self.run: Callable[..., Any] = self._runner()

    def _runner(self) -> Callable[..., Any]:
        """Return a function that runs another with or without flushing; the register is as before at every way out."""
        new, free = self._new, list[Any]()
        get, leave, control = self._get, self._set, self._layout.control
        place = _MODES.get((sys.platform, platform.machine()))
        # glibc's, which leave flags and the old unit alone
        if place is not None and hasattr(self._library, "fesetmode"):
            get, leave, control = self._library.fegetmode, self._library.fesetmode, place
        modes: tuple[dict[int, Any], dict[int, Any]] = ({}, {})  # what to set, by the word that it stands in for

        def run(flushing: bool, fn: Callable[..., R], *args: Any) -> R:
            saved: Any = free.pop() if free else new()
            get(saved)
            word = saved[control]
            try:
                mode = modes[flushing][word]
            except KeyError:
                mode = modes[flushing][word] = self._changed(saved, flushing, control)
            if mode is None:
                free.append(saved)
                return fn(*args)
            outer = _thread.mode
            try:
                _thread.mode = not flushing
                leave(mode)
                return fn(*args)
            finally:
                _thread.mode = outer
                leave(saved)  # at once: an interrupt may be raised behind any other call
                free.append(saved)

        return run

    def read(self) -> Any:
        """Return this thread's environment."""
        saved = self._new()
        self._get(saved)
        return saved

    def is_flushing(self) -> bool:
        """Tell whether this thread flushes."""
        return self._flushes(self.read()[self._layout.control])

    def _flushes(self, word: int) -> bool:
        return word & self._layout.flush == self._layout.flush

    def met(self, *, forgetting: bool) -> bool:
        """Tell whether the flag of denormal operands is raised, and lower it."""
        saved, layout = self.read(), self._layout
        is_raised = bool(saved[layout.status] & layout.met)
        if is_raised and forgetting:
            saved[layout.status] &= ~layout.met
            self._set(saved)
        return is_raised

    def _changed(self, saved: Any, flushing: bool, control: int) -> Any:
        """Return modes, or an environment without flags, like these but for flushing; None where these are so."""
        if self._flushes(saved[control]) is flushing:
            return None
        layout, changed = self._layout, self._new(*saved)
        if control == layout.control:
            changed[layout.status] &= ~layout.flags
        bits = layout.flush if flushing else 0
        changed[control] = changed[control] & ~layout.flush | bits
        return changed


@functools.cache
def _register() -> _Register | None:
    """Return the register, None where nothing is known of it or setting it does not flush."""
    machine = {"AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    layout = _LAYOUTS.get((sys.platform, machine))
    try:
        register = None if layout is None else _Register(layout)
    except (AttributeError, OSError, TypeError):  # no such functions
        return None
    return register if register is not None and _works(register) else None


def _works(register: _Register) -> bool:
    """Tell whether operands and results are flushed where the register is set, and kept where it is not."""
    least = np.full(4, np.finfo(np.float32).smallest_normal)
    denormal = np.full(4, 1, np.uint32).view(np.float32)

    def keeps() -> list[bool]:
        return [bool(x.view(np.uint32).any()) for x in (least * np.float32(0.5), denormal * np.float32(2))]

    with np.errstate(under="ignore"):  # the caller may want to hear of its own
        flushed, preserved = [list(register.run(flushing, keeps)) for flushing in (True, False)]
    return not any(flushed) and all(preserved)


def can_flush() -> bool:
    """Tell whether this system's register can be set."""
    return _register() is not None


def is_flushing() -> bool:
    """Tell whether this thread flushes denormals.

    >>> is_flushing()
    False
    """
    register = _register()
    return False if register is None else register.is_flushing()


def met_denormals(*, forgetting: bool = False) -> bool:
    """Tell whether this thread has had denormal operands, which is forgotten then where that is asked for."""
    register = _register()
    return register is not None and register.met(forgetting=forgetting)


class Watch:
    """Looks for denormal operands, at each call whose number is a power of two.

    Attributes:
        has_met: whether one was seen, by the thread that called.
    """

    __slots__ = ("_calls", "has_met")

    def __init__(self) -> None:
        self._calls = 0
        self.has_met: bool = False

    def is_due(self) -> bool:
        """Count a call, and tell whether it is one of those."""
        self._calls = calls = self._calls + 1
        return not calls & (calls - 1)

    def run(self, fn: Callable[..., R], *args: Any) -> R:
        """Return ``fn(*args)`` and note what it met."""
        met_denormals(forgetting=True)
        result = fn(*args)
        self.has_met = met_denormals() or self.has_met
        return result


def run_in_mode(flushing: bool, fn: Callable[..., R], *args: Any) -> R:
    """Return ``fn(*args)``, computed by this thread without denormals, or with them.

    >>> x = np.full(1, 1e-40, np.float32)
    >>> bool(run_in_mode(True, np.multiply, x, x.dtype.type(1))[0]) is not can_flush()
    True
    """
    register = _register()
    return fn(*args) if register is None else register.run(flushing, fn, *args)


def run_as_caller(fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Return what a function of the user's gives in the mode, and under the `np.errstate`, from before `run_in_mode`."""

    def call() -> R:
        _thread.mode = None
        hearer = np.geterrcall()
        if not isinstance(hearer, _Hearer):
            return fn(*args, **kwargs)
        with np.errstate(**hearer.modes, call=hearer.handler):
            return fn(*args, **kwargs)

    mode = _thread.mode
    return fn(*args, **kwargs) if mode is None else run_in_mode(mode, call)


# --- Floating-point errors of flushing calls: handlers are the caller's code


def run_flushing(fn: Callable[..., R], *args: Any) -> R:
    """Return ``fn(*args)``, computed without denormals; what handles floating-point errors computes with them.

    That is what `warnings` shows them by, and the function or file of ``np.seterrcall``: also threads that they start.
    """
    state = _context.get(None)
    hearer = _hearers.get(state)
    if hearer is None:
        hearer = _Hearer()
        if _context is not _NO_CONTEXT:
            if len(_hearers) >= 64:
                _hearers.clear()
            _hearers[state] = hearer
    register = _register()
    result: R
    if hearer.state is None or register is None:
        result = run_in_mode(True, hearer.run, fn, args)
        return result
    token = None
    try:
        token = _context.set(hearer.state)
        result = register.run(True, fn, *args)
    finally:
        if token is None:  # an interrupt came right behind `set`
            _context.set(hearer.outer)
        else:
            _context.reset(token)
    return result


class _Hearer:
    """Hears floating-point errors in the place of what the caller's `np.errstate` names, and passes them on.

    Attributes:
        modes: the words of the caller's `np.errstate`.
        handler: its function or file.
        state: NumPy's record of what is heard; None before the first call, and where there is none.
        outer: its record of what the caller set.
    """

    def __init__(self) -> None:
        self.modes: dict[str, Any] = {**np.geterr()}
        self.handler: Any = np.geterrcall()
        self.state: Any = None
        self.outer: Any = None
        own = {k: _HEARD.get(mode, mode) for k, mode in self.modes.items()}
        is_heard = not {"log", "call"}.isdisjoint(own.values()) and not isinstance(self.handler, _Hearer)
        is_lost = self.handler is None and not {"log", "call"}.isdisjoint(self.modes.values())  # as NumPy then says
        self._own: dict[str, Any] = {**own, "call": self} if is_heard and not is_lost else {}

    def run(self, fn: Callable[..., R], args: tuple[Any, ...]) -> R:
        """Return ``fn(*args)``, heard where anything is; the next call is by NumPy's record of that alone."""
        with np.errstate(**self.modes, call=self.handler):
            self.outer = _context.get(None)
        with np.errstate(**self._own):
            self.state = _context.get(None)
            return fn(*args)

    def __call__(self, error: str, flags: int) -> None:
        """Call the caller's function."""
        run_as_caller(self.handler, error, flags)

    def write(self, text: str) -> None:
        """Warn, print or log as the caller wants; NumPy writes ``Warning: … encountered in …``."""
        message = text.removeprefix("Warning: ").rstrip("\n")
        mode = next(mode for k, mode in self.modes.items() if message.startswith(_ERRORS[k]))
        if mode == "warn":
            frame = sys._getframe(1)
            place = (frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", "<string>"))
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            run_as_caller(warnings.warn_explicit, message, RuntimeWarning, *place, registry)
        else:
            run_as_caller((sys.stderr if mode == "print" else self.handler).write, text)


# by the methods of whoever hears them: of a log alone NumPy gives the whole text
_HEARD = {"warn": "log", "print": "log"}
_ERRORS = {"divide": "divide by zero", "over": "overflow", "under": "underflow", "invalid": "invalid value"}


def keeps_underflow() -> bool:
    """Tell whether the caller's ``np.errstate`` wants to hear of underflow, which flushing would hide.

    >>> with np.errstate(under="warn"):
    ...     keeps_underflow()
    True
    """
    state = _context.get(None)
    known = _heard.get(state)
    if known is None:
        known = np.geterr()["under"] != "ignore"
        if _context is not _NO_CONTEXT:
            if len(_heard) >= 64:
                _heard.clear()
            _heard[state] = known
    return known


class _NoContext:
    """Stands for what another release of NumPy may not have: then each call asks."""

    def get(self, default: None) -> None:
        """Return nothing."""


_NO_CONTEXT = _NoContext()
_context: Any = getattr(importlib.import_module("numpy._core.umath"), "_extobj_contextvar", _NO_CONTEXT)
_heard: dict[Any, bool] = {}  # by NumPy's own records, which do not change and are held here
_hearers: dict[Any, _Hearer] = {}  # likewise
