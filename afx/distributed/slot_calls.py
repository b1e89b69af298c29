"""Slot calls: a function of whole arguments, called for each slot with the slot's part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from afx.distributed.agreement import Agreement
from afx.distributed.parts import Parts, cut, whole_places
from afx.distributed.split import Split
from afx.runtime.blas import blas
from afx.transforms.grad import value_and_grad
from afx.transforms.jit import jit

__all__ = ["SlotCalls"]

A = TypeVar("A")


class SlotCalls(Generic[A]):
    """The gradient of a loss for the parts of a Split.

    Args:
        who: the caller, for messages.
        agreement: what the ranks have compared so far.
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
        agreement: Agreement,
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
        self._places = whole_places(loss, argnums, argnames, shared)
        self._who = who
        self._agreement = agreement
        self._loss = loss
        self._split = split

    def bind(self, own_slots: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[int], A]:
        """Return the function from a slot to value and gradient of its part, once all ranks run the same program.

        Raises:
            ArgumentError: another rank runs something else.
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

        def example() -> tuple[list[Any], dict[str, Any]] | None:
            own = [slot for slot in own_slots if self._split.sizes[slot]]
            return read.setdefault(own[0], arguments(own[0])) if own else None

        def compute(slot: int) -> A:
            mine, named = read.pop(slot) if slot in read else arguments(slot)
            with blas:
                result: A = self._part_fn(*mine, **named)
            return result

        shared_values = [value for place, value in given if place not in parts]
        self._agreement.check_step(self._loss, self._plain, self._split, shared_values, example)
        return compute
