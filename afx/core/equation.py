"""Equations: one operation of a graph, with the variables, literals and constants that it is made of."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from afx.core.aval import Aval
from afx.core.primitive import Primitive

__all__ = ["Atom", "Constant", "Equation", "Literal", "Var", "name_of"]


def name_of(index: int) -> str:
    """Return the name of a variable of this number.

    >>> name_of(0), name_of(25), name_of(26)
    ('a', 'z', 'ba')
    """
    letters, n = "", index
    while True:
        n, letter = divmod(n, 26)
        letters = chr(97 + letter) + letters
        if n == 0:
            return letters


@attrs.frozen
class Var:
    """A variable of a graph: its number and its Aval.

    >>> str(Var(3, Aval((2,), np.dtype("float32"))))
    'd:float32[2]'
    """

    index: int
    aval: Aval

    @property
    def name(self) -> str:
        """A short name, from a to z, then ba, bb and so on."""
        return name_of(self.index)

    def __str__(self) -> str:
        return f"{self.name}:{self.aval}"


@attrs.frozen
class Literal:
    """A number written into an equation; its Aval gives the dtype in which it is used."""

    value: bool | int | float | complex
    aval: Aval

    def __str__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        # repr tells 0.0 from -0.0 and finds nan equal to itself
        return isinstance(other, Literal) and repr(self.value) == repr(other.value) and self.aval == other.aval

    def __hash__(self) -> int:
        return hash((repr(self.value), self.aval))


@attrs.frozen
class Constant:
    """An array captured by a graph, equal to another of the same dtype, shape and bytes."""

    value: np.ndarray[Any, np.dtype[Any]]

    def _key(self) -> tuple[str, tuple[int, ...], bytes]:
        return (self.value.dtype.str, self.value.shape, self.value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and (self.value is other.value or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


Atom = Var | Literal


@attrs.frozen
class Equation:
    """One operation: ``outputs = primitive[params](inputs)``.

    Attributes:
        primitive: the op.
        inputs: variables and literals.
        outputs: the variables it defines.
        params: the op's static parameters, hashable, sorted by name.
        source: the source location of the user's code that made it (its ``str`` is ``file:line``), or None; not part of
            equality.
        ignored_fp_errors: the floating-point warnings that ``np.errstate`` ignored around it within its function, such as
            ``("divide", "invalid")``; not part of equality.
    """

    primitive: Primitive
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    params: tuple[tuple[str, Any], ...] = ()
    source: Any = attrs.field(default=None, eq=False, repr=False)
    ignored_fp_errors: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    @property
    def keywords(self) -> dict[str, Any]:
        """The parameters as a dict."""
        return dict(self.params)

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outputs))
        ins = ", ".join(a.name if isinstance(a, Var) else str(a) for a in self.inputs)
        params = ", ".join(f"{k}={v}" for k, v in self.params)
        return f"{outs} = {self.primitive.name}{f'[{params}]' if params else ''}({ins})"
