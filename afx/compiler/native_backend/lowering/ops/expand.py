"""Native forms of ops that are several calls of NumPy: softmax, log-sums of exponentials, norms, products, rolls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.items import call_of
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dense, dtype_name
from afx.compiler.native_backend.lowering.ops.fold import lower_fold
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of, reduce_into
from afx.compiler.operands import Alias, Buffer, Number, Operand
from afx.compiler.schedule import Call, Params
from afx.core.aval import Aval, Shape, broadcast_shapes
from afx.core.graph import Literal
from afx.core.reductions import (
    DOT_SUM_MAX_ELEMENTS,
    DOT_SUM_MAX_LENGTH,
    DOT_SUM_MIN_LENGTH,
    NORM_DOT_MAX_ELEMENTS,
    NORM_DOT_MIN,
    SOFTMAX_CLOSE,
    reduce_in_transpose,
)
from afx.core.scalar_ops import ALL, scalar_op

__all__ = ["EXPANDED", "Calls"]

REAL = ("f4", "f8")


class Calls:
    """Adds calls of NumPy to a block, one on the results of others."""

    def __init__(self, b: BlockBuilder, quiet: Sequence[str]) -> None:
        self.b = b
        self.quiet: tuple[str, ...] = tuple(quiet)

    def _new(self, shape: Shape, dtype: str) -> Buffer:
        return Buffer(self.b.fresh(), shape, np.dtype(dtype), "fresh")

    def at(self, location: Location) -> Buffer:
        """Return an operand that lies at a location."""
        found = self._new(location.shape, location.dtype)
        self.b.locations[found.index] = location
        return found

    def number(self, value: float, dtype: str) -> Number:
        """Return a constant."""
        return Number(Literal(value, Aval((), np.dtype(dtype))))

    def ufunc(self, name: str, *xs: Operand, quiet: Sequence[str] = ()) -> Buffer:
        """Return what a ufunc makes of operands of one dtype; one that NumPy has not is SciPy's."""
        loop: Any = getattr(np, name, None)
        if loop is None:
            return self._scipy(name, xs)
        dtypes = [x.dtype if isinstance(x, Buffer) else x.literal.aval.dtype for x in xs]
        out = self._new(_common(xs), dtype_name(loop.resolve_dtypes((*dtypes, None))[-1]))
        aliases: tuple[Alias, ...] = tuple(["disjoint" for _ in xs])
        self._add(Call(name, "ufunc", xs, aliases, (out,), ufunc=name), quiet)
        return out

    def _scipy(self, name: str, xs: Sequence[Operand]) -> Buffer:
        """Return what SciPy's loop for floats makes of operands."""
        dtype = next(dtype_name(x.dtype) for x in xs if isinstance(x, Buffer))
        out, loop = self._new(_common(xs), dtype), loop_of(f"special.{name}", (dtype,) * (len(xs) + 1))
        self.b.elementwise(out, xs, self.quiet, call_of(loop, dtype))
        return out

    def cast(self, x: Buffer, dtype: str) -> Buffer:
        """Return an operand in another dtype."""
        out = self._new(x.shape, dtype)
        self.give(out, x)
        return out

    def give(self, out: Buffer, x: Buffer) -> None:
        """Write an operand, in the result's dtype."""
        params: Params = (("dtype", out.dtype),)
        self._add(Call("convert", "apply", (x,), ("disjoint",), (out,), "", params, True))

    def where(self, test: Operand, x: Operand, y: Operand) -> Buffer:
        """Return elements of one of two operands."""
        dtype = x.dtype if isinstance(x, Buffer) else x.literal.aval.dtype
        out = self._new(_common((test, x, y)), dtype_name(dtype))
        self._add(Call("where", "into", (test, x, y), ("disjoint",) * 3, (out,)))
        return out

    def reduce(self, ufunc: str, x: Buffer, axes: Shape) -> Buffer:
        """Return a reduction whose axes stay, with length 1.

        Of zeros of both signs, a largest or smallest one may have either.
        """
        out = self._new(tuple([n for k, n in enumerate(x.shape) if k not in axes]), dtype_name(x.dtype))
        kept = tuple([1 if k in axes else n for k, n in enumerate(x.shape)])
        call = Call(ufunc, "reduce", (x,), ("disjoint",), (out,), ufunc=ufunc, params=(("axis", axes),))
        if ufunc == "add" or not lower_fold(self.b, call):
            self._add(call)
        return self.reshaped(out, kept)

    def largest(self, x: Buffer, axes: Shape) -> Buffer:
        """Return the largest elements along axes, which stay; how they are found does not decide about bits."""
        return self.reduce("maximum", x, axes)

    def sums(self, x: Buffer, axes: Shape) -> Buffer:
        """Return sums along axes, which stay, as `afx.ops.reductions` adds them up."""
        n = x.shape[-1] if x.shape else 0
        is_row = axes == (len(x.shape) - 1,) and DOT_SUM_MIN_LENGTH <= n <= DOT_SUM_MAX_LENGTH
        if not is_row:
            return self.reduce("add", x, axes)
        ones = Number(Literal(1.0, Aval((), x.dtype)), "filled", (n,))
        out = self._new(x.shape[:-1], dtype_name(x.dtype))
        is_dot = len(x.shape) == 2 and x.shape[0] > 1 and math.prod(x.shape) <= DOT_SUM_MAX_ELEMENTS
        self._add(Call("sum", "dot" if is_dot else "vecdot", (x, ones), ("disjoint",) * 2, (out,)))
        return self.reshaped(out, (*out.shape, 1))

    def reshaped(self, x: Buffer, shape: Shape) -> Buffer:
        """Return a view of a new array with other axes of length 1."""
        location = self.b.location(x)
        strides = iter([s for s, n in zip(location.strides, location.shape, strict=True) if n != 1])
        return self.at(
            attrs.evolve(location, shape=shape, strides=tuple([next(strides) if n != 1 else 0 for n in shape]))
        )

    def into(self, out: Buffer, name: str, x: Operand, y: Operand) -> None:
        """Write what a ufunc makes of two operands."""
        self._add(Call(name, "ufunc", (x, y), ("disjoint",) * 2, (out,), ufunc=name))

    def copy(self, out: Location, x: Buffer) -> None:
        """Write an operand to a location."""
        location = self.b.location(x)
        self.b.fixed([copy_nest(out, location)], [location], [out])

    def square(self, x: Location) -> Buffer:
        """Return the sum of the squares of all elements, as BLAS computes it."""
        flat = x if x.strides == dense(x.shape, int(x.dtype[1:])) else self.b.copied(x)
        flat = attrs.evolve(flat, shape=(math.prod(x.shape),), strides=(int(x.dtype[1:]),))
        out, operand = self._new((), x.dtype), self.at(flat)
        self._add(Call("vecdot", "dot", (operand, operand), ("disjoint",) * 2, (out,)), ("divide", "invalid", "over"))
        return out

    def _add(self, call: Call, quiet: Sequence[str] = ()) -> None:
        state = None if scalar_op(call.ufunc).is_quiet or call.op == "where" else tuple(sorted({*self.quiet, *quiet}))
        self.b.lower(attrs.evolve(call, error_state=state))


def _common(xs: Sequence[Operand]) -> Shape:
    shape = broadcast_shapes([x.shape for x in xs])
    assert shape is not None
    return shape


def _real(b: BlockBuilder, call: Call) -> tuple[Location, Shape]:
    """Return the location of the operand, and the axes, of an op of real numbers in row-major order."""
    x, (out,) = b.ordered(call.operands[0]), call.outputs
    if x.dtype not in REAL or dtype_name(out.dtype) != x.dtype:
        raise UnsupportedError(f"{call.op} of {x.dtype}")
    axes: Shape = dict(call.params)["axis"]
    return x, axes


# -- rows --
def _rowwise(expand: Callable[[Calls, Buffer, Buffer, Shape], None]) -> Callable[[BlockBuilder, Call], None]:
    def lower(b: BlockBuilder, call: Call) -> None:
        x, axes = _real(b, call)
        calls = Calls(b, quiet_of(call))
        expand(calls, calls.at(x), call.outputs[0], axes)

    return lower


def _softmax(c: Calls, x: Buffer, out: Buffer, axes: Shape) -> None:
    """Shift by one number where all elements are close to each other, else by the largest of each row."""
    dtype, every = dtype_name(out.dtype), tuple(range(len(x.shape)))
    tops = c.largest(x, axes)
    top, low = c.largest(tops, every), c.reduce("minimum", c.reduce("minimum", x, axes), every)
    wide = [c.ufunc("add", v, c.number(0.0, "f8")) for v in (top, low)]
    close = c.ufunc(
        "less",
        c.ufunc("subtract", *wide, quiet=("invalid", "over")),
        c.number(SOFTMAX_CLOSE[np.dtype(dtype).char], "f8"),
    )
    e = c.ufunc("exp", _below(c, x, tops, dtype, close, top), quiet=("over",))
    total = c.sums(e, axes)
    c.into(out, "divide", e, c.where(c.ufunc("equal", total, c.number(0.0, dtype)), c.number(1.0, dtype), total))


def _below(
    c: Calls, x: Buffer, top: Buffer, dtype: str, close: Buffer | None = None, shared: Buffer | None = None
) -> Buffer:
    """Return x less its largest elements ``top`` along axes; of infinite ones, what `softmax` says of them.

    No difference is above 0: its exponential, which cannot overflow, may share a loop that ignores that.
    """
    shift = c.where(c.ufunc("isinf", top), c.number(0.0, dtype), top)
    if close is not None and shared is not None:
        shift = c.where(close, shared, shift)
    moved = c.ufunc("subtract", x, shift, quiet=("over",))
    inf = c.number(math.inf, dtype)
    ends = c.where(c.ufunc("equal", x, inf), c.number(0.0, dtype), c.number(-math.inf, dtype))
    return c.where(c.ufunc("equal", top, inf), ends, moved)


def _log_softmax(c: Calls, x: Buffer, out: Buffer, axes: Shape) -> None:
    dtype = dtype_name(out.dtype)
    below = _below(c, x, c.largest(x, axes), dtype)
    total = c.sums(c.ufunc("exp", below, quiet=("over",)), axes)
    zero, one = c.number(0.0, dtype), c.number(1.0, dtype)
    c.into(out, "subtract", below, c.ufunc("log", c.where(c.ufunc("equal", total, zero), one, total)))


def _logsumexp(c: Calls, x: Buffer, out: Buffer, axes: Shape) -> None:
    top = c.largest(x, axes)
    shift = c.where(c.ufunc("isfinite", top), top, c.number(0.0, dtype_name(out.dtype)))
    total = c.ufunc("log", c.sums(c.ufunc("exp", c.ufunc("subtract", x, shift)), axes), quiet=("divide",))
    c.into(out, "add", c.reshaped(total, out.shape), c.reshaped(shift, out.shape))


def _vector_norm(b: BlockBuilder, call: Call) -> None:
    """Take the root of a product where that neither overflows nor loses digits, else of a sum of scaled squares."""
    x, axes = _real(b, call)
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    c = Calls(b, quiet_of(call))
    zero, one = c.number(0.0, x.dtype), c.number(1.0, x.dtype)
    size = c.ufunc("absolute", c.at(x))
    top = c.largest(size, axes)
    fits = c.ufunc("logical_and", c.ufunc("greater", top, zero), c.ufunc("isfinite", top))
    scale = c.where(fits, top, one)
    root = c.ufunc("sqrt", c.reduce("add", c.ufunc("square", c.ufunc("divide", size, scale)), axes))
    found = c.ufunc("multiply", root, scale)
    if len(axes) == len(x.shape) and math.prod(x.shape) <= NORM_DOT_MAX_ELEMENTS and x.shape:
        square = c.square(x)
        low, high = (c.number(v, x.dtype) for v in (NORM_DOT_MIN[np.dtype(x.dtype).char], math.inf))
        good = c.ufunc("logical_and", c.ufunc("greater", square, low), c.ufunc("less", square, high))
        found = c.where(good, c.ufunc("sqrt", square, quiet=("invalid",)), c.reshaped(found, ()))
    c.copy(out, c.reshaped(found, out.shape))


# -- others --
def _prod(b: BlockBuilder, call: Call) -> None:
    """Multiply in NumPy's order; integers and booleans in the dtype of their product, in which no order matters."""
    want, axes = dtype_name(call.outputs[0].dtype), dict(call.params)["axis"]
    given = b.location(call.operands[0])
    if not {given.dtype, want} <= ALL:
        raise UnsupportedError(f"{call.op} of {given.dtype}")
    if reduce_in_transpose(np.multiply, given.shape, axes):
        raise UnsupportedError(f"{call.op} in the transpose")
    x = b.ordered(call.operands[0]) if want[0] == "f" else given
    if x.dtype != want:
        wide = b.temporary(x.shape, want)
        b.fixed([copy_nest(wide, x)], [x], [wide])
        x = wide
    reduce_into(b, attrs.evolve(call, ufunc="multiply"), x, axes)


def _roll(b: BlockBuilder, call: Call) -> None:
    """Copy the parts before and behind each shift."""
    x = b.location(call.operands[0])
    shifts: tuple[tuple[int, int], ...] = dict(call.params)["shifts"]
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    if x.dtype != out.dtype:
        raise UnsupportedError(f"{call.op} of {x.dtype}")
    for k, (axis, shift) in enumerate(shifts):
        into = out if k + 1 == len(shifts) else b.temporary(x.shape, x.dtype)
        n = x.shape[axis]
        cut = (-shift) % n
        parts = [(cut, 0, n - cut), (0, n - cut, cut)]
        steps = [copy_nest(_sliced(into, axis, to, m), _sliced(x, axis, at, m)) for at, to, m in parts if m]
        b.fixed(steps, [x], [into])
        x = into
    if not shifts:
        b.fixed([copy_nest(out, x)], [x], [out])


def _sliced(x: Location, axis: int, start: int, length: int) -> Location:
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return attrs.evolve(x, offset=x.offset + start * x.strides[axis], shape=shape)


def _conj(b: BlockBuilder, call: Call) -> None:
    b.lower(attrs.evolve(call, method="ufunc", ufunc="conjugate"))


EXPANDED: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "softmax": _rowwise(_softmax),
    "log_softmax": _rowwise(_log_softmax),
    "logsumexp": _rowwise(_logsumexp),
    "vector_norm": _vector_norm,
    "conj": _conj,
    "prod": _prod,
    "roll": _roll,
}
