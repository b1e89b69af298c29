"""Modules of linen: names and shapes of parameters, values by formulas, and train states."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import ArgumentError
from afx.migrate import for_flax, for_jax, for_optax, for_trees, migrate_source, optax_trees

RNG = np.random.default_rng(0)


class Net(for_flax.Module):
    """A network with layers of every kind, some with names."""

    features: int
    rate: float = 0.5

    @for_flax.compact
    def __call__(self, x: Any, deterministic: bool = True) -> Any:
        """Return [batch, features]."""
        x = for_flax.Conv(4, (3, 3), strides=2)(x)
        x = for_flax.max_pool(x, (2, 2), strides=(2, 2))
        x = for_flax.relu(for_flax.Conv(2, (1, 1), use_bias=False)(x))
        x = for_flax.LayerNorm()(x.reshape(len(x), -1))
        x = for_flax.Dropout(self.rate)(x, deterministic=deterministic)
        x = Block(name="block")(x)
        return for_flax.Dense(self.features)(x) * self.param("gain", lambda key, shape: afx.ones(shape), (1,))


class Block(for_flax.Module):
    """A module that makes its layers in `setup`."""

    def setup(self) -> None:
        """Make layers."""
        self.inner = for_flax.Dense(3)
        self.norm = for_flax.RMSNorm()

    def __call__(self, x: Any) -> Any:
        """Return [batch, 3]."""
        return self.norm(self.inner(x))


X = RNG.normal(size=(2, 8, 8, 1))


def test_what_calls_give_is_captured() -> None:
    """By places, of calls that are asked for: all of ``__call__``, or those that a function names."""
    net, variables = Net(5), Net(5).init(afx.random.key(0), X)
    z, kept = net.apply(variables, X, capture_intermediates=True, mutable=["intermediates"])
    np.testing.assert_array_equal(kept["intermediates"]["__call__"][0], z)
    assert kept["intermediates"]["block"]["inner"]["__call__"][0].shape == (2, 3)
    _, kept = net.apply(variables, X, capture_intermediates=lambda m, _: isinstance(m, Block), mutable="intermediates")
    assert list(kept["intermediates"]) == ["block"]


def test_parameters_have_flaxs_names_and_shapes() -> None:
    """By classes and numbers, or names; layers without parameters have no place."""
    variables = Net(5).init(afx.random.key(0), X)
    shapes = afx.pytree.map(lambda p: p.shape, variables)
    assert shapes == {
        "params": {
            "Conv_0": {"kernel": (3, 3, 1, 4), "bias": (4,)},
            "Conv_1": {"kernel": (1, 1, 4, 2)},
            "LayerNorm_0": {"scale": (8,), "bias": (8,)},
            "block": {"inner": {"kernel": (8, 3), "bias": (3,)}, "norm": {"scale": (3,)}},
            "Dense_0": {"kernel": (3, 5), "bias": (5,)},
            "gain": (1,),
        }
    }


def test_values_are_those_of_formulas() -> None:
    """Means 0, variances 1, roots of mean squares 1, and a key for what is dropped."""
    layer, x = for_flax.LayerNorm(), RNG.normal(size=(3, 7))
    variables = layer.init(afx.random.key(0), x)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(layer.apply(variables, x), (x - mean) / np.sqrt(var + 1e-6), rtol=1e-12)
    square = (x * x).mean(-1, keepdims=True)
    rms = for_flax.RMSNorm()
    np.testing.assert_allclose(rms.apply(rms.init(afx.random.key(0), x), x), x / np.sqrt(square + 1e-6), rtol=1e-12)
    image = RNG.normal(size=(1, 4, 4, 1))
    np.testing.assert_allclose(for_flax.avg_pool(image, (2, 2), (2, 2))[0, 0, 0, 0], image[0, :2, :2, 0].mean())
    embed = for_flax.Embed(5, 2)
    table = embed.init(afx.random.key(0), np.array([0]))
    np.testing.assert_array_equal(embed.apply(table, np.array([3, 1])), table["params"]["embedding"][np.array([3, 1])])
    net, variables = Net(5), Net(5).init(afx.random.key(0), X)
    dropped = net.apply(variables, X, deterministic=False, rngs={"dropout": afx.random.key(1)})
    assert np.abs(dropped - net.apply(variables, X)).max() > 0
    with pytest.raises(ArgumentError, match="got none for 'dropout'"):
        net.apply(variables, X, deterministic=False)
    with pytest.raises(ArgumentError, match="outside of init and apply"):
        Net(5)(X)


def test_norms_of_batches_keep_running_means() -> None:
    """Means and variances of the batch, or those kept, which a call gives that may change them."""
    x, layer = RNG.normal(size=(5, 3)), for_flax.BatchNorm(momentum=0.75)
    variables = layer.init(afx.random.key(0), x, use_running_average=False)
    assert sorted(variables) == ["batch_stats", "params"]
    np.testing.assert_array_equal(variables["batch_stats"]["var"], np.ones(3))
    z, changed = layer.apply(variables, x, use_running_average=False, mutable=["batch_stats"])
    mean, var = x.mean(0), x.var(0)
    np.testing.assert_allclose(z, (x - mean) / np.sqrt(var + 1e-5), rtol=1e-12)
    np.testing.assert_allclose(changed["batch_stats"]["mean"], 0.25 * mean, rtol=1e-12)
    np.testing.assert_allclose(changed["batch_stats"]["var"], 0.75 + 0.25 * var, rtol=1e-12)
    kept = {**variables, **changed}
    still = (x - 0.25 * mean) / np.sqrt(0.75 + 0.25 * var + 1e-5)
    np.testing.assert_allclose(layer.apply(kept, x, use_running_average=True), still, rtol=1e-12)


def test_masks() -> None:
    """Masks of attention, of no later times and of all that are given are Flax's, with dtypes and further axes."""
    linen: Any = pytest.importorskip("flax.linen", reason="the reference is Flax's")
    tokens, keys = np.array([[1, 2, 0], [3, 0, 0]]), np.array([[1, 0], [1, 1]])
    found = []
    for nn in (linen, for_flax):
        pad, causal = nn.make_attention_mask(tokens > 0, tokens > 0), nn.make_causal_mask(tokens)
        masks = [
            pad,
            causal,
            nn.make_attention_mask(tokens, keys, np.greater, 2, bool),
            nn.combine_masks(None, pad, causal),
        ]
        masks += [nn.make_causal_mask(tokens, 1, np.int32), nn.combine_masks(pad, dtype=bool)]
        found.append([(np.asarray(mask).tolist(), mask.shape) for mask in masks])
        assert nn.combine_masks(None) is None
    assert found[0] == found[1]
    assert for_flax.combine_masks(causal, dtype=bool).dtype == bool


def test_heads_attend() -> None:
    """Rows of softmax of scaled products, head by head, with a causal mask; names and shapes are Flax's."""
    x, layer = RNG.normal(size=(2, 4, 6)), for_flax.SelfAttention(num_heads=3, param_dtype=np.float64, dropout_rate=0.5)
    mask = for_flax.make_causal_mask(np.ones((2, 4)))
    variables = layer.init(afx.random.key(0), x, mask=mask, deterministic=True)
    p = {name: {n: np.asarray(w) for n, w in own.items()} for name, own in variables["params"].items()}
    assert p["query"]["kernel"].shape == (6, 3, 2)
    assert p["out"]["kernel"].shape == (3, 2, 6)
    q, k, v = [np.einsum("btd,dhe->bhte", x, p[name]["kernel"]) for name in ("query", "key", "value")]
    scores = np.where(np.tri(4) > 0, np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(2)), 0.0)
    heads = scores / scores.sum(-1, keepdims=True) @ v
    wanted = np.einsum("bhte,heo->bto", heads, p["out"]["kernel"])
    np.testing.assert_allclose(layer.apply(variables, x, mask=mask, deterministic=True), wanted, rtol=1e-12)
    dropped = layer.apply(variables, x, mask=mask, deterministic=False, rngs={"dropout": afx.random.key(1)})
    assert np.abs(dropped - wanted).max() > 0


def test_train_states_have_heirs() -> None:
    """A class of more fields is a tree with all methods."""

    class State(for_flax.TrainState):
        batch_stats: Any

    state = State.create(apply_fn=None, params=afx.ones(2), tx=for_optax.sgd(0.5), batch_stats=afx.zeros(1))
    after = afx.jit(lambda s: s.apply_gradients(grads=afx.ones(2), batch_stats=s.batch_stats + 1))(state)
    assert (int(after.step), after.params.tolist(), after.batch_stats.tolist()) == (1, [0.5, 0.5], [1.0])


def test_train_states_step() -> None:
    """A step is `apply_updates`; compiled, with the count of steps a leaf."""
    net = Net(5)
    params = net.init(afx.random.key(0), X)["params"]
    state = for_flax.TrainState.create(apply_fn=net.apply, params=params, tx=for_optax.sgd(0.1))

    @afx.jit
    def step(state: Any) -> Any:
        grads = afx.grad(lambda p: (state.apply_fn({"params": p}, X) ** 2).sum())(state.params)
        return state.apply_gradients(grads=grads), grads

    after, grads = step(state)
    assert int(after.step) == 1
    np.testing.assert_allclose(after.params["gain"], params["gain"] - 0.1 * grads["gain"], rtol=1e-6)


def test_dataclasses_are_trees() -> None:
    """Whole numbers are leaves, `replace` returns another one, and marked fields are structure."""

    @for_flax.dataclass
    class State:
        x: Any
        t: int
        name: str = for_flax.field(pytree_node=False, default="a")

    state = State(1.0, 0)
    assert afx.pytree.leaves(state.replace(t=2)) == [1.0, 2]
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.t = 3
    out = afx.fori_loop(0, 3, lambda _, s: s.replace(t=s.t + 1), State(afx.asarray(1.0), afx.asarray(0)))
    assert (int(out.t), out.name) == (3, "a")


def test_programs_keep_their_lines() -> None:
    """`flax.linen` is a module of the tool, under its name."""
    source = (
        "import flax.linen as nn\nfrom flax import struct\nfrom flax.training import train_state\nd = nn.Dense(2)\n"
    )
    rewritten, remarks = migrate_source(source, "jax")
    assert remarks == []
    assert rewritten == (
        "import afx.migrate.for_flax as nn\nfrom afx.migrate import for_flax as struct\n"
        "from afx.migrate import for_flax as train_state\nd = nn.Dense(2)\n"
    )


SEQUENCE = RNG.normal(size=(2, 5, 4)).astype(np.float32)
CARRY = np.full((2, 3), 0.25)
BESIDE: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "Dense": (lambda nn: nn.Dense(3), (SEQUENCE[:, 0],)),
    "Conv": (lambda nn: nn.Conv(4, (3, 3), strides=2), (X,)),
    "ConvTranspose": (lambda nn: nn.ConvTranspose(3, (3, 3), strides=(2, 2)), (X,)),
    "ConvTranspose, valid": (lambda nn: nn.ConvTranspose(3, (2,), padding="VALID"), (SEQUENCE,)),
    "GroupNorm": (lambda nn: nn.GroupNorm(num_groups=2), (SEQUENCE,)),
    "GroupNorm of channels": (lambda nn: nn.GroupNorm(num_groups=None, group_size=1), (SEQUENCE,)),
    "GRUCell": (lambda nn: nn.GRUCell(3), (CARRY, SEQUENCE[:, 0])),
    "SimpleCell": (lambda nn: nn.SimpleCell(3), (CARRY, SEQUENCE[:, 0])),
    "LSTMCell": (lambda nn: nn.LSTMCell(3), ((CARRY, 2 * CARRY), SEQUENCE[:, 0])),
    "RNN": (lambda nn: nn.RNN(nn.OptimizedLSTMCell(3), return_carry=True, reverse=True), (SEQUENCE,)),
    "scan": (
        lambda nn: nn.scan(
            nn.OptimizedLSTMCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
        )(3),
        ((CARRY, 2 * CARRY), SEQUENCE),
    ),
    "scan of layers": (
        lambda nn: stacked(nn, {**OWN, "in_axes": (1, nn.broadcast)})(3),
        (CARRY, SEQUENCE, SEQUENCE[:, 0]),
    ),
    "scan without sequences": (lambda nn: tower(nn), (SEQUENCE,)),
    "scan from the end": (lambda nn: stacked(nn)(3), (CARRY, SEQUENCE, SEQUENCE.swapaxes(0, 1))),
    "Bidirectional": (lambda nn: nn.Bidirectional(nn.RNN(nn.GRUCell(3)), nn.RNN(nn.GRUCell(2))), (SEQUENCE,)),
    "Sequential": (lambda nn: nn.Sequential([nn.Dense(3), nn.relu, nn.Dense(2)]), (SEQUENCE,)),
    "Embed": (lambda nn: nn.Embed(5, 3), (np.array([[0, 4], [2, 2]]),)),
    "LayerNorm": (lambda nn: nn.LayerNorm(), (SEQUENCE,)),
    "attention": (lambda nn: nn.MultiHeadAttention(2), (SEQUENCE,)),
}


SHARED: dict[str, Any] = {"variable_broadcast": "params", "split_rngs": {"params": False}, "in_axes": (1, 0)}
OWN: dict[str, Any] = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}


def stacked(nn: Any, options: dict[str, Any] = SHARED) -> Any:
    """Return a class whose steps have layers of their own, of two sequences from the end."""

    class Step(nn.Module):  # type: ignore[misc]  # of two libraries
        features: int

        @nn.compact
        def __call__(self, carry: Any, x: Any, y: Any) -> Any:
            z = nn.Dense(self.features)(x) + nn.Dense(self.features)(y) * carry
            return z, {"z": z, "square": z**2}

    return nn.scan(Step, reverse=True, **options)


def tower(nn: Any) -> Any:
    """Return a module of three equal blocks, whose parameters are stacked below the name of the scan."""

    class Block(nn.Module):  # type: ignore[misc]  # of two libraries
        @nn.compact
        def __call__(self, x: Any, _: Any) -> Any:
            return x + nn.Dense(x.shape[-1])(nn.LayerNorm()(x)), None

    class Tower(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(2)(nn.scan(Block, length=3, **OWN)()(x, None)[0])

    return Tower()


def test_scans_are_of_parameters() -> None:
    """Other variables that each place has are refused."""
    with pytest.raises(ArgumentError, match="scan: variables are parameters"):
        for_flax.scan(for_flax.BatchNorm, variable_axes={"params": 0, "batch_stats": 0}, length=3)


@pytest.mark.parametrize("name", BESIDE)
def test_layers_are_flaxs(name: str) -> None:
    """Under x64 names, shapes and dtypes of parameters are Flax's, and with these so are values."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Flax's")
    linen: Any = pytest.importorskip("flax.linen", reason="the reference is Flax's")
    make, args = BESIDE[name]
    default = afx.get_default_dtype()
    try:
        for_jax.config.update("jax_enable_x64", True)
        with jax.enable_x64(True):
            theirs = make(linen)
            variables = jax.tree.map(np.asarray, jax.jit(theirs.init)(jax.random.key(0), *args))
            want = [np.asarray(z) for z in jax.tree.leaves(jax.jit(theirs.apply)(variables, *args))]
        own = make(for_flax).init(afx.random.key(0), *args)
        kinds = [afx.pytree.map(lambda p: f"{p.shape} {p.dtype}", tree) for tree in (own, variables)]
        assert kinds[0] == kinds[1]
        found = afx.pytree.leaves(make(for_flax).apply(variables, *args))
    finally:
        afx.set_default_dtype(default)
    for z, w in zip(found, want, strict=True):
        assert z.dtype == w.dtype
        np.testing.assert_allclose(z, w, rtol=2e-6, atol=1e-6)


class Coder(for_flax.Module):
    """A module of parts by lists, dicts and fields, whose methods are called by name."""

    last: Any = None

    def setup(self) -> None:
        """Make parts."""
        self.parts = [for_flax.Dense(3), for_flax.Dense(2)]
        self.heads = {"a": for_flax.Sequential([for_flax.Dense(2), for_flax.tanh])}

    def __call__(self, x: Any) -> Any:
        """Return both."""
        return self.last(self.decode(self.encode(x)))

    def encode(self, x: Any) -> Any:
        """Return the first half."""
        return self.parts[1](self.parts[0](x))

    def decode(self, x: Any) -> Any:
        """Return the second one, and keep it."""
        z = self.heads["a"](x)
        self.sow("intermediates", "code", z)
        return z


class Holder(for_flax.Module):
    """A module that makes modules for others."""

    @for_flax.compact
    def __call__(self, x: Any) -> Any:
        """Return what a chain and a coder give."""
        x = for_flax.Sequential([for_flax.Dense(4), for_flax.relu])(x)
        coder = Coder(for_flax.Dense(1))
        return coder(x), coder.encode(x)


def test_modules_are_named_by_who_holds_them() -> None:
    """By fields, places in lists and keys, or by those that make them; methods run by name, bound or not."""
    x, coder = SEQUENCE[:, 0], Coder(for_flax.Dense(1))
    variables = coder.init(afx.random.key(0), x)
    assert sorted(variables) == ["params"]
    assert sorted(variables["params"]) == ["heads_a", "last", "parts_0", "parts_1"]
    assert sorted(variables["params"]["heads_a"]) == ["layers_0"]
    code = coder.apply(variables, x, method=Coder.encode)
    for way in (coder.encode, "encode", lambda m, x: m.encode(x)):
        np.testing.assert_array_equal(coder.apply(variables, x, method=way), code)
    bound = coder.bind(variables)
    np.testing.assert_array_equal(bound.encode(x), code)
    np.testing.assert_array_equal(bound.parts[1](bound.parts[0](x)), code)
    z, kept = coder.apply(variables, x, mutable=["intermediates"])
    np.testing.assert_array_equal(bound.last(kept["intermediates"]["code"][0]), z)
    (_, encoded), variables = Holder().init_with_output(afx.random.key(0), x)
    assert sorted(variables["params"]) == ["Coder_0", "Dense_0", "Dense_1"]
    assert encoded.shape == (2, 2)


def test_dicts_are_flat_and_kept() -> None:
    """Paths by tuples or text, and states of trees as dicts and bytes, which come back."""
    tree = {"a": {"w": 1, "b": {"c": 2}}, "e": {}}
    flat = for_trees.flatten_dict(tree)
    assert flat == {("a", "w"): 1, ("a", "b", "c"): 2}
    assert for_trees.flatten_dict(tree, keep_empty_nodes=True) == flat | {("e",): {}}
    assert for_trees.flatten_dict(tree, is_leaf=lambda p, _: p == ("a", "b")) == {("a", "w"): 1, ("a", "b"): {"c": 2}}
    joined = for_trees.flatten_dict(tree, sep="/")
    assert joined == {"a/w": 1, "a/b/c": 2}
    assert for_trees.unflatten_dict(joined, sep="/") == {"a": tree["a"]}
    assert for_trees.path_aware_map(lambda p, _: p[-1], {"x": {"y": 1}}) == {"x": {"y": "y"}}
    assert for_flax.unfreeze(for_flax.freeze(tree)) == tree
    layer = for_flax.Dense(2)
    params = layer.init(afx.random.key(0), np.ones((1, 3)))["params"]
    state = for_flax.TrainState.create(apply_fn=layer.apply, params=params, tx=for_optax.adam(0.1))
    after = state.apply_gradients(grads=params)
    kept = optax_trees.to_state_dict(after)
    assert sorted(kept) == ["opt_state", "params", "step"]
    for again in (optax_trees.from_state_dict(state, kept), optax_trees.from_bytes(state, optax_trees.to_bytes(after))):
        assert afx.pytree.equal(again.params, after.params)
        assert int(again.step) == 1
        assert again.apply_fn == state.apply_fn
    with pytest.raises(ArgumentError, match="from_state_dict: names differ"):
        optax_trees.from_state_dict(state, {"step": 0})
    np.testing.assert_array_equal(for_flax.onehot(np.array([1, 0]), 2, 2.0, -1.0), [[-1, 2], [2, -1]])
