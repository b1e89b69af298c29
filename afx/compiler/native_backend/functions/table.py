"""Table of the second tier: its functions, their emission, and values rewritten in forms that they compute better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import attrs
import numpy as np

from afx.compiler.native_backend.functions import complex_numbers, elementary, portable
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.rounded import ROUNDED
from afx.compiler.native_backend.llvm.loops import call_loop
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program.elements import Fast, Number, Op, UfuncLoop, Value
from afx.compiler.native_backend.program.leaves import Nest
from afx.core.scalar_ops import SCALAR_OPS

# --- Rewrites: a nest's values in forms that the second tier computes better


def rewrite(nest: Nest, is_portable: bool) -> Nest:
    """Return a nest that computes the same better."""
    wanted = [*[k for k, _ in nest.stores], *[k for k, *_ in nest.folds]]
    values = join_logistic(nest.values)
    values, numbers = keep_needed(values if is_portable else take_roots(values), wanted)
    stores = tuple([(numbers[k], ref) for k, ref in nest.stores])
    folds = tuple([(numbers[k], ufunc, ref) for k, ufunc, ref in nest.folds])
    return attrs.evolve(nest, values=values, stores=stores, folds=folds)


def join_logistic(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return values with the logistic function in place of ``1 / (1 + exp(-x))``, which is less accurate."""
    logistic = [_logistic_of(values, k) for k in range(len(values))]
    pairs = zip(values, logistic, strict=True)
    return tuple([Op(Fast("logistic", None), v.dtype, (x,)) if isinstance(v, Op) and x >= 0 else v for v, x in pairs])


def _logistic_of(values: Sequence[Value], k: int) -> int:
    """Return the number of x, -1 where a value has another form."""
    quotient = _operands(values, k, np.divide)
    if not quotient or not _is_one(values[quotient[0]]):
        return -1
    terms = _operands(values, quotient[1], np.add)
    if not terms or not any(_is_one(values[t]) for t in terms):
        return -1
    powers = [e for t in terms for e in _operands(values, t, np.exp)]
    return next((x for e in powers for x in _operands(values, e, np.negative)), -1)


def take_roots(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return values with square roots in place of powers by half numbers."""

    def take(k: int) -> Value:
        value, operands = values[k], _operands(values, k, np.power)
        exponent = values[operands[1]] if operands else None
        root = ROOTS.get(exponent.value) if isinstance(exponent, Number) else None
        if not isinstance(value, Op) or root is None or value.loop is None:
            return value
        return attrs.evolve(value, name=Fast(root.__name__, value.loop))

    return tuple(map(take, range(len(values))))


def _operands(values: Sequence[Value], k: int, ufunc: np.ufunc) -> tuple[int, ...]:
    """Return the operands of a value where it is this operation."""
    value = values[k]
    if not isinstance(value, Op):
        return ()
    own = value.name.name if isinstance(value.name, Fast) else getattr(value.name, "ufunc", value.name)
    return value.args if own == ufunc.__name__ else ()


def _is_one(value: Value) -> bool:
    return isinstance(value, Number) and value.value == 1


def keep_needed(values: Sequence[Value], wanted: Sequence[int]) -> tuple[tuple[Value, ...], dict[int, int]]:
    """Return the values that others are made of, and their new numbers.

    >>> keep_needed((Number(1.0, "f4"), Number(2.0, "f4")), [1])
    ((Number(value=2.0, dtype='f4'),), {1: 0})
    """
    needed = set(wanted)
    for k in reversed(range(len(values))):
        if k in needed:
            needed |= set(values[k].args)
    numbers = {k: n for n, k in enumerate(sorted(needed))}
    kept = [values[k] for k in numbers]
    moved = [attrs.evolve(v, args=tuple([numbers[k] for k in v.args])) if isinstance(v, Op) else v for v in kept]
    return tuple(moved), numbers


# --- Table of the second tier's functions, and their emission: each a function of LLVM that is joined to its callers
#
# Lanes of which a function says that they are hard are computed by NumPy's own loop, so that they are NumPy's in
# value and flags; where none is, that costs one test.

KINDS = {"f4": "float", "f8": "double", "c8": "i64", "c16": "i128"}
BOTH, SINGLE = ("f4", "f8"), ("f4",)

Function: TypeAlias = "Callable[..., Lanes]"

ROOTS: dict[int | float | complex, Function] = {
    0.5: elementary.root, -0.5: elementary.inverse_root,
    1.5: elementary.root_of_cube, -1.5: elementary.inverse_root_of_cube,
}  # by exponents  # fmt: skip
# name: dtypes, the function, which lanes another one computes: NumPy's loop where none is named
FAST: dict[str, tuple[Sequence[str], Function, Function | None, Callable[..., Lanes | None] | None]] = {
    row[1].__name__: row
    for row in (
        (BOTH, elementary.exp, elementary.exp_is_hard, elementary.exp_of_all),
        (BOTH, elementary.expm1, elementary.expm1_is_hard, elementary.expm1_of_all),
        (BOTH, elementary.tanh, None, None),
        (BOTH, elementary.logistic, None, None),
        (BOTH, elementary.log, elementary.log_is_hard, None),
        (BOTH, elementary.log1p, elementary.log1p_is_hard, None),
        (BOTH, elementary.sin, elementary.is_far, None),
        (BOTH, elementary.cos, elementary.is_far, None),
        (SINGLE, elementary.erf, None, None),
        (SINGLE, elementary.power, elementary.power_is_hard, None),
        (BOTH, elementary.hypot, elementary.hypot_is_hard, None),
        (BOTH, elementary.fmod, elementary.remainder_is_hard, None),
        (BOTH, elementary.remainder, elementary.remainder_is_hard, None),
        (BOTH, elementary.floor_divide, elementary.remainder_is_hard, None),
        (tuple(complex_numbers.KINDS), complex_numbers.divide, complex_numbers.divide_is_hard, None),
        (BOTH, elementary.root, None, None),
        (BOTH, elementary.inverse_root, elementary.root_is_hard, None),
        (BOTH, elementary.root_of_cube, elementary.root_is_hard, None),
        (BOTH, elementary.inverse_root_of_cube, elementary.root_is_hard, None),
    )
}
FAST.update({f"rounded.{name}": (SINGLE, f.compute, f.is_hard, None) for name, f in ROUNDED.items()})
# those of them with NumPy's bits, or SciPy's, for the first tier too
EXACT = (elementary.remainder_is_hard, complex_numbers.divide_is_hard, *[f.is_hard for f in ROUNDED.values()])
OF_NUMPYS_BITS = frozenset(name for name, row in FAST.items() if row[2] in EXACT)


# the same of doubles whose bits are the same everywhere, with the lanes that another function computes, and which one:
# that of all numbers by default
Portable: TypeAlias = "tuple[Function, Function | None, Callable[..., Lanes | None] | None]"
PORTABLE: dict[str, Portable] = {
    **{name: portable.find_form(op.libm) for name, op in SCALAR_OPS.items() if op.libm in portable.FUNCTIONS},
    "logistic": (portable.near_logistic, partial(portable.is_beyond, 700.0), portable.logistic),
    portable.exp.__name__: (portable.exp_of_normal, elementary.exp_is_hard, portable.exp),
}

PORTABLE_SINGLE: dict[str, Portable] = {  # of floats those that fused operations make exact elsewhere
    portable.sin.__name__: (portable.single_sin, portable.single_is_hard, None),
    portable.cos.__name__: (portable.single_cos, portable.single_is_hard, None),
}


def has_fast(name: str, dtypes: Sequence[str], tier: int, is_portable: bool = False) -> bool:
    """Tell whether a function has a vector form of these dtypes in a tier; portable ones are others."""
    dtype, is_exact = dtypes[0], name in OF_NUMPYS_BITS
    is_own = name in FAST and dtype in FAST[name][0] and (not is_portable if is_exact else tier > 1)
    return len(set(dtypes)) == 1 and (is_own or (is_portable and dtype in BOTH and name in PORTABLE))


def _portable_form(name: str, dtype: str) -> Portable | None:
    """Return the form whose bits are the same everywhere; None where that of the table has them."""
    if dtype == "f8":
        return PORTABLE.get(name)
    if name in PORTABLE_SINGLE or (name in FAST and dtype in FAST[name][0]):
        return PORTABLE_SINGLE.get(name)
    function, is_hard, _ = PORTABLE[name]

    def of_doubles(*xs: Lanes) -> Lanes:
        w = xs[0].w
        w.is_single = True
        z = function(*[x.widen() for x in xs]).rounded()
        w.is_single = False
        return z

    return of_doubles, is_hard and (lambda *xs: is_hard(*[x.widen() for x in xs])), None


def emit_fast(w: Writer, fast: Fast, xs: Sequence[str], dtype: str) -> str:
    """Emit a call of a function; return its value."""
    kind = w.vector(KINDS[dtype])
    name = f"@fast.{fast.name}.{dtype}.{w.lanes}"
    names = [f"%x{k}" for k in range(len(xs))]
    params = ", ".join([f"{kind} {x}" for x in names])
    w.define(name, f"internal {kind} {name}({params}) alwaysinline", lambda: _body(w, fast, names, dtype))
    return w.let(f"call {kind} {name}({', '.join([f'{kind} {x}' for x in xs])})")


def _body(w: Writer, fast: Fast, names: Sequence[str], dtype: str) -> None:
    """Write a function of lanes; where one of them is hard, another function, called seldom, does these again."""
    own = _portable_form(fast.name, dtype) if w.is_portable else None
    function, is_hard, of_all = own or FAST[fast.name][1:]
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
        exact = (of_all and of_all(*xs)) or Lanes(w, z.kind, _by_loop(w, fast.loop, xs))
        z_in, hard_in = Lanes(w, z.kind, "%z"), Lanes(w, "i1", "%hard")
        w.line(f"ret {z.type} {hard_in.choose(exact, z_in).name}")

    w.define(name, f"internal {z.type} {name}({params}) noinline cold", body)
    return name


def _by_loop(w: Writer, loop: UfuncLoop | None, xs: Sequence[Lanes]) -> str:
    """Return all lanes as NumPy's loop computes them."""
    assert loop is not None
    kind = xs[0].type
    locations = [w.local(kind, 64) for _ in range(len(xs) + 1)]
    for x, location in zip(xs, locations, strict=False):
        w.line(f"store {kind} {x.name}, ptr {location}")
    steps = [int(loop.dtypes[0][1:])] * len(locations)
    w.keep(loop, lambda: call_loop(w, loop, locations, [str(w.lanes)], steps))
    return w.let(f"load {kind}, ptr {locations[-1]}")
