"""Complex numbers: parts, conjugates, angles.

Derivatives follow JAX's and autograd's convention: for a real function f of z = x + iy, the gradient is
∂f/∂x - i·∂f/∂y, and pullbacks multiply by ∂w/∂z without conjugating.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Aval, aval_of, bind, bind_single, real_dtype, register_function
from afx.core.primitive import Bools, Params, Primitive, Value, Values, record_into
from afx.ops._basic import numpy_of
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.linear import batch_unchanged, linear, with_batch_axis
from afx.ops.creation.creation import as_array, zeros_like
from afx.ops.elementwise.comparison import equal, not_equal
from afx.ops.elementwise.trigonometry import atan2, rad2deg
from afx.ops.manipulation.shape import astype


def _take_part(x: Aval) -> Aval:
    return Aval(x.shape, real_dtype(x.dtype))


@register_function
def real(x: ArrayLike) -> Array:
    """Return the real part.

    >>> real(1.0 + 2.0j)
    Array(1., dtype=float32)
    """
    return bind(real_p, x) if aval_of(x, "real").dtype.kind == "c" else as_array(x)


def _real_run(x: Any) -> Any:
    y: Any = numpy_of(x)
    return y.real


def _real_transpose(ct: Array, x: Aval) -> Array:
    return astype(ct, x.dtype)


def _alive(k: int, mask: Any, avals: tuple[Aval, ...], params: Params) -> Any:
    return mask


real_p: Primitive = linear(
    "real", _real_run, _take_part, _real_transpose, alive=_alive, batch=batch_unchanged("real"), may_alias=True
)


@register_function
def imag(x: ArrayLike) -> Array:
    """Return the imaginary part, 0 for real numbers.

    >>> imag(1.0 + 2.0j)
    Array(2., dtype=float32)
    """
    return bind(imag_p, x) if aval_of(x, "imag").dtype.kind == "c" else zeros_like(x)


def _imag_run(x: Any) -> Any:
    y: Any = numpy_of(x)
    return y.imag


def _imag_transpose(ct: Array, x: Aval) -> Array:
    return astype(ct, x.dtype) * -1j


imag_p: Primitive = linear(
    "imag", _imag_run, _take_part, _imag_transpose, alive=_alive, batch=batch_unchanged("imag"), may_alias=True
)


@register_function
def join_parts(re: Array, im: Array) -> Array:
    """Return complex numbers of their parts, float arrays of one shape and dtype: what plans write; it has no derivative."""
    return bind_single(join_parts_p, re, im)


def _join(re: Any, im: Any) -> Any:
    z = np.empty(np.shape(re), np.result_type(re, np.complex64))
    z.real, z.imag = re, im
    return z


def _join_native(xp: Any, z: Any, re: Any, im: Any) -> None:
    xp.give(xp.view(z, np.real), re)
    xp.give(xp.view(z, np.imag), im)


def _join_abstract(re: Aval, im: Aval) -> Aval:
    return Aval(re.shape, np.result_type(re.dtype, np.complex64))


def _join_batch(size: int, xs: Values, batched: Bools, _params: Params) -> Value:
    re, im = (with_batch_axis(size, x, b) for x, b in zip(xs, batched, strict=True))
    return join_parts(re, im)


join_parts_p: Primitive = nondifferentiable(
    "join_parts", _join, _join_abstract, batch=_join_batch, native=_join_native, canonical="join_parts"
)


@register_function
def conj(x: ArrayLike) -> Array:
    """Return the complex conjugate; real numbers as they are.

    >>> conj(1.0 + 2.0j)
    Array(1.-2.j, dtype=complex64)
    """
    return bind(conj_p, x) if aval_of(x, "conj").dtype.kind == "c" else as_array(x)


def _conj_run(x: Any) -> Any:
    y = numpy_of(x)
    return y.copy() if y.dtype.kind == "b" else np.conjugate(y)


def _conj_into(z: Any, x: Any) -> None:
    if x.dtype.kind == "c":
        np.conjugate(x, out=z)
    else:
        np.copyto(z, x)


def _conj_transpose(ct: Array, x: Aval) -> Array:
    return conj(ct)


def _conj_abstract(x: Aval) -> Aval:
    return Aval(x.shape, x.dtype)


conj_p: Primitive = linear(
    "conj",
    _conj_run,
    _conj_abstract,
    _conj_transpose,
    alive=_alive,
    batch=batch_unchanged("conj"),
    involution=True,
    impl_into=_conj_into,
    native=record_into(_conj_into),
)
conjugate = conj


@register_function
def angle(x: ArrayLike, deg: bool = False) -> Array:
    """Return the argument of complex numbers in radians, from -π to π; its derivative at 0 is 0.

    Args:
        x: any shape; negative real numbers have the argument π.
        deg: gives degrees in place of radians.

    >>> angle(1.0j)
    Array(1.5707964, dtype=float32)
    """
    z = atan2(imag(x), real(x))
    return rad2deg(z) if deg else z


@register_function
def isreal(x: ArrayLike) -> Array:
    """Tell for each element whether its imaginary part is 0.

    >>> isreal(1.0 + 0.0j)
    Array(True, dtype=bool)
    """
    return equal(imag(x), 0)


@register_function
def iscomplex(x: ArrayLike) -> Array:
    """Tell for each element whether its imaginary part is not 0.

    >>> iscomplex(1.0 + 0.0j)
    Array(False, dtype=bool)
    """
    return not_equal(imag(x), 0)


def iscomplexobj(x: ArrayLike) -> bool:
    """Tell whether the dtype is complex, whatever the values.

    >>> iscomplexobj(1.0 + 0.0j)
    True
    """
    return aval_of(x, "iscomplexobj").dtype.kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Tell whether the dtype is not complex, whatever the values.

    >>> isrealobj(1.0 + 0.0j)
    False
    """
    return not iscomplexobj(x)
