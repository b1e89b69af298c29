"""Program: a schedule as Python, its names, calls and functions, what it binds, and the listing that users see."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx.compiler.schedule.schedule import Buffer, Call, ErrorState, Fused, Number, Params, Schedule
from afx.core import Aval, Shape, aval_of, lookup
from afx.core.cached import maker_of
from afx.core.dtypes import DType, dtype_name
from afx.core.graph import Literal, name_of
from afx.runtime.buffer_cache import OutputPool
from afx.runtime.thread_pool import get_threads

# --- Names: what the Python of a plan calls its buffers, functions and numbers, and what they stand for

RESERVED = frozenset({"arena", "np", "run", "bind", "part"})

Make: TypeAlias = "Callable[[dict[str, Any]], Any]"


class Binding(NamedTuple):
    """A name that each set of buffers has a value of its own for.

    Attributes:
        make: from the values of the names before it, and the block of the arena as ``arena``, to its value.
        text: gives the expression that is shown.
    """

    make: Make
    text: Callable[[], str]


_binding = maker_of(Binding)


class ScheduleNames:
    """The names of one schedule.

    Attributes:
        shared: values that all sets of buffers share: NumPy's functions, constants, numbers.
        shown: of shared ones, the expressions that are shown.
        own: names with a value for each set of buffers, in the order in which they are made.
        buffers: those of buffers that were asked for, by their numbers.
        used: names that the part of the program that is being written reads from outside.
    """

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}
        self.shown: dict[str, str] = {}
        self.own: dict[str, Binding] = {}
        self.used: dict[str, None] = {}
        self.buffers: dict[int, str] = {}
        self._numbers: dict[Any, str] = {}
        self._ufuncs: dict[tuple[str, str], tuple[str, Any]] = {}

    def of(self, buffer: Buffer) -> str:
        """Return the name of a buffer, which no function or keyword of Python bears."""
        known = self.buffers.get(buffer.index)
        if known is None:
            name = name_of(buffer.index)
            known = f"{name}_" if keyword.iskeyword(name) or name in RESERVED else name
            self.buffers[buffer.index] = known
        return known

    def use(self, name: str) -> str:
        """Note that the part reads a name from outside."""
        self.used[name] = None
        return name

    def bind(self, name: str, make: Make, text: Callable[[], str]) -> str:
        """Enter a name that is made for each set of buffers."""
        self.own[name] = _binding((make, text))
        return name

    def share(self, name: str, value: Any, text: str = "") -> str:
        """Return the name of a shared value; another value of that name gets another one."""
        wish, k = name, 2
        while wish in self.shared and self.shared[wish] is not value:
            wish, k = f"{name}_{k}", k + 1
        if wish not in self.shared:
            self.shared[wish] = value
            if text:
                self.shown[wish] = text
        return self.use(wish)

    def numpy(self, path: str) -> str:
        """Return the name of a function of NumPy, such as ``add.reduce``."""
        name = f"np_{path.replace('.', '_')}"
        if name not in self.shared:
            value = np
            for part in path.split("."):
                value = getattr(value, part)
            self.shared[name] = value
            self.shown[name] = f"np.{path}"
        return self.use(name)

    def ufunc(self, op: str, attribute: str = "") -> tuple[str, Any]:
        """Return the name of the ufunc that computes an op, or of its ``reduce``, and the ufunc."""
        named = self._ufuncs.get((op, attribute))
        if named is None:
            named = self._ufuncs[op, attribute] = self._ufunc(op, attribute)
        self.used[named[0]] = None
        return named

    def _ufunc(self, op: str, attribute: str) -> tuple[str, Any]:
        rule = lookup(op).lowering
        value: Any = rule.reduce_ufunc if attribute or rule.ufunc is None else rule.ufunc
        tail = f".{attribute}" if attribute else ""
        name: str = value.__name__
        if getattr(np, name, None) is value:
            return self.numpy(f"{name}{tail}"), value
        function: Any = getattr(value, attribute) if attribute else value
        return self.share(f"{name}{tail.replace('.', '_')}_", function, f"{name}{tail}"), value

    def function(self, name: str, value: Any) -> str:
        """Return the name of a function of afx."""
        return self.share(f"{name}_", value)

    def rule(self, op: str, rule: str) -> str:
        """Return the name of an implementation of an op."""
        p = lookup(op)
        value = p.impl if rule == "impl" else getattr(p.lowering, rule)
        return self.function(op, value)

    def emit_view(self, op: str) -> Callable[..., str] | None:
        """Return the rule that writes a view of an op down, if it has one."""
        return lookup(op).lowering.emit_view

    def number(self, number: Number, block: Shape | None = None) -> str:
        """Return the name of a number; filled ones may have another shape in blocks."""
        literal, shape = number.literal, number.shape if block is None else block
        key = (number.form, repr(literal.value), literal.aval.dtype, shape)
        name = self._numbers.get(key)
        if name is None:
            name = self._numbers[key] = self._free(_number_name(literal, number.form, shape))
            self.shared[name] = _value(literal, number.form, shape)
            self.shown[name] = _number_text(literal, number.form, shape)
        self.used[name] = None
        return name

    def _free(self, wish: str) -> str:
        name, k = wish, 2
        while name in self.shared:
            name, k = f"{wish}_{k}", k + 1
        return name

    def parameter(self, key: str, value: Any) -> str:
        """Return the text of a parameter."""
        if _is_plain(value):
            return repr(value)
        dtype = value
        name = f"{dtype_name(dtype)}_" if isinstance(value, np.dtype) else f"{key}_1"
        return self.share(name, value)


def _value(literal: Literal, form: str, shape: Shape) -> Any:
    if form == "scalar":
        return literal.aval.dtype.type(literal.value)
    if form == "array":
        return np.array(literal.value, literal.aval.dtype)
    return np.full(shape, literal.value, literal.aval.dtype)


def _number_name(literal: Literal, form: str, shape: Shape) -> str:
    number = "n_" + re.sub(r"\W", "_", str(literal.value).replace("-", "minus_").replace(".", "_"))
    if form != "filled":
        return number
    return f"{'ones' if literal.value == 1 else number}_{'x'.join(map(str, shape))}"


def _number_text(literal: Literal, form: str, shape: Shape) -> str:
    dtype, text = literal.aval.dtype, str(literal.value).replace("inf", "np.inf").replace("nan", "np.nan")
    if form == "scalar":
        return f"np.{dtype.type.__name__}({text})"
    if form == "array":
        return f"np.array({text}, '{dtype}')"
    if literal.value == 1:
        return f"np.ones({shape}, '{dtype}')"
    return f"np.full({shape}, {text}, '{dtype}')"


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))  # pyright: ignore[reportUnknownArgumentType]  # parameters of any type
    return value is None or type(value) in (bool, int, str)


# --- Listing: a plan's Python as text that runs where it is pasted, or says at its top what is left out of it

SHOWN = 16  # elements of a captured array that is written down
LEFT_OUT = re.compile(r"^\s*(\w+) = \.\.\.", re.MULTILINE)
MODULE = re.compile(r"(?<![\w.'])(?:afx|math)(?:\.[a-z_]\w*)+")


def head(lines: Iterable[str]) -> Iterator[str]:
    """Yield what stands above a listing: what it lacks, and how to get a file that runs; then its imports."""
    text = "\n".join(lines)
    missing = LEFT_OUT.findall(text)
    if missing:
        yield f"# A listing, without {', '.join(missing)}: afx.export.to_numpy(fn, *args) writes a file that runs."
    yield "import numpy as np"
    modules = {_module_of(path) for path in MODULE.findall(text)}
    yield from [f"import {module}" for module in sorted(modules)]
    yield ""


def _module_of(path: str) -> str:
    while path not in sys.modules:
        path = path.rpartition(".")[0]
    return path


def shared_lines(names: ScheduleNames) -> Iterator[str]:
    """Yield the lines that make what all sets of buffers share."""
    for name, value in names.shared.items():
        yield f"{name} = {names.shown.get(name) or _shared_text(name, value)}"


def _shared_text(name: str, value: Any) -> str:
    """Return the expression of a function of afx, or of a captured array."""
    if value.__class__ is np.ndarray:
        return _array_text(value) if value.size <= SHOWN else f"...  # a captured array, {aval_of(value)}"
    return _rule_text(re.sub(r"_\d*$", "", name), value) or value_text(value)


def _array_text(value: Any) -> str:
    text = re.sub(r"\b(inf|nan)\b", r"np.\1", repr(value.tolist()))
    return f"np.array({text}, '{value.dtype}'){'' if value.size else f'.reshape({value.shape})'}"


def _rule_text(op: str, value: Any) -> str:
    """Return how an op's record names an implementation; an empty text where it is none of it."""
    try:
        p = lookup(op)
    except KeyError:
        return ""
    places = {"impl": p.impl, "lowering.impl_into": p.lowering.impl_into}
    return next((f"afx.core.primitive.lookup({op!r}).{path}" for path, rule in places.items() if rule is value), "")


def value_text(value: Any) -> str:
    """Return the expression of a parameter or a function; ``...`` where there is none.

    >>> value_text((np.dtype("float32"), 2)), value_text(float), value_text(object())
    ("(np.dtype('float32'), 2)", 'float', '...  # object')
    """
    kind = value.__class__
    if kind is tuple:
        return f"({', '.join(map(value_text, value))}{',' * (len(value) == 1)})"
    if issubclass(kind, np.dtype):
        return f"np.dtype('{value}')"
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "<")
    if "<" in name or not isinstance(module, str) or not hasattr(sys.modules.get(module), name):
        return f"...  # {kind.__name__}"
    return name if module == "builtins" else f"{module}.{name}"


def aval_text(aval: Aval) -> str:
    """Return the expression of an Aval."""
    return f"afx.core.aval.Aval({aval.shape}, np.dtype('{aval.dtype}'))"


# --- Bindings: what each set of buffers makes of its own before it runs, and the text that shows it


def arena_text(x: Buffer) -> str:
    """Show a buffer of the arena."""
    return f"np.ndarray({x.shape}, '{x.dtype}', arena, {x.location})"


def kernel_text(call: Call, avals: Sequence[Aval]) -> str:
    """Show an implementation that is prepared."""
    shown = [*map(aval_text, avals), *[f"{k}={value_text(v)}" for k, v in call.params]]
    return f"afx.core.primitive.lookup({call.op!r}).lowering.make_kernel({', '.join(shown)})"


def pool_text(aval: Aval, count: int) -> str:
    """Show the memory of a result that is used again."""
    return f"afx.runtime.buffer_cache.OutputPool({aval_text(aval)}, {count})"


def scratch_text(fused: Fused) -> str:
    """Show the memory of the blocks of a fused loop."""
    block = fused.space.block
    arrays = ", ".join([f"np.empty({(block, *tail)}, '{dtype}')" for dtype, tail in fused.scratch])
    return f"[({arrays}{',' if fused.scratch else ''}) for _ in range(afx.runtime.thread_pool.get_threads())]"


def in_arena(shape: tuple[int, ...], dtype: DType, offset: int, space: dict[str, Any]) -> Any:
    """Return a buffer of the arena."""
    block, start = space["arena"]
    return np.ndarray(shape, dtype, block, start + offset)


def made_kernel(make: Any, avals: Sequence[Aval], params: dict[str, Any], _: dict[str, Any]) -> Any:
    """Return an implementation that is prepared for avals."""
    return make(*avals, **params)


def made_view(impl: Any, source: str, params: dict[str, Any], space: dict[str, Any]) -> Any:
    """Return a view of a value that is made before."""
    return impl(space[source], **params)


def made_pool(aval: Aval, count: int, _: dict[str, Any]) -> Any:
    """Return the memory of a result that is used again."""
    return OutputPool(aval, count)


def made_scratch(block: int, slots: Sequence[tuple[DType, tuple[int, ...]]], _: dict[str, Any]) -> Any:
    """Return the memory of blocks for each thread."""
    return [tuple([np.empty((block, *tail), dtype) for dtype, tail in slots]) for _ in range(get_threads())]


def copies(values: Any) -> list[Any]:
    """Return arrays with memory of their own."""
    return [np.array(v, order="C") for v in values]


# --- Program: a schedule as Python, in functions that run one after the other

Bind: TypeAlias = "Callable[[], Callable[..., None]]"
"""Binds a kernel to memory of its own; it is called with operands and outputs."""


Clock: TypeAlias = "Callable[[int], None]"
"""Is told the number of each instruction of a schedule as it ends."""


class Line(NamedTuple):
    """A line of Python, or several.

    Attributes:
        text: the line.
        equation: number of the equation that NumPy's warnings in this line are about, -1 for none.
    """

    text: str
    equation: int = -1


make_line: Callable[[tuple[Any, ...]], Line] = maker_of(Line)


class ProgramPart(NamedTuple):
    """One function of a program.

    Attributes:
        bound: names that it reads from outside, bound once.
        functions: lines of the functions inside of it.
        arguments: names of values that earlier parts made.
        lines: its body.
        makes: names of values that it makes and does not delete.
    """

    bound: tuple[str, ...]
    functions: tuple[Line, ...]
    arguments: tuple[str, ...]
    lines: tuple[Line, ...]
    makes: tuple[str, ...]


class NumpyProgram(NamedTuple):
    """A schedule as Python.

    Attributes:
        schedule: the schedule.
        names: what names stand for.
        inputs: names of the arguments.
        parts: the functions, in the order in which they run; the last one gives the results.
        results: the expressions that are returned.
        bodies: schedules of loops and branches by the names of their functions.
        fallbacks: schedules that are compiled when they are first needed, by the names of theirs.
    """

    schedule: Schedule
    names: ScheduleNames
    inputs: tuple[str, ...]
    parts: tuple[ProgramPart, ...]
    results: tuple[str, ...]
    bodies: dict[str, Schedule]
    fallbacks: dict[str, Schedule]


# --- Error state: wraps runs of generated lines in ``np.errstate``
#
# The backward pass of a branch that was not taken divides by zero on purpose and discards the result. Entering
# ``np.errstate`` costs as much as a small ufunc, so neighbouring lines share one; lines that cannot warn join either
# side.


def common_errstate(states: Sequence[ErrorState]) -> tuple[ErrorState, bool]:
    """Return the floating-point errors that calls which run at once ignore, and whether all that can warn agree."""
    ignored = {state for state in states if state is not None}
    if len(ignored) > 1:
        return (), False
    return (ignored.pop() if ignored else None), True


def wrap_errstate(lines: Sequence[Line], states: Sequence[ErrorState], margin: str = "") -> list[Line]:
    """Return the lines of a program with runs of those that ignore errors inside ``with np.errstate``."""
    if not any(states):
        return list(lines)
    wrapped: list[Line] = []
    k = 0
    while k < len(lines):
        names = states[k]
        end = _end(states, k) if names else k + 1
        if names:
            ignored = ", ".join([f"{name}='ignore'" for name in names])
            wrapped.append(Line(f"{margin}with np_errstate({ignored}):"))
            wrapped += [make_line(("    " + text.replace("\n", "\n    "), number)) for text, number in lines[k:end]]
        else:
            wrapped.append(lines[k])
        k = end
    return wrapped


def _end(states: Sequence[ErrorState], start: int) -> int:
    """Return where a run ends: behind its last line that could warn."""
    end = k = start + 1
    while k < len(states) and states[k] in (None, states[start]):
        k += 1
        if states[k - 1] is not None:
            end = k
    return end


# --- Calls: the line of Python for one `Call`, inside of a fused loop or outside

BY_NAME = (np.maximum, np.minimum)  # NumPy 2.5 warns of an operand after their two


def call_lines(call: Call, xs: Sequence[str], out: str, names: ScheduleNames) -> list[str]:
    """Return the lines that compute a call of one output.

    Args:
        call: the call.
        xs: the text of its operands.
        out: the text of what is written into; of the name that is assigned where it makes its result itself.
        names: the names of the schedule.
    """
    method = call.method
    if method in ("ufunc", "dot", "flat_dot", "vecdot", "reduce", "turned_reduce"):
        return [_numpy_call(call, xs, out, names)]
    if method == "unrolled_reduce":
        return _unrolled(call, xs[0], out, names)
    if method == "copy":
        return [f"{out}[...] = {xs[0]}"]
    if method == "into":
        return [f"{names.rule(call.op, 'impl_into')}({', '.join([out, *xs, *_keywords(call.params, names)])})"]
    raise AssertionError(method)


def _numpy_call(call: Call, xs: Sequence[str], out: str, names: ScheduleNames) -> str:
    into = "" if call.allocates else f", {out}"
    if call.method == "ufunc":
        name, ufunc = names.ufunc(call.op)
        into = into.replace(", ", ", out=", 1) if ufunc in BY_NAME else into
        into += ", order='C'" if call.allocates and may_be_turned(call) else ""
        text = f"{name}({', '.join(xs)}{into})"
    elif call.method == "dot":
        text = f"{xs[0]}.dot({xs[1]}{into})"
    elif call.method == "flat_dot":
        text = f"{xs[0]}.reshape(-1).dot({xs[1]}{into})"
    elif call.method == "vecdot":
        text = f"{names.numpy('vecdot')}({', '.join(xs)}{into})"
    else:
        text = _reduction(call, xs[0], into, names)
        text = in_rows(call, text, names) if call.allocates else text
    return f"{out} = {text}" if call.allocates else text


def in_rows(call: Call, text: str, names: ScheduleNames) -> str:
    """Return the expression of what a call makes in row-major order."""
    is_any = may_be_turned(call) and len(call.outputs) == 1 and len(call.outputs[0].shape) > 1
    return f"{names.numpy('asarray')}({text}, order='C')" if is_any else text


def may_be_turned(call: Call) -> bool:
    """Tell whether an operand may lie in another order than rows: NumPy would lay out what it makes of it in that order."""
    return any(isinstance(x, Buffer) and x.storage == "view" and len(x.shape) > 1 for x in call.operands)


def _reduction(call: Call, x: str, into: str, names: ScheduleNames) -> str:
    axis = dict(call.params)["axis"]
    if call.method == "turned_reduce":
        last = axis[0]
        x = f"{x}.T.copy()" if last == 1 else f"{x}.transpose({(last, *range(last))}).copy()"
        axis = (0,)
    name, _ = names.ufunc(call.op, "reduce")
    into = f", None{into}" if into else ""
    return f"{name}({x}, {axis[0] if len(axis) == 1 else axis}{into})"


def _unrolled(call: Call, x: str, out: str, names: ScheduleNames) -> list[str]:
    axis: int = dict(call.params)["axis"][0]
    parts = [f"{x}[{':, ' * axis}{k}]" for k in range(call.operands[0].shape[axis])]
    name, ufunc = names.ufunc(call.op)
    by = "out=" if ufunc in BY_NAME else ""
    first = f"{name}({parts[0]}, {parts[1]}"
    lines = [f"{out} = {in_rows(call, first + ')', names)}" if call.allocates else f"{first}, {by}{out})"]
    return lines + [f"{name}({out}, {part}, {by}{out})" for part in parts[2:]]


def applied(op: str, params: Params, xs: Sequence[str], names: ScheduleNames) -> str:
    """Return the call of an op's implementation."""
    return f"{names.rule(op, 'impl')}({', '.join([*xs, *_keywords(params, names)])})"


def view_text(op: str, params: Params, source: str, names: ScheduleNames) -> str:
    """Return the expression of a view: NumPy's own, where the op has one."""
    emit = names.emit_view(op)
    return applied(op, params, [source], names) if emit is None else emit(source, **dict(params))


def _keywords(params: Params, names: ScheduleNames) -> list[str]:
    return [f"{key}={names.parameter(key, value)}" for key, value in params]


def named_once(texts: Sequence[str], stem: str) -> dict[str, str]:
    """Return names for operands of a loop that steps would make anew each time: what makes one row-major, for instance."""
    made = dict.fromkeys([text for text in texts if not text.isidentifier()])
    return {text: f"{stem}_{k}" for k, text in enumerate(made)}
