"""Machines: what LLVM calls the processors that code is made for."""

from __future__ import annotations

import platform

import attrs

from afx.errors import ArgumentError

__all__ = ["HOST", "MACHINES", "Machine", "find_machine"]


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
    found = MACHINES.get(target)
    if found is not None:
        return found
    if target.count("-") < 2:
        raise ArgumentError(
            f"compile: unknown target: got {target!r}; name one of {', '.join(MACHINES)}, an LLVM triple such as "
            "aarch64-unknown-linux-gnu, or an afx.export.Machine"
        )
    return Machine(target, has_fma=target.startswith(("aarch64", "arm64")))
