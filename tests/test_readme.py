"""README.md keeps its word: its Python runs, its commands are one line each, its links and figures are there."""

import re
from pathlib import Path

import pytest

from examples import catenary, readme_figures
from tests.markdown import ROOT, blocks as blocks_of, failures_of_sessions, run_python

MOST_LINES = 300
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[int, str]]:
    """Return each fenced block of README.md in a language, with the number of its first line."""
    return blocks_of(README, language)


def test_python_blocks_run(tmp_path: Path) -> None:
    """The Python blocks of README.md run one after another, as a reader would type them, without a warning."""
    result = run_python(README, tmp_path / "README.py")
    assert (result.returncode, result.stderr) == (0, "")


def test_sessions_print_what_they_show() -> None:
    """The interactive sessions of README.md print what the reader is told."""
    assert failures_of_sessions(README, "README.md") == ""


@pytest.mark.parametrize("ending", ["-m examples", "-m pytest -n 2"])
def test_each_command_is_one_line(ending: str) -> None:
    """One line, starting from a clone, makes its environment and runs the examples or the tests."""
    lines = [line for _, block in blocks("sh") for line in block.splitlines() if line.endswith(ending)]
    assert len(lines) == 1
    assert lines[0].startswith("python -m venv ")


def test_ci_runs_the_command_of_the_readme() -> None:
    """.ci/run holds no test command of its own but takes the one in README.md."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "pip install" not in script


def test_it_is_short() -> None:
    """Users read at most 300 lines."""
    assert len(README.splitlines()) <= MOST_LINES


def test_links_and_figures_are_there() -> None:
    """Each relative link names a file, each section that is linked to is there, and figures are small."""
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', README)
    files = [target for target in targets if not target.startswith(("http", "#"))]
    assert [name for name in files if not (ROOT / name).exists()] == []
    sections = {"#" + title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", README, re.MULTILINE)}
    assert {target for target in targets if target.startswith("#")} == sections
    assert [name for name in files if name.endswith(".svg") and (ROOT / name).stat().st_size > 60_000] == []


@pytest.mark.parametrize("page", readme_figures.PAGES)
def test_the_figure_of_speed_shows_the_table(page: str) -> None:
    """Each row that is measured has its bar, in both figures: else run ``python -m examples.readme_figures``."""
    text = (ROOT / "examples" / "figures" / f"speed_{page}.svg").read_text(encoding="utf-8")
    rows = readme_figures.read_ratios(README)
    assert len(rows) >= 15
    assert [name for name, _ in rows if f">{name}<" not in text] == []
    shown = [float(number) for number in re.findall(r">([\d.]+)</text>", text)]
    assert sorted(ratio for _, ratio in rows) == sorted(shown[-len(rows) :])


@pytest.mark.parametrize("name", readme_figures.FIGURES)
def test_figures_can_be_drawn_anew(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script writes an SVG of its own text, which a browser sets."""
    pytest.importorskip("matplotlib", reason="the extra plot")
    monkeypatch.setattr(catenary, "hang", lambda _: catenary.catenary(catenary.FIGURE_LENGTH))
    path = readme_figures.write_figure(name, "dark", tmp_path)
    assert "<text" in path.read_text(encoding="utf-8")
