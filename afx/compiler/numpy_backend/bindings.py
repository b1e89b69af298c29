"""Bindings: what each set of buffers makes of its own before it runs, and the text that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.numpy_backend.listing import aval_text, value_text
from afx.compiler.operands import Buffer
from afx.compiler.schedule import Call, Fused
from afx.core.aval import Aval
from afx.core.dtypes import DType
from afx.runtime.output_pool import OutputPool
from afx.runtime.thread_pool import get_threads

__all__ = [
    "arena_text",
    "copies",
    "in_arena",
    "kernel_text",
    "made_kernel",
    "made_pool",
    "made_scratch",
    "made_view",
    "pool_text",
    "scratch_text",
]


def arena_text(x: Buffer) -> str:
    """Show a buffer of the arena."""
    return f"np.ndarray({x.shape}, '{x.dtype}', arena, {x.location})"


def kernel_text(call: Call, avals: Sequence[Aval]) -> str:
    """Show an implementation that is prepared."""
    shown = [*map(aval_text, avals), *[f"{k}={value_text(v)}" for k, v in call.params]]
    return f"afx.core.primitive.lookup({call.op!r}).lowering.make_kernel({', '.join(shown)})"


def pool_text(aval: Aval, count: int) -> str:
    """Show the memory of a result that is used again."""
    return f"afx.runtime.output_pool.OutputPool({aval_text(aval)}, {count})"


def scratch_text(fused: Fused) -> str:
    """Show the memory of the blocks of a fused loop."""
    block = fused.space.block
    arrays = ", ".join([f"np.empty({(block, *tail)}, '{dtype}')" for dtype, tail in fused.scratch])
    return f"[({arrays}{',' if fused.scratch else ''}) for _ in range(afx.runtime.thread_pool.get_threads())]"


def in_arena(shape: tuple[int, ...], dtype: DType, offset: int, space: dict[str, Any]) -> Any:
    """Return a buffer of the arena."""
    block, start = space["arena"]
    return np.ndarray(shape, dtype, block, start + offset)  # pyright: ignore[reportUnknownVariableType]  # NumPy's stub


def made_kernel(make: Any, avals: Sequence[Aval], params: dict[str, Any], _: dict[str, Any]) -> Any:
    """Return an implementation that is prepared for avals."""
    return make(*avals, **params)


def made_view(impl: Any, source: str, params: dict[str, Any], space: dict[str, Any]) -> Any:
    """Return a view of a value that is made before."""
    return impl(space[source], **params)


def made_pool(aval: Aval, count: int, _: dict[str, Any]) -> Any:
    """Return the memory of a result that is used again."""
    return OutputPool(aval, count)


def made_scratch(block: int, slots: Sequence[tuple[DType, tuple[int, ...]]], _: dict[str, Any]) -> Any:
    """Return the memory of blocks for each thread."""
    return [tuple([np.empty((block, *tail), dtype) for dtype, tail in slots]) for _ in range(get_threads())]


def copies(values: Any) -> list[Any]:
    """Return arrays with memory of their own."""
    return [np.array(v) for v in values]
