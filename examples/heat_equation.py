"""A network that obeys the heat equation (physics-informed): derivatives of the network itself are the loss."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np

import afx
from afx import Array, nn, optim
from examples.report import Claim, Curve, Panel, Pixels, progress, save

DIFFUSION, POINTS = 0.1, 256
State: TypeAlias = optim.AdamState[nn.MLP]


def temperature(net: nn.MLP, x: Array, t: Array) -> Array:
    """Return the temperature at one point of rod and time.

    The network is put into a form that begins as sin πx and is 0 at both ends, whatever its weights are.
    """
    return afx.sin(np.pi * x) + t * x * (1 - x) * net(afx.stack([x, t]))[0]


def residual(net: nn.MLP, x: Array, t: Array) -> Array:
    """Return how far the heat equation u_t = D u_xx is from holding at a point."""
    along_t = afx.grad(temperature, argnums=2)(net, x, t)
    along_x_twice = afx.grad(afx.grad(temperature, argnums=1), argnums=1)(net, x, t)
    found: Array = along_t - DIFFUSION * along_x_twice
    return found


def loss(net: nn.MLP, points: Array) -> Array:
    """Return the mean squared residual at points float[points, 2]."""
    return afx.mean(afx.vmap(residual, in_axes=(None, 0, 0))(net, points[:, 0], points[:, 1]) ** 2)


def train(steps: int) -> tuple[nn.MLP, list[float]]:
    """Fit a network at points drawn anew in each step; return it and the losses."""
    start, draws = afx.random.split(afx.random.key(0))
    net = nn.MLP.create(start, [2, 24, 24, 1], activation=afx.tanh)
    optimizer = optim.adam(optim.cosine_decay(1e-2, steps))
    state, losses = optimizer.init(net), list[float]()

    @afx.jit
    def step(net: nn.MLP, state: State, key: Array) -> tuple[nn.MLP, State, Array]:
        value, grads = afx.value_and_grad(loss)(net, afx.random.uniform(key, (POINTS, 2)))
        net, state = optimizer.step(net, grads, state)
        return net, state, value

    for number in progress(range(steps), "network"):
        net, state, value = step(net, state, afx.random.fold_in(draws, number))
        losses.append(float(value))
    return net, losses


def run(output: Path, steps: int = 1500) -> list[Claim]:
    """Train the network and compare it with the exact solution."""
    net, losses = train(steps)
    axis = afx.linspace(0.0, 1.0, 65)
    over_x = afx.vmap(temperature, in_axes=(None, 0, None))
    found = afx.jit(afx.vmap(over_x, in_axes=(None, None, 0)))(net, axis, axis)  # float[time, x]
    exact = np.exp(-DIFFUSION * np.pi**2 * np.asarray(axis))[:, None] * np.sin(np.pi * np.asarray(axis))
    error = float(np.abs(np.asarray(found) - exact).max())
    save(
        output / "heat_equation.png",
        Panel("Temperature", "position x", "time t", (Pixels(found[::-1], (0.0, 1.0, 0.0, 1.0), "temperature"),)),
        Panel(
            "At time 1",
            "position x",
            "temperature",
            (Curve(axis, exact[-1], "exact"), Curve(axis, found[-1], "network", "C1--")),
        ),
        Panel("Loss", "step", "squared residual", (Curve(np.arange(1, steps + 1), np.array(losses)),), log_y=True),
    )
    return [Claim("largest error of the temperature, of 1", error, 5e-3)]
