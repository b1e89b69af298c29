"""Programs and adapters set how numbers and dicts are: for one test."""

from collections.abc import Iterator

import pytest

from afx.pytree import nodes


@pytest.fixture(autouse=True)
def plain_dicts() -> Iterator[None]:
    """Give trees' dicts in the order of insertion again."""
    yield
    nodes.sort_dicts(False)
