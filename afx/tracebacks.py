"""Tracebacks: in a terminal and in notebooks, an error of afx's shows the caller's lines and its own sentence alone.

What a debugger, a test runner or `logging` sees stays whole; so does what other hooks print.
"""

import importlib
import os
import sys
from types import TracebackType

__all__ = ["render_traceback", "show_whole_tracebacks", "watch"]

PACKAGE = os.path.dirname(__file__) + os.sep  # noqa: PTH120  # pathlib costs a third of the import
LEFT_OUT = "(calls inside of afx are left out: afx.debug.show_whole_tracebacks() shows them)"
_settings = {"whole": False}
_hooks = [sys.__excepthook__]  # what printed before, last
_watched = list[type[BaseException]]()


def show_whole_tracebacks(whole: bool = True) -> None:
    """Show tracebacks of afx's errors with all calls inside of afx, or, with False, without them, as they are at first.

    >>> afx.debug.show_whole_tracebacks()
    >>> afx.debug.show_whole_tracebacks(False)
    """
    _settings["whole"] = whole


def watch(kind: type[BaseException]) -> None:
    """Print errors of a kind without the calls inside of afx where they end the program, from now on."""
    if not _watched:
        _watched.append(kind)
        _hooks.append(sys.excepthook)
        sys.excepthook = _print_error


def render_traceback(error: BaseException) -> list[str]:
    """Return the lines that IPython and Jupyter show for an error.

    Raises:
        NotImplementedError: the whole is to be shown, which is theirs to do.
    """
    if _settings["whole"]:
        raise NotImplementedError  # IPython then shows the whole itself
    own = f"{os.sep}IPython{os.sep}"  # what runs cells
    frames = [frame for frame in _frames(error.__traceback__) if own not in frame.tb_frame.f_code.co_filename]
    shown = _chain_frames([frame for frame in frames if not _is_own(frame)] or frames)
    traceback = importlib.import_module("traceback")
    chain = not _is_inner(error.__context__)
    lines: list[str] = traceback.format_exception(type(error), error, shown, chain=chain)
    return [*[line.rstrip("\n") for line in lines], LEFT_OUT]


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what ends a program, as Python does, without the calls inside of afx."""
    frames = _frames(trace)
    shown = [frame for frame in frames if not _is_own(frame)]
    if _settings["whole"] or not isinstance(error, tuple(_watched)) or not shown or len(shown) == len(frames):
        _hooks[-1](kind, error, trace)
        return
    saved = error.__traceback__, error.__suppress_context__
    try:
        error.__traceback__ = _chain_frames(shown)
        error.__suppress_context__ |= _is_inner(error.__context__)
        _hooks[-1](kind, error, error.__traceback__)
    finally:
        error.__traceback__, error.__suppress_context__ = saved
    sys.stderr.write(LEFT_OUT + "\n")


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    return frames


def _chain_frames(frames: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of these frames."""
    trace = None
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace


def _is_own(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(PACKAGE)


def _is_inner(error: BaseException | None) -> bool:
    """Tell whether an exception was met inside of afx, and not by the caller's code."""
    return error is not None and error.__traceback__ is not None and _is_own(error.__traceback__)
