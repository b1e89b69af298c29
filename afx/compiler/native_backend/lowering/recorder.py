"""Recorder: runs an op's own implementation on arrays without elements, and adds the steps of what it does to a block."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.arrays import Arrays
from afx.compiler.native_backend.link import find_ufunc
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, dtype_name, part_of
from afx.compiler.native_backend.lowering.ops.expand import REAL, Calls
from afx.compiler.native_backend.lowering.ops.product import multiply_into
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of, start_of_sum
from afx.compiler.native_backend.lowering.recorded import Recorded
from afx.compiler.native_backend.program import (
    Indexed,
    Inner,
    Load,
    Nest,
    Number,
    Op,
    Product,
    Ref,
    Search,
    Value,
)
from afx.compiler.native_backend.steps import merged
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Call
from afx.core.aval import Shape
from afx.core.primitive import lookup
from afx.core.scalar_ops import ALL

__all__ = ["record"]


def record(b: BlockBuilder, call: Call) -> None:
    """Add a call whose implementation runs on recorded arrays.

    Raises:
        UnsupportedError: it does what has no native form, or too much of it.
    """
    outs = [b.own(out.index, out.shape, b.dtype(out)) for out in call.outputs]
    recorder, native = Recorder(b, call), lookup(call.op).lowering.native
    assert native is not None
    results = [Recorded(recorder, x, buffer) for x, buffer in zip(outs, call.outputs, strict=True)]
    native(recorder, *results, *[recorder.operand(x) for x in call.operands], **dict(call.params))


class Recorder(Arrays):
    """Adds a step for each thing that is done with recorded arrays."""

    __slots__ = ("_call", "_calls", "_op", "_steps", "b", "quiet")

    def __init__(self, b: BlockBuilder, call: Call) -> None:
        self.b: BlockBuilder = b
        self.quiet: tuple[str, ...] = quiet_of(call)
        self._calls = Calls(b, self.quiet)
        self._call, self._op = call, call.op
        self._steps = 0

    def _add(self, steps: Sequence[Any], reads: Sequence[Recorded], out: Recorded) -> None:
        self._count()
        self.b.fixed(steps, [x.location for x in reads], [out.location])

    def _count(self) -> None:
        self._steps += 1
        if self._steps > self.b.limits.convolution_max_steps:
            self.refuse("many steps")

    def new(self, shape: Shape, dtype: Any, _like: Any = None) -> Recorded:
        """Return new memory, which costs nothing: it shares that of others."""
        return Recorded(self, self.b.temporary(tuple(shape), dtype_name(np.dtype(dtype))))

    def operand(self, x: Operand) -> Recorded:
        """Return an operand of the call."""
        location = self.b.locations[x.index] if isinstance(x, Buffer) else self.b.location(x)
        return Recorded(self, location, x)

    def loop_dtypes(self, name: str, *dtypes: Any) -> tuple[str, ...]:
        """Return the dtypes of the loop that NumPy takes of a ufunc for operands of dtypes, or Python's numbers."""
        ufunc = find_ufunc(name)
        if ufunc is None:
            raise UnsupportedError(f"{self._op}: a NumPy without {name}")
        return tuple([dtype_name(t) for t in ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))])

    def constant(self, x: Any) -> Recorded:
        """Return an array of NumPy."""
        return Recorded(self, self.b.constant(x))

    # -- elements --
    def ufunc(self, name: str, *xs: Recorded | float, out: Recorded | None = None) -> Recorded:
        """Return what a ufunc makes of arrays, and numbers of their dtype; in the result's memory, where it is given."""
        values = self._values(xs)
        if out is None:
            return self.operand(self._calls.ufunc(name, *values))
        x, y = values
        assert isinstance(out.value, Buffer)
        self._calls.into(out.value, name, x, y)
        return out

    def where(self, test: Recorded, x: Recorded | float, y: Recorded | float) -> Recorded:
        """Return elements of one of two arrays; of two numbers, in float64."""
        (condition,) = self._values((test,))
        return self.operand(self._calls.where(condition, *self._values((x, y))))

    def cast(self, x: Recorded, dtype: Any) -> Recorded:
        """Return an array in a dtype."""
        if x.dtype == dtype:
            return Recorded(self, x.location, x.value)
        if x.dtype.kind == "c":
            found = self.new(x.shape, dtype)
            self.copy(found, x)
            return found
        (value,) = self._values((x,))
        assert isinstance(value, Buffer)
        return self.operand(self._calls.cast(value, dtype_name(np.dtype(dtype))))

    def _values(self, xs: Sequence[Recorded | float]) -> list[Operand]:
        dtype = next((x.location.dtype for x in xs if isinstance(x, Recorded)), "f8")
        return [self._value(x) if isinstance(x, Recorded) else self._calls.number(x, dtype) for x in xs]

    def _value(self, x: Recorded) -> Operand:
        return self._calls.at(x.location) if x.value is None else x.value

    # -- whole arrays --
    def check_floats(self, *xs: Recorded) -> None:
        """Leave the call to NumPy where these are not all float32 or all float64."""
        dtypes = {x.location.dtype for x in xs}
        if len(dtypes) > 1 or not dtypes <= set(REAL):
            self.refuse(" and ".join([x.location.dtype for x in xs[1:]]))

    def ordered(self, x: Recorded) -> Recorded:
        """Return an array, whose order of elements in memory decides about NumPy's bits."""
        self.b.check_order(x.location)
        return x

    def clear(self, x: Recorded) -> None:
        """Fill an array with zeros."""
        self.copy(x, Recorded(self, self.b.constant(np.zeros((), x.dtype))))

    def copy(self, to: Recorded, x: Recorded) -> None:
        """Write elements."""
        if x.dtype.kind == "c" and to.dtype != x.dtype:
            to, x = _in_parts(to), _in_parts(x)
        self._add([copy_nest(to.location, x.location, self.quiet)], [x], to)

    def give(self, to: Recorded, x: Recorded) -> None:
        """Write a result, in the loop that makes it where there is one; what reads it comes behind that loop."""
        if x.value is not None and self.b.store_into(to.location, x.value):
            self.b.fixed([], [], [to.location])
        else:
            self.copy(to, x)

    def add(self, to: Recorded, x: Recorded) -> None:
        """Add elements to others."""
        target, space = to.location, to.location.shape
        loads = [Load(Ref(p.owner, p.dtype, p.offset, broadcast(p, space))) for p in (target, x.location)]
        values: tuple[Value, ...] = (*loads, Op("add", target.dtype, (0, 1)))
        self._add([Nest(space, values, ((2, _ref(target)),), self.quiet)], [to, x], to)

    def multiply(self, x: Recorded, y: Recorded, out: Recorded) -> None:
        """Write the product of two matrices."""
        self._count()
        multiply_into(self.b, x.location, y.location, out.location, self.quiet)

    def add_up(self, x: Recorded, axes: Sequence[int], out: Recorded) -> None:
        """Write the sums along axes, one element after the other, as NumPy does where its inner loop runs along the result."""
        z, places = out.location, x.location
        if z.shape[-1] == 1:
            self.refuse("sums for one output")
        strides = iter(z.strides)
        total = Ref(
            z.owner, z.dtype, z.offset, tuple([0 if k in axes else next(strides) for k in range(len(places.shape))])
        )
        first = Nest(z.shape, (start_of_sum(z.dtype),), ((0, _ref(z)),))
        sums = Inner(loop_of("add", (z.dtype,) * 3), places.shape, (total, _ref(places), total), self.quiet)
        self.b.fixed([first, sums], [places], [z])

    def mask(self, mask: Any, x: Recorded, out: Recorded) -> None:
        """Write elements where a mask of NumPy is true, and zeros elsewhere."""
        to, of, test = out.location, x.location, self.b.constant(mask)
        loads = [Load(Ref(p.owner, p.dtype, p.offset, broadcast(p, to.shape))) for p in (test, of)]
        values: list[Value] = [*loads, Number(0.0, of.dtype), Op("select", of.dtype, (0, 1, 2))]
        if to.dtype != of.dtype:
            values.append(Op("cast", to.dtype, (3,)))
        self._add([Nest(to.shape, tuple(values), ((len(values) - 1, _ref(to)),), self.quiet)], [x], out)

    def sort(self, x: Recorded, out: Recorded, axis: int, name: str) -> None:
        """Write elements sorted along an axis by a function of NumPy, or the indices that sort them."""
        if x.location.dtype not in ALL:
            self.refuse(x.location.dtype)
        rows, into = (self.view(y, lambda y: np.moveaxis(y, axis, -1)) for y in (x, out))
        made = into if into.flags.c_contiguous else self.new(into.shape, into.dtype)
        finds_indices = name.startswith("argsort")
        if finds_indices:
            operands = [self.dense(rows), made]
        else:
            self.copy(made, rows)
            operands = [made]
        loop, sizes = loop_of(name, (x.location.dtype,)), (rows.size // rows.shape[-1], rows.shape[-1])
        refs = tuple([_ref(y.location) for y in operands])
        self._add(
            [Product(loop, sizes, refs, (), changes=not finds_indices, outputs=finds_indices)], operands[:1], made
        )
        if made is not into:
            self.copy(into, made)

    def search(self, vector: Recorded, values: Recorded, out: Recorded, is_right: bool) -> None:
        """Write where values stand in a sorted vector of their dtype: in front of equal elements, or behind them."""
        a, v, z = vector.location, values.location, out.location
        if v.dtype not in ALL:
            self.refuse(v.dtype)
        if not vector.size:
            self.clear(out)
            return
        at = Ref(a.owner, a.dtype, a.offset, (0,) * len(z.shape))
        self._add([Search(is_right, z.shape, _ref(v), _ref(z), at, a.shape[0], a.strides[0])], [vector, values], out)

    # -- LAPACK --
    def matrix(self, x: Recorded) -> Recorded:
        """Return matrices in float64, in which NumPy computes, of a size that LAPACK does not cut into blocks."""
        self.check_floats(x)
        if x.ndim < 2 or max(x.shape[-2:]) > self.b.limits.matrix_max_length:
            self.refuse(f"{x.location.dtype}{[*x.shape]}")
        if x.location.dtype == "f8":
            return x
        wide = self.new(x.shape, "f8")
        self.b.fixed([copy_nest(wide.location, x.location)], [x.location], [wide.location])
        return wide

    def lapack(
        self,
        name: str,
        xs: Sequence[Recorded],
        outs: Sequence[Recorded],
        *,
        refuses: bool = True,
        quiet: tuple[str, ...] | None = None,
        changes: int = 0,
    ) -> None:
        """Have one of NumPy's loops on stacks of matrices write its results.

        Args:
            name: of the function in ``np.linalg._umath_linalg``.
            xs: operands in float64.
            outs: the results, of any dtype.
            refuses: whether the loop marks matrices without a result as invalid operations; NumPy raises then.
            quiet: floating-point errors that it ignores.
            changes: how many of its operands it changes.
        """
        self.call(
            f"linalg.{name}", ("f8",) * (len(xs) + len(outs)), xs, outs, refuses=refuses, quiet=quiet, changes=changes
        )

    def call(
        self,
        name: str,
        dtypes: Sequence[str],
        xs: Sequence[Recorded],
        outs: Sequence[Recorded],
        *,
        refuses: bool = False,
        quiet: tuple[str, ...] | None = None,
        changes: int = 0,
    ) -> None:
        """Have the loop of a generalized ufunc write its results.

        Args:
            name: of the ufunc, with its module's in front.
            dtypes: of the loop.
            xs: operands, which are converted.
            outs: results, of any dtype.
            refuses: whether the loop marks operands without a result as invalid operations; NumPy raises then.
            quiet: floating-point errors that it ignores.
            changes: how many of its operands it changes.
        """
        loop, cores = loop_of(name, tuple(dtypes)), _core_axes(name)
        given = [self.cast(x, dtype) for x, dtype in zip(xs, dtypes, strict=False)]
        made = [
            out if out.dtype == dtype else self.new(out.shape, dtype)
            for out, dtype in zip(outs, dtypes[len(xs) :], strict=True)
        ]
        locations = [x.location for x in (*given, *made)]
        batch = outs[-1].shape[: outs[-1].ndim - len(cores[-1])]
        lead, inner = list[Location](), list[int]()
        sizes: dict[str, int] = {}
        for x, core in zip(locations, cores, strict=True):
            rank = len(x.shape) - len(core)
            lead.append(attrs.evolve(x, shape=x.shape[:rank], strides=x.strides[:rank]))
            inner += x.strides[rank:]
            sizes |= dict(zip(core, x.shape[rank:], strict=True))
        space, strides = merged(batch, [broadcast(x, batch) for x in lead])
        refs = [Ref(x.owner, x.dtype, x.offset, s) for x, s in zip(locations, strides, strict=True)]
        step = Product(
            loop,
            (space[-1] if space else 1, *sizes.values()),
            tuple(refs),
            tuple(inner),
            self.quiet if quiet is None else quiet,
            refuses,
            changes=changes,
            outputs=len(outs),
            outer=space[:-1],
        )
        self._count()
        self.b.fixed([step], locations[: len(xs)], [*locations[len(xs) :], *locations[:changes]])
        for out, found in zip(outs, made, strict=True):
            if found is not out:
                self.copy(out, found)

    def dense(self, x: Recorded) -> Recorded:
        """Return an array whose elements lie next to each other, a copy where they do not."""
        return x if x.flags.c_contiguous else Recorded(self, self.b.copied(x.location))

    def view(self, x: Recorded, look: Callable[[Any], Any]) -> Recorded:
        """Return a view that a function takes of an array."""
        return Recorded(self, part_of(x.location, x.shadow, look(x.shadow)))

    def is_finite(self, x: Recorded) -> bool:
        """Leave the call to NumPy where the squares of elements add up to no finite number, so that here they do."""
        if not x.flags.c_contiguous:
            return False
        c, dtype = self._calls, x.location.dtype
        fits = c.ufunc("isfinite", c.square(x.location))
        self.b.location(c.cast(c.where(fits, c.number(0.0, dtype), c.number(math.inf, dtype)), "i4"))
        return True

    @property
    def has_own_bits(self) -> bool:
        """Whether bits may be others than those of NumPy's plan."""
        return self.b.tier > 1

    def ignoring(self, errors: tuple[str, ...]) -> Recorder:
        """Return a recorder of calls that ignore floating-point errors."""
        found = Recorder(self.b, self._call)
        found.quiet = tuple(sorted({*self.quiet, *errors}))
        found._calls = Calls(self.b, found.quiet)
        return found

    def refuse_where(self, test: Recorded) -> None:
        """Leave the call to NumPy at run time where any element is true: one is an index outside of its axis then."""
        c, (value,) = self._calls, self._values((test,))
        marks = c.cast(c.where(value, c.number(1.0, "f8"), c.number(0.0, "f8")), "f8")
        index = c.cast(c.largest(marks, tuple(range(len(marks.shape)))) if marks.shape else marks, "i8")
        place, at = self.b.constant(np.zeros(1)), self.b.location(c.reshaped(index, (1,)))
        out = self.b.temporary((1,), "f8")
        refs = [Ref(x.owner, x.dtype, x.offset, x.strides) for x in (out, attrs.evolve(place, strides=(0,)), at)]
        self.b.fixed([Indexed("gather", (1,), refs[0], refs[1], (refs[2],), (8,), (1,))], [place, at], [out])

    def refuse(self, _what: str) -> None:
        """Leave the call to NumPy."""
        raise UnsupportedError(f"{self._op} of {_what}")

    def prepare(self, make: Callable[[], tuple[Any, ...]], _is_cleared: bool = True) -> Callable[[], tuple[Any, ...]]:
        """Return what gives an array of zeros and views of it, made when they are asked for."""

        def give() -> tuple[Recorded, ...]:
            whole, *views = make()
            memory = self.new(whole.shape, whole.dtype).location
            location = attrs.evolve(memory, strides=whole.strides)
            found = Recorded(self, location)
            if _is_cleared:
                self.clear(found)
            return (found, *[Recorded(self, part_of(location, whole, view)) for view in views])

        return give


def _in_parts(x: Recorded) -> Recorded:
    """Return complex numbers as pairs of real ones, along a last axis."""
    at, size = x.location, int(x.location.dtype[1:]) // 2
    pairs = attrs.evolve(at, shape=(*at.shape, 2), strides=(*at.strides, size), dtype=f"f{size}")
    return Recorded(x.recorder, pairs)


def _core_axes(name: str) -> list[list[str]]:
    """Return the axes of the operands and results of a generalized ufunc, those of one length with one name."""
    parts: list[str] = re.findall(r"\((.*?)\)", find_ufunc(name).signature)
    return [[axis.strip() for axis in part.split(",") if axis.strip()] for part in parts]


def _ref(x: Location) -> Ref:
    return Ref(x.owner, x.dtype, x.offset, x.strides)
