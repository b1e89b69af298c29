"""Registration: containers and dataclasses of one's own as trees."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from afx.errors import TreeError
from afx.pytree.nodes import CustomNode, class_opener, declare_record
from afx.pytree.registry import INSIDE, IS_INSTANCE, OUTSIDE
from afx.pytree.static import fields_of

__all__ = ["register", "register_dataclass"]

C = TypeVar("C")


def register(
    cls: type[C],
    flatten: Callable[[C], tuple[Sequence[Any], Any]],
    unflatten: Callable[[Any, list[Any]], C],
) -> None:
    """Make a container a tree.

    Args:
        cls: the class; subclasses are not registered with it.
        flatten: takes a container apart into its children and the rest, its structure, which must hash.
        unflatten: makes a container of a structure and children, which may be of any kind.

    Raises:
        TreeError: what is given is no class.

    >>> from afx import pytree
    >>> class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    >>> pytree.register(Pair, lambda pair: ((pair.x, pair.y), None), lambda _, children: Pair(*children))
    >>> pytree.leaves({"p": Pair(1.0, [2.0])})
    [1.0, 2.0]
    """
    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise TreeError(f"register: needs a class: got {cls!r}; pass the class itself")

    def open_container(value: C) -> tuple[CustomNode, Sequence[object]]:
        children, structure = flatten(value)
        return CustomNode(cls, structure, len(children)), children

    CustomNode.builders[cls] = unflatten
    for mode in (OUTSIDE, INSIDE):
        mode.kinds[cls] = open_container


def register_dataclass(cls: type[C], *, static: Iterable[str] = (), non_trainable: Iterable[str] = ()) -> type[C]:
    """Make a dataclass a tree, and return it, with some of its fields marked.

    Frozen dataclasses are trees without it; `static` and `non_trainable` mark fields as the functions of these names do
    in attrs classes. Instances are built without ``__init__``.

    Args:
        cls: a dataclass.
        static: the names of fields that are part of the structure.
        non_trainable: the names of fields that are not trained.

    Raises:
        TreeError: what is given is no dataclass, or has no such field.

    >>> import dataclasses
    >>> from afx import pytree
    >>> @dataclasses.dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    ...     label: object
    >>> Line = pytree.register_dataclass(Line, static=["label"])
    >>> pytree.flatten(Line(2.0, 0.5))
    ([2.0], Line(slope=*, label=0.5))
    """
    if not (isinstance(cls, type) and hasattr(cls, "__dataclass_fields__")):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise TreeError(f"register_dataclass: needs a dataclass: got {cls!r}; decorate it with @dataclass(frozen=True)")
    names = {field.name for field in fields_of(cls)}
    marked = (frozenset(static), frozenset(non_trainable))
    if missing := sorted((marked[0] | marked[1]) - names):
        raise TreeError(
            f"register_dataclass: {cls.__name__} has no such field: got {missing}; name one of {sorted(names)}"
        )
    declare_record(cls, *marked)
    OUTSIDE.kinds[cls] = IS_INSTANCE
    INSIDE.kinds[cls] = class_opener(cls)
    return cls


register(
    OrderedDict,
    lambda value: (list(value.values()), tuple(value)),
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
)
