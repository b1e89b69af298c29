"""Loop nests: fused elementwise operations over one iteration space, with reductions of what they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from afx.compiler.native_backend.elements import Access, Load, Names, Op, Ref, UfuncLoop, Value, axis_names
from afx.compiler.native_backend.steps import Leaf, join_lengths, merged
from afx.core.aval import Shape
from afx.core.scalar_ops import scalar_op

if TYPE_CHECKING:
    from afx.compiler.target import NativeTarget

__all__ = ["Nest"]


@attrs.frozen
class Nest(Leaf):
    """Fused elementwise operations over one iteration space.

    Attributes:
        space: lengths of the axes, neighbours merged as far as all strides allow.
        values: what is computed for each element, operands before their use.
        stores: which values are written, and where.
        quiet: floating-point warnings that its equations ignore.
        folds: values that are reduced, by which ufunc, and where to: strides are 0 along reduced axes.
        is_cut: whether it runs part by part, along its first axis.
    """

    space: Shape
    values: tuple[Value, ...]
    stores: tuple[tuple[int, Ref], ...]
    quiet: tuple[str, ...] = ()
    folds: tuple[tuple[int, str, Ref], ...] = ()
    is_cut: bool = False

    def accesses(self) -> list[Access]:
        """Return values that are loaded, stores, folds."""
        found = [Access(v.ref, "r") for v in self.values if isinstance(v, Load)]
        return [*found, *[Access(ref, "w") for _, ref in self.stores], *[Access(ref, "w") for *_, ref in self.folds]]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Nest:
        """Return the nest with other memory, changed in the order of its accesses."""
        values = tuple([Load(change(v.ref)) if isinstance(v, Load) else v for v in self.values])
        stores = tuple([(k, change(ref)) for k, ref in self.stores])
        folds = tuple([(k, ufunc, change(ref)) for k, ufunc, ref in self.folds])
        return attrs.evolve(self, values=values, stores=stores, folds=folds)

    def place(self, numbers: Mapping[int, int], arena: int) -> Nest:  # it has none
        """Return the nest in its block, with neighbouring axes joined over which all operands walk evenly."""
        return self.with_roots(numbers).with_merged_axes()

    def with_merged_axes(self) -> Nest:
        """Return the same with neighbouring axes joined over which all operands walk evenly."""
        space, strides = merged(self.space, [ref.strides for ref in self.refs])
        left = iter(strides)
        found = self.map_refs(lambda ref: attrs.evolve(ref, strides=next(left)))
        return attrs.evolve(found, space=space)

    @property
    def parts(self) -> int:
        """Number of parts that it can be cut into."""
        return self.space[0]

    @property
    def folds_rows(self) -> bool:
        """Whether each of its folds reduces the same axes, the last ones, and not the first one: then rows are apart."""
        kept = {tuple(map(bool, ref.strides)) for *_, ref in self.folds}
        (pattern,) = kept if len(kept) == 1 else ((),)
        return bool(pattern) and pattern[0] and not pattern[-1] and list(pattern) == sorted(pattern, reverse=True)

    @property
    def operations(self) -> list[Op]:
        """What it computes; nothing, where it copies."""
        return [v for v in self.values if isinstance(v, Op)]

    def levels(self, is_apart: Callable[[Op], bool]) -> list[int]:
        """Return of each value in which loop it is computed: operations at even levels, those that stand apart at odd ones."""
        found: list[int] = []
        for value in self.values:
            if not isinstance(value, Op):
                found.append(0)
                continue
            calls = is_apart(value)
            level = 1 if calls else 0
            for k in value.args:
                arg = self.values[k]
                if isinstance(arg, Op):
                    odd = is_apart(arg)
                    level = max(level, found[k] + (odd != calls) + 2 * (odd and calls))
            found.append(level)
        return found

    @property
    def may_fault(self) -> bool:
        """Whether floats become integers, which may be out of range."""
        return any(op.name == "cast" and self._drops_digits(op) for op in self.operations)

    def _drops_digits(self, op: Op) -> bool:
        return self.values[op.args[0]].dtype[0] == "f" and op.dtype[0] in "iu"

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 5 + self.elements * (0.1 * len(self.values) + sum([op.is_call for op in self.operations]))

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """The loops of NumPy that it calls."""
        return iter([op.loop for op in self.operations if op.loop is not None])

    @property
    def called_roots(self) -> set[int]:
        """The roots that functions read."""
        called = {k for op in self.operations if op.is_call for k in op.args}
        return {v.ref.root for k, v in enumerate(self.values) if isinstance(v, Load) and k in called}

    def is_written_out(self, limits: NativeTarget) -> bool:
        """Tell whether it copies, is short, or runs over vectors."""
        few = limits.passes_few_folded_elements if self._has_lanes else limits.passes_few_elements
        return not self.operations or self.elements <= few or self.is_dense(limits)

    def is_dense(self, limits: NativeTarget) -> bool:
        """Tell whether its rows are long, and their elements neighbours."""
        row = limits.passes_fold_row_min_elements if self._has_lanes else limits.passes_row_min_elements
        is_long = bool(self.space) and self.space[-1] >= row
        return is_long and all([ref.strides[-1] in (0, ref.size) for ref in self.refs])  # noqa: C419  # it is quicker

    @property
    def _has_lanes(self) -> bool:
        return any(ref.strides and not ref.strides[-1] for *_, ref in self.folds)

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the loop over its elements."""
        inside = self._inside(names)
        if not self.space:
            return inside
        notes = [f"ignores {', '.join(self.quiet)}"] if self.quiet else []
        notes += ["shared by threads"] if self.is_cut else []
        comment = f"  # {', '.join(notes)}" if notes else ""
        axes = ", ".join(axis_names(len(self.space)))
        return [f"for {axes} in {join_lengths(self.space)}:{comment}", *["    " + line for line in inside]]

    def _inside(self, names: Names) -> list[str]:
        rank, texts, lines = len(self.space), [""] * len(self.values), list[str]()
        ends = {k for k, _ in self.stores} | {k for k, *_ in self.folds}
        uses = [sum([k in op.args for op in self.operations]) for k in range(len(self.values))]
        for k, value in enumerate(self.values):
            text = value.text(texts, names, rank)
            if isinstance(value, Op) and (uses[k] > 1 or (k in ends and uses[k]) or len(text) > 60):
                lines.append(f"t{k} = {text}")
                text = f"t{k}"
            texts[k] = text
        lines += [f"{ref.text(names, rank)} = {texts[k]}" for k, ref in self.stores]
        for k, ufunc, ref in self.folds:
            axes = [axis for axis, stride in zip(axis_names(rank), ref.strides, strict=True) if not stride]
            along = ", ".join(axes) or "nothing"
            lines.append(
                f"{ref.text(names, rank)} = {scalar_op(ufunc).fold} of {texts[k]}  # along {along}, in 32 lanes"
            )
        return lines
