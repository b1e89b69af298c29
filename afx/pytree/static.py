"""Field marks: `static`, part of a class's structure, and `non_trainable`, arrays that no optimizer moves.

attrs is loaded with the first mark, and by users: it would take a sixth of the time of importing NumPy.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

__all__ = ["fields_of", "is_attrs_class", "is_non_trainable", "is_static", "non_trainable", "static"]

_MARK = "afx.static"
_NON_TRAINABLE = "afx.non_trainable"

if TYPE_CHECKING:
    import attrs

    # Type checkers know attrs.field by name; only under that name do they see which fields have defaults.
    from attrs import field as non_trainable, field as static
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
        return _field(metadata={**(metadata or {}), _MARK: True}, **options)

    def non_trainable(*, metadata: Mapping[str, object] | None = None, **options: object) -> object:
        """Mark a field of a frozen attrs class as state that is not trained, such as running statistics.

        Takes the keyword arguments of `attrs.field`. The arrays in the field stay leaves: they are traced, batched,
        compiled, carried and saved. Their gradient is zeros of their dtype, and optimizers leave them as they are. The
        program replaces them itself, by a new instance. Leaves that are not floating or complex (counters, keys,
        masks) are not trained in any field. Keras calls such arrays non-trainable weights, torch calls them buffers.

        >>> import attrs, afx
        >>> @attrs.frozen
        ... class Centred:
        ...     scale: afx.Array
        ...     mean: afx.Array = afx.non_trainable()
        >>> afx.grad(lambda layer: afx.sum(layer.scale * layer.mean))(Centred(afx.ones(2), afx.ones(2)))
        Centred(scale=Array([1., 1.], dtype=float32), mean=Array([0., 0.], dtype=float32))
        """
        return _field(metadata={**(metadata or {}), _NON_TRAINABLE: True}, **options)


def _field(**options: object) -> object:
    return importlib.import_module("attrs").field(**options)


def is_attrs_class(cls: type) -> bool:
    """Tell whether attrs made a class, by the attribute that its guide to extensions documents."""
    return getattr(cls, "__attrs_attrs__", None) is not None


def fields_of(cls: type) -> "tuple[attrs.Attribute[Any], ...]":
    """Return the fields of an attrs class or a dataclass."""
    own = getattr(cls, "__attrs_attrs__", None)
    fields: tuple[attrs.Attribute[Any], ...] = (
        importlib.import_module("dataclasses").fields(cls) if own is None else own
    )
    return fields


def is_static(field: "attrs.Attribute[object]") -> bool:
    """Tell whether `static` made the field."""
    return bool(field.metadata.get(_MARK))


def is_non_trainable(field: "attrs.Attribute[object]") -> bool:
    """Tell whether `non_trainable` made the field."""
    return bool(field.metadata.get(_NON_TRAINABLE))
