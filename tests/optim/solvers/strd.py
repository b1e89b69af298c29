"""NIST's statistical reference data sets for nonlinear regression, with their models.

Data, starts, certified values and their standard deviations are those of https://www.itl.nist.gov/div898/strd/ (a work of
the United States' government, not subject to copyright).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import afx


def _gauss(b: Any, x: Any) -> Any:
    first = b[2] * afx.exp(-((x - b[3]) ** 2) / b[4] ** 2)
    return b[0] * afx.exp(-b[1] * x) + first + b[5] * afx.exp(-((x - b[6]) ** 2) / b[7] ** 2)


def _lanczos(b: Any, x: Any) -> Any:
    return b[0] * afx.exp(-b[1] * x) + b[2] * afx.exp(-b[3] * x) + b[4] * afx.exp(-b[5] * x)


def _chwirut(b: Any, x: Any) -> Any:
    return afx.exp(-b[0] * x) / (b[1] + b[2] * x)


def _enso(b: Any, x: Any) -> Any:
    total, turn = b[0], 2 * np.pi * x
    for period, cosine, sine in ((12.0, b[1], b[2]), (b[3], b[4], b[5]), (b[6], b[7], b[8])):
        total = total + cosine * afx.cos(turn / period) + sine * afx.sin(turn / period)
    return total


def _rational(b: Any, x: Any) -> Any:
    upper = len(b) // 2 + 1
    powers = np.stack([x**k for k in range(upper)])
    return b[:upper] @ powers / (1 + b[upper:] @ powers[1:])


def _kowalik(b: Any, x: Any) -> Any:
    return b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3])


MODELS: dict[str, Any] = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda b, x: b[0] * (1 - afx.exp(-b[1] * x)),
    "Chwirut1": _chwirut,
    "Chwirut2": _chwirut,
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": _enso,
    "Eckerle4": lambda b, x: b[0] / b[1] * afx.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "Gauss3": _gauss,
    "Hahn1": _rational,
    "Kirby2": _rational,
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Lanczos3": _lanczos,
    "MGH09": _kowalik,
    "MGH10": lambda b, x: b[0] * afx.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * afx.exp(-x * b[3]) + b[2] * afx.exp(-x * b[4]),
    "Misra1a": lambda b, x: b[0] * (1 - afx.exp(-b[1] * x)),
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** (-2.0)),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** (-0.5)),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * afx.exp(-b[2] * x[1]),
    "Rat42": lambda b, x: b[0] / (1 + afx.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / (1 + afx.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - afx.arctan(b[2] / (x - b[3])) / np.pi,
    "Thurber": _rational,
}
DATA: dict[str, Any] = json.loads(Path(__file__).with_name("strd.json").read_text())


def load_set(name: str) -> tuple[Any, Any, Any]:
    """Return the model of a data set, what it takes beside parameters, and the measurements (Nelson's as logarithms)."""
    entry = DATA[name]
    y = np.array(entry["y"], float)
    if name == "Nelson":
        return MODELS[name], (np.array(entry["x1"], float), np.array(entry["x2"], float)), np.log(y)
    return MODELS[name], np.array(entry["x"], float), y
