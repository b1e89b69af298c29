"""Table: the templates of ONNX, each a function of values that returns its results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from afx.core.graph import Equation
from afx.export.onnx.value import Value
from afx.export.onnx.writer import OnnxWriter
from afx.export.templates.table import Table

__all__ = ["OPSET", "TABLE", "formulas", "rule", "rules"]

OPSET = 18  # of December 2022, the first with all that the templates write
TABLE: Table[OnnxWriter] = Table(f"ONNX (opset {OPSET})", has_formulas=True)
F = TypeVar("F", bound="Callable[..., Value | Sequence[Value]]")


def rule(*names: str) -> Callable[[F], F]:
    """Enter a function of the writer and the operands as the template of primitives; it returns the result, or all results."""

    def enter(form: F) -> F:
        def template(w: OnnxWriter, _eq: Equation, operands: list[str], results: list[str]) -> None:
            for known in (*w.ins, *w.outs):
                w.kind(known.dtype)  # which refuses what no model holds
            w.wish(results[0])
            start, outs = len(w.nodes), w.outs
            values = [w.value(name, known) for name, known in zip(operands, w.ins, strict=True)]
            found = form(w, *values)
            every = [found] if isinstance(found, Value) else found
            w.name_results([v.cast(o.dtype) for v, o in zip(every, outs, strict=True)], results, start)

        TABLE.rule(*names)(template)
        return form

    return enter


def _with_kind(
    form: Callable[..., Value | Sequence[Value]], kind: Any, w: OnnxWriter, *xs: Value
) -> Value | Sequence[Value]:
    return form(w, kind, *xs)


def rules(kinds: Mapping[str, Any]) -> Callable[[F], F]:
    """Enter a function as the template of several primitives: it takes what stands beside their names, then the operands."""

    def enter(form: F) -> F:
        for name, kind in kinds.items():
            rule(name)(functools.partial(_with_kind, form, kind))
        return form

    return enter


def formulas(entries: Mapping[str, Callable[..., Value]]) -> None:
    """Enter formulas of the operands alone as the templates of primitives."""

    @rules(entries)
    def _(_w: OnnxWriter, formula: Callable[..., Value], *xs: Value) -> Value:
        return formula(*xs)
