"""Loops of ufuncs without NumPy: the signature of NumPy's inner loops, around one scalar operation or a function of libm."""

from __future__ import annotations

import struct
from collections.abc import Callable

from afx.compiler.native_backend.elements import UfuncLoop
from afx.compiler.native_backend.llvm.op import EMIT, FLOATS, element_type, emit, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.standalone.matrix_loops import MATRIX_LOOPS
from afx.core.scalar_ops import scalar_op

__all__ = ["define_loop"]

# NumPy's name: libm's for doubles; those for floats end in f
LIBM = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "cbrt": "cbrt", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "fabs": "fabs", "float_power": "pow", "fmod": "fmod", "hypot": "hypot", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "nextafter": "nextafter", "power": "pow", "sin": "sin",
    "sinh": "sinh", "tan": "tan", "tanh": "tanh", "erf": "erf", "erfc": "erfc",
}  # fmt: skip

Scalar = Callable[[Writer, list[str], str], str]


def define_loop(w: Writer, loop: UfuncLoop) -> None:
    """Define a loop that a module calls.

    Raises:
        UnsupportedError: it is known to NumPy alone.
    """
    head = f'internal void @"{loop.symbol}"(ptr %args, ptr %sizes, ptr %steps, ptr %fault)'
    matrices = MATRIX_LOOPS.get(loop.ufunc)
    if matrices is not None and set(loop.dtypes) <= {"f4", "f8"}:
        w.function(head, lambda: matrices(w, loop.dtypes))
        return
    scalar = _scalar(loop)
    if scalar is None:
        raise UnsupportedError(f"{loop.ufunc} of {', '.join(loop.dtypes[:-1])} is known to NumPy alone")
    w.function(head, lambda: _body(w, loop, scalar))


def _body(w: Writer, loop: UfuncLoop, scalar: Scalar) -> None:
    count = w.let("load i64, ptr %sizes")
    pointers = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(len(loop.dtypes))]
    steps = [w.let(f"load i64, ptr {w.shifted('%steps', 8 * k)}") for k in range(len(loop.dtypes))]

    def step(i: str) -> None:
        at = [w.shifted(p, w.let(f"mul i64 {i}, {s}")) for p, s in zip(pointers, steps, strict=True)]
        xs = [read(w, dtype, p) for dtype, p in zip(loop.dtypes, at[:-1], strict=False)]
        written(w, loop.dtypes[-1], scalar(w, xs, loop.dtypes[0]), at[-1])

    w.loop("0", count, 1, step)
    w.line("ret void")


def _scalar(loop: UfuncLoop) -> Scalar | None:
    name, operands = loop.ufunc.removeprefix("special."), set(loop.dtypes[:-1])
    if operands <= scalar_op(name).dtypes and len(operands) == 1:
        return EMIT[name]
    if operands <= {"f4", "f8"} and len(operands) == 1:
        return OWN.get(name) or (_by_libm(LIBM[name]) if name in LIBM else None)
    integers = operands <= {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} and len(operands) == 1
    return OF_INTEGERS.get(name) if integers else None


def _by_libm(name: str) -> Scalar:
    def scalar(w: Writer, xs: list[str], dtype: str) -> str:
        return call_libm(w, name, xs, dtype)

    return scalar


def call_libm(w: Writer, name: str, xs: list[str], dtype: str) -> str:
    """Call a function of libm on floats."""
    kind, function = FLOATS[dtype], f"@{name}{'f' if dtype == 'f4' else ''}"
    w.declare(function, f"declare {kind} {function}({', '.join([kind] * len(xs))})")
    return w.let(f"call {kind} {function}({', '.join([f'{kind} {x}' for x in xs])})")


# -- what libm computes otherwise than NumPy, or not at all --
def _test(w: Writer, predicate: str, x: str, y: str, dtype: str) -> str:
    return w.let(f"fcmp {predicate} {FLOATS[dtype]} {x}, {y}")


def _choose(w: Writer, test: str, yes: str, no: str, dtype: str) -> str:
    kind = element_type(dtype)
    return w.let(f"select i1 {test}, {kind} {yes}, {kind} {no}")


def _logaddexp(base: str) -> Scalar:
    def scalar(w: Writer, xs: list[str], dtype: str) -> str:
        """Return the larger one and log1p(exp(-|x - y|)): of equal infinities, the infinity and log 2."""
        kind, (x, y) = FLOATS[dtype], xs
        larger = emit(w, "maximum", [x, y], [dtype, dtype], dtype)
        gap = w.let(f"fsub {kind} {x}, {y}")
        is_same = _test(w, "oeq", x, y, dtype)
        gap = _choose(w, is_same, "0.0", gap, dtype)
        below = w.let(f"fneg {kind} {emit(w, 'absolute', [gap], [dtype], dtype)}")
        if base == "2":
            more = call_libm(w, "exp2", [below], dtype)
            rest = w.let(f"fmul {kind} {call_libm(w, 'log1p', [more], dtype)}, {LOG2_E[dtype]}")
        else:
            rest = call_libm(w, "log1p", [call_libm(w, "exp", [below], dtype)], dtype)
        return w.let(f"fadd {kind} {larger}, {rest}")

    return scalar


LOG2_E = {"f4": "0x3FF7154760000000", "f8": "0x3FF71547652B82FE"}
DEGREES = {"f4": "0x404CA5DC20000000", "f8": "0x404CA5DC1A63C1F8"}
RADIANS = {"f4": "0x3F91DF46A0000000", "f8": "0x3F91DF46A2529D39"}


def _scaled(factors: dict[str, str]) -> Scalar:
    return lambda w, xs, dtype: w.let(f"fmul {FLOATS[dtype]} {xs[0]}, {factors[dtype]}")


def _remainder(w: Writer, xs: list[str], dtype: str) -> str:
    """Return the remainder that has the divisor's sign, as Python's."""
    kind, (x, y) = FLOATS[dtype], xs
    rest = call_libm(w, "fmod", [x, y], dtype)
    differs = w.let(f"xor i1 {_test(w, 'olt', rest, '0.0', dtype)}, {_test(w, 'olt', y, '0.0', dtype)}")
    moved = _choose(w, differs, w.let(f"fadd {kind} {rest}, {y}"), rest, dtype)
    zero = call_libm(w, "copysign", ["0.0", y], dtype)
    return _choose(w, _test(w, "oeq", rest, "0.0", dtype), zero, moved, dtype)


def _floor_divide(w: Writer, xs: list[str], dtype: str) -> str:
    """Return the quotient below, from the remainder, as NumPy computes it."""
    kind, (x, y) = FLOATS[dtype], xs
    whole = w.let(f"fsub {kind} {x}, {_remainder(w, xs, dtype)}")
    exact = w.let(f"fdiv {kind} {whole}, {y}")
    below = emit(w, "floor", [exact], [dtype], dtype)
    above_half = _test(w, "ogt", w.let(f"fsub {kind} {exact}, {below}"), "0.5", dtype)
    near = _choose(w, above_half, w.let(f"fadd {kind} {below}, 1.0"), below, dtype)
    quotient = w.let(f"fdiv {kind} {x}, {y}")
    found = _choose(
        w, _test(w, "oeq", exact, "0.0", dtype), call_libm(w, "copysign", ["0.0", quotient], dtype), near, dtype
    )
    is_finite = _test(w, "one", emit(w, "absolute", [x], [dtype], dtype), "0x7FF0000000000000", dtype)
    regular = w.let(f"and i1 {is_finite}, {_test(w, 'une', y, '0.0', dtype)}")
    nan = _choose(w, _test(w, "oeq", y, "0.0", dtype), quotient, "0x7FF8000000000000", dtype)
    return _choose(w, regular, found, nan, dtype)


def _sign(w: Writer, xs: list[str], dtype: str) -> str:
    (x,) = xs
    below = _choose(
        w,
        _test(w, "olt", x, "0.0", dtype),
        "-1.0",
        _choose(w, _test(w, "oeq", x, "0.0", dtype), "0.0", x, dtype),
        dtype,
    )
    return _choose(w, _test(w, "ogt", x, "0.0", dtype), "1.0", below, dtype)


def _heaviside(w: Writer, xs: list[str], dtype: str) -> str:
    x, at_zero = xs
    rest = _choose(w, _test(w, "ogt", x, "0.0", dtype), "1.0", x, dtype)
    rest = _choose(w, _test(w, "oeq", x, "0.0", dtype), at_zero, rest, dtype)
    return _choose(w, _test(w, "olt", x, "0.0", dtype), "0.0", rest, dtype)


def _without_nan(name: str) -> Scalar:
    def scalar(w: Writer, xs: list[str], dtype: str) -> str:
        x, y = xs
        found = emit(w, name, [x, y], [dtype, dtype], dtype)
        found = _choose(w, _test(w, "uno", y, "0.0", dtype), x, found, dtype)
        return _choose(w, _test(w, "uno", x, "0.0", dtype), y, found, dtype)

    return scalar


def _signbit(w: Writer, xs: list[str], dtype: str) -> str:
    bits = f"i{8 * int(dtype[1:])}"
    return w.let(f"icmp slt {bits} {w.let(f'bitcast {FLOATS[dtype]} {xs[0]} to {bits}')}, 0")


# -- SciPy's, in doubles --
PI, INVERSE_ROOT_2 = "0x400921FB54442D18", "0x3FE6A09E667F3BCD"
# of digamma's expansion in 1 / y², B(2 n) / (2 n) (Abramowitz & Stegun 1964, 6.3.18)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
DIGAMMA_FROM = 10  # where its terms beyond these are below a rounding


def _in_doubles(formula: Callable[[Writer, str], str]) -> Scalar:
    def scalar(w: Writer, xs: list[str], dtype: str) -> str:
        if dtype == "f8":
            return formula(w, xs[0])
        wide = formula(w, w.let(f"fpext float {xs[0]} to double"))
        return w.let(f"fptrunc double {wide} to float")

    return scalar


def _number(value: float) -> str:
    return f"0x{struct.pack('>d', value).hex().upper()}"


def _ndtr(w: Writer, x: str) -> str:
    tail = call_libm(w, "erfc", [w.let(f"fmul double {w.let(f'fneg double {x}')}, {INVERSE_ROOT_2}")], "f8")
    return w.let(f"fmul double {tail}, 0.5")


def _gammaln(w: Writer, xs: list[str], dtype: str) -> str:
    found = call_libm(w, "lgamma", xs, dtype)  # C has inf at -inf
    return _choose(w, _test(w, "oeq", xs[0], "0xFFF0000000000000", dtype), xs[0], found, dtype)


def _digamma(w: Writer, x: str) -> str:
    """Return log y - 1/2y - its expansion where y is large, reached by psi(y) = psi(y + 1) - 1/y, below 0 by reflection."""
    is_low = _test(w, "ole", x, "0.0", "f8")
    sums, now = w.local("double", 8), w.local("double", 8)
    w.line(f"store double {_choose(w, is_low, w.let(f'fsub double 1.0, {x}'), x, 'f8')}, ptr {now}")
    w.line(f"store double 0.0, ptr {sums}")

    def step(_i: str) -> None:
        y, total = w.let(f"load double, ptr {now}"), w.let(f"load double, ptr {sums}")
        is_small = _test(w, "olt", y, f"{DIGAMMA_FROM}.0", "f8")
        less = w.let(f"fsub double {total}, {w.let(f'fdiv double 1.0, {y}')}")
        w.line(f"store double {_choose(w, is_small, less, total, 'f8')}, ptr {sums}")
        w.line(f"store double {_choose(w, is_small, w.let(f'fadd double {y}, 1.0'), y, 'f8')}, ptr {now}")

    w.loop("0", str(DIGAMMA_FROM), 1, step)
    y, total = w.let(f"load double, ptr {now}"), w.let(f"load double, ptr {sums}")
    inverse = w.let(f"fdiv double 1.0, {y}")
    z, series = w.let(f"fmul double {inverse}, {inverse}"), _number(DIGAMMA[-1])
    for c in DIGAMMA[-2::-1]:
        series = w.let(f"fadd double {w.let(f'fmul double {series}, {z}')}, {_number(c)}")
    small = w.let(f"fadd double {w.let(f'fmul double {inverse}, 0.5')}, {w.let(f'fmul double {series}, {z}')}")
    large = w.let(f"fsub double {call_libm(w, 'log', [y], 'f8')}, {small}")
    found = w.let(f"fadd double {large}, {total}")
    nearest = emit(w, "rint", [x], ["f8"], "f8")
    part = w.let(f"fmul double {w.let(f'fsub double {x}, {nearest}')}, {PI}")
    turn = w.let(f"fdiv double {PI}, {call_libm(w, 'tan', [part], 'f8')}")
    low = _choose(
        w, _test(w, "oeq", part, "0.0", "f8"), "0x7FF8000000000000", w.let(f"fsub double {found}, {turn}"), "f8"
    )
    pole = call_libm(w, "copysign", ["0x7FF0000000000000", w.let(f"fneg double {x}")], "f8")
    low = _choose(w, _test(w, "oeq", x, "0.0", "f8"), pole, low, "f8")
    return _choose(w, is_low, low, found, "f8")


OWN: dict[str, Scalar] = {
    "deg2rad": _scaled(RADIANS),
    "degrees": _scaled(DEGREES),
    "digamma": _in_doubles(_digamma),
    "floor_divide": _floor_divide,
    "fmax": _without_nan("maximum"),
    "fmin": _without_nan("minimum"),
    "gammaln": _gammaln,
    "heaviside": _heaviside,
    "logaddexp": _logaddexp("e"),
    "logaddexp2": _logaddexp("2"),
    "ndtr": _in_doubles(_ndtr),
    "rad2deg": _scaled(DEGREES),
    "radians": _scaled(RADIANS),
    "remainder": _remainder,
    "sign": _sign,
    "signbit": _signbit,
    "conjugate": lambda w, xs, dtype: xs[0],
}


# -- integers: divisions by zero, and of the least number by -1, would end the process --
def _guarded(w: Writer, xs: list[str], dtype: str) -> tuple[str, str, str]:
    """Return operands that can be divided, and whether the result is 0 instead."""
    kind, (x, y) = element_type(dtype), xs
    is_zero = w.let(f"icmp eq {kind} {y}, 0")
    safe = w.let(f"select i1 {is_zero}, {kind} 1, {kind} {y}")
    if dtype[0] == "i":  # x / -1 is 0 - x, which wraps
        minus = w.let(f"icmp eq {kind} {y}, -1")
        x = w.let(f"select i1 {minus}, {kind} {w.let(f'sub {kind} 0, {x}')}, {kind} {x}")
        safe = w.let(f"select i1 {minus}, {kind} 1, {kind} {safe}")
    return x, safe, is_zero


def _integer_floor_divide(w: Writer, xs: list[str], dtype: str) -> str:
    kind = element_type(dtype)
    x, y, is_zero = _guarded(w, xs, dtype)
    if dtype[0] == "u":
        found = w.let(f"udiv {kind} {x}, {y}")
    else:
        quotient, rest = w.let(f"sdiv {kind} {x}, {y}"), w.let(f"srem {kind} {x}, {y}")
        signs = w.let(f"xor {kind} {rest}, {y}")
        differs = w.let(f"icmp slt {kind} {signs}, 0")
        below = w.let(f"and i1 {differs}, {w.let(f'icmp ne {kind} {rest}, 0')}")
        found = w.let(f"select i1 {below}, {kind} {w.let(f'sub {kind} {quotient}, 1')}, {kind} {quotient}")
    return w.let(f"select i1 {is_zero}, {kind} 0, {kind} {found}")


def _integer_remainder(w: Writer, xs: list[str], dtype: str) -> str:
    kind = element_type(dtype)
    quotient = _integer_floor_divide(w, xs, dtype)
    rest = w.let(f"sub {kind} {xs[0]}, {w.let(f'mul {kind} {quotient}, {xs[1]}')}")
    return w.let(f"select i1 {w.let(f'icmp eq {kind} {xs[1]}, 0')}, {kind} 0, {kind} {rest}")


def _integer_power(w: Writer, xs: list[str], dtype: str) -> str:
    """Return a power by squares, of an exponent that is not negative; NumPy refuses others, for which this is 1."""
    kind, (x, y) = element_type(dtype), xs
    names = [w.local(kind, 8) for _ in range(3)]
    base, left, found = names
    for name, value in zip(names, (x, y, "1"), strict=True):
        w.line(f"store {kind} {value}, ptr {name}")

    def step(_i: str) -> None:
        n, b, f = [w.let(f"load {kind}, ptr {name}") for name in (left, base, found)]
        is_odd = w.let(f"trunc {kind} {n} to i1")
        more = w.let(f"mul {kind} {f}, {b}")
        w.line(f"store {kind} {w.let(f'select i1 {is_odd}, {kind} {more}, {kind} {f}')}, ptr {found}")
        w.line(f"store {kind} {w.let(f'mul {kind} {b}, {b}')}, ptr {base}")
        w.line(f"store {kind} {w.let(f'lshr {kind} {n}, 1')}, ptr {left}")

    w.loop("0", str(8 * int(dtype[1:]) - (dtype[0] == "i")), 1, step)
    return w.let(f"load {kind}, ptr {found}")


def _integer_sign(w: Writer, xs: list[str], dtype: str) -> str:
    kind, (x,) = element_type(dtype), xs
    order = "sgt" if dtype[0] == "i" else "ugt"
    above = w.let(f"zext i1 {w.let(f'icmp {order} {kind} {x}, 0')} to {kind}")
    if dtype[0] == "u":
        return above
    return w.let(f"select i1 {w.let(f'icmp slt {kind} {x}, 0')}, {kind} -1, {kind} {above}")


OF_INTEGERS: dict[str, Scalar] = {
    "floor_divide": _integer_floor_divide,
    "power": _integer_power,
    "remainder": _integer_remainder,
    "sign": _integer_sign,
}
