"""Scalar operations: one row a ufunc of NumPy, with what the compiler knows of it; a column is tested against NumPy.

Whoever adds an instruction to machine code, a form on Python's numbers or a reduction adds a row, or fills a column.
"""

from __future__ import annotations

from typing import NamedTuple

REAL = frozenset({"f4", "f8"})
INTEGERS = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
ARITHMETIC = REAL | INTEGERS
BITS = INTEGERS | {"b1"}
ALL = ARITHMETIC | {"b1"}
# moved as bits, with whose parts machine code computes where NumPy's loops have the same bits
COMPLEX = frozenset({"c8", "c16"})
INFINITY = float("inf")


class ScalarOp(NamedTuple):
    """What is known of a ufunc.

    Attributes:
        dtypes: of operands, all alike, in which machine code computes it by instructions: names without byte order.
        rule: which rule of machine code does, and the instructions that it takes: of floats, integers, truth values.
        symbol: between its operands.
        text: the expression on Python's floats; without it, one of the symbol, if it has one.
        passing: operands whose infinities and nan stay infinities or nan in that.
        counts: whether it is right for Python's integers too.
        of_bools: the expression on Python's truth values.
        fold: what a reduction by it is called.
        start: what a reduction begins with; None for its first element.
        lane: what lanes of a reduction of floats begin with, which changes no element.
        commutes: whether its operands can change places, to the same bits.
        is_quiet: whether it raises no floating-point flag.
        clears: whether NumPy's loop (2.4) takes back flags in the end, also those raised before it.
        refused: kinds of dtypes whose loop asks for Python's lock itself, or raises.
        libm: the function of the C library that computes it of floats.
        parts: which rule of machine code computes it of the parts of complex numbers.
    """

    dtypes: frozenset[str] = frozenset()
    rule: tuple[str, ...] = ()
    symbol: str = ""
    text: str = ""
    passing: tuple[int, ...] = (0, 1)
    counts: bool = False
    of_bools: str = ""
    fold: str = ""
    start: bool | int | None = None
    lane: float | None = None
    commutes: bool = False
    is_quiet: bool = False
    clears: bool = False
    refused: str = ""
    libm: str = ""
    parts: str = ""

    @property
    def is_comparison(self) -> bool:
        """Whether it compares two numbers."""
        return self.rule[:1] == ("compare",)

    @property
    def python(self) -> str:
        """The expression on Python's numbers, empty where there is none."""
        return self.text or (f"{{}} {self.symbol} {{}}" if self.symbol else "")


def _compared(symbol: str, of_floats: str, of_ints: str, commutes: bool = False) -> ScalarOp:
    dtypes = ALL if commutes else ARITHMETIC
    return ScalarOp(
        dtypes, ("compare", of_floats, of_ints), symbol, passing=(), commutes=commutes, is_quiet=True, clears=True
    )


def _rounded(name: str) -> ScalarOp:
    return ScalarOp(REAL, ("intrinsic", name))


# fmt: off
SCALAR_OPS: dict[str, ScalarOp] = {
    # -- arithmetic --
    "add": ScalarOp(ALL, ("arithmetic", "fadd", "add", "or"), "+", counts=True, fold="sum", start=0, lane=-0.0, commutes=True,
                    parts="fadd"),
    "subtract": ScalarOp(ARITHMETIC, ("arithmetic", "fsub", "sub"), "-", counts=True, parts="fsub"),
    "multiply": ScalarOp(ALL, ("arithmetic", "fmul", "mul", "and"), "*", counts=True, fold="prod", start=1, lane=1.0,
                         commutes=True, parts="product"),
    "divide": ScalarOp(REAL, ("arithmetic", "fdiv", ""), "/", passing=(0,), parts="quotient"),
    "negative": ScalarOp(ARITHMETIC, ("negative",), text="-{}", counts=True, clears=True, parts="turned"),
    "conjugate": ScalarOp(COMPLEX, is_quiet=True, parts="half_turned"),
    "positive": ScalarOp(ARITHMETIC, ("same",), text="{}"),
    "square": ScalarOp(ARITHMETIC, ("square",), text="{0} * {0}", parts="product"),
    "reciprocal": ScalarOp(REAL, ("reciprocal",), text="1.0 / {}", passing=()),
    "absolute": ScalarOp(ARITHMETIC, ("absolute",), text="abs_({})", clears=True, parts="size"),
    "sign": ScalarOp(ARITHMETIC, ("sign",), clears=True),
    "sqrt": ScalarOp(REAL, ("sqrt",), text="sqrt_({})"),
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "trunc": _rounded("trunc"),
    "rint": _rounded("rint"),
    "copysign": ScalarOp(REAL, ("intrinsic", "copysign"), is_quiet=True),
    "maximum": ScalarOp(ARITHMETIC, ("extreme", "gt"), fold="max", lane=-INFINITY, clears=True),
    "minimum": ScalarOp(ARITHMETIC, ("extreme", "lt"), fold="min", lane=INFINITY, clears=True),
    # -- comparison --
    "equal": _compared("==", "oeq", "eq", commutes=True),
    "not_equal": _compared("!=", "une", "ne", commutes=True),
    "less": _compared("<", "olt", "lt"),
    "less_equal": _compared("<=", "ole", "le"),
    "greater": _compared(">", "ogt", "gt"),
    "greater_equal": _compared(">=", "oge", "ge"),
    "isnan": ScalarOp(REAL, ("isnan",), is_quiet=True, clears=True),
    "isfinite": ScalarOp(REAL, ("finite", "one"), is_quiet=True, clears=True),
    "isinf": ScalarOp(REAL, ("finite", "oeq"), is_quiet=True, clears=True),
    # -- logic and bits --
    "logical_and": ScalarOp(ALL, ("logic", "and"), of_bools="{} & {}", start=True, commutes=True, is_quiet=True, clears=True),
    "logical_or": ScalarOp(ALL, ("logic", "or"), of_bools="{} | {}", start=False, commutes=True, is_quiet=True, clears=True),
    "logical_xor": ScalarOp(ALL, ("logic", "xor"), of_bools="{} ^ {}", commutes=True),
    "logical_not": ScalarOp(ALL, ("logical_not",), of_bools="not {}"),
    "bitwise_and": ScalarOp(BITS, ("arithmetic", "", "and", "and"), "&", of_bools="{} & {}", commutes=True),
    "bitwise_or": ScalarOp(BITS, ("arithmetic", "", "or", "or"), "|", of_bools="{} | {}", start=0, commutes=True),
    "bitwise_xor": ScalarOp(BITS, ("arithmetic", "", "xor", "xor"), "^", of_bools="{} ^ {}", commutes=True),
    "invert": ScalarOp(BITS, ("invert",), of_bools="not {}"),
    "left_shift": ScalarOp(INTEGERS, ("shift", "left"), "<<"),
    "right_shift": ScalarOp(INTEGERS, ("shift", "right"), ">>"),
    "signbit": ScalarOp(REAL, ("sign_bit",), is_quiet=True, clears=True),
    # -- loops of NumPy, or functions of the C library --
    "tanh": ScalarOp(clears=True, libm="tanh"),
    "power": ScalarOp(refused="iu", libm="pow"),
    "ldexp": ScalarOp(refused="f"),
    "frexp": ScalarOp(refused="f"),
    **{name: ScalarOp(libm=name.replace("arc", "a")) for name in (
        "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1",
        "fmod", "hypot", "log", "log10", "log1p", "log2", "nextafter", "sin", "sinh", "tan",
    )},
}
# fmt: on
# what the compiler computes with on its own account
ADD, MULTIPLY, MATMUL, MAXIMUM, MINIMUM = "add", "multiply", "matmul", "maximum", "minimum"
COPYSIGN, FLOOR, SQRT, TRUNC = "copysign", "floor", "sqrt", "trunc"
FOLDS: dict[str, str] = {op.fold: name for name, op in SCALAR_OPS.items() if op.fold}
OF_SCIPY = frozenset({"erf", "erfc"})  # of its ufuncs, those that the C library has too
OF_FORMATS = frozenset({"nextafter", "spacing"})  # whose results depend on the format of a number
EXACT = frozenset({"fmod", "nextafter"})  # of the C library, whose results IEEE 754 leaves no choice
_UNKNOWN = ScalarOp()


def scalar_op(name: str) -> ScalarOp:
    """Return the row of a ufunc, an empty one where nothing is known of it.

    >>> scalar_op("add").python, scalar_op("exp").python
    ('{} + {}', '')
    """
    return SCALAR_OPS.get(name, _UNKNOWN)
