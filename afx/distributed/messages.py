"""Messages: trees and programs as bytes and texts for other ranks, without pickle."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import struct
import zlib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

import numpy as np

from afx.core import Array, Function, Tracer
from afx.core.graph import Graph
from afx.errors import AfxError, FileFormatError, GraphError, TracerError, TreeError
from afx.io.naming import ImportedNames
from afx.io.values import Decoder, Encoder, read_tree, write_tree
from afx.pytree import TreeDef, flatten, flatten_with_path, leaves
from afx.pytree.nodes import Node

# --- Traced values: machines exchange numbers, so that what a transformation watches is refused, by name

OF_LOSSES: Final = "each slot's part is compiled, and differentiated by value_and_grad"
OF_PROGRAMS: Final = "write machines.spmd(afx.jit(fn)) instead of afx.jit(machines.spmd(fn))"


@contextmanager
def refuse_traced(who: str, trees: Iterable[Any]) -> Generator[None]:
    """Name machines in errors of what is computed from trees with traced leaves.

    Raises:
        TracerError: a tree has such a leaf, and its value was asked for.
    """
    try:
        yield
    except TracerError as error:
        raise name_traced(who, trees, error) from None


def name_traced(who: str, trees: Iterable[Any], error: TracerError) -> TracerError:
    """Return the error that names machines and the first traced leaf; where there is none, the error itself."""
    for tree in trees:
        try:
            tracer = next((leaf for leaf in leaves(tree) if isinstance(leaf, Tracer)), None)
        except TreeError:  # no tree, such as what each slot reads for itself
            continue
        if tracer is not None:
            is_program = who.startswith("spmd")
            return TracerError(
                f"{who}: machines exchange numbers, not traced values: got {tracer.aval} in {tracer._trace.name}; call it "
                f"outside of afx.jit, grad and vmap: {OF_PROGRAMS if is_program else OF_LOSSES}"
            )
    return error


# --- Messages: trees as bytes for other ranks, without pickle: a JSON header and the arrays' own bytes

LENGTH = struct.Struct("<Q")
DAMAGES = (ValueError, TypeError, LookupError, OverflowError, RecursionError, struct.error)


def encode_tree(tree: object) -> bytes:
    """Return a tree as bytes.

    Raises:
        TreeError: a part without a name, such as a lambda.
        TracerError: a traced array.
    """
    encoder = Encoder()
    try:
        content = write_tree(tree, encoder)
    except TracerError as error:
        raise name_traced("distributed", [tree], error) from None
    arrays = {name: np.ascontiguousarray(array) for name, array in encoder.arrays.items()}
    declared = [[name, array.dtype.str, encoder.arrays[name].shape] for name, array in arrays.items()]
    header = json.dumps([declared, content]).encode()
    return b"".join([LENGTH.pack(len(header)), header, *[array.tobytes() for array in arrays.values()]])


def decode_tree(data: bytes) -> Any:
    """Return the tree of a message.

    Raises:
        FileFormatError: bytes that are none, or are damaged.
    """
    try:
        return _read(data)
    except AfxError:
        raise
    except DAMAGES as error:
        raise FileFormatError(
            f"distributed: a message of {len(data)} bytes that is no tree: got {type(error).__name__} ({error}); every rank runs "
            "the same version of afx, and sends nothing of its own over afx's connection"
        ) from error


def _read(data: bytes) -> Any:
    (length,) = LENGTH.unpack_from(data)
    start = LENGTH.size + length
    declared, content = json.loads(data[LENGTH.size : start])
    arrays: dict[str, Any] = {}
    for name, dtype, shape in declared:
        count = math.prod(shape)
        read: Any = np.frombuffer(data, np.dtype(dtype), count, start)
        arrays[name] = read.reshape(shape).copy()
        start += arrays[name].nbytes
    return read_tree(content, Decoder(arrays, ImportedNames()))


# --- Digest: what a program is, as text that is equal on ranks that run the same one


def describe_program(fn: Function) -> str:
    """Return the code of a function with the values that it closes over, functions among them."""
    return _describe(fn, set())


def describe_graph(graph: Graph) -> str:
    """Return the digest of a graph; where it holds Python functions (custom rules), their code counts."""
    try:
        return graph.digest
    except GraphError:
        constants = [value.value for _, value in graph.constants]
        return _describe([stable_repr(graph), *constants, *[value for eq in graph for _, value in eq.params]], set())


def _describe(value: Any, seen: set[int]) -> str:
    """Return a text of a value, by which ranks compare it: of functions their code, defaults and what they close over."""
    if id(value) in seen:
        return "…"
    if value.__class__ in (list, tuple):
        return f"[{', '.join([_describe(item, seen) for item in value])}]"
    if isinstance(value, functools.partial):
        inner: list[Any] = [value.func, *value.args, *value.keywords, *value.keywords.values()]
        parts = [_describe(item, seen) for item in inner]
        return f"partial({', '.join(parts)})"
    fn = getattr(value, "__wrapped__", value)
    code = getattr(fn, "__code__", None)
    if code is None:
        return _describe_value(value)
    seen.add(id(value))
    cells = [_describe(cell.cell_contents, seen) for cell in fn.__closure__ or () if _is_set(cell)]
    given: list[Any] = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    defaults = [_describe(item, seen) for item in given]
    return f"{fn.__qualname__}({_describe_code(code)}; {', '.join([*cells, *defaults])})"


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _describe_code(code: CodeType) -> str:
    parts = [code.co_code.hex(), repr(code.co_names)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            parts.append(_describe_code(constant))
        else:  # the order of a set differs from process to process
            members = constant
            parts.append(repr(sorted(map(repr, members)) if constant.__class__ is frozenset else members))
    return " ".join(parts)


def _describe_value(value: Any) -> str:
    graph = value if isinstance(value, Graph) else getattr(value, "graph", None)
    if isinstance(graph, Graph):
        return describe_graph(graph)
    if isinstance(value, Array | np.ndarray):
        array = np.asarray(value)  # pyright: ignore[reportUnknownArgumentType]  # an ndarray of unknown dtype
        return f"{array.dtype}{list(array.shape)}{hashlib.sha256(array.tobytes()).hexdigest()}"
    if value.__class__ in (bool, int, float, complex, str, bytes, type(None)):
        return stable_repr(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def shape_text(tree: Any) -> str:
    """Return the structure of a tree with the shapes and dtypes of its leaves."""
    leaves, treedef = flatten(tree)
    return f"{stable_repr(treedef)} {[(np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves]}"


def describe_values(trees: Sequence[tuple[str, Any]]) -> list[list[str]]:
    """Return a pair of path and checksum for each leaf of named trees.

    >>> describe_values([("w", {"a": 1.0})])
    [["w['a']", 'float64[] c7f813e9']]
    """
    checksums: list[list[str]] = []
    for name, tree in trees:
        for path, leaf in flatten_with_path(tree)[0]:
            array: Any = np.asarray(leaf)
            data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            checksums.append([f"{name}{path}", f"{array.dtype}{list(array.shape)} {zlib.crc32(data):08x}"])
    return checksums


def describe_items(items: Sequence[Any]) -> str:
    """Return the items of a list: structure and values of trees, of others their types."""
    descriptions: list[str] = []
    for item in items:
        try:
            descriptions.append(f"{shape_text(item)} {describe_values([('', item)])}")
        except (TreeError, TypeError, ValueError):  # no tree of numbers, such as a Graph or an open file
            descriptions.append(type(item).__qualname__)
    return repr(descriptions)


def stable_repr(value: object) -> str:
    """Return a text without addresses, by which functions in fields (activations) show and which differ from rank to rank.

    Members of sets stand in their texts' order; that of the sets differs from process to process.

    >>> stable_repr(frozenset({"b", "a"}))
    "{'a', 'b'}"
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", _show(value))


def _show(value: Any) -> str:
    if isinstance(value, TreeDef):
        return " ".join([_show_token(token) for token in value.tokens])
    if value.__class__ in (set, frozenset):
        return f"{{{', '.join(sorted(map(_show, value)))}}}"
    if value.__class__ in (tuple, list):
        return f"{value.__class__.__name__}({', '.join(map(_show, value))})"
    return repr(value)


def _show_token(token: Any) -> str:
    """Return a node with its fields or keys, a leaf, or a static value."""
    if isinstance(token, Node):
        return token.show(["*" if token.is_flat else "_"] * token.arity)
    return _show(token[1]) if isinstance(token, tuple) else repr(token)
