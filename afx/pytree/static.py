"""`static`: marks the fields of a frozen attrs class that are part of its structure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

__all__ = ["is_static", "static"]

_MARK = "afx.static"

if TYPE_CHECKING:
    # Type checkers know attrs.field by name; only under that name do they see which fields have defaults.
    from attrs import field as static
else:

    def static(*, metadata: Mapping[str, object] | None = None, **options: object) -> object:
        """Mark a field of a frozen attrs class as part of the structure: never traced, never differentiated.

        Takes the keyword arguments of `attrs.field`. The field's value must hash: a tuple, not a list. Ints, bools,
        strings, enums, dtypes and callables are static without a mark.

        >>> import attrs, afx.pytree
        >>> @attrs.frozen
        ... class Window:
        ...     weight: float
        ...     overlap: float = afx.pytree.static(default=0.5)
        >>> afx.pytree.leaves(Window(2.0))
        [2.0]
        """
        return attrs.field(metadata={**(metadata or {}), _MARK: True}, **options)


def is_static(field: "attrs.Attribute[object]") -> bool:
    """Tell whether `static` made the field."""
    return bool(field.metadata.get(_MARK))
