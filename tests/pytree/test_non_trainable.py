"""Leaves that are not trained: integers, booleans and keys by nature, others in fields that `non_trainable` marks."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, pytree
from tests.every import together
from tests.optim.cases import OPTIMIZERS


@attrs.frozen
class Statistics:
    mean: Array
    var: Array


@attrs.frozen
class Norm:
    """A layer as people write it: parameters, running statistics, a counter, a mask and a key."""

    scale: Array
    running: Statistics = afx.non_trainable()
    momentum: Array = afx.non_trainable()
    count: Array
    mask: Array
    key: Any
    size: int = 3


@attrs.frozen
class Net:
    layers: tuple[Norm, ...]
    bias: Array


def norm(rng: np.random.Generator) -> Norm:
    """Draw a layer."""
    draw: Callable[[], Array] = lambda: afx.asarray(rng.normal(size=3))
    mask = afx.asarray(np.array([True, False, True]))
    return Norm(draw(), Statistics(draw(), draw()), draw(), afx.asarray(np.int32(7)), mask, afx.random.key(3))


def net(rng: np.random.Generator) -> Net:
    """Draw a model of two layers."""
    return Net((norm(rng), norm(rng)), afx.asarray(rng.normal(size=3)))


def loss(model: Net, x: Array) -> Array:
    """Use every array of the model."""
    for layer in model.layers:
        x = layer.scale * afx.where(layer.mask, x - layer.running.mean, layer.momentum) / layer.count
        x = x * afx.exp(0.1 * layer.running.var)
    return afx.sum((x + model.bias) ** 2)


FREE = (".scale", ".bias")


def free(path: str) -> bool:
    """Tell whether a path is that of a trained leaf."""
    return path.endswith(FREE)


def test_the_mark_reaches_everything_below_its_field(rng: np.random.Generator) -> None:
    """Of each leaf `pytree.marked_leaves` tells whether a marked field holds it, in whatever depth."""
    leaves, treedef = pytree.flatten_with_path(net(rng))
    marks = dict(zip([path for path, _ in leaves], pytree.marked_leaves(treedef), strict=True))
    assert [path for path, marked in marks.items() if marked] == [
        f".layers[{k}].{rest}" for k in (0, 1) for rest in ("running.mean", "running.var", "momentum")
    ]
    assert pytree.marked_leaves(pytree.structure({"w": 1.0})) == ()


def test_gradients_of_what_is_not_trained_are_zeros_of_its_dtype(rng: np.random.Generator) -> None:
    """`grad` of a model gives a model: zeros for marked leaves, integers and booleans; the rest as without them."""
    model, x = net(rng), afx.asarray(rng.normal(size=3))
    for run in (afx.grad(loss), afx.jit(afx.grad(loss)), lambda m, x: afx.vjp(loss, m, x)[1](np.float64(1.0))[0]):
        grads = run(model, x)
        assert isinstance(grads, Net)
        assert pytree.structure(grads) == pytree.structure(model)
        for (path, g), p in zip(pytree.flatten_with_path(grads)[0], pytree.leaves(model), strict=True):
            assert (g.shape, g.dtype) == (p.shape, p.dtype)
            assert bool(afx.any(g != 0)) is free(path), path
    plain = afx.grad(lambda b: loss(attrs.evolve(model, bias=b), x))(model.bias)
    np.testing.assert_array_equal(np.asarray(plain), np.asarray(afx.grad(loss)(model, x).bias))


def test_other_modes_leave_them_alone(rng: np.random.Generator) -> None:
    """Forward mode, Jacobians and Hessians take such models; what is not trained does not move."""
    model, x = net(rng), afx.asarray(rng.normal(size=3))
    grads = afx.grad(loss)(model, x)
    ones = pytree.map(afx.ones_like, model)
    _, slope = afx.jvp(lambda m: loss(m, x), (model,), (ones,))
    total = sum(float(afx.sum(g)) for path, g in pytree.flatten_with_path(grads)[0] if free(path))
    assert float(slope) == pytest.approx(total, rel=1e-12)
    assert float(afx.linearize(lambda m: loss(m, x), model)[1](ones)) == pytest.approx(total, rel=1e-12)
    for jacobian in (afx.jacfwd(loss), afx.jacrev(loss)):
        rows = jacobian(model, x)
        for p, q in zip(pytree.leaves(rows), pytree.leaves(grads), strict=True):
            assert p.dtype == q.dtype
            np.testing.assert_allclose(np.asarray(p), np.asarray(q), rtol=1e-12)
    blocks = afx.hessian(loss)(model, x)
    np.testing.assert_allclose(np.asarray(blocks.bias.bias), 2 * np.eye(3), rtol=1e-12)
    assert blocks.layers[0].count.bias.shape == (3,)
    assert not blocks.bias.layers[0].running.mean.any()
    product = afx.hvp(lambda m: loss(m, x), (model,), (ones,))
    wanted = afx.jvp(lambda b: afx.grad(loss)(attrs.evolve(model, bias=b), x).bias, (model.bias,), (model.bias,))
    assert product.bias.shape == wanted[1].shape


@together("name", OPTIMIZERS)
def test_optimizers_leave_them_alone(name: str, rng: np.random.Generator) -> None:
    """Every optimizer trains such a model, eager, compiled and scanned, and what is not trained keeps its bits."""
    optimizer, model, x = OPTIMIZERS[name](), net(rng), afx.asarray(rng.normal(size=3))

    def step(carry: Any, _: Any) -> Any:
        m, s = carry
        value, grads = afx.value_and_grad(loss)(m, x)
        return optimizer.step(m, grads, s, value=value), value

    start = (model, optimizer.init(model))
    eager, _ = step(step(start, None)[0], None)
    compiled, _ = afx.jit(step)(afx.jit(step)(start, None)[0], None)
    scanned, _ = afx.scan(step, start, np.zeros(2))
    for found in (eager, compiled, scanned):
        assert pytree.structure(found) == pytree.structure(start)
        for (path, new), old in zip(pytree.flatten_with_path(found[0])[0], pytree.leaves(model), strict=True):
            assert (new.shape, new.dtype) == (old.shape, old.dtype)
            same = np.asarray(new).tobytes() == np.asarray(old).tobytes()
            assert same is not free(path), path
    for a, b in zip(pytree.leaves(eager), pytree.leaves(scanned), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10)


def test_they_are_batched_pickled_and_copied(rng: np.random.Generator) -> None:
    """Marked leaves are leaves: `vmap` maps them, pickling and copying keep them."""
    model = norm(rng)
    stacked = pytree.map(lambda p: afx.stack([p, p]), model)
    total = afx.vmap(lambda m: afx.sum(m.running.mean) + m.count)(stacked)
    np.testing.assert_allclose(np.asarray(total), float(afx.sum(model.running.mean)) + 7)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert pytree.equal(again, model)
    assert pickle.loads(pickle.dumps(pytree.structure(model))) == pytree.structure(model)


def test_a_whole_argument_must_be_differentiable() -> None:
    """An argument that is an array of integers by itself, or a model without a trained leaf, is refused."""
    with pytest.raises(errors.DtypeError, match=r"argument 1 = int64\[3\]"):
        afx.grad(lambda x, n: afx.sum(x * n), argnums=(0, 1))(np.ones(3), np.arange(3))
    with pytest.raises(errors.DtypeError, match=r"argument 0 = bool\[1\]"):
        afx.vjp(afx.sin, np.array([True]))

    @attrs.frozen
    class Still:
        mean: Array = afx.non_trainable()

    with pytest.raises(errors.ArgumentError, match=r"marked with afx\.non_trainable\(\)"):
        afx.grad(lambda m: afx.sum(m.mean))(Still(afx.ones(2)))


def test_the_mark_keeps_the_options_of_a_field() -> None:
    """`non_trainable` takes what `attrs.field` takes."""

    @attrs.frozen
    class Fields:
        a: float = afx.non_trainable(default=0.5, metadata={"unit": "s"})

    assert pytree.leaves(Fields()) == [0.5]
    assert attrs.fields(Fields).a.metadata["unit"] == "s"
