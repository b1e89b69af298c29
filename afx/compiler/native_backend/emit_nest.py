"""Loop nests as LLVM IR: fused elementwise operations, with NumPy's own loops called on strips that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from afx.compiler.native_backend.call_loop import call_loop
from afx.compiler.native_backend.emit_index import emit_extreme, emit_indexed
from afx.compiler.native_backend.emit_op import emit, memory_type, number, read, read_one, written
from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.program import (
    Extreme,
    Fast,
    Indexed,
    Inner,
    Leaf,
    Load,
    Nest,
    Number,
    Op,
    Product,
    Ref,
    UfuncLoop,
)
from afx.compiler.native_backend.writer import Writer
from afx.core.aval import Shape

__all__ = ["emit_step", "on_roots", "roots_of"]

STRIP = 512  # elements of a strip: eight values of a strip of float64 fill the first cache
VECTOR_BYTES = 64  # of the widest elements that are computed at once: LLVM splits what is wider than the processor
MAX_LANES = 32


def roots_of(step: Leaf) -> list[int]:
    """Return the roots that a step reads or writes, each once."""
    if isinstance(step, Nest):
        refs = [v.ref for v in step.values if isinstance(v, Load)] + [ref for _, ref in step.stores]
    else:
        refs = [*step.operands]
    return sorted({ref.root for ref in refs})


def on_roots(step: Leaf, numbers: Mapping[int, int]) -> Leaf:
    """Return a step with other roots."""

    def root(ref: Ref) -> Ref:
        return attrs.evolve(ref, root=numbers[ref.root])

    if isinstance(step, Inner | Product):
        return attrs.evolve(step, operands=tuple(map(root, step.operands)))
    if isinstance(step, Indexed):
        indices = tuple(map(root, step.indices))
        return attrs.evolve(step, part=root(step.part), whole=root(step.whole), indices=indices)
    if isinstance(step, Extreme):
        return attrs.evolve(step, x=root(step.x), out=root(step.out))
    values = tuple([Load(root(v.ref)) if isinstance(v, Load) else v for v in step.values])
    return attrs.evolve(step, values=values, stores=tuple([(k, root(ref)) for k, ref in step.stores]))


def emit_step(w: Writer, step: Leaf, attributes: str = "") -> str:
    """Add the function of a step, whose parameters are its roots; return its name."""
    name = f"@{type(step).__name__.lower()}{w.fresh()}"
    roots = ", ".join([f"ptr noalias %r{k}" for k in roots_of(step)])

    def body() -> None:
        if isinstance(step, Nest):
            _Nest(w, step).emit()
        elif isinstance(step, Inner):
            _inner(w, step)
        elif isinstance(step, Indexed):
            emit_indexed(w, step)
        elif isinstance(step, Extreme):
            emit_extreme(w, step)
        else:
            sizes = [str(n) for n in step.sizes]
            steps = [ref.strides[0] if ref.strides else 0 for ref in step.operands] + [*step.core_strides]
            call_loop(w, step.loop, [_start(w, ref) for ref in step.operands], sizes, steps)
        w.hand_over_faults("%fault")
        w.line("ret void")

    w.function(f"internal void {name}({roots}, ptr noalias %fault) {attributes}", body)
    return name


def _start(w: Writer, ref: Ref) -> str:
    return w.shifted(f"%r{ref.root}", ref.offset)


def _over(w: Writer, space: Shape, refs: Sequence[Ref], body: Callable[[list[str]], None]) -> None:
    """Add loops over the outer axes; the body gets the operands' pointers."""

    def nested(axis: int, pointers: list[str]) -> None:
        if axis == len(space):
            body(pointers)
            return
        w.loop("0", str(space[axis]), 1, lambda i: nested(axis + 1, moved(axis, pointers, i)))

    def moved(axis: int, pointers: list[str], i: str) -> list[str]:
        return [_element(w, p, i, ref.strides[axis]) for p, ref in zip(pointers, refs, strict=True)]

    nested(0, [_start(w, ref) for ref in refs])


def _element(w: Writer, pointer: str, i: str, stride: int) -> str:
    """Return the pointer to an element so many strides further."""
    return w.shifted(pointer, w.let(f"mul nsw i64 {i}, {stride}")) if stride else pointer


def _inner(w: Writer, step: Inner) -> None:
    length = str(step.space[-1]) if step.space else "1"
    strides = [ref.strides[-1] if ref.strides else 0 for ref in step.operands]
    _over(w, step.space[:-1], step.operands, lambda pointers: call_loop(w, step.loop, pointers, [length], strides))


class _Nest:
    """Emitter of one nest.

    Operations of one level run in one loop; calls of NumPy's loops, each on a strip, stand at odd levels between.
    """

    def __init__(self, w: Writer, nest: Nest) -> None:
        self.w = w
        self.nest = nest
        self.levels = self._levels()
        self.length = nest.space[-1] if nest.space else 1
        self.loads: dict[int, str] = {}
        self.targets: list[str] = []
        self.strips: dict[int, str] = {}
        self.direct: set[int] = set()
        self.refs = [v.ref for v in nest.values if isinstance(v, Load)] + [ref for _, ref in nest.stores]

    def emit(self) -> None:
        """Add the loops."""
        _over(self.w, self.nest.space[:-1], self.refs, self._row)

    def _levels(self) -> list[int]:
        found: list[int] = []
        for value in self.nest.values:
            if not isinstance(value, Op):
                found.append(0)
                continue
            calls = isinstance(value.name, UfuncLoop)
            level = 1 if calls else 0
            for k in value.args:
                arg = self.nest.values[k]
                if isinstance(arg, Op):
                    odd = isinstance(arg.name, UfuncLoop)
                    level = max(level, found[k] + (odd != calls) + 2 * (odd and calls))
            found.append(level)
        return found

    def _row(self, pointers: list[str]) -> None:
        """Add the loops over one row: at once, or strip by strip."""
        loads = [k for k, v in enumerate(self.nest.values) if isinstance(v, Load)]
        self.loads = dict(zip(loads, pointers, strict=False))
        self.targets = pointers[len(loads) :]
        if self.length <= STRIP or not any(level % 2 for level in self.levels):
            self._strip("0", self.length)
            return
        whole = self.length // STRIP * STRIP
        self.w.loop("0", str(whole), STRIP, lambda start: self._strip(start, STRIP))
        if whole < self.length:
            self._strip(str(whole), self.length - whole)

    def _strip(self, start: str, count: int) -> None:
        """Add the levels of one strip: loops of inline operations and calls by turns."""
        self._place_strips(start)
        last = max(self.levels)
        for level in range(last + 1 + last % 2):
            ops = [k for k, v in enumerate(self.nest.values) if isinstance(v, Op) and self.levels[k] == level]
            if level % 2:
                for k in ops:
                    self._call(k, start, count)
            else:
                self._inline(level, ops, start, count)

    def _place_strips(self, start: str) -> None:
        """Choose memory for values that a later level reads: an output where that is dense, else a local strip."""
        values, w = self.nest.values, self.w
        later = {
            k
            for j, value in enumerate(values)
            if isinstance(value, Op)
            for k in value.args
            if isinstance(values[k], Op) and self.levels[k] < self.levels[j]
        }
        later |= {k for k, _ in self.nest.stores if self.levels[k] % 2}
        self.strips, self.direct = {}, set()
        for n, (k, ref) in enumerate(self.nest.stores):
            if k in later and k not in self.strips and _inner_stride(ref) == _size(ref.dtype):
                self.strips[k] = _element(w, self.targets[n], start, _size(ref.dtype))
                self.direct.add(n)
        for k in sorted(later - set(self.strips)):
            kind = memory_type(self._dtype(k))
            self.strips[k] = w.local(f"[{min(STRIP, self.length)} x {kind}]", 64)

    def _dtype(self, k: int) -> str:
        value = self.nest.values[k]
        return value.ref.dtype if isinstance(value, Load) else value.dtype

    def _call(self, k: int, start: str, count: int) -> None:
        op = self.nest.values[k]
        assert isinstance(op, Op)
        assert isinstance(op.name, UfuncLoop)
        found = [self._operand(j, start) for j in op.args]
        out = self.strips.get(k) or self.w.local(f"[{min(STRIP, self.length)} x {memory_type(op.dtype)}]", 64)
        call_loop(
            self.w, op.name, [*[p for p, _ in found], out], [str(count)], [*[s for _, s in found], _size(op.dtype)]
        )

    def _operand(self, j: int, start: str) -> tuple[str, int]:
        """Return the pointer and the stride with which NumPy's loop reads an operand."""
        value = self.nest.values[j]
        if isinstance(value, Number):
            place = self.w.local(memory_type(value.dtype), 16)
            written(self.w, value.dtype, number(self.w, value), place)
            return place, 0
        if isinstance(value, Load):
            stride = value.ref.strides[-1] if value.ref.strides else 0
            return _element(self.w, self.loads[j], start, stride), stride
        return self.strips[j], _size(value.dtype)

    def _inline(self, level: int, ops: list[int], start: str, count: int) -> None:
        """Add loops for the operations of a level and the stores that become possible there.

        The first loop computes vectors; what is left over takes vectors of half the size, and half of that.
        """
        stores = [
            n
            for n, (k, _) in enumerate(self.nest.stores)
            if n not in self.direct and self.levels[k] + self.levels[k] % 2 == level
        ]
        kept = [k for k in ops if k in self.strips]
        if not stores and not kept:
            return
        at, width = 0, self._lanes(ops, stores)
        while width:
            whole = count - (count - at) % width
            self.w.lanes = width
            if whole - at > width:
                self.w.loop(str(at), str(whole), width, lambda i: self._element(ops, kept, stores, start, i))
            elif whole > at:
                self._element(ops, kept, stores, start, str(at))
            at, width = whole, width // 2
        self.w.lanes = 1

    def _lanes(self, ops: list[int], stores: list[int]) -> int:
        """Return how many elements are computed at once: one where neighbours are not next to each other."""
        reads = {j for k in ops for j in self._args(k)} | {self.nest.stores[n][0] for n in stores}
        values = [self.nest.values[k] for k in reads]
        refs = [v.ref for v in values if isinstance(v, Load)] + [self.nest.stores[n][1] for n in stores]
        if not self.nest.space or any(ref.strides[-1] not in (0, _size(ref.dtype)) for ref in refs):
            return 1
        if any(self.nest.stores[n][1].strides[-1] == 0 for n in stores):
            return 1
        widest = max([_size(self._dtype(k)) for k in (*reads, *ops)])
        return min(MAX_LANES, VECTOR_BYTES // widest)

    def _args(self, k: int) -> tuple[int, ...]:
        value = self.nest.values[k]
        return value.args if isinstance(value, Op) else ()

    def _element(self, ops: list[int], kept: list[int], stores: list[int], start: str, i: str) -> None:
        """Add the operations of one level on one element."""
        w, values = self.w, self.nest.values
        at = i if start == "0" else w.let(f"add nsw i64 {start}, {i}")
        known: dict[int, str] = {}

        def get(k: int) -> str:
            value = values[k]
            if isinstance(value, Number):
                return number(w, value)
            if k not in known:
                if isinstance(value, Load):
                    load = read if _inner_stride(value.ref) else read_one
                    known[k] = load(w, value.ref.dtype, self._at(self.loads[k], value.ref, at))
                else:
                    dense = Ref(0, value.dtype, 0, (_size(value.dtype),))
                    known[k] = read(w, value.dtype, self._at(self.strips[k], dense, i))
            return known[k]

        for k in ops:
            op = values[k]
            assert isinstance(op, Op)
            assert not isinstance(op.name, UfuncLoop)
            args = [get(j) for j in op.args]
            if isinstance(op.name, Fast):
                known[k] = emit_fast(w, op.name, args, op.dtype)
            else:
                known[k] = emit(w, op.name, args, [self._dtype(j) for j in op.args], op.dtype)
            if k in kept:
                dense = Ref(0, op.dtype, 0, (_size(op.dtype),))
                written(w, op.dtype, known[k], self._at(self.strips[k], dense, i))
        for n in stores:
            k, ref = self.nest.stores[n]
            written(w, ref.dtype, get(k), self._at(self.targets[n], ref, at))

    def _at(self, pointer: str, ref: Ref, i: str) -> str:
        """Return the pointer to an element of a row; typed where neighbours are dense, which vectorizes best."""
        stride = _inner_stride(ref) if self.nest.space else 0
        if stride == 0 or i == "0":
            return pointer
        if stride == _size(ref.dtype):
            return self.w.let(f"getelementptr {memory_type(ref.dtype)}, ptr {pointer}, i64 {i}")
        return _element(self.w, pointer, i, stride)


def _size(dtype: str) -> int:
    return int(dtype[1:])


def _inner_stride(ref: Ref) -> int:
    return ref.strides[-1] if ref.strides else _size(ref.dtype)
