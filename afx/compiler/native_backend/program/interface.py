"""Interfaces of native programs: what the process that calls one has to know of it, and no more."""

from __future__ import annotations

import attrs

from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.core import Shape
from afx.core.primitive import Printable

PARTS = 8  # of each nest that is cut, shared out among threads


@attrs.frozen(eq=False, repr=False)
class Param(Printable):
    """Array that the program's function takes from Python.

    Attributes:
        shape: its lengths.
        dtype: as `Ref.dtype`.
        checked: whether it comes from outside, so that type, layout and shape are looked at in each call.
    """

    shape: Shape
    dtype: str
    checked: bool


@attrs.frozen(eq=False, repr=False)
class Interface(Printable):
    """What calls of a program need.

    Attributes:
        params: its arrays: inputs, outputs, captured constants.
        arena: bytes of memory for its intermediate values.
        donated: pairs of a result and an argument that may be the same memory.
        called_params: the parameters that functions may read, whose bits may depend on strides.
        loops: of NumPy, that it calls.
        calls_blas: whether it calls BLAS.
        is_shared: whether threads share parts of it.
    """

    params: tuple[Param, ...]
    arena: int
    donated: tuple[tuple[int, int], ...]
    called_params: frozenset[int]
    loops: tuple[UfuncLoop, ...]
    calls_blas: bool
    is_shared: bool
