"""Complex numbers: arithmetic of vectors of their parts as LLVM IR, operation by operation as in NumPy's vector loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afx.compiler.native_backend.functions.lanes import BITS, Lanes, bits_of
from afx.compiler.native_backend.llvm.op import cast as cast_number, shuffled
from afx.compiler.native_backend.llvm.writer import SIZES, Writer, compare_strictly, compute_strictly
from afx.core.scalar_ops import SQRT

KINDS = {"c8": "float", "c16": "double"}  # of their parts
END = {"float": 128, "double": 1024}  # of the first one that no number has

# --- Parts: next to each other, the real one first, or apart
#
# A single number of floats stands in a vector twice: LLVM would fill that up with elements that raise flags.


class Parts:
    """Parts of as many numbers as the writer computes at once; within it operations are of vectors of these."""

    def __init__(self, w: Writer, dtype: str) -> None:
        self.w: Writer = w
        self.kind: str = KINDS[dtype]
        self.count: int = w.lanes
        self.lanes: int = max(2 * w.lanes, 128 // SIZES[self.kind])
        self.plain: str = f"<{2 * w.lanes} x {self.kind}>"
        self.whole: str = w.vector(f"i{8 * int(dtype[1:])}")

    def __enter__(self) -> Parts:
        self.w.lanes = self.lanes
        return self

    def __exit__(self, *_: object) -> None:
        self.w.lanes = self.count

    def plain_of(self, x: str) -> str:
        """Return the parts of each number once."""
        return self.w.let(f"bitcast {self.whole} {x} to {self.plain}")

    def of(self, x: str) -> str:
        """Return the parts of numbers."""
        plain = self.plain_of(x)
        return plain if self.lanes == 2 * self.count else self._shuffled(plain, 2 * self.count, [0, 1, 0, 1])

    def whole_of(self, z: str) -> str:
        """Return the numbers that have these parts."""
        if self.lanes > 2 * self.count:
            z = self._shuffled(z, self.lanes, range(2 * self.count))
        return self.w.let(f"bitcast {self.plain} {z} to {self.whole}")

    def moved(self, x: str, first: int, second: int) -> str:
        """Return parts in place of each number's own: the real one (0) or the imaginary one (1)."""
        return self._shuffled(x, self.lanes, [k + (first, second)[n] for k in range(0, self.lanes, 2) for n in (0, 1)])

    def turned(self, x: str, real: bool, imaginary: bool) -> str:
        """Return parts of which these have the other sign."""
        bits, sign = BITS[self.kind], str(-1 << SIZES[self.kind] - 1)
        mask = ", ".join([f"{bits} {sign if turns else 0}" for turns in (real, imaginary)] * (self.lanes // 2))
        turned = Lanes(self.w, self.kind, x).bits()
        return Lanes(self.w, bits, self.w.let(f"xor {turned.type} {turned.name}, <{mask}>")).as_float().name

    def _shuffled(self, x: str, count: int, order: Sequence[int]) -> str:
        return shuffled(self.w, self.kind, x, count, order)


def part(w: Writer, dtype: str, x: str, which: int) -> Lanes:
    """Return the real parts (0) or the imaginary ones (1)."""
    parts = Parts(w, dtype)
    plain = parts.plain_of(x)
    if w.lanes == 1:
        return Lanes(w, parts.kind, w.let(f"extractelement {parts.plain} {plain}, i64 {which}"))
    return Lanes(w, parts.kind, shuffled(w, parts.kind, plain, 2 * w.lanes, range(which, 2 * w.lanes, 2)))


def join(w: Writer, dtype: str, real: str, imaginary: str) -> str:
    """Return the numbers that have these parts."""
    parts, n = Parts(w, dtype), w.lanes
    if n == 1:
        first = w.let(f"insertelement {parts.plain} poison, {parts.kind} {real}, i64 0")
        both = w.let(f"insertelement {parts.plain} {first}, {parts.kind} {imaginary}, i64 1")
    else:
        both = shuffled(w, parts.kind, real, n, [k // 2 + n * (k % 2) for k in range(2 * n)], imaginary)
    return w.let(f"bitcast {parts.plain} {both} to {parts.whole}")


# --- Operations


def _of_parts(name: str) -> Callable[..., str]:
    def rule(w: Writer, xs: Sequence[str], dtypes: Sequence[str], _dtype: str) -> str:
        with Parts(w, dtypes[0]) as p:
            return p.whole_of(compute_strictly(w, name, p.kind, [p.of(x) for x in xs]))

    return rule


def _turn(real: bool) -> Callable[..., str]:
    def rule(w: Writer, xs: Sequence[str], dtypes: Sequence[str], _dtype: str) -> str:
        with Parts(w, dtypes[0]) as p:
            return p.whole_of(p.turned(p.of(xs[0]), real, True))

    return rule


def _multiply(w: Writer, xs: Sequence[str], dtypes: Sequence[str], _dtype: str) -> str:
    """Return products, or squares: of each part one of two products is rounded, and the sum."""
    with Parts(w, dtypes[0]) as p:
        x, y = p.of(xs[0]), p.of(xs[-1])
        rest = compute_strictly(w, "fmul", p.kind, [p.moved(x, 1, 1), p.moved(y, 1, 0)])
        return p.whole_of(compute_strictly(w, "fma", p.kind, [p.moved(x, 0, 0), y, p.turned(rest, True, False)]))


def _absolute(w: Writer, xs: Sequence[str], dtypes: Sequence[str], _dtype: str) -> str:
    """Return sizes, for which no overflow is told; where any number is not usual a function of all computes them."""
    of, kind = w.vector(f"i{8 * int(dtypes[0][1:])}"), w.vector(KINDS[dtypes[0]])
    name = f"@size.{dtypes[0]}.{w.lanes}"
    again = f"{kind} {name}.all({of} %x)"
    w.define(name, f"internal {kind} {name}({of} %x) alwaysinline", lambda: _usual_sizes(w, dtypes[0], again))
    w.define(f"{name}.all", f"internal {again} noinline cold", lambda: _return(_sizes(w, dtypes[0])))
    return w.let(f"tail call {kind} {name}({of} {xs[0]})")


def _return(z: Lanes) -> None:
    z.w.line(f"ret {z.type} {z.name}")


def _usual_sizes(w: Writer, dtype: str, again: str) -> None:
    """Add sizes: the larger part times the length beside it, from the quotient; unless a part is large, denormal or no number."""
    kind = KINDS[dtype]
    x, y = (part(w, dtype, "%x", which).bits() & (1 << SIZES[kind] - 1) - 1 for which in (0, 1))
    is_first = x.compare("ugt", y)
    long, short = is_first.choose(x, y), is_first.choose(y, x)
    least, end = (bits_of(kind, 2.0**n) for n in (2 - END[kind], END[kind] - 2))
    is_usual = (long - least).compare("ult", end - least)
    z = _times_length(is_usual.choose(long.as_float(), 1.0), is_usual.choose(short.as_float(), 0.0))
    is_other = is_usual.choose(long.constant(0), long).compare("ne", 0)
    w.leave(w.any(is_other.name), f"%all = call {again}", f"ret {z.type} %all")
    _return(is_usual.choose(z, 0.0))


def _times_length(long: Lanes, short: Lanes, factor: Lanes | None = None) -> Lanes:
    """Return ``long * sqrt(1 + (short / long)²)``, by a factor before the last product."""
    ratio = _strictly("fdiv", short, long)
    length = _strictly(SQRT, _strictly("fma", ratio, ratio, long.constant(1.0)))
    return _strictly("fmul", length, _strictly("fmul", long, factor) if factor else long)


def _sizes(w: Writer, dtype: str) -> Lanes:
    """Return sizes of any numbers; those of infinite ones are so, whatever the other part is."""
    x, y = (part(w, dtype, "%x", which).unary("fabs") for which in (0, 1))
    one, infinity, none = x.constant(1.0), x.constant(math.inf), x.constant(0.0)
    is_first = _compare("ogt", x, y)
    long, short = is_first.choose(x, y), is_first.choose(y, x)
    is_usual = _compare("ogt", long, none) & _compare("olt", long, infinity) & _compare("ord", x, y)
    long_one, short_one = is_usual.choose(long, one), is_usual.choose(short, none)
    is_large = _compare("ogt", long_one, one)
    z = _times_length(long_one, short_one, is_large.choose(x.constant(0.25), one))
    is_over = is_large & _compare("oge", z, x.constant(2.0 ** (END[x.kind] - 2)))
    z = _strictly("fmul", is_over.choose(none, z), is_large.choose(x.constant(4.0), one))
    nan = Lanes(w, x.kind, w.splat(x.kind, "0x7FF8000000000000"))
    is_infinite = _compare("oeq", x, infinity) | _compare("oeq", y, infinity)
    limit = is_infinite.choose(infinity, _compare("uno", x, y).choose(nan, none))
    return is_usual.choose(is_over.choose(infinity, z), limit)


def _strictly(name: str, *xs: Lanes) -> Lanes:
    names = [x.name for x in xs]
    return Lanes(xs[0].w, xs[0].kind, compute_strictly(xs[0].w, name, xs[0].kind, names, of_chosen=True))


def _compare(predicate: str, x: Lanes, y: Lanes) -> Lanes:
    return Lanes(x.w, "i1", compare_strictly(x.w, predicate, x.kind, [x.name, y.name]))


def _take(which: int) -> Callable[..., str]:
    def rule(w: Writer, xs: Sequence[str], dtypes: Sequence[str], _dtype: str) -> str:
        return part(w, dtypes[0], xs[0], which).name

    return rule


def _cast(w: Writer, xs: Sequence[str], dtypes: Sequence[str], dtype: str) -> str:
    real = cast_number(w, xs[0], dtypes[0], f"f{int(dtype[1:]) // 2}")
    return join(w, dtype, real, w.splat(KINDS[dtype], "0.0"))


def _select(w: Writer, xs: Sequence[str], _dtypes: Sequence[str], dtype: str) -> str:
    parts, test, kind = Parts(w, dtype), xs[0], "i1"
    if w.lanes > 1:
        test = shuffled(w, "i1", test, w.lanes, [k // 2 for k in range(2 * w.lanes)])
        kind = f"<{2 * w.lanes} x i1>"
    x, y = map(parts.plain_of, xs[1:])
    z = w.let(f"select {kind} {test}, {parts.plain} {x}, {parts.plain} {y}")
    return w.let(f"bitcast {parts.plain} {z} to {parts.whole}")


# by `ScalarOp.parts`, parts and what no ufunc computes by their own names: of operands and their dtypes, and the result's
RULES: dict[str, Callable[..., str]] = {
    "fadd": _of_parts("fadd"), "fsub": _of_parts("fsub"), "turned": _turn(True), "half_turned": _turn(False),
    "product": _multiply, "size": _absolute, "part.0": _take(0), "part.1": _take(1), "cast": _cast, "select": _select,
}  # fmt: skip


# --- Quotients: by Smith (1962), of the parts' quotient


def divide_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where a part is infinite or nan, or the divisor 0."""
    dtype = f"c{int(x.kind[1:]) // 8}"
    *others, real, imaginary = (part(x.w, dtype, z.name, which) for z in (x, y) for which in (0, 1))
    hard = real.compare("oeq", 0.0) & imaginary.compare("oeq", 0.0)
    for z in (*others, real, imaginary):
        hard = hard | (z.bits() << 1).compare("uge", z.constant(math.inf).bits() << 1)
    return hard


def divide(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x / y`` where that is not hard."""
    w, dtype, hard = x.w, f"c{int(x.kind[1:]) // 8}", divide_is_hard(x, y)
    parts = [part(w, dtype, z.name, which) for z in (x, y) for which in (0, 1)]
    a, b, c, d = (hard.choose(z.constant(safe), z) for z, safe in zip(parts, (0.0, 0.0, 1.0, 0.0), strict=True))
    is_first = c.unary("fabs").compare("oge", d.unary("fabs"))
    long, short = is_first.choose(c, d), is_first.choose(d, c)
    own, other = is_first.choose(a, b), is_first.choose(b, a)
    ratio = _strictly("fdiv", short, long)
    factor = _strictly("fdiv", c.constant(1.0), _strictly("fadd", long, _strictly("fmul", short, ratio)))
    product = _strictly("fmul", own, ratio)
    sums = _strictly("fadd", own, _strictly("fmul", other, ratio))
    rest = _strictly("fsub", is_first.choose(other, product), is_first.choose(product, other))
    real, imaginary = (_strictly("fmul", z, factor) for z in (sums, rest))
    return Lanes(w, x.kind, join(w, dtype, real.name, imaginary.name))
