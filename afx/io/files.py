"""Files: `save` and `load` for any pytree and for graphs, and the safetensors format."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from afx.core import Array, wrap
from afx.core.graph import Graph
from afx.errors import FileFormatError, MissingExtraError, TreeError
from afx.io.archive import check_kind, read_archive, replace_file, write_archive
from afx.io.naming import Allowed, AllowedNames, find_public
from afx.io.values import Decoder, Encoder, TreeEncoder, check_unmasked, read_tree, write_tree
from afx.pytree import flatten_with_path, unflatten

# --- Files

T = TypeVar("T")


def save(path: str | os.PathLike[str], tree: object) -> None:
    """Write a pytree, or a Graph, into a file: whole, or not at all.

    The file is a ``.npz`` archive: one ``.npy`` member an array, named by its key path, and a JSON header with the
    structure, names of classes and functions, and a checksum an array. It holds no code. It is written beside its
    place, forced to disk and renamed, so that a crash or a full disk leaves the old file as it was. The same tree gives
    the same bytes.

    Args:
        path: where to write; what stands there is replaced. The usual ending is ``.npz``.
        tree: frozen attrs classes, tuples, named tuples, lists, dicts and None, of arrays and numbers; or a Graph.
            Classes and functions in it must be found by name in a module. An array that the tree holds twice is written once.

    Raises:
        TreeError: a lambda, a local class or another value that no file can hold; the message has its key path.
        DtypeError: an array of objects.
        OSError: the file cannot be written.

    >>> import afx, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "weights.npz"
    ...     afx.io.save(path, {"w": afx.ones((2, 2)), "rate": 0.1})
    ...     afx.io.load(path)["rate"]
    0.1
    """
    encoder = Encoder() if isinstance(tree, Graph) else TreeEncoder()
    write_archive(path, content_of(tree, encoder), encoder.arrays)


def content_of(tree: object, encoder: Encoder) -> dict[str, Any]:
    """Return a tree or graph as JSON, its arrays collected by the encoder."""
    return {"graph": encoder.value(tree, "")} if isinstance(tree, Graph) else {"tree": write_tree(tree, encoder)}


def check_savable(tree: object) -> list[Allowed]:
    """Check that a tree can be saved, and return the classes and functions beyond afx's public ones that it names.

    Raises:
        TreeError: as for `save`, likewise DtypeError.
    """
    encoder = Encoder()
    content_of(tree, encoder)
    for name, array in encoder.arrays.items():
        check_kind(name, array)
    return [thing for name, thing in encoder.named.items() if find_public(name) is None]


@overload
def load(path: str | os.PathLike[str], kind: type[T], *, allow: Sequence[Allowed] = ()) -> T: ...
@overload
def load(path: str | os.PathLike[str], kind: None = None, *, allow: Sequence[Allowed] = ()) -> Any: ...
def load(path: str | os.PathLike[str], kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Any:
    """Return what `save` wrote: no template is needed, and reading runs no code of the file.

    Everything is checked before it is used: checksums, declared shapes and dtypes against the file's size, members
    that are missing, extra or there twice, and the fields of classes.

    Args:
        path: the file.
        kind: the class that is expected, for the type checker and for a check; None for any.
        allow: modules, classes and functions that the file may name, beside the public layers, optimizers and ops of
            afx, NumPy's ufuncs, and what was given to `afx.io.allow`. The class given as ``kind`` is allowed, and its
            module unless that is one of Python's, NumPy's or afx's own. A module brings those inside it along that the
            program has imported: no file imports any.

    Raises:
        FileFormatError: the file is damaged, is of another format, names what is not allowed, or holds another kind.
        OSError: there is no such file.

    >>> import afx, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "graph.npz"
    ...     afx.io.save(path, afx.trace(afx.sin)(afx.ones(3)))
    ...     print(afx.io.load(path, afx.Graph))
    graph(a:float32[3]) {
      b:float32[3] = sin(a)
      return b
    }
    """
    content, arrays = read_archive(path)
    if isinstance(content, dict) and not {"shards", "slots"}.isdisjoint(content):  # pyright: ignore[reportUnknownArgumentType]  # JSON
        raise FileFormatError(
            f"load: one of several files of a checkpoint: got {os.fspath(path)!r}; load it by afx.io.Checkpoints(folder)"
        )
    return build_content(content, arrays, kind, allow, path)


def build_content(
    content: Any,
    arrays: Mapping[str, Any],
    kind: type[Any] | None,
    allow: Sequence[Allowed],
    path: str | os.PathLike[str],
) -> Any:
    """Return the tree or graph that `content_of` wrote as JSON.

    Args:
        content: the JSON value.
        arrays: those of the file, by name.
        kind: as for `load`, likewise ``allow``.
        allow: what the file may name.
        path: the file, for messages.

    Raises:
        FileFormatError: as for `load`.
    """
    decoder = Decoder(arrays, AllowedNames([*allow, *_allowed_by(kind)]))
    try:
        built = decoder.value(content["graph"]) if "graph" in content else read_tree(content["tree"], decoder)
    except FileFormatError:
        raise
    except Exception as error:  # what the header says is no structure: too deep, of other types, with other keys
        raise FileFormatError(
            f"load: no structure of afx ({error!r:.200}): got {os.fspath(path)!r}; save it anew"
        ) from error
    if kind is not None and not isinstance(built, kind):
        raise FileFormatError(
            f"load: the file holds another kind than asked for: got {type(built).__qualname__} for {kind.__qualname__}; "
            "load it without the kind"
        )
    return built


def _allowed_by(kind: type[Any] | None) -> list[Allowed]:
    """Return what the expected class allows: itself, and its module where that is the program's own."""
    if kind is None:
        return []
    package = kind.__module__.partition(".")[0]
    is_foreign = package in ("afx", "numpy") or package in sys.stdlib_module_names
    return [kind] if is_foreign else [kind, kind.__module__]


# --- Interchange: arrays by name in the safetensors format, which other libraries read


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
    check_unmasked(tree, "save_safetensors")
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
    return arrays if like is None else _as_tree(arrays, like)


def _as_tree(arrays: Mapping[str, Array], like: Any) -> Any:
    """Return a tree like another one of arrays by the names of its key paths."""
    leaves, treedef = flatten_with_path(like)
    names = [name or "value" for name, _ in leaves]
    wanted, found = set(names), set(arrays)
    if wanted != found:
        missing, extra = sorted(wanted - found), sorted(found - wanted)
        raise FileFormatError(
            f"load_safetensors: other names than those of the tree: got missing {missing}, extra {extra}"
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
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
        library = importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise MissingExtraError(
            'safetensors: an optional dependency is missing: got none; pip install "afx[io]"'
        ) from error
    return library


def _format_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("safetensors").SafetensorError
    return error
