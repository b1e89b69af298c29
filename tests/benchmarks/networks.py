"""Networks of any kind and width, as one writes them by plain operations: value and gradient in float32, beside jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.benchmarks.everyday.program import PAIR, Kit, Made, Program
from tests.benchmarks.workloads.workload import Workload

__all__ = ["PROGRAMS", "WORKLOADS"]


def _weights(k: Kit, *shapes: Sequence[int]) -> list[Any]:
    """Return weights whose products keep the size of what they multiply."""
    return [k.rng.normal(size=s) / max(1, k.np.prod(k.np.asarray(s[:-1]))) ** 0.5 for s in shapes]


def _norm(np: Any, x: Any, axes: tuple[int, ...]) -> Any:
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + 1e-5)


def _cross_entropy(np: Any, scores: Any, labels: Any) -> Any:
    scores = scores - np.max(scores, axis=-1, keepdims=True)
    found = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    return np.mean(np.log(np.sum(np.exp(scores), axis=-1)) - found)


def _images(k: Kit, batch: int, size: int, channels: int = 3) -> list[Any]:
    return [k.rng.normal(size=(batch, size, size, channels)), k.rng.integers(0, 10, batch)]


def resnet(k: Kit, width: int) -> Made:
    """Return the loss of two residual blocks with batch norms."""
    np = k.np

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = np.maximum(_norm(np, k.conv(x, p[0]), (0, 1, 2)), 0)
        for a, b in (p[1:3], p[3:5]):
            z = np.maximum(_norm(np, k.conv(x, a), (0, 1, 2)), 0)
            x = np.maximum(x + _norm(np, k.conv(z, b), (0, 1, 2)), 0)
        return _cross_entropy(np, np.mean(x, axis=(1, 2)) @ p[5], y)

    inner = (3, 3, width, width)
    return loss, _weights(k, (3, 3, 3, width), inner, inner, inner, inner, (width, 10)), _images(k, 32, 16)


def u_net(k: Kit) -> Made:
    """Return the misfit of an image that goes down two levels and up again."""
    np = k.np

    def pool(x: Any) -> Any:
        return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4

    def grow(x: Any) -> Any:
        return np.repeat(np.repeat(x, 2, axis=1), 2, axis=2)

    def loss(p: Any, x: Any, _y: Any) -> Any:
        first = np.maximum(k.conv(x, p[0]), 0)
        second = np.maximum(k.conv(pool(first), p[1]), 0)
        third = np.maximum(k.conv(pool(second), p[2]), 0)
        second = np.maximum(k.conv(np.concatenate([second, grow(third)], axis=-1), p[3]), 0)
        first = k.conv(np.concatenate([first, grow(second)], axis=-1), p[4])
        return np.mean((first - x) ** 2)

    kernels = [(3, 3, 3, 12), (3, 3, 12, 24), (3, 3, 24, 48), (3, 3, 72, 24), (3, 3, 36, 3)]
    return loss, _weights(k, *kernels), _images(k, 8, 32)


def mobile_net(k: Kit) -> Made:
    """Return the loss of two inverted bottlenecks: a product over channels, one kernel for each channel, a product."""
    np = k.np

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = k.conv(x, p[0], stride=2)
        for wide, each, narrow in (p[1:4], p[4:7]):
            z = np.clip(_norm(np, x @ wide, (0, 1, 2)), 0, 6)
            z = np.clip(_norm(np, k.conv(z, each, groups=z.shape[-1]), (0, 1, 2)), 0, 6)
            x = x + _norm(np, z @ narrow, (0, 1, 2))
        return _cross_entropy(np, np.mean(x, axis=(1, 2)) @ p[7], y)

    block = ((16, 64), (3, 3, 1, 64), (64, 16))
    return loss, _weights(k, (3, 3, 3, 16), *block, *block, (16, 10)), _images(k, 16, 32)


def _block(np: Any, p: Sequence[Any], x: Any, heads: int, seen: Any = None) -> Any:
    """Return a transformer's block of x, float[batch, length, width]."""
    batch, length, width = x.shape
    z = _norm(np, x, (2,)) @ p[0]
    q, keys, v = (
        np.transpose(np.reshape(part, (batch, length, heads, width // heads)), (0, 2, 1, 3))
        for part in (z[..., :width], z[..., width : 2 * width], z[..., 2 * width :])
    )
    score = q @ np.swapaxes(keys, 2, 3) / (width // heads) ** 0.5
    score = score if seen is None else np.where(seen, score, -1e9)
    score = np.exp(score - np.max(score, axis=-1, keepdims=True))
    mixed = score / np.sum(score, axis=-1, keepdims=True) @ v
    x = x + np.reshape(np.transpose(mixed, (0, 2, 1, 3)), (batch, length, width)) @ p[1]
    return x + np.maximum(_norm(np, x, (2,)) @ p[2], 0) @ p[3]


def _block_shapes(width: int) -> tuple[tuple[int, int], ...]:
    return (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)


def decoder(k: Kit, width: int) -> Made:
    """Return the loss of the next token after two causal blocks."""
    np = k.np

    def loss(p: Any, z: Any) -> Any:
        given, after = z[:, :-1], z[:, 1:]
        at = np.arange(given.shape[1])
        x = p[0][given] + p[1]
        for part in (p[2:6], p[6:10]):
            x = _block(np, part, x, 4, at[:, None] >= at[None, :])
        return _cross_entropy(np, x @ p[10], after)

    shapes = ((256, width), (64, width), *_block_shapes(width), *_block_shapes(width), (width, 256))
    return loss, _weights(k, *shapes), [k.rng.integers(0, 256, (8, 65))]


def vision_transformer(k: Kit) -> Made:
    """Return the loss of two blocks over patches of 8 × 8."""
    np = k.np

    def loss(p: Any, x: Any, y: Any) -> Any:
        patches = np.transpose(np.reshape(x, (x.shape[0], 4, 8, 4, 8, 3)), (0, 1, 3, 2, 4, 5))
        z = np.reshape(patches, (x.shape[0], 16, 192)) @ p[0] + p[1]
        for part in (p[2:6], p[6:10]):
            z = _block(np, part, z, 4)
        return _cross_entropy(np, np.mean(z, axis=1) @ p[10], y)

    shapes = ((192, 64), (16, 64), *_block_shapes(64), *_block_shapes(64), (64, 10))
    return loss, _weights(k, *shapes), _images(k, 32, 32)


def lstm(k: Kit, width: int) -> Made:
    """Return the loss of a long short-term memory's last state."""
    np = k.np

    def loss(p: Any, x: Any, y: Any) -> Any:
        def step(carry: Any, now: Any) -> Any:
            h, c = carry
            z = now @ p[0] + h @ p[1]
            i, f, g, o = (z[:, n * width : (n + 1) * width] for n in range(4))
            c = k.nn.sigmoid(f) * c + k.nn.sigmoid(i) * np.tanh(g)
            h = k.nn.sigmoid(o) * np.tanh(c)
            return (h, c), None

        start = np.zeros((x.shape[1], width), x.dtype)
        (h, _), _ = k.scan(step, (start, start), x)
        return _cross_entropy(np, h @ p[2], y)

    shapes = ((16, 4 * width), (width, 4 * width), (width, 10))
    return loss, _weights(k, *shapes), [k.rng.normal(size=(40, 32, 16)), k.rng.integers(0, 10, 32)]


def graph_network(k: Kit, nodes: int) -> Made:
    """Return the loss of two rounds of messages along ten edges for each node."""
    np = k.np

    def loss(p: Any, x: Any, start: Any, end: Any, y: Any) -> Any:
        for w, own in (p[:2], p[2:4]):
            sent = np.maximum(x[start] @ w, 0)
            x = np.maximum(x @ own + np.zeros((x.shape[0], w.shape[1]), x.dtype).at[end].add(sent), 0)
        return _cross_entropy(np, x @ p[4], y)

    data = [k.rng.normal(size=(nodes, 16)), *[k.rng.integers(0, nodes, 10 * nodes) for _ in range(2)]]
    return loss, _weights(k, *[(16, 16)] * 4, (16, 10)), [*data, k.rng.integers(0, 10, nodes)]


def tables_of_users(k: Kit) -> Made:
    """Return the loss of clicks by eight tables of embeddings, their products in pairs, and a perceptron."""
    np = k.np

    def loss(p: Any, dense: Any, which: Any, y: Any) -> Any:
        rows = [table[which[:, n]] for n, table in enumerate(p[:8])]
        z = np.stack([np.maximum(dense @ p[8], 0), *rows], axis=1)
        pairs = np.reshape(z @ np.swapaxes(z, 1, 2), (z.shape[0], 81))
        score = (np.maximum(pairs @ p[9], 0) @ p[10])[:, 0]
        return np.mean(k.nn.softplus(score) - y * score)

    shapes = [*[(5000, 16)] * 8, (13, 16), (81, 64), (64, 1)]
    data = [k.rng.normal(size=(256, 13)), k.rng.integers(0, 5000, (256, 8)), k.rng.integers(0, 2, 256) * 1.0]
    return loss, _weights(k, *shapes), data


def autoencoder(k: Kit) -> Made:
    """Return the negative evidence bound of a variational autoencoder 784-300-16."""
    np = k.np

    def loss(p: Any, x: Any, noise: Any) -> Any:
        z = np.tanh(x @ p[0]) @ p[1]
        mean, spread = z[:, :16], z[:, 16:]
        score = np.tanh((mean + np.exp(0.5 * spread) * noise) @ p[2]) @ p[3]
        seen = np.sum(k.nn.softplus(score) - x * score, axis=1)
        return np.mean(seen + 0.5 * np.sum(mean**2 + np.exp(spread) - spread - 1, axis=1))

    data = [k.rng.random((100, 784)), k.rng.normal(size=(100, 16))]
    return loss, _weights(k, (784, 300), (300, 32), (16, 300), (300, 784)), data


def diffusion(k: Kit) -> Made:
    """Return the misfit of the noise that a perceptron of points and times finds."""
    np = k.np

    def loss(p: Any, x: Any, t: Any, noise: Any) -> Any:
        kept = np.exp(-3 * t)[:, None]
        angles = t[:, None] * 2.0 ** np.arange(8)
        z = np.concatenate([np.sqrt(kept) * x + np.sqrt(1 - kept) * noise, np.sin(angles), np.cos(angles)], axis=1)
        for w in p[:-1]:
            z = k.nn.silu(z @ w)
        return np.mean((z @ p[-1] - noise) ** 2)

    data = [k.rng.normal(size=(512, 2)), k.rng.random(512), k.rng.normal(size=(512, 2))]
    return loss, _weights(k, (18, 128), (128, 128), (128, 128), (128, 2)), data


def perceptron(k: Kit) -> Made:
    """Return the loss of 784-512-512-10 on a batch of 512."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        z = k.np.maximum(k.np.maximum(x @ p[0], 0) @ p[1], 0)
        return _cross_entropy(k.np, z @ p[2], y)

    data = [k.rng.normal(size=(512, 784)), k.rng.integers(0, 10, 512)]
    return loss, _weights(k, (784, 512), (512, 512), (512, 10)), data


def _each(name: str, make: Callable[..., Made], sizes: Sequence[int]) -> list[Program]:
    return [Program(f"{name} {n}", partial(_sized, make, n)) for n in sizes]


def _sized(make: Callable[..., Made], size: int, k: Kit) -> Made:
    return make(k, size)


PROGRAMS = [
    *_each("ResNet, channels", resnet, (8, 16, 32, 64)),
    Program("U-Net", u_net),
    Program("MobileNet blocks", mobile_net),
    *_each("decoder, width", decoder, (32, 64, 128, 256)),
    Program("vision transformer", vision_transformer),
    *_each("LSTM, width", lstm, (16, 64)),
    *_each("graph network, nodes", graph_network, (300, 10_000)),
    Program("tables of embeddings", tables_of_users),
    Program("variational autoencoder", autoencoder),
    Program("diffusion of points", diffusion),
    Program("perceptron, batch 512", perceptron),
]
WORKLOADS = {
    program.name: Workload(program.name, partial(program.job, "gradient", "float32"), PAIR, tolerance=2e-3)
    for program in PROGRAMS
}
