"""Compilation units: the programs of a schedule, with the module that holds their code as LLVM IR, and its object code."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.llvm.writer import Addresses
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import Lowered, lower_plan
from afx.compiler.native_backend.lowering.products import products_digest
from afx.compiler.native_backend.service.child import compile_text
from afx.compiler.native_backend.service.code_cache import Made, get_code, keep_kernels, put_code
from afx.compiler.native_backend.service.image import make_image
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import Target

Unit: TypeAlias = "tuple[Schedule | None, tuple[Lowered, ...], str]"
"""A schedule that calls kernels, None where one is the whole; their programs; the module's text."""


def make_unit(schedule: Schedule, target: Target, layout: Addresses) -> Unit:
    """Return the unit of a schedule.

    Args:
        schedule: the whole.
        target: what is compiled for.
        layout: where CPython and NumPy keep things.

    Raises:
        UnsupportedError: it has no part that is worth it, or too many different ones.
    """
    if target.tier == 1 and (not layout.products or layout.products != products_digest()):  # another process's BLAS
        target = attrs.evolve(target, native=attrs.evolve(target.native, product_inline_max_products=0))
    with np.errstate(all="ignore"):
        mixed, pieces = lower_plan(schedule, target)
    text = emit_programs([program for program, _ in pieces], layout, target.native)
    if text.count("define internal") > target.native.module_max_functions:
        raise UnsupportedError("it has too many different loops")
    return mixed, pieces, text


def make_kernels(schedule: Schedule, target: Target, layout: Addresses, folder: str = "", key: str = "") -> Made:
    """Return the kernels of a schedule, and keep them, and their code, in a folder where one is named.

    Args:
        schedule: the whole.
        target: what is compiled for.
        layout: where CPython and NumPy keep things.
        folder: where code is kept, an empty text for nowhere.
        key: under which the kernels are kept, an empty text for none.

    Raises:
        UnsupportedError: it has no part that is worth it, or too many different ones.
    """
    unit = make_unit(schedule, target, layout)
    text = unit[2]
    code = get_code(text, target.cpu, folder)
    if code is None:
        code = compile_text(text, target.cpu)
        put_code(text, target.cpu, folder, code)
    made = lay_out(unit, code)
    keep_kernels(key, folder, made)
    return made


def lay_out(unit: Unit, code: bytes) -> Made:
    """Return what the process that calls the kernels of a unit needs of it, with its object code."""
    mixed, pieces, _ = unit
    names = [f"kernel_{k}" for k in range(len(pieces))]
    return mixed, tuple([(program.interface, own) for program, own in pieces]), make_image(code, names)
