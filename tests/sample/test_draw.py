"""Draws follow the density, go on where they stopped, and are the same bits however they are computed."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import io, sample
from afx.errors import ArgumentError, ShapeError

COVARIANCE = np.array([[1.0, 1.2], [1.2, 4.0]])
PRECISION = np.linalg.inv(COVARIANCE)
MEAN = np.array([1.0, -2.0])


def correlated(x: Any) -> Any:
    """Return the logarithm of a normal density with a correlation of 0.6."""
    return -0.5 * afx.vecdot(x - MEAN, PRECISION @ (x - MEAN))


@pytest.mark.parametrize(
    ("kind", "mass"),
    [("nuts", "diagonal"), ("nuts", "dense"), ("hmc", "diagonal")],
)
def test_draws_have_the_moments_of_a_normal_density(kind: str, mass: Any) -> None:
    """Means, variances and the correlation of a normal density are found, with either mass matrix."""
    sampler: Any = sample.nuts(correlated) if kind == "nuts" else sample.hmc(correlated, leaps=6)
    draws = sample.draw(sampler, afx.random.key(1), np.zeros(2), draws=400, warmup=100, mass=mass)
    assert draws.params.shape == (4, 400, 2)
    x = np.asarray(draws.params).reshape(-1, 2)
    np.testing.assert_allclose(x.mean(axis=0), MEAN, atol=0.25)
    np.testing.assert_allclose(np.cov(x.T), COVARIANCE, rtol=0.25)
    assert not np.any(draws.diverged)
    assert 0.7 < float(afx.mean(draws.acceptance)) < 0.99
    np.testing.assert_allclose(draws.log_density, afx.vmap(afx.vmap(correlated))(draws.params))


def test_draws_under_constraints() -> None:
    """An exponential law and a Dirichlet law have their means: determinants count."""
    alpha = np.array([1.0, 2.0, 4.0])

    def log_density(p: Any) -> Any:
        return -p["rate"] / 2 + afx.sum((alpha - 1) * afx.log(p["shares"]))

    constraints = {"rate": sample.Positive(), "shares": sample.Simplex()}
    start = {"rate": np.float64(1.0), "shares": np.full(3, 1 / 3)}
    draws = sample.draw(sample.nuts(log_density, constraints), afx.random.key(0), start, draws=300, warmup=100)
    assert float(afx.mean(draws.params["rate"])) == pytest.approx(2.0, abs=0.4)
    np.testing.assert_allclose(np.mean(draws.params["shares"], axis=(0, 1)), alpha / 7, atol=0.05)


def test_the_same_key_gives_the_same_bits() -> None:
    """NumPy's plan and the default back end draw the same bits, chains in Python the same to rounding; another key others."""
    sampler = sample.nuts(correlated)

    def run(seed: int = 0) -> Any:
        return sample.draw(sampler, afx.random.key(seed), np.zeros(2), draws=3, warmup=21, chains=2)

    default = run()
    with afx.disable_jit():  # rules that make plans faster may round otherwise
        np.testing.assert_allclose(run().params, default.params, rtol=1e-9)
    afx.set_backend("numpy")
    try:
        assert afx.pytree.equal(run(), default)
    finally:
        afx.set_backend("auto")
    assert not afx.array_equal(run(1).params, default.params)


def test_a_sampler_is_compiled_once() -> None:
    """Later draws with it do not trace its density again; another dtype does, and a sampler is not kept."""
    calls = list[str]()

    def density(x: Any) -> Any:
        calls.append(str(x.dtype))
        return -0.5 * afx.sum(x**2)

    held = [sample.nuts(density)]

    def run(seed: int, dtype: Any = np.float64) -> int:
        before = len(calls)
        sample.draw(held[0], afx.random.key(seed), np.zeros(2, dtype), draws=2, warmup=2, chains=2)
        return len(calls) - before

    first, second = run(0), run(1)
    assert second < first
    assert run(2) == second < run(2, np.float32)
    gone = weakref.ref(held.pop())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("mass", ["diagonal", "dense"])
def test_chains_in_single_precision(mass: Any) -> None:
    """A start in float32 gives chains in float32, with either mass matrix, with several chains, one, and no warm-up."""
    sampler = sample.nuts(correlated)
    for warmup, chains in ((20, 1), (0, 2)) if mass == "dense" else ((20, 2),):
        start = np.zeros(2, np.float32)
        draws = sample.draw(sampler, afx.random.key(0), start, draws=3, warmup=warmup, chains=chains, mass=mass)
        assert draws.params.shape == (chains, 3, 2)
        assert np.isfinite(draws.params).all()
        floating = (draws.params, draws.log_density, draws.energy, draws.acceptance, draws.chains.state.step_size)
        assert {x.dtype for x in floating} == {np.dtype(np.float32)}


def test_draws_go_on_from_a_file(tmp_path: Path) -> None:
    """Draws that were saved and extended are those that would have been drawn at once."""
    sampler = sample.nuts(correlated)
    whole = sample.draw(sampler, afx.random.key(3), np.zeros(2), draws=40, warmup=25, chains=2)
    first = sample.draw(sampler, afx.random.key(3), np.zeros(2), draws=15, warmup=25, chains=2)
    io.save(tmp_path / "draws.npz", first)
    again: Any = io.load(tmp_path / "draws.npz", sample.Draws)
    assert afx.pytree.equal(sample.extend(sampler, again, 25), whole)
    none = sample.draw(sampler, afx.random.key(3), np.zeros(2), draws=0, warmup=25, chains=2)
    assert none.params.shape == (2, 0, 2)
    assert afx.pytree.equal(sample.extend(sampler, none, 40), whole)


def test_steps_are_pure_functions() -> None:
    """`init` and `step` work alone, on trees, and give the same bits under `jit`."""

    def log_density(p: dict[str, Any]) -> Any:
        return -0.5 * (p["a"] ** 2 + afx.sum(p["b"] ** 2))

    sampler = sample.nuts(log_density, max_depth=3)
    begun = sampler.init({"a": np.float64(0.0), "b": np.zeros(2)}, step_size=0.1)
    state, info = sampler.step(begun, afx.random.key(5))
    again, _ = afx.jit(sampler.step)(begun, afx.random.key(5))
    assert afx.pytree.equal(state, again)
    assert int(info.leaps) == 7
    assert int(info.depth) == 3


def test_divergences_have_places() -> None:
    """Where steps are far too long, each trajectory diverges and says where it broke off; the chain stays."""

    def narrow(p: Any) -> Any:
        return -0.5 * afx.sum((p["x"] / 0.01) ** 2)

    sampler = sample.nuts(narrow)
    first = sample.draw(sampler, afx.random.key(0), {"x": np.zeros(4)}, draws=2, warmup=0, chains=2, spread=0.01)
    draws = sample.extend(sampler, first, 3)
    assert np.all(draws.diverged)
    assert np.asarray(draws.divergences).tolist() == [[draw, chain] for draw in range(5) for chain in range(2)]
    assert draws.places["x"].shape == (10, 4)
    assert float(afx.min(afx.max(afx.abs(draws.places["x"]), axis=1))) > 0.1
    assert float(afx.max(afx.abs(draws.params["x"]))) < 0.1


def test_what_cannot_be_drawn_is_refused() -> None:
    """Wrong numbers, densities that are not finite or no number, and scales of another size raise."""
    key, start = afx.random.key(0), np.zeros(2)
    wrong: list[dict[str, Any]] = [{"chains": 0}, {"warmup": -1}, {"target": 1.0}, {"mass": "full"}]
    for options in wrong:
        with pytest.raises(ArgumentError, match="draw: "):
            sample.draw(sample.nuts(correlated), key, start, **options)

    def impossible(x: Any) -> Any:
        return afx.sum(afx.where(x > -100, -afx.inf, 0.0))

    def several(x: Any) -> Any:
        return -x * x

    with pytest.raises(ArgumentError, match="not finite at the start"):
        sample.draw(sample.nuts(impossible), key, start)
    with pytest.raises(ShapeError, match="a log density is one number"):
        sample.draw(sample.nuts(several), key, start)
    with pytest.raises(ShapeError, match="a scale is"):
        sample.nuts(correlated).init(start, scale=np.ones(3))
    with pytest.raises(ValueError, match="leaps"):
        sample.hmc(correlated, leaps=0)
    with pytest.raises(ValueError, match="jitter"):
        sample.hmc(correlated, jitter=2.0)
    for empty in ({}, np.zeros(0)):
        with pytest.raises(ArgumentError, match="no parameter"):
            sample.draw(sample.nuts(lambda _: 0.0), afx.random.key(0), empty)
