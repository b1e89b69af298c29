"""Tracers: values under a trace, `bind`, which finds the trace that must see an op, and the user's lines."""

from __future__ import annotations

import itertools
import opcode
import sys
import threading
from _thread import get_ident
from bisect import bisect_right
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from afx.core.array.array import Array, snapshot, to_numpy_value, wrap
from afx.core.aval import SCALARS, aval_of
from afx.core.dtypes import NUMBERS, DType, narrow_default
from afx.core.primitive import (
    Params,
    Primitive,
    WeakArray,
    holds_graphs,
    is_weak_result,
    met_dtype,
    strong_operands,
    takes,
    weak_or_strong,
)
from afx.core.registry import FUNCTIONS
from afx.errors import AfxError, EscapedTracerError, OperandError, TracerError

# --- Source information: the line of a user's file that made an operation

_PACKAGE = __name__.partition(".")[0] + "."


class SourceLocation(NamedTuple):
    """A source location in a user's code as text, which other processes understand."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Source(NamedTuple):
    """A source location in a user's code; turned into a line only when asked, or pickled."""

    code: CodeType
    offset: int

    @property
    def file(self) -> str:
        """The file."""
        return self.code.co_filename

    @property
    def place(self) -> SourceLocation:
        """The file, line and function."""
        code = self.code
        line = next((n for a, b, n in code.co_lines() if a <= self.offset < b and n), code.co_firstlineno)
        return SourceLocation(code.co_filename, line, code.co_qualname)

    def __str__(self) -> str:
        return str(self.place)

    def __reduce__(self) -> tuple[type[SourceLocation], SourceLocation]:
        return (SourceLocation, self.place)


def places_of(sources: Iterable[Source | SourceLocation | None]) -> list[SourceLocation | None]:
    """Return the lines of many source locations; the table of lines of each function is read once."""
    tables: dict[CodeType, tuple[list[int], list[int]]] = {}
    places: list[SourceLocation | None] = []
    for source in sources:
        if not isinstance(source, Source):
            places.append(source)
            continue
        code = source.code
        if code not in tables:
            rows = [(start, line or code.co_firstlineno) for start, _, line in code.co_lines()]
            tables[code] = [start for start, _ in rows], [line for _, line in rows]
        starts, lines = tables[code]
        line = lines[bisect_right(starts, source.offset) - 1]
        places.append(_location(SourceLocation, (code.co_filename, line, code.co_qualname)))
    return places


class _Origin(threading.local):
    """What operations are made from that no line of the user's runs for: a graph's equation, or a forward operation."""

    source: Any = None  # a Source or a SourceLocation, or None


ORIGIN = _Origin()
_own: set[int] = set()  # the identities of the namespaces of afx's modules, as they are met
module_names: dict[str, str] = {}  # of the users' files, as they are met


def caller(depth: int = 2) -> Source | None:
    """Return the nearest source location outside afx that led here; so many frames up at least are afx's own.

    Where `ORIGIN` names one, that is it: a graph is evaluated, or an operation pulled back.
    """
    origin: Source | None = ORIGIN.source
    if origin is not None:
        return origin
    frame: FrameType | None = sys._getframe(depth)  # the documented way to the caller's line
    while frame is not None and (id(frame.f_globals) in _own or _is_own(frame)):
        frame = frame.f_back
    return None if frame is None else _source(Source, (frame.f_code, frame.f_lasti))


JOINING = {"RClass": "r_", "CClass": "c_"}  # what NumPy's objects of these classes are in afx
OTHERWISE = {  # what is not SciPy's of these functions
    "cholesky": " with upper=True, as SciPy's is",
    "qr": ' with mode="complete", as SciPy\'s is',
}
STORES = ("STORE_SUBSCR", "STORE_SLICE")  # of ``y[i] = x``, and of ``y[1:] = x`` in Python 3.12 and 3.13


def way_out() -> str:
    """Return what to do where a library, or a write into an ndarray, converts a traced array: by the calling lines."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    if frame is not None and opcode.opname[frame.f_code.co_code[frame.f_lasti]] in STORES:
        return (
            "for a write y[i] = x take y = afx.asarray(y).at[i].set(x), or let libraries know afx's arrays: "
            "examples/guides/array_api.md"
        )
    answers: list[str] = []
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in ("numpy", "scipy"):
        answers += filter(None, map(_answer, _called(frame)))
        frame = frame.f_back
    return answers[-1] if answers else "compute with afx's functions"


def _called(frame: FrameType) -> list[tuple[str, str]]:
    """Return the modules and names of the function of a frame, or the class of the object it makes, and of what it wraps."""
    wrapped = [frame.f_locals.get(name) for name in ("f", "func")]
    owner, own = type(frame.f_locals.get("self")).__name__, frame.f_code.co_name
    own = JOINING.get(owner, owner if own in ("__init__", "__call__") else own)
    inner = [(str(getattr(f, "__module__", "")), str(getattr(f, "__name__", ""))) for f in wrapped]
    return [(str(frame.f_globals.get("__name__", "")), own), *inner]


def _answer(called: tuple[str, str]) -> str:
    """Return the afx function to call in place of one of NumPy or SciPy, an empty text where there is none."""
    module, name = called
    root, family = module.partition(".")[0], _family(module)
    theirs = sys.modules.get(".".join([root, family] if family else [root]))
    path = ".".join(filter(None, ("afx", family)))
    home = getattr(sys.modules["afx"], family, None) if family else sys.modules["afx"]
    if root not in ("numpy", "scipy") or not hasattr(theirs, name) or home is None:
        return ""
    try:
        getattr(home, name)
    except AttributeError as error:
        return str(error).partition("; ")[2] or f"compute with {path}'s functions"
    return f"call {path}.{name}{OTHERWISE.get(name, '') if family else ''}"


def _family(module: str) -> str:
    """Return the part of SciPy that a module belongs to, or nothing."""
    root, *rest = module.split(".")
    return rest[0] if root == "scipy" and rest else ""


def stack_level() -> int:
    """Return the ``stacklevel`` with which its caller's `warnings.warn` names the nearest line outside afx."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    if not name.startswith(_PACKAGE):
        module_names[frame.f_code.co_filename] = name
        return False
    _own.add(id(frame.f_globals))
    return True


_source = _location = cast("Any", tuple.__new__)  # quicker than the named tuples' own


# --- Tracers
#
# A *trace* is one run of a function under a transformation; its *tracers* are the Arrays that the function sees.
# `bind` hands an op to the innermost trace among its operands, which lowers them to the values of the next outer
# level and binds again; an op without traced operands is simply computed. Traces are numbered as they start and
# belong to the call that made them, so threads and closures cannot mix them up. Operands alone do not tell where an op
# belongs that runs for its effect, or in a branch that may not be taken: `INNERMOST` names the graph that is being built.

WEAK = frozenset({*SCALARS, WeakArray})  # types without a dtype of their own
UNTRACED = NUMBERS | {Array, np.ndarray}  # types whose values no trace watches: quicker asked than isinstance
_levels = itertools.count(1)
_new = object.__new__
NUMPY_ERRORS = (TypeError, ValueError, OverflowError, IndexError)


class ClosureError(TracerError):
    """A function called by an op closes over a tracer of the trace that sees the op; `custom_call` mends it."""


class Tracer(Array):
    """An Array that a trace watches; it behaves as its value."""

    __slots__ = ("_trace",)
    _trace: Trace
    __pandas_priority__ = 10_000  # a table asks for the operator here: its values are operands

    def concrete(self, who: str) -> Any:
        """Return the bare value where reading it loses no derivative: integers, booleans, and truth values."""
        self._trace.check()
        return self._trace.concrete_value(self, who)

    def __repr__(self) -> str:
        return self._trace.show(self)

    __str__ = __repr__


def is_traced(x: object) -> bool:
    """Tell whether an array is watched by a transformation, so that its value may be unknown.

    >>> import afx
    >>> is_traced(afx.ones(2))
    False
    >>> afx.grad(lambda x: x * is_traced(x))(2.0)
    Array(1., dtype=float32)
    """
    return isinstance(x, Tracer)


def any_traced(xs: Iterable[Any]) -> bool:
    """Tell whether a transformation watches one of some values."""
    return any(isinstance(x, Tracer) for x in xs)


class Trace:
    """One run of a function under a transformation.

    Attributes:
        level: a number larger than that of every trace started before.
        owner: the thread that started it, in which alone its tracers are used; 0 when the function has ended.
        name: of the transformation and function, for messages.
        knows_values: whether each tracer holds the value that it stands for.
    """

    __slots__ = ("level", "name", "owner")
    knows_values = True

    def __init__(self, name: str) -> None:
        self.level: int = next(_levels)
        self.owner: int = get_ident()
        self.name: str = name

    def apply1(self, p: Primitive, x: Any) -> Any:
        """Carry out an elementwise op of one operand."""
        return self.apply(p, (x,), {})

    def apply2(self, p: Primitive, x: Any, y: Any) -> Any:
        """Carry out an elementwise op of two operands."""
        return self.apply(p, (x, y), {})

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op: lower the operands, bind it again, raise the result."""
        raise AssertionError("each kind of trace defines it")

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value of a tracer for ``who``, or raise `ConcreteValueError`."""
        raise AssertionError("each kind of trace defines it")

    def show(self, x: Tracer) -> str:
        """Return the repr of a tracer."""
        return f"Traced<{x.aval} by {self.name}>"

    def check_closure(self, params: Params, name: str, *values: Any) -> None:
        """Raise `ClosureError` where an opaque function returns a tracer of this level or further inside, a closed-over value."""
        if any(isinstance(v, Tracer) and v._trace.level >= self.level for v in values):
            name = getattr(params.get("rules"), "name", name)
            raise ClosureError(
                f"{name}: the function closes over a traced array of {self.name}, whose derivative would be lost; "
                "pass it to the function as an argument"
            )

    @property
    def alive(self) -> bool:
        """Whether the function still runs; afterwards its tracers raise."""
        return self.owner != 0

    @alive.setter
    def alive(self, value: bool) -> None:
        self.owner = get_ident() if value else 0

    def check(self) -> None:
        """Raise `EscapedTracerError` when the trace has ended, `TracerError` in another thread than its own."""
        owner = self.owner
        if owner == get_ident():
            return
        if owner:
            raise TracerError(
                f"{self.name}: a traced array is used in another thread than the one that traces it; "
                "compute there with plain arrays, or differentiate inside each thread"
            )
        way_out = "" if self.knows_values else ", or let the function run in Python inside of afx.disable_jit()"
        raise EscapedTracerError(
            f"{self.name}: a traced array is used after its trace ended; return it from the function "
            f"(or with has_aux=True) instead of storing it{way_out}"
        )


class _Innermost(threading.local):
    """The traces whose functions run in this thread, to graphs that a program may run often, or not at all.

    Attributes:
        graph: the innermost one, of which ops that run for their effect become part.
        branch: the innermost one that also takes ops on unknown values from outside alone.
    """

    graph: Any = None
    branch: Any = None


INNERMOST = _Innermost()


def _stays_inside(branch: Trace, level: int, xs: Iterable[Any]) -> bool:
    """Tell whether an op on outer values, one of them unknown, is part of the branch that is being traced."""
    return branch.level > level and not all(map(is_known, xs))


def is_known(x: Any) -> bool:
    """Tell whether the transformations that trace an operand all know its value."""
    while isinstance(x, Tracer):
        if not x._trace.knows_values:
            return False
        x = x._value
    return True


def raise_op_error(p: Primitive, xs: tuple[Any, ...], params: Params, error: Exception) -> NoReturn:
    """Raise the op's own error for operands that its implementation refused."""
    if isinstance(error, (AfxError, np.linalg.LinAlgError)):
        raise error
    avals = [aval_of(x, p.name) for x in xs]
    try:
        p.abstract_eval(*avals, **params)  # as a rule this raises, with shapes and the remedy
    except AfxError as refused:
        raise refused from None
    got = ", ".join(map(str, avals))
    raise OperandError(f"{p.name}: NumPy cannot compute it ({error}): got {got}; convert the operands") from error


def run_impl(p: Primitive, xs: tuple[Any, ...], params: Params) -> Any:
    """Run a primitive on bare values; NumPy's complaint becomes the op's own error."""
    try:
        return p.impl(*xs, **params)
    except NUMPY_ERRORS as error:
        raise_op_error(p, xs, params, error)


def bind1(p: Primitive, x: Any) -> Array:
    """Apply an elementwise op of one operand."""
    kind = x.__class__
    if kind is Array:
        x = x._value
    elif kind in WEAK:
        return _bind_weak(p, (x,), {})
    elif kind not in NUMBERS:
        if kind is not np.ndarray and isinstance(x, Tracer):
            branch = INNERMOST.branch
            top = x._trace
            if branch is not None and _stays_inside(branch, top.level, (x,)):
                top = branch
            result: Array = top.apply1(p, x)
            return result
        x = to_numpy_value(x, p.name)
    try:
        z = p.impl(x)
    except NUMPY_ERRORS as error:
        raise_op_error(p, (x,), {}, error)
    made = _new(Array)  # what `wrap` does; calls cost
    made._value = z
    return made


def bind2(p: Primitive, x: Any, y: Any) -> Array:
    """Apply an op of two operands and no parameters, an elementwise one as a rule."""
    if narrow_default:
        x, y = _in_floats(p, (x, y))
    if x.__class__ is Array and y.__class__ is Array:
        x, y = x._value, y._value
    else:
        if x.__class__ not in UNTRACED or y.__class__ not in UNTRACED:
            top = None
            if isinstance(x, Tracer):
                top = x._trace
            if isinstance(y, Tracer) and (top is None or y._trace.level > top.level):
                top = y._trace
            if top is not None:
                branch = INNERMOST.branch
                if branch is not None and _stays_inside(branch, top.level, (x, y)):
                    top = branch
                result: Array = top.apply2(p, x, y)
                return result
            if x.__class__ is WeakArray or y.__class__ is WeakArray:
                return _bind_weak(p, (x, y), {})
        elif x.__class__ in WEAK and y.__class__ in WEAK:
            return _bind_weak(p, (x, y), {})
        x = x._value if x.__class__ is Array else x if x.__class__ in NUMBERS else to_numpy_value(x, p.name)
        y = y._value if y.__class__ is Array else y if y.__class__ in NUMBERS else to_numpy_value(y, p.name)
    try:
        z = p.impl(x, y)
    except NUMPY_ERRORS as error:
        raise_op_error(p, (x, y), {}, error)
    made = _new(Array)
    made._value = z
    return made


def bind(p: Primitive, *xs: Any, **params: Any) -> Any:
    """Apply an op; the result is an Array, or a tuple of them where the primitive says so."""
    if narrow_default:
        xs = _in_floats(p, xs)
    if len(xs) == 1 and xs[0].__class__ is Array and not p.multiple_results:
        made = _new(Array)
        made._value = run_impl(p, (xs[0]._value,), params)
        return made
    top = None
    for x in xs:
        if x.__class__ not in UNTRACED and isinstance(x, Tracer) and (top is None or x._trace.level > top.level):
            top = x._trace
    inner = INNERMOST.graph
    if inner is not None:
        branch, level = INNERMOST.branch, 0 if top is None else top.level
        if p.multiple_results and inner.level > level and inner.has_effects(p, params):
            return inner.apply(p, xs, params)
        if branch is not None and level and _stays_inside(branch, level, xs):
            top = branch
    if top is not None:
        return top.apply(p, xs, params)
    if _may_be_weak(xs):
        return _bind_weak(p, xs, params)
    # the caller could change memory that the result shares
    lower = snapshot if p.lowering.may_alias else to_numpy_value
    values = [x._value if x.__class__ is Array else x if x.__class__ in NUMBERS else lower(x, p.name) for x in xs]
    z = run_impl(p, tuple(values), params)
    return tuple(map(wrap, z)) if p.multiple_results else wrap(z)


def _in_floats(p: Primitive, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands of an op with integers in the dtype of floats beside them, as JAX does; NumPy would go to float64."""
    if len(xs) < 2 or not any(map(_may_be_integer, xs)) or holds_graphs(p):
        return xs
    strong = strong_operands(p, [aval_of(x, p.name) for x in xs])
    floats = [a.dtype for a in strong if a.dtype.kind in "fc"]
    if not floats or len(floats) == len(strong):
        return xs
    target = np.result_type(*floats)
    kinds = ["" if x.__class__ in WEAK or k < p.condition_operands else aval_of(x).dtype.kind for k, x in enumerate(xs)]
    return tuple([FUNCTIONS.astype(x, target) if kind in ("i", "u") else x for x, kind in zip(xs, kinds, strict=True)])


def _may_be_integer(x: Any) -> bool:
    """Tell whether an operand is no number of Python's and has no floating dtype, which is quick to ask."""
    if x.__class__ is Array:
        return x._value.dtype.kind in "iu"
    return x.__class__ not in WEAK and getattr(getattr(x, "dtype", None), "kind", "i") in "iu"


def _may_be_weak(xs: tuple[Any, ...]) -> bool:
    """Tell whether an operand is a weak array, or one a Python number and none has a floating dtype."""
    kinds = list(map(type, xs))
    if WeakArray in kinds:
        return True
    if WEAK.isdisjoint(kinds):
        return False
    for x in xs:
        dtype = x._value.dtype if x.__class__ is Array else None if x.__class__ in WEAK else aval_of(x).dtype
        if dtype is not None and dtype.kind in "fc":
            return False
    return True


def _bind_weak(p: Primitive, xs: tuple[Any, ...], params: Params) -> Array:
    """Apply an op to operands of which some are weak: with Python's precision where they meet no dtype."""
    avals = [aval_of(x, p.name) for x in xs]
    weak = is_weak_result(p, avals, params)
    try:
        operands = tuple([_exact(x, p) for x in xs]) if weak else meet(p, xs)
    except OverflowError as error:
        raise_op_error(p, xs, params, error)
    lower = snapshot if p.lowering.may_alias else to_numpy_value
    values = tuple([to_lower_level(x) if isinstance(x, Array) else lower(x, p.name) for x in operands])
    z = run_impl(p, values, params)
    made = weak_or_strong if weak else wrap
    results: Any = tuple(map(made, z)) if p.multiple_results else made(z)
    result: Array = results
    return result


def _exact(x: Any, p: Primitive) -> Any:
    """Return a weak operand with Python's precision as NumPy's number or array, others as they are."""
    kind = x.__class__
    if kind is WeakArray:
        return wrap(x.exact)
    if kind is float or (p.promotes_to_float and kind in (int, bool)):
        return np.float64(x)
    return np.complex128(x) if kind is complex else x


def meet(p: Primitive, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands of an op, weak arrays among them in the dtype that they meet; a cast sees all their digits."""
    if holds_graphs(p):
        return xs
    if p.algebra.canonical == "cast":
        return tuple([wrap(x.exact) if x.__class__ is WeakArray else x for x in xs])
    dtype = met_dtype(p, [aval_of(x, p.name) for x in xs])
    return tuple([_convert_to_met(x, dtype, p.is_elementwise and k >= p.condition_operands) for k, x in enumerate(xs)])


def _convert_to_met(x: Any, dtype: DType | None, promotes: bool) -> Any:
    """Return an operand in the dtype that operands meet: weak arrays, and integers where floats are promoted to it."""
    if x.__class__ is WeakArray:
        return wrap(x._value if dtype is None else x.in_dtype(takes(x.aval, dtype)))
    if promotes and dtype is not None and dtype.kind in "fc" and x.__class__ not in WEAK and x.dtype.kind in "iu":
        return wrap(np.asarray(x).astype(dtype)) if not isinstance(x, Tracer) else x  # NumPy would go to float64
    return x


bind_single: Callable[..., Array] = bind  # `bind` for ops of one output, typed so


def to_lower_level(z: Any) -> Any:
    """Return the bare value of an untraced Array, and traced ones as they are."""
    return z._value if z.__class__ is Array else z


def to_array(v: Any) -> Any:
    """Return a bare value that afx owns as an Array, and Arrays as they are."""
    return v if isinstance(v, Array) else wrap(v)
