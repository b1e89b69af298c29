"""HMC: Hamiltonian trajectories of a given number of leaps, whose end is taken or left."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs
import numpy as np

from afx.control.while_loop import fori_loop
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import minimum, where
from afx.random.basic import uniform
from afx.random.keys import split
from afx.sample.hamiltonian import MAX_ENERGY_ERROR, Info, Point, Sampler, State, choose, energy, leap
from afx.transforms._arguments import whole_number

__all__ = ["hmc"]

T = TypeVar("T")


def _check_jitter(value: Any) -> float:
    if not 0 <= value < 1:
        raise ArgumentError(f"hmc: jitter is a share from 0 on and below 1: got {value!r}; the default is 0.2")
    return float(value)


def _check_leaps(value: Any) -> int:
    return whole_number("leaps", value, "hmc")


@attrs.frozen
class hmc(Sampler[T]):  # named as what it reads as
    """The Hamiltonian Monte Carlo sampler of a density (Neal 2011), with trajectories of a given length.

    Attributes:
        log_density: a tree of parameters to the logarithm of their density, but for a constant.
        constraints: a tree of bijectors over the parameters, None where there are none.
        leaps: of each trajectory.
        jitter: each step size is uniform within this share of the chain's, below 1, so that no trajectory comes back to
            its start.

    >>> import afx
    >>> sampler = hmc(lambda x: -0.5 * afx.sum(x**2), leaps=5)
    >>> state, info = sampler.step(sampler.init(np.zeros(2), step_size=0.3), afx.random.key(0))
    >>> bool(info.acceptance > 0.9)
    True
    """

    leaps: int = attrs.field(default=20, converter=_check_leaps)
    jitter: float = attrs.field(default=0.2, converter=_check_jitter)

    def step(self, state: State[T], key: Array) -> tuple[State[T], Info]:
        """Return the next state of a chain, and what is known of the step."""
        first, second = split(key)
        luck = uniform(second, (2,), dtype=state.log_density.dtype)
        with np.errstate(all="ignore"):
            target, unravel, point = self.start(state, first)
            size = state.step_size * (1 + self.jitter * (2 * luck[0] - 1))
            before = energy(point)

            def advance(_: Array, now: Point) -> Point:
                return leap(target, state.scale, now, size)

            end = fori_loop(0, self.leaps, advance, point)
            gain = before - energy(end)
            drawn = choose(log(luck[1]) < gain, end, point)
        new = State(unravel(drawn.position), drawn.log_density, unravel(drawn.gradient), state.step_size, state.scale)
        depth = zeros_like(gain, dtype=int)
        diverged = ~(gain > -MAX_ENERGY_ERROR)
        found = where(log(luck[1]) < gain, before - gain, before)
        return new, Info(found, minimum(1.0, exp(gain)), depth + asarray(self.leaps), depth, diverged, end.position)
