"""Derivatives by complex numbers: holomorphic functions, real functions of complex numbers, and what is refused."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, fft, linalg
from tests.every import together

EPS = 1e-6
RNG = np.random.default_rng(11)
Z = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + 3 * np.eye(3)
W = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))

HOLOMORPHIC: dict[str, Callable[[Any], Array]] = {
    "cube": lambda z: afx.sum(z**3),
    "power": lambda z: afx.sum(z ** (0.5 + 1j)),
    "exp": lambda z: afx.sum(afx.exp(z) * W),
    "log": lambda z: afx.sum(afx.log(z)),
    "sin": lambda z: afx.sum(afx.sin(z) / z),
    "tanh": lambda z: afx.sum(afx.tanh(z) * W),
    "sqrt": lambda z: afx.sum(afx.sqrt(z)),
    "matmul": lambda z: afx.sum(z @ W @ z),
    "solve": lambda z: afx.sum(linalg.solve(z, W)),
    "inverse": lambda z: afx.sum(linalg.inv(z) @ W),
    "determinant": lambda z: linalg.det(z),
    "fft": lambda z: afx.sum(fft.ifft(fft.fft(z) ** 2) * W),
    "einsum": lambda z: afx.einsum("ij,jk,ki->", z, W, z),
    "product": lambda z: afx.prod(z) + afx.sum(afx.cumulative_prod(z, axis=0)),
    "scan": lambda z: afx.scan(lambda c, x: (c * x, c), z[0, 0], z[1])[0],
}
# The gradient of a real function of z = x + iy is ∂f/∂x - i ∂f/∂y.
REAL: dict[str, tuple[Callable[[Any], Array], Callable[[Any], Any]]] = {
    "square": (lambda z: afx.sum(afx.abs(z) ** 2), lambda z: 2 * np.conj(z)),
    "conjugate": (lambda z: afx.sum(afx.real(afx.conj(z) * z)), lambda z: 2 * np.conj(z)),
    "abs": (lambda z: afx.sum(afx.abs(z)), lambda z: np.conj(z) / np.abs(z)),
    "real": (lambda z: afx.sum(afx.real(z)), np.ones_like),
    "imag": (lambda z: afx.sum(afx.imag(z)), lambda z: np.full_like(z, -1j)),
    "angle": (lambda z: afx.sum(afx.angle(z)), lambda z: -1j / z),
    "real part": (lambda z: afx.real(afx.sum(z**3)), lambda z: 3 * z**2),
    "log of abs": (lambda z: afx.sum(afx.log(afx.abs(z))), lambda z: 1 / z),
    "norm": (lambda z: afx.vector_norm(z), lambda z: np.conj(z) / np.linalg.norm(z)),
    "variance": (lambda z: afx.var(z), lambda z: 2 * np.conj(z - z.mean()) / z.size),
}


@together("fn", HOLOMORPHIC.values(), ids=HOLOMORPHIC.keys())
def test_complex_derivative(fn: Callable[[Any], Array]) -> None:
    """The gradient of a holomorphic function tells the difference in every complex direction, in every mode."""
    t = RNG.normal(size=Z.shape) + 1j * RNG.normal(size=Z.shape)
    difference = (complex(fn(Z + EPS * t)) - complex(fn(Z - EPS * t))) / (2 * EPS)
    for run in (fn, afx.jit(fn)):
        for slope in (afx.grad(run, holomorphic=True), afx.jacrev(run, holomorphic=True)):
            assert complex(np.sum(np.asarray(slope(Z)) * t)) == pytest.approx(difference, rel=1e-7)
    compiled = afx.jit(afx.grad(fn, holomorphic=True))(Z)
    np.testing.assert_allclose(np.asarray(compiled), np.asarray(afx.grad(fn, holomorphic=True)(Z)), rtol=1e-11)
    assert complex(afx.jvp(fn, (Z,), (t,))[1]) == pytest.approx(difference, rel=1e-7)


@together("fn", HOLOMORPHIC.values(), ids=HOLOMORPHIC.keys())
def test_complex_second_derivative(fn: Callable[[Any], Array]) -> None:
    """The Hessian of a holomorphic function tells the difference of its gradient."""
    t = RNG.normal(size=Z.shape) + 1j * RNG.normal(size=Z.shape)
    slope = afx.grad(fn, holomorphic=True)
    difference = (np.asarray(slope(Z + EPS * t)) - np.asarray(slope(Z - EPS * t))) / (2 * EPS)
    found = np.asarray(afx.hessian(fn, holomorphic=True)(Z))
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", found, t), difference, rtol=1e-6, atol=1e-7)


@together(("fn", "gradient"), REAL.values(), ids=REAL.keys())
def test_gradient_of_real_functions(fn: Callable[[Any], Array], gradient: Callable[[Any], Any]) -> None:
    """The gradient of a real function of z = x + iy is ∂f/∂x - i·∂f/∂y, plain and compiled."""
    for found in (afx.grad(fn)(Z), afx.jit(afx.grad(fn))(Z), afx.grad(afx.jit(fn))(Z), afx.jacrev(fn)(Z)):
        np.testing.assert_allclose(np.asarray(found), gradient(Z), rtol=1e-12)
    t = RNG.normal(size=Z.shape) + 1j * RNG.normal(size=Z.shape)
    slopes = [np.asarray(afx.grad(fn)(Z + s * EPS * t)) for s in (1, -1)]
    second = np.asarray(afx.hvp(fn, (Z,), (t,)))
    np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * EPS), rtol=1e-6, atol=1e-7)


def test_conjugate_is_the_direction_of_steepest_ascent() -> None:
    """A step against the conjugate of the gradient goes down; real least squares are solved so."""
    b = RNG.normal(size=3) + 1j * RNG.normal(size=3)

    def loss(z: Array) -> Array:
        return afx.sum(afx.abs(Z @ z - b) ** 2)

    z = afx.asarray(np.zeros(3, np.complex128))
    for _ in range(2000):
        z = z - 0.02 * afx.conj(afx.grad(loss)(z))
    np.testing.assert_allclose(np.asarray(z), np.linalg.solve(Z, b), rtol=1e-6)


def test_pullbacks_do_not_conjugate() -> None:
    """A pullback multiplies by the derivative of a holomorphic op; that of ``conj`` conjugates."""
    ct = afx.asarray(W)
    for fn, want in ((lambda z: z**3, 3 * Z**2 * W), (afx.conj, np.conj(W)), (lambda z: 1j * z, 1j * W)):
        np.testing.assert_allclose(np.asarray(afx.vjp(fn, Z)[1](ct)[0]), want, rtol=1e-12)
    for part, want in ((afx.real, W.real), (afx.imag, -1j * W.real)):
        np.testing.assert_allclose(np.asarray(afx.vjp(part, Z)[1](afx.asarray(W.real))[0]), want)


def test_real_parameters_have_real_gradients() -> None:
    """Through complex intermediate values a real parameter's gradient is real and right."""

    def fn(phase: Any) -> Array:
        return afx.real(afx.sum(afx.exp(1j * phase * np.arange(1, 4)) * W[0]))

    x = 0.7
    found = afx.grad(fn)(afx.asarray(np.float64(x)))
    assert found.dtype == np.float64
    assert float(found) == pytest.approx((float(fn(x + EPS)) - float(fn(x - EPS))) / (2 * EPS), rel=1e-7)


@attrs.frozen
class Pole:
    """A pole of a rational function."""

    place: Any
    residue: Any


def test_trees_and_batches() -> None:
    """Holomorphic gradients come in the type of the parameters, beside aux values, under vmap, by position and name."""

    def fn(pole: Pole, z: Any) -> Array:
        value: Array = pole.residue / (z - pole.place)
        return value

    pole = Pole(afx.asarray(W[0, 0]), afx.asarray(W[0, 1]))
    found = afx.vmap(afx.grad(fn, holomorphic=True), (None, 0))(pole, Z[0])
    assert isinstance(found, Pole)
    np.testing.assert_allclose(np.asarray(found.residue), 1 / (Z[0] - W[0, 0]))
    np.testing.assert_allclose(np.asarray(found.place), W[0, 1] / (Z[0] - W[0, 0]) ** 2)
    z = afx.asarray(Z[0, 0])
    ((value, aux), slope) = afx.value_and_grad(lambda z: (z**2, "kept"), has_aux=True, holomorphic=True)(z)
    assert (complex(value), aux, complex(slope)) == (complex(z**2), "kept", complex(2 * z))
    by_name = afx.grad(fn, argnames="z", holomorphic=True)(pole, z=z)
    assert complex(by_name["z"]) == pytest.approx(complex(-pole.residue / (z - pole.place) ** 2))


def test_jacobians_of_real_and_complex() -> None:
    """Forward mode takes real arguments to complex results, reverse mode complex arguments to real results."""
    x = Z.real[0]
    np.testing.assert_allclose(np.asarray(afx.jacfwd(lambda x: afx.exp(1j * x))(x)), np.diag(1j * np.exp(1j * x)))
    found = afx.jacrev(lambda z: afx.abs(z) ** 2)(Z[0])
    np.testing.assert_allclose(np.asarray(found), np.diag(2 * np.conj(Z[0])), rtol=1e-12)
    for mode in (afx.jacfwd, afx.jacrev):
        found = mode(lambda z: z[::-1] ** 2, holomorphic=True)(Z[0])
        np.testing.assert_allclose(np.asarray(found), np.diag(2 * Z[0])[::-1], rtol=1e-12, atol=1e-12)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "complex result": (lambda: afx.grad(lambda z: z**2)(1.0 + 1j), "must return a real number.*holomorphic=True"),
    "real argument": (lambda: afx.grad(lambda x: x * 1j, holomorphic=True)(1.0), "by complex numbers: got.*float32"),
    "real leaf": (
        lambda: afx.grad(lambda p: p.place * p.residue, holomorphic=True)(Pole(1j, 2.0)),
        r"argument 0\.residue = float32",
    ),
    "real result": (lambda: afx.grad(afx.abs, holomorphic=True)(1j), "is no holomorphic function.*leave holomorphic="),
    "forward, complex argument": (lambda: afx.jacfwd(afx.abs)(Z[0]), "complex argument needs two.*jacrev"),
    "reverse, complex result": (lambda: afx.jacrev(lambda x: x * 1j)(Z[0]), "complex result needs two.*jacfwd"),
    "forward, real argument": (lambda: afx.jacfwd(afx.exp, holomorphic=True)(Z.real), "by complex numbers"),
    "reverse, real argument": (lambda: afx.jacrev(afx.exp, holomorphic=True)(Z.real), "by complex numbers"),
    "forward, real result": (lambda: afx.jacfwd(afx.abs, holomorphic=True)(Z[0]), "have complex results"),
    "reverse, real result": (lambda: afx.jacrev(afx.abs, holomorphic=True)(Z[0]), "have complex results"),
    "second derivative": (lambda: afx.hessian(lambda z: afx.sum(afx.abs(z)))(Z[0]), "complex argument needs two"),
}


@together(("run", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_half_derivatives_are_refused(run: Callable[[], Any], words: str) -> None:
    """Where one complex number would not tell the derivative, the error says which function does."""
    with pytest.raises(afx.errors.DtypeError, match=words):
        run()


def test_sign_turns_with_its_operand() -> None:
    """``x / |x|`` moves at right angles to x, and is 0 with derivative 0 at 0."""
    x, t, h = np.array([1 + 2j, -3j]), np.array([0.3 - 0.2j, 1 + 1j]), 1e-6
    difference = (np.sign(x + h * t) - np.sign(x - h * t)) / (2 * h)
    np.testing.assert_allclose(afx.jvp(afx.sign, (x,), (t,))[1], difference, rtol=1e-8, atol=1e-9)
    assert afx.grad(lambda z: afx.real(afx.sign(z)))(np.complex128(0)) == 0
    zero = np.asarray(afx.sign(np.array([complex(-0.0, -0.0)])))
    assert not np.signbit([zero.real, zero.imag]).any()
