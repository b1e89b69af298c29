"""Dtypes: calls whose results have NumPy's dtypes, where afx by itself keeps narrower ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import SCALARS, DTypeLike, aval_of
from afx.core.dtypes import SUPPORTED, DType, bool_, complex128, float16, float64, int64
from afx.core.numpy_dispatch import signature_of
from afx.ops import astype, diff, histogram, sum
from afx.ops._basic import sum_dtype
from afx.ops.creation.creation import SEQUENCES, asarray
from afx.ops.reductions.quantiles import PICKING

Function = Callable[..., Any]
Given = dict[str, Any]
Finish = Callable[[Function, Given], Any]


# -- ufuncs --
def call_ufunc(call: Function, ufunc: np.ufunc, args: tuple[Any, ...]) -> Any:
    """Return what ``call`` gives, of operands in the dtypes of NumPy's loop where its results have others."""
    z = call(args)
    kinds = tuple(map(_describe, args))
    dtypes = None if None in kinds else _loop_dtypes(ufunc, kinds)
    result_dtypes = [getattr(v, "dtype", None) for v in (z if ufunc.nout > 1 else (z,))]
    if dtypes is None or result_dtypes == list(dtypes[ufunc.nin :]):
        return z
    z = call(tuple([astype(x, dtype) for x, dtype in zip(args, dtypes, strict=False)]))
    return z if ufunc.nout > 1 else astype(z, dtypes[-1])  # the reciprocals of integers are integers in NumPy


def _describe(x: Any) -> Any:
    """Return an operand's dtype, the type of a Python number, or None for what afx converts by rules of its own."""
    if x.__class__ in SEQUENCES:
        return None
    if x.__class__ in SCALARS:
        return bool_ if x.__class__ is bool else x.__class__
    if not hasattr(x, "dtype") or x.dtype.char not in SUPPORTED:
        return None
    weak = hasattr(x, "aval") and x.aval.weak
    return {"i": int, "f": float, "c": complex}.get(x.dtype.kind, x.dtype) if weak else x.dtype


@functools.lru_cache(maxsize=4096)
def _loop_dtypes(ufunc: np.ufunc, operands: tuple[Any, ...]) -> tuple[DType, ...] | None:
    try:
        resolved: tuple[DType, ...] = ufunc.resolve_dtypes((*operands, *(None,) * ufunc.nout))
    except TypeError:
        return None
    return resolved if all([d.char in SUPPORTED for d in resolved]) else None


# -- functions --
def prepare(func: Function, name: str, call: Function, args: tuple[Any, ...], kwargs: Given) -> Any:
    """Return the result of a call, whose arguments are converted as NumPy's function of this name converts them."""
    signature = signature_of(func)
    assert signature is not None
    given = signature.bind(*args, **kwargs)
    finish = CONVERSIONS[name](given.arguments)
    return finish(call, given.arguments) if finish is not None else call(*given.args, **given.kwargs)


def _widen(given: Given, *names: str) -> None:
    """Convert arguments to float64, complex ones to complex128."""
    for name in names:
        if given.get(name) is not None:
            x = asarray(given[name])
            given[name] = astype(x, np.result_type(x.dtype, float64))


def _covariance(given: Given) -> None:
    if given.get("dtype") is None:
        _widen(given, "m", "x", "y")


def _average(given: Given) -> None:
    if given.get("weights") is not None and asarray(given["a"]).dtype.kind in "biu":
        _widen(given, "a", "weights")


def _extreme(given: Given) -> None:
    if given.get("initial") is not None:
        given["initial"] = astype(given["initial"], asarray(given["a"]).dtype)


def _accumulate(given: Given) -> None:
    if given.get("initial") is not None:
        given["initial"] = astype(given["initial"], given.get("dtype") or sum_dtype(asarray(given["a"]).dtype))


def _mean(given: Given) -> Any:
    dtype = given.get("dtype")
    return None if dtype is None else _converting(dtype)


def _converting(dtype: DTypeLike) -> Finish:
    """Return a function that calls and converts the result."""
    return lambda call, given: astype(call(**given), dtype)


def _polyval(given: Given) -> None:
    given["p"], given["x"] = asarray(given["p"]), asarray(given["x"])


def _quantile(given: Given) -> None:
    x, q = asarray(given["a"]), given["q"]
    if q.__class__ in SCALARS:
        return
    q = asarray(q)
    given["q"] = q = q if q.dtype.kind == "f" else astype(q, float64)
    if given.get("method", "linear") not in PICKING and aval_of(x).dtype.kind in "iu":
        given["a"] = astype(x, np.result_type(x.dtype, q.dtype))


def _count(given: Given) -> None:
    """Convert coefficients, and numbers whose powers are taken, to what they have beside int64."""
    for name in given.keys() & {"p", "x"}:
        x = asarray(given[name])
        given[name] = astype(x, np.result_type(x.dtype, int64))


def _divide(given: Given) -> None:
    for name in ("u", "v"):
        if asarray(given[name]).dtype.kind in "biu":
            _widen(given, name)


def _integrate(given: Given) -> None:
    _widen(given, "p")


def _round(given: Given) -> None:
    name = "a" if "a" in given else "x"
    x = asarray(given[name])
    given[name] = astype(x, float16) if x.dtype == bool_ else x


def _sort_complex(given: Given) -> Any:
    dtype = asarray(given["a"]).dtype
    wide = dtype.kind != "c" and dtype.char not in "bhBH"
    return _converting(complex128) if wide else None


def _density(_call: Function, given: Given) -> Any:
    counts, edges = histogram(given["a"], **{k: v for k, v in given.items() if k not in ("a", "density")})
    return counts / astype(diff(edges), float64) / sum(counts), edges


CONVERSIONS: dict[str, Callable[[Given], Any]] = {
    "amax": _extreme,
    "amin": _extreme,
    "around": _round,
    "average": _average,
    "bincount": lambda given: _widen(given, "weights"),
    "corrcoef": _covariance,
    "cov": _covariance,
    "histogram": lambda given: _density if given.get("density") else None,
    "interp": lambda given: _widen(given, "x", "xp", "fp"),
    "max": _extreme,
    "mean": _mean,
    "min": _extreme,
    "nanpercentile": _quantile,
    "nanquantile": _quantile,
    "percentile": _quantile,
    "polyval": _polyval,
    "polyder": _count,
    "polydiv": _divide,
    "polyint": _integrate,
    "prod": _accumulate,
    "quantile": _quantile,
    "round": _round,
    "sort_complex": _sort_complex,
    "sum": _accumulate,
    "vander": _count,
}
