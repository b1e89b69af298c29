"""Weakness: which dtype Python's numbers, and arrays made of them alone, take from what they meet.

A weak value has Python's precision, which is NumPy's float64, until it meets an operand that has a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afx.core.aval import Aval
from afx.core.dtypes import DType, promote, real_dtype
from afx.core.primitive import Params, Primitive

__all__ = ["holds_graphs", "infer", "is_weak_result", "met_dtype", "precise", "takes"]

PROMOTING = ("concat", "select", "stack")  # roles of ops that promote their operands, as elementwise ones do


def holds_graphs(p: Primitive) -> bool:
    """Tell whether an op runs a graph or function, in which its operands meet what they meet."""
    return p.derivative.concrete_vjp is not None or p.lowering.control is not None


def _promotes(p: Primitive) -> bool:
    """Tell whether an op promotes its operands; elsewhere integers beside weak operands are indices."""
    return p.is_elementwise or p.kind == "bilinear" or p.algebra.canonical in PROMOTING


def _strong(p: Primitive, avals: Sequence[Aval]) -> list[Aval]:
    """Return the Avals of the operands whose dtype weak ones take."""
    promotes = _promotes(p)
    return [a for a in avals[p.condition_operands :] if not a.weak and (promotes or a.dtype.kind in "fc")]


def is_weak_result(p: Primitive, avals: Sequence[Aval], params: Params) -> bool:
    """Tell whether the floating results of an op are weak: where all numbers that it computes with are."""
    if "dtype" in params or holds_graphs(p) or _strong(p, avals):
        return False
    return any(a.weak and (p.promotes_to_float or a.dtype.kind in "fc") for a in avals[p.condition_operands :])


def met_dtype(p: Primitive, avals: Sequence[Aval]) -> DType | None:
    """Return the dtype in which an op computes with its weak operands, None where nothing beside them has one."""
    strong = _strong(p, avals)
    if not strong or holds_graphs(p):
        return None
    weak = [a for a in avals[p.condition_operands :] if a.weak]
    both = [*strong, *weak]
    floating = p.is_elementwise and p.promotes_to_float
    return promote(tuple([a.dtype for a in both]), tuple([a.weak for a in both]), floating)


def takes(aval: Aval, dtype: DType) -> DType:
    """Return the dtype that a weak operand takes beside others of a dtype: a real one stays real."""
    return dtype if aval.dtype.kind == "c" else real_dtype(dtype)


def infer(p: Primitive, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    """Return the Avals of an op's results, weak ones where no operand has a dtype of its own.

    Raises:
        AfxError: what the op's shape rule raises.
    """
    found = p.abstract_eval(*avals, **params)
    outs = found if isinstance(found, tuple) else (found,)
    if not any([a.weak for a in avals]):  # noqa: C419  # a list is quicker
        return outs
    if holds_graphs(p):
        return tuple([Aval(a.shape, a.dtype) for a in outs])
    weak = is_weak_result(p, avals, params)
    return tuple([Aval(a.shape, a.dtype, weak or a.weak) if a.dtype.kind in "fc" else a for a in outs])


def precise(dtype: DType) -> DType:
    """Return the dtype that holds weak numbers of a kind with Python's precision."""
    return {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}.get(dtype.kind, dtype)
