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

from afx.control.solving import Status
from afx.errors import refuse_names
from afx.optim import (
    clipping as _clipping,
    hyperparameters as _hyperparameters,
    schedules as _schedules,
    step as _step,
    transforms as _transforms,
)
from afx.optim.clipping import *
from afx.optim.hyperparameters import *
from afx.optim.rules import adagrad as _adagrad, adam as _adam, free_rates as _free_rates, muon as _muon, sgd as _sgd
from afx.optim.rules.adagrad import *
from afx.optim.rules.adam import *
from afx.optim.rules.free_rates import *
from afx.optim.rules.muon import *
from afx.optim.rules.sgd import *
from afx.optim.schedules import *
from afx.optim.solvers import least_squares as _least_squares, root as _root, scipy_bridge as _scipy_bridge
from afx.optim.solvers.least_squares import *
from afx.optim.solvers.minimize import minimize
from afx.optim.solvers.root import *
from afx.optim.solvers.scipy_bridge import *
from afx.optim.step import *
from afx.optim.transforms import *
from afx.optim.wrappers import accumulation as _accumulation, averaging as _averaging, masking as _masking
from afx.optim.wrappers.accumulation import *
from afx.optim.wrappers.averaging import *
from afx.optim.wrappers.masking import *

__all__ = ["Status", "minimize"]
__all__ += _clipping.__all__
__all__ += _hyperparameters.__all__
__all__ += _adagrad.__all__
__all__ += _adam.__all__
__all__ += _free_rates.__all__
__all__ += _muon.__all__
__all__ += _sgd.__all__
__all__ += _schedules.__all__
__all__ += _least_squares.__all__
__all__ += _root.__all__
__all__ += _scipy_bridge.__all__
__all__ += _step.__all__
__all__ += _transforms.__all__
__all__ += _accumulation.__all__
__all__ += _averaging.__all__
__all__ += _masking.__all__

refuse_names(__name__)
