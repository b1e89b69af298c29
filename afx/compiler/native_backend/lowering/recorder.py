"""Recorder: runs an op's own implementation on arrays without elements, and adds the steps of what it does to a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.arrays import Arrays
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, dtype_name, of_array, part_of
from afx.compiler.native_backend.lowering.ops.expand import REAL, Calls
from afx.compiler.native_backend.lowering.ops.product import multiply_into
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of, start_of_sum
from afx.compiler.native_backend.program import Inner, Load, Nest, Op, Ref, Value
from afx.compiler.schedule import Call
from afx.core.aval import Shape
from afx.core.primitive import lookup

__all__ = ["record"]


def record(b: BlockBuilder, call: Call) -> None:
    """Add a call whose implementation runs on recorded arrays.

    Raises:
        UnsupportedError: it does what has no native form, or too much of it.
    """
    operands = [b.ordered(v) for v in call.operands]
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    if not {x.dtype for x in operands} == {out.dtype} <= set(REAL):
        raise UnsupportedError(f"{call.op} of {' and '.join([x.dtype for x in operands])}")
    recorder = Recorder(b, call)
    implementation: Any = lookup(call.op).lowering.impl_into
    implementation(*[Recorded(recorder, x) for x in (out, *operands)], xp=recorder, **dict(call.params))


class Recorded:
    """An array without elements: views are taken of it as of NumPy's arrays."""

    def __init__(self, recorder: Recorder, location: Location) -> None:
        self.recorder: Recorder = recorder
        self.location: Location = location
        self.shadow: Any = of_array(location)

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy says of an array: its shape, dtype, strides, flags."""
        return getattr(self.shadow, name)

    def __getitem__(self, index: Any) -> Recorded:
        return self._see(self.shadow[index])

    @property
    def T(self) -> Recorded:  # NumPy's name
        """The view with its axes in reverse order."""
        return self._see(self.shadow.T)

    def transpose(self, *axes: Any) -> Recorded:
        """Return a view with axes in another order."""
        return self._see(self.shadow.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Recorded:
        """Return a view with two axes exchanged."""
        return self._see(self.shadow.swapaxes(a, b))

    def reshape(self, *shape: Any) -> Recorded:
        """Return the elements in another shape, copied where no view has it."""
        found = self.shadow.reshape(*shape)
        return (
            self._see(found) if np.may_share_memory(self.shadow, found) else self.recorder.dense(self).reshape(*shape)
        )

    def _see(self, view: Any) -> Recorded:
        assert np.may_share_memory(self.shadow, view), "a view that copies"
        return Recorded(self.recorder, part_of(self.location, self.shadow, view))


class Recorder(Arrays):
    """Adds a step for each thing that is done with recorded arrays."""

    __slots__ = ("_op", "_steps", "b", "quiet")

    def __init__(self, b: BlockBuilder, call: Call) -> None:
        self.b: BlockBuilder = b
        self.quiet: tuple[str, ...] = quiet_of(call)
        self._op = call.op
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

    def clear(self, x: Recorded) -> None:
        """Fill an array with zeros."""
        self.copy(x, Recorded(self, self.b.constant(np.zeros((), x.dtype))))

    def copy(self, to: Recorded, x: Recorded) -> None:
        """Write elements."""
        self._add([copy_nest(to.location, x.location, self.quiet)], [x], to)

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
        c, dtype = Calls(self.b, self.quiet), x.location.dtype
        fits = c.ufunc("isfinite", c.square(x.location))
        self.b.location(c.cast(c.where(fits, c.number(0.0, dtype), c.number(math.inf, dtype)), "i4"))
        return True

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


def _ref(x: Location) -> Ref:
    return Ref(x.owner, x.dtype, x.offset, x.strides)
