"""Layers beside the everyday ones: by their definitions in NumPy (those of PyTorch, channels last), and their mistakes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import nn
from afx.errors import ArgumentError


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


def ndarray(x: Any) -> np.ndarray:
    """Return an array as NumPy's."""
    return np.asarray(x)


def test_identity_gives_what_it_gets() -> None:
    """It stands where a layer has to, and has no parameters."""
    assert nn.Identity()(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
    assert nn.count_parameters(nn.Identity()) == 0


def test_instance_norm(rng: np.random.Generator) -> None:
    """Each example's channel has mean 0 and variance 1 over its positions."""
    x = rng.normal(size=(2, 5, 3, 4)) * 3 + 7
    layer = nn.InstanceNorm(afx.asarray([1.0, 2.0, 3.0, 4.0]), afx.ones(4))
    want = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * [1.0, 2, 3, 4] + 1
    np.testing.assert_allclose(ndarray(layer(x)), want, atol=1e-12)
    with pytest.raises(afx.errors.ShapeError, match="InstanceNorm"):
        layer(np.ones((3, 4)))


def test_prelu_learns_its_slopes() -> None:
    """One slope for all or one a channel; the gradient by it is the sum of the negative inputs."""
    x = np.array([[-2.0, 3.0], [-1.0, -4.0]])
    assert nn.PReLU.create()(x).tolist() == [[-0.5, 3.0], [-0.25, -1.0]]
    slopes = nn.PReLU.create(2)
    assert afx.grad(lambda m: afx.sum(m(x)))(slopes).slope.tolist() == [-3.0, -4.0]
    with pytest.raises(afx.errors.ShapeError, match="a slope for each channel"):
        slopes(np.ones((2, 3)))


def test_weight_norm(rng: np.random.Generator) -> None:
    """The layer is the same at first; its weight depends on the direction, not on its length."""
    x = rng.normal(size=(4, 3))
    inner = nn.Linear.create(0, 3, 2)
    layer = nn.WeightNorm.create(inner)
    np.testing.assert_allclose(ndarray(layer(x)), ndarray(inner(x)), rtol=1e-13)
    v = ndarray(inner.weight)
    np.testing.assert_allclose(ndarray(layer.scale), np.sqrt((v**2).sum(0)), rtol=1e-14)
    found = afx.grad(lambda m: afx.sum(afx.sin(m(x))))(layer)
    np.testing.assert_allclose((v * ndarray(found.inner.weight)).sum(0), 0, atol=1e-14)
    afx.testing.check_grads(lambda m: m(x), (layer,))
    conv, image = nn.Conv.create(0, (3, 3), 2, 4), rng.normal(size=(1, 5, 5, 2))
    np.testing.assert_allclose(ndarray(nn.WeightNorm.create(conv)(image)), ndarray(conv(image)), rtol=1e-12)
    with pytest.raises(afx.errors.ArgumentError, match="a field weight or kernel"):
        nn.WeightNorm.create(nn.Dropout(0.5))


def test_spectral_norm(rng: np.random.Generator) -> None:
    """The largest singular value of the weight becomes 1, and the vector is neither trained nor differentiated."""
    inner = nn.Linear.create(1, 5, 3, bias=False)
    layer = nn.SpectralNorm.create(0, inner, steps=200)
    w = ndarray(inner.weight)
    np.testing.assert_allclose(ndarray(layer(np.eye(5))), w / np.linalg.svd(w)[1][0], rtol=1e-10)
    u, s, v = np.linalg.svd(w)
    x = rng.normal(size=(4, 5))
    found = afx.grad(lambda m: afx.sum(m(x)))(layer)
    slope = np.outer(x.sum(0), np.ones(3))  # of W / s: by W, less the part along the singular vectors
    want = slope / s[0] - (slope * w).sum() / s[0] ** 2 * np.outer(u[:, 0], v[0])
    np.testing.assert_allclose(ndarray(found.inner.weight), want, rtol=1e-8, atol=1e-10)
    assert not ndarray(found.left).any()
    y, new = nn.Sequential(layer).train(x)
    np.testing.assert_allclose(ndarray(y), ndarray(layer(x)), rtol=1e-8)
    assert isinstance(new.layers[0], nn.SpectralNorm)


def test_embedding_bags(rng: np.random.Generator) -> None:
    """Rows of a bag come together by mean, sum or maximum; padding counts for nothing, an empty bag gives zeros."""
    table = rng.normal(size=(6, 3))
    index, mask = np.array([[1, 4, 4], [2, 0, 0], [0, 0, 0]]), np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]]) > 0
    rows = table[index]
    for mode, pick in (("mean", np.mean), ("sum", np.sum), ("max", np.max)):
        layer = nn.EmbeddingBag(afx.asarray(table), mode)  # one of the three
        np.testing.assert_allclose(ndarray(layer(index)), pick(rows, axis=1), rtol=1e-13)
        want = [pick(rows[0], axis=0), rows[1, 0], np.zeros(3)]
        np.testing.assert_allclose(ndarray(layer(index, mask=mask)), want, rtol=1e-13)
        slope = ndarray(afx.grad(lambda m: afx.sum(m(index, mask=mask)))(layer).table)
        assert np.isfinite(slope).all()
        assert not slope[0].any()
    with pytest.raises(afx.errors.ArgumentError, match="mode is"):
        nn.EmbeddingBag.create(0, 3, 2, mode="median")  # a mistake on purpose
    with pytest.raises(afx.errors.ShapeError, match="index and mask"):
        layer(index, mask=mask[:2])


def test_decoder_block(rng: np.random.Generator) -> None:
    """Attention, attention to the context, then the net, each beside a shortcut; step by step as at once."""
    block = nn.DecoderBlock.create(0, 8, 2, context=6)
    x, context = rng.normal(size=(3, 5, 8)), rng.normal(size=(3, 7, 6))
    own = block.block
    y = x + ndarray(own.attention(own.attention_norm(x)))
    y = y + ndarray(block.cross(block.cross_norm(y), context))
    want = y + ndarray(own.contract(nn.gelu(own.expand(own.net_norm(y)))))
    np.testing.assert_allclose(ndarray(block(x, context)), want, rtol=1e-12)
    cache, steps = own.attention.make_cache(5, (3,)), []
    for k in range(5):
        z, cache = block.decode(x[:, k : k + 1], context, cache)
        steps.append(ndarray(z))
    np.testing.assert_allclose(np.concatenate(steps, axis=1), want, rtol=1e-11)
    seen = np.arange(7) < 4
    np.testing.assert_allclose(
        ndarray(block(x, context, context_mask=np.broadcast_to(seen, (5, 7)))),
        ndarray(block(x, context[:, :4])),
        rtol=1e-12,
    )
    noisy = nn.DecoderBlock.create(0, 8, 2, context=6, dropout=0.5)
    drawn, _ = noisy.train(x, afx.random.key(0), context)
    assert not np.allclose(ndarray(drawn), ndarray(noisy(x, context)))


class TestResampling:
    """More positions than there were."""

    def test_nearest_repeats(self, rng: np.random.Generator) -> None:
        """Each position stands as often as the factor of its axis says."""
        x = rng.normal(size=(2, 3, 4, 5))
        np.testing.assert_array_equal(ndarray(nn.upsample(x, (2, 3))), x.repeat(2, 1).repeat(3, 2))

    @pytest.mark.parametrize("size", [1, 2, 5])
    def test_linear_is_between_the_middles_of_cells(self, size: int, rng: np.random.Generator) -> None:
        """NumPy's interpolation at the middles, ends held; two axes in turn are bilinear."""
        x = rng.normal(size=(1, size, size, 2))
        places = (np.arange(3 * size) + 0.5) / 3 - 0.5
        rows = np.stack(
            [[np.interp(places, np.arange(size), x[0, :, j, c]) for j in range(size)] for c in range(2)], -1
        )
        want = np.stack(
            [[np.interp(places, np.arange(size), rows[:, i, c]) for i in range(3 * size)] for c in range(2)], -1
        )
        np.testing.assert_allclose(ndarray(nn.upsample(x, 3, method="linear"))[0], want, rtol=1e-12)
        assert nn.upsample(x.astype(np.float32), 2, method="linear").dtype == np.float32

    def test_pixel_shuffle_is_the_definition(self, rng: np.random.Generator) -> None:
        """Channel c·r² + i·r + j goes to row i and column j of output channel c (PyTorch's order)."""
        x = rng.normal(size=(2, 3, 4, 2 * 9))
        found = ndarray(nn.pixel_shuffle(x, 3))
        assert found.shape == (2, 9, 12, 2)
        for c, i, j in ((0, 0, 0), (1, 2, 0), (0, 1, 2), (1, 1, 1)):
            np.testing.assert_array_equal(found[:, i::3, j::3, c], x[..., c * 9 + i * 3 + j])
        assert nn.pixel_shuffle(np.arange(4.0).reshape(1, 2, 2), 2).ravel().tolist() == [0, 1, 2, 3]

    def test_mistakes(self) -> None:
        """Missing axes, odd channels and unknown methods are named."""
        with pytest.raises(afx.errors.ShapeError, match="upsample"):
            nn.upsample(np.ones((3, 4)), 2)
        with pytest.raises(afx.errors.ArgumentError, match="'nearest' and 'linear'"):
            nn.upsample(np.ones((1, 3, 4)), 2, method="cubic")  # a mistake on purpose
        with pytest.raises(afx.errors.ShapeError, match=r"multiple of 2\^2"):
            nn.pixel_shuffle(np.ones((1, 3, 3, 6)), 2)


class TestTrain:
    """Layers inside of classes of one's own."""

    def test_functions_of_a_model_in_training(self, rng: np.random.Generator) -> None:
        """Keys go by path: what is drawn is what a call with the folded key draws, and statistics come back."""
        parts = {"drop": nn.Dropout(0.5), "norms": [nn.BatchNorm.create(3), nn.relu]}
        x, key = rng.normal(size=(6, 3)), afx.random.key(3)

        def run(m: Any) -> Any:
            return m["norms"][0](m["norms"][1](m["drop"](x)))

        y, new = nn.train(run, parts, key)
        more, _ = nn.train(run, {"extra": nn.Dropout(0.1), **parts}, key)
        assert y.tolist() == more.tolist()
        assert (ndarray(y).min(0) == ndarray(y)[0]).any() or new["norms"][0].mean.tolist() != [0.0] * 3
        assert run(parts).tolist() == run(parts).tolist()
        assert parts["norms"][0].mean.tolist() == [0.0] * 3  # a layer
        again, twin = afx.jit(lambda p, k: nn.train(run, p, k))(parts, key)
        np.testing.assert_allclose(ndarray(again), ndarray(y), atol=1e-13)
        np.testing.assert_allclose(ndarray(twin["norms"][0].mean), ndarray(new["norms"][0].mean), atol=1e-13)

    def test_a_layer_that_is_called_twice(self, rng: np.random.Generator) -> None:
        """The second call draws other numbers, and statistics go on from the first."""
        drop, norm = nn.Dropout(0.5), nn.BatchNorm.create(2, decay=0.5)
        (a, b), _ = nn.train(lambda d: (d(np.ones(50)), d(np.ones(50))), drop, afx.random.key(0))
        assert a.tolist() != b.tolist()
        x = rng.normal(size=(4, 2))
        _, new = nn.train(lambda m: (m(x), m(2 * x)), norm)
        np.testing.assert_allclose(ndarray(new.mean), ndarray(norm.train(x)[1].train(2 * x)[1].mean), rtol=1e-13)

    def test_more_arguments_and_keys_by_hand(self, rng: np.random.Generator) -> None:
        """Masks reach attention, a key given by hand is used, and attributes of layers are there."""
        attention = nn.MultiHeadAttention.create(0, 4, 2, dropout=0.5)
        x, key, seen = rng.normal(size=(5, 4)), afx.random.key(7), np.tri(5) > 0
        by_hand, _ = nn.train(lambda m: m(x, mask=seen, key=key), attention)
        assert by_hand.tolist() == attention(x, mask=seen, key=key).tolist()
        drawn, _ = nn.train(lambda m: m(x, x, mask=seen), attention, key)
        assert drawn.tolist() != attention(x, x, mask=seen).tolist()
        heads, same = nn.train(lambda m: m.heads, attention, key)
        assert (heads, same) == (2, attention)

    def test_no_key_is_an_error_where_a_layer_draws(self) -> None:
        """As in a chain."""
        with pytest.raises(afx.errors.ArgumentError, match="got no key"):
            nn.train(lambda m: m[0](np.ones(3)), [nn.Dropout(0.5)])

    @pytest.mark.parametrize("name", ["vmap", "scan", "jit"])
    def test_state_inside_of_a_transformation_is_an_error(self, name: str) -> None:
        """The message names the layer and the way out; layers without state are free to go there."""
        x = np.ones((4, 3, 2))

        def run(model: Any) -> Any:
            if name == "scan":
                return afx.scan(lambda carry, row: (carry, model["a"](row)), 0.0, x)[1]
            return afx.vmap(model["a"])(x) if name == "vmap" else afx.jit(model["a"])(x[0])

        with pytest.raises(afx.errors.ArgumentError, match=rf"inside of {name}.*BatchNorm at model\['a'\].*by hand"):
            nn.train(run, {"a": nn.BatchNorm.create(2)})
        assert nn.train(run, {"a": nn.Dropout(0.5)}, afx.random.key(0))[0].shape[-1] == 2

    def test_gradients_of_a_model_in_training(self, rng: np.random.Generator) -> None:
        """A loss of the model returns the new one beside its value."""
        model, x = {"linear": nn.Linear.create(0, 3, 3), "norm": nn.BatchNorm.create(3)}, rng.normal(size=(5, 3))

        def loss(model: Any) -> Any:
            y, new = nn.train(lambda m: m["norm"](m["linear"](x)), model)
            return afx.sum(y**3), new

        grads, new = afx.jit(afx.grad(loss, has_aux=True))(model)
        assert ndarray(grads["linear"].weight).any()
        assert new["norm"].mean.tolist() != [0.0] * 3


def test_training_takes_a_function_and_a_key() -> None:
    """A model in the function's place, or a seed in the key's, is told before anything runs."""
    with pytest.raises(ArgumentError, match="train: needs a function: got NoneType"):
        nn.train(None, nn.Dropout(0.5))  # a mistake
    with pytest.raises(ArgumentError, match=r"train: a key is uint32\[2\]: got 3"):
        nn.train(lambda layer: layer(afx.ones(2)), nn.Dropout(0.5), 3)  # a mistake
