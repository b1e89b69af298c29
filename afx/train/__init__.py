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
from afx.train.measuring import *
from afx.train.run import *
from afx.train.watching import *

refuse_names(__name__)
