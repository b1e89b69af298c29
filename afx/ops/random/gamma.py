"""Gamma sampler: rejection (Marsaglia & Tsang 2000), with derivatives of quantiles by the shape."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.primitive import Derivative, Params, Primitive, Sampling, Value, register
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.errors import ArgumentError
from afx.ops._kinds.special import parametric
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import where
from afx.ops.random.bits import Stream, batch_draw, check_key, check_real, draw_each
from afx.ops.random.philox import BOOST
from afx.ops.random.uniform_family import drawn
from afx.ops.special import _gamma
from afx.ops.special._quadrature import double

__all__: list[str] = []


def random_gamma(key: ArrayLike, a: ArrayLike, shape: Shape, dtype: DType, logarithm: bool = False) -> Array:
    """Return gamma numbers of shape a and scale 1, or their logarithms: float[*keys, *shape].

    The derivative by a is that of the quantile at the same probability (Figurnov, Mohamed & Mnih 2018): an expectation
    over draws has the mean of these derivatives as its own.

    Raises:
        ArgumentError: a shape is 0 or less.
    """
    return bind_single(random_gamma_p, key, a, shape=shape, dtype=dtype, logarithm=logarithm)


def _gamma_run(key: Any, a: Any, *, shape: Shape, dtype: DType, logarithm: bool) -> Any:
    check_key(key, "gamma")
    check_real("gamma", a)
    if not np.all(np.asarray(a) > 0) or not np.all(np.isfinite(a)):
        raise ArgumentError(f"gamma: shapes are finite and above 0: got {np.min(a)} as the least; change it")
    z = draw_each(key, shape, (a,), _log_gamma if logarithm else _gamma_number)
    return z.astype(dtype)


def _log_gamma(stream: Stream, a: Any) -> Any:
    d, v = _cube(stream, a)
    return np.log(d) + 3 * np.log(v) - _boost(stream, a)


def _gamma_number(stream: Stream, a: Any) -> Any:
    d, v = _cube(stream, a)
    return d * v**3 * np.exp(-_boost(stream, a))


def _cube(stream: Stream, a: Any) -> tuple[Any, Any]:
    """Return d and v such that ``d v³`` is a gamma number of shape a, or a + 1 where a is below 1."""
    d = cast(Any, np.where(a < 1, a + 1, a)) - 1 / 3
    return d, stream.until(_propose, d)


def _propose(first: Any, second: Any, d: Any) -> tuple[Any, Any]:
    x = drawn("normal", first)
    v = 1 + x / (3 * np.sqrt(d))
    cube = np.maximum(v, 1e-100) ** 3
    return v, (v > 0) & (-drawn("exponential", second) < x * x / 2 + d * (1 - cube + np.log(cube)))


def _boost(stream: Stream, a: Any) -> Any:
    """Return ``-log(U) / a`` for shapes below 1: a gamma number of shape a + 1 times ``U ** (1 / a)`` has shape a."""
    out = np.zeros_like(a)
    small = np.flatnonzero(a < 1)
    out[small] = drawn("exponential", stream.pairs(small, 0, BOOST)[0]) / a[small]
    return out


def _gamma_abstract(key: Aval, a: Aval, *, shape: Shape, dtype: DType, logarithm: bool) -> Aval:
    check_key(key, "gamma")
    check_real("gamma", a)
    return Aval(key.shape[:-1] + shape, dtype)


def _slope(z: Value, a: Value, logarithm: bool) -> Value:
    if logarithm:
        return to_lower_level(gamma_flow(a, z))
    some = z > 0  # a number that underflows stays where it is
    return to_lower_level(z * gamma_flow(a, where(some, log(where(some, z, 1.0)), 0.0)))


def _gamma_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    return to_lower_level(ct * _slope(z, xs[1], params["logarithm"]))


def _gamma_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    return to_lower_level(ts[1] * _slope(z, xs[1], params["logarithm"]))


random_gamma_p: Primitive = register(
    Primitive(
        name="random_gamma",
        kind="custom",
        impl=_gamma_run,
        abstract_eval=_gamma_abstract,
        batch=batch_draw("random_gamma"),
        derivative=Derivative(vjps=(_gamma_pull, _gamma_pull), reads=(0, 1 | 4), jvp=_gamma_push),
        sampling=Sampling(smooth=False),
    )
)


def gamma_flow(a: ArrayLike, y: ArrayLike, order: int = 0) -> Array:
    """Return how the logarithm y of a gamma number of shape a moves with a at a fixed probability.

    Args:
        a: shapes.
        y: logarithms.
        order: how many more derivatives by a are taken of that, where y stays.
    """
    return bind_single(gamma_flow_p, a, y, order=order)


def _vectors(fn: Any) -> Any:
    """Return a function of an order and two flat vectors as one of arrays."""

    def compute(a: Any, y: Any, *, order: int) -> Any:
        return fn(order, a.reshape(-1), y.reshape(-1)).reshape(a.shape)

    return double(compute)


def _by_shape(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return gamma_flow(a, y, order + 1)


def _by_logarithm(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return bind_single(gamma_flow_by_logarithm_p, a, y, order=order)


gamma_flow_p: Primitive = parametric(
    "gamma_flow", _vectors(_gamma.flow), (_by_shape, _by_logarithm), {"order": 0}, domain=(0.5, 3.0)
)


def _then_by_logarithm(z: Array, a: Array, y: Array, *, order: int) -> Array:
    x = exp(y)
    slope: Array = x * gamma_flow(a, y, order) - (a - x) * z
    return slope - order * bind_single(gamma_flow_by_logarithm_p, a, y, order=order - 1) if order else slope - 1


def _then_by_shape(_z: Array, a: Array, y: Array, *, order: int) -> Array:
    return bind_single(gamma_flow_by_logarithm_p, a, y, order=order + 1)


gamma_flow_by_logarithm_p: Primitive = parametric(
    "gamma_flow_by_logarithm",
    _vectors(_gamma.flow_by_logarithm),
    (_then_by_shape, _then_by_logarithm),
    {"order": 0},
    domain=(0.5, 3.0),
)
