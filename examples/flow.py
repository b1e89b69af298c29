"""A normalizing flow bends the plane until two interleaved moons are a normal distribution."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np

import afx
from afx import Array, nn, optim
from examples.report import Claim, Curve, Panel, progress, save

LAYERS, HIDDEN, BATCH, NOISE = 8, 48, 256, 0.08


@attrs.frozen
class Coupling:
    """One coordinate is scaled and moved by functions of the other, which stays (Dinh et al. 2017, equations 7-8)."""

    net: nn.MLP
    moved: int  # which coordinate

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the points and the logarithms of the determinants of the derivative."""
        kept, moved = x[..., 1 - self.moved], x[..., self.moved]
        log_scale, shift = self.coefficients(kept)
        return self.joined(kept, moved * afx.exp(log_scale) + shift), log_scale

    def inverse(self, z: Array) -> Array:
        """Return the points that are mapped to these."""
        kept, moved = z[..., 1 - self.moved], z[..., self.moved]
        log_scale, shift = self.coefficients(kept)
        return self.joined(kept, (moved - shift) * afx.exp(-log_scale))

    def coefficients(self, kept: Array) -> tuple[Array, Array]:
        """Return the logarithm of the scale, within -2 and 2, and the shift."""
        out = self.net(kept[..., None])
        return 2 * afx.tanh(out[..., 0] / 2), out[..., 1]

    def joined(self, kept: Array, moved: Array) -> Array:
        """Return both coordinates in their order."""
        return afx.stack([kept, moved] if self.moved else [moved, kept], axis=-1)


Flow: TypeAlias = tuple[Coupling, ...]
State: TypeAlias = optim.AdamState[Flow]


def create(key: Array) -> Flow:
    """Draw the weights of couplings that move the coordinates in turn."""
    keys = afx.random.split(key, LAYERS)
    nets = [nn.MLP.create(k, (1, HIDDEN, HIDDEN, 2), activation=nn.silu, init=nn.lecun_normal) for k in keys]
    return tuple([Coupling(net, number % 2) for number, net in enumerate(nets)])


def log_density(flow: Flow, x: Array) -> Array:
    """Return the logarithm of the density at each point, by the change of variables."""
    total = afx.zeros(x.shape[:-1], x.dtype)
    for layer in flow:
        x, log_scale = layer(x)
        total = total + log_scale
    return total - afx.sum(x**2, axis=-1) / 2 - float(np.log(2 * np.pi))


def sample(flow: Flow, key: Array, count: int) -> Array:
    """Draw points: normal ones, bent back."""
    x = afx.random.normal(key, (count, 2))
    for layer in flow[::-1]:
        x = layer.inverse(x)
    return x


def moons(key: Array, count: int) -> Array:
    """Draw points on two half circles, the second turned and moved, with noise."""
    angles, side, noise = afx.random.split(key, 3)
    angle = afx.random.uniform(angles, (count,), 0.0, np.pi)
    second = afx.random.bernoulli(side, 0.5, (count,))
    x = afx.where(second, 0.5 - afx.cos(angle), afx.cos(angle) - 0.5)
    y = afx.where(second, 0.25 - afx.sin(angle), afx.sin(angle) - 0.25)
    return afx.stack([x, y], axis=-1) + NOISE * afx.random.normal(noise, (count, 2))


def train(steps: int) -> tuple[Flow, list[float]]:
    """Fit a flow to fresh points at every step; return it and the losses."""
    start, draws = afx.random.split(afx.random.key(0))
    flow, losses = create(start), list[float]()
    optimizer = optim.adam(optim.warmup_cosine(3e-3, steps // 20, steps))
    state = optimizer.init(flow)

    @afx.jit
    def step(flow: Flow, state: State, key: Array) -> tuple[Flow, State, Array]:
        def loss(flow: Flow) -> Array:
            return -afx.mean(log_density(flow, moons(key, BATCH)))

        value, grads = afx.value_and_grad(loss)(flow)
        flow, state = optimizer.step(flow, grads, state)
        return flow, state, value

    for number in progress(range(steps), "flow"):
        flow, state, value = step(flow, state, afx.random.fold_in(draws, number))
        losses.append(float(value))
    return flow, losses


def mass(flow: Flow, points: int = 200, edge: float = 4.0) -> float:
    """Return the integral of the density over a square, by the midpoint rule."""
    line = ((np.arange(points) + 0.5) / points * 2 - 1) * edge
    grid = afx.asarray(np.stack(np.meshgrid(line, line), axis=-1).astype(np.float32))
    return float(afx.sum(afx.exp(afx.jit(log_density)(flow, grid)))) * (2 * edge / points) ** 2


def run(output: Path, steps: int = 3000) -> list[Claim]:
    """Fit the flow, measure it on fresh points, and draw from it."""
    flow, losses = train(steps)
    fresh = moons(afx.random.key(1), 10_000)
    found = float(afx.mean(log_density(flow, fresh)))
    best = -np.log(2 * np.pi) - np.log(2 * np.pi * np.e * NOISE**2) / 2
    spread = np.linalg.slogdet(np.cov(np.asarray(fresh).T))[1]
    own = -1 - np.log(2 * np.pi) - spread / 2
    print(f"  nats of a normal distribution fitted to the points {own:.3f}, of the moons' own density about {best:.3f}")
    drawn = sample(flow, afx.random.key(2), 2000)
    pairs = (("Points", fresh[:2000]), ("Points that the flow draws", drawn))
    clouds = [
        Panel(title, "x", "y", (Curve(p[:, 0], p[:, 1], form="C0.", size=2.5),), equal=True) for title, p in pairs
    ]
    curve = Curve(np.arange(1, len(losses) + 1), np.array(losses), form="C1-")
    save(output / "flow.png", *clouds, Panel("Loss while it learns", "step", "nats a point", (curve,)))
    return [
        Claim("mean log density of fresh points in nats", found, -0.9, at_least=True, shown="{:.3f}"),
        Claim("distance of the total probability from 1", abs(mass(flow) - 1), 5e-3),
    ]
