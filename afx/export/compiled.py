"""Compilation of exported functions: traced, lowered for one thread, and made an object file with a note about itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import attrs
import numpy as np

from afx import pytree
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.program.interface import Param
from afx.compiler.native_backend.program.loops import Loop
from afx.compiler.native_backend.program.steps import Program
from afx.compiler.native_backend.standalone.emit import SYMBOLS, compile_module, emit_function, explain_refusal
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import Target, current, portable_target
from afx.core.constants import __version__
from afx.core.graph import Graph
from afx.errors import ArgumentError, ExportError, FileFormatError, MissingExtraError
from afx.export.exported import Exported, Machine, find_machine, write_header
from afx.export.traced import C_TYPES, KEYWORDS, RESERVED, Slot, arguments_of, explain_name, name_slots, trace_arguments
from afx.transforms._arguments import check_callable
from afx.transforms.compile.compiled_call import CompiledGraph, Denormals, check_denormals, with_backend

# --- Note: what an exported file says of itself, as bytes that stand in its code's constants, wherever a linker puts
# them
#
# Layout: a mark, the length of what follows as eight bytes, a JSON text that is compressed by zlib, and its CRC.
# Reading it runs nothing of the file.

FORMAT = 1  # of the note; later versions read all earlier ones
MARK = b"afx.export\x00\x01"
HEAD = struct.Struct("<QI")
MAX_BYTES = 1 << 26  # of the text: a file that claims more is not ours


def write_note(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a note."""
    data = zlib.compress(json.dumps({"format": FORMAT, **content}).encode(), 9)
    return MARK + HEAD.pack(len(data), zlib.crc32(data)) + data


def read_note(file: bytes, where: str) -> dict[str, Any]:
    """Return the first note in a file that is whole.

    Raises:
        FileFormatError: there is none, or it is of a later format.
    """
    start = file.find(MARK)
    while start >= 0:
        content = _read(file, start + len(MARK))
        if content is not None:
            if content.get("format", FORMAT + 1) > FORMAT:
                raise FileFormatError(
                    f"load: {where} was made by a later version of afx: got format {content.get('format')}; update afx"
                )
            return content
        start = file.find(MARK, start + 1)
    raise FileFormatError(f"load: {where} holds no note of afx.export: got {len(file)} bytes; give a file that it made")


def _read(file: bytes, at: int) -> dict[str, Any] | None:
    if len(file) < at + HEAD.size:
        return None
    length, crc = HEAD.unpack_from(file, at)
    data = file[at + HEAD.size : at + HEAD.size + length]
    if len(data) != length or zlib.crc32(data) != crc:
        return None
    try:
        unpacker = zlib.decompressobj()
        note = json.loads(unpacker.decompress(data, MAX_BYTES))
    except (zlib.error, ValueError, RecursionError):
        return None
    is_note = note.__class__ is dict and isinstance(note.get("format"), int)
    return note if is_note else None


# --- Compilation of exported functions

Bits: TypeAlias = Literal["target", "portable"]
Form: TypeAlias = Literal["object", "shared", "static", "wasm"]
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TIER: Literal[2] = 2  # whose functions are the module's own
SCALAR_MAX_BYTES = 1 << 16  # of memory that a call for SciPy takes from the stack


def compile(
    fn: Callable[..., Any],
    /,
    *args: Any,
    target: str | Machine = "host",
    name: str | None = None,
    form: Form = "object",
    denormals: Denormals = "keep",
    bits: Bits = "target",
) -> Exported:
    """Compile a function for arguments like these to a function of C that needs neither Python nor NumPy.

    Its bits are those of ``jit(fn, backend="native")`` where that calls none of NumPy's loops; where it does (inverse functions,
    powers of float64, factorizations), results come from libm and from own loops. Where a processor has no fused
    multiplication and addition, both are rounded.

    Args:
        fn: a function of arrays, such as ``afx.value_and_grad(loss)``; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count: trees of arrays, numbers or `afx.Aval`. A Python
            number is one of the default dtype, or int64, and takes part as weakly as in a call.
        target: ``host``, another name of `MACHINES`, an LLVM triple, or a `Machine`.
        name: of the function in C; by default the Python function's.
        denormals: ``"keep"``: the function leaves the processor's control register alone, whatever `afx.set_denormals` says;
            ``"flush"``: denormal numbers are zeros while it runs, on x86-64 and ARM of 64 bits, whatever the dtype.
        bits: ``"target"``, or ``"portable"``: the same bits on every processor, by operations of IEEE 754 that are rounded one by
            one and functions of afx's own (within 1 ulp); denormals are kept.
        form: what is linked at once, so that a missing linker is found here; `Exported` links the others when asked.

    Raises:
        ExportError: something in it has no form outside of Python; the message names it and the user's line.
        ArgumentError: a name that is none in C, or one of the C library's, an unknown target, or another word for denormals.
        MissingExtraError: llvmlite, or what links the form that is asked for, is not there.

    >>> import afx
    >>> from afx import export
    >>> square = export.compile(lambda x: afx.sum(x * x), afx.zeros(3), name="square")
    >>> print(square.inputs[0], "->", square.outputs[0])
    x: float32[3] -> result: float32[]
    >>> square(afx.asarray([1.0, 2.0, 3.0]))
    Array(14., dtype=float32)
    """
    check_callable(fn, "compile")
    machine, symbol = find_machine(target), _check_name(fn, name)
    check_bits(bits, denormals)
    flushes, is_portable = _register_of(machine, denormals, symbol), bits == "portable"
    if is_portable:  # ARM's vectors of 32 bits take denormal numbers for zeros, its scalar unit does not
        machine = attrs.evolve(machine, features=machine.features.replace("+neon", "-neon"))
    traced, avals, tree = trace_arguments(fn, args, "compile")
    compiled_for = _target(is_portable)
    schedule = CompiledGraph(traced.graph, (), compiled_for).plan.schedule
    program, constants = _lower(schedule, traced.graph, symbol, compiled_for)
    inputs = name_slots(arguments_of(fn, args, avals), (symbol,))
    results = program.params[len(inputs) : len(program.params) - len(constants)]
    outputs = _name_outputs(pytree.paths(traced.out_tree), results, (symbol, *[slot.name for slot in inputs]))
    _check_dtypes((*inputs, *outputs), symbol)
    has_scalar = _is_scalar(inputs, outputs) and program.block.arena <= SCALAR_MAX_BYTES
    exported = Exported(
        symbol, machine, inputs, outputs, program.block.arena, b"", "", str(traced.graph), __version__, has_scalar,
        (tree, traced.out_tree),
    )  # fmt: skip
    text = _emit(program, constants, exported, schedule, traced.graph, flushes, compiled_for)
    header = write_header(exported, "@realloc(" in text)
    exported = attrs.evolve(exported, object=_generate(text, machine), header=header)
    if form != "object":
        getattr(exported, form)
    return exported


def _name_outputs(paths: Sequence[str], results: Sequence[Param], used: Sequence[str]) -> tuple[Slot, ...]:
    """Return the results as slots, by their paths."""
    both = zip(paths, results, strict=True)
    return name_slots([(f"result{path}", p.shape, np.dtype(p.dtype)) for path, p in both], used)


def load(path: str | os.PathLike[str]) -> Exported:
    """Return what a file holds that `Exported.save` wrote: an object file, a library, or a module of WebAssembly.

    Nothing in it is run, until the result is called.

    Raises:
        FileFormatError: it holds no note of this module, or one of a later version.
        OSError: it cannot be read.

    >>> import afx, tempfile
    >>> from afx import export
    >>> half = export.compile(lambda x: x / 2, afx.zeros(2), name="half")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     header, code = half.save(folder)
    ...     again = export.load(code)
    >>> again.inputs == half.inputs, again.work_bytes == half.work_bytes
    (True, True)
    """
    data = Path(path).read_bytes()
    note = read_note(data, str(path))
    try:
        machine = Machine(**note["machine"])
        inputs, outputs = [tuple(map(_read_slot, note[key])) for key in ("inputs", "outputs")]
        if len({slot.name for slot in (*inputs, *outputs)}) < len(inputs) + len(outputs):
            raise ValueError("two slots of one name")
        exported = Exported(
            _read_name(note["name"], KEYWORDS.split()),
            machine, inputs, outputs, int(note["work_bytes"]), data, "", str(note["graph"]),
            str(note["version"]), bool(note["has_scalar"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"load: the note of {path} lacks something: got {error!r}; export it again") from error
    return attrs.evolve(exported, header=write_header(exported, bool(note.get("allocates"))))


def _read_slot(item: Any) -> Slot:
    path, name, shape, dtype = item
    return Slot(str(path), _read_name(name, RESERVED), tuple(map(int, shape)), np.dtype(str(dtype)))


def _read_name(name: Any, reserved: Collection[str]) -> str:
    if not IDENTIFIER.fullmatch(str(name)) or name in reserved:
        raise ValueError(f"no name of C: {name!r}")
    return str(name)


# -- what comes in --
def _check_name(fn: Callable[..., Any], name: str | None) -> str:
    symbol = name if name is not None else re.sub(r"\W", "_", str(getattr(fn, "__name__", "")), flags=re.ASCII)
    if not IDENTIFIER.fullmatch(symbol):
        raise ArgumentError(
            f"compile: the function needs a name in C: got {symbol!r}; give name=, of letters, digits and _"
        )
    reason = "a function of the C library" if symbol in SYMBOLS else explain_name(symbol)
    if reason is not None:
        raise ArgumentError(f"compile: the function's name is {reason}: got {symbol!r}; give another name=")
    return symbol


def _check_dtypes(slots: Sequence[Slot], name: str) -> None:
    for slot in slots:
        if slot.dtype.name not in C_TYPES:
            raise ExportError(f"compile: {name}: {slot.path} has a dtype that C lacks: got {slot}; convert it")


def _is_scalar(inputs: Sequence[Slot], outputs: Sequence[Slot]) -> bool:
    wide = [slot.dtype == np.float64 for slot in (*inputs, *outputs)]
    return all(wide) and len(outputs) == 1 and outputs[0].shape == ()


# -- what is made of it --
def check_bits(bits: object, denormals: object) -> None:
    """Raise where a word says nothing of bits, or denormals shall be flushed and bits be portable.

    Raises:
        ArgumentError: then.
    """
    if bits not in get_args(Bits):
        raise ArgumentError(f'compile: bits is "target" or "portable": got {bits!r}; give one of these')
    if bits == "portable" and denormals == "flush":
        raise ArgumentError('compile: portable bits keep denormals: got denormals="flush"; leave denormals="keep"')


def _target(is_portable: bool) -> Target:
    if is_portable:
        return portable_target()
    return attrs.evolve(with_backend(current.target, "native"), native_tier=TIER, stands_alone=True)


def _lower(schedule: Schedule, graph: Graph, name: str, target: Target) -> tuple[Program, tuple[Any, ...]]:
    try:
        with np.errstate(all="ignore"):
            return lower_schedule(schedule, target, threads=False)
    except UnsupportedError as error:
        _refuse(str(error), schedule, graph, name, target)


def _register_of(machine: Machine, denormals: Denormals, name: str) -> Literal["x86", "arm"] | None:
    """Return whose control register a function sets; None where it keeps denormals."""
    check_denormals("compile", denormals)
    if denormals != "flush":
        return None
    if machine.architecture in ("x86_64", "amd64"):
        return "x86"
    if machine.architecture in ("aarch64", "arm64"):
        return "arm"
    raise ExportError(
        f"compile: {name}: denormals are flushed on x86-64 and ARM of 64 bits: got {machine.architecture}; "
        'leave denormals="keep"'
    )


def _emit(
    program: Program,
    constants: Sequence[Any],
    exported: Exported,
    schedule: Schedule,
    graph: Graph,
    flushes: Literal["x86", "arm"] | None,
    target: Target,
) -> str:
    machine = exported.machine
    allocates = any(isinstance(step, Loop) and step.rows is not None for step in program.block.all_steps())
    facts = {
        "version": exported.version, "name": exported.name, "machine": attrs.asdict(machine), "work_bytes": exported.work_bytes,
        "inputs": _list(exported.inputs), "outputs": _list(exported.outputs), "has_scalar": exported.has_scalar,
        "allocates": allocates, "graph": exported.graph,
    }  # fmt: skip
    try:
        return emit_function(
            program, constants, exported.name,
            has_fma=machine.has_fma, size=machine.size_type, note=write_note(facts), has_scalar=exported.has_scalar,
            flushes=flushes, portable_from=len(exported.inputs) if target.backend == "portable" else None,
        )  # fmt: skip
    except UnsupportedError as error:
        _refuse(str(error), schedule, graph, exported.name, target)


def _list(slots: Sequence[Slot]) -> list[Any]:
    return [[slot.path, slot.name, list(slot.shape), slot.dtype.str] for slot in slots]


def _generate(text: str, machine: Machine) -> bytes:
    if importlib.util.find_spec("llvmlite") is None:
        raise MissingExtraError("compile: needs llvmlite: pip install 'afx[export]'")
    try:
        return compile_module(text, machine.triple, machine.cpu, machine.features, not machine.is_freestanding)
    except RuntimeError as error:
        raise ExportError(f"compile: LLVM makes no code for {machine.triple or 'this machine'}: {error}") from error


def _refuse(reason: str, schedule: Schedule, graph: Graph, name: str, target: Target) -> NoReturn:
    """Raise for the first operation that has no form outside of Python, at the user's line."""
    reason, where = explain_refusal(reason, schedule, graph, target)
    raise ExportError(
        f"compile: {name}: an operation has no form outside of Python: got {reason}{where}; "
        "compute it before, or with other functions"
    )
