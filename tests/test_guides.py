"""The guides keep their word: their Python runs, their links lead somewhere, the names in them exist."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.__main__ import EXAMPLES
from tests.markdown import ROOT, blocks, can_be_had, failures_of_sessions, run_python
from tests.test_layers import LAYERS

FOLDER = ROOT / "examples" / "guides"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
GUIDES = [name for name in TEXTS if name != "README"]
FAMILIES = "afx|data|distributed|io|nn|optim|plot|train"
MOST_LINES = 155


@pytest.mark.parametrize("name", GUIDES)
def test_python_blocks_run(name: str, tmp_path: Path) -> None:
    """The blocks of a guide run one after another, without a warning; they print nothing on standard error."""
    assert blocks(TEXTS[name], "python")
    result = run_python(TEXTS[name], tmp_path / f"{name}.py")
    assert (result.returncode, result.stderr) == (0, "")
    assert failures_of_sessions(TEXTS[name], name) == ""


def prose(name: str) -> str:
    """Return a guide without its blocks, and of its tables not the first column, which has names of other libraries."""
    text = re.sub(r"^```.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files(name: str) -> None:
    """Each relative link names a file."""
    targets = re.findall(r"\]\(([^)]+)\)", prose(name))
    assert [target for target in targets if not (FOLDER / target).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_names_exist(name: str) -> None:
    """Each qualified name of afx in the prose can be had."""
    wrong = list[str]()
    for family, rest in re.findall(rf"`({FAMILIES})((?:\.[A-Za-z]\w*)+)", prose(name)):
        path = f"{family}{rest}" if family == "afx" else f"afx.{family}{rest}"
        if not can_be_had(path):
            wrong.append(path)
    assert not wrong


@pytest.mark.parametrize("name", TEXTS)
def test_guides_are_short(name: str) -> None:
    """A guide is read in one sitting."""
    assert len(TEXTS[name].splitlines()) <= MOST_LINES


def test_the_list_of_guides_is_whole() -> None:
    """The list links to every guide; commands name examples that exist."""
    assert sorted(re.findall(r"\((\w+)\.md\)", TEXTS["README"])) == sorted(GUIDES)
    assert set(re.findall(r"python -m examples (\w+)", "".join(TEXTS.values()))) <= set(EXAMPLES)


def test_the_new_operation_is_a_file_of_its_own(tmp_path: Path) -> None:
    """The block that adds an operation imports all that it uses."""
    (source,) = [source for _, source in blocks(TEXTS["house"], "python") if "unary(" in source]
    path = tmp_path / "softsign.py"
    path.write_text(source, encoding="utf-8")
    result = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_floors_are_drawn_as_they_are() -> None:
    """The drawing for contributors shows the layers that the test of layers holds files to, the highest first."""
    drawing = re.search(r"## The floors.*?```text\n(.*?)```", TEXTS["contributing"], re.DOTALL)
    assert drawing is not None
    assert [tuple(line.split()) for line in drawing[1].splitlines()] == list(reversed(LAYERS))


def test_the_map_names_what_exists() -> None:
    """Every path in the map of the house, and in the way in for contributors, exists."""
    paths = re.findall(r"`((?:afx|examples|tests)/[\w/.]*)`", TEXTS["house"] + TEXTS["contributing"])
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def rows_of(name: str, library: str) -> dict[str, list[str]]:
    """Return the cells beside each module of a library in a guide's table, where JAX's begin with `scipy`."""
    lines = re.findall(r"^\| `(scipy\.[\w.]+)` \| (.*) \|$", TEXTS[name], flags=re.MULTILINE)
    return {
        library.removesuffix("scipy") + module: [cell.strip("` ") for cell in cells.split("|")]
        for module, cells in lines
    }


@pytest.mark.parametrize(("name", "library"), [("from_jax", "jax.scipy"), ("numpy_and_scipy", "scipy")])
def test_tables_of_names_say_what_is_there(name: str, library: str) -> None:
    """The same names are afx's, in its module, and SciPy's or JAX's; each qualified name of afx can be had."""
    pytest.importorskip(library.partition(".")[0], reason="the library whose names they are")
    for module, (own, same, *others) in rows_of(name, library).items():
        theirs = importlib.import_module(module)
        assert [word for word in same.split() if not (can_be_had(f"{own}.{word}") and hasattr(theirs, word))] == []
        paths = re.findall(r"afx(?:\.[A-Za-z]\w*)+", " ".join(others))
        assert [path for path in paths if not can_be_had(path)] == []


def test_every_name_of_jax_scipy_is_in_the_table() -> None:
    """Each module of it is a row, but for packages of others; a law's functions are those of afx's law."""
    package = pytest.importorskip("jax.scipy", reason="the library whose names they are")
    rows = rows_of("from_jax", "jax.scipy")
    for info in pkgutil.walk_packages(package.__path__, "jax.scipy."):
        names = {word for word in dir(importlib.import_module(info.name)) if not word.startswith("_")}
        law = info.name.removeprefix("jax.scipy.stats.")
        if info.name in rows:
            assert names - set(re.findall(r"\w+", " ".join(rows[info.name]))) == set(), info.name
        elif info.name != law and can_be_had(f"afx.stats.{law}"):
            assert {word for word in names if not can_be_had(f"afx.stats.{law}.{word}")} == set(), law
        elif info.name == law:
            assert all(any(row.startswith(f"{info.name}.{word}") for row in rows) for word in names), info.name
