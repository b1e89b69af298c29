"""`curve_fit` on NIST's reference data sets: certified parameters and deviations from both starts."""

import numpy as np
import pytest

from afx import optim
from tests.optim.solvers.strd import DATA, MODELS, load_set


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # first steps of some overflow
def test_certified_values(name: str, start: int) -> None:
    """Every fit converges to the certified parameters, with their standard deviations."""
    model, x, y = load_set(name)
    fit = optim.curve_fit(model, np.array(DATA[name]["starts"][start]), x, y)
    assert fit.converged
    np.testing.assert_allclose(fit.x, DATA[name]["certified"], rtol=2e-6)
    exact = name == "Lanczos1"  # whose residuals are rounding
    np.testing.assert_allclose(fit.errors, DATA[name]["deviations"], rtol=1e-2 if exact else 5e-6)
    np.testing.assert_allclose(2 * float(fit.cost), DATA[name]["squares"], rtol=1e-2 if exact else 1e-9)
