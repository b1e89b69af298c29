"""Element operations as LLVM IR: NumPy's results, bit by bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.portable import from_half, to_half
from afx.compiler.native_backend.llvm.writer import Writer, compare_strictly, compute_strictly
from afx.compiler.native_backend.program.elements import Number
from afx.core.scalar_ops import SCALAR_OPS, SQRT, TRUNC

FLOATS = {"f4": "float", "f8": "double"}
COMPLEX = {"c8": "<ff", "c16": "<dd"}  # how struct packs them


def memory_type(dtype: str) -> str:
    """Return the LLVM type of an element in memory.

    >>> memory_type("b1"), memory_type("u4"), memory_type("c8")
    ('i8', 'i32', 'i64')
    """
    return FLOATS.get(dtype) or f"i{8 * int(dtype[1:])}"


def element_type(dtype: str) -> str:
    """Return the LLVM type of an element in a register: a boolean is one bit."""
    return "i1" if dtype == "b1" else memory_type(dtype)


def read(w: Writer, dtype: str, pointer: str) -> str:
    """Load elements; any byte but 0 is true."""
    kind = memory_type(dtype)
    raw = w.let(
        f"load {f'<{w.elements} x {kind}>' if w.elements else w.vector(kind)}, ptr {pointer}, align {align(dtype)}"
    )
    if w.elements:
        raw = shuffled(w, kind, raw, w.elements, [*range(w.elements)] * 2)
    return w.let(f"icmp ne {w.vector('i8')} {raw}, {w.splat('i8', '0')}") if dtype == "b1" else raw


def read_one(w: Writer, dtype: str, pointer: str) -> str:
    """Load one element into all lanes."""
    count, elements, w.lanes, w.elements = w.lanes, w.elements, 1, 0
    one = read(w, dtype, pointer)
    w.lanes, w.elements = count, elements
    return spread(w, element_type(dtype), one)


def read_apart(w: Writer, dtype: str, pointer: str, distance: int) -> str:
    """Load elements that lie so many elements apart, backwards where that is negative: vectors, and what is taken of them."""
    count, step = w.elements or w.lanes, abs(distance)
    if count == 1:
        return read(w, dtype, pointer)
    kind, size = memory_type(dtype), int(dtype[1:])
    first = pointer if distance > 0 else w.shifted(pointer, -(count - 1) * step * size)
    starts = [min(part * count, (step - 1) * (count - 1)) for part in range(step)]  # none goes beyond the last element
    loads = [
        w.let(f"load <{count} x {kind}>, ptr {w.shifted(first, start * size)}, align {align(dtype)}")
        for start in starts
    ]
    places = [k * step for k in (range(count) if distance > 0 else reversed(range(count)))]
    parts = [min(place // count, step - 1) for place in places]
    vector = loads[0]
    for part, (start, load) in enumerate(zip(starts[1:], loads[1:], strict=True), 1):
        order = [
            0 if own > part else count + place - start if own == part else place if part == 1 else k
            for k, (place, own) in enumerate(zip(places, parts, strict=True))
        ]
        vector = shuffled(w, kind, vector, count, order, load)
    order = [*range(count)] if step > 1 else places
    return shuffled(w, kind, vector, count, order * 2 if w.elements else order)


def written(w: Writer, dtype: str, value: str, pointer: str) -> None:
    """Store elements; of portable floats any nan as the positive quiet one, which costs less than to look for it later."""
    stored(w, dtype, settled(Lanes(w, FLOATS[dtype], value)).name if dtype in FLOATS else value, pointer)


def settled(x: Lanes) -> Lanes:
    """Return floats, of portable ones any nan as the positive quiet one."""
    return x.compare("uno", 0.0).choose(x.constant(math.nan), x) if x.w.is_portable else x


def stored(w: Writer, dtype: str, value: str, pointer: str) -> None:
    """Store elements as they are."""
    raw = w.let(f"zext {w.vector('i1')} {value} to {w.vector('i8')}") if dtype == "b1" else value
    kind = w.vector(memory_type(dtype))
    if w.elements:  # other lanes repeat these
        raw = shuffled(w, memory_type(dtype), raw, w.lanes, range(w.elements))
        kind = f"<{w.elements} x {memory_type(dtype)}>"
    w.line(f"store {kind} {raw}, ptr {pointer}, align {align(dtype)}")


def spread(w: Writer, kind: str, x: str) -> str:
    """Return one element in all lanes."""
    if w.lanes == 1:
        return x
    vector = w.vector(kind)
    first = w.let(f"insertelement {vector} poison, {kind} {x}, i64 0")
    return w.let(f"shufflevector {vector} {first}, {vector} poison, <{w.lanes} x i32> zeroinitializer")


def shuffled(w: Writer, kind: str, x: str, count: int, order: Sequence[int], y: str = "poison") -> str:
    """Return some of the elements of a vector of so many, and of another one behind it."""
    mask = ", ".join([f"i32 {k}" for k in order])
    vector = f"<{count} x {kind}>"
    return w.let(f"shufflevector {vector} {x}, {vector} {y}, <{len(order)} x i32> <{mask}>")


def align(dtype: str) -> int:
    """Return the alignment of an element in bytes."""
    size = int(dtype[1:])
    return size // 2 if dtype[0] == "c" else size


def number(w: Writer, x: Number) -> str:
    """Return a constant in all lanes."""
    return w.splat(element_type(x.dtype), constant(x))


def constant(x: Number) -> str:
    """Return a constant's text.

    >>> constant(Number(1.0, "f4")), constant(Number(True, "b1")), constant(Number(-3, "i8"))
    ('0x3FF0000000000000', 'true', '-3')
    >>> constant(Number(1.0, "f2"))
    '15360'
    """
    if x.dtype == "b1":
        return "true" if x.value else "false"
    if x.dtype[0] == "c" or x.dtype == "f2":  # moved as bits: only NumPy's loops compute with them
        value = complex(x.value)
        parts = (
            struct.pack("<e", value.real) if x.dtype == "f2" else struct.pack(COMPLEX[x.dtype], value.real, value.imag)
        )
        return str(int.from_bytes(parts, "little"))
    if x.dtype not in FLOATS:
        return str(int(x.value.real))
    value = float(x.value.real)
    if math.isnan(value):
        return "0x7FF8000000000000"
    if x.dtype == "f4":
        (value,) = struct.unpack("f", struct.pack("f", value))
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


# -- casts --
def cast(w: Writer, x: str, old: str, new: str) -> str:
    """Convert an element."""
    if old == new:
        return x
    if old == "f2":
        return cast(w, from_half(Lanes(w, "i16", x)).name, "f8", new)
    if new == "f2":
        return to_half(Lanes(w, "double", cast(w, x, old, "f8"))).name
    if new == "b1":
        return truth(w, x, old)
    a, b = w.vector(element_type(old)), w.vector(element_type(new))
    if new in FLOATS:
        if old in FLOATS:
            if old == "f8":
                return compute_strictly(w, "fptrunc", FLOATS[old], [x], FLOATS[new])
            return w.let(f"fpext {a} {x} to {b}")
        return w.let(f"{'sitofp' if old[0] == 'i' else 'uitofp'} {a} {x} to {b}")
    if old in FLOATS:
        return _to_integer(w, x, old, new)
    if a == b:
        return x
    if int(old[1:]) > int(new[1:]):
        return w.let(f"trunc {a} {x} to {b}")
    return w.let(f"{'sext' if old[0] == 'i' else 'zext'} {a} {x} to {b}")


def _to_integer(w: Writer, x: str, old: str, new: str) -> str:
    """Convert floats to integers; one that does not fit is a fault, as NumPy warns, and in portable code wraps."""
    bits, signed = 8 * int(new[1:]), new[0] == "i"
    kind, test = w.vector(element_type(old)), w.vector("i1")
    whole = _intrinsic(TRUNC)(w, [x], old)
    if w.is_portable:
        return _wrapped(w, whole, old, new)
    fits = _fits(w, whole, old, _bounds(bits, signed))
    w.fault(w.let(f"xor {test} {fits}, {w.splat('i1', 'true')}"))
    safe = w.let(f"select {test} {fits}, {kind} {whole}, {kind} {_zero(w, old)}")
    return w.let(f"{'fptosi' if signed else 'fptoui'} {kind} {safe} to {w.vector(element_type(new))}")


def _wrapped(w: Writer, whole: str, old: str, new: str) -> str:
    """Return what NumPy's conversion on x86-64 gives of whole numbers.

    That is the low bits of an integer of 32 bits, of 64 for uint32 and both of 64, which is the least one where the number
    does not fit it; uint64 has the numbers from 2⁶³ on, too.
    """
    bits, kind, test = 8 * int(new[1:]), w.vector(element_type(old)), w.vector("i1")
    wide = 64 if new in ("u4", "u8", "i8") else 32
    least, most = (w.splat(element_type(old), constant(Number(n, old))) for n in _bounds(wide, True))
    above = ""
    if new == "u8":
        above = compared(w, "oge", [whole, most], old)
        whole = w.let(f"select {test} {above}, {kind} {w.let(f'fsub {kind} {whole}, {most}')}, {kind} {whole}")
    fits = _fits(w, whole, old, _bounds(wide, True))
    safe = w.let(f"select {test} {fits}, {kind} {whole}, {kind} {least}")
    z = w.let(f"fptosi {kind} {safe} to {w.vector(f'i{wide}')}")
    if above:
        words = w.vector("i64")
        top = w.let(f"select {test} {above}, {words} {w.splat('i64', str(-(2**63)))}, {words} {w.splat('i64', '0')}")
        z = w.let(f"xor {words} {z}, {top}")
    return z if wide == bits else w.let(f"trunc {w.vector(f'i{wide}')} {z} to {w.vector(element_type(new))}")


def _fits(w: Writer, whole: str, dtype: str, bounds: tuple[float, float]) -> str:
    """Return whether whole numbers lie from the first to before the second bound."""
    low, high = (w.splat(element_type(dtype), constant(Number(n, dtype))) for n in bounds)
    return w.let(
        f"and {w.vector('i1')} {compared(w, 'oge', [whole, low], dtype)}, {compared(w, 'olt', [whole, high], dtype)}"
    )


def _bounds(bits: int, signed: bool) -> tuple[float, float]:
    """Return the smallest integer of so many bits, and the one behind the largest."""
    return (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)


def truth(w: Writer, x: str, dtype: str) -> str:
    """Return whether an element differs from 0."""
    if dtype == "b1":
        return x
    zero = _zero(w, dtype)
    if dtype in FLOATS:
        return compared(w, "une", [x, zero], dtype)
    return w.let(f"icmp ne {w.vector(element_type(dtype))} {x}, {zero}")


def _zero(w: Writer, dtype: str) -> str:
    return w.splat(element_type(dtype), "0.0" if dtype in FLOATS else "0")


# -- the table --
Rule = Callable[[Writer, list[str], str], str]


def compared(w: Writer, predicate: str, xs: list[str], dtype: str) -> str:
    """Compare floats; orders of nan raise no flag, as NumPy's do not, for which LLVM has an intrinsic of its own."""
    return compare_strictly(w, predicate, FLOATS[dtype], xs)


def _arithmetic(of_floats: str, of_ints: str, of_bools: str = "") -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        if dtype in FLOATS:
            return compute_strictly(w, of_floats, FLOATS[dtype], xs)
        name = of_bools if dtype == "b1" else of_ints
        return w.let(f"{name} {w.vector(element_type(dtype))} {xs[0]}, {xs[1]}")

    return rule


def _compare(of_floats: str, of_ints: str) -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        kind = w.vector(element_type(dtype))
        if dtype in FLOATS:
            return compared(w, of_floats, xs, dtype)
        sign = "" if len(of_ints) == 2 and of_ints in ("eq", "ne") else "s" if dtype[0] == "i" else "u"
        return w.let(f"icmp {sign}{of_ints} {kind} {xs[0]}, {xs[1]}")

    return rule


def _logic(name: str) -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        a, b = [truth(w, x, dtype) for x in xs]
        return w.let(f"{name} {w.vector('i1')} {a}, {b}")

    return rule


def _logical_not(w: Writer, xs: list[str], dtype: str) -> str:
    return w.let(f"xor {w.vector('i1')} {truth(w, xs[0], dtype)}, {w.splat('i1', 'true')}")


def _negative(w: Writer, xs: list[str], dtype: str) -> str:
    kind = w.vector(element_type(dtype))
    return w.let(f"fneg {kind} {xs[0]}" if dtype in FLOATS else f"sub {kind} {_zero(w, dtype)}, {xs[0]}")


def _square(w: Writer, xs: list[str], dtype: str) -> str:
    if dtype in FLOATS:
        return compute_strictly(w, "fmul", FLOATS[dtype], [xs[0], xs[0]])
    return w.let(f"mul {w.vector(element_type(dtype))} {xs[0]}, {xs[0]}")


def _reciprocal(w: Writer, xs: list[str], dtype: str) -> str:
    return compute_strictly(w, "fdiv", FLOATS[dtype], [w.splat(element_type(dtype), "1.0"), xs[0]])


def _sqrt(w: Writer, xs: list[str], dtype: str) -> str:
    return compute_strictly(w, SQRT, FLOATS[dtype], xs)


def _sign(w: Writer, xs: list[str], dtype: str) -> str:
    """Select 1, -1 or 0 (of any zero); nan stays."""
    (x,), kind, test, zero = xs, w.vector(element_type(dtype)), w.vector("i1"), _zero(w, dtype)

    def chosen(of_floats: str, value: int, rest: str) -> str:
        is_so = _compare(f"o{of_floats}", of_floats)(w, [x, zero], dtype)
        number = w.splat(element_type(dtype), constant(Number(value, dtype)))
        return w.let(f"select {test} {is_so}, {kind} {number}, {kind} {rest}")

    rest = chosen("eq", 0, x) if dtype in FLOATS else zero
    below = rest if dtype[0] == "u" else chosen("lt", -1, rest)
    return chosen("gt", 1, below)


def _intrinsic(name: str) -> Rule:
    return lambda w, xs, dtype: w.intrinsic(name, element_type(dtype), xs)


def _absolute(w: Writer, xs: list[str], dtype: str) -> str:
    if dtype in FLOATS:
        return _intrinsic("fabs")(w, xs, dtype)
    if dtype[0] == "u":
        return xs[0]
    kind = w.vector(element_type(dtype))
    below = w.let(f"icmp slt {kind} {xs[0]}, {_zero(w, dtype)}")
    return w.let(f"select {w.vector('i1')} {below}, {kind} {_negative(w, xs, dtype)}, {kind} {xs[0]}")


def _extreme(name: str) -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        """Select the second operand of two equal ones, as NumPy's vector code does, so that signs of zero agree."""
        kind = w.vector(element_type(dtype))
        first = _compare(f"o{name}", name)(w, xs, dtype)
        if dtype in FLOATS:
            nan = compared(w, "uno", [xs[0], _zero(w, dtype)], dtype)
            first = w.let(f"or {w.vector('i1')} {first}, {nan}")
        chosen = w.let(f"select {w.vector('i1')} {first}, {kind} {xs[0]}, {kind} {xs[1]}")
        # a choice keeps a denormal operand; where they are flushed a processor's maximum gives the zero that it equals
        is_flushed = w.may_flush and dtype in FLOATS
        return w.intrinsic("canonicalize", element_type(dtype), [chosen]) if is_flushed else chosen

    return rule


def _invert(w: Writer, xs: list[str], dtype: str) -> str:
    kind = element_type(dtype)
    return w.let(f"xor {w.vector(kind)} {xs[0]}, {w.splat(kind, 'true' if dtype == 'b1' else '-1')}")


def _shift(name: str) -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        """Shift; by the width or more, or a negative number, NumPy leaves 0, or the sign."""
        kind, bits = w.vector(element_type(dtype)), 8 * int(dtype[1:])
        one, test = element_type(dtype), w.vector("i1")
        is_less = w.let(f"icmp ult {kind} {xs[1]}, {w.splat(one, str(bits))}")
        count = w.let(f"select {test} {is_less}, {kind} {xs[1]}, {kind} {w.splat(one, str(bits - 1))}")
        way = "shl" if name == "left" else "ashr" if dtype[0] == "i" else "lshr"
        shifted = w.let(f"{way} {kind} {xs[0]}, {count}")
        return (
            shifted if way == "ashr" else w.let(f"select {test} {is_less}, {kind} {shifted}, {kind} {_zero(w, dtype)}")
        )

    return rule


def _same(w: Writer, xs: list[str], dtype: str) -> str:
    return xs[0]


def _isnan(w: Writer, xs: list[str], dtype: str) -> str:
    return compared(w, "uno", [xs[0], _zero(w, dtype)], dtype)


def _sign_bit(w: Writer, xs: list[str], dtype: str) -> str:
    kind = w.vector(f"i{8 * int(dtype[1:])}")
    return w.let(
        f"icmp slt {kind} {w.let(f'bitcast {w.vector(element_type(dtype))} {xs[0]} to {kind}')}, zeroinitializer"
    )


def _finite(predicate: str) -> Rule:
    def rule(w: Writer, xs: list[str], dtype: str) -> str:
        infinity = w.splat(element_type(dtype), "0x7FF0000000000000")
        return compared(w, predicate, [_absolute(w, xs, dtype), infinity], dtype)

    return rule


MAKERS: dict[str, Callable[..., Rule]] = {
    make.__name__[1:]: make for make in (_arithmetic, _compare, _extreme, _finite, _intrinsic, _logic, _shift)
}
RULES: dict[str, Rule] = {
    rule.__name__[1:]: rule
    for rule in (
        _absolute, _invert, _isnan, _logical_not, _negative, _reciprocal, _same, _sign, _sign_bit, _sqrt, _square,
    )
}  # fmt: skip
EMIT: dict[str, Rule] = {
    name: MAKERS[op.rule[0]](*op.rule[1:]) if op.rule[1:] else RULES[op.rule[0]]
    for name, op in SCALAR_OPS.items()
    if op.rule
}


def emit(w: Writer, name: str, xs: list[str], dtypes: list[str], dtype: str) -> str:
    """Emit an operation of the table, a cast (``cast``) or a choice (``select``) on operands of these dtypes."""
    if name == "cast":
        return cast(w, xs[0], dtypes[0], dtype)
    if name == "select":
        kind = w.vector(element_type(dtype))
        return w.let(f"select {w.vector('i1')} {xs[0]}, {kind} {xs[1]}, {kind} {xs[2]}")
    return EMIT[name](w, xs, dtypes[0])
