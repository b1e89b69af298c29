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


def kernels(x: Any, w: Any) -> Any:
    """Return what groups of channels, wide windows and convolutions give."""
    return nn.max_pool(nn.conv(x, w, groups=3, padding="same"), (5, 1)), afx.convolve(x[0, 0, :, 0], w[0, :, 0, 0])


def counts(key: Any, x: Any) -> Any:
    """Return numbers of things, and normal ones between bounds."""
    rates = afx.exp(afx.arange(5.0, dtype=afx.float64) * x)
    chance = 1 / (1 + rates)
    return (
        afx.random.poisson(key, rates, (20, 5)),
        afx.random.binomial(key, 90, chance, (20, 5)),
        afx.random.truncated_normal(key, rates - 3, rates, (20, 5)),
    )


def halve(x: Any) -> Any:
    """Return a sum that a loop halves, whose derivative needs nothing of its steps."""
    return afx.sum(afx.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))[1])


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
    "kernels": Case(
        afx.value_and_grad(lambda *xs: afx.sum(kernels(*xs)[0] ** 2) + afx.sum(kernels(*xs)[1]), argnums=(0, 1)),
        (RNG.normal(size=(2, 10, 4, 6)), RNG.normal(size=(3, 3, 2, 3))),
    ),
    "counts": Case(counts, (afx.random.key(5), np.float64(1.7))),
    "no residuals": Case(afx.grad(halve), (VECTOR,)),
    "exponentials": Case(lambda a: (linalg.expm(a), afx.frexp(a)[1]), (SQUARE / 3,)),
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
