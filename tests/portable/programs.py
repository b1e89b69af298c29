"""Programs whose results have the same bits on every processor: functions, networks, loops, systems, draws, with gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import afx
from afx import linalg, nn

RNG = np.random.default_rng(0)
VECTOR, MATRIX = RNG.normal(size=37), RNG.normal(size=(9, 6))
SQUARE = MATRIX[:6] @ MATRIX[:6].T + 6 * np.eye(6)


class Case(NamedTuple):
    """A function and its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]


def network(w: Any, x: Any) -> Any:
    """Return the loss of a small network."""
    return afx.mean((nn.gelu(nn.softmax(afx.tanh(x @ w) @ w.T)) - x) ** 2)


def swing(rate: Any) -> Any:
    """Return the energy of a pendulum after some steps."""

    def step(state: Any, _: Any) -> Any:
        angle, speed = state
        speed = speed - 0.05 * rate * afx.sin(angle)
        return (angle + 0.05 * speed, speed), afx.cos(angle)

    (angle, speed), heights = afx.scan(step, (afx.asarray(1.0) * rate, 0.0 * rate), None, length=60)
    return speed**2 / 2 + afx.cos(angle) + afx.mean(heights)


def elementary(x: Any) -> Any:
    """Return sums of elementary functions."""
    size = afx.abs(x) + 0.1
    first = afx.exp(x) + afx.exp2(x) + afx.expm1(x) + afx.sinh(x) + afx.cosh(x) + afx.tanh(x) + nn.softplus(x)
    second = (
        afx.log(size) + afx.log1p(size) + afx.log2(size) + afx.log10(size) + afx.cbrt(x) + size**x + afx.hypot(x, 2.0)
    )
    third = afx.sin(x) + afx.cos(99 * x) + afx.tan(x) + afx.arctan(x) + afx.arctan2(x, size) + afx.arcsinh(x)
    return first + second + third + afx.arcsin(x / 9) + afx.arccos(x / 9) + afx.arccosh(1 + size) + afx.arctanh(x / 9)


def systems(a: Any) -> Any:
    """Return what solves systems."""
    lower = linalg.cholesky(a)
    return afx.sum(linalg.solve(a, a[0])) + afx.sum(linalg.inv(a) * lower)


def factors(a: Any) -> Any:
    """Return factorizations, eigenvalues and singular values, of vectors the sizes: LAPACK's have other signs."""
    vectors = linalg.eigh(a)[1], linalg.svd(a[:4], full_matrices=False)
    return linalg.qr(a), linalg.eigvalsh(a), afx.pytree.map(afx.abs, vectors), linalg.slogdet(a)


def spectra(x: Any) -> Any:
    """Return what is made of Fourier transforms of two lengths, one of them prime."""
    return afx.fft.irfft(afx.fft.rfft(x), len(x)), afx.fft.rfft(x[:30]).imag


CASES: dict[str, Case] = {
    "elementary": Case(elementary, (VECTOR,)),
    "elementary in float32": Case(elementary, (VECTOR.astype(np.float32),)),
    "gradient of elementary": Case(afx.grad(lambda x: afx.sum(elementary(x))), (VECTOR,)),
    "network": Case(afx.value_and_grad(network), (MATRIX.T.copy(), MATRIX)),
    "network in float32": Case(
        afx.value_and_grad(network), (MATRIX.T.astype(np.float32).copy(), MATRIX.astype(np.float32))
    ),
    "loop": Case(afx.value_and_grad(swing), (np.float64(1.1),)),
    "factors": Case(factors, (SQUARE,)),
    "gradient of factors": Case(
        afx.grad(lambda a: afx.sum(linalg.eigh(a)[1] ** 4) + linalg.slogdet(a)[1] + afx.sum(linalg.qr(a)[0])), (SQUARE,)
    ),
    "orders": Case(lambda x: (afx.sort(x), afx.argsort(x), afx.median(x)), (RNG.normal(size=701).round(2),)),
    "spectra": Case(spectra, (RNG.normal(size=67),)),
    "systems": Case(afx.value_and_grad(systems), (SQUARE,)),
    "sums": Case(
        lambda x: (afx.sum(x), afx.var(x), afx.cumsum(x), afx.logsumexp(x), afx.max(x)),
        (RNG.normal(size=10_007).astype(np.float32),),
    ),
    "draws": Case(
        lambda key, x: x + afx.random.normal(key, (50,)) * afx.random.uniform(afx.random.split(key)[1], (50,)),
        (afx.random.key(3), np.float64(0.5)),
    ),
    "indices": Case(afx.grad(lambda x: afx.sum(x[afx.asarray([3, 1, 3])] ** 3)), (VECTOR,)),
}


def digest(results: Sequence[Any]) -> str:
    """Return the BLAKE2 digest of results' bits."""
    total = hashlib.blake2b(digest_size=16)
    for x in results:
        array = np.ascontiguousarray(x)
        total.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return total.hexdigest()
