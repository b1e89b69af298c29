"""Optimizers: pure steps, ``params, state = optimizer.step(params, grads, state)``.

========================================  =================================================================
`sgd`, `rmsprop`, `adagrad`, `adadelta`  gradients, scaled by what was seen of them
`adam`, `adamw`, `nadam`, `radam` …      Adam and its relatives; `lamb`, `lars`, `adafactor`, `muon` …
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

from typing import TYPE_CHECKING

from afx.core.registry import find_homes
from afx.errors import refuse_names

if TYPE_CHECKING:  # the name table tells the rest where these stand
    from afx.control.solving import Status as Status
    from afx.optim.clipping import *
    from afx.optim.hyperparameters import *
    from afx.optim.rules.adagrad import *
    from afx.optim.rules.adam import *
    from afx.optim.rules.free_rates import *
    from afx.optim.rules.muon import *
    from afx.optim.rules.sgd import *
    from afx.optim.schedules import *
    from afx.optim.solvers.least_squares import *
    from afx.optim.solvers.minimize import minimize as minimize
    from afx.optim.solvers.root import *
    from afx.optim.solvers.scipy_bridge import *
    from afx.optim.step import *
    from afx.optim.transforms import *
    from afx.optim.wrappers.accumulation import *
    from afx.optim.wrappers.averaging import *
    from afx.optim.wrappers.masking import *

refuse_names(__name__, homes=find_homes(__name__))
