"""Random programs in float64 beside numbers, lists and other dtypes, with transformations inside.

``python -m tests.random_programs 1000 [seed]`` compares values and derivatives with JAX in double precision, which must
be installed, and prints the source of each program that differs.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import afx

__all__ = ["AFX", "MODES", "POINT", "RUNS", "SHALLOW", "Program", "apart", "arrays_of", "jax_library", "make_program"]

POINT = (np.array([0.37, -0.82, 1.21]), np.array([[0.51, -0.23, 0.94], [1.13, 0.29, -0.66]]))
ELEMENTWISE = [
    "L.sin({a})",
    "L.cos({a})",
    "L.tanh({a})",
    "L.arctan({a})",
    "L.exp(L.sin({a}))",
    "L.log(1.5 + L.tanh({a}))",
    "L.sqrt({a} * {a} + 0.3)",
    "L.log1p({a} ** 2)",
    "L.expm1(L.tanh({a}))",
    "L.sinh(L.sin({a}))",
    "L.arcsinh({a})",
    "L.arcsin(L.tanh({a}) * 0.9)",
    "L.arccosh({a} ** 2 + 1.2)",
    "L.arctanh(0.8 * L.sin({a}))",
    "L.cbrt(2 + L.sin({a}))",
    "L.abs({a} - 0.123)",
    "L.square(L.tanh({a}))",
    "L.reciprocal(1.5 + L.sin({a}))",
    "-{a}",
    "L.exp2(L.sin({a}))",
    "L.log2(2 + L.cos({a}))",
    "L.log10(2 + L.cos({a}))",
    "L.sinc({a})",
    "L.sign({a}) * {a} ** 2",
    "L.floor({a}) * {a}",
    "L.nan_to_num({a})",
    "L.clip({a}, -0.53, 0.87)",
    "L.clip({a}, -1, None)",
    "L.where({a} > 0.1234, {a}, 0.2 * {a})",
    "L.deg2rad({a}) * 50",
    "L.erf({a})",
    "L.gammaln(1.5 + {a} ** 2)",
    "L.digamma(1.5 + {a} ** 2)",
    "L.expit({a})",
    "L.logsumexp(L.stack([{a}, 0.5 * {a}]), axis=0)",
    "L.where({a} > 0.1, L.log(L.where({a} > 0.1, {a}, 1.0)), 0)",
    "L.cosh(L.tanh({a}))",
    "L.tan(L.tanh({a}))",
    "({a} * 2) ** 3 * 0.1",
    "2 ** L.sin({a})",
    "1.7 ** {a}",
    "10 ** L.tanh({a})",
    "(1.5 + L.sin({a})) ** -0.7",
    "({a} ** 2 + 0.2) ** 0.5",
    "L.real(L.exp(1j * {a}))",
    "L.imag(({a} + 0.7j) ** 2)",
    "L.abs({a} + 0.3j)",
    "L.angle({a} + 1.3j)",
    "L.sinh({a}) / L.cosh({a})",
    "L.softplus({a})",
    "L.i0e({a})",
    "L.log_ndtr({a})",
]
PAIRS = [
    "{a} + {b}",
    "{a} - {b}",
    "{a} * {b}",
    "{a} / (1.5 + L.sin({b}))",
    "{b} / ({a} ** 2 + 0.5)",
    "L.hypot({a}, {b} + 0.2)",
    "L.arctan2({a}, 1.5 + L.tanh({b}))",
    "L.power(1.2 + L.tanh({a}), {b})",
    "L.logaddexp({a}, {b})",
    "L.logaddexp2({a}, {b})",
    "L.maximum({a}, {b} + 0.01)",
    "L.minimum({a}, {b} - 0.01)",
    "L.where({a} > {b} + 0.013, {a}, {b} * 0.5)",
    "L.fmax({a}, {b} * 1.01)",
    "L.xlogy({a}, 1.2 + L.tanh({b}))",
    "L.xlog1py({a}, 0.2 + L.tanh({b}) ** 2)",
    "L.remainder({a}, 1.5 + L.tanh({b}))",
    "L.copysign({a}, {b} + 0.017)",
    "L.float_power(1.5 + L.sin({a}), {b})",
    "L.fmod({a}, 1.5 + L.tanh({b}))",
    "L.heaviside({a} - 0.0123, 1) * {b}",
    "L.rel_entr(1.2 + L.sin({a}), 1.3 + L.cos({b}))",
]
NUMBERED = [  # an array and a number, {n} any and {p} positive
    "{a} + {n}",
    "{n} - {a}",
    "{a} * {n}",
    "{a} / {p}",
    "{n} / ({a} ** 2 + 0.5)",
    "{p} ** {a}",
    "(1.2 + L.tanh({a})) ** {n}",
    "L.power({p}, {a})",
    "L.power(1.2 + L.tanh({a}), {n})",
    "L.arctan2({a} + 0.01, {n})",
    "L.arctan2({n}, {a} + 0.02)",
    "L.logaddexp({a}, {n})",
    "L.logaddexp({n}, {a})",
    "L.logaddexp2({n}, {a})",
    "L.maximum({a}, {n})",
    "L.minimum({n}, {a})",
    "L.where({a} > 0.0321, {a}, {n})",
    "L.where({a} > {n}, {n}, {a})",
    "L.xlogy({n}, 1.2 + L.tanh({a}))",
    "L.xlogy({a}, {p})",
    "L.xlogy({a}, 1e-46)",
    "L.xlog1py({a}, {p})",
    "L.xlog1py({n}, L.tanh({a}) ** 2)",
    "L.hypot({a}, {p})",
    "L.hypot({n}, {a} + 2)",
    "L.remainder({a}, {p})",
    "L.fmod({a}, {p})",
    "L.copysign({a}, {n})",
    "L.copysign({n}, {a} + 0.017) * {a}",
    "L.heaviside({a} - 0.0123, {n}) * {a}",
    "L.rel_entr({p}, 1.3 + L.cos({a}))",
    "L.rel_entr(1.3 + L.cos({a}), {p})",
    "L.float_power(1.5 + L.sin({a}), {n})",
    "L.fmax({n}, {a})",
    "L.clip({a}, -0.53, {p})",
    "L.fmin({a}, {n})",
    "L.full_like({a}, {n}) * {a}",
    "L.divide({n}, 1.5 + L.sin({a}))",
    "L.subtract({n}, {a})",
    "L.multiply_of({n}, {a})",
    "{a} // {p} + {a}",
    "{a} % {p}",
    "L.floor_divide({a}, {p}) * {a}",
    "L.nan_to_num({a}, nan={n})",
    "L.betaln(1.5 + L.sin({a}), {p})",
    "-{n} * {a} + {n}",
]
GUARDED = [  # functions whose values or slopes are not finite where a mask leaves them out
    "L.guarded(L.sqrt, {a})",
    "L.guarded(L.log, {a})",
    "L.guarded(lambda v: v ** -0.7, {a})",
    "L.guarded(lambda v: L.xlogy(v, v) / v, {a})",
    "L.guarded(lambda v: L.expm1(-L.log(v)), {a})",
    "L.guarded(lambda v: L.where(v > 0.5, L.log(v), L.sqrt(v)), {a})",
    "L.guarded(lambda v: L.arccosh(1 + v), {a})",
    "L.guarded(lambda v: L.arctan2(v, v) * L.cbrt(v), {a})",
]
ROWS = [  # of vectors and matrices, along the last axis
    "L.cumsum({a}, axis=-1)",
    "L.cumprod({a}, axis=-1)",
    "L.flip({a}, axis=-1)",
    "L.roll({a}, 1, axis=-1)",
    "L.sort({a}, axis=-1)",
    "L.softmax({a}, axis=-1)",
    "L.log_softmax({a}, axis=-1)",
    "{a}[..., ::-1]",
    "{a}[..., [2, 0, 1]]",
    "{a}.at[..., 1].set(0.5)",
    "{a}.at[..., 0].add(L.sin({a}[..., 2]))",
    "{a}.at[..., [0, 2]].multiply(1.5)",
    "L.concatenate([{a}[..., 1:], {a}[..., :1]], axis=-1)",
    "{a} - L.mean({a}, axis=-1, keepdims=True)",
    "{a} / L.sqrt(L.sum({a} ** 2, axis=-1, keepdims=True) + 0.1)",
    "L.diff({a}, axis=-1, prepend={n})",
    "L.diff({a}, axis=-1, append={n})",
    "L.pad({a}, {pad}, constant_values={n})[..., 1:]",
    "L.take({a}, L.i64([2, 0, 0]), axis=-1)",
    "L.where(L.b([True, False, True]), {a}, {n})",
    "{a} * L.f32([0.5, 1.5, -0.25])",
    "{a} + L.i64([1, -2, 3])",
    "L.i64([1, 2, 3]) / (1.5 + L.sin({a}))",
    "{a} * L.b([True, False, True])",
    "L.f32([0.5, 1.5, 0.25]) ** {a}",
    "L.arctan2(L.f32([0.5, 1.5, -0.25]), {a} + 3)",
    "L.real(L.fft.ifft(L.fft.fft({a}) * L.f32([1.0, 0.5, 0.5])))",
    "L.irfft_of({a})",
    "L.tanh({a}) @ L.f32([[0.1, 0.2, 0.3], [1.0, -0.5, 0.7], [0.4, 0.6, -0.9]])",
    "{a} @ L.f32([[0.5, 1.0, 0.25], [1.0, -0.5, 2.0], [0.0, 1.0, 1.0]])",
    "L.interp({a}, L.l([-1.0, 0.1, 2.0]), L.l([0.3, -0.2, 0.9]))",
    "L.polyval(L.l([0.3, -0.2, 0.7]), {a})",
    "L.maximum({a}, L.i64([0, 1, -1]))",
    "L.tril({a} * L.ones((3, 3)))[-1] + {a}",
]
REDUCED = [  # to one axis fewer
    "L.sum({a}, axis=-1)",
    "L.mean({a}, axis=-1)",
    "L.max({a}, axis=-1)",
    "L.min({a}, axis=-1)",
    "L.prod({a}, axis=-1)",
    "L.var({a}, axis=-1)",
    "L.std({a} + L.i64([0, 1, 3]), axis=-1, ddof=1)",
    "{a}[..., 1]",
    "L.logsumexp({a}, axis=-1)",
    "L.norm({a} + 0.01, axis=-1)",
    "L.average({a}, axis=-1, weights=L.l([0.3, 0.5, 0.9]))",
    "L.trapezoid({a}, dx={n})",
    "L.median({a}, axis=-1)",
    "L.quantile({a}, 0.3, axis=-1)",
    "L.nansum({a}, axis=-1)",
    "L.tensordot({a}, L.l([0.5, 1, 2]), 1)",
    "{a} @ L.i64([1, 0, -2])",
    "L.sum({a}, axis=-1, where=L.b([True, False, True]))",
    "L.ptp({a}, axis=-1)",
    "L.einsum('...i,i->...', {a}, L.l([0.5, 0.1, 2.3]))",
]
OUTER = [  # vectors to 3 x 3 matrices
    "L.outer({a}, {b})",
    "L.outer({a}, L.l([0.1, 0.7, 2]))",
    "L.multiply.outer({a}, {b})",
    "L.kron({a}, {b}).reshape(3, 3)",
    "L.einsum('i,j->ij', {a}, L.f32([0.5, 2, 1]))",
    "{a}[:, None] - {b}",
    "L.diag({a}) + {n}",
    "L.stack([{a}, {b}, {a} * 0.3])",
    "L.broadcast_to({a}, (3, 3)) * {b}[:, None]",
    "L.tensordot({a}, {b}, 0)",
]
SQUARE = [  # 3 x 3 to 3 x 3
    "L.inv(L.tanh({a}) + 4 * L.eye(3))",
    "L.solve(L.tanh({a}) + 4 * L.eye(3), {a})",
    "{a}.T",
    "L.triu({a})",
    "L.cholesky(L.tanh({a}) @ L.tanh({a}).T + L.eye(3))",
    "L.tanh({a}) @ L.cos({a})",
    "L.solve(L.l([[4, 1, 0.3], [0, 3, 1.1], [1, 0, 5]]), {a})",
    "L.expm(L.tanh({a}) * 0.3)",
]
FROM_SQUARE = [
    "L.det(L.tanh({a}) + 3 * L.eye(3)) * 0.1",
    "L.slogdet(L.tanh({a}) + 4 * L.eye(3))[1]",
    "L.sum(L.diagonal({a}))",
    "L.sum(L.eigvalsh(L.tanh({a} + {a}.T) + L.diag(L.f32([0.0, 5.0, 11.0]))) ** 3) * 1e-3",
    "L.norm(L.svdvals(L.tanh({a}) + L.diag(L.f32([1.0, 6.0, 13.0]))) * L.f32([1, 0.5, 2]))",
    "L.sum(L.eigh(L.tanh({a} + {a}.T) + L.diag(L.f32([0.0, 5.0, 11.0])))[1] ** 4)",
    "L.sum(L.qr(L.tanh({a}) + 3 * L.eye(3))[1] ** 2)",
]
NUMBERS = [
    "0.7",
    "-0.3",
    "2",
    "1",
    "True",
    "1e-3",
    "0.1",
    "-1.9",
    "np.float64(0.6)",
    "L.f32(0.6)",
    "np.int64(2)",
    "L.f32(0.3)",
    "L.i64(3)",
]
Shape = tuple[int, ...]
V, M = (3,), (2, 3)
NESTED: dict[str, tuple[list[Shape], Shape, Shape, str]] = {  # shapes of a function {g}, of what it gives, and of all
    "jit": ([V], V, V, "L.jit({g})({a})"),
    "checkpoint": ([V], V, V, "L.checkpoint({g})({a})"),
    "custom": ([V], V, V, "L.custom({g})({a})"),
    "custom rule": ([V], V, V, "L.doubled({g})({a})"),
    "jit of grad": ([V], (), V, "L.jit(L.grad({g}))({a})"),
    "grad of jit": ([V], (), V, "L.grad(L.jit({g}))({a})"),
    "masked rows": ([V], V, M, "L.masked({g}, {rows})"),
    "masked scan": ([V, V], V, V, "L.masked_scan({g}, {a}, {rows})"),
    "grad": ([V], (), V, "L.grad({g})({a})"),
    "value_and_grad": ([V], (), V, "L.value_and_grad({g})({a})[1]"),
    "jvp": ([V], V, V, "L.jvp({g}, ({a},), (0.3 * {a},))[1]"),
    "linearize": ([V], V, V, "L.linearize({g}, {a})[1](0.3 * {a})"),
    "vjp": ([V], V, V, "L.vjp({g}, {a})[1](0.3 * {a})[0]"),
    "vmap": ([V], V, M, "L.vmap({g})({rows})"),
    "vmap_grad": ([V], (), M, "L.vmap(L.grad({g}))({rows})"),
    "hessian": ([V], (), V, "L.hessian({g})({a}) @ {a}"),
    "scan": ([V, V], V, V, "L.scan(lambda c, x: ({g}(c, x), L.sum(c * x)), {a}, {rows})[0]"),
    "scan of checkpoint": ([V, V], V, M, "L.scan(lambda c, x: (L.checkpoint({g})(c, x), 0.5 * c), {a}, {rows})[1]"),
    "scan of number": (
        [(), V],
        (),
        V,
        "L.scan(lambda c, x: ({g}(c, x) + 0 * x[0], c), L.number({number}), {rows})[0] * {a}",
    ),
    "cond": ([V], V, V, "L.cond(L.sum({a}) > {number}, {g}, {h}, {a})"),
    "switch": ([V], V, V, "L.switch(L.int_of({a}[0]), [{g}, {h}], {a})"),
    "while": ([V], V, V, "L.bounded_while({g}, {a})"),
    "fori": ([V], V, V, "L.fori_loop(0, 3, lambda i, c: {g}(c) * L.cos(i * {a} * 0.3), {a})"),
}
ALIVE, PADDING = np.array([True, False]), np.array([[0.0], [np.nan]])  # of the rows of a matrix
SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (3, 3))
SHALLOW = ("value", "grad", "jvp", "vmap_grad", "linearize")  # modes whose programs nest deeper
MODES = ("value", "grad", "jvp", "hessian", "hvp", "jacfwd", "jacrev", "vmap_grad", "third", "jvp_grad", "linearize")


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
        fn = lambda x, y: self.function(library, x, y)  # noqa: E731  # what is transformed
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
        return self.rng.choice(NUMBERS)

    def fill(self, template: str, a: str, b: str = "") -> str:
        text = template.replace("{a}", a).replace("{b}", b).replace("{n}", self.number())
        text = text.replace("{p}", self.rng.choice([n for n in NUMBERS if n[0] != "-"]))
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

    def statement(self, known: list[tuple[str, Shape]], indent: str, depth: int) -> tuple[str, Shape]:
        rng = self.rng
        found = None
        while found is None:
            kind = rng.choices(
                ["unary", "pair", "number", "guarded", "row", "reduced", "outer", "square", "scalar", "nested"],
                [18, 14, 10, 4, 12, 8, 5, 4, 4, 16 if depth else 0],
            )[0]
            found = getattr(self, f"_{kind}")(known, indent, depth)
        return found

    def _unary(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(ELEMENTWISE), name), shape

    def _pair(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        (a, s), (b, t) = self.pick(known) or ("", ()), self.pick(known) or ("", ())
        if s and t and len(s) == len(t) and s != t:
            return None
        return self.fill(self.rng.choice(PAIRS), a, b), max(s, t, key=len)

    def _number(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(NUMBERED), name), shape

    def _guarded(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        name, shape = self.pick(known) or ("", ())
        return self.fill(self.rng.choice(GUARDED), name), shape

    def _row(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3,), (2, 3))
        if found is None:
            return None
        template = self.rng.choice(ROWS if len(found[1]) == 1 else [r for r in ROWS if "tril" not in r])
        return self.fill(template, found[0]), found[1]

    def _reduced(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3,), (3, 3))
        return None if found is None else (self.fill(self.rng.choice(REDUCED), found[0]), found[1][:-1])

    def _outer(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        a, b = self.pick(known, (3,)), self.pick(known, (3,))
        return None if a is None or b is None else (self.fill(self.rng.choice(OUTER), a[0], b[0]), (3, 3))

    def _square(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3, 3))
        return None if found is None else (self.fill(self.rng.choice(SQUARE), found[0]), (3, 3))

    def _scalar(self, known: list[tuple[str, Shape]], *_: Any) -> tuple[str, Shape] | None:
        found = self.pick(known, (3, 3))
        return None if found is None else (self.fill(self.rng.choice(FROM_SQUARE), found[0]), ())

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
        kind = self.rng.choice(list(NESTED))
        given, result, shape, template = NESTED[kind]
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


# -- libraries --------------------------------------------------------------------------------------------------------
def _custom(fn: Callable[[Any], Any]) -> Any:
    return afx.custom_jvp(fn, lambda point, tangent: afx.jvp(fn, point, tangent))


def _doubled(fn: Callable[[Any], Any]) -> Any:
    """Return a function with twice its derivative, in every order."""
    found: Any = afx.custom_jvp(fn, lambda point, tangent: (fn(*point), 2 * afx.jvp(fn, point, tangent)[1]))
    return found


def _guarded(fn: Callable[[Any], Any], x: Any) -> Any:
    keep = x > 0.1234
    return afx.where(keep, fn(x), 0.3) + afx.where(keep, fn(x * keep), -0.2)


def _masked(fn: Callable[[Any], Any], rows: Any) -> Any:
    return afx.where(ALIVE[:, None], afx.vmap(fn)(rows + PADDING), 0.4)


def _masked_scan(fn: Callable[[Any, Any], Any], first: Any, rows: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return afx.where(x[1], fn(c, x[0]), c), None

    return afx.scan(step, first, (rows + PADDING, ALIVE))[0]


def _bounded_while(fn: Callable[[Any], Any], x: Any) -> Any:
    return afx.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, fn(s[1])), (0, x))[1]


def _norm(x: Any, axis: int = -1) -> Any:
    return afx.vector_norm(x, axis=axis)


AFX: Any = SimpleNamespace(
    **{name: getattr(afx, name) for name in afx.__all__ if not name.startswith("_")},
)
AFX.b = lambda v: np.array(v)
AFX.f32 = lambda v: np.asarray(v, np.float32)[()]
AFX.i64 = lambda v: np.asarray(v, np.int64)[()]
AFX.l = AFX.number = lambda v: v
for _name in ("erf", "gammaln", "digamma", "expit", "i0e", "log_ndtr", "xlogy", "xlog1py", "rel_entr", "logsumexp"):
    setattr(AFX, _name, getattr(afx.special, _name))
for _name in ("softmax", "log_softmax", "softplus"):
    setattr(AFX, _name, getattr(afx.nn, _name))
for _name in ("inv", "solve", "cholesky", "det", "slogdet", "eigvalsh", "eigh", "svdvals", "qr", "expm"):
    setattr(AFX, _name, getattr(afx.linalg, _name))
AFX.eye = lambda n: afx.eye(n, dtype=np.float64)
AFX.ones = lambda shape: afx.ones(shape, dtype=np.float64)
AFX.multiply = SimpleNamespace(outer=lambda a, b: np.multiply.outer(a, b))
AFX.fft = afx.fft
AFX.irfft_of = lambda a: afx.fft.irfft(afx.fft.rfft(a) * 0.5, 3)
AFX.int_of = lambda v: afx.astype(afx.abs(afx.floor(v)), np.int64)
AFX.multiply_of, AFX.betaln = afx.multiply, afx.special.betaln
AFX.custom, AFX.bounded_while, AFX.norm = _custom, _bounded_while, _norm
AFX.doubled, AFX.guarded, AFX.masked, AFX.masked_scan = _doubled, _guarded, _masked, _masked_scan


def jax_library() -> Any:
    """Return the same functions of JAX, in which all data is float64."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    lib: Any = SimpleNamespace(**{name: getattr(jnp, name) for name in dir(jnp) if not name.startswith("_")})
    as64 = lambda v: jnp.asarray(np.asarray(v, np.float64))  # noqa: E731  # exact
    lib.b = lambda v: jnp.asarray(v)
    lib.f32 = lambda v: as64(np.float32(v))
    lib.i64 = lambda v: jnp.asarray(v, jnp.int64)
    lib.l, lib.number = as64, as64
    for name in ("erf", "gammaln", "digamma", "expit", "i0e", "log_ndtr", "xlogy", "xlog1py", "rel_entr", "logsumexp"):
        setattr(lib, name, getattr(jax.scipy.special, name))
    for name in ("softmax", "log_softmax", "softplus"):
        setattr(lib, name, getattr(jax.nn, name))
    for name in ("inv", "solve", "cholesky", "det", "slogdet", "eigvalsh", "eigh", "svdvals", "qr"):
        setattr(lib, name, getattr(jnp.linalg, name))
    lib.expm = jax.scipy.linalg.expm
    lib.multiply = SimpleNamespace(outer=lambda a, b: a[:, None] * b)
    lib.norm = jnp.linalg.norm
    lib.irfft_of = lambda a: jnp.fft.irfft(jnp.fft.rfft(a) * 0.5, 3)
    lib.int_of = lambda v: jnp.abs(jnp.floor(v)).astype(jnp.int64)
    for name in (
        "grad",
        "jvp",
        "vmap",
        "jit",
        "checkpoint",
        "hessian",
        "value_and_grad",
        "jacfwd",
        "jacrev",
        "linearize",
    ):
        setattr(lib, name, getattr(jax, name))
    lib.vjp, lib.multiply_of, lib.betaln = jax.vjp, jnp.multiply, jax.scipy.special.betaln
    lib.custom = lambda fn: fn
    for name in ("scan", "cond", "switch", "fori_loop"):
        setattr(lib, name, getattr(jax.lax, name))
    lib.switch = lambda i, fns, x: jax.lax.switch(i, fns, x)
    lib.bounded_while = lambda fn, x: jax.lax.fori_loop(0, 3, lambda _, c: fn(c), x)
    _add_masks(lib)
    return lib


def _add_masks(lib: Any) -> None:
    """Add the functions of masks and rules to JAX's: its masks need operands that are safe where they are not chosen."""
    import jax

    def doubled(fn: Callable[[Any], Any]) -> Any:
        rule: Any = jax.custom_jvp(fn)
        rule.defjvp(lambda point, tangent: (rule(*point), 2 * jax.jvp(fn, point, tangent)[1]))
        return rule

    def guarded(fn: Callable[[Any], Any], x: Any) -> Any:
        keep = x > 0.1234
        z = fn(lib.where(keep, x, 1.0))
        return lib.where(keep, z, 0.3) + lib.where(keep, z, -0.2)

    def masked(fn: Callable[[Any], Any], rows: Any) -> Any:
        return lib.where(ALIVE[:, None], jax.vmap(fn)(lib.where(ALIVE[:, None], rows, 0.5)), 0.4)

    def masked_scan(fn: Callable[[Any, Any], Any], first: Any, rows: Any) -> Any:
        safe = lib.where(ALIVE[:, None], rows, 0.5)
        return jax.lax.scan(lambda c, x: (lib.where(x[1], fn(c, x[0]), c), None), first, (safe, ALIVE))[0]

    lib.doubled, lib.guarded, lib.masked, lib.masked_scan = doubled, guarded, masked, masked_scan


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


def differs_from_jax(library: Any, seed: int, mode: str) -> str:
    """Return how a program's result differs from JAX's, an empty text where conditioning explains it."""
    import jax

    program = make_program(seed, 3 + seed % 4, 1 + (mode in SHALLOW))
    with jax.disable_jit():
        want = program.run(library, mode)
    for name, compile in RUNS.items():
        if name == "native" and seed % 5:  # which takes longer to make than all else to run
            continue
        try:
            distance = apart(program.run(AFX, mode, compile), want)
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}\n{program.source}"
        if distance > 1e-12:
            point = POINT[0].copy()
            POINT[0][...] *= 1 + 1e-15 * np.array([1, -2, 3])
            with jax.disable_jit():
                moved = apart(program.run(library, mode), want)
            POINT[0][...] = point
            if distance > 1e3 * moved:
                return f"{name}: {distance:.2g} apart, moves by {moved:.2g}\n{program.source}"
    return ""


RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda fn: fn,
    "numpy": lambda fn: afx.jit(fn, backend="numpy"),
    "native": lambda fn: afx.jit(fn, backend="native"),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    jax_lib, count, start = jax_library(), int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    bad = 0
    for seed in range(start, start + count):
        mode = MODES[seed % len(MODES)]
        try:
            text = differs_from_jax(jax_lib, seed, mode)
        except TypeError as error:  # JAX refuses some programs
            text = f"JAX: {error}"
        if text:
            bad += not text.startswith("JAX")
            sys.stdout.write(f"--- {seed} {mode} {text}\n")
    sys.stdout.write(f"{count} programs, {bad} differ\n")
