"""Hyperparameters: the learning rate, a number in the state or a schedule, and the checked ranges of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np

from afx.core import Array, ArrayLike, aval_of, float64, is_traced
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import asarray, zeros

__all__ = ["LearningRate", "Schedule"]

# --- Hyperparameters

Schedule: TypeAlias = Callable[[Array], ArrayLike]
ArraySchedule: TypeAlias = Callable[[Array | float], Array]  # what afx's own are: of any count, and always an Array
LearningRate: TypeAlias = float | Array | Schedule


def count_zero() -> Array:
    """Return the number of steps before the first one.

    Counts are float64, so that a state is made of floating leaves alone and a whole step has derivatives.
    """
    return zeros((), float64)


def rate_at(rate: LearningRate, count: Array) -> Array:
    """Return the learning rate at a step, as a float64 scalar that states show."""
    value = rate(count) if callable(rate) else rate
    if type(value) is Array and value.dtype == float64 and value.shape == ():
        return value
    aval = aval_of(value, "learning_rate")
    if aval.shape != ():
        raise ShapeError(f"learning_rate: a scalar: got {aval}; scale gradients to move parameters differently")
    if aval.dtype.kind == "c":
        raise DtypeError(f"learning_rate: a real number: got {aval}; take its real part")
    return asarray(value).astype(float64) if isinstance(value, Array) else asarray(value, float64)


class HasRate(Protocol):
    """A state that shows how many steps were taken and the last learning rate."""

    @property
    def count(self) -> Array:
        """The number of steps taken."""
        ...

    @property
    def learning_rate(self) -> Array:
        """The learning rate of the last step."""
        ...


def first_rate(rate: LearningRate) -> Array:
    """Return the learning rate of the first step."""
    return rate_at(rate, count_zero())


def next_rate(rate: LearningRate, state: HasRate) -> Array:
    """Return the learning rate of the next step: a schedule's, else that in the state, which may be replaced there."""
    return rate_at(rate, state.count) if callable(rate) else rate_at(state.learning_rate, state.count)


def is_nonzero(value: float | Array) -> bool:
    """Tell whether a hyperparameter is at work: anything but a plain 0."""
    return not (isinstance(value, (int, float)) and value == 0)


def check_numbers(who: str, **values: Any) -> None:
    """Raise where a hyperparameter is not a real number, or a scalar array of one."""
    for name, value in values.items():
        is_numeric = isinstance(value, (int, float, Array, np.ndarray, np.generic))
        aval = aval_of(value) if is_numeric else None
        if aval is not None and aval.dtype.kind in "fiu" and aval.shape:
            raise ShapeError(f"{who}: {name} is a scalar: got {aval}; scale gradients to move parameters differently")
        if aval is None or aval.dtype.kind not in "bfiu" or not is_within(value, lambda v: v == v):  # noqa: PLR0124  # nan
            raise ArgumentError(f"{who}: {name} is a real number: got {aval or repr(value)}; give one")


def check_mapping(who: str, value: Any, form: str) -> None:
    """Raise where an argument is no mapping."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{who}: takes a mapping: got {type(value).__name__}; write {form}")


def is_within(value: Any, test: Callable[[Any], Any]) -> bool:
    """Tell whether a number passes a test; one that is not known yet does."""
    return is_traced(value) or bool(test(value))


def positive(name: str, value: LearningRate | ArrayLike, who: str, *, zero: bool = False) -> None:
    """Raise where a hyperparameter is no number above 0 (or 0), nor a schedule where it is a learning rate."""
    if callable(value) and name.endswith("learning_rate"):
        return
    check_numbers(who, **{name: value})
    if not is_within(value, lambda v: v > 0 or (zero and v == 0)):
        raise ArgumentError(
            f"{who}: {name} is {'0 or more' if zero else 'above 0'}: got {value}; choose one in that range"
        )


def fraction(name: str, value: float | Array, who: str) -> None:
    """Raise where a decay rate is no number in [0, 1)."""
    check_numbers(who, **{name: value})
    if not is_within(value, lambda v: 0 <= v < 1):
        raise ArgumentError(f"{who}: {name} is from 0 up to, not including, 1: got {value}; choose one in that range")


# --- Checks: validators of the fields of rules, so that a rule is right however it is made, by `attrs.evolve` too


def _name_of(rule: object) -> str:
    """Return the name of the function that makes a rule."""
    who: str | None = getattr(rule, "who", None)
    return who or type(rule).__name__.removeprefix("ScaleBy").lower()


def check_positive(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number above 0, nor a schedule where it is a learning rate."""
    positive(field.name, value, _name_of(rule))


def check_not_negative(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number of 0 or more."""
    positive(field.name, value, _name_of(rule), zero=True)


def check_fraction(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number in [0, 1)."""
    fraction(field.name, value, _name_of(rule))


def positive_field(default: float) -> Any:
    """Return a field that is a number above 0."""
    return attrs.field(default=default, validator=check_positive)


def nonnegative_field(default: float) -> Any:
    """Return a field that is a number of 0 or more."""
    return attrs.field(default=default, validator=check_not_negative)


def fraction_field(default: float) -> Any:
    """Return a field that is a number in [0, 1)."""
    return attrs.field(default=default, validator=check_fraction)


def check_positive_or_none(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is neither None nor a number above 0."""
    if value is not None:
        check_positive(rule, field, value)


def check_not_negative_or_none(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is neither None nor a number of 0 or more."""
    if value is not None:
        check_not_negative(rule, field, value)
