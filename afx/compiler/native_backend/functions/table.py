"""Table of the second tier's functions, and their emission: each a function of LLVM that is joined to its callers.

Lanes of which a function says that they are hard are computed by NumPy's own loop, so that they are NumPy's in value
and flags; where none is, that costs one test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afx.compiler.native_backend.functions import exponential, logarithm, power, trigonometry
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.nested import call_loop
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Fast, UfuncLoop

__all__ = ["emit_fast", "has_fast"]

KINDS = {"f4": "float", "f8": "double"}
BOTH, SINGLE = ("f4", "f8"), ("f4",)

Function: TypeAlias = "Callable[..., Lanes]"

# name: dtypes, the function, which lanes another one computes: NumPy's loop where none is named
FAST: dict[str, tuple[Sequence[str], Function, Function | None, Callable[..., Lanes | None] | None]] = {
    "exp": (BOTH, exponential.exp, exponential.exp_is_hard, exponential.exp_of_all),
    "expm1": (BOTH, exponential.expm1, exponential.expm1_is_hard, exponential.expm1_of_all),
    "tanh": (BOTH, exponential.tanh, None, None),
    "logistic": (BOTH, exponential.logistic, None, None),
    "log": (BOTH, logarithm.log, logarithm.log_is_hard, None),
    "log1p": (BOTH, logarithm.log1p, logarithm.log1p_is_hard, None),
    "sin": (BOTH, trigonometry.sin, trigonometry.is_far, None),
    "cos": (BOTH, trigonometry.cos, trigonometry.is_far, None),
    "erf": (SINGLE, exponential.erf, None, None),
    "power": (SINGLE, power.power, power.power_is_hard, None),
    "hypot": (SINGLE, power.hypot, power.hypot_is_hard, None),
}


def has_fast(name: str, dtypes: Sequence[str]) -> bool:
    """Tell whether a function has a vector form of these dtypes."""
    return name in FAST and dtypes[0] in FAST[name][0] and len(set(dtypes)) == 1


def emit_fast(w: Writer, fast: Fast, xs: Sequence[str], dtype: str) -> str:
    """Emit a call of a function; return its value."""
    kind = w.vector(KINDS[dtype])
    name = f"@fast.{fast.name}.{dtype}.{w.lanes}"
    names = [f"%x{k}" for k in range(len(xs))]
    params = ", ".join([f"{kind} {x}" for x in names])
    w.define(name, f"internal {kind} {name}({params}) alwaysinline", lambda: _body(w, fast, names, dtype))
    return w.let(f"call {kind} {name}({', '.join([f'{kind} {x}' for x in xs])})")


def _body(w: Writer, fast: Fast, names: Sequence[str], dtype: str) -> None:
    _, function, is_hard, of_all = FAST[fast.name]
    xs = [Lanes(w, KINDS[dtype], x) for x in names]
    z = function(*xs)
    if is_hard is None:
        w.line(f"ret {z.type} {z.name}")
        return
    hard = is_hard(*xs)
    redo = _redo(w, fast, [*xs, z], hard, of_all)
    bits = hard.name if w.lanes == 1 else w.let(f"bitcast {hard.type} {hard.name} to i{w.lanes}")
    some = bits if w.lanes == 1 else w.let(f"icmp ne i{w.lanes} {bits}, 0")
    w.line(f"br i1 {some}, label %hard, label %easy")
    w.label("hard")
    again = w.let(f"call {z.type} {redo}({', '.join([f'{v.type} {v.name}' for v in (*xs, z, hard)])})")
    w.line(f"ret {z.type} {again}")
    w.label("easy")
    w.line(f"ret {z.type} {z.name}")


def _redo(
    w: Writer, fast: Fast, values: Sequence[Lanes], hard: Lanes, of_all: Callable[..., Lanes | None] | None
) -> str:
    """Add the function that computes hard lanes in another way."""
    *xs, z = values
    name = f"@redo.{fast.name}.{z.kind}.{w.lanes}"
    params = ", ".join([f"{v.type} {v.name}" for v in xs] + [f"{z.type} %z", f"{hard.type} %hard"])

    def body() -> None:
        found = (of_all and of_all(*xs)) or Lanes(w, z.kind, _by_loop(w, fast.loop, xs))
        z_in, hard_in = Lanes(w, z.kind, "%z"), Lanes(w, "i1", "%hard")
        w.line(f"ret {z.type} {hard_in.choose(found, z_in).name}")

    w.define(name, f"internal {z.type} {name}({params}) noinline cold", body)
    return name


def _by_loop(w: Writer, loop: UfuncLoop | None, xs: Sequence[Lanes]) -> str:
    """Return all lanes as NumPy's loop computes them."""
    assert loop is not None
    kind = xs[0].type
    locations = [w.local(kind, 64) for _ in range(len(xs) + 1)]
    for x, location in zip(xs, locations, strict=False):
        w.line(f"store {kind} {x.name}, ptr {location}")
    call_loop(w, loop, locations, [str(w.lanes)], [int(loop.dtypes[0][1:])] * len(locations))
    return w.let(f"load {kind}, ptr {locations[-1]}")
