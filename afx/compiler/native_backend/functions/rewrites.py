"""Rewrites: a nest's values in forms that the second tier computes better."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from afx.compiler.native_backend.program import Fast, Nest, Number, Op, Value

__all__ = ["join_logistic", "keep_needed", "rewrite"]


def rewrite(nest: Nest) -> Nest:
    """Return a nest that computes the same better."""
    wanted = [*[k for k, _ in nest.stores], *[k for k, *_ in nest.folds]]
    values, numbers = keep_needed(join_logistic(nest.values), wanted)
    stores = tuple([(numbers[k], ref) for k, ref in nest.stores])
    folds = tuple([(numbers[k], ufunc, ref) for k, ufunc, ref in nest.folds])
    return attrs.evolve(nest, values=values, stores=stores, folds=folds)


def join_logistic(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return values with the logistic function in place of ``1 / (1 + exp(-x))``, which is less accurate."""
    found = [_logistic_of(values, k) for k in range(len(values))]
    pairs = zip(values, found, strict=True)
    return tuple([Op(Fast("logistic", None), v.dtype, (x,)) if isinstance(v, Op) and x >= 0 else v for v, x in pairs])


def _logistic_of(values: Sequence[Value], k: int) -> int:
    """Return the number of x, -1 where a value has another form."""
    quotient = _operands(values, k, "divide")
    if not quotient or not _is_one(values[quotient[0]]):
        return -1
    terms = _operands(values, quotient[1], "add")
    if not terms or not any(_is_one(values[t]) for t in terms):
        return -1
    powers = [e for t in terms for e in _operands(values, t, "exp")]
    return next((x for e in powers for x in _operands(values, e, "negative")), -1)


def _operands(values: Sequence[Value], k: int, name: str) -> tuple[int, ...]:
    """Return the operands of a value where it is this operation."""
    value = values[k]
    if not isinstance(value, Op):
        return ()
    own = value.name.name if isinstance(value.name, Fast) else value.name
    return value.args if own == name else ()


def _is_one(value: Value) -> bool:
    return isinstance(value, Number) and value.value == 1


def keep_needed(values: Sequence[Value], wanted: Sequence[int]) -> tuple[tuple[Value, ...], dict[int, int]]:
    """Return the values that others are made of, and their new numbers.

    >>> keep_needed((Number(1.0, "f4"), Number(2.0, "f4")), [1])
    ((Number(value=2.0, dtype='f4'),), {1: 0})
    """
    needed = set(wanted)
    for k in reversed(range(len(values))):
        value = values[k]
        if k in needed and isinstance(value, Op):
            needed |= set(value.args)
    numbers = {k: n for n, k in enumerate(sorted(needed))}
    kept = [values[k] for k in numbers]
    moved = [attrs.evolve(v, args=tuple([numbers[k] for k in v.args])) if isinstance(v, Op) else v for v in kept]
    return tuple(moved), numbers
