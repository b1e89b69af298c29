"""Pytrees: frozen attrs classes and dataclasses, tuples, lists and dicts, taken apart and put together again.

Every transformation takes and returns such trees, so a model is a plain frozen class:

>>> import attrs
>>> from afx import pytree
>>> @attrs.frozen
... class Line:
...     slope: float
...     intercept: float
...     name: str = "line"
>>> pytree.flatten(Line(2.0, 1.0))
([2.0, 1.0], Line(slope=*, intercept=*, name='line'))
>>> pytree.map(lambda p: 10 * p, Line(2.0, 1.0))
Line(slope=20.0, intercept=10.0, name='line')

**Leaves** are arrays (afx, NumPy, NumPy scalars), floats and complex numbers. Python ints and bools are leaves too
where they are arguments: alone, or in tuples, lists and dicts. Anywhere inside an attrs class they are part of the
structure instead (a size, an axis, a flag): a number there that changes or is trained must be a float or an array.

**Structure** is all else: the classes, lengths and keys; None, an empty tree; strings, bytes, enums, dtypes, types and
callables; and every field marked with `static`. What is part of the structure must hash. Its values are compared with
their types: ``1``, ``1.0`` and ``True`` differ. Dicts with the same keys have the same structure, in whatever order the
keys were inserted; their leaves are taken in the order of the sorted keys.

**Leaves that are not trained** are those that are not floating or complex (counters, keys, masks), and those in fields
marked with `non_trainable` (running statistics): their gradient is zeros, and optimizers leave them as they are.

The same array may stand at two key paths (weight tying); each is a leaf of its own.
"""

from afx.errors import refuse_names
from afx.pytree.nodes import register, register_dataclass
from afx.pytree.static import non_trainable, static
from afx.pytree.treedef import (
    Leaf,
    Tree,
    TreeDef,
    flatten,
    flatten_with_path,
    is_leaf,
    leaves,
    marked_leaves,
    paths,
    structure,
    unflatten,
)
from afx.pytree.trees import (
    Unravel,
    broadcast_prefix,
    combine,
    equal,
    map,
    map_with_path,
    partition,
    ravel,
    reduce,
    update_at,
)

__all__ = [
    "Leaf", "Tree", "TreeDef", "Unravel", "broadcast_prefix", "combine", "equal", "flatten", "flatten_with_path",
    "is_leaf", "leaves", "map", "map_with_path", "marked_leaves", "non_trainable", "partition", "paths", "ravel",
    "reduce", "register", "register_dataclass", "static", "structure", "unflatten", "update_at",
]  # fmt: skip

refuse_names(__name__)
