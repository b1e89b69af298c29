"""Map: what vmap gives, one element or block after the other."""

from typing import Any

import numpy as np
import pytest

import afx


@pytest.mark.parametrize("block", [None, 1, 2, 3, 7, 100])
def test_map_is_vmap(block: int | None, rng: np.random.Generator) -> None:
    """Values and derivatives are those of `vmap`, whatever the block, plain and compiled."""
    xs = {"a": rng.normal(size=(7, 2)), "b": rng.normal(size=7)}

    def fn(x: Any) -> Any:
        return afx.sin(x["a"]) * x["b"], afx.sum(x["a"])

    want = afx.vmap(fn)(xs)
    for way in (lambda xs: afx.map(fn, xs, block=block), afx.jit(lambda xs: afx.map(fn, xs, block=block))):
        for found, wanted in zip(way(xs), want, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-13)
    slopes = afx.grad(lambda xs: afx.sum(afx.map(fn, xs, block=block)[0]))(xs)
    np.testing.assert_allclose(slopes["b"], np.sin(xs["a"]).sum(1), rtol=1e-12)


def test_of_no_elements_and_mistakes() -> None:
    """Nothing gives nothing, of the right shape; a block of 0 is refused."""
    for block in (None, 2):
        assert afx.map(lambda x: afx.stack([x, x]), np.zeros(0), block=block).shape == (0, 2)
    with pytest.raises(afx.errors.ArgumentError, match="block is a number of elements"):
        afx.map(lambda x: x, np.ones(3), block=0)
    with pytest.raises(afx.errors.ShapeError, match="length"):
        afx.map(lambda x: x["a"], {"a": np.ones(3), "b": np.ones(2)}, block=2)
