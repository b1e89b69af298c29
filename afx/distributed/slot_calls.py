"""Slot calls: a function of whole arguments, called for each slot with the slot's part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from afx.distributed.agreement import Program
from afx.distributed.parts import Parts, cut, whole_places
from afx.distributed.probe import adds_up
from afx.distributed.split import Split
from afx.runtime.blas import blas
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["BoundCall", "SlotCalls"]

A = TypeVar("A")


@attrs.frozen(eq=False)
class BoundCall(Generic[A]):
    """One call, ready for its slots.

    Attributes:
        compute: the slot's number to value and gradient of its part.
        program: what the ranks compare before.
    """

    compute: Callable[[int], A]
    program: Program


class SlotCalls(Generic[A]):
    """The gradient of a loss for the parts of a Split.

    Args:
        who: the caller, for messages.
        loss: the program.
        split: the sizes.
        argnums: the arguments to differentiate, as for `afx.value_and_grad`.
        argnames: keyword arguments to differentiate.
        shared: positions and names of other arguments that all slots see whole.
        is_compiled: whether each slot's part runs under `afx.jit`.
        options: of `afx.value_and_grad`.
    """

    def __init__(
        self,
        who: str,
        loss: Callable[..., Any],
        split: Split,
        argnums: int | Sequence[int] | None = None,
        argnames: str | Sequence[str] = (),
        *,
        shared: Sequence[int | str],
        is_compiled: bool,
        options: Mapping[str, bool],
    ) -> None:
        differentiate: Any = value_and_grad  # whose overloads have each flag apart
        self._plain: Any = differentiate(loss, argnums, argnames, **options)
        self._part_fn: Any = jit(self._plain) if is_compiled else self._plain
        self._places = whole_places(loss, argnums, argnames, shared, who)
        self._who = who
        self._has_aux = options.get("has_aux", False)
        self._options = repr((argnums, argnames, list(shared), is_compiled, sorted(options.items())))
        self._loss = loss
        self._split = split
        self.name: str = f"{who} of {getattr(loss, '__qualname__', type(loss).__qualname__)}"

    def bind(
        self, own_slots: Callable[[], Sequence[int]], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> BoundCall[A]:
        """Return the function from a slot to value and gradient of its part.

        Raises:
            ShapeError: an array that the Split cannot cut.
        """
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        parts: dict[int | str, Parts[Any]] = {
            place: value if isinstance(value, Parts) else cut(value, self._split, self._who)
            for place, value in given
            if place not in self._places
        }
        read: dict[int, tuple[list[Any], dict[str, Any]]] = {}  # before the first step, for comparing programs

        def arguments(slot: int) -> tuple[list[Any], dict[str, Any]]:
            mine = [parts[k].part(slot) if k in parts else arg for k, arg in enumerate(args)]
            return mine, {name: parts[name].part(slot) if name in parts else arg for name, arg in kwargs.items()}

        def first_slot() -> int | None:
            return next((slot for slot in own_slots() if self._split.sizes[slot]), None)

        def example() -> tuple[list[Any], dict[str, Any]] | None:
            slot = first_slot()
            if slot is not None and slot not in read:
                read[slot] = arguments(slot)
            return None if slot is None else read[slot]

        def is_sum() -> bool:
            found, slot = example(), first_slot()
            if found is None or slot is None or len(self._split.weights) == 1:
                return False
            rows = self._split.sizes[slot]
            return adds_up(self._loss, *found, parts.keys(), rows, has_aux=self._has_aux)

        def compute(slot: int) -> A:
            mine, named = read.pop(slot) if slot in read else arguments(slot)
            with blas:
                result: A = self._part_fn(*mine, **named)
            return result

        whole = [(f"argument {place}", value) for place, value in given if place not in parts]
        program = Program(self.name, self._loss, self._plain, self._options, self._split, whole, example, is_sum)
        return BoundCall(compute, program)
