"""What held functions close over: traced values, arrays that change later, names that are bound to something else."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.target import Target, use_target
from afx.errors import TracerError

X, W = np.array([0.3, 0.6, 0.9]), np.array([1.0, 2.0, 3.0])


def layers(x: Any, ws: Any, hold: Callable[[Any], Any]) -> Array:
    """Return a sum after three layers, each of which reads the loop's variable from outside."""
    h = x
    for w in ws:
        h = hold(lambda v: afx.tanh(w * v) + v * afx.sin(w))(h)  # noqa: B023  # the point of the test
    return afx.sum(h)


class TestCheckpoint:
    """`checkpoint` repeats the run that was, whatever has become of its surroundings."""

    @pytest.mark.parametrize("argnum", [0, 1])
    def test_closed_over_tracers_and_late_binding(self, argnum: int) -> None:
        """A loop's variable is closed over as it was, and differentiated, in every nesting and both orders."""
        plain = lambda x, w: layers(x, w, lambda f: f)
        fn = lambda x, w: layers(x, w, afx.checkpoint)
        want = afx.grad(plain, argnum)(X, W)
        for gradient in (afx.grad(fn, argnum), afx.jit(afx.grad(fn, argnum)), afx.grad(afx.jit(fn), argnum)):
            np.testing.assert_allclose(np.asarray(gradient(X, W)), np.asarray(want), rtol=1e-12)
        second = afx.hessian(plain, argnum)(X, W)
        for run in (
            afx.hessian(fn, argnum),
            afx.jacrev(afx.grad(fn, argnum), argnum),
            afx.jit(afx.hessian(fn, argnum)),
        ):
            np.testing.assert_allclose(np.asarray(run(X, W)), np.asarray(second), rtol=1e-10, atol=1e-12)
        rows = afx.vmap(afx.grad(fn, argnum), (0, None))(np.stack([X, X + 1]), W)
        np.testing.assert_allclose(np.asarray(rows[0]), np.asarray(want), rtol=1e-12)

    def test_arrays_and_names_that_change(self) -> None:
        """Writing into an array, or binding a name anew, between forward and backward changes no gradient."""
        w, scale, axis = np.array([2.0, 3.0]), 5.0, 0
        _, pullback = afx.vjp(
            afx.checkpoint(lambda v: afx.sum(afx.sin(v) * w, axis=axis) * scale), np.array([[1.0, 1.0]])
        )
        w[:], scale, axis = 100.0, 7.0, 1
        found = pullback(np.ones(2))[0]
        np.testing.assert_allclose(np.asarray(found), [[10 * np.cos(1.0), 15 * np.cos(1.0)]], rtol=1e-14)

    def test_the_function_runs_once(self) -> None:
        """Python runs in the forward pass alone; branches stay as they went."""
        seen: list[bool] = []

        def fn(x: Array) -> Array:
            seen.append(bool(x > 0))
            return x * x if x > 0 else -x

        assert [float(afx.grad(afx.checkpoint(fn))(x)) for x in (3.0, -3.0)] == [6.0, -1.0]
        assert seen == [True, False]

    def test_memory_of_a_long_chain(self) -> None:
        """The pullback keeps about its arguments, not what was computed in between."""
        x = afx.asarray(np.linspace(0.0, 1.0, 100_000))

        def chain(v: Array) -> Array:
            for _ in range(20):
                v = afx.sin(v) * v
            return v

        def kept(fn: Any) -> int:
            memories: list[int] = []
            for _ in range(3):  # other threads may import meanwhile
                gc.collect()
                tracemalloc.start()
                _, pullback = afx.vjp(fn, x)
                memories.append(tracemalloc.get_traced_memory()[0])
                tracemalloc.stop()
                assert pullback is not None
            return min(memories)

        assert kept(afx.checkpoint(chain)) < 3 * x.nbytes < 20 * x.nbytes < kept(chain)

    def test_a_checkpointed_scan_needs_the_root_of_its_memory(self) -> None:
        """Pieces of a scan whose step closes over what is differentiated keep their carries alone."""
        xs = np.linspace(0.0, 1.0, 2500)

        def peak(**options: Any) -> tuple[int, float]:
            fn = lambda a: afx.scan(lambda c, y: (afx.sin(c * a) * y + c * 0.5, None), a, xs, **options)[
                0
            ]  # a function to differentiate
            with use_target(Target(backend="numpy")):  # no other thread takes memory
                afx.grad(fn)(np.float64(1.5))  # what is made once is there in the next call
                gc.collect()
                tracemalloc.start()
                found = float(afx.grad(fn)(np.float64(1.5)))
                memory = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            return memory, found

        (whole, want), (pieces, found) = peak(), peak(checkpoint=50)
        assert found == pytest.approx(want, rel=1e-10)
        assert pieces < whole / 4

    def test_plain_values_can_be_read(self) -> None:
        """Inside it integers, conditions and stopped gradients are values; a float of a traced value raises."""
        fn = afx.checkpoint(lambda x: x[int(afx.argmax(x))] * float(afx.stop_gradient(x[0])))
        assert afx.grad(fn)(np.array([2.0, 5.0])).tolist() == [0.0, 2.0]
        with pytest.raises(afx.errors.ConcreteValueError, match="stop_gradient"):
            afx.grad(afx.checkpoint(lambda x: x * float(x)))(2.0)

    def test_errors_and_escapes(self) -> None:
        """An exception leaves nothing behind, and a value that escapes raises later."""
        escaped: list[Array] = []

        def fn(x: Array) -> Array:
            escaped.append(x)
            if len(escaped) > 1:
                raise KeyError("mine")
            return x * 2.0

        assert float(afx.grad(afx.checkpoint(fn))(1.0)) == 2.0
        with pytest.raises(KeyError, match="mine"):
            afx.grad(afx.checkpoint(fn))(1.0)
        for x in escaped:
            with pytest.raises(afx.errors.EscapedTracerError, match="checkpoint of"):
                x + 1.0


CUSTOM: dict[str, Callable[[Any], Any]] = {
    "custom_vjp": lambda b: afx.custom_vjp(lambda v: v * b, lambda v: (v * b, b), lambda r, ct: (7.0 * ct * r,)),
    "custom_jvp": lambda b: afx.custom_jvp(lambda v: v * b, lambda p, t: (p[0] * b, 7.0 * t[0] * b)),
}


@pytest.mark.parametrize("kind", CUSTOM)
class TestCustom:
    """Custom rules may close over traced values of transformations that want no derivative by them."""

    def test_under_jit_and_vmap(self, kind: str) -> None:
        """A value of jit or vmap that is closed over becomes an operand, and the rule is used."""
        make = CUSTOM[kind]
        fn = lambda x, w: make(w)(x)
        slope = afx.grad(lambda x, w: afx.sum(fn(x, w)))
        for run in (afx.jit(fn), afx.vmap(fn), afx.jit(afx.vmap(fn)), afx.vmap(afx.jit(fn))):
            assert run(X, W).tolist() == (X * W).tolist()
        for run in (slope, afx.jit(slope), afx.vmap(slope), afx.grad(afx.jit(lambda x, w: afx.sum(fn(x, w))))):
            assert run(X, W).tolist() == (7.0 * W).tolist()
        assert afx.grad(lambda x, w: afx.sum(afx.vmap(fn)(x, w)))(X, W).tolist() == (7.0 * W).tolist()
        held = afx.grad(lambda x: afx.sum(afx.checkpoint(lambda v: make(W)(v) * 2.0)(x)))
        assert held(X).tolist() == (14.0 * W).tolist()

    def test_derivatives_by_them_are_refused(self, kind: str) -> None:
        """Where a derivative by such a value is wanted there is no rule for it: that raises, and says so."""
        make = CUSTOM[kind]
        fn = lambda x, w: afx.sum(make(w)(x))
        for run in (afx.grad(fn, 1), afx.grad(fn, (0, 1)), afx.jit(afx.grad(fn, 1)), afx.grad(afx.jit(fn), 1)):
            with pytest.raises(TracerError, match=f"{kind} of .*closes over .*as an argument"):
                run(X, W)
        held = afx.grad(lambda w: afx.sum(afx.checkpoint(lambda v: make(w)(v))(w)))
        with pytest.raises(TracerError, match="closes over"):
            held(W)


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, w: afx.scan(lambda c, y: (c * w + y, None), w, x)[0],
    "scan in pieces": lambda x, w: afx.scan(lambda c, y: (c * w + y, None), w, x, checkpoint=2)[0],
    "fori_loop": lambda x, w: afx.fori_loop(0, 3, lambda k, c: c * w + x[k], w),
    "while_loop": lambda x, w: afx.while_loop(
        lambda s: s[0] < afx.sum(w) * 0 + 3,
        lambda s: (s[0] + 1, s[1] * w + afx.asarray(x)[afx.astype(s[0], int)]),
        (0.0, w),
    )[1],
    "cond": lambda x, w: afx.cond(w[0] > 0, lambda: ((w * w + x[0]) * w + x[1]) * w + x[2], lambda: w),
    "switch": lambda x, w: afx.switch(
        afx.astype(w[0] * 0, int) + 1, [lambda v: v, lambda v: ((v * w + x[0]) * w + x[1]) * w + x[2]], w
    ),
    "jit": lambda x, w: afx.jit(lambda: ((w * w + x[0]) * w + x[1]) * w + x[2])(),
}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_of_loops_and_branches_close_over_tracers(kind: str) -> None:
    """Values of any outer transformation that a body reads are lifted: derivatives, batches and plans are right."""
    body = BODIES[kind]
    x = np.arange(1.0, 10.0).reshape(3, 3)
    plain = lambda x, w: afx.sum(((w * w + x[0]) * w + x[1]) * w + x[2])  # what all of them compute
    fn = lambda x, w: afx.sum(body(x, w))
    want = afx.grad(plain, (0, 1))(x, W)
    for run in (afx.grad(fn, (0, 1)), afx.jit(afx.grad(fn, (0, 1))), afx.grad(afx.jit(fn), (0, 1))):
        for g, wanted in zip(run(x, W), want, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(wanted), rtol=1e-12)
    ws = np.stack([W, W + 1])
    for run in (afx.vmap(afx.grad(fn, 1), (None, 0)), afx.jit(afx.vmap(afx.jit(afx.grad(fn, 1)), (None, 0)))):
        rows = run(x, ws)
        for k in range(2):
            np.testing.assert_allclose(np.asarray(rows[k]), np.asarray(afx.grad(plain, 1)(x, ws[k])), rtol=1e-12)
    inner = afx.grad(lambda w: afx.sum(afx.jvp(lambda v: body(x, v * w), (w,), (w,))[1]))
    other = afx.grad(lambda w: afx.jvp(lambda v: plain(x, v * w), (w,), (w,))[1])
    np.testing.assert_allclose(np.asarray(inner(W)), np.asarray(other(W)), rtol=1e-12)
