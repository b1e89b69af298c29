"""Constant rules: what depends on constants alone is computed while compiling, and so is what is made of choices between them."""

from __future__ import annotations

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.patterns import number_of
from afx.core.aval import Aval
from afx.core.graph import Atom, Constant, Literal
from afx.core.primitive import Primitive

__all__ = ["fold", "fold_choice"]


def fold(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
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
    if any([v is None for v in values]):  # noqa: C419  # a list is quicker
        return None
    try:
        with np.errstate(all="raise"):
            found = np.asarray(p.impl(*values, **dict(params)))
    except (ArithmeticError, ValueError, TypeError):
        return None
    if found.dtype != aval.dtype or found.shape != aval.shape:
        return None
    return b.constant(Constant(found if found.flags.owndata else found.copy()), Aval(aval.shape, aval.dtype))


def fold_choice(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """What an op makes of a choice between two numbers, and of numbers, is a choice between two numbers."""
    choices = [(k, eq) for k, x in enumerate(xs) if (eq := b.made_by(x, "select")) is not None]
    if len(choices) != 1 or xs[choices[0][0]].aval.shape != aval.shape or p.condition_operands:
        return None
    (at, choice), made = choices[0], list[Atom]()
    for option in choice.inputs[1:]:
        numbers = tuple([_literal(b, option if k == at else x) for k, x in enumerate(xs)])
        found = fold(b, p, numbers, params, Aval((), aval.dtype))
        if found is None:
            return None
        made.append(found)
    return b.make(choice.primitive, (choice.inputs[0], *made), choice.params, aval)


def _literal(b: GraphBuilder, x: Atom) -> Atom:
    """Return the number that an operand holds everywhere, or itself."""
    n = number_of(b, x)
    return x if n is None else Literal(n, Aval((), x.aval.dtype))
