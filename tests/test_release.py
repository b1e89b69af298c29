"""The release: what is built from the checkout installs and runs without it, from an archive too."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipapp
import zipfile
from pathlib import Path

import pytest

import afx
from tests.lower_bounds import CORE, find_bounds
from tests.markdown import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROGRAM = """
import sys
import numpy as np
import afx

assert afx.__file__.startswith(sys.argv[1]), afx.__file__
step = afx.jit(lambda x: afx.sum(afx.sin(x) * x), backend="native")
print(float(step(afx.arange(10.0))), step.lower(afx.arange(10.0)).status.backend)
"""


def build(project: Path, folder: Path, *targets: str) -> Path:
    """Build a project into a folder, and return the file of the first target."""
    pytest.importorskip("hatchling", reason="what builds, of the extra test")
    chosen = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *chosen]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    ending = ".tar.gz" if targets[0] == "sdist" else ".whl"
    (made,) = folder.glob(f"*{ending}")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel by way of the source distribution, as package indexes have them."""
    folder = tmp_path_factory.mktemp("release")
    sdist = build(ROOT, folder / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build(folder / sdist.name.removesuffix(".tar.gz"), folder / "wheel", "wheel")


def run(path: str, folder: Path) -> str:
    """Run the program in a folder elsewhere, with a path in front, and return what it prints."""
    code = f"import sys; sys.path.insert(0, {path!r}); sys.argv[1:] = [{path!r}]\n{PROGRAM}"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_wheel_is_installed_and_runs(wheel: Path, tmp_path: Path) -> None:
    """Installed by pip without an index, it compiles to machine code where the extra is, and type checkers find it."""
    pytest.importorskip("pip", reason="what installs, of the extra test")
    pytest.importorskip("llvmlite", reason="the extra native")
    target = tmp_path / "installed"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    assert run(str(target), tmp_path) == run(str(ROOT), tmp_path)
    assert run(str(target), tmp_path).endswith(" native")
    assert (target / "afx" / "py.typed").exists()
    assert (target / "afx" / "__init__.pyi").exists()
    assert {path.name for path in target.iterdir()} - {"bin"} == {"afx", f"afx-{afx.__version__}.dist-info"}


def test_an_archive_finds_its_compiler(wheel: Path, tmp_path: Path) -> None:
    """In a zipapp too, the process that compiles is found."""
    pytest.importorskip("llvmlite", reason="the extra native")
    source = tmp_path / "source"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(source)
    (source / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    app = tmp_path / "app.pyz"
    zipapp.create_archive(source, app)
    command = [sys.executable, "-W", "error", str(app), str(app)]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert printed.split()[1] == "native"


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """Version, Python versions, extras and README are in its metadata, and nothing but the package is in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith("METADATA")]
        text = archive.read(place).decode()
    assert f"\nVersion: {afx.__version__}\n" in text
    assert re.findall(r"Python :: (3\.\d+)", text) == ["3.11", "3.12", "3.13", "3.14"]
    assert "\nProvides-Extra: native\n" in text
    assert "gives the same bits at every call" in text
    assert {name.split("/")[0] for name in names} == {"afx", f"afx-{afx.__version__}.dist-info"}


def test_the_changelog_has_the_version() -> None:
    """What the release holds is told on one page."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    page = re.split(r"^## ", text, flags=re.MULTILINE)
    (own,) = [part for part in page if part.startswith(f"{afx.__version__} - ")]
    assert len(own.splitlines()) <= 80


def test_examples_bring_machine_code() -> None:
    """Who installs the examples has what makes their loops fast."""
    (needed,) = [one for one in tomllib.loads(PROJECT)["project"]["optional-dependencies"]["examples"] if "afx" in one]
    assert {"native", "threads"} <= set(re.findall(r"\w+", needed))


def test_the_lower_bounds_are_those_of_the_project() -> None:
    """The core of the suite runs with the oldest releases that are promised, in files that are there."""
    assert {"numpy==2.0.*", "scipy==1.14.*", "attrs==23.2.*"} <= set(find_bounds(PROJECT))
    assert [path for path in CORE if not (ROOT / path).exists()] == []
    assert "-m tests.lower_bounds" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
