"""Linking: object files become libraries, by the C compiler that is there or by the one that the package ziglang brings."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from afx.errors import MissingExtraError
from afx.export.machines import Machine

__all__ = ["link_shared", "link_static", "link_wasm", "shared_suffix"]

SECONDS = 300.0
ZIG_SYSTEMS = {  # LLVM's names of systems: those of zig
    "unknown-linux-gnu": "linux-gnu", "unknown-linux-gnueabihf": "linux-gnueabihf", "apple": "macos",
    "pc-windows-msvc": "windows-gnu", "unknown-linux-musl": "linux-musl",
}  # fmt: skip


def shared_suffix(machine: Machine) -> str:
    """Return how the name of a shared library ends there."""
    where = machine.triple or sys.platform
    return (
        ".dll"
        if "windows" in where or where == "win32"
        else ".dylib"
        if "apple" in where or where == "darwin"
        else ".so"
    )


def link_shared(code: bytes, machine: Machine, name: str) -> bytes:
    """Return the shared library of an object file.

    Raises:
        MissingExtraError: neither a C compiler nor ziglang is there.
        RuntimeError: the linker refuses it.
    """
    compiler = _compiler(machine)
    flags = ["-shared", *([] if machine.is_host and sys.platform == "darwin" else ["-Wl,--build-id=none"])]
    return _run([*compiler, *flags], code, f"lib{name}{shared_suffix(machine)}", ["-lm"])


def link_wasm(code: bytes, name: str, exports: Sequence[str]) -> bytes:
    """Return a module of WebAssembly with these functions and its memory, whose free part begins at ``__heap_base``.

    Raises:
        MissingExtraError: ziglang, which brings the linker and libm, is not there.
        RuntimeError: the linker refuses it.
    """
    flags = [
        "-target",
        "wasm32-wasi",
        "-mexec-model=reactor",
        "-nostartfiles",
        "-Wl,--no-entry",
        "-Wl,--gc-sections",
        "-Wl,--strip-debug",
    ]
    flags += [f"-Wl,--export={symbol}" for symbol in (*exports, "__heap_base")]
    return _run([*_zig(), "cc", *flags], code, f"{name}.wasm", ["-lm"])


def link_static(code: bytes, machine: Machine, name: str) -> bytes:
    """Return the archive of an object file.

    Raises:
        MissingExtraError: neither ``ar`` nor ziglang is there.
    """
    ar = shutil.which("ar")
    command = [ar] if ar and machine.is_host else [*_zig(), "ar"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.o").write_bytes(code)
        _call([*command, "rcs", f"lib{name}.a", f"{name}.o"], folder)
        return (Path(folder) / f"lib{name}.a").read_bytes()


def _compiler(machine: Machine) -> list[str]:
    if machine.is_host:
        found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        return [found] if found else [*_zig(), "cc"]
    system = next((zig for llvm, zig in ZIG_SYSTEMS.items() if llvm in machine.triple), "freestanding")
    architecture = {"arm64": "aarch64", "armv7": "arm"}.get(machine.architecture, machine.architecture)
    return [*_zig(), "cc", "-target", f"{architecture}-{system}"]


def _zig() -> list[str]:
    if importlib.util.find_spec("ziglang") is None:
        raise MissingExtraError("compile: linking needs a C compiler, or ziglang: pip install 'afx[export]'")
    return [sys.executable, "-m", "ziglang"]


def _run(command: Sequence[str], code: bytes, output: str, libraries: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "code.o").write_bytes(code)
        _call([*command, "-o", output, "code.o", *libraries], folder)
        return (Path(folder) / output).read_bytes()


def _call(command: Sequence[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(
            f"compile: the linker refuses the code: {done.stderr.decode(errors='replace').strip()[:2000]}"
        )
