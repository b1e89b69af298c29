"""Tables of templates: how one language writes each primitive.

A template writes one equation: ``template(writer, equation, operands, results)``, where operands and results are texts (names,
or what the writer made of a literal). Rules are entered by name; what follows from a primitive's record (its ufunc, its
reduction) is made by *fillers*, functions of a primitive, that are asked where there is no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from afx.core.graph import Equation
from afx.core.primitive import Primitive, primitives

__all__ = ["NoTemplateError", "Table", "Template"]

W = TypeVar("W")
Template: TypeAlias = Callable[[W, Equation, list[str], list[str]], None]
Filler: TypeAlias = Callable[[Primitive], "Template[W] | None"]


class NoTemplateError(Exception):
    """Raised by a template for parameters or dtypes that its language lacks; the text says what, without the line."""


class Table(Generic[W]):
    """The templates of a language.

    Attributes:
        language: its name, for messages.
        rules: templates by the primitive's name.
    """

    def __init__(self, language: str, *fillers: Filler[W]) -> None:
        self.language = language
        self.rules: dict[str, Template[W]] = {}
        self._fillers = fillers

    def rule(self, *names: str) -> Callable[[Template[W]], Template[W]]:
        """Enter a template for primitives of these names."""

        def enter(template: Template[W]) -> Template[W]:
            self.rules |= dict.fromkeys(names, template)
            return template

        return enter

    def find(self, primitive: Primitive) -> Template[W] | None:
        """Return the template of a primitive: a rule, or what a filler makes; None where there is none."""
        found = self.rules.get(primitive.name)
        if found is not None:
            return found
        made = (filler(primitive) for filler in self._fillers)
        found = next((template for template in made if template is not None), None)
        if found is not None:
            self.rules[primitive.name] = found
        return found

    def supported(self) -> list[str]:
        """Return the names of all primitives that have a template, sorted."""
        return [p.name for p in primitives() if self.find(p) is not None]
