"""Messages between ranks: trees as bytes, of which damaged ones are refused."""

import contextlib

import numpy as np
import pytest

import afx
from afx import optim
from afx.distributed.messages import LENGTH, decode_tree, encode_tree
from afx.errors import AfxError, FileFormatError

TREE = {"a": afx.ones(3), "b": [1, 2.5, None, "x", (1, 2)], "state": optim.adam(0.1).init({"w": afx.ones(4)})}


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_are_refused_with_one_kind_of_error(seed: int) -> None:
    """Whatever byte of a message is another one: it is refused, or only a number of the tree is another."""
    generator, data = np.random.default_rng(seed), encode_tree(TREE)
    for _ in range(150):
        damaged = bytearray(data)
        for place in generator.integers(0, len(data), 2):
            damaged[place] = generator.integers(0, 256)
        with contextlib.suppress(AfxError):
            decode_tree(bytes(damaged))


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\xff" * 40, LENGTH.pack(2) + b"[]", LENGTH.pack(1 << 60)])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    """Such as those of another program on the same connection."""
    with pytest.raises(FileFormatError, match="a message of"):
        decode_tree(data)


def test_a_header_nested_without_end_is_refused() -> None:
    """It does not end the process."""
    header = b"[" * 100_000
    with pytest.raises(FileFormatError, match="no tree"):
        decode_tree(LENGTH.pack(len(header)) + header)
