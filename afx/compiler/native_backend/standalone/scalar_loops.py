"""Loops of ufuncs without NumPy: the signature of NumPy's inner loops, around one scalar operation or a function of libm."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.native_backend.functions.elementary import SIZE
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.portable import compute
from afx.compiler.native_backend.llvm.op import EMIT, FLOATS, cast, element_type, number, read, written
from afx.compiler.native_backend.llvm.writer import INDEX, Writer
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.memory import dtype_name
from afx.compiler.native_backend.program.elements import Number, UfuncLoop
from afx.compiler.native_backend.standalone.fourier_loops import TRANSFORMS, emit_transform
from afx.compiler.native_backend.standalone.matrix_loops import MATRIX_LOOPS, Elements, each
from afx.compiler.native_backend.standalone.orthogonal_loops import ORTHOGONAL_LOOPS
from afx.compiler.native_backend.standalone.sort_loops import define_sort
from afx.compiler.target import Target
from afx.core import Aval
from afx.core.graph import Atom, Equation, Graph, Var
from afx.core.primitive import formula_named
from afx.core.scalar_ops import ALL, EXACT, OF_SCIPY, scalar_op
from afx.core.tracing.traces import GraphTrace

Formula = Callable[..., Lanes]


def define_loop(w: Writer, loop: UfuncLoop) -> None:
    """Define a loop that a module calls.

    Raises:
        UnsupportedError: it is known to NumPy alone.
    """
    if loop.ufunc.startswith(("sort.", "argsort.")) and loop.dtypes[0] in ALL:
        define_sort(w, loop.symbol, loop.ufunc, loop.dtypes[0])
        return
    head = f'internal void @"{loop.symbol}"(ptr %args, ptr %sizes, ptr %steps, ptr %fault)'
    if loop.ufunc in TRANSFORMS and loop.dtypes[1] in FLOATS:
        w.function(head, lambda: emit_transform(w, loop))
        return
    matrices = {**MATRIX_LOOPS, **ORTHOGONAL_LOOPS}.get(loop.ufunc)
    if matrices is not None and set(loop.dtypes) <= {"f4", "f8"}:
        w.function(head, lambda: matrices(w, loop.dtypes))
        return
    formula = _formula(loop.ufunc, loop.dtypes)
    if formula is None:
        operands = loop.dtypes[:-1] or loop.dtypes  # sorts have one array
        raise UnsupportedError(f"{loop.ufunc} of {', '.join(operands)} is known to NumPy alone")
    w.function(head, lambda: _body(w, loop, formula))


def _body(w: Writer, loop: UfuncLoop, formula: Formula) -> None:
    """Write a loop with the signature of NumPy's: over vectors where all operands are dense doubles, then over the rest."""
    count = w.let("load i64, ptr %sizes")
    pointers = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(len(loop.dtypes))]
    steps = [w.let(f"load i64, ptr {w.shifted('%steps', 8 * k)}") for k in range(len(loop.dtypes))]
    lanes, whole, end = 1, Lanes(w, "i64", "0"), Lanes(w, "i64", count)
    if set(loop.dtypes) <= FLOATS.keys():  # vectors of doubles, where all operands are dense
        lanes = w.limits.vector_bytes // 8
        for step, dtype in zip(steps, loop.dtypes, strict=True):
            is_dense = Lanes(w, "i64", step).compare("eq", int(dtype[1:]))
            end = is_dense.choose(end, 0)
        whole, end = end & -lanes, Lanes(w, "i64", count)
    for w.lanes, start, stop in ((lanes, 0, whole), (1, whole, end)):
        for i in each(w, start, stop, w.lanes):
            at = [w.shifted(p, w.let(f"mul i64 {i.name}, {s}")) for p, s in zip(pointers, steps, strict=True)]
            pairs = zip(loop.dtypes, at[:-1], strict=False)
            xs = [Lanes(w, element_type(dtype), read(w, dtype, p)) for dtype, p in pairs]
            written(w, loop.dtypes[-1], formula(*xs).name, at[-1])
    w.line("ret void")


def _formula(ufunc: str, dtypes: Sequence[str]) -> Formula | None:
    """Return the formula of a ufunc of operands of one dtype, the last one given being that of the result."""
    name, operands = ufunc.removeprefix("special."), set(dtypes[:-1])
    if len(operands) != 1:
        return None
    (dtype,) = operands
    if dtype in scalar_op(name).dtypes:
        return partial(_by_table, name, dtype, element_type(dtypes[-1]))
    if dtype in FLOATS:
        libm = scalar_op(name).libm or (name if name in OF_SCIPY else "")
        if libm:
            return partial(_by_libm, libm)
        return _spacing if name == np.spacing.__name__ else partial(_by_formula, name) if formula_named(name) else None
    of_integers = OF_INTEGERS.get(name) if dtype[0] in "iu" else None
    return None if of_integers is None else partial(of_integers, dtype[0] == "i")


def _by_table(name: str, dtype: str, kind: str, *xs: Lanes) -> Lanes:
    return Lanes(xs[0].w, kind, EMIT[name](xs[0].w, [x.name for x in xs], dtype))


def _by_libm(name: str, *xs: Lanes) -> Lanes:
    w, kind = xs[0].w, xs[0].kind
    if w.is_portable and name not in EXACT:
        return compute(name, xs) or _by_formula(name, *xs)
    function, z = f"@{name}{'f' if kind == 'float' else ''}", xs[0].constant(0.0).name
    w.declare(function, f"declare {kind} {function}({', '.join([kind] * len(xs))})")
    for k in range(w.lanes):
        parts = [x.name if w.lanes == 1 else w.let(f"extractelement {x.type} {x.name}, i64 {k}") for x in xs]
        part = w.let(f"call {kind} {function}({', '.join([f'{kind} {x}' for x in parts])})")
        z = part if w.lanes == 1 else w.let(f"insertelement {xs[0].type} {z}, {kind} {part}, i64 {k}")
    return Lanes(w, kind, z)


# -- by formulas, in doubles --
@functools.cache
def _graph_of(name: str, count: int) -> Graph:
    function = formula_named(name)
    assert function is not None
    trace, number = GraphTrace("formula"), Aval((), np.dtype(np.float64))
    graph = trace.finish((function(*[trace.input(number) for _ in range(count)]),))
    return simplify(graph, Target(fold_max_elements=0), expanding=True)


def _by_formula(name: str, *xs: Lanes) -> Lanes:
    """Return what a formula makes of numbers, each operation in doubles."""
    graph, w = _graph_of(name, len(xs)), xs[0].w
    values = {v.index: x.widen() for v, x in zip(graph.inputs, xs, strict=True)}

    def read(atom: Atom) -> Lanes:
        if isinstance(atom, Var):
            return values[atom.index]
        dtype = dtype_name(atom.aval.dtype)
        return Lanes(w, element_type(dtype), number(w, Number(atom.value, dtype)))

    for eq in graph.equations:
        operands, (out,) = [read(a) for a in eq.inputs], eq.outputs
        values[out.index] = _equation(eq, operands, [dtype_name(a.aval.dtype) for a in (*eq.inputs, out)])
    z = read(graph.outputs[0])
    return z if xs[0].kind == "double" else z.rounded()


def _equation(eq: Equation, xs: Sequence[Lanes], dtypes: Sequence[str]) -> Lanes:
    """Return an equation's result."""
    p, w = eq.primitive, xs[0].w
    if p.algebra.canonical == "cast":
        return Lanes(w, element_type(dtypes[-1]), cast(w, xs[0].name, dtypes[0], dtypes[-1]))
    if p.algebra.canonical == "select":
        return xs[0].choose(xs[1], xs[2])
    ufunc = p.algebra.canonical or (p.name if p.lowering.ufunc is None else p.lowering.ufunc.__name__)
    formula = _formula(ufunc, dtypes)
    if formula is None:
        raise UnsupportedError(f"{ufunc} of {dtypes[0]} is known to NumPy alone")
    return formula(*xs)


def _spacing(x: Lanes) -> Lanes:
    """Return the distance to the next number further from 0, as NumPy's: positive of both zeros, infinite of the largest."""
    bits = x.bits() & SIZE[x.kind]
    size = bits.as_float()
    gap = (bits + 1).as_float() - size
    signed = size.compare("oeq", 0.0).choose(gap, gap.copysign(x))
    return size.compare("oeq", math.inf).choose(x.constant(math.nan), signed)


# -- integers: divisions by zero, and of the least number by -1, would end the process --
def _divide(name: str, x: Lanes, y: Lanes) -> Lanes:
    return Lanes(x.w, x.kind, x.w.let(f"{name} {x.type} {x.name}, {y.name}"))


def _floor_divide(is_signed: bool, x: Lanes, y: Lanes) -> Lanes:
    is_zero = y.compare("eq", 0)
    safe = is_zero.choose(y.constant(1), y)
    if not is_signed:
        return is_zero.choose(y.constant(0), _divide("udiv", x, safe))
    minus = y.compare("eq", -1)  # x / -1 is 0 - x, which wraps
    x, safe = minus.choose(x.constant(0) - x, x), minus.choose(y.constant(1), safe)
    quotient, rest = _divide("sdiv", x, safe), _divide("srem", x, safe)
    is_above = (rest ^ safe).compare("slt", 0) & rest.compare("ne", 0)
    return is_zero.choose(y.constant(0), is_above.choose(quotient - 1, quotient))


def _power(is_signed: bool, x: Lanes, y: Lanes) -> Lanes:
    """Return a power by squaring; a negative exponent is a fault, as NumPy's plan raises an error."""
    w = x.w
    if is_signed:
        fault = Elements(w, "i64", "%fault")
        fault[()] = fault[()] | y.compare("slt", 0).extended() * INDEX
    base, rest, total = [Elements(w, x.kind, w.local(x.kind, 8)) for _ in range(3)]
    base[()], rest[()], total[()] = x, y, x.constant(1)
    for _ in each(w, 0, int(x.kind[1:])):
        factor, left, product = base[()], rest[()], total[()]
        total[()] = (left & 1).compare("ne", 0).choose(product * factor, product)
        base[()], rest[()] = factor * factor, left >> 1
    return total[()]


def _bitwise_count(is_signed: bool, x: Lanes) -> Lanes:
    size = x.compare("slt", 0).choose(x.constant(0) - x, x) if is_signed else x
    count = size.unary("ctpop")
    return count if x.kind == "i8" else count.truncated("i8")


OF_INTEGERS: dict[str, Formula] = {f.__name__[1:]: f for f in (_bitwise_count, _floor_divide, _power)}
