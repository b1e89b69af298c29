"""Table of NumPy text: ufuncs, reductions, views and loops from their records, the rest by a template or carried over."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.schedule.schedule import BranchSpec, ScanSpec, WhileBackSpec, WhileSpec
from afx.core import Aval, DType, Primitive, promote
from afx.core.graph import Atom, Equation, Literal
from afx.export.numpy_text.carry import Carrier, carry_implementation
from afx.export.numpy_text.writer import NumpyWriter, dtype_text, is_atom, number_text
from afx.export.templates import Table, Template, Texts
from afx.ops.indexing.gather import slice_p
from afx.ops.linalg.products import matmul_p

# --- Loops and branches as Python's own: the templates of what holds graphs


def _scan(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, ScanSpec)
    head = spec.consts + spec.carry
    carry, rows = zs[: spec.carry], zs[spec.carry :]
    writer.assign_all(carry, xs[spec.consts : head])
    for z, var in zip(rows, eq.outputs[spec.carry :], strict=True):
        writer.assign(z, f"np.empty({var.aval.shape}, {dtype_text(var.aval.dtype)})")
    step = writer.walk.names.make("step")
    steps = f"reversed(range({spec.length}))" if spec.reverse else f"range({spec.length})"
    with writer.block(f"for {step} in {steps}:"):
        walked = [writer.walk.names.make("row") for _ in xs[head:]]
        for row, x in zip(walked, xs[head:], strict=True):
            writer.assign(row, f"{x}[{step}]")
        results = writer.inline(spec.body, [*xs[: spec.consts], *carry, *walked])
        for z, row in zip(rows, results[spec.carry :], strict=True):
            writer.write(f"{z}[{step}] = {row}")
        writer.assign_all(carry, results[: spec.carry])


def _while(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileSpec)
    writer.assign_all(zs, xs[spec.tests + spec.consts :])
    with writer.block("while True:"):
        _leave(writer, spec, xs, zs)
        writer.assign_all(zs, writer.inline(spec.body, [*xs[spec.tests : spec.tests + spec.consts], *zs]))


def _leave(writer: NumpyWriter, spec: WhileSpec | WhileBackSpec, xs: Sequence[str], carry: Sequence[str]) -> None:
    (goes_on,) = writer.inline(spec.condition, [*xs[: spec.tests], *carry])
    with writer.block(f"if not ({goes_on}):"):
        writer.write("break")


def _while_back(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    """Write the way back of a loop of unknown length: forward once more, keeping each step's residuals, then back over them."""
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileBackSpec)
    names = writer.walk.names
    first = spec.tests + spec.consts
    consts, start = xs[spec.tests : first], xs[first : first + spec.carry]
    carry = [names.make("forward") for _ in start]
    kept = names.make("kept")
    writer.assign_all(carry, start)
    writer.assign(kept, "[]")
    with writer.block("while True:"):
        _leave(writer, spec, xs, carry)
        results = writer.inline(spec.body, [*consts, *carry])
        residuals = results[spec.carry :]
        writer.write(f"{kept}.append(({', '.join(residuals)}{',' * (len(residuals) == 1)}))")
        writer.assign_all(carry, results[: spec.carry])
    given = iter(xs[first + spec.carry :])
    for z, var, zero in zip(zs, eq.outputs, spec.zeros, strict=True):
        writer.assign(z, f"np.zeros({var.aval.shape}, {dtype_text(var.aval.dtype)})" if zero else next(given))
    with writer.block(f"while {kept}:"):
        taken = [names.make("residual") for _ in residuals]
        writer.write(f"{', '.join(taken)}{',' * (len(taken) == 1)}{' = ' if taken else ''}{kept}.pop()")
        writer.assign_all(zs, writer.inline(spec.back, [*consts, *taken, *zs]))


def _switch(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, BranchSpec)
    for k, body in enumerate(spec.bodies):
        word = "if" if k == 0 else "elif"
        last = k == len(spec.bodies) - 1 and k > 0
        with writer.block("else:" if last else f"{word} {xs[0]} == {k}:"):
            writer.assign_all(zs, writer.inline(body, xs[1:]))


LOOPS: dict[str, Template[NumpyWriter]] = {
    "scan": _scan,
    "while_loop": _while,
    "while_loop_backward": _while_back,
    "switch": _switch,
}


# --- Table of NumPy text

T = Template[NumpyWriter]
INFIX: dict[Any, str] = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.greater: ">", np.greater_equal: ">=",
    np.less: "<", np.less_equal: "<=", np.equal: "==", np.not_equal: "!=",
}  # fmt: skip


# -- from records --
def _ufunc(p: Primitive) -> T | None:
    ufunc = p.lowering.ufunc
    if ufunc is None or ufunc.signature is not None:
        return None

    def write(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        dtype, xs = _convert_operands(ufunc, p, eq, xs)
        out = eq.aval
        if ufunc in INFIX and (dtype.kind in "fcb" or out.ndim):  # NumPy's numbers warn where integers overflow
            text = f" {INFIX[ufunc]} ".join([x if is_atom(x.lstrip("-")) else f"({x})" for x in _plain(eq.inputs, xs)])
        elif ufunc is np.negative and dtype.kind in "fc" and is_atom(xs[0]):
            text = f"-{xs[0]}"
        else:
            text = f"np.{ufunc.__name__}({', '.join(_plain(eq.inputs, xs))})"
        writer.assign(zs[0], text if dtype == out.dtype else f"{_call(text)}.astype({dtype_text(out.dtype)})")

    return write


def _call(text: str) -> str:
    return text if is_atom(text) else f"({text})"


def _convert_operands(ufunc: np.ufunc, p: Primitive, eq: Equation, xs: Texts) -> tuple[DType, list[str]]:
    """Return the dtype that a ufunc gives, and its operands, converted where it would otherwise give another."""
    dtypes, out = [x.aval.dtype for x in eq.inputs], eq.aval.dtype
    dtype = _resolve_dtype(ufunc, dtypes)
    if dtype == out:
        return dtype, xs
    want = promote(tuple(dtypes), (False,) * len(dtypes), p.promotes_to_float)
    cast = [x if d == want else convert(x, want) for x, d in zip(xs, dtypes, strict=True)]
    return _resolve_dtype(ufunc, [want] * len(dtypes)), cast


def _resolve_dtype(ufunc: np.ufunc, dtypes: Sequence[DType]) -> DType:
    return ufunc.resolve_dtypes((*dtypes, None))[-1]


def _plain(atoms: Sequence[Atom], xs: Texts) -> list[str]:
    """Return operands where numbers beside arrays of their dtype are Python's."""
    dtypes = {a.aval.dtype for a in atoms if not isinstance(a, Literal)}
    return [
        number_text(a.value) if isinstance(a, Literal) and {a.aval.dtype} == dtypes and x.endswith(")") else x
        for a, x in zip(atoms, xs, strict=True)
    ]


def convert(x: str, dtype: DType) -> str:
    """Return an operand in another dtype."""
    return f"{_call(x)}.astype({dtype_text(dtype)})"


def _reduction(p: Primitive) -> T | None:
    name = REDUCTIONS.get(p.name)
    if name is None or p.kind not in ("reduction", "linear"):
        return None

    def write(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        writer.assign(zs[0], f"{name}({xs[0]}{_axis_text(eq.inputs[0].aval, eq.keywords['axis'])})")

    return write


REDUCTIONS = {"sum": "np.sum", "max": "np.max", "min": "np.min"}


def _axis_text(x: Aval, axis: tuple[int, ...]) -> str:
    if x.ndim and len(axis) == x.ndim:
        return ""
    return f", axis={axis[0] if len(axis) == 1 else axis}"


def _view(p: Primitive) -> T | None:
    emit = p.lowering.emit_view
    if emit is None:
        return None

    def write(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        writer.assign(zs[0], _short(emit(_call(xs[0]), **eq.keywords)))

    return write


def _short(text: str) -> str:
    """Return an index without the ellipsis at its end, which says that the rest is taken."""
    return text.replace(", ...]", "]")


def _make_carrier(p: Primitive) -> T | None:
    """Return the template of what computes by a function of afx's own."""
    if p.lowering.control is not None or p.has_effects or p.name in OUTSIDE:
        return None

    def write(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
        name, given = carry_implementation(p, writer.module)
        carrier = Carrier(writer.module)
        params = {**given, **eq.keywords}
        shown = [f"{key}={carrier.text_of(value, key)}" for key, value in params.items()]
        xs = _alike(p, eq, xs) if p.is_elementwise else xs
        text = f"{name}({', '.join([*xs, *shown])})"
        if p.multiple_results:
            writer.write(f"{', '.join(zs)}{',' if len(zs) == 1 else ''} = {text}")
            return
        out = eq.aval
        exact = not p.is_elementwise or (
            not p.name.startswith("complex_")
            and all(a.aval.dtype == out.dtype and out.dtype.char in "fd" for a in eq.inputs)
        )
        writer.assign(zs[0], text if exact else convert(text, out.dtype))

    return write


def _alike(p: Primitive, eq: Equation, xs: Texts) -> list[str]:
    """Return the operands of an elementwise operation in the dtype that it computes in."""
    dtypes = [x.aval.dtype for x in eq.inputs]
    want = promote(tuple(dtypes), (False,) * len(dtypes), p.promotes_to_float)
    return [x if d == want else convert(x, want) for x, d in zip(xs, dtypes, strict=True)]


# what runs Python's functions, or stands for several processes
OUTSIDE = frozenset({"call", "custom_call", "callback", "psum", "psum_scatter", "slot_gather", "slot_shift"})
NUMPY: Table[NumpyWriter] = Table("NumPy", _ufunc, _reduction, _view, _make_carrier)
NUMPY.rules |= LOOPS
_slice_text: Any = slice_p.lowering.emit_view
_carried_product: Any = _make_carrier(matmul_p)


# -- templates of their own --
@NUMPY.rule("cast", "convert")
def _cast(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    have, want = eq.inputs[0].aval.dtype, eq.keywords["dtype"]
    x = f"{_call(xs[0])}.real" if have.kind == "c" and want.kind not in "bc" else xs[0]
    writer.assign(zs[0], convert(x, want), ["over"] if want.itemsize < have.itemsize else [])


@NUMPY.rule("stop_gradient")
def _write_copy(writer: NumpyWriter, _: Equation, xs: Texts, zs: Texts) -> None:
    writer.assign(zs[0], xs[0])


@NUMPY.rule("real", "imag")
def _write_attribute(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.assign(zs[0], f"{_call(xs[0])}.{eq.primitive.name}")


@NUMPY.rule("broadcast_to")
def _broadcast(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    writer.assign(zs[0], f"np.broadcast_to({xs[0]}, {eq.keywords['shape']})")


@NUMPY.rule("where")
def _where(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    chosen = _convert_to_result(eq, xs, 1)
    writer.assign(zs[0], f"np.where({', '.join([xs[0], *_plain(eq.inputs[1:], chosen)])})")


def _convert_to_result(eq: Equation, xs: Texts, first: int) -> list[str]:
    out = eq.aval.dtype
    pairs = zip(eq.inputs[first:], xs[first:], strict=True)
    return [x if a.aval.dtype == out else convert(x, out) for a, x in pairs]


@NUMPY.rule("stack", "concat")
def _join(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    name = "np.stack" if eq.primitive.name == "stack" else "np.concatenate"
    writer.assign(zs[0], f"{name}([{', '.join(_convert_to_result(eq, xs, 0))}], axis={eq.keywords['axis']})")


@NUMPY.rule("matmul")
def _product(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    x, y = eq.avals
    if x.ndim > 2 and y.ndim == 2:  # one product where x lies dense, as afx computes it
        _carried_product(writer, eq, xs, zs)
    elif x.ndim == y.ndim == 1:
        writer.assign(zs[0], f"np.dot({xs[0]}, {xs[1]})")
    else:
        writer.assign(zs[0], " @ ".join(map(_call, xs)))


@NUMPY.rule("embed", "slice_set", "slice_add")
def _update(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    index, out = eq.keywords["index"], eq.aval
    start = f"np.zeros({out.shape}, {dtype_text(out.dtype)})" if len(xs) == 1 else f"np.array({xs[0]})"
    writer.assign(zs[0], start)
    sign = "+=" if eq.primitive.name == "slice_add" else "="
    writer.write(f"{_short(_slice_text(zs[0], index=index))} {sign} {xs[-1]}")


@NUMPY.rule("split")
def _split(writer: NumpyWriter, eq: Equation, xs: Texts, zs: Texts) -> None:
    edges = [*itertools.accumulate(eq.keywords["sizes"])][:-1]
    writer.write(f"{', '.join(zs)}{',' * (len(zs) == 1)} = np.split({xs[0]}, {edges}, axis={eq.keywords['axis']})")
