"""Exponentials far below 0: those of masked numbers are chosen, as NumPy's vectors of float64 have no quick way to them.

``exp(where(mask, x, -1e9))`` is 0 where the mask is false. NumPy computes such elements one by one, which takes eight times
as long as all others together. Where an operand may hold them, the plan takes 0 in their place before and behind the call.
"""

from __future__ import annotations

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.patterns import number_of
from afx.core.aval import Aval
from afx.core.graph import Atom, Literal
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc

__all__ = ["choose_far_exponentials"]

FAR = -746.0  # where exp of float64 is 0: half of its smallest number is exp(-745.13)
DEPTH = 8  # equations that are looked through for a number that masks
MOVES = frozenset({"reshape", "permute", "broadcast", "slice", "cast", "concat"})
ARITHMETIC = frozenset({np.add, np.subtract, np.multiply, np.divide})


def choose_far_exponentials(
    b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval
) -> Atom | None:
    """The exponential of what may be masked by a large negative number is 0 where it is."""
    (x,) = xs
    is_vector = aval.dtype.char == "d" and aval.size >= b.target.far_min_elements
    if not b.expanding or not is_vector or _is_chosen(b, x) or not _may_be_far(b, x, DEPTH):
        return None
    zero, bound = [Literal(n, Aval((), aval.dtype)) for n in (0.0, FAR)]
    is_far = b.make(with_ufunc(np.less), (x, bound))
    if not _looks_for_far(b, is_far):  # it has become another choice between numbers, which is as far as before
        return None
    choice = primitive_for_role("select")
    near = b.make(choice, (is_far, zero, x))
    return b.make(choice, (is_far, zero, b.make(p, (near,), params, aval)))


def _is_chosen(b: GraphBuilder, x: Atom) -> bool:
    """Tell whether an operand has no such numbers any more."""
    choice = b.made_by(x, "select")
    return choice is not None and _looks_for_far(b, choice.inputs[0])


def _looks_for_far(b: GraphBuilder, test: Atom) -> bool:
    eq = b.defining_equation(test)
    return eq is not None and eq.primitive.lowering.ufunc is np.less and number_of(b, eq.inputs[1]) == FAR


def _may_be_far(b: GraphBuilder, x: Atom, depth: int) -> bool:
    """Tell whether a number far below 0 has been written into some elements, or been added to them."""
    n, eq = number_of(b, x), b.defining_equation(x)
    if n is not None:
        return isinstance(n, float) and n <= FAR
    if eq is None or not depth:
        return False
    role, ufunc = eq.primitive.algebra.canonical, eq.primitive.lowering.ufunc
    if role == "select":
        return any(_may_be_far(b, v, depth - 1) for v in eq.inputs[1:])
    if role in MOVES or ufunc in ARITHMETIC:
        return any(_may_be_far(b, v, depth - 1) for v in eq.inputs)
    return False
