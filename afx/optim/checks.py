"""Checks: validators of the fields of rules, so that a rule is right however it is made, by `attrs.evolve` too."""

from __future__ import annotations

from typing import Any

import attrs

from afx.optim import hyperparameters

__all__ = ["fraction", "not_negative", "not_negative_or_none", "positive", "positive_or_none"]


def _name_of(rule: object) -> str:
    """Return the name of the function that makes a rule."""
    who: str | None = getattr(rule, "who", None)
    return who or type(rule).__name__.removeprefix("ScaleBy").lower()


def positive(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number above 0, nor a schedule where it is a learning rate."""
    hyperparameters.positive(field.name, value, _name_of(rule))


def not_negative(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number of 0 or more."""
    hyperparameters.positive(field.name, value, _name_of(rule), zero=True)


def fraction(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is no number in [0, 1)."""
    hyperparameters.fraction(field.name, value, _name_of(rule))


def positive_or_none(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is neither None nor a number above 0."""
    if value is not None:
        positive(rule, field, value)


def not_negative_or_none(rule: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise where a field is neither None nor a number of 0 or more."""
    if value is not None:
        not_negative(rule, field, value)
