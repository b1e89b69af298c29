"""The record of an everyday program, and what its author has at hand in afx and in jax."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, scan_of, transforms, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["DTYPES", "KINDS", "PAIR", "Kit", "Made", "Program", "workloads_of"]

Made: TypeAlias = "tuple[Callable[..., Any], Sequence[np.ndarray], Sequence[np.ndarray]]"

PAIR = ("afx", "jax")
DTYPES = ("float32", "float64")
KINDS = ("value", "gradient")
TOLERANCES = {"float32": 2e-3, "float64": 1e-8}
SPECIAL = {"afx": "afx.special", "jax": "jax.scipy.special"}
NETWORKS = {"afx": "afx.nn", "jax": "jax.nn"}


class Kit:
    """What a program imports: the namespace of arrays, loops, transformations and some named functions.

    Attributes:
        np: the namespace of arrays.
        nn: activations.
        special: special functions.
        scan: the loop of known length.
        grad: the derivative of a function.
        vmap: a function of many values at once.
        conv: the convolution of [batch, *positions, channels] by [*window, channels / groups, out], padded to the same size.
        rng: random numbers of the program's data, the same for every library.
    """

    def __init__(self, library: str) -> None:
        self.np: Any = namespace(library)
        self.nn: Any = importlib.import_module(NETWORKS[library])
        self.special: Any = importlib.import_module(SPECIAL[library])
        self.scan: Callable[..., Any] = scan_of(library)
        self.grad: Callable[..., Any] = transforms(library).grad
        self.vmap: Callable[..., Any] = transforms(library).vmap
        self.conv: Callable[..., Any] = _conv_of(library)
        self.rng: np.random.Generator = np.random.default_rng(0)


def _conv_of(library: str) -> Callable[..., Any]:
    if library == "afx":
        from afx import nn

        return partial(nn.conv, padding="same")
    from jax import lax

    def conv(x: Any, kernel: Any, *, stride: int = 1, groups: int = 1) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=order, feature_group_count=groups
        )

    return conv


@attrs.frozen
class Program:
    """A program that people write: a loss of parameters and data.

    Attributes:
        name: what the table calls it.
        make: from a kit to the loss, its parameters and its data, floating numbers in float64.
        loops_in_numpy: why loops of it run NumPy's calls, which `Plan.why_not_native` says; an empty text where none does.
    """

    name: str
    make: Callable[[Kit], Made]
    loops_in_numpy: str = ""

    def arguments(self, library: str, dtype: str) -> Made:
        """Return the loss, and parameters and data with floating numbers in a dtype."""
        loss, params, data = self.make(Kit(library))
        return loss, [_as(x, dtype) for x in params], [_as(x, dtype) for x in data]

    def job(self, kind: str, dtype: str, library: str) -> Job:
        """Return the value, or value and gradient, as a job of a library whose default dtype is the data's."""
        if library == "afx":
            namespace("afx").set_default_dtype(dtype)
        loss, params, data = self.arguments(library, dtype)
        if kind == "gradient":
            return value_and_grad(library, loss, params, data)
        count = len(params)
        return compiled(library, lambda *xs: loss(xs[:count], *xs[count:]), [*params, *data])


def _as(x: Any, dtype: str) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(dtype) if x.dtype.kind == "f" else x.astype(np.int32) if x.dtype.kind == "i" else x


def workloads_of(program: Program) -> list[Workload]:
    """Return the rows of the table that a program makes."""
    return [
        Workload(
            f"{program.name}, {kind}, {dtype}", partial(program.job, kind, dtype), PAIR, tolerance=TOLERANCES[dtype]
        )
        for dtype in DTYPES
        for kind in KINDS
    ]
