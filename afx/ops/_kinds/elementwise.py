"""Elementwise ops and reductions: every rule of a primitive, derived from one derivative formula."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, TypeAlias

import numpy as np

from afx.core import (
    Array,
    Function,
    Params,
    Primitive,
    Pullback,
    Pushforward,
    Tangents,
    Value,
    Values,
    define,
    to_lower_level,
)
from afx.core.aval import SCALARS, Aval, Shape, aval_of, broadcast_avals, common_dtype, widest_of_alike
from afx.core.dtypes import DType, bool_, real_dtype, strengthen
from afx.errors import DtypeError
from afx.ops._basic import broadcast, select_where, sum_over
from afx.ops._kinds.linear import Shaper, batch_along_axes, batch_elementwise

# --- Partial derivatives: their operands and dtype, and the rules of elementwise ops made of them

Partial: TypeAlias = Callable[..., Array] | float


def reads_of(rule: Function, first: int, count: int) -> int:
    """Return the bit mask of the ``count`` parameters from ``first`` on whose names have no leading underscore."""
    names = rule.__code__.co_varnames[first : first + count]
    return sum(1 << k for k, name in enumerate(names) if not name.startswith("_"))


def typed(partial: Function, arity: int) -> Function:
    """Return a partial of several operands, given the result's dtype first, that reads operands in that dtype.

    A Python number or an integer by itself would compute in the default dtype, and float32 beside float64 in its own.
    """
    reads = reads_of(partial, 0, arity + 1) >> 1
    places = [k for k in range(arity) if reads >> k & 1]

    def read(dtype: DType, z: Value, *xs: Value, **params: Any) -> Any:
        for k in places:
            if getattr(xs[k], "dtype", None) is not dtype:
                return partial(z, *[_convert(x, dtype) if reads >> j & 1 else x for j, x in enumerate(xs)], **params)
        return partial(z, *xs, **params)

    return read


def _convert(x: Value, dtype: DType) -> Value:
    """Return an operand in a dtype, a real one beside complex numbers in the dtype of their parts."""
    if x.__class__ in SCALARS:
        return strengthen(x, dtype)
    want = dtype if x.dtype.kind == "c" else real_dtype(dtype)
    return x if x.dtype == want or dtype.kind not in "fc" else to_lower_level(x.astype(want))


def elementwise_pullback(partial: Partial, arity: int, exact: bool) -> Pullback:
    """Return the rule ``ct * ∂z/∂x`` of one operand, of which the derivative is a function or a constant sign."""
    if not callable(partial):
        sign = partial

        def scale(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
            return ct if sign == 1.0 else -ct if sign == -1.0 else ct * sign

        return scale

    def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        d = partial(z, *xs)
        return ct * (d._value if d.__class__ is Array and not isinstance(ct, Array) else d)

    if exact or arity == 1:
        return pull
    read = typed(partial, arity)

    def pull_typed(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        d = read(ct.dtype, z, *xs)
        return ct * (d._value if d.__class__ is Array and not isinstance(ct, Array) else d)

    return pull_typed


def elementwise_jvp(partials: Sequence[Partial], masks: bool, exact: bool) -> Pushforward:
    """Return the rule ``Σ t * ∂z/∂x`` over the operands that move; with masks, a derivative of 0 takes nothing of its tangent."""

    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        total = None
        if not exact and len(xs) > 1:
            xs = tuple([_convert(x, z.dtype) for x in xs])
        for t, partial in zip(ts, partials, strict=True):
            if t is None:
                continue
            if callable(partial):
                d = to_lower_level(partial(z, *xs))
                term = to_lower_level(
                    (to_lower_level(select_where(d != 0, t, np.zeros((), t.dtype))) if masks else t) * d
                )
            else:
                term = t if partial == 1.0 else t * partial
            total = term if total is None else total + term
        if total is not None and total.shape != z.shape:
            total = broadcast(total, z.shape)
        return total

    return push


# --- Elementwise kinds: every rule of a primitive, derived from one derivative formula
#
# kind                 what it is given                                            such as
# elementwise          one partial derivative per operand, of output and operands  sin, multiply
# linear               the transpose: cotangent and operand's Aval to cotangent    reshape, sum
# bilinear             two transposes                                              matmul, conv
# reduction            the partial derivative by each element of the operand       max, logsumexp
# nondifferentiable    none                                                        floor, less
#
# A formula's parameters are ``z`` (the output), ``x, y`` (operands), ``ct`` (cotangent). One whose name begins with
# an underscore is not read, and its value is not kept until the backward pass.

Parts: TypeAlias = tuple[Any, Any]  # the real and the imaginary part of complex numbers
Partial1: TypeAlias = Callable[[Array, Array], Array] | float
Partial2: TypeAlias = Callable[[Array, Array, Array], Array] | float
ReductionRule: TypeAlias = Callable[Concatenate[Array, Array, ...], Array]
OutDtype: TypeAlias = Callable[[DType], DType]


# -- elementwise --
def elementwise_impl(name: str, ufunc: Function, floating: bool, arity: int, kinds: str) -> Function:
    """Return the ufunc with afx's dtype convention: NumPy's result stands where it has an operand's dtype."""
    real, takes_bool = "c" not in kinds, "b" in kinds
    ufunc = _unify_dtypes(ufunc, floating, arity)

    def settle(xs: tuple[Any, ...], z: Any) -> Any:
        avals = [aval_of(x) for x in xs]
        want = common_dtype(avals, floating)
        if want.kind == "b" and not takes_bool:
            raise DtypeError(f"{name}: not defined for bool: got {', '.join(map(str, avals))}; convert with astype")
        if _keeps_dtype(z.dtype, want):
            return z
        z = ufunc(*[np.asarray(x).astype(want) for x in xs])
        return z if _keeps_dtype(z.dtype, want) else z.astype(want)

    def run1(x: Any) -> Any:
        # of a Python integer, a ufunc would give a Python object, where one of NumPy's overflows
        z = ufunc(x if x.__class__ is not int else np.asarray(x, np.int64))
        dtype = z.dtype
        if real and dtype.kind == "c":
            refuse((x,))
        stands = (dtype is bool_ and takes_bool) or (x.__class__ is np.ndarray and dtype is x.dtype)
        return z if stands or _is_number_of(z, dtype, x.__class__) else settle((x,), z)

    def run2(x: Any, y: Any) -> Any:
        z = ufunc(x, y)
        dtype = z.dtype
        if dtype is bool_ and takes_bool:
            return z
        if real and dtype.kind == "c":
            refuse((x, y))
        stands = (x.__class__ is np.ndarray and dtype is x.dtype) or (y.__class__ is np.ndarray and dtype is y.dtype)
        return z if stands or _is_number_of(z, dtype, x.__class__, y.__class__) else settle((x, y), z)

    def run(*xs: Any) -> Any:
        z = ufunc(*xs)
        if real and z.dtype.kind == "c":
            refuse(xs)
        return settle(xs, z)

    def refuse(xs: tuple[Any, ...]) -> None:
        got = ", ".join(str(aval_of(x)) for x in xs)
        raise DtypeError(f"{name}: not defined for complex numbers: got {got}; take the abs or a part")

    return run1 if arity == 1 else _quicker(ufunc, settle, run2) if arity == 2 else run


SCALAR_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.divide: lambda x, y: x / y,
    np.multiply: operator.mul,
    np.subtract: operator.sub,
}
FLOATS = frozenset({np.float32, np.float64})


def _quicker(ufunc: Function, settle: Function, otherwise: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function with a short way for arithmetic: NumPy's floating numbers go to Python's operator.

    That costs a tenth of the ufunc; arrays save a call.
    """
    compute = SCALAR_OPERATORS.get(ufunc)
    if compute is None:
        return otherwise

    def run(x: Any, y: Any) -> Any:
        kind, other = x.__class__, y.__class__
        if kind is np.ndarray or other is np.ndarray:
            z = ufunc(x, y)
            dtype = z.dtype
            stands = (kind is np.ndarray and dtype is x.dtype) or (other is np.ndarray and dtype is y.dtype)
            return z if stands else settle((x, y), z)
        if kind in FLOATS and (other is kind or other is float or other is int):
            return compute(x, y)
        if other in FLOATS and (kind is float or kind is int):
            return compute(x, y)
        return otherwise(x, y)

    return run


def _is_number_of(z: Any, dtype: DType, *kinds: type) -> bool:
    """Tell whether a result is a NumPy number of the operands' own kind, such as reductions give: its dtype stands."""
    return z.__class__ in kinds and z.__class__ is not np.ndarray and dtype.kind in "fc"


def _unify_dtypes(compute: Function, floating: bool, arity: int) -> Function:
    """Return a function that calls several ufuncs with operands of one dtype: each of these would choose its own."""
    if isinstance(compute, np.ufunc) or (arity == 1 and not floating):
        return compute

    def alike(*xs: Any) -> Any:
        dtypes = {bool_ if x.__class__ in SCALARS else x.dtype for x in xs if x.__class__ not in (float, complex)}
        if len(dtypes) == 1 and next(iter(dtypes)).kind in "fc":
            return compute(*xs)
        avals = [aval_of(x) for x in xs]
        want = common_dtype(avals, floating)
        return compute(*(xs if want.kind not in "fc" else [np.asarray(x).astype(want, copy=False) for x in xs]))

    return alike


def _keeps_dtype(given: DType, want: DType) -> bool:
    """Tell whether NumPy's result has the dtype wanted, or one of its own: a condition, the abs of a complex number."""
    if given.kind in "iu" and want.kind in "iu":
        return given == want
    return given == (real_dtype(want) if given.kind == "f" else want) or given.kind not in "fc"


def elementwise_shape_rule(name: str, kinds: str, floating: bool, result: OutDtype | None) -> Shaper:
    inexact = "".join([kind for kind in kinds if kind in "fc"])

    def abstract(*avals: Aval) -> Aval:
        wide = widest_of_alike(avals)
        if wide is not None and wide.dtype.kind in inexact:
            return Aval(wide.shape, result(wide.dtype)) if result else wide
        shape = broadcast_avals(name, avals)
        dtype = common_dtype(avals, floating)
        if dtype.kind not in kinds:
            got = ", ".join(map(str, avals))
            raise DtypeError(f"{name}: not defined for {dtype}: got {got}; convert with astype")
        out = result(dtype) if result else dtype
        # as NumPy's, arrays of integers have a dtype
        return Aval(shape, out, all(a.weak for a in avals) and (not shape or out.kind in "fc"))

    return abstract


def elementwise(
    name: str,
    compute: np.ufunc | Function,
    partials: Sequence[Partial],
    *,
    kinds: str = "iufc",
    promotes_to_float: bool | None = None,
    result: OutDtype | None = None,
    masks_cotangent: bool = False,
    exact: bool = False,
    traceable: bool = False,
    impl: Function | None = None,
    **tags: Any,
) -> Primitive:
    """Make an elementwise op of several operands.

    Args:
        name: its name.
        compute: the NumPy ufunc, or a function of bare values.
        partials: one per operand: ``(z, x, y, …) -> dz/d(operand)``, or the number it always is.
        kinds: NumPy's dtype kinds it is defined for, after promotion.
        promotes_to_float: whether integers compute in the default dtype: where it is not defined for them, if absent.
        result: the output's dtype from the promoted one; the same where absent.
        exact: whether partials are right for operands of any dtype: these are operands themselves, or compare them.
        masks_cotangent: whether a partial that is zero cuts the operand off, so that nothing non-finite behind it matters.
        traceable: whether plans replace it by the ufuncs that ``compute`` calls, so that these run in blocks, in place.
        impl: computes on bare values in place of ``compute``.
        **tags: other options of `define`.
    """
    arity, promotes_to_float = len(partials), "i" not in kinds if promotes_to_float is None else promotes_to_float
    reads = tuple([reads_of(p, 0, arity + 1) if callable(p) else 0 for p in partials])
    ufunc = compute if isinstance(compute, np.ufunc) else None

    def mask(k: int, z: Value, xs: Values, params: Params, shape: Shape) -> Value:
        partial = partials[k]
        assert callable(partial)
        return partial(z, *xs) != 0

    run = impl or elementwise_impl(name, compute, promotes_to_float, arity, kinds)
    shape_rule = elementwise_shape_rule(name, kinds, promotes_to_float, result)
    return define(
        name, "elementwise", run, shape_rule, batch=batch_elementwise(name), promotes_to_float=promotes_to_float,
        vjps=tuple([elementwise_pullback(p, arity, exact) for p in partials]), reads=reads,
        jvp=elementwise_jvp(partials, masks_cotangent, exact), mask=mask if masks_cotangent else None,
        ufunc=ufunc, scipy_ufunc="" if impl else getattr(compute, "scipy_ufunc", ""),
        **_decompose(compute) | tags if traceable else tags,
    )  # fmt: skip


def _decompose(compute: Function) -> dict[str, Any]:
    """Return the tags of an op that plans replace: traced arrays answer to the NumPy functions that compute it."""

    def decompose(xs: Values, params: Params) -> Value:
        return compute(*xs)

    return {"decompose": decompose, "opaque": True}


# -- what formulas share --
TINY = 1e-20  # below, x is tan x, exp x - 1 and their like to all digits


def each_part(function: Function) -> Callable[..., Parts]:
    """Return a function of parts that does the same with both of them."""
    return lambda *xs, **params: (function(*[a for a, _ in xs], **params), function(*[b for _, b in xs], **params))


def unary(
    name: str,
    compute: Callable[[Any], Any],
    partial: Partial1,
    *,
    formula: Callable[[Any], Any] | None = None,
    parts: Callable[[Parts], Any] | None = None,
    **options: Any,
) -> Primitive:
    """Make an elementwise op of one operand from ``partial(z, x)``; options are `elementwise`'s."""
    return elementwise(name, compute, (partial,), formula=formula, parts=parts, **options)


def binary(
    name: str,
    compute: Callable[[Any, Any], Any],
    partials: tuple[Partial2, Partial2],
    *,
    formula: Callable[[Any, Any], Any] | None = None,
    parts: Callable[[Parts, Parts], Any] | None = None,
    **options: Any,
) -> Primitive:
    """Make an elementwise op of two operands from ``(z, x, y) -> dz/dx`` and ``dz/dy``; options are `elementwise`'s."""
    return elementwise(name, compute, partials, formula=formula, parts=parts, **options)


def nondifferentiable(
    name: str,
    impl: Function,
    abstract_eval: Shaper | None = None,
    *,
    kinds: str = "biufc",
    promotes_to_float: bool | None = None,
    result: OutDtype | None = None,
    batch: Any = None,
    arity: int | None = None,
    **tags: Any,
) -> Primitive:
    """Make an op without derivatives: an elementwise one, or any other where its shape rule is given.

    Arguments are those of `elementwise`; ``arity`` is for functions of several operands that are no ufunc.
    """
    promotes_to_float = "i" not in kinds if promotes_to_float is None else promotes_to_float
    ufunc = impl if isinstance(impl, np.ufunc) else None
    operands = arity or (ufunc.nin if ufunc else 1)
    return define(
        name=name,
        kind="nondifferentiable" if abstract_eval else "elementwise",
        impl=impl if abstract_eval else elementwise_impl(name, impl, promotes_to_float, operands, kinds),
        abstract_eval=abstract_eval or elementwise_shape_rule(name, kinds, promotes_to_float, result),
        batch=batch if abstract_eval else batch_elementwise(name),
        ufunc=ufunc,
        promotes_to_float=promotes_to_float,
        **tags,
    )


# --- Reductions: the kind of op whose derivative is given by each element's partial


def reduction(name: str, impl: Function, abstract_eval: Shaper, partial: ReductionRule, **tags: Any) -> Primitive:
    """Make a reduction over axes from ``partial(z, x, axis=…)``, dz/dx in the shape of x; z has its axes kept."""
    reads = reads_of(partial, 0, 2)

    def kept(z: Value, axis: Shape, ndim: int) -> Value:
        shape = iter(z.shape)
        return z.reshape(tuple([1 if a in axis else next(shape) for a in range(ndim)]))

    def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        axis = params["axis"]
        d = partial(kept(z, axis, len(shape)) if reads & 1 else z, xs[0], **params)
        return to_lower_level(kept(ct, axis, len(shape)) * to_lower_level(d))

    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        axis, x, t = params["axis"], xs[0], ts[0]
        assert t is not None
        d = to_lower_level(partial(kept(z, axis, x.ndim), x, **params))
        if tags.get("selects"):  # what is not chosen has no share, whatever its tangent is
            t = to_lower_level(select_where(d != 0, t, np.zeros((), t.dtype)))
        return to_lower_level(sum_over(t * d, axis))

    return define(
        name, "reduction", impl, abstract_eval,
        vjps=(pull,), reads=(reads,), jvp=push, batch=batch_along_axes(name), **tags,
    )  # fmt: skip
