"""Eight models of the kinds that users write, against long runs of another library."""

import inspect
import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import sample
from tests.sample.models import MODELS

# mean, standard deviation and effective size of each number: numpyro 0.22.0 (jax 0.10.2, float64), NUTS with two chains of
# 10,000 draws after 2,000, the same laws and data written in numpyro's own
REFERENCE: dict[str, dict[str, dict[str, list[float]]]] = json.loads(
    (Path(__file__).parent / "reference.json").read_text(encoding="utf-8")
)
# of arviz 0.23.4's loo: elpd, its standard error, p and the greatest Pareto k, of draws about the mean that `spread` makes
LOO = {
    "schools": (-29.44036468783193, 1.2972451697830127, 0.0006474957509858825, 0.11312874557951219),
    "schools_apart": (-29.64170019668824, 1.3551512575247442, 0.011441792274588636, 0.18737118442016967),
    "kidscore": (-533.7393706250477, 10.123363413205086, 8.618652022241577, 1.0308017726412344),
    "radon": (-107.9091940058881, 5.459851643653748, 11.770558120546085, 0.7412763426701131),
    "dugongs": (-161.03676083039318, 15.216470195024016, 167.33727333484416, 4.969637801990497),
    "garch": (-228.1672391368368, 7.651859850106539, 4.039944019048761, 0.3899066384917602),
    "classes": (-182.10858401185436, 6.810474479701616, 7.019363245132411, 0.2106160013777093),
    "mixture": (-331.4001677160934, 11.206339584403484, 40.92650485567174, 1.3587143307137541),
}
LONGEST = 15  # lines of a model, with neither its name nor its docstring


@pytest.mark.parametrize("name", MODELS)
def test_means_are_those_of_long_runs(name: str) -> None:
    """Posterior means lie within four standard errors, of both runs together, and chains agree."""
    target = 0.95 if name == "schools" else 0.9
    draws = sample.draw(sample.nuts(MODELS[name]()), afx.random.key(5), draws=500, warmup=500, target=target)
    params: dict[str, Any] = draws.params
    assert set(params) == set(REFERENCE[name])
    for key, want in REFERENCE[name].items():
        x = np.asarray(params[key])
        x = x.reshape(*x.shape[:2], -1)
        error = np.sqrt(np.var(x, axis=(0, 1)) / sample.ess_bulk(x) + np.square(want["sd"]) / np.array(want["ess"]))
        gap = np.abs(x.mean((0, 1)) - want["mean"])
        assert (gap <= 4 * error + 1e-9).all(), (key, gap / error)
        assert np.nanmax(sample.r_hat(x)) < 1.05, key


@pytest.mark.parametrize("name", MODELS)
def test_models_are_short(name: str) -> None:
    """Each is written in at most fifteen lines."""
    lines = inspect.getsource(MODELS[name]).splitlines()
    assert len([line for line in lines[2:] if line.strip()]) <= LONGEST


def spread(name: str) -> sample.Draws[Any]:
    """Return draws that no sampler made: normal numbers about a model's unconstrained mean, by NumPy's generator."""
    model, rng = MODELS[name](), np.random.default_rng(7)
    shapes = {key: x.shape for key, x in model.initial().items()}
    mean = {key: np.reshape(REFERENCE[name][key]["mean"], shape) for key, shape in shapes.items()}
    free = sorted(model.constraints.inverse(mean).items())
    cloud = {key: np.asarray(x) + 0.15 * rng.normal(size=(4, 250, *x.shape)) for key, x in free}
    run = sample.draw(sample.nuts(model), afx.random.key(0), draws=4, warmup=0)
    return attrs.evolve(run, params=afx.vmap(afx.vmap(model.constraints.forward))(cloud))


@pytest.mark.parametrize("name", LOO)
def test_leave_one_out_is_arviz_s(name: str) -> None:
    """Of each model whose observations are known one by one, influential ones too."""
    found = sample.loo(MODELS[name](), spread(name))
    assert found.pareto_k is not None
    np.testing.assert_allclose((found.elpd, found.se, found.p, found.pareto_k.max()), LOO[name], rtol=1e-7)
    assert bool(found.warning) == (found.pareto_k.max() > found.good_k)
