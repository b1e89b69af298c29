"""The API reference: every public name has its place, and links lead to one."""

import importlib
import re
from pathlib import Path

import pytest

from examples import reference
from tests.markdown import can_be_had
from tests.test_docstrings import PUBLIC

CHOSEN = ["afx.data", "afx.train", "afx.errors"]  # the whole takes half a minute


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages of some modules."""
    pytest.importorskip("pdoc", reason="the extra docs")
    path = tmp_path_factory.mktemp("reference")
    reference.write(CHOSEN, path)
    return path


def test_links_lead_somewhere(folder: Path) -> None:
    """Each link within the pages names a page, and a place on it."""
    pages = {page: page.read_text(encoding="utf-8") for page in folder.rglob("*.html")}
    anchors = {page: set(re.findall(r'id="([^"]+)"', text)) for page, text in pages.items()}
    wrong, count = list[str](), 0
    for page, text in pages.items():
        without_scripts = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        for link in re.findall(r'href="(?!https?:|data:)([^"]*)"', without_scripts):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            count += 1
            if target not in pages or (anchor and anchor not in anchors[target]):
                wrong.append(f"{page.name}: {link}")
    assert not wrong
    assert count > 100


@pytest.mark.parametrize("name", CHOSEN)
def test_each_public_name_has_a_place(folder: Path, name: str) -> None:
    """The page of a module has every name of its ``__all__``."""
    page = folder.joinpath(*name.split(".")).with_suffix(".html").read_text(encoding="utf-8")
    assert [public for public in importlib.import_module(name).__all__ if f'id="{public}"' not in page] == []


def test_all_families_are_in_it() -> None:
    """The whole reference has afx and each of its public modules."""
    modules = reference.public_modules()
    assert {"afx", "afx.distributed", "afx.nn", "afx.optim", "afx.linalg", "afx.plot", "afx.io"} <= set(modules)
    assert "afx.core" not in modules


def test_names_in_docstrings_exist() -> None:
    """Each qualified name of afx that a public docstring quotes can be had."""
    wrong = set[str]()
    for module, name in PUBLIC:
        doc = getattr(importlib.import_module(module), name).__doc__ or ""
        wrong |= {path for path in re.findall(r"`(afx(?:\.[A-Za-z]\w*)+)", doc) if not can_be_had(path)}
    assert not wrong


def test_links_to_inherited_members_lead_to_the_class() -> None:
    """A link without a place goes up to the next name that has one."""
    html = '<a href="#Cat.purr"></a><a href="#Cat"></a><section id="Cat">'
    assert reference.mend_links(html) == '<a href="#Cat"></a><a href="#Cat"></a><section id="Cat">'
