"""Weakness: Python's numbers, arrays made of them alone, and which dtype both take from what they meet.

A weak value has Python's precision, which is NumPy's float64, until it meets an operand that has a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array, to_numpy_value, wrap
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, default_complex, get_default_dtype, promote, real_dtype
from afx.core.primitive import Params, Primitive
from afx.errors import OperandError

__all__ = [
    "WeakArray",
    "argument_of",
    "holds_graphs",
    "infer",
    "is_weak",
    "is_weak_result",
    "met_dtype",
    "numbers_beside",
    "precise",
    "takes",
    "to_argument",
    "weak_or_strong",
]

_new = object.__new__
PROMOTING = ("concat", "select", "stack")  # roles of ops that promote their operands, as elementwise ones do


def holds_graphs(p: Primitive) -> bool:
    """Tell whether an op runs a graph or function, in which its operands meet what they meet."""
    return p.derivative.concrete_vjp is not None or p.lowering.control is not None


def _promotes(p: Primitive) -> bool:
    """Tell whether an op promotes its operands; elsewhere integers beside weak operands are indices."""
    return p.is_elementwise or p.kind == "bilinear" or p.algebra.canonical in PROMOTING


def _strong(p: Primitive, avals: Sequence[Aval]) -> list[Aval]:
    """Return the Avals of the operands whose dtype weak ones take."""
    promotes = _promotes(p)
    return [a for a in avals[p.condition_operands :] if not a.weak and (promotes or a.dtype.kind in "fc")]


def is_weak_result(p: Primitive, avals: Sequence[Aval], params: Params) -> bool:
    """Tell whether the floating results of an op are weak: where all numbers that it computes with are."""
    if "dtype" in params or holds_graphs(p) or _strong(p, avals):
        return False
    return any(a.weak and (p.promotes_to_float or a.dtype.kind in "fc") for a in avals[p.condition_operands :])


def met_dtype(p: Primitive, avals: Sequence[Aval]) -> DType | None:
    """Return the dtype in which an op computes with its weak operands, None where nothing beside them has one."""
    strong = _strong(p, avals)
    if not strong or holds_graphs(p):
        return None
    weak = [a for a in avals[p.condition_operands :] if a.weak]
    both = [*strong, *weak]
    floating = p.is_elementwise and p.promotes_to_float
    return promote(tuple([a.dtype for a in both]), tuple([a.weak for a in both]), floating)


def takes(aval: Aval, dtype: DType) -> DType:
    """Return the dtype that a weak operand takes beside others of a dtype: a real one stays real."""
    return dtype if aval.dtype.kind == "c" else real_dtype(dtype)


def infer(p: Primitive, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    """Return the Avals of an op's results, weak ones where no operand has a dtype of its own.

    Raises:
        AfxError: what the op's shape rule raises.
    """
    found = p.abstract_eval(*avals, **params)
    outs = found if isinstance(found, tuple) else (found,)
    for a in avals:  # a loop: any() of all would be another call in every trace
        if a.weak:
            break
    else:
        return outs
    if holds_graphs(p):
        return tuple([Aval(a.shape, a.dtype) for a in outs])
    weak = is_weak_result(p, avals, params)
    if weak:  # in the dtype that weak arrays have now, wherever the operands were made
        outs = tuple([Aval(a.shape, _default_of(a.dtype), a.weak) if a.dtype.kind in "fc" else a for a in outs])
    return tuple([Aval(a.shape, a.dtype, weak or a.weak) if _loses_digits(a.dtype) else a for a in outs])


def _default_of(dtype: DType) -> DType:
    """Return the default dtype of floating numbers, or of complex ones."""
    return get_default_dtype() if dtype.kind == "f" else default_complex()


def _loses_digits(dtype: DType) -> bool:
    """Tell whether numbers of Python's lose digits in a dtype: what has all of them has that dtype, as NumPy's has."""
    return dtype.kind in "fc" and dtype != precise(dtype)


def precise(dtype: DType) -> DType:
    """Return the dtype that holds weak numbers of a kind with Python's precision."""
    return {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}.get(dtype.kind, dtype)


class WeakArray(Array):
    """An Array that keeps Python's precision until it meets a dtype; by itself it has the default one.

    Attributes:
        exact: its elements in float64 or complex128.
    """

    __slots__ = ("_dtype", "_rounded", "exact")
    exact: Any
    _dtype: DType
    _rounded: Any

    @property
    def _value(self) -> Any:  # what is stored is `exact`
        if self._rounded is None:
            exact = self.exact
            with np.errstate(over="ignore"):
                self._rounded = exact if exact.dtype == self._dtype else exact.astype(self._dtype)
        return self._rounded

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        shape: Shape = self.exact.shape
        return shape

    @property
    def dtype(self) -> DType:
        """The dtype that it has by itself: the default one."""
        return self._dtype

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        return Aval(self.exact.shape, self._dtype, True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the elements for NumPy, in a dtype that is asked for rounded once."""
        is_met = dtype is not None and np.dtype(dtype).kind in "fc" and copy is not False
        return self.in_dtype(np.dtype(dtype)).copy() if is_met else super().__array__(dtype, copy)

    def __reduce__(self) -> tuple[Any, ...]:
        return _weak_array, (self.exact, self._dtype)

    def in_dtype(self, dtype: DType) -> Any:
        """Return the bare elements in the dtype that they meet, rounded once."""
        if dtype == self._dtype:
            return self._value
        with np.errstate(over="ignore"):
            return self.exact.astype(dtype)


def is_weak(x: Any) -> bool:
    """Tell whether an operand is made of Python's floating or complex numbers alone, traced or not."""
    kind = x.__class__
    if kind is Array or kind is np.ndarray:
        return False
    aval = aval_of(x)
    return aval.weak and aval.dtype.kind in "fc"


def weak_or_strong(value: Any) -> Array:
    """Return the result of an op on weak operands: a weak array where the default dtype has not Python's precision."""
    kind = value.dtype.char
    if kind not in "dD":
        return wrap(value)
    dtype = get_default_dtype() if kind == "d" else default_complex()
    if not _loses_digits(dtype):
        return wrap(value)
    return _weak_array(value, dtype)


def numbers_beside(values: Any, x: Any) -> Array:
    """Return known numbers as an array of x's dtype, a weak one where x is weak."""
    return weak_or_strong(np.asarray(values, np.float64)) if is_weak(x) else wrap(np.asarray(values, x.dtype))


def _weak_array(value: Any, dtype: DType) -> WeakArray:
    x = _new(WeakArray)
    x.exact = value
    x._dtype = dtype
    x._rounded = None
    return x


NUMPY_OF: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def to_argument(x: Any) -> Any:
    """Return a bare value, Python number or weak array as a plan takes it: what is weak with all of its digits."""
    kind = x.__class__
    if kind not in NUMPY_OF:
        return x.exact if kind is WeakArray else x
    try:
        return NUMPY_OF[kind](x)
    except OverflowError as error:
        raise OperandError(
            f"{x} is too large for an argument: got a Python integer beyond int64; pass a float"
        ) from error


def argument_of(x: Any, who: str) -> Any:
    """Return what is given to a function, untraced, as a plan takes it, or raise `OperandError`."""
    return to_argument(x if x.__class__ is WeakArray else to_numpy_value(x, who))
