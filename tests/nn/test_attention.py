"""Attention: the formula, masks, blocks, rotary positions, heads."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import afx
from afx import nn
from tests.every import together


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


def attention(q: Any, k: Any, v: Any, allowed: Any = True, bias: Any = 0.0) -> Any:
    """Return attention by its formula, in NumPy."""
    scores = np.where(allowed, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.fixture
def qkv(rng: np.random.Generator) -> list[np.ndarray]:
    """Queries, keys and values of two examples with three heads."""
    return [rng.normal(size=(2, 3, n, f)) for n, f in ((9, 4), (7, 4), (7, 5))]


OPTIONS = ["plain", "mask", "row mask", "causal", "causal mask", "bias"]


def options(name: str, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments of afx's function and of the formula."""
    mask = rng.random((2, 1, 9, 7)) > 0.3
    mask[..., 0] = True
    row, bias, causal = mask[:, :, :1], rng.normal(size=(3, 9, 7)), np.tril(np.ones((9, 7), bool))
    return {
        "plain": ({}, {}),
        "mask": ({"mask": mask}, {"allowed": mask}),
        "row mask": ({"mask": row}, {"allowed": row}),
        "causal": ({"causal": True}, {"allowed": causal}),
        "causal mask": ({"causal": True, "mask": mask}, {"allowed": causal & mask}),
        "bias": ({"bias": bias}, {"bias": bias}),
    }[name]


@together("name", OPTIONS)
@together("block", [None, 1, 4, 9, 50])
def test_attention_is_its_formula(name: str, block: int | None, qkv: Any, rng: np.random.Generator) -> None:
    """With every kind of mask, as a whole and in blocks."""
    ours, formula = options(name, rng)
    found = nn.dot_product_attention(*qkv, block=block, **ours)
    np.testing.assert_allclose(np.asarray(found), attention(*qkv, **formula), atol=1e-13)


@pytest.mark.parametrize("name", ["plain", "causal mask", "bias"])
def test_gradients_of_blocks_are_those_of_the_whole(name: str, qkv: Any, rng: np.random.Generator) -> None:
    """For queries, keys and values, plain and compiled; forward mode agrees."""
    ours, _ = options(name, rng)

    def loss(qkv: Any, block: int) -> Any:
        return afx.sum(afx.sin(nn.dot_product_attention(*qkv, block=block, **ours)))

    want = afx.grad(lambda x: loss(x, 9))(qkv)
    for way in (afx.grad(lambda x: loss(x, 4)), afx.jit(afx.grad(lambda x: loss(x, 4)))):
        for a, b in zip(way(qkv), want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-13)
    tangents = [afx.asarray(rng.normal(size=x.shape)) for x in qkv]
    _, slope = afx.jvp(lambda x: loss(x, 4), (qkv,), (tangents,))
    assert float(slope) == pytest.approx(sum(float(afx.sum(g * t)) for g, t in zip(want, tangents, strict=True)))


def test_long_sequences_never_hold_the_whole_matrix() -> None:
    """4096 steps forth and back, plain and compiled, take less memory than half of one matrix of scores."""
    x = np.random.default_rng(0).normal(size=(4096, 8)).astype(np.float32)

    def loss(x: Any) -> Any:
        return afx.sum(nn.dot_product_attention(x, x, x, causal=True, block=128))

    for fn in (afx.grad(loss), afx.jit(afx.grad(loss))):
        tracemalloc.start()
        found = fn(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * 4096 * 4096
        assert np.isfinite(np.asarray(found)).all()


def test_rows_that_see_nothing_give_zeros(qkv: Any) -> None:
    """Without any key allowed there is nothing to average, and no nan in the gradient."""
    mask = np.zeros((9, 7), bool)
    mask[1:] = True
    found = nn.dot_product_attention(*qkv, mask=mask)
    assert not np.asarray(found[..., 0, :]).any()
    g = afx.grad(lambda q: afx.sum(nn.dot_product_attention(q, *qkv[1:], mask=mask) ** 2))(qkv[0])
    assert np.isfinite(np.asarray(g)).all()


def test_extreme_scores_are_finite() -> None:
    """Scores of 10⁸ pick the largest."""
    x = 1e4 * np.eye(3)
    np.testing.assert_array_equal(np.asarray(nn.dot_product_attention(x, x, x)), x)


def test_dtypes(qkv: Any) -> None:
    """float32 stays, and float16 is computed in float32."""
    for dtype in (np.float32, np.float16):
        small = [x.astype(dtype) for x in qkv]
        found = nn.dot_product_attention(*small)
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found), attention(*qkv), atol=1e-2 if dtype == np.float16 else 1e-5)


def test_dropped_weights() -> None:
    """Without a key nothing is dropped; with one the means stay."""
    q, k, v = np.ones((4000, 2)), np.ones((6, 2)), np.ones((6, 1))
    options: dict[str, Any] = {"dropout": 0.5, "block": 500}
    assert np.asarray(nn.dot_product_attention(q, k, v, **options)) == pytest.approx(1.0)
    dropped = np.asarray(nn.dot_product_attention(q, k, v, dropout_key=afx.random.key(0), **options))
    assert dropped.mean() == pytest.approx(1.0, abs=0.03)
    assert dropped.std() > 0.3
    assert dropped[:500].tolist() != dropped[500:1000].tolist()


def test_mistakes(qkv: Any) -> None:
    """Axes that do not fit, masks of numbers, masks of another shape."""
    q, k, v = qkv
    with pytest.raises(afx.errors.ShapeError, match="axes do not fit"):
        nn.dot_product_attention(q, k[..., :3], v)
    with pytest.raises(afx.errors.ShapeError, match="leading axes"):
        nn.dot_product_attention(q, k[:, :2], v)
    with pytest.raises(afx.errors.DtypeError, match="use astype"):
        nn.dot_product_attention(q, k, v, mask=np.ones((9, 7)))
    with pytest.raises(afx.errors.ShapeError, match=r"mask is \[..., queries, keys\]"):
        nn.dot_product_attention(q, k, v, mask=np.ones((7, 9), bool))
    with pytest.raises(afx.errors.ArgumentError, match="block"):
        nn.dot_product_attention(q, k, v, block=0)


class TestRotary:
    """Pairs of features turned by the position."""

    def test_formula(self, rng: np.random.Generator) -> None:
        """Each pair is a complex number times exp(i·position·speed)."""
        x = rng.normal(size=(2, 5, 6))
        turn = np.exp(1j * np.arange(5)[:, None] * 100.0 ** (-np.arange(3) / 3))
        halves = (x[..., :3] + 1j * x[..., 3:]) * turn
        want = np.concatenate([halves.real, halves.imag], -1)
        np.testing.assert_allclose(np.asarray(nn.rotary(x, base=100.0)), want, atol=1e-13)
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        want = np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
        np.testing.assert_allclose(np.asarray(nn.rotary(x, base=100.0, interleaved=True)), want, atol=1e-13)

    def test_products_depend_on_distances(self, rng: np.random.Generator) -> None:
        """Moving all positions changes no score."""
        q, k = rng.normal(size=(2, 5, 8))
        at = np.arange(5.0)
        scores = nn.rotary(q, at) @ nn.rotary(k, at).T
        moved = nn.rotary(q, at + 17) @ nn.rotary(k, at + 17).T
        np.testing.assert_allclose(np.asarray(moved), np.asarray(scores), atol=1e-12)

    def test_mistakes(self) -> None:
        """Odd features, other numbers of positions."""
        with pytest.raises(afx.errors.ShapeError, match="even number"):
            nn.rotary(np.ones((4, 3)))
        with pytest.raises(afx.errors.ShapeError, match="a position for each step"):
            nn.rotary(np.ones((4, 2)), np.arange(3.0))


class TestHeads:
    """Many heads are one attention each."""

    def test_heads_by_hand(self, rng: np.random.Generator) -> None:
        """Projections cut into heads, attention for each, outputs side by side, projected back."""
        model, x = nn.MultiHeadAttention.create(0, 8, 2), rng.normal(size=(3, 5, 8))
        mask = np.tril(np.ones((5, 5), bool))
        q, k, v = (np.asarray(part(x)) for part in (model.query, model.key, model.value))
        heads = [attention(*(a[..., 4 * h : 4 * h + 4] for a in (q, k, v)), allowed=mask) for h in range(2)]
        want = np.asarray(model.out(np.concatenate(heads, axis=-1)))
        np.testing.assert_allclose(np.asarray(model(x, mask=mask)), want, atol=1e-13)
        each = np.broadcast_to(mask, (3, 5, 5))
        np.testing.assert_allclose(np.asarray(model(x, mask=each)), want, atol=1e-13)
        causal = nn.MultiHeadAttention.create(0, 8, 2, causal=True)
        np.testing.assert_allclose(np.asarray(causal(x)), want, atol=1e-13)

    def test_shared_keys_are_repeated_keys(self, rng: np.random.Generator) -> None:
        """Four heads on two pairs of keys and values are four heads whose keys stand there twice."""
        grouped, x = nn.MultiHeadAttention.create(0, 8, 4, shared=2), rng.normal(size=(5, 8))
        q, k, v = (np.asarray(part(x)) for part in (grouped.query, grouped.key, grouped.value))
        cuts = [(slice(2 * h, 2 * h + 2), slice(h // 2 * 2, h // 2 * 2 + 2)) for h in range(4)]
        heads = [attention(q[:, a], k[:, b], v[:, b]) for a, b in cuts]
        want = np.asarray(grouped.out(np.concatenate(heads, axis=-1)))
        np.testing.assert_allclose(np.asarray(grouped(x)), want, atol=1e-13)

    def test_another_sequence(self, rng: np.random.Generator) -> None:
        """Queries of one sequence, keys and values of another with other features."""
        model = nn.MultiHeadAttention.create(0, 8, 2, context=3)
        assert model(rng.normal(size=(2, 5, 8)), rng.normal(size=(2, 7, 3))).shape == (2, 5, 8)

    def test_a_causal_block_does_not_look_ahead(self, rng: np.random.Generator) -> None:
        """Changing later steps changes no earlier output."""
        block, x = nn.TransformerBlock.create(0, 8, 2, causal=True, rotary=True), rng.normal(size=(6, 8))
        changed = x.copy()
        changed[4:] += 1.0
        y, z = np.asarray(block(x)), np.asarray(block(changed))
        np.testing.assert_allclose(y[:4], z[:4], atol=1e-13)
        assert not np.allclose(y[4:], z[4:])

    def test_dropout_in_training(self, rng: np.random.Generator) -> None:
        """A key drops, none does not; in a chain the key is handed on."""
        block, x = nn.TransformerBlock.create(0, 8, 2, dropout=0.5), rng.normal(size=(6, 8))
        key = afx.random.key(0)
        assert block(x).tolist() == block(x).tolist()
        assert block(x, key=key).tolist() == block(x, key=key).tolist() != block(x).tolist()
        y, _ = nn.Sequential(block).train(x, key)
        assert y.tolist() != block(x).tolist()


class TestDecoding:
    """Step by step with a cache: what the whole sequence gives."""

    @pytest.mark.parametrize("rotary", [False, True])
    @pytest.mark.parametrize("parts", [[1] * 7, [4, 1, 2], [7]])
    def test_steps_are_the_whole(self, rotary: bool, parts: list[int], rng: np.random.Generator) -> None:
        """One step at a time or several, plain and compiled, with keys shared by heads; the old cache stays as it was."""
        layer = nn.MultiHeadAttention.create(0, 8, 4, shared=2, causal=True, rotary=rotary)
        x = rng.normal(size=(2, 7, 8))
        for decode in (layer.decode, afx.jit(layer.decode)):
            cache = layer.make_cache(9, (2,))
            outputs: list[Any] = []
            for start, size in zip(np.cumsum([0, *parts]), parts, strict=False):
                before = cache
                y, cache = decode(x[:, start : start + size], before)
                outputs.append(np.asarray(y))
                assert (int(before.length), int(cache.length)) == (start, start + size)
            np.testing.assert_allclose(np.concatenate(outputs, axis=1), np.asarray(layer(x)), atol=1e-13)

    def test_blocks(self, rng: np.random.Generator) -> None:
        """A block decodes too, within a scan."""
        block, x = nn.TransformerBlock.create(0, 8, 2, causal=True, rotary=True), rng.normal(size=(6, 8))

        def step(cache: Any, row: Any) -> tuple[Any, Any]:
            y, cache = block.decode(row[None], cache)
            return cache, y[0]

        _, found = afx.scan(step, block.attention.make_cache(6), afx.asarray(x))
        np.testing.assert_allclose(np.asarray(found), np.asarray(block(x)), atol=1e-13)

    def test_mistakes(self, rng: np.random.Generator) -> None:
        """A full cache, a layer that looks ahead, and no room at all."""
        layer, x = nn.MultiHeadAttention.create(0, 8, 2, causal=True), rng.normal(size=(3, 8))
        for decode in (layer.decode, afx.jit(layer.decode)):
            with pytest.raises(afx.errors.IndexRangeError, match="out of bounds for axis 2 with size 2"):
                decode(x, layer.make_cache(2))
        with pytest.raises(afx.errors.ArgumentError, match="got causal=False; make the layer with causal=True"):
            nn.MultiHeadAttention.create(0, 8, 2).decode(x, layer.make_cache(3))
        with pytest.raises(afx.errors.ArgumentError, match="room for at least one step: got 0"):
            layer.make_cache(0)
