"""Rewrite rules: one table of simplifications with their conditions, and `simplify`, which applies it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from afx.compiler.graph.builder import GraphBuilder, Match, Op, Params, Rewrite, Role, Rule, like, number_of, rule
from afx.compiler.graph.legalize import is_standalone, legalize
from afx.compiler.graph.loop_fission import find_fissions, inline_fissions
from afx.compiler.graph.product_rules import (
    choose_far_exponentials,
    collapse_batched_columns,
    collapse_batched_matmul,
    contract_sum,
    multiply_unmasked,
    outer_product,
)
from afx.compiler.graph.selection_rules import add_embedded, any_selected, find_parts, inline_parts, matmul_scattered
from afx.compiler.graph.strengthen import strengthen
from afx.compiler.target import DEFAULT, Target
from afx.core import Aval, Primitive, broadcast_shapes, with_ufunc
from afx.core.graph import (
    Atom,
    Atoms,
    Constant,
    Equation,
    Graph,
    Literal,
    Var,
    has_effects,
    indices_of,
    number_variables,
)

# --- Constant rules: what depends on constants alone is computed while compiling, and so is what is made of choices
# between them


def fold(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """What depends on constants alone is a constant."""
    if (
        p.multiple_results
        or p.algebra.canonical == "broadcast"
        or p.opaque
        or not xs
        or aval.size > b.target.fold_max_elements
    ):
        return None
    values = [b.known(x) for x in xs]
    if any([v is None for v in values]):
        return None
    try:
        with np.errstate(all="raise"):
            value = np.asarray(p.impl(*values, **dict(params)))
    except (ArithmeticError, ValueError, TypeError):
        return None
    if value.dtype != aval.dtype or value.shape != aval.shape:
        return None
    return b.constant(Constant(value if value.flags.owndata else value.copy()), Aval(aval.shape, aval.dtype))


def fold_choice(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """What an op makes of a choice between two numbers, and of numbers, is a choice between two numbers."""
    choices = [(k, eq) for k, x in enumerate(xs) if (eq := b.made_by(x, "select")) is not None]
    if len(choices) != 1 or xs[choices[0][0]].aval.shape != aval.shape or p.condition_operands:
        return None
    (at, choice), made = choices[0], list[Atom]()
    for option in choice.inputs[1:]:
        numbers = tuple([_literal(b, option if k == at else x) for k, x in enumerate(xs)])
        number = fold(b, p, numbers, params, Aval((), aval.dtype))
        if number is None:
            return None
        made.append(number)
    return b.make(choice.primitive, (choice.inputs[0], *made), choice.params, aval)


def _literal(b: GraphBuilder, x: Atom) -> Atom:
    """Return the number that an operand holds everywhere, or itself."""
    n = number_of(b, x)
    return x if n is None else Literal(n, Aval((), x.aval.dtype))


# --- Layout rules: join axes or reorder sums, so that NumPy's and BLAS's loops are few and long


# -- axes of one element --
def whole_slice(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A slice that takes every element in order is a reshape."""
    return _whole(b, xs[0], params, aval)


def whole_embed(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A part that leaves no zeros around it is a reshape."""
    return _whole(b, xs[0], params, aval)


def _whole(b: GraphBuilder, x: Atom, params: Params, aval: Aval) -> Atom | None:
    index: tuple[int | tuple[int, int, int], ...] = dict(params)["index"]
    steps = [entry[2] for entry in index if isinstance(entry, tuple)]
    if x.aval.size != aval.size or not aval.size or x.aval.dtype != aval.dtype or any(step != 1 for step in steps):
        return None
    return b.make("reshape", (x,), (("shape", aval.shape),), aval)


# -- few elements along the last axis --
def _short_rows(x: Aval, target: Target) -> bool:
    """Tell whether loops over the last axis are short, and longer ones over the last two worth a reshape."""
    short = x.ndim > 2 and 0 < x.shape[-1] <= target.collapse_max_axis_length and x.shape[-2] > 1
    return short and x.size >= target.collapse_min_elements


def _joined(b: GraphBuilder, x: Atom) -> Atom:
    """Return x with its last two axes as one."""
    return b.reshape(x, (*x.aval.shape[:-2], x.aval.shape[-2] * x.aval.shape[-1]))


def collapse_short_last_axis(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A short vector that meets each row of an array is repeated along the axis before, so that NumPy's loops are long.

    It serves images that are shifted and scaled by numbers of each color; kernels are quicker without.
    """
    if b.target.backend != "numpy" or len(xs) != 2 or len(aval.shape) < 3 or not _short_rows(aval, b.target):
        return None
    for k, v in enumerate(xs):
        x = xs[1 - k]
        if v.aval.shape != aval.shape[-1:] or x.aval.shape != aval.shape:
            continue
        row = _joined(b, b.broadcast(v, (1, *aval.shape[-2:])))
        row = b.reshape(row, row.aval.shape[1:])
        wide = _joined(b, x)
        both = (row, wide) if k == 0 else (wide, row)
        z = b.make(p, both, params, Aval(wide.aval.shape, aval.dtype))
        return b.make("reshape", (z,), (("shape", aval.shape),), aval)
    return None


def split_reduction(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A sum over all axes but a short last one sums longer rows first; one over all axes sums each row first."""
    x = xs[0]
    axis: tuple[int, ...] = dict(params)["axis"]
    if p.lowering.reduce_ufunc is not np.add or aval.dtype.kind not in "fc" or aval.dtype != x.aval.dtype:
        return None
    everything = axis == tuple(range(x.aval.ndim)) and x.aval.size >= b.target.collapse_min_elements
    if everything and b.target.cuts_rows(x.aval.shape) and b.target.sums_by_dot(x.aval.shape[-1]):
        sums = b.make(p, (x,), (("axis", axis[-1:]),))
        return b.make(p, (sums,), (("axis", axis[:-1]),), aval)
    if axis != tuple(range(x.aval.ndim - 1)) or not _short_rows(x.aval, b.target):
        return None
    row = b.make(p, (_joined(b, x),), (("axis", axis[:-1]),))
    return b.make(p, (b.reshape(row, x.aval.shape[-2:]),), (("axis", (0,)),), aval)


# --- Rewrite rules: simplifications in one table, pattern and replacement, with the conditions under which they hold
#
# Rules that depend on tags of the record or on shapes are functions of an op and its new operands. Such a function
# returns the replacement of the result, or None where it does not apply. Values and dtypes stay, with the signs of
# zero, infinities and nan. Sums of repeated numbers may differ in the last digits, sums of zeros in their sign.
# Products near the ends of the range may overflow in another order.


# -- elementwise --
def sink_broadcasts(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """Broadcasts that the op does itself go; those of all operands move behind it."""
    operands = list(xs)
    for k, x in enumerate(xs):
        eq = b.made_by(x, "broadcast")
        if eq is not None:
            operands[k] = eq.inputs[0]
    shape = broadcast_shapes([x.aval.shape for x in operands])
    assert shape is not None
    return b.broadcast(b.make(p, tuple(operands), params, Aval(shape, aval.dtype)), aval.shape)


def identity(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """x·1 is x; x + 0 is x for integers, and for floats where the zero is -0.0."""
    if not p.algebra.commutative or p.algebra.identity is None or len(xs) != 2:
        return None
    for x, y in (xs, xs[::-1]):
        n = number_of(b, y)
        if n is None or isinstance(n, bool) or n != p.algebra.identity:
            continue
        if aval.dtype.kind == "c" or (n == 0 and aval.dtype.kind == "f" and math.copysign(1, n) > 0):
            continue  # of complex infinities even the product with 1 is nan
        return like(b, x, aval)
    return None


def involution(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """Twice negated, inverted or conjugated is x: `afx.vecdot` conjugates an operand that may be conjugated."""
    eq = b.defining_equation(xs[0])
    return eq.inputs[0] if p.algebra.involution and eq is not None and eq.primitive is p else None


def doubled(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A product with a number, or with fewer numbers, that is added to itself is one with twice those numbers."""
    if aval.dtype.char not in "fd" or xs[0] is not xs[1]:  # a variable is one object; a number is known
        return None
    return _doubled(b, xs[0]) if xs[0].aval == aval else None


def _doubled(b: GraphBuilder, x: Atom) -> Atom | None:
    """Return twice a product; nothing is rounded differently."""
    eq = b.defining_equation(x)
    if eq is None:
        return None
    if eq.primitive.algebra.canonical == "reshape":
        inner = _doubled(b, eq.inputs[0])
        return None if inner is None else b.make(eq.primitive, (inner,), eq.params, x.aval)
    if eq.primitive.lowering.ufunc is not np.multiply:
        return None
    for factor, other in (eq.inputs, eq.inputs[::-1]):
        n = number_of(b, factor)
        if isinstance(n, float) and 1e-4 < abs(n) < 1e4:
            twice: Atom = Literal(2 * n, Aval((), x.aval.dtype))
        elif n is None and factor.aval.size < x.aval.size:
            twice = _doubled(b, factor) or b.make(with_ufunc(np.add), (factor, factor))
        else:
            continue
        return b.make(eq.primitive, (twice, other), eq.params, x.aval)
    return None


# -- values --
def unstopped(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """In a plan, which nothing differentiates any more, a stopped gradient's value is x."""
    return xs[0] if b.expanding and xs[0].aval == aval else None


# -- casts --
def cast_repeated(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A cast of a repeated number is the cast number, repeated."""
    eq = b.made_by(xs[0], "broadcast")
    if eq is None:
        return None
    return b.broadcast(b.make(p, eq.inputs, params, Aval(eq.inputs[0].aval.shape, aval.dtype)), aval.shape)


# -- shapes --
def reshaped(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """To its own shape is x; of two reshapes the first one goes; a repeated number is repeated to the new shape.

    The first one stays where it may be a copy, of permuted axes, so that there are not two of them.
    """
    x = xs[0]
    if x.aval.shape == aval.shape:
        return x
    first = b.made_by(x, "reshape")
    if first is not None and first.inputs[0].aval.shape == aval.shape:
        return first.inputs[0]
    if first is not None and b.made_by(first.inputs[0], "permute") is None:
        return b.make(p, first.inputs, params, aval)
    repeated = b.made_by(x, "broadcast")
    if repeated is not None and repeated.inputs[0].aval.size == 1:
        inner = repeated.inputs[0]
        return b.broadcast(inner if not inner.aval.shape else b.make(p, (inner,), (("shape", ()),)), aval.shape)
    return None


def permuted(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """Axes that keep their order stay, axes of length one are reshaped, two permutations are one, a repeated number is so."""
    x, axes = xs[0], dict(params)["axes"]
    if axes == tuple(range(len(axes))):
        return x
    long = [a for a in axes if x.aval.shape[a] != 1]
    if long == sorted(long):
        return b.make("reshape", (x,), (("shape", aval.shape),), aval)
    first = b.made_by(x, "permute")
    if first is not None:
        inner = dict(first.params)["axes"]
        return b.make(p, first.inputs, (("axes", tuple([inner[a] for a in axes])),), aval)
    repeated = b.made_by(x, "broadcast")
    if repeated is not None and not repeated.inputs[0].aval.shape:
        return b.broadcast(repeated.inputs[0], aval.shape)
    return None


def broadcasted(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """To its own shape is x; of two broadcasts the first one goes."""
    x = xs[0]
    if x.aval.shape == aval.shape:
        return x
    first = b.made_by(x, "broadcast")
    return None if first is None else b.make(p, first.inputs, params, aval)


def sliced(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A slice of a repeated number is a repeated number, one of joined arrays is one of the array that holds it."""
    repeated, joined = b.made_by(xs[0], "broadcast"), b.made_by(xs[0], "stack") or b.made_by(xs[0], "concat")
    if repeated is not None and not repeated.inputs[0].aval.shape:
        return b.broadcast(repeated.inputs[0], aval.shape)
    index = dict(params)["index"]
    axis = len(index) if joined is None else joined.keywords["axis"]
    if joined is None or len(index) <= axis or None in index:
        return None
    before, entry, after = index[:axis], index[axis], index[axis + 1 :]
    sizes: tuple[int, ...] = joined.keywords.get("sizes", (1,) * len(joined.inputs))
    places = (entry,) if isinstance(entry, int) else range(*entry)
    start = 0
    for x, size in zip(joined.inputs, sizes, strict=True):
        if places and start <= min(places) and max(places) < start + size and x.aval.dtype == aval.dtype:
            break
        start += size
    else:
        return None
    if "sizes" not in joined.keywords:  # a stack
        inner = before + after if isinstance(entry, int) else (*before, None, *after)
    else:
        moved = entry - start if isinstance(entry, int) else (entry[0] - start, max(entry[1] - start, -1), entry[2])
        inner = (*before, moved, *after)
    inner_whole = inner == tuple([(0, n, 1) for n in x.aval.shape[: len(inner)]])
    return x if inner_whole and x.aval == aval else b.make(p, (x,), (("index", inner),), aval)


# -- reductions --
def no_axes(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A reduction over no axes is x: sums over all axes but the first, of examples that are numbers, are such."""
    return xs[0] if not dict(params)["axis"] and xs[0].aval == aval else None


# -- conditions --
def is_finite(match: Match) -> bool:
    """Tell whether n is a finite number."""
    return isinstance(match.n, (int, float)) and math.isfinite(match.n)


def is_real(match: Match) -> bool:
    """Tell whether the result is a real floating-point number."""
    return match.aval.dtype.kind == "f"


def is_inexact(match: Match) -> bool:
    """Tell whether the result is a real or complex floating-point number."""
    return match.aval.dtype.kind in "fc"


def is_no_complex(match: Match) -> bool:
    """Tell whether the result has one part alone: of complex infinities even the product with 1 is nan."""
    return match.aval.dtype.kind != "c"


def takes_plus_zero(match: Match) -> bool:
    """Tell whether n is 0 or 0.0: x - -0.0 is 0.0 for -0.0."""
    return match.n == 0 and match.aval.dtype.kind in "iuf" and math.copysign(1, match.n) > 0


def divides_by_power(match: Match) -> bool:
    """Tell whether n is a power of two with an inverse, so that nothing is rounded differently."""
    n = match.n
    if not isinstance(n, float) or not math.isfinite(n) or math.frexp(n)[0] not in (0.5, -0.5):
        return False
    limits = np.finfo(match.aval.dtype)
    return float(limits.tiny) <= abs(1 / n) <= float(limits.max)


def scales_by_powers(match: Match) -> bool:
    """Tell whether n or m is a power of two and both are near 1, so that nothing is rounded differently.

    That is so between 1e4 times the smallest and 1e-4 times the largest normal number; half precision has too few.
    """
    factors = (match.n, match.m)
    if match.aval.dtype.char not in "fd" or not match.aval.shape or match.atoms["x"].aval.shape != match.aval.shape:
        return False
    if not all(isinstance(n, float) and 1e-4 < abs(n) < 1e4 for n in factors):
        return False
    return any(math.frexp(n)[0] in (0.5, -0.5) for n in factors)


def is_boolean(match: Match) -> bool:
    """Tell whether x is a truth value."""
    return match.atoms["x"].aval.dtype == np.bool_


def keeps_dtype(match: Match) -> bool:
    """Tell whether x has the dtype of the result."""
    return match.atoms["x"].aval.dtype == match.aval.dtype


def loses_nothing(match: Match) -> bool:
    """Tell whether the first of two casts keeps each number: NumPy calls float64 safe for int64, whose digits it loses."""
    source, target = match.atoms["x"].aval.dtype, match.xs[0].aval.dtype
    if source.kind in "iu" and target.kind in "fc":
        return np.finfo(target).nmant + 1 >= np.iinfo(source).bits
    return np.can_cast(source, target, "safe")


PATTERNS = (
    rule("x - n", "x", when=takes_plus_zero),
    rule("x + -y", "x - y", when=is_inexact),
    rule("x * -1", "-x", when=is_real),
    rule("-x * n", "x * -n", when=is_real),
    rule("-(-x * y)", "x * y", when=is_real),
    rule("-(x * n)", "x * -n", when=lambda match: is_real(match) and isinstance(match.n, float)),
    rule("(x * m) * n", "x * (m * n)", when=scales_by_powers),
    rule("x / n", "x * (1 / n)", when=divides_by_power),
    rule("x ** 1", "x", when=is_real),
    rule("x ** -1", "1 / x", when=is_real),
    rule("x ** 2", "square(x)", when=is_real),
    rule("x ** 3", "square(x) * x", when=is_real),
    rule("x ** 4", "square(x) * square(x)", when=is_real),
    rule("cast(x) != 0", "x", when=is_boolean),
    rule("cast(x)", "x", when=keeps_dtype),
    rule("real(join_parts(x, y))", "x"),
    rule("imag(join_parts(x, y))", "y"),
    rule("cast(cast(x))", "cast(x)", when=loses_nothing),
    rule("bitwise_and(x == n, isinf(x))", "False", when=is_finite),
    rule("select(n, x, y)", "x", when=lambda match: bool(match.n)),
    rule("select(n, x, y)", "y", when=lambda match: not match.n),
    rule("select(c, x, x)", "x"),
    rule("select(logical_not(x), c, y)", "select(x, y, c)", when=is_boolean),
    rule("select(invert(x), c, y)", "select(x, y, c)", when=is_boolean),
    rule("select(c, select(c, x, y), z)", "select(c, x, z)"),
    rule("select(c, x, select(c, y, z))", "select(c, x, z)"),
    rule("select(c, cast(c) * x, y)", "select(c, x, y)", when=is_no_complex),
)


def _needing(rewrite: Rewrite, *roles: Op) -> Rule:
    """Return a rule that is tried where these are among the operands."""
    return Rule(rewrite, frozenset(roles))


FUNCTIONS: Mapping[Role, Sequence[Rule]] = {
    "": (_needing(fold, "known"),),
    "elementwise": (
        _needing(sink_broadcasts, "broadcast"),
        _needing(identity, "number"),
        _needing(involution, "involution"),
        _needing(fold_choice, "select"),
    ),
    "linear": (_needing(involution, "involution"),),
    np.exp: (Rule(choose_far_exponentials),),
    np.add: (_needing(add_embedded, "embed"), Rule(doubled), Rule(collapse_short_last_axis)),
    np.subtract: (Rule(collapse_short_last_axis),),
    np.multiply: (Rule(collapse_short_last_axis),),
    np.matmul: (
        Rule(matmul_scattered),
        Rule(outer_product),
        Rule(collapse_batched_matmul),
        Rule(collapse_batched_columns),
        _needing(multiply_unmasked, "select"),
        _needing(multiply_unmasked, "permute"),
    ),
    "cast": (_needing(cast_repeated, "broadcast"), _needing(fold_choice, "select")),
    "stop_gradient": (Rule(unstopped),),
    "reshape": (Rule(reshaped),),
    "permute": (Rule(permuted),),
    "slice": (Rule(sliced), Rule(whole_slice)),
    "embed": (Rule(whole_embed),),
    "reduce_or": (Rule(any_selected),),
    "broadcast": (Rule(broadcasted),),
    "reduces": (Rule(no_axes), _needing(contract_sum, np.multiply), Rule(split_reduction)),
}
RULES: Mapping[Role, Sequence[Rule]] = {
    op: (*[one for name, one in PATTERNS if name == op], *FUNCTIONS.get(op, ()))
    for op in dict.fromkeys([*FUNCTIONS, *[name for name, _ in PATTERNS]])
}


# --- Simplification: graph to graph, without what need not be computed


def simplify(graph: Graph, target: Target = DEFAULT, *, expanding: bool = False) -> Graph:
    """Return a graph of the same outputs with fewer equations.

    Equal equations become one, constants are computed, `afx.compiler.graph.rewrite_rules.RULES` are applied, slices and
    gathers move before what makes their operands, functions of rows leave the loops of plans, and what no output depends on
    goes. The cost is linear in the number
    of equations.

    Args:
        graph: any graph.
        target: what is compiled for.
        expanding: whether opaque calls are inlined, as plans want them.

    >>> import afx
    >>> print(simplify(afx.trace(lambda x: (afx.sqrt(x), -(-x) * 1.0 + x * 2)[1])(afx.ones(2))))
    graph(a:float32[2]) {
      b:float32[2] = multiply(a, 2.0)
      c:float32[2] = add(a, b)
      return c
    }
    """
    graph = strengthen(graph, expanding=expanding)
    simple = _rebuilt(graph, target, graph_into=_inlining(graph), expanding=expanding)
    while expanding and target.stands_alone and not all(map(is_standalone, simple.equations)):
        formulas = legalize(simple, is_standalone, target, standalone=True)
        simple = _rebuilt(formulas, target, graph_into=_inlining(formulas), expanding=True)
    fissions = find_fissions(simple, target, partial(simplify, target=target, expanding=True)) if expanding else {}
    if fissions:
        entered, into = simple, partial(inline_fissions, fissions=fissions)
        simple = _rebuilt(entered, target, graph_into=lambda b, xs: into(b, entered, xs), expanding=False)
    parts = find_parts(simple, target)
    if not parts:
        return simple
    return _rebuilt(simple, target, graph_into=lambda b, xs: inline_parts(b, simple, xs, parts), expanding=False)


def _inlining(graph: Graph) -> Callable[[GraphBuilder, Sequence[Atom]], Sequence[Atom]]:
    return lambda b, xs: b.inline_graph(graph, xs)


def _rebuilt(
    graph: Graph,
    target: Target,
    *,
    graph_into: Callable[[GraphBuilder, Sequence[Atom]], Sequence[Atom]],
    expanding: bool,
) -> Graph:
    """Return what a graph becomes as its equations are entered one by one, without those that nothing depends on."""
    builder = GraphBuilder(RULES, target, expanding=expanding)
    inputs = [builder.var(v.aval) for v in graph.inputs]
    outputs = [
        builder.broadcast(x, v.aval.shape) for x, v in zip(graph_into(builder, inputs), graph.outputs, strict=True)
    ]
    needed = indices_of(outputs)
    equations = _find_needed(builder.equations, needed)
    constants = [(v, c) for v, c in builder.constants if v.index in needed]
    number_variables(inputs, constants, equations)
    return Graph(tuple(inputs), tuple(constants), tuple(equations), tuple(outputs))


def _find_needed(equations: Sequence[Equation], needed: set[int]) -> list[Equation]:
    """Return the equations that needed variables depend on, and add those that they read to these."""
    found: list[Equation] = []
    for eq in reversed(equations):
        is_needed = False
        for v in eq.outputs:  # loops: comprehensions are calls for each equation
            is_needed = is_needed or v.index in needed
        if is_needed or has_effects(eq):
            found.append(eq)
            for a in eq.inputs:
                if isinstance(a, Var):
                    needed.add(a.index)
    return found[::-1]
