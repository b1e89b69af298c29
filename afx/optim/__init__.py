"""Optimizers: pure steps, ``params, state = optimizer.step(params, grads, state)``.

=================================  ===================================================================
`sgd`, `rmsprop`, `adam`, `adamw`  the usual ones
`arrayflow`                        the paper's: inertia, and a step size that follows the loss
`chain`                            rules in turn: `clip_by_global_norm`, `clip_by_value`, `scale`, …
`masked`, `freeze`, `projected`    constrained steps
`cosine_decay` …                   schedules, accepted wherever a learning rate is
=================================  ===================================================================
"""

from afx.optim.adam import Adam, AdamState, adam, adamw
from afx.optim.arrayflow import Arrayflow, ArrayflowState, arrayflow
from afx.optim.chain import Chain, chain
from afx.optim.constrained import Masked, Projected, freeze, masked, projected
from afx.optim.hyperparameters import LearningRate, Schedule
from afx.optim.rmsprop import Rmsprop, RmspropState, rmsprop
from afx.optim.rule import EmptyState, Optimizer, Rule
from afx.optim.schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    linear,
    piecewise_constant,
    warmup_cosine,
)
from afx.optim.sgd import Sgd, SgdState, sgd
from afx.optim.transforms import (
    ScheduleState,
    add_decayed_weights,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    scale,
    scale_by_schedule,
)

__all__ = [
    "Adam",
    "AdamState",
    "Arrayflow",
    "ArrayflowState",
    "Chain",
    "EmptyState",
    "LearningRate",
    "Masked",
    "Optimizer",
    "Projected",
    "Rmsprop",
    "RmspropState",
    "Rule",
    "Schedule",
    "ScheduleState",
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
    "freeze",
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
