"""Table of StableHLO: elementwise operations, reductions, views, products, selections, casts and loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from afx.compiler.schedule.schedule import BranchSpec, ScanSpec, WhileSpec
from afx.core import Aval, DType, Primitive, promote
from afx.core.graph import Equation
from afx.export.stablehlo.writer import BOOL, FORMULAS, HloValue, HloWriter, type_text
from afx.export.templates import NoTemplateError, Table, Template, Texts
from afx.ops.indexing.index import Basic

# --- Loops and branches of StableHLO: a scan counts its steps, and reads and writes a row in each

NUMBER = Aval((), np.dtype(np.int64))


def _scan(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    """Write a scan as a ``while`` over the step's number, which reads a row of each operand and writes one of each result."""
    spec = writer.walk.control(eq)
    assert isinstance(spec, ScanSpec)
    head = spec.consts + spec.carry
    avals = [var.aval for var in eq.outputs]
    if not spec.length:  # no row could be read: rows have one element at least
        _write_no_steps(writer, spec, avals, xs[spec.consts : head], zs)
        return
    start = [writer.fill(0, NUMBER), *xs[spec.consts : head], *[writer.fill(0, a) for a in avals[spec.carry :]]]
    names = [writer.walk.names.make(f"{z}_in") for z in ("step", *zs)]
    types = [NUMBER, *avals]
    with _loop(writer, [writer.walk.names.make("steps"), *zs], names, start, types):
        limit = writer.fill(spec.length, NUMBER)
        writer.leave([writer.compare("LT", (names[0], limit), NUMBER)], [Aval((), np.dtype(bool))])
    with writer.region("} do {"):
        after = writer.same("add", (names[0], writer.fill(1, NUMBER)), NUMBER)
        place = writer.same("subtract", (writer.fill(spec.length, NUMBER), after), NUMBER) if spec.reverse else names[0]
        rows = [_read_row(writer, x, a.aval, place) for x, a in zip(xs[head:], eq.inputs[head:], strict=True)]
        carry = names[1 : 1 + spec.carry]
        new_values = writer.inline(spec.body, [*xs[: spec.consts], *carry, *rows])
        stacks = zip(names[1 + spec.carry :], avals[spec.carry :], new_values[spec.carry :], strict=True)
        ys = [_write_row(writer, y, aval, row, place) for y, aval, row in stacks]
        writer.leave([after, *new_values[: spec.carry], *ys], types)
    writer.write("}")


def _write_no_steps(
    writer: HloWriter, spec: ScanSpec, avals: Sequence[Aval], carry: Sequence[str], zs: Sequence[str]
) -> None:
    """Write what a loop without steps gives: its carry, and arrays without rows."""
    for x, aval, z in zip(carry, avals, zs, strict=False):
        writer.reshape(x, aval, aval.shape, z)
    for aval, z in zip(avals[spec.carry :], zs[spec.carry :], strict=True):
        writer.fill(0, aval, z)


def _loop(
    writer: HloWriter, made: Sequence[str], names: Sequence[str], start: Sequence[str], types: Sequence[Aval]
) -> AbstractContextManager[None]:
    """Write the head of a loop; return the context in which its condition is written."""
    pairs = ", ".join([f"%{name} = %{x}" for name, x in zip(names, start, strict=True)])
    writer.write(f"{writer.read(made)} = stablehlo.while({pairs}) : {', '.join(map(type_text, types))}")
    return writer.region("cond {")


def _places(writer: HloWriter, aval: Aval, place: str) -> tuple[str, str]:
    """Return the operands and types of the start of a row."""
    zero = [writer.fill(0, NUMBER)] * (aval.ndim - 1)
    return writer.read([place, *zero]), ", ".join([type_text(NUMBER)] * aval.ndim)


def _read_row(writer: HloWriter, x: str, aval: Aval, place: str) -> str:
    starts, types = _places(writer, aval, place)
    row = Aval((1, *aval.shape[1:]), aval.dtype)
    name = writer.make(
        f"dynamic_slice %{x}, {starts}, sizes = {[*row.shape]} : ({type_text(aval)}, {types}) -> {type_text(row)}"
    )
    return writer.reshape(name, row, aval.shape[1:])


def _write_row(writer: HloWriter, y: str, aval: Aval, row: str, place: str) -> str:
    part = Aval((1, *aval.shape[1:]), aval.dtype)
    name = writer.reshape(row, Aval(aval.shape[1:], aval.dtype), part.shape)
    starts, types = _places(writer, aval, place)
    whole = type_text(aval)
    return writer.make(
        f"dynamic_update_slice %{y}, %{name}, {starts} : ({whole}, {type_text(part)}, {types}) -> {whole}"
    )


def _while(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileSpec)
    first, avals = spec.tests + spec.consts, [var.aval for var in eq.outputs]
    names = [writer.walk.names.make(f"{z}_in") for z in zs]
    with _loop(writer, zs, names, xs[first:], avals):
        writer.leave(writer.inline(spec.condition, [*xs[: spec.tests], *names]), [Aval((), np.dtype(bool))])
    with writer.region("} do {"):
        writer.leave(writer.inline(spec.body, [*xs[spec.tests : first], *names]), avals)
    writer.write("}")


def _while_back(*_: object) -> None:
    raise NoTemplateError("the way back over a loop whose steps are not counted has no shape; use scan")


def _switch(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, BranchSpec)
    avals, number = [var.aval for var in eq.outputs], Aval((), np.dtype(np.int32))
    index = writer.convert(xs[0], eq.inputs[0].aval, number.dtype)
    head = f'{writer.read(zs)} = "stablehlo.case"(%{index}) ({{'
    for k, body in enumerate(spec.bodies):
        with writer.region("}, {" if k else head):
            writer.leave(writer.inline(body, xs[1:]), avals)
    writer.write(f"}}) : ({type_text(number)}) -> ({', '.join(map(type_text, avals))})")


LOOPS: dict[str, Template[HloWriter]] = {
    "scan": _scan,
    "while_loop": _while,
    "while_loop_backward": _while_back,
    "switch": _switch,
}


# --- Table of StableHLO

T = Template[HloWriter]
# operations whose operands have the type of the result, of the same name and of another one
ALIKE = "abs add atan2 cbrt ceil divide floor log maximum minimum multiply sqrt subtract tan tanh"
SAME = {name: name for name in ALIKE.split()} | {
    "bitwise_and": "and", "bitwise_invert": "not", "bitwise_left_shift": "shift_left", "bitwise_or": "or",
    "bitwise_xor": "xor", "cos": "cosine", "exp": "exponential", "expm1": "exponential_minus_one", "fmod": "remainder",
    "log1p": "log_plus_one", "logical_and": "and", "logical_not": "not", "logical_or": "or", "logical_xor": "xor",
    "negative": "negate", "pow": "power", "round": "round_nearest_even", "sigmoid": "logistic", "sin": "sine",
}  # fmt: skip
COMPARES = {"equal": "EQ", "greater": "GT", "greater_equal": "GE", "less": "LT", "less_equal": "LE", "not_equal": "NE"}
REDUCES: dict[str, tuple[str, Any]] = {
    "sum": ("add", 0), "prod": ("multiply", 1), "max": ("maximum", -math.inf), "min": ("minimum", math.inf),
    "all": ("and", True), "any": ("or", False),
}  # fmt: skip


def _elementwise(p: Primitive) -> T | None:
    """Return the template of an elementwise op, None where StableHLO has neither an op nor a formula for it."""
    if p.name not in SAME and p.name not in COMPARES and p.name not in FORMULAS:
        return None

    def write(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        out, dtype = eq.aval, _dtype_of(p, eq)
        space = Aval(out.shape, dtype)
        names = _align_operands(writer, eq, xs, space)
        if p.name in COMPARES:
            writer.compare(COMPARES[p.name], names, space, zs[0])
        elif p.name in SAME:
            _write_same(writer, p.name, names, space, out, zs[0])
        else:
            value = FORMULAS[p.name](*[HloValue(writer, x, space) for x in names])
            writer.convert(value.name, value.aval, out.dtype, zs[0])

    return write


def _write_same(writer: HloWriter, op: str, names: Sequence[str], space: Aval, out: Aval, z: str) -> None:
    if op == "abs" and space.dtype.kind == "c":
        writer.change("abs", names[0], space, out, z)
        return
    hlo = {"add": "or", "multiply": "and"}.get(op, SAME[op]) if space.dtype.kind == "b" else SAME[op]
    writer.same(hlo, names, out, z)


def _dtype_of(p: Primitive, eq: Equation) -> DType:
    """Return the dtype in which an elementwise operation computes."""
    if p.name.startswith("logical_"):
        return BOOL
    dtypes = tuple([x.aval.dtype for x in eq.inputs])
    return promote(dtypes, (False,) * len(dtypes), p.promotes_to_float)


def _align_operands(writer: HloWriter, eq: Equation, xs: Sequence[str], space: Aval) -> list[str]:
    """Return operands in the dtype and the shape of the space."""
    aligned: list[str] = []
    for x, atom in zip(xs, eq.inputs, strict=True):
        name = writer.convert(x, atom.aval, space.dtype)
        aligned.append(writer.broadcast(name, Aval(atom.aval.shape, space.dtype), space.shape))
    return aligned


def _reduction(p: Primitive) -> T | None:
    if p.name not in REDUCES:
        return None

    def write(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        x, out = eq.inputs[0].aval, eq.aval
        op, start = REDUCES[p.name]
        if out.dtype.kind in "iu" and isinstance(start, float):
            info = np.iinfo(out.dtype)
            start = info.min if start < 0 else info.max
        elif out.dtype.kind == "b" and isinstance(start, float):
            op, start = ("or", False) if start < 0 else ("and", True)
        name = writer.convert(xs[0], x, out.dtype)
        writer.reduce(op, name, Aval(x.shape, out.dtype), eq.keywords["axis"], start, zs[0])

    return write


STABLEHLO: Table[HloWriter] = Table("StableHLO", _elementwise, _reduction, has_formulas=True)
STABLEHLO.rules |= LOOPS
STABLEHLO.takes |= {
    "abs": np.typecodes["Integer"] + np.typecodes["AllFloat"],
    "floor_divide": np.typecodes["AllInteger"] + "?",
    "pow": np.typecodes["AllFloat"],
    **dict.fromkeys(("ceil", "floor", "fmod", "round"), np.typecodes["Float"]),
}


# -- casts, views and joins --
@STABLEHLO.rule("cast", "convert")
def _cast(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    x, want = eq.inputs[0].aval, eq.aval.dtype
    if x.dtype.kind == "c" and want.kind not in "cb":
        raise NoTemplateError("of complex numbers")
    writer.convert(xs[0], x, want, zs[0])


@STABLEHLO.rule("stop_gradient")
def _pass_on(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.reshape(xs[0], eq.aval, eq.aval.shape, zs[0])  # no other operation does nothing


@STABLEHLO.rule("real", "imag")
def _write_part(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.change(eq.primitive.name, xs[0], eq.inputs[0].aval, eq.aval, zs[0])


@STABLEHLO.rule("reshape")
def _reshape(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.reshape(xs[0], eq.inputs[0].aval, eq.aval.shape, zs[0])


@STABLEHLO.rule("broadcast_to")
def _broadcast(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.broadcast(xs[0], eq.inputs[0].aval, eq.aval.shape, (), zs[0])


@STABLEHLO.rule("permute_dims")
def _permute(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    more = f", dims = {[*eq.keywords['axes']]}"
    writer.change("transpose", xs[0], eq.inputs[0].aval, eq.aval, zs[0], more)


@STABLEHLO.rule("where")
def _where(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    out = eq.aval
    spaces = [Aval(out.shape, BOOL), out, out]
    names = [
        writer.broadcast(writer.convert(x, a.aval, s.dtype), Aval(a.aval.shape, s.dtype), out.shape)
        for x, a, s in zip(xs, eq.inputs, spaces, strict=True)
    ]
    writer.select(names, out, zs[0])


@STABLEHLO.rule("clip")
def _clip(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    out = eq.aval
    x, lower, upper = _align_operands(writer, eq, xs, out)
    writer.same("clamp", (lower, x, upper), out, zs[0])


@STABLEHLO.rule("stack", "concat")
def _join(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    out, axis = eq.aval, eq.keywords["axis"]
    names, avals = list[str](), list[Aval]()
    for x, atom in zip(xs, eq.inputs, strict=True):
        have = Aval(atom.aval.shape, out.dtype)
        shape = have.shape if eq.primitive.name == "concat" else (*have.shape[:axis], 1, *have.shape[axis:])
        names.append(writer.reshape(writer.convert(x, atom.aval, out.dtype), have, shape))
        avals.append(Aval(shape, out.dtype))
    types = ", ".join(map(type_text, avals))
    writer.make(f"concatenate {writer.read(names)}, dim = {axis} : ({types}) -> {type_text(out)}", zs[0])


@STABLEHLO.rule("split")
def _split(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    x, axis = eq.inputs[0].aval, eq.keywords["axis"]
    edges = [0, *itertools.accumulate(eq.keywords["sizes"])]
    for z, (a, b) in zip(zs, itertools.pairwise(edges), strict=True):
        _take(writer, xs[0], x, [*[(0, n, 1) for n in x.shape[:axis]], (a, b, 1)], z)


@STABLEHLO.rule("slice")
def _slice(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    x, out = eq.inputs[0].aval, eq.aval
    spans, turned = _spans(x, eq.keywords["index"])
    shape = tuple([len(range(*span)) for span in spans])
    name = _take(writer, xs[0], x, spans)
    if turned:
        name = writer.make(f"reverse %{name}, dims = {turned} : {type_text(Aval(shape, x.dtype))}")
    writer.reshape(name, Aval(shape, x.dtype), out.shape, zs[0])


def _take(writer: HloWriter, x: str, aval: Aval, spans: Sequence[tuple[int, int, int]], z: str = "") -> str:
    full = [*spans, *[(0, n, 1) for n in aval.shape[len(spans) :]]]
    out = Aval(tuple([len(range(*span)) for span in full]), aval.dtype)
    text = ", ".join([f"{a}:{b}:{c}" for a, b, c in full])
    return writer.change("slice", x, aval, out, z, f" [{text}]")


def _spans(x: Aval, index: Basic) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return what an index takes of each axis, from left to right, and the axes that are turned around then."""
    spans, turned = list[tuple[int, int, int]](), list[int]()
    for entry in index:
        if entry is None:
            continue
        if isinstance(entry, int):
            spans.append((entry, entry + 1, 1))
            continue
        start, stop, step = entry
        places = range(start, stop if stop >= 0 or step > 0 else -1, step)
        if step < 0:
            turned.append(len(spans))
            places = places[::-1]
        spans.append((places.start, places.start + max(0, (len(places) - 1) * abs(step) + 1) * bool(places), abs(step)))
    return [*spans, *[(0, n, 1) for n in x.shape[len(spans) :]]], turned


@STABLEHLO.rule("embed", "slice_set", "slice_add")
def _update(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    out, part = eq.aval, eq.inputs[-1].aval
    name = eq.primitive.name
    is_embedded = name == "embed"
    placed = _embed(writer, eq, xs[-1], part, 0, zs[0] if is_embedded else "")
    if name == "slice_add":
        writer.same("add", (xs[0], placed), out, zs[0])
    elif not is_embedded:
        mask = _embed(writer, eq, writer.fill(True, Aval(part.shape, BOOL)), Aval(part.shape, BOOL), False)
        writer.select((mask, placed, xs[0]), out, zs[0])


def _embed(writer: HloWriter, eq: Equation, x: str, part: Aval, padding: Any, z: str = "") -> str:
    """Put a part where an index takes it from, into an array of one number."""
    whole = Aval(eq.aval.shape, part.dtype)
    spans, turned = _spans(whole, eq.keywords["index"])
    inner = Aval(tuple([len(range(*span)) for span in spans]), part.dtype)
    x = writer.reshape(x, part, inner.shape)
    if turned:
        x = writer.make(f"reverse %{x}, dims = {turned} : {type_text(inner)}")
    low = [span[0] for span in spans]
    reach = [a + max(0, (n - 1) * c + 1) * bool(n) for (a, _, c), n in zip(spans, inner.shape, strict=True)]
    high = [n - end for n, end in zip(whole.shape, reach, strict=True)]
    number = Aval((), part.dtype)
    sizes = f"low = {low}, high = {high}, interior = {[span[2] - 1 for span in spans]}"
    types = f"({type_text(inner)}, {type_text(number)}) -> {type_text(whole)}"
    return writer.make(f"pad %{x}, %{writer.fill(padding, number)}, {sizes} : {types}", z)


# -- products --
@STABLEHLO.rule("matmul")
def _product(writer: HloWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    out = eq.aval
    a, b = eq.avals
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    names, avals = list[str](), list[Aval]()
    for x, aval in zip(xs, (a, b), strict=True):
        have = Aval(aval.shape, out.dtype)
        want = Aval((*lead, *have.shape[-2:]) if have.ndim > 1 else have.shape, out.dtype)
        names.append(writer.broadcast(writer.convert(x, aval, out.dtype), have, want.shape))
        avals.append(want)
    batch = [*range(len(lead))] if a.ndim > 1 and b.ndim > 1 else []
    left, right = avals[0].ndim - 1, max(avals[1].ndim - 2, 0)
    pairs = f"batching_dims = {batch} x {batch}, " if batch else ""
    types = f"({', '.join(map(type_text, avals))}) -> {type_text(out)}"
    writer.make(f"dot_general {writer.read(names)}, {pairs}contracting_dims = [{left}] x [{right}] : {types}", zs[0])
