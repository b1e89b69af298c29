"""Tree comparison: `equal` for values, and checks that name the path at which a tree does not fit."""

import builtins
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

from afx.errors import DtypeError, ShapeError, TreeError
from afx.pytree.flatten import flatten
from afx.pytree.treedef import Leaf, TreeDef, difference, paths

__all__ = ["check_matching", "check_structure", "equal"]

Structure: TypeAlias = "TreeDef[object]"


class Described(Protocol):
    """The abstract value of a leaf."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def weak(self) -> bool: ...


def equal(left: object, right: object) -> bool:
    """Tell whether two trees have the same structure and the same leaves.

    Arrays, of afx or NumPy, are the same if their dtypes, shapes and values are; nan equals nan at the same index, and
    -0.0 equals 0.0. Python numbers, which have no dtype, are the same only as numbers of the same type.

    >>> import numpy as np
    >>> from afx import pytree
    >>> pytree.equal({"w": np.float32([1, np.nan])}, {"w": np.float32([1, np.nan])})
    True
    >>> pytree.equal({"w": np.float32([1, 2])}, {"w": np.float64([1, 2])})
    False
    """
    mine, treedef = flatten(left)
    theirs, structure = flatten(right)
    return treedef == structure and all(builtins.map(_same, mine, theirs))


def _same(x: Leaf, y: Leaf) -> bool:
    """Compare two leaves."""
    if type(x) in _PYTHON_NUMBERS or type(y) in _PYTHON_NUMBERS:
        return type(x) is type(y) and bool(x == y or (x != x and y != y))  # noqa: PLR0124 - true of nan alone
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return bool(((x == y) | ((x != x) & (y != y))).all())  # noqa: PLR0124 - true of nan alone


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def check_structure(found: Structure, wanted: Structure, who: str, what: str, advice: str) -> None:
    """Raise `TreeError` where a tree has another structure than it should, naming the first path.

    Args:
        found: the structure of the tree that is checked.
        wanted: the structure that it should have.
        who: the function, for messages.
        what: the name of the tree, which paths follow: ``grads``, ``the carry``.
        advice: what to do.
    """
    if found != wanted:
        path, theirs, mine = difference(wanted, found)
        place = f"{what}{path}" if path else what
        raise TreeError(f"{who}: the structure of {place} differs: got {mine} for {theirs}; {advice}")


def check_matching(
    found: Sequence[Described],
    wanted: Sequence[Described],
    treedef: Structure,
    who: str,
    what: str,
    advice: str,
    *,
    dtypes: Literal["same", "weak", "any"] = "same",
) -> None:
    """Raise where a leaf has another shape or dtype than it should, naming its path.

    Args:
        found: the abstract values of the leaves that are checked.
        wanted: those that they should have.
        treedef: the structure of both.
        who: the function, for messages.
        what: the name of the tree, which paths follow.
        advice: what to do.
        dtypes: ``same`` compares them all, ``weak`` those of leaves that are not weak, ``any`` none.

    Raises:
        ShapeError, DtypeError: a leaf differs.
    """
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape:
            raise ShapeError(f"{who}: the shape of {what}{paths(treedef)[k]} differs: got {a} for {b}; {advice}")
        if a.dtype != b.dtype and (dtypes == "same" or (dtypes == "weak" and not a.weak and not b.weak)):
            raise DtypeError(f"{who}: the dtype of {what}{paths(treedef)[k]} differs: got {a} for {b}; {advice}")
