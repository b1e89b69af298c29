"""Optimizers: pure steps, ``params, state = optimizer.step(params, grads, state)``.

=========================================  ===============================================================
`sgd`, `rmsprop`, `adam`, `adamw`          the usual ones
`arrayflow`                                the paper's: inertia, and a step size that follows the loss
`chain`                                    transformations, then an optimizer
`scale_by_adam`, `trace`, `clip_by_norm`   transformations: gradients in, updates out, sign kept
`scale_by_learning_rate`                   the plainest optimizer, the end of a chain
`masked`, `freeze`, `partition`            some parameters, still ones, groups
`projected`                                steps that end in a set
`cosine_decay` …                           schedules, accepted wherever a learning rate is
=========================================  ===============================================================
"""

from afx.optim.adam import Adam, AdamState, MomentsState, adam, adamw, scale_by_adam
from afx.optim.arrayflow import Arrayflow, ArrayflowState, arrayflow
from afx.optim.chain import Chain, TransformationChain, chain
from afx.optim.clipping import (
    adaptive_clip,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
)
from afx.optim.descent import Descent, DescentState
from afx.optim.hyperparameters import LearningRate, Schedule
from afx.optim.leaves import map_trained
from afx.optim.masking import Frozen, Masked, Partition, PartitionState, freeze, masked, partition, set_to_zero
from afx.optim.masks import Labels, Mask
from afx.optim.projections import Projected, projected
from afx.optim.protocols import EmptyState, Optimizer, Rescaling, Transformation
from afx.optim.rmsprop import Rmsprop, RmspropState, RmsState, rmsprop, scale_by_rms
from afx.optim.schedules import constant, cosine_decay, exponential_decay, linear, piecewise_constant, warmup_cosine
from afx.optim.sgd import LearningRateState, Sgd, SgdState, TraceState, scale_by_learning_rate, sgd, trace
from afx.optim.transforms import (
    EmaState,
    ScheduleState,
    add_decayed_weights,
    ema,
    scale,
    scale_by_param_block_rms,
    scale_by_schedule,
    scale_by_trust_ratio,
)

__all__ = [
    "Adam",
    "AdamState",
    "Arrayflow",
    "ArrayflowState",
    "Chain",
    "Descent",
    "DescentState",
    "EmaState",
    "EmptyState",
    "Frozen",
    "Labels",
    "LearningRate",
    "LearningRateState",
    "Mask",
    "Masked",
    "MomentsState",
    "Optimizer",
    "Partition",
    "PartitionState",
    "Projected",
    "Rescaling",
    "RmsState",
    "Rmsprop",
    "RmspropState",
    "Schedule",
    "ScheduleState",
    "Sgd",
    "SgdState",
    "TraceState",
    "Transformation",
    "TransformationChain",
    "adam",
    "adamw",
    "adaptive_clip",
    "add_decayed_weights",
    "arrayflow",
    "chain",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine_decay",
    "ema",
    "exponential_decay",
    "freeze",
    "global_norm",
    "linear",
    "map_trained",
    "masked",
    "partition",
    "piecewise_constant",
    "projected",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_param_block_rms",
    "scale_by_rms",
    "scale_by_schedule",
    "scale_by_trust_ratio",
    "set_to_zero",
    "sgd",
    "trace",
    "warmup_cosine",
]
