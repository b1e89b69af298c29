"""Arrays that implementations compute with: NumPy's, or those of a recorder; with the constants of Philox."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from afx.core import Shape

# --- Arrays that implementations compute with: NumPy's, or those of a recorder, of which machine code is made
#
# An implementation that is written for `Arrays` stands once: eager calls and plans run it on NumPy's arrays, and the
# native back end records what it does, in the same order and hence with the same bits. Views are taken as of any
# array of NumPy. What depends on values is asked by a method, so that a recorder can answer for all values, or leave
# the call to NumPy.


class Arrays:
    """NumPy's arrays, and the calls that a recorder takes down."""

    __slots__ = ()

    def new(self, shape: Shape, dtype: Any, _like: Any = None) -> Any:
        """Return memory for an array; that of another one of this shape whose elements are no longer read."""
        return np.empty(shape, dtype) if _like is None or _like.shape != shape else _like

    def clear(self, x: Any) -> None:
        """Fill an array with zeros."""
        x[...] = 0

    def copy(self, to: Any, x: Any) -> None:
        """Write elements."""
        np.copyto(to, x)

    def give(self, to: Any, x: Any) -> None:
        """Write a result into memory that nothing else reads or writes."""
        np.copyto(to, x)

    def write_parts(self, out: Any, parts: Iterable[tuple[Any, Any]]) -> None:
        """Write disjoint parts of an array, each at an index."""
        for place, x in parts:
            out[place] = x

    def embed(self, out: Any, place: Any, x: Any) -> None:
        """Write zeros around a part, and the part at an index."""
        out[...] = 0
        out[place] = x

    def ufunc(self, name: str, *xs: Any) -> Any:
        """Return what a ufunc makes of arrays, and numbers of their dtype."""
        return getattr(np, name)(*xs)

    def where(self, test: Any, x: Any, y: Any) -> Any:
        """Return elements of one of two arrays."""
        return np.where(test, x, y)  # pyright: ignore[reportUnknownVariableType]  # of arrays of any dtype

    def cast(self, x: Any, dtype: Any) -> Any:
        """Return an array in another dtype, in row-major order."""
        return x if x.dtype == dtype else x.astype(dtype, order="C")

    def add(self, to: Any, x: Any) -> None:
        """Add elements to others."""
        to += x

    def multiply(self, x: Any, y: Any, out: Any) -> None:
        """Write the product of two matrices."""
        np.matmul(x, y, out=out)

    def find_chains(self, _dtype: Any, _terms: int, _like: Iterable[tuple[int, int, str]]) -> Shape:
        """Return where chains end by which sums of products over several axes have the bits of matrices; none if they have not.

        Args:
            _dtype: of operands and result.
            _terms: how many products each of the sums has.
            _like: rows and columns of each product that NumPy would make, and which of its operands, "left" or "right",
                lies column by column.
        """
        return ()

    def sum_products(self, x: Any, y: Any, out: Any, added: int = 0, ends: Shape = ()) -> None:
        """Write sums of products over the last axes of x, which are the first ones of y.

        Args:
            x: [batch, *rows, *terms].
            y: [*terms, columns], or [batch, *terms, columns].
            out: [batch, *rows, columns].
            added: along how many axes of terms, from the first one on, the sums over the others are added up.
            ends: where chains of these others end that are added up, one after the other.
        """
        np.copyto(out, np.tensordot(x, y, y.ndim - 1))

    def add_up(self, x: Any, axes: Sequence[int], out: Any) -> None:
        """Write the sums along axes, one element after the other."""
        np.add.reduce(x, tuple(axes), out=out)

    def dense(self, x: Any) -> Any:
        """Return an array whose elements lie next to each other, a copy where they do not."""
        return np.ascontiguousarray(x)

    def ordered(self, x: Any) -> Any:
        """Return an array, whose order of elements in memory decides about NumPy's bits."""
        return x

    def view(self, x: Any, look: Callable[[Any], Any]) -> Any:
        """Return a view that a function takes of an array."""
        return look(x)

    def is_finite(self, x: Any) -> bool:
        """Tell that no element is inf or nan, of neighbouring elements; false where their squares overflow, too."""
        flat = x.reshape(-1)
        return x.dtype.char in "fd" and x.flags.c_contiguous and math.isfinite(np.dot(flat, flat))

    def refuse(self, _what: str) -> None:
        """Leave what follows to NumPy, where it is recorded."""

    def prepare(self, make: Callable[[], tuple[Any, ...]], _is_cleared: bool = True) -> Callable[[], tuple[Any, ...]]:
        """Return a function that gives an array of zeros and views of it, which are made once; nobody else writes into them."""
        made = make()
        return lambda: made


NUMPY: Arrays = Arrays()


# --- Philox: constants of the generator Philox4x32-10 (Salmon et al. 2011), which back ends share

PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the two words of the key
PHILOX_ROUNDS = 10


# --- Thresholds of ops that formulas in their place share

ADDED_BELOW = 10.0  # means of counts that are drawn by adding up probabilities
ADDED_TERMS = 120  # of them: beyond, nothing is left of the probability at such a mean
COUNTS_END = 2.0**53  # counts from here on are no whole float64 numbers
FAR_BELOW = -12.0  # bounds below are treated by ratios of tails: their own probabilities would underflow
TAIL_TERMS = 24  # of the continued fraction of such a tail
SHORT_WINDOW = 16  # elements of a window up to which whole slices are combined
