"""Loops and branches: the same values and derivatives eagerly, compiled, batched and in both modes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array

W = np.array([[0.5, 0.2], [0.1, 0.9]])
XS = np.linspace(0.1, 1.0, 10).reshape(5, 2)


def _close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-10)


def recurrent(w: Any, xs: Any) -> Array:
    """Return a number that depends on every step, by the carry, the results and a value closed over."""

    def step(c: Array, x: Array) -> tuple[Array, Array]:
        c = afx.sqrt(c * c + 1.0) * x + afx.sum(w) * c
        return c, c * 2.0

    carry, ys = afx.scan(step, np.ones(2), xs)
    return afx.sum(carry) + afx.sum(ys * ys)


class TestScan:
    """A loop over the first axis of arrays."""

    def test_compiled_agrees(self) -> None:
        """Values and gradients are those of the plain loop, whichever of grad and jit is inside."""
        plain = afx.grad(recurrent, (0, 1))(W, XS)
        _close(afx.jit(recurrent)(W, XS), recurrent(W, XS))
        for found in (afx.jit(afx.grad(recurrent, (0, 1)))(W, XS), afx.grad(afx.jit(recurrent), (0, 1))(W, XS)):
            for g, want in zip(found, plain, strict=True):
                _close(g, want)

    def test_forward_mode_and_second_order(self) -> None:
        """Forward mode agrees with reverse mode, and compiled Hessians with plain ones."""
        t = (np.ones_like(W), np.ones_like(XS))
        slope = sum(np.sum(np.asarray(g) * u) for g, u in zip(afx.grad(recurrent, (0, 1))(W, XS), t, strict=True))
        for run in (recurrent, afx.jit(recurrent)):
            _close(afx.jvp(run, (W, XS), t)[1], slope)
        _close(afx.hessian(lambda w: afx.jit(recurrent)(w, XS))(W), afx.hessian(lambda w: recurrent(w, XS))(W))

    def test_batched(self) -> None:
        """Mapping over constants or elements is a loop over them."""
        for run in (recurrent, afx.jit(recurrent)):
            _close(afx.vmap(run, (0, None))(np.stack([W, 2 * W]), XS)[1], recurrent(2 * W, XS))
            _close(afx.vmap(run, (None, 0))(W, np.stack([XS, 2 * XS]))[1], recurrent(W, 2 * XS))

    def test_one_equation_however_long(self) -> None:
        """The graph of a loop does not grow with its length, and 10 000 steps differentiate."""
        fn = lambda x: afx.scan(lambda c, y: (c * 0.999 + y, None), 0.0, x)[0]  # noqa: E731  # a function to trace
        assert len(afx.trace(fn)(np.ones(10))) == len(afx.trace(fn)(np.ones(1000)))
        found = np.asarray(afx.jit(afx.grad(fn))(np.ones(10_000)))
        _close(found, 0.999 ** np.arange(9_999, -1, -1))

    def test_reverse_and_empty(self) -> None:
        """A loop can run from the end, and over nothing."""
        carry, ys = afx.scan(lambda c, x: (c + x, c), 0.0, np.arange(3.0), reverse=True)
        assert (float(carry), ys.tolist()) == (3.0, [3.0, 2.0, 0.0])
        carry, ys = afx.scan(lambda c, x: (c + x, c), 0.0, np.zeros((0,)))
        assert (float(carry), ys.shape) == (0.0, (0,))
        assert float(afx.scan(lambda c, _: (c * 2, None), 1.0, length=3)[0]) == 8.0

    def test_checkpointed_pieces(self) -> None:
        """Keeping only some carries changes nothing but memory."""
        x = np.arange(1.0, 8.0) / 4

        def fn(x: Any, every: int | None) -> Array:
            carry, ys = afx.scan(lambda c, y: (afx.sin(c) * y, c), 1.0, x, checkpoint=every)
            return carry + afx.sum(ys)

        _close(afx.grad(lambda x: fn(x, 3))(x), afx.grad(lambda x: fn(x, None))(x))

    @pytest.mark.parametrize(
        ("run", "words"),
        [
            (lambda: afx.scan(lambda c, x: (afx.stack([c, c]), x), 0.0, XS), "carry"),
            (lambda: afx.scan(lambda c, x: ((c, c), x), 0.0, XS), "carry"),
            (lambda: afx.scan(lambda c, x: c, 0.0, XS), "pair"),
            (lambda: afx.scan(lambda c, x: (c, x), 0.0, (XS, XS[:2])), "lengths"),
            (lambda: afx.scan(lambda c, x: (c, x), 0.0), "length="),
        ],
    )
    def test_mistakes_are_explained(self, run: Any, words: str) -> None:
        """Each mistake raises with its reason."""
        with pytest.raises(afx.errors.AfxError, match=words):
            run()


def branched(x: Any) -> Array:
    """Return a root where the sum is positive, a square elsewhere."""
    return afx.sum(afx.cond(afx.sum(x) > 0, lambda y: afx.sqrt(y) * 3.0, lambda y: y * y, x))


class TestCond:
    """One of several functions is run."""

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_compiled_agrees(self, sign: float) -> None:
        """Both branches have the plain derivatives when compiled, in both modes and second order."""
        x = sign * np.array([0.3, 2.0])
        want = afx.grad(branched)(x)
        _close(afx.jit(afx.grad(branched))(x), want)
        _close(afx.grad(afx.jit(branched))(x), want)
        _close(afx.jvp(afx.jit(branched), (x,), (np.ones(2),))[1], np.sum(np.asarray(want)))
        _close(afx.hessian(afx.jit(branched))(x), afx.hessian(branched)(x))

    def test_batched_predicate(self) -> None:
        """A predicate that differs along the batch chooses elementwise, and the branch not taken has no nan."""
        x = np.array([[0.3, 2.0], [-0.3, -2.0]])
        with np.errstate(invalid="ignore"):
            for run in (afx.grad(branched), afx.grad(afx.jit(branched))):
                _close(afx.vmap(run)(x), np.stack([np.asarray(afx.grad(branched)(row)) for row in x]))

    def test_switch_takes_the_nearest(self) -> None:
        """An index outside the list takes the first or the last branch, compiled too."""
        branches = [afx.sin, afx.cos, afx.exp]
        for index, want in ((-3, np.sin(0.5)), (1, np.cos(0.5)), (7, np.exp(0.5))):
            _close(afx.switch(index, branches, np.float64(0.5)), want)
            _close(afx.jit(lambda i: afx.switch(i, branches, np.float64(0.5)))(index), want)

    def test_branches_close_over_traced_values(self) -> None:
        """What a branch closes over is differentiated."""
        fn = afx.jit(lambda w, p: afx.cond(p, lambda x: x * w, lambda x: x, 3.0))
        assert float(afx.grad(fn)(2.0, True)) == 3.0
        assert float(afx.grad(fn)(2.0, False)) == 0.0

    def test_mistakes_are_explained(self) -> None:
        """Branches that differ, predicates that are no scalar and indices that are no integer raise."""
        with pytest.raises(afx.errors.AfxError, match="branch"):
            afx.jit(lambda p: afx.cond(p, lambda: np.ones(2), lambda: np.ones(3)))(True)
        with pytest.raises(afx.errors.ShapeError, match="one value"):
            afx.cond(np.array([True, False]), lambda: 1.0, lambda: 2.0)
        with pytest.raises(afx.errors.DtypeError, match="integer"):
            afx.switch(0.5, [afx.sin], 1.0)


def repeated(x: Any) -> Array:
    """Return x¹ after three steps of a loop that ends on a condition."""
    return afx.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * afx.sqrt(s[1]) * x), (0, afx.asarray(x)))[1]


class TestWhile:
    """A loop that ends on a condition."""

    def test_derivatives(self) -> None:
        """Reverse mode saves values as they come, plain and compiled; forward mode agrees."""
        x = np.float64(2.0)
        want = afx.grad(repeated)(x)
        for found in (
            afx.grad(afx.jit(repeated))(x),
            afx.jit(afx.grad(repeated))(x),
            afx.jvp(repeated, (x,), (np.float64(1.0),))[1],
            afx.jvp(afx.jit(repeated), (x,), (np.float64(1.0),))[1],
        ):
            _close(found, want)

    def test_batched_conditions(self) -> None:
        """Each element of a batch stops when its own condition says so."""
        fn = lambda x: afx.while_loop(lambda s: s < 10.0, lambda s: s * x, x)  # noqa: E731  # a function to map
        for run in (fn, afx.jit(fn)):
            assert afx.vmap(run)(np.array([2.0, 3.0, 4.0])).tolist() == [16.0, 27.0, 16.0]

    def test_fori_loop(self) -> None:
        """Bounds may be known or traced."""
        fn = lambda n: afx.fori_loop(0, n, lambda i, c: c * 2 + i, 1)  # noqa: E731  # a function to compile
        assert int(fn(5)) == int(afx.jit(fn)(5)) == 58

    def test_every_order_compiled(self) -> None:
        """Reverse mode over reverse mode through a compiled loop is right to any order, from x⁴ here."""
        fn: Any = afx.jit(lambda x: afx.while_loop(lambda s: s < 10.0, lambda s: s * x, x))
        for want in (16.0, 32.0, 48.0, 48.0, 24.0, 0.0):
            assert float(fn(np.float64(2.0))) == want
            fn = afx.grad(fn)

    def test_gradients_of_batches_that_stop_at_different_steps(self) -> None:
        """Each element's derivatives are those of its own number of steps, of both orders, in any nesting."""
        fn = lambda x, y: afx.while_loop(lambda s: s < 10.0, lambda s: s * x + y, x)  # noqa: E731  # a function to map
        xs, ys = np.array([1.5, 2.0, 3.0, 20.0]), np.array([0.1, 0.2, 0.3, 0.4])
        both = lambda f: afx.grad(f, (0, 1))  # noqa: E731  # of both arguments
        curved = lambda f: afx.grad(lambda x, y: afx.grad(f)(x, y) * afx.grad(f, 1)(x, y), (0, 1))  # noqa: E731  # mixed
        for around in (both, curved):
            want = [around(fn)(x, y) for x, y in zip(xs, ys, strict=True)]
            for found in (
                afx.vmap(around(afx.jit(fn)))(xs, ys),
                afx.jit(afx.vmap(around(fn)))(xs, ys),
                around(lambda x, y: afx.sum(afx.vmap(fn)(x, y)))(xs, ys) if around is both else None,
            ):
                for g, wanted in zip(found or (), zip(*want, strict=True), strict=bool(found)):
                    _close(g, [float(w) for w in wanted])
        shared = afx.jit(afx.grad(lambda y: afx.sum(afx.vmap(fn, (0, None))(xs, y))))(0.3)
        _close(shared, sum(float(afx.grad(fn, 1)(x, np.float64(0.3))) for x in xs) + 0 * shared)


@pytest.mark.parametrize("n", range(1, 10))
def test_associative_scan(n: int) -> None:
    """Running results agree with NumPy's for every length, from either end, with derivatives."""
    x = np.arange(1.0, n + 1)
    _close(afx.associative_scan(afx.add, x), np.cumsum(x))
    _close(afx.associative_scan(afx.add, x, reverse=True), np.cumsum(x[::-1])[::-1])
    _close(afx.grad(lambda x: afx.associative_scan(afx.multiply, x)[-1])(x), np.prod(x) / x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [0, 0.1, True])
def test_a_number_as_first_carry_takes_the_dtype_of_a_step(start: Any, dtype: Any) -> None:
    """An integer, a float or a bool is weak: the carry has the data's dtype and digits, in every loop and mode."""
    xs = np.full(3, 0.7, dtype)
    want = dtype(start) + xs[0] + xs[0] + xs[0]

    def step(c: Any, x: Any) -> Any:
        return c + x, c

    def branching(c: Any, x: Any) -> Any:
        return (c + x if c < 100 else c), c

    def loop(n: Any, xs: Any) -> Any:
        return afx.fori_loop(0, n, lambda i, c: c + xs[0], start)

    found = [
        afx.scan(step, start, xs)[0],
        afx.scan(step, start, xs, checkpoint=2)[0],
        afx.scan(branching, start, xs)[0],
        afx.jit(lambda xs: afx.scan(step, start, xs)[0])(xs),
        afx.jit(lambda xs, start: afx.scan(step, start, xs)[0])(xs, start),
        afx.scan(lambda c, x: ((c[0] + x, c[1] + c[0]), None), (start, 0), xs)[0][0],
        loop(3, xs),
        afx.jit(loop)(3, xs),
        afx.while_loop(lambda c: c < want, lambda c: c + xs[0], start),
    ]
    assert [z.dtype for z in found] == [np.dtype(dtype)] * len(found)
    assert [float(z) for z in found] == [float(want)] * len(found)
    assert afx.scan(step, start, xs)[1].dtype == dtype


def test_integers_as_first_carry_stay_integers() -> None:
    """A counter that steps leave an integer is one."""
    assert afx.fori_loop(0, 3, lambda i, c: c + i, 0).dtype == np.int64
    assert afx.scan(lambda c, _: (c * 2, c), 1, None, 3)[0].dtype == np.int64
