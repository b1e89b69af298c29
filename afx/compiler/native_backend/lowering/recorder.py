"""Recorder: runs an op's own implementation on arrays without elements, where no other native form is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.forms import (
    REDUCTIONS,
    add_cast,
    add_fast,
    add_scipy_ufunc,
    add_select,
    add_ufunc,
    loop_of,
    lower_fold,
    start_of_sum,
)
from afx.compiler.native_backend.lowering.memory import (
    Location,
    copy_nest,
    dtype_name,
    fill_nest,
    look,
    of_array,
    part_of,
)
from afx.compiler.native_backend.lowering.products import (
    PRODUCTS,
    find_chains,
    generalized_call,
    lower_matmul,
    multiply_into,
    sum_products,
)
from afx.compiler.native_backend.lowering.recorded import Calls, Recorded
from afx.compiler.native_backend.program.elements import Load, Op, Ref, UfuncLoop, Value
from afx.compiler.native_backend.program.leaves import Nest, Routine, UfuncCall
from afx.compiler.native_backend.program.steps import merged
from afx.compiler.native_backend.service.link import find_ufunc
from afx.compiler.native_backend.standalone.sort_loops import sort_numbers
from afx.compiler.schedule.schedule import Buffer, Call, View
from afx.core import Shape, lookup
from afx.core.scalar_ops import ADD, ALL, MAXIMUM

# --- Recorder: runs an op's own implementation on arrays without elements, and adds the steps of what it does to a
# block


def record(b: BlockBuilder, call: Call, native: Callable[..., None]) -> None:
    """Add a call whose implementation runs on recorded arrays.

    Raises:
        UnsupportedError: it does what has no native form, or too much of it.
    """
    recorder = Recorder(b, call)
    with np.errstate(all="warn"):  # so that what the implementation ignores is seen
        results = [recorder.result(x) for x in call.outputs]
        native(recorder, *results, *[recorder.operand(x) for x in call.operands], **dict(call.params))
        for result, buffer in zip(results, call.outputs, strict=True):
            recorder.finish(result, buffer)


class Recorder(Calls):
    """Adds a step for each thing that is done with recorded arrays."""

    __slots__ = ()

    def loop_dtypes(self, name: str, *dtypes: Any) -> tuple[str, ...]:
        """Return the dtypes of the loop that NumPy takes of a ufunc for operands of dtypes, or Python's numbers."""
        ufunc = find_ufunc(name)
        if ufunc is None:
            raise UnsupportedError(f"{self.op}: a NumPy without {name}")
        return tuple(map(dtype_name, ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))))

    # -- whole arrays --
    def check_floats(self, *xs: Recorded) -> None:
        """Leave the call to NumPy where these are not all float32 or all float64."""
        dtypes = {x.location.dtype for x in xs}
        if len(dtypes) > 1 or not dtypes <= {"f4", "f8"}:
            self.refuse(" and ".join([x.location.dtype for x in xs[1:] or xs]))

    def add(self, to: Recorded, x: Recorded) -> None:
        """Add elements to others."""
        target, space = to.location, to.location.shape
        loads = [Load(p.over(space)) for p in (target, x.location)]
        values: tuple[Value, ...] = (*loads, Op(ADD, target.dtype, (0, 1)))
        self.add_steps([Nest(space, values, ((2, target.ref),), self.quiet)], [to, x], to)

    def multiply(self, x: Recorded, y: Recorded, out: Recorded) -> None:
        """Write the product of two matrices."""
        self.count_step()
        multiply_into(self.b, x.location, y.location, out.location, self.quiet)

    def find_chains(self, dtype: Any, terms: int, like: Iterable[tuple[int, int, str]]) -> Shape:
        """Return where chains end, so that sums of products have the bits of NumPy's product of matrices; () if nowhere.

        Args:
            dtype: of the matrices.
            terms: of each sum.
            like: rows, columns and order of the matrices, of each product.
        """
        kind = dtype_name(np.dtype(dtype))
        products = [*like]
        is_empty = not all(m * terms * n for m, n, _ in products)
        if kind not in ("f4", "f8") or is_empty or (self.b.target.cpu and not self.has_own_bits):
            return ()
        if self.has_own_bits:
            return (terms,)
        found = {find_chains(kind, m, terms, n, turned) for m, n, turned in products}
        return found.pop() if len(found) == 1 else ()

    def sum_products(self, x: Recorded, y: Recorded, out: Recorded, added: int = 0, ends: Shape = ()) -> None:
        """Write sums of products over several axes, for which no matrix is made."""
        self.check_floats(x, y, out)
        sum_products(self.b, x.location, y.location, out.location, self.quiet, added, ends if len(ends) > 1 else ())

    def add_up(self, x: Recorded, axes: Sequence[int], out: Recorded) -> None:
        """Write the sums along axes, one element after the other, as NumPy does where its inner loop runs along the result."""
        z, places = out.location, x.location
        if z.shape[-1] == 1 and not self.has_own_bits:
            self.refuse("sums for one output")
        strides = iter(z.strides)
        total = Ref(
            z.owner, z.dtype, z.offset, tuple([0 if k in axes else next(strides) for k in range(len(places.shape))])
        )
        first = Nest(z.shape, (start_of_sum(z.dtype),), ((0, z.ref),))
        sums = UfuncCall(loop_of(ADD, (z.dtype,) * 3), places.shape, (total, places.ref, total), self.quiet)
        self.b.fixed([first, sums], [places], [z])

    def sort(self, x: Recorded, out: Recorded, axis: int, name: str) -> None:
        """Write elements sorted along an axis by a function of NumPy, or the indices that sort them."""
        if x.location.dtype not in ALL:
            self.refuse(x.location.dtype)
        rows, into = (self.view(y, lambda y: np.moveaxis(y, axis, -1)) for y in (x, out))
        made = into if into.flags.c_contiguous else self.new(into.shape, into.dtype)
        finds_indices = name.startswith("argsort.")
        operands = [self.dense(rows), made] if finds_indices else [made]
        if not finds_indices:
            self.copy(made, rows)
        loop, length, cores = loop_of(name, (x.location.dtype,)), rows.shape[-1], ((0,),) * len(operands)
        refs = tuple([y.location.ref for y in operands])
        space, changes, outputs = (rows.size // length,), not finds_indices, int(finds_indices)
        works = [self.b.temporary((sort_numbers(x.location.ref.size, length),), "f8")] * self.is_standalone
        refs, outputs = (*refs, *[Ref(work.owner, "f8", 0, (0,)) for work in works]), outputs + len(works)
        unstable, has_work = self._unstable_loop(name, x.location.dtype), self.is_standalone
        sort = UfuncCall(
            loop, space, refs, (), cores, (length,), changes=changes, outputs=outputs, unstable=unstable,
            has_work=has_work,
        )  # fmt: skip
        self.count_step()
        self.b.fixed([sort], [operands[0].location], [made.location, *works])
        if made is not into:
            self.copy(into, made)

    def find_first(self, x: Recorded, out: Recorded, axis: int, name: str) -> None:
        """Write the first elements of a stable order along an axis, or the indices of these, of which there are few."""
        rows, into = (self.view(y, lambda y: np.moveaxis(y, axis, -1)) for y in (x, out))
        if x.location.dtype not in ALL:
            self.refuse(x.location.dtype)
        rows, z = self.dense(rows), into.location
        refs = rows.location.ref, Ref(z.owner, z.dtype, z.offset, (*z.strides[:-1], 0))
        self.add_steps([Routine(f"first.{name}", rows.shape, refs, (z.shape[-1], z.strides[-1]))], [rows], out)

    def _unstable_loop(self, name: str, dtype: str) -> UfuncLoop | None:
        """Return the loop of a quicker order that takes the place of the stable one of wide elements, if any does."""
        # of shorter ones NumPy's stable order takes time in proportion to them
        is_replaced = name == "argsort.stable" and dtype[1:] in ("4", "8") and not self.is_standalone
        return loop_of("argsort.quick", (dtype,)) if is_replaced else None

    def search(self, vector: Recorded, values: Recorded, out: Recorded, is_right: bool) -> None:
        """Write where values stand in a sorted vector of their dtype: in front of equal elements, or behind them."""
        a, v, z = vector.location, values.location, out.location
        if v.dtype not in ALL:
            self.refuse(v.dtype)
        if not vector.size:
            self.clear(out)
            return
        space, strides = merged(z.shape, [v.strides, (0,) * len(z.shape), z.strides])
        refs = tuple([attrs.evolve(x.ref, strides=s) for x, s in zip((v, a, z), strides, strict=True)])
        side, sizes = "right" if is_right else "left", (a.shape[0], a.strides[0])
        self.add_steps([Routine(f"search.{side}", space, refs, sizes)], [vector, values], out)

    def words(self, key: Recorded, count: int, dtype: Any, purpose: int, numbers: Recorded | None = None) -> Recorded:
        """Return so many random words of each key, in rows: of its first blocks, or of one with a number."""
        if key.dtype != np.uint32:
            self.refuse(f"a key of {key.dtype}")
        each = 16 // np.dtype(dtype).itemsize
        keys, blocks = key.size // 2, -(-count // each)
        given = [self.dense(x) for x in (key, numbers) if x is not None]
        drawn = self.new((keys, blocks * each), dtype)
        refs = tuple([x.location.ref for x in (*given, drawn)])
        self.add_steps([Routine("philox", (keys, blocks, 4), refs, (purpose,))], given, drawn)
        return Recorded(self, attrs.evolve(drawn.location, shape=(keys, count)))

    # -- LAPACK --
    def matrix(self, x: Recorded) -> Any:
        """Return matrices in float64, in which NumPy computes, of a size that LAPACK does not cut into blocks."""
        self.check_floats(x)
        if x.ndim < 2 or max(x.shape[-2:]) > self.b.limits.matrix_max_length:
            self.refuse(f"{x.location.dtype}{[*x.shape]}")
        if x.location.dtype == "f8":
            return x
        wide = self.new(x.shape, "f8")
        self.write(wide, x)
        return wide

    def call(
        self,
        name: str,
        xs: Sequence[Recorded],
        outs: Sequence[Recorded],
        dtypes: Sequence[str] = (),
        *,
        refuses: bool = True,
        quiet: tuple[str, ...] | None = None,
        changes: int = 0,
    ) -> None:
        """Have the loop of a generalized ufunc write its results.

        Args:
            name: of the ufunc, with its module's in front: LAPACK's stand in ``linalg``.
            xs: operands, which are converted.
            outs: results, of any dtype.
            dtypes: of the loop; float64 where none are given.
            refuses: whether the loop marks operands without a result as invalid operations; NumPy raises then.
            quiet: floating-point errors that it ignores.
            changes: how many of its operands it changes.
        """
        dtypes = dtypes or ("f8",) * (len(xs) + len(outs))
        given = [self.cast(x, dtype) for x, dtype in zip(xs, dtypes, strict=False)]
        made = [
            out if out.dtype == dtype else self.new(out.shape, dtype)
            for out, dtype in zip(outs, dtypes[len(xs) :], strict=True)
        ]
        locations = [x.location for x in (*given, *made)]
        quiet = self.quiet if quiet is None else quiet
        works: list[Location] = []

        def give_work(numbers: int) -> Location:
            works.append(self.b.temporary((numbers,), "f8"))
            return works[0]

        step = generalized_call(
            name, _core_axes(name), locations, quiet, give_work if self.b.limits.is_standalone else None,
            refuses=refuses, changes=changes, outputs=len(outs),
        )  # fmt: skip
        self.count_step()
        self.b.fixed([step], locations[: len(xs)], [*locations[len(xs) :], *locations[:changes], *works])
        for out, result in zip(outs, made, strict=True):
            if result is not out:
                self.copy(out, result)

    @property
    def has_own_bits(self) -> bool:
        """Whether bits may be others than those of NumPy's plan."""
        return self.b.tier > 1

    @property
    def is_standalone(self) -> bool:
        """Whether code is made that stands without NumPy."""
        return self.b.limits.is_standalone

    def refuse_where(self, test: Recorded) -> None:
        """Leave the call to NumPy at run time where any element is true: a matrix without factors."""
        marks = self.where(test, 1.0, 0.0)
        mark = (self.extreme(MAXIMUM, marks, tuple(range(marks.ndim))) if marks.ndim else marks).reshape((1,))
        seen: Recorded = self.new((1,), np.float64)
        self.add_steps([Routine("refuse", (1,), (mark.location.over((1,)), seen.location.over((1,))))], [mark], seen)

    def prepare(self, make: Callable[[], tuple[Any, ...]], _is_cleared: bool = True) -> Callable[[], tuple[Any, ...]]:
        """Return a function that gives an array of zeros and views of it, made when they are asked for."""

        def give() -> tuple[Recorded, ...]:
            whole, *views = make()
            memory = self.new(whole.shape, whole.dtype).location
            location = attrs.evolve(memory, strides=whole.strides)
            whole_memory = Recorded(self, location)
            if _is_cleared:
                self.clear(whole_memory)
            return (whole_memory, *[Recorded(self, part_of(location, whole, view)) for view in views])

        return give


def _core_axes(name: str) -> list[list[str]]:
    """Return the axes of the operands and results of a generalized ufunc, those of one length with one name."""
    parts: list[str] = re.findall(r"\((.*?)\)", find_ufunc(name).signature)
    return [[axis.strip() for axis in part.split(",") if axis.strip()] for part in parts]


# --- Native forms of calls: by their methods, by their ops' roles, or recorded from what their ops' implementations
# do


def lower_call(b: BlockBuilder, call: Call) -> None:
    """Add one call to a block.

    Raises:
        UnsupportedError: it has no native form.
    """
    lower = METHODS.get(call.method)
    if lower is None:
        raise UnsupportedError(f"{call.op}.{call.method} has no native form")
    if not _makes_nothing(b, call) and not (b.tier > 1 and lower_fold(b, call)):
        lower(b, call)


def lower_view(b: BlockBuilder, view: View) -> None:
    """Add a view to a block, a copy where NumPy makes one."""
    if view.out.nbytes == 0:  # of memory that nobody reads
        b.own_buffer(view.out)
    elif b.look(view.out, view.op, view.params, b.locations[view.source.index]):
        b.take_part(view.out, view.source)
    else:
        lower_call(b, Call(view.op, "apply", (view.source,), ("disjoint",), (view.out,), "", view.params, True))


def _makes_nothing(b: BlockBuilder, call: Call) -> bool:
    """Enter results without elements, or products of nothing; tell whether a call has such results.

    Raises:
        UnsupportedError: it makes others of operands without elements, and has no native form for those.
    """
    is_named = METHODS[call.method] is _apply
    if is_named and lookup(call.op).lowering.takes_empty:
        return False
    if any(out.nbytes for out in call.outputs):
        is_void = any(0 in x.shape for x in call.operands)
        if is_void and is_named:
            raise UnsupportedError(f"{call.op} of no elements")
        if is_void and call.method in ("ufunc", *PRODUCTS):
            (buffer,) = call.outputs
            location = b.own_buffer(buffer)
            b.fixed([fill_nest(location)], [], [location])
            return True
        return False
    if is_named and lookup(call.op).lowering.native is None and lookup(call.op).algebra.canonical not in ROLES:
        return False
    for out in call.outputs:
        b.own_buffer(out)
    return True


def _ufunc(b: BlockBuilder, call: Call) -> None:
    ufunc = getattr(np, call.ufunc, None)
    if isinstance(ufunc, np.ufunc) and ufunc.signature is not None:
        lower_matmul(b, call)
    else:
        add_ufunc(b, call.outputs[0], call.ufunc, call.operands, call.error_state)


def _cast(b: BlockBuilder, call: Call) -> None:
    add_cast(b, call.outputs[0], call.operands[0], call.error_state)


def _select(b: BlockBuilder, call: Call) -> None:
    add_select(b, call.outputs[0], call.operands)


def _copy(b: BlockBuilder, call: Call) -> None:
    """Copy to a dense array of another shape."""
    x = b.location(call.operands[0])
    out = b.own_buffer(call.outputs[0])
    b.fixed([copy_nest(look(out, lambda v: v.reshape(x.shape)), x)], [x], [out])


def _apply(b: BlockBuilder, call: Call) -> None:
    """Do as the op's record says: look at a constant, share loops over elements, record the implementation, or call SciPy."""
    p, (x, *rest), (out, *_) = lookup(call.op), call.operands, call.outputs
    is_number = not rest and not isinstance(x, Buffer)
    if is_number and p.lowering.may_alias and b.look(out, call.op, call.params, b.location(x)):
        pass
    elif p.algebra.canonical in ROLES:
        ROLES[p.algebra.canonical](b, call)
    elif p.lowering.native is not None:
        record(b, call, p.lowering.native)
    elif add_fast(b, out, call.op, call.operands, call.error_state):
        pass
    elif p.lowering.scipy_ufunc:
        add_scipy_ufunc(b, out, p.lowering.scipy_ufunc, call.operands, call.error_state)
    else:
        raise UnsupportedError(f"{call.op} has no native form")


def _copies(b: BlockBuilder, call: Call) -> None:
    """Copy each of the views that an op makes."""
    source = b.location(call.operands[0])
    x = of_array(source)
    views = lookup(call.op).impl(x, **dict(call.params))
    if not all(np.may_share_memory(x, z) or not z.size for z in views):
        raise UnsupportedError(f"{call.op} that copies")
    outs = [b.own_buffer(out) for out in call.outputs]
    steps = [copy_nest(out, part_of(source, x, z)) for out, z in zip(outs, views, strict=True) if z.size]
    b.fixed(steps, [source], outs)


Form = Callable[[BlockBuilder, Call], None]
ROLES: dict[str, Form] = {"cast": _cast, "select": _select, "reshape": _copy}  # of ops, as `Algebra.canonical`
METHODS: dict[str, Form] = {
    "ufunc": _ufunc,
    **REDUCTIONS,
    **PRODUCTS,
    "into": _apply,
    "kernel": _apply,
    "apply": _apply,
    "copy": _copy,
    "copies": _copies,
}
