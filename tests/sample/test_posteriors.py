"""Posteriors of posteriordb: the quick ones here, all of them by ``python -m tests.posteriors``."""

from typing import Any

import numpy as np

import afx
from tests.every import together
from tests.posteriors.__main__ import compare, draw
from tests.posteriors.models import POSTERIORS, REFERENCE


def test_draws_are_those_of_the_reference() -> None:
    """Means and standard deviations are those of 10,000 reference draws, within what so few draws can say."""
    posterior = POSTERIORS["eight_schools_noncentered"]()
    found = compare(posterior, draw(posterior, draws=400, warmup=200))
    assert found.mean < 0.25
    assert found.sd < 0.25
    assert found.r_hat < 1.05


@together("name", POSTERIORS)
def test_each_posterior_is_finite_near_its_start(name: str) -> None:
    """The density and its gradient are finite at the start, and quantities are those of the reference."""
    posterior = POSTERIORS[name]()
    start: Any = posterior.start
    value, slopes = afx.value_and_grad(posterior.log_density)(start)
    assert np.isfinite(value)
    assert all(np.isfinite(slope).all() for slope in afx.pytree.leaves(slopes))
    assert posterior.quantities(posterior.start).shape == (len(REFERENCE[posterior.reference]),)
