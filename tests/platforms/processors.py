"""Kinds of processors: portable programs are exported for each, and run here, by an emulator, or in WebAssembly."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx import export, pytree
from afx.errors import ArgumentError
from afx.export import Exported, Machine
from tests.export.drivers import leaves_of, read_results, run_driver
from tests.portable.programs import Case

__all__ = ["FOLDER", "PROCESSORS", "Processor", "find_tool", "run_cases"]

Results: TypeAlias = dict[str, list[Any] | str]
"""The arrays of each program, or why there are none."""

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afx-platforms"
"""Where `tests.platforms.arm` unpacks another processor's Python, and an emulator."""

WASM_RUNNER = Path(__file__).parents[1] / "export" / "run_wasm.mjs"


def find_tool(*names: str) -> str:
    """Return the path of the first program of these that is installed, or unpacked in `FOLDER`; an empty text for none."""
    places = f"{os.environ.get('PATH', '')}{os.pathsep}{FOLDER / 'tools' / 'usr' / 'bin'}"
    return next((path for name in names if (path := shutil.which(name, path=places))), "")


@attrs.frozen
class Processor:
    """A kind of processor.

    Attributes:
        machine: what programs are exported for.
        flag: how Linux names what it needs of this machine's processor; an empty text where that is another one.
        name: how cross compilers and emulators name another one.
    """

    machine: Machine
    flag: str = ""
    name: str = ""

    def missing(self) -> str:
        """Return what this machine lacks to run it, and how to get it; an empty text where it lacks nothing."""
        if self.flag:
            is_x86 = platform.machine().lower() in ("x86_64", "amd64")
            return "" if is_x86 and self.flag in _flags() else f"this processor has no {self.flag}"
        if self.machine.is_wasm:
            linker = "" if _has_zig() or find_tool("wasm-ld") else "a linker: pip install ziglang"
            return linker or ("" if find_tool("node") else "node: apt-get install nodejs")
        if not self._emulator():
            return f"qemu-{self.name}-static: apt-get install qemu-user-static"
        return (
            ""
            if self._compiler()
            else f"a cross compiler: pip install ziglang, or apt-get install gcc-{self.name}-linux-gnu"
        )

    def run(self, made: Mapping[str, Exported], args: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
        """Return the results of exported functions.

        Raises:
            AssertionError: one of them ends in an error.
        """
        if self.flag:
            return {name: [np.asarray(x) for x in pytree.leaves(e(*args[name]))] for name, e in made.items()}
        with tempfile.TemporaryDirectory() as folder:
            if self.machine.is_wasm:
                results = {name: run_wasm(Path(folder), name, e, args[name]) for name, e in made.items()}
            else:
                results = run_driver(Path(folder), made, args, self._compiler(), [self._emulator()])
        for name, (status, _) in results.items():
            assert status == 0, f"{name} ended with {status}"
        return {name: outs for name, (_, outs) in results.items()}

    def _emulator(self) -> str:
        return find_tool(f"qemu-{self.name}-static", f"qemu-{self.name}")

    def _compiler(self) -> list[str]:
        gcc = find_tool(f"{self.name}-linux-gnu-gcc")
        if gcc:
            return [gcc, "-static"]
        return (
            [sys.executable, "-m", "ziglang", "cc", "-target", f"{self.name}-linux-musl", "-static"]
            if _has_zig()
            else []
        )


def _has_zig() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def _flags() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").split() if path.exists() else ["sse2"]


PROCESSORS: dict[str, Processor] = {
    "SSE2": Processor(Machine("", "x86-64", has_fma=False), "sse2"),
    "AVX2": Processor(Machine("", "haswell"), "avx2"),
    "AVX-512": Processor(Machine("", "skylake-avx512"), "avx512dq"),
    "aarch64": Processor(export.MACHINES["linux-aarch64"], name="aarch64"),
    "riscv64": Processor(export.MACHINES["linux-riscv64"], name="riscv64"),
    "wasm": Processor(export.MACHINES["wasm32"]),
}


def run_wasm(folder: Path, name: str, exported: Exported, args: tuple[Any, ...]) -> tuple[int, list[Any]]:
    """Return the status and the results of a function in node."""
    path = exported.save(folder, "wasm")[1]
    given = b"".join([np.ascontiguousarray(x).tobytes() for x in leaves_of(args, exported)])
    sizes = [",".join([str(s.size * s.dtype.itemsize) for s in slots]) for slots in (exported.inputs, exported.outputs)]
    command = [find_tool("node"), str(WASM_RUNNER), str(path), name, *sizes]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return read_results(done.stdout, {name: exported})[name]


def run_cases(processor: Processor, cases: Mapping[str, Case]) -> Results:
    """Return what each program gives on a processor, or why it gives nothing."""
    results: Results = {}
    made = dict[str, Exported]()
    for name, case in cases.items():
        try:
            made[name] = export.compile(case.fn, *case.args, target=processor.machine, name=name, bits="portable")
        except ArgumentError as error:
            results[name] = str(error)
    if made:
        results.update(processor.run(made, {name: cases[name].args for name in made}))
    return results
