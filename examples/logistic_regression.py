"""Logistic regression by L-BFGS: tumours told apart, and the derivative of unseen examples' loss by the penalty."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import afx
from afx import Array, data, nn
from examples.report import Bars, Claim, Curve, Panel, progress, save

PENALTY = 1.0
Examples: TypeAlias = tuple[Array, Array]


def measurements() -> Examples:
    """Return float64[569, 30] standardized features of tumours, and 1 for each benign one."""
    x, y = data.load_sklearn("breast_cancer", dtype=np.float64)
    return (x - afx.mean(x, axis=0)) / afx.std(x, axis=0), y.astype(afx.float64)


def log_odds(weights: Array, x: Array) -> Array:
    """Return the logarithms of the odds, float[examples]; the last weight is the intercept."""
    return x @ weights[:-1] + weights[-1]


def entropy(weights: Array, examples: Examples) -> Array:
    """Return the sum of the cross entropies."""
    x, y = examples
    return afx.sum(nn.sigmoid_binary_cross_entropy(log_odds(weights, x), y))


@afx.jit
def loss(weights: Array, penalty: float | Array, examples: Examples) -> Array:
    """Return the sum of the cross entropies, and the penalty on squared weights."""
    return entropy(weights, examples) + 0.5 * penalty * afx.sum(weights[:-1] ** 2)


value_and_slope = afx.jit(afx.value_and_grad(loss))


def fit(penalty: float, examples: Examples) -> tuple[Array, int]:
    """Return the weights of the smallest loss, and how often it was computed: SciPy's L-BFGS on afx's gradients."""
    optimize: Any = importlib.import_module("scipy.optimize")
    options = {"ftol": 0.0, "gtol": 1e-7, "maxiter": 2000}
    start = np.zeros(examples[0].shape[1] + 1)
    found = optimize.minimize(value_and_slope, start, (penalty, examples), jac=True, method="L-BFGS-B", options=options)
    return afx.asarray(found.x), int(found.nfev)


@afx.jit
def slope_by_penalty(weights: Array, penalty: float, train: Examples, test: Examples) -> Array:
    """Return the derivative of the entropy of unseen examples by the penalty of the fit: implicit function theorem."""

    def slope(p: float) -> Array:
        return afx.grad(loss)(weights, p, train)

    curvature, shift = afx.hessian(loss)(weights, penalty, train), afx.jacfwd(slope)(penalty)
    return -afx.grad(entropy)(weights, test) @ afx.linalg.solve(curvature, shift)


def difference(weights: Array, examples: Examples) -> float:
    """Return how far the weights are from those of scikit-learn's solver."""
    linear: Any = importlib.import_module("sklearn.linear_model")
    other = linear.LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=10_000)
    other.fit(*(np.asarray(part) for part in examples))
    return float(np.abs(np.asarray(weights[:-1]) - other.coef_[0]).max())


def run(output: Path, penalties: int = 13) -> list[Claim]:
    """Fit, compare with scikit-learn's fit, and look for the best penalty."""
    examples = measurements()
    weights, calls = fit(PENALTY, examples)
    slope = float(afx.max(afx.abs(value_and_slope(weights, PENALTY, examples)[1])))
    errors = float(afx.mean((log_odds(weights, examples[0]) > 0) != (examples[1] > 0.5)))
    print(f"  {calls} gradients; {errors:.2%} of the examples misjudged")
    train, test = data.split(examples, (0.7, 0.3), key=afx.random.key(0), stratify=examples[1])
    strengths, path = np.logspace(-1, 3, penalties), list[float]()
    for strength in progress(strengths, "penalties"):
        path.append(float(entropy(fit(float(strength), train)[0], test)))
    best = float(strengths[int(np.argmin(path))])
    print(f"  best penalty for unseen examples: {best:.1f}")
    low, high = (float(entropy(fit(PENALTY * share, train)[0], test)) for share in (0.99, 1.01))
    by_formula = float(slope_by_penalty(fit(PENALTY, train)[0], PENALTY, train, test))
    save(
        output / "logistic_regression.png",
        Panel("Weights of the features", "feature", "weight", (Bars(weights[:-1]),)),
        Panel(
            "Unseen examples", "penalty", "cross entropy", (Curve(strengths, np.array(path), form="C0.-"),), log_x=True
        ),
    )
    return [
        Claim("largest slope of the loss where it ends", slope, 1e-5),
        Claim("largest difference from scikit-learn's weights", difference(weights, examples), 1e-4),
        Claim("derivative by the penalty against differences", abs(by_formula * 0.02 / (high - low) - 1), 1e-2),
    ]
