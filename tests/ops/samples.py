"""Operands for the tests that run over all primitives, where "some arrays" will not do."""

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Sample:
    """One call of a primitive.

    Attributes:
        operands: float64 arrays where it differentiates, integers where it takes indices.
        params: its parameters.
    """

    operands: tuple[Any, ...]
    params: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
