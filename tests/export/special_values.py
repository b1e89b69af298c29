"""Elementwise operations as C, NumPy's text, ONNX and StableHLO, beside eager ones at special values of each dtype.

``python -m tests.export.special_values 20 [seed]`` compares them at random bit patterns too, so many rounds of all dtypes.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import afx
from afx import export
from afx.compiler.graph.legalize import legalize
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.errors import AfxError, ExportError
from afx.export.onnx.elementwise import TABLE
from afx.export.stablehlo.table import STABLEHLO
from tests.export.forms import has_c_form
from tests.export.onnx_models import run_model
from tests.ops.samples import arity, holds_function, takes

__all__ = ["DTYPES", "TARGETS", "differences"]

DTYPES = "?bhilBHILfd"
TOLERANCE = {"f": 2e-6, "d": 1e-11, "e": 2e-3}
RANDOM = 24  # bit patterns of a round
TIES = ("maximum", "minimum", "fmax", "fmin", "beta")  # whose zeros have either sign, as processors and formulas choose
CANCELS = ("kl_div", "rel_entr")  # whose parts are as large as their operands, eagerly too
# SciPy's own values of parameters beyond are nan, 0 for 1, or rounded otherwise: tests of the formulas ask mpmath there
SCIPYS = ("beta", "betaln", "digamma_gap", "gammainc", "gammaincc", "stdtr")
TOGETHER = {"onnx": 30}  # calls in a program: a longer one takes longer than its parts, elsewhere all are one
LEAST, MOST = 0.3, 2e10
FLOATS = (0.0, 1.0, 0.5, 2.5, 3.0, 1e-3, 1 / 3, 170.5, 1e10, np.inf)


class Call(NamedTuple):
    """An operation of operands that it takes."""

    p: Primitive
    operands: list[np.ndarray[Any, Any]]


def values_of(dtype: Any, rng: np.random.Generator | None) -> np.ndarray[Any, Any]:
    """Return special values: zeros, infinities, nan, the smallest and largest, where exponentials end; or random bits."""
    d = np.dtype(dtype)
    if rng is not None:
        return rng.integers(0, 256, RANDOM * d.itemsize, np.uint8).view(d) if d.kind != "b" else rng.random(3) < 0.5
    if d.kind == "b":
        return np.array([False, True])
    if d.kind in "iu":
        info = np.iinfo(d)
        below = [info.min, info.min + 1, -1, -2, -7] if d.kind == "i" else []
        return np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.max // 3, *below], d)
    limits = np.finfo(d)
    ends = [89.0, 103.5] if d.itemsize == 4 else [710.0, 745.1]
    sizes = [*FLOATS, *ends, limits.max, limits.tiny, limits.smallest_subnormal]
    return np.array([np.nan, *sizes, *[-x for x in sizes]], d)


def calls_of(dtype: Any, rng: np.random.Generator | None = None) -> Iterator[Call]:
    """Yield every elementwise operation with all pairs of values."""
    for p in afx.primitives():
        if not p.is_elementwise or holds_function(p) or arity(p) > 2 or not takes(p, dtype):
            continue
        grid = [x.ravel().copy() for x in np.meshgrid(*[values_of(dtype, rng)] * arity(p))]
        try:
            bind(p, *grid)
        except AfxError:  # a power of integers with a negative exponent
            grid = [np.abs(x) for x in grid]
            if any(np.any(x < 0) for x in grid):
                grid = [np.where(x < 0, x.dtype.type(1), x) for x in grid]
        yield Call(p, grid)


def by_c(fn: Any, *xs: Any) -> Any:
    """Return the results of exported machine code."""
    return afx.pytree.leaves(export.compile(fn, *xs, name="swept")(*xs))


def by_text(fn: Any, *xs: Any) -> Any:
    """Return the results of a file of NumPy."""
    space: dict[str, Any] = {}
    exec(export.to_numpy(fn, *xs, name="swept"), space)
    return space["swept"](*xs)


def by_onnx(fn: Any, *xs: Any) -> Any:
    """Return the results of a model of ONNX."""
    return run_model(export.to_onnx(fn, *xs), *xs)


def by_xla(fn: Any, *xs: Any) -> Any:
    """Return the results of StableHLO."""
    run: Any = importlib.import_module("tests.export.stablehlo.test_to_stablehlo").xla()
    return run(export.to_stablehlo(fn, *xs), xs)


TARGETS: dict[str, Callable[..., Any]] = {"c": by_c, "numpy": by_text, "onnx": by_onnx, "stablehlo": by_xla}


def results_of(target: str, calls: Sequence[Call]) -> Iterator[tuple[Call, Any]]:
    """Yield the result of each call that a target writes: some in one function, halved where one is refused."""

    def fn(*xs: Any) -> list[Any]:
        rest = iter(xs)
        return [bind(c.p, *itertools.islice(rest, len(c.operands))) for c in calls]

    try:
        yield from zip(calls, TARGETS[target](fn, *[x for c in calls for x in c.operands]), strict=True)
    except ExportError:
        half = len(calls) // 2
        for part in (calls[:half], calls[half:]) if half else ():
            yield from results_of(target, part)


def is_written(target: str, call: Call) -> bool:
    """Tell whether a target has a form of all that a call is made of; nothing is compiled."""

    def fn(*xs: Any) -> Any:
        return bind(call.p, *xs)

    table: Any = {"onnx": TABLE, "stablehlo": STABLEHLO}.get(target)
    if table is not None and not all(
        map(table.has, legalize(afx.trace(fn)(*call.operands), table.has, None).equations)
    ):
        return False
    if target == "c":
        return has_c_form(fn, *call.operands)
    with contextlib.suppress(ExportError):
        if (
            target == "onnx" and call.operands[0].dtype.kind == "u"
        ):  # whose templates refuse what numbers of 64 bits lack
            export.to_onnx(fn, *call.operands)
        return True
    return False


def differ(target: str, call: Call, got: Any) -> np.ndarray[Any, Any]:
    """Return where a result is not the eager one: zeros of the other sign count but in ONNX, subnormal numbers but in XLA."""
    got, want = np.asarray(got), np.asarray(bind(call.p, *call.operands))
    assert (got.shape, got.dtype) == (want.shape, want.dtype), call.p.name
    bad = got != want
    if want.dtype.kind == "f":
        sizes = np.abs(want)
        least = np.maximum.reduce(np.abs(call.operands)) if call.p.name in CANCELS else np.minimum(sizes, 1) + 1
        close = np.abs(got - want) <= TOLERANCE[want.dtype.char] * sizes + 8 * np.finfo(want.dtype).eps * least
        bad &= ~(close | (np.isnan(got) & np.isnan(want)))
        if target != "onnx" and call.p.name not in TIES:
            bad |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    if call.p.name in SCIPYS:
        bad &= np.all([(np.abs(x) >= LEAST) & (np.abs(x) <= MOST) for x in call.operands], axis=0)
    if target == "stablehlo":
        for x in (*call.operands, want):
            bad &= ~((x != 0) & (np.abs(x) <= np.finfo(x.dtype).tiny)) if x.dtype.kind == "f" else True
    return bad


def differences(target: str, dtype: Any, rng: np.random.Generator | None = None) -> tuple[list[str], int]:
    """Return what differs, in words, and how many operations were compared."""
    found, count = list[str](), 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        written = [call for call in calls_of(dtype, rng) if is_written(target, call)]
        size = TOGETHER.get(target, len(written))
        parts = [written[k : k + size] for k in range(0, len(written), size)]
        for call, got in itertools.chain.from_iterable(results_of(target, part) for part in parts):
            count += 1
            places = np.flatnonzero(differ(target, call, got))
            want = np.asarray(bind(call.p, *call.operands))
            found += [
                f"{call.p.name} of {', '.join([repr(x[k]) for x in call.operands])}: {np.asarray(got)[k]!r}, not {want[k]!r}"
                for k in places[:3]
            ]
    return found, count


def main(rounds: int, seed: int = 0) -> int:
    """Compare all at random bit patterns; return how many rounds differ."""
    wrong = 0
    for k, target, dtype in itertools.product(range(rounds), TARGETS, DTYPES):
        found, _ = differences(target, dtype, np.random.default_rng([seed, k]))
        for text in found:
            print(f"{target} {np.dtype(dtype)} round {k}: {text}")  # noqa: T201  # the report
        wrong += bool(found)
    print(f"{rounds} rounds of {len(TARGETS)} targets and {len(DTYPES)} dtypes: {wrong} differ")  # noqa: T201  # the report
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:3]))))
