"""Training: loops as iterators of steps that compose like itertools and keep their types.

A plain ``for`` loop over batches is always enough. These pieces add to it, one at a time:

>>> import afx
>>> from afx import data, optim, train
>>> optimizer = optim.sgd(0.1)
>>> def step(state, batch):
...     w, inner = state
...     value, grad = afx.value_and_grad(lambda w: afx.mean((batch * w - 2.0 * batch) ** 2))(w)
...     return optimizer.step(w, grad, inner), value
>>> x = afx.linspace(-1.0, 1.0, 32)
>>> w = afx.asarray(0.0)
>>> batches = data.batches(x, 8, key=afx.random.key(0))
>>> run = train.steps(step, (w, optimizer.init(w)), batches.stream())
>>> history = train.History()
>>> run = history.record(train.limit_steps(run, 200))
>>> last = train.finish(run)
>>> last.number, bool(abs(last.state[0] - 2.0) < 1e-3), len(history.values)
(200, True, 200)
"""

from afx.errors import refuse_names
from afx.train.measuring import RateSearch, find_learning_rate, measure_over, predict_over
from afx.train.run import History, Step, finish, guard_finite, limit_steps, limit_time, steps, stop_early
from afx.train.watching import evaluate, resume, save_checkpoints, show_progress, write_csv, write_tensorboard

__all__ = [
    "History",
    "RateSearch",
    "Step",
    "evaluate",
    "find_learning_rate",
    "finish",
    "guard_finite",
    "limit_steps",
    "limit_time",
    "measure_over",
    "predict_over",
    "resume",
    "save_checkpoints",
    "show_progress",
    "steps",
    "stop_early",
    "write_csv",
    "write_tensorboard",
]

refuse_names(__name__)
