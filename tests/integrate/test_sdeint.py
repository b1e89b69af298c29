"""`sdeint` follows Brownian paths that are functions of a key, with the strong orders of its methods and derivatives."""

from typing import Any

import numpy as np
import pytest

import afx
from afx.integrate import sdeint
from afx.integrate.sdeint import increments

KEY = afx.random.key(3)
KEYS = afx.random.split(KEY, 300)
RATE, SPREAD = 0.5, 0.8


def growth(key: Any, substeps: int, method: Any, rate: Any = RATE, spread: Any = SPREAD, form: str = "ito") -> Any:
    """Return the end of geometric Brownian motion, and of the motion that drives it."""
    options: Any = {"key": key, "substeps": substeps, "method": method, "form": form}
    walk = sdeint(lambda t, y: rate * y, lambda t, y: spread * y, np.ones(1), [0.0, 1.0], **options)
    return walk.ys[-1, 0], walk.path[-1, 0]


def order_of(errors: list[float]) -> float:
    """Return the order of errors at steps of a quarter of the size."""
    return float(np.log2(errors[0] / errors[-1])) / 2


@pytest.mark.parametrize(("method", "order"), [("euler_maruyama", 0.5), ("milstein", 1.0), ("sriw1", 1.5)])
def test_strong_orders_for_diagonal_noise(method: Any, order: float) -> None:
    """Each path of geometric Brownian motion comes near its closed form with the order of the method."""
    errors: list[float] = []
    for substeps in (16, 64):
        y, w = afx.jit(afx.vmap(lambda key, n=substeps: growth(key, n, method)))(KEYS)
        exact = np.exp((RATE - SPREAD**2 / 2) + SPREAD * np.asarray(w))
        errors.append(float(np.sqrt(np.mean((np.asarray(y) - exact) ** 2))))
    assert order - 0.2 < order_of(errors) < order + 0.4


METHODS = [("euler_maruyama", 0.5), ("milstein", 1.0), ("sriw1", 1.5), ("heun", 1.0)]


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_strong_orders_in_the_form_of_stratonovich(method: Any, order: float) -> None:
    """Its geometric Brownian motion has no second-order term in the closed form; every method keeps its order there."""
    errors: list[float] = []
    for substeps in (16, 64):
        y, w = afx.jit(afx.vmap(lambda key, n=substeps: growth(key, n, method, form="stratonovich")))(KEYS)
        errors.append(float(np.sqrt(np.mean((np.asarray(y) - np.exp(RATE + SPREAD * np.asarray(w))) ** 2))))
    assert order - 0.2 < order_of(errors) < order + 0.4


@pytest.mark.parametrize(
    ("method", "form"), [("heun", "stratonovich"), ("heun", "ito"), ("euler_maruyama", "stratonovich")]
)
def test_noises_that_turn_the_state(method: Any, form: Any) -> None:
    """A shared noise that rotates the plane keeps its lengths in Stratonovich's form, and lets them grow in Itô's."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])

    def end(key: Any) -> Any:
        options: Any = {"key": key, "substeps": 256, "method": method, "noise": "general", "form": form}
        walk = sdeint(lambda t, y: 0 * y, lambda t, y: (turn @ y)[:, None], np.array([1.0, 0.0]), [0.0, 1.0], **options)
        return walk.ys[-1], walk.path[-1, 0]

    ys, w = afx.jit(afx.vmap(end))(KEYS[:50])
    angle = np.asarray(w)
    length = np.exp(0.5) if form == "ito" else 1.0
    want = length * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    assert float(np.sqrt(np.mean((np.asarray(ys) - want) ** 2))) < (0.1 if method == "euler_maruyama" else 0.01)


@pytest.mark.parametrize(("method", "order"), [("euler_maruyama", 1.0), ("sra1", 1.5)])
def test_strong_orders_for_additive_noise(method: Any, order: float) -> None:
    """Noise that several elements share and that grows with time: paths come near those of far smaller steps."""
    shares = np.array([[1.0, 0.5, 0.0], [0.0, 0.3, 0.2]])

    def end(key: Any, substeps: int, method: Any) -> Any:
        options: Any = {"key": key, "substeps": substeps, "method": method, "noise": "general"}
        return sdeint(
            lambda t, y: afx.sin(y) - y[::-1], lambda t, y: (1 + t) * shares, np.ones(2), [0.0, 1.0], **options
        ).ys[-1]

    def run(substeps: int, method: Any) -> Any:
        return np.asarray(afx.jit(afx.vmap(lambda key: end(key, substeps, method)))(KEYS[:100]))

    want = run(256, "sra1")
    errors = [float(np.sqrt(np.mean((run(n, method) - want) ** 2))) for n in (8, 32)]
    assert order_of(errors) == pytest.approx(order, abs=0.4)


def test_paths_are_functions_of_their_key() -> None:
    """Twice as many steps follow the same motion; changes and means have the moments of Brownian motion."""
    few, many = increments(KEY, afx.asarray(np.float64(0.25)), 6, 3), increments(KEY, np.float64(0.125), 12, 3)
    change = np.asarray(many.change).reshape(6, 2, 3)
    mean = np.asarray(many.mean).reshape(6, 2, 3)
    np.testing.assert_allclose(few.change, change.sum(axis=1), atol=1e-15)
    np.testing.assert_allclose(few.mean, (mean[:, 0] + change[:, 0] + mean[:, 1]) / 2, atol=1e-15)
    steps = increments(KEY, afx.asarray(np.float64(0.5)), 4096, 8)
    w, m = np.asarray(steps.change), np.asarray(steps.mean)
    found = [w.var(), m.var(), (w * m).mean(), (w[1:] * w[:-1]).mean(), (m[1:] * w[:-1]).mean()]
    np.testing.assert_allclose(found, [1 / 2, 1 / 6, 1 / 4, 0.0, 0.0], atol=0.015)


def test_laws_of_the_ornstein_uhlenbeck_process() -> None:
    """Mean and variance at each time are those of the closed form, for states that are trees."""

    def paths(key: Any) -> Any:
        start, options = {"x": np.float64(2.0)}, {"key": key, "substeps": 8}
        drift, diffusion = lambda t, y: {"x": -y["x"]}, lambda t, y: {"x": 0.5 + 0 * y["x"]}  # of trees
        return sdeint(drift, diffusion, start, [0.0, 0.5, 0.5, 2.0], method="sra1", **options).ys["x"]

    xs = np.asarray(afx.jit(afx.vmap(paths))(afx.random.split(KEY, 4000)))
    ts = np.array([0.0, 0.5, 0.5, 2.0])
    np.testing.assert_allclose(xs.mean(axis=0), 2 * np.exp(-ts), atol=0.02)
    np.testing.assert_allclose(xs.var(axis=0), 0.125 * (1 - np.exp(-2 * ts)), atol=0.008)
    np.testing.assert_array_equal(xs[:, 1], xs[:, 2])


@pytest.mark.parametrize("method", ["milstein", "sriw1", "heun"])
def test_derivatives_along_a_path(method: Any) -> None:
    """The derivatives by drift and diffusion are those of a small change on the same path, in both modes and compiled."""

    def end(rate: Any, spread: Any) -> Any:
        return growth(KEY, 16, method, rate, spread)[0]

    at, h = (np.float64(RATE), np.float64(SPREAD)), 1e-6
    want = [
        float(end(RATE + h, SPREAD) - end(RATE - h, SPREAD)) / (2 * h),
        float(end(RATE, SPREAD + h) - end(RATE, SPREAD - h)) / (2 * h),
    ]
    slopes = afx.grad(end, argnums=(0, 1))
    for found in (slopes(*at), afx.jit(slopes)(*at), afx.jacfwd(end, argnums=(0, 1))(*at)):
        np.testing.assert_allclose(found, want, rtol=1e-7)


def test_eager_and_compiled_paths_are_the_same() -> None:
    """A path has the same bits eager and compiled, and the whole of it has a native form."""
    compiled = afx.jit(lambda key: growth(key, 16, "sriw1")[0])
    assert float(compiled(KEY)) == float(growth(KEY, 16, "sriw1")[0])
    assert [why for _, why in compiled.lower(KEY).native if why] == []


def test_wrong_use_is_named() -> None:
    """Mistakes raise before the first step."""

    def run(ts: Any = (0.0, 1.0), diffusion: Any = lambda t, y: y, **options: Any) -> Any:
        return sdeint(lambda t, y: -y, diffusion, np.ones(2), ts, key=KEY, **({"substeps": 2} | options))

    for message, options in {
        "no such method": {"method": "midpoint"},
        "no such form": {"form": "strato"},
        "no such noise": {"noise": "scalar"},
        "for diagonal noise": {"method": "milstein", "noise": "general"},
        "substeps is a whole number from 1 on: got 0": {"substeps": 0},
        "got 4.0": {"substeps": 4.0},
        "times ascend": {"ts": [1.0, 0.0]},
    }.items():
        with pytest.raises(afx.errors.ArgumentError, match=message):
            run(**options)
    with pytest.raises(afx.errors.ShapeError, match="as many elements"):
        run(diffusion=lambda t, y: y[:1])
    noises: list[Any] = [lambda t, y: y, lambda t, y: y[:, None, None], lambda t, y: 1.0]  # a vector is no matrix
    for noisy in noises:
        with pytest.raises(afx.errors.ShapeError, match=r"float\[elements of y, noises\]"):
            run(diffusion=noisy, noise="general")
    assert run(substeps=np.int64(2)).ys.shape == (2, 2)
