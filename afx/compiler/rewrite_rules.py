"""Rewrite rules: simplifications in one table, pattern and replacement, with the conditions under which they hold.

Rules that depend on tags of the record or on shapes are functions of an op and its new operands. Such a function returns
the replacement of the result, or None where it does not apply. Values and dtypes stay, with the signs of zero, infinities
and nan. Sums of repeated numbers may differ in the last digits, sums of zeros in their sign. Products near the ends of
the range may overflow in another order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afx.compiler.constant_rules import fold, fold_choice
from afx.compiler.far_exponentials import choose_far_exponentials
from afx.compiler.graph_builder import GraphBuilder, Params, Rewrite, Rule
from afx.compiler.layout_rules import collapse_short_last_axis, split_reduction, whole_embed, whole_slice
from afx.compiler.masked_products import multiply_unmasked
from afx.compiler.patterns import Match, like, number_of, rule
from afx.compiler.product_rules import (
    collapse_batched_columns,
    collapse_batched_matmul,
    contract_sum,
    expand_gram,
    outer_product,
    sum_batched_matmul,
)
from afx.compiler.scatter_rules import any_selected, matmul_scattered, sum_scattered
from afx.compiler.update_rules import add_embedded
from afx.core.aval import Aval, broadcast_shapes
from afx.core.dtypes import DType
from afx.core.graph import Atom, Literal
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc

__all__ = ["RULES"]


# -- elementwise --
def sink_broadcasts(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Broadcasts that the op does itself go; those of all operands move behind it."""
    found = list(xs)
    for k, x in enumerate(xs):
        eq = b.made_by(x, "broadcast")
        if eq is not None:
            found[k] = eq.inputs[0]
    shape = broadcast_shapes([x.aval.shape for x in found])
    assert shape is not None
    return b.broadcast(b.make(p, tuple(found), params, Aval(shape, aval.dtype)), aval.shape)


def identity(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
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


def involution(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Twice negated, inverted or conjugated is x."""
    eq = b.defining_equation(xs[0])
    return eq.inputs[0] if p.algebra.involution and eq is not None and eq.primitive is p else None


def doubled(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
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
def unstopped(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """In a plan, which nothing differentiates any more, a stopped gradient's value is x."""
    return xs[0] if b.expanding and xs[0].aval == aval else None


# -- casts --
def cast_repeated(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A cast of a repeated number is the cast number, repeated."""
    eq = b.made_by(xs[0], "broadcast")
    if eq is None:
        return None
    return b.broadcast(b.make(p, eq.inputs, params, Aval(eq.inputs[0].aval.shape, aval.dtype)), aval.shape)


# -- shapes --
def reshaped(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
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


def permuted(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Axes that keep their order stay, axes of length one are reshaped, two permutations are one, a repeated number is so."""
    x, axes = xs[0], dict(params)["axes"]
    if axes == tuple(range(len(axes))):
        return x
    long = [a for a in axes if x.aval.shape[a] != 1]
    if long == sorted(long):
        return b.make(primitive_for_role("reshape"), (x,), (("shape", aval.shape),), aval)
    first = b.made_by(x, "permute")
    if first is not None:
        inner = dict(first.params)["axes"]
        return b.make(p, first.inputs, (("axes", tuple([inner[a] for a in axes])),), aval)
    repeated = b.made_by(x, "broadcast")
    if repeated is not None and not repeated.inputs[0].aval.shape:
        return b.broadcast(repeated.inputs[0], aval.shape)
    return None


def broadcasted(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """To its own shape is x; of two broadcasts the first one goes."""
    x = xs[0]
    if x.aval.shape == aval.shape:
        return x
    first = b.made_by(x, "broadcast")
    return None if first is None else b.make(p, first.inputs, params, aval)


def sliced(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A slice of a repeated number is a repeated number, one of joined arrays is one of the array that holds it."""
    repeated, joined = b.made_by(xs[0], "broadcast"), b.made_by(xs[0], "stack") or b.made_by(xs[0], "concat")
    if repeated is not None and not repeated.inputs[0].aval.shape:
        return b.broadcast(repeated.inputs[0], aval.shape)
    index: tuple[Any, ...] = dict(params)["index"]
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
def reduced_repeats(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """The sum of a number repeated n times is n times it; the largest or smallest is the number."""
    eq = b.made_by(xs[0], "broadcast")
    if eq is None or p.lowering.reduce_ufunc not in (np.add, np.maximum, np.minimum):
        return None
    inner = eq.inputs[0]
    axis: tuple[int, ...] = dict(params)["axis"]
    if inner.aval.size != 1 or inner.aval.dtype != aval.dtype or not xs[0].aval.size:
        return None
    if len(inner.aval.shape) > len(aval.shape):
        return None
    count = math.prod([xs[0].aval.shape[a] for a in axis])
    if p.lowering.reduce_ufunc is np.add and count != 1:
        if not _counts_to(count, aval.dtype):
            return None
        factor = Literal((float if aval.dtype.kind == "f" else int)(count), Aval((), aval.dtype))
        inner = b.make(with_ufunc(np.multiply), (inner, factor), (), Aval(inner.aval.shape, aval.dtype))
    return b.broadcast(inner, aval.shape)


def _counts_to(count: int, dtype: DType) -> bool:
    """Tell whether a dtype holds a count as a factor; complex infinities times any are nan."""
    if dtype.kind in "iu":
        return count <= np.iinfo(dtype).max
    return dtype.char in "fd" and int(dtype.type(count)) == count


def no_axes(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A reduction over no axes is x."""
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
    rule("x - -y", "x + y", when=is_inexact),
    rule("x * -1", "-x", when=is_real),
    rule("-x * n", "x * -n", when=is_real),
    rule("-(-x * y)", "x * y", when=is_real),
    rule("-(x * n)", "x * -n", when=lambda match: is_real(match) and isinstance(match.n, float)),
    rule("(x * m) * n", "x * (m * n)", when=scales_by_powers),
    rule("x / 1.0", "x"),
    rule("x / n", "x * (1 / n)", when=divides_by_power),
    rule("x ** 1", "x", when=is_real),
    rule("x ** -1", "1 / x", when=is_real),
    rule("x ** 2", "square(x)", when=is_real),
    rule("x ** 3", "square(x) * x", when=is_real),
    rule("x ** 4", "square(x) * square(x)", when=is_real),
    rule("cast(x) != 0", "x", when=is_boolean),
    rule("cast(x)", "x", when=keeps_dtype),
    rule("cast(cast(x))", "x", when=lambda match: keeps_dtype(match) and loses_nothing(match)),
    rule("cast(cast(x))", "cast(x)", when=loses_nothing),
    rule("bitwise_and(x == n, isinf(x))", "False", when=is_finite),
    rule("logical_and(x == n, isinf(x))", "False", when=is_finite),
    rule("select(n, x, y)", "x", when=lambda match: bool(match.n)),
    rule("select(n, x, y)", "y", when=lambda match: not match.n),
    rule("select(c, x, x)", "x"),
    rule("select(logical_not(x), c, y)", "select(x, y, c)", when=is_boolean),
    rule("select(invert(x), c, y)", "select(x, y, c)", when=is_boolean),
    rule("select(c, select(c, x, y), z)", "select(c, x, z)"),
    rule("select(c, x, select(c, y, z))", "select(c, x, z)"),
    rule("logical_or(x, n)", "n", when=lambda match: match.n is True),
    rule("logical_or(x, n)", "x", when=lambda match: match.n is False and is_boolean(match)),
    rule("select(c, cast(c) * x, y)", "select(c, x, y)", when=is_no_complex),
)


def _needing(rewrite: Rewrite, *words: str) -> Rule:
    """Return a rule that is tried where these are among the operands."""
    return Rule(rewrite, frozenset(words))


FUNCTIONS: Mapping[str, Sequence[Rule]] = {
    "any": (_needing(fold, "known"),),
    "elementwise": (
        _needing(sink_broadcasts, "broadcast"),
        _needing(identity, "number"),
        _needing(involution, "involution"),
        _needing(fold_choice, "select"),
    ),
    "linear": (_needing(involution, "involution"),),
    "exp": (Rule(choose_far_exponentials),),
    "add": (_needing(add_embedded, "embed"), Rule(doubled), Rule(collapse_short_last_axis)),
    "subtract": (Rule(collapse_short_last_axis),),
    "multiply": (Rule(collapse_short_last_axis),),
    "matmul": (
        Rule(matmul_scattered),
        Rule(outer_product),
        Rule(collapse_batched_matmul),
        Rule(collapse_batched_columns),
        _needing(expand_gram, "permute"),
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
    "reduces": (
        Rule(no_axes),
        _needing(reduced_repeats, "broadcast"),
        Rule(sum_scattered),
        _needing(sum_batched_matmul, "matmul"),
        _needing(contract_sum, "multiply"),
        Rule(split_reduction),
    ),
}
RULES: Mapping[str, Sequence[Rule]] = {
    op: (*[one for found, one in PATTERNS if found == op], *FUNCTIONS.get(op, ()))
    for op in dict.fromkeys([*FUNCTIONS, *[found for found, _ in PATTERNS]])
}
