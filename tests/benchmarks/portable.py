"""Portable code beside `backend="native"`: `python -m tests.benchmarks portable`.

Elementary and special functions, sums, sorts, products of float32 and float64 in three sizes, and the networks. A row says how
many times longer portable code takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import geometric_mean
from typing import Any, Literal

import numpy as np

import afx
from afx import special
from tests.benchmarks.harness import interleaved
from tests.benchmarks.networks import PROGRAMS

__all__ = ["NAMES", "main"]

BACKENDS: tuple[Literal["portable"], Literal["native"]] = ("portable", "native")
DTYPES = ("float32", "float64")
SIZES = (10_000, 100_000, 1_000_000)
OF_NUMBERS = "exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh cbrt".split()  # noqa: SIM905  # names
OF_POSITIVE = "log log2 log10 log1p sqrt".split()  # noqa: SIM905  # names
OF_UNIT = "arcsin arccos arctanh".split()  # noqa: SIM905  # names

Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {name: getattr(afx, name) for name in (*OF_NUMBERS, *OF_POSITIVE, *OF_UNIT)} | {
    "arccosh": lambda x: afx.arccosh(1 + abs(x)),
    "logistic": lambda x: 1 / (1 + afx.exp(-x)),
    "power": lambda x: (abs(x) + 0.1) ** x,
    "hypot": lambda x: afx.hypot(x, x[::-1]),
    "arctan2": lambda x: afx.arctan2(x, x[::-1]),
    **{name: getattr(special, name) for name in ("erf", "erfc", "gammaln")},
}
OTHERS: dict[str, Function] = {
    "x + x": lambda x: x + x,
    "sum": afx.sum,
    "sums of columns": lambda x: afx.sum(x.reshape(-1, 100), axis=0),
    "sums of rows": lambda x: afx.sum(x.reshape(-1, 100), axis=1),
    "max": afx.max,
    "var": afx.var,
    "cumsum": afx.cumsum,
    "logsumexp of rows": lambda x: special.logsumexp(x.reshape(-1, 100), axis=1),
    "sort": afx.sort,
    "argsort": afx.argsort,
    "sort of rows": lambda x: afx.sort(x.reshape(-1, 100), axis=1),
    "argsort of rows": lambda x: afx.argsort(x.reshape(-1, 100), axis=1),
    "product of matrices": lambda x: (m := x[: int(x.size**0.5) ** 2].reshape(int(x.size**0.5), -1)) @ m,
}


NAMES = (*FUNCTIONS, *OTHERS)


def _numbers(name: str, size: int, dtype: str) -> Any:
    x = np.random.default_rng(0).normal(size=size).astype(dtype)
    return np.abs(x) * 3 + x.dtype.type(0.1) if name in OF_POSITIVE else np.tanh(x) if name in OF_UNIT else x


def _ratio(fn: Function, args: Sequence[Any], rounds: int) -> float:
    """Return how many times longer portable code takes."""
    calls: dict[str, Function] = {name: partial(afx.jit(fn, backend=name), *args) for name in BACKENDS}
    seconds = interleaved(calls, rounds, 0.005)
    return seconds["portable"] / seconds["native"]


def _rows(table: dict[str, Function], sizes: Sequence[int], rounds: int) -> Iterator[tuple[str, list[float]]]:
    for name, fn in table.items():
        numbers = [_numbers(name, size, dtype) for dtype in DTYPES for size in sizes]
        yield name, [_ratio(fn, [afx.asarray(x)], rounds) for x in numbers]


def _networks(rounds: int) -> Iterator[tuple[str, list[float]]]:
    for program in PROGRAMS:
        loss, params, data = program.arguments("afx", "float32")
        args = [tuple(map(afx.asarray, params)), *map(afx.asarray, data)]
        yield program.name, [_ratio(afx.value_and_grad(loss), args, rounds)]


def main(quick: bool = False, only: Sequence[str] = ()) -> None:
    """Print the tables."""
    rounds, sizes = (2, SIZES[:1]) if quick else (9, SIZES)
    by_size = f"{', '.join(DTYPES)} of {', '.join(f'{n:,}' for n in sizes)}"
    chosen = [
        {name: fn for name, fn in each.items() if not only or any(part.lower() in name.lower() for part in only)}
        for each in (FUNCTIONS, OTHERS)
    ]
    tables = [
        (f"functions, {by_size}", _rows(chosen[0], sizes, rounds)),
        (f"others, {by_size}", _rows(chosen[1], sizes, rounds)),
        *([] if only else [("networks, value and gradient in float32", _networks(rounds))]),
    ]
    for title, rows in tables:
        found: list[float] = []
        print(f'\nPortable code beside backend="native": {title}')
        for name, ratios in rows:
            found += ratios
            print(f"  {name:28s}", *[f"{ratio:6.2f}" for ratio in ratios], flush=True)
        if found:
            print(f"  {'mean (geometric)':28s} {geometric_mean(found):6.2f}")
