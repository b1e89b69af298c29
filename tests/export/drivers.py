"""Drivers: programs of C that call exported functions; behind each array lies a page that must not be touched."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx.export import Exported

HEAD = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that ends, up to its alignment, where a page begins that nobody may touch. */
static void *guarded(size_t bytes, size_t alignment) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t whole = (bytes + alignment - 1) / alignment * alignment;
  size_t pages = (whole + page - 1) / page + 1;
  char *all = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) exit(3);
  mprotect(all, page, PROT_NONE);
  mprotect(all + pages * page, page, PROT_NONE);
  return all + pages * page - whole;
}

static void *taken(size_t bytes, size_t alignment, FILE *file) {
  void *found = guarded(bytes, alignment);
  if (fread(found, 1, bytes, file) != bytes) exit(4);
  return found;
}
"""


def write_driver(exported: Sequence[Exported]) -> str:
    """Return a program that reads all inputs from its standard input, and writes each function's status and outputs."""
    lines = [HEAD, *[f'#include "{e.name}.h"' for e in exported], "int main(void) {"]
    for e in exported:
        lines.append("  {")
        names: list[str] = []
        for k, slot in enumerate((*e.inputs, *e.outputs)):
            size, make = slot.size * slot.dtype.itemsize, "taken" if k < len(e.inputs) else "guarded"
            file = ", stdin" if k < len(e.inputs) else ""
            lines.append(f"    {slot.c_type} *p{k} = {make}({size}, {slot.dtype.itemsize}{file});")
            names.append(f"p{k}")
        lines.append(f"    void *work = guarded({e.name}_work_bytes(), 64);")
        lines.append(f"    int status = {e.name}({', '.join([*names, 'work'])});")
        lines.append("    fwrite(&status, sizeof status, 1, stdout);")
        for k, slot in enumerate(e.outputs, len(e.inputs)):
            lines.append(f"    fwrite(p{k}, 1, {slot.size * slot.dtype.itemsize}, stdout);")
        lines.append("  }")
    return "\n".join([*lines, "  return 0;", "}", ""])


def run_driver(
    folder: Path,
    exported: Mapping[str, Exported],
    args: Mapping[str, Any],
    compiler: Sequence[str],
    emulator: Sequence[str],
) -> dict[str, tuple[int, list[Any]]]:
    """Build and run the driver of functions; return each one's status and outputs."""
    program = build_driver(folder, exported, compiler)
    return run_program([*emulator, str(program)], exported, args)


def build_driver(folder: Path, exported: Mapping[str, Exported], compiler: Sequence[str]) -> Path:
    """Build the driver of functions; return where it lies."""
    objects: list[str] = []
    for e in exported.values():
        objects += [str(path) for path in e.save(folder) if path.suffix == ".o"]
    (folder / "driver.c").write_text(write_driver([*exported.values()]))
    program = folder / "driver"
    command = [*compiler, "-O1", "-Wall", "-Werror", "-o", str(program), str(folder / "driver.c"), *objects, "-lm"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return program


def run_program(
    command: Sequence[str], exported: Mapping[str, Exported], args: Mapping[str, Any]
) -> dict[str, tuple[int, list[Any]]]:
    """Run a driver with these arguments; return each function's status and outputs."""
    given = b"".join(
        [np.ascontiguousarray(x).tobytes() for name in exported for x in leaves_of(args[name], exported[name])]
    )
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return read_results(done.stdout, exported)


def leaves_of(args: Any, exported: Exported) -> list[Any]:
    """Return the inputs of a function as arrays of its dtypes."""
    leaves = afx.pytree.leaves((args, {}))
    return [np.asarray(x, slot.dtype) for x, slot in zip(leaves, exported.inputs, strict=True)]


def read_results(data: bytes, exported: Mapping[str, Exported]) -> dict[str, tuple[int, list[Any]]]:
    """Return each function's status and outputs from what a driver wrote."""
    found, at = dict[str, tuple[int, list[Any]]](), 0
    for name, e in exported.items():
        status, at = int(np.frombuffer(data, np.int32, 1, at)[0]), at + 4
        outs: list[Any] = []
        for slot in e.outputs:
            outs.append(np.frombuffer(data, slot.dtype, math.prod(slot.shape), at).reshape(slot.shape))
            at += slot.size * slot.dtype.itemsize
        found[name] = status, outs
    assert at == len(data)
    return found
