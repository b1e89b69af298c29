"""Convolution: cross-correlation with stride, dilation, padding and groups, its adjoint, and `convolve`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from afx.core import Array, ArrayLike, Aval, Shape, aval_of, bind, bind_single, normalize_axes, register_function
from afx.core.primitive import Bools, Params, Primitive, Value, Values, lookup
from afx.errors import ArgumentError, ShapeError
from afx.ops._basic import xp
from afx.ops._kinds.linear import bilinear
from afx.ops.creation.creation import asarray, promote_operands, zeros
from afx.ops.elementwise.complex import conj
from afx.ops.linalg.products import same_dtype
from afx.ops.manipulation.join import moveaxis
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import broadcast_to, expand_dims, permute_dims, reshape
from afx.ops.nn.kernels import Into, convolving, summing_input, summing_kernel
from afx.ops.nn.windows import Padding, Pairs, each_axis, padded_by, positions

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Convolution
#
# `conv`, its transpose by the input and its transpose by the kernel are a family: the transposes of each are in it.

Mode = Literal["valid", "same", "full"]


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return the cross-correlation of a batch with kernels, over any number of spatial axes.

    Args:
        x: float[batch, *spatial, channels].
        kernel: float[*window, channels/groups, out], not flipped.
        stride: from one position of the window to the next; a number, or one for each spatial axis.
        padding: ``"valid"`` for none, ``"same"`` for as many positions as there are elements (divided by the stride),
            a number, or one (or a pair) for each spatial axis.
        dilation: from one element of the window to the next.
        groups: channels and outputs are split into so many groups that do not mix.

    Returns:
        float[batch, *positions, out].

    Raises:
        ShapeError: the axes do not fit, or the window is longer than the padded array.
        ArgumentError: stride, padding or dilation out of range.

    >>> import afx
    >>> conv(afx.ones((1, 4, 1)), afx.ones((3, 1, 1)))[0, :, 0]
    Array([3., 3.], dtype=float32)
    """
    a, k = aval_of(x, "conv"), aval_of(kernel, "conv")
    (groups,) = each_axis(groups, 1, "groups", "conv")
    _check_axes(a, k, groups)
    rank = k.ndim - 2
    stride, dilation = each_axis(stride, rank, "stride", "conv"), each_axis(dilation, rank, "dilation", "conv")
    pads = padded_by(padding, a.shape[1:-1], k.shape[:rank], stride, dilation, "conv")
    x, kernel = same_dtype(x, kernel, "conv")
    return bind_single(conv_p, x, kernel, stride=stride, padding=pads, dilation=dilation, groups=groups)


def _check_axes(a: Aval, k: Aval, groups: int) -> None:
    """Raise ShapeError where a batch does not fit the kernel."""
    if k.ndim < 3 or a.ndim != k.ndim:
        raise ShapeError(
            "conv: x is [batch, *spatial, channels], channels last, and kernel [*window, channels, out]: "
            f"got x {a} and kernel {k}; {_axes_to_add(a, k)}"
        )
    if a.shape[-1] != groups * k.shape[-2] or k.shape[-1] % groups:
        raise ShapeError(
            "conv: channels differ; x is [batch, *spatial, channels], channels last, and kernel "
            f"[*window, channels/groups, out]: got x {a} and kernel {k} with groups={groups}; {_channels_to_move(a, k, groups)}"
        )


def _axes_to_add(a: Aval, k: Aval) -> str:
    """Return what to do where the numbers of axes differ."""
    if a.ndim != k.ndim - 1:
        return "reshape x, or make a kernel of as many spatial axes"
    if k.shape[-2] != 1:
        return "write x[None] for one example"
    return "write x[..., None] for one channel" + ", or x[None] for one example" * (a.shape[-1] == 1)


def _channels_to_move(a: Aval, k: Aval, groups: int) -> str:
    """Return what to do where x's channels are not those of the kernel."""
    if a.shape[1] == groups * k.shape[-2] and not k.shape[-1] % groups:
        return "write afx.moveaxis(x, 1, -1), as x looks like [batch, channels, *spatial]"
    return "the kernel's channels times groups are those of x, and groups divide out"


def _abstract(x: Aval, kernel: Aval, **params: Any) -> Aval:
    where = {name: params[name] for name in ("stride", "dilation", "padding")}
    return Aval((x.shape[0], *positions(x, kernel.shape[:-2], **where, who="conv"), kernel.shape[-1]), x.dtype)


def _prepare(x: Aval, kernel: Aval, **params: Any) -> Into:
    return convolving(x, kernel, _abstract(x, kernel, **params), **params)


def _runner(abstract: Callable[..., Aval], prepare: Callable[..., Into]) -> Callable[..., Any]:
    """Return the implementation that writes into memory of its own."""

    def run(x: Any, y: Any, **params: Any) -> Any:
        a, b = aval_of(x), aval_of(y)
        z = np.empty(abstract(a, b, **params).shape, x.dtype)
        prepare(a, b, **params)(z, x, y)
        return z

    return run


def _pull_kernel(ct: Array, x: Array, kernel: Aval, **params: Any) -> Array:
    return bind_single(conv_kernel_p, x, ct, window=kernel.shape[:-2], **params)


# Batches of examples are one long batch. Kernels that differ from one to the next become groups of channels, beside
# the groups that there are: the batch axis goes in front of the last axis and is merged with it.
def _merge_batch(size: int, x: Value, batched: bool) -> Value:
    front = x if batched else broadcast_to(expand_dims(x, 0), (size, *x.shape))
    y = moveaxis(front, 0, -2)
    return reshape(y, (*y.shape[:-2], size * y.shape[-1]))


def _no_batch(p: Primitive, xs: Values, batched: Bools, params: Params) -> Value:
    """Return the results of a batch of none, which would be no groups at all."""
    avals = [Aval(x.shape[1:] if b else x.shape, x.dtype) for x, b in zip(xs, batched, strict=True)]
    one = p.abstract_eval(*avals, **params)
    assert isinstance(one, Aval)
    return zeros((0, *one.shape), one.dtype)


def _batch_by_groups(p: Primitive, size: int, xs: Values, batched: Bools, params: Params) -> Value:
    if not size:
        return _no_batch(p, xs, batched, params)
    x, y = (_merge_batch(size, v, b) for v, b in zip(xs, batched, strict=True))
    z = bind(p, x, y, **{**params, "groups": size * params["groups"]})
    return moveaxis(reshape(z, (*z.shape[:-1], size, z.shape[-1] // size)), -2, 0)


def _batch_by_examples(p: Primitive, size: int, x: Value, y: Value, params: Params) -> Value:
    z = bind(p, reshape(x, (size * x.shape[1], *x.shape[2:])), y, **params)
    return reshape(z, (size, x.shape[1], *z.shape[1:]))


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    x, kernel = xs
    if not batched[1]:
        return _batch_by_examples(conv_p, size, x, kernel, params)
    if batched[0] or params["groups"] > 1 or not size:
        return _batch_by_groups(conv_p, size, xs, batched, params)
    z = bind(conv_p, x, _merge_batch(size, kernel, True), **params)  # the kernels' outputs side by side
    return moveaxis(reshape(z, (*z.shape[:-1], size, z.shape[-1] // size)), -2, 0)


def _into(out: Any, x: Any, kernel: Any, **params: Any) -> None:
    convolving(x, kernel, out, **params)(out, x, kernel)


def _counter(result: int, kernel: int) -> Callable[[Sequence[Aval], Params], int]:
    """Return the cost of a convolution whose results and kernel are these values: each a product and a sum a term."""

    def flops(avals: Sequence[Aval], params: Params) -> int:
        return 2 * avals[result].size * math.prod(avals[kernel].shape[:-1])

    return flops


def _record(into: Callable[..., None]) -> Callable[..., None]:
    """Return the native form that does what an implementation does."""

    def native(xp: Recorder, out: Any, x: Any, y: Any, **params: Any) -> None:
        xp.check_floats(out, x, y)
        into(out, xp.ordered(x), xp.ordered(y), xp=xp, **params)

    return native


def _by_input(ct: Array, kernel: Array, x: Aval, **params: Any) -> Array:
    return bind_single(conv_input_p, ct, kernel, shape=x.shape, **params)


def _by_groups(p: str) -> Callable[..., Any]:
    """Return the formula of a convolution as those of its groups of channels, which are parts of all last axes."""

    def formula(*xs: Any, groups: int, **params: Any) -> Any:
        if "shape" in params:
            params["shape"] = (*params["shape"][:-1], params["shape"][-1] // groups)
        parts = zip(*[xp.split(x, groups, axis=-1) for x in xs], strict=True)
        return xp.concatenate([bind(lookup(p), *part, **params, groups=1) for part in parts], axis=-1)

    return formula


def _has_groups(_avals: Any, params: Params) -> bool:
    return bool(params["groups"] > 1)


def _has_no_groups(_avals: Any, params: Params) -> bool:
    return bool(params["groups"] <= 1)


conv_p: Primitive = bilinear(
    "conv",
    _runner(_abstract, _prepare),
    _abstract,
    (_by_input, _pull_kernel),
    batch=_batch,
    flops=_counter(2, 1),
    make_kernel=_prepare,
    impl_into=_into,
    native=_record(_into),
    batch_operands=(0,),
    formula=_by_groups("conv"),
    takes_formula=_has_groups,
    takes_native=_has_no_groups,
)


def _input_abstract(ct: Aval, kernel: Aval, *, shape: Shape, **params: Any) -> Aval:
    return Aval(shape, ct.dtype)


def _input_prepare(ct: Aval, kernel: Aval, *, shape: Shape, **params: Any) -> Into:
    return summing_input(ct, kernel, Aval(shape, ct.dtype), **params)


def _input_into(out: Any, ct: Any, kernel: Any, *, shape: Shape, **params: Any) -> None:
    summing_input(ct, kernel, out, **params)(out, ct, kernel)


def _input_by_kernel(u: Array, ct: Array, kernel: Aval, *, shape: Shape, **params: Any) -> Array:
    return bind_single(conv_kernel_p, u, ct, window=kernel.shape[:-2], **params)


def _input_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    shape = params["shape"]
    if not batched[1]:
        return _batch_by_examples(conv_input_p, size, xs[0], xs[1], {**params, "shape": (size * shape[0], *shape[1:])})
    wide = {**params, "shape": (*shape[:-1], size * shape[-1])}
    return _batch_by_groups(conv_input_p, size, xs, batched, wide if size else params)


def _input_by_ct(u: Array, kernel: Array, ct: Aval, *, shape: Shape, **params: Any) -> Array:
    return bind_single(conv_p, u, kernel, **params)


conv_input_p: Primitive = bilinear(
    "conv_input",
    _runner(_input_abstract, _input_prepare),
    _input_abstract,
    (_input_by_ct, _input_by_kernel),
    batch=_input_batch,
    flops=_counter(0, 1),
    make_kernel=_input_prepare,
    impl_into=_input_into,
    native=_record(_input_into),
    batch_operands=(0,),
    formula=_by_groups("conv_input"),
    takes_formula=_has_groups,
    takes_native=_has_no_groups,
)


def _kernel_abstract(x: Aval, ct: Aval, *, window: Shape, groups: int, **params: Any) -> Aval:
    return Aval((*window, x.shape[-1] // groups, ct.shape[-1]), x.dtype)


def _kernel_prepare(x: Aval, ct: Aval, *, window: Shape, groups: int, **params: Any) -> Into:
    return summing_kernel(x, ct, _kernel_abstract(x, ct, window=window, groups=groups), groups=groups, **params)


def _kernel_into(out: Any, x: Any, ct: Any, *, window: Shape, **params: Any) -> None:
    summing_kernel(x, ct, out, **params)(out, x, ct)


def _kernel_by_ct(g: Array, x: Array, ct: Aval, *, window: Shape, **params: Any) -> Array:
    return bind_single(conv_p, x, g, **params)


def _kernel_by_x(g: Array, ct: Array, x: Aval, *, window: Shape, **params: Any) -> Array:
    return bind_single(conv_input_p, ct, g, shape=x.shape, **params)


def _kernel_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return _batch_by_groups(conv_kernel_p, size, xs, batched, params)


conv_kernel_p: Primitive = bilinear(
    "conv_kernel",
    _runner(_kernel_abstract, _kernel_prepare),
    _kernel_abstract,
    (_kernel_by_x, _kernel_by_ct),
    batch=_kernel_batch,
    flops=_counter(1, 2),
    make_kernel=_kernel_prepare,
    impl_into=_kernel_into,
    native=_record(_kernel_into),
    batch_operands=(0, 1),
    sums_over_batch=True,
    formula=_by_groups("conv_kernel"),
    takes_formula=_has_groups,
    takes_native=_has_no_groups,
)


# -- vectors --
@register_function
def correlate(signal: ArrayLike, kernel: ArrayLike, mode: Mode = "valid") -> Array:
    """Return the cross-correlation of two vectors: the kernel, not flipped, moved along the signal.

    Element i is Σⱼ signal[i + j]·kernel[j], the conjugate of the kernel taken. Source: the paper's
    ``cross_correlate``; `numpy.correlate` differs in mode "valid", where it exchanges the operands if the kernel is
    the longer one.

    Args:
        signal: float[n].
        kernel: float[m].
        mode: ``"valid"`` gives the n - m + 1 positions where the kernel lies inside; ``"full"`` all n + m - 1 where it
            touches; ``"same"`` the max(n, m) in the middle of these.

    Raises:
        ShapeError: an operand is no vector or empty, or in mode "valid" the kernel is longer than the signal.
        ArgumentError: another mode.

    >>> import afx
    >>> correlate(afx.asarray([1.0, 2.0, 4.0]), afx.asarray([-1.0, 1.0]))
    Array([1., 2.], dtype=float32)
    """
    a, k = check_vectors("correlate", signal, kernel, mode)
    if mode == "valid" and k.size > a.size:
        raise ShapeError(
            f"correlate: the kernel is longer than the signal: got {a} and {k}; exchange them, or use mode='full'"
        )
    z = slide("correlate", signal, conj(kernel) if k.dtype.kind == "c" else kernel, mode)
    n, m = a.size, k.size
    start = (m - 1) // 2 if n >= m else n // 2
    return z if mode != "same" else z[start : start + max(n, m)]


def check_vectors(who: str, signal: ArrayLike, kernel: ArrayLike, mode: Mode) -> tuple[Aval, Aval]:
    """Return the avals of a signal and a kernel, once they and the mode are valid."""
    a, k = aval_of(signal, who), aval_of(kernel, who)
    if a.ndim != 1 or k.ndim != 1 or not a.size or not k.size:
        raise ShapeError(f"{who}: takes two vectors of 1 element or more: got {a} and {k}; use nn.conv for batches")
    if mode not in ("valid", "same", "full"):
        raise ArgumentError(f"{who}: mode is 'valid', 'same' or 'full': got {mode!r}; choose one of them")
    return a, k


def slide(who: str, signal: ArrayLike, kernel: ArrayLike, mode: Mode) -> Array:
    """Return the correlation of a signal with a kernel."""
    x, y = same_dtype(signal, kernel, who)
    return bind_single(correlate_p, x, y, full=mode != "valid")


# With the kernel reversed, "full" undoes "valid", and the other way round.
def _correlate_by_x(ct: Array, y: Array, x: Aval, *, full: bool) -> Array:
    return bind_single(correlate_p, ct, y[::-1], full=not full)


def _correlate_by_y(ct: Array, x: Array, y: Aval, *, full: bool) -> Array:
    return bind_single(correlate_p, ct, x, full=False)[::-1] if full else bind_single(correlate_p, x, ct, full=False)


def _correlate_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    if not size:
        return _no_batch(correlate_p, xs, batched, params)
    span = xs[1].shape[-1]
    x, y = (v if b else expand_dims(v, 0) for v, b in zip(xs, batched, strict=True))
    pads = (span - 1, span - 1) if params["full"] else (0, 0)
    options: dict[str, Any] = {"stride": (1,), "padding": (pads,), "dilation": (1,)}
    if batched[1]:  # signals and kernels as channels
        groups = size if batched[0] else 1
        z = bind(conv_p, x.T[None], y.T[:, None], **options, groups=groups)
        return z[0].T
    return bind(conv_p, x[:, :, None], y[0][:, None, None], **options, groups=1)[:, :, 0]


def _correlate_run(x: Any, y: Any, *, full: bool) -> Any:
    return np.correlate(x, y.conj() if y.dtype.kind == "c" else y, "full" if full else "valid")


def _correlate_abstract(x: Aval, y: Aval, *, full: bool) -> Aval:
    return Aval((x.size + (y.size - 1) * (1 if full else -1),), x.dtype)


def _correlate_flops(avals: Sequence[Aval], params: Params) -> int:
    return 2 * avals[0].size * avals[1].size


def _correlate_native(xp: Recorder, out: Any, x: Any, y: Any, *, full: bool) -> None:
    """Write the product of the kernel, a row, and all windows, columns of which neighbours lie next to each other."""
    if not xp.has_own_bits:
        xp.refuse(f"correlate of {x.dtype}")
    xp.check_floats(out, x, y)
    x, y = xp.ordered(x), xp.ordered(y)
    if not xp.is_standalone:  # zeros around the signal, and in a vector's last lanes, are no numbers times infinities
        xp.refuse_where(xp.ufunc("logical_not", xp.ufunc("isfinite", y)))
    if full:
        around = len(y) - 1
        padded = xp.new((len(x) + 2 * around,), x.dtype)
        xp.embed(padded, slice(around, around + len(x)), x)
        x = padded
    columns = xp.view(x, lambda v: np.lib.stride_tricks.sliding_window_view(v, len(y)).T)
    xp.sum_products(y.reshape(1, 1, -1), columns, out.reshape(1, 1, -1))


correlate_p: Primitive = bilinear(
    "correlate",
    _correlate_run,
    _correlate_abstract,
    (_correlate_by_x, _correlate_by_y),
    batch=_correlate_batch,
    flops=_correlate_flops,
    native=_correlate_native,
)


# --- Transposed convolution: the adjoint of `conv`, from few positions to many


def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return elements times kernels, summed where windows overlap: the adjoint of `conv`, often called deconvolution.

    Element i of x adds ``x[i] * kernel[j]`` to position ``stride·i + dilation·j`` (Dumoulin & Visin 2016, chapter 4).

    Args:
        x: float[batch, *spatial, channels].
        kernel: float[*window, channels/groups, out], not flipped.
        stride: from one element's window to the next in the result.
        padding: cut off at both ends: ``"valid"`` for none, so that n elements give ``stride·(n - 1) + span``
            positions; ``"same"`` for ``stride·n``; or numbers as in `conv`.
        dilation: from one element of the window to the next.
        groups: channels and outputs are split into so many groups that do not mix.

    Returns:
        float[batch, *positions, out].

    Raises:
        ShapeError: the axes do not fit, or more is cut off than there is.
        ArgumentError: stride, padding, dilation or groups out of range.

    >>> import afx
    >>> conv_transpose(afx.ones((1, 2, 1)), afx.ones((3, 1, 1)), stride=2)[0, :, 0]
    Array([1., 1., 2., 1., 1.], dtype=float32)
    """
    a, k = aval_of(x, "conv_transpose"), aval_of(kernel, "conv_transpose")
    rank = k.ndim - 2
    if rank < 1 or a.ndim != k.ndim:
        raise ShapeError(
            f"conv_transpose: x is [batch, *spatial, channels] and kernel [*window, channels, out]: got x {a} and "
            f"kernel {k}; reshape"
        )
    (groups,) = each_axis(groups, 1, "groups", "conv_transpose")
    if a.shape[-1] != groups * k.shape[-2] or k.shape[-1] % groups:
        raise ShapeError(
            f"conv_transpose: channels differ: got x {a} and kernel {k} with groups={groups}; the kernel's last axes "
            "are [channels/groups, out], and groups divide out"
        )
    stride = each_axis(stride, rank, "stride", "conv_transpose")
    dilation = each_axis(dilation, rank, "dilation", "conv_transpose")
    spans = tuple([(w - 1) * d + 1 for w, d in zip(k.shape[:rank], dilation, strict=True)])
    spatial, pads = _result(a, k, padding, stride, dilation, spans)
    x, weights = same_dtype(x, kernel, "conv_transpose")
    shape = (a.shape[0], *spatial, k.shape[-1])
    params = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    return bind_single(conv_input_p, x, _adjoint(asarray(weights), groups), shape=shape, **params)


def _result(x: Aval, k: Aval, padding: Padding, stride: Shape, dilation: Shape, spans: Shape) -> tuple[Shape, Pairs]:
    """Return the spatial shape of the result, and what the convolution back is padded by."""
    lengths, window = x.shape[1:-1], k.shape[: len(stride)]
    if not all(window) or not all(lengths):
        raise ShapeError(f"conv_transpose: no elements: got x {x} and kernel {k}; use 1 or more along each axis")
    if padding == "same":
        spatial = tuple([n * s for n, s in zip(lengths, stride, strict=True)])
        return spatial, padded_by("same", spatial, window, stride, dilation, "conv_transpose")
    pads = padded_by(padding, lengths, window, stride, dilation, "conv_transpose")
    whole = [s * (n - 1) + span for n, s, span in zip(lengths, stride, spans, strict=True)]
    spatial = tuple([n - front - behind for n, (front, behind) in zip(whole, pads, strict=True)])
    if any(n < 1 for n in spatial):
        raise ArgumentError(f"conv_transpose: padding cuts off all: got x {x}, kernel {k} and {padding=}; cut off less")
    return spatial, pads


def _adjoint(kernel: Array, groups: int) -> Array:
    """Return float[*window, out/groups, channels], the kernel of the convolution whose adjoint is wanted."""
    *window, channels, out = kernel.shape
    parts = reshape(kernel, (*window, channels, groups, out // groups))
    return reshape(moveaxis(parts, -1, -3).swapaxes(-1, -2), (*window, out // groups, groups * channels))


# --- Convolution: `convolve` of vectors, and along chosen axes of arrays

Axes = tuple[Sequence[int], Sequence[int]] | Sequence[Sequence[int]]


@register_function
def convolve(
    signal: ArrayLike, kernel: ArrayLike, mode: Mode = "full", *, axes: Axes | None = None, dot_axes: Axes = ((), ())
) -> Array:
    """Return the convolution of two vectors, element i of which is Σⱼ signal[i - j]·kernel[j], or of arrays along axes.

    Args:
        signal: float[n], or an array.
        kernel: float[m], or an array.
        mode: as in `correlate`, except that the order of the operands does not matter. Of arrays ``"same"`` keeps the
            lengths of ``signal`` (as `scipy.signal.convolve` does).
        axes: the axes of each operand to convolve along, in pairs; all of arrays of two axes or more unless given.
        dot_axes: the axes of each operand to sum products over, in pairs.

    Returns:
        The axes of ``signal`` that are in neither, those of ``kernel``, and the convolved ones behind them, as
        ``autograd.scipy.signal.convolve`` orders them.

    Raises:
        ShapeError: an operand is empty, axes do not pair up, or neither operand is the longer one where the mode is
            ``"valid"``.
        ArgumentError: another mode.

    >>> import afx
    >>> convolve(afx.asarray([1.0, 2.0]), afx.asarray([1.0, 10.0]))
    Array([ 1., 12., 20.], dtype=float32)
    """
    x, k = promote_operands(signal, kernel)
    if axes is None and x.ndim <= 1 and k.ndim <= 1:
        return _convolve_vectors(x, k, mode)
    if mode not in ("valid", "same", "full"):
        raise ArgumentError(f"convolve: mode is 'valid', 'same' or 'full': got {mode!r}; choose one of them")
    along = (range(x.ndim), range(k.ndim)) if axes is None else axes
    pairs = _pair_axes(x, k, along, dot_axes)
    roles = [(normalize_axes(a, v.ndim, "convolve"), normalize_axes(d, v.ndim, "convolve")) for v, a, d in pairs]
    return _along(x, k, mode, roles[0], roles[1])


def _convolve_vectors(x: Array, k: Array, mode: Mode) -> Array:
    check_vectors("convolve", x, k, mode)
    if k.size > x.size:
        x, k = k, x
    z = slide("convolve", x, k[::-1], mode)
    start = (k.size - 1) // 2
    return z if mode != "same" else z[start : start + x.size]


def _pair_axes(x: Array, k: Array, axes: Axes, dot_axes: Axes) -> list[tuple[Array, Sequence[int], Sequence[int]]]:
    """Return each operand with its convolved and its contracted axes, which come in pairs."""
    (a, b), (d, e) = axes, dot_axes
    lengths = [x.shape[i] == k.shape[j] for i, j in zip(d, e, strict=False)]
    if len(a) != len(b) or len(d) != len(e) or not len(a) or not all(lengths) or not x.size or not k.size:
        raise ShapeError(
            f"convolve: axes do not pair up, or an operand is empty: got {x.aval} and {k.aval} with axes={axes!r} and "
            f"dot_axes={dot_axes!r}; give as many axes of each, of the same lengths where they are summed over"
        )
    return [(x, a, d), (k, b, e)]


Roles = tuple[Shape, Shape]


def _along(x: Array, k: Array, mode: Mode, of_x: Roles, of_k: Roles) -> Array:
    """Return a convolution as that of a batch with kernels: axes apart are examples and outputs, contracted ones channels."""
    lengths = [[v.shape[i] for i in conv_axes] for v, (conv_axes, _) in ((x, of_x), (k, of_k))]
    if mode == "valid" and any(n < m for n, m in zip(*lengths, strict=True)):
        if any(n > m for n, m in zip(*lengths, strict=True)):
            raise ShapeError(
                f"convolve: one operand is the longer one along all axes: got {x.aval} and {k.aval}; use mode='full'"
            )
        z = _along(k, x, mode, of_k, of_x)
        first, second = k.ndim - sum(map(len, of_k)), x.ndim - sum(map(len, of_x))
        order = (*range(first, first + second), *range(first), *range(first + second, z.ndim))
        return permute_dims(z, order)
    (left, spatial, channels), (right, window, _) = _apart(x, of_x), _apart(k, of_k)
    rows = permute_dims(x, (*left, *of_x[0], *of_x[1]))
    columns = permute_dims(flip(k, axis=of_k[0]), (*of_k[0], *of_k[1], *right))
    lead, out = [x.shape[i] for i in left], [k.shape[i] for i in right]
    pads = [(0, 0) if mode == "valid" else (m // 2, (m - 1) // 2) if mode == "same" else (m - 1, m - 1) for m in window]
    z = conv(
        reshape(rows, (math.prod(lead), *spatial, channels)),
        reshape(columns, (*window, channels, math.prod(out))),
        padding=pads,
    )
    z = reshape(z, (*lead, *z.shape[1:-1], *out))
    n, m = len(lead), len(spatial)
    return permute_dims(z, (*range(n), *range(n + m, z.ndim), *range(n, n + m)))


def _apart(v: Array, roles: Roles) -> tuple[list[int], list[int], int]:
    """Return the axes in neither role, the lengths of the convolved ones, and the product of the contracted ones."""
    rest = [i for i in range(v.ndim) if i not in (*roles[0], *roles[1])]
    return rest, [v.shape[i] for i in roles[0]], math.prod([v.shape[i] for i in roles[1]])
