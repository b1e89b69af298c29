"""A transformer learns to write Python's reference, one character after the other."""

from __future__ import annotations

from pathlib import Path
from pydoc_data.topics import topics
from typing import TypeAlias

import attrs
import numpy as np

import afx
from afx import Array, nn, optim
from examples.report import Checks, Claim, Panel, progress, save, training

TEXT = "".join(topics[name] for name in sorted(topics))
LETTERS = sorted(set(TEXT))
LENGTH, FEATURES, HEADS, BLOCKS, BATCH = 64, 64, 4, 2, 24
UNSEEN = 20_000  # characters at the end of the text that are not learned from


@attrs.frozen
class Writer:
    """Characters to vectors, blocks of causal attention, and back by the same table: its weights are tied."""

    letters: nn.Embedding
    blocks: tuple[nn.TransformerBlock, ...]
    norm: nn.LayerNorm

    @classmethod
    def create(cls, key: Array) -> Writer:
        """Draw the weights."""
        first, *rest = afx.random.split(key, BLOCKS + 1)
        blocks = [nn.TransformerBlock.create(k, FEATURES, HEADS, causal=True, rotary=True, dropout=0.05) for k in rest]
        scale = FEATURES**-0.5
        letters = nn.Embedding(nn.normal(first, (len(LETTERS), FEATURES), scale))
        return cls(letters, tuple(blocks), nn.LayerNorm.create(FEATURES))

    def __call__(self, text: Array, key: Array | None = None) -> Array:
        """Return the scores of each next character, float[..., length, letters] for int[..., length]."""
        x = self.letters(text) * FEATURES**0.5
        keys = [None] * BLOCKS if key is None else list(afx.random.split(key, BLOCKS))
        for block, own in zip(self.blocks, keys, strict=True):
            x = block(x, key=own)
        return self.letters.attend(self.norm(x))


State: TypeAlias = optim.AdamState[Writer]


def loss(model: Writer, text: Array, key: Array | None = None) -> Array:
    """Return the mean cross entropy of each next character, in bits."""
    scores = model(text[:, :-1], key)
    return afx.mean(nn.softmax_cross_entropy(scores, text[:, 1:])) / float(np.log(2))


def encoded(text: str) -> Array:
    """Return the number of each character."""
    number = {letter: k for k, letter in enumerate(LETTERS)}
    return afx.asarray(np.array([number[letter] for letter in text], np.int32))


def train(text: Array, steps: int, look: Checks[Writer]) -> tuple[Writer, list[float]]:
    """Fit a model to random pieces of the text; return it and the losses."""
    start, draws = afx.random.split(afx.random.key(0))
    model = Writer.create(start)
    optimizer = optim.adamw(optim.warmup_cosine(4e-3, min(100, steps // 4), steps), weight_decay=0.01)
    state, losses = optimizer.init(model), list[float]()

    @afx.jit
    def step(model: Writer, state: State, key: Array) -> tuple[Writer, State, Array]:
        where, drop = afx.random.split(key)
        begin = afx.random.randint(where, 0, text.size - LENGTH, (BATCH, 1))
        value, grads = afx.value_and_grad(loss)(model, text[begin + afx.arange(LENGTH + 1)], drop)
        model, state = optimizer.step(model, grads, state)
        return model, state, value

    for number in progress(range(steps), "transformer"):
        model, state, value = step(model, state, afx.random.fold_in(draws, number))
        losses.append(float(value))
        look(number, model)
    return model, losses


def write(model: Writer, beginning: str, count: int) -> str:
    """Go on from a beginning, each character drawn by its probability, raised to a power that likes the likely."""
    text, key = encoded(beginning.rjust(LENGTH)), afx.random.key(1)
    written = beginning

    @afx.jit
    def scores(model: Writer, text: Array) -> Array:
        return model(text)[-1]

    for number in range(count):
        drawn = afx.random.categorical(afx.random.fold_in(key, number), 1.5 * scores(model, text))
        text = afx.append(text[1:], drawn.astype(text.dtype))
        written += LETTERS[int(drawn)]
    return written


def bits_by_pairs(text: Array, unseen: Array) -> float:
    """Return the bits that each unseen character costs where pairs of characters are counted instead of learned."""
    counts = afx.ones((len(LETTERS), len(LETTERS)), afx.float64).at[text[:-1], text[1:]].add(1.0)
    shares = counts / afx.sum(counts, axis=1, keepdims=True)
    return -float(afx.mean(afx.log2(shares[unseen[:-1], unseen[1:]])))


def run(output: Path, steps: int = 1200) -> list[Claim]:
    """Learn from all but the end of the text, measure the bits per character there, and write."""
    text = encoded(TEXT)
    unseen, each = text[-UNSEEN:], afx.jit(loss)
    pieces = unseen[: UNSEEN // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)
    checks = Checks[Writer](lambda model: float(each(model, pieces)), every=60)
    model, losses = train(text[:-UNSEEN], steps, checks)
    bits = float(each(model, pieces))
    print(f"  counted pairs of characters: {bits_by_pairs(text[:-UNSEEN], unseen):.2f} bits each")
    print("  it writes: " + repr(write(model, "The statement ", 200)))
    panel = Panel("Loss while it learns", "step", "bits per character", training(losses, checks))
    save(output / "character_model.png", panel)
    return [Claim("bits per character of unseen text", bits, 2.2, shown="{:.2f}")]
