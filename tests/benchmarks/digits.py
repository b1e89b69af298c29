"""An epoch of the digits' LeNet beside JAX + Equinox + Optax: `python -m tests.benchmarks.digits`.

Each library trains in processes of its own, in turn: the first epoch (making the network, tracing and compiling included;
imports and reading the images are not), then steady ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.harness import available

BATCH, EXAMPLES, SMOOTHING, RATE, DECAY, DROP = 64, 1437, 0.05, 3e-3, 1e-3, 0.3
Images = tuple[Any, Any]
Epoch = Callable[[int], float]  # the number of an epoch to its last loss
Setup = Callable[[], Epoch]


def images() -> Images:
    """Return float32[examples, 8, 8] between 0 and 1, and the digits."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    return (found.images[:EXAMPLES] / 16).astype(np.float32), found.target[:EXAMPLES]


def in_afx(images: Images, epochs: int) -> Setup:
    """Return what makes the example's network in afx."""
    import afx
    from afx import data, nn, optim
    from examples.digits_lenet import network

    def setup() -> Epoch:
        batches = data.batches((images[0][..., None], images[1]), BATCH, key=afx.random.key(1))
        optimizer = optim.adamw(optim.cosine_decay(RATE, epochs * len(batches)), weight_decay=DECAY)
        model = network(afx.random.key(0))
        state = optimizer.init(model)
        noise = afx.random.key(2)

        @afx.jit
        def step(model: Any, state: Any, x: Any, y: Any, key: Any) -> Any:
            def loss(model: Any) -> Any:
                logits, new = model.train(x, key)
                return afx.mean(nn.softmax_cross_entropy(logits, y, smoothing=SMOOTHING)), new

            (value, model), grads = afx.value_and_grad(loss, has_aux=True)(model)
            model, state = optimizer.step(model, grads, state)
            return model, state, value

        def epoch(number: int) -> float:
            nonlocal model, state
            value: Any = None
            for k in range(number * len(batches), (number + 1) * len(batches)):
                model, state, value = step(model, state, *batches[k], afx.random.fold_in(noise, k))
            return float(value)

        return epoch

    return setup


def in_jax(images: Images, epochs: int) -> Setup:
    """Return what makes the same network in Equinox, with Optax."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    class Network(eqx.Module):
        convolutions: list[Any]
        norms: list[Any]
        linears: list[Any]
        pool: Any
        dropout: Any

        def __init__(self, key: Any) -> None:
            keys = jax.random.split(key, 4)
            sizes = ((1, 32), (32, 64))
            self.convolutions = [
                eqx.nn.Conv2d(a, b, 3, padding=1, use_bias=False, key=k) for (a, b), k in zip(sizes, keys, strict=False)
            ]
            self.norms = [eqx.nn.BatchNorm(b, axis_name="batch", mode="batch") for _, b in sizes]
            self.linears = [eqx.nn.Linear(256, 128, key=keys[2]), eqx.nn.Linear(128, 10, key=keys[3])]
            self.pool = eqx.nn.MaxPool2d(2, 2)
            self.dropout = eqx.nn.Dropout(DROP)

        def __call__(self, x: Any, state: Any, key: Any) -> Any:
            for convolution, norm in zip(self.convolutions, self.norms, strict=True):
                x, state = norm(convolution(x), state)
                x = self.pool(jax.nn.relu(x))
            x = self.dropout(jax.nn.relu(self.linears[0](x.reshape(-1))), key=key)
            return self.linears[1](x), state

    def setup() -> Epoch:
        count = EXAMPLES // BATCH
        optimizer = optax.adamw(optax.cosine_decay_schedule(RATE, epochs * count), weight_decay=DECAY)
        model, norms = eqx.nn.make_with_state(Network)(jax.random.key(0))
        state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
        noise = jax.random.key(2)

        @eqx.filter_jit
        def step(model: Any, norms: Any, state: Any, x: Any, y: Any, key: Any) -> Any:
            def loss(model: Any, norms: Any) -> Any:
                keys = jax.random.split(key, BATCH)
                mapped = jax.vmap(model, axis_name="batch", in_axes=(0, None, 0), out_axes=(0, None))
                logits, new = mapped(x[:, None], norms, keys)
                soft = optax.smooth_labels(jax.nn.one_hot(y, 10), SMOOTHING)
                return jnp.mean(optax.softmax_cross_entropy(logits, soft)), new

            (value, norms), grads = eqx.filter_value_and_grad(loss, has_aux=True)(model, norms)
            updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
            return eqx.apply_updates(model, updates), norms, state, value

        def epoch(number: int) -> float:
            nonlocal model, norms, state
            value: Any = None
            order = np.random.default_rng(number).permutation(EXAMPLES)
            for k in range(count):
                rows = order[k * BATCH : (k + 1) * BATCH]
                key = jax.random.fold_in(noise, number * count + k)
                model, norms, state, value = step(model, norms, state, images[0][rows], images[1][rows], key)
            return float(value)

        return epoch

    return setup


LIBRARIES: dict[str, Callable[[Images, int], Setup]] = {"afx": in_afx, "jax": in_jax}


def child(library: str, epochs: int) -> None:
    """Print the seconds of the first epoch, and the medians of the later half: seconds, and processor time of all threads."""
    setup = LIBRARIES[library](images(), epochs)
    begin, busy = time.perf_counter(), time.process_time()
    epoch = setup()
    times: list[float] = []
    work: list[float] = []
    for number in range(epochs):
        loss = epoch(number)
        times.append(time.perf_counter() - begin)
        work.append(time.process_time() - busy)
        begin, busy = time.perf_counter(), time.process_time()
    print(json.dumps([times[0], statistics.median(times[epochs // 2 :]), statistics.median(work[epochs // 2 :]), loss]))


def main() -> int:
    """Run both in turn and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.digits", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library, in turn (3)")
    parser.add_argument(
        "--epochs",
        type=int,
        default=16,
        help="epochs in each (16): the later half is steady, machine code has taken over by then",
    )
    parser.add_argument("--child", choices=tuple(LIBRARIES), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.epochs)
        return 0
    libraries = [name for name in LIBRARIES if name == "afx" or all(map(available, ("jax", "equinox", "optax")))]
    found: dict[str, list[list[float]]] = {name: [] for name in libraries}
    for _ in range(asked.rounds):
        for name in libraries:
            command = [sys.executable, "-m", "tests.benchmarks.digits", "--child", name, "--epochs", str(asked.epochs)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append(json.loads(result.stdout.splitlines()[-1]))
    for name, rounds in found.items():
        first, steady, work, loss = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(
            f"{name}: first epoch {first:.2f} s, steady {1e3 * steady:.1f} ms, of processors {1e3 * work:.1f} ms, "
            f"last loss {loss:.3f}"
        )
    if "jax" in found:
        for k, what in enumerate(("first epoch", "steady epoch", "processor time of one")):
            ratios = [theirs[k] / ours[k] for ours, theirs in zip(found["afx"], found["jax"], strict=True)]
            print(f"{what}: jax takes {statistics.median(ratios):.2f} times as long (median of {len(ratios)} rounds)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
