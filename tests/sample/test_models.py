"""Eight models of the kinds that users write, against long runs of another library."""

import inspect
import json
from pathlib import Path
from typing import Any

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
