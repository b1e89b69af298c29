"""Messages: trees as bytes for other ranks, without pickle: a JSON header and the arrays' own bytes."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from afx.distributed.traced import name_traced
from afx.errors import AfxError, FileFormatError, TracerError
from afx.io.naming import ImportedNames
from afx.io.structure import read_tree, write_tree
from afx.io.values import Decoder, Encoder

__all__ = ["decode_tree", "encode_tree"]

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
        arrays[name] = np.frombuffer(data, np.dtype(dtype), count, start).reshape(shape).copy()
        start += arrays[name].nbytes
    return read_tree(content, Decoder(arrays, ImportedNames()))
