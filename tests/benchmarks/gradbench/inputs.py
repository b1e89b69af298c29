"""Inputs of gradbench's evals: drawn here by the same laws in three sizes, or read from a folder of gradbench's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SIZES", "draw", "read_folder"]

SIZES: dict[str, tuple[str, ...]] = {  # what the tables call them
    "hello": ("1",),
    "ba": ("n=21 m=11315 p=36455", "n=49 m=7776 p=31843", "n=135 m=23025 p=102836"),
    "det": ("5", "7", "8"),
    "gmm": ("d=2 k=5 n=1000", "d=10 k=25 n=1000", "d=32 k=50 n=1000"),
    "ht": ("points=100", "points=192", "points=400"),
    "kmeans": ("k=10 n=1000 d=8", "k=100 n=1000 d=16", "k=100 n=10000 d=8"),
    "llsq": ("n=16", "n=1024", "n=16392"),
    "lse": ("n=2500", "n=40000", "n=1280000"),
    "lstm": ("l=2 c=1024", "l=4 c=1024", "l=2 c=4096"),
    "ode": ("n=1000 s=10", "n=10000 s=10", "n=10000 s=100"),
    "particle": ("w=0",),
    "saddle": ("1 1",),
}
HAND = (22, 544)  # bones and vertices of the small model


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (part.split("=") for part in text.split())}


def _draw_ba(rng: np.random.Generator, n: int, m: int, p: int) -> dict[str, Any]:
    camera = [*rng.normal(scale=0.1, size=3), *rng.normal(size=3), 1.0 + rng.random(), *rng.normal(scale=0.1, size=4)]
    return {
        "n": n,
        "m": m,
        "p": p,
        "cam": camera,
        "x": [*rng.normal(size=2), 8.0],
        "w": rng.random(),
        "feat": [*rng.normal(size=2)],
    }


def _draw_gmm(rng: np.random.Generator, d: int, k: int, n: int) -> dict[str, Any]:
    sizes = {"alpha": (k,), "q": (k, d), "l": (k, d * (d - 1) // 2), "x": (n, d)}
    given = {name: rng.normal(size=size) for name, size in sizes.items()}
    return {"d": d, "k": k, "n": n, "m": 0, "gamma": 1.0, "mu": rng.uniform(size=(k, d)), **given}


def _draw_kmeans(rng: np.random.Generator, k: int, n: int, d: int) -> dict[str, Any]:
    points = rng.random((n, d))
    return {"points": points, "centroids": points[-k:]}


def _draw_lstm(rng: np.random.Generator, l: int, c: int) -> dict[str, Any]:  # noqa: E741 - gradbench's letter
    bits = 8
    shapes = {"main_params": (2 * l, 4 * bits), "extra_params": (3, bits), "state": (2 * l, bits)}
    sequence = rng.integers(0, 2, (c, bits)).astype(float)
    return {**{name: rng.random(shape) for name, shape in shapes.items()}, "sequence": sequence}


def _draw_ht(rng: np.random.Generator, points: int) -> dict[str, Any]:
    """Return a hand of five fingers of four bones, whose vertices hang on two bones each."""
    bones, vertices = HAND
    parents = [-1, 0, *[1 if j == 0 else 2 + 4 * f + j - 1 for f in range(5) for j in range(4)]]
    weights = np.zeros((vertices, bones))
    weights[np.arange(vertices)[:, None], rng.integers(0, bones, (vertices, 2))] = 0.5
    positions = np.concatenate([rng.normal(size=(vertices, 3)), np.ones((vertices, 1))], axis=1)
    relatives = np.tile(np.eye(4), (bones, 1, 1))
    relatives[:, :3, 3] = rng.normal(size=(bones, 3))
    model = {
        "parents": parents, "base_relatives": relatives, "inverse_base_absolutes": np.linalg.inv(relatives),
        "base_positions": positions, "weights": weights, "triangles": rng.integers(0, vertices, (1000, 3)),
    }  # fmt: skip
    data = {"model": model, "correspondences": rng.integers(0, 1000, points), "points": rng.normal(size=(points, 3))}
    return {"theta": rng.normal(scale=0.3, size=26), "data": data, "us": rng.random((points, 2)) / 2}


DRAWS: dict[str, Callable[..., Any]] = {
    "hello": lambda _rng, _size: 1.5,
    "ba": lambda rng, size: _draw_ba(rng, **_numbers(size)),
    "det": lambda rng, size: {"A": rng.random(int(size) ** 2), "ell": int(size)},
    "gmm": lambda rng, size: _draw_gmm(rng, **_numbers(size)),
    "ht": lambda rng, size: _draw_ht(rng, **_numbers(size)),
    "kmeans": lambda rng, size: _draw_kmeans(rng, **_numbers(size)),
    "llsq": lambda rng, size: {"x": rng.random(128), **_numbers(size)},
    "lse": lambda rng, size: {"x": rng.random(_numbers(size)["n"])},
    "lstm": lambda rng, size: _draw_lstm(rng, **_numbers(size)),
    "ode": lambda rng, size: {"x": rng.random(_numbers(size)["n"]), "s": _numbers(size)["s"]},
    "particle": lambda _rng, _size: {"w": 0.0},
    "saddle": lambda _rng, _size: {"start": [1.0, 1.0]},
}


def draw(name: str, size: int | str) -> Any:
    """Return the input of an eval in one of its sizes, or in one that is written like them."""
    return DRAWS[name](np.random.default_rng(31337), SIZES[name][size] if isinstance(size, int) else size)


# --- gradbench's own files: ``evals/ba/data`` and ``evals/ht/data/complicated_big`` of its repository


def read_folder(name: str, folder: Path) -> dict[str, Any]:
    """Return the inputs in a folder of files of ba or ht, by the names of the files."""
    if name == "ba":
        return {file.stem: _read_ba(file) for file in sorted(folder.glob("ba*_*.txt"))}
    model, is_complicated = _read_hand(folder / "model"), "complicated" in folder.name
    return {file.stem: _read_pose(file, model, is_complicated) for file in sorted(folder.glob("hand*_*.txt"))}


def _read_ba(file: Path) -> dict[str, Any]:
    sizes, camera, point, weight, feature = [
        [float(x) for x in line.split()] for line in file.read_text().splitlines()[:5]
    ]
    n, m, p = map(int, sizes)
    return {"n": n, "m": m, "p": p, "cam": camera, "x": point, "w": weight[0], "feat": feature}


def _read_hand(folder: Path) -> dict[str, Any]:
    bones = [line.split(":") for line in (folder / "bones.txt").read_text().splitlines()]
    vertices = [line.split(":") for line in (folder / "vertices.txt").read_text().splitlines()]
    weights = np.zeros((len(vertices), len(bones)))
    for row, atoms in enumerate(vertices):
        for j in range(int(atoms[8])):
            weights[row, int(atoms[9 + 2 * j])] = float(atoms[10 + 2 * j])
    matrices = np.array([[float(x) for x in bone[2:34]] for bone in bones]).reshape(-1, 2, 4, 4)
    return {
        "parents": [int(bone[1]) for bone in bones],
        "base_relatives": matrices[:, 0],
        "inverse_base_absolutes": matrices[:, 1],
        "base_positions": np.array([[*map(float, atoms[:3]), 1.0] for atoms in vertices]),
        "weights": weights,
        "triangles": np.loadtxt(folder / "triangles.txt", int, delimiter=":"),
    }


def _read_pose(file: Path, model: dict[str, Any], is_complicated: bool) -> dict[str, Any]:
    (count, angles), *rows = [
        [float(x) for x in line.split()] for line in file.read_text().splitlines() if line.strip()
    ]
    n = int(count)
    observed, rest = np.array(rows[:n]), rows[n:]
    us = np.array(rest[:n]) if is_complicated else np.zeros((0, 2))
    theta = np.array(rest[n * is_complicated :][: int(angles)]).ravel()
    data = {"model": model, "correspondences": observed[:, 0].astype(int), "points": observed[:, 1:]}
    return {"theta": theta, "data": data, "us": us}
