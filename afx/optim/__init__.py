"""Optimizers: pure steps, ``params, state = optimizer.step(params, grads, state)``.

========================================  =================================================================
`sgd`, `rmsprop`, `adagrad`, `adadelta`  gradients, scaled by what was seen of them
`adam`, `adamw`, `nadam`, `radam` …      Adam and its relatives; `lion`, `lamb`, `lars`, `adafactor`, `muon`
`adabelief`, `novograd`, `rprop`         more of them; `prodigy`, `lbfgs`; `lookahead` around any
`arrayflow`                              the paper's: inertia, and a step size that follows the loss
`schedule_free`                          averages in place of a schedule
`chain`                                  transformations, then an optimizer
`scale_by_adam`, `trace`, `clip_by_norm`  transformations: gradients in, updates out, sign kept
`scale_by_learning_rate`                 the plainest optimizer, the end of a chain
`sharpness_aware`, `private_grad`        gradients at the worst point nearby, and of clipped examples
`add_noise`, `centralize`                gradients with noise, or centred
`masked`, `freeze`, `partition`          some parameters, still ones, groups
`accumulate`, `skip_nonfinite`           several batches a step; steps left out
`adjustable`, `params_ema`, `projected`  settings in the state; averages; steps that end in a set
`cosine_decay`, `warmup`, `join` …       schedules, accepted wherever a learning rate is
`minimize`, `root`, `least_squares` …    solvers with implicit derivatives, and `curve_fit`; `scipy_minimize` … are SciPy's
========================================  =================================================================
"""

from typing import TYPE_CHECKING, NoReturn

from afx.control.solving.report import Status
from afx.optim.chain import Chain, TransformationChain, chain
from afx.optim.clipping import (
    adaptive_clip,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
)
from afx.optim.cycles import cosine_restarts, inverse_sqrt, join, one_cycle, warmup
from afx.optim.descent import Descent, DescentState
from afx.optim.gradients import add_noise, centralize, private_grad, sharpness_aware
from afx.optim.hyperparameters import LearningRate, Schedule
from afx.optim.leaves import map_trained
from afx.optim.masks import Labels, Mask
from afx.optim.plateau import PlateauState, reduce_on_plateau
from afx.optim.projections import (
    Projected,
    project_box,
    project_l1_ball,
    project_l2_ball,
    project_nonnegative,
    project_simplex,
    projected,
)
from afx.optim.protocols import EmptyState, Optimizer, Rescaling, Transformation
from afx.optim.rules.adafactor import Adafactor, AdafactorState, FactoredState, adafactor, scale_by_factored_rms
from afx.optim.rules.adagrad import AdadeltaState, RssState, adadelta, adagrad, scale_by_adadelta, scale_by_rss
from afx.optim.rules.adam import Adam, AdamState, MomentsState, adam, adamw, scale_by_adam
from afx.optim.rules.amsgrad import (
    AmsgradState,
    adamax,
    amsgrad,
    scale_by_adamax,
    scale_by_amsgrad,
    scale_by_yogi,
    yogi,
)
from afx.optim.rules.arrayflow import Arrayflow, ArrayflowState, arrayflow
from afx.optim.rules.belief import adabelief, novograd
from afx.optim.rules.layerwise import Lars, LarsState, lamb, lars
from afx.optim.rules.lbfgs import LbfgsState, lbfgs
from afx.optim.rules.lion import LionState, lion, scale_by_lion
from afx.optim.rules.muon import MuonState, muon, scale_by_muon
from afx.optim.rules.nadam import NadamState, nadam, radam, scale_by_nadam, scale_by_radam
from afx.optim.rules.prodigy import Prodigy, ProdigyState, prodigy
from afx.optim.rules.rmsprop import Rmsprop, RmspropState, RmsState, rmsprop, scale_by_rms
from afx.optim.rules.rprop import Rprop, RpropState, rprop
from afx.optim.rules.schedule_free import (
    ScheduleFree,
    ScheduleFreeState,
    schedule_free,
    schedule_free_adamw,
    schedule_free_sgd,
)
from afx.optim.rules.sgd import LearningRateState, Sgd, SgdState, TraceState, scale_by_learning_rate, sgd, trace
from afx.optim.schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    linear,
    piecewise_constant,
    polynomial,
    warmup_cosine,
)
from afx.optim.solvers.curve_fit import curve_fit
from afx.optim.solvers.fixed_point import fixed_point
from afx.optim.solvers.least_squares import least_squares
from afx.optim.solvers.minimize import minimize
from afx.optim.solvers.results import (
    ConstrainedResult,
    CurveFitResult,
    FixedPointResult,
    LeastSquaresResult,
    MinimizeResult,
    RootResult,
)
from afx.optim.solvers.root import root, root_scalar
from afx.optim.solvers.scipy_bridge import ScipyResult, scipy_least_squares, scipy_minimize, scipy_root
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
from afx.optim.wrappers.accumulation import Accumulate, AccumulateState, accumulate
from afx.optim.wrappers.adjustable import Adjustable, AdjustableState, adjustable
from afx.optim.wrappers.averaging import AverageState, ParamsEma, ParamsMean, params_ema, params_mean
from afx.optim.wrappers.lookahead import Lookahead, LookaheadState, lookahead
from afx.optim.wrappers.masking import Frozen, Masked, Partition, PartitionState, freeze, masked, partition, set_to_zero
from afx.optim.wrappers.nonfinite import SkipNonfinite, SkipNonfiniteState, skip_nonfinite

__all__ = [
    "Accumulate",
    "AccumulateState",
    "AdadeltaState",
    "Adafactor",
    "AdafactorState",
    "Adam",
    "AdamState",
    "Adjustable",
    "AdjustableState",
    "AmsgradState",
    "Arrayflow",
    "ArrayflowState",
    "AverageState",
    "Chain",
    "ConstrainedResult",
    "CurveFitResult",
    "Descent",
    "DescentState",
    "EmaState",
    "EmptyState",
    "FactoredState",
    "FixedPointResult",
    "Frozen",
    "Labels",
    "Lars",
    "LarsState",
    "LbfgsState",
    "LearningRate",
    "LearningRateState",
    "LeastSquaresResult",
    "LionState",
    "Lookahead",
    "LookaheadState",
    "Mask",
    "Masked",
    "MinimizeResult",
    "MomentsState",
    "MuonState",
    "NadamState",
    "Optimizer",
    "ParamsEma",
    "ParamsMean",
    "Partition",
    "PartitionState",
    "PlateauState",
    "Prodigy",
    "ProdigyState",
    "Projected",
    "Rescaling",
    "RmsState",
    "Rmsprop",
    "RmspropState",
    "RootResult",
    "Rprop",
    "RpropState",
    "RssState",
    "Schedule",
    "ScheduleFree",
    "ScheduleFreeState",
    "ScheduleState",
    "ScipyResult",
    "Sgd",
    "SgdState",
    "SkipNonfinite",
    "SkipNonfiniteState",
    "Status",
    "TraceState",
    "Transformation",
    "TransformationChain",
    "accumulate",
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "adaptive_clip",
    "add_decayed_weights",
    "add_noise",
    "adjustable",
    "amsgrad",
    "arrayflow",
    "centralize",
    "chain",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine_decay",
    "cosine_restarts",
    "curve_fit",
    "ema",
    "exponential_decay",
    "fixed_point",
    "freeze",
    "global_norm",
    "inverse_sqrt",
    "join",
    "lamb",
    "lars",
    "lbfgs",
    "least_squares",
    "linear",
    "lion",
    "lookahead",
    "map_trained",
    "masked",
    "minimize",
    "muon",
    "nadam",
    "novograd",
    "one_cycle",
    "params_ema",
    "params_mean",
    "partition",
    "piecewise_constant",
    "polynomial",
    "private_grad",
    "prodigy",
    "project_box",
    "project_l1_ball",
    "project_l2_ball",
    "project_nonnegative",
    "project_simplex",
    "projected",
    "radam",
    "reduce_on_plateau",
    "rmsprop",
    "root",
    "root_scalar",
    "rprop",
    "scale",
    "scale_by_adadelta",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_amsgrad",
    "scale_by_factored_rms",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_muon",
    "scale_by_nadam",
    "scale_by_param_block_rms",
    "scale_by_radam",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_trust_ratio",
    "scale_by_yogi",
    "schedule_free",
    "schedule_free_adamw",
    "schedule_free_sgd",
    "scipy_least_squares",
    "scipy_minimize",
    "scipy_root",
    "set_to_zero",
    "sgd",
    "sharpness_aware",
    "skip_nonfinite",
    "trace",
    "warmup",
    "warmup_cosine",
    "yogi",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers shall go on to refuse names that are not there

    def __getattr__(name: str) -> NoReturn:
        from afx.other_names import missing_name

        raise missing_name(__name__, name)
