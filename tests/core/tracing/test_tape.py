"""The tape keeps what the backward pass reads and nothing else, in a flat list that owns no tracer."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.core.tracing.tape import Entry, Tape, TapeTracer
from afx.core.tracing.tracer import Tracer
from afx.transforms.derivatives.backward_pass import backward, unbroadcast
from tests.every import together

X = np.array([1.0, 2.0])


def _recorded(fn: Callable[..., Any], *xs: Any) -> tuple[Tape, Any]:
    """Return the tape of ``fn`` and its result."""
    tape = Tape("test")
    out = fn(*[tape.input(x) for x in xs])
    tape.finish()
    return tape, out


def _names(tape: Tape) -> list[str]:
    return [entry.primitive.name for entry in tape.entries if entry.primitive is not None]


def _values(entry: Entry) -> list[Any]:
    z = entry.z if isinstance(entry.z, tuple) else (entry.z,)
    return [v for v in (*z, *entry.xs) if v is not None]


def test_entries_are_in_order_and_point_backwards() -> None:
    """An entry's operands stand before it; -1 stands for what does not depend on the inputs."""
    tape, out = _recorded(lambda x: afx.sum(x * 2.0 + afx.exp(x)), X)
    assert _names(tape) == ["multiply", "exp", "add", "sum"]
    assert tape.entries[1].ins == (0, -1)
    assert all(i < k for k, entry in enumerate(tape.entries) for i in entry.ins)
    assert float(out._value) == pytest.approx(float(np.sum(X * 2 + np.exp(X))))


def test_entries_hold_no_tracers() -> None:
    """Entries hold bare values, so that no reference leads back to the tape."""
    tape, _ = _recorded(lambda x: afx.sum(afx.sin(x) * x / (1 + x) + afx.sort(x)[0]), X)
    held = [v for entry in tape.entries for v in _values(entry)]
    assert held
    assert not any(isinstance(v, Tracer) for v in held)


@together(
    ("fn", "kept"),
    [
        (lambda x: x + 1.0, 0),
        (lambda x: x - x, 0),
        (lambda x: -x, 0),
        (lambda x: x * 3.0, 1),
        (lambda x: x * x, 2),
        (lambda x: afx.exp(x), 1),
        (lambda x: afx.sin(x), 1),
        (lambda x: afx.sqrt(x), 1),
        (lambda x: afx.sum(x), 0),
        (lambda x: afx.reshape(x, (2, 1)), 0),
        (lambda x: x[0], 0),
        (lambda x: afx.concat([x, x]), 0),
        (lambda x: afx.where(x > 1, x, 0.0), 1),
        (lambda x: afx.matmul(np.eye(2), x), 1),
    ],
)
def test_only_what_is_read_is_kept(fn: Callable[[Array], Array], kept: int) -> None:
    """Linear ops keep nothing, a product its other operand, exp its output."""
    tape, _ = _recorded(fn, X)
    assert sum(len(_values(entry)) for entry in tape.entries) == kept


def test_what_has_no_derivative_leaves_the_tape() -> None:
    """Comparisons, rounding and integers are plain arrays: nothing of them is recorded."""
    seen: list[Any] = []

    def fn(x: Array) -> Array:
        seen.extend([x > 1, afx.floor(x), afx.argmax(x), x.astype(afx.int64)])
        return x * 1.0

    tape, _ = _recorded(fn, X)
    assert [type(v) for v in seen] == [Array] * 4
    assert _names(tape) == ["multiply"]


def test_intermediate_values_are_freed_early() -> None:
    """A chain of sums and shifts needs no more memory than a few of its values."""
    x = np.ones(100_000)

    def fn(v: Array) -> Array:
        for _ in range(50):
            v = v + 1.0
        return afx.sum(v)

    afx.grad(fn)(x)
    tracemalloc.start()
    try:
        afx.grad(fn)(x)
        assert tracemalloc.get_traced_memory()[1] < 6 * x.nbytes
    finally:
        tracemalloc.stop()


def test_the_walk_frees_nothing_it_needs() -> None:
    """A pullback can be called many times, and gives the same each time."""
    _, pullback = afx.vjp(lambda x: afx.exp(x) * afx.sin(x), X)
    ct = np.array([1.0, -1.0])
    first = np.asarray(pullback(ct)[0])
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(pullback(ct)[0]), first)


def test_each_entry_is_visited_once() -> None:
    """A ladder of shared values is walked in as many steps as it has entries."""
    seen: list[Array] = []

    def forward(x: Array) -> tuple[Array, None]:
        return x * 1.0, None

    def back(_: None, ct: Array) -> tuple[Array]:
        seen.append(ct)
        return (ct,)

    once = afx.custom_vjp(lambda x: x * 1.0, forward, back)

    def fn(x: Array) -> Array:
        for _ in range(20):
            y = once(x)
            x = y + y
        return x

    assert float(afx.grad(fn)(np.float64(1))) == 2.0**20
    assert len(seen) == 20


def test_unneeded_branches_are_not_walked() -> None:
    """What the result does not depend on is not pulled back."""

    def refuse(_: None, _ct: Array) -> tuple[Array]:
        raise AssertionError("it should not be called")

    unused = afx.custom_vjp(lambda x: x * 1.0, lambda x: (x * 1.0, None), refuse)

    def fn(x: Array) -> Array:
        unused(x)
        return x * 2.0

    assert float(afx.grad(fn)(1.0)) == 2.0


@pytest.mark.parametrize(
    ("shape", "target", "axes"),
    [
        ((2, 3), (3,), (0,)),
        ((2, 3), (2, 1), (1,)),
        ((2, 3), (), (0, 1)),
        ((4, 2, 3), (2, 1), (0, 2)),
        ((0, 3), (3,), (0,)),
    ],
)
def test_cotangents_of_broadcast_operands_are_summed(
    shape: tuple[int, ...], target: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """Over every axis along which the operand was repeated, in front and inside."""
    ct = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.testing.assert_array_equal(unbroadcast(ct, target), ct.sum(axes).reshape(target))


def test_seeds_give_the_cotangents_of_inputs() -> None:
    """`backward` takes cotangents of any entries and leaves those of the inputs."""
    tape, out = _recorded(lambda x, y: x * y, X, X + 1)
    assert isinstance(out, TapeTracer)
    cts = backward(tape, {out._index: np.ones(2)})
    np.testing.assert_array_equal(cts[0], X + 1)
    np.testing.assert_array_equal(cts[1], X)
    assert cts[out._index] is None
