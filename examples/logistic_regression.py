"""Logistic regression by L-BFGS: tumours told apart, and the derivative of unseen examples' loss by the penalty."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import afx
from afx import Array, data, nn, optim
from examples.report import Bars, Claim, Curve, Panel, progress, save

PENALTY = 1.0
Examples: TypeAlias = tuple[Array, Array]


def measurements() -> Examples:
    """Return float64[569, 30] standardized features of tumours, and 1 for each benign one."""
    x, y = data.load_sklearn("breast_cancer", dtype=np.float64)
    return (x - afx.mean(x, axis=0)) / afx.std(x, axis=0), y.astype(afx.float64)


def names() -> list[str]:
    """Return what the features are."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    return [str(name) for name in datasets.load_breast_cancer().feature_names]


def log_odds(weights: Array, x: Array) -> Array:
    """Return the logarithms of the odds, float[examples]; the last weight is the intercept."""
    return x @ weights[:-1] + weights[-1]


def entropy(weights: Array, examples: Examples) -> Array:
    """Return the sum of the cross entropies."""
    x, y = examples
    return afx.sum(nn.sigmoid_binary_cross_entropy(log_odds(weights, x), y))


def loss(weights: Array, penalty: float | Array, examples: Examples) -> Array:
    """Return the sum of the cross entropies, and the penalty on squared weights."""
    return entropy(weights, examples) + 0.5 * penalty * afx.sum(weights[:-1] ** 2)


@afx.jit
def fit(penalty: float | Array, examples: Examples) -> optim.MinimizeResult[Array]:
    """Return the weights of the smallest loss, and what finding them took."""
    start = afx.zeros(examples[0].shape[1] + 1, dtype=afx.float64)
    return optim.minimize(loss, start, penalty, examples, tolerance=1e-7)


@afx.jit
def unseen(penalty: float | Array, train: Examples, test: Examples) -> Array:
    """Return the cross entropy of unseen examples after a fit with this penalty."""
    return entropy(fit(penalty, train).x, test)


def difference(weights: Array, examples: Examples) -> float:
    """Return how far the weights are from those of scikit-learn's solver."""
    linear: Any = importlib.import_module("sklearn.linear_model")
    other = linear.LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=10_000)
    other.fit(*(np.asarray(part) for part in examples))
    return float(np.abs(np.asarray(weights[:-1]) - other.coef_[0]).max())


def run(output: Path, penalties: int = 13) -> list[Claim]:
    """Fit, compare with scikit-learn's fit, and look for the best penalty."""
    examples = measurements()
    result = fit(PENALTY, examples)
    weights, slope = result.x, float(afx.max(afx.abs(result.gradient)))
    errors = float(afx.mean((log_odds(weights, examples[0]) > 0) != (examples[1] > 0.5)))
    print(f"  {int(result.evaluations)} gradients; {errors:.2%} of the examples misjudged")
    train, test = data.split(examples, (0.7, 0.3), key=afx.random.key(0), stratify=examples[1])
    strengths, path = np.logspace(-1, 3, penalties), list[float]()
    for strength in progress(strengths, "penalties"):
        path.append(float(unseen(float(strength), train, test)))
    best = float(strengths[int(np.argmin(path))])
    print(f"  best penalty for unseen examples: {best:.1f}")
    low, high = (float(unseen(PENALTY * share, train, test)) for share in (0.99, 1.01))
    by_theorem = float(afx.grad(unseen)(PENALTY, train, test))  # of implicit functions: the iterations do not matter
    save(
        output / "logistic_regression.png",
        Panel("Weights of the features", "", "weight", (Bars(weights[:-1], names=names()),)),
        Panel(
            "Unseen examples", "penalty", "cross entropy", (Curve(strengths, np.array(path), form="C0.-"),), log_x=True
        ),
    )
    return [
        Claim("largest slope of the loss where it ends", slope, 1e-5),
        Claim("largest difference from scikit-learn's weights", difference(weights, examples), 1e-4),
        Claim(
            "derivative by the penalty against differences", abs(by_theorem * 0.02 * PENALTY / (high - low) - 1), 1e-2
        ),
    ]
