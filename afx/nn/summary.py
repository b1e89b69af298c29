"""Model summary: a table of layers with their outputs and numbers of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO, cast

import attrs

from afx.errors import ArgumentError, ConcreteValueError
from afx.nn.layer import count_numbers, text_of
from afx.transforms.compile.make_graph import eval_shape

__all__ = ["summary"]


class Row(NamedTuple):
    """A layer of the table."""

    path: str
    kind: str
    output: str
    trained: int
    held: int  # numbers that are not trained, such as running statistics


def summary(model: object, *args: object, file: TextIO | None = None) -> None:
    """Print a table of a model's layers: where each stands, its class, its output and its number of parameters.

    Args:
        model: any tree of frozen attrs classes.
        args: what the model would be called with, arrays or `afx.Aval`s; without them there is no column of outputs.
            Nothing is computed: shapes alone are traced.
        file: where the table goes; standard output without one.

    Raises:
        ArgumentError: there are arguments, but the model is no function.

    >>> summary(afx.nn.MLP.create(0, [3, 8, 2]), afx.ones((5, 3)))
    Layer      Type    Output        Parameters
    -------------------------------------------
    layers[0]  Linear  float32[5,8]          32
    layers[1]  Linear  float32[5,2]          18
    -------------------------------------------
    MLP: 50 parameters
    """
    outputs = _outputs(model, args) if args else {}
    rows = list(_rows(model, "", outputs))
    trained, held = sum([r.trained for r in rows]), sum([r.held for r in rows])
    cells = [("Layer", "Type", "Output", "Parameters")]
    cells += [(r.path or ".", r.kind, r.output, f"{r.trained + r.held:,}") for r in rows]
    columns = [k for k in range(4) if args or k != 2]
    widths = [max(len(cell[k]) for cell in cells) for k in columns]
    lines = [_line([cell[k] for k in columns], widths) for cell in cells]
    rule = "-" * max(map(len, lines))
    rest = f", and {held:,} numbers that are not trained" if held else ""
    total = f"{type(model).__name__}: {trained:,} parameter{'s' * (trained != 1)}{rest}"
    print("\n".join([lines[0], rule, *lines[1:], rule, total]), file=file)


def _line(words: list[str], widths: list[int]) -> str:
    left = [word.ljust(width) for word, width in zip(words[:-1], widths, strict=False)]
    return "  ".join([*left, words[-1].rjust(widths[-1])])


def _rows(value: Any, path: str, outputs: dict[str, str]) -> Iterator[Row]:
    """Yield a row for each instance that holds numbers itself or holds no other layer."""
    kind: type[Any] = value.__class__
    inside = list(_children(value, path))
    if attrs.has(kind):
        below = [count_numbers(child) for _, child in _layers(inside)]
        trained, held = count_numbers(value)
        parts = (f"{path}.", f"{path}[") if path else ""
        if path in outputs and not any(
            name.startswith(parts) for name in outputs if name != path
        ):  # no part was called
            yield Row(path, kind.__name__, outputs[path], trained, held)
            return
        own = trained - sum([a for a, _ in below]), held - sum([b for _, b in below])
        if any(own) or not below:
            yield Row(path, kind.__name__, outputs.get(path, ""), *own)
    for child_path, child in inside:
        yield from _rows(child, child_path, outputs)


def _layers(children: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the nearest instances of attrs classes below some values."""
    for path, child in children:
        if attrs.has(child.__class__):
            yield path, child
        else:
            yield from _layers(list(_children(child, path)))


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    kind: type[Any] = value.__class__
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield f"{path}.{field.name}".lstrip("."), getattr(value, field.name, None)
    elif kind is dict:
        for key, item in value.items():
            yield f"{path}[{key!r}]", item
    elif isinstance(value, tuple | list):
        for k, item in enumerate(cast("Sequence[Any]", value)):
            yield f"{path}[{k}]", item


def _outputs(model: Any, args: tuple[Any, ...]) -> dict[str, str]:
    """Return what each layer returns when the model is called, by its path."""
    if not callable(model):
        name = type(model).__name__
        raise ArgumentError(f"summary: the model is no function: got {name}; leave the arguments out, or add __call__")
    found: dict[str, str] = {}
    watched = _watch_layers(model, "", found)
    try:
        eval_shape(watched, *args)
    except ConcreteValueError:  # Python control flow needs values
        watched(*args)
    return found


def _watch_layers(value: Any, path: str, found: dict[str, str]) -> Any:
    """Return a copy of a model whose layers note what they return."""
    kind: type[Any] = value.__class__
    if attrs.has(kind):
        copy: Any = object.__new__(_noting(kind, path, found) if callable(value) else kind)
        for child_path, child in _children(value, path):
            object.__setattr__(copy, child_path.rpartition(".")[2], _watch_layers(child, child_path, found))
        return copy
    if kind is dict:
        return {key: _watch_layers(item, f"{path}[{key!r}]", found) for key, item in value.items()}
    if kind in (tuple, list):
        items = [_watch_layers(item, f"{path}[{k}]", found) for k, item in enumerate(value)]
        return tuple(items) if kind is tuple else items
    return value


def _noting(cls: type[Any], path: str, found: dict[str, str]) -> type[Any]:
    call: Callable[..., Any] = getattr(cls, "__call__")  # noqa: B004, B009 - the method, to be called with another self

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = call(self, *args, **kwargs)
        found.setdefault(path, text_of(out))
        return out

    return type(cls.__name__, (cls,), {"__slots__": (), "__call__": noted})
