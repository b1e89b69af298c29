"""Keys and bits: known answers, and the same numbers however they are drawn."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import random
from afx.ops.random.bits import BLOCKS, FEW, block_words, philox, philox_few, philox_first
from tests.every import together
from tests.random.draws import DRAWS

KEY = random.key(42)


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(key: Any, counter: Any, words: str) -> None:
    """Philox4x32-10 gives the published words (Salmon et al. 2011, the generator's known-answer tests)."""
    want = [int(word, 16) for word in words.split()]
    low, high, round_, purpose = counter
    block = np.array([low | high << 32], np.uint64)
    for copies in (1, 3, FEW, FEW + 1):
        found = block_words(np.array([key] * copies, np.uint32), np.repeat(block, copies), round_, purpose)
        assert found.tolist() == [want] * copies


@pytest.mark.parametrize("n", [1, 4 * FEW, 4 * FEW + 1, 999, 2 * BLOCKS, 9 * BLOCKS + 3])
def test_bits_are_the_words_in_order(n: int) -> None:
    """However many are drawn, element j is word j mod 4 of block j / 4, and pairs of words make 64 bits."""
    words = np.asarray(random.bits(KEY, n))
    places = {0, n // 2, n - 1}
    for j in places:
        assert words[j] == philox_few(np.array([j // 4]), np.array([[42, 0]]), 0, 0)[0, j % 4]
    pairs = np.asarray(random.bits(KEY, n // 2, dtype=afx.uint64))
    want = words[: n // 2 * 2].astype(np.uint64).reshape(-1, 2)
    assert np.array_equal(pairs, want[:, 0] | want[:, 1] << np.uint64(32))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_fair(dtype: str) -> None:
    """Each bit is set half of the time, and bytes are equally frequent (chi-squared with 255 degrees of freedom)."""
    n = 40_000
    words = np.asarray(random.bits(KEY, n, dtype=dtype))
    assert words.dtype == dtype
    octets = words.astype(words.dtype.newbyteorder("<")).view(np.uint8).reshape(n, -1)
    ones = np.unpackbits(octets, axis=1).mean(axis=0)
    assert np.all(np.abs(ones - 0.5) < 5 * 0.5 / np.sqrt(n))
    for column in octets.T:
        counts = np.bincount(column, minlength=256)
        assert np.sum((counts - n / 256) ** 2) / (n / 256) < 255 + 5 * np.sqrt(2 * 255)


def _independent(x: Any, y: Any) -> bool:
    """Tell whether two vectors of uniform numbers show no correlation and fill a square evenly."""
    n = len(x)
    counts = np.histogram2d(x, y, bins=16, range=[[0, 1], [0, 1]])[0]
    even = np.sum((counts - n / 256) ** 2) / (n / 256) < 255 + 5 * np.sqrt(2 * 255)
    return bool(abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(n) and even)


def test_split_keys_are_independent() -> None:
    """Draws from split keys, folded keys, neighbouring seeds and neighbouring elements are not related."""
    first, second = random.split(KEY)
    keys = [KEY, first, second, random.fold_in(KEY, 0), random.fold_in(KEY, 1), random.key(43), random.split(first)[0]]
    drawn = [np.asarray(random.uniform(k, 50_000, dtype=afx.float64)) for k in keys]
    for i, x in enumerate(drawn):
        assert _independent(x[:-1], x[1:])
        for y in drawn[:i]:
            assert _independent(x, y)


def test_keys_differ() -> None:
    """All keys made of one by splitting and folding are different."""
    made = [*random.split(KEY, 2000), *afx.vmap(lambda i: random.fold_in(KEY, i))(np.arange(-1000, 1000))]
    assert len({tuple(k.tolist()) for k in made}) == 4000
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    assert np.array_equal(np.asarray(random.split(KEY, 3)), np.asarray(random.split(KEY, 5))[:3])


def test_seeds_become_keys() -> None:
    """A seed's 64 bits are the key, traced or not."""
    assert random.key(2**40 + 5).tolist() == [5, 256]
    assert afx.vmap(random.key)(np.array([0, 7])).tolist() == [[0, 0], [7, 0]]
    assert afx.jit(random.key)(2**40 + 5).tolist() == [5, 256]
    assert random.key(np.int32(3)).tolist() == [3, 0]
    assert random.fold_in(KEY, -1).tolist() == random.fold_in(KEY, 2**64 - 1).tolist()
    assert afx.jit(random.fold_in)(KEY, 7).tolist() == random.fold_in(KEY, 7).tolist()


def test_keys_are_values() -> None:
    """A key is a plain array: it pickles, and drawing does not change it."""
    before = KEY.tolist()
    again = pickle.loads(pickle.dumps(KEY))
    assert random.normal(again, 3).tolist() == random.normal(KEY, 3).tolist()
    assert KEY.tolist() == before


SUMMED = {"dirichlet", "multivariate_normal", "sphere", "ball", "orthogonal"}  # sums round as their shapes make them


def _assert_same(x: Any, y: Any, name: str) -> None:
    """Compare draws bit for bit, or to rounding where they are made of sums."""
    if name not in SUMMED:
        assert np.array_equal(np.asarray(x), np.asarray(y))
        return
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6, atol=1e-6)


@together(("name", "draw"), DRAWS.items(), ids=DRAWS.keys())
def test_draws_over_keys_equal_a_loop(name: str, draw: Callable[[Any], Any]) -> None:
    """Mapped over keys, compiled or not, each draw is bit for bit the one made alone; nested maps too."""
    keys = random.split(KEY, 6)
    alone = [np.asarray(draw(k)) for k in keys]
    nested = afx.vmap(afx.vmap(draw))(keys.reshape((2, 3, 2)))
    for many in (afx.vmap(draw)(keys), afx.jit(afx.vmap(draw))(keys), nested.reshape((6, *nested.shape[2:]))):
        _assert_same(many, np.stack(alone), name)
        assert many.dtype == alone[0].dtype


@together(("name", "draw"), DRAWS.items(), ids=DRAWS.keys())
def test_draws_repeat(name: str, draw: Callable[[Any], Any]) -> None:
    """The same key gives the same numbers, compiled and for keys that are NumPy arrays; another key gives others."""
    want = np.asarray(draw(KEY))
    assert np.array_equal(np.asarray(draw(np.asarray(KEY))), want)
    _assert_same(afx.jit(draw)(KEY), want, name)
    assert not np.array_equal(np.asarray(draw(random.key(43))), want)


def test_draws_in_threads_are_the_same() -> None:
    """Large draws, which share scratch memory and workers, are the same when threads make them at once."""
    keys = list(random.split(KEY, 4))
    want = [np.asarray(random.normal(k, 300_000)) for k in keys]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda k: np.asarray(random.normal(k, 300_000)), keys))
            assert all(np.array_equal(x, y) for x, y in zip(found, want, strict=True))


def test_keys_travel_through_loops() -> None:
    """A random walk whose key is carried by scan is the one of a Python loop, and differentiates in its step."""

    def step(carry: tuple[Any, Any], _: Any) -> tuple[tuple[Any, Any], Any]:
        key, place = carry
        key, own = random.split(key)
        place = place + random.normal(own, scale=0.5)
        return (key, place), place

    carry: tuple[Any, Any] = (KEY, afx.zeros(()))
    _, places = afx.jit(lambda carry: afx.scan(step, carry, np.arange(20)))(carry)
    walked = []
    for i in range(20):
        carry, place = step(carry, i)
        walked.append(float(place))
    np.testing.assert_allclose(np.asarray(places), walked, rtol=1e-6)


WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = None
import numpy as np, afx
from tests.random.draws import DRAWS
for draw in DRAWS.values():
    draw(afx.random.key(0))
afx.hessian(lambda a: afx.sum(afx.random.gamma(afx.random.key(0), a, 9)))(3.0)
print(afx.grad(lambda a: afx.sum(afx.random.beta(afx.random.key(0), a, 2.0, 9)))(3.0))
"""


def test_nothing_but_numpy_is_needed() -> None:
    """Every draw works without SciPy, and so do derivatives by shape parameters, to any order."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", WITHOUT_SCIPY], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0


@together(
    ("fn", "message"),
    [
        (lambda: random.key(-1), r"key: takes an integer from 0 to 2\*\*64 - 1: got -1; take it modulo"),
        (lambda: random.key(0.5), r"key: takes an integer: got 0.5; give one"),
        (lambda: random.bits(0), r"bits: a key is uint32\[2\]: got 0; make one with afx.random.key\(seed\)"),
        (lambda: random.normal(np.array([0, 1])), r"normal: a key is uint32\[2\]: got int64\[2\]; make one"),
        (
            lambda: random.uniform(random.split(KEY)),
            r"uniform: takes one key, uint32\[2\]: got uint32\[2,2\]; use vmap",
        ),
        (lambda: random.fold_in(KEY, 0.5), r"fold_in: folds one integer into a key: got float32\[\]~; use vmap"),
        (lambda: random.fold_in(KEY, 2**64), r"fold_in: takes an integer from -\d+ to 2\*\*64 - 1"),
        (lambda: random.split(KEY, -1), r"split: negative dimensions are not allowed: got shape \(-1,\)"),
        (lambda: random.split(KEY, 0.5), r"split: a length of the shape is an integer: got 0.5"),
        (lambda: random.bits(KEY, 2, dtype=afx.int32), r"bits: fill unsigned integers: got int32; use afx.uint32"),
    ],
)
def test_mistakes_are_explained(fn: Callable[[], Any], message: str) -> None:
    """What is no key, no shape or no dtype for bits raises, naming the function and the remedy."""
    with pytest.raises(afx.errors.AfxError, match=message):
        fn()


@together("n", [1, 2, 3, 25, FEW])
@together("key", [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x9E3779B9, 0xBB67AE85)])
def test_the_first_blocks_of_a_key_are_those_of_the_table(n: int, key: tuple[int, int]) -> None:
    """The short way of small draws gives the words of the generator, for every purpose."""
    own = np.array(key, np.uint32)
    for purpose in range(4):
        want = philox(
            np.arange(n, dtype=np.uint64), own.astype(np.uint64)[:, None], 0, purpose, np.empty((3, 2, n), np.uint64)
        )
        np.testing.assert_array_equal(
            philox_first(n, own, purpose), np.ascontiguousarray(want.T).reshape(-1).view("<u4")
        )
