"""The API reference: HTML pages from the docstrings of all public names, ``python -m examples.reference``.

The pages go to ``examples/output/reference``; they need nothing but a browser. Needs the extra ``docs`` (pdoc).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import afx
from examples.derivative_page import derivative_page
from examples.reference_pages import PAGE, groups_of_names, teach, texts_of_values

__all__ = ["main", "public_modules", "write"]


DERIVATIVES = "The rules of every operation, as they stand in the code: [derivatives](derivatives.html)."


def public_modules() -> list[str]:
    """Return afx and its families, in which every public name stands once."""
    return ["afx", *(f"afx.{name}" for name in dir(afx) if isinstance(getattr(afx, name), ModuleType))]


def write(modules: Sequence[str], folder: Path) -> None:
    """Write the pages of some modules, and an index, into a folder.

    Raises:
        ModuleNotFoundError: pdoc is not installed.
    """
    pdoc: Any = importlib.import_module("pdoc")
    for name in modules:  # names that load on first use must be there to be seen
        module = importlib.import_module(name)
        for public in module.__all__:
            getattr(module, public)
    with tempfile.TemporaryDirectory() as templates:
        Path(templates, "module.html.jinja2").write_text(PAGE, encoding="utf-8")
        pdoc.render.configure(
            docformat="google",
            show_source=False,
            footer_text=f"afx {afx.__version__}",
            template_directory=Path(templates),
        )
        teach(pdoc.doc)
        _write(pdoc, modules, folder)


def _write(pdoc: Any, modules: Sequence[str], folder: Path) -> None:
    texts = {module: module.__doc__ for module in map(importlib.import_module, modules)}
    for module, text in texts.items():
        parts = inspect.cleandoc(text or ""), groups_of_names(module), texts_of_values(module)
        module.__doc__ = "\n\n".join((*parts, DERIVATIVES) if module is afx else parts)
    selected = [*modules, *(f"!{name}" for name in hidden(modules))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="pdoc")  # annotations for type checkers alone
        pdoc.pdoc(*selected, output_directory=folder)
    for module, text in texts.items():
        module.__doc__ = text
    for page in folder.rglob("*.html"):
        page.write_text(mend_links(page.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "derivatives.html").write_text(derivative_page(), encoding="utf-8")


def mend_links(html: str) -> str:
    """Lead links to inherited members, which pdoc lists without a place of their own, to their class."""
    anchors = set(re.findall(r'id="([^"]+)"', html))

    def mend(link: re.Match[str]) -> str:
        name = link[1]
        while name and name not in anchors:
            name = name.rpartition(".")[0]
        return f'href="#{name}"'

    return re.sub(r'href="#([^"]+)"', mend, html)


def hidden(modules: Sequence[str]) -> list[str]:
    """Return the public modules that were not asked for."""
    return [name for name in public_modules() if name not in modules and name != "afx"]


def main(arguments: list[str] | None = None) -> int:
    """Write the reference; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.reference", description="Write the API reference in HTML."
    )
    folder = Path(__file__).parent / "output" / "reference"
    parser.add_argument("-o", "--output", type=Path, default=folder, metavar="DIR", help="where to write the pages")
    options = parser.parse_args(arguments)
    try:
        write(public_modules(), options.output)
    except ModuleNotFoundError as error:
        print(f'the reference needs {error.name}, which is not installed: pip install "afx[docs]"', file=sys.stderr)
        return 1
    print(f"wrote {options.output / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
