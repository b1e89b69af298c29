"""Transposed convolution, adaptive pooling and activations, written out in NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

INF = np.inf


def spread(x: np.ndarray, kernel: np.ndarray, stride: int, dilation: int, groups: int) -> np.ndarray:
    """Return a transposed convolution without padding, element by element."""
    window, lengths = kernel.shape[:-2], x.shape[1:-1]
    shape = [stride * (n - 1) + dilation * (w - 1) + 1 for n, w in zip(lengths, window, strict=True)]
    out = np.zeros((x.shape[0], *shape, kernel.shape[-1]))
    inside, outside = kernel.shape[-2], kernel.shape[-1] // groups
    for at in itertools.product(*map(range, lengths)):
        for j in itertools.product(*map(range, window)):
            place = tuple(stride * i + dilation * k for i, k in zip(at, j, strict=True))
            for g in range(groups):
                channels = x[(slice(None), *at, slice(g * inside, (g + 1) * inside))]
                wanted = slice(g * outside, (g + 1) * outside)
                out[(slice(None), *place, wanted)] += channels @ kernel[j][:, wanted]
    return out


class TestTransposed:
    """`conv_transpose` spreads each element by the kernel."""

    @pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (3, 2, 2), (2, 3, 2)])
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_element_by_element(
        self, rank: int, stride: int, dilation: int, groups: int, rng: np.random.Generator
    ) -> None:
        """With strides, dilation and groups, in one to three dimensions; padding cuts the ends off."""
        x = rng.normal(size=(2, *(4, 3, 2)[:rank], 4))
        kernel = rng.normal(size=(*(3, 2, 2)[:rank], 4 // groups, 6))
        options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
        want = spread(x, kernel, **options)
        np.testing.assert_allclose(np.asarray(nn.conv_transpose(x, kernel, **options)), want, atol=1e-13)
        pads = [(1, 0), *[(0, 1)] * (rank - 1)]
        cut = want[(slice(None), slice(1, None), *[slice(0, -1)] * (rank - 1))]
        found = nn.conv_transpose(x, kernel, padding=pads, **options)
        np.testing.assert_allclose(np.asarray(found), cut, atol=1e-13)

    @pytest.mark.parametrize("padding", ["valid", "same"])
    def test_it_is_the_adjoint_of_conv(self, padding: Any, rng: np.random.Generator) -> None:
        """``<conv(y), x> = <y, conv_transpose(x)>``, with the kernel's channels exchanged; "same" is stride times n."""
        kernel = rng.normal(size=(3, 4, 2, 5))
        x = rng.normal(size=(2, 4, 3, 2))
        z = nn.conv_transpose(x, kernel, stride=2, padding=padding)
        assert padding == "valid" or z.shape == (2, 8, 6, 5)
        y = rng.normal(size=z.shape)
        back = nn.conv(y, kernel.swapaxes(-1, -2), stride=2, padding=padding)
        assert float(afx.sum(back * x)) == pytest.approx(float(afx.sum(y * z)), rel=1e-12)

    def test_derivatives(self, rng: np.random.Generator) -> None:
        """By both operands, compiled and under vmap."""
        x, kernel = rng.normal(size=(1, 3, 2)), rng.normal(size=(2, 2, 3))
        loss = lambda x, k: afx.sum(afx.sin(nn.conv_transpose(x, k, stride=2)))
        found = afx.jit(afx.grad(loss, argnums=(0, 1)))(x, kernel)
        for number, operand in enumerate((x, kernel)):
            direction = rng.normal(size=operand.shape)
            h = 1e-6
            ends = []
            for sign in (h, -h):
                both = [x, kernel]
                both[number] = operand + sign * direction
                ends.append(float(loss(*both)))
            dot = float(afx.sum(found[number] * direction))
            assert dot == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)
        many = rng.normal(size=(4, 1, 3, 2))
        want = np.stack([np.asarray(nn.conv_transpose(row, kernel)) for row in many])
        np.testing.assert_allclose(np.asarray(afx.vmap(lambda v: nn.conv_transpose(v, kernel))(many)), want, atol=1e-13)

    def test_mistakes(self) -> None:
        """Axes and channels that do not fit, padding that leaves nothing."""
        x = np.ones((1, 3, 2))
        with pytest.raises(afx.errors.ShapeError, match="conv_transpose: x is"):
            nn.conv_transpose(x, np.ones((2, 2, 2, 3)))
        with pytest.raises(afx.errors.ShapeError, match="channels differ"):
            nn.conv_transpose(x, np.ones((2, 3, 3)))
        with pytest.raises(afx.errors.ArgumentError, match="cuts off all"):
            nn.conv_transpose(x, np.ones((2, 2, 3)), padding=2)
        with pytest.raises(afx.errors.ShapeError, match="no elements"):
            nn.conv_transpose(np.ones((1, 0, 2)), np.ones((2, 2, 3)))


class TestAdaptivePooling:
    """Windows from floor(i·n/m) to ceil((i + 1)·n/m)."""

    @pytest.mark.parametrize("positions", [1, 2, 3, (5, 2), (7, 10), (9, 12)])
    def test_windows(self, positions: Any, rng: np.random.Generator) -> None:
        """Means and maxima of boxes, also where windows overlap or positions outnumber elements."""
        x = rng.normal(size=(2, 7, 10, 3))
        m, n = (positions, positions) if isinstance(positions, int) else positions
        boxes = [
            [x[:, i * 7 // m : -(-(i + 1) * 7 // m), j * 10 // n : -(-(j + 1) * 10 // n)] for j in range(n)]
            for i in range(m)
        ]
        for pool, reduce in ((nn.adaptive_avg_pool, np.mean), (nn.adaptive_max_pool, np.max)):
            want = np.stack([np.stack([reduce(box, axis=(1, 2)) for box in row], 1) for row in boxes], 1)
            np.testing.assert_allclose(np.asarray(pool(x, positions)), want, atol=1e-14)
            np.testing.assert_allclose(np.asarray(afx.jit(lambda v, p=pool: p(v, positions))(x)), want, atol=1e-14)

    def test_derivatives(self) -> None:
        """Means share evenly; of equal elements the first has the derivative; infinite ones stay in their windows."""
        x = np.array([1.0, 3.0, 3.0]).reshape(1, 3, 1)
        mean = afx.grad(lambda v: afx.sum(nn.adaptive_avg_pool(v, 2)))(x)
        assert mean[0, :, 0].tolist() == [0.5, 1.0, 0.5]
        largest = afx.grad(lambda v: afx.sum(nn.adaptive_max_pool(v, 1)))(x)
        assert largest[0, :, 0].tolist() == [0.0, 1.0, 0.0]
        assert nn.adaptive_avg_pool(np.array([1.0, 2.0, INF]).reshape(1, 3, 1), 2)[0, :, 0].tolist() == [1.5, INF]
        assert nn.adaptive_avg_pool(np.full((1, 3, 1), 6e4, np.float16), 1).tolist() == [[[6e4]]]

    def test_mistakes(self) -> None:
        """No spatial axis, no elements, integers, no positions."""
        with pytest.raises(afx.errors.ShapeError, match="adaptive_avg_pool"):
            nn.adaptive_avg_pool(np.ones((2, 3)), 1)
        with pytest.raises(afx.errors.ShapeError, match="with elements to pool"):
            nn.adaptive_max_pool(np.ones((2, 0, 3)), 1)
        with pytest.raises(afx.errors.DtypeError, match="floating"):
            nn.adaptive_max_pool(np.ones((2, 3, 1), int), 1)
        with pytest.raises(afx.errors.ArgumentError, match="positions"):
            nn.adaptive_avg_pool(np.ones((2, 3, 1)), 0)


def elu(x: Any, alpha: float) -> Any:
    """Return the exponential linear unit."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


FORMULAS: dict[str, tuple[Any, Any, float, float]] = {  # the function, its formula, its values at -inf and inf
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)), -2.0, INF),
    "selu": (
        nn.selu,
        lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
        -1.0507009873554805 * 1.6732632423543772,
        INF,
    ),
    "mish": (nn.mish, lambda x: x * np.tanh(np.logaddexp(0, x)), 0.0, INF),
    "relu6": (nn.relu6, lambda x: np.minimum(np.maximum(x, 0), 6), 0.0, 6.0),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1), -1.0, 1.0),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), 0.0, 1.0),
    "hard_silu": (nn.hard_silu, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 0.0, INF),
    "squareplus": (nn.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2, 0.0, INF),
    "sparse_plus": (
        nn.sparse_plus,
        lambda x: np.where(x >= 1, x, np.maximum(np.minimum(x, 1) + 1, 0) ** 2 / 4),
        0.0,
        INF,
    ),
    "sparse_sigmoid": (nn.sparse_sigmoid, lambda x: np.clip(x + 1, 0, 2) / 2, 0.0, 1.0),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + np.abs(x)), -1.0, 1.0),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name: str) -> None:
    """Formulas, slopes by finite differences, limits at infinity without a warning, nan stays nan, dtypes stay."""
    fn, formula, low, high = FORMULAS[name]
    x = np.linspace(-7.3, 7.3, 58)
    np.testing.assert_allclose(np.asarray(fn(x)), formula(x), rtol=1e-12, atol=1e-15)
    slope = np.asarray(afx.vjp(fn, x)[1](afx.ones(58, afx.float64))[0])
    h = 1e-6
    np.testing.assert_allclose(slope, (formula(x + h) - formula(x - h)) / (2 * h), atol=1e-8)
    ends = np.array([-INF, -1e308, 1e308, INF])
    found = np.asarray(fn(ends))
    np.testing.assert_allclose(found[[0, 1, 3]], [low, low, high], rtol=1e-12, atol=1e-300)
    assert np.isfinite(np.asarray(afx.vjp(fn, ends)[1](afx.ones(4, afx.float64))[0])).all()
    assert np.isnan(float(fn(np.nan)))
    for dtype in (np.float16, np.float32):
        assert fn(x.astype(dtype)).dtype == dtype


def test_gated_units(rng: np.random.Generator) -> None:
    """The first half times the sigmoid of the second, along any axis."""
    x = rng.normal(size=(4, 6))
    np.testing.assert_allclose(np.asarray(nn.glu(x)), x[:, :3] / (1 + np.exp(-x[:, 3:])), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(nn.glu(x, axis=0)), x[:2] / (1 + np.exp(-x[2:])), rtol=1e-13)


def test_a_slope_that_is_learned() -> None:
    """Leaky relu takes an array of slopes and differentiates by it."""
    x = np.array([[-1.0, 2.0], [-3.0, -4.0]])
    found = afx.grad(lambda s: afx.sum(nn.leaky_relu(x, s)))(np.array([0.1, 0.2]))
    assert found.tolist() == [-4.0, -4.0]


def test_messages_say_that_channels_come_last() -> None:
    """Images with channels first, or without them, are told how to become what `conv` takes."""
    kernel = afx.ones((3, 3, 2, 4))
    with pytest.raises(afx.errors.ShapeError, match=r"channels last.*moveaxis\(x, 1, -1\)"):
        nn.conv(afx.ones((5, 2, 8, 8)), kernel)
    with pytest.raises(afx.errors.ShapeError, match=r"channels last.*x\[None\] for one example"):
        nn.conv(afx.ones((8, 8, 2)), kernel)
    with pytest.raises(afx.errors.ShapeError, match=r"channels last.*x\[\.\.\., None\] for one channel"):
        nn.conv(afx.ones((5, 8, 8)), afx.ones((3, 3, 1, 4)))
    with pytest.raises(afx.errors.ShapeError, match="groups divide out"):
        nn.conv(afx.ones((5, 8, 8, 3)), kernel)
    assert nn.conv(afx.moveaxis(afx.ones((5, 2, 8, 8)), 1, -1), kernel).shape == (5, 6, 6, 4)
