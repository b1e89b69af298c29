"""Compiling process: answers pickled calls; started by `afx.compiler.native_backend.service.process`, as a module by itself.

A message is its length in eight bytes and a pickle; a length of 0 alone says that the child is at work. The first one is
the `sys.path` of the parent. A call is ``(text, cpu, …)``, as `compile_text` takes them, of which LLVM's binding alone is
needed, or ``(function, …)``, whose module is imported as its name is read. An answer is ``(what was made or None, what went
wrong)``: the name of the error and its text.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any, Protocol

llvm_is_idle: threading.Event = threading.Event()  # cleared while a text is compiled: nothing is loaded beside it
llvm_is_idle.set()
IDLE_SECONDS = 60.0
WATCH_SECONDS = 0.5
SIGN_OF_LIFE = struct.pack("<Q", 0)
FEW_PASSES = "; vectors are written out"  # the first line of a module that needs few of LLVM's passes
UNROLL = "; vectors are written out, loops over elements are not"  # the same, with unrolling
# Sections of a large process may land more than 2 GB apart, which LLVM's linker answers by ending the process.
ADDRESSES = (
    {"reloc": "static", "codemodel": "large"} if sys.platform == "linux" else {"reloc": "pic", "codemodel": "default"}
)


class Readable(Protocol):
    """What bytes come from."""

    def read(self, count: int, /) -> bytes:
        """Return up to so many bytes, none at the end."""
        ...


def encode(message: Any) -> bytes:
    """Return the bytes of a message; raise whatever pickling raises."""
    data = pickle.dumps(message, protocol=5)
    return struct.pack("<Q", len(data)) + data


def write(stream: IO[bytes], data: bytes) -> None:
    """Write all bytes."""
    left = memoryview(data)
    while left:
        left = left[stream.write(left) :]  # without a buffer, whose lock a forked process would find locked
    stream.flush()


def receive(stream: Readable) -> Any:
    """Read a message, not a sign of life.

    Raises:
        EOFError: the other side has closed the stream.
    """
    return pickle.loads(_next_message(stream))


def _next_message(stream: Readable, begun: Callable[[], None] = lambda: None) -> bytes:
    """Return the bytes of a message; call ``begun`` as soon as there is one, since reading it may take a while."""
    length = 0
    while not length:
        (length,) = struct.unpack("<Q", _exactly(stream, 8))
    begun()
    return _exactly(stream, length)


def _exactly(stream: Readable, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the stream is closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def load_llvm() -> Any:
    """Return LLVM's binding, ready to make code for this machine."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for what reads the flags of the old floating-point unit
    return llvm


def compile_text(text: str, cpu: str, form: str = "object", machine: tuple[str, str, str] | None = None) -> Any:
    """Compile LLVM IR for a processor: ``object`` code, ``assembly``, or optimized ``llvm`` text.

    Args:
        text: a module.
        cpu: LLVM's name of the processor; an empty one stands for this machine.
        form: what is returned.
        machine: of code that leaves this process: LLVM's triple (empty: this machine's), features, and kind of relocation.
    """
    llvm = load_llvm()
    triple, features, reloc = machine or ("", "", "")
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    addresses = ADDRESSES if machine is None else {"reloc": reloc, "codemodel": "default"}
    target_machine = llvm.Target.from_triple(triple or llvm.get_default_triple()).create_target_machine(
        cpu=cpu or llvm.get_host_cpu_name(),
        features=features if cpu else llvm.get_host_cpu_features().flatten(),
        opt=2,
        **addresses,
    )
    module = llvm.parse_assembly(text)
    if machine is not None:
        module.triple, module.data_layout = target_machine.triple, str(target_machine.target_data)
    module.verify()
    _optimize(llvm, module, target_machine, text.partition("\n")[0])
    if form == "llvm":
        return str(module)
    return target_machine.emit_assembly(module) if form == "assembly" else target_machine.emit_object(module)


def _optimize(llvm: Any, module: Any, machine: Any, kind: str) -> None:
    """Run LLVM's passes: those that the first line of the text asks for, else its own pipeline."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # vectors are written out; its assertions end the process now and then
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    if kind not in (FEW_PASSES, UNROLL):
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    if kind == UNROLL:
        passes.add_loop_unroll_pass()
        passes.add_instruction_combine_pass()
    passes.run(module, builder)


def _answer(data: bytes) -> tuple[Any, tuple[str, str]]:
    try:
        first, *rest = pickle.loads(data)
        if not isinstance(first, str):
            return first(*rest), ("", "")
        llvm_is_idle.clear()
        return compile_text(first, *rest), ("", "")
    except Exception as error:
        return None, (type(error).__name__, str(error))
    finally:
        llvm_is_idle.set()


class _Watch:
    """Ends this process where the parent is gone, or has asked nothing for a minute; says that it is at work."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._parent = os.getppid()
        self._sink = sink
        self._writing = threading.Lock()
        self._since, self._is_busy = time.monotonic(), False
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        """Note that a job has come."""
        self._since, self._is_busy = time.monotonic(), True

    def answer(self, message: Any) -> None:
        """Send an answer, and note that the job is done."""
        with self._writing:
            write(self._sink, encode(message))
        self._since, self._is_busy = time.monotonic(), False

    def _watch(self) -> None:
        """Give signs of life while the process is busy; end it when its parent is gone, or it was idle for long."""
        while True:
            time.sleep(WATCH_SECONDS)
            is_idle = not self._is_busy and time.monotonic() - self._since > IDLE_SECONDS
            if os.getppid() != self._parent or is_idle:
                os._exit(0)
            if self._is_busy and self._writing.acquire(blocking=False):
                try:
                    write(self._sink, SIGN_OF_LIFE)
                except OSError:
                    os._exit(0)
                finally:
                    self._writing.release()


def main() -> None:
    """Serve jobs until the parent is gone, or has asked nothing for a minute."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy loads in three quarters of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; the end of its pipe is ours
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but answers goes to the parent
    watch = _Watch(sink)
    try:
        sys.path[:] = receive(source)
        with contextlib.suppress(Exception):  # what is wrong is the answer to the first job
            load_llvm()  # while that is on its way
        gc.disable()  # it would look at all of a long schedule again and again: a third of the time of lowering
        while True:
            watch.answer(_answer(_next_message(source, watch.begin)))
            gc.collect(0)
    except (EOFError, ConnectionError):
        os._exit(0)
