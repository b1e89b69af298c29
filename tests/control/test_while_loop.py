"""`while_loop` and `fori_loop`: the same values and derivatives eagerly, compiled, batched and in both modes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, testing
from tests.control.agreement import assert_close


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
            assert_close(found, want)

    def test_batched_conditions(self) -> None:
        """Each element of a batch stops when its own condition says so."""
        fn = lambda x: afx.while_loop(lambda s: s < 10.0, lambda s: s * x, x)
        for run in (fn, afx.jit(fn)):
            assert afx.vmap(run)(np.array([2.0, 3.0, 4.0])).tolist() == [16.0, 27.0, 16.0]

    def test_fori_loop(self) -> None:
        """Bounds may be known or traced."""
        fn = lambda n: afx.fori_loop(0, n, lambda i, c: c * 2 + i, 1)
        assert int(fn(5)) == int(afx.jit(fn)(5)) == 58

    def test_every_order_compiled(self) -> None:
        """Reverse mode over reverse mode through a compiled loop is right to any order, from x⁴ here."""
        fn: Any = afx.jit(lambda x: afx.while_loop(lambda s: s < 10.0, lambda s: s * x, x))
        for want in (16.0, 32.0, 48.0, 48.0, 24.0, 0.0):
            assert float(fn(np.float64(2.0))) == want
            fn = afx.grad(fn)

    def test_gradients_of_batches_that_stop_at_different_steps(self) -> None:
        """Each element's derivatives are those of its own number of steps, of both orders, in any nesting."""
        fn = lambda x, y: afx.while_loop(lambda s: s < 10.0, lambda s: s * x + y, x)
        xs, ys = np.array([1.5, 2.0, 3.0, 20.0]), np.array([0.1, 0.2, 0.3, 0.4])
        both = lambda f: afx.grad(f, (0, 1))
        curved = lambda f: afx.grad(lambda x, y: afx.grad(f)(x, y) * afx.grad(f, 1)(x, y), (0, 1))
        for around in (both, curved):
            want = [around(fn)(x, y) for x, y in zip(xs, ys, strict=True)]
            for found in (
                afx.vmap(around(afx.jit(fn)))(xs, ys),
                afx.jit(afx.vmap(around(fn)))(xs, ys),
                around(lambda x, y: afx.sum(afx.vmap(fn)(x, y)))(xs, ys) if around is both else None,
            ):
                for g, wanted in zip(found or (), zip(*want, strict=True), strict=bool(found)):
                    assert_close(g, [float(w) for w in wanted])
        shared = afx.jit(afx.grad(lambda y: afx.sum(afx.vmap(fn, (0, None))(xs, y))))(0.3)
        assert_close(shared, sum(float(afx.grad(fn, 1)(x, np.float64(0.3))) for x in xs) + 0 * shared)

    def test_a_loop_counts(self) -> None:
        """Known bounds cost no memory: a loop of ten million steps compiles at once, and names its own carry in errors."""
        fn = afx.jit(lambda x: afx.fori_loop(0, 10**7, lambda i, c: c * i, x))
        (eq,) = fn.lower(np.float64(1.5)).graph
        assert eq.primitive.name == "scan"
        assert sum(v.aval.nbytes for v in eq.inputs) < 100
        assert int(afx.fori_loop(3, 1, lambda i, c: c + i, 7)) == int(afx.fori_loop(-3, 1, lambda i, c: c - i, 1)) == 7
        with pytest.raises(afx.errors.ShapeError, match=r"fori_loop: the shape of the carry\[1\]"):
            afx.fori_loop(0, 3, lambda _, c: (c[0], c[1][:1]), (1.0, np.ones(3)))

    def test_batches_share_a_counter(self) -> None:
        """Mapped over a batch, the counter of a loop stays one number, and so does what depends on it alone."""
        table = afx.asarray(np.arange(6.0))
        counted = afx.vmap(lambda x: afx.fori_loop(0, 5, lambda i, c: c * 0.9 + table[i], x))
        (eq,) = afx.trace(counted)(np.ones(3))
        assert [v.aval.shape for v in eq.outputs] == [(), (3,)]
        np.testing.assert_array_equal(afx.jit(counted)(np.ones(3)), counted(np.ones(3)))
        ended = afx.vmap(lambda x: afx.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (x, 0)))
        eq = next(iter(afx.trace(ended)(np.arange(3.0))))
        assert [v.aval.shape for v in eq.outputs] == [(3,), ()]
        found = afx.jit(ended)(np.arange(3.0))
        np.testing.assert_array_equal(found[0], np.arange(3.0) ** 6)
        np.testing.assert_array_equal(found[1], [5, 5, 5])
        slope = afx.jit(
            afx.vmap(afx.grad(lambda x: afx.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (x, 0))[0]))
        )
        np.testing.assert_array_equal(slope(np.arange(3.0)), 6 * np.arange(3.0) ** 5)


class TestKnownConditions:
    """A condition whose value is known while a function is traced."""

    def test_a_counted_loop_is_one_equation(self) -> None:
        """However long it is, under `jit` and `trace`; its derivatives too are loops."""

        def fn(x: Any) -> Any:
            return afx.while_loop(lambda c: c[1] < 1000, lambda c: (c[0] * 0.999, c[1] + 1), (x, 0))[0]

        assert len(afx.trace(fn)(np.float64(2.0))) == 1
        assert len(afx.trace(afx.grad(fn))(np.float64(2.0))) < 10
        np.testing.assert_allclose(afx.jit(fn)(np.float64(2.0)), 2 * 0.999**1000, rtol=1e-12)
        for slope in (afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn)), afx.jit(afx.jacfwd(fn)), afx.grad(fn)):
            np.testing.assert_allclose(slope(np.float64(2.0)), 0.999**1000, rtol=1e-12)

    def test_a_step_that_closes_over_what_is_traced(self) -> None:
        """The carry may be known at first: it is one equation from the first step on."""
        fn = lambda x: afx.while_loop(lambda c: c[1] < 400, lambda c: (c[0] * x, c[1] + 1), (1.0, 0))[
            0
        ]  # a function to trace
        assert len(afx.trace(fn)(np.float64(0.99))) <= 2
        np.testing.assert_allclose(afx.jit(fn)(np.float64(0.99)), 0.99**400, rtol=1e-12)

    def test_a_loop_that_does_not_begin(self) -> None:
        """Where the condition is false at once, the carry is returned as it is."""
        fn = lambda x: afx.while_loop(lambda c: c[1] < 0, lambda c: (c[0] * 2, c[1] + 1), (x, 0))
        assert len(afx.trace(fn)(np.ones(2))) == 0
        np.testing.assert_array_equal(afx.jit(fn)(np.ones(2))[0], np.ones(2))


@pytest.mark.parametrize("backend", ["eager", "native", "portable", None])
def test_batched_loops_write_elements_in_place(backend: Any) -> None:
    """Elements of a batch that have ended keep all rows, whose places differ along the batch; so do batches of batches."""

    def collect(count: Array, x: Array) -> tuple[Array, Array]:
        def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            k, rows, total = carry
            place = (k * count) % 4
            return k + 1, rows.at[place].set(x * k + rows[(place + 1) % 4]), total.at[k % 2, [0, 2]].set(x[:2])

        start = (afx.asarray(0), afx.zeros((4, 3), afx.float64), afx.ones((2, 3), afx.float64))
        _, rows, total = afx.while_loop(lambda carry: carry[0] < count, advance, start)
        return rows, total

    counts, xs = np.array([[3, 0], [7, 5]]), np.random.default_rng(0).normal(size=(2, 2, 3))
    many = afx.vmap(afx.vmap(collect))
    run = many if backend == "eager" else afx.jit(many, backend=backend)
    found = run(counts, xs)
    for place in np.ndindex(2, 2):
        for z, want in zip(found, collect(afx.asarray(counts[place]), afx.asarray(xs[place])), strict=True):
            np.testing.assert_array_equal(z[place], want)

    def loss(x: Array) -> Array:
        rows, total = afx.vmap(collect)(counts[1], x)
        return afx.sum(rows**2) + afx.sum(total**3)

    testing.check_grads(loss, (xs[0],))
