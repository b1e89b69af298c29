"""Regression and classification of every link, survival and mixed effects: likelihoods of rows."""

from __future__ import annotations

from typing import Any

import numpy

from tests.benchmarks.everyday.program import Kit, Made, Program

__all__ = ["PROGRAMS"]

ROWS, COLUMNS, CLASSES, GROUPS = 10_000, 20, 10, 50


def _rows(k: Kit, rows: int = ROWS) -> tuple[Any, Any, Any]:
    """Return a table, weights, and what is linear in both."""
    x = k.rng.normal(size=(rows, COLUMNS)) / numpy.sqrt(COLUMNS)
    w = k.rng.normal(size=COLUMNS)
    return x, w, x @ w


def logistic_by_softplus(k: Kit) -> Made:
    """Return the logistic loss with a penalty, by softplus."""
    np, softplus = k.np, k.nn.softplus
    x, w, z = _rows(k, 1000)

    def loss(p: Any, x: Any, y: Any) -> Any:
        w, b = p
        z = x @ w + b
        return np.mean(softplus(z) - y * z) + 0.01 * np.sum(w**2)

    return loss, [0.5 * w, numpy.zeros(())], [x, (k.rng.random(len(x)) < 1 / (1 + numpy.exp(-z))).astype(float)]


def logistic_by_logaddexp(k: Kit) -> Made:
    """Return the logistic loss of labels 1 and -1, by logaddexp."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, signs: Any) -> Any:
        return np.mean(np.logaddexp(0.0, -signs * (x @ p[0])))

    return loss, [0.5 * w], [x, numpy.sign(z + k.rng.normal(size=len(z)))]


def logistic_by_log1p(k: Kit) -> Made:
    """Return the logistic loss as a text-book writes it."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, y: Any) -> Any:
        z = x @ p[0] + p[1]
        return np.sum(np.log1p(np.exp(z)) - y * z) / x.shape[0]

    return loss, [0.5 * w, numpy.zeros(())], [x, (z > 0).astype(float)]


def poisson(k: Kit) -> Made:
    """Return the deviance of counts with an offset."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, counts: Any, exposure: Any) -> Any:
        eta = x @ p[0] + np.log(exposure)
        return np.mean(np.exp(eta) - counts * eta)

    return loss, [0.5 * w], [x, numpy.asarray(k.rng.poisson(numpy.exp(z)), float), k.rng.uniform(0.5, 2.0, len(z))]


def negative_binomial(k: Kit) -> Made:
    """Return the negative log-likelihood of overdispersed counts."""
    np, gammaln = k.np, k.special.gammaln
    x, w, z = _rows(k, 2000)

    def loss(p: Any, x: Any, y: Any) -> Any:
        w, log_r = p
        r, mu = np.exp(log_r), np.exp(x @ w)
        ll = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) + r * np.log(r / (r + mu)) + y * np.log(mu / (r + mu))
        return -np.mean(ll)

    return loss, [0.5 * w, numpy.array(0.3)], [x, numpy.asarray(k.rng.poisson(numpy.exp(z)), float)]


def hinge(k: Kit) -> Made:
    """Return a support vector machine's loss with its margin chosen by where."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, signs: Any) -> Any:
        margin = 1 - signs * (x @ p[0])
        return np.mean(np.where(margin > 0, margin, 0.0)) + 1e-3 * (p[0] @ p[0])

    return loss, [0.5 * w], [x, numpy.sign(z)]


def huber(k: Kit) -> Made:
    """Return Huber's loss of residuals, by where."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, y: Any) -> Any:
        r = np.abs(y - x @ p[0] - p[1])
        return np.mean(np.where(r < 1.345, 0.5 * r**2, 1.345 * (r - 0.6725)))

    return loss, [0.5 * w, numpy.zeros(())], [x, z + k.rng.standard_t(2, len(z))]


def quantile(k: Kit) -> Made:
    """Return the pinball losses of three quantiles."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, y: Any) -> Any:
        total = 0.0
        for q, b in zip((0.1, 0.5, 0.9), p[1:], strict=True):
            r = y - x @ p[0] - b
            total = total + np.mean(r * np.where(r > 0, q, q - 1.0))
        return total

    return loss, [0.5 * w, *numpy.array([-1.0, 0.0, 1.0])], [x, z + k.rng.normal(size=len(z))]


def softmax_by_hand(k: Kit) -> Made:
    """Return the cross entropy of classes, with one-hot rows by comparison."""
    np = k.np
    x, _, _ = _rows(k)

    def loss(p: Any, x: Any, y: Any) -> Any:
        w, b = p
        z = x @ w + b
        z = z - np.max(z, axis=1, keepdims=True)
        logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        target = np.where(y[:, None] == np.arange(CLASSES), 1.0, 0.0)
        return -np.mean(np.sum(target * logp, axis=1))

    return loss, [k.rng.normal(size=(COLUMNS, CLASSES)), numpy.zeros(CLASSES)], [x, k.rng.integers(0, CLASSES, len(x))]


def survival(k: Kit) -> Made:
    """Return Cox's partial likelihood of times in order, with running sums over those at risk."""
    np = k.np
    x, w, _ = _rows(k, 2000)

    def loss(p: Any, x: Any, died: Any) -> Any:
        eta = x @ p[0]
        top = np.max(eta)
        at_risk = np.log(np.cumsum(np.exp(eta - top))) + top
        return -np.sum(np.where(died, eta - at_risk, 0.0)) / x.shape[0]

    return loss, [0.5 * w], [x, k.rng.random(len(x)) < 0.7]


def censored(k: Kit) -> Made:
    """Return the likelihood of Weibull times, some of which are censored."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, t: Any, died: Any) -> Any:
        w, log_shape = p
        shape = np.exp(log_shape)
        s = shape * (np.log(t) - x @ w)
        return -np.mean(np.where(died, log_shape + s, 0.0) - np.exp(s))

    times = numpy.exp(z) * k.rng.weibull(1.5, len(z)) + 1e-3
    return loss, [0.5 * w, numpy.array(0.2)], [x, times, k.rng.random(len(z)) < 0.8]


def mixed_effects(k: Kit) -> Made:
    """Return the posterior of a linear model with an intercept for each group."""
    np = k.np
    x, w, z = _rows(k)

    def loss(p: Any, x: Any, y: Any, group: Any) -> Any:
        w, u, log_tau, log_sigma = p
        r = (y - x @ w - u[group]) / np.exp(log_sigma)
        rows = 0.5 * np.sum(r * r) + x.shape[0] * log_sigma
        return (rows + 0.5 * np.sum((u / np.exp(log_tau)) ** 2) + GROUPS * log_tau) / x.shape[0]

    params = [0.5 * w, k.rng.normal(size=GROUPS), numpy.zeros(()), numpy.zeros(())]
    return loss, params, [x, z + k.rng.normal(size=len(z)), k.rng.integers(0, GROUPS, len(z))]


PROGRAMS = [
    Program("logistic regression by softplus", logistic_by_softplus),
    Program("logistic regression by logaddexp", logistic_by_logaddexp),
    Program("logistic regression by log1p(exp)", logistic_by_log1p),
    Program("Poisson regression", poisson),
    Program("negative binomial regression", negative_binomial),
    Program("hinge loss", hinge),
    Program("Huber loss", huber),
    Program("quantile regression", quantile),
    Program("softmax regression, one-hot by hand", softmax_by_hand),
    Program("Cox survival", survival),
    Program("censored Weibull times", censored),
    Program("mixed effects", mixed_effects),
]
