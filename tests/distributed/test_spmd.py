"""`Machines.spmd`: collectives inside of programs, with derivatives, traced and in loops, on local slots."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed
from afx.errors import ArgumentError, TracerError, TreeError
from tests.every import together

SLOTS = 4
X = np.random.default_rng(0).normal(size=(SLOTS, 3, 5))


def run(fn: Any, values: Any = X, slots: int = SLOTS) -> np.ndarray[Any, Any]:
    """Return what slots give for their parts, one behind the other."""
    machines = distributed.local(slots)
    found = machines.spmd(fn)(distributed.by_slot(lambda slot: afx.asarray(values[slot])))
    return np.array([np.asarray(x) for x in found.gather()])


OPS = {
    "psum": (distributed.psum, lambda x: np.broadcast_to(x.sum(0), x.shape)),
    "all_gather": (distributed.all_gather, lambda x: np.broadcast_to(x, (SLOTS, *x.shape))),
    "shift": (distributed.shift, lambda x: np.concatenate([np.zeros_like(x[:1]), x[:-1]])),
    "shift back": (lambda x: distributed.shift(x, -2), lambda x: np.concatenate([x[2:], np.zeros_like(x[:2])])),
    "ring": (lambda x: distributed.shift(x, wrap=True), lambda x: np.roll(x, 1, 0)),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_collectives_are_those_of_whole_arrays(name: str, is_compiled: bool) -> None:
    """NumPy on the array of all slots gives the same, eager and compiled."""
    fn, expected = OPS[name]
    np.testing.assert_allclose(run(afx.jit(fn) if is_compiled else fn), expected(X), rtol=1e-14)


def test_a_scattered_sum_is_a_part_of_the_sum() -> None:
    """Each slot gets its row of the sum of all slots' rows; integers add up too."""
    rows = np.random.default_rng(1).normal(size=(SLOTS, SLOTS, 2))
    np.testing.assert_allclose(run(distributed.psum_scatter, rows), rows.sum(0), rtol=1e-14)
    counts = np.arange(SLOTS * SLOTS).reshape(SLOTS, SLOTS)
    assert run(distributed.psum_scatter, counts).tolist() == counts.sum(0).tolist()
    assert run(distributed.psum, counts)[0].tolist() == counts.sum(0).tolist()


@together("dtype", "?bBhHiIlLefdFD")
@together("is_compiled", [False, True])
def test_dtypes_are_those_of_sums(dtype: str, is_compiled: bool) -> None:
    """Booleans are counted and small integers do not wrap, as by `afx.sum`; what is gathered or shifted keeps its dtype."""
    values = (np.arange(SLOTS * SLOTS).reshape(SLOTS, SLOTS) % 3 * 100).astype(dtype)
    expected = np.asarray(afx.sum(afx.asarray(values), 0))
    for op in (distributed.psum, distributed.psum_scatter):
        found = run(afx.jit(op) if is_compiled else op, values)
        assert found.dtype == expected.dtype
        assert (found == expected).all()
    for op in (distributed.all_gather, distributed.shift):
        assert run(afx.jit(op) if is_compiled else op, values).dtype == dtype


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_derivatives_are_adjoint(name: str, is_compiled: bool) -> None:
    """Over all slots together ``<J t, ct> = <t, Jᵀ ct>``, and gradients are those of the sum of what slots return."""
    fn, whole = OPS[name]
    tangents = np.random.default_rng(2).normal(size=X.shape)
    cotangents = np.random.default_rng(3).normal(size=whole(X).shape)

    def both(x: Any, t: Any, ct: Any) -> Any:
        _, pushed = afx.jvp(fn, (x,), (t,))
        _, pull = afx.vjp(fn, x)
        return pushed, pull(ct)[0]

    machines = distributed.local(SLOTS)
    args = [distributed.by_slot(lambda slot, a=a: afx.asarray(a[slot])) for a in (X, tangents, cotangents)]
    found = machines.spmd(afx.jit(both) if is_compiled else both)(*args).gather()
    pushed, pulled = (np.array([np.asarray(pair[k]) for pair in found]) for k in range(2))
    np.testing.assert_allclose(pushed, whole(tangents), rtol=1e-13)
    np.testing.assert_allclose(np.vdot(pushed, cotangents), np.vdot(tangents, pulled), rtol=1e-12)


@pytest.mark.parametrize("name", OPS)
def test_collectives_batch(name: str) -> None:
    """`afx.vmap` inside of a program gives what slots give row by row."""
    fn, _ = OPS[name]
    batched = run(afx.vmap(fn))
    rows = np.stack([run(fn, X[:, k]) for k in range(X.shape[1])], 1)
    np.testing.assert_allclose(batched, rows, rtol=1e-14)


def test_loops_exchange_in_each_step() -> None:
    """A halo exchange inside `afx.scan`, compiled, and its gradient: those of the undivided loop."""

    def step(u: Any, _: Any) -> Any:
        left, right = distributed.shift(u[-1:]), distributed.shift(u[:1], -1)
        padded = afx.concatenate([left, u, right])
        return u + 0.2 * (padded[2:] - 2 * u + padded[:-2]), None

    def energy(u: Any) -> Any:
        return afx.sum(afx.scan(step, u, None, length=7)[0] ** 2)

    def whole_step(u: Any, _: Any) -> Any:
        padded = afx.pad(u, (1, 1))
        return u + 0.2 * (padded[2:] - 2 * u + padded[:-2]), None

    start = np.random.default_rng(4).normal(size=(SLOTS, 6))
    value, slope = afx.value_and_grad(lambda u: afx.sum(afx.scan(whole_step, u, None, length=7)[0] ** 2))(
        afx.asarray(start.reshape(-1))
    )
    found = (
        distributed.local(SLOTS)
        .spmd(afx.jit(afx.value_and_grad(energy)))(distributed.by_slot(lambda slot: afx.asarray(start[slot])))
        .gather()
    )
    np.testing.assert_allclose(sum(float(v) for v, _ in found), float(value), rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([np.asarray(g) for _, g in found]), slope, rtol=1e-11)


def test_second_derivatives_pass_through() -> None:
    """A Hessian-vector product through a sum over slots."""
    found = run(
        lambda x: afx.grad(lambda x: afx.sum(afx.grad(lambda x: afx.sum(distributed.psum(x) ** 3))(x)))(x), X[:, 0, 0]
    )
    np.testing.assert_allclose(found, 6 * X[:, 0, 0].sum() * SLOTS**2 * np.ones(SLOTS), rtol=1e-12)


def test_values_stay_where_they_are_between_calls() -> None:
    """What one call returns is an argument of the next."""
    machines = distributed.local(3)
    values = machines.spmd(lambda x: x + 1)(distributed.by_slot(lambda slot: afx.asarray(float(slot))))
    assert [float(x) for x in machines.spmd(distributed.psum)(values).gather()] == [6.0] * 3
    assert [float(x) for x in values.map(lambda x: 2 * x).gather()] == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: distributed.psum(x) if float(x) else x, "slots make other collectives"),
        (lambda x: distributed.psum(x) if float(x) else distributed.shift(x), "slots make other collectives"),
        (lambda x: distributed.psum(afx.ones(int(x) + 1)), "slots make other collectives"),
    ],
)
def test_slots_that_differ_are_named(fn: Any, message: str) -> None:
    """A slot that leaves, or comes to another collective, ends all of them with a sentence."""
    with pytest.raises(ArgumentError, match=message):
        distributed.local(2).spmd(fn)(distributed.by_slot(lambda slot: afx.asarray(float(slot))))


def test_errors_of_one_slot_reach_the_caller() -> None:
    """While the others wait in a collective."""

    def fn(x: Any) -> Any:
        if float(x) == 1:
            raise ZeroDivisionError("on purpose")
        return distributed.psum(x)

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        distributed.local(3).spmd(fn)(distributed.by_slot(lambda slot: afx.asarray(float(slot))))
    with pytest.raises(ArgumentError, match="outside of an SPMD program"):
        distributed.psum(afx.ones(2))


@pytest.mark.parametrize("transform", [afx.jit, afx.grad, afx.vmap])
def test_transformations_around_a_program_are_refused(transform: Any) -> None:
    """The error says what to write, for arrays, for parts of slots, and for values that leave a compiled function."""
    program = distributed.local(2).spmd(lambda x: distributed.psum(x))
    with pytest.raises(TracerError, match=r"write machines\.spmd\(afx\.jit\(fn\)\)"):
        transform(program)(afx.ones(()) if transform is afx.grad else afx.ones(2))
    for call in (
        lambda: transform(program)(distributed.by_slot(lambda slot: afx.ones(2))),
        afx.jit(lambda: program(1.0)),
    ):
        with pytest.raises(TreeError, match=r"write machines\.spmd\(afx\.jit\(fn\)\)"):
            call()
