"""Complex loops: which of NumPy's loops over complex numbers machine code computes itself, with the same bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.functions.complex_numbers import KINDS, divide
from afx.compiler.native_backend.program.elements import Fast, Load, Op, UfuncLoop, Value
from afx.compiler.native_backend.program.leaves import Nest
from afx.core.scalar_ops import scalar_op

# --- What NumPy's loops compute: sums part by part everywhere; products by fused operations where they run in vectors


_where: Any = np.where  # its result type is not known to checkers


def _fuse(x: Any, y: Any, z: Any) -> Any:
    """Return ``x * y + z``, rounded once."""
    terms = [map(Fraction, term.tolist()) for term in np.broadcast_arrays(x, y, z)]
    return np.array([float(a * b + c) for a, b, c in zip(*terms, strict=True)], x.dtype)


def _multiply(x: Any, y: Any = None) -> Any:
    y = x if y is None else y
    return _fuse(x.real, y.real, -(x.imag * y.imag)), _fuse(x.real, y.imag, x.imag * y.real)


def _divide(x: Any, y: Any) -> Any:
    is_first = abs(y.real) >= abs(y.imag)
    long: Any = _where(is_first, y.real, y.imag)
    short: Any = _where(is_first, y.imag, y.real)
    ratio = short / long
    factor = ratio.dtype.type(1) / (long + short * ratio)
    real = _where(is_first, x.real + x.imag * ratio, x.real * ratio + x.imag)
    return real * factor, _where(is_first, x.imag - x.real * ratio, x.imag * ratio - x.real) * factor


def _absolute(x: Any) -> Any:
    parts = np.abs(x.real), np.abs(x.imag)
    long, ratio = np.maximum(*parts), np.minimum(*parts) / np.maximum(*parts)
    return np.sqrt(_fuse(ratio, ratio, np.ones_like(ratio))) * long, 0


# by `ScalarOp.parts`; what is computed part by part leaves no choice
COMPUTED: dict[str, Callable[..., Any]] = {"product": _multiply, "quotient": _divide, "size": _absolute}
EXACT = frozenset({"fadd", "fsub", "turned"})


@functools.cache
def is_numpys(name: str, dtype: str) -> bool:
    """Tell whether NumPy's loop computes numbers side by side, and with one number, as machine code does: bit for bit."""
    rule = scalar_op(name).parts
    if rule in EXACT:
        return True
    ufunc, (x, y) = (
        getattr(np, name),
        np.random.default_rng(0).normal(size=(2, 2, 35)).astype(f"f{int(dtype[1:]) // 2}"),
    )
    x, y = (np.ascontiguousarray(z.T).view(dtype)[:, 0] for z in (x, y))
    operands = [(x, y), (x[:1], y), (x, y[:1]), (x[:1], y[:1])] if ufunc.nin == 2 else [(x,), (x[:1],)]
    for given in operands:
        found, (real, imaginary) = ufunc(*given), COMPUTED[rule](*given)
        if not ((found.real == real).all() and (found.imag == imaginary).all()):
            return False
    return True


def compute_inline(nest: Nest) -> Nest:
    """Return a nest that computes with complex numbers itself where NumPy's loops do so in the same way.

    These do it in another way where operands are neither neighbours nor one number.
    """
    if not any(loop.dtypes[0] in KINDS for loop in nest.loops):
        return nest
    operands = nest.with_merged_axes().values
    values = tuple([_inline(value, operands) for value in nest.values])
    return attrs.evolve(nest, values=values)


def _inline(value: Value, operands: tuple[Value, ...]) -> Value:
    if not isinstance(value, Op) or not isinstance(value.name, UfuncLoop) or value.name.dtypes[0] not in KINDS:
        return value
    loop, rule = value.name, scalar_op(value.name.ufunc).parts
    steps = [(x.ref.strides or (0,))[-1] for k in value.args if isinstance(x := operands[k], Load)]
    size = int(loop.dtypes[0][1:])
    is_near = rule in (*EXACT, "quotient") or {*steps} <= ({size} if rule == "size" else {0, size})
    if not rule or not is_near or not is_numpys(loop.ufunc, loop.dtypes[0]):
        return value
    return attrs.evolve(value, name=Fast(divide.__name__, loop) if rule == "quotient" else loop.ufunc)
