"""Random directions that a test draws by itself, whatever ran before it in its process."""

import pytest

from tests.ops import samples


@pytest.fixture(autouse=True)
def own_directions(request: pytest.FixtureRequest) -> None:
    """Begin the shared generator anew for each test, from the test's name."""
    samples.begin(request.node.name)
