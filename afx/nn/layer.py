"""Layer classes: readable text and checked construction for frozen classes of parameters."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from afx.errors import ArgumentError
from afx.pytree.static import is_non_trainable, is_static

__all__ = ["children", "count_numbers", "count_parameters", "describe", "layer", "text_of"]

T = TypeVar("T")
SIZES = ("int", "bool", "float", "str", "Literal")  # in annotations of fields that may hold numbers or words
LINE = 100  # characters up to which a layer is written on one line


def layer(cls: type[T]) -> type[T]:
    """Give a frozen attrs class the text of `describe`, and an error with the right call where sizes come for arrays.

    >>> import attrs
    >>> @layer
    ... @attrs.frozen
    ... class Scale:
    ...     factor: afx.Array
    >>> Scale(afx.ones(3))
    Scale(3 parameters: factor=float32[3])
    """
    methods: dict[str, Any] = {"__repr__": describe}
    if hasattr(cls, "__attrs_init__"):  # a constructor of its own has checks of its own
        methods["__init__"] = _unwritten(cls, vars(cls)["__init__"])
    else:
        methods["__init__"] = _make_constructor(cls, vars(cls)["__init__"])
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _unwritten(cls: type[Any], build: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that says what to write where one's own assigns to fields, which are frozen."""
    fields = ", ".join([field.name for field in attrs.fields(cls)])

    @functools.wraps(build)
    def unwritten(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            build(self, *args, **kwargs)
        except attrs.exceptions.FrozenInstanceError as error:
            error.add_note(
                f"{cls.__name__}: fields of a frozen class are not assigned to; in place of __init__ write "
                f"a classmethod create(cls, key, …) that returns cls({fields}), or call self.__attrs_init__({fields})"
            )
            raise

    return unwritten


def _make_constructor(cls: type[Any], build: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that refuses sizes where arrays and layers belong."""
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)

    @functools.wraps(build)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for k, field in enumerate(fields):
            value = args[k] if k < len(args) else kwargs.get(field.name)
            if isinstance(value, int | str) and _holds_arrays(field, cls):
                raise _made_by_create(cls, args, kwargs)
        try:
            build(self, *args, **kwargs)
        except TypeError:
            try:
                inspect.signature(build).bind(self, *args, **kwargs)
            except TypeError:
                raise _made_by_create(cls, args, kwargs) from None
            raise

    return checked


def _holds_arrays(field: attrs.Attribute[Any], cls: type[Any]) -> bool:
    """Tell whether a field's annotation names arrays or classes of them, and nothing that a size could be."""
    words = set(re.findall(r"\w+", str(field.type)))
    names = vars(sys.modules[cls.__module__])
    has_parts = "Array" in words or any(attrs.has(names.get(word, object)) for word in words)
    return has_parts and not is_static(field) and words.isdisjoint(SIZES)


def _made_by_create(cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ArgumentError:
    """Return the error that shows the call of ``create`` that these arguments may have meant."""
    given = ", ".join([*map(text_of, args), *(f"{k}={text_of(v)}" for k, v in kwargs.items())])
    create = getattr(cls, "create", None)
    if create is None:
        names = ", ".join(f.name for f in attrs.fields(cls))
        return ArgumentError(f"{cls.__name__}: takes its arrays: got {given}; write {cls.__name__}({names})")
    needed = [p.name for p in inspect.signature(create).parameters.values() if p.default is p.empty]
    sizes = needed[1:] if needed[:1] == ["seed"] else needed
    in_order = len(args) == len(sizes) and sizes[:1] != ["window"] and all(isinstance(a, int) for a in args)
    words = ["key"] * (len(needed) - len(sizes)) + ([str(a) for a in args] if in_order else sizes)
    return ArgumentError(
        f"{cls.__name__}: its constructor takes arrays, create makes them: got {cls.__name__}({given}); "
        f"write nn.{cls.__name__}.create({', '.join(words)})"
    )


def count_parameters(tree: object) -> int:
    """Return how many numbers of a tree are trained: floats and elements of floating arrays, but for marked fields.

    >>> count_parameters({"weight": afx.ones((3, 2)), "bias": afx.ones(2)})
    8
    """
    return count_numbers(tree)[0]


def count_numbers(value: Any, trained: bool = True) -> tuple[int, int]:
    """Return how many numbers in a tree are trained, and how many are not; what is no tree has none."""
    kind: type[Any] = value.__class__
    if _is_array(value):
        size, trained = int(value.size), trained and value.dtype.kind in "fc"
    elif kind in (float, complex):
        size = 1
    elif attrs.has(kind):
        fields = [f for f in attrs.fields(kind) if not is_static(f)]
        parts = [count_numbers(getattr(value, f.name, None), trained and not is_non_trainable(f)) for f in fields]
        return _sum(parts)
    else:
        items: list[Any] = (
            list(value.values()) if kind is dict else list(value) if issubclass(kind, tuple | list) else []
        )
        return _sum([count_numbers(item, trained) for item in items])
    return (size, 0) if trained else (0, size)


def children(value: Any) -> dict[str, Any]:
    """Return what a layer, a tuple, a list, a dict, a method or a partial function holds, by its step in a path."""
    kind: type[Any] = value.__class__
    if attrs.has(kind):
        return {f".{f.name}": getattr(value, f.name, None) for f in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {f".{f.name}": getattr(value, f.name, None) for f in dataclasses.fields(kind)}
    if isinstance(value, functools.partial):
        return {".func": value.func, ".args": value.args, ".keywords": value.keywords}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any function
    if inspect.ismethod(value):
        return {".__self__": value.__self__}
    if kind is dict:
        return {f"[{key!r}]": child for key, child in value.items()}
    return {f"[{k}]": child for k, child in enumerate(value)} if issubclass(kind, tuple | list) else {}


def _sum(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return sum([a for a, _ in pairs]), sum([b for _, b in pairs])


def describe(model: object) -> str:
    """Return a model as text: its class, how many parameters it has, their shapes, and what differs from defaults.

    >>> describe(afx.nn.Linear.create(0, 3, 2))
    'Linear(8 parameters: weight=float32[3,2], bias=float32[2])'
    """
    fields = [f"{name}={text_of(value)}" for name, value in _list_fields(model)]
    count = count_parameters(model)
    head = f"{type(model).__name__}("
    if count:
        head += f"{count:,} parameter{'s' * (count != 1)}{': ' * bool(fields)}"
    line = head + ", ".join(fields) + ")"
    if len(line) <= LINE and "\n" not in line:
        return line
    return head.rstrip() + "\n" + _indent(fields) + "\n)"


def _list_fields(model: object) -> Iterator[tuple[str, object]]:
    for field in attrs.fields(type(model)):  # type: ignore[arg-type]  # a model is an attrs class
        value = getattr(model, field.name, attrs.NOTHING)
        if not (_is_plain(value) and value == field.default):
            yield field.name, value


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str | None) or (value.__class__ is tuple and all(map(_is_plain, value)))


def text_of(value: Any) -> str:
    """Return the text of a field's value, arrays by dtype and shape."""
    kind: type[Any] = value.__class__
    if _is_array(value):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if kind in (tuple, list):
        return _sequence(list(value))
    if kind is dict:
        return "{" + ", ".join([f"{k!r}: {text_of(v)}" for k, v in value.items()]) + "}"
    if callable(value) and not attrs.has(kind):
        return str(getattr(value, "__name__", None) or repr(value))
    return repr(value)


def _sequence(items: list[Any]) -> str:
    words = [text_of(item) for item in items]
    line = "(" + ", ".join(words) + ("," if len(words) == 1 else "") + ")"
    if any(attrs.has(item.__class__) for item in items) and (len(items) > 1 or "\n" in line):
        return "(\n" + _indent(words) + "\n)"
    return line


def _indent(words: list[str]) -> str:
    return "\n".join("  " + word.replace("\n", "\n  ") + "," for word in words)


def _is_array(value: object) -> bool:
    return all(hasattr(value, name) for name in ("dtype", "shape", "size"))
