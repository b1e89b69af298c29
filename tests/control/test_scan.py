"""`scan`: the same values and derivatives eagerly, compiled, batched and in both modes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.errors import NestingError
from tests.control.agreement import assert_close

W = np.array([[0.5, 0.2], [0.1, 0.9]])
XS = np.linspace(0.1, 1.0, 10).reshape(5, 2)


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
        assert_close(afx.jit(recurrent)(W, XS), recurrent(W, XS))
        for found in (afx.jit(afx.grad(recurrent, (0, 1)))(W, XS), afx.grad(afx.jit(recurrent), (0, 1))(W, XS)):
            for g, want in zip(found, plain, strict=True):
                assert_close(g, want)

    def test_forward_mode_and_second_order(self) -> None:
        """Forward mode agrees with reverse mode, and compiled Hessians with plain ones."""
        t = (np.ones_like(W), np.ones_like(XS))
        slope = sum(np.sum(np.asarray(g) * u) for g, u in zip(afx.grad(recurrent, (0, 1))(W, XS), t, strict=True))
        for run in (recurrent, afx.jit(recurrent)):
            assert_close(afx.jvp(run, (W, XS), t)[1], slope)
        assert_close(afx.hessian(lambda w: afx.jit(recurrent)(w, XS))(W), afx.hessian(lambda w: recurrent(w, XS))(W))

    def test_batched(self) -> None:
        """Mapping over constants or elements is a loop over them."""
        for run in (recurrent, afx.jit(recurrent)):
            assert_close(afx.vmap(run, (0, None))(np.stack([W, 2 * W]), XS)[1], recurrent(2 * W, XS))
            assert_close(afx.vmap(run, (None, 0))(W, np.stack([XS, 2 * XS]))[1], recurrent(W, 2 * XS))

    def test_one_equation_however_long(self) -> None:
        """The graph of a loop does not grow with its length, and 10 000 steps differentiate."""
        fn = lambda x: afx.scan(lambda c, y: (c * 0.999 + y, None), 0.0, x)[0]
        assert len(afx.trace(fn)(np.ones(10))) == len(afx.trace(fn)(np.ones(1000)))
        found = np.asarray(afx.jit(afx.grad(fn))(np.ones(10_000)))
        assert_close(found, 0.999 ** np.arange(9_999, -1, -1))

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

        assert_close(afx.grad(lambda x: fn(x, 3))(x), afx.grad(lambda x: fn(x, None))(x))

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


def test_loops_nested_beyond_pythons_stack_are_named() -> None:
    """A hundred and fifty loops within each other end in an error that says what to do; a few dozen run."""

    def nested(depth: int) -> Any:
        if not depth:
            return lambda x: x * 0.5
        inner = nested(depth - 1)
        return lambda x: afx.scan(lambda c, _: (inner(c), None), x, None, length=1)[0]

    with pytest.raises(NestingError, match="nested too deeply"):
        afx.jit(nested(400))(afx.ones(2))
    with pytest.raises(NestingError, match="nested too deeply"):
        afx.jit(lambda x: nested(400)(x))(1.0)  # a Python number as first carry
    assert afx.jit(nested(20))(afx.ones(())) == 0.5
