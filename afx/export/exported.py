"""Exported: a compiled function with its header, arguments and results, its machines, and its library."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.compiler.native_backend.llvm.writer import FACTORIZATION, INDEX
from afx.compiler.native_backend.standalone.emit import load_function
from afx.core import to_numpy_value, wrap
from afx.errors import ArgumentError, ExportError, IndexRangeError, MissingExtraError, ShapeError
from afx.export.traced import Slot, escape_line

# --- Machines: what LLVM calls the processors that code is made for


@attrs.frozen
class Machine:
    """A processor and its system.

    Attributes:
        triple: LLVM's name, such as ``aarch64-unknown-linux-gnu``; an empty one stands for the machine that compiles.
        cpu: LLVM's name of the processor.
        features: LLVM's names of features beyond it, such as ``+simd128``.
        has_fma: whether it rounds a multiplication with an addition once; elsewhere both are rounded.
        is_freestanding: whether nothing loads the code, so that it lies where it was linked.
    """

    triple: str
    cpu: str = "generic"
    features: str = ""
    has_fma: bool = True
    is_freestanding: bool = False

    @property
    def architecture(self) -> str:
        """The first part of the triple.

        >>> Machine("aarch64-unknown-linux-gnu").architecture
        'aarch64'
        """
        return self.triple.partition("-")[0] if self.triple else platform.machine().lower()

    @property
    def is_wasm(self) -> bool:
        """Whether it is WebAssembly."""
        return self.architecture.startswith("wasm")

    @property
    def size_type(self) -> str:
        """LLVM's type of ``size_t``."""
        wide = (
            "x86_64",
            "amd64",
            "aarch64",
            "arm64",
            "riscv64",
            "wasm64",
            "powerpc64",
            "ppc64",
            "s390x",
            "loongarch64",
        )
        return "i64" if self.architecture.startswith(wide) else "i32"

    @property
    def is_host(self) -> bool:
        """Whether its code runs in this process."""
        return not self.triple


HOST = Machine("", "")

MACHINES: dict[str, Machine] = {
    "host": HOST,
    "linux-x86_64": Machine("x86_64-unknown-linux-gnu", "x86-64-v3"),
    "linux-x86_64-baseline": Machine("x86_64-unknown-linux-gnu", "x86-64", has_fma=False),
    "linux-aarch64": Machine("aarch64-unknown-linux-gnu"),
    "linux-riscv64": Machine("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c"),
    "linux-armhf": Machine("armv7-unknown-linux-gnueabihf", "generic", "+vfp3,+neon", has_fma=False),
    "macos-arm64": Machine("arm64-apple-macosx12.0.0", "apple-m1"),
    "macos-x86_64": Machine("x86_64-apple-macosx12.0.0", "x86-64-v3"),
    "windows-x86_64": Machine("x86_64-pc-windows-msvc", "x86-64-v3"),
    "cortex-m7": Machine("thumbv7em-none-eabihf", "cortex-m7", is_freestanding=True),
    "wasm32": Machine("wasm32-unknown-unknown", "generic", "+simd128,+bulk-memory", has_fma=False),
}
"""Names of common machines."""


def find_machine(target: str | Machine) -> Machine:
    """Return the machine of a name or a triple.

    Raises:
        ArgumentError: neither is known.
    """
    if isinstance(target, Machine):
        return target
    machine = MACHINES.get(target)
    if machine is not None:
        return machine
    if target.count("-") < 2:
        raise ArgumentError(
            f"compile: unknown target: got {target!r}; name one of {', '.join(MACHINES)}, an LLVM triple such as "
            "aarch64-unknown-linux-gnu, or an afx.export.Machine"
        )
    return Machine(target, has_fma=target.startswith(("aarch64", "arm64")))


# --- Linking: object files become libraries, by the C compiler that is there or by the one that the package ziglang
# brings

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
        command = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        return [command] if command else [*_zig(), "cc"]
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
        sources = ["code.o"]
        if output.endswith(".dll"):
            # the mark of code with floats, which Microsoft's library alone has
            (Path(folder) / "mark.c").write_text("int _fltused = 0;\n")
            sources.append("mark.c")
        _call([*command, "-o", output, *sources, *libraries], folder)
        return (Path(folder) / output).read_bytes()


def _call(command: Sequence[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(
            f"compile: the linker refuses the code: {done.stderr.decode(errors='replace').strip()[:2000]}"
        )


# --- Exported: a compiled function with its header, arguments and results; callable here where it was made for this
# machine

ALIGNMENT = 64


@attrs.frozen(eq=False, slots=False)
class Exported:
    """A function outside of Python.

    Attributes:
        name: of its function in C.
        machine: what it was compiled for.
        inputs: its arguments, in C's order.
        outputs: its results, behind them.
        work_bytes: memory that each call needs.
        object: the object file.
        header: the header of C.
        graph: what it computes, as text.
        version: of afx, which made it.
    """

    name: str
    machine: Machine
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    work_bytes: int
    object: bytes = attrs.field(repr=False)
    header: str = attrs.field(repr=False)
    graph: str = attrs.field(repr=False)
    version: str = ""
    has_scalar: bool = False
    trees: tuple[Any, Any] | None = attrs.field(default=None, repr=False)

    # -- files --
    @functools.cached_property
    def shared(self) -> bytes:
        """The shared library, linked by the C compiler that is there or by ziglang.

        Raises:
            MissingExtraError: neither is there.
        """
        return link_shared(self.object, self.machine, self.name)

    @functools.cached_property
    def static(self) -> bytes:
        """The object file in an archive."""
        return link_static(self.object, self.machine, self.name)

    @functools.cached_property
    def wasm(self) -> bytes:
        """The module of WebAssembly, which exports the function, its memory and where free memory begins.

        Raises:
            ExportError: it was compiled for another machine.
            MissingExtraError: ziglang is not there.
        """
        if not self.machine.is_wasm:
            raise ExportError(f"{self.name}: compiled for {self.machine.triple or 'this machine'}; use target='wasm32'")
        return link_wasm(self.object, self.name, (self.name, f"{self.name}_work_bytes"))

    def save(self, folder: str | os.PathLike[str], form: str = "object") -> list[Path]:
        """Write the header and the code into a folder; return the paths.

        Args:
            folder: is made where it is missing.
            form: ``object``, ``static``, ``shared`` or ``wasm``.

        Raises:
            ArgumentError: another form.
        """
        target = Path(folder)
        names = {"object": f"{self.name}.o", "static": f"lib{self.name}.a", "wasm": f"{self.name}.wasm"}
        names["shared"] = f"lib{self.name}{shared_suffix(self.machine)}"
        if form not in names:
            raise ArgumentError(f"save: unknown form: got {form!r}; use object, static, shared or wasm")
        code: bytes = getattr(self, form)
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{self.name}.h").write_text(self.header, encoding="utf-8")
        (target / names[form]).write_bytes(code)
        return [target / f"{self.name}.h", target / names[form]]

    # -- calls --
    @functools.cached_property
    def _functions(self) -> tuple[Any, dict[str, int]]:
        if not self.machine.is_host:
            raise ExportError(
                f"{self.name}: compiled for {self.machine.triple}, which this process does not run; compile for 'host'"
            )
        names = [self.name, *([f"{self.name}_scalar"] if self.has_scalar else [])]
        return load_function(self.object, names)

    def callback(self) -> Callable[..., int]:
        """Return the function of C as a function of `ctypes`, which takes a pointer for each slot and one to its work.

        Its address is ``ctypes.cast(f, ctypes.c_void_p).value``. The code lives as long as this object.

        Raises:
            ExportError: it was compiled for another machine.
        """
        _, addresses = self._functions
        count = len(self.inputs) + len(self.outputs) + 1
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(addresses[self.name])
        function.exported = self
        return function  # type: ignore[no-any-return]  # SciPy has no types

    def low_level_callable(self) -> Any:
        """Return a ``scipy.LowLevelCallable`` of signature ``double (int, double *, void *)``, as SciPy's integrators take it.

        Raises:
            ExportError: an input is not of float64, or there is another result than one float64 number.
            MissingExtraError: SciPy is not installed.
        """
        if not self.has_scalar:
            raise ExportError(
                f"{self.name}: SciPy's callbacks take float64 numbers and return one: got "
                f"{', '.join(map(str, (*self.inputs, *self.outputs)))}; compile for float64 arguments and one number"
            )
        try:
            scipy: Any = importlib.import_module("scipy")
        except ImportError:
            raise MissingExtraError("low_level_callable: needs SciPy: pip install 'afx[scipy]'") from None
        address = self._functions[1][f"{self.name}_scalar"]
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p)
        function: Any = kind(address)
        function.exported = self
        return scipy.LowLevelCallable(function)

    @property
    def numba_signature(self) -> str:
        """The signature under which numba calls the address, for ``numba.types`` or ``cfunc``."""
        slots = (*self.inputs, *self.outputs)
        return f"int32({', '.join([*[f'CPointer({slot.dtype.name})' for slot in slots], 'voidptr'])})"

    @functools.cached_property
    def _call(self) -> Callable[..., int]:
        return self.callback()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the machine code; return what the Python function would.

        Of a file that was loaded, arguments are its inputs one by one, and the result is a tuple of its outputs.

        Raises:
            ShapeError: an argument of another shape.
            IndexRangeError: an index out of its range.
            numpy.linalg.LinAlgError: a matrix without the factorization that was asked for.
        """
        leaves = self._leaves(args, kwargs)
        arrays = [self._array(slot, x) for slot, x in zip(self.inputs, leaves, strict=True)]
        outs = [np.empty(slot.shape, slot.dtype) for slot in self.outputs]
        memory = np.empty(self.work_bytes + ALIGNMENT, np.uint8)
        work = -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        errors = self._call(*[x.ctypes.data for x in (*arrays, *outs)], work)
        if errors & FACTORIZATION:
            raise np.linalg.LinAlgError(f"{self.name}: a matrix has no such factorization")
        if errors & INDEX:
            raise IndexRangeError(f"{self.name}: an index is out of range, or an integer's power is negative")
        values = [wrap(x if x.ndim else x[()]) for x in outs]
        return tuple(values) if self.trees is None else pytree.unflatten(self.trees[1], values)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self.trees is None:
            leaves, is_same = list(args), len(args) == len(self.inputs) and not kwargs
        else:
            leaves, tree = pytree.flatten((args, kwargs))
            is_same = tree == self.trees[0]
        if not is_same:
            raise ArgumentError(
                f"{self.name}: got arguments of another structure: got {len(leaves)} leaves; it takes "
                f"{', '.join(map(str, self.inputs))}"
            )
        return leaves

    def _array(self, slot: Slot, x: Any) -> Any:
        value = np.asarray(to_numpy_value(x, self.name))
        if value.shape != slot.shape:
            raise ShapeError(
                f"{self.name}: {slot.path} has another shape: got {value.dtype}{[*value.shape]}; it takes {slot}"
            )
        if not np.can_cast(value.dtype, slot.dtype, "same_kind"):
            raise ArgumentError(f"{self.name}: {slot.path} has another dtype: got {value.dtype}; it takes {slot}")
        return np.ascontiguousarray(value, slot.dtype).reshape(slot.shape)


# --- Header: the declaration of an exported function in C, with what a caller must know

TEMPLATE = """/* {name}: compiled by afx {version} for {triple}.
 *
 * All arrays are dense, in row-major order, and overlap nowhere; `work` has {name}_work_bytes() bytes, aligned to 64,
 * and may be NULL where these are 0. The function keeps no state{memory}: threads may call it at once, each with its own `work`.
 *
 * Inputs:
{inputs}
 * Outputs:
{outputs}
 *
 * Returns 0, or the sum of
 *   1  an index out of range, or a float that its integer type cannot hold
 *   2  a matrix without the factorization that was asked for (singular, or not positive definite)
 * and the outputs are unspecified then.
 */
#ifndef AFX_{guard}_H
#define AFX_{guard}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

size_t {name}_work_bytes(void);

int {name}({parameters});
{scalar}
#ifdef __cplusplus
}}
#endif

#endif
"""
SCALAR = """
/* The same for SciPy's integrators: all inputs one behind the other; a result that failed is nan. */
double {name}_scalar(int n, double *x, void *user_data);
"""


def write_header(exported: Exported, allocates: bool) -> str:
    """Return the header of a function, which may take memory from the C library."""
    e = exported
    parameters = [f"const {slot.c_type} *{slot.name}" for slot in e.inputs]
    parameters += [f"{slot.c_type} *{slot.name}" for slot in e.outputs]
    return TEMPLATE.format(
        name=e.name,
        version=_escape_comment(e.version),
        triple=_escape_comment(e.machine.triple or "this machine"),
        guard=e.name.upper(),
        memory=", but takes memory by realloc() and gives it back" if allocates else " and allocates nothing",
        inputs=_describe(e.inputs),
        outputs=_describe(e.outputs),
        parameters=", ".join([*parameters, "void *work"]),
        scalar=SCALAR.format(name=e.name) if e.has_scalar else "",
    )


def _describe(slots: Sequence[Slot]) -> str:
    """Return the lines of a comment in C, one for each array."""
    notes = {"c": ", real and imaginary parts in turn", "e": ", as bits"}
    lines = [
        f" *   {slot.name}  {slot.dtype}[{','.join(map(str, slot.shape))}]"
        f"{notes.get(slot.dtype.kind, notes.get(slot.dtype.char, ''))}  {_escape_comment(slot.path)}".rstrip()
        for slot in slots
    ]
    return "\n".join(lines) or " *   none"


def _escape_comment(text: str) -> str:
    """Return a text that neither ends nor begins a comment of C, nor joins lines."""
    line = escape_line(text)
    for mark in ("*/", "/*", "??/"):
        while mark in line:
            line = line.replace(mark, f"{mark[:-1]} {mark[-1]}")
    return f"{line} ." if line.endswith("\\") else line
