"""Cotangent masks: the elements of a cotangent that an output depends on, and from op to op."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from afx.core import Aval, Shape, aval_of, bind, to_array, to_lower_level
from afx.core.primitive import JointPullback, Params, Primitive, Pullback, Value, Values
from afx.core.tracing.tape import Entry
from afx.ops import any as any_, broadcast_to, logical_or, not_equal, reshape, where

# --- Cotangent masks
#
# Where a branch was not taken, or an element was not selected, a cotangent is zero, and zero times an infinite
# partial would be nan. A mask says where a cotangent is alive. It travels through every op: elementwise ops keep it;
# linear ones with positive coefficients map it; ops along axes or over matrices extend it over those; ops that hold
# graphs walk them with it. Any other op is alive as a whole if any of its results is. A mask is computed when a rule
# asks for it: most selections never need theirs.

DEEPEST = 64
BARE: Any = (np.ndarray, np.generic)
_quiet: Callable[[], AbstractContextManager[Any]] = functools.partial(
    np.errstate, invalid="ignore", over="ignore", divide="ignore"
)
DEAD, ALIVE, MARKED, SOFT = range(4)  # an output's cotangent is zero; has no mask; has one; has one of selections alone

MaskedRule = Callable[..., tuple[Sequence[Value], Sequence[Value]]]


class Mask:
    """Where a cotangent is alive, computed when it is first asked for: few rules do.

    Attributes:
        soft: whether selections alone made it, so that finite partials need none.
        crosses: whether it goes through ops that mix elements: kinks (``relu``, ``maximum``) are local, and so
            is what follows from their masks.
        twin: the entry of a choice, the operand, and the mask of its result: both operands together are alive as that is.
        is_dirty: whether the cotangent may hold nan where it is dead: soft ones are cleaned only before elements mix.
        part: the part of the cotangent that is alive, where slices alone left the rest out.
        is_joint: whether several selections made it: what none of them took is seldom much, and masking it costs.
    """

    __slots__ = ("_make", "_root", "_value", "crosses", "depth", "is_dirty", "is_joint", "part", "soft", "twin")

    def __init__(
        self, make: Callable[[], Value], *parents: Mask | None, soft: bool = True, crosses: bool | None = None
    ) -> None:
        known = [parent for parent in parents if parent is not None]
        self.soft: bool = soft and all(parent.soft for parent in known)
        crosses = not known if crosses is None else crosses
        self.crosses: bool = crosses or any(parent.crosses for parent in known)
        self.twin: tuple[int, int, Mask | None] | None = None
        self.is_dirty: bool = False
        self.part: AlivePart | None = None
        self.is_joint: bool = any(parent.is_joint for parent in known)
        self._root: Mask | None = None
        self._make: Callable[[], Value] | None = make
        self._value: Value = None
        self.depth: int = 1 + max([parent.depth for parent in known], default=0)
        if self.depth > DEEPEST:  # masks ask each other: long chains are computed as they come
            self.get()
            self.depth = 0

    def get(self) -> Value:
        """Return the mask as a boolean value of the next lower level."""
        if self._make is not None:
            mask = self._make()
            self._value, self._make = mask if isinstance(mask, (list, tuple)) else to_lower_level(mask), None
        return self._value

    @property
    def root(self) -> Mask:
        """The mask that this one was copied from, or itself."""
        return self._root or self

    def dirty(self) -> Mask:
        """Return this mask for a cotangent that was not cleaned."""
        if self.is_dirty:
            return self
        copy = self.with_part(None)
        copy.is_dirty = True
        return copy

    def with_part(self, part: AlivePart | None) -> Mask:
        """Return this mask for a cotangent of which this part is alive."""
        copy = Mask(self.get, self.root)
        copy.depth, copy._root, copy.part, copy.is_joint = self.depth, self.root, part, self.is_joint
        return copy

    def is_lazy(self) -> bool:
        """Tell whether finite partials need it not: selections alone made it, several or by values, so that it costs."""
        return self.soft and (self.is_joint or not (self.crosses and isinstance(self.get(), BARE)))

    def is_whole(self) -> bool:
        """Tell whether the mask is known to be true everywhere."""
        alive = self.get()
        return isinstance(alive, BARE) and bool(np.all(alive))


class Link(NamedTuple):
    """A slice or gather, or another op that moves elements, on the way from a value to a part of it.

    Attributes:
        primitive: the op.
        params: its parameters.
        shape: of its operand.
        indices: its other operands.
    """

    primitive: Primitive
    params: Params
    shape: Shape
    indices: Values = ()

    def is_same(self, other: Link) -> bool:
        """Tell whether another one takes the same part; of indices that are equal but not the same it does not know."""
        known = self.primitive is other.primitive and self.params == other.params and self.shape == other.shape
        return known and all(map(operator.is_, self.indices, other.indices))


class AlivePart:
    """The part of a cotangent that is alive: rules compute there alone, so that what a slice leaves out costs nothing.

    Attributes:
        links: the ops that take the part of a value, in order.
        ct: the cotangent of the part.
    """

    __slots__ = ("ct", "links")

    def __init__(self, links: tuple[Link, ...], ct: Value) -> None:
        self.links: tuple[Link, ...] = links
        self.ct: Value = ct

    def take(self, x: Value) -> Value:
        """Return the part of an operand, which is broadcast to the value's shape first; scalars as they are."""
        if x is None or np.ndim(x) == 0:
            return x
        if x.shape != self.links[0].shape:
            x = to_lower_level(broadcast_to(x, self.links[0].shape))
        for p, params, _, indices in self.links:
            x = to_lower_level(bind(p, x, *indices, **params))
        return x

    def embed(self, g: Value) -> Value:
        """Return a cotangent of the part as one of the value, with zeros elsewhere."""
        for p, params, shape, indices in reversed(self.links):
            assert p.derivative.vjps is not None
            g = to_lower_level(p.derivative.vjps[0](g, None, (None, *indices), params, shape, g.dtype))
        return g

    def add(self, other: AlivePart | None) -> AlivePart | None:
        """Return the sum of cotangents of the same part, None of different ones."""
        if other is None or len(self.links) != len(other.links) or not all(map(Link.is_same, self.links, other.links)):
            return None
        return AlivePart(self.links, self.ct + other.ct)


class GraphPullback:
    """The joint pullback of an op that holds graphs, with and without masks.

    Attributes:
        plain: the pullback without masks; the cotangents of outputs that nothing reads are None, and so are those of
            operands that only such outputs read.
        masked: ``(kinds, cts, masks, kept)`` to cotangents and masks of the operands. ``kinds`` tells of each output
            that its cotangent is dead, alive, marked or softly so; ``cts`` are those that are not dead, ``masks`` those of the
            marked ones. A mask of None is true everywhere.
        is_bounded: whether finite operands give finite partials, so that soft masks are not needed.
        makes_masks: whether choices inside may make masks of its operands.
        left_out: tells, after `plain` ran on known values, whether it left elements out; None where that is not noted.
        is_inlined: whether graphs take its equations in, so that a mask which nobody asks for costs nothing there.
    """

    __slots__ = ("is_bounded", "is_inlined", "left_out", "makes_masks", "masked", "plain")

    def __init__(
        self,
        plain: JointPullback,
        masked: MaskedRule,
        *,
        makes_masks: bool,
        is_bounded: bool = False,
        is_inlined: bool = False,
        left_out: Callable[[], bool] | None = None,
    ) -> None:
        self.left_out: Callable[[], bool] | None = left_out
        self.plain: JointPullback = plain
        self.masked: MaskedRule = masked
        self.is_bounded: bool = is_bounded
        self.makes_masks: bool = makes_masks
        self.is_inlined: bool = is_inlined

    def __call__(
        self, ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]
    ) -> Sequence[Value]:
        """Return the cotangents of the operands."""
        return self.plain(ct, z, xs, params, avals)


def constant(alive: Value) -> Value:
    """Return a mask that is known already: what makes it."""
    return alive


def add_masks(mask: Mask | None, other: Mask | None) -> Mask | None:
    """Return the mask of a sum of cotangents: an element is alive if it is for either part."""
    if mask is None or other is None:
        return None
    part = None if mask.part is None else mask.part.add(other.part)
    if mask.root is other.root or part is not None:
        return mask if mask.is_dirty else other if other.is_dirty else mask.with_part(part)
    if mask.twin is not None and other.twin is not None and mask.twin[0] == other.twin[0]:
        both = mask.twin[2]
        # the part that the choice's own cotangent has is not that of the sum
        return mask if mask.twin[1] == other.twin[1] else both and both.with_part(None)
    joint = Mask(lambda: logical_or(other.get(), mask.get()), other, mask)
    joint.is_joint = True
    return joint


def is_finite(g: Value) -> bool:
    """Tell whether a value is known and finite; that of a sum is enough."""
    return isinstance(g, BARE) and bool(np.isfinite(np.add.reduce(g, None)))


def cleaned(mask: Mask, g: Value) -> tuple[Mask | None, Value]:
    """Return a cotangent with zeros where it is dead; no mask where it is alive everywhere."""
    if mask.is_whole():
        return None, g
    return mask, select(mask.get(), g)


def clean(mask: Mask | None, g: Value) -> Value:
    """Return a cotangent that holds zeros where it is dead."""
    return g if mask is None or not mask.is_dirty or g is None else cleaned(mask, g)[1]


def select(alive: Value, x: Value) -> Value:
    """Return a value with zeros where it is dead."""
    return to_lower_level(where(alive, x, np.zeros((), x.dtype)))


def fit_mask(alive: Value, shape: Shape) -> Value:
    """Return a mask in an operand's shape: alive where it is at any position that the operand was broadcast to."""
    if alive.shape == shape:
        return alive
    lead = max(len(alive.shape) - len(shape), 0)
    own = (1,) * (len(shape) - len(alive.shape)) + tuple(alive.shape[lead:])
    wide = [a + lead for a, n in enumerate(shape) if n == 1 and own[a] != 1]
    axes = (*range(lead), *wide)
    if axes:
        alive = to_lower_level(any_(alive, axis=axes))
    with_ones = tuple([1 if n == 1 else m for n, m in zip(shape, own, strict=True)])
    return to_lower_level(broadcast_to(reshape(alive, with_ones), shape))


# -- one op --
def live_operand(
    p: Primitive, k: int, alive: Sequence[Value], avals: Sequence[Aval], params: Params, outs: Sequence[Shape]
) -> Value:
    """Return where an operand of an op is alive.

    Args:
        p: the op.
        k: the operand.
        alive: the mask of each output, None where its cotangent is dead.
        avals: of the operands.
        params: of the op.
        outs: the shapes of the outputs.
    """
    shape = avals[k].shape
    if len(alive) == 1 and alive[0] is not None:
        if p.masking.alive is not None:
            return fit_mask(to_lower_level(p.masking.alive(k, alive[0], tuple(avals), params)), shape)
        if p.is_elementwise:
            return fit_mask(alive[0], shape)
        if p.kind == "bilinear":
            return _through_ones(p, k, alive[0], avals, params)
        axes = mixed_axes(avals, outs, params)
        if axes is not None:
            return _along(alive[0], axes, shape)
    lead = max([a.ndim for a in avals]) - p.masking.core_axes if p.masking.core_axes else 0
    alive_anywhere = [to_lower_level(any_(m, axis=tuple(range(lead, len(m.shape))))) for m in alive if m is not None]
    if not alive_anywhere:
        return np.zeros(shape, bool)
    total = functools.reduce(lambda a, b: to_lower_level(logical_or(a, b)), alive_anywhere)
    return fit_mask(to_lower_level(reshape(total, (*total.shape, *[1] * p.masking.core_axes))), shape)


def _through_ones(p: Primitive, k: int, alive: Value, avals: Sequence[Aval], params: Params) -> Value:
    """Return where an operand of a bilinear op is alive: its pullback, with ones in the other operand."""
    assert p.derivative.vjps is not None
    ones = tuple([np.ones(a.shape, np.float32) for a in avals])
    marks = to_lower_level(alive.astype(np.float32))
    return to_lower_level(
        not_equal(p.derivative.vjps[k](marks, None, ones, params, avals[k].shape, np.dtype(np.float32)), 0)
    )


def mixed_axes(avals: Sequence[Aval], outs: Sequence[Shape], params: Params) -> set[int] | None:
    """Return the axes along which an op of one operand mixes, None where its record does not say."""
    axis = params.get("axis")
    if len(avals) != 1 or len(outs) != 1 or not isinstance(axis, (int, tuple)):
        return None
    shape, out = avals[0].shape, outs[0]
    given: Shape = axis if isinstance(axis, tuple) else (axis,)  # pyright: ignore[reportUnknownVariableType]  # a parameter
    axes = {a % len(shape) for a in given}
    stays = len(out) == len(shape) and all(a in axes or n == m for a, (n, m) in enumerate(zip(shape, out, strict=True)))
    return axes if stays or tuple([n for a, n in enumerate(shape) if a not in axes]) == tuple(out) else None


def _along(alive: Value, axes: set[int], shape: Shape) -> Value:
    """Return where the operand of an op that mixes along these axes is alive: all along them, where one result is."""
    if len(alive.shape) == len(shape):
        alive = to_lower_level(any_(alive, axis=tuple(sorted(axes)), keepdims=True))
    with_ones = tuple([1 if a in axes else n for a, n in enumerate(shape)])
    return to_lower_level(broadcast_to(reshape(alive, with_ones), shape))


def through(pull: Pullback, whole: Shape, mask: Mask | None, entry: Entry, shape: Shape) -> Value:
    """Return where the operand of a positive op is alive, given where its output of shape ``whole`` is."""
    marks = broadcast_to(np.float32(1), whole) if mask is None else mask.get().astype(np.float32)
    return not_equal(pull(to_lower_level(marks), entry.z, entry.xs, entry.params, shape, np.dtype(np.float32)), 0)


def kinds_of(cts: Sequence[Value]) -> list[int]:
    """Return which outputs are alive without a mask, and which are dead: those without a cotangent."""
    return [DEAD if ct is None else ALIVE for ct in cts]


def owned_only(
    kinds: Sequence[int], owned: Sequence[bool], cts: Sequence[Value], masks: Sequence[Value]
) -> list[Value]:
    """Return the cotangents, then the masks, of those outputs that a backward program takes."""
    values, marks = iter(cts), iter(masks)
    each = [
        (next(values), next(marks) if kind >= MARKED else None, own)
        for kind, own in zip(kinds, owned, strict=True)
        if kind != DEAD
    ]
    return [ct for ct, _, own in each if own] + [mark for _, mark, own in each if own and mark is not None]


# --- Masked pullbacks: cotangents and their masks, from the output of an op to its operands


def pull_elements(
    entry: Entry, i: int, k: int, ct: Value, mask: Mask | None, target: Entry, safe: frozenset[int]
) -> tuple[Value, Mask | None]:
    """Pull back an elementwise op, and clean what it makes where its cotangent is dead."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    shape, dtype = target.shape, target.dtype
    alive = _compose_mask(entry, i, k, mask, shape)
    if mask is not None and mask.part is not None and p.masking.mask is None:
        g, alive = _pull_part(entry, i, ct, mask, mask.part, target)
    elif p.masking.mask is None and (not p.derivative.reads[i] or (k in safe and mask is not None and mask.is_lazy())):
        g = p.derivative.vjps[i](ct, z, xs, params, shape, dtype)
        if alive is not None and p.derivative.reads[i]:
            alive = alive.dirty()
        if alive is not None and alive.is_dirty and shape != g.shape:  # what is dead would meet what is alive
            alive, g = cleaned(alive.root, g)
    else:
        # what an elementwise rule makes where its cotangent is dead goes; nothing else is done on purpose
        with _quiet():
            g = p.derivative.vjps[i](ct, z, xs, params, shape, dtype)
            if alive is not None and not is_finite(g):
                alive, g = cleaned(alive.root, g)
    if alive is not None and g.shape != shape:
        alive = Mask(functools.partial(_unbroadcast_mask, alive, g.shape, shape), alive)
    return g, alive


def _pull_part(
    entry: Entry, i: int, ct: Value, mask: Mask, part: AlivePart, target: Entry
) -> tuple[Value, Mask | None]:
    """Pull back an elementwise op on the part that slices took, where alone the cotangent is alive."""
    p, _, z, xs, params, whole, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    pull, slices = p.derivative.vjps[i], [part.take(x) for x in xs]
    shape = part.ct.shape if target.shape == whole else target.shape
    small = to_lower_level(pull(part.ct, part.take(z), tuple(slices), params, shape, target.dtype))
    g = part.embed(small) if p.derivative.reads[i] else pull(ct, z, xs, params, target.shape, target.dtype)
    return g, mask.with_part(AlivePart(part.links, small))


def pull_product(entries: Sequence[Entry], entry: Entry, i: int, ct: Value, mask: Mask) -> tuple[Value, Mask | None]:
    """Pull back a bilinear op; what its other operand holds where no living output reads it counts as 0."""
    p, ins, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    pull, other = p.derivative.vjps[i], 1 - i
    target, x = entries[ins[i]], xs[other]
    avals = [Aval(target.shape, target.dtype)] * 2
    avals[other] = Aval(x.shape, x.dtype)
    result = Mask(lambda: _live(p, i, [mask], avals, params, [entry.shape]), mask)
    if isinstance(ct, BARE) and isinstance(x, BARE):
        with _quiet():
            g = pull(ct, z, xs, params, target.shape, target.dtype)
        if is_finite(g):
            return g, result
    if mask.is_whole():
        return pull(ct, z, xs, params, target.shape, target.dtype), None
    read = Mask(lambda: _live(p, other, [mask], avals, params, [entry.shape]), mask)
    operands = list(xs)
    operands[other] = cleaned(read, x)[1]
    return pull(ct, z, tuple(operands), params, target.shape, target.dtype), result


def pull_slice(entry: Entry, i: int, ct: Value, mask: Mask, target: Entry) -> tuple[Value, Mask | None]:
    """Pull back an op that mixes the elements of slices, or of the whole of its operands."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    with _quiet():
        g = p.derivative.vjps[i](ct, z, xs, params, target.shape, target.dtype)
    avals = [Aval(g.shape, g.dtype) if n == i else _aval_of(x) for n, x in enumerate(xs)]
    whole = Mask(lambda: _live(p, i, [mask], avals, params, [entry.shape]), mask)
    reads = p.derivative.reads[min(i, len(p.derivative.reads) - 1)]
    alive, g = cleaned(whole, g) if reads and not is_finite(g) else (whole, g)
    if alive is not None and g.shape != target.shape:
        alive = Mask(functools.partial(_fit, alive, target.shape), alive)
    return g, alive


def _compose_mask(entry: Entry, i: int, k: int, mask: Mask | None, shape: Shape) -> Mask | None:
    """Return where an elementwise op's operand is alive, given where its output is."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    rule = p.masking.mask
    if rule is None:
        return mask

    def made() -> Value:
        alive = rule(i, z, xs, params, shape)
        if isinstance(alive, bool):
            alive = np.bool_(alive)  # of a condition that is a Python number
        return alive if alive.shape == entry.shape else to_lower_level(broadcast_to(alive, entry.shape))

    chosen = p.algebra.canonical == "select"
    both = made if mask is None else lambda: to_lower_level(made()) & mask.get()
    composed = Mask(both, mask, soft=False, crosses=chosen)
    if chosen and shape == entry.shape:
        composed.twin = (k, i, mask)
    return composed


def _unbroadcast_mask(mask: Mask, whole: Shape, shape: Shape) -> Value:
    """Return where an operand of this shape is alive: where the result is for any element it was broadcast to."""
    alive = mask.get()
    if alive.shape != whole:
        alive = to_lower_level(broadcast_to(alive, whole))
    return fit_mask(alive, shape)


def pull_graphs(
    rule: GraphPullback,
    entry: Entry,
    ct: Value,
    given: Sequence[Value],
    own: Sequence[Mask | None],
    avals: tuple[Aval | None, ...],
) -> tuple[Sequence[Value], Sequence[Mask | None]]:
    """Pull back an op that holds graphs, whose own backward passes carry the masks on."""
    known = all(c is None or isinstance(c, BARE) for c in given)
    soft = all(m is None or m.soft for m in own)
    marked = any(m is not None and m.crosses for m in own)
    finite = soft and rule.is_bounded and not rule.makes_masks
    if known or (not marked and not rule.is_inlined) or (marked and finite):
        with _quiet():
            gs = [to_lower_level(g) for g in rule(ct, entry.z, entry.xs, entry.params, avals)]
        if known and not marked and rule.left_out is not None and not rule.left_out():
            return gs, [None] * len(gs)
        if (not known and marked) or not marked or all(g is None or is_finite(g) for g in gs):
            whole = Mask(lambda: _masked_rule(rule, entry, given, own)[1], *own, soft=marked)
            whole.crosses = known or not marked  # else finite partials need no mask: only infinite slopes ask for it
            shapes = [() if a is None else a.shape for a in avals]
            return gs, [Mask(functools.partial(_part, whole, i, s), whole) for i, s in enumerate(shapes)]
    with _quiet():
        cts, marks = _masked_rule(rule, entry, given, own)
    return cts, [None if m is None else Mask(functools.partial(constant, to_lower_level(m)), *own) for m in marks]


def _masked_rule(
    rule: GraphPullback, entry: Entry, given: Sequence[Value], own: Sequence[Mask | None]
) -> tuple[Sequence[Value], Sequence[Value]]:
    """Return cotangents and masks of the operands by an entry's own rule, from those of its results."""
    kinds = tuple([DEAD if c is None else _kind(m) for c, m in zip(given, own, strict=True)])
    cts = [to_array(c) for c in given if c is not None]
    marks = [to_array(m.get()) for m, kind in zip(own, kinds, strict=True) if m is not None and kind >= MARKED]
    return rule.masked(kinds, cts, marks, [to_array(v) for v in entry.xs])


def _kind(mask: Mask | None) -> int:
    return ALIVE if mask is None else SOFT if mask.soft else MARKED


def _part(whole: Mask, i: int, shape: Shape) -> Value:
    mask = whole.get()[i]
    return np.ones(shape, bool) if mask is None else to_lower_level(mask)


def pull_slices(
    entries: Sequence[Entry],
    entry: Entry,
    k: int,
    ct: Value,
    own: Sequence[Mask | None],
    avals: tuple[Aval | None, ...],
) -> tuple[Sequence[Value], Sequence[Mask | None]]:
    """Pull back an op that mixes the elements of slices, or of all its operands."""
    p, _, z, xs, params, _, _, count, joint = entry
    assert p is not None
    rule = joint or p.derivative.vjp_all
    assert rule is not None
    with _quiet():
        gs = [to_lower_level(g) for g in rule(ct, z, xs, params, avals)]
    shapes = [e.shape for e in entries[k : k + count]]
    whole = [a if a is not None else _aval_of(x) for a, x in zip(avals, xs, strict=True)]
    masks: list[Mask | None] = []
    for i, g in enumerate(gs):
        if g is None:
            masks.append(None)
            continue
        full = [*whole[:i], Aval(g.shape, g.dtype), *whole[i + 1 :]]
        mask = Mask(functools.partial(_live, p, i, own, full, params, shapes), *own)
        alive, gs[i] = (mask, g) if is_finite(g) else cleaned(mask, g)
        aval = avals[i]
        if alive is not None and aval is not None and g.shape != aval.shape:
            alive = Mask(functools.partial(_fit, alive, aval.shape), alive)
        masks.append(alive)
    return gs, masks


def _aval_of(x: Value) -> Aval:
    return Aval((), np.dtype(np.float32)) if x is None else aval_of(x)


def _live(
    p: Primitive, i: int, own: Sequence[Mask | None], avals: Sequence[Aval], params: Any, outs: Sequence[Shape]
) -> Value:
    """Return where operand i is alive, given the masks of an op's outputs, of which one at least has one."""
    alive = [np.ones(s, bool) if m is None else m.get() for m, s in zip(own, outs, strict=True)]
    return live_operand(p, i, alive, avals, params, outs)


def _fit(mask: Mask, shape: Shape) -> Value:
    return fit_mask(mask.get(), shape)
