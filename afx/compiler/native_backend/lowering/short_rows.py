"""Short rows: loop nests that call NumPy's loops, cut where the calls stand, so that each is one call over all elements."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from afx.compiler.native_backend.lowering.memory import dense
from afx.compiler.native_backend.program import Load, Nest, Number, Op, Ref, UfuncLoop, Value
from afx.compiler.target import NativeTarget

__all__ = ["cut_at_calls", "has_short_calls"]


def has_short_calls(nest: Nest, limits: NativeTarget) -> bool:
    """Tell whether a nest would call NumPy's loops for each of many short rows, and is small enough to store what they take."""
    if len(nest.space) < 2 or nest.elements > limits.call_cut_max_elements:
        return False
    if not any(isinstance(op.name, UfuncLoop) for op in nest.operations):
        return False
    space = nest.with_merged_axes().space
    return len(space) > 1 and space[-1] < limits.call_row_min_elements


def cut_at_calls(nest: Nest, temporary: Callable[[str], Ref]) -> list[Nest]:
    """Return nests that run one after the other: of operations, and of single calls on dense memory.

    Args:
        nest: the whole.
        temporary: gives new dense memory for all elements of a dtype.
    """
    cut = _Cut(nest, temporary)
    last = max(cut.levels)
    return [made for level in range(last + 1 + last % 2) for made in cut.nests_of(level)]


class _Cut:
    """The nests of one nest, level by level: operations at even levels, calls at odd ones."""

    def __init__(self, nest: Nest, temporary: Callable[[str], Ref]) -> None:
        self.nest = nest
        self.levels = nest.levels(lambda op: isinstance(op.name, UfuncLoop))
        self._temporary = temporary
        self._memory: dict[int, Ref] = {}
        self._stored: set[int] = set()  # numbers of stores whose memory holds a value from the beginning
        self._later: dict[int, int] = {}  # value that is read from memory to the level that writes it
        for k, value in enumerate(nest.values):
            if isinstance(value, Op):
                for arg in value.args:
                    self._note(arg, k)

    def _note(self, arg: int, user: int) -> None:
        value, level = self.nest.values[arg], self.levels[user]
        if isinstance(value, Op) and self.levels[arg] < level:
            self._later[arg] = self.levels[arg]
        elif isinstance(value, Load) and level % 2 and value.ref.strides != dense(self.nest.space, value.ref.size):
            self._later[arg] = min(level - 1, self._later.get(arg, level))

    def _end(self, k: int) -> int:
        return self.levels[k] + self.levels[k] % 2

    def nests_of(self, level: int) -> list[Nest]:
        """Return the nests of a level, one for each call, or one of all operations with what is stored and reduced there."""
        ops = [k for k, v in enumerate(self.nest.values) if isinstance(v, Op) and self.levels[k] == level]
        if level % 2:
            return [self._make([k], [(k, self._place(k))], ()) for k in ops]
        stores = [(k, self._place(k)) for k, at in sorted(self._later.items()) if at == level]
        stores += [
            (k, ref) for n, (k, ref) in enumerate(self.nest.stores) if self._end(k) == level and n not in self._stored
        ]
        folds = tuple([fold for fold in self.nest.folds if self._end(fold[0]) == level])
        return [self._make(ops, stores, folds)] if stores or folds else []

    def _place(self, k: int) -> Ref:
        """Return the memory of a value that is read later: where it is stored anyway, or new one."""
        value = self.nest.values[k]
        dtype = value.ref.dtype if isinstance(value, Load) else value.dtype
        loaded = {v.ref.root for v in self.nest.values if isinstance(v, Load)}
        for n, (j, ref) in enumerate(self.nest.stores):
            is_whole = ref.strides == dense(self.nest.space, ref.size) and ref.root not in loaded
            if j == k and is_whole and k not in self._memory:
                self._stored.add(n)
                self._memory[k] = ref
        if k not in self._memory:
            self._memory[k] = self._temporary(dtype)
        return self._memory[k]

    def _make(self, ops: list[int], stores: list[tuple[int, Ref]], folds: tuple[tuple[int, str, Ref], ...]) -> Nest:
        """Return a nest of some operations, which reads what others have stored."""
        values, numbers = list[Value](), dict[int, int]()

        def number(k: int) -> int:
            if k not in numbers:
                value = self.nest.values[k]
                if isinstance(value, Op) and k in ops:
                    value = attrs.evolve(value, args=tuple([number(j) for j in value.args]))
                elif (
                    not isinstance(value, Number) and k in self._memory and not (isinstance(value, Load) and k in made)
                ):
                    value = Load(self._memory[k])
                numbers[k] = len(values)
                values.append(value)
            return numbers[k]

        made = {k for k, _ in stores}
        placed = tuple([(number(k), ref) for k, ref in stores])
        reduced = tuple([(number(k), ufunc, ref) for k, ufunc, ref in folds])
        return attrs.evolve(self.nest, values=tuple(values), stores=placed, folds=reduced)
