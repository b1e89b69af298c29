"""Activations and losses at infinities, kinks and probabilities of zero, and in small dtypes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

INF = np.inf
ENDS = np.array([-INF, -1e308, -1e3, 1e3, 1e308, INF])


def _slope(fn: Any, x: np.ndarray) -> list[float]:
    """Return the derivative at each element; ones as cotangents, since infinities do not add up."""
    values: list[float] = _pulled(fn, x).tolist()
    return values


def _pulled(fn: Any, x: Any) -> Any:
    return afx.vjp(fn, x)[1](afx.ones(x.shape, afx.float64))[0]


@pytest.mark.parametrize("fn", [nn.silu, nn.gelu, lambda x: nn.gelu(x, approximate=False), nn.relu, nn.elu])
def test_gates_shut_at_minus_infinity_and_open_at_infinity(fn: Any) -> None:
    """Values and slopes at the ends are the limits, without a warning."""
    low = -1.0 if fn is nn.elu else 0.0
    assert fn(ENDS).tolist() == [low] * 3 + [1e3, 1e308, INF]
    assert _slope(fn, ENDS) == [0.0] * 3 + [1.0] * 3
    assert _slope(lambda x: _pulled(fn, x), ENDS) == [0.0] * 6


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("fn", [nn.silu, nn.gelu, nn.elu, nn.softplus, nn.sigmoid, nn.log_sigmoid, nn.softmax])
def test_small_dtypes_lose_no_more_than_their_digits(fn: Any, dtype: Any) -> None:
    """In float16 and float32 values agree with float64 to the dtype's own precision, and keep their dtype."""
    x = np.linspace(-9, 9, 37).astype(dtype)
    z = fn(x)
    assert z.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(z), np.asarray(fn(x.astype(np.float64))), rtol=20 * eps, atol=eps)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_elu_has_the_slope_alpha_at_zero(alpha: float) -> None:
    """The kink belongs to the exponential side, so that with alpha = 1 there is none."""
    assert _slope(lambda x: nn.elu(x, alpha), np.array([0.0])) == [alpha]


def test_softplus_and_sigmoid_keep_small_digits() -> None:
    """In the lower tail both are exp(x), to the last digits."""
    x = np.array([-40.0, -200.0, -700.0])
    np.testing.assert_allclose(np.asarray(nn.softplus(x)), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(np.asarray(nn.sigmoid(x)), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(_slope(nn.softplus, x), np.exp(x), rtol=1e-14)


class TestSoftmax:
    """Shares of infinite elements."""

    def test_rows_of_nothing(self) -> None:
        """A row of -inf alone has no share to give: 0 each, and no derivative; other rows are as they were."""
        x = np.array([[0.0, -INF], [-INF, -INF]])
        assert nn.softmax(x).tolist() == [[1.0, 0.0], [0.0, 0.0]]
        assert nn.log_softmax(x).tolist() == [[0.0, -INF], [-INF, -INF]]
        for fn in (nn.softmax, nn.log_softmax):
            assert np.isfinite(np.asarray(afx.grad(lambda x, fn=fn: fn(x)[0, 0])(x))).all()
            assert np.isfinite(np.asarray(afx.hessian(lambda x, fn=fn: fn(x)[0, 0])(x))).all()

    def test_infinite_elements_share_equally(self) -> None:
        """Elements that are inf take everything."""
        assert nn.softmax(np.array([INF, 0.0, INF])).tolist() == [0.5, 0.0, 0.5]
        assert nn.softmax(np.array([1e308, -1e308])).tolist() == [1.0, 0.0]
        assert np.isnan(np.asarray(nn.softmax(np.array([np.nan, 0.0])))).all()

    def test_axes(self) -> None:
        """Any axis, and several together; of integers in the default dtype; of nothing, nothing."""
        x = np.arange(6.0).reshape(2, 3)
        e = np.exp(x - 5)
        np.testing.assert_allclose(np.asarray(nn.softmax(x, 0)), e / e.sum(0), rtol=1e-14)
        np.testing.assert_allclose(np.asarray(nn.softmax(x, (0, 1))), e / e.sum(), rtol=1e-14)
        np.testing.assert_allclose(np.asarray(nn.log_softmax(x, (0, -1))), np.log(e / e.sum()), rtol=1e-13)
        assert nn.softmax(np.array([1, 2])).dtype == afx.float32
        assert nn.softmax(np.zeros((3, 0))).shape == (3, 0)
        with pytest.raises(afx.errors.ShapeError, match="softmax: axis 2"):
            nn.softmax(x, 2)
        with pytest.raises(afx.errors.DtypeError, match="softmax"):
            nn.log_softmax(1j * x)

    def test_second_derivatives(self) -> None:
        """The Hessian of -log softmax is diag(p) - p pᵀ."""
        x = np.array([0.3, -1.0, 2.0])
        p = np.asarray(nn.softmax(x))
        found = afx.hessian(lambda x: -nn.log_softmax(x)[1])(x)
        np.testing.assert_allclose(np.asarray(found), np.diag(p) - np.outer(p, p), atol=1e-15)


class TestCrossEntropies:
    """Losses at the ends of their domain."""

    def test_a_class_without_probability_adds_nothing(self) -> None:
        """A logit of -inf with the target 0 has the loss 0 and the derivative 0; with a target, the loss inf."""
        logits = np.array([0.0, -INF])
        assert float(nn.softmax_cross_entropy(logits, np.array([1.0, 0.0]))) == 0.0
        assert afx.grad(lambda y: nn.softmax_cross_entropy(y, np.array([1.0, 0.0])))(logits).tolist() == [0.0, 0.0]
        assert float(nn.softmax_cross_entropy(logits, np.array([0.5, 0.5]))) == INF

    @pytest.mark.parametrize(
        ("logits", "want"),
        [
            ([0.0, -INF, 0.0], [np.log(2), INF, np.log(2)]),
            ([INF, 0.0, INF], [np.log(2), INF, np.log(2)]),
            ([-INF, -INF, -INF], [INF] * 3),
            ([1e6, 1e6, 1e6 - 1], [0.861995, 0.861995, 1.861995]),
        ],
    )
    def test_losses_of_infinite_and_far_logits(self, logits: list[float], want: list[float]) -> None:
        """They are ``-log_softmax`` of the class, to all digits where logits are far from 0, and nothing warns."""
        x = np.array(logits, np.float32)
        for classes in (np.array([0, 1, 2]), np.array([0, 1, 2], np.uint8)):
            found = nn.softmax_cross_entropy(np.tile(x, (3, 1)), classes)
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4)
            np.testing.assert_allclose(np.asarray(found), -np.asarray(nn.log_softmax(x)), rtol=1e-6)

    def test_complex_logits_are_refused_by_name(self) -> None:
        """The loss that was called is named, with its logits."""
        with pytest.raises(
            afx.errors.DtypeError, match=r"softmax_cross_entropy: logits are real: got complex128\[1,2\]"
        ):
            nn.softmax_cross_entropy(np.ones((1, 2)) * 1j, np.array([0]))

    def test_one_hot_targets_of_any_dtype(self) -> None:
        """Integers and booleans in the shape of the logits are distributions, in the logits' dtype."""
        logits = np.array([[0.0, 1.0], [2.0, 0.0]], np.float32)
        want = nn.softmax_cross_entropy(logits, np.array([0, 1]))
        for one_hot in (np.eye(2, dtype=np.int64), np.eye(2, dtype=bool), np.eye(2, dtype=np.float32)):
            found = nn.softmax_cross_entropy(logits, one_hot)
            assert (found.tolist(), found.dtype) == (want.tolist(), np.float32)

    @pytest.mark.parametrize("target", [-1, 2])
    def test_targets_that_are_no_class_raise(self, target: int) -> None:
        """A class of -1, by which other libraries mean "leave out", is not the last one."""
        with pytest.raises(IndexError, match=str(target)):
            nn.softmax_cross_entropy(np.zeros((3, 2)), np.array([0, 1, target]))

    def test_infinite_logits(self) -> None:
        """A certain and right answer has no loss, a certain and wrong one an infinite one."""
        y, t = np.array([INF, -INF, INF, -INF]), np.array([1.0, 0.0, 0.0, 1.0])
        assert nn.sigmoid_binary_cross_entropy(y, t).tolist() == [0.0, 0.0, INF, INF]
        assert _slope(lambda y: nn.sigmoid_binary_cross_entropy(y, t), y) == [0.0, 0.0, 1.0, -1.0]

    def test_small_losses_keep_their_digits(self) -> None:
        """At a logit of 30 the loss is exp(-30), not the difference of two numbers near 30."""
        for y, t in ((30.0, 1.0), (-30.0, 0.0)):
            found = float(nn.sigmoid_binary_cross_entropy(np.float32(y), np.float32(t)))
            assert found == pytest.approx(np.exp(-30.0), rel=1e-5)

    def test_targets_take_the_dtype_of_logits(self) -> None:
        """Integer labels do not turn float32 into float64; one number serves for all."""
        y = np.array([0.5, -0.5], np.float32)
        for t in (np.array([1, 0]), np.array([True, False]), 1, 1.0, np.array([1, 0], np.uint8)):
            for loss in (nn.sigmoid_binary_cross_entropy, nn.mse, nn.huber):
                assert loss(y, t).dtype == np.float32
        with pytest.raises(afx.errors.ShapeError, match="differ in shape"):
            nn.sigmoid_binary_cross_entropy(np.zeros((3, 1)), np.zeros(3))


def test_huber_is_a_parabola_up_to_delta() -> None:
    """Slope and curvature are those of ½d² within, also at 0, and the slope ±delta beyond."""
    d = np.array([-2.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    zero = np.zeros(6)
    assert _slope(lambda x: nn.huber(x, zero), d) == [-1.0, -0.5, 0.0, 0.5, 1.0, 1.0]
    curvature = afx.hessian(lambda x: afx.sum(nn.huber(x, zero)))(d)
    assert np.diag(np.asarray(curvature)).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    with pytest.raises(afx.errors.ArgumentError, match="delta"):
        nn.huber(d, zero, delta=0.0)
