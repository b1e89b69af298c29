"""Random programs in float64 beside numbers, lists and other dtypes, with transformations inside.

``python -m tests.random_programs 1000 [seed]`` compares values and derivatives with JAX in double precision, which must
be installed, and prints the source of each program that differs.
"""

from __future__ import annotations

import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from tests import random_statements as pool
from tests.random_libraries import AFX, jax_library
from tests.random_statements import Shape

__all__ = ["MODES", "POINT", "RUNS", "SHALLOW", "Program", "apart", "arrays_of", "make_program"]

POINT = (np.array([0.37, -0.82, 1.21]), np.array([[0.51, -0.23, 0.94], [1.13, 0.29, -0.66]]))
SHALLOW = ("value", "grad", "jvp", "vmap_grad", "linearize")  # modes whose programs nest deeper
MODES = ("value", "grad", "jvp", "hessian", "hvp", "jacfwd", "jacrev", "vmap_grad", "third", "jvp_grad", "linearize")

TWICE = 0.25  # of operations of two operands, how many take one value twice


class Program:
    """A random function of a vector and a matrix that returns a float64 scalar.

    Attributes:
        source: Python code of ``f(L, x, y)``, where L is a library.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        space: dict[str, Any] = {"np": np}
        exec(source, space)
        self.function = space["f"]

    def run(self, library: Any, mode: str, compile: Callable[[Any], Any] = lambda fn: fn) -> Any:
        """Return the value or a derivative at a fixed point, by a library's functions."""
        x, y = POINT
        fn = lambda x, y: self.function(library, x, y)
        return compile(DERIVATIVES[mode](library, fn))(library.asarray(x), library.asarray(y))


def _jvp(lib: Any, fn: Any, x: Any, y: Any) -> Any:
    return lib.jvp(fn, (x, y), (lib.asarray(POINT[0] * 0.7 - 0.1), lib.asarray(POINT[1] * -0.4 + 0.3)))


DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda lib, fn: fn,
    "grad": lambda lib, fn: lib.grad(fn, (0, 1)),
    "jvp": lambda lib, fn: lambda x, y: _jvp(lib, fn, x, y),
    "hessian": lambda lib, fn: lib.hessian(fn),
    "hvp": lambda lib, fn: lambda x, y: lib.grad(lambda y: lib.sum(lib.grad(fn, 1)(x, y) * POINT[1][::-1]))(y),
    "jacfwd": lambda lib, fn: lib.jacfwd(lib.grad(fn)),
    "jacrev": lambda lib, fn: lib.jacrev(lib.grad(fn, 1), 0),
    "vmap_grad": lambda lib, fn: lambda x, y: lib.vmap(lib.grad(fn), (0, None))(lib.stack([x, x * 0.8, x + 0.1]), y),
    "third": lambda lib, fn: (
        lambda x, y: lib.grad(lambda x: lib.sum(lib.grad(lambda x: lib.sum(lib.grad(fn)(x, y) ** 2))(x)))(x)
    ),
    "jvp_grad": lambda lib, fn: lambda x, y: _jvp(lib, lib.grad(fn), x, y),
    "linearize": lambda lib, fn: lambda x, y: lib.linearize(lambda x: fn(x, y), x)[1](x * 0.5),
}


class _Writer:
    """Writes a program's lines: each statement adds a value of a known shape."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def new(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def number(self) -> str:
        return self.rng.choice(pool.NUMBERS)

    def fill(self, template: str, a: str, b: str = "") -> str:
        text = template.replace("{a}", a).replace("{b}", b).replace("{n}", self.number())
        text = text.replace("{p}", self.rng.choice([n for n in pool.NUMBERS if n[0] != "-"]))
        return text.replace("{pad}", f"((1, 0),) if {a}.ndim == 1 else ((0, 0), (1, 0))")

    def block(self, values: list[tuple[str, Shape]], length: int, indent: str, depth: int) -> list[tuple[str, Shape]]:
        """Write statements over some values; return these and the new ones."""
        known = list(values)
        for _ in range(length):
            text, shape = self.statement(known, indent, depth)
            name = self.new()
            if self.rng.random() < 0.35:
                text = f"3 * L.tanh(({text}) / 3)"
            self.lines.append(f"{indent}{name} = {text}")
            known.append((name, shape))
        return known

    def pick(self, known: list[tuple[str, Shape]], *shapes: Shape) -> tuple[str, Shape] | None:
        fit = [v for v in known if not shapes or v[1] in shapes]
        return self.rng.choice(fit[-4:] if self.rng.random() < 0.7 else fit) if fit else None

    def pair(self, known: list[tuple[str, Shape]], *shapes: Shape) -> tuple[tuple[str, Shape], tuple[str, Shape]]:
        """Return two values, which are often one."""
        first = self.pick(known, *shapes) or ("", ())
        return first, first if self.rng.random() < TWICE else self.pick(known, *shapes) or ("", ())

    def statement(self, known: list[tuple[str, Shape]], indent: str, depth: int) -> tuple[str, Shape]:
        rng = self.rng
        found = None
        while found is None:
            kind = rng.choices(
                [
                    "unary",
                    "pair",
                    "number",
                    "guarded",
                    "row",
                    "reduced",
                    "outer",
                    "square",
                    "scalar",
                    "everyday",
                    "nested",
                ],
                [18, 14, 10, 4, 12, 8, 5, 4, 4, 24, 18 if depth else 0],
            )[0]
            found = getattr(self, f"_{kind}")(known, indent, depth)
        return found

    def _unary(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(pool.ELEMENTWISE), name), shape

    def _pair(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        (a, s), (b, t) = self.pair(known)
        if s and t and len(s) == len(t) and s != t:
            return None
        return self.fill(self.rng.choice(pool.PAIRS), a, b), max(s, t, key=len)

    def _number(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(pool.NUMBERED), name), shape

    def _guarded(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(pool.GUARDED), name), shape

    def _row(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3,), (2, 3))
        if found is None:
            return None
        template = self.rng.choice(pool.ROWS if len(found[1]) == 1 else [r for r in pool.ROWS if "tril" not in r])
        return self.fill(template, found[0]), found[1]

    def _reduced(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3,), (3, 3))
        return None if found is None else (self.fill(self.rng.choice(pool.REDUCED), found[0]), found[1][:-1])

    def _outer(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        a, b = self.pair(known, (3,))
        return (self.fill(self.rng.choice(pool.OUTER), a[0], b[0]), (3, 3)) if a[0] else None

    def _square(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3, 3))
        return None if found is None else (self.fill(self.rng.choice(pool.SQUARE), found[0]), (3, 3))

    def _scalar(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3, 3))
        return None if found is None else (self.fill(self.rng.choice(pool.FROM_SQUARE), found[0]), ())

    def _everyday(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        a, b = self.pair(known, (3,))
        m, s = self.pick(known, (2, 3)), self.pick(known, (3, 3))
        if not a[0] or m is None:
            return None
        square = s[0] if s else f"({a[0]}[:, None] * {b[0]})"
        text, shape = self.rng.choice(pool.EVERYDAY)
        return self.fill(text.replace("{m}", m[0]).replace("{s}", square), a[0], b[0]), shape

    # -- transformations inside ---------------------------------------------------------------------------------------
    def function(self, known: list[tuple[str, Shape]], args: list[Shape], out: Shape, indent: str, depth: int) -> str:
        """Write a function of values of some shapes that closes over what is known, and return its name."""
        name = self.new("g")
        names = [self.new("z") for _ in args]
        self.lines.append(f"{indent}def {name}({', '.join(names)}):")
        inner = [*known, *zip(names, args, strict=True)]
        found = self.block(inner[-5:], self.rng.randint(1, 3), indent + "    ", depth - 1)
        last, shape = found[-1]
        self.lines.append(
            f"{indent}    return {_reshaped(f'L.tanh({last}) + 0.1 * {names[0]}', _joint(shape, args[0]), out)}"
        )
        return name

    def _nested(self, known: list[tuple[str, Shape]], indent: str, depth: int) -> tuple[str, Shape] | None:
        vector, matrix = self.pick(known, (3,)), self.pick(known, (2, 3))
        if vector is None or matrix is None:
            return None
        kind = self.rng.choice(list(pool.NESTED))
        given, result, shape, template = pool.NESTED[kind]
        for key in ("{g}", "{h}"):
            if key in template:
                inner = [] if kind.startswith("custom") else known  # rules of one's own close over nothing
                template = template.replace(key, self.function(inner, given, result, indent, depth))
        text = template.replace("{a}", vector[0]).replace("{rows}", matrix[0])
        return text.replace("{number}", self.rng.choice(["0", "0.7", "-1", "0.1"])), shape


def _joint(s: Shape, t: Shape) -> Shape:
    return np.broadcast_shapes(s, t)


def _reshaped(text: str, shape: Shape, out: Shape) -> str:
    """Return an expression of a shape as one of another."""
    if shape == out:
        return text
    if out == ():
        return f"L.sum({text})"
    return f"L.sum({text}, axis=0)" if len(shape) > 1 else f"({text}) * L.ones({out})"


def make_program(seed: int, length: int = 6, depth: int = 2) -> Program:
    """Return the program of a seed."""
    writer = _Writer(seed)
    writer.lines.append("def f(L, x, y):")
    known = writer.block([("x", (3,)), ("y", (2, 3)), ("x", (3,))], length, "    ", depth)
    total = " + ".join([f"L.sum(L.tanh({name}) * {0.3 + 0.2 * k:.1f})" for k, (name, _) in enumerate(known[3:])])
    writer.lines.append(f"    return {total}")
    return Program("\n".join(writer.lines) + "\n")


def arrays_of(tree: Any) -> list[Any]:
    """Return a result's arrays as NumPy's."""
    if isinstance(tree, (tuple, list)):
        return [z for part in tree for z in arrays_of(part)]
    return [np.asarray(tree)]


def apart(found: Any, wanted: Any) -> float:
    """Return how far results are apart, relative to the largest element; infinity for other shapes, dtypes or nan."""
    worst = 0.0
    for z, want in zip(arrays_of(found), arrays_of(wanted), strict=True):
        if z.shape != want.shape or z.dtype != want.dtype or not np.array_equal(np.isfinite(z), np.isfinite(want)):
            return np.inf
        with np.errstate(invalid="ignore"):
            worst = max(
                worst,
                float(
                    np.max(np.abs(z - want), initial=0, where=np.isfinite(z))
                    / (1 + np.max(np.abs(want), initial=0, where=np.isfinite(want)))
                ),
            )
    return worst


class RefusedError(Exception):
    """A program that JAX does not run, or of whose padding LAPACK gives no eigenvalues."""


def run_by_jax(program: Program, library: Any, mode: str) -> Any:
    """Return what a program gives in JAX, as one compiled function, which takes a third of the time of its single operations.

    Raises:
        RefusedError: JAX does not take it.
    """
    try:
        try:
            return arrays_of(program.run(library, mode, library.jit))
        except library.CompilerError:  # such as transforms of what is laid out in another order
            with library.disable_jit():
                return arrays_of(program.run(library, mode))
    except Exception as error:  # of whichever kind
        raise RefusedError(f"{type(error).__name__}: {error}") from None


def differs_from_jax(library: Any, seed: int, mode: str) -> str:
    """Return how a program's result differs from JAX's, an empty text where conditioning explains it."""
    program = make_program(seed, 3 + seed % 4, 1 + (mode in SHALLOW))
    want = run_by_jax(program, library, mode)
    for name, compile in RUNS.items():
        if name == "native" and seed % 5:  # which takes longer to make than all else to run
            continue
        try:
            distance = apart(program.run(AFX, mode, compile), want)
        except np.linalg.LinAlgError as error:
            if "did not converge" in str(error):  # of padding that is nan: NumPy raises, where JAX gives nan
                raise RefusedError(f"LAPACK: {error}") from None
            raise
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}\n{program.source}"
        if distance > 1e-12:
            point = POINT[0].copy()
            POINT[0][...] *= 1 + 1e-15 * np.array([1, -2, 3])
            moved = apart(run_by_jax(program, library, mode), want)
            POINT[0][...] = point
            if distance > 1e3 * moved:
                return f"{name}: {distance:.2g} apart, moves by {moved:.2g}\n{program.source}"
    return ""


RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda fn: fn,
    "numpy": lambda fn: afx.jit(fn, backend="numpy"),
    "native": lambda fn: afx.jit(fn, backend="native"),
}


def compare_with_jax(seeds: range) -> Counter[str]:
    """Return how many of the programs of some seeds hold, differ, or are refused by JAX; print the source of others.

    A run that is stopped counts those that it has seen.
    """
    library, counts = jax_library(), Counter[str]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        for seed in seeds:
            mode = MODES[seed % len(MODES)]
            try:
                text = differs_from_jax(library, seed, mode)
            except RefusedError as error:
                counts["refused"] += 1
                sys.stdout.write(f"--- {seed} {mode} refused: {str(error)[:200]}\n")
                continue
            counts["differ" if text else "hold"] += 1
            if text:
                sys.stdout.write(f"--- {seed} {mode} {text}\n")
    except KeyboardInterrupt:
        sys.stdout.write(f"stopped after {counts.total()} of {len(seeds)}\n")
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    total, begin = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    result = compare_with_jax(range(begin, begin + total))
    sys.stdout.write(f"seeds from {begin}: {', '.join([f'{n} {what}' for what, n in result.items()])}\n")
    sys.exit(result["differ"] > 0)
