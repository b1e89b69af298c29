"""Optimizers: pure steps, ``params, state = optimizer.step(params, grads, state)``.

=================================  ===================================================================
`sgd`, `rmsprop`, `adam`, `adamw`  the usual ones
`arrayflow`                        the paper's: inertia, and a step size that follows the loss
`chain`                            rules in turn: `clip_by_global_norm`, `clip_by_value`, `scale`, …
`masked`, `projected`              constrained steps
`cosine_decay` …                   schedules, accepted wherever a learning rate is
=================================  ===================================================================
"""

from afx.optim.adam import Adam, AdamState, adam, adamw
from afx.optim.arrayflow import Arrayflow, ArrayflowState, arrayflow
from afx.optim.chain import (
    Chain,
    Masked,
    Projected,
    add_decayed_weights,
    chain,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    masked,
    projected,
    scale,
    scale_by_schedule,
)
from afx.optim.descent import Rmsprop, RmspropState, Sgd, SgdState, rmsprop, sgd
from afx.optim.rule import LearningRate, Optimizer, Rule, Schedule
from afx.optim.schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    linear,
    piecewise_constant,
    warmup_cosine,
)

__all__ = [
    "Adam",
    "AdamState",
    "Arrayflow",
    "ArrayflowState",
    "Chain",
    "LearningRate",
    "Masked",
    "Optimizer",
    "Projected",
    "Rmsprop",
    "RmspropState",
    "Rule",
    "Schedule",
    "Sgd",
    "SgdState",
    "adam",
    "adamw",
    "add_decayed_weights",
    "arrayflow",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "constant",
    "cosine_decay",
    "exponential_decay",
    "global_norm",
    "linear",
    "masked",
    "piecewise_constant",
    "projected",
    "rmsprop",
    "scale",
    "scale_by_schedule",
    "sgd",
    "warmup_cosine",
]
