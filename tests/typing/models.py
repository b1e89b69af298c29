"""What type checkers know of models: draws have the class of the parameters."""

from typing import Any, assert_type

import attrs

from afx import Array, sample, stats


@attrs.frozen
class Line:
    slope: Array
    sd: Array


def classes(key: Array, y: Array) -> None:
    priors = sample.laws(Line, slope=stats.norm(0.0, 1.0), sd=stats.halfnorm(0.0, 1.0))

    def likelihood(p: Line) -> Any:
        return stats.norm(p.slope, p.sd).observe(y)

    model = sample.Model(priors, likelihood)
    assert_type(model, sample.Model[Line])
    assert_type(model.initial(), Line)
    draws = sample.draw(sample.nuts(model), key)
    assert_type(draws.params, Line)
    assert_type(sample.laplace(model).params, Line)
    assert_type(sample.advi(model).fit(key).draw(key, 3), Line)
    assert_type(sample.pathfinder(model, key).params, Line)
    assert_type(model.draw_prior(key, 3), Line)
    assert_type(sample.predict(model, key, draws), dict[str, Array])


def dicts(key: Array, y: Array) -> None:
    def likelihood(p: dict[str, Array]) -> Any:
        return stats.norm(p["m"], 1.0).observe(y)

    model = sample.Model({"m": stats.norm(0.0, 1.0)}, likelihood)
    assert_type(model, sample.Model[dict[str, Array]])
    assert_type(sample.draw(sample.nuts(model), key).params["m"], Array)
