"""Distributions: SciPy's names and parameters, with derivatives by every real parameter.

Each has ``pdf`` and ``logpdf`` (``pmf`` and ``logpmf``, of whole numbers), ``cdf``, ``logcdf``, ``sf``, ``logsf`` and
``ppf`` and ``isf``: functions of an argument and the parameters, which broadcast; ``mean``, ``var``, ``std``, ``median``,
``entropy`` and ``interval`` of the parameters; ``rvs`` of a key, and ``fit`` by maximum likelihood. Logarithms stay finite in
the tails as far as floating-point numbers reach, and so do their derivatives. Parameters that are not allowed give nan. Integers
and Python's numbers alone compute in float64, as in SciPy; beside an array of a floating dtype they take that. Most need
the extra ``scipy``.

>>> from afx.stats import norm
>>> norm.logpdf(np.array([0.0, 40.0]), scale=2.0).round(4)
Array([  -1.6121, -201.6121], dtype=float64)
>>> bool(afx.grad(norm.logsf)(np.float64(1e5)) < -99999)
True
"""

from afx.errors import refuse_names
from afx.stats.composite import *
from afx.stats.describe import *
from afx.stats.elementary import *
from afx.stats.gamma_family import *
from afx.stats.kernel_density import *
from afx.stats.law import *
from afx.stats.matrices import *
from afx.stats.multivariate import *
from afx.stats.skewed import *
from afx.stats.structured import *
from afx.stats.whole_numbers import *

refuse_names(__name__)
