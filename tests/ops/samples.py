"""Operands for the tests that run over all primitives: written down in ``samples_*.py``, or made from the domain."""

import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import afx
from afx.core.aval import Aval, aval_of
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from tests import every
from tests.ops.domains import domain

RNG = np.random.default_rng(7)
PARTS = 6


@attrs.frozen(eq=False)
class Sample:
    """One call of a primitive.

    Attributes:
        operands: float64 arrays where it differentiates, integers where it takes indices.
        params: its parameters.
        symmetric: whether the operands are symmetric matrices, and are moved as such.
        drawn: whether the derivative is that of a quantile, while at one key the result moves otherwise.
    """

    operands: tuple[Any, ...]
    params: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    symmetric: bool = False
    drawn: bool = False

    @property
    def moving(self) -> list[int]:
        """The positions of the operands that a derivative is taken by."""
        return [k for k, x in enumerate(self.operands) if np.asarray(x).dtype.kind in "fc"]

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """The operands that a derivative is taken by."""
        return tuple(np.asarray(self.operands[k]) for k in self.moving)

    def directions(self) -> tuple[np.ndarray, ...]:
        """Return random directions in which the operands are moved."""
        found = [normal_like(x) for x in self.points]
        return tuple((t + t.swapaxes(-1, -2)) / 2 for t in found) if self.symmetric else tuple(found)

    def at(self, values: tuple[Any, ...], moving: list[int] | None = None) -> list[Any]:
        """Return all operands, with these in the places of those that are moved."""
        xs = list(self.operands)
        for k, v in zip(self.moving if moving is None else moving, values, strict=True):
            xs[k] = v
        return xs


def normal_like(x: Any) -> np.ndarray:
    """Return normal random numbers of an array's shape, complex for a complex one."""
    x = np.asarray(x)
    t = RNG.normal(size=x.shape)
    return t + 1j * RNG.normal(size=x.shape) if x.dtype.kind == "c" else t


def begin(name: str) -> None:
    """Begin the shared generator anew for a case, from its name: its directions are its own, whatever ran before it."""
    RNG.bit_generator.state = np.random.PCG64(zlib.crc32(name.encode())).state


def each_sample(
    cases: Iterable[Any], arguments: str = "p, sample"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the mark of a test over samples: some tests that processes share, in which each sample of a primitive runs."""
    return every.every(arguments, cases, group=lambda p: f"part {zlib.crc32(p.name.encode()) % PARTS}", begin=begin)


def together(*args: Any, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the mark of a test that runs for all values in one test, each with directions of its own."""
    return every.together(*args, begin=begin, **options)


def written() -> dict[str, list[Sample]]:
    """Return the samples of every ``samples_*.py`` of this folder, by primitive."""
    found: dict[str, list[Sample]] = {}
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if info.name.startswith("samples_"):
            found |= importlib.import_module(f"tests.ops.{info.name}").SAMPLES
    return found


def arity(p: Primitive) -> int:
    """Return the number of operands of an elementwise op."""
    return len(p.derivative.vjps) if p.derivative.vjps else len(inspect.signature(p.impl).parameters)


def elementwise(p: Primitive) -> list[Sample]:
    """Return operands inside the domain of an elementwise op, of shapes that broadcast."""
    count = arity(p)
    shapes: list[tuple[tuple[int, ...], ...]] = [((2, 3),) * count, ((),) * count, ((0, 2),) * count]
    if count > 1:
        shapes += [((2, 1), (3,), (1, 1))[:count], ((), (2, 3), ())[:count], ((0, 1), (1, 2), ())[:count]]
    low, high = domain(p)
    rng = np.random.default_rng(zlib.crc32(p.name.encode()))  # the same operands, whatever other ops there are
    return [Sample(tuple(_operand(p, k, rng.uniform(low, high, s)) for k, s in enumerate(shape))) for shape in shapes]


def _operand(p: Primitive, k: int, x: np.ndarray) -> np.ndarray:
    if k < p.condition_operands:
        return np.asarray(x > 0)
    return x if takes(p, np.float64) else (4 * np.abs(x)).astype(np.int64)


def takes(p: Primitive, dtype: Any) -> bool:
    """Tell whether an elementwise op is defined for a dtype."""
    try:
        p.abstract_eval(*[Aval((), np.dtype(dtype))] * arity(p))
    except TypeError:
        return False
    return True


def is_real(p: Primitive, sample: Sample) -> bool:
    """Tell whether operands and results are real."""
    operands = [aval_of(x) for x in sample.operands]
    return not any(a.dtype.kind == "c" for a in (*operands, *outputs(p, p.abstract_eval(*operands, **sample.params))))


def holds_function(p: Primitive) -> bool:
    """Tell whether a primitive is made of functions; those are tested where they are called."""
    among_slots = {"psum", "slot_gather", "psum_scatter", "slot_shift"}  # tests/distributed/test_spmd.py
    return p.derivative.concrete_vjp is not None or p.name == "callback" or p.name in among_slots


def samples() -> Iterator[tuple[Primitive, int, Sample]]:
    """Yield every call of every primitive that the tests make."""
    found = written()
    for p in afx.primitives():
        if not holds_function(p):
            for k, sample in enumerate(elementwise(p) if p.is_elementwise else found.get(p.name, [])):
                yield p, k, sample


def call(p: Primitive, sample: Sample, *xs: Any) -> tuple[Any, ...]:
    """Return the results of a primitive as a tuple."""
    return outputs(p, bind(p, *xs, **sample.params))


def outputs(p: Primitive, z: Any) -> tuple[Any, ...]:
    """Return the result of a primitive as a tuple."""
    return z if p.multiple_results else (z,)
