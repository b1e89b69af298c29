"""Programs and adapters set how numbers and dicts are: for one test."""

from collections.abc import Iterator

import pytest

import afx
from afx.pytree import nodes


@pytest.fixture(autouse=True)
def plain_numbers_and_dicts() -> Iterator[None]:
    """Give numbers their dtypes, and trees' dicts the order of insertion again."""
    default = afx.get_default_dtype()
    yield
    afx.set_default_dtype(default)
    nodes.sort_dicts(False)
