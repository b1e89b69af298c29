"""The public names of afx, written out: a name that comes or goes is a decision, not an accident."""

import importlib

import pytest

NAMES: dict[str, list[str]] = {
    "afx": [],
}


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module: str) -> None:
    """``__all__`` is sorted and holds exactly the names listed here."""
    exported = importlib.import_module(module).__all__
    assert list(exported) == sorted(exported)
    assert sorted(exported) == NAMES[module]


@pytest.mark.parametrize("module", NAMES)
def test_public_names_exist(module: str) -> None:
    """Each name in ``__all__`` can be had, and ``dir`` shows it."""
    namespace = importlib.import_module(module)
    assert [name for name in NAMES[module] if not hasattr(namespace, name)] == []
    assert set(NAMES[module]) <= set(dir(namespace))
