"""Models of laws: densities, constraints, starts and draws follow from the laws, and samplers take models as they are."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, sample, stats
from afx.errors import ArgumentError

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
KEY = afx.random.key(0)


@attrs.frozen
class Schools:
    """Parameters of eight schools."""

    mu: Array
    tau: Array
    theta: Array


def schools() -> sample.Model[Schools]:
    """Return the model of eight schools, centred."""
    priors = sample.laws(
        Schools,
        mu=stats.norm(0.0, 5.0),
        tau=stats.halfcauchy(0.0, 5.0),
        theta=lambda p: stats.norm(p.mu, p.tau).expand(8),
    )
    return sample.Model(priors, lambda p: stats.norm(p.theta, ERRORS).observe(EFFECTS))


def test_a_model_is_its_densities() -> None:
    """The density is the sum of those of laws and data; draws have the class of the parameters."""
    model = schools()
    p = Schools(np.float64(1.0), np.float64(2.0), np.arange(8.0))  # a tree of numbers
    want = (
        stats.norm.logpdf(p.mu, 0.0, 5.0)
        + stats.halfcauchy.logpdf(p.tau, 0.0, 5.0)
        + afx.sum(stats.norm.logpdf(p.theta, p.mu, p.tau))
        + afx.sum(stats.norm.logpdf(EFFECTS, p.theta, ERRORS))
    )
    np.testing.assert_allclose(model(p), want, rtol=1e-14)
    draws = sample.draw(sample.nuts(model), KEY, draws=10, warmup=10, chains=2)
    assert isinstance(draws.params, Schools)
    assert draws.params.theta.shape == (2, 10, 8)
    assert draws.params.theta.dtype == np.float64
    assert bool((draws.params.tau > 0).all())


LAWS: dict[str, Any] = {
    "real": stats.norm(np.array([0.0, 100.0]), 2.0),
    "positive": stats.gamma(2.0, scale=3.0),
    "interval": stats.uniform(np.array([1.0, 2.0]), 0.5),
    "truncated": stats.truncnorm(1.0, 2.0),
    "simplex": stats.dirichlet(np.ones(3)).expand(2),
    "correlation": stats.lkj(3, 2.0),
    "covariance": stats.wishart(4.0, np.eye(3)),
    "factor": stats.lkj_cholesky(3, 2.0),
    "ordered": stats.ordered(stats.norm(0.0, 2.0).expand(4)),
    "positive ordered": stats.ordered(stats.gamma(2.0).expand(3)),
    "cut": stats.truncated(stats.t(3.0), low=-1.0).expand(2),
    "mixed": stats.mixture(np.array([0.3, 0.7]), [stats.gamma(2.0), stats.expon(0.5)]),
    "walk": stats.gaussian_random_walk(5, 0.3),
    "vector by factor": stats.multivariate_normal_cholesky(np.zeros(2), np.eye(2)),
    "vector": stats.multivariate_normal(np.zeros(2), np.eye(2)),
}


@pytest.mark.parametrize("name", LAWS)
def test_constraints_are_those_of_laws(name: str) -> None:
    """Starts and draws lie within; free numbers lead there and back, with the determinant of that way."""
    model: Any = sample.Model({"x": LAWS[name]}, lambda _: 0.0)
    start = model.initial()
    assert np.isfinite(model(start))
    drawn = model.draw_prior(KEY, 5)
    assert np.isfinite(afx.vmap(model)(drawn)).all()
    assert drawn["x"].shape == (5, *LAWS[name].shape)
    one = afx.pytree.map(lambda x: x[0], drawn)
    position = sample.unconstrain(model.constraints, one)
    np.testing.assert_allclose(sample.constrain(model.constraints, position)["x"], one["x"], rtol=1e-9, atol=1e-12)
    if name in ("simplex", "factor", "correlation", "covariance", "positive ordered"):
        own = position["x"] if name != "simplex" else position["x"][0]
        kept = {
            "simplex": np.arange(2),
            "factor": np.array([3, 6, 7]),
            "positive ordered": np.arange(3),
            "correlation": np.array([3, 6, 7]),
            "covariance": np.array([0, 3, 4, 6, 7, 8]),
        }

        def move(x: Any) -> Any:
            y = sample.constrain(model.constraints, {"x": afx.stack([x, x]) if name == "simplex" else x})["x"]
            return afx.reshape(y[0] if name == "simplex" else y, (-1,))[kept[name]]

        want = np.linalg.slogdet(np.asarray(afx.jacfwd(move)(own)))[1]
        two = {"x": afx.stack([own, own])} if name == "simplex" else position
        np.testing.assert_allclose(
            sample.log_det(model.constraints, two), want * (2 if name == "simplex" else 1), rtol=1e-9
        )


def test_laws_depend_on_parameters_in_any_order() -> None:
    """An interval may end at a parameter, whatever stands first; circles and what is no law are named."""
    priors = {"a": lambda p: stats.uniform(0.0, p["b"]), "b": stats.expon(1.0)}
    model = sample.Model(priors, lambda _: 0.0)
    draws = model.draw_prior(KEY, 200)
    assert bool((draws["a"] < draws["b"]).all())
    run = sample.draw(sample.nuts(model), KEY, draws=50, warmup=50, chains=2).params
    assert bool((run["a"] < run["b"]).all())
    round_: Any = {"a": lambda p: stats.norm(p["b"], 1.0), "b": lambda p: stats.norm(p["a"], 1.0)}
    with pytest.raises(ArgumentError, match=r"circle: got \['a'\], \['b'\]"):
        sample.Model(round_, lambda _: 0.0).initial()
    with pytest.raises(ArgumentError, match=r"got 1.0 at \['a'\]"):
        sample.Model({"a": 1.0}, lambda _: 0.0)
    with pytest.raises(ArgumentError, match="real numbers"):
        sample.Model({"a": stats.poisson(1.0)}, lambda _: 0.0).initial()
    with pytest.raises(ArgumentError, match="no start of its own"):
        sample.draw(sample.nuts(lambda x: -0.5 * x**2), KEY)
    with pytest.raises(TypeError, match="fields"):
        sample.laws(Schools, mu=stats.norm())
