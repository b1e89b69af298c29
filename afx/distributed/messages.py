"""Messages: trees as bytes for other ranks, without pickle: a JSON header and the arrays' own bytes."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from afx.io.naming import ImportedNames
from afx.io.structure import read_tree, write_tree
from afx.io.values import Decoder, Encoder

__all__ = ["decode_tree", "encode_tree"]

LENGTH = struct.Struct("<Q")


def encode_tree(tree: object) -> bytes:
    """Return a tree as bytes.

    Raises:
        TreeError: a part without a name, such as a lambda.
    """
    encoder = Encoder()
    content = write_tree(tree, encoder)
    arrays = {name: np.ascontiguousarray(array) for name, array in encoder.arrays.items()}
    declared = [[name, array.dtype.str, encoder.arrays[name].shape] for name, array in arrays.items()]
    header = json.dumps([declared, content]).encode()
    return b"".join([LENGTH.pack(len(header)), header, *[array.tobytes() for array in arrays.values()]])


def decode_tree(data: bytes) -> Any:
    """Return the tree of a message."""
    (length,) = LENGTH.unpack_from(data)
    start = LENGTH.size + length
    declared, content = json.loads(data[LENGTH.size : start])
    arrays: dict[str, Any] = {}
    for name, dtype, shape in declared:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(data, np.dtype(dtype), count, start).reshape(shape).copy()
        start += arrays[name].nbytes
    return read_tree(content, Decoder(arrays, ImportedNames()))
