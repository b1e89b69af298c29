"""Exported: a compiled function with its header, arguments and results; callable here where it was made for this machine."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.compiler.native_backend.standalone.codegen import load_function
from afx.compiler.native_backend.standalone.emit import FACTORIZATION, INDEX
from afx.core.array.array import to_numpy_value, wrap
from afx.errors import ArgumentError, ExportError, IndexRangeError, MissingExtraError, ShapeError
from afx.export.linking import link_shared, link_static, link_wasm, shared_suffix
from afx.export.machines import Machine
from afx.export.slots import Slot

__all__ = ["Exported"]

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
        found: Any = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(addresses[self.name])
        found.exported = self
        return found  # type: ignore[no-any-return]  # SciPy has no types

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
            raise IndexRangeError(f"{self.name}: an index is out of range, or a float does not fit its integer type")
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
