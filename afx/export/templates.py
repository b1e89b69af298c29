"""Templates: a traced graph as a text, or a file, of another language, by one table of templates a language."""

from __future__ import annotations

import ast
import functools
import linecache
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

import attrs
import numpy as np

from afx.compiler.graph.builder import GraphBuilder
from afx.compiler.graph.strengthen import strengthen
from afx.compiler.schedule.schedule import BranchSpec, ControlSpec, graphs_of
from afx.compiler.target import Target, current
from afx.core.aval import Aval
from afx.core.dtypes import promote
from afx.core.graph import Atom, Equation, Graph, Literal, Var, number_variables
from afx.core.primitive import Primitive, primitives
from afx.core.registry import FUNCTIONS
from afx.core.tracing.tracer import SourceLocation, places_of
from afx.core.tracing.traces import GraphTrace
from afx.errors import ExportError
from afx.export.traced import escape_line, prepare

# --- Names: what the values of a graph are called in another language, after the user's own variables


class Names:
    """Names in use, of which there are no two alike.

    >>> names = Names(["in"])
    >>> names.make("params.w[0]"), names.make("params.w[0]"), names.make("in")
    ('params_w_0', 'params_w_0_2', 'in_2')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.used: set[str] = set(taken)
        self._next: dict[str, int] = {}

    def make(self, wish: str) -> str:
        """Return an identifier of ASCII letters, digits and _ that is like the wish, and not in use."""
        stem = re.sub(r"\W+", "_", wish, flags=re.ASCII).rstrip("_") or "t"
        stem = stem.lstrip("_") if not wish.startswith("_") else stem
        stem = f"x{stem}" if stem[0].isdigit() else stem
        name, k = stem, self._next.get(stem, 1)
        while name in self.used:
            k += 1
            name = f"{stem}_{k}"
        self._next[stem] = k
        self.used.add(name)
        return name


def wish_names(equations: Sequence[Equation]) -> list[list[str]]:
    """Return a wish for each output of each equation: the variables that its line assigns, where it is the last of it.

    What comes before on the line is a part of that variable; what no line assigns is ``t``.
    """
    places = places_of([eq.source for eq in equations])
    wishes, done = list[list[str]](), set[tuple[str, int]]()
    for k, (eq, place) in enumerate(zip(equations, places, strict=True)):
        count = len(eq.outputs)
        following = places[k + 1] if k + 1 < len(places) else None
        stems = () if place is None else assigned_names(place.file).get(place.line, ())
        if place is None or len(stems) != count:
            wishes.append(["t"] * count)
        elif following is not None and (following.file, following.line) == (place.file, place.line):
            wishes.append([f"{stem}_part" for stem in stems])
        else:
            again = "_again" if (place.file, place.line) in done else ""
            wishes.append([f"{stem}{again}" for stem in stems])
            done.add((place.file, place.line))
    return wishes


@functools.lru_cache(maxsize=64)
def assigned_names(file: str) -> dict[int, tuple[str, ...]]:
    """Return the variables that each line of a file assigns; empty where the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    by_line: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple([part.id for part in parts if isinstance(part, ast.Name)])
        if len(names) == len(parts):
            by_line |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), names)
    return by_line


def source_text(place: SourceLocation | None) -> str:
    """Return the user's line without its indentation, an empty text where it cannot be read."""
    return "" if place is None else escape_line(linecache.getline(place.file, place.line).strip())


def name_function(name: str) -> str:
    """Return the last part of a function's name, ``function`` where that is no name.

    >>> name_function("fit.<locals>.loss"), name_function("fit.<locals>.<lambda>")
    ('loss', 'function')
    """
    last = name.rpartition(".")[2]
    return last if last.isidentifier() and last.isascii() else "function"


# --- Formulas: elementwise operations in terms of others, for languages that lack them
#
# Each is a function of Arrays of one dtype, accurate near 0 and where a part overflows. A language's table names the
# operations that it has; the equations of others become those of the traced formula.

F: Any = FUNCTIONS
DOUBLE = np.dtype(np.float64)
ROOT_2, LOG_2, LOG_2PI = math.sqrt(2.0), math.log(2.0), math.log(2 * math.pi)


# -- parts of numbers --
def _is_float(x: Any) -> bool:
    return bool(x.dtype.kind == "f")


def _signbit(x: Any) -> Any:
    return (x < 0) | ((x == 0) & (1 / x < 0)) if _is_float(x) else x < 0


def _trunc(x: Any) -> Any:
    return F.where(x < 0, F.ceil(x), F.floor(x)) if _is_float(x) else x


def _fmax(x: Any, y: Any) -> Any:
    return F.where((x > y) | F.isnan(y), x, y)  # of zeros the second, as NumPy


def _fmin(x: Any, y: Any) -> Any:
    return F.where((x < y) | F.isnan(y), x, y)


def _remainder(x: Any, y: Any) -> Any:
    rest = F.fmod(x, y)
    remainder = F.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)
    return F.where(rest == 0, F.where(y < 0, -0.0, 0.0), remainder)


def _floor_divide(x: Any, y: Any) -> Any:
    """Return what is left when C's remainder is taken away, as NumPy does, so that inf divides."""
    rest = F.fmod(x, y)
    quotient = (x - rest) / y
    quotient = F.where((rest != 0) & ((rest < 0) ^ (y < 0)), quotient - 1.0, quotient)
    below = F.floor(quotient)
    below = F.where(quotient - below > 0.5, below + 1.0, below)
    floored = F.where(below == 0, x / y * 0.0, below)
    return F.where(y == 0, x / y, floored)


# -- exponentials --
def _expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``: near 0 by half the argument's hyperbolic tangent."""
    half = F.tanh(x * 0.5)
    return F.where(F.abs(x) < 1.0, 2.0 * half / (1.0 - half), F.exp(x) - 1.0)


def _log1p(x: Any) -> Any:
    """Return ``log(1 + x)``: near 0 with the sum's rounding taken out (Goldberg 1991, theorem 4)."""
    total = x + 1.0
    near = F.where(total == 1.0, x, F.log(total) * x / (total - 1.0))
    return F.where(F.abs(x) < 1.0, near, F.log(total))


def _logaddexp(x: Any, y: Any) -> Any:
    gap = F.where(x == y, 0.0, x - y)
    return F.maximum(x, y) + F.log1p(F.exp(-F.abs(gap)))


def _logaddexp2(x: Any, y: Any) -> Any:
    return F.where(x == y, x + 1.0, _logaddexp(x * LOG_2, y * LOG_2) / LOG_2)


def _hypot(x: Any, y: Any) -> Any:
    a, b = F.abs(x), F.abs(y)
    top, low = F.maximum(a, b), F.minimum(a, b)
    regular = (top > 0) & (top < math.inf)
    part = F.where(regular, low, 0.0) / F.where(regular, top, 1.0)
    length = F.where(regular, top * F.sqrt(part * part + 1.0), top)
    return F.where((a == math.inf) | (b == math.inf), math.inf, length)


# -- functions of the circle, and of the hyperbola --
def _sinh(x: Any) -> Any:
    up, half = F.expm1(x), F.exp(F.abs(x) * 0.5)
    far = F.sign(x) * (half * 0.5 * half)  # which overflows where the result does
    near = (up + up / (up + 1.0)) * 0.5
    return F.where(F.abs(x) < 1.0, near, F.where(F.abs(x) < 20.0, (F.exp(x) - F.exp(-x)) * 0.5, far))


def _cosh(x: Any) -> Any:
    half = F.exp(F.abs(x) * 0.5)
    return F.where(F.abs(x) < 20.0, (F.exp(x) + F.exp(-x)) * 0.5, half * 0.5 * half)


def _atan2(y: Any, x: Any) -> Any:
    both = (F.abs(x) == math.inf) & (F.abs(y) == math.inf)
    quotient = F.where(both, F.sign(y) * F.sign(x), y / F.where(x == 0, 1.0, x))
    below = F.signbit(y)
    angle = F.where(x == 0, F.where(below, -math.pi / 2, math.pi / 2), F.atan(quotient))
    angle = F.where(y == 0, F.where(F.isnan(x), x, 0.0), F.where((x == 0) & F.isnan(y), y, angle))
    turned = angle + F.where(below, -math.pi, math.pi)
    return F.where(F.signbit(x) & ~((x == 0) & (y != 0)), turned, F.where(y == 0, y + 0.0 * angle, angle))


def _asinh(x: Any) -> Any:
    size = F.abs(x)
    near = F.where(size < 1e8, size, 1.0)
    square = near * near
    small = F.log1p(near + square / (F.sqrt(square + 1.0) + 1.0))
    return F.where(x == 0, x, F.sign(x) * F.where(size < 1e8, small, F.log(size) + LOG_2))


def _acosh(x: Any) -> Any:
    above = F.where(x > 1e8, 1.0, x - 1.0)
    small = F.log1p(above + F.sqrt(above * (above + 2.0)))
    return F.where(x > 1e8, F.log(x) + LOG_2, F.where(x < 1.0, math.nan, small))


def _atanh(x: Any) -> Any:
    size = F.abs(x)
    return F.where(x == 0, x, F.sign(x) * F.log1p(2.0 * size / (1.0 - size)) * 0.5)


def _sinc(x: Any) -> Any:
    angle = F.where(x == 0, 1.0, x) * math.pi
    return F.where(x == 0, 1.0, F.sin(angle) / angle)


# -- error functions, in doubles --
# (1 + 2 x) exp(x²) erfc(x) of x >= 0 in t = (x - 2) / (x + 2), by interpolation at Chebyshev's points
# (the form of Shepherd & Laframboise 1981); relative error 4e-15
ERFC = (
    1.276978381552528, -0.09276382658574282, -0.16603039761511157, 0.16405128003299507, -0.0542200010015152,
    -0.00803401506894144, 0.008722654073227731, 0.0012713387838584073, -0.001456816036292486, -0.00045433942632052863,
    0.00020637996274817962, 0.00015103222023724484, -1.5579421730892988e-06, -3.639980086397072e-05,
    -1.3377034483279394e-05, 3.654444559603514e-06, 5.04508915742431e-06, 1.6001422991224405e-06,
    -5.2439202652125e-07, -9.516236273721383e-07, -3.542860066329134e-07, 2.357169363422332e-07,
    1.810316692312155e-07, -2.5287633322309966e-08, -2.985396711717024e-08,
)  # fmt: skip
# erf(x) / x in x² up to 1/2, by Taylor's series
ERF = tuple([2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)])


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = x * total + c
    return total


def _scaled_tail(x: Any) -> Any:
    """Return ``exp(x²) erfc(x)`` of a number that is not negative."""
    size = F.where(x < 1e300, x, 1e300)
    return F.where(x < math.inf, _polynomial((size - 2.0) / (size + 2.0), ERFC) / (2.0 * size + 1.0), 0.0)


def _far_erfc(x: Any) -> Any:
    tail = F.exp(-(x * x)) * _scaled_tail(F.where(F.isnan(x), 0.0, F.abs(x)))
    tail = F.where(F.isnan(x), x, tail)
    return F.where(x < 0.0, 2.0 - tail, tail)


def _erf(x: Any) -> Any:
    near = x * _polynomial(F.where(F.abs(x) < 0.5, x * x, 0.0), ERF)
    return F.where(F.abs(x) < 0.5, near, F.sign(x) * (1.0 - _far_erfc(F.abs(x))))


def _erfc(x: Any) -> Any:
    return F.where(F.abs(x) < 0.5, 1.0 - _erf(x), _far_erfc(x))


def _erfcx(x: Any) -> Any:
    tail = _scaled_tail(F.where(F.isnan(x), 0.0, F.abs(x)))
    return F.where(F.isnan(x), x, F.where(x < 0.0, 2.0 * F.exp(x * x) - tail, tail))


def _log_ndtr(x: Any) -> Any:
    low = F.where(x < -1.0, x, -1.0)
    below = F.log(_scaled_tail(low / -ROOT_2)) - LOG_2 - low * low * 0.5
    return F.where(x < -1.0, below, F.log1p(_far_erfc(x / ROOT_2) * -0.5))


# -- gamma functions: Stirling's series where the argument is large, reached by recurrence; reflection below 0 --
LARGE = 10
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _climb(y: Any, step: Callable[[Any, Any], Any], start: float) -> tuple[Any, Any]:
    """Return a number moved above 10 by ones, and what the steps there come to."""
    total: Any = start
    for _ in range(LARGE):
        is_small = y < LARGE
        total = step(total, F.where(is_small, y, 1.0 if start else math.inf))
        y = F.where(is_small, y + 1.0, y)
    return y, total


def _log_gamma(y: Any) -> Any:
    y, product = _climb(y, operator.mul, 1.0)
    inverse = 1.0 / y
    series = inverse * _polynomial(inverse * inverse, STIRLING)
    return (y - 0.5) * F.log(y) - y + LOG_2PI / 2 + series - F.log(product)


def _sine(x: Any) -> Any:
    """Return ``sin(pi x)``, exactly 0 of integers."""
    nearest = F.round(x)
    sine = F.sin((x - nearest) * math.pi)
    return F.where(F.fmod(nearest, 2.0) == 0.0, sine, -sine)


def _gammaln(x: Any) -> Any:
    is_low = x < 0.5
    logarithm = _log_gamma(F.where(is_low, 1.0 - x, x))
    sine = F.abs(_sine(x))
    low = F.where(sine == 0.0, math.inf, math.log(math.pi) - F.log(sine) - logarithm)
    return F.where(F.abs(x) == math.inf, x, F.where(is_low, low, logarithm))


def _digamma(x: Any) -> Any:
    is_low = x < 0.5
    y, total = _climb(F.where(is_low, 1.0 - x, x), lambda total, x: total + 1.0 / x, 0.0)
    inverse = 1.0 / y
    square = inverse * inverse
    psi = F.log(y) - inverse * 0.5 - square * _polynomial(square, DIGAMMA) - total
    angle = (x - F.round(x)) * math.pi
    turn = F.where(angle == 0.0, math.nan, math.pi * F.cos(angle) / F.sin(angle))
    return F.where(x == 0.0, -1.0 / x, F.where(is_low, psi - turn, psi))


def _gammasgn(x: Any) -> Any:
    sign = F.sign(_sine(x))
    below = F.where(sign == 0.0, math.nan, sign)
    at_least = F.where(F.isnan(x), x, F.where(F.signbit(x), -1.0, 1.0))
    return F.where(F.signbit(x) & (x != 0.0), below, at_least)


# -- products with logarithms --
def _times_log(x: Any, y: Any, log: Any) -> Any:
    return F.where((x == 0.0) & ~F.isnan(y), x, x * log)


def _divergence(x: Any, y: Any, at_zero: Any, rest: Any) -> Any:
    """Return x log(x / y) and a rest, another value where x is 0, and inf where one is negative or y alone is 0."""
    ratio = x / y
    is_lost = (ratio < float(np.finfo(x.dtype).tiny)) | (ratio == math.inf)
    logarithm = F.where(is_lost, F.log(x) - F.log(y), F.log(ratio))
    divergence = F.where(x == 0.0, at_zero, x * logarithm + rest)
    return F.where((x < 0.0) | (y < 0.0) | ((x > 0.0) & (y == 0.0)), math.inf, divergence)


def _in_doubles(formula: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: formula(F.astype(x, DOUBLE))


UNARY: dict[str, Callable[[Any], Any]] = {
    "acos": lambda x: F.atan(F.sqrt((1.0 - x) / (x + 1.0))) * 2.0,
    "acosh": _acosh,
    "asin": lambda x: F.atan(x / F.sqrt((1.0 - x) * (x + 1.0))),
    "asinh": _asinh,
    "atan": lambda x: F.atan2(x, 1.0),
    "atanh": _atanh,
    "cbrt": lambda x: F.sign(x) * F.pow(F.abs(x), 1 / 3),
    "cosh": _cosh,
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "digamma": _in_doubles(_digamma),
    "entr": lambda x: F.where(x == 0.0, x, F.where(x < 0.0, -math.inf, -(x * F.log(x)))),
    "erf": _in_doubles(_erf),
    "erfc": _in_doubles(_erfc),
    "erfcx": _in_doubles(_erfcx),
    "exp2": lambda x: F.pow(2.0, x),
    "expm1": _expm1,
    "gammaln": _in_doubles(_gammaln),
    "gammasgn": _gammasgn,
    "isfinite": lambda x: F.abs(x) < math.inf if _is_float(x) else F.equal(x, x),
    "isinf": lambda x: F.abs(x) == math.inf if _is_float(x) else F.not_equal(x, x),
    "isnan": lambda x: F.not_equal(x, x),
    "log10": lambda x: F.log(x) / math.log(10.0),
    "log1p": _log1p,
    "log2": lambda x: F.log(x) / LOG_2,
    "log_ndtr": _in_doubles(_log_ndtr),
    "logit": lambda x: F.log(x) - F.log1p(-x),
    "ndtr": _in_doubles(lambda x: _far_erfc(x / -ROOT_2) * 0.5),
    "positive": lambda x: x,
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "reciprocal": lambda x: 1 / x,
    "signbit": _signbit,
    "sinc": _sinc,
    "sinh": _sinh,
    "square": lambda x: x * x,
    "tan": lambda x: F.sin(x) / F.cos(x),
    "trunc": _trunc,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": _atan2,
    "copysign": lambda x, y: F.where(F.signbit(x) ^ F.signbit(y), -x, x),
    "floor_divide": _floor_divide,
    "fmax": _fmax,
    "fmin": _fmin,
    "hypot": _hypot,
    "kl_div": lambda x, y: _divergence(x, y, y, y - x),
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "rel_entr": lambda x, y: _divergence(x, y, F.where(F.isnan(y), y, 0.0), 0.0),
    "remainder": _remainder,
    "xlog1py": lambda x, y: _times_log(x, y, F.log1p(y)),
    "xlogy": lambda x, y: _times_log(x, y, F.log(y)),
}
FORMULAS: dict[str, Callable[..., Any]] = {**UNARY, **BINARY}
OF_COMPLEX = frozenset({"exp2", "isnan", "log10", "log2", "positive", "reciprocal", "square"})


# -- in place of equations --
def space_of(eq: Equation) -> np.dtype[Any]:
    """Return the dtype in which an elementwise operation computes."""
    dtypes = tuple([x.aval.dtype for x in eq.inputs])
    return promote(dtypes, (False,) * len(dtypes), eq.primitive.promotes_to_float)


def expand(graph: Graph, lacks: Callable[[Equation], bool], target: Target | None = None) -> Graph:
    """Return a graph in which formulas stand for the equations that a language lacks.

    Args:
        graph: a graph, as it is where nothing is lacking.
        lacks: tells of an equation whether a formula is to stand for it.
        target: what the graph is simplified for.
    """
    replaced = [lacks(eq) and _has_formula(eq) for eq in graph.equations]
    if not any(replaced):
        return graph
    builder = GraphBuilder({}, target or current.target, expanding=False)
    inputs = [builder.var(v.aval) for v in graph.inputs]
    atoms: dict[int, Atom] = {v.index: new for v, new in zip(graph.inputs, inputs, strict=True)}
    atoms |= {v.index: builder.constant(constant, v.aval) for v, constant in graph.constants}
    for eq, is_replaced in zip(graph.equations, replaced, strict=True):
        operands = tuple([atoms[a.index] if isinstance(a, Var) else a for a in eq.inputs])
        results: Sequence[Atom]
        if is_replaced:
            results = builder.inline_graph(expand(_formula_of(eq), lacks, target), operands)
        else:
            results = builder.equation(eq, operands)
        atoms |= {v.index: new for v, new in zip(eq.outputs, results, strict=True)}
    outputs = [atoms[a.index] if isinstance(a, Var) else a for a in graph.outputs]
    number_variables(inputs, builder.constants, builder.equations)
    return Graph(tuple(inputs), tuple(builder.constants), tuple(builder.equations), tuple(outputs))


def _has_formula(eq: Equation) -> bool:
    return eq.primitive.name in (FORMULAS if space_of(eq).kind != "c" else OF_COMPLEX)


def _formula_of(eq: Equation) -> Graph:
    """Return the graph of an equation's formula, which stands at its line."""
    trace, dtype, out = GraphTrace("formula"), space_of(eq), eq.outputs[0].aval
    inputs = [trace.input(Aval(a.aval.shape, a.aval.dtype)) for a in eq.inputs]
    result = FORMULAS[eq.primitive.name](*[x if x.dtype == dtype else F.astype(x, dtype) for x in inputs])
    result = result if result.dtype == out.dtype else F.astype(result, out.dtype)
    graph = strengthen(trace.finish((result if result.shape == out.shape else F.broadcast_to(result, out.shape),)))
    placed = [attrs.evolve(e, source=eq.source, ignored_fp_errors=eq.ignored_fp_errors) for e in graph.equations]
    return attrs.evolve(graph, equations=tuple(placed))


# --- Tables of templates: how one language writes each primitive
#
# A template writes one equation: ``template(writer, equation, operands, results)``, where operands and results are
# texts (names, or what the writer made of a literal). Rules are entered by name; what follows from a primitive's
# record (its ufunc, its reduction) is made by *fillers*, functions of a primitive, that are asked where there is no
# rule.

W = TypeVar("W")
Template: TypeAlias = Callable[[W, Equation, list[str], list[str]], None]
Filler: TypeAlias = Callable[[Primitive], "Template[W] | None"]


class NoTemplateError(Exception):
    """Raised by a template for parameters or dtypes that its language lacks; the text says what, without the line."""


class Table(Generic[W]):
    """The templates of a language.

    Attributes:
        language: its name, for messages.
        rules: templates by the primitive's name.
        takes: of elementwise operations whose template is of some dtypes alone, the letters of these.
        has_formulas: whether formulas stand for elementwise operations that it lacks.
    """

    def __init__(self, language: str, *fillers: Filler[W], has_formulas: bool = False) -> None:
        self.language = language
        self.rules: dict[str, Template[W]] = {}
        self.takes: dict[str, str] = {}
        self.has_formulas = has_formulas
        self._fillers = fillers

    def rule(self, *names: str) -> Callable[[Template[W]], Template[W]]:
        """Enter a template for primitives of these names."""

        def enter(template: Template[W]) -> Template[W]:
            self.rules |= dict.fromkeys(names, template)
            return template

        return enter

    def find(self, primitive: Primitive) -> Template[W] | None:
        """Return the template of a primitive: a rule, or what a filler makes; None where there is none."""
        rule = self.rules.get(primitive.name)
        if rule is not None:
            return rule
        made = (filler(primitive) for filler in self._fillers)
        rule = next((template for template in made if template is not None), None)
        if rule is not None:
            self.rules[primitive.name] = rule
        return rule

    def lacks(self, eq: Equation) -> bool:
        """Tell whether there is no template of an equation's primitive, or none of its dtype."""
        p = eq.primitive
        letters = self.takes.get(p.name)
        return self.find(p) is None or (letters is not None and space_of(eq).char not in letters)

    def supported(self) -> list[str]:
        """Return the names of all primitives that have a template, or a formula that stands for it, sorted."""
        formulas = FORMULAS if self.has_formulas else ()
        return [p.name for p in primitives() if p.name in formulas or self.find(p) is not None]


# --- Walks: a graph's equations in order, each written by its template; graphs within graphs by the templates of
# their loops


class Writer(Protocol):
    """What a walk writes to."""

    def begin(self, eq: Equation) -> None:
        """Is told each equation before its template writes it."""

    def literal(self, literal: Literal) -> str:
        """Return the text of a number."""
        ...

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Enter a captured array; return its text."""
        ...


WriterT = TypeVar("WriterT", bound=Writer)


class Walk(Generic[WriterT]):
    """One export: its table, its names, and the graphs that were prepared for it.

    Attributes:
        table: the templates.
        names: those in use, over all graphs.
        where: how messages begin, as ``to_numpy: loss``.
        target: what graphs are simplified for; None for the current one.
    """

    def __init__(self, table: Table[WriterT], names: Names, where: str, target: Target | None = None) -> None:
        self.table = table
        self.names = names
        self.where = where
        self.target = target
        self._prepared: dict[int, tuple[Graph, Graph]] = {}  # by identity; the key's graph is kept, or ids would recur

    # -- graphs that equations hold --
    def control(self, eq: Equation) -> ControlSpec | None:
        """Return what a loop or a branch holds, its graphs prepared; None of other equations."""
        rule = eq.primitive.lowering.control
        if rule is None:
            return None
        spec = rule(eq.keywords)
        fields: dict[str, Any] = {
            name: self._prepare(value) for name, value in spec._asdict().items() if isinstance(value, Graph)
        }
        if isinstance(spec, BranchSpec):
            fields = {"bodies": tuple(map(self._prepare, spec.bodies))}
        return spec._replace(**fields)  # type: ignore[no-any-return]  # of a union of named tuples

    def _prepare(self, graph: Graph) -> Graph:
        if id(graph) not in self._prepared:
            self._prepared[id(graph)] = (graph, self.expand(prepare(graph, self.target)))
        return self._prepared[id(graph)][1]

    def expand(self, graph: Graph) -> Graph:
        """Return a graph in which formulas stand for what the language lacks."""
        return expand(graph, self.table.lacks, self.target) if self.table.has_formulas else graph

    def equations(self, graph: Graph) -> Iterator[Equation]:
        """Yield the equations of a graph and of those that it holds."""
        for eq in graph.equations:
            yield eq
            spec = self.control(eq)
            for inner in [] if spec is None else graphs_of(spec):
                yield from self.equations(inner)

    def check(self, graph: Graph) -> None:
        """Verify that there is a template for each equation.

        Raises:
            ExportError: for the first that has none, at the user's line.
        """
        for eq in self.equations(graph):
            if self.table.find(eq.primitive) is None:
                self._refuse(eq, eq.primitive.name)

    def _refuse(self, eq: Equation, reason: str) -> NoReturn:
        at = f" at {eq.source}" if eq.source is not None else ""
        raise ExportError(
            f"{self.where}: an operation has no form in {self.table.language}: got {reason}{at}; "
            "compute it before, or with other functions"
        )

    # -- writing --
    def write(self, writer: WriterT, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write the equations of a prepared graph, whose inputs have these texts; return the texts of its outputs.

        Raises:
            ExportError: a template refuses an equation, or there is none.
        """
        known = {var.index: text for var, text in zip(graph.inputs, operands, strict=True)}
        for var, constant in graph.constants:
            known[var.index] = writer.constant(self.names.make("captured"), constant.value)

        def read(atom: Atom) -> str:
            return writer.literal(atom) if isinstance(atom, Literal) else known[atom.index]

        for eq, wishes in zip(graph.equations, wish_names(graph.equations), strict=True):
            results = list(map(self.names.make, wishes))
            known |= {var.index: text for var, text in zip(eq.outputs, results, strict=True)}
            template = self.table.find(eq.primitive)
            if template is None:
                self._refuse(eq, eq.primitive.name)
            writer.begin(eq)
            try:
                template(writer, eq, list(map(read, eq.inputs)), results)
            except NoTemplateError as error:
                self._refuse(eq, f"{eq.primitive.name} ({error})")
        return list(map(read, graph.outputs))
