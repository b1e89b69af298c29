"""Plots: training curves, weights, filters, confusion matrices, profiles and chains, one call each (extra ``plot``).

Each function returns a figure of matplotlib and, given ``save=``, writes it: the suffix says which format. No window
opens and pyplot's state stays as it is. From a terminal: ``python -m afx.plot history.npz -o loss.png``.

>>> import pathlib, tempfile
>>> from afx import plot
>>> with tempfile.TemporaryDirectory() as folder:
...     figure = plot.losses([1.0, 0.5, 0.25], save=pathlib.Path(folder) / "loss.svg")
...     (pathlib.Path(folder) / "loss.svg").exists()
True
"""

from afx.plot.figures import STYLE, losses, profile
from afx.plot.parameters import confusion_matrix, filters, pairs, traces, weights

__all__ = ["STYLE", "confusion_matrix", "filters", "losses", "pairs", "profile", "traces", "weights"]


def __dir__() -> list[str]:
    return __all__
