"""Loops of ufuncs without NumPy: the signature of NumPy's inner loops, around one scalar operation or a function of libm."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.portable import EXACT, compute
from afx.compiler.native_backend.llvm.op import EMIT, FLOATS, element_type, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.native_backend.standalone.matrix_loops import MATRIX_LOOPS, Elements, each
from afx.core.scalar_ops import scalar_op

# NumPy's name: libm's for doubles; those for floats end in f
LIBM = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "cbrt": "cbrt", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "fabs": "fabs", "float_power": "pow", "fmod": "fmod", "hypot": "hypot", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "nextafter": "nextafter", "power": "pow", "sin": "sin",
    "sinh": "sinh", "tan": "tan", "tanh": "tanh", "erf": "erf", "erfc": "erfc",
}  # fmt: skip
DTYPES = {kind: dtype for dtype, kind in FLOATS.items()}

PORTABLE_NAMES = {"lgamma": "gammaln"}

Formula = Callable[..., Lanes]


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
    formula = _formula(loop)
    if formula is None:
        operands = loop.dtypes[:-1] or loop.dtypes  # sorts have one array
        raise UnsupportedError(f"{loop.ufunc} of {', '.join(operands)} is known to NumPy alone")
    w.function(head, lambda: _body(w, loop, formula))


def _body(w: Writer, loop: UfuncLoop, formula: Formula) -> None:
    count = w.let("load i64, ptr %sizes")
    pointers = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(len(loop.dtypes))]
    steps = [w.let(f"load i64, ptr {w.shifted('%steps', 8 * k)}") for k in range(len(loop.dtypes))]
    for i in each(w, 0, Lanes(w, "i64", count)):
        at = [w.shifted(p, w.let(f"mul i64 {i.name}, {s}")) for p, s in zip(pointers, steps, strict=True)]
        pairs = zip(loop.dtypes, at[:-1], strict=False)
        xs = [Lanes(w, element_type(dtype), read(w, dtype, p)) for dtype, p in pairs]
        written(w, loop.dtypes[-1], formula(*xs).name, at[-1])
    w.line("ret void")


def _formula(loop: UfuncLoop) -> Formula | None:
    name, operands = loop.ufunc.removeprefix("special."), set(loop.dtypes[:-1])
    if len(operands) != 1:
        return None
    (dtype,) = operands
    if dtype in scalar_op(name).dtypes:
        return partial(_by_table, name, dtype, element_type(loop.dtypes[-1]))
    if dtype in FLOATS:
        return OF_FLOATS.get(name) or (partial(_by_libm, LIBM[name]) if name in LIBM else None)
    of_integers = OF_INTEGERS.get(name) if dtype[0] in "iu" else None
    return None if of_integers is None else partial(of_integers, dtype[0] == "i")


def _by_table(name: str, dtype: str, kind: str, *xs: Lanes) -> Lanes:
    return Lanes(xs[0].w, kind, EMIT[name](xs[0].w, [x.name for x in xs], dtype))


def _by_libm(name: str, *xs: Lanes) -> Lanes:
    w, kind = xs[0].w, xs[0].kind
    if w.is_portable and name not in EXACT:
        z = compute(name, xs)
        if z is None:
            raise UnsupportedError(f"{PORTABLE_NAMES.get(name, name)} has no portable form")
        return z
    function = f"@{name}{'f' if kind == 'float' else ''}"
    w.declare(function, f"declare {kind} {function}({', '.join([kind] * len(xs))})")
    return Lanes(w, kind, w.let(f"call {kind} {function}({', '.join([f'{kind} {x.name}' for x in xs])})"))


# -- what libm computes otherwise than NumPy, or not at all --
def _floats(name: str, *xs: Lanes) -> Lanes:
    """Return an operation on floats, as NumPy's plan computes it."""
    return _by_table(name, DTYPES[xs[0].kind], xs[0].kind, *xs)


def _scale(factor: float, x: Lanes) -> Lanes:
    return x * (factor if x.kind == "double" else struct.unpack("f", struct.pack("f", factor))[0])


def _remainder(x: Lanes, y: Lanes) -> Lanes:
    """Return the remainder that has the divisor's sign, as Python's."""
    rest = _by_libm("fmod", x, y)
    moved = (rest.compare("olt", 0.0) ^ y.compare("olt", 0.0)).choose(rest + y, rest)
    return rest.compare("oeq", 0.0).choose(_by_libm("copysign", x.constant(0.0), y), moved)


def _floor_divide(x: Lanes, y: Lanes) -> Lanes:
    """Return the quotient below, from the remainder, as NumPy computes it."""
    rest = _by_libm("fmod", x, y)
    exact = (x - rest) / y
    crosses = rest.compare("one", 0.0) & (rest.compare("olt", 0.0) ^ y.compare("olt", 0.0))
    exact = crosses.choose(exact - 1.0, exact)
    below = _floats("floor", exact)
    near = (exact - below).compare("ogt", 0.5).choose(below + 1.0, below)
    quotient = x / y
    quotients = exact.compare("oeq", 0.0).choose(_by_libm("copysign", x.constant(0.0), quotient), near)
    is_finite = _floats("absolute", x).compare("one", math.inf)
    nan = y.compare("oeq", 0.0).choose(quotient, math.nan)
    return (is_finite & y.compare("une", 0.0)).choose(quotients, nan)


def _signbit(x: Lanes) -> Lanes:
    return x.bits().compare("slt", 0)


def _without_nan(name: str, x: Lanes, y: Lanes) -> Lanes:
    other = y.compare("uno", 0.0).choose(x, _floats(name, x, y))
    return x.compare("uno", 0.0).choose(y, other)


# -- SciPy's, in doubles --
# of digamma's expansion in 1 / y², B(2 n) / (2 n) (Abramowitz & Stegun 1964, 6.3.18)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
DIGAMMA_FROM = 10  # where its terms beyond these are below a rounding


def _in_doubles(formula: Formula, x: Lanes) -> Lanes:
    return formula(x.widen()).narrow(x.kind)


def _ndtr(x: Lanes) -> Lanes:
    return _by_libm("erfc", -x * math.sqrt(0.5)) * 0.5


def _gammaln(x: Lanes) -> Lanes:
    return x.compare("oeq", -math.inf).choose(x, _by_libm("lgamma", x))  # C has inf at -inf


def _digamma(x: Lanes) -> Lanes:
    """Return log y - 1/2y - its expansion where y is large, reached by psi(y) = psi(y + 1) - 1/y, below 0 by reflection."""
    w, is_low = x.w, x.compare("ole", 0.0)
    now, sums = [Elements(w, x.kind, w.local(x.kind, 8)) for _ in range(2)]
    now[()], sums[()] = is_low.choose(x.constant(1.0) - x, x), x.constant(0.0)
    for _ in each(w, 0, DIGAMMA_FROM):
        y, total = now[()], sums[()]
        is_small = y.compare("olt", DIGAMMA_FROM)
        sums[()] = is_small.choose(total - y.constant(1.0) / y, total)
        now[()] = is_small.choose(y + 1.0, y)
    y = now[()]
    inverse = y.constant(1.0) / y
    z = inverse * inverse
    series = z.constant(DIGAMMA[-1])
    for c in DIGAMMA[-2::-1]:
        series = series * z + c
    psi = (_by_libm("log", y) - (inverse * 0.5 + series * z)) + sums[()]
    part = (x - _floats("rint", x)) * math.pi
    turn = x.constant(math.pi) / _by_libm("tan", part)
    low = part.compare("oeq", 0.0).choose(x.constant(math.nan), psi - turn)
    pole = _by_libm("copysign", x.constant(math.inf), -x)
    return is_low.choose(x.compare("oeq", 0.0).choose(pole, low), psi)


OF_FLOATS: dict[str, Formula] = {
    "deg2rad": partial(_scale, math.pi / 180),
    "digamma": partial(_in_doubles, _digamma),
    "floor_divide": _floor_divide,
    "fmax": partial(_without_nan, "maximum"),
    "fmin": partial(_without_nan, "minimum"),
    "gammaln": _gammaln,
    "ndtr": partial(_in_doubles, _ndtr),
    "rad2deg": partial(_scale, 180 / math.pi),
    "remainder": _remainder,
    "signbit": _signbit,
}


# -- integers: divisions by zero, and of the least number by -1, would end the process --
def _divide(name: str, x: Lanes, y: Lanes) -> Lanes:
    return Lanes(x.w, x.kind, x.w.let(f"{name} {x.type} {x.name}, {y.name}"))


def _integer_floor_divide(is_signed: bool, x: Lanes, y: Lanes) -> Lanes:
    is_zero = y.compare("eq", 0)
    safe = is_zero.choose(y.constant(1), y)
    if not is_signed:
        return is_zero.choose(y.constant(0), _divide("udiv", x, safe))
    minus = y.compare("eq", -1)  # x / -1 is 0 - x, which wraps
    x, safe = minus.choose(x.constant(0) - x, x), minus.choose(y.constant(1), safe)
    quotient, rest = _divide("sdiv", x, safe), _divide("srem", x, safe)
    is_above = (rest ^ safe).compare("slt", 0) & rest.compare("ne", 0)
    return is_zero.choose(y.constant(0), is_above.choose(quotient - 1, quotient))


def _integer_remainder(is_signed: bool, x: Lanes, y: Lanes) -> Lanes:
    quotient = _integer_floor_divide(is_signed, x, y)
    return y.compare("eq", 0).choose(y.constant(0), x - quotient * y)


OF_INTEGERS: dict[str, Formula] = {
    "floor_divide": _integer_floor_divide,
    "remainder": _integer_remainder,
}
