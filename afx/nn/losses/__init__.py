"""Losses: one number per example (or element), to be reduced with `afx.mean` or `afx.sum`.

Predictions come first, targets second. Shapes must agree: a silent broadcast would compare every pair.
"""

from afx.nn.losses.classification import (
    dice,
    focal,
    gaussian_nll,
    hinge,
    kl_divergence,
    margin_ranking,
    poisson_nll,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy,
)
from afx.nn.losses.ctc import ctc
from afx.nn.losses.regression import (
    contrastive,
    cosine_distance,
    cosine_similarity,
    huber,
    info_nce,
    log_cosh,
    mae,
    mse,
    triplet,
)

__all__ = [
    "contrastive",
    "cosine_distance",
    "cosine_similarity",
    "ctc",
    "dice",
    "focal",
    "gaussian_nll",
    "hinge",
    "huber",
    "info_nce",
    "kl_divergence",
    "log_cosh",
    "mae",
    "margin_ranking",
    "mse",
    "poisson_nll",
    "sigmoid_binary_cross_entropy",
    "softmax_cross_entropy",
    "triplet",
]


def __dir__() -> list[str]:
    return __all__
