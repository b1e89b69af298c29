"""NumPy's namespace: `import afx.numpy as np` gives NumPy's names, signatures and dtypes, with derivatives.

Functions give an ndarray, NumPy's own, where no operand is an `afx.Array`, traced or not, and an Array otherwise: data are
prepared in place as ever (``x = np.zeros(3); x[0] = 1.0``), and ndarrays are taken wherever an Array is. Of Arrays,
functions that afx has are afx's, called in NumPy's convention: lists and Python numbers beside them are float64 whatever
the default dtype is. What carries no derivative (dtypes, ``errstate``, ``loadtxt``, ``finfo``, ``hanning``) is NumPy's own;
so is a call that afx has no argument for (``unique(x, axis=0)``, arrays of strings) as long as nothing in it is traced.
Traced, it raises, and never loses a derivative. Nothing is written into Arrays: ``x[i] = v`` and ``out=`` raise.
``ndarray`` is what `isinstance` asks: an Array, or an array of NumPy's.

A list beside an array of float32 takes its dtype. Operators (``n / 2`` of integers) and the numbers that `afx.grad` is
given follow the default dtype: `afx.set_default_dtype` makes it float64 for these too.
Histograms of boolean and small integer weights hold their sums, in 64 bits, where NumPy's wrap around.

>>> import afx.numpy as np
>>> np.cumsum([1.0, 2.0, 6.0])
array([1., 3., 9.])
>>> np.cumsum(afx.asarray([1.0, 2.0, 6.0]))
Array([1., 3., 9.], dtype=float32)
>>> afx.grad(lambda x: np.sum(np.power(x, 2)))(np.array([1.0, 2.0]))
Array([2., 4.], dtype=float64)
"""

from typing import Any

import numpy

from afx.numpy import fft, linalg, random
from afx.numpy._namespace import OBJECTS, lookup, names

__all__: list[str]

_MODULES = {"fft": fft, "linalg": linalg, "random": random}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return names(numpy)
    value = _MODULES.get(name) or OBJECTS.get(name) or lookup(numpy, name, __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return names(numpy)
