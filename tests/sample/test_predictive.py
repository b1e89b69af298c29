"""Predictions, log likelihoods, leave-one-out and WAIC, and the groups for arviz."""

from typing import Any

import attrs
import numpy as np
import pytest
import scipy.stats

import afx
from afx import sample, stats
from afx.errors import ArgumentError, ShapeError
from afx.sample.predictive import fit_pareto

KEY = afx.random.key(2)
# of arviz 0.23.4's loo (of its own relative efficiency, and of 0.7) and waic, of the draws that `synthetic` makes:
# elpd, se, p, the greatest Pareto k and the first
LOO = (-52.496531123425726, 10.513567993223074, 1.8608019382483434, 0.4155697157771466, 0.2614656691094776)
LOO_07 = (-52.49682765647867, 10.513848968538468, 1.8610984713012897, 0.469561762983004, 0.21339706925329474)
WAIC = (-52.490714079167645, 10.50970022975069, 1.8549848939902687)


def synthetic() -> tuple[Any, Any]:
    """Return a model and draws that no sampler made."""
    rng = np.random.default_rng(3)
    params = {"m": 0.3 * rng.normal(size=(4, 500)), "s": np.exp(0.1 * rng.normal(size=(4, 500))) + 1}
    y = np.concatenate([2 * rng.normal(size=19), [9.0]])
    priors = {"m": stats.norm(0.0, 1.0), "s": stats.lognorm(0.5)}
    model = sample.Model(priors, lambda p: stats.norm(p["m"], p["s"]).observe(y))
    draws = sample.draw(sample.nuts(model), KEY, draws=4, warmup=0)
    return model, attrs.evolve(draws, params=afx.pytree.map(afx.asarray, params))


def test_leave_one_out_is_arviz_s() -> None:
    """PSIS-LOO and WAIC, with shapes of tails, are arviz's to 1e-6, of either relative efficiency."""
    model, draws = synthetic()
    for want, found in ((LOO, sample.loo(model, draws)), (LOO_07, sample.loo(model, draws, efficiency=0.7))):
        assert found.pareto_k is not None
        got = (found.elpd, found.se, found.p, found.pareto_k.max(), found.pareto_k[0])
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert found.good_k == pytest.approx(0.6970642492453765)
        assert not found.warning
        assert "20 observations" in repr(found)
    found = sample.waic(model, draws)
    np.testing.assert_allclose((found.elpd, found.p), (WAIC[0], WAIC[2]), rtol=1e-9)
    assert found.se == pytest.approx(WAIC[1], rel=1e-9)
    assert "more reliable" in found.warning
    worse = attrs.evolve(found, elpd=found.elpd - 20, pointwise=found.pointwise - 1.0)
    table = sample.compare({"a": worse, "b": found})
    assert list(table) == ["b", "a"]
    assert table["a"] == pytest.approx((20.0, 0.0), abs=1e-9)


def test_tails_have_their_shape() -> None:
    """The fit finds the shape and scale of generalized Pareto numbers."""
    x = np.sort(scipy.stats.genpareto.rvs(0.4, scale=2.0, size=4000, random_state=1))
    assert fit_pareto(x) == pytest.approx((0.4, 2.0), abs=0.08)


def test_predictions_have_the_law_of_data() -> None:
    """Draws of data follow from those of parameters, of the prior and of the posterior, and for other places."""
    x, y = np.arange(5.0), np.array([0.0, 1.1, 1.9, 3.2, 3.9])
    priors = {"slope": stats.norm(0.0, 2.0), "sd": stats.halfnorm(0.0, 1.0)}

    def likelihood(p: Any, x: Any, y: Any) -> Any:
        return {
            "y": stats.norm(p["slope"] * x, p["sd"]).observe(y),
            "count": stats.poisson(3.0).observe(np.array([2, 4])),
        }

    model = sample.Model(priors, likelihood, (x, y))
    draws = sample.draw(sample.nuts(model), KEY, draws=100, warmup=100)
    seen = sample.predict(model, KEY, draws)
    assert {name: v.shape for name, v in seen.items()} == {"y": (4, 100, 5), "count": (4, 100, 2)}
    np.testing.assert_allclose(np.asarray(seen["y"]).mean((0, 1)), x, atol=0.4)
    far = sample.predict(model, KEY, draws, data=(np.array([10.0]), None))
    assert far["y"].shape == (4, 100, 1)
    assert float(far["y"].mean()) == pytest.approx(10, abs=0.5)
    prior = sample.predict(model, KEY, model.draw_prior(KEY, 400))
    assert prior["y"].shape == (400, 5)
    assert float(prior["y"][:, 4].std()) == pytest.approx(8.0, rel=0.2)
    heights = sample.log_likelihood(model, draws)
    want = stats.norm.logpdf(y, draws.params["slope"][..., None] * x, draws.params["sd"][..., None])
    np.testing.assert_allclose(heights["y"], want, rtol=1e-12)
    groups = sample.to_arviz(draws, model, KEY, prior=50, dims={"y": ["place"]}, coords={"place": list("abcde")})
    assert set(groups) == {
        *("posterior", "sample_stats", "log_likelihood", "observed_data"),
        *("prior", "prior_predictive", "posterior_predictive", "dims", "coords"),
    }
    assert groups["prior"]["sd"].shape == (1, 50)
    assert groups["posterior_predictive"]["y"].shape == (4, 100, 5)
    np.testing.assert_array_equal(groups["observed_data"]["y"], y)
    assert "prior" not in sample.to_arviz(draws, model)
    with pytest.raises(ArgumentError, match="dims are of parameters"):
        sample.to_arviz(draws, dims={"slope": ["place"]})
    with pytest.raises(ArgumentError, match="one outcome at a time"):
        sample.loo(model, draws)
    with pytest.raises(ArgumentError, match="no outcome"):
        sample.loo(model, draws, "z")
    assert len(sample.loo(model, draws, "y").pointwise) == 5


def test_what_cannot_be_predicted_or_left_out() -> None:
    """Sums have no observations, logarithms no law."""
    model = sample.Model({"m": stats.norm(0.0, 1.0)}, lambda p: afx.sum(stats.norm.logpdf(np.ones(3), p["m"])))
    draws = sample.draw(sample.nuts(model), KEY, draws=5, warmup=5)
    with pytest.raises(ShapeError, match="do not sum"):
        sample.loo(model, draws)
    with pytest.raises(ArgumentError, match="has no law"):
        sample.predict(model, KEY, draws)
    blind = sample.Model({"m": stats.norm(0.0, 1.0)}, lambda p: stats.norm(p["m"]).observe(None))
    with pytest.raises(ArgumentError, match="has no data"):
        blind(blind.initial())


@pytest.mark.parametrize(
    "draws",
    [{"m": np.zeros(5), "v": np.zeros((6, 3))}, {"m": np.zeros(5), "v": np.zeros((5, 2))}, {"m": np.zeros(5)}, None],
)
def test_draws_are_those_of_the_model(draws: Any) -> None:
    """Draws of other parameters, or of parameters of other shapes, are no predictions."""
    priors = {"m": stats.norm(0.0, 1.0), "v": stats.norm(np.zeros(3), 1.0)}
    model = sample.Model(priors, lambda p: stats.norm(p["m"] + p["v"][0], 1.0).observe(np.ones(4)))
    with pytest.raises((ArgumentError, ShapeError), match="sample: draws"):
        sample.predict(model, KEY, draws)
    no_model: Any = abs
    with pytest.raises(ArgumentError, match="those of a Model"):
        sample.log_likelihood(no_model, draws)


def test_data_are_arguments_and_shaped_as_their_law() -> None:
    """An array in place of a tuple is not taken apart, and a column of data is no table of each datum by each mean."""
    y: Any = np.arange(4.0)
    priors = {"m": stats.norm(np.zeros(4), 1.0)}
    for data in (y, y[:, None]):
        with pytest.raises(ArgumentError, match="data are a tuple"):
            sample.Model(priors, lambda p, x: stats.norm(p["m"], 1.0).observe(x), data)
    model = sample.Model(priors, lambda p, x: stats.norm(p["m"], 1.0).observe(x), (y,))
    with pytest.raises(ArgumentError, match="data are a tuple"):
        sample.predict(model, KEY, {"m": np.zeros((2, 4))}, y)
    with pytest.raises(ShapeError, match="one of y's law"):
        sample.Model(priors, model.log_likelihood, (y[:, None],))(model.initial())
    few = sample.Model(priors, lambda p, x: stats.norm(p["m"], 1.0).observe(x), (1.0,))
    assert few.pointwise(few.initial())["y"].shape == (4,)


def test_comparisons_are_of_estimates() -> None:
    """What is no estimate is refused, and one that is nan is the last."""
    good = sample.Elpd(-3.0, 1.0, 1.0, np.array([-1.0, -2.0]))
    bad = sample.Elpd(np.nan, 1.0, 1.0, np.array([np.nan, -2.0]))
    assert [*sample.compare({"bad": bad, "good": good})] == ["good", "bad"]
    wrong: Any
    for wrong in ({}, [good], {"a": 1}):
        with pytest.raises(ArgumentError, match="what loo or waic give"):
            sample.compare(wrong)
    model, draws = synthetic()
    for efficiency in (0.0, -1.0, np.nan):
        with pytest.raises(ArgumentError, match="efficiency is above 0"):
            sample.loo(model, draws, efficiency=efficiency)


def test_approximations_take_models() -> None:
    """Laplace's, variational ones of every rank, and paths find the normal posterior of a regression."""
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(80), rng.normal(2.0, 1.0, 80)], axis=1)
    y = x @ np.array([1.0, -0.5]) + rng.normal(size=80)
    cov = np.linalg.inv(x.T @ x + np.eye(2) / 100)
    mean = cov @ x.T @ y
    priors = {"b": stats.norm(np.zeros(2), 10.0)}
    model = sample.Model(priors, lambda p, x, y: stats.norm(x @ p["b"], 1.0).observe(y), (x, y))
    evidence = scipy.stats.multivariate_normal(np.zeros(80), np.eye(80) + 100 * x @ x.T).logpdf(y)
    normal = sample.laplace(model)
    np.testing.assert_allclose(normal.params["b"], mean, atol=1e-5)
    np.testing.assert_allclose(normal.scale @ normal.scale.T, cov, rtol=1e-4)
    assert float(normal.log_evidence) == pytest.approx(evidence, abs=1e-4)
    for rank in (None, 1):
        found = sample.advi(model, rank=rank, learning_rate=0.02).fit(KEY, steps=3000)
        np.testing.assert_allclose(found.params["b"], mean, atol=0.03)
        np.testing.assert_allclose(found.scale @ found.scale.T, cov, rtol=0.25)
        assert float(found.log_evidence) == pytest.approx(evidence, abs=0.2)
    batched = sample.advi(model, batch=20, learning_rate=0.02).fit(KEY, steps=3000)
    np.testing.assert_allclose(batched.params["b"], mean, atol=0.08)
    path = sample.pathfinder(model, KEY)
    np.testing.assert_allclose(path.params["b"], mean, atol=0.02)
    np.testing.assert_allclose(path.scale @ path.scale.T, cov, rtol=0.05)
    assert float(path.log_evidence) == pytest.approx(evidence, abs=0.05)
    draws = sample.draw(sample.nuts(model), KEY, path, draws=200, warmup=50)
    np.testing.assert_allclose(np.asarray(draws.params["b"]).mean((0, 1)), mean, atol=0.1)
    np.testing.assert_allclose(
        model.take(np.arange(40), 2.0)(normal.params), model.take(np.arange(40), 2.0)(normal.params)
    )
    with pytest.raises(ArgumentError, match="rows of a Model's data"):
        sample.advi(lambda b: -0.5 * afx.sum(b**2), batch=3).fit(KEY, np.zeros(2))
