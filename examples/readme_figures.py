"""README's figures: the paper's demonstrations, and speed beside jax.jit, for light and dark pages.

``python -m examples.readme_figures`` writes them to ``examples/figures``; the numbers are those of README's table.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import afx
from afx import plot
from examples import boundary_value, catenary, curve_derivative
from examples.report import optional

__all__ = ["draw_demonstrations", "draw_speed", "main", "read_ratios"]

Drawing: TypeAlias = Callable[[Any, "Colors"], None]
Colors: TypeAlias = dict[str, str]

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
ROW = re.compile(r"^\| (.+?) \| [\d.]+ \S+ \| ([\d.]+) × \|$", re.MULTILINE)
LIGHT = {"ink": "#1f2328", "first": "#1f77b4", "second": "#d9730d", "third": "#2c8a3d", "faint": "#8c959f"}
DARK = {"ink": "#e6edf3", "first": "#58a6ff", "second": "#f0883e", "third": "#56d364", "faint": "#6e7681"}
PAGES = {"light": LIGHT, "dark": DARK}


def read_ratios(readme: str) -> list[tuple[str, float]]:
    """Return what README's table measures, and how many times as long jax.jit takes."""
    return [(name.replace("`", ""), float(ratio)) for name, ratio in ROW.findall(readme)]


def draw_speed(figure: Any, colors: Colors) -> None:
    """Draw one bar for each row of README's table, to the right where afx is ahead."""
    rows = read_ratios(README.read_text(encoding="utf-8"))[::-1]
    axes = figure.subplots()
    ratios = np.array([ratio for _, ratio in rows])
    shades = [colors["first"] if ratio >= 1 else colors["second"] for ratio in ratios]
    axes.barh(np.arange(len(rows)), ratios - 1, left=1.0, color=shades, height=0.7)
    for place, ratio in enumerate(ratios):
        axes.text(max(ratio, 1.0) * 1.04, place, f"{ratio:g}", va="center", fontsize=8)
    axes.set_yticks(np.arange(len(rows)), [name for name, _ in rows], fontsize=8)
    axes.set(
        xscale="log", xlim=(0.5, 70), ylim=(-0.6, len(rows) - 0.4), title="jax.jit's time / afx's, float32, two cores"
    )
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.axvline(1.0, color=colors["ink"], linewidth=0.8)
    axes.grid(visible=False, axis="y")


def draw_demonstrations(figure: Any, colors: Colors) -> None:
    """Draw a hanging rope, a boundary value problem and a derivative through kinks."""
    rope, boundary, slope = figure.subplots(1, 3)
    x = catenary.grid()
    hung = np.asarray(catenary.hang(catenary.FIGURE_LENGTH))
    fine = np.linspace(0.0, 1.0, 200)
    rope.plot(fine, -np.sqrt(0.25 - (fine - 0.5) ** 2), "--", color=colors["faint"], label="circle")
    rope.plot(fine, 2 * fine * (fine - 1), ":", color=colors["second"], label="parabola")
    rope.plot(x, hung, color=colors["first"], label="rope at rest")
    rope.set(title="A rope finds its catenary", xlabel="x", ylabel="height")

    t = boundary_value.times(200)
    inside = boundary_value.newton(20)
    boundary.plot(t, boundary_value.analytic(t), color=colors["faint"], label="exact")
    shown = boundary_value.with_ends(inside)
    boundary.plot(boundary_value.times(20), np.asarray(shown), "o", ms=3.5, color=colors["first"], label="20 points")
    boundary.set(title="2y″ + y′ + 2y = 0 between two values", xlabel="time t", ylabel="y")

    x = np.linspace(*curve_derivative.RANGE, 401)
    slopes = np.array(curve_derivative.slope(afx.asarray(x)))
    slopes[1:][np.abs(np.diff(slopes)) > 0.05] = np.nan  # it jumps
    slope.plot(x, np.asarray(curve_derivative.curve(afx.asarray(x))), color=colors["faint"], label="|sin x| exp(-x/3)")
    slope.plot(x, slopes, color=colors["third"], label="afx.grad")
    slope.set(title="Derivatives through kinks", xlabel="x", ylabel="y, dy/dx")
    for axes in (rope, boundary, slope):
        axes.legend(fontsize=8)


FIGURES: dict[str, tuple[Drawing, tuple[float, float]]] = {
    "demonstrations": (draw_demonstrations, (9.6, 2.9)),
    "speed": (draw_speed, (8.6, 4.6)),
}


def write_figure(name: str, page: str, folder: Path) -> Path:
    """Draw one figure for a light or dark page into a folder, as an SVG with a transparent ground."""
    matplotlib, figures = importlib.import_module("matplotlib"), importlib.import_module("matplotlib.figure")
    draw, size = FIGURES[name]
    colors = PAGES[page]
    ink = dict.fromkeys(
        ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), colors["ink"]
    )
    own = {"svg.fonttype": "none", "svg.hashsalt": name, "lines.linewidth": 1.6, "font.size": 9}
    with matplotlib.rc_context({**plot.STYLE, **ink, **own}):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(figure, colors)
        path = folder / f"{name}_{page}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
    return path


def main() -> int:
    """Write all figures; return the exit status."""
    if optional("matplotlib.figure", "figures", "plot") is None:
        return 1
    for name in FIGURES:
        for page in PAGES:
            print(f"wrote {write_figure(name, page, HERE / 'figures')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
