"""Compiled call: a compiled graph as a primitive, who runs it, and jitted functions under other transformations."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs
import numpy as np

from afx.compiler.executable import Plan, count_constants, make_plan
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.native_backend.run.swap import foresee, is_installed
from afx.compiler.native_backend.service.helper import choose_folder, open_folder
from afx.compiler.target import Target, current, portable_target
from afx.core import Aval, bind, to_array
from afx.core.graph import Graph, Var, walk
from afx.core.primitive import (
    Bools,
    JointPullback,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    holds_graphs,
    to_argument,
)
from afx.core.tracing.tape import Entry, Tape, TapeTracer
from afx.core.tracing.traces import (
    BatchTrace,
    BatchTracer,
    GraphTrace,
    GraphTracer,
    JVPTrace,
    JVPTracer,
    Unbatched,
    evaluate,
)
from afx.errors import ArgumentError, MissingExtraError
from afx.ops import broadcast_to
from afx.ops._kinds.linear import higher_order
from afx.runtime.thread_pool import between_forks, undisturbed
from afx.transforms.derivatives import backward_pass
from afx.transforms.derivatives.cotangent_masks import (
    ALIVE,
    DEAD,
    MARKED,
    GraphPullback,
    Mask,
    clean,
    kinds_of,
    owned_only,
)
from afx.transforms.derivatives.residuals import Residuals, choose_residuals

# --- Back ends: who runs compiled functions, NumPy's calls or machine code

Backend: TypeAlias = Literal["auto", "numpy", "native"]
JitBackend: TypeAlias = Literal["auto", "numpy", "native", "portable"]
Denormals: TypeAlias = Literal["keep", "flush"]


def set_backend(backend: Backend) -> None:
    """Set who runs functions that are compiled from now on; `afx.jit` takes the same word for one function.

    Args:
        backend: ``"auto"``: calls of NumPy at once. After some milliseconds of calls another process compiles machine code
            with the same bits, which is kept where it is faster. ``"numpy"``: calls of NumPy
            alone. ``"native"``: machine code before the first call, which waits for it, with bits of its own: functions
            within 1 ulp (0.51 of float32) by polynomials on vectors; the process that compiles starts at once. It needs
            the extra ``native`` (llvmlite). Functions that have no native form run calls of NumPy;
            ``fn.lower(*args).status`` says who runs, and why.

    Raises:
        ArgumentError: another word.
        MissingExtraError: ``"native"`` without llvmlite.

    >>> before = get_backend()
    >>> set_backend("numpy")
    >>> get_backend()
    'numpy'
    >>> set_backend(before)
    """
    check_backend("set_backend", backend)
    current.set(with_backend(current.target, backend))
    foresee_code(backend)


def set_code_cache(folder: str | os.PathLike[str] | None) -> None:
    """Keep machine code in a folder, so that later processes begin with it; None keeps none.

    By default it is the folder ``afx`` in the user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches``
    on macOS); the environment variable ``AFX_CODE_CACHE`` names another one, or none as ``0``; one
    that cannot hold code is named by the logger ``afx.jit``, and nothing is kept. With machine code is kept
    whether it was faster than NumPy's calls; that it was not, for minutes, and not of functions that hold a while loop or
    a branch, whose work depends on values. What lies there runs as code. So the folder belongs to the user, and no one
    else may read or write it; it is made so where it does not exist. Files are named by the digest of program, processor and
    versions, and checked before they are loaded; beyond 256 MB those that were not used for longest go. Other files there
    are left alone.

    Args:
        folder: such as ``Path.home() / ".cache" / "afx"``.

    Raises:
        ArgumentError: the folder belongs to another user, is open to others, or cannot be made.

    >>> set_code_cache(None)
    """
    path = None if folder is None else Path(folder).expanduser().absolute()
    if path is not None and (reason := open_folder(path)):
        raise ArgumentError(
            f"set_code_cache: {path} cannot hold code: {reason}; name a folder of your own, or a new one"
        )
    choose_folder("" if path is None else str(path))


def foresee_code(backend: JitBackend | None) -> None:
    """Get ready to compile, without waiting: where the back end's first call will wait for it, by LLVM at once."""
    if not is_installed():
        return
    with undisturbed:
        if backend in ("native", "portable"):
            with between_forks():
                from afx.compiler.native_backend.service.process import service
            service.start()
        elif backend == "auto":
            foresee()


def get_backend() -> JitBackend:
    """Return who runs functions that are compiled from now on: the word given to `afx.set_backend`.

    >>> get_backend()
    'auto'
    """
    return current.target.backend


def check_backend(who: str, backend: object) -> None:
    """Raise where a word names no back end, or one that is not installed."""
    known = get_args(JitBackend if who == "jit" else Backend)
    if backend not in known:
        raise ArgumentError(f"{who}: a back end is one of {', '.join(known)}: got {backend!r}; give one of these")
    if backend in ("native", "portable") and not is_installed():
        raise MissingExtraError(f'{who}: the back end "{backend}" needs llvmlite: pip install "afx[native]"')


def with_backend(target: Target, backend: JitBackend | None, denormals: Denormals | None = None) -> Target:
    """Return a target with another back end, or another treatment of denormals; None leaves it as it is.

    >>> with_backend(Target(), "native").backend
    'native'
    """
    if backend == "portable":
        return portable_target()
    if denormals is not None:
        target = attrs.evolve(target, denormals=denormals)
    return target if backend is None else attrs.evolve(target, backend=backend)


def set_denormals(denormals: Denormals | None) -> None:
    """Set what functions that are compiled from now on do with denormal numbers; `afx.jit` takes the word for one function.

    Denormal numbers lie between 0 and the smallest normal one, 1.2e-38 of float32. On many processors an operation with
    one takes a hundred times as long. "Flush" takes those of operands, and those of results, as zeros of their sign, in
    NumPy's calls and machine code alike, while a compiled function runs; operations outside of `afx.jit` keep them.

    Args:
        denormals: ``"flush"``: all compiled functions flush, float64 too; ``"keep"``: none does; None, as it is in the
            beginning: those flush that compute in float32 or complex64, with 4096 numbers at least, in all
            operations and steps of loops, and at most a sixteenth as many of float64 and complex128. Within
            ``np.errstate(under=...)`` other than ``"ignore"`` all keep them, so that underflow is heard of.

    Raises:
        ArgumentError: another word.

    >>> halve = afx.jit(lambda x: x / 2)
    >>> x = afx.asarray([1.2e-38])
    >>> set_denormals("flush")
    >>> halve(x)
    Array([0.], dtype=float32)
    >>> set_denormals(None)
    >>> halve(x)
    Array([6.e-39], dtype=float32)
    """
    check_denormals("set_denormals", denormals)
    current.set(attrs.evolve(current.target, denormals=denormals or "auto"))


def check_denormals(who: str, denormals: object) -> None:
    """Raise where a word does not say what becomes of denormals."""
    if denormals is not None and denormals not in get_args(Denormals):
        raise ArgumentError(f'{who}: denormals are "keep" or "flush": got {denormals!r}; give one of these')


# --- Compiled call: a compiled graph as a primitive, and jitted functions under the other transformations
#
# Under `grad` the graph runs as one tape entry: a forward plan that also returns what the backward plan reads, and
# that backward plan. Both are traced from the graph once and kept with it. An abstract trace takes the equations in.

K = TypeVar("K")
V = TypeVar("V")

DERIVED = 64  # programs of one kind that are kept with a graph


class CompiledGraph:
    """A graph, its plan, and the graphs derived from it, each made when first needed."""

    __slots__ = (
        "__weakref__",
        "_batches",
        "_donated",
        "_pairs",
        "_plan",
        "_primals",
        "_pushes",
        "_spreads",
        "_target",
        "graph",
        "is_forgotten",
    )

    def __init__(self, graph: Graph, donated: Collection[int] = (), target: Target | None = None) -> None:
        self.graph: Graph = graph
        self._donated = donated
        self._target = current.target if target is None else target
        self._plan: Plan | None = None
        self.is_forgotten: bool = False
        self._pairs: dict[tuple[Bools, int | None], VjpGraphs] = {}
        self._primals: dict[Bools, CompiledGraph] = {}
        self._pushes: dict[Bools, JvpGraph] = {}
        self._batches: dict[tuple[int, Bools], CompiledGraph] = {}
        self._spreads: dict[tuple[int, Bools], tuple[CompiledGraph, list[bool]]] = {}

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, CompiledGraph) and self.graph == other.graph)

    def __hash__(self) -> int:
        return hash((self.graph.inputs, len(self.graph), self.graph.outputs))  # cheap: constants may be large

    def __repr__(self) -> str:
        return f"<{self.graph.label}>"

    def __reduce__(self) -> tuple[type[CompiledGraph], tuple[Graph, tuple[int, ...]]]:
        return CompiledGraph, (self.graph, tuple(self._donated))  # all else is made again

    @property
    def plan(self) -> Plan:
        """The plan of the graph."""
        plan = self._plan
        if plan is None:
            with undisturbed:
                plan = make_plan(simplify(self.graph, self._target, expanding=True), self._donated, self._target)
            if self.graph.constants:
                plan.idle.fixed_bytes += count_constants(self.graph, plan.graph)
            plan.idle.forget = weakref.WeakMethod(self.forget)
            self._plan, self.is_forgotten = plan, False
        return plan

    @property
    def made_plan(self) -> Plan | None:
        """The plan; None where there is none."""
        return self._plan

    def forget(self) -> None:
        """Let go of the plan; it is made again where it is needed."""
        self._plan, self.is_forgotten = None, True

    def with_graph(self, graph: Graph) -> CompiledGraph:
        """Return another graph for the same target."""
        return CompiledGraph(graph, target=self._target)

    def vjp_graphs(self, wanted: Bools, consts: int | None = None) -> VjpGraphs:
        """Return the forward and backward programs for derivatives by these inputs.

        Args:
            wanted: which inputs have derivatives.
            consts: of a loop's step, how many inputs, the first ones, do not change; it keeps as few residuals as it can.
        """
        return memoize(self._pairs, (wanted, consts), lambda: _split(self, wanted, consts))

    def primal(self, wanted: Bools) -> CompiledGraph:
        """Return the program of the outputs that its derivatives by these inputs go with, for outer derivatives of them.

        There the forward rules of functions with rules of their own stand in place of these functions.
        """
        calls = (eq.primitive for graph in walk(self.graph) for eq in graph.equations)
        if not any(p.opaque and holds_graphs(p) for p in calls):
            return self
        return memoize(self._primals, wanted, lambda: _primal(self, wanted))

    def batched(self, size: int, flags: Bools) -> CompiledGraph:
        """Return the program mapped over a batch axis in front of these inputs, and of every output."""
        key = (size, flags)
        return memoize(self._batches, key, lambda: _batched(self, size, flags, whole=True)[0])

    def batched_where_needed(self, size: int, flags: Bools) -> tuple[CompiledGraph, list[bool]]:
        """Return the program mapped over a batch axis in front of these inputs, and which outputs have one then."""
        return memoize(self._spreads, (size, flags), lambda: _batched(self, size, flags, whole=False))

    def jvp_graph(self, moving: Bools) -> JvpGraph:
        """Return the program of outputs and tangents, where these inputs have tangents."""
        return memoize(self._pushes, moving, lambda: _push(self, moving))


def memoize(known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return what was made for a key, or make it; the oldest are forgotten."""
    value = known.get(key)
    if value is None:
        value = make()
        while len(known) >= DERIVED:
            known.pop(next(iter(known)), None)
        known[key] = value
    return value


class Back:
    """A backward program: residuals, cotangents of the living outputs and their masks, to cotangents and masks.

    Attributes:
        program: the compiled graph.
        needed: which inputs of the function it gives cotangents of.
        marked: of which inputs it gives masks, behind the cotangents; the others are alive everywhere.
    """

    __slots__ = ("marked", "needed", "program")

    def __init__(self, program: CompiledGraph, needed: list[bool], marked: list[bool]) -> None:
        self.program: CompiledGraph = program
        self.needed: list[bool] = needed
        self.marked: list[bool] = marked

    def sort(self, results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the results of the program as one cotangent and one mask (or None) per input of the function."""
        values = iter(results)
        cts = [next(values) if n else None for n in self.needed]
        return cts, [next(values) if m else None for m in self.marked]


class VjpGraphs:
    """A forward program (outputs, then residuals) and a backward one (residuals and cotangents to cotangents)."""

    __slots__ = (
        "_backs",
        "_entered",
        "_entries",
        "_lines",
        "_outs",
        "_residuals",
        "forward",
        "makes_masks",
        "owned",
        "step_graphs",
        "whole",
    )

    def __init__(
        self,
        forward: CompiledGraph,
        entries: list[Entry],
        residuals: Residuals,
        ends: tuple[list[Any], ...],
        lines: dict[int, Any],
    ) -> None:
        self.forward: CompiledGraph = forward
        self._entries = entries
        self._lines = lines
        self._residuals = residuals
        self.owned: list[bool] = ends[2]
        self._entered, self._outs = ends[:2]
        self.makes_masks: bool = backward_pass.makes_masks(entries)
        self._backs: dict[tuple[bool, tuple[int, ...]], Back] = {}
        self.step_graphs: dict[bool, Any] = {}  # of a loop, without and with masks
        self.whole: Back = self._walk_back([ALIVE if own else DEAD for own in self.owned], marking=False)

    @property
    def is_bounded(self) -> bool:
        """Whether finite operands give finite partials throughout, but for overflow."""
        safe = backward_pass.entries_with_finite_partials(self._entries)
        known = ("linear", "bilinear")
        return all(
            k in safe
            or e.primitive is None
            or e.primitive.kind in known
            or not any(e.primitive.derivative.reads or (1,))
            for k, e in enumerate(self._entries)
        )

    def masked(self, kinds: Sequence[int]) -> Back:
        """Return the backward program for outputs that are dead, alive or marked."""
        return self._back(kinds, marking=True)

    def partial(self, kinds: Sequence[int]) -> Back:
        """Return the backward program without masks for outputs that are dead or alive."""
        dead = any(own and kind == DEAD for kind, own in zip(kinds, self.owned, strict=True))
        return self._back(kinds, marking=False) if dead else self.whole

    def living_inputs(self, kinds: Sequence[int], first: int, count: int) -> list[bool]:
        """Return which inputs of a loop's step are read for living outputs by the last step or one before it.

        Args:
            kinds: which outputs of the loop are dead; its carry comes first.
            first: the input with which the carry begins.
            count: the length of the carry.
        """
        live = list(kinds)
        while True:
            needed = self.partial(live).needed
            after = [ALIVE if n else old for n, old in zip(needed[first : first + count], live, strict=False)]
            if after == live[:count]:
                return needed
            live[:count] = after

    def _back(self, kinds: Sequence[int], *, marking: bool) -> Back:
        key = tuple([kind if own else DEAD for kind, own in zip(kinds, self.owned, strict=True)])
        return memoize(self._backs, (marking, key), lambda: self._walk_back(key, marking=marking))

    def _walk_back(self, kinds: Sequence[int], *, marking: bool) -> Back:
        """Return the compiled backward pass for cotangents of these kinds; with ``marking``, the masks of the operands too."""
        backward_trace = GraphTrace("backward pass")
        stand_in = self._residuals.enter(backward_trace)
        tape = Tape("jit")
        tape.entries = [_moved(e, stand_in) for e in self._entries]
        tape.lines = self._lines
        tape.is_ground = False
        tape.has_selections = True
        seeds: dict[int, Value] = {}
        marks: dict[int, Value] = {}
        living = [(x, kind) for x, kind in zip(self._outs, kinds, strict=True) if kind != DEAD]
        for x, _ in living:
            ct = backward_trace.input(Aval(x.shape, x.dtype))
            seeds[x._index] = seeds[x._index] + ct if x._index in seeds else ct
        for x, _ in [pair for pair in living if pair[1] >= MARKED]:
            mark = backward_trace.input(Aval(x.shape, np.dtype(bool)))
            marks[x._index] = marks[x._index] | mark if x._index in marks else mark
        whole = {x._index for x, kind in living if kind == ALIVE}
        given = {index: mark for index, mark in marks.items() if index not in whole}
        masks: Mapping[int, Mask] = {}
        if marking:
            cotangents, masks = backward_pass.backward_with_masks(tape, seeds, given, soft=MARKED not in kinds)
        else:
            cotangents = backward_pass.backward(tape, seeds)
        inputs = [t._index if isinstance(t, TapeTracer) else -1 for t in self._entered]
        needed = [i >= 0 and cotangents[i] is not None for i in inputs]
        marked = [n and i in masks and not masks[i].is_whole() for i, n in zip(inputs, needed, strict=True)]
        cts = [clean(masks.get(i), cotangents[i]) for i, n in zip(inputs, needed, strict=True) if n]
        alive = [to_array(masks[i].get()) for i, m in zip(inputs, marked, strict=True) if m]
        return Back(self.forward.with_graph(backward_trace.finish([*cts, *alive])), needed, marked)


class JvpGraph:
    """A program of outputs and of the tangents of those that move."""

    __slots__ = ("moves", "program")

    def __init__(self, program: CompiledGraph, moves: list[bool]) -> None:
        self.program: CompiledGraph = program
        self.moves: list[bool] = moves


def call(program: CompiledGraph, *xs: Any) -> tuple[Any, ...]:
    """Run a program on Arrays, traced or not."""
    outs: tuple[Any, ...] = bind(call_p, *xs, program=program)
    return outs


def _run(*xs: Any, program: CompiledGraph) -> tuple[Any, ...]:
    return tuple(program.plan(*map(to_argument, xs)))


def _abstract(*avals: Aval, program: CompiledGraph) -> tuple[Aval, ...]:
    return tuple([a.aval for a in program.graph.outputs])


def _record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    """Return the results of a compiled call, its residuals, and its pullback: a call of the compiled backward pass."""
    program: CompiledGraph = params["program"]
    pair = program.vjp_graphs(wanted)
    results = call(pair.forward, *xs)
    count = len(program.graph.outputs)

    def joint(ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        cts = [to_array(c) for c, o in zip(ct, pair.owned, strict=True) if o and c is not None]
        if not cts:
            return [None] * len(wanted)
        back = pair.partial(kinds_of(ct))
        return back.sort(call(back.program, *[to_array(v) for v in residuals], *cts))[0]

    def masked(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        given = list(owned_only(kinds, pair.owned, cts, masks))
        back = pair.masked(kinds)
        return back.sort(call(back.program, *residuals, *given))

    return results[:count], results[count:], GraphPullback(joint, masked, makes_masks=pair.makes_masks, is_inlined=True)


def _split(program: CompiledGraph, wanted: Bools, consts: int | None) -> VjpGraphs:
    """Trace a graph's forward run with a tape above; the walk back over that tape becomes graphs of their own."""
    with GraphTrace("forward pass") as outer_trace:
        tape = Tape("jit")
        inputs = [outer_trace.input(v.aval) for v in program.graph.inputs]
        entered = [tape.input(x) if w else x for x, w in zip(inputs, wanted, strict=True)]
        outs: list[Any] = [*evaluate(program.graph, *entered)]
        tape.finish()
        owned = [isinstance(x, TapeTracer) and x._trace is tape for x in outs]
        plain = [x._value if o else x for x, o in zip(outs, owned, strict=True)]
        wanted_vars = _residuals(tape.entries)
        residuals = Residuals({id(v): v for v in wanted_vars})
        if consts is not None:
            fixed = [v for x in inputs[:consts] if (v := outer_trace.var_of(x)) is not None]
            residuals = choose_residuals(wanted_vars, outer_trace.equations, fixed)
        forward = program.with_graph(outer_trace.finish([*plain, *map(outer_trace.tracer, residuals.saved.values())]))
    return VjpGraphs(forward, tape.entries, residuals, (entered, outs, owned), tape.lines)


def _primal(program: CompiledGraph, wanted: Bools) -> CompiledGraph:
    forward, trace = program.vjp_graphs(wanted).forward.graph, GraphTrace("forward pass")
    outs = evaluate(forward, *[trace.input(v.aval) for v in forward.inputs])
    return program.with_graph(trace.finish(outs[: len(program.graph.outputs)]))


def _residuals(entries: Sequence[Entry]) -> list[Var]:
    """Return the traced values that pullbacks will read."""
    values = [v for e in entries for v in (*_several(e), *e.xs)]
    return list({id(v._var): v._var for v in values if isinstance(v, GraphTracer)}.values())


def _several(entry: Entry) -> tuple[Any, ...]:
    """Return the kept output of an entry as a tuple, whether it has one or several."""
    z = entry.z
    return z if z.__class__ is tuple else (z,)


def _moved(entry: Entry, stand_in: dict[int, GraphTracer]) -> Entry:
    """Return a tape entry whose traced values are inputs of the backward graph."""

    def move(v: Any) -> Any:
        return stand_in[id(v._var)] if isinstance(v, GraphTracer) else v

    zs = tuple(map(move, _several(entry)))
    z = zs if entry.primitive is not None and entry.primitive.multiple_results else zs[0]
    return entry._replace(z=z, xs=tuple(map(move, entry.xs)))


def _push(program: CompiledGraph, moving: Bools) -> JvpGraph:
    with GraphTrace("forward mode") as outer_trace:
        xs = [outer_trace.input(v.aval) for v in program.graph.inputs]
        forward = JVPTrace("jit")
        inputs = [
            forward.input(x, outer_trace.input(Aval(x.shape, x.dtype))) if m else x
            for x, m in zip(xs, moving, strict=True)
        ]
        outs: list[Any] = [*evaluate(program.graph, *inputs)]
        moves = [isinstance(x, JVPTracer) and x._trace is forward for x in outs]
        values = [to_array(x._value) if m else x for x, m in zip(outs, moves, strict=True)]
        tangents = [to_array(x._tangent) for x, m in zip(outs, moves, strict=True) if m]
        forward.finish()
        return JvpGraph(program.with_graph(outer_trace.finish([*values, *tangents])), moves)


def _jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    program: CompiledGraph = params["program"]
    pushed = program.jvp_graph(tuple([t is not None for t in ts]))
    results = call(pushed.program, *xs, *[to_array(t) for t in ts if t is not None])
    count = len(program.graph.outputs)
    tangents = iter(results[count:])
    return results[:count], [next(tangents) if m else None for m in pushed.moves]


def _batched(base: CompiledGraph, size: int, flags: Bools, whole: bool) -> tuple[CompiledGraph, list[bool]]:
    """Trace a graph with a batch axis in front of some inputs; tell which outputs have one (all, where ``whole``)."""
    with GraphTrace("vmap") as outer_trace:
        batch = BatchTrace("jit", size)
        shapes = [(size, *v.aval.shape) for v in base.graph.inputs]
        avals = [
            Aval(s, v.aval.dtype) if f else v.aval for s, v, f in zip(shapes, base.graph.inputs, flags, strict=True)
        ]
        xs = [outer_trace.input(aval) for aval in avals]
        outs: list[Any] = [*evaluate(base.graph, *[batch.input(x) if f else x for x, f in zip(xs, flags, strict=True)])]
        batch.alive = False
        own = [isinstance(x, BatchTracer) and x._trace is batch for x in outs]
        values = [
            x._value if o else broadcast_to(x, (size, *x.shape)) if whole else x for x, o in zip(outs, own, strict=True)
        ]
        return base.with_graph(outer_trace.finish(values)), own


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    program: CompiledGraph = params["program"]
    mapped, own = program.batched_where_needed(size, batched)
    return tuple([z if o else Unbatched(z) for z, o in zip(call(mapped, *xs), own, strict=True)])


call_p: Primitive = higher_order(
    "call",
    _run,
    _abstract,
    _batch,
    _record,
    _jvp,
    decompose=lambda xs, params: tuple(evaluate(params["program"].graph, *xs)),
)
