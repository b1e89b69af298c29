"""Ops that hold functions or graphs: every one of them, from one table, in every mode, nested, batched and compiled.

Each case is a function of two vectors that works through the op, as a rule with a value closed over, and the same
function written without it.
"""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx

Fn = Callable[[Any, Any], Any]
RNG = np.random.default_rng(11)
X, W = RNG.uniform(0.3, 1.2, 3), RNG.uniform(0.3, 1.2, 3)
T, U, CT = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=3)
XS, WS = X + 0.02 * RNG.normal(size=(4, 3)), W + 0.02 * RNG.normal(size=(4, 3))
EPS = 1e-6


def wave(x: Any, w: Any) -> Any:
    """Return what most cases compute."""
    return afx.sin(x * w) + x * x


def wave_push(p: Any, t: Any) -> tuple[Any, Any]:
    """Return the wave and its tangent."""
    (x, w), (dx, dw) = p, t
    return wave(x, w), afx.cos(x * w) * (dx * w + x * dw) + 2 * x * dx


def wave_pull(kept: Any, ct: Any) -> tuple[Any, Any]:
    """Return the cotangents of both operands of the wave."""
    x, w = kept
    slope = ct * afx.cos(x * w)
    return slope * w + 2 * x * ct, slope * x


def scanned(x: Any, w: Any, **options: Any) -> Any:
    """Return ``c = sin(c·x[k]) + w[1]·c`` over all elements from ``w[0]``, summed with the carries before."""
    c, ys = afx.scan(lambda c, y: (afx.sin(c * y) + w[1] * c, c), w[0], x, **options)
    return c + ys


def unrolled(x: Any, w: Any) -> Any:
    """Return the same without a loop."""
    c, ys = w[0], []
    for k in range(3):
        ys.append(c)
        c = afx.sin(c * x[k]) + w[1] * c
    return c + afx.stack(ys)


def last_carry(x: Any, w: Any) -> Any:
    """Return the carry of `unrolled` after its last step."""
    c = w[0]
    for k in range(3):
        c = afx.sin(c * x[k]) + w[1] * c
    return c


def looped(x: Any, w: Any) -> Any:
    """Return ``c = c·(1 + w) + x`` as long as its sum is below 20, with a count beside it."""
    return afx.while_loop(lambda c: afx.sum(c[1]) < 20.0, lambda c: (c[0] + 1, c[1] * (1 + w) + x), (0, x))[1]


def steps() -> int:
    """Return how often the loop runs at the points of these tests."""
    return int(afx.while_loop(lambda c: afx.sum(c[1]) < 20.0, lambda c: (c[0] + 1, c[1] * (1 + W) + X), (0, X))[0])


def powers(x: Any, w: Any, count: int) -> Any:
    """Return that loop's carry after so many steps."""
    c = x
    for _ in range(count):
        c = c * (1 + w) + x
    return c


@attrs.frozen(eq=False)
class Case:
    """A function through an op that holds functions.

    Attributes:
        fn: the function.
        plain: the same without the op.
        forward: whether it has forward mode.
    """

    fn: Fn
    plain: Fn = wave
    forward: bool = True


CASES: dict[str, Case] = {
    "scan": Case(scanned, unrolled),
    "scan from the end": Case(lambda x, w: scanned(x, w, reverse=True)[::-1], lambda x, w: unrolled(x[::-1], w)),
    "scan in pieces": Case(lambda x, w: scanned(x, w, checkpoint=2), unrolled),
    "fori_loop": Case(
        lambda x, w: afx.fori_loop(0, 3, lambda k, c: afx.sin(c * x[k]) + w[1] * c, w[0]) * x,
        lambda x, w: last_carry(x, w) * x,
    ),
    "cond": Case(lambda x, w: afx.cond(x[0] > 0, lambda v: wave(v, w), lambda v: v, x)),
    "cond, the other way": Case(lambda x, w: afx.cond(x[0] < 0, lambda v: v * 2.0, lambda v: wave(v, w), x)),
    "switch": Case(
        lambda x, w: afx.switch(afx.astype(x[0] * 0, "int32") + 1, [lambda v: v, lambda v: wave(v, w), lambda v: w], x)
    ),
    "while_loop": Case(looped, lambda x, w: powers(x, w, COUNT)),
    "jit": Case(lambda x, w: afx.jit(wave)(x, w)),
    "jit of a closure": Case(lambda x, w: afx.jit(lambda v: wave(v, w))(x)),
    "checkpoint": Case(afx.checkpoint(wave)),
    "checkpoint of a closure": Case(lambda x, w: afx.checkpoint(lambda v: wave(v, w))(x)),
    "checkpoint of a branch": Case(
        lambda x, w: afx.checkpoint(lambda v: wave(v, w) if COUNT and w.shape[0] == 3 else v)(x)
    ),
    "checkpoint of loops": Case(lambda x, w: afx.checkpoint(lambda v: scanned(v, w))(x), unrolled),
    "checkpoint of a checkpoint": Case(
        lambda x, w: afx.checkpoint(lambda v: afx.checkpoint(lambda u: afx.sin(u * w))(v) + v * v)(x)
    ),
    "custom_vjp": Case(
        lambda x, w: afx.custom_vjp(wave, lambda a, b: (wave(a, b), (a, b)), wave_pull)(x, w), forward=False
    ),
    "custom_jvp": Case(lambda x, w: afx.custom_jvp(wave, wave_push)(x, w)),
    "checkpoint of custom_jvp": Case(lambda x, w: afx.checkpoint(lambda v: afx.custom_jvp(wave, wave_push)(v, w))(x)),
}
COUNT = steps()
RUNS = pytest.mark.parametrize("run", [lambda f: f, afx.jit], ids=["eager", "jit"])
ALL = pytest.mark.parametrize("name", CASES)


def close(found: Any, wanted: Any, rtol: float = 1e-10) -> None:
    """Check that trees of arrays agree."""
    for a, b in zip(afx.pytree.leaves(found), afx.pytree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


def pulled(fn: Fn) -> Fn:
    """Return the gradients by both operands of a weighted sum of the results."""
    return afx.grad(lambda x, w: afx.sum(fn(x, w) * CT), (0, 1))


def moved(fn: Fn) -> Fn:
    """Return the tangent along fixed directions."""
    return lambda x, w: afx.jvp(fn, (x, w), (T, U))[1]


def slope(fn: Fn) -> Any:
    """Return the central difference of all results along the same directions."""
    above, below = (fn(X + s * EPS * T, W + s * EPS * U) for s in (1, -1))
    pairs = zip(afx.pytree.leaves(above), afx.pytree.leaves(below), strict=True)
    return [(np.asarray(a) - np.asarray(b)) / (2 * EPS) for a, b in pairs]


def test_the_table_is_complete() -> None:
    """Every op that records itself stands in the graph of a case, or of its gradient."""
    found: set[str] = set()
    for case in CASES.values():
        for fn in (case.fn, pulled(case.fn)):
            found |= set(afx.trace(fn)(X, W).counts())
    inside = {"call"}  # a jitted function's equations are taken in by graphs; eagerly it is one op
    assert {p.name for p in afx.primitives() if p.derivative.concrete_vjp is not None} <= found | inside


@RUNS
@ALL
def test_values_and_forward_mode(name: str, run: Any) -> None:
    """Values are the plain function's; forward mode is the central difference."""
    case = CASES[name]
    close(run(case.fn)(X, W), case.plain(X, W))
    if case.forward:
        close(moved(run(case.fn))(X, W), slope(case.plain)[0], 1e-6)
        close(run(moved(case.fn))(X, W), moved(case.plain)(X, W))


@RUNS
@ALL
def test_reverse_mode(name: str, run: Any) -> None:
    """Reverse mode is the adjoint of the plain function's forward mode, whichever of jit and grad is inside."""
    case = CASES[name]
    want = pulled(case.plain)(X, W)
    assert sum(float(afx.sum(g * t)) for g, t in zip(want, (T, U), strict=True)) == pytest.approx(
        float(np.sum(slope(case.plain)[0] * CT)), rel=1e-6
    )
    close(pulled(run(case.fn))(X, W), want)
    close(run(pulled(case.fn))(X, W), want)


@RUNS
@ALL
def test_second_order(name: str, run: Any) -> None:
    """Forward over reverse, reverse over reverse and reverse over forward are the difference of gradients."""
    case = CASES[name]
    want = slope(pulled(case.plain))

    def twice(fn: Fn) -> Fn:
        def along(x: Any, w: Any) -> Any:
            a, b = pulled(fn)(x, w)
            return afx.sum(a * T) + afx.sum(b * U)

        return afx.grad(along, (0, 1))

    for fn in (run(case.fn), case.fn):
        close(run(twice(fn))(X, W), want, 1e-6)
        if case.forward:
            close(run(moved(pulled(fn)))(X, W), want, 1e-6)
            close(run(pulled(moved(fn)))(X, W), pulled(moved(case.plain))(X, W))


@RUNS
@ALL
def test_batches(name: str, run: Any) -> None:
    """Mapping over either operand or both is a loop, of values, of gradients and of mapped gradients."""
    case = CASES[name]
    for axes in ((0, 0), (0, None), (None, 0)):
        x, w = XS if axes[0] == 0 else X, WS if axes[1] == 0 else W
        rows = [(XS[k] if axes[0] == 0 else X, WS[k] if axes[1] == 0 else W) for k in range(len(XS))]
        for around in (lambda f: f, pulled):
            want = [around(case.plain)(*row) for row in rows]
            want = afx.pytree.map(lambda *zs: afx.stack(zs), *want)
            close(afx.vmap(run(around(case.fn)), axes)(x, w), want)
            close(run(afx.vmap(around(run(case.fn)), axes))(x, w), want)
    total = afx.grad(lambda x, w: afx.sum(afx.vmap(run(case.fn))(x, w) * CT), (0, 1))
    close(run(total)(XS, WS), afx.grad(lambda x, w: afx.sum(afx.vmap(case.plain)(x, w) * CT), (0, 1))(XS, WS))
