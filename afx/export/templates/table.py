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
from afx.export.templates.formulas import FORMULAS, space_of

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
        takes: of elementwise operations whose template is of some dtypes alone, the letters of these.
        has_formulas: whether formulas stand for elementwise operations that it lacks.
    """

    def __init__(self, language: str, *fillers: Filler[W], has_formulas: bool = False) -> None:
        self.language = language
        self.rules: dict[str, Template[W]] = {}
        self.takes: dict[str, str] = {}
        self.has_formulas = has_formulas
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

    def lacks(self, eq: Equation) -> bool:
        """Tell whether there is no template of an equation's primitive, or none of its dtype."""
        p = eq.primitive
        letters = self.takes.get(p.name)
        return self.find(p) is None or (letters is not None and space_of(eq).char not in letters)

    def supported(self) -> list[str]:
        """Return the names of all primitives that have a template, or a formula that stands for it, sorted."""
        formulas = FORMULAS if self.has_formulas else ()
        return [p.name for p in primitives() if p.name in formulas or self.find(p) is not None]
