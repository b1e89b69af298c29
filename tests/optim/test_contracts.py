"""What holds of every optimizer: purity, types of leaves, compilation, derivatives, memory."""

import copy
import gc
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, optim, pytree
from tests.every import together
from tests.optim.cases import OPTIMIZERS, Model, model

every = pytest.mark.parametrize("name", OPTIMIZERS)


def gradients(params: Model) -> Model:
    """Return gradients of the parameters' structure."""
    return pytree.map(lambda p: afx.sin(3.0 * p) + p, params)


def two_steps(optimizer: Any, params: Any) -> tuple[Any, Any]:
    """Take two steps."""
    state = optimizer.init(params)
    for value in (2.0, 1.0):
        params, state = optimizer.step(params, gradients(params), state, value=value)
    return params, state


@every
def test_steps_are_pure(name: str, rng: np.random.Generator) -> None:
    """A step changes none of what it is given, and gives the same result again."""
    optimizer, params = OPTIMIZERS[name](), model(rng)
    state, grads = optimizer.init(params), gradients(params)
    before = [np.array(x) for x in pytree.leaves((params, grads, state))]
    first = optimizer.step(params, grads, state, value=1.0)
    second = optimizer.step(params, grads, state, value=1.0)
    assert pytree.equal(first, second)
    for x, y in zip(before, pytree.leaves((params, grads, state)), strict=True):
        np.testing.assert_array_equal(x, np.asarray(y))


@every
def test_structure_and_dtypes_stay(name: str, rng: np.random.Generator) -> None:
    """Parameters and state keep their structure, shapes and dtypes, leaf by leaf, in nested trees of mixed dtypes."""
    optimizer, params = OPTIMIZERS[name](), model(rng, np.float32)
    state = optimizer.init(params)
    after, later = two_steps(optimizer, params)
    for old, new in ((params, after), (state, later)):
        assert pytree.structure(old) == pytree.structure(new)
        assert [(x.shape, x.dtype) for x in pytree.leaves(old)] == [(x.shape, x.dtype) for x in pytree.leaves(new)]
    assert isinstance(after, Model)
    assert after.name == "model"
    assert after.layers[0].weight.dtype == np.float32
    assert after.scale["s"].dtype == np.float64


@every
@together("dtype", [np.float32, np.float64])
def test_compiled_steps_are_the_eager_ones(name: str, dtype: Any, rng: np.random.Generator) -> None:
    """Under `afx.jit` three steps give what they give without, and are traced once."""
    optimizer, params = OPTIMIZERS[name](), model(rng, dtype)
    traced = list[int]()

    @afx.jit
    def step(params: Any, state: Any, value: Array) -> Any:
        traced.append(1)
        return optimizer.step(params, gradients(params), state, value=value)

    eager = compiled = (params, optimizer.init(params))
    for value in (3.0, 2.0, 2.5):
        loss = afx.asarray(value)
        eager = optimizer.step(eager[0], gradients(eager[0]), eager[1], value=loss)
        compiled = step(*compiled, loss)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for x, y in zip(pytree.leaves(eager), pytree.leaves(compiled), strict=True):
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=tolerance, atol=tolerance)
        assert x.dtype == y.dtype
    assert len(traced) == 1


@every
def test_steps_are_carried_by_scan(name: str, rng: np.random.Generator) -> None:
    """`afx.scan` carries parameters and state through a descent, which gives what a Python loop gives."""
    optimizer, start = OPTIMIZERS[name](), afx.asarray(rng.normal(size=3))

    def step(carry: Any, value: Array) -> Any:
        x, state = carry
        return optimizer.step(x, afx.sin(x), state, value=value), afx.sum(x)

    carry, losses = (start, optimizer.init(start)), np.array([3.0, 2.0, 1.0, 2.0])
    scanned, _ = afx.scan(step, carry, losses)
    for value in losses:
        carry, _ = step(carry, value)
    for x, y in zip(pytree.leaves(carry), pytree.leaves(scanned), strict=True):
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-12)


@every
def test_steps_differentiate(name: str, rng: np.random.Generator) -> None:
    """The derivative of what three steps lead to, by the start, is that of central differences."""
    optimizer = OPTIMIZERS[name]()
    start, direction = rng.normal(size=3) + 2.0, rng.normal(size=3)

    def after(x: Array) -> Array:
        state = optimizer.init(x)
        for value in (3.0, 2.0, 1.0):
            x, state = optimizer.step(x, 0.2 * x**2 + 0.1, state, value=value)
        return afx.sum(x**2)

    h = 1e-6
    up, down = (float(after(afx.asarray(start + s * h * direction))) for s in (1, -1))
    slope = float(np.asarray(afx.grad(after)(afx.asarray(start))) @ direction)
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8)
    _, tangent = afx.jvp(after, (afx.asarray(start),), (afx.asarray(direction),))
    assert float(tangent) == pytest.approx(slope, rel=1e-10)


@every
def test_steps_differentiate_where_a_gradient_is_zero(name: str) -> None:
    """The derivative of a step by its gradient is finite where that gradient is 0."""
    optimizer, x = OPTIMIZERS[name](), afx.asarray(np.ones(3))

    def after(g: Array) -> Array:
        return afx.sum(optimizer.step(x, g, optimizer.init(x), value=1.0)[0])

    slope = np.asarray(afx.grad(after)(afx.asarray(np.array([0.0, 1.0, 0.0]))))
    assert np.isfinite(slope).all()


def test_learning_rate_and_hyperparameters_have_derivatives() -> None:
    """The end of a descent differentiates by the learning rate, and by an optimizer as a tree of hyperparameters."""
    start = afx.asarray(np.array([1.0, -2.0]))

    def end(optimizer: optim.Adam) -> Array:
        x, state = start, optimizer.init(start)
        for _ in range(4):
            x, state = optimizer.step(x, 2 * x, state)
        return afx.sum(x**2)

    def of_rate(rate: Array) -> Array:
        return end(optim.adam(rate))

    rate, h = np.float64(0.1), 1e-6
    wanted = (float(of_rate(afx.asarray(rate + h))) - float(of_rate(afx.asarray(rate - h)))) / (2 * h)
    assert float(afx.grad(of_rate)(afx.asarray(rate))) == pytest.approx(wanted, rel=1e-6)
    slopes = afx.grad(end)(optim.adam(0.1))
    assert isinstance(slopes, optim.Adam)
    assert float(np.asarray(slopes.learning_rate)) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "rmsprop with momentum", "arrayflow"])
def test_optimizers_are_trees(name: str) -> None:
    """An optimizer passed to a compiled function takes part with its hyperparameters, without a new trace for each."""
    x = afx.ones(3)
    traced = list[int]()

    @afx.jit
    def step(optimizer: Any) -> Any:
        traced.append(1)
        return optimizer.step(x, 2 * x, optimizer.init(x), value=1.0)[0]

    field = "initial_step" if name == "arrayflow" else "learning_rate"
    for rate in (0.25, 0.125):
        optimizer: Any = attrs.evolve(OPTIMIZERS[name](), **{field: rate})
        wanted, _ = optimizer.step(x, 2 * x, optimizer.init(x), value=1.0)
        np.testing.assert_allclose(np.asarray(step(optimizer)), np.asarray(wanted), rtol=1e-3)
    assert len(traced) == 1


@every
def test_state_pickles_and_copies(name: str, rng: np.random.Generator) -> None:
    """A state that was saved and loaded continues as the one it was made from."""
    optimizer = OPTIMIZERS[name]()
    params, state = two_steps(optimizer, model(rng))
    for again in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        assert pytree.equal(
            optimizer.step(params, gradients(params), state, value=1.0),
            optimizer.step(params, gradients(params), again, value=1.0),
        )


@every
def test_vmapped_steps_are_single_ones(name: str, rng: np.random.Generator) -> None:
    """`afx.vmap` of a descent runs several, each as it would alone."""
    optimizer = OPTIMIZERS[name]()
    starts = rng.normal(size=(4, 3))

    def descend(x: Array) -> Array:
        state = optimizer.init(x)
        for _ in range(3):
            x, state = optimizer.step(x, afx.cos(x), state, value=afx.sum(x))
        return x

    single = np.stack([np.asarray(descend(afx.asarray(x))) for x in starts])
    np.testing.assert_allclose(np.asarray(afx.vmap(descend)(afx.asarray(starts))), single, rtol=1e-12)


@together("name", [name for name in OPTIMIZERS if name != "accumulated"])  # it waits for a second batch
def test_nan_is_not_hidden(name: str) -> None:
    """A gradient that is nan makes its parameter nan."""
    optimizer, x = OPTIMIZERS[name](), afx.ones(2)
    with np.errstate(invalid="ignore"):
        after, _ = optimizer.step(x, afx.asarray([np.nan, 1.0]), optimizer.init(x), value=1.0)
    assert np.isnan(np.asarray(after)[0])


@every
def test_float16_is_computed_in_float32(name: str) -> None:
    """A float16 parameter stays one, and moves as its float32 twin to the rounding of its own dtype."""
    optimizer = OPTIMIZERS[name]()
    g = np.array([0.0, 1e-4, 0.5, 300.0])
    half, single = afx.asarray(np.ones(4, np.float16)), afx.asarray(np.ones(4, np.float32))
    a, _ = optimizer.step(half, afx.asarray(g.astype(np.float16)), optimizer.init(half), value=1.0)
    b, _ = optimizer.step(
        single, afx.asarray(g.astype(np.float16).astype(np.float32)), optimizer.init(single), value=1.0
    )
    assert a.dtype == np.float16
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b).astype(np.float16))


@every
def test_numpy_parameters_are_taken(name: str) -> None:
    """NumPy's arrays and Python's floats work as parameters and gradients, and become Arrays."""
    optimizer = OPTIMIZERS[name]()
    params: Any = {"w": np.ones(2), "b": 1.0}
    grads: Any = {"w": np.ones(2), "b": np.float32(1.0)}
    after, _ = optimizer.step(params, grads, optimizer.init(params), value=1.0)
    assert isinstance(after["w"], Array)
    assert after["w"].dtype == np.float64
    assert after["b"].dtype == np.float32


@every
def test_steps_leave_no_memory_behind(name: str) -> None:
    """With the garbage collector off, ten steps leave nothing: there are no reference cycles."""
    optimizer, x = OPTIMIZERS[name](), afx.ones(10_000)

    def descend(steps: int) -> None:
        params, state = x, optimizer.init(x)
        for _ in range(steps):
            params, state = optimizer.step(params, x, state, value=1.0)

    def left_behind() -> int:
        gc.collect()
        gc.disable()
        try:
            descend(10)  # what Python keeps of freed tuples grows at first
            tracemalloc.start()
            descend(10)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            gc.enable()

    descend(3)
    assert any(left_behind() < x.nbytes for _ in range(2))  # another thread may allocate too, while it compiles


COUNT_CALLS = """
import sys
import afx

params = {"w": afx.ones((3, 2)), "b": afx.ones(2)}
optimizer = afx.optim.adam(0.1)
params, state = optimizer.step(params, params, optimizer.init(params))
params, state = optimizer.step(params, params, state)
calls = []
sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
optimizer.step(params, params, state)
sys.setprofile(None)
print(len(calls))
"""


def test_eager_steps_ask_for_little() -> None:
    """An eager step of Adam on two leaves makes at most 400 Python calls in a new process: what fits is told without records."""
    run = subprocess.run([sys.executable, "-c", COUNT_CALLS], capture_output=True, text=True, check=True)
    assert int(run.stdout) <= 400
