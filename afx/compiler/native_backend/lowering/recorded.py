"""Recorded arrays: what an op's implementation sees of its operands, and its calls of NumPy that are taken down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.forms import (
    accumulate,
    add_cast,
    add_scipy_ufunc,
    add_select,
    add_ufunc,
    find_extreme,
    index,
    lower_fold,
    quiet_of,
)
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dtype_name, fill_nest, of_array, part_of
from afx.compiler.native_backend.program.leaves import COMBINING
from afx.compiler.schedule.arrays import Arrays
from afx.compiler.schedule.schedule import Alias, Buffer, Call, Method, Number, Operand, Params
from afx.core import Aval, Shape, broadcast_shapes
from afx.core.graph import Literal
from afx.core.scalar_ops import ALL, COMPLEX, scalar_op

# --- Recorded arrays: what an op's implementation sees of its operands while a recorder takes down what it does with
# them

METADATA = frozenset({"dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"})
VIEWS = frozenset({np.moveaxis, np.swapaxes, np.transpose, np.expand_dims, np.squeeze, np.broadcast_to, np.flip})


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: views are taken of it as of NumPy's arrays, and NumPy's functions of elements are recorded.

    What is written to a result as a whole, by ``out=`` or `numpy.copyto`, is what the name stands for from then on, and
    takes no memory; parts are written into memory. Memory of NumPy that an implementation offers by ``out=`` is left alone:
    what the call returns holds the elements.
    """

    def __init__(
        self,
        recorder: Calls,
        location: Location,
        value: Operand | None = None,
        *,
        has_memory: bool = False,
        is_view: bool = False,
    ) -> None:
        self.recorder: Calls = recorder
        self.location: Location = location
        # what it is in the schedule, which loops over elements need not read from memory
        self.value: Operand | None = value
        self._shadow: Any = None
        self._home = (location, value) if has_memory else None
        self.is_view: bool = is_view
        self._is_seen = False  # by a view

    @property
    def shadow(self) -> Any:
        """An array that lies as this one does, whose elements must not be read."""
        if self._shadow is None:
            self._shadow = of_array(self.location)
        return self._shadow

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy says of an array whatever its elements are.

        Raises:
            UnsupportedError: a method of NumPy's arrays, which would read elements that nobody knows.
        """
        if name in METADATA or not hasattr(np.ndarray, name):
            return getattr(self.shadow, name)
        raise UnsupportedError(f"ndarray.{name} has no native form")

    @property
    def aval(self) -> Aval:
        """Its type."""
        return Aval(self.shape, self.dtype)

    @property
    def operand(self) -> Operand:
        """What reads it in the schedule."""
        if self.value is None:
            self.value = self.recorder.at(self.location)
        return self.value

    # -- writes --
    @property
    def is_in_memory(self) -> bool:
        """Whether it is what lies in its own memory."""
        return self._home is None or self.location is self._home[0]

    def become(self, x: Any) -> None:
        """Take the elements of another array."""
        is_whole = isinstance(x, Recorded) and x.shape == self.shape and not self.is_view
        if is_whole and not (self._is_seen and self._home):
            converted = self.recorder.cast(x, self.dtype)
            self.location, self.value, self._shadow = converted.location, converted.value, None
        else:
            self._settle()
            self.recorder.write(self, x)

    def _settle(self) -> None:
        """Write what a name stands for into its memory, parts of which are looked at."""
        if self._home is not None and not self.is_in_memory:
            of = Recorded(self.recorder, self.location, self.value)
            (self.location, self.value), self._shadow = self._home, None
            self.recorder.write(self, of)

    def __setitem__(self, index: Any, x: Any) -> None:
        if _names_elements(index):
            self.recorder.scatter("set", self, index if index.__class__ is tuple else (index,), x)
        else:
            self.recorder.write(self[index], x)

    # -- views --
    def look(self, look: Callable[[Any], Any]) -> Recorded:
        """Return the view that a function takes."""
        self._settle()
        self._is_seen = True
        view = look(self.shadow)
        assert np.may_share_memory(self.shadow, view) or not view.size, "a view that copies"
        return Recorded(self.recorder, part_of(self.location, self.shadow, view), is_view=True)

    def __getitem__(self, index: Any) -> Recorded:
        places = index if index.__class__ is tuple else (index,)
        if _names_elements(places):
            indices = [i for i in places if isinstance(i, Recorded)]
            return self.recorder.gather(self, indices, len(places) - len(indices))
        return self.look(lambda x: x[places if Ellipsis in places else (*places, ...)])

    def __len__(self) -> int:
        return len(self.shadow)

    @property
    def T(self) -> Recorded:  # NumPy's name
        """The view with its axes in reverse order."""
        return self.look(lambda x: x.T)

    def transpose(self, *axes: Any) -> Recorded:
        """Return a view with axes in another order."""
        return self.look(lambda x: x.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Recorded:
        """Return a view with two axes exchanged."""
        return self.look(lambda x: x.swapaxes(a, b))

    def reshape(self, *shape: Any) -> Any:
        """Return the elements in another shape, copied where no view has it."""
        if self.size and not np.may_share_memory(self.shadow, self.shadow.reshape(*shape)):
            return self.recorder.dense(self).reshape(*shape)
        return self.look(lambda x: x.reshape(*shape))

    # -- elements --
    def astype(self, dtype: Any) -> Any:
        """Return the elements in a dtype."""
        return self.recorder.cast(self, np.dtype(dtype))

    def view(self, dtype: Any) -> Any:
        """Return the bits of integers as those of others."""
        target = np.dtype(dtype)
        if target.itemsize != self.dtype.itemsize or self.dtype.kind + target.kind not in ("iu", "ui"):
            raise UnsupportedError(f"bits of {self.dtype} as {target}")
        return self.recorder.cast(self, target)

    # -- NumPy's functions --
    def dot(self, y: Any) -> Any:
        """Return the product with a vector."""
        return self.recorder.dot(self, y)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *xs: Any, out: tuple[Any] = (None,), where: Any = True, **options: Any
    ) -> Any:
        """Record what a ufunc makes of arrays, and of numbers of their dtype."""
        name = ufunc.__name__
        if method == "at":
            return self.recorder.scatter(scalar_op(name).fold or name, *xs)
        if method == "accumulate":
            return self.recorder.accumulate(name, xs[0], options["axis"], out[0])
        if method == "reduce" and where is True:
            result = self.recorder.reduce(name, *xs, **options)
        elif method != "__call__" or options or ufunc.nout > 1 or not (where is True or ufunc is np.negative):
            # where= is for what raises no flag: all elements are computed
            raise UnsupportedError(f"{name}.{method} has no native form")
        else:
            result = self.recorder.vecdot(*xs) if ufunc is np.vecdot else self.recorder.ufunc(name, *xs)
        if where is not True:
            result = self.recorder.where(where, result, out[0])
        if isinstance(out[0], Recorded):
            out[0].become(result)
            return out[0]
        return result

    def __array_function__(self, function: Any, _types: Any, xs: Any, options: Any) -> Any:
        """Record a choice of elements, a copy, a join, or zeros; take views as NumPy does."""
        if function is np.where and len(xs) == 3:
            return self.recorder.where(*xs)
        if function is np.copyto:
            return self.recorder.replace(*xs, **options)
        if function is np.concatenate:
            return self.recorder.concatenate(*xs, **options)
        if function is np.stack:
            return self.recorder.stack(*xs, **options)
        if function is np.take:
            return self.recorder.gather(xs[0], xs[1:], options["axis"])
        if function in (np.argmax, np.argmin):
            return self.recorder.find_extreme(function is np.argmax, *xs, **options)
        if function is np.zeros_like:
            return self.recorder.constant(np.zeros((), self.dtype))
        if function in VIEWS:
            source: Recorded = xs[0]
            return source.look(lambda y: function(y, *xs[1:], **options))
        raise UnsupportedError(f"{function.__name__} has no native form")

    def __bool__(self) -> bool:
        """Raise: no element is known.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a branch on data")


def _names_elements(index: Any) -> bool:
    """Tell whether an index names elements by arrays."""
    return any(isinstance(i, Recorded) for i in index) if index.__class__ is tuple else isinstance(index, Recorded)


# --- Recorded calls: what an implementation does with the elements of arrays, as calls of NumPy that are lowered one
# by one


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
        ignored = [kind for kind, how in np.geterr().items() if how == "ignore" and kind != "under"]
        return tuple(sorted({*self._quiet, *ignored}))

    def refuse(self, _what: str) -> None:
        """Leave the call to NumPy."""
        raise UnsupportedError(f"{self.op} of {_what}")

    # -- arrays --
    def result(self, x: Buffer) -> Recorded:
        """Return a result of the call, which becomes what is written to it."""
        return Recorded(self, self.b.own_buffer(x), x, has_memory=True)

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
        buffer = Buffer(self.b.fresh(), location.shape, np.dtype(location.dtype), "fresh")
        self.b.locations[buffer.index] = location
        return buffer

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
            return self._made(_common_shape(values), values[0].dtype, add_scipy_ufunc, name, values, self.quiet)
        dtype = loop.resolve_dtypes((*[v.dtype for v in values], None))[-1]
        quiet = None if scalar_op(name).is_quiet else self.quiet
        return self._made(_common_shape(values), dtype, add_ufunc, name, values, quiet)

    def where(self, test: Any, x: Any, y: Any) -> Any:
        """Return elements of one of two arrays; of two numbers, in float64."""
        values = [*self._values((test,)), *self._values((x, y))]
        return self._made(_common_shape(values), values[1].dtype, add_select, values)

    def replace(self, to: Recorded, x: Any, *, where: Any = True, **_: Any) -> None:
        """Write elements over others, all or some."""
        to.become(x if where is True else self.where(where, x, to))

    def cast(self, x: Recorded, dtype: Any) -> Any:
        """Return an array in a dtype."""
        if x.dtype == dtype:
            return Recorded(self, x.location, x.value)
        if x.dtype.kind == "c":
            converted = self.new(x.shape, dtype)
            self.copy(converted, x)
            return converted
        return self._made(x.shape, np.dtype(dtype), add_cast, x.operand, self.quiet)

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
        constant: Recorded = self.constant(value)
        return constant.operand

    # -- sums and extremes --
    def reduce(self, name: str, x: Recorded, axis: Any = 0, dtype: Any = None, *, keepdims: bool = False) -> Any:
        """Return a reduction, in NumPy's order."""
        if x.location.dtype not in ALL or x.dtype != (dtype or x.dtype):
            self.refuse(f"{x.dtype}")
        axes = _axes_of(axis, x.ndim)
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        result = self._add_call("reduce", [x.operand], shape, x.dtype, name, (("axis", axes),))
        return result.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else result

    def extreme(self, name: str, x: Recorded, axes: Shape) -> Any:
        """Return the largest or smallest elements along axes, which stay; of zeros of both signs, either."""
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        out = Buffer(self.b.fresh(), shape, x.dtype, "fresh")
        call = Call(name, "reduce", (x.operand,), ("disjoint",), (out,), name, (("axis", axes),))
        result = self.operand(out) if lower_fold(self.b, call) else self.reduce(name, x, axes)
        return result.reshape([1 if k in axes else n for k, n in enumerate(x.shape)])

    def dot(self, x: Recorded, y: Any) -> Any:
        """Return the product of a matrix, or a vector, and a vector, as ``ndarray.dot`` computes it."""
        return self._add_call("dot", self._values((x, y)), x.shape[:-1], x.dtype)

    def vecdot(self, x: Recorded, y: Any) -> Any:
        """Return the products of rows with a vector."""
        return self._add_call("vecdot", self._values((x, y)), x.shape[:-1], x.dtype)

    def square(self, x: Recorded) -> Any:
        """Return the sum of the squares of all elements, as BLAS computes it."""
        flat = self.dense(x).reshape(-1).operand
        with np.errstate(all="ignore"):
            return self._add_call("dot", [flat, flat], (), x.dtype)

    def is_finite(self, x: Recorded) -> bool:
        """Leave the call to NumPy where the squares of elements add up to no finite number, so that here they do."""
        if not x.flags.c_contiguous:
            return False
        fits = self.where(np.isfinite(self.square(x)), x.dtype.type(0), x.dtype.type(math.inf))
        self.b.location(self.cast(fits, np.int32).operand)
        return True

    def _add_call(self, method: Method, xs: Sequence[Operand], shape: Shape, dtype: Any, *options: Any) -> Recorded:
        apart: tuple[Alias, ...] = tuple(["disjoint" for _ in xs])

        def add(b: BlockBuilder, out: Buffer, ufunc: str = "", params: Params = ()) -> None:
            b.lower(Call(self.op, method, tuple(xs), apart, (out,), ufunc, params, error_state=self.quiet))

        return self._made(shape, dtype, add, *options)

    def _made(self, shape: Shape, dtype: Any, add: Callable[..., None], *given: Any) -> Recorded:
        """Return what a function adds to the block; it takes where the result goes, and what it is given."""
        out = Buffer(self.b.fresh(), tuple(shape), np.dtype(dtype), "fresh")
        add(self.b, out, *given)
        return self.operand(out)

    # -- indices --
    def gather(self, x: Recorded, indices: Sequence[Recorded], axis: int) -> Recorded:
        """Return elements at indices along axes from one on."""
        if axis and len(indices) > 1:
            self.refuse("several indices behind the first axis, whose result NumPy lays out anew")
        out: Recorded = self.new((*x.shape[:axis], *_common_shape(indices), *x.shape[axis + len(indices) :]), x.dtype)
        self._index("gather", out, x, indices, axis, [x, *indices], out)
        return out

    def scatter(self, kind: str, out: Recorded, places: Any, values: Recorded) -> None:
        """Write values at NumPy's index of slices of whole axes, and then arrays, or add them there."""
        way = f"scatter.{kind}"
        if way not in ("scatter.set", *COMBINING):
            self.refuse(f"{kind} at indices")
        indices = [i for i in places if isinstance(i, Recorded)]
        self._index(way, values, out, indices, len(places) - len(indices), [values, *indices], out)

    def _index(
        self, kind: str, part: Recorded, whole: Recorded, indices: Sequence[Recorded], axis: int,
        reads: Sequence[Recorded], out: Recorded,
    ) -> None:  # fmt: skip
        places = [i.location for i in indices]
        self.add_steps([index(kind, part.location, whole.location, places, axis, self.quiet)], reads, out)

    def accumulate(self, name: str, x: Recorded, axis: int, out: Recorded | None) -> Recorded:
        """Return running results of a ufunc along an axis."""
        result: Recorded = self.new(x.shape, x.dtype) if out is None else out
        self.add_steps(accumulate(name, x.location, result.location, axis, self.quiet, self.b.limits), [x], result)
        return result

    def find_extreme(self, is_max: bool, x: Recorded, axis: int) -> Recorded:
        """Return the places of the first largest or smallest elements along an axis."""
        axis %= x.ndim
        out: Recorded = self.new((*x.shape[:axis], *x.shape[axis + 1 :]), np.int64)
        self.add_steps([find_extreme(is_max, x.location, out.location, axis)], [x], out)
        return out

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
            add_cast(self.b, buffer, out.operand, None)

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


def _common_shape(xs: Sequence[Operand | Recorded]) -> Shape:
    shape = broadcast_shapes([x.shape for x in xs])
    assert shape is not None
    return shape


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
    if 0 in out.shape:
        return
    shape, offset, left = list(out.shape), out.offset, part.offset - out.offset
    for axis, (n, step) in enumerate(zip(part.shape, out.strides, strict=True)):
        start, left = divmod(left, step)
        for first, length in ((0, start), (start + n, out.shape[axis] - start - n)):
            if length:
                lengths = (*shape[:axis], length, *shape[axis + 1 :])
                yield attrs.evolve(out, offset=offset + first * step, shape=lengths)
        shape[axis], offset = n, offset + start * step
