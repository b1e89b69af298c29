"""Layers of `afx.migrate.for_equinox` beside Equinox's, with the same weights, and shapes, trees and keys."""

import dataclasses
import io
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx.errors import ArgumentError, ShapeError
from afx.migrate import for_equinox, for_lax, for_optax, migrate_source

jax: Any = pytest.importorskip("jax", reason="the reference is Equinox's")
equinox: Any = pytest.importorskip("equinox", reason="the reference is Equinox's")

RNG = np.random.default_rng(0)
V, SEQUENCE, IMAGE = RNG.normal(size=6), RNG.normal(size=(5, 6)), RNG.normal(size=(4, 7, 6))
LAYERS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "Linear": (lambda e, k: e.Linear(6, 3, key=k), (V,)),
    "MLP": (lambda e, k: e.MLP(6, 2, 5, 2, key=k), (V,)),
    "GRUCell": (lambda e, k: e.GRUCell(6, 4, key=k), (V, V[:4])),
    "GRUCell, no bias": (lambda e, k: e.GRUCell(6, 4, use_bias=False, key=k), (V, V[:4])),
    "LSTMCell": (lambda e, k: e.LSTMCell(6, 4, key=k), (V, (V[:4], V[2:]))),
    "Conv1d": (lambda e, k: e.Conv1d(5, 3, 2, key=k), (SEQUENCE,)),
    "Conv2d": (lambda e, k: e.Conv2d(4, 6, (3, 2), stride=2, padding=1, dilation=(1, 2), groups=2, key=k), (IMAGE,)),
    "Conv2d, same": (lambda e, k: e.Conv2d(4, 2, 3, padding="SAME", use_bias=False, key=k), (IMAGE,)),
    "ConvTranspose2d": (
        lambda e, k: e.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=(1, 0), groups=2, key=k), (IMAGE,),
    ),
    "ConvTranspose2d, same": (lambda e, k: e.ConvTranspose(2, 4, 2, 3, 2, "SAME", dilation=2, key=k), (IMAGE,)),
    "MaxPool2d": (lambda e, k: e.MaxPool2d(2, 2), (IMAGE,)),
    "AdaptiveAvgPool2d": (lambda e, k: e.AdaptiveAvgPool2d((3, 2)), (IMAGE,)),
    "AdaptiveMaxPool2d": (lambda e, k: e.AdaptiveMaxPool2d(2), (IMAGE,)),
    "AvgPool2d": (lambda e, k: e.AvgPool2d(kernel_size=(3, 2), padding=1), (IMAGE,)),
    "LayerNorm": (lambda e, k: e.LayerNorm(6), (V,)),
    "LayerNorm, plain": (lambda e, k: e.LayerNorm((5, 6), use_weight=False, use_bias=False), (SEQUENCE,)),
    "RMSNorm": (lambda e, k: e.RMSNorm(6, eps=1e-3), (V,)),
    "GroupNorm": (lambda e, k: e.GroupNorm(2, 4, eps=1e-3), (IMAGE,)),
    "PReLU": (lambda e, k: e.PReLU(), (V,)),
    "RotaryPositionalEmbedding": (lambda e, k: e.RotaryPositionalEmbedding(6), (SEQUENCE,)),
    "Embedding": (lambda e, k: e.Embedding(9, 3, key=k), (4,)),
    "Sequential": (lambda e, k: e.Sequential([e.Linear(6, 2, key=k), e.Lambda(abs), e.Identity()]), (V,)),
    "MultiheadAttention": (
        lambda e, k: e.MultiheadAttention(2, 6, use_query_bias=True, key=k), (SEQUENCE, SEQUENCE, SEQUENCE, np.tri(5) > 0),
    ),
    "Dropout": (lambda e, k: e.Dropout(0.5, inference=True), (V,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_equinoxs(name: str) -> None:
    """With Equinox's leaves in place of its own, each of the same shape: values and gradients by weights, to 1e-12."""
    make, args = LAYERS[name]
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        theirs = make(equinox.nn, jax.random.key(0))
        leaves = [np.asarray(x) for x in jax.tree.leaves(equinox.filter(theirs, equinox.is_array))]
        first, treedef = afx.pytree.flatten(make(for_equinox, afx.random.key(0)))
        assert [(x.shape, x.dtype) for x in first] == [(x.shape, x.dtype) for x in leaves]
        for x, like in zip(first, leaves, strict=True):  # drawn, or ones and zeros
            assert np.ptp(x) == 0 or (abs(float(np.std(x)) / np.std(like) - 1) < 0.6)
        own = afx.pytree.unflatten(treedef, list(map(afx.asarray, leaves)))
        plain = {
            f.name: getattr(theirs, f.name) for f in dataclasses.fields(theirs) if f.name not in ("init", "layers")
        }
        plain = {name: x for name, x in plain.items() if isinstance(x, (int, float, str, tuple)) and x is not False}
        assert {name: getattr(own, name) for name in plain} == plain
        given = jax.tree.map(jax.numpy.asarray, args)
        want = jax.tree.leaves(equinox.filter_jit(theirs)(*given))
        found = afx.pytree.leaves(own(*args))
        slopes, own_slopes = list[Any](), list[Any]()
        if leaves:
            square = equinox.filter_grad(lambda m: sum((z**2).sum() for z in jax.tree.leaves(m(*given))))
            own_square = afx.grad(lambda m: sum((z**2).sum() for z in afx.pytree.leaves(m(*args))))
            slopes, own_slopes = jax.tree.leaves(equinox.filter_jit(square)(theirs)), afx.pytree.leaves(own_square(own))
    for z, w in zip([*found, *own_slopes], [*want, *slopes], strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12, atol=1e-12)


def test_compiled_functions_know_what_is_no_array() -> None:
    """Numbers, shapes and functions are static for ``filter_jit``, in models too, whose floats are leaves."""
    source = (
        "import equinox as eqx\nimport jax.numpy as jnp\n\n\nclass A(eqx.Module):\n    w: jnp.ndarray\n    end: float\n"
        "    share: float = 1.0\n\n"
        "    def __call__(self, n):\n        return self.w[:n] * self.end * self.share\n\n\n@eqx.filter_jit(donate='all')\n"
        "def f(model, n, *, fn):\n    return fn(model(n)) if n > 1 else 0\n"
    )
    rewritten, remarks = migrate_source(source, "jax")
    assert remarks == []
    names: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    exec(rewritten, names)
    exec(source, theirs)
    model = names["A"](afx.arange(4.0), 0.5)
    wanted = jax.grad(lambda m: m(2).sum())(theirs["A"](jax.numpy.arange(4.0), 0.5))
    found = afx.grad(lambda m: m(2).sum())(model)
    assert (float(found.end), float(found.share)) == (float(wanted.end), float(wanted.share)) == (1.0, 0.5)
    kept = for_equinox.filter_jit(lambda m, *more: (m, len(more), more[0]))(model, "text", 2.0)
    assert (kept[0].end, kept[1:]) == (0.5, (2, "text"))
    assert for_equinox.filter_grad(lambda m: m(2).sum())(model).end is None
    assert names["f"](model, 3, fn=afx.sum) == 1.5
    assert names["f"](model, 1, fn=afx.sum) == 0
    solver = for_optax.adam(0.1)
    grads = for_equinox.filter_grad(lambda m: m(2).sum())(model)
    updates, _ = solver.update(grads, solver.init(for_equinox.filter_tree(model, for_equinox.is_inexact_array)))
    np.testing.assert_allclose(for_equinox.apply_updates(model, updates)(4), [-0.05, 0.45, 1.0, 1.5], rtol=1e-6)


def test_fields_that_are_not_assigned_have_their_defaults() -> None:
    """In a class with an ``__init__`` of its own."""
    source = (
        "import equinox as eqx\nimport jax.numpy as jnp\n\n\nclass A(eqx.Module):\n    w: jnp.ndarray\n"
        "    power: int = eqx.field(static=True, default=3)\n    scale: float = 2.0\n\n    def __init__(self, w, scale=None):\n"
        "        self.w = w\n        if scale is not None:\n            self.scale = scale\n"
    )
    rewritten, remarks = migrate_source(source, "jax")
    names: dict[str, Any] = {}
    exec(rewritten, names)
    assert remarks == []
    assert [(m.power, m.scale) for m in (names["A"](1.0), names["A"](1.0, 5.0))] == [(3, 2.0), (3, 5.0)]


DEFAULTS = """import equinox as eqx
import jax, jax.numpy as jnp
class Layer(eqx.Module):
    w: jax.Array
    c: float = jnp.pi
    k: int = 3
    dtype: type = eqx.field(static=True, default=jnp.float32)
    def __init__(self, n): self.w = jnp.ones(n, self.dtype)
class Heir(Layer):
    d: float = 2 * jnp.e
    def __init__(self, n):
        super().__init__(n)
z = Heir(3)
found = z.c, z.k, z.d, str(z.w.dtype), z.w.shape
"""


def test_defaults_are_rewritten() -> None:
    """Of fields that an ``__init__`` in one line, or in several, leaves to the class."""
    pytest.importorskip("equinox", reason="the reference is Equinox's")
    ours, theirs = dict[str, Any](), dict[str, Any]()
    exec(DEFAULTS, theirs)
    exec(migrate_source(DEFAULTS, "jax")[0], ours)
    assert ours["found"] == theirs["found"]


def test_dropouts_draw_and_stop() -> None:
    """Elements go and others grow; without a key it is an error, and in inference mode nothing happens."""
    layer = for_equinox.Sequential([for_equinox.Dropout(0.25)])
    x = afx.ones(1000)
    z = np.asarray(layer(x, key=afx.random.key(0)))
    assert set(np.unique(z)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(z.mean() - 1) < 0.1
    with pytest.raises(ArgumentError, match="got no key"):
        layer(x)
    assert for_equinox.inference_mode({"a": [layer]})["a"][0](x) is x


def test_models_are_taken_apart() -> None:
    """Truth values in fields are leaves of a mask, models that can be called are trees, and None stands for others."""
    model = for_equinox.MLP(2, 1, 3, 1, key=afx.random.key(0))
    mask = afx.migrate.for_trees.tree_map(lambda _: False, model)
    assert len(afx.pytree.leaves(mask)) == 4
    mask = for_equinox.tree_at(lambda m: m.layers[-1].bias, mask, replace=True)
    chosen, rest = for_equinox.partition(model, mask)
    assert [x.shape for x in afx.pytree.leaves(chosen)] == [(1,)]
    assert for_equinox.tree_equal(for_equinox.combine(chosen, rest), model)
    moved = for_equinox.apply_updates(model, chosen)
    assert float(moved.layers[-1].bias[0]) == 2 * float(model.layers[-1].bias[0])
    assert moved.layers[0].weight is model.layers[0].weight
    counts = iter(range(4))
    counted = for_equinox.tree_at(
        lambda m: [layer.bias for layer in m.layers] + [layer.weight for layer in m.layers],
        model,
        replace_fn=lambda x: x * 0 + next(counts),  # in the order of the tree, as of a generator that draws
    )
    assert [float(x.ravel()[0]) for x in afx.pytree.leaves(counted)] == [0, 1, 2, 3]

    @attrs.frozen
    class Counter:
        count: Any
        weight: Any

    chosen, rest = for_equinox.partition([afx.ones(2), afx.sin], for_equinox.is_array)
    assert (chosen[1], rest) == (None, [None, afx.sin])
    assert for_equinox.combine(rest, chosen)[1] is afx.sin
    (slopes, _), aux = for_equinox.filter_grad(lambda m: (m[1](m[0]).sum(), 5), has_aux=True)([afx.zeros(2), afx.sin])
    assert (slopes.tolist(), aux) == ([1.0, 1.0], 5)
    with pytest.raises(ArgumentError, match="the trees differ"):
        for_equinox.combine([1.0], [1.0, 2.0])
    both = Counter(np.arange(2), np.ones(2))
    assert for_equinox.filter_tree(both, for_equinox.is_inexact_array).count is None
    assert for_equinox.filter_tree(both, for_equinox.is_array).count is not None
    assert for_equinox.filter_tree(both, for_equinox.is_inexact_array, inverse=True).weight is None
    with pytest.raises(ShapeError, match=r"LayerNorm: of \(3,\): got \(2, 3\)"):
        for_equinox.LayerNorm(3)(np.ones((2, 3)))


def test_combine_takes_the_first_leaf() -> None:
    """Of trees that overlap, as Equinox does, and of what `partition` returns."""
    trees = ([None, 1.0, {"a": None}], [0.0, 2.0, {"a": None}], [9.0, None, {"a": 3.0}])
    assert for_equinox.combine(*trees) == equinox.combine(*trees) == [0.0, 1.0, {"a": 3.0}]
    pairs = ({"a": (1, 2), "b": None}, {"a": (3, 4), "b": (5, 6)})
    whole: Any = {"is_leaf": lambda x: isinstance(x, tuple)}
    assert for_equinox.combine(*pairs, **whole) == equinox.combine(*pairs, **whole) == {"a": (1, 2), "b": (5, 6)}


def test_models_are_kept_in_files(tmp_path: Path) -> None:
    """Under the name that is given, or in a file that is open; and what must not be stops."""
    model, other = [for_equinox.Linear(2, 1, key=afx.random.key(k)) for k in (0, 1)]
    for_equinox.tree_serialise_leaves(tmp_path / "model.eqx", model)
    assert for_equinox.tree_equal(for_equinox.tree_deserialise_leaves(tmp_path / "model.eqx", other), model)
    file = io.BytesIO()
    for_equinox.tree_serialise_leaves(file, model)
    file.seek(0)
    assert for_equinox.tree_equal(for_equinox.tree_deserialise_leaves(file, other), model)
    x = afx.ones(2)
    assert for_equinox.error_if(x, x < 0, "negative") is x
    with pytest.raises(ArgumentError, match="error_if: negative"):
        for_equinox.error_if(x, x > 0, "negative")
    with pytest.raises(ArgumentError, match="got replace= or is_leaf="):
        for_equinox.filter_tree(model, for_equinox.is_array, replace=0)


def train_three_steps(e: Any, vmap: Any, grad: Any, tree: Any, layer: str, weight: Any) -> list[Any]:
    """Return results of three batches and of inference, slopes, and the states after each, of one library."""

    class Both:
        @staticmethod
        def make(key: Any) -> Any:
            linear = e.Linear(4, 4, key=key)
            linear = tree.unflatten(tree.flatten(linear)[1], [weight, weight[0]])
            kinds: dict[str, Any] = {
                "spectral": lambda: e.SpectralNorm(linear, "weight", key=key),
                "ema": lambda: e.BatchNorm(4, "batch", momentum=0.9, mode="ema"),
                "batch": lambda: e.BatchNorm(4, "batch", momentum=0.8, mode="batch"),
            }
            return e.Sequential([e.Lambda(abs), kinds[layer](), e.LayerNorm(4)])

    model, state = e.make_with_state(Both.make)(KEYS[e](0))
    run = vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    kept = list[Any]()
    for k in range(3):
        z, state = run(BATCH * (k + 1) + k, state)
        kept += [z, *tree.leaves(state)]
    kept.append(grad(lambda x: (run(x, state)[0] ** 3).sum())(BATCH))
    still = MODES[e](model)
    return [*kept, vmap(still, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(BATCH, state)[0]]


BATCH = RNG.normal(size=(5, 4))
KEYS: dict[Any, Any] = {equinox.nn: jax.random.key, for_equinox: afx.random.key}
MODES: dict[Any, Any] = {equinox.nn: equinox.nn.inference_mode, for_equinox: for_equinox.inference_mode}


@pytest.mark.filterwarnings("ignore:When `eqx.nn.BatchNorm")
@pytest.mark.parametrize("layer", ["ema", "batch", "spectral"])
def test_states_are_equinoxs(layer: str) -> None:
    """Running moments and singular vectors after three batches, in a sequence of layers."""
    weight = np.diag([4.0, 1.0, 0.5, 0.2]) + RNG.normal(size=(4, 4)) / 10
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        want = train_three_steps(equinox.nn, jax.vmap, jax.grad, jax.tree, layer, jax.numpy.asarray(weight))
        own = train_three_steps(for_equinox, for_lax.vmap, afx.grad, afx.pytree, layer, afx.asarray(weight))
    for z, w in zip(own, want, strict=True):
        # singular vectors begin with draws of each library's own, and their signs are free
        z, w = (np.abs(x) if layer == "spectral" else np.asarray(x) for x in (z, w))
        np.testing.assert_allclose(z, w, rtol=1e-4 if layer == "spectral" else 1e-12, atol=1e-13)


def test_states_of_parts() -> None:
    """A part's states come back into those of the whole; other shapes are refused, and the first states are copied once."""
    model, state = for_equinox.make_with_state(lambda: [for_equinox.StateIndex(1.0), for_equinox.StateIndex(2)])()
    part = state.substate(model[1])
    assert [float(part.get(model[1])), len(part.states)] == [2, 1]
    whole = state.update(part.set(model[1], 5))
    assert [float(whole.get(index)) for index in model] == [1, 5]
    assert model[0].init is None
    with pytest.raises(ShapeError, match=r"State\.set: shapes and dtypes stay"):
        state.set(model[0], np.ones(2))
    plain = [for_equinox.StateIndex(3.0), for_equinox.StateIndex(4.0)]
    assert [float(for_equinox.State(plain).get(index)) for index in plain] == [3, 4]
    again = for_equinox.make_with_state(lambda: [for_equinox.StateIndex(1.0), for_equinox.StateIndex(2)])()
    assert afx.pytree.structure(again) == afx.pytree.structure((model, state))


def test_kinds_of_layers_are_classes() -> None:
    """For annotations, ``isinstance``, copies and pickles."""
    layer = for_equinox.Conv2d(1, 2, 3, key=afx.random.key(0))
    assert isinstance(pickle.loads(pickle.dumps(layer)), for_equinox.Conv2d)
    assert str(for_equinox.Conv2d | for_equinox.SpectralNorm[for_equinox.Linear] | None).count("|") == 2
    assert isinstance(afx.pytree.map(afx.negative, for_equinox.MaxPool2d(2)), for_equinox.MaxPool2d)


@attrs.frozen
class Rate:
    """What a static field holds."""

    rate: float


@attrs.frozen
class Holder:
    """A leaf, and an object that is no part of the tree."""

    w: Any
    held: Any = afx.static()


def test_tree_at_sets_nothing_outside_of_the_tree() -> None:
    """What a static field holds is shared with the model that was given: its attributes are not set."""
    model = Holder(np.ones(2), Rate(0.1))
    with pytest.raises(ArgumentError, match="tree_at: 'rate' is in no node of the tree"):
        for_equinox.tree_at(lambda m: m.held.rate, model, 0.5)
    assert model.held.rate == 0.1
    assert for_equinox.tree_at(lambda m: m.held, model, 3).held == 3
    assert model.held.rate == 0.1


OWN = types.SimpleNamespace(tree_at=for_equinox.tree_at, nn=for_equinox)  # by Equinox's names


@pytest.mark.parametrize(
    "change",
    [
        lambda e, layers, k: e.tree_at(lambda m: m.layers[0], layers, e.nn.Linear(2, 3, key=k)),
        lambda e, layers, k: e.tree_at(lambda m: m.layers, layers, (e.nn.Linear(2, 1, use_bias=False, key=k),)),
        lambda e, layers, k: e.tree_at(lambda m: m.layers[1].bias, layers, None),
        lambda e, layers, k: e.tree_at(lambda m: [n.weight for n in m.layers], layers, [np.ones((1, n)) for n in (1, 2, 3)]),
        lambda e, layers, k: e.tree_at(
            lambda m: (m.layers[0].weight, m.layers[2].bias), layers, (None, V), is_leaf=lambda x: x is None
        ),
        lambda e, layers, k: e.tree_at(
            lambda m: m.layers[-1], layers, replace_fn=lambda n: e.tree_at(lambda n: n.bias, n, V)
        ),
    ],
)  # fmt: skip
def test_parts_of_models_are_replaced(change: Callable[[Any, Any, Any], Any]) -> None:
    """Whole layers, lists of them, nothing and what was nothing: leaves have Equinox's shapes."""
    theirs = change(equinox, equinox.nn.MLP(2, 1, 3, 2, key=jax.random.key(0)), jax.random.key(0))
    own = change(OWN, for_equinox.MLP(2, 1, 3, 2, key=afx.random.key(0)), afx.random.key(0))
    shapes = [x.shape for x in jax.tree.leaves(equinox.filter(theirs, equinox.is_array))]
    assert [x.shape for x in afx.pytree.leaves(own) if hasattr(x, "shape")] == shapes


def test_static_fields_are_replaced() -> None:
    """Those of one layer or of several, by a value or a function, in a new model (the first weight became True)."""
    model = for_equinox.Sequential([for_equinox.Dropout(0.5), for_equinox.Dropout(0.5)])
    calm = for_equinox.tree_at(lambda m: m[1].inference, model, replace=True)
    assert [d.inference for d in (*calm.layers, *model.layers)] == [False, True, False, False]
    half = for_equinox.tree_at(lambda m: [m[0].p, m.layers[1].p], model, replace_fn=lambda p: p / 2)
    assert [d.p for d in half.layers] == [0.25, 0.25]
