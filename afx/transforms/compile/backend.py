"""Back ends: who runs compiled functions, NumPy's calls or machine code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import attrs

from afx.compiler.native_backend.code_folder import choose_folder
from afx.compiler.native_backend.swap import foresee, is_installed
from afx.compiler.target import Target, current
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime.forks import between_forks

__all__ = [
    "Backend", "Denormals", "check_backend", "check_denormals", "foresee_code", "get_backend", "set_backend", "set_code_cache",
    "set_denormals", "with_backend",
]  # fmt: skip

Backend: TypeAlias = Literal["auto", "numpy", "native"]
Denormals: TypeAlias = Literal["keep", "flush"]


def set_backend(backend: Backend) -> None:
    """Set who runs functions that are compiled from now on; `afx.jit` takes the same word for one function.

    Args:
        backend: ``"auto"``: calls of NumPy at once. After some milliseconds of calls another process compiles machine code
            with the same bits, which is kept where it is faster. ``"numpy"``: calls of NumPy
            alone. ``"native"``: machine code before the first call, which waits for it, with bits of its own: functions
            within 1 ulp (0.51 of float32) by polynomials on vectors; the process that compiles starts at once. It needs
            the extra ``native`` (llvmlite). Functions that have no native form run calls of NumPy;
            ``fn.lower(*args).status`` says who runs, and why.

    Raises:
        ArgumentError: another word.
        MissingExtraError: ``"native"`` without llvmlite.

    >>> before = get_backend()
    >>> set_backend("numpy")
    >>> get_backend()
    'numpy'
    >>> set_backend(before)
    """
    check_backend("set_backend", backend)
    current.set(with_backend(current.target, backend))
    foresee_code(backend)


def set_code_cache(folder: str | os.PathLike[str] | None) -> None:
    """Keep machine code in a folder, so that later processes begin with it; None keeps none.

    By default it is the folder ``afx`` in the user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches``
    on macOS); the environment variable ``AFX_CODE_CACHE`` names another one, or none as ``0``. With machine code is kept
    whether it was faster than NumPy's calls; that it was not, for minutes, and not of functions that hold a while loop or
    a branch, whose work depends on values. What lies there runs as code. So the folder belongs to the user, and no one
    else may read or write it; it is made so where it does not exist. Files are named by the digest of program, processor and
    versions, and checked before they are loaded; beyond 256 MB those that were not used for longest go. Other files there
    are left alone.

    Args:
        folder: such as ``Path.home() / ".cache" / "afx"``.

    Raises:
        ArgumentError: the folder belongs to another user, is open to others, or cannot be made.

    >>> set_code_cache(None)
    """
    path = None if folder is None else Path(folder).expanduser().absolute()
    if path is not None:
        from afx.compiler.native_backend.code_cache import open_folder

        if reason := open_folder(path):
            raise ArgumentError(
                f"set_code_cache: {path} cannot hold code: {reason}; name a folder of your own, or a new one"
            )
    choose_folder("" if path is None else str(path))


def foresee_code(backend: Backend | None) -> None:
    """Get ready to compile, without waiting: where the back end's first call will wait for it, by LLVM at once."""
    if is_installed():
        if backend == "native":
            with between_forks():
                from afx.compiler.native_backend.process import service
            service.start()
        elif backend == "auto":
            foresee()


def get_backend() -> Backend:
    """Return who runs functions that are compiled from now on: the word given to `afx.set_backend`.

    >>> get_backend()
    'auto'
    """
    return current.target.backend


def check_backend(who: str, backend: object) -> None:
    """Raise where a word names no back end, or one that is not installed."""
    if backend not in get_args(Backend):
        raise ArgumentError(f'{who}: a back end is "auto", "numpy" or "native": got {backend!r}; give one of these')
    if backend == "native" and not is_installed():
        raise MissingExtraError(f'{who}: the back end "native" needs llvmlite: pip install "afx[native]"')


def with_backend(target: Target, backend: Backend | None, denormals: Denormals | None = None) -> Target:
    """Return a target with another back end, or another treatment of denormals; None leaves it as it is.

    >>> with_backend(Target(), "native").backend
    'native'
    """
    if denormals is not None:
        target = attrs.evolve(target, denormals=denormals)
    return target if backend is None else attrs.evolve(target, backend=backend)


def set_denormals(denormals: Denormals | None) -> None:
    """Set what functions that are compiled from now on do with denormal numbers; `afx.jit` takes the word for one function.

    Denormal numbers lie between 0 and the smallest normal one, 1.2e-38 of float32. On many processors an operation with
    one takes a hundred times as long. "Flush" takes those of operands, and those of results, as zeros of their sign, in
    NumPy's calls and machine code alike, while a compiled function runs; operations outside of `afx.jit` keep them.

    Args:
        denormals: ``"flush"``: all compiled functions flush, float64 too; ``"keep"``: none does; None, as it is in the
            beginning: those flush that compute in float32 or complex64, with 4096 numbers at least, in all
            operations and steps of loops, and at most a sixteenth as many of float64 and complex128. Within
            ``np.errstate(under=...)`` other than ``"ignore"`` all keep them, so that underflow is heard of.

    Raises:
        ArgumentError: another word.

    >>> halve = afx.jit(lambda x: x / 2)
    >>> x = afx.asarray([1.2e-38])
    >>> set_denormals("flush")
    >>> halve(x)
    Array([0.], dtype=float32)
    >>> set_denormals(None)
    >>> halve(x)
    Array([6.e-39], dtype=float32)
    """
    check_denormals("set_denormals", denormals)
    current.set(attrs.evolve(current.target, denormals=denormals or "auto"))


def check_denormals(who: str, denormals: object) -> None:
    """Raise where a word does not say what becomes of denormals."""
    if denormals is not None and denormals not in get_args(Denormals):
        raise ArgumentError(f'{who}: denormals are "keep" or "flush": got {denormals!r}; give one of these')
