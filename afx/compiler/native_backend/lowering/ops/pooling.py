"""Native forms of pooling: the largest element of each window, its offset, and what is put there and picked from there."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dtype_name
from afx.compiler.native_backend.lowering.ops.expand import REAL, Calls
from afx.compiler.native_backend.lowering.ops.reduction import quiet_of
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Call
from afx.core.aval import Shape

__all__ = ["POOLING"]


def _at(x: Location, axis: Shape, place: Shape) -> Location:
    """Return the elements that stand at an offset of a window along these axes."""
    left = [k for k in range(len(x.shape)) if k not in axis]
    return attrs.evolve(
        x,
        offset=x.offset + sum([p * x.strides[a] for p, a in zip(place, axis, strict=True)]),
        shape=tuple([x.shape[k] for k in left]),
        strides=tuple([x.strides[k] for k in left]),
    )


def _places(b: BlockBuilder, shape: Shape, axis: Shape) -> list[Shape]:
    """Return the offsets in a window that is spread along these axes, of which there are some.

    Raises:
        UnsupportedError: there is one, or there are many.
    """
    places = list(np.ndindex(*[shape[a] for a in axis]))
    if not 1 < len(places) <= b.limits.pooling_max_elements:
        raise UnsupportedError(f"windows of {len(places)} elements")
    return places


def _max_first(b: BlockBuilder, call: Call) -> None:
    """Combine whole slices, along one axis after the other, as NumPy's plan does."""
    x = b.location(call.operands[0])
    axis: Shape = dict(call.params)["axis"]
    _places(b, x.shape, axis)
    c, left = Calls(b, quiet_of(call)), list(range(len(x.shape)))
    found = c.at(x)
    long = [a for a in axis if call.operands[0].shape[a] > 1]
    for a in (*[a for a in axis if a not in long], *long):
        k = left.index(a)
        left.remove(a)
        x = b.location(found)
        found, *others = [c.at(_at(x, (k,), (n,))) for n in range(x.shape[k])]
        for other in others:
            found = c.ufunc("maximum", found, other)
    c.give(call.outputs[0], found)


def _first_of_window(b: BlockBuilder, call: Call) -> None:
    """Count the offsets in front of the first largest element."""
    (x, z), out = [b.location(v) for v in call.operands], call.outputs[0]
    c, axis, dtype = Calls(b, quiet_of(call)), dict(call.params)["axis"], dtype_name(out.dtype)
    others = [c.ufunc("not_equal", c.at(_at(x, axis, place)), c.at(z)) for place in _places(b, x.shape, axis)[:-1]]
    missed, found = others[0], c.cast(others[0], dtype)
    for other in others[1:]:
        missed = c.ufunc("logical_and", missed, other)
        found = c.ufunc("add", found, c.cast(missed, dtype))
    c.give(out, found)


def _put_into_window(b: BlockBuilder, call: Call) -> None:
    """Write into each offset what belongs there, and into the last one what is left."""
    ct, k = [b.location(v) for v in call.operands]
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    if ct.dtype not in REAL:
        raise UnsupportedError(f"{call.op} of {ct.dtype}")
    c, axis = Calls(b, quiet_of(call)), dict(call.params)["axis"]
    *places, last = _places(b, out.shape, axis)
    left = c.at(ct)
    parts: list[tuple[Shape, Buffer]] = []
    for number, place in enumerate(places):
        here = c.cast(c.ufunc("equal", c.at(k), c.number(number, k.dtype)), ct.dtype)
        part = c.ufunc("multiply", c.at(ct), here)
        left = c.ufunc("subtract", left, part)
        parts.append((place, part))
    for place, part in (*parts, (last, left)):
        into = _at(out, axis, place)
        if not b.store_into(into, part):
            of = b.location(part)
            b.fixed([copy_nest(into, of)], [of], [out])
    b.fixed([], [], [out])


def _pick_from_window(b: BlockBuilder, call: Call) -> None:
    """Take what stands at each offset."""
    (x, k), out = [b.location(v) for v in call.operands], call.outputs[0]
    c, axis, dtype = Calls(b, quiet_of(call)), dict(call.params)["axis"], dtype_name(out.dtype)
    found: Operand = c.number(0, dtype)
    for number, place in enumerate(_places(b, x.shape, axis)):
        here = c.ufunc("equal", c.at(k), c.number(number, k.dtype))
        found = c.where(here, c.at(_at(x, axis, place)), found)
    assert isinstance(found, Buffer)
    c.give(out, found)


POOLING: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "max_first": _max_first,
    "first_of_window": _first_of_window,
    "put_into_window": _put_into_window,
    "pick_from_window": _pick_from_window,
}
