"""Writing into a NumPy array afterwards changes no result, whoever made it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
import afx.nn
from tests.every import together

A = np.arange(1.0, 5.0)
IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "asarray": afx.asarray,
    "reshape": lambda x: afx.reshape(x, (2, 2)),
    "reshape to itself": lambda x: afx.reshape(x, (4,)),
    "permute_dims": lambda x: afx.permute_dims(x, (0,)),
    "expand_dims": lambda x: afx.expand_dims(x, 0),
    "broadcast_to": lambda x: afx.broadcast_to(x, (2, 4)),
    "broadcast_arrays": lambda x: afx.broadcast_arrays(x, x)[0],
    "slice": lambda x: afx.asarray(x)[::-1],
    "unstack": lambda x: afx.unstack(x)[0],
    "split": lambda x: afx.split(x, 2)[1],
    "flip": afx.flip,
    "roll by nothing": lambda x: afx.roll(x, 0),
    "pad with nothing": lambda x: afx.pad(x, 0),
    "concat of one": lambda x: afx.concat([x]),
    "repeat once": lambda x: afx.repeat(x, 1),
    "tile once": lambda x: afx.tile(x, 1),
    "ravel": afx.ravel,
    "astype": lambda x: afx.astype(x, afx.float64),
    "real": afx.real,
    "conj": afx.conj,
    "positive": afx.positive,
    "sum over nothing": lambda x: afx.sum(x, axis=()),
    "max over nothing": lambda x: afx.max(x, axis=()),
    "where": lambda x: afx.where(True, x, x),
    "clip without bounds": afx.clip,
    "einsum": lambda x: afx.einsum("i->i", x),
    "meshgrid": lambda x: afx.meshgrid(x)[0],
    "stop_gradient": afx.stop_gradient,
    "atleast_1d": afx.atleast_1d,
    "trunc of integers": lambda x: afx.trunc(x.astype(np.int64) if isinstance(x, np.ndarray) else x),
}
RUNS: dict[str, Callable[[Callable[[Any], Any], np.ndarray], Any]] = {
    "plain": lambda fn, x: fn(x),
    "jit": lambda fn, x: afx.jit(fn)(x),
    "vmap": lambda fn, x: afx.vmap(fn)(x[None]),
    "jvp": lambda fn, x: afx.jvp(fn, (x,), (x,)),
    "vjp": lambda fn, x: afx.vjp(fn, x)[0],
    "linearize": lambda fn, x: afx.linearize(fn, x)[1](x),
    "checkpoint": lambda fn, x: afx.checkpoint(fn)(x),
    "aux": lambda fn, x: afx.grad(lambda v: (afx.sum(v), fn(v)), has_aux=True)(x)[1],
}


@together("run", RUNS)
@together("name", IDENTITIES)
def test_results_are_out_of_reach(run: str, name: str) -> None:
    """A result that is its argument, or a view of it, does not change with the caller's array."""
    if run == "plain" and name == "itself":
        return  # afx had no part in it
    x = A.copy()
    out = RUNS[run](IDENTITIES[name], x)
    leaves = afx.pytree.leaves(out)
    before = [np.array(v) for v in leaves]
    x[:] = 99.0
    for v, want in zip(leaves, before, strict=True):
        np.testing.assert_array_equal(np.asarray(v), want)


@together("name", IDENTITIES)
def test_pullbacks_are_out_of_reach(name: str) -> None:
    """Neither the argument nor the cotangent can be changed under a gradient that was handed out."""
    x = A.copy()
    y, pullback = afx.vjp(IDENTITIES[name], x)
    x[:] = 99.0
    if y.dtype.kind != "f":
        return
    ct = np.ones(y.shape)
    (gradient,) = pullback(ct)
    before = np.array(gradient)
    ct[...] = 99.0
    np.testing.assert_array_equal(np.asarray(gradient), before)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: x * w * x,
        lambda x, w: afx.sin(x) / w,
        lambda x, w: afx.matmul(afx.outer(x, w), x),
        lambda x, w: afx.where(w > 2, x * w, x * x),
        lambda x, w: afx.asarray(x)[np.asarray(w, int) - 1] * x,
        lambda x, w: afx.take(x, w.astype(int) - 1) ** 2,
        lambda x, w: afx.concat([x * w, x]),
        lambda x, w: afx.asarray(x).at[1:3].multiply(w[1:3]) * x,
        lambda x, w: afx.hypot(x, w) * afx.logaddexp(x, w),
        lambda x, w: afx.correlate(x, w[:2]) ** 2,
        lambda x, w: afx.pow(x, w),
        lambda x, w: afx.einsum("i,j->ij", x, w) ** 2,
        lambda x, w: afx.jit(lambda v: v * w * v)(x),
        lambda x, w: afx.jit(lambda v, u: v * u * v)(x, w),
        lambda x, w: afx.vmap(lambda v, u: v * u * v)(x, w),
        lambda x, w: afx.scan(lambda c, u: (c * u[0] * u[1], c), afx.sum(x), (w, x))[0],
        lambda x, w: afx.cond(True, lambda v: v * w * v, lambda v: v, x),
        lambda x, w: afx.fori_loop(0, 3, lambda _, c: c * w, x),
        lambda x, w: afx.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * w), (0, x))[1],
        lambda x, w: afx.checkpoint(lambda v, u: v * u * v)(x, w),
        lambda x, w: afx.grad(lambda v: afx.sum(v**3 * w))(x),
    ],
)
def test_between_forward_and_backward(fn: Callable[..., Any]) -> None:
    """Whatever op reads them, arguments and closures count with the values they had."""

    def run(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Any]:
        out, pullback = afx.vjp(lambda v: fn(v, w), x)
        return np.ones(out.shape), pullback

    ones, pullback = run(A.copy(), A.copy())
    want = np.asarray(pullback(ones)[0])
    x, w = A.copy(), A.copy()
    ones, pullback = run(x, w)
    x[:] = 50.0
    w[:] = 60.0
    np.testing.assert_array_equal(np.asarray(pullback(ones)[0]), want)


def test_foreign_memory_that_only_looks_constant() -> None:
    """A read-only view of an array that others can write to, and a buffer of bytes, are copied."""
    source = A.copy()
    view = source[:]
    view.flags.writeable = False
    data = bytearray(A.tobytes())
    found = [afx.asarray(view), afx.asarray(np.frombuffer(data)), afx.grad(lambda x: afx.sum(x * view))(A)]
    source[:] = 99.0
    data[:] = bytes(len(data))
    assert [v.tolist() for v in found] == [A.tolist()] * 3


def test_views_cannot_be_made_writable() -> None:
    """``np.asarray`` of an Array, a result or a gradient stays read-only, whatever is tried."""
    for x in (afx.asarray(A), afx.jit(lambda v: v * 2)(A), afx.grad(lambda v: afx.sum(v * v))(A)):
        view = np.asarray(x)
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0
        base = view.base
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            base = base.base


def test_captured_constants_of_compiled_functions() -> None:
    """A compiled function keeps the constants with which it was traced."""
    w = np.array([2.0])
    fn = afx.jit(lambda x: x * w)
    fn(np.ones(1))
    w[:] = 7.0
    assert fn(np.ones(1)).tolist() == [2.0]


@pytest.mark.parametrize("parts", [lambda y: afx.split(y, 2), lambda y: afx.unstack(afx.reshape(y, (2, 4)))])
def test_parts_of_a_value_in_a_plan(parts: Callable[[Any], Any]) -> None:
    """Parts of a value keep it alive while a plan runs, and as results are not overwritten by the next call."""
    matrix = np.random.default_rng(0).normal(size=(8, 8))

    def fn(x: Any) -> Any:
        a, b = parts(afx.matmul(matrix, x))
        z = afx.matmul(matrix, x + 1)
        return a, b, a * z[:4] + b * z[4:]

    compiled, x = afx.jit(fn), np.arange(8.0)
    first = compiled(x)
    compiled(x * 3)
    for found, want in zip(first, fn(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-13)


def test_reading_a_result_leaves_the_callers_array_writable() -> None:
    """A result never marks the caller's array read-only, because it never is that array."""
    for fn in IDENTITIES.values():
        x = A.copy()
        for leaf in afx.pytree.leaves(afx.jit(fn)(x)):
            assert not np.shares_memory(np.asarray(leaf), x)
        assert x.flags.writeable
