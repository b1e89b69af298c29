"""Interchange: arrays by name in the safetensors format, which other libraries read."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from typing import Any, TypeVar, overload

import numpy as np

from afx.core.array.array import Array, wrap
from afx.errors import FileFormatError, MissingExtraError, TreeError
from afx.io.atomic import replace_file
from afx.pytree import flatten_with_path, unflatten

__all__ = ["load_safetensors", "save_safetensors"]

T = TypeVar("T")


def save_safetensors(path: str | os.PathLike[str], tree: object) -> None:
    """Write the arrays of a tree in the safetensors format, named by their key paths.

    The structure is not kept: `save` keeps it. The file is replaced whole, as by `save`. The format has no checksums: no
    reader of it notices a flipped bit in an array, where `load` does. Needs the extra ``io``.

    Raises:
        MissingExtraError: safetensors is not installed.
        TreeError: a tree without arrays.

    >>> import afx, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "weights.safetensors"
    ...     afx.io.save_safetensors(path, {"w": afx.ones(2)})
    ...     afx.io.load_safetensors(path)
    {"['w']": Array([1., 1.], dtype=float32)}
    """
    arrays = {name or "value": np.array(leaf, order="C") for name, leaf in flatten_with_path(tree)[0]}
    if not arrays:
        raise TreeError("save_safetensors: a tree without arrays: got none; give at least one")
    with replace_file(path) as file:
        file.write(_library().save(arrays))


@overload
def load_safetensors(path: str | os.PathLike[str], like: None = None) -> dict[str, Array]: ...
@overload
def load_safetensors(path: str | os.PathLike[str], like: T) -> T: ...
def load_safetensors(path: str | os.PathLike[str], like: Any = None) -> Any:
    """Return the arrays of a file in the safetensors format: by name, or as a tree like another.

    Args:
        path: the file.
        like: a tree of the same key paths, shapes and dtypes, whose leaves are replaced. Needs the extra ``io``.

    Raises:
        MissingExtraError: safetensors is not installed.
        FileFormatError: no such file format, two arrays of one name, or names, shapes or dtypes that are not those of
            ``like``.
    """
    library = _library()
    with open(path, "rb") as file:  # noqa: PTH123 - a path of any kind
        try:
            content = file.read()
            loaded = library.load(content)
        except _format_error() as error:
            raise FileFormatError(
                f"load_safetensors: no file of this format ({error}): got {os.fspath(path)!r}"
            ) from None
    json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")], object_pairs_hook=_check_names)
    arrays = {name: wrap(np.array(value)) for name, value in loaded.items()}
    if like is None:
        return arrays
    leaves, treedef = flatten_with_path(like)
    names = [name or "value" for name, _ in leaves]
    if set(names) != set(arrays):
        missing, extra = sorted(set(names) - set(arrays)), sorted(set(arrays) - set(names))
        raise FileFormatError(
            f"load_safetensors: other names than those of the tree: got missing {missing}, extra {extra}"
        )
    for name, leaf in zip(names, [leaf for _, leaf in leaves], strict=True):
        have, want = arrays[name].aval, np.asarray(leaf)
        if (have.shape, have.dtype) != (want.shape, want.dtype):
            raise FileFormatError(
                f"load_safetensors: another array than that of the tree at {name}: got {have}; it has "
                f"{want.dtype}{list(want.shape)}"
            )
    return unflatten(treedef, [arrays[name] for name in names])


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    """Raise where two entries of a header have one name: readers differ on which of them counts."""
    for name, count in Counter([name for name, _ in pairs]).items():
        if count > 1:
            raise FileFormatError(
                f"load_safetensors: each name stands once: got {name!r} {count} times; write the file anew"
            )


def _library() -> Any:
    try:
        library: Any = importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise MissingExtraError(
            'safetensors: an optional dependency is missing: got none; pip install "afx[io]"'
        ) from error
    return library


def _format_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("safetensors").SafetensorError
    return error
