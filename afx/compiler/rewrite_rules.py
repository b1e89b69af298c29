"""Rewrite rules: simplifications in one table, by the kind, role or ufunc of the ops they look at.

A rule sees an op and its new operands; it returns what stands for the result, or None where it does not apply. Values
and dtypes stay, and the signs of zero, infinities and nan with them; sums of repeated numbers may differ in the last
places, and of zeros in their sign, and products near the ends of the range overflow in another order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params, Rule
from afx.compiler.layout_rules import collapse_batched_matmul, collapse_short_last_axis, split_reduction
from afx.compiler.update_rules import add_embedded
from afx.core.aval import Aval, broadcast_shapes
from afx.core.dtypes import DType
from afx.core.graph import Atom, Constant, Literal
from afx.core.primitive import Primitive, with_ufunc

__all__ = ["RULES"]


def _number(b: GraphBuilder, x: Atom) -> Any:
    """Return the number that a literal, or a broadcast literal, holds."""
    eq = b.made_by(x, "broadcast")
    x = x if eq is None else eq.inputs[0]
    return x.value if isinstance(x, Literal) else None


def _like(b: GraphBuilder, x: Atom, aval: Aval) -> Atom | None:
    """Return x as the whole result, repeated where the result is larger."""
    return b.broadcast(x, aval.shape) if x.aval.dtype == aval.dtype and not x.aval.weak else None


# -- any op -----------------------------------------------------------------------------------------------------------
def fold(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """What depends on constants alone is a constant."""
    if (
        p.multiple_results
        or p.algebra.canonical == "broadcast"
        or p.kind == "custom"
        or not xs
        or aval.size > b.target.fold_max_elements
    ):
        return None
    values = [b.known(x) for x in xs]
    if any(v is None for v in values):
        return None
    try:
        with np.errstate(all="raise"):
            found = np.asarray(p.impl(*values, **dict(params)))
    except (ArithmeticError, ValueError, TypeError):
        return None
    if found.dtype != aval.dtype or found.shape != aval.shape:
        return None
    return b.constant(Constant(found if found.flags.owndata else found.copy()), Aval(aval.shape, aval.dtype))


# -- elementwise ------------------------------------------------------------------------------------------------------
def sink_broadcasts(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Broadcasts that the op does itself go; those of all operands move behind it."""
    found = list(xs)
    for k, x in enumerate(xs):
        eq = b.made_by(x, "broadcast")
        if eq is not None:
            found[k] = eq.inputs[0]
    if tuple(found) == xs:
        return None
    shape = broadcast_shapes([x.aval.shape for x in found])
    assert shape is not None
    return b.broadcast(b.make(p, tuple(found), params, Aval(shape, aval.dtype, aval.weak)), aval.shape)


def identity(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """x·1 is x; x + 0 is x for integers, and for floats where the zero is -0.0."""
    if not p.algebra.commutative or p.algebra.identity is None or len(xs) != 2:
        return None
    for x, y in (xs, xs[::-1]):
        n = _number(b, y)
        if n is None or isinstance(n, bool) or n != p.algebra.identity:
            continue
        if aval.dtype.kind == "c" or (n == 0 and aval.dtype.kind == "f" and math.copysign(1, n) > 0):
            continue  # of complex infinities even the product with 1 is nan
        return _like(b, x, aval)
    return None


def involution(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Twice negated, inverted or conjugated is x."""
    eq = b.defining_equation(xs[0])
    return eq.inputs[0] if p.algebra.involution and eq is not None and eq.primitive is p else None


def minus_zero(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A difference x - 0 is x (but x - -0.0 is not: for -0.0 it is 0.0)."""
    n = _number(b, xs[1])
    plain = n is not None and n == 0 and aval.dtype.kind in "iuf" and math.copysign(1, n) > 0
    return _like(b, xs[0], aval) if plain else None


def divide_by_constant(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A quotient x / 1 is x, and division by a power of two is the product with its inverse."""
    n: Any = _number(b, xs[1])
    if not isinstance(n, float) or not math.isfinite(n) or n == 0.0:
        return None
    if n == 1.0:
        return _like(b, xs[0], aval)
    limits = np.finfo(aval.dtype)
    if math.frexp(n)[0] not in (0.5, -0.5) or not float(limits.tiny) <= abs(1 / n) <= float(limits.max):
        return None
    return b.make(with_ufunc(np.multiply), (xs[0], Literal(1 / n, Aval((), aval.dtype))), (), aval)


def fold_negation(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum x + -y is x - y, -x + y is y - x, x - -y is x + y."""
    x, y = xs
    add, subtract, negative = (with_ufunc(u) for u in (np.add, np.subtract, np.negative))
    if aval.dtype.kind not in "fc":
        return None
    right = b.defining_equation(y)
    if right is not None and right.primitive is negative:
        return b.make(subtract if p is add else add, (x, right.inputs[0]), (), aval)
    left = b.defining_equation(x)
    if p is add and left is not None and left.primitive is negative:
        return b.make(subtract, (y, left.inputs[0]), (), aval)
    return None


def negative_one(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A product x · -1 is -x, and a factor takes the sign of what it multiplies."""
    for x, y in (xs, xs[::-1]):
        n = _number(b, y)
        if n is None or aval.dtype.kind != "f":
            continue
        negative = with_ufunc(np.negative)
        if n == -1:
            return b.broadcast(b.make(negative, (x,), (), Aval(x.aval.shape, aval.dtype)), aval.shape)
        eq = b.defining_equation(x)
        if eq is not None and eq.primitive is negative and isinstance(y, Literal):
            return b.make(p, (eq.inputs[0], Literal(-n, y.aval)), (), aval)
    return None


def powers_of_two(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A product (x·m)·n is x·(m·n) where m or n is a power of two near 1, so that nothing is rounded differently.

    That is so between 1e4 times the smallest and 1e-4 times the largest normal number; half precision has too few.
    """
    if aval.dtype.char not in "fd" or len(aval.shape) == 0:
        return None
    for x, y in (xs, xs[::-1]):
        eq = b.defining_equation(x)
        if eq is None or eq.primitive is not p or not isinstance(y, Literal) or x.aval.shape != aval.shape:
            continue
        for inner, other in (eq.inputs, eq.inputs[::-1]):
            if isinstance(other, Literal) and _small_power(other.value, y.value) and inner.aval.shape == aval.shape:
                return b.make(p, (inner, Literal(other.value * y.value, Aval((), aval.dtype))), (), aval)
    return None


def _small_power(*factors: Any) -> bool:
    """Tell whether both factors are moderate, and one of them is a power of two."""
    if not all(isinstance(n, float) and 1e-4 < abs(n) < 1e4 for n in factors):
        return False
    return any(math.frexp(n)[0] in (0.5, -0.5) for n in factors)


def negated_product(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """-(n·x) is (-n)·x."""
    eq = b.defining_equation(xs[0])
    if eq is None or eq.primitive is not with_ufunc(np.multiply) or aval.dtype.kind != "f":
        return None
    for x, y in (eq.inputs, eq.inputs[::-1]):
        if isinstance(y, Literal) and isinstance(y.value, float):
            return b.make(eq.primitive, (x, Literal(-y.value, y.aval)), (), aval)
    return None


def small_power(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Powers 1, 2, 3, 4 and -1 of floats are products and a quotient."""
    x, n = xs[0], _number(b, xs[1])
    if aval.dtype.kind != "f" or isinstance(n, complex) or n not in (1, 2, 3, 4, -1) or x.aval.shape != aval.shape:
        return None
    if n == 1:
        return _like(b, x, aval)
    if n == -1:
        return b.make(with_ufunc(np.divide), (Literal(1.0, Aval((), aval.dtype)), x), (), aval)
    square = b.make(with_ufunc(np.square), (x,), (), aval)
    if n == 2:
        return square
    return b.make(with_ufunc(np.multiply), (square, x if n == 3 else square), (), aval)


def cast_bool_compare(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A truth value made a number and compared with zero is that truth value."""
    eq = b.made_by(xs[0], "cast")
    n = _number(b, xs[1])
    if eq is None or n is None or n != 0 or eq.inputs[0].aval.dtype != np.bool_:
        return None
    return b.broadcast(eq.inputs[0], aval.shape)


# -- casts ------------------------------------------------------------------------------------------------------------
def same_dtype(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A cast to the dtype it has is x; a cast of a repeated number is the cast number, repeated."""
    x = xs[0]
    if x.aval.dtype == aval.dtype and not x.aval.weak:
        return x
    eq = b.made_by(x, "broadcast")
    if eq is not None:
        inner = b.make(p, eq.inputs, params, Aval(eq.inputs[0].aval.shape, aval.dtype))
        return b.broadcast(inner, aval.shape)
    return None


def cast_of_cast(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Of two casts the first one goes where it loses nothing."""
    eq = b.made_by(xs[0], "cast")
    if eq is None:
        return None
    first = eq.inputs[0]
    if first.aval.weak or not _holds_all(first.aval.dtype, xs[0].aval.dtype):
        return None
    return first if first.aval.dtype == aval.dtype else b.make(p, (first,), params, aval)


def _holds_all(source: DType, target: DType) -> bool:
    """Tell whether a dtype holds each number of another: NumPy calls float64 safe for int64, whose digits it loses."""
    if source.kind in "iu" and target.kind in "fc":
        return np.finfo(target).nmant + 1 >= np.iinfo(source).bits
    return np.can_cast(source, target, "safe")


# -- choices ----------------------------------------------------------------------------------------------------------
def chosen(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A choice under a known condition, or between equal things, is what it takes."""
    condition, x, y = xs
    known = _number(b, condition)
    if known is not None:
        return _like(b, x if known else y, aval)
    return _like(b, x, aval) if x == y else None


def nested_select(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A choice under the same condition inside a branch is already decided."""
    condition, x, y = xs
    left, right = b.made_by(x, "select"), b.made_by(y, "select")
    if left is not None and left.inputs[0] == condition:
        return _choice(b, p, (condition, left.inputs[1], y), aval)
    if right is not None and right.inputs[0] == condition:
        return _choice(b, p, (condition, x, right.inputs[2]), aval)
    return None


def _choice(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], aval: Aval) -> Atom:
    """Return a choice in a shape that may be larger than those of its operands together."""
    shape = broadcast_shapes([x.aval.shape for x in xs])
    assert shape is not None
    return b.broadcast(b.make(p, xs, (), Aval(shape, aval.dtype, aval.weak)), aval.shape)


def masked_product(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Where a condition holds, a factor that is the condition as a number is 1."""
    condition, x, y = xs
    eq = b.defining_equation(x)
    if eq is None or eq.primitive is not with_ufunc(np.multiply) or aval.dtype.kind == "c":
        return None
    for factor, other in (eq.inputs, eq.inputs[::-1]):
        cast = b.made_by(factor, "cast")
        if cast is not None and cast.inputs[0] == condition:
            return b.make(p, (condition, other, y), params, aval)
    return None


# -- shapes -----------------------------------------------------------------------------------------------------------
def reshaped(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """To its own shape is x; of two reshapes the first one goes; a repeated number is repeated to the new shape.

    The first one stays where it may be a copy, of permuted axes, so that there are not two of them.
    """
    x = xs[0]
    if x.aval.shape == aval.shape and not x.aval.weak:
        return x
    first = b.made_by(x, "reshape")
    if first is not None and first.inputs[0].aval.shape == aval.shape and not first.inputs[0].aval.weak:
        return first.inputs[0]
    if first is not None and b.made_by(first.inputs[0], "permute") is None:
        return b.make(p, first.inputs, params, aval)
    repeated = b.made_by(x, "broadcast")
    if repeated is not None and repeated.inputs[0].aval.size == 1:
        inner = repeated.inputs[0]
        return b.broadcast(inner if not inner.aval.shape else b.make(p, (inner,), (("shape", ()),)), aval.shape)
    return None


def permuted(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Axes that keep their order stay, two permutations are one, a repeated number is repeated."""
    x, axes = xs[0], dict(params)["axes"]
    if axes == tuple(range(len(axes))) and not x.aval.weak:
        return x
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
    if x.aval.shape == aval.shape and not x.aval.weak:
        return x
    first = b.made_by(x, "broadcast")
    return None if first is None else b.make(p, first.inputs, params, aval)


# -- reductions -------------------------------------------------------------------------------------------------------
def reduced_repeats(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """The sum of a number repeated n times is n times it; the largest or smallest is the number."""
    eq = b.made_by(xs[0], "broadcast")
    if eq is None or p.lowering.reduce_ufunc not in (np.add, np.maximum, np.minimum):
        return None
    inner = eq.inputs[0]
    axis: tuple[int, ...] = dict(params)["axis"]
    if inner.aval.size != 1 or inner.aval.dtype != aval.dtype or inner.aval.weak or not xs[0].aval.size:
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


RULES: Mapping[str, Sequence[Rule]] = {
    "any": (fold,),
    "elementwise": (sink_broadcasts, identity, involution),
    "linear": (involution,),
    "add": (fold_negation, add_embedded, collapse_short_last_axis),
    "subtract": (minus_zero, fold_negation, collapse_short_last_axis),
    "multiply": (negative_one, powers_of_two, collapse_short_last_axis),
    "divide": (divide_by_constant,),
    "power": (small_power,),
    "negative": (negated_product,),
    "matmul": (collapse_batched_matmul,),
    "not_equal": (cast_bool_compare,),
    "cast": (same_dtype, cast_of_cast),
    "select": (chosen, nested_select, masked_product),
    "reshape": (reshaped,),
    "permute": (permuted,),
    "broadcast": (broadcasted,),
    "reduces": (no_axes, reduced_repeats, split_reduction),
}
