"""Convolutions of thirty shapes beside jax.jit and torch: `python -m tests.benchmarks convolutions`.

Each has three rows, its value and its gradients by the input and by the kernel, in float32 on as many threads for each
library as the machine has processors. A row's ratios say how many times longer a peer takes than afx by default, the
least times of several rounds compared.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean
from typing import Any

import attrs
import numpy as np

import afx
from tests.benchmarks.child import wait_for_machine_code
from tests.benchmarks.harness import Row, available, interleaved, table

__all__ = ["NAMES", "main"]

PRODUCTS = ("value", "by input", "by kernel")
REST = 0.03  # seconds, after which no library's threads look for work any longer
AGREES = 1e-5  # in proportion to the largest number: of small integers, whose sums no library rounds


@attrs.frozen
class Shape:
    """A convolution: of float32[batch, *spatial, channels] by windows of one length along each axis."""

    batch: int
    spatial: tuple[int, ...]
    channels: int
    window: int
    out: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def __str__(self) -> str:
        size = "×".join(map(str, (self.batch, *self.spatial, self.channels)))
        options = f" /{self.stride}" * (self.stride > 1) + f" groups {self.groups}" * (self.groups > 1)
        return f"{size} by {self.window}^{len(self.spatial)} to {self.out}{options}"

    def arrays(self) -> tuple[Any, Any, Any]:
        """Return input, kernel and a cotangent, all small integers."""
        rng, rank = np.random.default_rng(0), len(self.spatial)
        window = (self.window,) * rank
        places = [(n + 2 * self.padding - self.window) // self.stride + 1 for n in self.spatial]
        shapes = (
            (self.batch, *self.spatial, self.channels),
            (*window, self.channels // self.groups, self.out),
            (self.batch, *places, self.out),
        )
        return tuple([rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes])


SHAPES = (
    Shape(32, (16, 16), 3, 3, 16, padding=1),
    Shape(32, (16, 16), 8, 3, 8, padding=1),
    Shape(32, (16, 16), 16, 3, 16, padding=1),
    Shape(16, (16, 16), 32, 3, 32, padding=1),
    Shape(8, (16, 16), 64, 3, 64, padding=1),
    Shape(4, (14, 14), 128, 3, 128, padding=1),
    Shape(2, (8, 8), 256, 3, 256, padding=1),
    Shape(1, (32, 32), 16, 3, 16, padding=1),
    Shape(1, (28, 28), 64, 3, 64, padding=1),
    Shape(1, (96, 96), 3, 7, 32, stride=2, padding=3),
    Shape(512, (28, 28), 1, 5, 6),
    Shape(512, (12, 12), 6, 5, 16),
    Shape(128, (28, 28), 1, 3, 32),
    Shape(16, (32, 32), 2, 3, 2, padding=1),
    Shape(8, (32, 32), 3, 3, 12, padding=1),
    Shape(8, (32, 32), 36, 3, 3, padding=1),
    Shape(64, (16, 16), 16, 3, 32, stride=2, padding=1),
    Shape(16, (33, 33), 12, 3, 20, stride=2),
    Shape(64, (16, 16), 32, 1, 64, stride=2),
    Shape(32, (16, 16), 64, 1, 64),
    Shape(8, (14, 14), 256, 1, 64),
    Shape(32, (14, 14), 24, 1, 96),
    Shape(16, (32, 32), 4, 7, 8, padding=3),
    Shape(8, (32, 32), 16, 5, 16, padding=2),
    Shape(8, (24, 24), 8, 7, 8),
    Shape(32, (256,), 1, 7, 16),
    Shape(32, (128,), 16, 5, 16, padding=2),
    Shape(64, (100,), 64, 3, 64, stride=2, padding=1),
    Shape(16, (32, 32), 64, 3, 64, padding=1, groups=64),
    Shape(8, (28, 28), 96, 5, 96, stride=2, padding=2, groups=96),
    Shape(8, (16, 16), 64, 3, 64, padding=1, groups=4),
)
NAMES = {f"{s}, {product}": (s, product) for s in SHAPES for product in PRODUCTS}


def _afx(s: Shape, product: str, x: Any, kernel: Any, ct: Any, backend: Any) -> Callable[[], Any]:
    def conv(x: Any, kernel: Any) -> Any:
        return afx.nn.conv(x, kernel, stride=s.stride, padding=s.padding, groups=s.groups)

    x, kernel, ct = (afx.asarray(a) for a in (x, kernel, ct))
    pulls = {
        "value": conv,
        "by input": lambda ct, kernel: afx.vjp(lambda v: conv(v, kernel), x)[1](ct)[0],
        "by kernel": lambda ct, x: afx.vjp(lambda v: conv(x, v), kernel)[1](ct)[0],
    }
    args = {"value": (x, kernel), "by input": (ct, kernel), "by kernel": (ct, x)}[product]
    jitted = afx.jit(pulls[product], backend=backend)
    return lambda: jitted(*args)


def _jax(s: Shape, product: str, x: Any, kernel: Any, ct: Any) -> Callable[[], Any]:
    jax = importlib.import_module("jax")
    order = ("NHWC", "HWIO", "NHWC") if len(s.spatial) > 1 else ("NWC", "WIO", "NWC")

    def conv(x: Any, kernel: Any) -> Any:
        pads, strides = ((s.padding,) * 2,) * len(s.spatial), (s.stride,) * len(s.spatial)
        return jax.lax.conv_general_dilated(
            x, kernel, strides, pads, dimension_numbers=order, feature_group_count=s.groups
        )

    x, kernel, ct = (jax.numpy.asarray(a) for a in (x, kernel, ct))
    pulls = {
        "value": conv,
        "by input": lambda ct, kernel: jax.vjp(lambda v: conv(v, kernel), x)[1](ct)[0],
        "by kernel": lambda ct, x: jax.vjp(lambda v: conv(x, v), kernel)[1](ct)[0],
    }
    args = {"value": (x, kernel), "by input": (ct, kernel), "by kernel": (ct, x)}[product]
    jitted = jax.jit(pulls[product])
    return lambda: jitted(*args).block_until_ready()


def _torch(s: Shape, product: str, x: Any, kernel: Any, ct: Any) -> Callable[[], Any]:
    """Return the call of torch on arrays with channels in front, its own order, and the result with channels last."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(os.cpu_count() or 1)
    rank = len(s.spatial)
    front = (0, rank + 1, *range(1, rank + 1))
    x, ct = (torch.from_numpy(a.transpose(front).copy()) for a in (x, ct))
    kernel = torch.from_numpy(kernel.transpose(rank + 1, rank, *range(rank)).copy())
    options = (s.stride,) * rank, (s.padding,) * rank, (1,) * rank, False, (0,) * rank, s.groups
    if product == "value":
        return lambda: torch.ops.aten.convolution(x, kernel, None, *options)
    which = PRODUCTS.index(product) - 1
    mask = [which == 0, which == 1, False]
    return lambda: torch.ops.aten.convolution_backward(ct, x, kernel, None, *options, mask)[which]


def _numbers(peer: str, result: Any, product: str) -> Any:
    """Return a result as NumPy's array, with channels last."""
    found = np.asarray(result)
    if peer != "torch":
        return found
    rank = found.ndim - 2
    return found.transpose(*range(2, rank + 2), 1, 0) if product == "by kernel" else np.moveaxis(found, 1, -1)


def _rows(quick: bool, only: Sequence[str]) -> Iterator[Row]:
    peers = [name for name in ("jax", "torch") if available(name)]
    for title, (s, product) in NAMES.items():
        if any(part.lower() in title.lower() for part in only or ("",)):
            arrays = s.arrays()
            runs = {"afx": _afx(s, product, *arrays, backend=None)}
            if available("llvmlite"):
                runs["native"] = _afx(s, product, *arrays, backend="native")
            runs |= {peer: {"jax": _jax, "torch": _torch}[peer](s, product, *arrays) for peer in peers}
            if not quick:
                wait_for_machine_code(runs["afx"])
            want = _numbers("afx", runs["afx"](), product)
            for peer, run in runs.items():
                off = np.abs(_numbers(peer, run(), product) - want).max() / np.abs(want).max()
                assert off <= AGREES, f"{title}: afx and {peer} differ by {off} of the largest number"
            times = interleaved(runs, *((2, 0.001) if quick else (10, 0.005)), min, REST)
            yield title, times["afx"], {p: t / times["afx"] for p, t in times.items() if p != "afx"}


def main(quick: bool = False, only: Sequence[str] = ()) -> bool:
    """Print each convolution's time and the peers' ratios, and the means of these; return whether none is below 1 / 1.2."""
    rows = list(_rows(quick, only))
    table("Convolutions: afx by default, and how many times longer others take", rows)
    found: dict[str, list[float]] = {}
    for *_, beside in rows:
        for peer in {*beside} - {"native"}:
            found.setdefault(f"{peer} beside afx", []).append(beside[peer])
            found.setdefault(f"{peer} beside native", []).append(beside[peer] / beside["native"])
    for name, ratios in sorted(found.items()):
        print(f"  {name}: {geometric_mean(ratios):.2f} in the mean, {min(ratios):.2f} at least")
    return quick or min([1, *[r for ratios in found.values() for r in ratios]]) >= 1 / 1.2
