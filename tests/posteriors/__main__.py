"""Draw from all posteriors and compare with the reference: ``python -m tests.posteriors [name ...]``.

Leaves with a failure where a mean is further than 0.1 standard deviations from the reference, a standard deviation
differs by more than 10 %, or R-hat is 1.01 or more.
"""

import sys
import time
from typing import Any

import attrs
import numpy as np

import afx
from afx import sample
from tests.posteriors.models import POSTERIORS, REFERENCE, Posterior


@attrs.frozen
class Comparison:
    """How far draws are from the reference.

    Attributes:
        mean: the largest difference of means, in standard deviations of the reference.
        sd: the largest relative difference of standard deviations.
        r_hat: the largest.
        ess: the least effective size, of centres and tails.
        divergences: how many.
        gradients: how many were evaluated behind the warm-up.
    """

    mean: float
    sd: float
    r_hat: float
    ess: float
    divergences: int
    gradients: int

    def holds(self) -> bool:
        """Tell whether the draws are those of the reference."""
        return self.mean < 0.1 and self.sd < 0.1 and self.r_hat < 1.01


def draw(posterior: Posterior, seed: int = 0, **options: Any) -> sample.Draws[Any]:
    """Return draws of a posterior."""
    sampler: Any = sample.nuts(posterior.log_density, posterior.constraints)
    return sample.draw(sampler, afx.random.key(seed), posterior.start, **{**posterior.options, **options})


def compare(posterior: Posterior, draws: sample.Draws[Any]) -> Comparison:
    """Return how far draws are from the reference."""
    x = np.asarray(afx.vmap(afx.vmap(posterior.quantities))(draws.params))
    mean, sd = np.array(list(REFERENCE[posterior.reference].values())).T
    axes = (0, 1)
    return Comparison(
        float(np.max(np.abs(x.mean(axes) - mean) / sd)),
        float(np.max(np.abs(x.std(axes, ddof=1) / sd - 1))),
        float(np.max(sample.r_hat(x))),
        float(min(np.min(sample.ess_bulk(x)), np.min(sample.ess_tail(x)))),
        int(np.sum(draws.diverged)),
        int(np.sum(draws.leaps)),
    )


def main(names: list[str]) -> int:
    """Print one line a posterior."""
    failed = 0
    print(f"{'posterior':28}{'mean/sd':>9}{'sd':>9}{'R-hat':>9}{'ESS':>7}{'diverged':>10}{'leaps':>9}{'seconds':>9}")
    for name in names or POSTERIORS:
        posterior = POSTERIORS[name]()
        began = time.perf_counter()
        draws = draw(posterior)
        seconds = time.perf_counter() - began
        c = compare(posterior, draws)
        failed += not c.holds()
        numbers = f"{c.mean:9.3f}{c.sd:9.3f}{c.r_hat:9.4f}{c.ess:7.0f}{c.divergences:10d}{c.gradients:9d}{seconds:9.1f}"
        print(f"{name:28}{numbers}{'' if c.holds() else '  fails'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
