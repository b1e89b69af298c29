"""Special functions: lazy access to SciPy, and parametric families with static parameters."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.core import Array, DType, Form, Function, Shape, aval_of, bind1, bind2, bind_single, promote, to_lower_level
from afx.core.dtypes import narrow_default
from afx.core.primitive import Params, Primitive, Value, define, formula_named
from afx.errors import ArgumentError, MissingExtraError
from afx.ops._basic import broadcast, cast
from afx.ops._kinds.elementwise import elementwise_impl, elementwise_shape_rule, reads_of, typed
from afx.ops._kinds.linear import batch_elementwise
from afx.runtime.control_register import run_as_caller

Partial = Callable[..., Array]


class SciPyUfunc:
    """SciPy's ufunc of a name, imported when it first computes.

    Attributes:
        scipy_ufunc: the name.
    """

    def __init__(self, name: str, message: str) -> None:
        self.scipy_ufunc: str = name
        self._message = message

    def __call__(self, *xs: Any) -> Any:
        """Compute it.

        Raises:
            MissingExtraError: SciPy is not installed.
        """
        return _find_function(self.scipy_ufunc, self._message)(*xs)


def scipy(name: str, message: str = "") -> Function:
    """Return SciPy's special function of a name, imported when it first computes.

    Args:
        name: the function's.
        message: what to say where SciPy is not installed; a general remark where absent.

    Raises:
        MissingExtraError: SciPy is not installed; from the function returned.
    """
    return SciPyUfunc(name, message or f"{name}: needs SciPy, which is not installed; pip install 'afx[scipy]'")


@functools.lru_cache(maxsize=256)
def _find_function(name: str, message: str) -> Function:
    try:
        module: Any = run_as_caller(importlib.import_module, "scipy.special")
    except ImportError as error:
        formula = formula_named(name)
        if formula is None:
            raise MissingExtraError(message) from error
        return functools.partial(_evaluate, formula)
    function: Function = getattr(module, name)
    return function


def _evaluate(formula: Function, *xs: Any) -> Any:
    """Compute a formula of bare values, where SciPy is not installed, or trace it as a part of another."""
    if any(isinstance(x, Array) for x in xs):
        return formula(*xs)
    dtype = np.result_type(*xs, np.float32)
    with np.errstate(all="ignore"):
        z = formula(*[np.asarray(x, dtype) for x in xs])
    return z.astype(dtype)[()]


# -- formulas --
def in_doubles(formula: Function, part: int | None = None) -> Function:
    """Return a formula that computes in float64, or the one of its results that is asked for."""

    def compute(*xs: Any, **params: Any) -> Any:
        z = formula(*[x.astype(np.float64) for x in xs], **params)
        return z if part is None else z[part]

    return compute


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return a polynomial of x, its coefficients from the constant one on."""
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = x * total + c
    return total


def check_order(n: Any, who: str, least: int = 0) -> int:
    """Return a static order as an int, or raise `ArgumentError` where it is none or less than ``least``."""
    try:
        order = operator.index(n)
    except TypeError:
        order = int(n) if isinstance(n, float) and n.is_integer() else least - 1
    if order < least:
        raise ArgumentError(f"{who}: the order is an integer, {least} or more: got {n}; pass a Python int")
    return order


def bind_special(p: Primitive, *xs: Any, **params: Any) -> Array:
    """Apply an op of `afx.special`: to integers and Python's numbers alone in float64, as SciPy does."""
    operands = alone_in_float64(p.name, *xs)
    if params or len(operands) > 2:
        return bind_single(p, *operands, **params)
    return bind2(p, *operands) if len(operands) == 2 else bind1(p, *operands)


def bind_in_double(p: Primitive, *xs: Any) -> Array:
    """Apply an op in float64, with its result in the operands' own dtype: SciPy's loop for fewer bits is wrong."""
    operands = alone_in_float64(p.name, *xs)
    avals = [aval_of(x, p.name) for x in operands]
    dtype = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating=True)
    if dtype.kind != "f" or dtype.itemsize >= 8:
        return bind_single(p, *operands)
    return cast(bind_single(p, *[cast(x, np.dtype(np.float64)) for x in operands]), dtype)


def alone_in_float64(who: str, *xs: Any) -> Sequence[Any]:
    """Return integers and Python's numbers in float64, complex ones in complex128, where no operand has a floating dtype.

    They stay where integers of few bytes have a floating dtype of their own, as in JAX.
    """
    if narrow_default:
        return xs
    for x in xs:
        if (x.__class__ is Array or x.__class__ is np.ndarray) and x.dtype.kind in "fc":
            return xs
    avals = [aval_of(x, who) for x in xs]
    if any([a.dtype.kind in "fc" and not a.weak for a in avals]):
        return xs
    return [
        cast(x, np.dtype(np.complex128 if a.dtype.kind == "c" else np.float64)) for x, a in zip(xs, avals, strict=True)
    ]


def parametric(name: str, compute: Function, partials: Sequence[Partial], defaults: Params, **tags: Any) -> Primitive:
    """Make an elementwise op of a family of real functions.

    Args:
        name: its name.
        compute: a function of bare values and the parameters by keyword.
        partials: one per operand: ``(z, x, y, …, **params) -> dz/d(operand)``.
        defaults: the parameters of the member that stands for the family where none are given.
        **tags: other options of `define`.
    """
    arity = len(partials)
    shape_rule = elementwise_shape_rule(name, "f", True, None)
    rules = [typed(d, arity) for d in partials]

    def run(*xs: Any, **params: Any) -> Any:
        given = {**defaults, **params}
        return elementwise_impl(name, lambda *ys: compute(*ys, **given), True, arity, "f")(*xs)

    def pullback(k: int) -> Any:
        def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
            return to_lower_level(ct * to_lower_level(rules[k](ct.dtype, z, *xs, **{**defaults, **params})))

        return pull

    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        given = {**defaults, **params}
        terms = [
            t * to_lower_level(d(z.dtype, z, *xs, **given)) for t, d in zip(ts, rules, strict=True) if t is not None
        ]
        total = to_lower_level(functools.reduce(operator.add, terms))
        return total if total.shape == z.shape else broadcast(total, z.shape)

    return define(
        name, "elementwise", run, lambda *avals, **_params: shape_rule(*avals),
        vjps=tuple(map(pullback, range(arity))), reads=tuple([reads_of(d, 0, arity + 1) for d in partials]), jvp=push,
        batch=batch_elementwise(name), promotes_to_float=True, **tags,
    )  # fmt: skip


def ignore_fp_errors(fn: Form) -> Function:
    """Return a function of bare values that computes without warnings: its limits are meant."""

    def compute(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return fn(*xs)

    return compute
