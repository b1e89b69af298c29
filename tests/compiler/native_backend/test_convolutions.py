"""Convolutions within machine code."""

import itertools
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import nn, optim

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering.products import find_chains, fused
from afx.compiler.native_backend.lowering.recorder import Recorder
from afx.compiler.native_backend.program.leaves import UfuncCall
from afx.compiler.schedule.schedule import Fused
from afx.compiler.target import use_target
from afx.ops.nn.windows import padded_by
from afx.runtime import thread_pool
from afx.runtime.blas import blas
from tests.compiler.native_backend.native_run import (
    FIRST_TIER,
    Native,
    assert_same_bits,
    same_bits,
    use_limits,
    use_threads,
)
from tests.every import together

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
    "blocks of examples": ((23, 12, 12, 16), (3, 3, 16, 12), {"padding": ((1, 1), (0, 3))}),
    "kernels with holes": ((3, 12, 13, 9), (3, 2, 9, 8), {"padding": 1, "dilation": 2}),
    "three axes": ((2, 5, 6, 7, 2), (2, 3, 2, 2, 3), {}),
    "even blocks of examples": ((23, 12, 12, 8), (3, 3, 8, 8), {"padding": 1}),
    "strips of rows": ((5, 12, 12, 6), (5, 5, 6, 16), {}),
    "strips of many rows": ((60, 26, 26, 1), (5, 5, 1, 6), {}),
    "strips with strides": ((90, 25, 24, 1), (5, 5, 1, 6), {"stride": 2}),
    "strips with holes": ((90, 24, 24, 3), (3, 5, 3, 7), {"dilation": 2, "stride": (1, 3)}),
    "windows side by side": ((6, 8, 6, 10, 1), (1, 3, 4, 1, 24), {"stride": (1, 3, 1)}),
    "neighbours in windows": ((4, 9, 10, 12), (3, 2, 12, 3), {"stride": (2, 1)}),
    "few results": ((3, 12, 13, 12), (3, 2, 12, 3), {"padding": 1, "dilation": (1, 2)}),
    "few results of one axis": ((2, 40, 8), (5, 8, 2), {}),
    "few results of many positions": ((1, 70, 71, 24), (3, 3, 24, 2), {}),
}


def _arrays(name: str, dtype: str) -> tuple[Any, Any, Any]:
    shape, window, options = FORMS[name]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=window).astype(dtype)
    x[:1], w[0] = np.copysign(0, x[:1]), np.copysign(0, w[0])  # zeros of both signs
    return x, w, rng.normal(size=nn.conv(x, w, **options).shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FORMS)
def test_convolutions_have_the_bits_of_numpys_plan(name: str, dtype: str) -> None:
    """The value and both gradients, in each way of computing them."""
    x, w, ct = _arrays(name, dtype)

    def fn(x: Any, w: Any, ct: Any) -> Any:
        z, pull = afx.vjp(lambda x, w: nn.conv(x, w, **FORMS[name][2]), x, w)
        return z, *pull(ct)

    with blas:  # as plans do: its threads would add up long sums in other orders
        assert_same_bits(fn, x, w, ct)


@pytest.mark.parametrize("name", FORMS)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    """Threads share tiles, those of each kernel row one after the other, and the rows of copies."""
    x, w, ct = _arrays(name, "f4")

    def fn(x: Any, w: Any, ct: Any) -> Any:
        z, pull = afx.vjp(lambda x, w: nn.conv(x, w, **FORMS[name][2]), x, w)
        return z, *pull(ct)

    small = {"product_tile_share_min_products": 1, "share_min_elements": 1, "share_loop_min_elements": 1}
    with blas, use_threads(3), use_limits(**small):
        native = assert_same_bits(fn, x, w, ct)
        parts = [step.parts for step in native.program.block.all_steps() if step.is_cut]
        assert parts
        assert 6 in parts or name != "many channels", "two tiles of each of three kernel rows"
        with thread_pool.single_threaded:
            alone, _ = native(x, w, ct)
        assert all(same_bits(a, b) for a, b in zip(native(x, w, ct)[0], alone, strict=True))


@pytest.mark.parametrize("compile_", [False, True])
def test_nothing_is_heard_of_what_lies_between_rows(compile_: bool) -> None:
    """Sums over the end of one row and the beginning of the next are no results: they overflow in silence."""
    x, w = np.zeros((1, 6, 6, 8), np.float32), np.zeros((1, 2, 8, 2), np.float32)
    x[0, 2, 5, 0], x[0, 3, 0, 0], w[0, :, 0] = 3e38, 3e38, 1.0
    fn = afx.jit(nn.conv) if compile_ else nn.conv
    assert np.isfinite(np.asarray(fn(x, w))).all()
    x[0, 3, 1, 0] = 3e38
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert np.isinf(np.asarray(fn(x, w))).sum() == 2


def test_few_results_whose_chains_are_unknown_have_the_bits_of_numpys_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are copied for BLAS then, as in NumPy's plan."""
    monkeypatch.setattr(Recorder, "find_chains", lambda *_: ())
    x, w, _ = _arrays("few results of many positions", "f4")
    with blas:
        assert_same_bits(lambda x, w: nn.conv(x, w), x, w)


@together("backend", ["native", "portable"])
@together("name", FORMS)
def test_convolutions_are_sums_over_windows(name: str, backend: Any) -> None:
    """The value and both gradients of the other tiers, beside sums of products over every window."""
    x, w, ct = _arrays(name, "f8")
    options = FORMS[name][2]

    def fn(x: Any, w: Any, ct: Any) -> Any:
        z, pull = afx.vjp(lambda x, w: nn.conv(x, w, **options), x, w)
        return z, *pull(ct)

    rank = w.ndim - 2
    pads = padded_by(options.get("padding", "valid"), x.shape[1:-1], w.shape[:rank], (1,) * rank, (1,) * rank, "conv")
    room = np.pad(x, ((0, 0), *pads, (0, 0)))
    grad_x, grad_w, z = np.zeros_like(room), np.zeros_like(w), np.zeros_like(ct)
    stride, dilation = (np.broadcast_to(options.get(key, 1), rank) for key in ("stride", "dilation"))
    for place in np.ndindex(*w.shape[:rank]):
        spans = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilation, ct.shape[1:-1], stride, strict=True)
        ]
        at = (slice(None), *spans)
        z += room[at] @ w[place]
        grad_x[at] += ct @ w[place].T
        grad_w[place] = np.tensordot(room[at], ct, ([*range(rank + 1)], [*range(rank + 1)]))
    grad_x = grad_x[(slice(None), *[slice(a, a + n) for n, (a, _) in zip(x.shape[1:-1], pads, strict=True)])]
    for found, want in zip(afx.jit(fn, backend=backend)(x, w, ct), (z, grad_x, grad_w), strict=True):
        np.testing.assert_allclose(np.asarray(found), want, rtol=0, atol=1e-12 * abs(want).max())


def test_windows_are_read_where_they_lie() -> None:
    """Where BLAS adds up in one chain, no matrix of windows is made: value and gradient by the input are tiles."""
    x, w, ct = _arrays("blocks of examples", "f4")
    for m, k in ((12 * 13 * 11, 144), (12 * 13 * 22, 12)):
        if not find_chains("f4", m, k, 12):
            pytest.skip("a BLAS that adds up in another order")
    options = FORMS["blocks of examples"][2]

    def fn(x: Any, w: Any, ct: Any) -> Any:
        z, pull = afx.vjp(lambda x: nn.conv(x, w, **options), x)
        return z, *pull(ct)

    steps = Native(fn, x[:22], w, ct[:22]).program.block.all_steps()
    forward, backward = [step for step in steps if isinstance(step, UfuncCall) and step.loop is None]
    assert (forward.added, backward.added) == (0, 2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 5, 3), (40, 27, 6), (300, 75, 16), (900, 144, 16), (200, 640, 24), (144, 1500, 16), (90, 2048, 40)],
)
def test_chains_that_are_found_are_those_of_all_elements(m: int, k: int, n: int, dtype: str) -> None:
    """A look at some rows says what holds of all of them, with other numbers."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for left in (x, np.asfortranarray(x)):
        total = np.zeros((m, n), dtype)
        ends = find_chains(dtype, m, k, n, "" if left.flags.c_contiguous else "left")
        for start, end in itertools.pairwise((0, *ends)):
            chain = np.zeros((m, n), dtype)
            for i in range(start, end):
                chain = fused(x[:, i, None], y[i], chain)
            total += chain
        with blas:
            assert not ends or (left @ y == total).all()


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


def test_infinite_kernels_are_left_to_numpy() -> None:
    """Zeros around a cotangent would make nan of an infinite weight, where nothing is added up."""
    x, w, ct = _arrays("many channels", "f4")
    w[1, 1, 3] = np.inf

    def backward(w: Any, ct: Any) -> Any:
        return afx.vjp(lambda x: nn.conv(x, w, **FORMS["many channels"][2]), x)[1](ct)[0]

    with np.errstate(all="ignore"):
        for backend in ("native", "numpy"):
            assert same_bits(afx.jit(backward, backend=backend)(w, ct), backward(w, ct))


SHAPES = {  # x, kernel, options
    "each channel": ((3, 9, 8, 5), (3, 3, 1, 5), {"groups": 5, "padding": 1}),
    "each channel, far": (
        (4, 11, 10, 6),
        (4, 2, 1, 6),
        {"groups": 6, "stride": (3, 2), "dilation": (2, 1), "padding": 2},
    ),
    "each channel, offsets in two nests": ((2, 14, 13, 3), (7, 6, 1, 3), {"groups": 3, "padding": 3}),
    "each channel, blocks and a rest": ((7, 40, 50, 32), (3, 1, 1, 32), {"groups": 32}),
    "each channel, a long series": ((2, 90, 3), (60, 1, 3), {"groups": 3, "padding": 30}),
    "each channel of a series": ((4, 30, 2), (5, 1, 2), {"groups": 2, "stride": 4}),
    "two kernels for each channel": ((3, 9, 8, 3), (2, 3, 1, 6), {"groups": 3}),
    "groups": ((3, 8, 9, 20), (3, 2, 10, 18), {"groups": 2, "padding": 1}),
    "groups, far": ((5, 9, 9, 27), (3, 3, 9, 12), {"groups": 3, "stride": 2}),
    "far": ((3, 15, 16, 9), (3, 4, 9, 7), {"stride": (2, 3), "padding": ((1, 2), (0, 3))}),
    "far, with holes": ((2, 17, 16, 8), (3, 3, 8, 9), {"stride": (2, 4), "dilation": (2, 3), "padding": 1}),
    "farther than the window": ((3, 16, 8), (2, 8, 5), {"stride": 5, "padding": ((0, 4),)}),
    "long sums": ((5, 20, 21, 12), (3, 3, 12, 16), {}),
    "long sums in blocks and a rest": ((13, 26, 25, 16), (3, 3, 16, 20), {"padding": 1, "stride": (1, 2)}),
    "long sums, a matrix": ((4, 16, 17, 40), (1, 1, 40, 24), {}),
    "long sums, a matrix in blocks": ((16, 16, 17, 40), (1, 1, 40, 36), {}),
    "long sums of a series in blocks": ((30, 90, 48), (3, 48, 40), {"stride": 2}),
    "long sums, few channels": ((9, 18, 18, 3), (4, 4, 3, 9), {"dilation": 2}),
    "long sums over the window": ((2, 9, 9, 64), (3, 3, 64, 20), {"padding": 1}),
    "long sums over outputs": ((1, 7, 8, 9), (2, 2, 9, 900), {}),
    "kernels in panels": ((3, 9, 10, 7), (3, 3, 7, 128), {"padding": 1}),
    "kernels in panels, many channels": ((2, 6, 7, 128), (2, 2, 128, 256), {"stride": (1, 2)}),
    "large kernels": ((2, 5, 6, 256), (3, 3, 256, 256), {"padding": 1}),
    "one image": ((1, 20, 30, 16), (3, 3, 16, 32), {"padding": 1}),
    "images that threads share": ((8, 15, 17, 33), (3, 3, 33, 40), {"padding": ((1, 0), (0, 2))}),
    "few channels, wide": ((3, 12, 40, 3), (3, 3, 3, 20), {"padding": 1}),
    "few channels, wide and far": ((2, 12, 41, 4), (3, 5, 4, 8), {"padding": 2, "stride": 2}),
    "few channels, very wide": ((1, 9, 200, 5), (7, 7, 5, 12), {"padding": 3, "stride": (1, 2)}),
    "short rows of few channels": ((8, 16, 16, 3), (3, 3, 3, 16), {"padding": 1}),
    "short rows of few channels, far": ((5, 15, 16, 4), (3, 3, 4, 9), {"padding": ((1, 0), (2, 1)), "stride": (1, 2)}),
    "short rows of few channels, dilated": ((3, 12, 14, 4), (2, 4, 4, 6), {"dilation": (2, 3), "padding": 2}),
    "few channels, dilated": ((2, 14, 30, 2), (3, 3, 2, 9), {"dilation": (1, 2)}),
    "no images": ((0, 6, 6, 4), (3, 3, 1, 4), {"groups": 4}),
    "one pixel": ((3, 1, 1, 8), (3, 3, 8, 9), {"padding": 1, "stride": 2}),
    "one pixel of each channel": ((3, 1, 1, 4), (1, 1, 1, 4), {"groups": 4}),
}


def _of_shape(name: str, dtype: str) -> list[tuple[Any, tuple[Any, Any]]]:
    """Return the value and both gradients of a convolution, with their operands."""
    shape, window, options = SHAPES[name]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=window).astype(dtype)
    ct = rng.normal(size=nn.conv(x, w, **options).shape).astype(dtype)

    def conv(x: Any, w: Any) -> Any:
        return nn.conv(x, w, **options)

    return [
        (conv, (x, w)),
        (lambda ct, w: afx.vjp(lambda v: conv(v, w), x)[1](ct)[0], (ct, w)),
        (lambda ct, x: afx.vjp(lambda v: conv(x, v), w)[1](ct)[0], (ct, x)),
    ]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", SHAPES)
def test_windows_of_all_kinds_have_the_bits_of_numpys_plan(name: str, dtype: str) -> None:
    """Alone, each of the three; of operands that lie as they are, and of every other one of longer ones."""
    for fn, args in _of_shape(name, dtype):
        apart = [np.repeat(a, 2, axis=-1)[..., ::2] for a in args]
        with blas, use_target(FIRST_TIER):
            for given in (args, apart):
                assert same_bits(afx.jit(fn)(*given), afx.jit(fn, backend="numpy")(*given))


def test_what_runs_on_the_same_images_runs_together() -> None:
    """Zeros around an image, its products, and what is made of these: image by image, which threads share."""
    x, w = np.ones((16, 18, 18, 16), np.float32), np.ones((3, 3, 16, 16), np.float32)
    with use_target(attrs.evolve(FIRST_TIER, native_tier=2)):
        text = afx.jit(lambda x, w: afx.maximum(nn.conv(x, w, padding=1), 0.0)).lower(x, w).plan.source
    assert text.count("\n    for ") == text.count("blocks:  # shared by threads") == 1


def _direct(x: Any, w: Any, padding: Any = 0, stride: Any = 1, dilation: Any = 1, groups: int = 1) -> Any:
    """Return a convolution by its definition: a sum over the offsets in the window."""
    rank = w.ndim - 2
    pads = padding if isinstance(padding, tuple) else ((padding, padding),) * rank
    steps, gaps = [v if isinstance(v, tuple) else (v,) * rank for v in (stride, dilation)]
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    sizes = [(n - 1 - (k - 1) * d) // s + 1 for n, k, s, d in zip(x.shape[1:], w.shape, steps, gaps, strict=False)]
    z = np.zeros((len(x), *sizes, groups, w.shape[-1] // groups))
    weights = w.reshape(*w.shape[:-1], groups, -1)
    for place in np.ndindex(w.shape[:-2]):
        spans = [slice(p * d, p * d + n * s, s) for p, d, n, s in zip(place, gaps, sizes, steps, strict=True)]
        part = x[(slice(None), *spans)][(slice(None), *[slice(n) for n in sizes])]
        z += np.einsum(
            "...gi,igo->...go", part.reshape(*part.shape[:-1], groups, part.shape[-1] // groups), weights[place]
        )
    return z.reshape(*z.shape[:-2], w.shape[-1])


@pytest.mark.parametrize("name", SHAPES)
def test_windows_of_all_kinds_are_sums_over_windows(name: str) -> None:
    """Each back end beside the definition; of gradients their products with an image, and a kernel, of other numbers."""
    options = SHAPES[name][2]
    (fn, (x, w)), (by_input, (ct, _)), (by_kernel, _) = _of_shape(name, "f8")
    want, rng = _direct(x, w, **options), np.random.default_rng(1)
    other_x, other_w = rng.normal(size=x.shape), rng.normal(size=w.shape)
    along_x, along_w = ct * _direct(other_x, w, **options), ct * _direct(x, other_w, **options)
    for backend in ("auto", "numpy", "native", "portable") if len(x) else ("auto", "numpy", "native"):
        compute: Any = lambda f, *args, backend=backend: np.asarray(
            afx.jit(f, backend=backend)(*args)
        )  # of one back end
        np.testing.assert_allclose(compute(fn, x, w), want, rtol=0, atol=1e-12 * max([1, *abs(want).ravel()]))
        for found, along in (
            (compute(by_input, ct, w) * other_x, along_x),
            (compute(by_kernel, ct, x) * other_w, along_w),
        ):
            np.testing.assert_allclose(found.sum(), along.sum(), rtol=0, atol=1e-12 * (1 + abs(along).sum()))


@pytest.mark.parametrize("name", ["each channel", "groups, far", "far", "long sums"])
def test_operands_that_are_not_aligned_are_as_their_copies(name: str) -> None:
    """An element may begin at any byte."""
    for fn, args in _of_shape(name, "f4"):
        apart = [np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(a.shape) for a in args]
        assert not any(a.flags.aligned for a in apart)
        with blas:
            for backend in ("auto", "native", "numpy"):
                assert same_bits(afx.jit(fn, backend=backend)(*apart), afx.jit(fn, backend=backend)(*args))


@pytest.mark.parametrize(
    "name", ["each channel", "each channel, far", "each channel, blocks and a rest", "groups, far", "far"]
)
def test_windows_of_all_kinds_leave_no_call_of_numpy(name: str) -> None:
    """Each of the three has a native form."""
    for fn, args in _of_shape(name, "f4"):
        lowered = afx.jit(fn, backend="native").lower(*args)
        assert [why for _, why in lowered.plan.why_not_native if why] == []


@pytest.mark.parametrize("name", ["each channel", "far", "groups, far"])
def test_zeros_around_a_cotangent_make_no_nan_of_infinite_weights(name: str) -> None:
    """The call is NumPy's then, in which nothing is multiplied by zeros of padding."""
    _, (fn, (ct, w)), _ = _of_shape(name, "f4")
    for value in (np.inf, -np.inf, np.nan):
        w[-1, 0, 0, 1] = value
        with np.errstate(all="ignore"):
            for backend in ("auto", "native"):
                assert same_bits(afx.jit(fn, backend=backend)(ct, w), afx.jit(fn, backend="numpy")(ct, w))


def test_one_array_may_be_image_and_kernel() -> None:
    """The same memory as both operands, as any two."""
    for shape, options in (((3, 3, 2, 2), {"padding": 2}), ((9, 8, 9, 9), {"stride": 2, "padding": 4})):
        x = np.random.default_rng(0).normal(size=shape)

        def fn(a: Any, options: Any = options) -> Any:
            z, pull = afx.vjp(lambda a: nn.conv(a, a, **options), a)
            return z, *pull(z)

        with blas:
            assert_same_bits(fn, x)


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
