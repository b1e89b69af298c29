"""Random numbers: keys as values, and draws as pure functions of them.

A draw takes a key, then the parameters that it cannot do without, then the shape and parameters that have a usual value.
The same key gives the same numbers: in a loop and under `afx.vmap`, plain and under `afx.jit`, bit for bit (vectors that
are made of sums, such as `dirichlet`, to rounding); on another machine the same bits and integers, and floats to the
last digits.

Draws of floats are differentiable in their parameters (reparameterised); draws of integers, categories and orders have
no derivative.

>>> key = afx.random.key(0)
>>> first, second = afx.random.split(key)
>>> afx.random.normal(first, (2, 3)).shape
(2, 3)
>>> afx.random.uniform(second, low=np.zeros(4), high=2.0).shape
(4,)
"""

from afx.errors import refuse_names
from afx.random.continuous import *
from afx.random.discrete import *
from afx.random.keys import *

refuse_names(__name__)
