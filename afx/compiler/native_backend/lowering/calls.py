"""Recorded calls: what an implementation does with the elements of arrays, as calls of NumPy that are lowered one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.arrays import Arrays
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.items import call_of
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dtype_name, fill_nest
from afx.compiler.native_backend.lowering.ops.fold import lower_fold
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of
from afx.compiler.native_backend.lowering.recorded import Recorded
from afx.compiler.operands import Alias, Buffer, Number, Operand
from afx.compiler.schedule import Call, Method, Params
from afx.core.aval import Aval, Shape, broadcast_shapes
from afx.core.graph import Literal
from afx.core.scalar_ops import ALL, COMPLEX, scalar_op

__all__ = ["Calls"]

ERRORS = ("divide", "invalid", "over")  # of NumPy's, of which flags tell


class Calls(Arrays):
    """Adds a call, or a copy, for each thing that is done with elements of recorded arrays.

    These stand for NumPy's, so that the methods that `Arrays` has give them without a type.
    """

    __slots__ = ("_quiet", "_steps", "b", "op")

    def __init__(self, b: BlockBuilder, call: Call) -> None:
        self.b: BlockBuilder = b
        self.op: str = call.op
        self._quiet = quiet_of(call)
        self._steps = 0

    @property
    def quiet(self) -> tuple[str, ...]:
        """The floating-point errors that are ignored here: by the call, and by `numpy.errstate` around what is recorded."""
        ignored = [kind for kind, how in np.geterr().items() if how == "ignore" and kind in ERRORS]
        return tuple(sorted({*self._quiet, *ignored}))

    def refuse(self, _what: str) -> None:
        """Leave the call to NumPy."""
        raise UnsupportedError(f"{self.op} of {_what}")

    # -- arrays --
    def result(self, x: Buffer) -> Recorded:
        """Return a result of the call, which becomes what is written to it."""
        return Recorded(self, self.b.own(x.index, x.shape, self.b.dtype(x)), x, has_memory=True)

    def operand(self, x: Operand) -> Recorded:
        """Return an operand of the call."""
        location = self.b.locations[x.index] if isinstance(x, Buffer) else self.b.location(x)
        return Recorded(self, location, x)

    def new(self, shape: Shape, dtype: Any, _like: Any = None) -> Any:
        """Return new memory, which costs nothing: it shares that of others."""
        return Recorded(self, self.b.temporary(tuple(shape), dtype_name(np.dtype(dtype))), has_memory=True)

    def constant(self, x: Any) -> Any:
        """Return an array of NumPy."""
        return Recorded(self, self.b.constant(x))

    def at(self, location: Location) -> Buffer:
        """Return an operand that lies at a location."""
        found = Buffer(self.b.fresh(), location.shape, np.dtype(location.dtype), "fresh")
        self.b.locations[found.index] = location
        return found

    def dense(self, x: Recorded) -> Any:
        """Return an array whose elements lie next to each other, a copy where they do not."""
        return x if x.flags.c_contiguous else Recorded(self, self.b.copied(x.location))

    def ordered(self, x: Recorded) -> Any:
        """Return an array, whose order of elements in memory decides about NumPy's bits."""
        self.b.check_order(x.location)
        return Recorded(self, x.location)

    # -- elements --
    def ufunc(self, name: str, *xs: Any) -> Any:
        """Return what a ufunc makes of arrays, and numbers of their dtype; one that NumPy has not is SciPy's."""
        values, loop = self._values(xs), getattr(np, name, None)
        if loop is None:
            return self._call_scipy(name, values)
        dtype = loop.resolve_dtypes((*map(_dtype_of, values), None))[-1]
        return self._add_call(name, "ufunc", values, _common_shape(values), dtype, name)

    def where(self, test: Any, x: Any, y: Any) -> Any:
        """Return elements of one of two arrays; of two numbers, in float64."""
        values = [*self._values((test,)), *self._values((x, y))]
        return self._add_call("where", "into", values, _common_shape(values), _dtype_of(values[1]))

    def cast(self, x: Recorded, dtype: Any) -> Any:
        """Return an array in a dtype."""
        if x.dtype == dtype:
            return Recorded(self, x.location, x.value)
        if x.dtype.kind == "c":
            found = self.new(x.shape, dtype)
            self.copy(found, x)
            return found
        return self._add_call("convert", "apply", [x.operand], x.shape, dtype, params=(("dtype", np.dtype(dtype)),))

    def _call_scipy(self, name: str, xs: Sequence[Operand]) -> Recorded:
        dtype = next(dtype_name(x.dtype) for x in xs if isinstance(x, Buffer))
        loop = loop_of(f"special.{name}", (dtype,) * (len(xs) + 1))
        out = Buffer(self.b.fresh(), _common_shape(xs), np.dtype(dtype), "fresh")
        self.b.elementwise(out, xs, self.quiet, call_of(loop, dtype))
        return self.operand(out)

    def _values(self, xs: Sequence[Any]) -> list[Operand]:
        """Return arrays and numbers as operands; a number of Python takes the dtype of the first array that suits it."""
        dtype = next((x.dtype for x in xs if not isinstance(x, bool | int | float)), np.dtype(np.float64))
        return [x.operand if isinstance(x, Recorded) else self._given(x, dtype) for x in xs]

    def _given(self, x: Any, dtype: Any) -> Operand:
        """Return what is no recorded array as an operand."""
        kind: Any = getattr(x, "dtype", None) or np.result_type(dtype, x)
        value: Any = np.asarray(x, kind)
        if not value.ndim:
            return Number(Literal(value.item(), Aval((), kind)))
        first = value.flat[0]
        if value.size and (value == first).all():
            return Number(Literal(first.item(), Aval((), kind)), "filled", value.shape)
        found: Recorded = self.constant(value)
        return found.operand

    # -- sums and extremes --
    def reduce(self, name: str, x: Recorded, axis: Any = 0, dtype: Any = None, *, keepdims: bool = False) -> Any:
        """Return a reduction, in NumPy's order."""
        if x.location.dtype not in ALL or x.dtype != (dtype or x.dtype):
            self.refuse(f"{x.dtype}")
        axes = _axes_of(axis, x.ndim)
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        found = self._add_call(name, "reduce", [x.operand], shape, x.dtype, name, (("axis", axes),))
        return found.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else found

    def extreme(self, name: str, x: Recorded, axes: Shape) -> Any:
        """Return the largest or smallest elements along axes, which stay; of zeros of both signs, either."""
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        out = Buffer(self.b.fresh(), shape, x.dtype, "fresh")
        call = Call(name, "reduce", (x.operand,), ("disjoint",), (out,), name, (("axis", axes),))
        found = self.operand(out) if lower_fold(self.b, call) else self.reduce(name, x, axes)
        return found.reshape([1 if k in axes else n for k, n in enumerate(x.shape)])

    def largest(self, x: Recorded, axes: Shape) -> Any:
        """Return the largest elements along axes, which stay; how they are found does not decide about bits."""
        return self.extreme("maximum", x, axes)

    def dot(self, x: Recorded, y: Any) -> Any:
        """Return the product of a matrix, or a vector, and a vector, as ``ndarray.dot`` computes it."""
        return self._add_call("sum", "dot", self._values((x, y)), x.shape[:-1], x.dtype)

    def vecdot(self, x: Recorded, y: Any) -> Any:
        """Return the products of rows with a vector."""
        return self._add_call("sum", "vecdot", self._values((x, y)), x.shape[:-1], x.dtype)

    def square(self, x: Recorded) -> Any:
        """Return the sum of the squares of all elements, as BLAS computes it."""
        flat = self.dense(x).reshape(-1).operand
        with np.errstate(all="ignore"):
            return self._add_call("vecdot", "dot", [flat, flat], (), x.dtype)

    def is_finite(self, x: Recorded) -> bool:
        """Leave the call to NumPy where the squares of elements add up to no finite number, so that here they do."""
        if not x.flags.c_contiguous:
            return False
        fits = self.where(np.isfinite(self.square(x)), x.dtype.type(0), x.dtype.type(math.inf))
        self.b.location(self.cast(fits, np.int32).operand)
        return True

    def _add_call(
        self, op: str, method: Method, xs: Sequence[Operand], shape: Shape, dtype: Any, ufunc: str = "", params: Params = ()
    ) -> Recorded:  # fmt: skip
        out = Buffer(self.b.fresh(), tuple(shape), np.dtype(dtype), "fresh")
        self._add_call_into(out, op, method, xs, ufunc, params)
        return self.operand(out)

    def _add_call_into(
        self, out: Buffer, op: str, method: Method, xs: Sequence[Operand], ufunc: str = "", params: Params = ()
    ) -> None:
        is_quiet = op == "where" or scalar_op(ufunc).is_quiet or (op == "convert" and _dtype_of(xs[0]) == out.dtype)
        state = None if is_quiet else self.quiet
        is_apply = method == "apply"
        apart: tuple[Alias, ...] = tuple(["disjoint" for _ in xs])
        self.b.lower(Call(op, method, tuple(xs), apart, (out,), ufunc, params, is_apply, error_state=state))

    # -- writes --
    def give(self, to: Recorded, x: Any) -> None:
        """Write a result, or a part of one that nothing else reads or writes."""
        if to.is_view:
            self.write(to, x, is_apart=True)
            self.b.fixed([], [], [to.location])
        else:
            to.become(x)

    def finish(self, out: Recorded, buffer: Buffer) -> None:
        """Name what a result has become: what computes it in a loop over elements reads on from there."""
        if out.is_in_memory:
            self.b.fixed([], [], [out.location])  # what reads it comes behind what has written its parts
        elif out.location.owner < 0 and not self.b.is_elementwise(out.operand):
            self.b.locations[buffer.index] = out.location
        else:
            self._add_call_into(buffer, "convert", "apply", [out.operand], params=(("dtype", buffer.dtype),))

    def copy(self, to: Recorded, x: Recorded) -> None:
        """Write elements."""
        self.count_step()
        self._copy(to, x)

    def _copy(self, to: Recorded, x: Recorded) -> None:
        if x.dtype.kind == "c" and to.dtype != x.dtype:
            to, x = _in_parts(to), _in_parts(x)
        have, want = x.location.dtype, to.location.dtype
        if have != want and (have not in ALL or want not in ALL | COMPLEX):
            self.refuse(f"{have} in {want}")
        self.b.fixed([copy_nest(to.location, x.location, self.quiet)], [x.location], [to.location])

    def clear(self, x: Recorded) -> None:
        """Fill an array with zeros."""
        self.add_steps([fill_nest(x.location)], [], x)

    def write(self, to: Recorded, x: Any, *, is_apart: bool = False) -> None:
        """Write elements into memory: in the loop that makes them, where that stands behind all that has written there.

        Args:
            to: where to.
            x: an array, or what it is made of.
            is_apart: whether nothing else writes there, so that any loop may.
        """
        if not isinstance(x, Recorded):
            x = self.operand(self._given(x, to.dtype))
        if isinstance(x.value, Buffer):
            before = self.b.defined.get(to.location.owner, -1)
            made = self.b.defined.get(self.b.locations[x.value.index].owner, -1)
            if (is_apart or made > before) and self.b.store_into(to.location, x.value):
                if not is_apart:
                    self.b.fixed([], [], [to.location])
                return
        self._copy(to, x)

    def write_parts(self, out: Recorded, parts: Iterable[tuple[Any, Any]]) -> None:
        """Write disjoint parts of an array, each in the loop that makes it where there is one."""
        for place, x in parts:
            to = out[place]
            if to.size:
                self.write(to, x, is_apart=True)
        self.b.fixed([], [], [out.location])

    def embed(self, out: Recorded, place: Any, x: Recorded) -> None:
        """Write zeros around a part, which may lie there already."""
        to = out[place]
        if to.strides != out.strides:
            self.clear(out)
            self.write(to, x)
            return
        self.b.fixed([fill_nest(rest) for rest in _around(to.location, out.location)], [], [out.location])
        self.write_parts(out, [(place, x)] if x.location != to.location else [])

    def concatenate(self, xs: Sequence[Recorded], axis: int = 0, out: Any = None) -> Any:
        """Write arrays one behind the other."""
        lead = (slice(None),) * axis
        ends = np.cumsum([x.shape[axis] for x in xs]).tolist()
        if out is None:
            out = self.new((*xs[0].shape[:axis], ends[-1], *xs[0].shape[axis + 1 :]), xs[0].dtype)
        starts = [end - x.shape[axis] for end, x in zip(ends, xs, strict=True)]
        self.write_parts(out, [((*lead, slice(a, b)), x) for a, b, x in zip(starts, ends, xs, strict=True)])
        return out

    def stack(self, xs: Sequence[Recorded], axis: int, out: Recorded) -> Recorded:
        """Write arrays side by side."""
        self.write_parts(out, [((*(slice(None),) * axis, k), x) for k, x in enumerate(xs)])
        return out

    def add_steps(self, steps: Sequence[Any], reads: Sequence[Recorded], out: Recorded) -> None:
        """Add steps that read arrays and write one.

        Raises:
            UnsupportedError: there are many.
        """
        self.count_step()
        self.b.fixed(steps, [x.location for x in reads], [out.location])

    def count_step(self) -> None:
        """Count a step.

        Raises:
            UnsupportedError: there are many.
        """
        self._steps += 1
        if self._steps > self.b.limits.convolution_max_steps:
            self.refuse("many steps")

    def view(self, x: Recorded, look: Callable[[Any], Any]) -> Any:
        """Return a view that a function takes of an array."""
        return x.look(look)


def _common_shape(xs: Sequence[Operand]) -> Shape:
    shape = broadcast_shapes([x.shape for x in xs])
    assert shape is not None
    return shape


def _dtype_of(x: Operand) -> Any:
    return x.dtype if isinstance(x, Buffer) else x.literal.aval.dtype


def _axes_of(axis: Any, rank: int) -> Shape:
    if axis is None:
        return tuple(range(rank))
    return tuple([a % rank for a in ((axis,) if isinstance(axis, int) else axis)])


def _in_parts(x: Recorded) -> Recorded:
    """Return complex numbers as pairs of real ones, along a last axis."""
    at, size = x.location, int(x.location.dtype[1:]) // 2
    pairs = attrs.evolve(at, shape=(*at.shape, 2), strides=(*at.strides, size), dtype=f"f{size}")
    return Recorded(x.recorder, pairs)


def _around(part: Location, out: Location) -> Iterator[Location]:
    """Yield the boxes of an array around one of its parts: before and behind it along each axis."""
    shape, offset, left = list(out.shape), out.offset, part.offset - out.offset
    for axis, (n, step) in enumerate(zip(part.shape, out.strides, strict=True)):
        start, left = divmod(left, step)
        for first, length in ((0, start), (start + n, out.shape[axis] - start - n)):
            if length:
                lengths = (*shape[:axis], length, *shape[axis + 1 :])
                yield attrs.evolve(out, offset=offset + first * step, shape=lengths)
        shape[axis], offset = n, offset + start * step
