"""Convolutions within machine code."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import nn, optim

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.schedule.schedule import Fused
from afx.compiler.target import use_target
from tests.compiler.native_backend.native_run import FIRST_TIER, Native, assert_same_bits, same_bits

FORMS = {
    "band of examples": ((9, 12, 1), (4, 1, 3), {}),
    "band of padded examples": ((9, 12, 2), (4, 2, 3), {"padding": 2, "stride": 2}),
    "band of images": ((5, 6, 7, 1), (3, 3, 1, 2), {"dilation": (1, 2)}),
    "band of rows": ((4, 20, 20, 1), (5, 5, 1, 6), {}),
    "band of padded rows": ((4, 20, 20, 2), (5, 4, 2, 6), {"padding": ((1, 2), (2, 1))}),
    "windows": ((3, 12, 12, 6), (5, 5, 6, 16), {}),
    "padded windows": ((3, 12, 12, 3), (3, 3, 3, 8), {"padding": "same"}),
    "windows with strides": ((3, 15, 16, 8), (3, 3, 8, 4), {"stride": 2, "dilation": (1, 2)}),
    "many channels": ((2, 9, 9, 12), (3, 3, 12, 10), {}),
    "short runs": ((2, 90, 3), (2, 3, 5), {"dilation": 3}),
    "one element": ((6, 7, 5, 4), (1, 1, 4, 3), {}),
    "one example": ((1, 12, 2), (3, 2, 4), {}),
    "three axes": ((2, 5, 6, 7, 2), (2, 3, 2, 2, 3), {}),
}


def _arrays(name: str, dtype: str) -> tuple[Any, Any, Any]:
    shape, window, options = FORMS[name]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=window).astype(dtype)
    return x, w, rng.normal(size=nn.conv(x, w, **options).shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FORMS)
def test_convolutions_have_the_bits_of_numpys_plan(name: str, dtype: str) -> None:
    """The value and both gradients, in each way of computing them."""
    x, w, ct = _arrays(name, dtype)

    def fn(x: Any, w: Any, ct: Any) -> Any:
        z, pull = afx.vjp(lambda x, w: nn.conv(x, w, **FORMS[name][2]), x, w)
        return z, *pull(ct)

    assert_same_bits(fn, x, w, ct)


@pytest.mark.parametrize("name", ["band of examples", "band of rows", "band of padded examples"])
def test_infinite_elements_are_left_to_numpy(name: str) -> None:
    """Zeros of a band would make nan of an infinite element: the kernel refuses it, in operand and cotangent."""
    x, w, ct = _arrays(name, "f4")

    def forward(x: Any, w: Any) -> Any:
        return nn.conv(x, w, **FORMS[name][2])

    def backward(x: Any, w: Any, ct: Any) -> Any:
        return afx.vjp(lambda x: forward(x, w), x)[1](ct)[0]

    for value in (np.inf, np.nan, 3e38):
        x[0, 3], ct[1, 2] = value, value
        assert Native(forward, x, w)(x, w)[1] == -1
        assert Native(backward, x, w, ct)(x, w, ct)[1] == -1
    with use_target(FIRST_TIER), np.errstate(all="ignore"):
        for fn, args in ((forward, (x, w)), (backward, (x, w, ct))):
            assert same_bits(afx.jit(fn)(*args), afx.jit(fn, backend="numpy")(*args))


def test_groups_and_many_offsets_are_left_to_numpy() -> None:
    """What has no native form is a call of NumPy."""
    for shape, window, options, reason in (
        ((2, 9, 4), (3, 2, 4), {"groups": 2}, "groups of channels"),
        ((2, 40, 40, 8), (9, 9, 8, 8), {}, "many steps"),
    ):
        x, w = np.ones(shape), np.ones(window)
        ct = np.ones(nn.conv(x, w, **options).shape)
        lowered = afx.jit(lambda x, w, ct, o=options: afx.vjp(lambda x: nn.conv(x, w, **o), x)[1](ct)).lower(x, w, ct)
        assert any(reason in why for _, why in lowered.plan.why_not_native)


@pytest.mark.parametrize(
    "blocks", [{}, {"block_max_bytes": 1 << 13, "fuse_min_elements": 64, "block_min_elements": 512}]
)
def test_a_training_step_of_a_network_of_images_is_one_kernel(blocks: Any) -> None:
    """Convolutions, pooling, products and the optimizer leave no call of NumPy, and give its plan's bits, in blocks too."""
    rng = np.random.default_rng(0)
    params = tuple([rng.normal(size=s).astype("f4") / 4 for s in ((5, 5, 1, 6), (3, 3, 6, 8), (72, 10))])
    x, y = rng.normal(size=(16, 14, 14, 1)).astype("f4"), np.eye(10, dtype="f4")[rng.integers(0, 10, 16)]
    rule = optim.adam(0.01)

    def loss(params: Any, x: Any, y: Any) -> Any:
        a, b, c = params
        h = nn.max_pool(nn.relu(nn.conv(x, a)), 2)
        h = nn.relu(nn.conv(h, b)).reshape(x.shape[0], -1)
        return nn.softmax_cross_entropy(h @ c, y).mean()

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = afx.value_and_grad(loss)(params, x, y)
        return value, *rule.step(params, grads, state)

    state = rule.init(params)
    with use_target(attrs.evolve(FIRST_TIER, backend="numpy", **blocks)):
        want = afx.pytree.leaves(afx.jit(step)(params, state, x, y))
    with use_target(attrs.evolve(FIRST_TIER, **blocks)):
        compiled = afx.jit(step)
        found = afx.pytree.leaves(compiled(params, state, x, y))
        plan = compiled.lower(params, state, x, y).plan
        assert [why for _, why in plan.why_not_native if why] == []
        assert bool(blocks) == any(isinstance(i, Fused) and i.space.kind == "rows" for i in plan.schedule)
    assert all(same_bits(a, b) for a, b in zip(found, want, strict=True))
