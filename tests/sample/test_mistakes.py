"""Mistakes with samplers: each is told at once, by name, instead of chains that never end or laws of something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx import sample
from afx.errors import ArgumentError, DtypeError, OperandError, ShapeError

KEY = afx.random.key(0)
START = np.ones(2)


def normal(x: Any) -> Any:
    """Return the log density of independent normal numbers."""
    return -0.5 * afx.sum(x**2)


def draw(density: Any, start: Any = START, constraints: Any = None, **options: Any) -> Any:
    """Draw a little."""
    sampler: Any = sample.nuts(density, constraints)
    return sample.draw(sampler, options.pop("key", KEY), start, **{"draws": 2, "warmup": 2, "chains": 1, **options})


@pytest.mark.parametrize("name", ["draws", "warmup", "chains"])
@pytest.mark.parametrize("value", [-1, 2.5, "a"])
def test_numbers_of_draws_are_whole(name: str, value: Any) -> None:
    """A number that is not whole is named before anything is drawn."""
    with pytest.raises(ArgumentError, match=f"draw: {name} is a whole number"):
        draw(normal, **{name: value})


@pytest.mark.parametrize("key", [0, None, START, np.zeros(3, np.uint32)])
def test_a_key_is_told_from_a_start(key: Any) -> None:
    """Key and start in the wrong order are told as such."""
    with pytest.raises(ArgumentError, match=r"draw: a key is uint32\[2\]"):
        draw(normal, key=key)


@pytest.mark.parametrize(
    ("density", "error", "text"),
    [
        (lambda x: normal(x) * 1j, DtypeError, "is a real number: got complex128"),
        (lambda _: None, OperandError, "got NoneType"),
        (lambda x: (normal(x), 1), OperandError, "got tuple"),
        (lambda x: -(x**2), ShapeError, "is one number"),
        (3, ArgumentError, "needs a function"),
    ],
)
def test_a_density_is_one_real_number(density: Any, error: Any, text: str) -> None:
    """Imaginary parts are not dropped, and what is no number is told by its type."""
    with pytest.raises(error, match=text):
        draw(density)


@pytest.mark.parametrize("density", [lambda _: 0, lambda _: afx.asarray(0.0), lambda p: normal(p["a"])])
def test_parameters_without_a_law_are_refused(density: Any) -> None:
    """A density that does not read a parameter has no law of it: trajectories would never turn back."""
    start = {"a": START, "b": np.zeros(3)}
    with pytest.raises(ArgumentError, match="draw: the log density does not depend on a parameter: got float64"):
        draw(density, start)
    with pytest.raises(ArgumentError, match="advi: the log density does not depend"):
        sample.advi(density).fit(KEY, start, steps=2)


def test_bounds_are_a_law() -> None:
    """A parameter that only its bounds know is uniform."""
    found = draw(lambda _: 0.0, np.array(0.5), sample.Interval(0.0, 1.0), draws=50, warmup=50)
    assert ((found.params > 0) & (found.params < 1)).all()


@pytest.mark.parametrize(
    ("constraint", "start"),
    [
        (sample.Positive(), [-1.0, 1.0]),
        (sample.Simplex(), [0.5, 0.6]),
        (sample.Ordered(), [2.0, 1.0]),
        (sample.CholeskyCorrelation(), [[3.0, 0.0], [0.0, 3.0]]),
        (sample.Interval(0.0, 1.0), [0.5, 7.0]),
        (sample.UnitVector(), [3.0, 4.0]),
    ],
)
def test_a_start_keeps_its_constraints(constraint: Any, start: Any) -> None:
    """A start outside is neither moved inside nor a density that is not finite: it is named, with its constraint."""
    tree = {"w": np.array(start)}
    with pytest.raises(ArgumentError, match=r"draw: a start lies within .* at \['w'\] for "):
        draw(lambda p: normal(p["w"]), tree, {"w": constraint})
    with pytest.raises(ArgumentError, match="laplace: a start lies within"):
        sample.laplace(lambda p: normal(p["w"]), tree, {"w": constraint})


@pytest.mark.parametrize(
    "bounds",
    [
        (2.0, 1.0),
        (1.0, 1.0),
        (np.zeros(2), np.array([1.0, -1.0])),
        (0.0, np.nan),
        (None, 1.0),
        (np.zeros(2), np.ones(3)),
    ],
)
def test_an_interval_is_not_empty(bounds: Any) -> None:
    """Bounds in the wrong order leave nothing between them, which would be nan much later."""
    with pytest.raises(ArgumentError, match="Interval: the lower bound lies below the upper one: got"):
        sample.Interval(*bounds)
    assert afx.jit(lambda low: sample.Interval(low, 1.0).forward(afx.zeros(1)))(-1.0)[0] == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: sample.nuts(normal, max_depth=0),
        lambda: sample.nuts(normal, max_depth=100),
        lambda: sample.nuts(normal, max_depth=2.5),  # the mistake
        lambda: sample.hmc(normal, leaps=0),
        lambda: sample.hmc(normal, jitter=2.0),
        lambda: sample.advi(normal, samples=0),
        lambda: sample.advi(normal).fit(KEY, START, steps=0),
    ],
)
def test_options_have_a_range(make: Any) -> None:
    """Options of samplers are checked where they are made."""
    with pytest.raises(ArgumentError, match="got"):
        make()


def test_what_is_no_run_of_draws_is_told() -> None:
    """Parameters alone cannot be extended or exported, and too few draws have no summary."""
    found = draw(normal, draws=0)
    for call in (lambda: sample.extend(sample.nuts(normal), found.params, 2), lambda: sample.to_arviz(found.params)):
        with pytest.raises(ArgumentError, match="takes what draw returns: got float64"):
            call()
    with pytest.raises(ShapeError, match=r"summary: takes draws .* four at least: got shape \(1, 0\)"):
        sample.summary(found)
