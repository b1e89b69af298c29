"""Agreement: float64 results of loops and branches that are equal but for rounding."""

from typing import Any

import numpy as np


def assert_close(x: Any, y: Any) -> None:
    """Check that two results agree to ten digits."""
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-10)
