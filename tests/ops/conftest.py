"""Random directions that a test draws by itself, whatever ran before it in its process."""

import zlib

import numpy as np
import pytest

from tests.ops import samples


@pytest.fixture(autouse=True)
def own_directions(request: pytest.FixtureRequest) -> None:
    """Begin the shared generator anew for each test, from the test's name."""
    samples.RNG.bit_generator.state = np.random.PCG64(zlib.crc32(request.node.name.encode())).state
