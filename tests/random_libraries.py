"""afx and JAX under one interface, for random programs: what they name otherwise, and masks whose operands are safe."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import afx
from tests.jax_settings import JAX_SETTINGS

__all__ = ["AFX", "jax_library"]

ALIVE, PADDING = np.array([True, False]), np.array([[0.0], [np.nan]])  # of the rows of a matrix


def _custom(fn: Callable[[Any], Any]) -> Any:
    return afx.custom_jvp(fn, lambda point, tangent: afx.jvp(fn, point, tangent))


def _doubled(fn: Callable[[Any], Any]) -> Any:
    """Return a function with twice its derivative, in every order."""
    found: Any = afx.custom_jvp(fn, lambda point, tangent: (fn(*point), 2 * afx.jvp(fn, point, tangent)[1]))
    return found


def _guarded(fn: Callable[[Any], Any], x: Any) -> Any:
    keep = x > 0.1234
    return afx.where(keep, fn(x), 0.3) + afx.where(keep, fn(x * keep), -0.2)


def _masked(fn: Callable[[Any], Any], rows: Any) -> Any:
    return afx.where(ALIVE[:, None], afx.vmap(fn)(rows + PADDING), 0.4)


def _masked_scan(fn: Callable[[Any, Any], Any], first: Any, rows: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return afx.where(x[1], fn(c, x[0]), c), None

    return afx.scan(step, first, (rows + PADDING, ALIVE))[0]


def _bounded_while(fn: Callable[[Any], Any], x: Any) -> Any:
    return afx.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, fn(s[1])), (0, x))[1]


def _while_far(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return what a function gives, applied as long as the result is far from 0, six times at most."""
    return afx.while_loop(
        lambda s: (s[0] < 6) & (afx.sum(s[1] ** 2) > 0.3), lambda s: (s[0] + 1, 0.8 * fn(s[1])), (0, x)
    )[1]


def _norm(x: Any, axis: int = -1) -> Any:
    return afx.vector_norm(x, axis=axis)


def _forces(x: Any) -> Any:
    """Return softened forces between the rows of a matrix."""
    d = x[None] - x[:, None]
    return (0.1 * d * (((d * d).sum(axis=-1) + 0.1) ** -1.5)[..., None]).sum(axis=1)


def _magnitude(z: Any) -> Any:
    return (z.real**2 + z.imag**2 + 1e-3) ** 0.5


AFX: Any = SimpleNamespace(
    **{name: getattr(afx, name) for name in afx.__all__ if not name.startswith("_")},
)
AFX.b = lambda v: np.array(v)
AFX.f32 = lambda v: np.asarray(v, np.float32)[()]
AFX.i64 = lambda v: np.asarray(v, np.int64)[()]
AFX.l = AFX.number = lambda v: v
for _name in ("erf", "gammaln", "digamma", "expit", "i0e", "log_ndtr", "xlogy", "xlog1py", "rel_entr", "logsumexp"):
    setattr(AFX, _name, getattr(afx.special, _name))
for _name in ("softmax", "log_softmax", "softplus"):
    setattr(AFX, _name, getattr(afx.nn, _name))
for _name in ("inv", "solve", "cholesky", "det", "slogdet", "eigvalsh", "eigh", "svdvals", "qr", "expm"):
    setattr(AFX, _name, getattr(afx.linalg, _name))
AFX.eye = lambda n: afx.eye(n, dtype=np.float64)
AFX.ones = lambda shape: afx.ones(shape, dtype=np.float64)
AFX.multiply = SimpleNamespace(outer=lambda a, b: np.multiply.outer(a, b))
AFX.fft = afx.fft
AFX.irfft_of = lambda a: afx.fft.irfft(afx.fft.rfft(a) * 0.5, 3)
AFX.int_of = lambda v: afx.astype(afx.abs(afx.floor(v)), np.int64)
AFX.multiply_of, AFX.betaln = afx.multiply, afx.special.betaln
AFX.custom, AFX.bounded_while, AFX.norm = _custom, _bounded_while, _norm
AFX.while_far = _while_far
AFX.top_of = lambda x, k: afx.top_k(x, k)[0]
AFX.zeros_of = afx.zeros_like
AFX.conv_rows = lambda x, k: afx.nn.conv(x[..., None], k[:, None, None], padding="same")[..., 0]
AFX.pool_rows = lambda x: afx.nn.max_pool(afx.pad(x, ((0, 0), (0, 1)))[..., None], 2, stride=1)[..., 0]
AFX.square_root = lambda x: (x * x + 0.3) ** 0.5
AFX.forces, AFX.magnitude = _forces, _magnitude
AFX.doubled, AFX.guarded, AFX.masked, AFX.masked_scan = _doubled, _guarded, _masked, _masked_scan


def jax_library() -> Any:
    """Return the same functions of JAX, in which all data is float64; compiled in a quarter of the usual time."""
    os.environ.update({**JAX_SETTINGS, **os.environ})
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    lib: Any = SimpleNamespace(**{name: getattr(jnp, name) for name in dir(jnp) if not name.startswith("_")})
    as64 = lambda v: jnp.asarray(np.asarray(v, np.float64))
    lib.b = lambda v: jnp.asarray(v)
    lib.f32 = lambda v: as64(np.float32(v))
    lib.i64 = lambda v: jnp.asarray(v, jnp.int64)
    lib.l, lib.number = as64, as64
    for name in ("erf", "gammaln", "digamma", "expit", "i0e", "log_ndtr", "xlogy", "xlog1py", "rel_entr", "logsumexp"):
        setattr(lib, name, getattr(jax.scipy.special, name))
    for name in ("softmax", "log_softmax", "softplus"):
        setattr(lib, name, getattr(jax.nn, name))
    for name in ("inv", "solve", "cholesky", "det", "slogdet", "eigvalsh", "eigh", "svdvals", "qr"):
        setattr(lib, name, getattr(jnp.linalg, name))
    lib.expm = jax.scipy.linalg.expm
    lib.multiply = SimpleNamespace(outer=lambda a, b: a[:, None] * b)
    lib.norm = jnp.linalg.norm
    lib.irfft_of = lambda a: jnp.fft.irfft(jnp.fft.rfft(a) * 0.5, 3)
    lib.int_of = lambda v: jnp.abs(jnp.floor(v)).astype(jnp.int64)
    for name in (
        "grad",
        "jvp",
        "vmap",
        "jit",
        "checkpoint",
        "hessian",
        "value_and_grad",
        "jacfwd",
        "jacrev",
        "linearize",
    ):
        setattr(lib, name, getattr(jax, name))
    lib.disable_jit, lib.CompilerError = jax.disable_jit, jax.errors.JaxRuntimeError
    lib.vjp, lib.multiply_of, lib.betaln = jax.vjp, jnp.multiply, jax.scipy.special.betaln
    lib.custom = lambda fn: fn
    for name in ("scan", "cond", "switch", "fori_loop"):
        setattr(lib, name, getattr(jax.lax, name))
    lib.switch = lambda i, fns, x: jax.lax.switch(i, fns, x)
    lib.bounded_while = lambda fn, x: jax.lax.fori_loop(0, 3, lambda _, c: fn(c), x)
    _add_masks(lib)
    _add_everyday(lib)
    return lib


def _add_everyday(lib: Any) -> None:
    """Add to JAX's functions what afx names otherwise, and a loop in both modes: it has no reverse mode for `while_loop`."""
    import jax

    def while_far(fn: Callable[[Any], Any], x: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            goes = s[0] & (lib.sum(s[1] ** 2) > 0.3)
            return goes, lib.where(goes, 0.8 * fn(s[1]), s[1])

        return jax.lax.fori_loop(0, 6, step, (True, x))[1]

    def pool_rows(x: Any) -> Any:
        windows = lib.stack([x, lib.pad(x, ((0, 0), (0, 1)))[:, 1:]])
        return lib.take_along_axis(windows, lib.argmax(windows, axis=0)[None], axis=0)[0]

    def conv_rows(x: Any, k: Any) -> Any:
        padded = lib.pad(x, ((0, 0), (1, 1)))
        return padded[:, :3] * k[0] + padded[:, 1:4] * k[1] + padded[:, 2:] * k[2]

    lib.while_far, lib.pool_rows, lib.conv_rows = while_far, pool_rows, conv_rows
    lib.top_of = lambda x, k: lib.sort(x)[::-1][:k]
    lib.zeros_of, lib.square_root = lib.zeros_like, lambda x: (x * x + 0.3) ** 0.5
    lib.forces, lib.magnitude = _forces, _magnitude


def _add_masks(lib: Any) -> None:
    """Add the functions of masks and rules to JAX's: its masks need operands that are safe where they are not chosen."""
    import jax

    def doubled(fn: Callable[[Any], Any]) -> Any:
        rule: Any = jax.custom_jvp(fn)
        rule.defjvp(lambda point, tangent: (rule(*point), 2 * jax.jvp(fn, point, tangent)[1]))
        return rule

    def guarded(fn: Callable[[Any], Any], x: Any) -> Any:
        keep = x > 0.1234
        z = fn(lib.where(keep, x, 1.0))
        return lib.where(keep, z, 0.3) + lib.where(keep, z, -0.2)

    def masked(fn: Callable[[Any], Any], rows: Any) -> Any:
        return lib.where(ALIVE[:, None], jax.vmap(fn)(lib.where(ALIVE[:, None], rows, 0.5)), 0.4)

    def masked_scan(fn: Callable[[Any, Any], Any], first: Any, rows: Any) -> Any:
        safe = lib.where(ALIVE[:, None], rows, 0.5)
        return jax.lax.scan(lambda c, x: (lib.where(x[1], fn(c, x[0]), c), None), first, (safe, ALIVE))[0]

    lib.doubled, lib.guarded, lib.masked, lib.masked_scan = doubled, guarded, masked, masked_scan
