"""Array methods: each is the function of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import DTypeLike

from afx.core.numpy_names import Order, refuse_out
from afx.core.registry import FUNCTIONS

if TYPE_CHECKING:
    from afx.core.array.array import Array, ArrayLike


Axis = int | Sequence[int] | None


class Methods:
    """NumPy's well-known methods; see the functions of the same names for what they do."""

    __slots__ = ()

    @property
    def T(self) -> Array:
        """The axes in reverse order."""
        return FUNCTIONS.permute_dims(self, None)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return FUNCTIONS.matrix_transpose(self)

    @property
    def real(self) -> Array:
        """The real part."""
        return FUNCTIONS.real(self)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return FUNCTIONS.imag(self)

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Array:
        """Return the array in another dtype (``copy`` has no effect: arrays are immutable)."""
        return FUNCTIONS.astype(self, dtype)

    def copy(self, order: Order = "C") -> Array:
        """Return the array itself: it is immutable."""
        return self  # type: ignore[return-value]  # the mixin is only used by Array

    def reshape(self, *shape: Any, order: Order = "C", copy: bool | None = None) -> Array:
        """Return the elements in another shape, given as a tuple or as separate lengths; see `afx.reshape`."""
        return FUNCTIONS.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def transpose(self, *axes: Any) -> Array:
        """Return the array with its axes permuted, reversed where none are given."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return FUNCTIONS.permute_dims(self, given or None)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Return the array with two axes exchanged."""
        return FUNCTIONS.swapaxes(self, axis1, axis2)

    def flatten(self, order: Order = "C") -> Array:
        """Return the elements as one axis: by rows, or by columns in the order ``"F"``."""
        return FUNCTIONS.reshape(self.T if order == "F" else self, (-1,))

    def ravel(self, order: Order = "C") -> Array:
        """Return the elements as one axis: by rows, or by columns in the order ``"F"``."""
        return self.flatten(order)

    def squeeze(self, axis: Axis = None) -> Array:
        """Return the array without its axes of length 1; see `afx.squeeze`."""
        return FUNCTIONS.squeeze(self, axis)

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the sum along axes; see `afx.sum`."""
        refuse_out(out, "sum")
        return FUNCTIONS.sum(self, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the product along axes; see `afx.prod`."""
        refuse_out(out, "prod")
        return FUNCTIONS.prod(self, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        *,
        keepdims: bool = False,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the arithmetic mean along axes; see `afx.mean`."""
        refuse_out(out, "mean")
        return FUNCTIONS.mean(self, axis=axis, dtype=dtype, keepdims=keepdims, where=where)

    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        mean: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the variance along axes; see `afx.var`."""
        refuse_out(out, "var")
        return FUNCTIONS.var(self, axis=axis, dtype=dtype, correction=ddof, keepdims=keepdims, mean=mean, where=where)

    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        mean: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the standard deviation along axes; see `afx.std`."""
        refuse_out(out, "std")
        return FUNCTIONS.std(self, axis=axis, dtype=dtype, correction=ddof, keepdims=keepdims, mean=mean, where=where)

    def max(
        self,
        axis: Axis = None,
        out: None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the largest element along axes; see `afx.max`."""
        refuse_out(out, "max")
        return FUNCTIONS.max(self, axis=axis, keepdims=keepdims, initial=initial, where=where)

    def min(
        self,
        axis: Axis = None,
        out: None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the smallest element along axes; see `afx.min`."""
        refuse_out(out, "min")
        return FUNCTIONS.min(self, axis=axis, keepdims=keepdims, initial=initial, where=where)

    def all(
        self, axis: Axis = None, out: None = None, *, keepdims: bool = False, where: ArrayLike | None = None
    ) -> Array:
        """Tell whether all elements are true along axes; see `afx.all`."""
        refuse_out(out, "all")
        return FUNCTIONS.all(self, axis=axis, keepdims=keepdims, where=where)

    def any(
        self, axis: Axis = None, out: None = None, *, keepdims: bool = False, where: ArrayLike | None = None
    ) -> Array:
        """Tell whether any element is true along axes; see `afx.any`."""
        refuse_out(out, "any")
        return FUNCTIONS.any(self, axis=axis, keepdims=keepdims, where=where)

    def argmax(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
        """Return the index of the first largest element; see `afx.argmax`."""
        refuse_out(out, "argmax")
        return FUNCTIONS.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
        """Return the index of the first smallest element; see `afx.argmin`."""
        refuse_out(out, "argmin")
        return FUNCTIONS.argmin(self, axis=axis, keepdims=keepdims)

    def argsort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
        descending: bool | None = None,
    ) -> Array:
        """Return the indices that sort the array, stable whatever NumPy's arguments say; see `afx.argsort`."""
        return FUNCTIONS.argsort(self, axis=axis, descending=bool(descending))

    def sort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
        descending: bool | None = None,
    ) -> Array:
        """Return the array sorted along an axis (a new array, unlike NumPy's method); see `afx.sort`."""
        return FUNCTIONS.sort(self, axis=axis, descending=bool(descending))

    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """Return the running sum; see `afx.cumsum`."""
        refuse_out(out, "cumsum")
        return FUNCTIONS.cumsum(self, axis=axis, dtype=dtype)

    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """Return the running product; see `afx.cumprod`."""
        refuse_out(out, "cumprod")
        return FUNCTIONS.cumprod(self, axis=axis, dtype=dtype)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None, out: None = None) -> Array:
        """Return the elements limited to an interval; see `afx.clip`."""
        refuse_out(out, "clip")
        return FUNCTIONS.clip(self, min, max)

    def round(self, decimals: int = 0, out: None = None) -> Array:
        """Return the elements rounded to the nearest even; see `afx.round`."""
        refuse_out(out, "round")
        return FUNCTIONS.round(self, decimals)

    def dot(self, other: ArrayLike, out: None = None) -> Array:
        """Return the dot product; see `afx.dot`."""
        refuse_out(out, "dot")
        return FUNCTIONS.dot(self, other)

    def conj(self) -> Array:
        """Return the complex conjugate."""
        return FUNCTIONS.conj(self)

    def conjugate(self) -> Array:
        """Return the complex conjugate."""
        return FUNCTIONS.conj(self)

    def repeat(self, repeats: int, axis: int | None = None) -> Array:
        """Return the elements repeated; see `afx.repeat`."""
        return FUNCTIONS.repeat(self, repeats, axis=axis)

    def take(
        self,
        indices: ArrayLike,
        axis: int | None = None,
        out: None = None,
        *,
        mode: Literal["raise", "wrap", "clip"] = "raise",
    ) -> Array:
        """Return the elements at indices along an axis; see `afx.take`."""
        refuse_out(out, "take")
        return FUNCTIONS.take(self, indices, axis=axis, mode=mode)

    def compress(self, condition: ArrayLike, axis: int | None = None, out: None = None) -> Array:
        """Return the slices along an axis for which a condition holds; see `afx.compress`."""
        refuse_out(out, "compress")
        return FUNCTIONS.compress(condition, self, axis=axis)

    def choose(
        self, choices: Sequence[ArrayLike], out: None = None, mode: Literal["raise", "wrap", "clip"] = "raise"
    ) -> Array:
        """Return the elements of the choices that the array's integers name; see `afx.choose`."""
        refuse_out(out, "choose")
        return FUNCTIONS.choose(self, choices, mode=mode)

    def nonzero(self) -> tuple[Array, ...]:
        """Return the indices of the elements that are not zero; see `afx.nonzero`."""
        return tuple(FUNCTIONS.nonzero(self))

    def searchsorted(self, values: ArrayLike, side: Literal["left", "right"] = "left") -> Array:
        """Return where values would be inserted to keep the order; see `afx.searchsorted`."""
        return FUNCTIONS.searchsorted(self, values, side=side)

    def partition(self, kth: int | Sequence[int], axis: int = -1) -> Array:
        """Return the array partitioned (a new array, unlike NumPy's method); see `afx.partition`."""
        return FUNCTIONS.partition(self, kth, axis=axis)

    def argpartition(self, kth: int | Sequence[int], axis: int | None = -1) -> Array:
        """Return the indices that partition the array; see `afx.argpartition`."""
        return FUNCTIONS.argpartition(self, kth, axis=axis)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None
    ) -> Array:
        """Return the sum along the diagonal of two axes, the first two as NumPy does; see `afx.linalg.trace`."""
        refuse_out(out, "trace")
        return FUNCTIONS.matrix_trace(self, offset, axis1, axis2, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Return the diagonal of two axes, the first two as NumPy does; see `afx.diagonal`."""
        return FUNCTIONS.diagonal(self, offset, axis1, axis2)

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """Return the array itself; the only device is ``"cpu"``."""
        return FUNCTIONS.to_device(self, device)
