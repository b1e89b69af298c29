"""Reverse loops: the steps of a loop that a condition ends, and the way back over what they left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["walk_back"]


def walk_back(
    test: Callable[..., Any],
    step: Callable[..., Any],
    back: Callable[..., Any],
    tests: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    state: Sequence[Any],
) -> list[Any]:
    """Run steps as long as a condition holds, then the way back over them; return what is carried back.

    Args:
        test: what the condition closes over and the carry to a list of one boolean.
        step: constants and the carry to the next carry, then residuals.
        back: constants, the residuals of a step, and what is carried back to the latter.
        tests: what the condition closes over.
        consts: what each step closes over.
        carry: before the first step.
        state: what is carried back, before the first step back.
    """
    count, kept = len(carry), list[Sequence[Any]]()
    while test(*tests, *carry)[0]:
        found = step(*consts, *carry)
        carry = found[:count]
        kept.append(found[count:])
    while kept:
        state = back(*consts, *kept.pop(), *state)
    return [np.array(x) for x in state]
