"""Cross-correlation, convolution and pooling agree with loops, and their derivatives with central differences."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, nn
from afx.ops.nn import windows as convolutions
from tests.ops.samples import together

RNG = np.random.default_rng(9)
EPS = 1e-6


def _direct(x: Any, w: Any, stride: int, pads: Any, dilation: int, groups: int) -> np.ndarray:
    """Return the cross-correlation by a loop over every place."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    kh, kw, _, out = w.shape
    each, per = w.shape[2], out // groups
    rows = (x.shape[1] - (kh - 1) * dilation - 1) // stride + 1
    columns = (x.shape[2] - (kw - 1) * dilation - 1) // stride + 1
    z = np.zeros((x.shape[0], rows, columns, out))
    for i, j, p, q, g in itertools.product(range(rows), range(columns), range(kh), range(kw), range(groups)):
        part = x[:, i * stride + p * dilation, j * stride + q * dilation, g * each : (g + 1) * each]
        z[:, i, j, g * per : (g + 1) * per] += part @ w[p, q, :, g * per : (g + 1) * per]
    return z


@pytest.mark.parametrize(("stride", "dilation", "groups"), list(itertools.product((1, 2), (1, 2), (1, 2))))
def test_conv_is_the_loop(stride: int, dilation: int, groups: int) -> None:
    """Stride, padding on either side, dilation and groups do what the loop does."""
    x, w = RNG.normal(size=(2, 9, 8, 4)), RNG.normal(size=(3, 2, 4 // groups, 6))
    z = nn.conv(x, w, stride=stride, padding=[(1, 2), 0], dilation=dilation, groups=groups)
    np.testing.assert_allclose(np.asarray(z), _direct(x, w, stride, ((1, 2), (0, 0)), dilation, groups), atol=1e-12)


@pytest.mark.parametrize("compile_", [False, True])
def test_conv_has_derivatives(compile_: bool) -> None:
    """Gradients by the input and the kernel agree with central differences, where a stride leaves a rest too."""
    x, w = RNG.normal(size=(2, 8, 3)), RNG.normal(size=(3, 3, 2))

    def total(x: Any, w: Any) -> Array:
        return afx.sum(afx.sin(nn.conv(x, w, stride=2, padding=1, dilation=2)))

    run = afx.jit(afx.grad(total, (0, 1))) if compile_ else afx.grad(total, (0, 1))
    tx, tw = RNG.normal(size=x.shape), RNG.normal(size=w.shape)
    gx, gw = run(x, w)
    slope = float(np.sum(np.asarray(gx) * tx) + np.sum(np.asarray(gw) * tw))
    up, down = (float(total(x + s * EPS * tx, w + s * EPS * tw)) for s in (1, -1))
    assert slope == pytest.approx((up - down) / (2 * EPS), rel=1e-7)


def test_same_padding_keeps_the_number_of_places() -> None:
    """With padding="same" there is a place for each element, divided by the stride."""
    x, w = RNG.normal(size=(1, 9, 2)), RNG.normal(size=(4, 2, 3))
    assert nn.conv(x, w, padding="same").shape == (1, 9, 3)
    assert nn.conv(x, w, padding="same", stride=2).shape == (1, 5, 3)


@pytest.mark.parametrize(("mode", "m"), list(itertools.product(("valid", "same", "full"), (1, 3, 4))))
def test_correlate_and_convolve_are_numpys(mode: Any, m: int) -> None:
    """In every mode, for kernels of odd and even length."""
    s, k = RNG.normal(size=7), RNG.normal(size=m)
    np.testing.assert_allclose(np.asarray(afx.correlate(s, k, mode)), np.correlate(s, k, mode), atol=1e-12)
    np.testing.assert_allclose(np.asarray(afx.convolve(s, k, mode)), np.convolve(s, k, mode), atol=1e-12)
    np.testing.assert_allclose(np.asarray(afx.convolve(k, s, mode)), np.convolve(k, s, mode), atol=1e-12)


def test_correlate_has_the_papers_derivatives() -> None:
    """dl/dk is ccor(g, s), and dl/ds the full convolution of g with k."""
    s, k, g = RNG.normal(size=7), RNG.normal(size=3), RNG.normal(size=5)
    ds, dk = afx.vjp(afx.correlate, s, k)[1](afx.asarray(g))
    np.testing.assert_allclose(np.asarray(dk), np.correlate(s, g, "valid"), atol=1e-12)
    np.testing.assert_allclose(np.asarray(ds), np.convolve(g, k, "full"), atol=1e-12)


class TestPooling:
    """The largest or the mean element of each window."""

    def test_windows_side_by_side(self) -> None:
        """Without a stride, windows cover the axes."""
        x = RNG.normal(size=(2, 8, 6, 3))
        cells = x.reshape(2, 4, 2, 3, 2, 3)
        np.testing.assert_array_equal(np.asarray(nn.max_pool(x, 2)), cells.max((2, 4)))
        np.testing.assert_allclose(np.asarray(nn.avg_pool(x, 2)), cells.mean((2, 4)))

    @pytest.mark.parametrize("stride", [None, 1])
    def test_the_first_maximum_has_the_derivative(self, stride: int | None) -> None:
        """Where several elements are largest, the first one's place counts."""
        x = np.array([[[1.0], [1.0], [0.0], [2.0]]])
        found = afx.grad(lambda v: afx.sum(nn.max_pool(v, 2, stride=stride)))(x)
        assert found.reshape(-1).tolist() == ([1.0, 0.0, 0.0, 1.0] if stride is None else [1.0, 1.0, 0.0, 1.0])

    def test_the_first_maximum_in_two_dimensions(self) -> None:
        """The order of a window is row by row."""
        found = afx.grad(lambda v: afx.sum(nn.max_pool(v, 2)))(np.ones((1, 2, 2, 1)))
        assert found.reshape(-1).tolist() == [1.0, 0.0, 0.0, 0.0]

    def test_padding_does_not_count(self) -> None:
        """Padded places are never the largest, and are not averaged."""
        x = -np.ones((1, 5, 1))
        assert nn.max_pool(x, 3, stride=1, padding="same").reshape(-1).tolist() == [-1.0] * 5
        assert nn.avg_pool(x, 3, stride=1, padding="same").reshape(-1).tolist() == [-1.0] * 5


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda: afx.correlate(np.ones(2), np.ones(3)), afx.errors.ShapeError, "longer than the signal"),
        (lambda: afx.correlate(np.ones(3), np.ones(2), "some"), afx.errors.ArgumentError, "some"),  # the mistake
        (lambda: nn.conv(np.ones((1, 4, 2)), np.ones((3, 1, 1))), afx.errors.ShapeError, "channels differ"),
        (lambda: nn.conv(np.ones((4, 2)), np.ones((3, 2, 1))), afx.errors.ShapeError, "batch"),
        (lambda: nn.conv(np.ones((1, 2, 1)), np.ones((3, 1, 1))), afx.errors.ShapeError, "longer than the array"),
        (lambda: nn.conv(np.ones((1, 4, 1)), np.ones((3, 1, 1)), stride=0), afx.errors.ArgumentError, "stride"),
        (lambda: nn.max_pool(np.ones((1, 5, 1)), 2), afx.errors.ShapeError, "does not divide"),
        (lambda: nn.max_pool(np.ones((1, 4, 1), np.int64), 2), afx.errors.DtypeError, "int64"),
    ],
)
def test_mistakes_are_explained(run: Any, kind: type[Exception], words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(kind, match=words):
        run()


@together(("groups", "out"), [(4, 4), (4, 12), (2, 4), (1, 3)])
@together("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_conv_is_a_loop(groups: int, out: int, axes: Any) -> None:
    """Over examples, kernels or both, for every kind of groups, with gradients."""
    x, w = RNG.normal(size=(2, 1, 6, 4)), RNG.normal(size=(2, 3, 4 // groups, out))
    xs = tuple(v if a == 0 else v[0] for v, a in zip((x, w), axes, strict=True))

    def total(x: Any, w: Any) -> Array:
        return afx.sum(afx.sin(nn.conv(x, w, stride=2, padding=1, groups=groups)))

    found = afx.vmap(afx.grad(total, (0, 1)), axes)(*xs)
    for i in range(2):
        one = afx.grad(total, (0, 1))(x[i] if axes[0] == 0 else x[0], w[i] if axes[1] == 0 else w[0])
        for g, want in zip(found, one, strict=True):
            np.testing.assert_allclose(np.asarray(g)[i], np.asarray(want), atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3, 8, 16])
@pytest.mark.parametrize("step", [1, 2])
def test_every_way_of_copying_windows_gives_the_same(channels: int, step: int) -> None:
    """Few and many channels, elements that are not neighbours in memory, and blocks of the batch: all are the loop."""
    x = RNG.normal(size=(70, 18, 17, 2 * channels))[:, :, :, ::step][..., :channels]
    w = RNG.normal(size=(3, 3, channels, 5))
    z = np.asarray(nn.conv(x, w, padding=1))
    np.testing.assert_allclose(z, _direct(x, w, 1, ((1, 1), (1, 1)), 1, 1), atol=1e-11)
    ct = RNG.normal(size=z.shape)
    gx, gw = afx.vjp(lambda x, w: nn.conv(x, w, padding=1), x, w)[1](afx.asarray(ct))
    assert np.sum(np.asarray(gx) * x) == pytest.approx(np.sum(ct * z))
    assert np.sum(np.asarray(gw) * w) == pytest.approx(np.sum(ct * z))


@pytest.mark.parametrize(
    ("spatial", "window"), [((6,), (3,)), ((7, 9), (3, 2)), ((9, 12), (2, 5)), ((5, 4, 7), (2, 1, 3))]
)
@pytest.mark.parametrize(("stride", "dilation", "pads"), [(1, 1, 0), (2, 1, (1, 2)), (1, 2, (2, 1))])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of infinities, in each way
def test_every_way_of_convolving_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, spatial: Any, window: Any, stride: int, dilation: int, pads: Any
) -> None:
    """Windows, band matrices of whole examples and of the last axis: values and both gradients, infinities too."""
    x, w = RNG.normal(size=(3, *spatial, 2)), RNG.normal(size=(*window, 2, 3))
    x[1, 2, ..., 0] = np.inf
    padding = [pads] * len(spatial)
    ways = {"windows": (0, 0), "bands": (1 << 30, 0), "bands of the last axis": (0, 1 << 30)}
    found = dict[str, list[np.ndarray]]()
    for way, (whole, last) in ways.items():
        for name, size in (("SMALL_BAND", whole), ("MOST_ZEROS", whole), ("SHORT", last), ("NARROW", last)):
            monkeypatch.setattr(convolutions, name, size)
        z, back = afx.vjp(lambda x, w: nn.conv(x, w, stride=stride, padding=padding, dilation=dilation), x, w)
        ct = np.cos(np.arange(z.size)).reshape(z.shape)
        ct[(2, *[0] * (z.ndim - 1))] = np.nan
        found[way] = [np.asarray(v) for v in (z, *back(afx.asarray(ct)))]
    for way in list(ways)[1:]:
        for got, want in zip(found[way], found["windows"], strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_conv_of_nothing() -> None:
    """No examples, channels or outputs give empty or zero results; a window of nothing raises."""
    assert nn.conv(np.ones((0, 4, 1)), np.ones((2, 1, 3))).shape == (0, 3, 3)
    assert nn.conv(np.ones((1, 4, 0)), np.ones((2, 0, 3))).tolist() == np.zeros((1, 3, 3)).tolist()
    assert nn.conv(np.ones((1, 4, 2)), np.ones((2, 2, 0))).shape == (1, 3, 0)
    with pytest.raises(afx.errors.ShapeError, match="no elements"):
        nn.conv(np.ones((1, 4, 1)), np.ones((0, 1, 1)))


@together(
    "options",
    [
        {"stride": 1.5},
        {"stride": None},
        {"stride": "2"},
        {"stride": (1, 2)},
        {"dilation": 0},
        {"groups": 0},
        {"groups": 1.0},
        {"padding": -1},
        {"padding": "SAME"},
        {"padding": None},
        {"padding": (1, 2)},
        {"padding": ((1, 2, 3),)},
        {"padding": 1.5},
    ],
    ids=str,
)
def test_options_that_are_no_numbers_raise(options: Any) -> None:
    """Each raises afx's own error, which names the option and shows it."""
    with pytest.raises(afx.errors.ArgumentError, match=f"conv: {next(iter(options))} is .*got {next(iter(options))}="):
        nn.conv(np.ones((1, 6, 1)), np.ones((2, 1, 1)), **options)


def test_options_may_be_numpys_integers() -> None:
    """As they come out of arithmetic on shapes."""
    assert nn.conv(np.ones((1, 6, 1)), np.ones((2, 1, 1)), stride=np.int64(2), padding=(np.int32(1),)).shape == (
        1,
        4,
        1,
    )


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_no_batches_at_all(axes: Any) -> None:
    """Mapped over an axis of length 0, convolutions and their gradients have no elements and the right shapes."""
    x = np.ones((2, 5, 1) if axes[0] is None else (0, 2, 5, 1))
    kernel = np.ones((3, 1, 2) if axes[1] is None else (0, 3, 1, 2))
    assert afx.vmap(nn.conv, axes)(x, kernel).shape == (0, 2, 3, 2)
    slopes = afx.vmap(afx.grad(lambda x, k: afx.sum(nn.conv(x, k) ** 2), (0, 1)), axes)(x, kernel)
    assert [g.shape for g in slopes] == [(0, 2, 5, 1), (0, 3, 1, 2)]
