"""Layers: formulas, shapes, training and evaluation, readable text, mistakes."""

import functools
from typing import Any, Literal

import attrs
import numpy as np
import pytest

import afx
from afx import nn


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


def ndarray(x: Any) -> np.ndarray:
    """Return an array as NumPy's."""
    return np.asarray(x)


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear.create(0, 6, 2, bias=False), (4, 6)),
    "Conv1": (lambda: nn.Conv.create(0, (3,), 6, 4, dilation=2), (2, 8, 6)),
    "Conv2": (lambda: nn.Conv.create(0, (3, 2), 6, 4, stride=(2, 1), padding="same", bias=False), (2, 5, 4, 6)),
    "Conv3": (lambda: nn.Conv.create(0, (2, 2, 2), 6, 4, dilation=(1, 2, 1), groups=2), (2, 3, 4, 3, 6)),
    "ConvTranspose": (lambda: nn.ConvTranspose.create(0, (3, 2), 6, 4, stride=2, groups=2), (2, 3, 3, 6)),
    "LayerNorm": (lambda: nn.LayerNorm.create(6), (4, 6)),
    "RMSNorm": (lambda: nn.RMSNorm.create(6), (4, 6)),
    "GroupNorm": (lambda: nn.GroupNorm.create(6, 3), (4, 5, 6)),
    "BatchNorm": (lambda: nn.BatchNorm.create(6), (4, 5, 6)),
    "MLP": (lambda: nn.MLP.create(0, [6, 5, 2], bias=False, activation=nn.tanh), (4, 6)),
    "RNN": (lambda: nn.RNN.create(0, 6, 3), (4, 5, 6)),
    "GRU": (lambda: nn.GRU.create(0, 6, 3, reverse=True), (4, 5, 6)),
    "LSTM": (lambda: nn.LSTM.create(0, 6, 3, bias=False), (4, 5, 6)),
    "Bidirectional": (lambda: nn.Bidirectional.create(0, nn.GRU, 6, 3), (4, 5, 6)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention.create(0, 6, 3, rotary=True, shared=3), (4, 5, 6)),
    "TransformerBlock": (lambda: nn.TransformerBlock.create(0, 6, 2, causal=True), (4, 5, 6)),
    "Sequential": (lambda: nn.Sequential(nn.Linear.create(0, 6, 3), nn.tanh, nn.BatchNorm.create(3)), (4, 6)),
}


def first(out: Any) -> Any:
    """Return the outputs of layers that return their last state too."""
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(name: str, rng: np.random.Generator) -> None:
    """In float64, plain and compiled, along a random direction; the gradient has the model's own type."""
    make, shape = MODELS[name]
    model, x = make(), rng.normal(size=shape)

    def loss(model: Any, x: Any) -> Any:
        return afx.sum(afx.sin(first(model(x))))

    direction = afx.pytree.map(lambda p: afx.asarray(rng.normal(size=p.shape)), model)

    def at(step: float) -> float:
        moved = afx.pytree.map(lambda p, d: p + step * d, model, direction)
        if name in ("BatchNorm", "Sequential"):
            moved = model if name == "Sequential" else attrs.evolve(moved, mean=model.mean, variance=model.variance)
        return float(loss(moved, x))

    h = 1e-5
    slope = (at(h) - at(-h)) / (2 * h)
    for way in (afx.grad(loss), afx.jit(afx.grad(loss))):
        found = way(model, x)
        assert type(found) is type(model)
        if name == "Sequential":
            continue
        pairs = zip(afx.pytree.leaves(found), afx.pytree.leaves(direction), strict=True)
        dots = [float(afx.sum(g * d)) for g, d in pairs]
        count = 2 if name == "BatchNorm" else len(dots)
        assert sum(dots[:count]) == pytest.approx(slope, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_layers_keep_the_dtype_and_run_under_jit_and_vmap(name: str, rng: np.random.Generator) -> None:
    """float32 stays float32; compiled and mapped over an outer axis a layer gives what it gives plainly."""
    make, shape = MODELS[name]
    model, x = make(), rng.normal(size=(3, *shape))
    plain = np.stack([ndarray(first(model(row))) for row in x])
    np.testing.assert_allclose(ndarray(afx.vmap(lambda v: first(model(v)))(x)), plain, atol=1e-12)
    np.testing.assert_allclose(ndarray(afx.jit(lambda m, v: first(m(v)))(model, x[0])), plain[0], atol=1e-12)
    small = afx.pytree.map(lambda p: p.astype(afx.float32), model)
    out = first(small(x[0].astype(np.float32)))
    assert out.dtype == np.float32
    np.testing.assert_allclose(ndarray(out), plain[0], atol=1e-4)


class TestNormalization:
    """Statistics by their formulas."""

    def test_rms_norm(self, rng: np.random.Generator) -> None:
        """X over the root of its mean square; in float16 squares do not overflow."""
        x = rng.normal(size=(3, 4))
        want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * [1.0, 2.0, 3.0, 4.0]
        np.testing.assert_allclose(ndarray(nn.RMSNorm(afx.asarray([1.0, 2.0, 3.0, 4.0]))(x)), want, rtol=1e-13)
        half = nn.RMSNorm(afx.ones(2, afx.float16))(np.array([3e4, 3e4], np.float16))
        assert (half.dtype, half.tolist()) == (np.float16, [1.0, 1.0])

    def test_group_norm(self, rng: np.random.Generator) -> None:
        """Each example's groups of channels are normalised over all positions."""
        x = rng.normal(size=(2, 5, 3, 6)) * 3 + 7
        parts = x.reshape(2, 15, 3, 2)
        want = (parts - parts.mean((1, 3), keepdims=True)) / np.sqrt(parts.var((1, 3), keepdims=True) + 1e-5)
        np.testing.assert_allclose(ndarray(nn.GroupNorm.create(6, 3)(x)), want.reshape(x.shape), atol=1e-12)

    def test_batch_norm_in_training(self, rng: np.random.Generator) -> None:
        """The batch's own statistics normalise; the new layer mixes them, the variance with n - 1, into the old ones."""
        norm, x = nn.BatchNorm.create(3, decay=0.75), rng.normal(size=(4, 5, 3)) * 2 + 1
        y, new = norm.train(x)
        center, spread = x.mean((0, 1)), x.var((0, 1))
        np.testing.assert_allclose(ndarray(y), (x - center) / np.sqrt(spread + 1e-5), atol=1e-12)
        np.testing.assert_allclose(ndarray(new.mean), 0.25 * center, rtol=1e-13)
        np.testing.assert_allclose(ndarray(new.variance), 0.75 + 0.25 * x.var((0, 1), ddof=1), rtol=1e-13)
        assert norm.mean.tolist() == [0.0] * 3
        want = (x - ndarray(new.mean)) / np.sqrt(ndarray(new.variance) + 1e-5)
        np.testing.assert_allclose(ndarray(new(x)), want, atol=1e-12)

    def test_the_new_statistics_carry_no_derivative(self, rng: np.random.Generator) -> None:
        """They are found by the way: nothing flows back from them into the batch."""
        norm, x = nn.BatchNorm.create(3), rng.normal(size=(4, 3))
        assert not ndarray(afx.grad(lambda x: afx.sum(norm.train(x)[1].variance))(x)).any()

    def test_batch_norm_in_a_compiled_step(self, rng: np.random.Generator) -> None:
        """A step returns the new layer as part of the model."""
        norm, x = nn.BatchNorm.create(3), rng.normal(size=(4, 3))
        want = norm.train(x)[1]
        got = afx.jit(lambda layer, x: layer.train(x)[1])(norm, x)
        np.testing.assert_allclose(ndarray(got.variance), ndarray(want.variance), rtol=1e-14)

    def test_one_element_has_no_variance(self) -> None:
        """A batch of one is refused in training and fine in evaluation."""
        norm = nn.BatchNorm.create(3)
        assert norm(np.ones((1, 3))).shape == (1, 3)
        with pytest.raises(afx.errors.ShapeError, match="BatchNorm: a channel needs two elements"):
            norm.train(np.ones((1, 3)))

    @pytest.mark.parametrize("make", [nn.LayerNorm.create, nn.RMSNorm.create, nn.BatchNorm.create])
    def test_another_number_of_features_is_refused(self, make: Any) -> None:
        """A last axis of length 1 would broadcast silently."""
        with pytest.raises(afx.errors.ShapeError, match=r"the last axis.*got float64\[2,1\] and float64\[3\]"):
            make(3)(np.ones((2, 1)))


class TestDropout:
    """Noise in training, nothing in evaluation."""

    def test_shares_and_means(self) -> None:
        """A share of `rate` is zero, the others are scaled; the same key drops the same elements."""
        x, key = np.ones(20_000), afx.random.key(1)
        y = ndarray(nn.Dropout(0.3)(x, key))
        assert set(np.unique(y)) == {0.0, 1 / 0.7}
        assert (y == 0).mean() == pytest.approx(0.3, abs=0.01)
        assert nn.Dropout(0.3)(x, key).tolist() == y.tolist()
        assert nn.Dropout(0.3)(x, afx.random.key(2)).tolist() != y.tolist()

    def test_evaluation_and_rate_zero_change_nothing(self) -> None:
        """Without a key the output is the input."""
        x = np.arange(3.0)
        assert nn.Dropout(0.9)(x).tolist() == nn.Dropout(0.0)(x, afx.random.key(0)).tolist() == x.tolist()

    def test_elements_drop_together(self) -> None:
        """Along the given axes all or none are kept: whole channels of images."""
        y = ndarray(nn.Dropout(0.5, axes=(1, -2))(np.ones((8, 4, 4, 16)), afx.random.key(0)))
        assert (y == y[:, :1, :1]).all()
        assert 0 < (y == 0).mean() < 1

    def test_the_gradient_is_the_mask(self) -> None:
        """What is dropped has no derivative, not even where the input is infinite."""
        key, x = afx.random.key(0), np.full(50, 2.0)
        slope = ndarray(afx.grad(lambda x: afx.sum(nn.Dropout(0.5)(x, key)))(x))
        assert slope.tolist() == (ndarray(nn.Dropout(0.5)(x, key)) / x).tolist()
        assert set(nn.Dropout(0.5)(np.full(50, np.inf), key).tolist()) == {0.0, np.inf}
        assert afx.jit(nn.Dropout(0.5))(x, key).tolist() == nn.Dropout(0.5)(x, key).tolist()
        assert nn.Dropout(1e-12)(x, key).tolist() == (x / (1 - 1e-12)).tolist()

    def test_training_needs_a_key(self) -> None:
        """A chain trained without a key would silently drop nothing."""
        with pytest.raises(afx.errors.ArgumentError, match="Dropout: training draws numbers: got no key"):
            nn.Sequential(nn.Dropout(0.5)).train(np.ones(3))

    @pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, True, np.nan])
    def test_rates(self, rate: Any) -> None:
        """At 1 nothing would be left to scale."""
        with pytest.raises(afx.errors.ArgumentError, match="rate"):
            nn.Dropout(rate)


class TestSequential:
    """Layers one after the other."""

    def test_evaluation_and_training(self, rng: np.random.Generator) -> None:
        """Evaluation uses running statistics; training drops by the key and returns the chain with new statistics."""
        model = nn.Sequential(nn.Linear.create(0, 3, 4), nn.BatchNorm.create(4), nn.relu, nn.Dropout(0.5))
        x, key = rng.normal(size=(6, 3)), afx.random.key(3)
        linear, norm, _, _ = model.layers
        assert model(x).tolist() == nn.relu(norm(linear(x))).tolist()
        y, new = model.train(x, key)
        again, _ = afx.jit(lambda m, x, key: m.train(x, key))(model, x, key)
        np.testing.assert_allclose(ndarray(again), ndarray(y), atol=1e-14)
        assert (ndarray(y) == 0).any()
        assert new.layers[1].mean.tolist() == norm.train(linear(x))[1].mean.tolist()
        assert new.layers[0].weight is linear.weight

    def test_chains_nest(self, rng: np.random.Generator) -> None:
        """A chain is a layer."""
        inner = nn.Sequential(nn.BatchNorm.create(3))
        _, new = nn.Sequential(inner, nn.tanh).train(rng.normal(size=(4, 3)))
        assert new.layers[0].layers[0].mean.tolist() != [0.0] * 3

    def test_mistakes(self) -> None:
        """A list, a class and what is no function are named, with the right call."""
        with pytest.raises(afx.errors.ArgumentError, match=r"nn\.Sequential\(\*layers\)"):
            nn.Sequential([nn.relu, nn.tanh])  # a mistake on purpose
        with pytest.raises(afx.errors.ArgumentError, match=r"layer 1 is a class: got Linear; write nn\.Linear\.create"):
            nn.Sequential(nn.relu, nn.Linear)
        with pytest.raises(afx.errors.ArgumentError, match="layer 0: needs a function"):
            nn.Sequential(3)  # a mistake on purpose


def test_tied_weights_sum_their_gradients(rng: np.random.Generator) -> None:
    """One table that looks up and reads out has the gradient of both uses."""
    table = afx.asarray(rng.normal(size=(5, 3)))
    index = np.array([1, 4])

    def loss(embedding: nn.Embedding) -> Any:
        return afx.sum(afx.sin(embedding.attend(embedding(index))))

    def apart(rows: Any, out: Any) -> Any:
        return afx.sum(afx.sin(rows[index] @ out.T))

    found = afx.grad(loss)(nn.Embedding(table)).table
    want = sum(ndarray(g) for g in afx.grad(apart, argnums=(0, 1))(table, table))
    np.testing.assert_allclose(ndarray(found), want, atol=1e-14)
    with pytest.raises(afx.errors.DtypeError, match="looks up integers"):
        nn.Embedding(table)(np.ones(2))


def test_one_hot() -> None:
    """Ones at the indices; what is no class gives zeros; any shape; the dtype asked for."""
    assert nn.one_hot(np.array([[2], [0]]), 3).tolist() == [[[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]]
    assert nn.one_hot(np.array([-1, 3]), 3).tolist() == [[0.0] * 3] * 2
    assert nn.one_hot(1, 2, dtype=afx.int32).dtype == np.int32
    assert nn.one_hot(np.zeros(0, int), 2).shape == (0, 2)
    assert afx.vmap(lambda i: nn.one_hot(i, 2))(np.array([1, 0])).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(afx.errors.DtypeError, match="one_hot: needs integers"):
        nn.one_hot(np.ones(2), 3)
    with pytest.raises(afx.errors.ShapeError, match="one_hot"):
        nn.one_hot(np.ones(2, int), -1)


class TestText:
    """The repr of a layer says what it is, not what it holds."""

    def test_a_layer_on_a_line(self) -> None:
        """Shapes, the number of parameters, and options that are not the default ones."""
        assert repr(nn.Linear.create(0, 3, 2)) == "Linear(8 parameters: weight=float64[3,2], bias=float64[2])"
        assert repr(nn.Linear.create(0, 1, 1, bias=False)) == "Linear(1 parameter: weight=float64[1,1], bias=None)"
        conv = nn.Conv.create(0, (3,), 1, 2, stride=2)
        assert repr(conv) == "Conv(8 parameters: kernel=float64[3,1,2], bias=float64[2], stride=2)"
        assert repr(nn.Dropout(0.5)) == "Dropout(rate=0.5)"

    def test_a_model_on_many_lines(self) -> None:
        """Layers inside are indented; functions stand by their names."""
        text = repr(nn.MLP.create(0, [1000, 8, 2]))
        assert text.splitlines() == [
            "MLP(8,026 parameters:",
            "  layers=(",
            "    Linear(8,008 parameters: weight=float64[1000,8], bias=float64[8]),",
            "    Linear(18 parameters: weight=float64[8,2], bias=float64[2]),",
            "  ),",
            "  activation=relu,",
            ")",
        ]

    def test_ones_own_layer(self) -> None:
        """The decorator serves users' classes; text under jit and of trees of other things works too."""

        @nn.layer
        @attrs.frozen
        class Mine:
            parts: dict[str, Any]
            power: float = 2.0

        mine = Mine({"a": afx.ones(2), "b": [nn.relu]}, power=3.0)
        assert repr(mine) == "Mine(3 parameters: parts={'a': float64[2], 'b': (relu,)}, power=3.0)"
        seen: list[str] = []
        afx.jit(lambda m: seen.append(repr(m)))(nn.RMSNorm.create(2))
        assert seen == ["RMSNorm(2 parameters: scale=float64[2])"]
        assert nn.count_parameters(mine) == 3  # a float is a parameter too

    def test_words_and_sizes_in_ones_own_layer(self) -> None:
        """What may be a word or a number is taken as it is; a number in the place of an array is not."""

        @nn.layer
        @attrs.frozen
        class Mine:
            weight: afx.Array
            mode: Literal["a", "b"]
            steps: int | tuple[int, ...]

        assert repr(Mine(afx.ones(2), "b", 3)) == "Mine(2 parameters: weight=float64[2], mode='b', steps=3)"
        with pytest.raises(
            afx.errors.ArgumentError, match=r"Mine: takes its arrays: got 3, 'a', 1; write Mine\(weight"
        ):
            Mine(3, "a", 1)  # a mistake on purpose


MISTAKES: dict[str, tuple[Any, str]] = {
    "Linear": (lambda: nn.Linear(3, 2), "nn.Linear.create(key, 3, 2)"),  # a mistake on purpose
    "no bias": (lambda: nn.Linear(3, 2, bias=False), "nn.Linear.create(key, 3, 2)"),  # wrong on purpose
    "Conv": (lambda: nn.Conv(1, 16, 3), "nn.Conv.create(key, window, channels, out)"),  # wrong on purpose
    "Embedding": (lambda: nn.Embedding(10, 4), "nn.Embedding.create(key, 10, 4)"),  # wrong on purpose
    "LayerNorm": (lambda: nn.LayerNorm(64), "nn.LayerNorm.create(64)"),  # wrong on purpose
    "BatchNorm": (lambda: nn.BatchNorm(64), "nn.BatchNorm.create(64)"),  # wrong on purpose
    "GRU": (lambda: nn.GRU(3, 4), "nn.GRU.create(key, 3, 4)"),  # a mistake on purpose
    "two sizes": (lambda: nn.MLP(3, 4), "nn.MLP.create(key, sizes)"),  # a mistake on purpose
    "MLP": (lambda: nn.MLP(3, 4, 2), "nn.MLP.create(key, sizes)"),  # a mistake on purpose
    "attention": (lambda: nn.MultiHeadAttention(64, 8), "nn.MultiHeadAttention.create(key, 64, 8)"),  # wrong on purpose
    "padding": (lambda: nn.Conv.create(0, (3,), 1, 2, padding="SAME"), "write 'same'"),  # wrong on purpose
    "pad word": (
        lambda: nn.Conv.create(0, (3,), 1, 2, padding="full"),
        "padding is 'valid', 'same'",
    ),  # wrong on purpose
    "window": (lambda: nn.Conv.create(0, 3, 1, 2), "write (3,) for one axis"),  # a mistake on purpose
    "strides": (lambda: nn.Conv.create(0, (3,), 1, 2, stride=(1, 2)), "stride is an integer"),
    "dilation": (lambda: nn.ConvTranspose.create(0, (3,), 1, 2, dilation=0), "dilation is an integer"),
    "groups": (lambda: nn.ConvTranspose.create(0, (3,), 3, 2, groups=2), "groups divide channels"),
    "norm groups": (lambda: nn.GroupNorm.create(4, 3), "groups divide channels"),
    "sizes": (lambda: nn.Linear.create(0, 0, 2), "inputs is 1 or more"),
    "heads": (lambda: nn.MultiHeadAttention.create(0, 8, 3), "heads divide features"),
    "decay": (lambda: nn.BatchNorm.create(3, decay=1.1), "decay is between 0 and 1"),
    "hidden": (lambda: nn.GRU.create(0, 3, 0), "inputs and hidden are 1 or more"),
    "halves": (lambda: nn.glu(np.ones(3)), "two halves"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_use_fails_where_it_is_written(name: str) -> None:
    """Other libraries' forms raise at once and show the right call."""
    make, words = MISTAKES[name]
    with pytest.raises(ValueError, match="got") as found:
        make()
    assert words in str(found.value)
    assert isinstance(found.value, afx.errors.AfxError)


def test_a_wrong_size_names_the_layer() -> None:
    """Too many features are told as a matter of the layer, with its sizes, eager and compiled."""
    for apply in (nn.Linear.create(0, 3, 2), afx.jit(nn.Linear.create(0, 3, 2))):
        with pytest.raises(afx.errors.ShapeError, match=r"^Linear\(3, 2\): .* got float..\[5,4\], .* 4 inputs"):
            apply(afx.ones((5, 4)))
    with pytest.raises(afx.errors.ShapeError, match=r"^Linear\(3, 2\): .* got float..\[\]"):
        nn.Linear.create(0, 3, 2)(afx.ones(()))


def test_an_assignment_in_a_constructor_names_create() -> None:
    """A layer written with ``self.weight = …``, as elsewhere, says what to write here."""

    @nn.layer
    @attrs.frozen
    class Scale:
        weight: afx.Array

        def __init__(self, size: int) -> None:
            self.weight = afx.ones(size)  # the mistake that is tested

    with pytest.raises(attrs.exceptions.FrozenInstanceError) as found:
        Scale(3)
    assert "classmethod create(cls, key, …) that returns cls(weight)" in "".join(found.value.__notes__)


@attrs.frozen
class Residual:
    """A class of a user's own that holds a layer, and has no ``train``."""

    inner: Any

    def __call__(self, x: Any) -> Any:
        return x + self.inner(x)


@pytest.mark.parametrize(
    "inner",
    [
        nn.Dropout(0.5),
        nn.BatchNorm.create(3),
        nn.Sequential(nn.Linear.create(0, 3, 3), nn.Dropout(0.1)),
        [nn.relu, {"last": nn.Dropout(0.5)}],
        functools.partial(nn.Dropout(0.5)),
        nn.Dropout(0.5).__call__,
    ],
)
def test_layers_inside_of_own_classes_are_trained(inner: Any) -> None:
    """A layer inside of a class without ``train`` draws and keeps its statistics in a chain that is trained."""
    x, key = np.random.default_rng(0).normal(size=(8, 3)), afx.random.key(0)
    chain = nn.Sequential(nn.relu, Residual(inner if callable(inner) else nn.Sequential(inner[0], inner[1]["last"])))
    y, new = chain.train(x, key)
    assert y.tolist() != chain(x).tolist()
    assert isinstance(new.layers[1], Residual)
    if isinstance(inner, nn.BatchNorm):
        assert new.layers[1].inner.mean.tolist() != inner.mean.tolist()
    y, new = nn.train(lambda model: model(x), chain.layers[1], key)  # of a class of one's own
    assert isinstance(new, Residual)
    assert type(new.inner) is type(chain.layers[1].inner)  # likewise


def test_layers_that_do_not_differ_in_training_need_no_method() -> None:
    """A class of one's own needs no ``train`` around layers that do the same in training."""
    for inner in (nn.Dropout(0.0), nn.Sequential(nn.Linear.create(0, 3, 3)), nn.relu, nn.MLP.create(0, [3, 3])):
        nn.Sequential(nn.relu, Residual(inner)).train(afx.ones((2, 3)), afx.random.key(0))
