"""Input and output: pytrees, graphs and checkpoints in files that are written whole and read with every check.

A file is a NumPy ``.npz`` archive with a JSON header: no pickle, and reading it runs no code. `load` needs no template.

>>> import afx, attrs, pathlib, tempfile
>>> from afx import io, nn
>>> layer = nn.Linear.create(afx.random.key(0), 3, 2)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder) / "layer.npz"
...     io.save(path, layer)
...     again = io.load(path, nn.Linear)
>>> afx.pytree.equal(layer, again)
True
"""

from afx.errors import refuse_names
from afx.io.checkpoints import Checkpoint, Checkpoints
from afx.io.files import load, load_safetensors, save, save_safetensors
from afx.io.naming import allow

__all__ = ["Checkpoint", "Checkpoints", "allow", "load", "load_safetensors", "save", "save_safetensors"]

refuse_names(__name__)
